//! Typed bodies: what the JSON of a command's body means.
//!
//! Fields are declared in the alphabetical order of their wire names, which is the order they are written in. Maps are
//! ordered, so a body is the same bytes each time. What is missing in a body has the peer's default.

pub mod cluster;
pub mod connection;
pub mod consume;
pub mod group;
pub mod heartbeat;
pub mod kv;
pub mod pop;
pub mod queue;
pub mod register;
pub mod route;
pub mod stages;
pub mod stats;
pub mod topic;

mod message_queue;

pub use message_queue::{MessageQueue, QueueMap, read_queue_map, write_queue_map};

/// Structs of a body: compared, printed, read and written, with the names of the wire in camel case.
macro_rules! body {
    ($($(#[$meta:meta])* struct $name:ident { $($fields:tt)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name { $($fields)* }
        )*
    };
}

/// Words of the wire as an enum, read in any case; an empty word is the default.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            pub fn from_name(name: &str) -> Option<$name> {
                $(
                    if name.eq_ignore_ascii_case($word) {
                        return Some($name::$variant);
                    }
                )*
                name.is_empty().then(Default::default)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let word = <$crate::text::Text as serde::Deserialize>::deserialize(deserializer)?;
                $name::from_name(&word).ok_or_else(|| {
                    serde::de::Error::unknown_variant(&word, &[$($word,)*])
                })
            }
        }
    };
}

pub(crate) use {body, words};

#[cfg(test)]
mod tests;
