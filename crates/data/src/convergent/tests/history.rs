//! Random histories, and the mutants that they must catch.

use super::world::World;
use crate::convergent::rules::{Mutant, break_rule};

/// Runs a history of `steps`; returns the first error, if any.
fn run(seed: u64, steps: usize) -> Result<(), String> {
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step();
        if step % 16 == 15 {
            world.check(false)?;
        }
    }
    world.quiesce();
    world.check(true)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Replicas that have applied the same transactions, in whatever order, twice or by a copy of a state, hold what the
/// history says. `ISOMER_HISTORIES` is the number of histories, `ISOMER_TEST_SEED` the first seed.
#[test]
fn replicas_converge_to_what_the_history_says() {
    let usual = match std::env::var_os("ISOMER_TEST_QUICK") {
        Some(_) => 1_000,
        None => 10_000,
    };
    // Neighbours share no histories.
    let first = number("ISOMER_TEST_SEED", 0).wrapping_mul(1 << 20) + 1;
    let count = number("ISOMER_HISTORIES", usual);
    println!("histories of seeds {first}..{}", first + count);
    for seed in first..first + count {
        if let Err(wrong) = run(seed, 60) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in [
        Mutant::NoCausalGate,
        Mutant::NoGapGate,
        Mutant::AppliesTwice,
        Mutant::JoinIgnoresVector,
        Mutant::ReusesDots,
        Mutant::IgnoresContext,
        Mutant::RemovesUnseen,
        Mutant::AssignForgetsSiblings,
        Mutant::LastArrivalWins,
        Mutant::FoldsUnstable,
        Mutant::JoinCountsFoldedTwice,
    ] {
        break_rule(Some(mutant));
        let caught = (1..1_500).find(|&seed| {
            // A mutant may make a state that is not even readable.
            std::panic::catch_unwind(|| run(seed, 160)).is_ok_and(|outcome| outcome.is_err())
        });
        break_rule(None);
        assert!(caught.is_some(), "{mutant:?} goes unnoticed");
        println!("{mutant:?}: seed {}", caught.unwrap_or_default());
    }
}
