//! A table of names and values: configurations of the nameserver, and a broker's state at run time.

use std::collections::BTreeMap;

use super::body;
use crate::text::Text;

body! {
    /// Body of 219 and 28, and of the answer to a broker's registration.
    struct KvTable {
        pub table: BTreeMap<Text, Text>,
    }
}
