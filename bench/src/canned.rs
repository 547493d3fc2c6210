//! A target that stores nothing: it answers every request at once, or after a time that is known, as if it were a send that was
//! stored. No broker that is measured on the same machine can show more than this one.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use remoting::command::Command;
use remoting::fields::Fields;
use remoting::frame::{self, HEADER_WORD_BYTES, LENGTH_BYTES};

use crate::clock::{RunClock, nanoseconds};
use crate::places::{OPAQUE_DIGITS, OPAQUE_PLACE, place_of};

/// Bytes asked of a socket at once, at least.
const RECEIVE_BYTES: usize = 256 << 10;
/// Header word's tag of JSON.
const TAG_JSON: u8 = 0;
/// Where the opaque stands in a compact header: behind code, language and version.
const COMPACT_OPAQUE_AT: usize = 2 + 1 + 2;
const OPAQUE_NAME: &[u8] = b"\"opaque\":";

/// Answers on all connections until the process ends, each on a thread of its own: what was read together so long after that.
///
/// # Errors
/// When no more connections can be taken.
pub fn serve(listener: &TcpListener, delay: Duration) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        // A connection that fails has ended, and its client knows.
        runtime::core::thread("canned", move || drop(answer(&stream, delay)))?;
    }
}

fn answer(mut stream: &TcpStream, delay: Duration) -> io::Result<()> {
    let (canned, clock) = (Canned::new(), RunClock::start());
    let (mut input, mut filled, mut output) = (vec![0; RECEIVE_BYTES], 0, Vec::new());
    let mut opaque_at = 0;
    loop {
        let received = stream.read(&mut input[filled..])?;
        if received == 0 {
            return Ok(());
        }
        let due_ns = clock.now_ns() + nanoseconds(delay);
        filled += received;
        let mut at = 0;
        let mut wanted = bytes_wanted(&input[..filled])?;
        while wanted > 0 && filled - at >= wanted {
            let opaque = opaque(&input[at..at + wanted], &mut opaque_at);
            canned.write(opaque.ok_or_else(|| unreadable("a request without a number"))?, &mut output);
            at += wanted;
            wanted = bytes_wanted(&input[at..filled])?;
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        if input.len() < wanted.max(filled + RECEIVE_BYTES / 2) {
            input.resize(wanted.max(filled + RECEIVE_BYTES), 0);
        }
        if !delay.is_zero() {
            clock.sleep_until(due_ns);
        }
        stream.write_all(&output)?;
        output.clear();
    }
}

fn bytes_wanted(input: &[u8]) -> io::Result<usize> {
    frame::bytes_wanted(input).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// The number of a request, which no load makes negative but for the ends of half messages. `guess` is where it stood in the request before, which is where it mostly stands.
fn opaque(frame: &[u8], guess: &mut usize) -> Option<u32> {
    let (tag, header) = (*frame.get(LENGTH_BYTES)?, frame.get(LENGTH_BYTES + HEADER_WORD_BYTES..)?);
    if tag != TAG_JSON {
        return Some(u32::from_be_bytes(*header.get(COMPACT_OPAQUE_AT..)?.first_chunk()?));
    }
    if !header.get(*guess..).is_some_and(|rest| rest.starts_with(OPAQUE_NAME)) {
        *guess = header.windows(OPAQUE_NAME.len()).position(|window| window == OPAQUE_NAME)?;
    }
    let digits = header[*guess + OPAQUE_NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.take(OPAQUE_DIGITS).fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    u32::try_from(value).ok()
}

/// The answer, with a place for the number of its request.
struct Canned {
    frame: Vec<u8>,
    opaque_at: usize,
}

impl Canned {
    fn new() -> Canned {
        let mut fields = Fields::new();
        fields.push("msgId", "7F00000100002A9F0000000000000000");
        fields.push("queueId", 0);
        fields.push("queueOffset", 0);
        let mut frame = BytesMut::new();
        Command::reply(OPAQUE_PLACE, 0).with_fields(fields).encode(&mut frame);
        Canned { opaque_at: place_of(&frame, OPAQUE_PLACE.to_string().as_bytes()), frame: frame.to_vec() }
    }

    /// Appends it. A number with fewer digits stands behind blanks.
    fn write(&self, opaque: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let place = &mut out[start + self.opaque_at..][..OPAQUE_DIGITS];
        place.fill(b' ');
        let mut rest = opaque;
        for digit in place.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply;
    use remoting::code::RequestCode;
    use remoting::command::HeaderEncoding;

    #[test]
    fn an_answer_has_the_number_of_its_request() {
        let (canned, mut guess) = (Canned::new(), 0);
        for encoding in [HeaderEncoding::Json, HeaderEncoding::Compact] {
            for number in [1_987_000_321, 0, 7, i32::MAX] {
                let mut command = Command::request(RequestCode::SEND_MESSAGE_V2, Fields::new());
                (command.opaque, command.encoding) = (number, encoding);
                let (mut request, mut answer) = (BytesMut::new(), Vec::new());
                command.encode(&mut request);
                canned.write(opaque(&request, &mut guess).expect("it has a number"), &mut answer);
                let reply = reply::read(&answer).unwrap();
                assert_eq!((reply.opaque, reply.code, reply.is_response), (number, 0, true), "{encoding:?}");
                assert_eq!((reply.queue_id, reply.queue_offset), (Some(0), Some(0)));
            }
        }
    }
}
