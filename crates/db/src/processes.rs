//! The processes that have a database open at the same time.

use std::time::Duration;

use crate::{Database, Result};

/// A process that has a shared database open: see [`Database::processes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharingProcess {
    /// Its number; in a container, the number there.
    pub pid: u32,
    /// What it is: see [`Builder::process_kind`](crate::Builder::process_kind).
    pub kind: String,
    /// For how long it has been running; none if unknown.
    pub age: Option<Duration>,
    /// It has applied the records of the shared log below this position; 0 if it has not said so.
    pub applied: u64,
    /// How many records it has not applied yet that others have; none if it has not said what it applied.
    pub behind: Option<u64>,
    /// Whether it maintains the tables: flushes and compacts.
    pub maintains: bool,
}

impl Database {
    /// The processes that have this database open as [`Sharing::Shared`](crate::Sharing::Shared), this one included, by
    /// their numbers; empty for a database that is not shared. For people: a process of another container that was
    /// killed is listed until all have closed the database, and readers are not listed.
    ///
    /// ```
    /// use isomerdb::{Database, Sharing};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let builder = Database::builder().sharing(Sharing::Shared).process_kind("indexer");
    /// let db = builder.open(&path)?;
    /// let processes = db.processes()?;
    /// assert_eq!(processes.len(), 1);
    /// assert_eq!((processes[0].pid, processes[0].kind.as_str()), (std::process::id(), "indexer"));
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn processes(&self) -> Result<Vec<SharingProcess>> {
        self.store()?;
        let Some(engine) = self.inner.lsm_engine.upgrade() else {
            return Ok(Vec::new());
        };
        let (listed, maintainer) = engine.processes();
        let newest = listed.iter().map(|process| process.applied).max();
        let newest = newest.unwrap_or(0);
        let of = |process: isomer_lsm::LogProcess| SharingProcess {
            pid: process.id.pid,
            kind: process.kind,
            age: process.id.age(),
            applied: process.applied,
            behind: (process.applied > 0).then(|| newest - process.applied),
            maintains: maintainer == Some(process.id.pid),
        };
        let mut processes: Vec<_> = listed.into_iter().map(of).collect();
        processes.sort_by_key(|process| process.pid);
        Ok(processes)
    }
}
