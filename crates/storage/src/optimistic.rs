//! Optimistic transactions over any [`Backend`]: overlay reads, guards, and validation in groups.
//!
//! A transaction reads one view and collects its writes and its footprint. At commit it joins a group (see
//! [`crate::group_commit`]); each member is validated in order against the guard table (including the earlier
//! members of its group), and the survivors are passed to the backend as one group.

use std::{ops::ControlFlow, path::Path, sync::Arc, time::Duration};

use isomer_shared_log::SharedLog;

use crate::contract::{Completed, visit_by_pages};
use crate::group_commit::{Committer, GroupCommit};
use crate::log_node::Shared;
use crate::state::{Live, State, Work, copy_of};
use crate::sync::Mutex;

use crate::{
    AloneHold, Backend, Capabilities, CommitHook, Durability, EngineCommit, EngineSavepoint,
    EngineTransaction, Granule, GuardMode, GuardSet, KeyRange, LogPoint, Order, Page, PageLimit,
    PairIterator, Parked, Read, SharedOptions, Snapshot, Statistics, StorageError, StreamEntry,
    ValueVisitor, Version, View, Visitor, WriteSet,
};

/// Largest page, whatever limit the caller passes.
const MAX_PAGE_BYTES: usize = 1 << 30;

/// An engine made of a backend.
pub struct Optimistic<B: Backend> {
    core: Arc<Core<B>>,
    group_commit: Arc<GroupCommit<Core<B>>>,
}

/// The state, and how its commits are made durable.
struct Core<B: Backend> {
    state: Arc<State<B>>,
    /// Held by the thread that changes the backend.
    writer: Mutex<()>,
    /// The node on the shared log, if several processes have the database open.
    shared: Option<Arc<Shared<B>>>,
}

impl<B: Backend> Optimistic<B> {
    /// An engine over `backend`.
    pub fn new(backend: B) -> Self {
        let capabilities = backend.capabilities();
        Self::with_core(State::new(backend, capabilities), None)
    }

    /// An engine over `backend` as one of several processes that commit to `log`. Everything in the log behind
    /// [`Backend::log_point`] is applied first.
    ///
    /// # Errors
    /// `Unavailable` if the log cannot be reached, or is trimmed beyond that point: another process has published newer
    /// files, which are to be read again. `Corrupt` if the log is damaged, belongs to another state, or was written by
    /// another version of the program.
    pub fn shared(
        backend: B,
        log: Arc<dyn SharedLog>,
        options: SharedOptions,
    ) -> Result<Self, StorageError> {
        let (state, shared) = Shared::open(backend, log, options)?;
        Ok(Self::with_core(state, Some(shared)))
    }

    fn with_core(state: Arc<State<B>>, shared: Option<Arc<Shared<B>>>) -> Self {
        let core = Arc::new(Core {
            state,
            writer: Mutex::default(),
            shared,
        });
        Self {
            group_commit: GroupCommit::new(core.clone()),
            core,
        }
    }

    /// The place in the shared log behind what is applied; `None` if the database is not shared.
    pub fn applied(&self) -> Option<LogPoint> {
        self.core.shared.as_ref().map(|shared| shared.applied())
    }

    /// Trims the shared log: what the backend holds durably without it and what neither the change stream nor the
    /// retention options need. An engine does this by itself while it commits, and after [`Optimistic::trim_stream`].
    pub fn trim_log(&self) -> Result<(), StorageError> {
        match &self.core.shared {
            Some(shared) => shared.trim_log(),
            None => Ok(()),
        }
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.core.state.backend
    }

    /// See [`crate::Engine::capabilities`].
    pub fn capabilities(&self) -> Capabilities {
        self.core.state.capabilities
    }

    /// See [`crate::Engine::version`]; 0 if the engine cannot be read.
    pub fn version(&self) -> Version {
        // Without the log, the last version that is known here.
        let _ = self.core.catch_up();
        self.backend().view().map_or(0, |view| view.version())
    }

