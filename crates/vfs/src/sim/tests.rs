use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn write(disk: &SimDisk, path: &str, bytes: &[u8], sync: bool) {
    let file = disk
        .open(Path::new(path), OpenMode::Create)
        .expect("a file");
    file.write_all_at(bytes, 0).expect("written");
    if sync {
        file.sync().expect("synced");
    }
}

fn read(disk: &SimDisk, path: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(Path::new(path), OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A name needs a sync of its folder, bytes a sync of their file; with both, they survive any loss.
#[test]
fn what_was_synced_stays() {
    for loss in Loss::ALL {
        for seed in 0..50 {
            let disk = SimDisk::new();
            disk.make_folder(Path::new("/db/tables")).expect("folders");
            for folder in ["/", "/db"] {
                disk.sync_folder(Path::new(folder)).expect("synced");
            }
            write(&disk, "/db/tables/a", b"kept", true);
            disk.sync_folder(Path::new("/db/tables")).expect("synced");
            write(&disk, "/db/tables/b", b"nameless", true);
            write(&disk, "/db/tables/a2", &[7; 10_000], false);
            let found = disk.after_power_loss(loss, seed);
            assert_eq!(read(&found, "/db/tables/a").expect("there"), b"kept");
            if loss == Loss::Everything {
                let error = read(&found, "/db/tables/b").expect_err("its folder was not synced");
                assert_eq!(error.kind(), io::ErrorKind::NotFound);
            }
            // The disk that keeps running loses nothing.
            assert_eq!(read(&disk, "/db/tables/b").expect("there"), b"nameless");
        }
    }
}

/// Unsynced writes tear in every way that the loss allows, and in no other.
#[test]
fn unsynced_writes_come_apart() {
    let mut found = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for (at, loss) in Loss::ALL.into_iter().enumerate() {
        for seed in 0..400 {
            let disk = SimDisk::new();
            write(&disk, "f", &[1; 1536], true);
            disk.sync_folder(Path::new("/")).expect("synced");
            let file = disk.open(Path::new("f"), OpenMode::Write).expect("opens");
            file.write_all_at(&[2; 1024], 0).expect("written");
            file.write_all_at(&[3; 512], 1024).expect("written");
            disk.cut_power(loss, seed);
            assert!(file.len().is_err(), "a file open before is dead");
            let bytes = read(&disk, "f").expect("there");
            assert_eq!(bytes.len(), 1536);
            let sectors: Vec<u8> = bytes
                .chunks(512)
                .map(|sector| {
                    assert!(sector.iter().all(|byte| *byte == sector[0]));
                    sector[0]
                })
                .collect();
            found[at].insert(sectors);
        }
    }
    let set = |all: &[[u8; 3]]| all.iter().map(|one| one.to_vec()).collect::<BTreeSet<_>>();
    assert_eq!(found[0], set(&[[1, 1, 1]]));
    assert_eq!(found[1], set(&[[1, 1, 1], [2, 2, 1], [1, 1, 3], [2, 2, 3]]));
    let torn = [[1, 2], [1, 2], [1, 3]];
    let all: BTreeSet<Vec<u8>> = (0..8)
        .map(|bits| (0..3).map(|at| torn[at][bits >> at & 1]).collect())
        .collect();
    assert_eq!(found[2], all);
}

/// A rename may be lost until the folder is synced: then either the old file is found under its name, or the
/// new one, complete.
#[test]
fn a_rename_is_atomic_and_may_be_lost() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimDisk::new();
        write(&disk, "current", b"old", true);
        write(&disk, "new", b"new", true);
        disk.sync_folder(Path::new("/")).expect("synced");
        disk.rename(Path::new("new"), Path::new("current"))
            .expect("renamed");
        assert_eq!(read(&disk, "current").expect("there"), b"new");
        let found = disk.after_power_loss(Loss::Some, seed);
        let current = read(&found, "current").expect("one of them");
        let both = read(&found, "new").is_ok();
        assert_eq!(both, current == b"old");
        seen.insert(current);
        disk.sync_folder(Path::new("/")).expect("synced");
        let found = disk.after_power_loss(Loss::Everything, seed);
        assert_eq!(read(&found, "current").expect("there"), b"new");
        assert!(read(&found, "new").is_err());
    }
    assert_eq!(seen.len(), 2, "both happen");
}

