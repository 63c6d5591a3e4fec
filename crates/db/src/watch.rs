//! Watching buckets.

use std::{ops::ControlFlow, time::Duration};

use isomer_data::{DataError, KvChange, Version, WatchGuard, WatchScope};

use crate::{Database, ErrorKind, Result, layers::LayerResult as _};

/// Follows the changes of a bucket, in commit order: see [`Database::watch`].
#[derive(Debug)]
pub struct Watch(isomer_data::BucketWatch);

impl Watch {
    /// The next change; blocks until there is one; `Closed` once the database is closed.
    pub fn next_change(&mut self) -> Result<KvChange> {
        self.0.next_change().lift()
    }

    /// The next change; blocks at most `timeout`; none after that.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<KvChange>> {
        self.0.next_within(timeout).lift()
    }

    /// All changes up to this version were returned: a watch from here on misses nothing and repeats nothing. In the
    /// middle of a commit's changes, the version before it.
    pub fn version(&self) -> Version {
        self.0.version()
    }
}

/// The changes, until the database is closed or an error occurs.
impl Iterator for Watch {
    type Item = Result<KvChange>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_change() {
            Err(error) if error.kind() == ErrorKind::Closed => None,
            change => Some(change),
        }
    }
}

impl Database {
    /// Follows the changes of a bucket, of a key or of all keys with a prefix, that were committed after the version
    /// `after`; if absent, from now on. Changes come from the change stream, which is retained until the watch has
    /// returned them: nothing is missed. A reader gets `Invalid` if it is behind by more than
    /// [`Builder::change_retention`](crate::Builder::change_retention) allows, or requests changes that are not
    /// retained any more.
    ///
    /// ```
    /// use isomerdb::{Database, KvChangeKind, WatchScope};
    ///
    /// let db = Database::open_in_memory()?;
    /// let mut changes = db.watch("sessions", WatchScope::Prefix(b"ada/".to_vec()), None)?;
    /// db.transact(|tx| tx.bucket("sessions").put("ada/1", "begun"))?;
    /// let change = changes.next_change()?;
    /// assert_eq!(change.kind, KvChangeKind::Put { key: b"ada/1".to_vec(), value: "begun".into(), expires_ms: None });
    ///
    /// // Later, or after a restart: everything since then.
    /// let seen = changes.version();
    /// db.transact(|tx| tx.bucket("sessions").delete("ada/1"))?;
    /// let change = db.watch("sessions", WatchScope::All, Some(seen))?.next_change()?;
    /// assert_eq!(change.kind, KvChangeKind::Deleted { key: b"ada/1".to_vec() });
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn watch(&self, bucket: &str, scope: WatchScope, after: Option<Version>) -> Result<Watch> {
        self.store()?.watch(bucket, scope, after).lift().map(Watch)
    }

    /// Calls `run` with each change, on a background thread, until it returns [`ControlFlow::Break`], the returned
    /// guard is dropped or the database is closed; an error is the last call.
    ///
    /// ```
    /// use isomerdb::{Database, WatchScope};
    /// use std::{ops::ControlFlow, sync::mpsc};
    ///
    /// let db = Database::open_in_memory()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let _guard = db.on_change("sessions", WatchScope::All, None, move |change| match sender.send(change) {
    ///     Ok(()) => ControlFlow::Continue(()),
    ///     Err(_) => ControlFlow::Break(()), // the receiver is gone
    /// })?;
    /// let version = db.transact(|tx| tx.bucket("sessions").put("ada/1", "begun")).and_then(|()| db.version())?;
    /// assert_eq!(receiver.recv().unwrap()?.version, version);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn on_change(
        &self,
        bucket: &str,
        scope: WatchScope,
        after: Option<Version>,
        mut run: impl FnMut(Result<KvChange>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<WatchGuard> {
        let run = move |change: Result<KvChange, DataError>| run(change.lift());
        self.store()?.on_change(bucket, scope, after, run).lift()
    }
}
