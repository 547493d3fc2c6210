//! Cuts a byte stream into frames and knows their limits.
//!
//! ```text
//! offset size field
//! 0      4    i32 bytes that follow: 4 + header bytes + body bytes
//! 4      1    header encoding: 0 JSON, 1 compact
//! 5      3    header bytes
//! 8      n    header, then the body up to the end
//! ```
//!
//! Every length is checked before anything is reserved for it, so a hostile length costs nothing.

use bytes::{Buf, BytesMut};
use thiserror::Error;

/// A whole frame, its length word included. A longer one closes the connection.
pub const FRAME_BYTES_MAX: usize = 16_777_216;
/// The word in front of a frame that tells how many bytes follow.
pub const LENGTH_BYTES: usize = 4;
/// The word behind it: one byte of encoding and three of header length.
pub const HEADER_WORD_BYTES: usize = 4;
/// The longest header that three bytes of length can tell.
pub const HEADER_BYTES_MAX: usize = (1 << 24) - 1;

/// A frame that cannot be right. The stream behind it has no known boundary, so the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("the frame length {length} is negative")]
    Negative { length: i32 },
    #[error("the frame length {length} is below {HEADER_WORD_BYTES}, the bytes of its header word")]
    TooShort { length: i32 },
    #[error("a frame of {length} and {LENGTH_BYTES} bytes exceeds the limit of {FRAME_BYTES_MAX} bytes")]
    TooLong { length: i32 },
    #[error("the header length {header_bytes} exceeds the {available_bytes} bytes of its frame")]
    HeaderTooLong { header_bytes: usize, available_bytes: usize },
}

/// Bytes of the frame at the front of `buffer`, its length word included; 0 while that is not known yet.
///
/// # Errors
/// When the length, or the header length as soon as it is there, cannot be right.
pub fn bytes_wanted(buffer: &[u8]) -> Result<usize, FrameError> {
    let Some((length, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else { return Ok(0) };
    let length = i32::from_be_bytes(*length);
    if length < 0 {
        return Err(FrameError::Negative { length });
    }
    let follow_bytes = length as usize;
    if follow_bytes < HEADER_WORD_BYTES {
        return Err(FrameError::TooShort { length });
    }
    if follow_bytes > FRAME_BYTES_MAX - LENGTH_BYTES {
        return Err(FrameError::TooLong { length });
    }
    if let Some(word) = rest.first_chunk::<HEADER_WORD_BYTES>() {
        let header_bytes = header_bytes_of(*word);
        let available_bytes = follow_bytes - HEADER_WORD_BYTES;
        if header_bytes > available_bytes {
            return Err(FrameError::HeaderTooLong { header_bytes, available_bytes });
        }
    }
    Ok(LENGTH_BYTES + follow_bytes)
}

/// Takes one complete frame off the front, without its length word and without copying; `None` while it is incomplete.
///
/// # Errors
/// As [`bytes_wanted`].
pub fn split(buffer: &mut BytesMut) -> Result<Option<BytesMut>, FrameError> {
    let wanted_bytes = bytes_wanted(buffer)?;
    if wanted_bytes == 0 || buffer.len() < wanted_bytes {
        return Ok(None);
    }
    let mut frame = buffer.split_to(wanted_bytes);
    frame.advance(LENGTH_BYTES);
    Ok(Some(frame))
}

/// The lower three bytes of the header word.
pub(crate) fn header_bytes_of(word: [u8; HEADER_WORD_BYTES]) -> usize {
    u32::from_be_bytes([0, word[1], word[2], word[3]]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: i32, header_bytes: u32) -> Vec<u8> {
        [length.to_be_bytes(), header_bytes.to_be_bytes()].concat()
    }

    #[test]
    fn lengths_are_checked_before_anything_is_taken() {
        let longest = (FRAME_BYTES_MAX - LENGTH_BYTES) as i32;
        let cases = [
            (frame(-1, 0), Err(FrameError::Negative { length: -1 })),
            (frame(i32::MIN, 0), Err(FrameError::Negative { length: i32::MIN })),
            (frame(0, 0), Err(FrameError::TooShort { length: 0 })),
            (frame(3, 0), Err(FrameError::TooShort { length: 3 })),
            (frame(4, 0), Ok(8)),
            (frame(4, 1), Err(FrameError::HeaderTooLong { header_bytes: 1, available_bytes: 0 })),
            (frame(longest, 9), Ok(FRAME_BYTES_MAX)),
            (frame(longest + 1, 9), Err(FrameError::TooLong { length: longest + 1 })),
            (frame(i32::MAX, 9), Err(FrameError::TooLong { length: i32::MAX })),
            (vec![0, 0, 0], Ok(0)),
            (vec![0, 0, 0, 9], Ok(13)),
            (b"GET / HTTP".to_vec(), Err(FrameError::TooLong { length: 0x4745_5420 })),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(bytes_wanted(&bytes), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_frames() {
        let stream = [frame(6, 1), vec![1, 2], frame(4, 0), frame(5, 0), vec![3]].concat();
        for cut in 0..=stream.len() {
            let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(frame) = split(&mut buffer).unwrap() {
                    frames.push(frame.to_vec());
                }
            }
            assert_eq!(frames, [&[0, 0, 0, 1, 1, 2][..], &[0, 0, 0, 0], &[0, 0, 0, 0, 3]], "cut at {cut}");
            assert!(buffer.is_empty());
        }
    }
}
