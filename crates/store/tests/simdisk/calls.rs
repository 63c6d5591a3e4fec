//! Any call on the disk fails, once or for ever: an error or none, no panic, and what was acknowledged is there.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_vfs::{Call, FaultyDisk, Loss, SimDisk};

use crate::{
    inspect::{inspect, mixed},
    is_quick, on_all_cores,
    power::disk,
    seed,
    workload::{self, Journal, Shape},
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What goes wrong, and when.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The call number `at`, and those after it where `forever`, is refused.
    Refused { at: u64, error: i32, forever: bool },
    /// The write number `at` takes half of its bytes only.
    Short { at: u64 },
    /// The sync number `at` fails and loses what it should have kept; those after it answer well.
    LostSync { at: u64 },
}

struct Tried {
    calls: u64,
    writes: u64,
    syncs: u64,
    refused: usize,
}

const SHAPE: Shape = Shape {
    rounds: 40,
    faults: true,
};

fn attempt(seed: u64, fault: Option<Fault>) -> Tried {
    let sim = disk();
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let hook = {
        let counts = counts.clone();
        move |call: Call, _: &Path| {
            let number = counts[0].fetch_add(1, Ordering::Relaxed);
            match call {
                Call::Write => drop(counts[1].fetch_add(1, Ordering::Relaxed)),
                Call::Sync => drop(counts[2].fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
            match fault {
                Some(Fault::Refused { at, error, forever })
                    if (number == at || forever && number > at)
                        && (error == EIO || grows(call)) =>
                {
                    Err(io::Error::from_raw_os_error(error))
                }
                _ => Ok(()),
            }
        }
    };
    match fault {
        Some(Fault::Short { at }) => sim.shorten_write_after(at),
        Some(Fault::LostSync { at }) => sim.lose_sync_after(at),
        _ => {}
    }
    let faulty = FaultyDisk::new(Arc::new(sim.clone()), Arc::new(hook));
    let journal = workload::run(Arc::new(faulty), &sim, seed, SHAPE);
    let what = format!("seed {seed}, {fault:?}, {:?}", journal.refused.first());
    if let Some(Fault::Short { .. }) = fault {
        assert_eq!(journal.refused, Vec::<String>::new(), "{what}: retried");
    }
    find_again(&sim, &journal, seed, &what);
    let [calls, writes, syncs] = [0, 1, 2].map(|at: usize| counts[at].load(Ordering::Relaxed));
    Tried {
        calls,
        writes,
        syncs,
        refused: journal.refused.len(),
    }
}

/// Calls that a full disk refuses.
fn grows(call: Call) -> bool {
    matches!(
        call,
        Call::Write | Call::SetLen | Call::Open | Call::MakeFolder | Call::Link
    )
}

/// What the process left, and what a loss of power afterwards leaves of it.
fn find_again(sim: &SimDisk, journal: &Journal, seed: u64, what: &str) {
    let change = sim.changes();
    let durable = journal.durable_at(change);
    let trimmed = journal.trimmed_at(change);
    for loss in Loss::ALL {
        let found = sim.after_power_loss(loss, mixed(seed, change, loss as u64));
        let what = format!("{what}, then the power, {loss:?}");
        inspect(&found, journal, durable, trimmed, &what);
    }
    inspect(sim, journal, durable, trimmed, what);
}

#[test]
fn every_call_fails_once_and_for_ever() {
    let seed = seed();
    let whole = attempt(seed, None);
    assert_eq!(whole.refused, 0, "nothing fails by itself");
    let step = if is_quick() { 11 } else { 1 };
    let mut faults = Vec::new();
    for at in (0..whole.calls).step_by(step) {
        for (error, forever) in [(EIO, false), (EIO, true), (ENOSPC, false), (ENOSPC, true)] {
            faults.push(Fault::Refused { at, error, forever });
        }
    }
    faults.extend(
        (0..whole.writes)
            .step_by(step)
            .map(|at| Fault::Short { at }),
    );
    faults.extend((0..whole.syncs).map(|at| Fault::LostSync { at }));
    let refused = AtomicU64::new(0);
    on_all_cores(|number| {
        let Some(fault) = faults.get(number as usize) else {
            return false;
        };
        let tried = attempt(seed, Some(*fault));
        refused.fetch_add((tried.refused > 0).into(), Ordering::Relaxed);
        true
    });
    let refused = refused.into_inner();
    println!(
        "{} calls, {} of them writes, {} syncs: {} faults, {refused} told of",
        whole.calls,
        whole.writes,
        whole.syncs,
        faults.len()
    );
    assert!(refused > faults.len() as u64 / 4);
}
