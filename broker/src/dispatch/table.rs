//! The one table of requests: who owns each, and which processor does it. Nothing else looks at request codes to
//! choose a way.

use std::rc::Rc;

use remoting::code::RequestCode as Code;
use runtime::Share;

use super::{owner, start};
use crate::call::Call;
use crate::core::Core;
use crate::processor::admin::{
    broker, connection, consume_stats, group, maintenance, offsets, relay, reset_offset, status, subscription, topic,
};
use crate::processor::{
    assignment, check_client_config, consumer_list, consumer_offset, end_transaction, heartbeat, lock_queues, pop,
    pop_ack, pull, query_message, queue_offset, recall, send, send_back, unregister_client, view_message,
};
use crate::stages::Kind;

/// A request code that is served.
pub(super) struct Row {
    pub(super) owner: owner::OwnerOf,
    pub(super) process: fn(&Rc<Core>, Call),
    /// Data is on the way of messages; what is not lets it go first.
    pub(super) share: Share,
    /// Of a request whose stages are measured.
    pub(super) kind: Option<Kind>,
}

/// A request on the way of messages.
macro_rules! row {
    ($owner:path, $processor:path) => {
        row!(Share::Data, $owner, $processor)
    };
    ($share:path, $owner:path, $processor:path) => {
        Row { owner: $owner, process: |core, call| start(core, $share, call, $processor), share: $share, kind: None }
    };
}

/// A request about who is there, or of a tool: many of them at once, or a large one, must not be felt by messages.
macro_rules! aside {
    ($owner:path, $processor:path) => {
        row!(Share::Background, $owner, $processor)
    };
}

/// The row of a code; `None` when it is not served.
pub(super) fn row(code: i32) -> Option<Row> {
    Some(match Code(code) {
        Code::SEND_MESSAGE | Code::SEND_MESSAGE_V2 | Code::SEND_BATCH_MESSAGE => {
            Row { owner: owner::send, process: send::send, share: Share::Data, kind: Some(Kind::Send) }
        }
        Code::CONSUMER_SEND_MSG_BACK => row!(owner::physical_offset, send_back::send_back),
        Code::RECALL_MESSAGE => row!(owner::here, recall::recall),
        Code::SEND_REPLY_MESSAGE | Code::SEND_REPLY_MESSAGE_V2 => row!(owner::send, send::reply::send_reply),
        Code::END_TRANSACTION => row!(owner::half_message, end_transaction::end_transaction),
        Code::PULL_MESSAGE | Code::LITE_PULL_MESSAGE => {
            Row { owner: owner::queue, process: pull::pull, share: Share::Data, kind: Some(Kind::Pull) }
        }

        Code::POP_MESSAGE => Row { owner: owner::here, process: pop::pop, share: Share::Data, kind: Some(Kind::Pop) },
        Code::PEEK_MESSAGE => row!(owner::here, pop::peek),
        Code::NOTIFICATION => row!(owner::here, pop::notification),
        Code::POLLING_INFO => aside!(owner::queue, pop::polling_info),
        Code::ACK_MESSAGE => {
            Row { owner: owner::queue, process: pop_ack::acknowledge, share: Share::Data, kind: Some(Kind::Ack) }
        }
        Code::BATCH_ACK_MESSAGE => row!(owner::here, pop_ack::acknowledge_batch),
        Code::CHANGE_MESSAGE_INVISIBLETIME => row!(owner::queue, pop_ack::change_invisible),
        Code::QUERY_ASSIGNMENT => aside!(owner::here, assignment::query_assignment),
        Code::SET_MESSAGE_REQUEST_MODE => aside!(owner::here, assignment::set_request_mode),

        Code::SEARCH_OFFSET_BY_TIMESTAMP => aside!(owner::queue, queue_offset::offset_by_time),
        Code::GET_MAX_OFFSET => row!(owner::queue, queue_offset::max_offset),
        Code::GET_MIN_OFFSET => row!(owner::queue, queue_offset::min_offset),
        Code::GET_EARLIEST_MSG_STORETIME => row!(owner::queue, queue_offset::earliest_store_time),
        Code::VIEW_MESSAGE_BY_ID => aside!(owner::physical_offset, view_message::view_message),
        Code::QUERY_MESSAGE => aside!(owner::here, query_message::query_message),

        Code::HEART_BEAT => aside!(owner::here, heartbeat::heartbeat),
        Code::UNREGISTER_CLIENT => aside!(owner::here, unregister_client::unregister_client),
        Code::CHECK_CLIENT_CONFIG => aside!(owner::here, check_client_config::check_client_config),
        Code::GET_CONSUMER_LIST_BY_GROUP => aside!(owner::group, consumer_list::consumer_list),
        Code::LOCK_BATCH_MQ => row!(owner::here, lock_queues::lock_queues),
        Code::UNLOCK_BATCH_MQ => row!(owner::here, lock_queues::unlock_queues),
        Code::QUERY_CONSUMER_OFFSET => row!(owner::group, consumer_offset::query_offset),
        Code::UPDATE_CONSUMER_OFFSET => row!(owner::group, consumer_offset::update_offset),
        _ => return admin_row(code),
    })
}

