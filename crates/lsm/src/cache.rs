//! The cache of blocks, indexes and filters, within the memory budget.
//!
//! A part of the memory is reserved for it permanently, as is its share of the eighth of the budget that all
//! caches keep once they have filled it. Beyond that three limits hold: the capacity passed to
//! [`BlockCache::new`], what the budget grants ([`MemoryKind::EngineCache`]), and what the pinned parts of
//! tables (their upper indexes and range tombstones) leave free. The cache reserves memory as it fills, and
//! evicts blocks when a reservation of another kind would be refused.

use std::{
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_storage::sync::Mutex;
use isomer_storage::{MemoryBudget, MemoryKind, OverBudget, Reclaim, Reservation};
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};

use crate::{sharded::Sharded, table::cached::Cached};

/// Bytes of a block in addition to its contents: the map entry, the search index, and the allocator's overhead.
const ENTRY_BYTES: usize = 160 + size_of::<Cached>();
/// The budget is asked for this much at once.
const STEP_BYTES: usize = 1 << 20;
/// Minimum size of a cache: less cannot hold the blocks of one search.
const MIN_BYTES: usize = 64 << 10;

/// Number of a file, and the offset in it.
pub(crate) type BlockId = (u64, u64);

/// Hashes a [`BlockId`]: file numbers and offsets cannot be chosen by an attacker, so only speed matters.
#[derive(Clone, Copy, Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0xf39c_c060_5ced_c835) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[derive(Clone)]
struct Weights;

impl Weighter<BlockId, Arc<Cached>> for Weights {
    fn weight(&self, _id: &BlockId, cached: &Arc<Cached>) -> u64 {
        (cached.block.memory_bytes() + ENTRY_BYTES) as u64
    }
}

/// A cache of blocks; clones share it. It may serve several databases with one budget.
#[derive(Clone)]
pub struct BlockCache {
    shared: Arc<Shared>,
}

struct Shared {
    blocks: Cache<BlockId, Arc<Cached>, Weights, BuildHasherDefault<BlockHasher>>,
    limits: Mutex<Limits>,
    /// Bytes that blocks may take now; a copy of the value in `limits`.
    capacity: AtomicU64,
    /// Bytes that may be inserted before the fill level is computed again: that takes all locks of the cache.
    room: AtomicI64,
    /// Whether an insertion evicts another block.
    full: AtomicBool,
    /// Blocks that were requested lately and not kept: a table of half hashes, indexed by hash.
    asked_for: Box<[AtomicU32]>,
    most: usize,
    searches: Sharded<Searches>,
    next_file: AtomicU64,
    /// Number of read-ahead threads still available to scans.
    helpers: AtomicUsize,
    /// Milliseconds after which a scan that has read nothing loses its thread.
    helper_idle_ms: AtomicU64,
}

/// Lookups by some of the threads, for statistics only: a lost count does not matter, cache-line contention
/// would.
#[derive(Default)]
struct Searches {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The right to a read-ahead thread; returned when dropped.
pub(crate) struct Helper {
    shared: Arc<Shared>,
}

impl Helper {
    /// How long a scan may read nothing and keep its thread.
    pub(crate) fn idle_limit(&self) -> Duration {
        Duration::from_millis(self.shared.helper_idle_ms.load(Ordering::Relaxed))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.shared.helpers.fetch_add(1, Ordering::Relaxed);
    }
}

struct Limits {
    reserved: Option<Reservation>,
    /// Bytes reserved for it permanently.
    own: usize,
    /// These, and those that were reserved in the budget.
    granted: usize,
    pinned: usize,
}

impl BlockCache {
    /// A cache of `own` bytes, which reserves more in a budget if one is given, up to the given total.
    pub fn new(own: usize, budget: Option<(&MemoryBudget, usize)>) -> Self {
        let own = match budget {
            Some(_) => own,
            None => own.max(MIN_BYTES),
        };
        let most = budget.map_or(own, |(_, most)| most.max(own).max(MIN_BYTES));
        let options = OptionsBuilder::new()
            .estimated_items_capacity(most / 4096)
            .weight_capacity(most as u64)
            .shards(shards_for(most))
            .build()
            .expect("the options are complete");
        let blocks = Cache::with_options(
            options,
            Weights,
            Default::default(),
            quick_cache::sync::DefaultLifecycle::default(),
        );
        blocks.set_capacity(own.max(1) as u64);
        let shared = Arc::new(Shared {
            blocks,
            limits: Mutex::new(Limits {
                reserved: budget.map(|(memory, _)| memory.reservation(MemoryKind::EngineCache)),
                own,
                granted: own,
                pinned: 0,
            }),
            capacity: AtomicU64::new(own as u64),
            room: AtomicI64::new(0),
            full: AtomicBool::new(false),
            asked_for: (0..(most / 4096).next_power_of_two())
                .map(|_| AtomicU32::new(0))
                .collect(),
            most,
            searches: Default::default(),
            next_file: AtomicU64::new(1),
            helpers: AtomicUsize::new(0),
            helper_idle_ms: AtomicU64::new(0),
        });
        if let Some((memory, _)) = budget {
            let holder: Weak<dyn Reclaim> = Arc::downgrade(&(shared.clone() as Arc<dyn Reclaim>));
            memory.add_reclaimer(MemoryKind::EngineCache, holder);
        }
        Self { shared }
    }

