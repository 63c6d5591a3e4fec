//! Random histories.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::world::World;

fn history(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..60 {
        world.step();
    }
    world.quiesce();
    world.compare();
}

/// The number of histories, and the first seed: `ISOMER_HISTORIES` and `ISOMER_TEST_SEED`; `ISOMER_SEED` runs a single
/// one.
fn seeds() -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(only) = number("ISOMER_SEED") {
        return only..only + 1;
    }
    // They use the memory engine: in test runs with another engine, they ran before.
    let again = ["ISOMER_TEST_QUICK", "ISOMER_ENGINE"];
    let again = again.iter().any(|name| std::env::var_os(name).is_some());
    let usual = if again { 50 } else { 10_000 };
    let count = number("ISOMER_HISTORIES").unwrap_or(usual);
    // Neighbours share no histories.
    let first = number("ISOMER_TEST_SEED")
        .unwrap_or(0)
        .wrapping_mul(1 << 20)
        >> 1;
    first..first + count
}

/// Replicas that have applied the same transactions hold the same, and what the history says; no reader ever sees half
/// of one. A failing seed is printed: `ISOMER_SEED` runs it again.
#[test]
fn replicas_hold_what_the_history_says() {
    let seeds = seeds();
    println!("histories of seeds {}..{}", seeds.start, seeds.end);
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let until = std::env::var("ISOMER_TEST_SECONDS").ok();
    let until = until.and_then(|seconds| seconds.parse().ok());
    let until = until.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            if catch_unwind(AssertUnwindSafe(|| history(seed))).is_err() {
                failed.store(true, Ordering::Relaxed);
                println!("failed: ISOMER_SEED={seed}");
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(4) {
            scope.spawn(work);
        }
    });
    assert!(!failed.into_inner(), "the seeds stand above");
}

/// A seed determines a history: a failure is reproducible.
#[test]
fn a_seed_runs_again_as_it_ran() {
    let journal = |seed| {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
        }
        world.quiesce();
        world.journal()
    };
    for seed in 0..20 {
        assert_eq!(journal(seed), journal(seed), "seed {seed}");
    }
}
