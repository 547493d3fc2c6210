//! The machine that a run was made on, as far as it changes figures. Read from `/proc` and `/sys`; what is not there is null.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Facts for `run.json`. `store` is a folder on the device that matters.
pub(crate) fn describe(store: Option<&Path>) -> Value {
    let cpu = "/sys/devices/system/cpu";
    json!({
        "name": runtime::process::host_name(),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": cpu_model(),
        "cpus": runtime::process::cpu_count(),
        "cpus_online": read(&format!("{cpu}/online")),
        "numa_nodes": read("/sys/devices/system/node/online"),
        "governor": read(&format!("{cpu}/cpu0/cpufreq/scaling_governor")),
        "smt": read(&format!("{cpu}/smt/control")),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "memory_bytes": runtime::process::memory_bytes_total(),
        "huge_pages": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "virtual": read("/sys/class/dmi/id/product_name"),
        "load_average": read("/proc/loadavg"),
        "limits": limits(),
        "store": store.map(device),
    })
}

/// What of the machine makes figures less certain, before anything runs.
pub(crate) fn warnings(host: &Value, broker_is_here: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(governor) = host["governor"].as_str().filter(|governor| *governor != "performance") {
        warnings.push(format!(
            "the CPU governor is {governor}: clocks change while it is measured (performance keeps them)"
        ));
    }
    if broker_is_here {
        warnings.push("generator and broker share this machine: each takes CPU from the other".to_owned());
    }
    if host["store"]["file_system"].as_str().is_some_and(|kind| ["tmpfs", "overlay", "ramfs"].contains(&kind)) {
        warnings.push("the store lies on no disk: figures of flushes mean nothing".to_owned());
    }
    warnings
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The word in brackets.
fn chosen(path: &str) -> Option<String> {
    let text = read(path)?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name").or_else(|| value("CPU part"))
}

/// Of this process, the soft ones.
fn limits() -> Value {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    json!({"open_files": limit("Max open files"), "locked_memory": limit("Max locked memory")})
}

/// Where a folder lies: file system and block device.
fn device(folder: &Path) -> Value {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts.lines().filter_map(Mount::read).filter(|mount| folder.starts_with(mount.point));
    // The deepest mount point is the one that counts, and of those at the same place the last.
    let Some(mount) = mount.max_by_key(|mount| mount.point.len()) else { return Value::Null };
    let block = format!("/sys/dev/block/{}", mount.device);
    // A partition's queue is its disk's.
    let disk = if Path::new(&format!("{block}/queue")).exists() { block } else { format!("{block}/..") };
    json!({
        "folder": folder.display().to_string(),
        "file_system": mount.kind,
        "options": mount.options,
        "device": mount.source,
        "model": read(&format!("{disk}/device/model")),
        "rotational": read(&format!("{disk}/queue/rotational")),
        "scheduler": chosen(&format!("{disk}/queue/scheduler")),
        "write_cache": read(&format!("{disk}/queue/write_cache")),
        "requests": read(&format!("{disk}/queue/nr_requests")),
    })
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    device: &'a str,
    point: &'a str,
    options: &'a str,
    kind: &'a str,
    source: &'a str,
}

impl Mount<'_> {
    fn read(line: &str) -> Option<Mount<'_>> {
        // id, parent, device, root, mount point, options, optional fields, "-", type, source, options of the super block
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let device = front.next()?;
        let (point, options) = (front.nth(1)?, front.next()?);
        let mut back = back.split(' ');
        Some(Mount { device, point, options, kind: back.next()?, source: back.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_whatever_optional_fields_it_has() {
        for optional in ["", "shared:1 ", "shared:1 master:2 "] {
            let line = format!("36 35 98:0 /mnt1 /mnt2 rw,noatime {optional}- ext3 /dev/root rw,errors=continue");
            let (device, point, options) = ("98:0", "/mnt2", "rw,noatime");
            let expected = Mount { device, point, options, kind: "ext3", source: "/dev/root" };
            assert_eq!(Mount::read(&line), Some(expected), "{line}");
        }
        assert_eq!(Mount::read("nonsense"), None);
    }

    #[test]
    fn this_machine_is_described() {
        let host = describe(Some(&std::env::temp_dir()));
        assert!(host["kernel"].is_string() && host["cpus"].as_u64() > Some(0), "{host:#}");
        assert!(host["store"]["file_system"].is_string(), "{host:#}");
        assert!(host["limits"]["open_files"].is_string(), "{host:#}");
    }

    #[test]
    fn warnings_come_from_what_is_known() {
        let quiet = json!({"governor": null, "store": {"file_system": "ext4"}});
        assert_eq!(warnings(&quiet, false).len(), 0);
        let noisy = json!({"governor": "powersave", "store": {"file_system": "tmpfs"}});
        assert_eq!(warnings(&noisy, true).len(), 3);
    }
}
