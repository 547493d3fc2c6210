//! Where the bytes of reads come from: our memory, the page cache, or the disk; and how much each has served.

/// From the quickest to the slowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadTier {
    /// The newest bytes, out of the memory that they were written from.
    #[default]
    TailCache,
    /// What an earlier read brought into memory.
    ReadCache,
    /// In the page cache: sent from there by the kernel, or copied out of it by a helper thread.
    Resident,
    /// Read from the disk.
    Cold,
}

/// What a tier has served. A message counts for the slowest tier that its read needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub messages: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierReads {
    pub tail_cache: Served,
    pub read_cache: Served,
    pub resident: Served,
    pub cold: Served,
}

impl TierReads {
    pub(super) fn of(&mut self, tier: ReadTier) -> &mut Served {
        match tier {
            ReadTier::TailCache => &mut self.tail_cache,
            ReadTier::ReadCache => &mut self.read_cache,
            ReadTier::Resident => &mut self.resident,
            ReadTier::Cold => &mut self.cold,
        }
    }

    pub fn add(&mut self, other: TierReads) {
        for (mine, theirs) in [
            (&mut self.tail_cache, other.tail_cache),
            (&mut self.read_cache, other.read_cache),
            (&mut self.resident, other.resident),
            (&mut self.cold, other.cold),
        ] {
            mine.messages += theirs.messages;
            mine.bytes += theirs.bytes;
        }
    }
}

/// The tiers that reads may use: all of them, but for experiments that ask what one is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSwitches {
    /// False: what is written is read from its file.
    pub tail_cache: bool,
    /// False: also what is in the page cache is read from the disk.
    pub resident: bool,
    /// False: all is sent out of the page cache, and the core waits for the disk as it sends. What an earlier process wrote
    /// is read into memory and verified all the same.
    pub cold: bool,
}

impl Default for TierSwitches {
    fn default() -> TierSwitches {
        TierSwitches { tail_cache: true, resident: true, cold: true }
    }
}
