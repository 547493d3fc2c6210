//! How a command ends: exit codes, and errors as a person reads them.

use std::io::{self, IsTerminal, Write};

use client::ClientError;
use remoting::code::ResponseCode;

/// Exit codes, the same for all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    Failure = 1,
    Usage = 2,
    Configuration = 3,
    /// No connection, or no answer in time.
    Unreachable = 4,
    /// Some brokers or messages failed, others did not.
    Partial = 5,
    /// This host lacks what the program needs.
    HostUnfit = 6,
    /// The store is in use, damaged, or not the one that was asked for.
    Store = 7,
}

/// What went wrong, with which value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Empty: nothing is left to be said.
    pub(crate) cause: String,
    pub(crate) fix: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, cause: impl Into<String>) -> Failure {
        Failure { exit, cause: cause.into(), fix: None }
    }

    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Failure {
        self.fix = Some(fix.into());
        self
    }

    /// Tells the person at the terminal. In colour only there, and not when `NO_COLOR` asks for none.
    pub(crate) fn print(&self) {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let mut out = io::stderr().lock();
        let text = self.text(out.is_terminal() && !plain);
        // Where even the error output is gone, the exit code still tells.
        let _ = out.write_all(text.as_bytes());
    }

    fn text(&self, coloured: bool) -> String {
        if self.cause.is_empty() {
            return String::new();
        }
        let (start, end) = if coloured { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let mut text = format!("{start}error:{end} {}\n", self.cause);
        if let Some(fix) = &self.fix {
            text.push_str(&format!("  fix: {fix}\n"));
        }
        text
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let exit = if error.is_silence() { Exit::Unreachable } else { Exit::Failure };
        let failure = Failure::new(exit, error.to_string());
        match fix_of(&error) {
            Some(fix) => failure.with_fix(fix),
            None => failure,
        }
    }
}

/// A reader that went away, such as `head`, is no error; anything else that cannot be written is.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(Exit::Ok, ""),
            _ => Failure::new(Exit::Failure, format!("the output cannot be written: {error}")),
        }
    }
}

fn fix_of(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Unreachable { what: "a nameserver", .. } => {
            Some("start one, or name the right one with -n HOST:PORT or NAMESRV_ADDR")
        }
        ClientError::Unreachable { .. } => {
            Some("check that the broker runs and that the address it registered (brokerIP1, listenPort) leads there")
        }
        ClientError::TimedOut { .. } | ClientError::Closed { .. } => {
            Some("try again; if it stays so, the log of that process says why")
        }
        ClientError::NoRoute { .. } => {
            Some("make it with updateTopic, send to it, or look with topicList how it is written")
        }
        ClientError::NoBroker { .. } | ClientError::NoQueue { .. } => Some("topicRoute -t TOPIC shows what there is"),
        ClientError::Refused { code: ResponseCode::CONSUMER_NOT_ONLINE, .. } => {
            Some("start a consumer of that group; consumerProgress -g works without one")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Attempt;

    #[test]
    fn errors_are_cause_and_fix() {
        let attempts = vec![Attempt { address: "h:1".to_owned(), error: "refused".to_owned() }];
        let failure = Failure::from(ClientError::Unreachable { what: "a nameserver", attempts });
        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(
            failure.text(false),
            "error: cannot reach a nameserver; tried h:1: refused\n  \
             fix: start one, or name the right one with -n HOST:PORT or NAMESRV_ADDR\n"
        );
        assert!(failure.text(true).starts_with("\x1b[1;31merror:\x1b[0m cannot"));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).text(false), "");
    }

    #[test]
    fn refusals_fail_and_silence_is_unreachable() {
        let refused = ClientError::NoRoute { topic: "T".to_owned() };
        assert_eq!(Failure::from(refused).exit, Exit::Failure);
        let closed = ClientError::Closed { address: "h:1".to_owned(), request: remoting::RequestCode::HEART_BEAT };
        assert_eq!(Failure::from(closed).exit, Exit::Unreachable);
    }
}