/// After a failed sync, a second one succeeds and does not make durable what the first one lost.
#[test]
fn a_lost_sync_loses_for_good() {
    let disk = SimDisk::new();
    write(&disk, "f", b"first", true);
    disk.sync_folder(Path::new("/")).expect("synced");
    let file = disk.open(Path::new("f"), OpenMode::Write).expect("opens");
    disk.lose_sync_after(0);
    file.write_all_at(b"SECOND", 0).expect("written");
    file.sync().expect_err("lost");
    file.sync().expect("answers well");
    assert_eq!(read(&disk, "f").expect("there"), b"SECOND");
    assert!(!disk.is_durable(Path::new("f")).expect("there"));
    for loss in Loss::ALL {
        let found = disk.after_power_loss(loss, 1);
        assert_eq!(read(&found, "f").expect("there"), b"first");
    }
}

/// Power is lost at the requested change, and every call fails until it is back.
#[test]
fn power_goes_at_a_change() {
    let disk = SimDisk::new();
    write(&disk, "f", b"a", true);
    disk.sync_folder(Path::new("/")).expect("synced");
    let file = disk.open(Path::new("f"), OpenMode::Write).expect("opens");
    disk.cut_power_at(disk.changes() + 1, Loss::Everything, 7);
    file.write_at(b"b", 0).expect("the last change");
    assert!(!disk.is_off());
    file.read_at(&mut [0], 0).expect_err("no power");
    assert!(disk.is_off());
    read(&disk, "f").expect_err("no power");
    disk.restart();
    assert!(!disk.is_off());
    assert_eq!(read(&disk, "f").expect("there"), b"a");
    file.write_at(b"c", 0).expect_err("opened before");
}

/// A full disk accepts what fits, and accepts more after space is freed.
#[test]
fn a_disk_fills_up() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(10));
    write(&disk, "a", &[1; 4], true);
    let file = disk.open(Path::new("b"), OpenMode::Create).expect("opens");
    assert_eq!(file.write_at(&[2; 10], 0).expect("a part"), 6);
    let error = file.write_at(&[2], 6).expect_err("full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(
        file.set_len(11).expect_err("full").kind(),
        io::ErrorKind::StorageFull
    );
    assert_eq!(disk.free_bytes(Path::new("/")).expect("known"), Some(0));
    // Existing bytes may be overwritten.
    file.write_all_at(&[3; 6], 0).expect("fits");
    file.set_len(1).expect("shorter");
    file.write_all_at(&[3; 5], 1).expect("fits again");
    disk.shorten_write_after(1);
    assert_eq!(file.write_at(&[4; 4], 0).expect("whole"), 4);
    assert_eq!(file.write_at(&[4; 4], 0).expect("short"), 2);
    assert_eq!(file.write_at(&[4; 4], 0).expect("whole"), 4);
}

/// A lock excludes others until it is dropped or power is lost.
#[test]
fn locks_keep_others_out() {
    let disk = SimDisk::new();
    let path = Path::new("LOCK");
    assert!(
        disk.lock(path, LockMode::Shared)
            .expect("no file")
            .is_none()
    );
    let writer = disk.lock(path, LockMode::Exclusive).expect("free");
    for mode in [LockMode::Shared, LockMode::Exclusive] {
        assert!(matches!(
            disk.lock(path, mode),
            Err(LockError::Held(Some(_)))
        ));
    }
    drop(writer);
    let readers = [LockMode::Shared; 2].map(|mode| disk.lock(path, mode).expect("free"));
    assert!(disk.lock(path, LockMode::Exclusive).is_err());
    disk.sync_folder(Path::new("/")).expect("synced");
    disk.cut_power(Loss::Everything, 0);
    let writer = disk.lock(path, LockMode::Exclusive).expect("all let go");
    drop(readers);
    assert!(
        disk.lock(path, LockMode::Shared).is_err(),
        "the new one holds"
    );
    drop(writer);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8, u16, u16),
    SetLen(u8, u16),
    Sync(u8),
    Rename(u8, u8),
    Remove(u8),
    SyncFolder,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, 0..2000_u16, 1..2000_u16).prop_map(|(file, at, len)| Step::Write(file, at, len)),
        1 => (0..4_u8, 0..3000_u16).prop_map(|(file, len)| Step::SetLen(file, len)),
        2 => (0..4_u8).prop_map(Step::Sync),
        1 => (0..4_u8, 0..4_u8).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (0..4_u8).prop_map(Step::Remove),
        1 => Just(Step::SyncFolder),
    ]
}

