//! What processes and the machine used, read from `/proc`.

use std::fs;
use std::io;

/// CPU times in `/proc` count in ticks of this length on every architecture of Linux that matters.
const TICK_US: u64 = 10_000;

/// CPU time of a process, in user and kernel, its ended threads included.
pub(crate) fn cpu_us(process: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold anything; what follows is the state and then numbers.
    let numbers = text.rsplit_once(')').map_or("", |(_, numbers)| numbers);
    let mut numbers = numbers.split_ascii_whitespace().skip(11).map_while(|text| text.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(user), Some(system)) => Ok((user + system) * TICK_US),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its stat file is in no known form")),
    }
}

/// Memory of a process at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Mapped files count in here.
    pub(crate) resident_bytes: u64,
    pub(crate) anonymous_bytes: u64,
}

impl Memory {
    pub(crate) fn of(process: &str) -> io::Result<Memory> {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
        };
        Ok(Memory { resident_bytes: kib("VmRSS:") << 10, anonymous_bytes: kib("RssAnon:") << 10 })
    }

    pub(crate) fn max(self, other: Memory) -> Memory {
        Memory {
            resident_bytes: self.resident_bytes.max(other.resident_bytes),
            anonymous_bytes: self.anonymous_bytes.max(other.anonymous_bytes),
        }
    }
}

/// CPU time that all of the machine used: busy, and taken by its host.
pub(crate) fn machine_cpu_us() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or("").trim_start_matches("cpu");
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0) * TICK_US;
    // user, nice, system, idle, iowait, irq, softirq, steal
    (at(0) + at(1) + at(2) + at(5) + at(6), at(7))
}

/// What was used up to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    at_ns: u64,
    messages: u64,
    own_us: u64,
    server_us: Option<u64>,
    machine_us: u64,
    steal_us: u64,
}

impl Snapshot {
    /// `messages` are those that were answered so far.
    pub(crate) fn take(at_ns: u64, messages: u64, server_pid: Option<u32>) -> Snapshot {
        let (machine_us, steal_us) = machine_cpu_us();
        let own_us = cpu_us("self").unwrap_or(0);
        let server_us = server_pid.and_then(|pid| cpu_us(&pid.to_string()).ok());
        Snapshot { at_ns, messages, own_us, server_us, machine_us, steal_us }
    }

    pub(crate) fn until(&self, later: &Snapshot) -> Usage {
        let span_us = (later.at_ns.saturating_sub(self.at_ns) / 1000).max(1) as f64;
        let own_us = later.own_us.saturating_sub(self.own_us) as f64;
        let server_us = self.server_us.zip(later.server_us).map(|(from, to)| to.saturating_sub(from) as f64);
        let machine_us = later.machine_us.saturating_sub(self.machine_us) as f64;
        let messages = later.messages.saturating_sub(self.messages);
        let a_message = |us: f64| (messages > 0).then(|| us / messages as f64);
        Usage {
            generator_us_per_message: a_message(own_us),
            generator_cores: own_us / span_us,
            server_us_per_message: server_us.and_then(a_message),
            server_cores: server_us.map(|us| us / span_us),
            other_cores: ((machine_us - own_us - server_us.unwrap_or(0.0)) / span_us).max(0.0),
            steal_cores: later.steal_us.saturating_sub(self.steal_us) as f64 / span_us,
        }
    }
}

/// CPU between two moments. That of a message is not known where there was none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) generator_us_per_message: Option<f64>,
    pub(crate) generator_cores: f64,
    pub(crate) server_us_per_message: Option<f64>,
    pub(crate) server_cores: Option<f64>,
    /// Everything else on the machine; the server too when its process is not known.
    pub(crate) other_cores: f64,
    pub(crate) steal_cores: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_measured() {
        let memory = Memory::of("self").unwrap();
        assert!(memory.resident_bytes > memory.anonymous_bytes && memory.anonymous_bytes > 0);
        let before = cpu_us("self").unwrap();
        let mut random = base::Random::new(1);
        while cpu_us("self").unwrap() < before + 2 * TICK_US {
            random.next_u64();
        }
        assert!(cpu_us("0").is_err());
    }

    #[test]
    fn usage_is_shared_among_the_messages_between() {
        let from = Snapshot { at_ns: 0, messages: 10, own_us: 0, server_us: Some(0), machine_us: 100, steal_us: 0 };
        let to = Snapshot {
            at_ns: 1_000_000_000,
            messages: 110,
            own_us: 100_000,
            server_us: Some(500_000),
            machine_us: 900_100,
            steal_us: 50_000,
        };
        let usage = from.until(&to);
        assert_eq!((usage.generator_us_per_message, usage.server_us_per_message), (Some(1000.0), Some(5000.0)));
        let none = from.until(&Snapshot { messages: 10, ..to });
        assert_eq!((none.generator_us_per_message, none.server_us_per_message), (None, None));
        assert!((usage.other_cores - 0.3).abs() < 1e-9 && (usage.steal_cores - 0.05).abs() < 1e-9);
    }
}
