//! The dependency direction, read from the manifests.

use toml::{Table, Value};

use super::CRATES;
use crate::steps::Findings;

/// Crates of the outside world that only `runtime` may name.
const RUNTIME_ONLY: [&str; 4] = ["glommio", "io-uring", "libc", "nix"];

/// Which of our crates a crate may use. None: any.
fn allowed(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "base" | "xtask" => Some(&[]),
        "runtime" | "remoting" => Some(&["base"]),
        "transport" | "storage" => Some(&["base", "runtime", "remoting"]),
        // It measures from outside: it links neither broker nor storage.
        "bench" => Some(&["base", "runtime", "remoting", "transport", "client"]),
        "namesrv" | "client" => Some(&["base", "runtime", "remoting", "transport"]),
        "broker" => Some(&["base", "runtime", "remoting", "transport", "storage"]),
        "import" => Some(&["base", "runtime", "remoting", "storage", "broker"]),
        "tests" => Some(&["base", "runtime", "remoting", "client"]),
        _ => None,
    }
}

/// Checks one crate's manifest.
pub(super) fn check(name: &str, text: &str, findings: &mut Findings) -> Result<(), String> {
    let manifest: Table = text.parse().map_err(|error| format!("tidy: {name}/Cargo.toml: {error}"))?;
    for (section, dependency) in dependencies(&manifest) {
        let ours = CRATES.iter().find(|ours| dependency == **ours || dependency == format!("ringmq-{ours}"));
        if let (Some(ours), Some(allowed)) = (ours, allowed(name))
            && !allowed.contains(ours)
        {
            let may = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
            findings.complaints.push(format!("{name}/Cargo.toml: [{section}] {ours}: {name} may use {may}"));
        }
        if name != "runtime" && RUNTIME_ONLY.contains(&dependency.as_str()) {
            findings.complaints.push(format!("{name}/Cargo.toml: [{section}] {dependency}: only runtime may name it"));
        }
    }
    let lints = manifest.get("lints");
    // `runtime` may contain `unsafe`, so it repeats the workspace's lints without that one.
    let linted = if name == "runtime" {
        lints.is_some()
    } else {
        lints.and_then(|lints| lints.get("workspace")) == Some(&Value::Boolean(true))
    };
    if !linted {
        findings.complaints.push(format!("{name}/Cargo.toml: `[lints] workspace = true` is missing"));
    }
    Ok(())
}

/// The crates of the workspace; one without a rule is a complaint.
pub(super) fn members(text: &str, findings: &mut Findings) -> Result<Vec<String>, String> {
    let manifest: Table = text.parse().map_err(|error| format!("tidy: Cargo.toml: {error}"))?;
    let members = manifest.get("workspace").and_then(|workspace| workspace.get("members")).and_then(Value::as_array);
    let names: Vec<String> = members.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if names.is_empty() {
        return Err("tidy: Cargo.toml: no workspace members".to_owned());
    }
    for name in names.iter().filter(|name| !CRATES.contains(&name.as_str())) {
        findings
            .complaints
            .push(format!("Cargo.toml: tidy knows no crate {name}: say in xtask/src/tidy what it may use"));
    }
    Ok(names)
}

/// Section and name of every dependency, whatever the target; a renamed one by its true name.
fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    for table in std::iter::once(manifest).chain(tables) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
                let true_name = value.get("package").and_then(Value::as_str).unwrap_or(name);
                found.push((section.to_owned(), true_name.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(name, &format!("{text}\n[lints]\nworkspace = true\n"), &mut findings).unwrap();
        findings.complaints
    }

    #[test]
    fn the_direction_holds_in_every_section() {
        assert!(complaints("broker", "[dependencies]\nstorage.workspace = true\nserde = '1'").is_empty());
        assert!(complaints("cli", "[dependencies]\nbroker.workspace = true").is_empty());
        for (name, text) in [
            ("storage", "[dependencies]\nbroker.workspace = true"),
            ("storage", "[dev-dependencies]\ntransport = { path = '../transport', package = 'ringmq-transport' }"),
            ("remoting", "[dependencies]\nruntime.workspace = true"),
            ("broker", "[dependencies]\nlibc.workspace = true"),
            ("broker", "[dependencies]\nc = { version = '1', package = 'libc' }"),
            ("base", "[target.'cfg(unix)'.dependencies]\nnix = '1'"),
        ] {
            assert_eq!(complaints(name, text).len(), 1, "{name}: {text}");
        }
    }
}