fn run(disk: &SimDisk, steps: &[Step]) {
    let path = |file: &u8| PathBuf::from(format!("f{file}"));
    for (at, step) in steps.iter().enumerate() {
        // Missing files are part of the model.
        match step {
            Step::Write(file, offset, len) => {
                let how = if disk.exists(&path(file)).expect("power") {
                    OpenMode::Write
                } else {
                    OpenMode::Create
                };
                disk.open(&path(file), how)
                    .expect("opens")
                    .write_all_at(&vec![at as u8; *len as usize], u64::from(*offset))
                    .expect("written");
            }
            Step::SetLen(file, len) => {
                if let Ok(file) = disk.open(&path(file), OpenMode::Write) {
                    file.set_len(u64::from(*len)).expect("a length");
                }
            }
            Step::Sync(file) => {
                if let Ok(file) = disk.open(&path(file), OpenMode::Write) {
                    file.sync().expect("synced");
                }
            }
            Step::Rename(from, to) => drop(disk.rename(&path(from), &path(to))),
            Step::Remove(file) => drop(disk.remove(&path(file))),
            Step::SyncFolder => disk.sync_folder(Path::new("/")).expect("synced"),
        }
    }
}

fn content(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut names = disk.list(Path::new("/")).expect("the root");
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let bytes = read(disk, name.to_str().expect("text")).expect("there");
            (name, bytes)
        })
        .collect()
}

proptest! {
    /// A replay yields the disk that a power cut during the workload itself yields, at every change and for
    /// every kind of loss.
    #[test]
    fn a_replay_is_the_run(steps in proptest::collection::vec(any_step(), 1..40), seed: u64) {
        let disk = SimDisk::new();
        let recorder = disk.record();
        run(&disk, &steps);
        let recording = recorder.finish();
        prop_assert_eq!(recording.end(), disk.changes());
        let mut replay = recording.replay();
        replay.forward_to(recording.end());
        for loss in Loss::ALL {
            let replayed = replay.after_power_loss(loss, seed);
            let cut = disk.after_power_loss(loss, seed);
            prop_assert_eq!(content(&replayed), content(&cut));
        }
    }

    /// After everything was synced, no loss removes anything.
    #[test]
    fn nothing_is_lost_when_all_is_synced(steps in proptest::collection::vec(any_step(), 1..40), seed: u64) {
        let disk = SimDisk::new();
        run(&disk, &steps);
        for name in disk.list(Path::new("/")).expect("the root") {
            disk.open(&name, OpenMode::Write).expect("opens").sync().expect("synced");
        }
        disk.sync_folder(Path::new("/")).expect("synced");
        for loss in Loss::ALL {
            prop_assert_eq!(content(&disk.after_power_loss(loss, seed)), content(&disk));
        }
    }
}

