//! Any call on the disk fails, once or permanently, having done nothing or everything, or the process dies at
//! it: there is an error or none, no panic, and acknowledged commits are found.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::sync::Mutex;
use isomer_vfs::{Call, FaultyDisk, Loss, SimDisk};

use crate::{
    inspect::{inspect, inspect_backups, mixed},
    is_quick, number, on_all_cores,
    power::disk_of,
    seed,
    workload::{self, Journal, Shape, WalKind},
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A fault, and its time.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The call number `at`, and those after it if `forever`, is refused.
    Refused { at: u64, error: i32, forever: bool },
    /// The call number `at` takes effect, but reports an error.
    Denied { at: u64 },
    /// The process ends before the call number `at`, and another one continues.
    Killed { at: u64 },
    /// The write number `at` writes only half of its bytes.
    Short { at: u64 },
    /// The sync number `at` fails and loses the data; later ones succeed.
    LostSync { at: u64 },
}

struct Tried {
    calls: Vec<Call>,
    refused: usize,
}

impl Tried {
    /// Number of calls of a kind.
    fn count(&self, kind: Call) -> u64 {
        self.calls.iter().filter(|call| **call == kind).count() as u64
    }
}

/// Prints the fault if a test panics.
struct PrintFault(u64, WalKind, Option<Fault>);

impl Drop for PrintFault {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, {:?}, {:?}", self.0, self.1, self.2);
        }
    }
}

fn attempt(seed: u64, log: WalKind, fault: Option<Fault>) -> Tried {
    let _tell = PrintFault(seed, log, fault);
    let sim = disk_of(log);
    let shape = Shape {
        rounds: 40,
        faults: true,
        log,
    };
    let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
    let died: Arc<AtomicBool> = Arc::default();
    let before = {
        let (calls, died) = (calls.clone(), died.clone());
        move |call: Call, _: &Path| {
            let killed = || Err(io::Error::other("killed"));
            if died.load(Ordering::SeqCst) {
                return killed();
            }
            let mut calls = calls.lock();
            let number = calls.len() as u64;
            calls.push(call);
            match fault {
                Some(Fault::Refused { at, error, forever })
                    if (number == at || forever && number > at)
                        && (error == EIO || grows(call)) =>
                {
                    Err(io::Error::from_raw_os_error(error))
                }
                Some(Fault::Killed { at }) if number == at => {
                    died.store(true, Ordering::SeqCst);
                    killed()
                }
                _ => Ok(()),
            }
        }
    };
    let behind = {
        let calls = calls.clone();
        move |_: Call, _: &Path| match fault {
            Some(Fault::Denied { at }) if calls.lock().len() as u64 == at + 1 => {
                Err(io::Error::from_raw_os_error(EIO))
            }
            _ => Ok(()),
        }
    };
    match fault {
        Some(Fault::Short { at }) => sim.shorten_write_after(at),
        Some(Fault::LostSync { at }) => sim.lose_sync_after(at),
        _ => {}
    }
    let faulty =
        FaultyDisk::new(Arc::new(sim.clone()), Arc::new(before)).and_behind(Arc::new(behind));
    let journal = workload::run_mortal(Arc::new(faulty), &sim, seed, shape, died);
    let what = format!(
        "{log:?}, seed {seed}, {fault:?}, {:?}",
        journal.refused.first()
    );
    if let Some(Fault::Short { .. }) = fault {
        assert_eq!(journal.refused, Vec::<String>::new(), "{what}: retried");
    }
    find_again(&sim, &journal, seed, &what);
    let calls = std::mem::take(&mut *calls.lock());
    Tried {
        calls,
        refused: journal.refused.len(),
    }
}

/// Calls that change something, so that it matters whether a failed one took effect.
fn changes(call: Call) -> bool {
    !matches!(call, Call::Read | Call::List | Call::Lock)
}

/// Calls that fail on a full disk.
fn grows(call: Call) -> bool {
    matches!(
        call,
        Call::Write | Call::SetLen | Call::Open | Call::MakeFolder | Call::Link
    )
}

/// Checks the state after the process ended, and after a subsequent loss of power; also after a loss of power
/// when the database was reopened after the fault.
fn find_again(sim: &SimDisk, journal: &Journal, seed: u64, what: &str) {
    if let Some((found, change)) = &journal.reopened {
        let (durable, trimmed) = (journal.durable_at(*change), journal.trimmed_at(*change));
        let what = format!("{what}, opened again, then the power");
        inspect(found, journal, durable, trimmed, &what);
    }
    let change = sim.changes();
    inspect_backups(sim, journal, change, what);
    let durable = journal.durable_at(change);
    let trimmed = journal.trimmed_at(change);
    for loss in Loss::ALL {
        let found = sim.after_power_loss(loss, mixed(seed, change, loss as u64));
        let what = format!("{what}, then the power, {loss:?}");
        inspect(&found, journal, durable, trimmed, &what);
    }
    inspect(sim, journal, durable, trimmed, what);
}

/// All faults possible in a workload with these calls; of those possible at any call only every `step`-th.
fn faults(whole: &Tried, step: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, call) in (0..).zip(&whole.calls).step_by(step) {
        let refused = |error, forever| Fault::Refused { at, error, forever };
        faults.push(refused(EIO, false));
        if grows(*call) {
            faults.extend([refused(ENOSPC, false), refused(ENOSPC, true)]);
        }
        if changes(*call) {
            faults.extend([
                refused(EIO, true),
                Fault::Denied { at },
                Fault::Killed { at },
            ]);
        }
    }
    let writes = (0..whole.count(Call::Write)).step_by(step);
    faults.extend(writes.map(|at| Fault::Short { at }));
    let syncs = (0..whole.count(Call::Sync)).step_by(step.div_ceil(4));
    faults.extend(syncs.map(|at| Fault::LostSync { at }));
    faults
}

#[test]
fn every_call_fails_once_and_for_ever() {
    fail_calls(seed(), WalKind::Private, if is_quick() { 11 } else { 1 });
}

/// Some calls of one process of a shared database.
#[test]
fn some_calls_of_a_shared_database_fail() {
    let step = if is_quick() { 41 } else { 5 };
    fail_calls(seed(), WalKind::Shared { processes: 1 }, step);
}

/// Some calls while two processes write, which both meet the failures of their disk.
#[test]
fn some_calls_of_two_processes_fail() {
    let step = if is_quick() { 41 } else { 5 };
    fail_calls(seed(), WalKind::Shared { processes: 2 }, step);
}

/// Some calls of another workload.
#[test]
fn some_calls_of_a_second_workload_fail() {
    let seed = number("ISOMER_TEST_SEED", 20_779);
    println!("ISOMER_TEST_SEED={seed}");
    fail_calls(seed, WalKind::Private, 23);
}

fn fail_calls(seed: u64, log: WalKind, step: usize) {
    let whole = attempt(seed, log, None);
    assert_eq!(whole.refused, 0, "nothing fails without a fault");
    let faults = faults(&whole, step);
    let refused = AtomicU64::new(0);
    on_all_cores(|next| {
        let Some(fault) = faults.get(next as usize) else {
            return false;
        };
        let tried = attempt(seed, log, Some(*fault));
        refused.fetch_add((tried.refused > 0).into(), Ordering::Relaxed);
        true
    });
    let refused = refused.into_inner();
    println!(
        "{} calls, {} of them writes, {} syncs: {} faults, {refused} reported",
        whole.calls.len(),
        whole.count(Call::Write),
        whole.count(Call::Sync),
        faults.len()
    );
    assert!(refused > faults.len() as u64 / 4);
}
