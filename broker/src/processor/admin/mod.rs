//! Calls of admin tools.

pub(crate) mod broker;
pub(crate) mod connection;
pub(crate) mod consume_stats;
pub(crate) mod group;
pub(crate) mod log_totals;
pub(crate) mod maintenance;
pub(crate) mod offsets;
pub(crate) mod relay;
pub(crate) mod reset_offset;
pub(crate) mod status;
pub(crate) mod subscription;
pub(crate) mod topic;
