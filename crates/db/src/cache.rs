//! The plan cache, by query text.

use std::sync::Arc;

use isomer_plan::Plan;
use isomer_value::Map;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::point::Point;

/// An entry of the cache.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) plan: Arc<Plan>,
    /// Values of the literals that were extracted from the current text; the cache stores none.
    pub(crate) lifted: Arc<Map>,
    /// Number of nodes and relationships when the plan was made: it is outdated when they multiply.
    pub(crate) planned_for: u64,
    /// The names of the result's columns.
    pub(crate) columns: Arc<[Arc<str>]>,
    /// What it reads, if it only reads a single record.
    pub(crate) point: Option<Arc<Point>>,
}

impl Ready {
    pub(crate) fn new(plan: Arc<Plan>, lifted: Map, planned_for: u64) -> Self {
        Self {
            columns: plan.columns.as_slice().into(),
            point: Point::of(&plan).map(Arc::new),
            plan,
            lifted: Arc::new(lifted),
            planned_for,
        }
    }
}

/// Keeps recently used plans in two generations: a hit in the old map moves to the young one, and when the young one is
/// full it becomes the old one. A lookup costs one lock and a hash, and no entry used within the last `capacity`
/// different texts is evicted.
#[derive(Debug)]
pub(crate) struct PlanCache {
    generations: Mutex<Generations>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: FxHashMap<Arc<str>, Ready>,
    old: FxHashMap<Arc<str>, Ready>,
}

/// Longer texts are not cached: the cache is for queries that are repeated.
const MAX_TEXT_BYTES: usize = 64 << 10;

impl PlanCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            generations: Mutex::default(),
            capacity,
        }
    }

    pub(crate) fn get(&self, text: &str) -> Option<Ready> {
        let mut generations = self.generations.lock();
        if let Some(ready) = generations.young.get(text) {
            return Some(ready.clone());
        }
        let (text, ready) = generations.old.remove_entry(text)?;
        self.insert(&mut generations, text, ready.clone());
        Some(ready)
    }

    /// Caches the plan without the literals of its text: it serves other texts as well, among them one that was written
    /// with parameters of these names.
    pub(crate) fn put(&self, text: &str, mut ready: Ready) {
        ready.lifted = Arc::default();
        if text.len() <= MAX_TEXT_BYTES && self.capacity > 0 {
            self.insert(&mut self.generations.lock(), text.into(), ready);
        }
    }

    pub(crate) fn clear(&self) {
        *self.generations.lock() = Generations::default();
    }

    fn insert(&self, generations: &mut Generations, text: Arc<str>, ready: Ready) {
        if generations.young.len() >= self.capacity {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(text, ready);
    }
}
