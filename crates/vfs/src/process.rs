//! Limits and times of this process, as far as the operating system has them.

use std::time::Duration;

use crate::platform::system;

/// Raises the limit on open files to `wanted`, or to the highest value that the system allows this process. Returns the
/// limit then; `None` if there is none.
pub fn raise_open_files(wanted: u64) -> Option<u64> {
    system::raise_open_files(wanted)
}

/// Processor time of all threads of this process, in the kernel and outside; `None` if unknown.
pub fn cpu_time() -> Option<Duration> {
    system::cpu_time()
}

/// Lowers the priority of the calling thread by `by` steps of `nice`, where threads have priorities of their own
/// (Linux).
pub fn lower_thread_priority(by: i32) {
    system::lower_thread_priority(by);
}

/// A number that changes when the machine starts again, and is the same for all its processes and containers; 0 if
/// unknown.
pub fn boot_number() -> u64 {
    match system::boot_id() {
        id if id.is_empty() => 0,
        id => xxhash_rust::xxh3::xxh3_64(id.as_bytes()),
    }
}

/// The unit in which Linux reports when a process started, on all processors that are supported.
const TICKS_PER_SECOND: f64 = 100.0;

/// Identifies a process, also among later ones with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the machine did; 0 if unknown.
    pub started: u64,
    /// Identifies the numbering: a container has its own.
    pub namespace: u64,
}

impl ProcessId {
    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: system::process_start(pid).unwrap_or(0),
            namespace: system::process_namespace(),
        }
    }

    /// Whether it is running; `None` if that cannot be seen from here, as for a process of another container.
    pub fn is_running(self) -> Option<bool> {
        let is_visible = self.namespace == system::process_namespace();
        is_visible.then(|| system::process_start(self.pid) == Some(self.started))
    }

    /// For how long it has been running, if the operating system says when processes start (Linux).
    pub fn age(self) -> Option<Duration> {
        if self.started == 0 {
            return None;
        }
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
        let age = uptime - self.started as f64 / TICKS_PER_SECOND;
        Duration::try_from_secs_f64(age.max(0.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let Some(before) = cpu_time() else { return };
        let mut sum = 0_u64;
        for number in 0..5_000_000_u64 {
            sum = sum.wrapping_add(std::hint::black_box(number) * number);
        }
        assert!(cpu_time().expect("known before") > before, "{sum}");
    }

    #[test]
    fn a_process_runs_until_it_ends() {
        let own = ProcessId::current();
        assert_eq!(own.is_running(), Some(true));
        assert_eq!(own, ProcessId::current());
        let age = own.age();
        assert_eq!(age.is_some(), own.started > 0);
        assert!(age.is_none_or(|age| age < Duration::from_secs(24 * 60 * 60)));
        assert_eq!(boot_number(), boot_number());
        let earlier = ProcessId {
            started: own.started + 1,
            ..own
        };
        assert_eq!(
            earlier.is_running(),
            Some(false),
            "another process had the number"
        );
        let elsewhere = ProcessId {
            namespace: own.namespace + 1,
            ..own
        };
        assert_eq!(elsewhere.is_running(), None);
    }

    /// Asking for less than the limit does not lower it.
    #[test]
    fn the_limit_on_open_files_is_only_raised() {
        let Some(limit) = raise_open_files(0) else {
            return;
        };
        assert_eq!(raise_open_files(limit / 2), Some(limit));
        assert!(raise_open_files(limit + 1).is_none_or(|now| now >= limit));
    }
}
