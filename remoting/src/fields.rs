//! The custom fields of a command: a small ordered list of names and values.
//!
//! Decoded values stay in the frame they came in and are cut out only when somebody asks; values that were pushed share
//! one string. So a frame of a dozen fields costs one allocation.

use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::decimal::{self, Decimal};
use crate::text::Text;

/// Fields of one command. More are refused when a frame is decoded; the largest real header has 25.
pub const FIELDS_MAX: usize = 1024;
/// Room taken at once for the fields of a frame: that of a send.
const FIELDS_USUAL: usize = 16;
/// Room taken at once for the texts of fields that are pushed: that of a reply.
const OWN_BYTES_USUAL: usize = 224;
/// Bytes of a wrong value that an error repeats.
const VALUE_SHOWN_BYTES_MAX: usize = 64;

/// Where a text lies: start and bytes, and in the top bit whether that is in the frame or in `own`. Packed, because a
/// frame has dozens of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(u64);

const SPAN_IN_FRAME: u64 = 1 << 63;
const SPAN_BYTES_BITS: u32 = 32;

impl Span {
    #[inline]
    pub(crate) fn in_frame(start: usize, bytes: usize) -> Span {
        Span(SPAN_IN_FRAME | (start as u64) << SPAN_BYTES_BITS | bytes as u64)
    }

    /// # Panics
    /// When one command's fields are longer than 2 GiB.
    #[inline]
    fn in_own(start: usize, end: usize) -> Span {
        assert!(end <= i32::MAX as usize, "fields of {end} bytes");
        Span((start as u64) << SPAN_BYTES_BITS | (end - start) as u64)
    }

    #[inline]
    fn is_in_frame(self) -> bool {
        self.0 & SPAN_IN_FRAME != 0
    }

    #[inline]
    fn range(self) -> std::ops::Range<usize> {
        let start = ((self.0 & !SPAN_IN_FRAME) >> SPAN_BYTES_BITS) as usize;
        start..start + self.0 as u32 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Span,
    value: Span,
}

/// Names and values in the order they came. A name that comes twice keeps both entries; the last one counts.
#[derive(Clone, Default)]
pub struct Fields {
    frame: Bytes,
    own: String,
    entries: Vec<Entry>,
}

/// A field that is not there or that cannot be read as what it must be. The peer is answered code 1 with this text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    #[error("the custom field <{name}> is missing")]
    Missing { name: &'static str },
    #[error("the custom field <{name}> is not {kind}: \"{value}\"")]
    Unreadable { name: &'static str, kind: &'static str, value: String },
}

impl FieldError {
    /// The wire name of the field.
    pub fn name(&self) -> &'static str {
        match self {
            FieldError::Missing { name } | FieldError::Unreadable { name, .. } => name,
        }
    }

    pub(crate) fn unreadable(name: &'static str, kind: &'static str, value: &str) -> FieldError {
        let mut shown_bytes = value.len().min(VALUE_SHOWN_BYTES_MAX);
        while !value.is_char_boundary(shown_bytes) {
            shown_bytes -= 1;
        }
        FieldError::Unreadable { name, kind, value: value[..shown_bytes].to_owned() }
    }
}

impl Fields {
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Room for the fields of a frame, which a decoder fills with spans and then puts under them.
    pub(crate) fn for_frame() -> Fields {
        Fields { frame: Bytes::new(), own: String::new(), entries: Vec::with_capacity(FIELDS_USUAL) }
    }

