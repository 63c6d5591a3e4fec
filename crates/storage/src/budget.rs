//! One memory budget for a process: how much each kind of holder has reserved, and eviction when another holder
//! needs memory.
//!
//! [`MemoryBudget`] counts bytes, it does not allocate: a component that keeps something large reserves bytes for it
//! first. A reservation is granted completely or not at all, so the sum of all reservations never exceeds the
//! budget. Several kinds of holders share it ([`MemoryKind`]); a kind may have its own ceiling. Holders of data
//! that can be recomputed (views) register a [`Reclaim`], which is asked to evict before a reservation is
//! refused.
//!
//! Cost: a [`Reservation`] takes from the budget in slabs of [`SLAB_BYTES`], so that an operator that counts
//! each row touches the shared counters once per slab.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::sync::Mutex;
use thiserror::Error;

/// A growing reservation takes this much at once, if the budget has it.
pub const SLAB_BYTES: usize = 64 << 10;

/// Number of kinds of holders.
const KINDS: usize = 6;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Pages cached by an engine.
    EngineCache,
    /// Read views: adjacency, columns, label sets. They are evicted in favour of all other kinds.
    Views,
    /// Rows, groups, lists and searches of running queries.
    Queries,
    /// Rows buffered by a bulk load.
    Import,
    /// Write sets of transactions, with their entries in the change stream.
    Writes,
    /// Commits that are not in tables yet.
    Memtables,
}

impl MemoryKind {
    /// All of them.
    pub const ALL: [Self; KINDS] = [
        Self::EngineCache,
        Self::Views,
        Self::Queries,
        Self::Import,
        Self::Writes,
        Self::Memtables,
    ];

    /// Its name, for display and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::EngineCache => "engine cache",
            Self::Views => "views",
            Self::Queries => "queries",
            Self::Import => "import",
            Self::Writes => "write sets",
            Self::Memtables => "memtables",
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The budget cannot grant a reservation.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{asked} more bytes for {kind} do not fit: {} of {limit} bytes are in use; \
     end other work, or raise the memory option",
    in_use
)]
pub struct OverBudget {
    /// The kind of memory that was requested.
    pub kind: MemoryKind,
    /// Bytes requested.
    pub asked: usize,
    /// Bytes in use of the exhausted limit: the budget, or the kind's ceiling.
    pub in_use: usize,
    /// The exhausted limit, in bytes.
    pub limit: usize,
}

/// A holder that can give memory back: a cache of data that can be recomputed.
pub trait Reclaim: Send + Sync {
    /// Frees about `bytes` bytes by dropping or shrinking reservations before it returns, and returns the
    /// number of bytes freed: fewer, or none, if it holds less or if its contents are in use.
    ///
    /// Runs on the thread that requests memory: it must not reserve, nor wait for a lock that a reserving
    /// thread may hold (use `try_lock` and return 0 if the lock is taken).
    fn reclaim(&self, bytes: usize) -> usize;
}

/// A budget. Clones share it; it may be shared between databases.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    total: usize,
    used: AtomicUsize,
    kinds: [Kind; KINDS],
    reclaimers: Mutex<Vec<(MemoryKind, Weak<dyn Reclaim>)>>,
}

struct Kind {
    used: AtomicUsize,
    peak: AtomicUsize,
    ceiling: AtomicUsize,
}

/// What one kind of holder has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The kind.
    pub kind: MemoryKind,
    /// Bytes reserved now.
    pub used_bytes: usize,
    /// Largest number of bytes reserved at once so far.
    pub peak_bytes: usize,
    /// Largest number of bytes that it may reserve.
    pub ceiling_bytes: usize,
}

impl MemoryBudget {
    /// A budget in bytes. By default views may use half of it and write sets all but an eighth, so that a
    /// transaction's writes can still be committed; the others may use all of it. [`MemoryBudget::set_ceiling`]
    /// changes that.
    pub fn new(total_bytes: usize) -> Self {
        let kind = |kind: MemoryKind| Kind {
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            ceiling: AtomicUsize::new(match kind {
                MemoryKind::Views => total_bytes / 2,
                MemoryKind::Writes => total_bytes - total_bytes / 8,
                _ => total_bytes,
            }),
        };
        Self(Arc::new(Shared {
            total: total_bytes,
            used: AtomicUsize::new(0),
            kinds: MemoryKind::ALL.map(kind),
            reclaimers: Mutex::default(),
        }))
    }

    /// A quarter of the memory that this process may use: see [`machine_bytes`].
    pub fn of_this_machine() -> Self {
        Self::new(machine_bytes() / 4)
    }

