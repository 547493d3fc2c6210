//! The writer: compact JSON, except that marked keys come out as the objects they are the text of.

use std::io::{Result, Write};

use serde_json::ser::{CharEscape, Formatter};

/// A key that starts with this is written without quotes and without escapes.
pub(crate) const RAW_KEY_MARK: char = '\u{1}';

/// Where a key's text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Outside,
    /// The key's quote is owed until its first character is known.
    Owed,
    Quoted,
    Raw,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compact {
    key: Key,
}

impl Compact {
    fn pay_quote<W: Write + ?Sized>(&mut self, writer: &mut W) -> Result<()> {
        if self.key == Key::Owed {
            self.key = Key::Quoted;
            writer.write_all(b"\"")?;
        }
        Ok(())
    }
}

/// Numbers as keys are quoted too, so their quote must be paid before them.
macro_rules! numbers {
    ($($method:ident: $type:ty,)*) => {
        $(
            fn $method<W: Write + ?Sized>(&mut self, writer: &mut W, value: $type) -> Result<()> {
                self.pay_quote(writer)?;
                write!(writer, "{value}")
            }
        )*
    };
}

impl Formatter for Compact {
    numbers! {
        write_i8: i8,
        write_i16: i16,
        write_i32: i32,
        write_i64: i64,
        write_u8: u8,
        write_u16: u16,
        write_u32: u32,
        write_u64: u64,
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        self.key = Key::Owed;
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_object_key<W: Write + ?Sized>(&mut self, _: &mut W) -> Result<()> {
        self.key = Key::Outside;
        Ok(())
    }

    fn begin_string<W: Write + ?Sized>(&mut self, writer: &mut W) -> Result<()> {
        if self.key == Key::Owed { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn end_string<W: Write + ?Sized>(&mut self, writer: &mut W) -> Result<()> {
        self.pay_quote(writer)?;
        if self.key == Key::Raw { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> Result<()> {
        self.pay_quote(writer)?;
        writer.write_all(fragment.as_bytes())
    }

    fn write_char_escape<W: Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> Result<()> {
        let byte = match escape {
            CharEscape::Quote => b'"',
            CharEscape::ReverseSolidus => b'\\',
            CharEscape::Solidus => b'/',
            CharEscape::Backspace => b'b',
            CharEscape::FormFeed => b'f',
            CharEscape::LineFeed => b'n',
            CharEscape::CarriageReturn => b'r',
            CharEscape::Tab => b't',
            CharEscape::AsciiControl(control) => {
                if self.key == Key::Owed && char::from(control) == RAW_KEY_MARK {
                    self.key = Key::Raw;
                    return Ok(());
                }
                self.pay_quote(writer)?;
                return write!(writer, "\\u{control:04x}");
            }
        };
        self.pay_quote(writer)?;
        // The text of a raw key is JSON already: its quotes and backslashes are to stay single.
        if self.key == Key::Raw { writer.write_all(&[byte]) } else { writer.write_all(&[b'\\', byte]) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::encode;

    fn text(value: &impl serde::Serialize) -> String {
        String::from_utf8(encode(value).to_vec()).unwrap()
    }

    #[test]
    fn keys_are_quoted_unless_marked() {
        let texts: BTreeMap<&str, i32> =
            [("", 0), ("a\"\\\n\u{2}", 1), ("{b}", 2), ("\u{1}{\"c\":\"\\\"\"}", 3)].into();
        assert_eq!(text(&texts), r#"{"":0,{"c":"\""}:3,"a\"\\\n\u0002":1,"{b}":2}"#);
        let numbers: BTreeMap<i64, &str> = [(0, "\u{1}x"), (-1, "é")].into();
        assert_eq!(text(&numbers), r#"{"-1":"é","0":"\u0001x"}"#);
    }

    #[test]
    fn values_are_as_the_peer_writes_them() {
        assert_eq!(text(&(0.0, 1.5, f64::NAN, [1_u8, 2], true, None::<i32>)), "[0.0,1.5,null,[1,2],true,null]");
    }
}
