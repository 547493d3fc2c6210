//! "Did you mean …?": the known name nearest to a wrong one.

/// The name of `known` with the fewest letters to change, if that is at most a third of the letters (two for short
/// names). Capitals do not count, since a wrong capital is the commonest mistake; of equally near names the one that
/// goes on where the wrong one ends is meant.
pub(super) fn nearest<'k>(wrong: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let wrong = wrong.to_ascii_lowercase();
    let limit = (wrong.chars().count() / 3).max(2);
    let (distance, name) = known
        .map(|name| (edit_distance(&wrong, &name.to_ascii_lowercase()), name))
        .min_by_key(|(distance, name)| (*distance, !name.to_ascii_lowercase().starts_with(&wrong)))?;
    (distance <= limit).then_some(name)
}

/// How many letters must be inserted, removed or replaced to make `b` of `a`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("same", "same", 0),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["brokerId", "brokerIP1", "listenPort", "brokerName"];
        for (wrong, name) in [
            ("brokerIp1", Some("brokerIP1")),
            ("brokerIP", Some("brokerIP1")),
            ("listenport", Some("listenPort")),
            ("lisenPrt", Some("listenPort")),
            ("somethingElse", None),
            ("x", None),
        ] {
            assert_eq!(nearest(wrong, known.into_iter()), name, "{wrong}");
        }
    }
}