    /// See [`crate::Engine::snapshot`].
    pub fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.core.catch_up()?;
        Ok(Arc::new(ViewSnapshot {
            view: self.backend().view()?,
        }))
    }

    /// See [`crate::Engine::snapshot_at`].
    pub fn snapshot_at(&self, version: Version) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.core.catch_up()?;
        Ok(Arc::new(ViewSnapshot {
            view: self.backend().view_at(version)?,
        }))
    }

    /// See [`crate::Engine::oldest_version`].
    pub fn oldest_version(&self) -> Version {
        self.backend().oldest_version()
    }

    /// See [`crate::Engine::version_at`].
    pub fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        match &self.core.shared {
            Some(shared) => shared.version_at(time_ms),
            None => self.backend().version_at(time_ms),
        }
    }

    /// See [`crate::Engine::begin`].
    pub fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError> {
        self.core.catch_up()?;
        let (live, view) = self.core.state.begin()?;
        Ok(Box::new(OptimisticTransaction {
            group_commit: self.group_commit.clone(),
            live,
            view,
            writes: WriteSet::new(),
            footprint: GuardSet::default(),
            stream: Vec::new(),
            marks: Vec::new(),
        }))
    }

    /// See [`crate::Engine::stream`].
    pub fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        if let Some(shared) = &self.core.shared {
            return shared.stream(after, max_entries, max_bytes, durable_only);
        }
        let version = self.backend().view()?.version();
        let upto = if durable_only {
            self.backend().durable_version().min(version)
        } else {
            version
        };
        self.backend().stream(after, upto, max_entries, max_bytes)
    }

    /// See [`crate::Engine::trim_stream`].
    pub fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        match &self.core.shared {
            Some(shared) => shared.trim_stream(upto),
            None => {
                let _writer = self.core.writer.lock();
                self.backend().trim_stream(upto)
            }
        }
    }

    /// See [`crate::Engine::stream_trimmed`].
    pub fn stream_trimmed(&self) -> Result<Version, StorageError> {
        match &self.core.shared {
            Some(shared) => shared.stream_trimmed(),
            None => self.backend().stream_trimmed(),
        }
    }

    /// See [`crate::Engine::sync`].
    pub fn sync(&self) -> Result<(), StorageError> {
        match &self.core.shared {
            Some(shared) => shared.sync(),
            None => {
                let _writer = self.core.writer.lock();
                self.backend().sync()
            }
        }
    }

    /// See [`crate::Engine::wait_for_background_work`]. Commits continue concurrently.
    pub fn wait_for_background_work(&self) -> Result<(), StorageError> {
        self.sync()?;
        self.backend().wait_for_background_work()
    }

    /// See [`crate::Engine::compact`]. Commits continue concurrently.
    pub fn compact(&self) -> Result<(), StorageError> {
        self.wait_for_background_work()?;
        self.backend().compact()?;
        match &self.core.shared {
            Some(shared) => shared.compact_log(),
            None => Ok(()),
        }
    }

    /// See [`crate::Engine::checkpoint`].
    pub fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.core.catch_up()?;
        self.backend().checkpoint(target)
    }

    /// See [`crate::Engine::ingest`].
    pub fn ingest(
        &self,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError> {
        let state = &*self.core.state;
        let mut last: Option<Vec<u8>> = None;
        let mut checked = pairs.map(|pair| {
            let (key, value) = pair?;
            check_pair(&state.capabilities, &key, &value)?;
            // Backends write these pairs as sorted tables without sorting them.
            if last.as_ref().is_some_and(|last| *last >= key) {
                let key = crate::hex(&key);
                return Err(StorageError::Invalid(format!("the key {key} comes after a greater or equal one: ingest ascending, distinct keys")));
            }
            let kept = last.get_or_insert_default();
            kept.clear();
            kept.extend_from_slice(&key);
            Ok((key, value))
        });
        if let Some(shared) = &self.core.shared {
            return shared.ingest(&mut checked, stream.unwrap_or_default());
        }
        let _writer = self.core.writer.lock();
        let version = state.next_version()?;
        let hook = state.hook();
        if let Some(hook) = &hook {
            hook.committing(version, stream.unwrap_or_default());
        }
        let ingested = state.backend.ingest(version, &mut checked, stream);
        notify_hook_of_failure(&ingested, hook.as_deref(), version);
        if matches!(ingested, Ok(()) | Err(StorageError::CommitUnknown(_))) {
            // An ingestion has no footprint: every transaction that observed an earlier version must be
            // retried. None is validated before this, as the writer's lock is held.
            state.guards.lock().raise_floor(version);
        }
        ingested?;
        state.count_group(1);
        Ok(version)
    }

    /// See [`crate::Engine::hold_alone`].
    pub fn hold_alone(&self, patience: Duration) -> Result<AloneHold, StorageError> {
        if self.core.shared.is_none() {
            return Ok(AloneHold::default());
        }
        self.backend().hold_alone(patience)?.ok_or_else(|| {
            StorageError::Unavailable(
                "this engine cannot keep other processes from opening the database: open it exclusively"
                    .to_owned(),
            )
        })
    }

    /// See [`crate::Engine::set_hook`].
    pub fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        self.core.state.set_hook(hook);
    }

    /// See [`crate::Engine::statistics`].
    pub fn statistics(&self) -> Result<Statistics, StorageError> {
        self.core.catch_up()?;
        let state = &self.core.state;
        let mut statistics = state.backend.statistics()?;
        (statistics.commits, statistics.conflicts) = state.counts();
        statistics.details.extend(state.details());
        if let Some(shared) = &self.core.shared {
            shared.add_statistics(&mut statistics)?;
        }
        Ok(statistics)
    }

    /// See [`crate::Engine::verify`].
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.core.catch_up()?;
        self.backend().verify(progress)
    }
}

