//! Where a queue begins and ends, and what its offset was at a time.

use remoting::body::MessageQueue;
use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::header::queue_offset::{Boundary, GetMaxOffset, OffsetResponse, QueueRequest, SearchOffset};

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// The offset of the first message that is still there.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn min_offset(&self, queue: &MessageQueue) -> Result<i64, ClientError> {
        let header = QueueRequest { topic: queue.topic.clone(), queue_id: queue.queue_id };
        self.offset(RequestCode::GET_MIN_OFFSET, queue, header.to_fields()).await
    }

    /// The offset that the next message will have.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn max_offset(&self, queue: &MessageQueue) -> Result<i64, ClientError> {
        let header = GetMaxOffset { topic: queue.topic.clone(), queue_id: queue.queue_id, committed: true };
        self.offset(RequestCode::GET_MAX_OFFSET, queue, header.to_fields()).await
    }

    /// The offset of the message stored at a time, milliseconds since 1970.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn search_offset(
        &self,
        queue: &MessageQueue,
        timestamp_ms: i64,
        boundary: Boundary,
    ) -> Result<i64, ClientError> {
        let header = SearchOffset { topic: queue.topic.clone(), queue_id: queue.queue_id, timestamp_ms, boundary };
        self.offset(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, queue, header.to_fields()).await
    }

    async fn offset(&self, request: RequestCode, queue: &MessageQueue, fields: Fields) -> Result<i64, ClientError> {
        let address = self.address_of_queue(queue).await?;
        let answer = self.call_broker(&address, Command::request(request, fields)).await?;
        OffsetResponse::decode(&answer.fields)
            .map(|header| header.offset)
            .map_err(|error| ClientError::unreadable_fields(&address, request, &error))
    }
}
