//! Headers of calls about connected clients (203, 204, 223, 307, 309).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of 203.
    ConsumerConnectionList {
        consumer_group: Text = required "consumerGroup",
    }
}

header! {
    /// Header of 204.
    ProducerConnectionList {
        producer_group: Text = required "producerGroup",
    }
}

header! {
    /// Header of 223.
    InvokeGetConsumerStatus {
        topic: Text = required "topic",
        group: Text = required "group",
        /// A client id; absent or empty for all.
        client_addr: Option<Text> = optional "clientAddr",
    }
}

header! {
    /// Header of 307, from tools and to clients.
    ConsumerRunningInfo {
        consumer_group: Text = required "consumerGroup",
        client_id: Text = required "clientId",
        jstack_enable: bool = or(false) "jstackEnable",
    }
}

header! {
    /// Header of 309, from tools and to clients.
    ConsumeMessageDirectly {
        consumer_group: Text = required "consumerGroup",
        client_id: Option<Text> = optional "clientId",
        message_id: Option<Text> = optional "msgId",
        broker_name: Option<Text> = optional "brokerName",
        topic: Option<Text> = optional "topic",
        topic_sys_flag: Option<i32> = optional "topicSysFlag",
        group_sys_flag: Option<i32> = optional "groupSysFlag",
    }
}
