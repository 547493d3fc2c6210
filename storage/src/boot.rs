//! Whether the machine has been started anew since: only then may the page cache have lost anything.

/// One start of the machine. Two that are not known are never the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot(pub(crate) u128);

impl Boot {
    const UNKNOWN: Boot = Boot(0);

    /// The start that this process runs in. Blocks for a moment.
    pub(crate) fn this() -> Boot {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        u128::from_str_radix(&id.trim().replace('-', ""), 16).map_or(Boot::UNKNOWN, Boot)
    }

    pub(crate) fn is_this(self) -> bool {
        self != Boot::UNKNOWN && self == Boot::this()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_start_is_known_and_no_other() {
        assert!(Boot::this().is_this(), "the kernel tells it");
        assert!(!Boot::UNKNOWN.is_this() && !Boot(7).is_this());
    }
}
