//! Where the jars of Apache RocketMQ come from: a distribution on this machine, or Maven.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BenchError;

/// What Maven is asked for: broker and nameserver with all they need.
const POM: &str = include_str!("../../apache/pom.xml");
/// The folder below the user's cache that Maven fills.
const CACHE_NAME: &str = "ringmq/apache-rocketmq-5.4.0";
/// The file that says that it is all there.
const COMPLETE: &str = "complete";
const BROKER_JAR: &str = "rocketmq-broker-";

/// The folder with the jars: of the distribution or folder that is given, else of `ROCKETMQ_HOME`, else those that Maven
/// fetches the first time.
///
/// # Errors
/// When they are not there, with what would bring them.
pub(super) fn find(given: Option<&Path>) -> Result<PathBuf, BenchError> {
    let home = || std::env::var_os("ROCKETMQ_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match given.map(Path::to_path_buf).or_else(home) {
        Some(folder) => of_distribution(&folder).ok_or_else(|| {
            let shown = folder.display();
            wrong(&format!(
                "no {BROKER_JAR}*.jar is in {shown} or {shown}/lib: name an unpacked distribution by --apache"
            ))
        }),
        None => fetched(),
    }
}

/// The version in the name of the broker's jar.
pub(super) fn version(jars: &Path) -> Option<String> {
    let names = fs::read_dir(jars).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let versions = names.filter_map(|name| Some(name.strip_prefix(BROKER_JAR)?.strip_suffix(".jar")?.to_owned()));
    versions.filter(|version| version.starts_with(|letter: char| letter.is_ascii_digit())).min()
}

fn of_distribution(folder: &Path) -> Option<PathBuf> {
    [folder.to_path_buf(), folder.join("lib")].into_iter().find(|folder| version(folder).is_some())
}

fn fetched() -> Result<PathBuf, BenchError> {
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => Path::new(&home).join(".cache"),
        _ => {
            return Err(wrong(
                "neither HOME nor XDG_CACHE_HOME says where a cache is: name a distribution by --apache",
            ));
        }
    };
    let folder = cache.join(CACHE_NAME);
    let jars = folder.join("lib");
    if !folder.join(COMPLETE).exists() {
        eprintln!("fetching Apache RocketMQ 5.4.0 into {}", folder.display());
        fetch(&folder, &jars).map_err(|error| wrong(&format!("{}: {error}", folder.display())))?;
    }
    Ok(jars)
}

fn fetch(folder: &Path, jars: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let pom = folder.join("pom.xml");
    fs::write(&pom, POM)?;
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(jars);
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom).arg("dependency:copy-dependencies").arg(output);
    let status = maven.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|error| {
        let hint = "install Maven, which fetches Apache RocketMQ (Debian: apt-get install maven), or name an unpacked \
                    distribution by --apache or ROCKETMQ_HOME";
        io::Error::new(error.kind(), format!("mvn cannot be started ({error}): {hint}"))
    })?;
    if !status.success() {
        return Err(io::Error::other(format!("mvn failed ({status}); what it said stands above")));
    }
    fs::write(folder.join(COMPLETE), "")
}

fn wrong(what: &str) -> BenchError {
    BenchError::Peer { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::file::TempFolder;

    #[test]
    fn a_distribution_is_known_by_its_brokers_jar() {
        let folder = TempFolder::new("jars");
        assert!(find(Some(folder.path())).unwrap_err().to_string().contains("--apache"));
        let lib = folder.path().join("lib");
        fs::create_dir(&lib).unwrap();
        for name in ["rocketmq-broker-5.4.0.jar", "rocketmq-broker-notes.txt", "rocketmq-common-9.jar"] {
            fs::write(lib.join(name), "").unwrap();
        }
        assert_eq!(find(Some(folder.path())).unwrap(), lib);
        assert_eq!((find(Some(&lib)).unwrap(), version(&lib)), (lib.clone(), Some("5.4.0".to_owned())));
    }
}