    /// Allows long scans to use this many read-ahead threads in total; initially none. A scan that has read
    /// nothing for `idle_limit` loses its thread.
    pub fn allow_helpers(&self, count: usize, idle_limit: Duration) {
        let helper_idle_ms = u64::try_from(idle_limit.as_millis()).unwrap_or(u64::MAX);
        self.shared
            .helper_idle_ms
            .store(helper_idle_ms, Ordering::Relaxed);
        self.shared.helpers.store(count, Ordering::Relaxed);
    }

    /// The right to one read-ahead thread, if one is available.
    pub(crate) fn helper(&self) -> Option<Helper> {
        let helpers = &self.shared.helpers;
        helpers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .ok()?;
        Some(Helper {
            shared: self.shared.clone(),
        })
    }

    /// A number for a file, unique among the files that share the cache.
    pub(crate) fn file_number(&self) -> u64 {
        self.shared.next_file.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> Option<Arc<Cached>> {
        let block = self.shared.blocks.get(&id);
        let searches = self.shared.searches.local();
        let counter = if block.is_some() {
            &searches.hits
        } else {
            &searches.misses
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        block
    }

    /// Whether to insert a block that was missing: always while the cache is not full. After that only if it
    /// was requested recently as well; most blocks of a large database are evicted before they are requested
    /// again, and inserting one costs more than reading it once.
    #[inline]
    pub(crate) fn admits(&self, id: BlockId) -> bool {
        if !self.shared.full.load(Ordering::Relaxed) {
            return true;
        }
        let mut hasher = BlockHasher::default();
        hasher.write_u64(id.0);
        hasher.write_u64(id.1);
        let hash = hasher.finish();
        let place = (hash >> 32) as usize & (self.shared.asked_for.len() - 1);
        let place = &self.shared.asked_for[place];
        if place.load(Ordering::Relaxed) == hash as u32 {
            return true;
        }
        place.store(hash as u32, Ordering::Relaxed);
        false
    }

    pub(crate) fn insert(&self, id: BlockId, block: Arc<Cached>) {
        let weight = Weights.weight(&id, &block) as i64;
        let room = self.shared.room.fetch_sub(weight, Ordering::Relaxed);
        if room < weight {
            self.shared.look_for_room(weight as u64);
        }
        self.shared.blocks.insert(id, block);
    }

    /// Counts `bytes` that stay in memory as long as the returned value lives.
    pub(crate) fn pin(&self, bytes: usize) -> Pinned {
        self.shared.pin(bytes);
        Pinned {
            shared: self.shared.clone(),
            bytes,
        }
    }

    /// Like [`BlockCache::pin`], but at least half of the cache stays available for blocks.
    pub(crate) fn try_pin(&self, bytes: usize) -> Option<Pinned> {
        {
            let limits = self.shared.limits.lock();
            if limits.pinned + bytes > limits.granted / 2 {
                return None;
            }
        }
        Some(self.pin(bytes))
    }

    /// Bytes of cached blocks, including the map's overhead.
    pub fn used_bytes(&self) -> usize {
        self.shared.blocks.weight() as usize
    }

    /// Bytes that open tables keep in memory.
    pub fn pinned_bytes(&self) -> usize {
        self.shared.limits.lock().pinned
    }

    /// Approximate numbers of lookups that found their block, and that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let sum = |of: fn(&Searches) -> &AtomicU64| {
            let all = self.shared.searches.iter();
            all.map(|searches| of(searches).load(Ordering::Relaxed))
                .sum()
        };
        (sum(|all| &all.hits), sum(|all| &all.misses))
    }
}

/// Few shards in a small cache: each must hold several blocks.
fn shards_for(bytes: usize) -> usize {
    (bytes >> 20).next_power_of_two().clamp(1, 16)
}

impl Shared {
    /// Computes how much may be inserted until the next call, and whether the cache is full; reserves more
    /// memory if available.
    #[cold]
    fn look_for_room(&self, weight: u64) {
        // Shards fill unevenly: about an eighth is free when the first of them evicts.
        let left = || {
            let capacity = self.capacity.load(Ordering::Relaxed);
            (capacity - capacity / 8) as i64 - (self.blocks.weight() + weight) as i64
        };
        let mut room = left();
        if room < 0 && self.widen() {
            room = left();
        }
        self.full.store(room < 0, Ordering::Relaxed);
        // When full, try again after this much: the budget may grant more by then.
        self.room
            .store(room.max(STEP_BYTES as i64 / 4), Ordering::Relaxed);
    }

