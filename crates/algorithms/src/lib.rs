//! Graph algorithms over sparse rows of dense numbers.
//!
//! They know no database: [`Rows`] in, one result for each node out, as vectors. The caller reads the graph, numbers
//! its nodes, and says when to stop ([`Stop`]) and how much memory may be taken ([`Work`]). Invariants:
//! - the same rows, settings and seed give the same results to the last bit, for any number of threads: parallel sums
//!   are cut into parts of a fixed size, which are added in order;
//! - memory is reserved before it is allocated, and cancellation is noticed within some milliseconds of work;
//! - the depth of recursion is bounded independently of the graph.

mod centrality;
mod community;
mod component;
mod core;
mod graph;
mod pagerank;
mod path;
mod triangle;

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

pub use self::{
    centrality::{Sample, betweenness, closeness},
    community::{Louvain, label_propagation, louvain},
    component::{strong, weak},
    core::core_numbers,
    graph::Rows,
    pagerank::{PageRank, page_rank},
    path::{Reached, distances},
    triangle::{Triangles, triangles},
};

/// Tells an algorithm that it must stop.
pub trait Stop: Sync {
    /// Why it must stop, or why memory was refused.
    type Error: Send;

    /// Fails when the algorithm must stop. Called every few milliseconds on each thread.
    fn check(&self) -> Result<(), Self::Error>;
}

/// No node.
pub const NO_NODE: u32 = u32::MAX;
/// Below this amount of work, threads cost more than they save.
const WORTH_THREADS: usize = 200_000;
/// Maximum number of threads per algorithm.
const MOST_THREADS: usize = 16;
/// The clock is read once per this number of steps: some milliseconds at most.
const PACE: usize = 1 << 16;

/// The resources of an algorithm: threads, memory, stop condition.
pub struct Work<'a, S: Stop> {
    stop: S,
    threads: usize,
    /// Minimum steps of work for which threads are used.
    worth: usize,
    hold: &'a mut dyn FnMut(usize) -> Result<(), S::Error>,
}

impl<'a, S: Stop> Work<'a, S> {
    /// With one thread per processor. `hold` is called for every large allocation.
    pub fn new(stop: S, hold: &'a mut dyn FnMut(usize) -> Result<(), S::Error>) -> Self {
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
    fn hold<T>(&mut self, count: usize) -> Result<(), S::Error> {
        (self.hold)(count.saturating_mul(size_of::<T>()))
    }

    /// Reserves memory.
    fn hold_bytes(&mut self, bytes: usize) -> Result<(), S::Error> {
        (self.hold)(bytes)
    }

    /// Counts steps on one thread.
    fn pace(&self) -> Pace<'_, S> {
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
        fill: impl Fn(usize, &mut [T], &mut Pace<'_, S>) -> Result<R, S::Error> + Sync,
    ) -> Result<Vec<R>, S::Error> {
        let queue = Mutex::new(out.chunks_mut(part.max(1)).enumerate());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>, S::Error> {
            let mut pace = Pace::new(stop);
            let mut done = Vec::new();
            while let Some((at, slice)) = next() {
                done.push((at, fill(at * part.max(1), slice, &mut pace)?));
            }
            Ok(done)
        };
        Ok(in_order(self.spread(steps, &worker)?))
    }

    /// Runs `job(range, pace)` on ranges of `part` numbers below `len`; returns the results in order.
    fn ranges<R: Send>(
        &self,
        len: usize,
        part: usize,
        steps: usize,
        job: impl Fn(Range<usize>, &mut Pace<'_, S>) -> Result<R, S::Error> + Sync,
    ) -> Result<Vec<R>, S::Error> {
        let part = part.max(1);
        let queue = Mutex::new(0..len.div_ceil(part));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>, S::Error> {
            let mut pace = Pace::new(stop);
            let mut done = Vec::new();
            while let Some(at) = next() {
                let range = at * part..((at + 1) * part).min(len);
                done.push((at, job(range, &mut pace)?));
            }
            Ok(done)
        };
        Ok(in_order(self.spread(steps, &worker)?))
    }

    /// Runs `worker` on the number of threads that this work is worth, and collects the results.
    fn spread<R: Send>(
        &self,
        steps: usize,
        worker: &(dyn Fn() -> Result<Vec<(usize, R)>, S::Error> + Sync),
    ) -> Result<Vec<(usize, R)>, S::Error> {
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

fn in_order<R>(mut parts: Vec<(usize, R)>) -> Vec<R> {
    parts.sort_unstable_by_key(|(at, _)| *at);
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Checks the clock and the cancel handle periodically, on one thread.
pub struct Pace<'a, S: Stop> {
    stop: &'a S,
    left: usize,
}

impl<'a, S: Stop> Pace<'a, S> {
    /// Of work that `stop` may end.
    pub fn new(stop: &'a S) -> Self {
        Self { stop, left: PACE }
    }

    /// Counts steps; fails when the query must stop.
    #[inline]
    fn step(&mut self, steps: usize) -> Result<(), S::Error> {
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
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
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
mod tests;
