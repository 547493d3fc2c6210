//! Request and response codes and their names.

pub mod request;
pub mod response;

pub use request::RequestCode;
pub use response::ResponseCode;

/// A newtype over the code on the wire, with a constant and a name for each that has a meaning.
macro_rules! codes {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub i32);

        impl $type {
            $(pub const $name: $type = $type($code);)*

            /// The symbolic name, for people.
            pub fn name(self) -> Option<&'static str> {
                name(self.0)
            }
        }

        impl From<$type> for i32 {
            fn from(code: $type) -> i32 {
                code.0
            }
        }

        /// The number, followed by the name where there is one.
        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(out, "{} {name}", self.0),
                    None => write!(out, "{}", self.0),
                }
            }
        }

        /// The symbolic name of a code.
        pub fn name(code: i32) -> Option<&'static str> {
            match code {
                $($code => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

pub(crate) use codes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!(RequestCode::SEND_MESSAGE_V2.to_string(), "310 SEND_MESSAGE_V2");
        assert_eq!(ResponseCode(4711).to_string(), "4711");
        assert_eq!(response::name(25), Some("SUBSCRIPTION_NOT_LATEST"));
        assert_eq!(request::name(200_051), Some("ACK_MESSAGE"));
        assert_eq!(request::name(0), None);
    }
}