    /// Gives the fields the frame that their spans are of. The decoder has checked that they are UTF-8.
    pub(crate) fn lie_in(&mut self, frame: Bytes) {
        self.frame = frame;
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes in which the fields lie: the whole frame they came in, body included, and what lies beside it. For who
    /// wants them close before they are read.
    pub fn bytes(&self) -> [&[u8]; 2] {
        [&self.frame, self.own.as_bytes()]
    }

    /// The list of where each lies, for the same.
    pub fn places(&self) -> &[impl Sized + use<>] {
        &self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &'static str, value: impl ToFieldText) {
        self.push_named(name, value);
    }

    /// As [`Fields::push`], for names known only at run time, such as those of a relayed request.
    pub fn push_named(&mut self, name: &str, value: impl ToFieldText) {
        if self.entries.capacity() == 0 {
            self.entries.reserve(FIELDS_USUAL);
            self.own.reserve(OWN_BYTES_USUAL);
        }
        let name_start = self.own.len();
        self.own.push_str(name);
        let value_start = self.own.len();
        value.write_to(&mut self.own);
        let name = Span::in_own(name_start, value_start);
        let value = Span::in_own(value_start, self.own.len());
        self.entries.push(Entry { name, value });
    }

    /// Makes `name` have this value and no other.
    pub fn set(&mut self, name: &'static str, value: impl ToFieldText) {
        self.remove(name);
        self.push(name, value);
    }

    /// Takes every entry of that name away.
    pub fn remove(&mut self, name: &str) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| self.bytes_of(entry.name) != name.as_bytes());
        self.entries = entries;
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.entry(name).map(|entry| self.str_of(entry.value))
    }

    /// The value as a text that shares the frame's bytes.
    pub fn text(&self, name: &str) -> Option<Text> {
        self.entry(name).map(|entry| self.text_of(entry.value))
    }

    pub fn contains(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// # Errors
    /// When the field is missing or is no `T`.
    pub fn required<'a, T: FromField<'a>>(&'a self, name: &'static str) -> Result<T, FieldError> {
        self.optional(name)?.ok_or(FieldError::Missing { name })
    }

    /// # Errors
    /// When the field is there and is no `T`.
    pub fn optional<'a, T: FromField<'a>>(&'a self, name: &'static str) -> Result<Option<T>, FieldError> {
        match self.entry(name) {
            Some(entry) => self.read(entry, name).map(Some),
            None => Ok(None),
        }
    }

    /// Names and values in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (self.str_of(entry.name), self.str_of(entry.value)))
    }

    /// Reads the value of the field number `index`, for headers that walk the fields once.
    #[inline]
    pub(crate) fn read_at<'a, T: FromField<'a>>(&'a self, index: usize, name: &'static str) -> Result<T, FieldError> {
        self.read(self.entries[index], name)
    }

    /// The names in their order, as bytes.
    #[inline]
    pub(crate) fn names_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.bytes_of(entry.name))
    }

    /// Names and values as bytes, for the encoders.
    #[inline]
    pub(crate) fn iter_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| (self.bytes_of(entry.name), self.bytes_of(entry.value)))
    }

    #[inline]
    pub(crate) fn push_spans(&mut self, name: Span, value: Span) {
        self.entries.push(Entry { name, value });
    }

    pub(crate) fn text_of(&self, span: Span) -> Text {
        if span.is_in_frame() {
            Text::from_checked(self.frame.slice(span.range()))
        } else {
            Text::from(&self.own[span.range()])
        }
    }

    #[inline]
    fn read<'a, T: FromField<'a>>(&'a self, entry: Entry, name: &'static str) -> Result<T, FieldError> {
        let value = FieldValue { fields: self, span: entry.value };
        T::from_field(value).ok_or_else(|| FieldError::unreadable(name, T::KIND, value.as_str()))
    }

    fn entry(&self, name: &str) -> Option<Entry> {
        self.entries.iter().rev().find(|entry| self.bytes_of(entry.name) == name.as_bytes()).copied()
    }

    #[inline]
    fn bytes_of(&self, span: Span) -> &[u8] {
        let whole = if span.is_in_frame() { &self.frame[..] } else { self.own.as_bytes() };
        &whole[span.range()]
    }

    fn str_of(&self, span: Span) -> &str {
        if span.is_in_frame() {
            std::str::from_utf8(&self.frame[span.range()]).expect("the decoder has checked the whole header")
        } else {
            &self.own[span.range()]
        }
    }
}

/// Equal when the same names have the same values in the same order, wherever they are held.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.iter_bytes().eq(other.iter_bytes())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

/// The value of one field, to be read as something.
#[derive(Clone, Copy)]
pub struct FieldValue<'a> {
    fields: &'a Fields,
    span: Span,
}

