//! Where topics are: the table of what brokers registered, who of them is alive, and how clients see it.

pub(crate) mod liveness;
pub(crate) mod table;
pub(crate) mod view;

use remoting::Text;

/// Names one registered broker process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BrokerAddress {
    pub(crate) cluster: Text,
    /// `ip:port` that clients dial.
    pub(crate) address: Text,
}
