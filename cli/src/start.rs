//! What all servers of this program do before they serve, and how they fail at it.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use runtime::console;
use runtime::process::StopSignal;

use crate::failure::{Exit, Failure};

/// A stop that SIGTERM and SIGINT ask for, and as many open files as the process may have. To be called before any
/// thread is started.
pub(crate) fn stop_signal() -> Result<Arc<StopSignal>, Failure> {
    let stop = StopSignal::new();
    runtime::process::stop_on_signals(stop.clone()).map_err(system_failure("wait for signals"))?;
    if let Err(error) = runtime::process::raise_open_files_limit() {
        print_warnings([format!("the limit of open files cannot be raised: {error}")]);
    }
    Ok(stop)
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::new(Exit::Configuration, format!("cannot read the configuration {}: {error}", path.display()))
            .with_fix("name a file that exists and that this user may read with -c")
    })
}

pub(crate) fn print_warnings(warnings: impl IntoIterator<Item = impl Display>) {
    for warning in warnings {
        console::tell(format_args!("warning: {warning}"));
    }
}

/// A call that only a machine or container that is not fit refuses.
pub(crate) fn system_failure(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        Failure::new(Exit::HostUnfit, format!("cannot {what}: {error}")).with_fix(
            "allow io_uring (sysctl kernel.io_uring_disabled=0, the container's seccomp profile), raise ulimit -l",
        )
    }
}

/// `setting` names what chooses the address.
pub(crate) fn listen_failure(address: SocketAddr, setting: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failure, format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.with_fix(format!("stop the process that listens there, or choose another address with {setting}"))
        }
        io::ErrorKind::AddrNotAvailable => {
            failure.with_fix(format!("no interface has that address; choose another with {setting}"))
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_says_what_to_do() {
        let address = "127.0.0.1:9876".parse().expect("an address");
        let failure = listen_failure(address, "--listen", &io::Error::from(io::ErrorKind::AddrInUse));
        assert!(failure.fix.expect("a fix").ends_with("choose another address with --listen"));
        assert!(failure.cause.starts_with("cannot listen on 127.0.0.1:9876: "), "{}", failure.cause);
    }

    #[test]
    fn a_missing_file_is_a_configuration_error() {
        let failure = read_file(Path::new("/no/such/file")).expect_err("no file");
        assert_eq!(failure.exit, Exit::Configuration);
    }
}
