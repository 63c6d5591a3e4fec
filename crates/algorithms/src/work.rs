//! The resources of an algorithm: threads, memory, and when to stop.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Tells an algorithm that it must stop.
pub trait StopCheck: Sync {
    /// Why it must stop, or why memory was refused.
    type Error: Send;

    /// Fails when the algorithm must stop. Called every few milliseconds on each thread.
    fn check(&self) -> Result<(), Self::Error>;
}

/// Below this amount of work, threads cost more than they save.
const MIN_THREADED_STEPS: usize = 200_000;
/// Maximum number of threads per algorithm.
const MAX_THREADS: usize = 16;
/// The clock is read once per this number of steps: some milliseconds at most.
pub(crate) const PACE: usize = 1 << 16;

/// The resources of an algorithm: threads, memory, stop condition.
pub struct Resources<'a, S: StopCheck> {
    stop: S,
    threads: usize,
    /// Minimum steps of work for which threads are used.
    worth: usize,
    hold: &'a mut dyn FnMut(usize) -> Result<(), S::Error>,
}

impl<'a, S: StopCheck> Resources<'a, S> {
    /// With one thread per processor. `hold` is called for every large allocation.
    pub fn new(stop: S, hold: &'a mut dyn FnMut(usize) -> Result<(), S::Error>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            stop,
            threads: processors.min(MAX_THREADS),
            worth: MIN_THREADED_STEPS,
            hold,
        }
    }

    /// Simulates this number of processors, with threads for any amount of work.
    #[cfg(test)]
    pub(crate) fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self.worth = 0;
        self
    }

    /// Reserves memory for `count` items of type `T`.
    pub(crate) fn hold<T>(&mut self, count: usize) -> Result<(), S::Error> {
        (self.hold)(count.saturating_mul(size_of::<T>()))
    }

    /// Reserves memory.
    pub(crate) fn hold_bytes(&mut self, bytes: usize) -> Result<(), S::Error> {
        (self.hold)(bytes)
    }

    /// Fails when the algorithm must stop.
    pub(crate) fn check(&self) -> Result<(), S::Error> {
        self.stop.check()
    }

    /// Counts steps on one thread.
    pub(crate) fn pace(&self) -> StepCounter<'_, S> {
        StepCounter::new(&self.stop)
    }

    /// Number of threads for this amount of work.
    pub(crate) fn threads_for(&self, steps: usize) -> usize {
        if steps < self.worth { 1 } else { self.threads }
    }

    /// Cuts `out` into parts of `part` items and runs `fill(first, part, pace)` on each; returns the results in order.
    /// `steps` estimates the total work.
    pub(crate) fn fill<T: Send, R: Send>(
        &self,
        out: &mut [T],
        part: usize,
        steps: usize,
        fill: impl Fn(usize, &mut [T], &mut StepCounter<'_, S>) -> Result<R, S::Error> + Sync,
    ) -> Result<Vec<R>, S::Error> {
        let queue = Mutex::new(out.chunks_mut(part.max(1)).enumerate());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>, S::Error> {
            let mut pace = StepCounter::new(stop);
            let mut done = Vec::new();
            while let Some((at, slice)) = next() {
                done.push((at, fill(at * part.max(1), slice, &mut pace)?));
            }
            Ok(done)
        };
        Ok(in_order(self.spread(steps, &worker)?))
    }

    /// Runs `job(range, pace)` on ranges of `part` numbers below `len`; returns the results in order.
    pub(crate) fn ranges<R: Send>(
        &self,
        len: usize,
        part: usize,
        steps: usize,
        job: impl Fn(Range<usize>, &mut StepCounter<'_, S>) -> Result<R, S::Error> + Sync,
    ) -> Result<Vec<R>, S::Error> {
        let part = part.max(1);
        let queue = Mutex::new(0..len.div_ceil(part));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = &self.stop;
        let worker = || -> Result<Vec<(usize, R)>, S::Error> {
            let mut pace = StepCounter::new(stop);
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
    pub(crate) fn spread<R: Send>(
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
pub struct StepCounter<'a, S: StopCheck> {
    stop: &'a S,
    left: usize,
}

impl<'a, S: StopCheck> StepCounter<'a, S> {
    /// Of work that `stop` may end.
    pub fn new(stop: &'a S) -> Self {
        Self { stop, left: PACE }
    }

    /// Counts steps; fails when the query must stop.
    #[inline]
    pub(crate) fn count_steps(&mut self, steps: usize) -> Result<(), S::Error> {
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