/// Implements [`crate::Engine`] for a type by its field of type [`Optimistic`].
#[macro_export]
#[doc(hidden)]
macro_rules! delegate_engine {
    ($engine:ty, $field:ident) => {
        impl $crate::Engine for $engine {
            fn capabilities(&self) -> $crate::Capabilities {
                self.$field.capabilities()
            }
            fn version(&self) -> $crate::Version {
                self.$field.version()
            }
            fn snapshot(
                &self,
            ) -> Result<std::sync::Arc<dyn $crate::Snapshot>, $crate::StorageError> {
                self.$field.snapshot()
            }
            fn snapshot_at(
                &self,
                version: $crate::Version,
            ) -> Result<std::sync::Arc<dyn $crate::Snapshot>, $crate::StorageError> {
                self.$field.snapshot_at(version)
            }
            fn oldest_version(&self) -> $crate::Version {
                self.$field.oldest_version()
            }
            fn version_at(
                &self,
                time_ms: u64,
            ) -> Result<Option<$crate::Version>, $crate::StorageError> {
                self.$field.version_at(time_ms)
            }
            fn begin(&self) -> Result<Box<dyn $crate::EngineTransaction>, $crate::StorageError> {
                self.$field.begin()
            }
            fn stream(
                &self,
                after: $crate::Version,
                max_entries: usize,
                max_bytes: usize,
                durable_only: bool,
            ) -> Result<Vec<$crate::StreamEntry>, $crate::StorageError> {
                self.$field
                    .stream(after, max_entries, max_bytes, durable_only)
            }
            fn trim_stream(&self, upto: $crate::Version) -> Result<(), $crate::StorageError> {
                self.$field.trim_stream(upto)
            }
            fn stream_trimmed(&self) -> Result<$crate::Version, $crate::StorageError> {
                self.$field.stream_trimmed()
            }
            fn sync(&self) -> Result<(), $crate::StorageError> {
                self.$field.sync()
            }
            fn wait_for_background_work(&self) -> Result<(), $crate::StorageError> {
                self.$field.wait_for_background_work()
            }
            fn compact(&self) -> Result<(), $crate::StorageError> {
                self.$field.compact()
            }
            fn checkpoint(&self, target: &std::path::Path) -> Result<(), $crate::StorageError> {
                self.$field.checkpoint(target)
            }
            fn ingest(
                &self,
                pairs: &mut $crate::PairIterator<'_>,
                stream: Option<&[u8]>,
            ) -> Result<$crate::Version, $crate::StorageError> {
                self.$field.ingest(pairs, stream)
            }
            fn hold_alone(
                &self,
                patience: std::time::Duration,
            ) -> Result<$crate::AloneHold, $crate::StorageError> {
                self.$field.hold_alone(patience)
            }
            fn set_hook(&self, hook: std::sync::Arc<dyn $crate::CommitHook>) {
                self.$field.set_hook(hook);
            }
            fn statistics(&self) -> Result<$crate::Statistics, $crate::StorageError> {
                self.$field.statistics()
            }
            fn verify(
                &self,
                progress: &mut dyn FnMut(u64, u64),
            ) -> Result<Vec<String>, $crate::StorageError> {
                self.$field.verify(progress)
            }
        }
    };
}
pub(crate) use delegate_engine;

