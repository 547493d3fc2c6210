//! Headers of calls about topics (17, 21, 215, 351, and those that name a topic only).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of calls that name a topic and nothing else: 202, 215, 300, 351, 217.
    TopicRequest {
        topic: Text = required "topic",
    }
}

header! {
    /// Header of 17 and 513.
    CreateTopic {
        topic: Text = required "topic",
        default_topic: Text = required "defaultTopic",
        read_queue_nums: i32 = required "readQueueNums",
        write_queue_nums: i32 = required "writeQueueNums",
        perm: i32 = required "perm",
        topic_filter_type: Text = required "topicFilterType",
        order: bool = required "order",
        topic_sys_flag: i32 = or(0) "topicSysFlag",
        /// `+name=value` and `-name`, joined by commas.
        attributes: Option<Text> = optional "attributes",
        force: bool = or(false) "force",
    }
}

header! {
    /// Header of 21.
    GetAllTopicConfig {
        topic_sequence: Option<i32> = optional "topicSeq",
        data_version: Option<Text> = optional "dataVersion",
        topic_count_max: Option<i32> = optional "maxTopicNum",
    }
}

header! {
    /// Answer to 21.
    GetAllTopicConfigResponse {
        topic_count: i32 = required "totalTopicNum",
    }
}