    /// Reserves another step in the budget, if it grants one.
    fn widen(&self) -> bool {
        let mut limits = self.limits.lock();
        let limits = &mut *limits;
        let Some(reserved) = &mut limits.reserved else {
            return false;
        };
        if limits.granted >= self.most {
            return false;
        }
        let step = STEP_BYTES.min(self.most.saturating_sub(limits.granted));
        // Views are evicted for queries, not for a cache; blocks can be read again.
        let grown = step > 0 && reserved.try_grow(step).is_ok();
        if grown {
            limits.granted += step;
        }
        self.set_capacity(limits);
        grown
    }

    fn pin(&self, bytes: usize) {
        let mut limits = self.limits.lock();
        let limits = &mut *limits;
        limits.pinned += bytes;
        if let Some(reserved) = &mut limits.reserved
            && limits.pinned > limits.granted
        {
            // Pinned memory is needed whatever the budget grants; if refused, it reduces the memory for blocks.
            let more = limits.pinned - limits.granted;
            let asked: Result<(), OverBudget> = reserved.grow(more);
            if asked.is_ok() {
                limits.granted += more;
            }
        }
        self.set_capacity(limits);
    }

    fn unpin(&self, bytes: usize) {
        let mut limits = self.limits.lock();
        limits.pinned -= bytes;
        self.set_capacity(&limits);
    }

    fn set_capacity(&self, limits: &Limits) {
        let capacity = limits.granted.saturating_sub(limits.pinned) as u64;
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            // Never 0: the map would lose its access statistics.
            self.blocks.set_capacity(capacity.max(1));
            self.room.store(0, Ordering::Relaxed);
            self.full.store(false, Ordering::Relaxed);
        }
    }
}

impl Reclaim for Shared {
    fn reclaim(&self, bytes: usize) -> usize {
        let Some(mut limits) = self.limits.try_lock() else {
            return 0;
        };
        let limits = &mut *limits;
        let Some(reserved) = &mut limits.reserved else {
            return 0;
        };
        // All caches together keep an eighth of the budget: otherwise queries would read the same blocks
        // repeatedly.
        let memory = reserved.memory();
        let share = memory.total_bytes() / 8 / memory.reclaimers(MemoryKind::EngineCache).max(1);
        let needed = limits.pinned.max(limits.own).max(share);
        let free = bytes.min(limits.granted.saturating_sub(needed));
        limits.granted -= free;
        let (granted, pinned) = (limits.granted, limits.pinned);
        let capacity = granted.saturating_sub(pinned) as u64;
        self.capacity.store(capacity, Ordering::Relaxed);
        self.blocks.set_capacity(capacity.max(1));
        self.room.store(0, Ordering::Relaxed);
        reserved.shrink(free);
        free
    }
}

