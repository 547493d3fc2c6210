//! The file of all committed offsets, written by the tables' core from what the owners hand it.
//!
//! A write gathers what changed on every core since the last one, so that it costs no more than there is to say. It is
//! done each `flushConsumerOffsetInterval`, when the broker stops, and at once for what an operator asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::CoreId;
use remoting::body::consume::ConsumerOffsetTable;
use remoting::code::ResponseCode;
use remoting::text::Text;
use runtime::{clock, table_file};

use super::batches::Batches;
use super::offset_table::OffsetTable;
use super::offsets::TopicOffsets;
use super::queue_ends;
use crate::call::Refusal;
use crate::core::Core;
use crate::log::Repeated;
use crate::placement::TABLES_CORE;
use crate::table_path::{TableError, TableFile, read_table};

const FILE: TableFile = TableFile::OFFSETS;
/// The shortest time between two writes that nobody asked for.
const SAVE_PERIOD_MIN: Duration = Duration::from_millis(100);

/// Offsets of which a start tells that they were cut, one by one; the others are counted.
const CUTS_TOLD_MAX: usize = 20;

/// The offsets of all groups as they were gathered last; on the tables' core only.
#[derive(Default)]
pub(super) struct OffsetFile {
    table: RefCell<OffsetTable>,
    /// Of the newest file.
    generation: Cell<u64>,
    /// The file does not have all of the table.
    unwritten: Cell<bool>,
    saves: Batches<()>,
    saving: Repeated,
}

/// Reads the file and hands each group's offsets to its owner; on the tables' core, before the first request.
///
/// # Errors
/// When the file is there and cannot be used.
pub(crate) async fn load_offsets(core: &Rc<Core>) -> Result<(), TableError> {
    let path = FILE.path(&core.config());
    let Some(stored) = read_table(&path, FILE).await? else { return Ok(()) };
    let (mut table, senseless) =
        OffsetTable::parse(&stored.text).map_err(|error| TableError::of_content(&path, FILE, &error))?;
    for what in senseless {
        crate::log::warn(format_args!("{}: {what} makes no sense and is left out", path.display()));
    }
    let is_cut = cut_to_ends(core, &mut table).await;
    let mut by_owner: BTreeMap<CoreId, Vec<(Text, TopicOffsets)>> = BTreeMap::new();
    for (group, topics) in table.groups() {
        let owner = core.placement.core_of_group(group);
        by_owner.entry(owner).or_default().push((group.clone(), topics.clone()));
    }
    core.groups.offset_file.generation.set(stored.generation);
    core.groups.offset_file.unwritten.set(is_cut);
    *core.groups.offset_file.table.borrow_mut() = table;
    for (owner, groups) in by_owner {
        core.on(owner, |core| async move {
            for (name, topics) in groups {
                core.groups.change(&name, |group| {
                    for (topic, queues) in &topics {
                        group.offsets.put(topic, queues);
                    }
                    group.offsets.set_clean();
                });
            }
        })
        .await;
    }
    if is_cut {
        // Before anything is stored there. A failure is told, and the next write tries it again.
        let _ = persist_now(core).await;
    }
    Ok(())
}

