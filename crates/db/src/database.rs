//! An open database.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use isomer_data::{DataStore, Durability, Reservation, Sweeper, Version};
use isomer_exec::Registry;
use isomer_lsm::LsmEngine;
use isomer_views::Views;
use parking_lot::{Mutex, RwLock};

use crate::{
    Builder, Error, ErrorKind, Memory, Result, cache::PlanCache, layers::LayerResult as _,
    running::Running,
};

/// An open database. Clones share it; it may be used from any thread.
///
/// ```
/// use isomerdb::{Database, params};
///
/// let folder = tempfile::tempdir().unwrap();
/// let db = Database::open(folder.path().join("people"))?;
/// db.query("CREATE (:Person {_key: 'ada'})-[:KNOWS {since: 1833}]->(:Person {_key: 'charles'})")?;
/// let known = db.query(("MATCH (:Person {_key: $who})-[k:KNOWS]->(p) RETURN p._key AS who, k.since AS since", params! { "who" => "ada" }))?;
/// assert_eq!(known.deserialize::<(String, i32)>()?, [("charles".to_owned(), 1833)]);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    /// Buckets with this prefix cannot be written through this handle.
    pub(crate) reserved: Option<&'static str>,
}

pub(crate) struct Inner {
    /// Removes expired entries; stops before the engine does.
    pub(crate) sweeper: Mutex<Option<Sweeper>>,
    /// Taken when the database is closed.
    pub(crate) store: RwLock<Option<DataStore>>,
    /// The engine, if it is the LSM engine.
    pub(crate) lsm_engine: Weak<LsmEngine>,
    /// The engine's cache.
    pub(crate) cache: Mutex<Option<Reservation>>,
    pub(crate) views: Arc<Views>,
    pub(crate) options: Builder,
    pub(crate) plans: PlanCache,
    pub(crate) registry: Arc<Registry>,
    pub(crate) running: Arc<Running>,
    /// Named graphs in memory.
    #[cfg(feature = "algorithms")]
    pub(crate) graphs: isomer_exec::GraphCatalog,
    pub(crate) path: Option<PathBuf>,
    /// Locks of programs that use the database as a directory.
    #[cfg(feature = "files")]
    pub(crate) locks: Arc<crate::files::Locks>,
}

impl Drop for Inner {
    /// When the last handle is dropped, the files are closed.
    fn drop(&mut self) {
        self.views.close();
    }
}