/// Refuses a pair that exceeds the limits of the engine.
fn check_pair(limits: &Capabilities, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
    if key.is_empty() {
        return Err(StorageError::Invalid(
            "a key must have at least one byte".to_owned(),
        ));
    }
    let too_large = |what, size, max, advice| {
        Err(StorageError::TooLarge {
            what,
            size,
            max,
            advice,
        })
    };
    if key.len() > limits.max_key_bytes {
        return too_large("a key", key.len(), limits.max_key_bytes, "shorten the key");
    }
    if value.len() > limits.max_value_bytes {
        return too_large(
            "a value",
            value.len(),
            limits.max_value_bytes,
            "store it in several parts",
        );
    }
    Ok(())
}

impl<B: Backend> Core<B> {
    /// Applies what other processes have committed: a snapshot that is taken afterwards contains each commit that has
    /// returned before this call.
    fn catch_up(&self) -> Result<(), StorageError> {
        match &self.shared {
            Some(shared) => shared.catch_up(),
            None => Ok(()),
        }
    }
}

impl<B: Backend> Committer for Core<B> {
    type Work = Work<B>;

    fn writer(&self) -> &Mutex<()> {
        &self.writer
    }

    fn commit_group(&self, group: &[&Work<B>]) -> Vec<Result<Version, StorageError>> {
        let state = &*self.state;
        if let Some(shared) = &self.shared {
            return shared.commit_group(group);
        }
        // Under the writer lock, which the leader has: no other thread publishes
        // a version before this group.
        let first = match state.next_version() {
            Ok(first) => first,
            Err(error) => return group.iter().map(|_| Err(copy_of(&error))).collect(),
        };
        // Versions are given out to valid members only, in the order of the
        // queue, so they stay consecutive.
        let validation = state.validate(first, group.iter().copied());
        let (results, commits) = (validation.results, validation.commits);
        state.count_conflicts(group.len() - commits.len());
        if commits.is_empty() {
            return results;
        }
        let hook = state.hook();
        if let Some(hook) = &hook {
            // Announced before `apply` publishes them: whatever derives data from commits (read views,
            // watchers) must know of a version before a reader can begin at it.
            for commit in &commits {
                hook.committing(commit.version, commit.stream);
            }
        }
        let applied = state.backend.apply(&commits, validation.durability);
        notify_hook_of_failure(&applied, hook.as_deref(), first);
        // A group whose outcome is unknown may be on disk, so its changes count: otherwise a
        // transaction with an older snapshot could pass validation against them. After any other error
        // nothing of the group exists. Transactions may have begun at the published version already,
        // but none is validated before this, as the writer lock is held.
        if matches!(applied, Ok(()) | Err(StorageError::CommitUnknown(_))) {
            state.record_group();
        }
        match applied {
            Ok(()) => {
                state.count_group(commits.len());
                results
            }
            Err(error) => results
                .into_iter()
                // Members that were refused keep their conflict: repeating them can succeed,
                // whatever happened to the group.
                .map(|result| result.and_then(|_| Err(copy_of(&error))))
                .collect(),
        }
    }
}

impl<B: Backend> Drop for Optimistic<B> {
    /// Its threads shut down; queued transactions are committed and notified.
    fn drop(&mut self) {
        self.group_commit.end();
        if let Some(shared) = &self.core.shared {
            shared.close();
        }
    }
}

