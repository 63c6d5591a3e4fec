//! How much a query may take, and how it is stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_value::Value;

use crate::error::{ExecError, Result};

/// The limits of one query.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Longest running time.
    pub time: Option<Duration>,
    /// Most bytes held at once by sorts, groups, lists, searches and buffers.
    pub memory_bytes: usize,
    /// Most rows in the result.
    pub rows: Option<u64>,
    /// Most steps of a variable-length or shortest path that has no upper bound of its own.
    pub path_steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Some(Duration::from_secs(300)),
            memory_bytes: 1 << 30,
            rows: None,
            path_steps: 10_000,
        }
    }
}

/// Stops a query from another thread. Clones stop the same query.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle(Arc<AtomicBool>);

impl CancelHandle {
    /// A handle that nobody pulled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the query to stop. It answers [`ExecError::Cancelled`] within about a thousand rows.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// When a query is to stop, for the threads that work for it.
#[derive(Clone, Debug)]
pub struct Stop {
    cancel: CancelHandle,
    deadline: Option<Instant>,
    time: Option<Duration>,
}

impl Stop {
    /// Answers an error when the query was cancelled or its time is over. Reads the clock: call it every few
    /// milliseconds of work, not every step.
    pub fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ExecError::limit(
                format!("{:?} of time", self.time.unwrap_or_default()),
                "narrow it (labels, bounds of paths, LIMIT), add an index, or raise the time limit",
            )),
            _ => Ok(()),
        }
    }
}

/// Keeps watch over the limits while a query runs.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: Limits,
    cancel: CancelHandle,
    deadline: Option<Instant>,
    /// Work units until the clock is read again.
    ticks: u32,
    held_bytes: usize,
    peak_bytes: usize,
}

/// The clock is read once per so many rows or steps.
const TICKS: u32 = 1024;

impl Watch {
    pub(crate) fn new(limits: Limits, cancel: CancelHandle) -> Self {
        let deadline = limits
            .time
            .and_then(|time| Instant::now().checked_add(time));
        Self {
            limits,
            cancel,
            deadline,
            ticks: TICKS,
            held_bytes: 0,
            peak_bytes: 0,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts `units` rows or steps; looks at the clock and the handle now and then.
    #[inline]
    pub(crate) fn tick(&mut self, units: usize) -> Result<()> {
        match u32::try_from(units)
            .ok()
            .and_then(|units| self.ticks.checked_sub(units))
        {
            Some(rest) => {
                self.ticks = rest;
                Ok(())
            }
            None => self.look(),
        }
    }

    /// Looks at the clock and the handle.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.ticks = TICKS;
        if self.cancel.is_cancelled() {
            return Err(ExecError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ExecError::limit(
                format!("{:?} of time", self.limits.time.unwrap_or_default()),
                "narrow it (labels, bounds of paths, LIMIT), add an index, or raise the time limit",
            )),
            _ => Ok(()),
        }
    }

    /// When to stop, for other threads.
    pub(crate) fn stop(&self) -> Stop {
        Stop {
            cancel: self.cancel.clone(),
            deadline: self.deadline,
            time: self.limits.time,
        }
    }

    /// Counts `bytes` as held until they are released.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<()> {
        self.allow(bytes)?;
        self.held_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.held_bytes);
        Ok(())
    }

    /// Gives back what was held.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes);
    }

    /// Refuses `bytes` where they do not fit into the memory limit beside what is held.
    pub(crate) fn allow(&self, bytes: usize) -> Result<()> {
        if bytes > self.limits.memory_bytes.saturating_sub(self.held_bytes) {
            return Err(ExecError::limit(
                format!("{} bytes of memory", self.limits.memory_bytes),
                "aggregate or LIMIT earlier, read it in parts, or raise the memory limit",
            ));
        }
        Ok(())
    }

    /// Bytes held now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Most bytes held at once so far.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }
}

/// Whether a value has more than `levels` levels of lists and maps. Recursion is bounded by `levels`.
pub(crate) fn nests_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::List(items) => {
            levels == 0 || items.iter().any(|item| nests_deeper(item, levels - 1))
        }
        Value::Map(map) => levels == 0 || map.values().any(|item| nests_deeper(item, levels - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_and_given_back() {
        let mut watch = Watch::new(
            Limits {
                memory_bytes: 100,
                ..Limits::default()
            },
            CancelHandle::new(),
        );
        watch.hold(60).unwrap();
        assert!(matches!(watch.hold(41), Err(ExecError::Limit { .. })));
        watch.release(60);
        watch.hold(100).unwrap();
        assert_eq!(watch.peak_bytes(), 100);
    }

    #[test]
    fn time_and_cancellation_are_noticed_within_a_thousand_ticks() {
        let handle = CancelHandle::new();
        let mut watch = Watch::new(
            Limits {
                time: None,
                ..Limits::default()
            },
            handle.clone(),
        );
        handle.cancel();
        let stopped = (0..2 * TICKS).find_map(|_| watch.tick(1).err());
        assert!(matches!(stopped, Some(ExecError::Cancelled)));

        let mut watch = Watch::new(
            Limits {
                time: Some(Duration::ZERO),
                ..Limits::default()
            },
            CancelHandle::new(),
        );
        let error = watch.tick(5000).unwrap_err();
        assert!(error.to_string().contains("time"), "{error}");
    }
}