impl Database {
    /// Opens the database in the directory `path`; creates it if there is none.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = isomerdb::Database::open(&path)?;
    /// db.query("CREATE (:Note {text: 'kept'})")?;
    /// db.close()?;
    ///
    /// let db = isomerdb::Database::open(&path)?;
    /// assert_eq!(db.query("MATCH (n:Note) RETURN n.text")?.single()?.get::<String>("n.text")?, "kept");
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens an empty database in memory: everything works, nothing is stored on disk.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// assert_eq!(db.query("RETURN 6 * 7 AS answer")?.single()?.get::<i64>("answer")?, 42);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn open_in_memory() -> Result<Self> {
        Builder::default().open_in_memory()
    }

    /// Returns a builder for opening a database with custom options.
    ///
    /// ```
    /// use isomerdb::{Database, Durability, EngineKind};
    ///
    /// let db = Database::builder().engine(EngineKind::Memory).cache_bytes(64 << 20).max_retries(10).open_in_memory()?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The directory; none for a database in memory.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The memory budget, and its use by kind.
    pub fn memory(&self) -> Result<Memory> {
        Ok(Memory::of(self.store()?.memory().clone()))
    }

    /// The engine, if it is open and the LSM engine.
    pub(crate) fn lsm_engine(&self) -> Result<Arc<LsmEngine>> {
        self.store()?;
        self.inner.lsm_engine.upgrade().ok_or_else(|| {
            let engine = self.store().map_or("", |store| store.engine().capabilities().name);
            Error::new(
                ErrorKind::Unsupported,
                format!("the engine {engine} can be neither backed up nor merged: export the database, or import it into one of the engine lsm"),
            )
        })
    }

    /// The layer below: catalog, engine, statistics. `Closed` after [`Database::close`].
    pub(crate) fn store(&self) -> Result<DataStore> {
        self.inner.store.read().clone().ok_or_else(Error::closed)
    }

    /// The last committed version.
    pub fn version(&self) -> Result<Version> {
        Ok(self.store()?.engine().version())
    }

    /// The oldest version that is guaranteed to be readable now: see [`Builder::keep_versions`].
    pub fn oldest_version(&self) -> Result<Version> {
        Ok(self.store()?.engine().oldest_version())
    }

    /// Cancels the query with this number (see `SHOW QUERIES`); false if there is none.
    pub fn cancel_query(&self, id: u64) -> bool {
        self.inner.running.cancel(id)
    }

    /// The next number of a sequence with gaps: larger than all numbers issued before, and never issued again, even
    /// after a crash. Never waits, in contrast to [`crate::Bucket::next_number`]; numbers whose transaction is not
    /// committed are missing.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// assert!(db.allocate_number("shop", "ticket")? < db.allocate_number("shop", "ticket")?);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn allocate_number(&self, bucket: &str, sequence: &str) -> Result<u64> {
        self.store()?.sequence_take(bucket, sequence).lift()
    }

    /// Removes expired entries of all buckets now; returns how many.
    pub fn sweep_expired(&self) -> Result<u64> {
        self.store()?.sweep_expired(u64::MAX).lift()
    }

    /// Makes all commits so far durable, including those with [`Durability::Buffered`].
    pub fn sync(&self) -> Result<()> {
        self.store()?.engine().sync().lift()
    }

    /// Writes a copy of the last committed version to the directory `target`, which must be new or empty, concurrently
    /// with reads and writes. The copy opens as a separate database. `Invalid` for a database in memory.
    ///
    /// ```
    /// use isomerdb::Database;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (folder.path().join("db"), folder.path().join("backup"));
    /// let db = Database::open(&path)?;
    /// db.query("CALL kv.put('sessions', 's-17', {user: 'ada', since: datetime()}, 3600000)")?;
    /// db.checkpoint(&backup)?;
    /// db.query("CALL kv.delete('sessions', 's-17')")?;
    ///
    /// let copy = Database::open(&backup)?;
    /// let found = copy.query("CALL kv.scan('sessions', 's-', 's.') YIELD key, value RETURN key, value.user AS user")?;
    /// assert_eq!(found.single()?.get::<String>("user")?, "ada");
    /// assert!(db.query("RETURN kv.get('sessions', 's-17') AS session")?.single()?.get::<Option<String>>("session")?.is_none());
    /// assert_eq!(db.checkpoint(&backup).unwrap_err().kind(), isomerdb::ErrorKind::Invalid);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        self.store()?.checkpoint(target.as_ref()).lift()
    }

    /// Closes the database for all clones of this handle: later calls return `Closed`. Open transactions and file
    /// readers ([`Database::open_file`]) can finish; the directory is released for another process or
    /// [`Database::rotate_key`] when the last of them has. Closing twice is not an error.
    ///
    /// ```
    /// use isomerdb::{Database, ErrorKind};
    ///
    /// let db = Database::open_in_memory()?;
    /// let clone = db.clone();
    /// db.close()?;
    /// assert_eq!(clone.query("RETURN 1").unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        drop(self.inner.sweeper.lock().take());
        self.inner.views.close();
        let store = self.inner.store.write().take();
        drop(self.inner.cache.lock().take());
        self.inner.plans.clear();
        #[cfg(feature = "algorithms")]
        self.inner.graphs.clear();
        if let Some(store) = &store {
            // They are derived: if they cannot be stored, they are sampled again.
            let _ = store.statistics().save();
        }
        match store {
            Some(store)
                if self.inner.options.durability == Durability::Buffered
                    && !self.inner.options.read_only =>
            {
                store.engine().sync().lift()
            }
            _ => Ok(()),
        }
    }

    /// The prefix of the buckets that are reserved through this handle.
    pub(crate) fn reserved(&self) -> Option<&'static str> {
        self.reserved
    }

    /// Whether [`Database::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.inner.store.read().is_none()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.inner.path)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