/// The rows of calls that tools make.
fn admin_row(code: i32) -> Option<Row> {
    Some(match Code(code) {
        Code::UPDATE_AND_CREATE_TOPIC => aside!(owner::tables, topic::update_topic),
        Code::UPDATE_AND_CREATE_TOPIC_LIST => aside!(owner::tables, topic::update_topic_list),
        Code::DELETE_TOPIC_IN_BROKER => aside!(owner::tables, topic::delete_topic),
        Code::DELETE_TOPIC_IN_BROKER_LIST => aside!(owner::tables, topic::delete_topic_list),
        Code::GET_ALL_TOPIC_CONFIG => aside!(owner::tables, topic::all_topic_configs),
        Code::GET_TOPIC_CONFIG => aside!(owner::here, topic::topic_config),
        Code::GET_TOPIC_STATS_INFO => aside!(owner::here, topic::topic_stats),
        Code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => aside!(owner::tables, topic::system_topics),
        Code::UPDATE_AND_CREATE_STATIC_TOPIC => aside!(owner::here, maintenance::update_static_topic),

        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => aside!(owner::here, group::update_group),
        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => aside!(owner::here, group::update_groups),
        Code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => aside!(owner::tables, group::all_groups),
        Code::GET_SUBSCRIPTIONGROUP_CONFIG => aside!(owner::here, group::one_group),
        Code::DELETE_SUBSCRIPTIONGROUP => aside!(owner::here, group::delete_group),
        Code::UPDATE_AND_GET_GROUP_FORBIDDEN => aside!(owner::here, group::update_forbidden),
        Code::GET_ALL_MESSAGE_REQUEST_MODE => aside!(owner::here, assignment::request_modes),

        Code::GET_CONSUMER_CONNECTION_LIST => aside!(owner::group, connection::consumer_connections),
        Code::GET_PRODUCER_CONNECTION_LIST => aside!(owner::here, connection::producer_connections),
        Code::GET_ALL_PRODUCER_INFO => aside!(owner::here, connection::all_producers),
        Code::GET_CONSUMER_RUNNING_INFO => aside!(owner::group, relay::running_info),
        Code::CONSUME_MESSAGE_DIRECTLY => aside!(owner::group, relay::consume_directly),
        Code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => aside!(owner::group, relay::consumer_status),

        Code::GET_CONSUME_STATS => aside!(owner::group, consume_stats::consume_stats),
        Code::GET_BROKER_CONSUME_STATS => aside!(owner::tables, consume_stats::broker_consume_stats),
        Code::QUERY_CONSUME_TIME_SPAN => aside!(owner::group, consume_stats::consume_time_span),
        Code::INVOKE_BROKER_TO_RESET_OFFSET => aside!(owner::group, reset_offset::reset_offset),
        Code::GET_ALL_CONSUMER_OFFSET => aside!(owner::tables, offsets::all_offsets),
        Code::CLONE_GROUP_OFFSET => aside!(owner::here, offsets::clone_offsets),
        Code::QUERY_CORRECTION_OFFSET => aside!(owner::here, offsets::correction_offsets),
        Code::QUERY_TOPIC_CONSUME_BY_WHO => aside!(owner::here, subscription::groups_of_topic),
        Code::QUERY_TOPICS_BY_CONSUMER => aside!(owner::group, subscription::topics_of_group),
        Code::QUERY_SUBSCRIPTION_BY_CONSUMER => aside!(owner::group, subscription::subscription_of_group),

        Code::UPDATE_BROKER_CONFIG => aside!(owner::tables, broker::update_config),
        Code::GET_BROKER_CONFIG => aside!(owner::tables, broker::config),
        Code::GET_BROKER_RUNTIME_INFO => aside!(owner::here, status::runtime_info),
        Code::GET_STAGES => aside!(owner::here, status::stages),
        Code::VIEW_BROKER_STATS_DATA => aside!(owner::here, status::view_stats),
        Code::GET_BROKER_HA_STATUS => aside!(owner::here, broker::ha_status),
        Code::EXCHANGE_BROKER_HA_INFO => aside!(owner::here, broker::exchange_ha_info),
        Code::RESET_MASTER_FLUSH_OFFSET => aside!(owner::here, broker::reset_master_flush_offset),
        Code::GET_BROKER_EPOCH_CACHE => aside!(owner::here, broker::epoch_cache),

        Code::QUERY_CONSUME_QUEUE => aside!(owner::queue, maintenance::queue_entries),
        Code::CLEAN_EXPIRED_CONSUMEQUEUE => aside!(owner::here, maintenance::clean_expired_queues),
        Code::CLEAN_UNUSED_TOPIC => aside!(owner::here, maintenance::clean_unused_topics),
        Code::DELETE_EXPIRED_COMMITLOG => aside!(owner::here, maintenance::delete_expired_segments),
        Code::GET_TIMER_CHECK_POINT | Code::GET_TIMER_METRICS => aside!(owner::here, maintenance::timer_state),
        Code::SWITCH_TIMER_ENGINE => aside!(owner::here, maintenance::switch_timer_engine),
        Code::GET_ALL_DELAY_OFFSET => aside!(owner::here, maintenance::delay_offsets),
        Code::RESUME_CHECK_HALF_MESSAGE => aside!(owner::here, end_transaction::resume_check),
        Code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG | Code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG => {
            aside!(owner::here, maintenance::change_cold_data_limit)
        }
        Code::GET_COLD_DATA_FLOW_CTR_INFO => aside!(owner::here, maintenance::cold_data_limits),
        Code::SET_COMMITLOG_READ_MODE => aside!(owner::here, maintenance::set_read_mode),
        Code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS => aside!(owner::here, maintenance::check_rocksdb_queues),
        Code::EXPORT_ROCKSDB_CONFIG_TO_JSON => aside!(owner::here, maintenance::export_rocksdb_config),
        Code::POP_ROLLBACK => aside!(owner::here, maintenance::roll_back_pops),
        _ => return None,
    })
}
