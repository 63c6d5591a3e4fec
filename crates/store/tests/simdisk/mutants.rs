//! The engine makes a mistake on purpose, and the same tests that pass without it must fail.
//!
//! `cargo test -p isomer-store --features mutants --lib --test simdisk mutants -- --nocapture` prints how long each went unnoticed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use isomer_store::mutants::{Mutant, break_rule};

use crate::{
    calls::{kill_at_each_change, lose_each_sync},
    damage::damage_an_open_log,
    power::{Cuts, cut_workload},
};

/// A mistake that is not noticed within this is not noticed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Those that the tests of the log itself must notice are with these (`log::tests`).
const MUTANTS: [Mutant; 8] = [
    Mutant::LogNotSynced,
    Mutant::SegmentNameNotSynced,
    Mutant::ClosingNotSynced,
    Mutant::DurableBeforeSync,
    Mutant::FailedSyncRepeated,
    Mutant::ManifestBeforeTables,
    Mutant::ManifestNotSynced,
    Mutant::ManifestNameNotSettled,
];

/// Runs workloads until one fails; how many cuts there were, and what was said.
fn noticed(mutant: Mutant, until: Instant) -> Option<(u64, String)> {
    let cuts = Cuts {
        done: AtomicU64::new(0),
        most: u64::MAX,
        step: 3,
        until: Some(until),
    };
    let mut seed = 1;
    while Instant::now() < until {
        let outcome = catch_unwind(AssertUnwindSafe(|| match mutant {
            Mutant::FailedSyncRepeated => lose_each_sync(seed),
            Mutant::ManifestNameNotSettled => kill_at_each_change(seed),
            Mutant::ClosingNotSynced => damage_an_open_log(seed),
            _ => cut_workload(seed, &cuts),
        }));
        if let Err(panic) = outcome {
            let said = panic.downcast_ref::<String>().cloned();
            return Some((cuts.done.load(Ordering::Relaxed), said.unwrap_or_default()));
        }
        seed += 1;
    }
    None
}

#[test]
fn mutants_are_noticed() {
    let only = std::env::var("ISOMER_MUTANT").ok();
    let mut unnoticed = Vec::new();
    // Each is to fail: what it says is printed here, once.
    std::panic::set_hook(Box::new(|_| {}));
    for mutant in MUTANTS {
        if only
            .as_ref()
            .is_some_and(|only| *only != format!("{mutant:?}"))
        {
            continue;
        }
        let begun = Instant::now();
        break_rule(Some(mutant));
        let outcome = noticed(mutant, begun + PATIENCE);
        break_rule(None);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Some((cuts, said)) => println!("{mutant:?}: {seconds:.1} s, {cuts} cuts: {said}"),
            None => {
                println!("{mutant:?}: not noticed in {seconds:.1} s");
                unnoticed.push(mutant);
            }
        }
    }
    drop(std::panic::take_hook());
    assert_eq!(unnoticed, [], "mistakes that went unnoticed");
}
