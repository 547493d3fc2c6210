//! What may not stand in a source file.
//!
//! A line scanner, not a parser: it knows comments and strings well enough for code that rustfmt has laid out.

use crate::steps::Findings;

/// Beyond it a file is refused: it has more than one noun in it.
const LINES_MAX: usize = 800;
/// Beyond it a file is listed as a note.
const LINES_COMFORTABLE: usize = 450;
/// Crates whose state belongs to one core.
const LOCK_FREE: [&str; 3] = ["broker/src/", "storage/src/", "namesrv/src/"];
const LOCKS: [&str; 5] = ["Mutex", "RwLock", "DashMap", "SkipMap", "ConcurrentHashMap"];

/// Checks one file, given by its path in the workspace.
pub(super) fn check(path: &str, text: &str, findings: &mut Findings) {
    let line_count = text.lines().count();
    if line_count > LINES_MAX {
        findings.complaints.push(format!("{path}: {line_count} lines, {LINES_MAX} are allowed"));
    } else if line_count > LINES_COMFORTABLE {
        findings.notes.push(format!("{path}: {line_count} lines"));
    }
    if path.starts_with("xtask/src/tidy/") {
        return; // These files name what they look for.
    }
    // The tests of a file, moved out of it, need no doc of their own.
    let moved_tests = path.ends_with("/tests.rs") || path.ends_with("_tests.rs");
    if !text.starts_with("//!") && !text.starts_with("#!") && !moved_tests {
        findings.complaints.push(format!("{path}:1: a file begins with its module doc"));
    }
    let test_file = path.starts_with("tests/") || path.contains("/tests/") || moved_tests;
    let mut in_test_module = false;
    for (number, line) in (1..).zip(text.lines()) {
        // By convention the test module is the last item of a file.
        in_test_module |= line.trim_start().starts_with("#[cfg(test)]");
        for complaint in complaints(path, line, test_file || in_test_module) {
            findings.complaints.push(format!("{path}:{number}: {complaint}: {}", line.trim()));
        }
    }
}

fn complaints(path: &str, line: &str, test: bool) -> Vec<String> {
    let mut found = Vec::new();
    let (code, comment) = split_comment(line);
    let bare = without_strings(code);
    for word in ["TODO", "FIXME", "XXX:"] {
        if comment.contains(word) {
            found.push(format!("a note to oneself ({word})"));
        }
    }
    for call in ["todo!(", "unimplemented!("] {
        if bare.contains(call) {
            found.push(format!("unfinished code ({call})"));
        }
    }
    if bare.contains("#[ignore") {
        found.push("an ignored test".to_owned());
    }
    if has_word(&bare, "unsafe") && !path.starts_with("runtime/") {
        found.push("`unsafe` outside of runtime".to_owned());
    }
    if bare.contains(".unwrap()") && !test {
        found.push("`.unwrap()` outside of tests: use `expect` with the reason, or return an error".to_owned());
    }
    if LOCK_FREE.iter().any(|folder| path.starts_with(folder)) {
        for lock in LOCKS.iter().filter(|lock| has_word(&bare, lock)) {
            found.push(format!("{lock}: state belongs to one core, which needs no lock"));
        }
    }
    if !test {
        found.extend(machine_paths(line));
    }
    found
}

/// Checks a file of another kind: only its paths.
pub(super) fn check_paths(path: &str, text: &str, findings: &mut Findings) {
    for (number, line) in (1..).zip(text.lines()) {
        findings.complaints.extend(machine_paths(line).map(|complaint| format!("{path}:{number}: {complaint}")));
    }
}

/// Absolute paths that exist on one machine only.
fn machine_paths(line: &str) -> impl Iterator<Item = String> {
    let named = ["/home/", "/Users/", "/root/", "/work/", "/tmp/target"].into_iter().filter(move |folder| {
        // The beginning of an absolute path: before it stands no other part of a path.
        line.match_indices(folder).any(|(index, _)| {
            !line[..index].ends_with(|before: char| before.is_alphanumeric() || "._-/~".contains(before))
        })
    });
    named.map(|folder| format!("a path of somebody's machine ({folder})"))
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(index, _)| {
        !text[..index].ends_with(part_of_name) && !text[index + word.len()..].starts_with(part_of_name)
    })
}

/// Code and comment of a line: the comment begins at the first `//` outside of a string.
fn split_comment(line: &str) -> (&str, &str) {
    let mut in_string = false;
    let mut before = '\0';
    for (index, character) in line.char_indices() {
        match character {
            '"' if before != '\\' && !(before == '\'' && line[index + 1..].starts_with('\'')) => in_string = !in_string,
            '/' if !in_string && line[index..].starts_with("//") => return line.split_at(index),
            _ => {}
        }
        before = if before == '\\' { '\0' } else { character };
    }
    (line, "")
}

/// The code with the contents of its strings removed.
fn without_strings(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut in_string = false;
    let mut before = '\0';
    for character in code.chars() {
        if character == '"' && before != '\\' {
            in_string = !in_string;
        }
        if !in_string {
            kept.push(character);
        }
        before = if before == '\\' { '\0' } else { character };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_fault_and_nothing_else() {
        let home = concat!("/ho", "me/somebody/x");
        for (path, line, count) in [
            ("broker/src/a.rs", "let x = y.unwrap();", 1),
            ("broker/src/a.rs", "let x = y.unwrap_or(0);", 0),
            ("broker/src/a.rs", "let x = \"a.unwrap() in a text\";", 0),
            ("broker/src/a.rs", "    // TODO: later", 1),
            ("broker/src/a.rs", "    /// todos are listed here", 0),
            ("broker/src/a.rs", "use std::sync::Mutex;", 1),
            ("broker/src/a.rs", "struct MutexLike;", 0),
            ("broker/src/a.rs", "/// No Mutex is needed.", 0),
            ("runtime/src/a.rs", "use std::sync::Mutex;", 0),
            ("runtime/src/a.rs", "unsafe { f() }", 0),
            ("storage/src/a.rs", "unsafe { f() }", 1),
            ("storage/src/a.rs", "#![deny(unsafe_code)]", 0),
            ("storage/src/a.rs", "    todo!()", 1),
            ("client/src/a.rs", "#[ignore = \"slow\"]", 1),
            ("client/src/a.rs", "let url = \"http://a/b\"; let x = y.unwrap();", 1),
        ] {
            assert_eq!(complaints(path, line, false).len(), count, "{path}: {line}");
        }
        assert_eq!(complaints("cli/src/a.rs", &format!("let p = \"{home}\";"), false).len(), 1);
        assert_eq!(complaints("cli/src/a.rs", &format!("// the folder ..{home}"), false).len(), 0);
        assert!(complaints("broker/src/a.rs", "let x = y.unwrap();", true).is_empty());
    }

    #[test]
    fn long_files_are_refused_and_longish_ones_noted() {
        for (lines, complaint_count, note_count) in [(450, 0, 0), (451, 0, 1), (800, 0, 1), (801, 1, 0)] {
            let mut findings = Findings::default();
            check("base/src/a.rs", &format!("//! Doc.\n{}", "\n".repeat(lines - 1)), &mut findings);
            assert_eq!((findings.complaints.len(), findings.notes.len()), (complaint_count, note_count), "{lines}");
        }
    }
}
