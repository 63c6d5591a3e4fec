//! Random histories.

use super::world::World;

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
