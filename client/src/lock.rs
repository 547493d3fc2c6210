//! Locks of queues: what one client holds, no other gets for a minute.

use std::collections::BTreeSet;

use remoting::body::MessageQueue;
use remoting::body::heartbeat::{LockBatch, LockBatchResponse};
use remoting::code::RequestCode;
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::json;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// Locks queues of one broker or renews the locks, and gives those that are the holder's now. A lock ends a minute
    /// after it was asked for last.
    ///
    /// # Errors
    /// When the broker does not tell.
    pub async fn lock_queues(&self, address: &str, wanted: &LockBatch) -> Result<BTreeSet<MessageQueue>, ClientError> {
        let request = RequestCode::LOCK_BATCH_MQ;
        let command = Command::request(request, Fields::new()).with_body(json::encode(wanted));
        let answer = self.call_broker(address, command).await?;
        let answer: LockBatchResponse =
            json::decode(&answer.body).map_err(|error| ClientError::unreadable_body(address, request, &error))?;
        Ok(answer.locked)
    }

    /// Frees what the holder has locked of these queues.
    ///
    /// # Errors
    /// When the broker does not take it.
    pub async fn unlock_queues(&self, address: &str, held: &LockBatch) -> Result<(), ClientError> {
        let command = Command::request(RequestCode::UNLOCK_BATCH_MQ, Fields::new()).with_body(json::encode(held));
        self.call_broker(address, command).await.map(|_| ())
    }
}
