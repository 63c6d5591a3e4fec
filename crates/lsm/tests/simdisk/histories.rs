//! Long histories with losses of power: the engine agrees with a sorted map, before and after.

use std::{path::Path, sync::Arc};

use isomer_storage::conformance::Random;
use isomer_vfs::{Loss, SimDisk};

use crate::{
    inspect::verify,
    is_quick, on_all_cores,
    power::disk_of,
    seed,
    subject::{self, DATABASE},
    workload::{Shape, WalKind, Work},
};

#[test]
fn histories_with_crashes_match_the_model() {
    run_histories(WalKind::Private, 24);
}

/// The same with one and with two processes of a shared database. What they share in memory is, after a loss of power,
/// as it was.
#[test]
fn histories_of_shared_databases_match_the_model() {
    for processes in [1, 2] {
        run_histories(WalKind::Shared { processes }, 12);
    }
}

fn run_histories(log: WalKind, count: u64) {
    let histories = if is_quick() { 4 } else { count };
    on_all_cores(|number| {
        if number >= histories {
            return false;
        }
        history(seed().wrapping_mul(1000).wrapping_add(number), log);
        true
    });
}

/// A range whose few keys were deleted one by one, a bulk load into it, the end of the process, and a
/// compaction: the loaded pairs were once considered deleted.
#[test]
fn a_history_in_which_a_range_is_deleted_before_a_bulk_load() {
    history(15_020, WalKind::Private);
}

fn history(seed: u64, log: WalKind) {
    let sim = disk_of(log);
    let mut random = Random(seed ^ 0xc0ffee);
    let shape = Shape {
        rounds: 0,
        faults: false,
        log,
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
    let engines = work.abandon();
    let loss = Loss::ALL[random.below(3) as usize];
    sim.cut_power(loss, random.number());
    drop(engines);
    assert!(work.open(), "it opens after a crash");
}
