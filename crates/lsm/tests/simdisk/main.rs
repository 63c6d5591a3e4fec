//! Faults of a disk, tried on the engine in memory: the power is lost at any change, any call fails, bits are
//! flipped.
//!
//! One random workload (see [`workload`]) of commits (large and small, with and without an entry of the change
//! stream, synced and not), loads, flushes, compactions, copies, reopenings and ends without closing runs on a
//! simulated disk that records; the disk is then restored to its state after a loss of power at each change in
//! turn, and the result of opening it is compared with what was acknowledged (see [`inspect`]).
//!
//! `ISOMER_TEST_SEED` selects other workloads, `ISOMER_POWER_CUTS` the number of cuts, `ISOMER_TEST_QUICK`
//! fewer of everything; `ISOMER_TEST_SECONDS` limits the duration of the cuts. Failures name their seed.
//! One test fails calls of a second workload, and prints its seed. The patches in `tests/mutants/lsm` plant faults
//! into a copy of the engine; these tests must find each of them (`cargo xtask test --suite mutants`).

mod calls;
mod damage;
mod denied;
mod histories;
mod inspect;
mod power;
mod subject;
mod visible;
mod workload;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The initial seed.
fn seed() -> u64 {
    number("ISOMER_TEST_SEED", 1)
}

/// Whether to run fewer repetitions.
fn is_quick() -> bool {
    std::env::var_os("ISOMER_TEST_QUICK").is_some()
}

/// Runs `work` with the numbers from 0 on, on all cores, until it returns false; a panic stops all and is
/// propagated.
fn on_all_cores(work: impl Fn(u64) -> bool + Sync) {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let go_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(number)));
            if !matches!(go_on, Ok(true)) {
                stop.store(true, Ordering::Relaxed);
            }
            if let Err(panic) = go_on {
                std::panic::resume_unwind(panic);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
