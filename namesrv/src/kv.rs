//! The key-value table, by namespace: settings that brokers and clients share. Kept in one small file.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use remoting::Text;
use remoting::json;
use runtime::{console, table_file};
use serde::{Deserialize, Serialize};

use crate::turn::Turn;

/// Topics whose messages keep an order over all brokers, with the number of their queues by broker name.
pub(crate) const ORDER_TOPICS: &str = "ORDER_TOPIC_CONFIG";

/// The file's text. The names are those of Apache RocketMQ's file, which is therefore read too.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Namespaces {
    config_table: BTreeMap<Text, BTreeMap<Text, Text>>,
}

/// The table and its file.
#[derive(Debug)]
pub(crate) struct KvStore {
    path: PathBuf,
    namespaces: RefCell<Namespaces>,
    /// Counts changes, and is the generation of the file.
    generation: Cell<u64>,
    saved_generation: Cell<u64>,
    turn: Turn,
}

impl KvStore {
    /// Reads the table, which is empty when it was never written.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged: an empty table in its place would lose what was set.
    pub(crate) async fn open(path: PathBuf) -> io::Result<KvStore> {
        let file = path.clone();
        let (generation, namespaces) = runtime::blocking(move || read(&file)).await?;
        Ok(KvStore {
            path,
            namespaces: RefCell::new(namespaces),
            generation: Cell::new(generation),
            saved_generation: Cell::new(generation),
            turn: Turn::default(),
        })
    }

    pub(crate) fn get(&self, namespace: &str, key: &str) -> Option<Text> {
        self.namespaces.borrow().config_table.get(namespace)?.get(key).cloned()
    }

    /// All keys of a namespace; `None` when nothing was ever set in it.
    pub(crate) fn namespace(&self, namespace: &str) -> Option<BTreeMap<Text, Text>> {
        self.namespaces.borrow().config_table.get(namespace).cloned()
    }

    /// Sets a key. It is on disk when [`KvStore::saved`] returns.
    pub(crate) fn put(&self, namespace: &Text, key: &Text, value: &Text) {
        let mut namespaces = self.namespaces.borrow_mut();
        let table = namespaces.config_table.entry(namespace.detached()).or_default();
        table.insert(key.detached(), value.detached());
        self.generation.set(self.generation.get() + 1);
    }

    /// Removes a key. Its namespace stays, empty after the last one.
    pub(crate) fn delete(&self, namespace: &str, key: &str) {
        let mut namespaces = self.namespaces.borrow_mut();
        let Some(table) = namespaces.config_table.get_mut(namespace) else { return };
        if table.remove(key).is_some() {
            self.generation.set(self.generation.get() + 1);
        }
    }

    /// Waits until all changes made before this call are on disk. One write serves all who wait.
    pub(crate) async fn saved(&self) -> io::Result<()> {
        let wanted = self.generation.get();
        let _turn = self.turn.take().await;
        if self.saved_generation.get() >= wanted {
            return Ok(());
        }
        let generation = self.generation.get();
        let text = serde_json::to_string_pretty(&*self.namespaces.borrow()).expect("texts are all there is in it");
        let path = self.path.clone();
        runtime::blocking(move || table_file::write(&path, generation, &text)).await?;
        self.saved_generation.set(generation);
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<(u64, Namespaces)> {
    let (generation, text) = match table_file::read(path) {
        Ok(None) => return Ok((0, Namespaces::default())),
        Ok(Some(mut stored)) => {
            if stored.fell_back {
                let damaged = table_file::restore(path, &mut stored)?;
                let told = table_file::told_of_restored(path, damaged.as_deref(), "the key-value table");
                console::tell(format_args!("ringmq: warning: {told}"));
            }
            (stored.generation, stored.text)
        }
        Err(error) => (0, plain_text(path).ok_or(error)?),
    };
    let namespaces =
        json::decode(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((generation, namespaces))
}

/// The text of a file that another nameserver wrote: JSON without a line before it.
fn plain_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| text.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use runtime::file::TempFolder;

    use super::*;

    fn text(text: &str) -> Text {
        Text::from(text)
    }

    #[test]
    fn what_was_saved_is_there_again() {
        let folder = TempFolder::new("kv");
        let path = folder.path().join("deep/kvConfig.json");
        runtime::run_here(async move {
            let store = KvStore::open(path.clone()).await.unwrap();
            store.put(&text("n"), &text("k"), &text("é\n"));
            store.put(&text("n"), &text("gone"), &text("v"));
            store.put(&text("other"), &text("k"), &text("v"));
            let (one, two) = futures_lite::future::zip(store.saved(), store.saved()).await;
            one.unwrap();
            two.unwrap();
            store.delete("n", "gone");
            store.delete("n", "never");
            store.delete("other", "k");
            assert_eq!(store.namespace("other").map(|table| table.len()), Some(0));
            store.saved().await.unwrap();
            let again = KvStore::open(path.clone()).await.unwrap();
            assert_eq!(again.get("n", "k"), Some(text("é\n")));
            assert_eq!(again.namespace("n").map(|table| table.len()), Some(1));
            assert_eq!(again.namespace("absent"), None);
            std::fs::write(&path, "damaged").unwrap();
            drop(KvStore::open(path.clone()).await.unwrap());
            assert_eq!(std::fs::read_to_string(table_file::damaged_path(&path)).unwrap(), "damaged");
            assert!(!table_file::read(&path).unwrap().unwrap().fell_back, "told once");
            std::fs::write(&path, "damaged").unwrap();
            std::fs::remove_file(path.with_extension("json.bak")).unwrap();
            assert!(KvStore::open(path.clone()).await.is_err(), "a damaged table is not an empty one");
            std::fs::write(&path, r#"{"configTable":{"n":{"k":"apache"}}}"#).unwrap();
            let taken = KvStore::open(path).await.unwrap();
            assert_eq!(taken.get("n", "k"), Some(text("apache")));
        })
        .unwrap();
    }

    #[test]
    fn a_table_that_cannot_be_saved_says_so() {
        let folder = TempFolder::new("kv-fails");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        runtime::run_here(async move {
            let store = KvStore::open(folder.path().join("absent/kv.json")).await.unwrap();
            let store = KvStore { path: file.join("kv.json"), ..store };
            store.put(&text("n"), &text("k"), &text("v"));
            assert!(store.saved().await.is_err());
            assert!(store.saved().await.is_err(), "the change is still not on disk");
        })
        .unwrap();
    }
}
