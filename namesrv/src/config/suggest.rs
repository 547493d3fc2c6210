//! The key that somebody may have meant.

use super::SETTINGS;

/// Keys further away are no suggestion.
const EDITS_MAX: usize = 3;

/// The known key nearest to an unknown one, in letters that differ, whatever their case.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    let near = SETTINGS.iter().map(|setting| (edits(&setting.key.to_lowercase(), &key.to_lowercase()), setting.key));
    near.filter(|(edits, _)| *edits <= EDITS_MAX.min(key.len() / 2)).min().map(|(_, key)| key)
}

/// Letters to insert, remove or replace to get from one text to the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..other.len() {
            let replaced = diagonal + usize::from(letter != other[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_keys_are_suggested_and_far_ones_are_not() {
        for (key, expected) in [
            ("listenport", Some("listenPort")),
            ("listnPort", Some("listenPort")),
            ("kvConfigPaths", Some("kvConfigPath")),
            ("brokerClusterName", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(key), expected, "{key}");
        }
        assert_eq!((edits("", "abc"), edits("kitten", "sitting"), edits("a", "a")), (3, 3, 0));
    }
}
