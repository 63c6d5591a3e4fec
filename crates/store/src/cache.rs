//! The cache of blocks, indexes and filters, within the budget of memory.
//!
//! Some bytes are its own. Beyond them three bounds hold at once: the capacity that [`BlockCache::new`] is given, what the budget
//! gives ([`MemoryKind::EngineCache`]), and the room that pinned parts of tables (their upper indexes and erasures) leave. The cache
//! takes from the budget as it fills, and gives back when another kind of holder would be refused.

use std::{
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_storage::sync::Mutex;
use isomer_storage::{Memory, MemoryKind, OverBudget, Reclaim, Reservation};
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};

use crate::{lanes::Lanes, table::cached::Cached};

/// What a block costs beside its bytes: its place in the map, what searching it fast takes, and the allocator's share.
const ENTRY_BYTES: usize = 160 + size_of::<Cached>();
/// The budget is asked for so much at once.
const STEP_BYTES: usize = 1 << 20;
/// A cache is at least this large: less cannot hold what one search needs.
const MIN_BYTES: usize = 64 << 10;

/// Number of a file, and the offset in it.
pub(crate) type BlockId = (u64, u64);

/// Hashes a [`BlockId`]: nobody outside chooses file numbers and offsets, so that speed is all that counts.
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

/// A cache of blocks; clones share it. It may serve several stores with one budget.
#[derive(Clone)]
pub struct BlockCache {
    shared: Arc<Shared>,
}

struct Shared {
    blocks: Cache<BlockId, Arc<Cached>, Weights, BuildHasherDefault<BlockHasher>>,
    limits: Mutex<Limits>,
    /// Bytes that blocks may take now; a copy of what `limits` says.
    capacity: AtomicU64,
    /// Bytes that blocks may still be put in before it is looked how full the cache is: that takes all of its locks.
    room: AtomicI64,
    /// Whether what comes in pushes something else out.
    full: AtomicBool,
    /// Which blocks were asked for lately and not kept: where such a one would be, half of its hash.
    asked_for: Box<[AtomicU32]>,
    most: usize,
    searches: Lanes<Searches>,
    next_file: AtomicU64,
    /// Threads that scans may still have to read ahead.
    helpers: AtomicUsize,
    /// Milliseconds after which a scan that has taken nothing loses its thread.
    patience_ms: AtomicU64,
}

/// Searches of some of the threads. They are told to people only: a lost count does not matter, traffic between processors
/// would.
#[derive(Default)]
struct Searches {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The right to have a thread read ahead; given back when dropped.
pub(crate) struct Helper {
    shared: Arc<Shared>,
}

impl Helper {
    /// How long a scan may take nothing and keep its thread.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.shared.patience_ms.load(Ordering::Relaxed))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.shared.helpers.fetch_add(1, Ordering::Relaxed);
    }
}

struct Limits {
    reserved: Option<Reservation>,
    /// Bytes that are its own.
    own: usize,
    /// These, and those that were taken from the budget.
    granted: usize,
    pinned: usize,
}

