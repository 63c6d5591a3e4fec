//! Watching a bucket: its changes in the order of the commits, from the change stream.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use isomer_layout::{
    DataError,
    keyspace::after_prefix,
    kv::content::Content,
    stream::change::{Change, ChangeSet},
};
use isomer_storage::Version;
use isomer_value::{Value, record::decode_value};

use super::sweep::no_thread;
use crate::{DataStore, StreamHold, WeakDataStore, kv::signal::Signal};

/// Entries of the change stream that are read at a time.
const ENTRIES: usize = 256;
const ENTRY_BYTES: usize = 1 << 20;
/// How often a watch looks whether an announced commit is visible.
const ANNOUNCED_LOOK: Duration = Duration::from_millis(1);

/// The keys of a bucket that a watch follows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchScope {
    /// Every key.
    All,
    /// One key.
    Key(Vec<u8>),
    /// All keys with this prefix.
    Prefix(Vec<u8>),
}

impl WatchScope {
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.starts_with(prefix),
        }
    }

    /// Whether a range of keys, up to `end` (`None`: the last), may hold one of them.
    fn overlaps_range(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let (first, behind) = match self {
            Self::All => return true,
            Self::Key(key) => (key.as_slice(), None),
            Self::Prefix(prefix) => (prefix.as_slice(), after_prefix(prefix)),
        };
        let begins_later = match (self, &behind) {
            (Self::Key(key), _) => start > key.as_slice(),
            (_, Some(behind)) => start >= behind.as_slice(),
            (_, None) => false,
        };
        !begins_later && end.is_none_or(|end| first < end)
    }
}

/// One committed change of a bucket.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KvChange {
    /// The commit. All changes of one commit come one after another, in the order in which they were made.
    pub version: Version,
    /// The change.
    pub kind: KvChangeKind,
}

