//! Header of taking a timed message back (370), and of its answer.

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 370.
    RecallMessage {
        topic: Text = required "topic",
        /// See [`crate::recall_handle`].
        recall_handle: Text = required "recallHandle",
        producer_group: Option<Text> = optional "producerGroup",
    }
}

header! {
    /// The answer to 370.
    RecallMessageResponse {
        /// The unique key of the message that was taken back.
        message_id: Text = required "msgId",
    }
}
