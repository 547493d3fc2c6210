//! Java's text format of properties: `key=value` lines with comments, continued lines and escapes.

use super::ConfigError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Reads all properties in their order.
///
/// # Errors
/// When a `\u` has not four hexadecimal digits behind it.
pub(crate) fn parse(text: &str) -> Result<Vec<Property>, ConfigError> {
    let mut properties = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let start = line.trim_start_matches([' ', '\t', '\u{c}']);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = start.to_owned();
        while ends_in_continuation(&whole) {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next.trim_start_matches([' ', '\t', '\u{c}']));
        }
        let property = property_of(&whole).ok_or(ConfigError::Properties {
            line: number + 1,
            what: "\\u needs four hexadecimal digits behind it; write \\\\ for a backslash",
        })?;
        properties.push(property);
    }
    Ok(properties)
}

/// Whether the line ends in a backslash that is not itself escaped.
pub(super) fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or blank that is not escaped; one `=` or `:` among blanks is left out.
fn property_of(line: &str) -> Option<Property> {
    let key_end = key_end(line);
    let rest = line[key_end..].trim_start_matches([' ', '\t', '\u{c}']);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches([' ', '\t', '\u{c}']);
    Some(Property { key: unescaped(&line[..key_end])?, value: unescaped(value)? })
}

pub(super) fn key_end(line: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        if !is_escaped && matches!(byte, b'=' | b':' | b' ' | b'\t' | 0xc) {
            return at;
        }
        is_escaped = !is_escaped && byte == b'\\';
    }
    line.len()
}

fn unescaped(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            continue;
        }
        let unit = match characters.next() {
            Some('n') => u16::from(b'\n'),
            Some('t') => u16::from(b'\t'),
            Some('r') => u16::from(b'\r'),
            Some('f') => 0xc,
            Some('u') => {
                let digits =
                    characters.as_str().get(..4).filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
                characters = characters.as_str()[4..].chars();
                u16::from_str_radix(digits, 16).ok()?
            }
            Some(other) => {
                units.extend_from_slice(other.encode_utf16(&mut [0; 2]));
                continue;
            }
            None => continue,
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_java_reads_them() {
        let text = "# comment\n! comment\n\n  a = 1 \nb:2\nc 3\nd\ne=x\\\n   y\nf\\=g=h=i\nu=\\u4f60\\ud83d\\ude00\\t\\\\\nend=z\\";
        let expected = [
            ("a", "1 "),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "xy"),
            ("f=g", "h=i"),
            ("u", "你😀\t\\"),
            ("end", "z"),
        ];
        let found = parse(text).unwrap();
        let found: Vec<_> = found.iter().map(|property| (property.key.as_str(), property.value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        for text in ["a=1\n\nb=\\u12", "a=1\n\nb=\\uxyzw", "a=1\n\nb=\\u+123"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, ConfigError::Properties { line: 3, .. }), "{error}");
        }
    }
}
