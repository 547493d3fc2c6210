//! Lines for operators, on stderr: one line a fact, written where it is handled.

use std::fmt::Arguments;

use runtime::console;

/// Something that happened and needs nobody.
pub(crate) fn note(line: Arguments<'_>) {
    console::tell(format_args!("ringmq: {line}"));
}

/// Something that an operator should look at; the line says what to do.
pub(crate) fn warn(line: Arguments<'_>) {
    console::tell(format_args!("ringmq: warning: {line}"));
}
