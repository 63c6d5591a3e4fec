//! Random histories.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::world::World;
use crate::replication::rules::{Mutant, break_rule};

fn history(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..60 {
        world.step();
    }
    world.settle();
    world.compare();
}

fn seeds() -> u64 {
    let given = std::env::var("ISOMER_HISTORIES").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(150)
}

/// Replicas that have heard of the same transactions hold the same, and what the history says; nobody ever sees half of one.
#[test]
fn replicas_hold_what_the_history_says() {
    let only = std::env::var("ISOMER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..seeds(), |seed: u64| seed..seed + 1) {
        let ran = catch_unwind(AssertUnwindSafe(|| history(seed)));
        assert!(ran.is_ok(), "seed {seed}");
    }
}

/// Each of these mistakes is noticed.
#[test]
fn mistakes_are_noticed() {
    let hook = std::panic::take_hook();
    if std::env::var_os("ISOMER_LOUD").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let mut missed = Vec::new();
    for mutant in [
        Mutant::NoCausalGate,
        Mutant::NoGapGate,
        Mutant::SnapshotIgnoresVector,
        Mutant::LastAppliedWins,
        Mutant::DeletesUnseen,
        Mutant::EndsIgnored,
        Mutant::HalfTransactions,
        Mutant::AppliesTwice,
    ] {
        break_rule(Some(mutant));
        let noticed =
            (0..300).any(|seed| catch_unwind(AssertUnwindSafe(|| history(seed))).is_err());
        break_rule(None);
        if !noticed {
            missed.push(mutant);
        }
    }
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
