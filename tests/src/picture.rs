//! Pictures in PNG as browsers write them: 8 bits a part, with or without alpha, not interlaced.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::ZlibDecoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Red, green and blue of all points.
#[derive(Debug)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    points: Vec<[u8; 3]>,
}

impl Picture {
    /// # Errors
    /// What it is that this reader does not know.
    pub fn read(bytes: &[u8]) -> Result<Picture, String> {
        let mut rest = bytes.strip_prefix(SIGNATURE).ok_or("no PNG")?;
        let (mut head, mut packed) = (Vec::new(), Vec::new());
        while let Some((chunk, after)) = chunk(rest) {
            match chunk.kind {
                b"IHDR" => head = chunk.data.to_vec(),
                b"IDAT" => packed.extend_from_slice(chunk.data),
                _ => {}
            }
            rest = after;
        }
        let word =
            |at: usize| head.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let (width, height) = word(0).zip(word(4)).ok_or("no head")?;
        let parts = match head.get(8..13) {
            Some([8, 2, 0, 0, 0]) => 3,
            Some([8, 6, 0, 0, 0]) => 4,
            other => return Err(format!("a form that is not read here: {other:?}")),
        };
        let mut lines = Vec::new();
        ZlibDecoder::new(&packed[..]).read_to_end(&mut lines).map_err(|error| error.to_string())?;
        let line_bytes = width as usize * parts;
        if lines.len() != (line_bytes + 1) * height as usize {
            return Err(format!("{} bytes for {width} x {height} points", lines.len()));
        }
        let mut points = Vec::new();
        let mut above = vec![0; line_bytes];
        for line in lines.chunks(line_bytes + 1) {
            above = unfiltered(line[0], &line[1..], &above, parts)?;
            points.extend(above.chunks(parts).map(|point| [point[0], point[1], point[2]]));
        }
        Ok(Picture { width, height, points })
    }

    /// How many different colours there are.
    pub fn colours(&self) -> usize {
        self.counts().len()
    }

    /// The colour that most points have.
    ///
    /// # Panics
    /// When there are no points.
    pub fn commonest(&self) -> [u8; 3] {
        self.counts().into_iter().max_by_key(|(_, count)| *count).expect("there are points").0
    }

    /// The share of points with another colour.
    pub fn share_unlike(&self, colour: [u8; 3]) -> f64 {
        self.points.iter().filter(|point| **point != colour).count() as f64 / self.points.len() as f64
    }

    fn counts(&self) -> HashMap<[u8; 3], usize> {
        let mut counts = HashMap::new();
        self.points.iter().for_each(|point| *counts.entry(*point).or_default() += 1);
        counts
    }
}

struct Chunk<'a> {
    kind: &'a [u8],
    data: &'a [u8],
}

/// Length, kind, data, checksum.
fn chunk(bytes: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?) as usize;
    let (kind, data) = (bytes.get(4..8)?, bytes.get(8..8 + length)?);
    Some((Chunk { kind, data }, bytes.get(8 + length + 4..)?))
}

/// A line as it was before each byte was replaced by its difference to what a filter foresees.
fn unfiltered(filter: u8, line: &[u8], above: &[u8], parts: usize) -> Result<Vec<u8>, String> {
    let mut out: Vec<u8> = Vec::with_capacity(line.len());
    for (at, byte) in line.iter().enumerate() {
        let before = |line: &[u8]| if at < parts { 0 } else { i16::from(line[at - parts]) };
        let (left, up, corner) = (before(&out), i16::from(above[at]), before(above));
        let foreseen = match filter {
            0 => 0,
            1 => left,
            2 => up,
            3 => (left + up) / 2,
            4 => nearest(left, up, corner),
            other => return Err(format!("filter {other}")),
        };
        out.push(byte.wrapping_add(foreseen as u8));
    }
    Ok(out)
}

/// Of three neighbours the one that is nearest to left + up - corner.
fn nearest(left: i16, up: i16, corner: i16) -> i16 {
    let guess = left + up - corner;
    let distance = |value: i16| (guess - value).abs();
    if distance(left) <= distance(up) && distance(left) <= distance(corner) {
        left
    } else if distance(up) <= distance(corner) {
        up
    } else {
        corner
    }
}
