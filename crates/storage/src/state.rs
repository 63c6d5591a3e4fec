//! What the transactions of an engine and its committer share: the backend, the live transactions and the guard
//! tables.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::sync::{Mutex, RwLock};

use crate::{
    Backend, Capabilities, Commit, CommitHook, Durability, GuardSet, GuardTable, StorageError,
    Version, View, WriteSet,
};

/// The state of an engine, apart from its committer.
pub(crate) struct State<B: Backend> {
    pub(crate) backend: B,
    pub(crate) capabilities: Capabilities,
    /// Snapshots of the live transactions, with the number of transactions that read each.
    live: Mutex<BTreeMap<Version, usize>>,
    pub(crate) guards: Mutex<GuardTable>,
    /// Changes of the group that is being committed.
    fresh: Mutex<GuardTable>,
    hook: RwLock<Option<Arc<dyn CommitHook>>>,
    commits: AtomicU64,
    groups: AtomicU64,
    conflicts: AtomicU64,
}

/// The data to be committed for a transaction.
pub(crate) struct Work<B: Backend> {
    /// Registered as long as it may be validated against later commits.
    pub(crate) live: Live<B>,
    pub(crate) footprint: GuardSet,
    pub(crate) writes: WriteSet,
    pub(crate) stream: Vec<u8>,
    pub(crate) durability: Durability,
}

/// A group after validation.
pub(crate) struct Validation<'g> {
    /// The version of each valid member, and why the others are refused.
    pub(crate) results: Vec<Result<Version, StorageError>>,
    /// The valid members.
    pub(crate) commits: Vec<Commit<'g>>,
    /// What the most demanding of them requires.
    pub(crate) durability: Durability,
}

/// The registration of a live transaction, removed when it is dropped.
pub(crate) struct Live<B: Backend> {
    pub(crate) state: Arc<State<B>>,
    version: Version,
}

impl<B: Backend> Drop for Live<B> {
    fn drop(&mut self) {
        let mut live = self.state.live.lock();
        if let Some(count) = live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.version);
            }
        }
    }
}

impl<B: Backend> State<B> {
    pub(crate) fn new(backend: B, capabilities: Capabilities) -> Arc<Self> {
        Arc::new(Self {
            backend,
            capabilities,
            live: Mutex::default(),
            guards: Mutex::default(),
            fresh: Mutex::default(),
            hook: RwLock::default(),
            commits: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
        })
    }

    /// The last published version, registered as the snapshot of a transaction.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<(Live<B>, Arc<B::View>), StorageError> {
        // The view is taken under the lock: a thread that computes the oldest snapshot sees either this one or
        // a version that this one cannot be older than.
        let mut live = self.live.lock();
        let view = self.backend.view()?;
        let version = view.version();
        *live.entry(version).or_default() += 1;
        drop(live);
        let state = self.clone();
        Ok((Live { state, version }, view))
    }

    /// The version that the next commit gets. Only the thread that changes the backend may rely on it.
    pub(crate) fn next_version(&self) -> Result<Version, StorageError> {
        Ok(self.backend.view()?.version() + 1)
    }

    /// Validates a group whose first valid member gets the version `first`, each member against the earlier ones and
    /// against everything that was committed since its snapshot. Other transactions only see the changes once they
    /// are recorded with [`State::record_group`]: a group that fails leaves no trace.
    pub(crate) fn validate<'g>(
        &self,
        first: Version,
        group: impl ExactSizeIterator<Item = &'g Work<B>>,
    ) -> Validation<'g> {
        let mut results = Vec::with_capacity(group.len());
        let mut commits: Vec<Commit<'_>> = Vec::with_capacity(group.len());
        let mut durability = Durability::Buffered;
        let mut fresh = self.fresh.lock();
        fresh.clear();
        let mut guards = self.guards.lock();
        guards.forget_before(self.oldest_snapshot());
        for work in group {
            let version = first + commits.len() as u64;
            let checked = guards
                .check(work.live.version, &work.footprint)
                .and_then(|()| fresh.check(work.live.version, &work.footprint));
            if checked.is_ok() {
                fresh.record(version, &work.footprint);
                commits.push(Commit {
                    version,
                    writes: &work.writes,
                    stream: &work.stream,
                });
                if work.durability == Durability::Synced {
                    durability = Durability::Synced;
                }
            }
            results.push(checked.map(|()| version));
        }
        Validation {
            results,
            commits,
            durability,
        }
    }

    /// Records the changes of the group that was validated last, for the validation of later ones.
    pub(crate) fn record_group(&self) {
        let mut fresh = self.fresh.lock();
        self.guards.lock().append(&mut fresh);
    }

    /// The oldest snapshot that a live transaction reads, or that the next one could read.
    pub(crate) fn oldest_snapshot(&self) -> Version {
        let live = self.live.lock();
        let published = self.backend.view().map_or(0, |view| view.version());
        live.keys()
            .next()
            .map_or(published, |&oldest| oldest.min(published))
    }

    pub(crate) fn hook(&self) -> Option<Arc<dyn CommitHook>> {
        self.hook.read().clone()
    }

    pub(crate) fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        *self.hook.write() = Some(hook);
    }

    /// Counts a group with that many commits.
    pub(crate) fn count_group(&self, commits: usize) {
        self.commits.fetch_add(commits as u64, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts transactions that were refused.
    pub(crate) fn count_conflicts(&self, conflicts: usize) {
        if conflicts > 0 {
            self.conflicts
                .fetch_add(conflicts as u64, Ordering::Relaxed);
        }
    }

    /// Commits and conflicts since opening.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.commits), count(&self.conflicts))
    }

    /// Further metrics by name.
    pub(crate) fn details(&self) -> [(String, String); 3] {
        let live = self.live.lock().values().map(|&count| count as u64).sum();
        let details = [
            ("commit_groups", self.groups.load(Ordering::Relaxed)),
            ("live_transactions", live),
            ("guard_entries", self.guards.lock().len() as u64),
        ];
        details.map(|(name, value)| (name.to_owned(), value.to_string()))
    }
}

/// A copy of the error, for every member of a group.
pub(crate) fn copy_of(error: &StorageError) -> StorageError {
    match error {
        StorageError::Conflict { granule, version } => StorageError::Conflict {
            granule: *granule,
            version: *version,
        },
        StorageError::TooLarge {
            what,
            size,
            max,
            advice,
        } => StorageError::TooLarge {
            what,
            size: *size,
            max: *max,
            advice,
        },
        StorageError::Unavailable(message) => StorageError::Unavailable(message.clone()),
        StorageError::InUse { path, pid } => StorageError::InUse {
            path: path.clone(),
            pid: *pid,
        },
        StorageError::NeedsAlone { path, processes } => StorageError::NeedsAlone {
            path: path.clone(),
            processes: processes.clone(),
        },
        StorageError::CommitUnknown(message) => StorageError::CommitUnknown(message.clone()),
        StorageError::Corrupt(message) => StorageError::Corrupt(message.clone()),
        StorageError::Invalid(message) => StorageError::Invalid(message.clone()),
    }
}
