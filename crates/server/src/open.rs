//! Transactions that stay open between requests.
//!
//! Each belongs to one user and one database, is used by one request at a time, and is rolled back when it was not
//! used for a while, when it is too old, and when the server stops.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{
    Database, Map, StatementClass, WriteTransaction,
    internals::{TransactionInternals as _, data::Version},
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{
    Result, ServerError,
    access::{AdmissionControl, Written, password},
};

/// An open transaction.
pub struct OpenTransaction {
    id: String,
    user: Arc<str>,
    database: Arc<str>,
    /// Its database.
    db: Database,
    /// The highest class of its statements.
    class: Mutex<StatementClass>,
    /// `None` once it has ended.
    transaction: Mutex<Option<WriteTransaction>>,
    /// What it takes of its user's memory.
    written: Mutex<Written>,
    times: Mutex<Times>,
    /// What its client says about it.
    metadata: Arc<Mutex<Map>>,
}

#[derive(Clone, Copy)]
struct Times {
    /// When it ends unless it is used.
    idle_end: Instant,
    /// When it ends in any case.
    end: Instant,
}

impl OpenTransaction {
    /// Its id for clients: 128 random bits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its client says about it.
    pub(crate) fn metadata(&self) -> &Arc<Mutex<Map>> {
        &self.metadata
    }

    /// When it ends unless it is used again.
    pub fn ends_in(&self) -> Duration {
        let times = *self.times.lock();
        times
            .idle_end
            .min(times.end)
            .saturating_duration_since(Instant::now())
    }

    /// Records that a statement of this class ran in it.
    pub(crate) fn note(&self, class: StatementClass) {
        let mut most = self.class.lock();
        *most = class.max(*most);
    }

    /// The highest class of its statements: its commit requires the right to that.
    pub(crate) fn class(&self) -> StatementClass {
        *self.class.lock()
    }

    /// Fails for another user or database, with the error for one that does not exist.
    pub(crate) fn check(&self, user: &str, database: &str) -> Result<()> {
        if *self.user == *user && *self.database == *database {
            return Ok(());
        }
        Err(no_transaction())
    }

    /// Runs `work` in it.
    pub fn with<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let guard = self.transaction.try_lock().ok_or_else(busy)?;
        let transaction = guard.as_ref().ok_or_else(no_transaction)?;
        let mut written = self.written.lock();
        transaction.data().limit_writes(written.most());
        let outcome = work(transaction);
        written.set(transaction.data_ref().write_bytes());
        outcome
    }

    fn take(&self) -> Result<WriteTransaction> {
        let mut guard = self.transaction.try_lock().ok_or_else(busy)?;
        let transaction = guard.take().ok_or_else(no_transaction)?;
        self.written.lock().set(0);
        Ok(transaction)
    }
}

fn busy() -> ServerError {
    ServerError::Exists(
        "another request is using this transaction: send requests one after the other".into(),
    )
}

pub(crate) fn no_transaction() -> ServerError {
    ServerError::NotFound(
        "no such transaction: it has ended, was not used for too long, or belongs to another server of this database: use one connection for a transaction".into(),
    )
}

/// All open transactions.
pub struct OpenTransactions {
    idle: Duration,
    longest: Duration,
    most_of_user: usize,
    admission_control: Arc<AdmissionControl>,
    all: Mutex<FxHashMap<String, Arc<OpenTransaction>>>,
}

impl OpenTransactions {
    /// Empty; each transaction ends after `idle` without use, and at the age `longest`. What they write counts for
    /// admission control.
    pub fn new(
        idle: Duration,
        longest: Duration,
        most_of_user: usize,
        admission_control: Arc<AdmissionControl>,
    ) -> Self {
        Self {
            idle,
            longest,
            most_of_user,
            admission_control,
            all: Mutex::default(),
        }
    }

    /// Keeps a transaction open between requests.
    pub fn add(
        &self,
        user: &Arc<str>,
        database: &Arc<str>,
        transaction: WriteTransaction,
    ) -> Result<Arc<OpenTransaction>> {
        self.add_for(user, database, transaction, self.idle, self.longest)
    }

    /// Keeps a transaction open that belongs to a connection and ends with it, or after `time` if that is shorter
    /// than the general limit.
    pub fn add_of_connection(
        &self,
        user: &Arc<str>,
        database: &Arc<str>,
        transaction: WriteTransaction,
        time: Option<Duration>,
    ) -> Result<Arc<OpenTransaction>> {
        let time = time.map_or(self.longest, |time| time.min(self.longest));
        self.add_for(user, database, transaction, time, time)
    }

