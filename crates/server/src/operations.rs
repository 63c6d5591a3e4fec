//! Long operations other than queries: backups and restores in progress.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use isomer_db::{Value, params};
use parking_lot::Mutex;

use crate::{Result, ServerError};

/// Writes or removes backups of a database.
pub(crate) const BACKUP: &str = "backup";
/// Creates a database from a backup.
pub(crate) const RESTORE: &str = "restore";
/// Reads a backup of the database, for a restore.
pub(crate) const READING: &str = "reading";

/// All operations in progress.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Operation>>>,
}

/// One of them.
#[derive(Debug)]
struct Operation {
    kind: &'static str,
    database: Arc<str>,
    user: Arc<str>,
    about: String,
    began: Instant,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

/// Registration of an operation; ends when dropped.
pub(crate) struct Registration {
    operations: Arc<Operations>,
    number: u64,
    operation: Arc<Operation>,
}

impl Operations {
    /// Number of operations.
    pub(crate) fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Registers an operation. Fails if one of the same kind is in progress in the database, as both would write to
    /// the same folder. Any number may read one backup; until they have completed, nothing under its name is written
    /// or removed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        kind: &'static str,
        database: &Arc<str>,
        user: &Arc<str>,
        about: &str,
    ) -> Result<Registration> {
        let mut all = self.all.lock();
        let in_the_way = |one: &&Arc<Operation>| {
            one.database == *database
                && match (one.kind == READING, kind == READING) {
                    (true, true) => false,
                    (false, false) => one.kind == kind,
                    (true, false) => kind == BACKUP && one.about == about,
                    (false, true) => one.kind == BACKUP && one.about == about,
                }
        };
        if let Some(other) = all.values().find(in_the_way) {
            let what = match other.kind {
                READING => format!("a restore is reading the backup `{about}` of `{database}`"),
                kind => format!("a {kind} of `{database}` is in progress"),
            };
            return Err(ServerError::Exists(format!(
                "{what}: wait until it has completed (GET …/queries shows its progress)"
            )));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let operation = Arc::new(Operation {
            kind,
            database: database.clone(),
            user: user.clone(),
            about: about.to_owned(),
            began: Instant::now(),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
        });
        all.insert(number, operation.clone());
        Ok(Registration {
            operations: self.clone(),
            number,
            operation,
        })
    }

    /// Those of a database, in the order in which they began.
    pub(crate) fn of(&self, database: &str) -> Vec<Value> {
        let all: Vec<_> = self
            .all
            .lock()
            .values()
            .filter(|one| *one.database == *database)
            .cloned()
            .collect();
        all.iter().map(|one| one.value()).collect()
    }
}

impl Operation {
    fn value(&self) -> Value {
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let elapsed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        params! {
            "operation" => self.kind,
            "about" => self.about.as_str(),
            "user" => &*self.user,
            "elapsed_ms" => number(elapsed_ms),
            "done_bytes" => number(self.done_bytes.load(Ordering::Relaxed)),
            "total_bytes" => number(self.total_bytes.load(Ordering::Relaxed)),
        }
        .into()
    }
}

impl Registration {
    /// Updates its progress: `done` of `total` bytes.
    pub(crate) fn progress(&self, done: u64, total: u64) {
        self.operation.done_bytes.store(done, Ordering::Relaxed);
        self.operation.total_bytes.store(total, Ordering::Relaxed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.operations.all.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_is_in_progress_per_database_and_reports_its_progress() {
        let operations = Arc::new(Operations::default());
        let (people, other, ada): (Arc<str>, Arc<str>, Arc<str>) =
            ("people".into(), "other".into(), "ada".into());
        let backup = operations
            .begin("backup", &people, &ada, "nightly")
            .unwrap();
        assert!(operations.begin("backup", &people, &ada, "again").is_err());
        let _other = operations.begin("backup", &other, &ada, "nightly").unwrap();
        backup.progress(3, 10);
        let listed = operations.of("people");
        assert_eq!(listed.len(), 1);
        let listed = listed[0].as_map().unwrap();
        assert_eq!(listed.get("about").and_then(Value::as_str), Some("nightly"));
        assert_eq!(listed.get("done_bytes").and_then(Value::as_int), Some(3));
        assert_eq!(listed.get("total_bytes").and_then(Value::as_int), Some(10));
        drop(backup);
        assert!(operations.of("people").is_empty());
        assert!(operations.begin("backup", &people, &ada, "again").is_ok());
    }

    #[test]
    fn restores_share_the_backup_that_they_read_and_exclude_its_writers() {
        let operations = Arc::new(Operations::default());
        let (people, ada): (Arc<str>, Arc<str>) = ("people".into(), "ada".into());
        let begin = |kind, about| operations.begin(kind, &people, &ada, about);
        let first = begin(READING, "nightly").unwrap();
        let second = begin(READING, "nightly").unwrap();
        drop(begin(BACKUP, "weekly").unwrap());
        drop(first);
        let Err(refused) = begin(BACKUP, "nightly") else {
            panic!("what is read was written");
        };
        assert!(
            refused.to_string().contains("a restore is reading"),
            "{refused}"
        );
        drop(second);
        let _writing = begin(BACKUP, "nightly").unwrap();
        assert!(begin(READING, "nightly").is_err());
        assert!(begin(READING, "weekly").is_ok());
        assert!(begin(RESTORE, "other/nightly").is_ok());
    }
}
