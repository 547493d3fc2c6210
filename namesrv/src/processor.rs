//! What the nameserver does: a file for each family of requests, a function for each request.
//!
//! All of them are plain functions that run to their end: what must reach the disk is named in the reply, and
//! waited for by the server.

pub(crate) mod broker;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod kv;
pub(crate) mod route;
pub(crate) mod topic;