/// The real disk and the simulated one return the same results, errors included.
#[test]
fn the_real_disk_answers_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let sim = SimDisk::new();
    sim.make_folder(folder.path()).expect("a folder");
    let disks: [&dyn Disk; 2] = [&crate::RealDisk, &sim];
    let path = |name: &str| folder.path().join(name);
    let answers = disks.map(|disk| {
        let mut log = Vec::new();
        let mut note = |what: &str, answer: String| log.push(format!("{what}: {answer}"));
        let kind = |error: io::Error| format!("{:?}", error.kind());
        let open = |name: &str, how| disk.open(&path(name), how);
        note(
            "missing",
            kind(open("a", OpenMode::Read).expect_err("missing")),
        );
        note(
            "missing",
            kind(open("a", OpenMode::Write).expect_err("missing")),
        );
        let file = open("a", OpenMode::Create).expect("made");
        note("empty", format!("{:?}", file.is_empty()));
        note("write", format!("{:?}", file.write_at(b"0123456789", 5)));
        let mut out = [9; 20];
        note("read", format!("{:?} {out:?}", file.read_at(&mut out, 2)));
        note("read", format!("{out:?}"));
        note("behind", format!("{:?}", file.read_at(&mut out, 100)));
        note(
            "exact",
            kind(file.read_exact_at(&mut out, 1).expect_err("short")),
        );
        file.set_len(7).expect("shorter");
        file.set_len(9).expect("longer");
        file.sync().expect("synced");
        note(
            "len",
            format!("{:?} {:?}", file.len(), {
                let mut out = [9; 9];
                file.read_exact_at(&mut out, 0).expect("there");
                out
            }),
        );
        disk.make_folder(&path("x/y")).expect("made");
        disk.make_folder(&path("x/y")).expect("there already");
        note(
            "on a file",
            kind(disk.make_folder(&path("a")).expect_err("a file")),
        );
        note(
            "through a file",
            kind(open("a/b", OpenMode::Create).expect_err("a file")),
        );
        note(
            "kinds",
            format!(
                "{:?} {:?}",
                disk.kind(&path("a")).expect("a"),
                disk.kind(&path("x")).expect("x")
            ),
        );
        note("no kind", kind(disk.kind(&path("z")).expect_err("missing")));
        note(
            "exists",
            format!(
                "{:?} {:?}",
                disk.exists(&path("z")).expect("no"),
                disk.exists(&path("x/y")).expect("yes")
            ),
        );
        note(
            "full",
            kind(disk.remove_folder(&path("x")).expect_err("not empty")),
        );
        disk.remove_folder(&path("x/y")).expect("empty");
        note(
            "rename",
            kind(disk.rename(&path("z"), &path("b")).expect_err("missing")),
        );
        disk.link(&path("a"), &path("b")).expect("linked");
        note("names", format!("{:?}", file.name_count()));
        note(
            "link",
            kind(disk.link(&path("a"), &path("b")).expect_err("there")),
        );
        file.write_all_at(b"both", 0).expect("written");
        disk.rename(&path("b"), &path("c")).expect("renamed");
        disk.remove(&path("a")).expect("removed");
        note(
            "removed",
            kind(disk.remove(&path("a")).expect_err("missing")),
        );
        note("names", format!("{:?}", file.name_count()));
        let other = open("c", OpenMode::Read).expect("there");
        let mut out = [0; 4];
        other.read_exact_at(&mut out, 0).expect("there");
        note(
            "second name",
            format!("{out:?} {}", other.write_at(b"x", 0).is_err()),
        );
        drop(open("c", OpenMode::Create).expect("emptied"));
        note("emptied", format!("{:?}", other.len()));
        let mut names = disk.list(folder.path()).expect("names");
        names.sort();
        note("names", format!("{names:?}"));
        disk.sync_folder(folder.path()).expect("synced");
        let lock = disk.lock(&path("LOCK"), LockMode::Exclusive).expect("free");
        note(
            "held",
            format!(
                "{:?}",
                disk.lock(&path("LOCK"), LockMode::Exclusive)
                    .expect_err("held")
            ),
        );
        drop(lock);
        note(
            "free",
            format!(
                "{}",
                disk.lock(&path("LOCK"), LockMode::Shared)
                    .expect("free")
                    .is_some()
            ),
        );
        log
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].len(), 25);
}

/// A hook makes calls fail before they have an effect.
#[test]
fn a_hook_lets_calls_fail() {
    let sim = SimDisk::new();
    for call in crate::Call::ALL {
        let faulty = crate::FaultyDisk::new(
            Arc::new(sim.clone()),
            Arc::new(move |found, path| {
                if found == call {
                    return Err(io::Error::other(path.display().to_string()));
                }
                Ok(())
            }),
        );
        let work = || -> io::Result<()> {
            faulty.make_folder(Path::new("/d"))?;
            let file = faulty.open(Path::new("/d/f"), OpenMode::Create)?;
            file.write_all_at(b"abc", 0)?;
            file.read_exact_at(&mut [0; 2], 1)?;
            file.set_len(1)?;
            file.sync()?;
            faulty.sync_folder(Path::new("/d"))?;
            faulty.link(Path::new("/d/f"), Path::new("/d/g"))?;
            faulty.rename(Path::new("/d/g"), Path::new("/d/h"))?;
            faulty.list(Path::new("/d"))?;
            let locked = faulty.lock(Path::new("/d/h"), LockMode::Exclusive);
            drop(locked.map_err(|error| match error {
                LockError::Io(error) => error,
                LockError::Held(_) => unreachable!("no other lock exists"),
            })?);
            faulty.remove(Path::new("/d/h"))
        };
        let error = work().expect_err("one call of each kind");
        assert!(error.to_string().starts_with("/d"), "{call:?}: {error}");
        if sim.exists(Path::new("/d/h")).expect("power") {
            sim.remove(Path::new("/d/h")).expect("removed");
        }
        if sim.exists(Path::new("/d/g")).expect("power") {
            sim.remove(Path::new("/d/g")).expect("removed");
        }
    }
}