impl BlockCache {
    /// A cache of `own` bytes, that takes more from a budget where there is one, up to so many in all.
    pub fn new(own: usize, budget: Option<(&Memory, usize)>) -> Self {
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
            patience_ms: AtomicU64::new(0),
        });
        if let Some((memory, _)) = budget {
            let holder: Weak<dyn Reclaim> = Arc::downgrade(&(shared.clone() as Arc<dyn Reclaim>));
            memory.add_reclaimer(MemoryKind::EngineCache, holder);
        }
        Self { shared }
    }

    /// Lets long scans have so many threads, all together, that read ahead of them; none before. A scan that has taken nothing
    /// for as long as `patience` loses its thread.
    pub fn allow_helpers(&self, count: usize, patience: Duration) {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.shared
            .patience_ms
            .store(patience_ms, Ordering::Relaxed);
        self.shared.helpers.store(count, Ordering::Relaxed);
    }

    /// A thread's worth of reading ahead, where one is left.
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

    /// A number for a file, distinct among those that share the cache.
    pub(crate) fn file_number(&self) -> u64 {
        self.shared.next_file.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> Option<Arc<Cached>> {
        let block = self.shared.blocks.get(&id);
        let searches = self.shared.searches.here();
        let counter = if block.is_some() {
            &searches.hits
        } else {
            &searches.misses
        };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        block
    }

    /// Whether a block that was asked for and is not here should be put in: always while there is room. After that only if it was
    /// asked for not long ago, too; most blocks of a large database are not before something else pushes them out again, and
    /// to keep one costs more than to read it once.
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

    /// Counts `bytes` that stay in memory as long as what is returned lives.
    pub(crate) fn pin(&self, bytes: usize) -> Pinned {
        self.shared.pin(bytes);
        Pinned {
            shared: self.shared.clone(),
            bytes,
        }
    }

    /// As [`BlockCache::pin`], where half of the cache stays for blocks.
    pub(crate) fn try_pin(&self, bytes: usize) -> Option<Pinned> {
        {
            let limits = self.shared.limits.lock();
            if limits.pinned + bytes > limits.granted / 2 {
                return None;
            }
        }
        Some(self.pin(bytes))
    }

    /// Bytes of blocks held now, with what the map takes for them.
    pub fn used_bytes(&self) -> usize {
        self.shared.blocks.weight() as usize
    }

    /// Bytes that tables keep in memory while they are open.
    pub fn pinned_bytes(&self) -> usize {
        self.shared.limits.lock().pinned
    }

    /// Searches that found their block here, and those that did not; about.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        let sum = |of: fn(&Searches) -> &AtomicU64| {
            let all = self.shared.searches.each();
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
    /// Notes how much may be put in before it is looked again, and whether the cache is full; takes more where there is more.
    #[cold]
    fn look_for_room(&self, weight: u64) {
        // Shards fill unevenly: an eighth is left when the first of them evicts.
        let left = || {
            let capacity = self.capacity.load(Ordering::Relaxed);
            (capacity - capacity / 8) as i64 - (self.blocks.weight() + weight) as i64
        };
        let mut room = left();
        if room < 0 && self.widen() {
            room = left();
        }
        self.full.store(room < 0, Ordering::Relaxed);
        // Full, it is looked again after so much: the budget may give more by then.
        self.room
            .store(room.max(STEP_BYTES as i64 / 4), Ordering::Relaxed);
    }

    /// Takes another step from the budget, where it gives one.
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
        // Views give way to queries, not to a cache; blocks can be read again.
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
            // What is pinned is needed whatever the budget says; refused, it takes the blocks' room.
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
            // Never 0: the map would forget what it knows of what is asked for often.
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
        let needed = limits.pinned.max(limits.own);
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

/// Memory of a table that is counted in the cache until it is dropped.
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
    use crate::table::block::{Block, BlockBuilder, Held};

    fn block(size: usize) -> Arc<Cached> {
        let mut builder = BlockBuilder::new(16);
        builder.add(b"key", 1, Held::Value, &vec![1; size]);
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

    /// While there is room everything is kept; once full, what is asked for again soon is.
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
        // Where there is room again, all is kept again.
        let pinned = cache.pin(2 << 20);
        drop(pinned);
        assert!(cache.admits((4, 1)));
    }

    #[test]
    fn the_cache_takes_from_the_budget_and_gives_back() {
        let memory = Memory::new(8 << 20);
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
    fn what_is_its_own_is_never_given_back() {
        let memory = Memory::new(8 << 20);
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
        // What is left beside it is less than the cache's next step.
        let query = memory.reserve(MemoryKind::Queries, 11 << 19).unwrap();
        assert!(cache.used_bytes() <= 5 << 19, "{}", cache.used_bytes());
        fill(2);
        assert!((3 << 19..=5 << 19).contains(&cache.used_bytes()));
        drop((query, cache));
        assert_eq!(memory.used_bytes(), 2 << 20);
    }
}
