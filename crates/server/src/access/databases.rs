//! The databases that are served. Only sessions hand them out.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_db::{Builder, Database, MemoryKind};
use parking_lot::{Mutex, RwLock};

use crate::{Result, ServerError, feed::Feed};

/// A database that is served.
pub struct Served {
    pub(super) name: Arc<str>,
    pub(super) db: Database,
    pub(super) feed: Arc<Feed>,
    /// Its folder, where it may be dropped over the network.
    folder: Option<PathBuf>,
}

/// All of them, by name.
pub struct Databases {
    builder: Builder,
    folder: Option<PathBuf>,
    served: RwLock<BTreeMap<Arc<str>, Arc<Served>>>,
    changing: Mutex<()>,
}

/// Refuses names that are no plain words: they stand in paths.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(ServerError::Invalid(
            "the name of a database has 1 to 64 letters, digits, `_` or `-`".into(),
        ));
    }
    Ok(())
}

impl Databases {
    /// No database yet; `folder` is where further ones are made.
    pub fn new(builder: Builder, folder: Option<PathBuf>) -> Self {
        Self {
            builder,
            folder,
            served: RwLock::default(),
            changing: Mutex::new(()),
        }
    }

    /// Serves an open database under a name.
    pub fn add(&self, name: &str, db: Database) -> Result<()> {
        self.insert(name, db, None)
    }

    /// Opens all databases in the folder where they are made.
    pub fn open_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let unreadable = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be read: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(unreadable)?;
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() && check_name(name).is_ok() {
                let db = self.builder.clone().create(false).open(&path)?;
                self.insert(name, db, Some(path.clone()))?;
            }
        }
        Ok(())
    }

    /// Makes a database.
    pub(super) fn create(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let Some(folder) = &self.folder else {
            return Err(ServerError::Invalid(
                "databases cannot be made over the network here: start the server with `databases_folder`".into(),
            ));
        };
        let _changing = self.changing.lock();
        let path = folder.join(name);
        if self.served.read().contains_key(name) || path.exists() {
            return Err(ServerError::Exists(format!(
                "there is a database `{name}` already"
            )));
        }
        let db = self.builder.clone().create(true).open(&path)?;
        self.insert(name, db, Some(path))
    }

    /// Drops a database that was made over the network.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let _changing = self.changing.lock();
        let served = self.get(name)?;
        let Some(path) = &served.folder else {
            return Err(ServerError::Invalid(format!(
                "`{name}` was given when the server was started: it cannot be dropped over the network"
            )));
        };
        self.served.write().remove(name);
        served.feed.close();
        served.db.close()?;
        // Its name is free at once; what is left in the folder is no database's name.
        let gone = path.with_file_name(format!(".dropped-{name}-{}", super::now_ms()));
        let unlucky = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be removed: {error}", path.display()))
        };
        std::fs::rename(path, &gone).map_err(unlucky)?;
        std::fs::remove_dir_all(&gone).map_err(unlucky)
    }

    /// A database.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Served>> {
        let served = self.served.read();
        served
            .get(name)
            .cloned()
            .ok_or_else(|| ServerError::NotFound(format!("there is no database `{name}`")))
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.served.read().keys().cloned().collect()
    }

    /// Databases that are replicas, by name.
    pub(crate) fn replicated(&self) -> Vec<(Arc<str>, isomer_db::data::Store)> {
        let served: Vec<_> = self.served.read().values().cloned().collect();
        let stores = served
            .iter()
            .filter_map(|one| Some((one.name.clone(), one.db.store().ok()?)));
        stores.filter(|(_, store)| store.is_replicated()).collect()
    }

    /// Figures of each database for `/metrics`: (database, name, value).
    pub fn figures(&self) -> Vec<(Arc<str>, &'static str, f64)> {
        let served: Vec<_> = self.served.read().values().cloned().collect();
        let mut figures = Vec::new();
        for one in served {
            let mut add = |name, value: f64| figures.push((one.name.clone(), name, value));
            if let Ok(store) = one.db.store() {
                add("version", store.engine().version() as f64);
                if let Ok(statistics) = store.engine().statistics() {
                    add("keys", statistics.key_count as f64);
                    add("stored_bytes", statistics.stored_bytes as f64);
                    add("commits_total", statistics.commits as f64);
                    add("syncs_total", statistics.syncs as f64);
                    add("conflicts_total", statistics.conflicts as f64);
                    add("change_stream_entries", statistics.stream_entries as f64);
                }
                for (name, kind) in [
                    ("memory_engine_cache_bytes", MemoryKind::EngineCache),
                    ("memory_views_bytes", MemoryKind::Views),
                    ("memory_queries_bytes", MemoryKind::Queries),
                    ("memory_import_bytes", MemoryKind::Import),
                ] {
                    add(name, store.memory().usage(kind).used_bytes as f64);
                }
            }
            let views = one.db.views().status();
            let standing = views.iter().filter(|view| view.bytes > 0);
            add("views_standing", standing.clone().count() as f64);
            add("views_bytes", standing.map(|view| view.bytes as f64).sum());
            add(
                "views_changes",
                views.iter().map(|view| view.delta_count as f64).sum(),
            );
        }
        figures
    }

    /// Whether every database answers.
    pub fn check(&self) -> Result<()> {
        let served: Vec<_> = self.served.read().values().cloned().collect();
        for one in served {
            drop(one.db.begin_read()?);
        }
        Ok(())
    }

    /// Closes all of them.
    pub fn close(&self) -> Result<()> {
        let served = std::mem::take(&mut *self.served.write());
        let mut outcome = Ok(());
        for one in served.values() {
            one.feed.close();
            outcome = outcome.and(one.db.close());
        }
        Ok(outcome?)
    }

    fn insert(&self, name: &str, db: Database, folder: Option<PathBuf>) -> Result<()> {
        check_name(name)?;
        let feed = Feed::follow(&db)?;
        let served = Served {
            name: name.into(),
            db,
            feed,
            folder,
        };
        let mut all = self.served.write();
        if all.contains_key(name) {
            return Err(ServerError::Exists(format!(
                "two databases would have the name `{name}`: write NAME=PATH"
            )));
        }
        all.insert(served.name.clone(), Arc::new(served));
        Ok(())
    }
}

/// The name under which the database in a folder is served unless said otherwise: `people` for `/data/people.isomer`.
pub fn name_of(path: &Path) -> String {
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("database");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    stem.chars()
        .take(64)
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}
