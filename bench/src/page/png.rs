//! Pictures as PNG, twice as large as their SVG says, for whoever cannot show that.

use crate::error::BenchError;

#[cfg(feature = "png")]
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, BenchError> {
    use resvg::{tiny_skia, usvg};
    const SCALE: f32 = 2.0;
    let wrong = |what: String| BenchError::Picture { what };
    let mut options = usvg::Options::default();
    // Words are drawn with what fonts the machine has.
    options.fontdb_mut().load_system_fonts();
    options.font_family = FAMILIES.iter().find(|family| has(&options, family)).unwrap_or(&FAMILIES[0]).to_string();
    // The name stands for whatever a browser has; here it is one of the machine's.
    let svg = svg.replace("system-ui,sans-serif", &format!("'{}'", options.font_family));
    let tree = usvg::Tree::from_str(&svg, &options).map_err(|error| wrong(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| wrong("it has no size".to_owned()))?;
    let pixels = tiny_skia::Pixmap::new(size.width(), size.height());
    let mut pixels = pixels.ok_or_else(|| wrong("there is no memory for it".to_owned()))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| wrong(error.to_string()))
}

/// Fonts without serifs, the first that is there.
#[cfg(feature = "png")]
const FAMILIES: [&str; 4] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial"];

#[cfg(feature = "png")]
fn has(options: &resvg::usvg::Options<'_>, family: &str) -> bool {
    options.fontdb.faces().any(|face| face.families.iter().any(|(name, _)| name == family))
}

#[cfg(not(feature = "png"))]
pub(crate) fn png(_svg: &str) -> Result<Vec<u8>, BenchError> {
    let what = "this program was built without it: build it with `--features png`, or take --svg".to_owned();
    Err(BenchError::Picture { what })
}

#[cfg(test)]
#[cfg(feature = "png")]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_pixels_it_says() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"20\"><rect width=\"9\" height=\"9\" fill=\"red\"/></svg>";
        let bytes = png(svg).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
        let word = |at: usize| u32::from_be_bytes(*bytes[at..].first_chunk::<4>().unwrap());
        assert_eq!((word(16), word(20)), (60, 40));
        assert!(png("<svg").is_err());
    }
}
