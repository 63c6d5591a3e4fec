//! The power is lost at any change of the disk: durable commits are found, and none of them half.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_storage::conformance::Random;
use isomer_vfs::{Disk, Loss, SimDisk};

use crate::{
    inspect::{inspect, inspect_backups, inspect_copy, mixed},
    is_quick, number, on_all_cores, seed,
    subject::{self, DATABASE, ENCRYPTED, SHARED},
    workload::{self, Journal, Shape, WalKind},
};

/// A disk with an empty, durable folder for the database.
pub fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_folder(Path::new(DATABASE)).expect("a folder");
    disk.sync_folder(Path::new("/")).expect("synced");
    disk
}

/// The same for a database with that log.
pub fn disk_of(log: WalKind) -> SimDisk {
    let disk = disk();
    if log != WalKind::Private {
        mark(&disk, SHARED);
    }
    disk
}

/// The same; every eighth one is for an encrypted database.
fn disk_for(seed: u64, log: WalKind) -> SimDisk {
    let disk = disk_of(log);
    if seed.is_multiple_of(8) {
        mark(&disk, ENCRYPTED);
    }
    disk
}

fn mark(disk: &SimDisk, name: &str) {
    disk.make_folder(Path::new(name)).expect("a folder");
    disk.sync_folder(Path::new("/")).expect("synced");
}

/// The changes of a workload at which the power is lost: every `step`-th on average.
pub struct Cuts {
    /// Number of cuts so far.
    pub done: AtomicU64,
    /// Maximum number of cuts.
    pub most: u64,
    /// See above.
    pub step: u64,
    /// No cuts from then on.
    pub until: Option<Instant>,
}

impl Cuts {
    fn enough(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.most
            || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

#[test]
fn power_cuts_lose_nothing_durable_and_leave_nothing_half_done() {
    cut_workloads(WalKind::Private, 10_000);
}

/// The same with a log that processes share, and one process.
#[test]
fn power_cuts_of_a_shared_database_lose_nothing_durable() {
    cut_workloads(WalKind::Shared { processes: 1 }, 1_000);
}

/// The same while two processes write.
#[test]
fn power_cuts_of_two_processes_lose_nothing_durable() {
    cut_workloads(WalKind::Shared { processes: 2 }, 1_000);
}

fn cut_workloads(log: WalKind, most: u64) {
    let most = number("ISOMER_POWER_CUTS", if is_quick() { 200 } else { most });
    let seconds = number("ISOMER_TEST_SECONDS", 0);
    let started = Instant::now();
    let cuts = Cuts {
        done: AtomicU64::new(0),
        most,
        step: 10,
        until: (seconds > 0).then(|| started + Duration::from_secs(seconds)),
    };
    let first = seed();
    let workloads = AtomicU64::new(0);
    on_all_cores(|number| {
        let seed = first.wrapping_mul(1_000_000).wrapping_add(number);
        cut_workload(seed, log, &cuts);
        workloads.fetch_add(1, Ordering::Relaxed);
        !cuts.enough()
    });
    println!(
        "{log:?}: {} cuts in each of {} ways of losing, over {workloads:?} workloads, {:.1} s",
        cuts.done.into_inner(),
        Loss::ALL.len(),
        started.elapsed().as_secs_f64()
    );
}

/// Runs one workload and cuts the power during it.
pub fn cut_workload(seed: u64, log: WalKind, cuts: &Cuts) {
    let disk = disk_for(seed, log);
    let recorder = disk.record();
    let shape = Shape {
        rounds: 60,
        faults: false,
        log,
    };
    let journal = workload::run(Arc::new(disk.clone()), &disk, seed, shape);
    let recording = recorder.finish();
    let mut replay = recording.replay();
    let mut random = Random(seed ^ 0x5eed);
    for change in recording.first()..=recording.end() {
        if random.below(cuts.step) != 0 {
            continue;
        }
        replay.forward_to(change);
        for loss in Loss::ALL {
            let chance = mixed(seed, change, loss as u64);
            let what = format!("{log:?}, seed {seed}, change {change}, {loss:?}");
            let found = replay.after_power_loss(loss, chance);
            after_cut(&found, &journal, change, chance, &what);
        }
        cuts.done.fetch_add(1, Ordering::Relaxed);
        if cuts.enough() {
            break;
        }
    }
}

fn after_cut(disk: &SimDisk, journal: &Journal, change: u64, chance: u64, what: &str) {
    let (durable, trimmed) = (journal.durable_at(change), journal.trimmed_at(change));
    if chance.is_multiple_of(4) {
        for copied in journal.copies.iter().filter(|copy| copy.begun <= change) {
            inspect_copy(disk, journal, copied, change, what);
        }
    }
    if chance % 8 == 1 {
        inspect_backups(disk, journal, change, what);
    }
    if !chance.is_multiple_of(16) {
        inspect(disk, journal, durable, trimmed, what);
        return;
    }
    // The power is lost again while the database is opened.
    let copy = disk.after_power_loss(Loss::Everything, 0);
    let recorder = copy.record();
    drop(subject::open(Arc::new(copy), Path::new(DATABASE)));
    let recording = recorder.finish();
    let mut replay = recording.replay();
    for again in recording.first()..=recording.end() {
        replay.forward_to(again);
        let loss = Loss::ALL[(chance.wrapping_add(again) % 3) as usize];
        let found = replay.after_power_loss(loss, chance.wrapping_add(again));
        let what = format!("{what}, then change {again} of opening, {loss:?}");
        inspect(&found, journal, durable, trimmed, &what);
    }
}
