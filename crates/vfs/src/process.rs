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
