//! What a broker tells the nameserver of itself, in the uncompressed form.

use super::body;
use super::topic::TopicConfigTable;
use crate::text::Text;

body! {
    /// Body of 103.
    struct RegisterBrokerBody {
        pub filter_server_list: Vec<Text>,
        pub topic_config_serialize_wrapper: TopicConfigTable,
    }
}
