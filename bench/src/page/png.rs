//! Pictures as PNG, twice as large as their SVG says, for whoever cannot show that.

use crate::error::BenchError;

#[cfg(feature = "png")]
use resvg::{tiny_skia, usvg};

/// Fonts without serifs, the first that is there.
#[cfg(feature = "png")]
const FAMILIES: [&str; 4] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial"];

/// Knows the fonts of this machine.
#[cfg(feature = "png")]
pub(crate) struct Painter {
    options: usvg::Options<'static>,
}

#[cfg(feature = "png")]
impl Painter {
    pub(crate) fn new() -> Result<Painter, BenchError> {
        let mut options = usvg::Options::default();
        // Words are drawn with what fonts the machine has.
        options.fontdb_mut().load_system_fonts();
        let has =
            |family: &str| options.fontdb.faces().any(|face| face.families.iter().any(|(name, _)| name == family));
        let family = FAMILIES.into_iter().find(|family| has(family)).unwrap_or(FAMILIES[0]);
        options.font_family = family.to_owned();
        Ok(Painter { options })
    }

    pub(crate) fn png(&self, svg: &str) -> Result<Vec<u8>, BenchError> {
        const SCALE: f32 = 2.0;
        let wrong = |what: String| BenchError::Picture { what };
        // The name stands for whatever a browser has; here it is one of the machine's.
        let svg = svg.replace("system-ui,sans-serif", &format!("'{}'", self.options.font_family));
        let tree = usvg::Tree::from_str(&svg, &self.options).map_err(|error| wrong(error.to_string()))?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| wrong("it has no size".to_owned()))?;
        let pixels = tiny_skia::Pixmap::new(size.width(), size.height());
        let mut pixels = pixels.ok_or_else(|| wrong("there is no memory for it".to_owned()))?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| wrong(error.to_string()))
    }
}

/// Of a program that cannot do it.
#[cfg(not(feature = "png"))]
pub(crate) enum Painter {}

#[cfg(not(feature = "png"))]
impl Painter {
    pub(crate) fn new() -> Result<Painter, BenchError> {
        let what = "this program was built without it: build it with `--features png`, or take --svg".to_owned();
        Err(BenchError::Picture { what })
    }

    pub(crate) fn png(&self, _svg: &str) -> Result<Vec<u8>, BenchError> {
        match *self {}
    }
}

#[cfg(test)]
#[cfg(feature = "png")]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_pixels_it_says() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\"><rect width=\"9\" height=\"9\" fill=\"red\"/></svg>";
        let painter = Painter::new().unwrap();
        let bytes = painter.png(svg).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
        let word = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk::<4>().unwrap());
        assert_eq!((word(16), word(20)), (60, 40));
        assert!(painter.png("<svg").is_err());
    }
}
