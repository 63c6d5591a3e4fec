//! Graph algorithms, as functions of rows of dense numbers.
//!
//! They do not use transactions or values: [`graph::Rows`] in, one result per node out. Invariants:
//! - the same rows, settings and seed give the same results to the last bit, for any number of threads: parallel sums
//!   are cut into parts of a fixed size, which are added in order;
//! - memory is reserved before it is allocated, and cancellation is noticed within some milliseconds of work;
//! - the depth of recursion is bounded independently of the graph.

mod centrality;
mod community;
mod component;
mod core;
pub(crate) mod graph;
mod pagerank;
mod path;
mod triangle;

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

pub(crate) use self::{
    centrality::{Sample, betweenness, closeness},
    community::{Louvain, label_propagation, louvain},
    component::{strong, weak},
    core::core_numbers,
    graph::Rows,
    pagerank::{PageRank, page_rank},
    path::distances,
    triangle::triangles,
};
use crate::{error::Result, limits::Stop};

/// No node.
pub(crate) const NO_NODE: u32 = u32::MAX;
/// Below this amount of work, threads cost more than they save.
const WORTH_THREADS: usize = 200_000;
/// Maximum number of threads per algorithm.
const MOST_THREADS: usize = 16;
/// The clock is read once per this number of steps: some milliseconds at most.
const PACE: usize = 1 << 16;

/// The resources of an algorithm: threads, memory, stop condition.
pub(crate) struct Work<'a> {
    stop: Stop,
    threads: usize,
    /// Minimum steps of work for which threads are used.
    worth: usize,
    hold: &'a mut dyn FnMut(usize) -> Result<()>,
}

impl<'a> Work<'a> {
    /// With one thread per processor. `hold` is called for every large allocation.
    pub(crate) fn new(stop: Stop, hold: &'a mut dyn FnMut(usize) -> Result<()>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            stop,
            threads: processors.min(MOST_THREADS),
            worth: WORTH_THREADS,
            hold,
        }
    }

    /// Simulates this number of processors, with threads for any amount of work.
    #[cfg(test)]
    fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self.worth = 0;
        self
    }

    /// Reserves memory for `count` items of type `T`.
    fn hold<T>(&mut self, count: usize) -> Result<()> {
        (self.hold)(count.saturating_mul(size_of::<T>()))
    }

    /// Reserves memory.
    fn hold_bytes(&mut self, bytes: usize) -> Result<()> {
        (self.hold)(bytes)
    }

    /// Counts steps on one thread.
    fn pace(&self) -> Pace<'_> {
        Pace::new(&self.stop)
    }

    /// Number of threads for this amount of work.
    fn threads_for(&self, steps: usize) -> usize {
        if steps < self.worth { 1 } else { self.threads }
    }

    /// Cuts `out` into parts of `part` items and runs `fill(first, part, pace)` on each; returns the results in order.
    /// `steps` estimates the total work.
    fn fill<T: Send, R: Send>(
        &self,
        out: &mut [T],
        part: usize,
        steps: usize,
        fill: impl Fn(usize, &mut [T], &mut Pace<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let queue = Mutex::new(out.chunks_mut(part.max(1)).enumerate());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>> {
            let mut pace = Pace::new(stop);
            let mut done = Vec::new();
            while let Some((at, slice)) = next() {
                done.push((at, fill(at * part.max(1), slice, &mut pace)?));
            }
            Ok(done)
        };
        in_order(self.spread(steps, &worker)?)
    }

    /// Runs `job(range, pace)` on ranges of `part` numbers below `len`; returns the results in order.
    fn ranges<R: Send>(
        &self,
        len: usize,
        part: usize,
        steps: usize,
        job: impl Fn(Range<usize>, &mut Pace<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let part = part.max(1);
        let queue = Mutex::new(0..len.div_ceil(part));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>> {
            let mut pace = Pace::new(stop);
            let mut done = Vec::new();
            while let Some(at) = next() {
                let range = at * part..((at + 1) * part).min(len);
                done.push((at, job(range, &mut pace)?));
            }
            Ok(done)
        };
        in_order(self.spread(steps, &worker)?)
    }

    /// Runs `worker` on the number of threads that this work is worth, and collects the results.
    fn spread<R: Send>(
        &self,
        steps: usize,
        worker: &(dyn Fn() -> Result<Vec<(usize, R)>> + Sync),
    ) -> Result<Vec<(usize, R)>> {
        self.stop.check()?;
        let threads = self.threads_for(steps);
        if threads == 1 {
            return worker();
        }
        std::thread::scope(|scope| {
            // If a thread cannot be started, the others do its work.
            let helpers: Vec<_> = (1..threads)
                .filter_map(|_| {
                    std::thread::Builder::new()
                        .name("isomer-algorithm".into())
                        .spawn_scoped(scope, worker)
                        .ok()
                })
                .collect();
            let mut gathered = worker();
            for helper in helpers {
                let more = helper
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                match (&mut gathered, more) {
                    (Ok(all), Ok(more)) => all.extend(more),
                    (Ok(_), Err(error)) => gathered = Err(error),
                    (Err(_), _) => {}
                }
            }
            gathered
        })
    }
}

fn in_order<R>(mut parts: Vec<(usize, R)>) -> Result<Vec<R>> {
    parts.sort_unstable_by_key(|(at, _)| *at);
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// Checks the clock and the cancel handle periodically, on one thread.
pub(crate) struct Pace<'a> {
    stop: &'a Stop,
    left: usize,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(stop: &'a Stop) -> Self {
        Self { stop, left: PACE }
    }

    /// Counts steps; fails when the query must stop.
    #[inline]
    fn step(&mut self, steps: usize) -> Result<()> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = PACE;
                self.stop.check()
            }
        }
    }
}

/// Pseudo-random numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0; its bias is below 2^-32.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Fisher-Yates shuffle.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Renumbers groups in the order of their first members: 0, 1, 2, …
fn renumber(groups: &mut [u32]) {
    let mut names = vec![NO_NODE; groups.len()];
    let mut next = 0;
    for group in groups {
        let name = &mut names[*group as usize];
        if *name == NO_NODE {
            *name = next;
            next += 1;
        }
        *group = *name;
    }
}

#[cfg(test)]
pub(crate) mod tests;
