//! The body of a received message, unpacked where it came compressed.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;
use remoting::record::{RecordView, sys_flag};

/// Bytes that an unpacked body may have. A longer one is given as damaged, so that a small message cannot fill memory.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;

/// A message's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// As its sender wrote it.
    Plain(Cow<'a, [u8]>),
    /// Compressed in a way that is not unpacked here.
    Packed { kind: &'static str, bytes: usize },
    /// Says that it is compressed, and is not, or is too large.
    Damaged { bytes: usize },
}

/// The body of a record.
pub fn body_of<'a>(record: &RecordView<'a>) -> Body<'a> {
    unpack(record.body(), record.sys_flag())
}

fn unpack(body: &[u8], flags: i32) -> Body<'_> {
    if flags & sys_flag::COMPRESSED == 0 {
        return Body::Plain(Cow::Borrowed(body));
    }
    match flags & sys_flag::COMPRESSION_MASK {
        sys_flag::COMPRESSION_LZ4 => Body::Packed { kind: "lz4", bytes: body.len() },
        sys_flag::COMPRESSION_ZSTD => Body::Packed { kind: "zstd", bytes: body.len() },
        // Without a kind it is zlib, which was the only one for years.
        _ => inflate(body).map_or(Body::Damaged { bytes: body.len() }, |plain| Body::Plain(Cow::Owned(plain))),
    }
}

fn inflate(packed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    ZlibDecoder::new(packed).take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut plain).ok()?;
    (plain.len() as u64 <= UNPACKED_BYTES_MAX).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;

    fn deflated(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn bodies_are_unpacked_as_their_flags_say() {
        let packed = deflated(b"hello hello hello");
        let compressed = sys_flag::COMPRESSED;
        assert_eq!(unpack(&packed, 0), Body::Plain(Cow::Borrowed(&packed)));
        for zlib in [compressed, compressed | sys_flag::COMPRESSION_ZLIB] {
            assert_eq!(unpack(&packed, zlib), Body::Plain(Cow::Borrowed(b"hello hello hello")));
        }
        assert_eq!(unpack(b"abc", compressed | sys_flag::COMPRESSION_LZ4), Body::Packed { kind: "lz4", bytes: 3 });
        assert_eq!(unpack(b"abc", compressed | sys_flag::COMPRESSION_ZSTD), Body::Packed { kind: "zstd", bytes: 3 });
        assert_eq!(unpack(b"abc", compressed), Body::Damaged { bytes: 3 });
        let bomb = deflated(&vec![0; UNPACKED_BYTES_MAX as usize + 1]);
        assert_eq!(unpack(&bomb, compressed), Body::Damaged { bytes: bomb.len() });
    }
}