/// Notifies the hook of announced commits that failed or whose outcome is unknown.
fn notify_hook_of_failure(
    outcome: &Result<(), StorageError>,
    hook: Option<&dyn CommitHook>,
    from: Version,
) {
    match (outcome, hook) {
        (Err(StorageError::CommitUnknown(_)), Some(hook)) => hook.unsettled(from),
        (Err(_), Some(hook)) => hook.abandoned(from),
        _ => {}
    }
}

struct ViewSnapshot<V: View> {
    view: Arc<V>,
}

impl<V: View> Snapshot for ViewSnapshot<V> {}

impl<V: View> Read for ViewSnapshot<V> {
    fn version(&self) -> Version {
        self.view.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.view.get(key)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        self.view.visit_many(keys, visit)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        if crate::write_set::is_empty_range(range) {
            page.clear();
            return Ok(());
        }
        fill(page, range, order, limit, |parked, visit| {
            self.view.visit_on(parked, range, order, visit)
        })
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        if crate::write_set::is_empty_range(range) {
            return Ok(());
        }
        if V::LENDS {
            return self.view.visit(range, order, visit);
        }
        visit_by_pages(self, range, order, visit)
    }
}

/// Fills a page from a visit; the first pair that does not fit is where the next page begins.
fn fill(
    page: &mut Page,
    range: KeyRange<'_>,
    order: Order,
    limit: PageLimit,
    visit: impl FnOnce(&mut Parked, &mut Visitor<'_>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    // The cursor of the previous page of this scan, if the page is used
    // again; `page.clear` would drop it.
    let mut parked = page.take_parked();
    page.clear();
    let (max_keys, max_bytes) = (limit.keys.max(1), limit.bytes.min(MAX_PAGE_BYTES));
    let mut rest = None;
    visit(&mut parked, &mut |key, value| {
        if page.len() >= max_keys || (page.byte_len() >= max_bytes && !page.is_empty()) {
            rest = Some(match order {
                Order::Ascending => (key.to_vec(), range.end.map(<[u8]>::to_vec)),
                Order::Descending => {
                    // Ends of ranges are exclusive: the least key above `key`, so that the
                    // rest begins with `key` itself.
                    let mut end = key.to_vec();
                    end.push(0);
                    (range.start.to_vec(), Some(end))
                }
            });
            return ControlFlow::Break(());
        }
        page.push(key, value);
        ControlFlow::Continue(())
    })?;
    page.set_next(rest);
    page.set_parked(parked);
    Ok(())
}

struct OptimisticTransaction<B: Backend> {
    group_commit: Arc<GroupCommit<Core<B>>>,
    live: Live<B>,
    view: Arc<B::View>,
    writes: WriteSet,
    footprint: GuardSet,
    stream: Vec<u8>,
    /// Savepoints: position in the write set's undo log, length of the stream entry.
    marks: Vec<(usize, usize)>,
}

impl<B: Backend> OptimisticTransaction<B> {
    /// Refuses a write that would exceed the limit of the write set.
    fn check_room(&mut self, more: usize) -> Result<(), StorageError> {
        let max = self.live.state.capabilities.max_transaction_bytes;
        if self.write_bytes() + more > max {
            // Without overwritten values it may fit.
            self.writes.order();
        }
        let size = self.write_bytes() + more;
        if size > max {
            let advice = "commit in smaller parts, or load in bulk";
            return Err(StorageError::TooLarge {
                what: "the write set of a transaction",
                size,
                max,
                advice,
            });
        }
        Ok(())
    }
}

impl<B: Backend> OptimisticTransaction<B> {
    /// The data to commit; if nothing was written, the version that it read.
    fn into_work(self, durability: Durability) -> Result<Work<B>, Version> {
        let Self {
            live,
            view,
            mut writes,
            footprint,
            stream,
            ..
        } = self;
        writes.stop_recording();
        if writes.is_empty() && stream.is_empty() {
            // Nothing to validate, even if the footprint is not empty: a transaction that only reads sees
            // the state of one version, and is serialized at that version.
            return Err(view.version());
        }
        // Before other threads wait for it. The view is not needed any more; an engine may reuse its space.
        writes.prepare();
        Ok(Work {
            live,
            footprint,
            writes,
            stream,
            durability,
        })
    }
}

impl<B: Backend> Read for OptimisticTransaction<B> {
    fn version(&self) -> Version {
        self.view.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        match self.writes.get(key) {
            Some(own) => Ok(own.map(<[u8]>::to_vec)),
            None => self.view.get(key),
        }
    }

    fn visit_many(
        &self,
        mut keys: &[&[u8]],
        visit: &mut ValueVisitor<'_>,
    ) -> Result<(), StorageError> {
        let mut flow = ControlFlow::Continue(());
        while let Some((first, rest)) = keys.split_first()
            && flow.is_continue()
        {
            if let Some(own) = self.writes.get(first) {
                flow = visit(own);
                keys = rest;
                continue;
            }
            // As many keys as possible in one call to the view, which looks them up together: up to the
            // next key that this transaction wrote.
            let own = rest.iter().position(|key| self.writes.get(key).is_some());
            let (below, behind) = keys.split_at(own.map_or(keys.len(), |own| own + 1));
            self.view.visit_many(below, &mut |value| {
                flow = visit(value);
                flow
            })?;
            keys = behind;
        }
        Ok(())
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        fill(page, range, order, limit, |parked, visit| {
            self.writes.visit(&*self.view, parked, range, order, visit)
        })
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        if <B::View as View>::LENDS && !self.writes.may_touch(range) {
            if crate::write_set::is_empty_range(range) {
                return Ok(());
            }
            return self.view.visit(range, order, visit);
        }
        visit_by_pages(self, range, order, visit)
    }
}

impl<B: Backend> EngineTransaction for OptimisticTransaction<B> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        check_pair(&self.live.state.capabilities, key, value)?;
        self.check_room(WriteSet::cost(key, value))?;
        self.writes.put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.check_room(WriteSet::cost(key, b""))?;
        self.writes.delete(key);
        Ok(())
    }

    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError> {
        self.check_room(WriteSet::cost(range.start, range.end.unwrap_or_default()))?;
        self.writes.delete_range(range);
        Ok(())
    }

    fn guard(&mut self, granule: Granule, mode: GuardMode) {
        self.footprint.declare(granule, mode);
    }

    fn append_stream(&mut self, bytes: &[u8]) {
        self.stream.extend_from_slice(bytes);
    }

    fn append_stream_owned(&mut self, bytes: Vec<u8>) {
        match self.stream.is_empty() {
            true => self.stream = bytes,
            false => self.append_stream(&bytes),
        }
    }

    fn savepoint(&mut self) -> EngineSavepoint {
        self.marks.push((self.writes.mark(), self.stream.len()));
        EngineSavepoint(self.marks.len() - 1)
    }

    fn rollback_to(&mut self, savepoint: EngineSavepoint) {
        let Some(&(undo, stream)) = self.marks.get(savepoint.0) else {
            return;
        };
        self.marks.truncate(savepoint.0 + 1);
        // The footprint stays. What was read after the savepoint may have decided
        // what the transaction does next.
        self.writes.rollback_to(undo);
        self.stream.truncate(stream);
    }

    fn release(&mut self, savepoint: EngineSavepoint) {
        self.marks.truncate(savepoint.0);
        if self.marks.is_empty() {
            self.writes.stop_recording();
        }
    }

    fn write_bytes(&self) -> usize {
        self.writes.bytes() + self.stream.len()
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError> {
        let group_commit = self.group_commit.clone();
        match self.into_work(durability) {
            Ok(work) => group_commit.commit(work),
            Err(version) => Ok(version),
        }
    }

    fn start_commit(
        self: Box<Self>,
        durability: Durability,
        during: Box<dyn Send>,
    ) -> Box<dyn EngineCommit> {
        let group_commit = self.group_commit.clone();
        let is_quick = durability == Durability::Buffered;
        match self.into_work(durability) {
            Ok(work) => group_commit.start(work, is_quick, during),
            Err(version) => Box::new(Completed(Ok(version))),
        }
    }
}
