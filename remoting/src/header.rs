//! Typed request and response headers: what the custom fields of a command mean.
//!
//! Each header is a struct with `decode(&Fields)`, `encode(&self, &mut Fields)` and `to_fields()`, made by one macro.

pub mod client;
pub mod connection;
pub mod consume;
pub mod consumer_offset;
pub mod group;
pub mod namesrv;
pub mod pop;
pub mod pull;
pub mod queue_offset;
pub mod recall;
pub mod reply;
pub mod send;
pub mod send_back;
pub mod stats;
pub mod topic;
pub mod transaction;
pub mod view_message;

/// A header: each field has a Rust name, a type, and the rule and name it has on the wire.
///
/// `required` fails when the field is missing, `optional` gives an `Option`, `or(x)` gives `x` when it is missing.
macro_rules! header {
    ($(#[$doc:meta])* $header:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $rule:ident $(($default:expr))? $wire:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $header {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $header {
            /// # Errors
            /// Naming the first field that is missing or unreadable.
            pub fn decode(fields: &$crate::fields::Fields) -> Result<$header, $crate::fields::FieldError> {
                Ok($header {
                    $($field: $crate::header::field_rule!(decode $rule $(($default))? fields, $wire),)*
                })
            }

            /// Appends the fields that are there.
            pub fn encode(&self, fields: &mut $crate::fields::Fields) {
                $($crate::header::field_rule!(encode $rule fields, $wire, &self.$field);)*
            }

            pub fn to_fields(&self) -> $crate::fields::Fields {
                let mut fields = $crate::fields::Fields::new();
                self.encode(&mut fields);
                fields
            }
        }
    };
}

macro_rules! field_rule {
    (decode required $fields:ident, $wire:literal) => {
        $fields.required($wire)?
    };
    (decode optional $fields:ident, $wire:literal) => {
        $fields.optional($wire)?
    };
    (decode or ($default:expr) $fields:ident, $wire:literal) => {
        match $fields.optional($wire)? {
            Some(value) => value,
            None => $default,
        }
    };
    (encode optional $fields:ident, $wire:literal, $value:expr) => {
        if let Some(value) = $value {
            $fields.push($wire, value);
        }
    };
    (encode $rule:ident $fields:ident, $wire:literal, $value:expr) => {
        $fields.push($wire, $value)
    };
}

pub(crate) use {field_rule, header};

#[cfg(test)]
mod tests;