/// Cuts offsets that lie behind the ends of their queues, where a loss of power took what was consumed: what is stored
/// there from now on would be passed over. True when there are any.
async fn cut_to_ends(core: &Rc<Core>, table: &mut OffsetTable) -> bool {
    let mut asked = Vec::new();
    for (group, topics) in table.groups() {
        for (topic, queues) in topics.iter().filter(|(topic, _)| core.topics.contains(topic)) {
            asked.extend(queues.iter().map(|(queue, offset)| (topic.clone(), *queue, (group.clone(), *offset))));
        }
    }
    let behind = queue_ends::ask(core, asked, |core, topic, queue, (group, offset)| async move {
        let end = queue_ends::ends_here(&core, &topic, queue).max;
        (offset > end).then_some((group, topic, queue, offset, end))
    });
    let behind: Vec<_> = behind.await.into_iter().flatten().collect();
    for (place, (group, topic, queue, offset, end)) in behind.iter().enumerate() {
        if place < CUTS_TOLD_MAX {
            crate::log::warn(format_args!(
                "group {group} consumed queue {queue} of topic {topic} up to {offset}, and its log has it up to {end} only: \
                 the group goes on there"
            ));
        }
        table.set(group, topic, *queue, *end);
    }
    if behind.len() > CUTS_TOLD_MAX {
        crate::log::warn(format_args!(
            "{} more offsets lay behind the ends of their queues",
            behind.len() - CUTS_TOLD_MAX
        ));
    }
    !behind.is_empty()
}

/// Writes what changed since the last write, and waits for it. Any core may ask.
///
/// # Errors
/// When the file cannot be written; the next write tries it again.
pub(crate) async fn persist_now(core: &Rc<Core>) -> Result<(), Refusal> {
    core.on(TABLES_CORE, |core| async move {
        let working = core.clone();
        core.groups.offset_file.saves.submit((), || runtime::spawn_background(work(working))).await
    })
    .await
}

/// All offsets as they are now; on the tables' core.
pub(crate) async fn offsets_body(core: &Rc<Core>) -> ConsumerOffsetTable {
    // What is gathered is right even when it cannot be written, and only the writer gathers, so nothing is overtaken.
    let _ = persist_now(core).await;
    core.groups.offset_file.table.borrow().to_body()
}

/// Writes for ever, twice each interval: so that with the time that a write takes on a busy disk, what is older than the
/// interval survives a kill.
pub(super) async fn save_often(core: Rc<Core>) {
    loop {
        let interval = Duration::from_millis(core.config().consumers.offset_save_interval.0);
        clock::sleep((interval / 2).max(SAVE_PERIOD_MIN)).await;
        // A failure was told where it happened; the next round tries it again.
        let _ = persist_now(&core).await;
    }
}

async fn work(core: Rc<Core>) {
    let file = &core.groups.offset_file;
    while let Some((_, batch)) = file.saves.take() {
        let outcome = save(&core).await;
        match &outcome {
            Ok(()) => file.saving.over(format_args!("committed offsets are stored again")),
            Err(refusal) => file.saving.warn(format_args!("{}", refusal.remark)),
        }
        batch.finish(&outcome);
    }
}

async fn save(core: &Rc<Core>) -> Result<(), Refusal> {
    let replaced = gather(core).await;
    let file = &core.groups.offset_file;
    if !file.unwritten.get() {
        return Ok(());
    }
    let path: PathBuf = FILE.path(&core.config());
    let (table, generation, to) = (file.table.borrow().clone(), file.generation.get() + 1, path.clone());
    // What is gathered while the file is written must be written again.
    file.unwritten.set(false);
    let written = runtime::blocking(move || {
        drop(replaced);
        let text = table.to_text();
        table_file::write(&to, generation, std::str::from_utf8(&text).expect("JSON is UTF-8"))
    });
    if let Err(error) = written.await {
        file.unwritten.set(true);
        let remark =
            format!("offsets cannot be stored in {}: {error}; they hold until the broker ends", path.display());
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
    }
    file.generation.set(generation);
    Ok(())
}

/// Takes over what changed on every core, and gives what that replaces.
async fn gather(core: &Rc<Core>) -> Vec<Arc<TopicOffsets>> {
    let changed = core.on_each(|core| async move { core.groups.take_dirty_offsets().await }).await;
    let changed: Vec<(Text, TopicOffsets)> = changed.into_iter().flatten().collect();
    if changed.is_empty() {
        return Vec::new();
    }
    let file = &core.groups.offset_file;
    file.unwritten.set(true);
    file.table.borrow_mut().replace(changed, clock::now_ms())
}
