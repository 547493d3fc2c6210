//! The RocketMQ wire protocol without any I/O: bytes in, values out.
//!
//! [`frame`] cuts a byte stream into frames, [`command`] turns a frame into a [`Command`] and back, [`header`] and
//! [`body`] give its custom fields and its body a type, [`record`] is the stored message.
//!
//! Wrong bytes of others become typed errors; nothing here panics on what came over the wire.

pub mod body;
pub mod code;
pub mod command;
mod command_compact;
mod command_json;
mod decimal;
pub mod fields;
mod find;
pub mod frame;
pub mod header;
pub mod json;
pub mod message_id;
pub mod name;
pub mod properties;
pub mod recall_handle;
pub mod record;
pub mod reply;
pub mod subscription;
pub mod text;

pub use code::{RequestCode, ResponseCode};
pub use command::{Command, DecodeError, HeaderEncoding, Language, VERSION_ORDINAL};
pub use fields::{FieldError, Fields};
pub use frame::{FRAME_BYTES_MAX, FrameError};
pub use text::Text;
