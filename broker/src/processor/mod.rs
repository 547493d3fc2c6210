//! One file a family of requests. A processor runs on the owner of what it touches and names no core.

pub(crate) mod admin;
pub(crate) mod assignment;
pub(crate) mod check_client_config;
pub(crate) mod consumer_list;
pub(crate) mod consumer_offset;
pub(crate) mod end_transaction;
pub(crate) mod heartbeat;
pub(crate) mod lock_queues;
pub(crate) mod pop;
pub(crate) mod pop_ack;
pub(crate) mod pull;
pub(crate) mod query_message;
pub(crate) mod queue_offset;
pub(crate) mod recall;
pub(crate) mod send;
pub(crate) mod send_back;
pub(crate) mod unregister_client;
pub(crate) mod view_message;
