//! Load and latency: what `ringmq bench` does, to RingMQ or to any other broker of the protocol.
//!
//! A black box: it links neither broker nor storage and speaks to one broker address. Each run makes its own topic,
//! leaves a warm-up out, checks what it is answered, and prints a table on standard error and one line of JSON on
//! standard output.
//!
//! In open loop a message is *due* at a time that no answer can move, and its latency counts from that time, so a
//! stall counts for every message that fell into it. A run whose generator could not keep up with its own plan is
//! void, and says so.

mod arguments;
mod asked;
mod brief;
pub mod canned;
mod clock;
mod closed_loop;
mod command;
mod compare;
mod crew;
mod desk;
mod duties;
mod error;
mod folder;
mod hand;
mod hiccup;
mod host;
mod identity;
mod in_flight;
mod ledger;
mod live;
mod load;
mod machine;
mod never_sent;
mod open_loop;
mod order;
mod outage;
mod pace;
mod page;
mod payload;
mod peer;
mod phase;
mod places;
mod plan;
mod read;
mod ready;
mod record;
mod reply;
mod report;
mod run;
mod single;
mod slow;
mod stages;
mod summary;
mod tally;
mod target;
mod template;
mod timeline;
mod transaction;
mod wire;

pub use arguments::{Args, Mode};
pub use command::run;
pub use error::BenchError;
pub use report::Outcome;
