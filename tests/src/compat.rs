//! RingMQ beside Apache RocketMQ 5.4.0: the same questions to both, and what their answers differ in.
//!
//! A [`scenario`] is [`play`]ed on both; the answers are taken apart into [`facts`], freed of what is volatile by
//! [`rule`]s, and compared ([`difference`]). Filter expressions are compared by themselves ([`sql92`]),
//! and a store that Apache's broker made is [`import`]ed.

pub mod apache;
pub mod difference;
pub mod facts;
pub mod import;
mod lenient;
pub mod play;
pub mod rule;
pub mod scenario;
pub mod sql92;
