//! Places in frames that were encoded once, where each copy gets a number of its own.

/// Decimal digits of every opaque, so that one fits where another stood.
pub(crate) const OPAQUE_DIGITS: usize = 10;
/// Stands where the opaque goes.
pub(crate) const OPAQUE_PLACE: i32 = 1_987_654_321;

/// Where a text that stands in the header once begins.
pub(crate) fn place_of(head: &[u8], text: &[u8]) -> usize {
    let places = places_of(head, text);
    assert!(places.len() == 1, "the text that keeps a place stands in the header {} times", places.len());
    places[0]
}

pub(crate) fn places_of(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text).map(|(at, _)| at).collect()
}