    /// The whole budget.
    pub fn total_bytes(&self) -> usize {
        self.0.total
    }

    /// Bytes reserved now.
    pub fn used_bytes(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that are not reserved.
    pub fn free_bytes(&self) -> usize {
        self.0.total.saturating_sub(self.used_bytes())
    }

    /// What one kind of holder has reserved.
    pub fn usage(&self, kind: MemoryKind) -> MemoryUse {
        let counters = &self.0.kinds[kind as usize];
        MemoryUse {
            kind,
            used_bytes: counters.used.load(Ordering::Relaxed),
            peak_bytes: counters.peak.load(Ordering::Relaxed),
            ceiling_bytes: counters.ceiling.load(Ordering::Relaxed),
        }
    }

    /// Limits a kind of holder to `bytes`. Existing reservations stay.
    pub fn set_ceiling(&self, kind: MemoryKind, bytes: usize) {
        let bytes = bytes.min(self.0.total);
        self.0.kinds[kind as usize]
            .ceiling
            .store(bytes, Ordering::Relaxed);
    }

    /// Reserves `bytes` bytes, evicting from other holders if necessary. They are returned when the reservation
    /// is dropped.
    pub fn reserve(&self, kind: MemoryKind, bytes: usize) -> Result<Reservation, OverBudget> {
        self.take(kind, bytes)?;
        Ok(Reservation {
            memory: self.clone(),
            kind,
            taken: bytes,
            used: bytes,
        })
    }

    /// An empty reservation, to grow.
    pub fn reservation(&self, kind: MemoryKind) -> Reservation {
        Reservation {
            memory: self.clone(),
            kind,
            taken: 0,
            used: 0,
        }
    }

    /// Registers `holder` to be asked for memory when a reservation of another kind would be refused. It is
    /// unregistered when it is dropped.
    pub fn add_reclaimer(&self, kind: MemoryKind, holder: Weak<dyn Reclaim>) {
        let mut reclaimers = self.0.reclaimers.lock();
        reclaimers.retain(|(_, holder)| holder.strong_count() > 0);
        reclaimers.push((kind, holder));
    }

    /// Number of registered holders of a kind.
    pub fn reclaimers(&self, kind: MemoryKind) -> usize {
        let reclaimers = self.0.reclaimers.lock();
        let of_kind = |(of, holder): &&(MemoryKind, Weak<dyn Reclaim>)| {
            *of == kind && holder.strong_count() > 0
        };
        reclaimers.iter().filter(of_kind).count()
    }

    /// Takes bytes from the budget, after evicting from other holders if necessary.
    fn take(&self, kind: MemoryKind, bytes: usize) -> Result<(), OverBudget> {
        match self.try_take(kind, bytes) {
            Err(over) if over.limit == self.0.total && bytes <= self.0.total => {
                // Twice: another thread may have taken the bytes that the first attempt freed.
                for _ in 0..2 {
                    self.make_room(kind, bytes);
                    if self.try_take(kind, bytes).is_ok() {
                        return Ok(());
                    }
                }
                Err(over)
            }
            outcome => outcome,
        }
    }

    fn try_take(&self, kind: MemoryKind, bytes: usize) -> Result<(), OverBudget> {
        let counters = &self.0.kinds[kind as usize];
        let add = |counter: &AtomicUsize, limit: usize| {
            counter
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                    used.checked_add(bytes).filter(|used| *used <= limit)
                })
                .map_err(|in_use| OverBudget {
                    kind,
                    asked: bytes,
                    in_use,
                    limit,
                })
        };
        // The budget first: if both are exhausted, eviction from other holders can still help.
        add(&self.0.used, self.0.total)?;
        match add(&counters.used, counters.ceiling.load(Ordering::Relaxed)) {
            Ok(before) => {
                counters.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(over) => {
                self.0.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(over)
            }
        }
    }

    /// Asks holders of other kinds to free what `bytes` more need.
    fn make_room(&self, kind: MemoryKind, bytes: usize) {
        let holders: Vec<Arc<dyn Reclaim>> = self
            .0
            .reclaimers
            .lock()
            .iter()
            .filter(|(holder, _)| *holder != kind)
            .filter_map(|(_, holder)| holder.upgrade())
            .collect();
        for holder in holders {
            let free = self.free_bytes();
            if free >= bytes {
                return;
            }
            // A little more than needed: a holder that asks for a slab will soon ask for the next.
            holder.reclaim((bytes - free).max(16 * SLAB_BYTES));
        }
    }

