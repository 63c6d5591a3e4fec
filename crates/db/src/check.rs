//! Whether a database is sound, and how large it is.

use isomer_storage::Statistics;

use crate::{Database, Error, ErrorKind, Result, Verdict};

/// What of the engine's check is told to the caller.
const STORED: &str = "stored bytes";

impl Database {
    /// Reads everything that is stored, compares every checksum, and holds what is derived (indexes, adjacency, counts, read
    /// views, reverse entries) against its source, while reads and writes go on. Answers what is wrong, at most 100 findings:
    /// none means that all is well. A read view that is wrong is dropped and made again when it is needed.
    ///
    /// ```
    /// use isomer_db::Database;
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("CREATE (:Person {_key: 'ada'})-[:KNOWS]->(:Person {_key: 'bob'})", ())?;
    /// assert!(db.check()?.is_empty());
    /// let figures = db.statistics()?;
    /// assert!(figures.key_count > 2 && figures.commits >= 1);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn check(&self) -> Result<Vec<String>> {
        self.check_with(&mut |_, _| Verdict::Continue)
    }

    /// As [`Database::check`]; `progress` is told what is read and how much of it was, and may stop it: `Cancelled`.
    pub fn check_with(
        &self,
        progress: &mut dyn FnMut(&'static str, u64) -> Verdict,
    ) -> Result<Vec<String>> {
        let store = self.store()?;
        let mut verdict = Verdict::Continue;
        let damaged = store.engine().verify(&mut |done, _| {
            if verdict == Verdict::Continue {
                verdict = progress(STORED, done);
            }
        })?;
        if verdict == Verdict::Stop {
            return Err(Error::new(ErrorKind::Cancelled, "the check was stopped"));
        }
        if !damaged.is_empty() {
            return Ok(damaged);
        }
        let found = store.check(progress)?;
        if !found.is_empty() {
            return Ok(found);
        }
        let catalog = store.catalog();
        let views = self.views().check(&mut |_| {});
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

    /// How much is stored, and what the engine did since the opening: see [`Database::memory`] for what it holds in memory.
    pub fn statistics(&self) -> Result<Statistics> {
        Ok(self.store()?.engine().statistics()?)
    }
}
