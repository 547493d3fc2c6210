//! How groups want to get the messages of a topic: by pulls, or by pops (401).
//!
//! The tables' core holds the table, stores it and publishes it to every core; a change is answered when it is stored
//! and in force on all of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use remoting::body::pop::{MessageRequestModes, SetMessageRequestMode};
use remoting::code::ResponseCode;
use remoting::json;
use remoting::text::Text;
use runtime::table_file;

use crate::call::Refusal;
use crate::core::Core;
use crate::group::Batches;
use crate::placement::TABLES_CORE;
use crate::table_path::{TableError, TableFile, read_table};

const FILE: TableFile = TableFile::REQUEST_MODES;

/// Modes by topic and group.
type Modes = BTreeMap<Text, BTreeMap<Text, SetMessageRequestMode>>;

#[derive(Default)]
pub(crate) struct RequestModes {
    modes: RefCell<Arc<Modes>>,
    /// On the tables' core only, as are the others.
    changes: Batches<SetMessageRequestMode>,
    /// Of the newest file.
    generation: Cell<u64>,
}

impl RequestModes {
    pub(crate) fn get(&self, topic: &str, group: &str) -> Option<SetMessageRequestMode> {
        self.modes.borrow().get(topic)?.get(group).cloned()
    }

    pub(crate) fn to_body(&self) -> MessageRequestModes {
        MessageRequestModes { message_request_mode_map: Modes::clone(&self.modes.borrow()) }
    }
}

/// Reads the stored table and publishes it; on the tables' core, before the first request.
///
/// # Errors
/// When the file is there and cannot be used.
pub(crate) async fn load(core: &Rc<Core>) -> Result<(), TableError> {
    let path = FILE.path(&core.config());
    let Some(stored) = read_table(&path, FILE).await? else { return Ok(()) };
    let table: MessageRequestModes =
        json::decode(stored.text.as_bytes()).map_err(|error| TableError::of_content(&path, FILE, &error))?;
    core.pops.request_modes.generation.set(stored.generation);
    publish(core, table.message_request_mode_map).await;
    Ok(())
}

/// Sets a mode, and waits until it is stored and in force everywhere. Any core may ask.
///
/// # Errors
/// When it cannot be stored; nothing is changed then.
pub(crate) async fn set(core: &Rc<Core>, mode: SetMessageRequestMode) -> Result<(), Refusal> {
    let mode =
        SetMessageRequestMode { consumer_group: mode.consumer_group.detached(), topic: mode.topic.detached(), ..mode };
    core.on(TABLES_CORE, |core| async move {
        let working = core.clone();
        core.pops.request_modes.changes.submit(mode, || runtime::spawn_background(work(working))).await
    })
    .await
}

async fn work(core: Rc<Core>) {
    let modes = &core.pops.request_modes;
    while let Some((wanted, batch)) = modes.changes.take() {
        let mut draft = Modes::clone(&modes.modes.borrow());
        for mode in wanted {
            draft.entry(mode.topic.clone()).or_default().insert(mode.consumer_group.clone(), mode);
        }
        let outcome = store(&core, &draft).await;
        match &outcome {
            Ok(()) => publish(&core, draft).await,
            Err(refusal) => crate::log::warn(format_args!("{}", refusal.remark)),
        }
        batch.finish(&outcome);
    }
}

async fn store(core: &Rc<Core>, modes: &Modes) -> Result<(), Refusal> {
    let path: PathBuf = FILE.path(&core.config());
    let generation = core.pops.request_modes.generation.get() + 1;
    let text = json::encode(&MessageRequestModes { message_request_mode_map: modes.clone() });
    let to = path.clone();
    let written = runtime::blocking(move || {
        table_file::write(&to, generation, std::str::from_utf8(&text).expect("JSON is UTF-8"))
    });
    if let Err(error) = written.await {
        let remark = format!("request modes cannot be stored in {}: {error}; nothing was changed", path.display());
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    core.pops.request_modes.generation.set(generation);
    Ok(())
}

async fn publish(core: &Rc<Core>, modes: Modes) {
    let modes = Arc::new(modes);
    core.on_each(move |core| {
        let modes = modes.clone();
        async move {
            core.pops.request_modes.modes.replace(modes);
        }
    })
    .await;
}
