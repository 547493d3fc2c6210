//! Copies of waiting messages that were delivered. Each takes one waiting message away.

use std::collections::HashMap;

/// How often, by names that a message and its copy have in common.
#[derive(Debug, Default)]
pub(crate) struct Delivered(HashMap<u64, u32>);

impl Delivered {
    pub(crate) fn add(&mut self, name: u64) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Whether a copy is left that was not taken yet.
    pub(crate) fn take(&mut self, name: u64) -> bool {
        match self.0.get_mut(&name) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}
