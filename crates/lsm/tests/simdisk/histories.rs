//! Long histories with losses of power: the engine agrees with a sorted map, before and after.

use std::{path::Path, sync::Arc};

use isomer_storage::conformance::Random;
use isomer_vfs::{Loss, SimDisk};

use crate::{
    inspect::verify,
    is_quick, on_all_cores,
    power::disk,
    seed,
    subject::{self, DATABASE},
    workload::{Shape, Work},
};

#[test]
fn histories_with_crashes_match_the_model() {
    let histories = if is_quick() { 4 } else { 24 };
    on_all_cores(|number| {
        if number >= histories {
            return false;
        }
        history(seed().wrapping_mul(1000).wrapping_add(number));
        true
    });
}

/// A range whose few keys were deleted one by one, a bulk load into it, the end of the process, and a
/// compaction: the loaded pairs were once considered deleted.
#[test]
fn a_history_in_which_a_range_is_deleted_before_a_bulk_load() {
    history(15_020);
}

fn history(seed: u64) {
    let sim = disk();
    let mut random = Random(seed ^ 0xc0ffee);
    let shape = Shape {
        rounds: 0,
        faults: false,
    };
    let mut work = Work::new(Arc::new(sim.clone()), &sim, seed, shape);
    assert!(work.open());
    for round in 0..500 {
        if random.below(25) == 0 {
            crash(&sim, &mut work, &mut random);
            work.check("after a crash");
        }
        work.act(round);
    }
    work.check("at the end");
    work.close();
    let tended = subject::open(Arc::new(sim), Path::new(DATABASE)).expect("opens");
    verify(&tended, &format!("seed {seed}"));
}

/// The power is lost while no call is running; later calls of the dead engine fail.
fn crash(sim: &SimDisk, work: &mut Work<'_>, random: &mut Random) {
    let engine = work.abandon();
    let loss = Loss::ALL[random.below(3) as usize];
    sim.cut_power(loss, random.number());
    drop(engine);
    assert!(work.open(), "it opens after a crash");
}