    fn give_back(&self, kind: MemoryKind, bytes: usize) {
        self.0.kinds[kind as usize]
            .used
            .fetch_sub(bytes, Ordering::Relaxed);
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("total_bytes", &self.0.total)
            .field("uses", &MemoryKind::ALL.map(|kind| self.usage(kind)))
            .finish()
    }
}

/// A part of the budget, returned when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: MemoryBudget,
    kind: MemoryKind,
    /// Taken from the budget: `used`, and the rest of the last slab.
    taken: usize,
    used: usize,
}

impl Reservation {
    /// Bytes in use. A growing reservation holds up to one slab more.
    pub fn bytes(&self) -> usize {
        self.used
    }

    /// The budget that it belongs to.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Reserves `bytes` more bytes, or none of them.
    #[inline]
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes > self.taken - self.used {
            self.take_slab(bytes, true)?;
        }
        self.used += bytes;
        Ok(())
    }

    /// Like [`Reservation::grow`], but without evicting from other holders: for callers that have an
    /// alternative.
    #[inline]
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes > self.taken - self.used {
            self.take_slab(bytes, false)?;
        }
        self.used += bytes;
        Ok(())
    }

    /// Returns `bytes` of the bytes in use to the budget; all of them if it holds fewer.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        self.used -= bytes.min(self.used);
        let spare = self.taken - self.used;
        if spare > 2 * SLAB_BYTES {
            let back = spare - SLAB_BYTES;
            self.taken -= back;
            self.memory.give_back(self.kind, back);
        }
    }

    /// Resizes it to `bytes` bytes.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes > self.used {
            self.grow(bytes - self.used)
        } else {
            self.shrink(self.used - bytes);
            Ok(())
        }
    }

    /// Returns all of it, including the spare part of the slab.
    pub fn clear(&mut self) {
        self.memory.give_back(self.kind, self.taken);
        self.taken = 0;
        self.used = 0;
    }

    #[cold]
    fn take_slab(&mut self, bytes: usize, others_give_way: bool) -> Result<(), OverBudget> {
        let need = bytes - (self.taken - self.used);
        let slab = need.max(SLAB_BYTES);
        let take = |bytes| {
            if others_give_way {
                self.memory.take(self.kind, bytes)
            } else {
                self.memory.try_take(self.kind, bytes)
            }
        };
        // If no slab fits, the bytes needed may.
        if self.memory.try_take(self.kind, slab).is_ok() {
            self.taken += slab;
            return Ok(());
        }
        take(need)?;
        self.taken += need;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.give_back(self.kind, self.taken);
    }
}

/// Bytes of memory that this process may use: the minimum of the machine's memory, the limits of its control
/// groups and its limit on address space. 1 GiB if none of these can be determined.
pub fn machine_bytes() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| meminfo_total(&text));
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit_files(&groups)
        .iter()
        .filter_map(|path| read(path)?.trim().parse::<u64>().ok())
        .min();
    let address_space = read("/proc/self/limits").and_then(|text| address_space_limit(&text));
    let bytes = [machine, group, address_space]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(1 << 30);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// `MemTotal:  24689764 kB`.
fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// `Max address space  SOFT  HARD  bytes`, where a number is set.
fn address_space_limit(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("Max address space"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Files that may contain memory limits of the control groups in `/proc/self/cgroup`: of each group and its
/// ancestors, of version 2 and of version 1, and of the mount's root, which is what a container sees as its
/// group.
fn group_limit_files(groups: &str) -> Vec<String> {
    let mut files = vec![
        "/sys/fs/cgroup/memory.max".to_owned(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned(),
    ];
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|one| one == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        while !path.is_empty() {
            files.push(format!("{root}{path}/{file}"));
            path = path.rfind('/').map_or("", |at| &path[..at]);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds reservations that it drops on request.
    struct Cache(Mutex<Vec<Reservation>>);

    impl Reclaim for Cache {
        fn reclaim(&self, bytes: usize) -> usize {
            let Some(mut held) = self.0.try_lock() else {
                return 0;
            };
            let mut freed = 0;
            while freed < bytes
                && let Some(one) = held.pop()
            {
                freed += one.bytes();
            }
            freed
        }
    }

    #[test]
    fn reservations_never_exceed_the_budget_and_come_back() {
        let memory = MemoryBudget::new(1000);
        let first = memory.reserve(MemoryKind::Import, 600).unwrap();
        let over = memory.reserve(MemoryKind::Queries, 401).unwrap_err();
        assert_eq!((over.in_use, over.limit, over.asked), (600, 1000, 401));
        let second = memory.reserve(MemoryKind::Queries, 400).unwrap();
        assert_eq!(memory.free_bytes(), 0);
        drop(first);
        assert_eq!(memory.usage(MemoryKind::Import).used_bytes, 0);
        assert_eq!(memory.usage(MemoryKind::Import).peak_bytes, 600);
        assert_eq!(memory.used_bytes(), 400);
        drop(second);
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn small_growth_takes_a_slab_at_once_and_the_last_bytes_exactly() {
        let memory = MemoryBudget::new(SLAB_BYTES + 100);
        let mut held = memory.reservation(MemoryKind::Queries);
        held.grow(10).unwrap();
        assert_eq!((held.bytes(), memory.used_bytes()), (10, SLAB_BYTES));
        held.grow(SLAB_BYTES - 10).unwrap();
        assert_eq!(memory.used_bytes(), SLAB_BYTES);
        held.grow(100).unwrap();
        assert_eq!(memory.free_bytes(), 0);
        assert!(held.grow(1).is_err());
        assert_eq!(held.bytes(), SLAB_BYTES + 100);
        held.shrink(usize::MAX);
        assert_eq!(held.bytes(), 0);
        held.clear();
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_ceiling_holds_for_its_kind_alone() {
        let memory = MemoryBudget::new(1000);
        memory.set_ceiling(MemoryKind::Views, 300);
        let error = memory.reserve(MemoryKind::Views, 301).unwrap_err();
        assert_eq!(error.limit, 300);
        assert_eq!(memory.used_bytes(), 0);
        assert!(memory.reserve(MemoryKind::Queries, 900).is_ok());
        assert!(error.to_string().contains("views"), "{error}");
    }

    #[test]
    fn caches_are_evicted_for_others_but_not_for_their_own_kind() {
        let memory = MemoryBudget::new(100 * SLAB_BYTES);
        memory.set_ceiling(MemoryKind::Views, memory.total_bytes());
        let cache = Arc::new(Cache(Mutex::default()));
        memory.add_reclaimer(
            MemoryKind::Views,
            Arc::downgrade(&cache) as Weak<dyn Reclaim>,
        );
        for _ in 0..100 {
            let one = memory.reserve(MemoryKind::Views, SLAB_BYTES).unwrap();
            cache.0.lock().push(one);
        }
        assert!(memory.reserve(MemoryKind::Views, 1).is_err());
        let mut query = memory.reservation(MemoryKind::Queries);
        assert!(query.try_grow(1).is_err());
        query.grow(50 * SLAB_BYTES).unwrap();
        assert!(memory.used_bytes() <= memory.total_bytes());
        // A holder whose lock is taken is skipped.
        let busy = cache.0.lock();
        assert!(query.grow(51 * SLAB_BYTES).is_err());
        drop(busy);
        drop(cache);
        assert!(memory.reserve(MemoryKind::Import, 0).is_ok());
    }

    #[test]
    fn many_threads_stay_within_the_budget() {
        let memory = MemoryBudget::new(64 * SLAB_BYTES);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let memory = &memory;
                scope.spawn(move || {
                    for round in 0..2000_usize {
                        let mut held = memory.reservation(MemoryKind::ALL[thread]);
                        for step in 0..20 {
                            if held.grow((round * 7919 + step) % 50_000).is_err() {
                                held.shrink(100_000);
                            }
                            assert!(memory.used_bytes() <= memory.total_bytes());
                        }
                    }
                });
            }
        });
        assert_eq!(memory.used_bytes(), 0);
        for kind in MemoryKind::ALL {
            assert_eq!(memory.usage(kind).used_bytes, 0);
        }
    }

    #[test]
    fn limits_of_the_system_are_read() {
        assert_eq!(
            meminfo_total("MemTotal:       24689764 kB\nMemFree: 1 kB\n"),
            Some(24_689_764 << 10)
        );
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         2147483648           unlimited            bytes     \n";
        assert_eq!(address_space_limit(limits), Some(2 << 30));
        assert_eq!(
            address_space_limit(&limits.replace("2147483648", "unlimited ")),
            None
        );
        let files = group_limit_files("4:memory:/a/b\n3:cpu:/c\n0::/d\n");
        assert!(files.contains(&"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes".to_owned()));
        assert!(files.contains(&"/sys/fs/cgroup/memory/a/memory.limit_in_bytes".to_owned()));
        assert!(files.contains(&"/sys/fs/cgroup/d/memory.max".to_owned()));
        assert!(machine_bytes() > 1 << 20);
    }
}
