//! The message store: logs of records, the queues and keys derived from them, and the folder they lie in.
//!
//! A [`Log`] is opened by one core and lives on it: nothing in it is shared, nothing is locked. It promises that a
//! record whose [`Ticket`] has reached a mark survives what that mark names, that no reader sees a record which a
//! crash can take away, and that everything but the segments can be deleted and comes back equal.
//!
//! This crate knows records, not requests; files, not sockets.

mod boot;
mod build;
mod checkpoint;
mod disk;
mod error;
mod identity;
mod kept;
mod log;
mod options;
mod queue;
mod recovery;
mod resized;
mod scan;
mod store;
mod stretches;
mod view;

pub use build::LogBuilder;
pub use error::{AppendError, BusyCause, StorageError};
pub use log::{
    DroppedSegments, FreedSpace, Log, LogStats, Mark, OldSegment, Served, Ticket, TierReads, TierSwitches,
    VisibleRecord, WriteTimes,
};
pub use options::{
    CacheBytes, DamageCall, FlushPolicy, LogFolders, LogOptions, Progress, ProgressCall, SEGMENT_BYTES_MIN,
};
pub use queue::{Bound, Entry, Found, Indexed, LogRange, Queue, QueueRead, QueueRef, ReadLimits, key_hash};
pub use recovery::{Damage, RecoveryReport};
pub use resized::Resized;
pub use scan::Seen;
pub use store::{FlushChoice, Store, StoreOptions, StoreWarning};
pub use view::{CheckpointFacts, ExtentFacts, KeyFound, LogView, QueueRun, StoreView, TailFacts};