/// Pinned memory of a table, counted in the cache until it is dropped.
pub(crate) struct Pinned {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.shared.unpin(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::block::{Block, BlockBuilder, ValueKind};

    fn block(size: usize) -> Arc<Cached> {
        let mut builder = BlockBuilder::new(16);
        builder.add(b"key", 1, ValueKind::Value, &vec![1; size]);
        let mut out = Vec::new();
        builder.finish(&mut out);
        let len = out.len();
        Arc::new(Cached::new(Block::parse(out.into(), len).unwrap()).unwrap())
    }

    #[test]
    fn the_cache_stays_within_its_capacity() {
        let cache = BlockCache::new(4 << 20, None);
        for round in 0..20_000 {
            cache.insert(
                (round % 3, round),
                block(100 + (round as usize * 37) % 8000),
            );
            assert!(cache.used_bytes() <= 4 << 20);
        }
        assert!(cache.used_bytes() > 3 << 20);
        let pinned = cache.pin(3 << 20);
        assert!(cache.used_bytes() <= 1 << 20);
        drop(pinned);
        assert_eq!(cache.pinned_bytes(), 0);
    }

    /// While there is room everything is kept; when full, blocks that are requested again soon are kept.
    #[test]
    fn a_full_cache_keeps_what_is_asked_for_again() {
        let cache = BlockCache::new(4 << 20, None);
        let mut kept = 0;
        while cache.admits((1, kept)) {
            cache.insert((1, kept), block(4000));
            kept += 1;
            assert!(kept < 2000, "it is never full");
        }
        assert!(cache.used_bytes() > 3 << 20, "{}", cache.used_bytes());
        assert!(!cache.admits((2, 7)));
        assert!(cache.admits((2, 7)));
        assert!((0..100_000).filter(|at| cache.admits((3, *at))).count() < 100);
        assert!(!cache.admits((2, 7)), "that was long ago");
        // When there is room again, everything is kept again.
        let pinned = cache.pin(2 << 20);
        drop(pinned);
        assert!(cache.admits((4, 1)));
    }

    #[test]
    fn the_cache_takes_from_the_budget_and_gives_back() {
        let memory = MemoryBudget::new(8 << 20);
        let cache = BlockCache::new(0, Some((&memory, 64 << 20)));
        let used = || memory.usage(MemoryKind::EngineCache).used_bytes;
        for round in 0..10_000 {
            cache.insert((1, round), block(4000));
            assert!(used() <= 8 << 20, "{}", used());
            assert!(
                cache.used_bytes() <= used(),
                "{} {}",
                cache.used_bytes(),
                used()
            );
        }
        assert!(cache.used_bytes() > 6 << 20);
        let query = memory.reserve(MemoryKind::Queries, 5 << 20).unwrap();
        assert!(cache.used_bytes() <= 3 << 20);
        assert!(memory.used_bytes() <= memory.total_bytes());
        drop(query);
        for round in 0..10_000 {
            cache.insert((2, round), block(4000));
        }
        assert!(cache.used_bytes() > 5 << 20);
        drop(cache);
        assert_eq!(used(), 0);
    }

    #[test]
    fn the_permanent_share_is_never_given_back() {
        let memory = MemoryBudget::new(8 << 20);
        let own = memory.reserve(MemoryKind::EngineCache, 2 << 20).unwrap();
        let cache = BlockCache::new(own.bytes(), Some((&memory, 6 << 20)));
        let fill = |file| {
            for at in 0..10_000 {
                cache.insert((file, at), block(4000));
                assert!(memory.used_bytes() <= memory.total_bytes());
            }
        };
        fill(1);
        assert!((5 << 20..6 << 20).contains(&cache.used_bytes()));
        // The rest is smaller than the cache's next step.
        let query = memory.reserve(MemoryKind::Queries, 11 << 19).unwrap();
        assert!(cache.used_bytes() <= 5 << 19, "{}", cache.used_bytes());
        fill(2);
        assert!((3 << 19..=5 << 19).contains(&cache.used_bytes()));
        drop((query, cache));
        assert_eq!(memory.used_bytes(), 2 << 20);
    }
}
