//! Bits of closed files are flipped, files are cut: the right answer or an error, never a wrong one, a panic or
//! a hang.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use isomer_storage::{StorageError, conformance::Random};
use isomer_vfs::{Disk, FileType, Loss, OpenMode, SimDisk};

use crate::{
    inspect::check_stream_of,
    is_quick,
    power::disk_of,
    seed,
    subject::{self, DATABASE},
    workload::{self, Journal, Shape, WalKind, read_all},
};

/// How the damage of one database was detected.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Met {
    /// Opening was refused.
    Refused,
    /// A read reported the damage.
    Read,
    /// Only verification did.
    Verified,
    /// No used bytes were damaged.
    Harmless,
}

#[test]
fn damaged_files_are_never_believed() {
    damage_files(WalKind::Private, 1_000);
}

#[test]
fn damaged_files_of_a_shared_database_are_never_believed() {
    damage_files(WalKind::Shared { processes: 2 }, 500);
}

fn damage_files(log: WalKind, trials: u64) {
    let trials = if is_quick() { 100 } else { trials };
    let mut counts = [0; 4];
    let mut random = Random(seed());
    let mut trial = 0;
    while trial < trials {
        // Several databases, as each has different files.
        let sim = disk_of(log);
        let shape = Shape {
            rounds: 60,
            faults: false,
            log,
        };
        let workload = random.number();
        let journal = Arc::new(workload::run(Arc::new(sim.clone()), &sim, workload, shape));
        let files = files(&sim, Path::new(DATABASE));
        let whole = sim.after_power_loss(Loss::Everything, 0);
        let what = format!("seed {workload}, undamaged");
        assert_eq!(ask(&whole, &journal, &what), Met::Harmless, "{what}");
        for _ in 0..trials / 10 {
            let bad = sim.after_power_loss(Loss::Everything, 0);
            let damage = damage(&bad, &files, &mut random);
            let what = format!("seed {workload}, trial {trial}: {damage}");
            let met = patiently(bad, journal.clone(), what);
            counts[met as usize] += 1;
            trial += 1;
        }
    }
    let [refused, read, verified, harmless] = counts;
    println!(
        "{trials} damaged databases: {refused} refused at opening, {read} met by reading, {verified} by verifying, {harmless} harmless; 0 wrong answers"
    );
    assert!(harmless * 2 < trials, "too little was hit");
}

/// Everything was synced and flushed, then the power was lost, and then a bit of the log, which was not closed,
/// is flipped: data in tables does not excuse a gap in the change stream.
#[test]
fn a_damaged_log_that_was_left_open_is_not_believed() {
    for number in 0..if is_quick() { 5 } else { 40 } {
        let seed = seed().wrapping_mul(1000).wrapping_add(number);
        damage_an_open_log(seed, WalKind::Private);
    }
}

#[test]
fn a_damaged_shared_log_that_was_left_open_is_not_believed() {
    for number in 0..if is_quick() { 5 } else { 40 } {
        let seed = seed().wrapping_mul(1000).wrapping_add(number);
        let processes = 1 + number % 2;
        damage_an_open_log(seed, WalKind::Shared { processes });
    }
}

/// The same with one workload.
pub fn damage_an_open_log(seed: u64, log: WalKind) {
    let sim = disk_of(log);
    let shape = Shape {
        rounds: 30,
        faults: false,
        log,
    };
    let (journal, engines) = workload::run_and_leave(Arc::new(sim.clone()), &sim, seed, shape);
    let journal = Arc::new(journal);
    let folder = match log {
        WalKind::Private => "log",
        WalKind::Shared { .. } => "shared",
    };
    let logs = files(&sim, &Path::new(DATABASE).join(folder));
    let mut random = Random(seed);
    for trial in 0..10 {
        let bad = sim.after_power_loss(Loss::Everything, trial);
        let damage = damage(&bad, &logs, &mut random);
        let what = format!("{log:?}, seed {seed}: {damage}");
        patiently(bad, journal.clone(), what);
    }
    drop(engines);
}

/// All files that are not empty.
pub fn files(disk: &SimDisk, folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for name in disk.list(folder).expect("listed") {
        let path = folder.join(name);
        if disk.kind(&path).expect("there") == FileType::Folder {
            found.extend(files(disk, &path));
            continue;
        }
        let len = disk
            .open(&path, OpenMode::Read)
            .and_then(|file| file.len())
            .expect("read");
        if len > 0 && path.file_name().is_none_or(|name| name != "LOCK") {
            found.push((path, len));
        }
    }
    found.sort();
    found
}