/// The kinds of changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KvChangeKind {
    /// A value was put under a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value, with its type.
        value: Value,
        /// When it expires, in ms since 1970 UTC.
        expires_ms: Option<u64>,
    },
    /// A key was deleted, or had expired and was swept.
    Deleted {
        /// The key.
        key: Vec<u8>,
    },
    /// All keys of a range were deleted.
    RangeDeleted {
        /// The first key of the range.
        start: Vec<u8>,
        /// The first key after it; none for the end.
        end: Option<Vec<u8>>,
    },
    /// A value was added to the values of a key.
    Added {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A value was taken from the values of a key.
    Removed {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// The bucket was dropped with its content.
    Dropped,
}

/// Follows the changes of a bucket: see [`DataStore::watch`]. Changes that it has not delivered yet are kept in the
/// change stream, up to a limit of size and age (see [`crate::DataStoreOptions::stream_hold_bytes`]): beyond it, the
/// watch returns [`DataError::Forgotten`].
#[derive(Debug)]
pub struct BucketWatch {
    pub(crate) store: WeakDataStore,
    pub(crate) signal: Arc<Signal>,
    pub(crate) bucket: Arc<str>,
    pub(crate) scope: WatchScope,
    /// Everything up to this version was read.
    pub(crate) read: Version,
    pub(crate) found: VecDeque<KvChange>,
    /// Keeps the stream above `read`.
    pub(crate) hold: StreamHold,
}

impl DataStore {
    /// Follows the changes of the keys of `scope` in a bucket, which need not exist yet, that were committed after the
    /// version `after`; without it, those from now on.
    ///
    /// # Errors
    /// [`DataError::Forgotten`] if the change stream was trimmed beyond that version (see
    /// [`crate::DataStoreOptions::stream_retention`]), [`DataError::Invalid`] for a version in the future.
    pub fn watch(
        &self,
        bucket: &str,
        scope: WatchScope,
        after: Option<Version>,
    ) -> Result<BucketWatch, DataError> {
        let now = self.engine().version();
        let read = after.unwrap_or(now);
        // Retained before it is checked, so that it stays.
        let hold = self.change_stream().hold(read);
        if read > now {
            return Err(DataError::invalid(format!(
                "version {read} is in the future, the last one is {now}: watch from that one, or read the bucket again"
            )));
        }
        if read < now {
            self.change_stream().check_changes_since(read)?;
        }
        Ok(BucketWatch {
            store: self.downgrade(),
            signal: self.shared().signal.0.clone(),
            bucket: bucket.into(),
            scope,
            read,
            found: VecDeque::new(),
            hold,
        })
    }

    /// Calls `run` with each change, on a background thread, until it returns [`ControlFlow::Break`], the returned
    /// handle is dropped or the store is closed; an error is its last call.
    pub fn on_change(
        &self,
        bucket: &str,
        scope: WatchScope,
        after: Option<Version>,
        mut run: impl FnMut(Result<KvChange, DataError>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<WatchGuard, DataError> {
        let mut watch = self.watch(bucket, scope, after)?;
        let (signal, stop) = (watch.signal.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let watching = thread::Builder::new().name("watcher".to_owned());
        let thread = watching.spawn(move || {
            loop {
                match watch.wait(None, &stopped) {
                    Ok(Some(change)) => {
                        if run(Ok(change)).is_break() {
                            return;
                        }
                    }
                    Ok(None) | Err(DataError::Closed(_)) => return,
                    Err(error) => {
                        // The watch has ended either way.
                        let _ = run(Err(error));
                        return;
                    }
                }
            }
        });
        Ok(WatchGuard {
            signal,
            stop,
            thread: Some(thread.map_err(no_thread)?),
        })
    }
}

impl BucketWatch {
    /// The next change, waiting for it if need be; [`DataError::Closed`] once the store is closed.
    pub fn next_change(&mut self) -> Result<KvChange, DataError> {
        let never = AtomicBool::new(false);
        let change = self.wait(None, &never)?;
        change.ok_or_else(closed)
    }

    /// The next change, waiting for it no longer than `timeout`; nothing after that time.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<KvChange>, DataError> {
        let never = AtomicBool::new(false);
        self.wait(Instant::now().checked_add(timeout), &never)
    }

    /// Everything up to this version was delivered: a watch from here on misses nothing and gets nothing twice. In the
    /// middle of a commit's changes, the version before it.
    pub fn version(&self) -> Version {
        self.found
            .front()
            .map_or(self.read, |next| next.version - 1)
    }

    pub(crate) fn wait(
        &mut self,
        deadline: Option<Instant>,
        stop: &AtomicBool,
    ) -> Result<Option<KvChange>, DataError> {
        loop {
            let seen = self.signal.count();
            if stop.load(Ordering::Acquire) {
                return Ok(None);
            }
            while self.found.is_empty() && self.fetch()? {}
            if let Some(change) = self.found.pop_front() {
                return Ok(Some(change));
            }
            // A commit of another process is announced just before it becomes visible.
            let is_due = self.signal.announced() > self.read;
            let look = is_due.then(|| Instant::now() + ANNOUNCED_LOOK);
            let until = [deadline, look].into_iter().flatten().min();
            if !self.signal.wait(seen, until)
                && deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(None);
            }
        }
    }

    /// Reads a part of the stream; false at its end.
    fn fetch(&mut self) -> Result<bool, DataError> {
        let store = self.store.upgrade().ok_or_else(closed)?;
        let now = store.engine().version();
        let whole = store.while_whole(|| {
            store
                .change_stream()
                .after(self.read, ENTRIES, ENTRY_BYTES, false)
        })?;
        let Some(entries) = whole else {
            return Ok(false);
        };
        // Commits without an entry have no changes.
        let reached = entries.last().map_or(now, |last| last.version);
        let catalog = store.catalog();
        let id = catalog.bucket_id(&self.bucket);
        for entry in &entries {
            let Some(id) = id else { break };
            for change in ChangeSet::changes_in(&entry.bytes)? {
                let Some(kind) = self.kind(id, change?, &catalog)? else {
                    continue;
                };
                self.found.push_back(KvChange {
                    version: entry.version,
                    kind,
                });
            }
        }
        if reached > self.read {
            self.read = reached;
            self.hold = store.change_stream().hold(self.version());
        }
        Ok(!entries.is_empty())
    }

    pub(crate) fn kind(
        &self,
        id: u32,
        change: Change<'_>,
        catalog: &isomer_layout::catalog::Catalog,
    ) -> Result<Option<KvChangeKind>, DataError> {
        let own = |bucket: u32, key: &[u8]| bucket == id && self.scope.holds(key);
        let typed = |content: Content, value: &[u8]| {
            Ok::<_, DataError>(match content {
                Content::Bytes => Value::Bytes(value.into()),
                Content::Text => match std::str::from_utf8(value) {
                    Ok(text) => Value::String(text.into()),
                    Err(_) => {
                        return Err(DataError::corrupt(
                            "a text in the change stream is not UTF-8",
                        ));
                    }
                },
                Content::Value => decode_value(value, &*catalog.names)?,
            })
        };
        Ok(match change {
            Change::KeyPut {
                bucket,
                key,
                value,
                content,
            } if own(bucket, key) => Some(KvChangeKind::Put {
                key: key.to_vec(),
                value: typed(content, value)?,
                expires_ms: None,
            }),
            Change::KeyPutUntil {
                bucket,
                key,
                value,
                content,
                expires_ms,
            } if own(bucket, key) => Some(KvChangeKind::Put {
                key: key.to_vec(),
                value: typed(content, value)?,
                expires_ms: Some(expires_ms),
            }),
            Change::KeyDeleted { bucket, key } if own(bucket, key) => {
                Some(KvChangeKind::Deleted { key: key.to_vec() })
            }
            Change::KeysDeleted { bucket, start, end }
                if bucket == id && self.scope.overlaps_range(start, end) =>
            {
                Some(KvChangeKind::RangeDeleted {
                    start: start.to_vec(),
                    end: end.map(<[u8]>::to_vec),
                })
            }
            Change::ValueAdded { bucket, key, value } if own(bucket, key) => {
                Some(KvChangeKind::Added {
                    key: key.to_vec(),
                    value: value.to_vec(),
                })
            }
            Change::ValueRemoved { bucket, key, value } if own(bucket, key) => {
                Some(KvChangeKind::Removed {
                    key: key.to_vec(),
                    value: value.to_vec(),
                })
            }
            Change::BucketDropped { bucket } if bucket == id => Some(KvChangeKind::Dropped),
            _ => None,
        })
    }
}

/// Changes as they come, without end, until one is an error.
impl Iterator for BucketWatch {
    type Item = Result<KvChange, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_change() {
            Err(DataError::Closed(_)) => None,
            change => Some(change),
        }
    }
}

/// The thread of [`DataStore::on_change`]. It ends when this is dropped.
#[derive(Debug)]
pub struct WatchGuard {
    pub(crate) signal: Arc<Signal>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl WatchGuard {
    /// Whether it is still running.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.signal.notify();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            drop(thread.join());
        }
    }
}

pub(crate) fn closed() -> DataError {
    DataError::Closed("the database was closed: nothing changes any more".into())
}
