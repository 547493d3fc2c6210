//! The custom fields of a command: a small ordered list of names and values.
//!
//! Decoded values stay in the frame they came in and are cut out only when somebody asks; values with escapes and
//! values that were pushed share one string. So a frame of a dozen fields costs one or two allocations.

use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::decimal::Decimal;
use crate::text::Text;

/// Fields of one command. More are refused when a frame is decoded; the largest real header has 25.
pub const FIELDS_MAX: usize = 1024;
/// Room taken at once for the fields of a frame: that of a send.
const FIELDS_USUAL: usize = 16;
/// Bytes of a wrong value that an error repeats.
const VALUE_SHOWN_BYTES_MAX: usize = 64;

/// Where a text lies: in the frame, or in `own`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    bytes: u32,
    in_frame: bool,
}

impl Span {
    pub(crate) fn in_frame(start: usize, bytes: usize) -> Span {
        Span { start: start as u32, bytes: bytes as u32, in_frame: true }
    }

    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.bytes as usize
    }
}

#[derive(Clone, Copy, Debug)]
enum Name {
    Static(&'static str),
    Stored(Span),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Name,
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

    /// Fields whose texts are spans of `frame`, of which the decoder has checked that they are UTF-8.
    pub(crate) fn in_frame(frame: Bytes) -> Fields {
        Fields { frame, own: String::new(), entries: Vec::with_capacity(FIELDS_USUAL) }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &'static str, value: impl ToFieldText) {
        if self.entries.capacity() == 0 {
            self.entries.reserve(FIELDS_USUAL / 2);
        }
        let start = self.own.len();
        value.write_to(&mut self.own);
        let value = self.own_span(start);
        self.entries.push(Entry { name: Name::Static(name), value });
    }

    /// As [`Fields::push`], for names known only at run time, such as those of a relayed request.
    pub fn push_named(&mut self, name: &str, value: impl ToFieldText) {
        let name = self.store(name);
        let start = self.own.len();
        value.write_to(&mut self.own);
        let value = self.own_span(start);
        self.entries.push(Entry { name: Name::Stored(name), value });
    }

    /// Makes `name` have this value and no other.
    pub fn set(&mut self, name: &'static str, value: impl ToFieldText) {
        self.remove(name);
        self.push(name, value);
    }

    /// Takes every entry of that name away.
    pub fn remove(&mut self, name: &str) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| self.name_bytes(entry) != name.as_bytes());
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
    pub fn required<T: FromField>(&self, name: &'static str) -> Result<T, FieldError> {
        self.optional(name)?.ok_or(FieldError::Missing { name })
    }

    /// # Errors
    /// When the field is there and is no `T`.
    pub fn optional<T: FromField>(&self, name: &'static str) -> Result<Option<T>, FieldError> {
        match self.entry(name) {
            Some(entry) => self.read(entry, name).map(Some),
            None => Ok(None),
        }
    }

    /// Names and values in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (self.name_of(entry), self.str_of(entry.value)))
    }

    /// Reads the value of the field number `index`, for headers that walk the fields once.
    pub(crate) fn read_at<T: FromField>(&self, index: usize, name: &'static str) -> Result<T, FieldError> {
        self.read(&self.entries[index], name)
    }

    /// The name of the field number `index` as bytes.
    pub(crate) fn name_bytes_at(&self, index: usize) -> &[u8] {
        self.name_bytes(&self.entries[index])
    }

    /// Names and values as bytes, for the encoders.
    pub(crate) fn iter_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| (self.name_bytes(entry), self.bytes_of(entry.value)))
    }

    pub(crate) fn push_spans(&mut self, name: Span, value: Span) {
        self.entries.push(Entry { name: Name::Stored(name), value });
    }

    /// The string that unescaped texts are written into; [`Fields::own_span`] then names what was added.
    pub(crate) fn own_mut(&mut self) -> &mut String {
        &mut self.own
    }

    /// What was added to `own` since it was `start` long.
    pub(crate) fn own_span(&self, start: usize) -> Span {
        Span { start: start as u32, bytes: (self.own.len() - start) as u32, in_frame: false }
    }

    pub(crate) fn store(&mut self, text: &str) -> Span {
        let start = self.own.len();
        self.own.push_str(text);
        self.own_span(start)
    }

    pub(crate) fn text_of(&self, span: Span) -> Text {
        if span.in_frame {
            Text::from_utf8(self.frame.slice(span.range())).expect("the decoder has checked the whole header")
        } else {
            Text::from(&self.own[span.range()])
        }
    }

    fn read<T: FromField>(&self, entry: &Entry, name: &'static str) -> Result<T, FieldError> {
        let value = self.str_of(entry.value);
        T::from_field(value, || self.text_of(entry.value)).ok_or_else(|| FieldError::unreadable(name, T::KIND, value))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| self.name_bytes(entry) == name.as_bytes())
    }

    fn name_bytes(&self, entry: &Entry) -> &[u8] {
        match entry.name {
            Name::Static(name) => name.as_bytes(),
            Name::Stored(span) => self.bytes_of(span),
        }
    }

    fn name_of(&self, entry: &Entry) -> &str {
        match entry.name {
            Name::Static(name) => name,
            Name::Stored(span) => self.str_of(span),
        }
    }

    fn bytes_of(&self, span: Span) -> &[u8] {
        let whole = if span.in_frame { &self.frame[..] } else { self.own.as_bytes() };
        &whole[span.range()]
    }

    fn str_of(&self, span: Span) -> &str {
        if span.in_frame {
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

/// What a field's text can be read as.
pub trait FromField: Sized {
    /// What the error says that the value is not.
    const KIND: &'static str;

    /// `text` gives the value as a shared text, for those who keep it.
    fn from_field(value: &str, text: impl FnOnce() -> Text) -> Option<Self>;
}

impl FromField for Text {
    const KIND: &'static str = "a text";

    fn from_field(_: &str, text: impl FnOnce() -> Text) -> Option<Text> {
        Some(text())
    }
}

impl FromField for i32 {
    const KIND: &'static str = "a 32-bit number";

    fn from_field(value: &str, _: impl FnOnce() -> Text) -> Option<i32> {
        value.parse().ok()
    }
}

impl FromField for i64 {
    const KIND: &'static str = "a 64-bit number";

    fn from_field(value: &str, _: impl FnOnce() -> Text) -> Option<i64> {
        value.parse().ok()
    }
}

/// As Java reads it: `true` in any case is true, everything else is false.
impl FromField for bool {
    const KIND: &'static str = "true or false";

    fn from_field(value: &str, _: impl FnOnce() -> Text) -> Option<bool> {
        Some(value.eq_ignore_ascii_case("true"))
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