impl<'a> FieldValue<'a> {
    pub fn as_bytes(self) -> &'a [u8] {
        self.fields.bytes_of(self.span)
    }

    pub fn as_str(self) -> &'a str {
        self.fields.str_of(self.span)
    }

    /// A text that shares the frame's bytes.
    pub fn to_text(self) -> Text {
        self.fields.text_of(self.span)
    }
}

/// What a field's text can be read as.
pub trait FromField<'a>: Sized {
    /// What the error says that the value is not.
    const KIND: &'static str;

    fn from_field(value: FieldValue<'a>) -> Option<Self>;
}

/// A text that lies in the fields, for who is done with it before they go.
impl<'a> FromField<'a> for &'a str {
    const KIND: &'static str = "a text";

    fn from_field(value: FieldValue<'a>) -> Option<&'a str> {
        Some(value.as_str())
    }
}

impl FromField<'_> for Text {
    const KIND: &'static str = "a text";

    fn from_field(value: FieldValue<'_>) -> Option<Text> {
        Some(value.to_text())
    }
}

impl FromField<'_> for i32 {
    const KIND: &'static str = "a 32-bit number";

    fn from_field(value: FieldValue<'_>) -> Option<i32> {
        decimal::parse(value.as_bytes()).and_then(|number| i32::try_from(number).ok())
    }
}

impl FromField<'_> for i64 {
    const KIND: &'static str = "a 64-bit number";

    fn from_field(value: FieldValue<'_>) -> Option<i64> {
        decimal::parse(value.as_bytes())
    }
}

/// As Java reads it: `true` in any case is true, everything else is false.
impl FromField<'_> for bool {
    const KIND: &'static str = "true or false";

    fn from_field(value: FieldValue<'_>) -> Option<bool> {
        Some(value.as_bytes().eq_ignore_ascii_case(b"true"))
    }
}

/// What can be written as a field's text.
pub trait ToFieldText {
    fn write_to(&self, out: &mut String);
}

impl ToFieldText for str {
    fn write_to(&self, out: &mut String) {
        out.push_str(self);
    }
}

impl ToFieldText for Text {
    fn write_to(&self, out: &mut String) {
        out.push_str(self.as_str());
    }
}

impl ToFieldText for String {
    fn write_to(&self, out: &mut String) {
        out.push_str(self);
    }
}

impl ToFieldText for bool {
    fn write_to(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl ToFieldText for i64 {
    fn write_to(&self, out: &mut String) {
        out.push_str(Decimal::new(*self).as_str());
    }
}

impl ToFieldText for i32 {
    fn write_to(&self, out: &mut String) {
        i64::from(*self).write_to(out);
    }
}

impl ToFieldText for u32 {
    fn write_to(&self, out: &mut String) {
        i64::from(*self).write_to(out);
    }
}

impl<T: ToFieldText + ?Sized> ToFieldText for &T {
    fn write_to(&self, out: &mut String) {
        (**self).write_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_name_counts() {
        let mut fields = Fields::new();
        fields.push("topic", "A");
        fields.push("queueId", 3);
        fields.push_named("topic", "B");
        assert_eq!((fields.get("topic"), fields.len()), (Some("B"), 3));
        fields.set("topic", "C");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("queueId", "3"), ("topic", "C")]);
        fields.remove("queueId");
        assert!(!fields.contains("queueId"));
    }

    #[test]
    fn errors_name_the_field_and_its_value() {
        let mut fields = Fields::new();
        fields.push("queueId", "x1");
        fields.push("queueOffset", i64::MAX);
        fields.push("lo", "TRUE");
        assert_eq!(fields.required::<i64>("queueOffset"), Ok(i64::MAX));
        assert_eq!(fields.required::<bool>("lo"), Ok(true));
        assert_eq!(fields.optional::<Text>("topic"), Ok(None));
        assert_eq!(fields.required::<Text>("topic").unwrap_err().to_string(), "the custom field <topic> is missing");
        assert_eq!(
            fields.required::<i32>("queueId").unwrap_err().to_string(),
            "the custom field <queueId> is not a 32-bit number: \"x1\""
        );
        assert!(fields.required::<i32>("queueOffset").is_err(), "a value beyond 32 bits");
    }
}