/// One flip of a used bit, or one cut.
fn damage(disk: &SimDisk, files: &[(PathBuf, u64)], random: &mut Random) -> String {
    // Each file with equal probability, whatever its length.
    let (path, len) = &files[random.below(files.len() as u64) as usize];
    let name = path.display();
    if random.below(8) == 0 {
        let cut = random.below(*len);
        let file = disk.open(path, OpenMode::Write).expect("opens");
        file.set_len(cut).expect("cut");
        file.sync().expect("synced");
        return format!("{name} of {len} bytes cut at {cut}");
    }
    let file = disk.open(path, OpenMode::Read).expect("opens");
    let mut line = [0; 16];
    let mut at = random.below(*len);
    for _ in 0..50 {
        let count = file.read_at(&mut line, at & !15).expect("read");
        if line[..count].iter().any(|byte| *byte != 0) {
            break;
        }
        at = random.below(*len);
    }
    let bit = random.below(8) as u8;
    disk.flip(path, at, bit).expect("flipped");
    format!("bit {bit} of byte {at} of {name} ({len} bytes) flipped")
}

/// Runs in a separate thread: a hang is a failure that names the trial.
fn patiently(disk: SimDisk, journal: Arc<Journal>, what: String) -> Met {
    let (sender, receiver) = mpsc::channel();
    let name = what.clone();
    let thread = std::thread::spawn(move || {
        let met = ask(&disk, &journal, &what);
        // After a timeout the receiver is gone.
        let _ = sender.send(met);
    });
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(met) => met,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name}: it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it would have answered"),
        },
    }
}

/// Checks that an error reports damage; any other is a failure.
fn corrupt(error: &StorageError, what: &str) {
    assert!(
        matches!(error, StorageError::Corrupt(_)),
        "{what}: reported as {error:?}"
    );
}

fn ask(disk: &SimDisk, journal: &Journal, what: &str) -> Met {
    let tended = match subject::open_existing(Arc::new(disk.clone()), Path::new(DATABASE)) {
        Ok(tended) => tended,
        Err(error) => {
            corrupt(&error, what);
            return Met::Refused;
        }
    };
    let engine = tended.engine();
    let mut met = false;
    let expected = &journal.last().pairs;
    let snapshot = engine.snapshot().expect("a snapshot");
    let absent = [b"absent".to_vec(), b"key/0555".to_vec(), vec![0xff; 9]];
    for key in expected.keys().chain(&absent) {
        match snapshot.get(key) {
            Ok(value) => assert_eq!(
                value.as_deref(),
                expected.get(key).map(|value| &**value),
                "{what}: WRONG ANSWER for {:?}",
                String::from_utf8_lossy(key)
            ),
            Err(error) => {
                corrupt(&error, what);
                met = true;
            }
        }
    }
    match read_all(&*snapshot) {
        Ok(found) => assert!(found == **expected, "{what}: WRONG ANSWER of a scan"),
        Err(error) => {
            corrupt(&error, what);
            met = true;
        }
    }
    match engine.stream(0, 100_000, usize::MAX, false) {
        Ok(stream) => {
            for entry in &stream {
                let written = journal.states.iter().find(|at| at.version == entry.version);
                assert_eq!(
                    Some(&entry.bytes),
                    written.map(|at| &at.stream),
                    "{what}: WRONG change stream"
                );
            }
            let last = journal.last().version;
            let trimmed = journal.trimmed_at(u64::MAX);
            let kept: Vec<u64> = stream.iter().map(|entry| entry.version).collect();
            check_stream_of(journal, &kept, last, trimmed, what);
        }
        Err(error) => {
            corrupt(&error, what);
            met = true;
        }
    }
    drop(snapshot);
    match engine.verify(&mut |_, _| {}) {
        Ok(damage) if damage.is_empty() => {
            assert!(!met, "{what}: verifying finds nothing");
            Met::Harmless
        }
        Ok(_) if met => Met::Read,
        Ok(_) => Met::Verified,
        Err(error) => {
            corrupt(&error, what);
            if met { Met::Read } else { Met::Verified }
        }
    }
}
