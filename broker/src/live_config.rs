//! The owner of the configuration while the broker runs, on the tables' core.
//!
//! An update is checked as a whole, written to the file it came from, put in force on every core, and then answered.
//! One that cannot be written changes nothing.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Millis;
use remoting::body::topic::DataVersion;
use remoting::code::ResponseCode;
use runtime::clock;
use runtime::sync::Notify;

use crate::call::Refusal;
use crate::config::{Config, FileFormat, Settings, UpdateRefused, apply_update, rewrite_file};
use crate::core::Core;

/// How long an update of the broker's permission waits for the nameservers to know of it.
const REGISTRATION_WAIT_MAX: Duration = Duration::from_secs(1);

/// The file that a configuration came from.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
}

/// What an update did, for the one who asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Updated {
    /// Keys that are kept, and act from the next start on.
    pub(crate) needs_restart: Vec<String>,
    /// Names that are no keys.
    pub(crate) ignored: Vec<String>,
}

/// The configuration as texts, with the data version that tools see.
pub(crate) struct ConfigOwner {
    settings: RefCell<Settings>,
    file: Option<ConfigFile>,
    version: Cell<DataVersion>,
    /// An update is under way: the next one waits.
    busy: Cell<bool>,
    turn: Notify,
}

impl ConfigOwner {
    /// `settings` are those that the broker was started with. Without a file updates last until the next start.
    pub(crate) fn new(settings: Settings, file: Option<ConfigFile>) -> Rc<ConfigOwner> {
        Rc::new(ConfigOwner {
            settings: RefCell::new(settings),
            file,
            version: Cell::default(),
            busy: Cell::new(false),
            turn: Notify::new(),
        })
    }

    /// Every key with its value, a `key=value` line each.
    pub(crate) fn text(&self) -> String {
        self.settings.borrow().text_all()
    }

    pub(crate) fn version(&self) -> DataVersion {
        self.version.get()
    }

    /// Applies a text of `key=value` lines, as a whole or not at all.
    pub(crate) async fn update(&self, core: &Rc<Core>, text: &str) -> Result<Updated, Refusal> {
        while self.busy.replace(true) {
            self.turn.notified().await;
        }
        let updated = self.update_alone(core, text).await;
        self.busy.set(false);
        self.turn.notify();
        updated
    }

    async fn update_alone(&self, core: &Rc<Core>, text: &str) -> Result<Updated, Refusal> {
        let mut candidate = self.settings.borrow().clone();
        let update = apply_update(&mut candidate, text).map_err(|refusal| refused(&refusal))?;
        for name in &update.ignored {
            crate::log::warn(format_args!(
                "an update of the configuration names {name}, which is no key; it is ignored"
            ));
        }
        if !update.changed.is_empty() {
            self.write_file(&update.changed).await?;
            *self.settings.borrow_mut() = candidate;
            self.put_in_force(core, update.config).await;
            let names: Vec<&str> = update.changed.iter().map(|(name, _)| name.as_str()).collect();
            crate::log::note(format_args!("configuration updated: {}", names.join(", ")));
        }
        Ok(Updated { needs_restart: update.needs_restart, ignored: update.ignored })
    }

    async fn put_in_force(&self, core: &Rc<Core>, config: Config) {
        let permission = config.registration.permission;
        let permission_changed = core.config().registration.permission != permission;
        let config = Arc::new(config);
        core.on_each(move |core| {
            let config = config.clone();
            async move { core.set_config(&config) }
        })
        .await;
        let version = self.version.get();
        let Millis(now_ms) = clock::now_ms();
        let timestamp = i64::try_from(now_ms).unwrap_or(i64::MAX);
        self.version.set(DataVersion { counter: version.counter + 1, timestamp, ..version });
        if permission_changed {
            let tables = core.tables();
            tables.topics.renew_version();
            let ticket = tables.registration.set_permission(i32::from(permission.0));
            let registration = tables.registration.clone();
            // Late is no failure: the permission is in force here, and the registration goes on.
            let _ = clock::within(REGISTRATION_WAIT_MAX, registration.reached(ticket)).await;
        }
    }

    async fn write_file(&self, changed: &[(String, String)]) -> Result<(), Refusal> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let path = file.path.clone();
        let changed = changed.to_vec();
        runtime::blocking(move || rewrite(&file, &changed)).await.map_err(|error| {
            let remark =
                format!("the configuration file {} cannot be updated: {error}; nothing was changed", path.display());
            crate::log::warn(format_args!("{remark}"));
            Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
        })
    }
}

fn refused(refusal: &UpdateRefused) -> Refusal {
    let code = match refusal {
        UpdateRefused::Forbidden { .. } => ResponseCode::NO_PERMISSION,
        UpdateRefused::Invalid { .. } => ResponseCode::SYSTEM_ERROR,
    };
    Refusal::new(code, refusal.to_string())
}

/// Puts the values into the file; what it was before stays beside it as `.bak`.
fn rewrite(file: &ConfigFile, changed: &[(String, String)]) -> io::Result<()> {
    let old = fs::read_to_string(&file.path)?;
    let new = rewrite_file(&old, file.format, changed).map_err(io::Error::other)?;
    replace(&with_suffix(&file.path, ".bak"), &old)?;
    replace(&file.path, &new)
}

/// Replaces a file as a whole; a crash leaves the old one or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = with_suffix(path, ".new");
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    fs::rename(&fresh, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    runtime::file::sync_folder(folder.unwrap_or(Path::new(".")))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use runtime::file::TempFolder;

    use super::*;

    #[test]
    fn the_file_is_rewritten_and_the_old_one_kept() {
        let folder = TempFolder::new("live-config");
        let path = folder.path().join("broker.conf");
        let old = "# mine\nmaxMessageSize=65536\nbrokerName=a\n";
        fs::write(&path, old).unwrap();
        let file = ConfigFile { path: path.clone(), format: FileFormat::Properties };
        rewrite(&file, &[("maxMessageSize".to_owned(), "70000".to_owned())]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nmaxMessageSize=70000\nbrokerName=a\n");
        assert_eq!(fs::read_to_string(folder.path().join("broker.conf.bak")).unwrap(), old);
        fs::remove_file(&path).unwrap();
        assert!(rewrite(&file, &[]).is_err(), "a file that is gone is not made anew");
    }

    #[test]
    fn refusals_have_the_codes_that_tools_know() {
        let forbidden = UpdateRefused::Forbidden { key: "storePathRootDir".to_owned() };
        assert_eq!(refused(&forbidden).code, ResponseCode::NO_PERMISSION);
        let invalid = UpdateRefused::Invalid { what: "no".to_owned() };
        assert_eq!(refused(&invalid), Refusal::new(ResponseCode::SYSTEM_ERROR, "no"));
    }
}
