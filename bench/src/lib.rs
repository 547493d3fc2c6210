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
mod clock;
mod closed_loop;
mod consume;
mod error;
mod in_flight;
mod ledger;
mod load;
mod machine;
mod open_loop;
mod pace;
mod payload;
mod produce;
mod pull;
mod ready;
mod reply;
mod report;
mod run;
mod summary;
mod tail;
mod tally;
mod target;
mod template;
mod wire;

pub use arguments::{Args, ConsumeArgs, Mode, ReadyArgs, SendArgs, SummaryArgs, TailArgs, TargetArgs, Wire};
pub use error::BenchError;
pub use report::Outcome;
pub use run::run;
