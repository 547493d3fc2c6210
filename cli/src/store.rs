//! `ringmq store`: works on a store's folder while no broker runs on it.

mod dump;
mod import;

use clap::Subcommand;

use crate::failure::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Make a store of RingMQ out of the store of an Apache RocketMQ 5 broker.
    ///
    /// Messages keep their queues and offsets, groups what they have consumed; what waits for its time, pending
    /// transactions and popped messages go on. The broker must be stopped; a killed one's store can be imported as well.
    /// The source is only read. Offsets in the log, and with them the ids that brokers give (offsetMsgId), are new.
    Import(import::Import),
    /// Print what lies in a store: checkpoints, tail files, derived extents, records, and what is damaged.
    ///
    /// Nothing is changed. Damaged places are shown with their reason and passed over. A store that a broker has is read as
    /// it is at that moment.
    Dump(dump::Dump),
}

pub(crate) fn run(command: &StoreCommand) -> Result<(), Failure> {
    match command {
        StoreCommand::Import(arguments) => import::run(arguments),
        StoreCommand::Dump(arguments) => dump::run(arguments),
    }
}

/// A number of bytes as people read it.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4) as usize;
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}

impl From<storage::StorageError> for Failure {
    fn from(error: storage::StorageError) -> Failure {
        let exit = if error.is_full() || error.is_about_permission() { Exit::Failure } else { Exit::Store };
        Failure::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_at_a_glance() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
        {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