    fn add_for(
        &self,
        user: &Arc<str>,
        database: &Arc<str>,
        transaction: WriteTransaction,
        idle: Duration,
        longest: Duration,
    ) -> Result<Arc<OpenTransaction>> {
        let id = password::hex(&password::random::<16>()?);
        let mut all = self.all.lock();
        if all.values().filter(|open| open.user == *user).count() >= self.most_of_user {
            return Err(ServerError::TooMany {
                message: format!(
                    "`{user}` has reached the limit of {} open transactions",
                    self.most_of_user
                ),
                retry_after_s: 1,
            });
        }
        let now = Instant::now();
        let open = Arc::new(OpenTransaction {
            id: id.clone(),
            user: user.clone(),
            database: database.clone(),
            db: transaction.database().clone(),
            class: Mutex::new(StatementClass::Read),
            transaction: Mutex::new(Some(transaction)),
            written: Mutex::new(self.admission_control.written(user)),
            times: Mutex::new(Times {
                idle_end: now + idle,
                end: now + longest,
            }),
            metadata: Arc::default(),
        });
        all.insert(id, open.clone());
        Ok(open)
    }

    /// Returns an open transaction and marks it as used. It ends with its database, even if that is created again or
    /// reopened.
    pub fn get(&self, id: &str) -> Result<Arc<OpenTransaction>> {
        let open = self.all.lock().get(id).cloned();
        let open = open
            .filter(|open| !open.db.is_closed())
            .ok_or_else(no_transaction)?;
        open.times.lock().idle_end = Instant::now() + self.idle;
        Ok(open)
    }

    /// Commits a transaction, which has ended even if that fails.
    pub fn commit(&self, open: &OpenTransaction) -> Result<Version> {
        let transaction = open.take()?;
        self.all.lock().remove(&open.id);
        Ok(transaction.commit()?)
    }

    /// Rolls a transaction back.
    pub fn rollback(&self, open: &OpenTransaction) -> Result<()> {
        let transaction = open.take()?;
        self.all.lock().remove(&open.id);
        transaction.rollback();
        Ok(())
    }

    /// Rolls back those whose time is over, or whose database is closed. One that is in use ends with its request.
    pub fn sweep(&self) -> usize {
        let now = Instant::now();
        let over = |open: &Arc<OpenTransaction>| {
            let times = *open.times.lock();
            times.idle_end.min(times.end) <= now || open.db.is_closed()
        };
        let ended: Vec<_> = self
            .all
            .lock()
            .values()
            .filter(|open| over(open))
            .cloned()
            .collect();
        ended
            .iter()
            .filter(|open| self.rollback(open).is_ok())
            .count()
    }

    /// Rolls all of them back.
    pub fn clear(&self) {
        let all: Vec<_> = self.all.lock().drain().map(|(_, open)| open).collect();
        for open in all {
            if let Some(transaction) = open.transaction.lock().take() {
                transaction.rollback();
                open.written.lock().set(0);
            }
        }
    }

    /// Number of open transactions.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_a_user(idle: Duration) -> OpenTransactions {
        let admission_control = AdmissionControl::new(8, 1 << 30, 1 << 30);
        OpenTransactions::new(idle, Duration::from_secs(60), 2, admission_control)
    }

    #[test]
    fn an_unused_transaction_is_rolled_back() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        let all = two_a_user(Duration::from_millis(20));
        let (ada, people): (Arc<str>, Arc<str>) = ("ada".into(), "people".into());
        let open = all.add(&ada, &people, db.begin().unwrap()).unwrap();
        open.with(|tx| Ok(tx.query("CREATE (:Draft)")?)).unwrap();
        assert_eq!(all.sweep(), 0);
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(all.sweep(), 1);
        assert!(all.get(open.id()).is_err());
        assert!(
            open.with(|_| Ok(())).is_err(),
            "a remaining reference cannot use it"
        );
        assert_eq!(db.query("MATCH (d:Draft) RETURN d").unwrap().len(), 0);
    }

    #[test]
    fn a_transaction_belongs_to_one_user_and_one_request_at_a_time() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        let all = two_a_user(Duration::from_secs(60));
        let (ada, people): (Arc<str>, Arc<str>) = ("ada".into(), "people".into());
        let open = all.add(&ada, &people, db.begin().unwrap()).unwrap();
        assert!(open.check("ada", "people").is_ok());
        assert!(open.check("bob", "people").is_err());
        assert!(open.check("ada", "other").is_err());
        open.with(|_| {
            assert!(open.with(|_| Ok(())).is_err());
            Ok(())
        })
        .unwrap();
        all.add(&ada, &people, db.begin().unwrap()).unwrap();
        assert!(
            all.add(&ada, &people, db.begin().unwrap()).is_err(),
            "two are the limit"
        );
        all.commit(&open).unwrap();
        assert!(all.commit(&open).is_err());
        all.clear();
        assert_eq!(all.count(), 0);
    }
}
