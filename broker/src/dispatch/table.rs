//! The one table of requests: who owns each, and which processor does it. Nothing else looks at request codes to
//! choose a way.

use std::rc::Rc;

use remoting::code::RequestCode as Code;

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
    /// Of a request whose stages are measured.
    pub(super) kind: Option<Kind>,
}

macro_rules! row {
    ($owner:path, $processor:path) => {
        Row { owner: $owner, process: |core, call| start(core, call, $processor), kind: None }
    };
}

/// The row of a code; `None` when it is not served.
pub(super) fn row(code: i32) -> Option<Row> {
    Some(match Code(code) {
        Code::SEND_MESSAGE | Code::SEND_MESSAGE_V2 | Code::SEND_BATCH_MESSAGE => {
            Row { owner: owner::send, process: send::send, kind: Some(Kind::Send) }
        }
        Code::CONSUMER_SEND_MSG_BACK => row!(owner::physical_offset, send_back::send_back),
        Code::RECALL_MESSAGE => row!(owner::here, recall::recall),
        Code::SEND_REPLY_MESSAGE | Code::SEND_REPLY_MESSAGE_V2 => row!(owner::send, send::reply::send_reply),
        Code::END_TRANSACTION => row!(owner::half_message, end_transaction::end_transaction),
        Code::PULL_MESSAGE | Code::LITE_PULL_MESSAGE => {
            Row { owner: owner::queue, process: pull::pull, kind: Some(Kind::Pull) }
        }

        Code::POP_MESSAGE => row!(owner::here, pop::pop),
        Code::PEEK_MESSAGE => row!(owner::here, pop::peek),
        Code::NOTIFICATION => row!(owner::here, pop::notification),
        Code::POLLING_INFO => row!(owner::queue, pop::polling_info),
        Code::ACK_MESSAGE => row!(owner::queue, pop_ack::acknowledge),
        Code::BATCH_ACK_MESSAGE => row!(owner::here, pop_ack::acknowledge_batch),
        Code::CHANGE_MESSAGE_INVISIBLETIME => row!(owner::queue, pop_ack::change_invisible),
        Code::QUERY_ASSIGNMENT => row!(owner::here, assignment::query_assignment),
        Code::SET_MESSAGE_REQUEST_MODE => row!(owner::here, assignment::set_request_mode),

        Code::SEARCH_OFFSET_BY_TIMESTAMP => row!(owner::queue, queue_offset::offset_by_time),
        Code::GET_MAX_OFFSET => row!(owner::queue, queue_offset::max_offset),
        Code::GET_MIN_OFFSET => row!(owner::queue, queue_offset::min_offset),
        Code::GET_EARLIEST_MSG_STORETIME => row!(owner::queue, queue_offset::earliest_store_time),
        Code::VIEW_MESSAGE_BY_ID => row!(owner::physical_offset, view_message::view_message),
        Code::QUERY_MESSAGE => row!(owner::here, query_message::query_message),

        Code::HEART_BEAT => row!(owner::here, heartbeat::heartbeat),
        Code::UNREGISTER_CLIENT => row!(owner::here, unregister_client::unregister_client),
        Code::CHECK_CLIENT_CONFIG => row!(owner::here, check_client_config::check_client_config),
        Code::GET_CONSUMER_LIST_BY_GROUP => row!(owner::group, consumer_list::consumer_list),
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
        Code::UPDATE_AND_CREATE_TOPIC => row!(owner::tables, topic::update_topic),
        Code::UPDATE_AND_CREATE_TOPIC_LIST => row!(owner::tables, topic::update_topic_list),
        Code::DELETE_TOPIC_IN_BROKER => row!(owner::tables, topic::delete_topic),
        Code::DELETE_TOPIC_IN_BROKER_LIST => row!(owner::tables, topic::delete_topic_list),
        Code::GET_ALL_TOPIC_CONFIG => row!(owner::tables, topic::all_topic_configs),
        Code::GET_TOPIC_CONFIG => row!(owner::here, topic::topic_config),
        Code::GET_TOPIC_STATS_INFO => row!(owner::here, topic::topic_stats),
        Code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => row!(owner::tables, topic::system_topics),
        Code::UPDATE_AND_CREATE_STATIC_TOPIC => row!(owner::here, maintenance::update_static_topic),

        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => row!(owner::here, group::update_group),
        Code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => row!(owner::here, group::update_groups),
        Code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => row!(owner::tables, group::all_groups),
        Code::GET_SUBSCRIPTIONGROUP_CONFIG => row!(owner::here, group::one_group),
        Code::DELETE_SUBSCRIPTIONGROUP => row!(owner::here, group::delete_group),
        Code::UPDATE_AND_GET_GROUP_FORBIDDEN => row!(owner::here, group::update_forbidden),
        Code::GET_ALL_MESSAGE_REQUEST_MODE => row!(owner::here, assignment::request_modes),

        Code::GET_CONSUMER_CONNECTION_LIST => row!(owner::group, connection::consumer_connections),
        Code::GET_PRODUCER_CONNECTION_LIST => row!(owner::here, connection::producer_connections),
        Code::GET_ALL_PRODUCER_INFO => row!(owner::here, connection::all_producers),
        Code::GET_CONSUMER_RUNNING_INFO => row!(owner::group, relay::running_info),
        Code::CONSUME_MESSAGE_DIRECTLY => row!(owner::group, relay::consume_directly),
        Code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => row!(owner::group, relay::consumer_status),

        Code::GET_CONSUME_STATS => row!(owner::group, consume_stats::consume_stats),
        Code::GET_BROKER_CONSUME_STATS => row!(owner::tables, consume_stats::broker_consume_stats),
        Code::QUERY_CONSUME_TIME_SPAN => row!(owner::group, consume_stats::consume_time_span),
        Code::INVOKE_BROKER_TO_RESET_OFFSET => row!(owner::group, reset_offset::reset_offset),
        Code::GET_ALL_CONSUMER_OFFSET => row!(owner::tables, offsets::all_offsets),
        Code::CLONE_GROUP_OFFSET => row!(owner::here, offsets::clone_offsets),
        Code::QUERY_CORRECTION_OFFSET => row!(owner::here, offsets::correction_offsets),
        Code::QUERY_TOPIC_CONSUME_BY_WHO => row!(owner::here, subscription::groups_of_topic),
        Code::QUERY_TOPICS_BY_CONSUMER => row!(owner::group, subscription::topics_of_group),
        Code::QUERY_SUBSCRIPTION_BY_CONSUMER => row!(owner::group, subscription::subscription_of_group),

        Code::UPDATE_BROKER_CONFIG => row!(owner::tables, broker::update_config),
        Code::GET_BROKER_CONFIG => row!(owner::tables, broker::config),
        Code::GET_BROKER_RUNTIME_INFO => row!(owner::here, status::runtime_info),
        Code::GET_STAGES => row!(owner::here, status::stages),
        Code::VIEW_BROKER_STATS_DATA => row!(owner::here, status::view_stats),
        Code::GET_BROKER_HA_STATUS => row!(owner::here, broker::ha_status),
        Code::EXCHANGE_BROKER_HA_INFO => row!(owner::here, broker::exchange_ha_info),
        Code::RESET_MASTER_FLUSH_OFFSET => row!(owner::here, broker::reset_master_flush_offset),
        Code::GET_BROKER_EPOCH_CACHE => row!(owner::here, broker::epoch_cache),

        Code::QUERY_CONSUME_QUEUE => row!(owner::queue, maintenance::queue_entries),
        Code::CLEAN_EXPIRED_CONSUMEQUEUE => row!(owner::here, maintenance::clean_expired_queues),
        Code::CLEAN_UNUSED_TOPIC => row!(owner::here, maintenance::clean_unused_topics),
        Code::DELETE_EXPIRED_COMMITLOG => row!(owner::here, maintenance::delete_expired_segments),
        Code::GET_TIMER_CHECK_POINT | Code::GET_TIMER_METRICS => row!(owner::here, maintenance::timer_state),
        Code::SWITCH_TIMER_ENGINE => row!(owner::here, maintenance::switch_timer_engine),
        Code::GET_ALL_DELAY_OFFSET => row!(owner::here, maintenance::delay_offsets),
        Code::RESUME_CHECK_HALF_MESSAGE => row!(owner::here, end_transaction::resume_check),
        Code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG | Code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG => {
            row!(owner::here, maintenance::change_cold_data_limit)
        }
        Code::GET_COLD_DATA_FLOW_CTR_INFO => row!(owner::here, maintenance::cold_data_limits),
        Code::SET_COMMITLOG_READ_MODE => row!(owner::here, maintenance::set_read_mode),
        Code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS => row!(owner::here, maintenance::check_rocksdb_queues),
        Code::EXPORT_ROCKSDB_CONFIG_TO_JSON => row!(owner::here, maintenance::export_rocksdb_config),
        Code::POP_ROLLBACK => row!(owner::here, maintenance::roll_back_pops),
        _ => return None,
    })
}
