//! Integrity check and statistics of a database.

use std::ops::ControlFlow;

use isomer_storage::Statistics;

use crate::{Database, Error, ErrorKind, Result, layers::LayerResult as _};

/// Label of the progress reports about stored bytes.
const STORED: &str = "stored bytes";

/// Called with what is being read and the part done.
type Progress<'a> = Box<dyn FnMut(&'static str, u64) -> ControlFlow<()> + 'a>;

/// A check to be run: see [`Database::check`].
#[must_use = "`run` runs the check"]
pub struct CheckTask<'a> {
    db: &'a Database,
    progress: Option<Progress<'a>>,
}

impl<'a> CheckTask<'a> {
    /// Calls `progress` with what is being read and the part done. [`ControlFlow::Break`] stops the check, which is
    /// then `Cancelled`.
    pub fn progress(
        mut self,
        progress: impl FnMut(&'static str, u64) -> ControlFlow<()> + 'a,
    ) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Runs the check. Returns the problems found, at most 100; an empty list means that the database is sound.
    pub fn run(self) -> Result<Vec<String>> {
        let store = self.db.store()?;
        let mut progress = self
            .progress
            .unwrap_or_else(|| Box::new(|_, _| ControlFlow::Continue(())));
        let mut flow = ControlFlow::Continue(());
        let damaged = store.engine().verify(&mut |done, _| {
            if flow.is_continue() {
                flow = progress(STORED, done);
            }
        });
        let damaged = damaged.lift()?;
        if flow.is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "the check was stopped"));
        }
        if !damaged.is_empty() {
            return Ok(damaged);
        }
        let found = isomer_check::check(&store, &mut progress).lift()?;
        if !found.is_empty() {
            return Ok(found);
        }
        let catalog = store.catalog();
        let views = self.db.inner.views.check(&mut |_| {});
        let wrong = views.wrong.iter().map(|kind| {
            let what = kind.describe(&catalog);
            format!("the view of {what} differed from the records: it was dropped")
        });
        let damaged = views.damaged.iter().map(|file| {
            let (name, reason) = (&file.name, &file.reason);
            format!("views/{name} was damaged and is removed: {reason}")
        });
        Ok(wrong.chain(damaged).collect())
    }
}

impl Database {
    /// A task that reads all stored data, verifies every checksum, and compares derived data (indexes, adjacency,
    /// counts, read views, reverse entries) with its source, concurrently with reads and writes. A read view that is
    /// wrong is dropped and rebuilt when it is needed.
    ///
    /// ```
    /// use isomerdb::Database;
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("CREATE (:Person {_key: 'ada'})-[:KNOWS]->(:Person {_key: 'bob'})")?;
    /// assert!(db.check().run()?.is_empty());
    /// let statistics = db.statistics()?;
    /// assert!(statistics.key_count > 2 && statistics.commits >= 1);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn check(&self) -> CheckTask<'_> {
        CheckTask {
            db: self,
            progress: None,
        }
    }

    /// How much is stored, and counters of the engine since the opening: see [`Database::memory`] for its memory.
    pub fn statistics(&self) -> Result<Statistics> {
        self.store()?.engine().statistics().lift()
    }
}
