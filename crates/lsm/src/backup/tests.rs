//! Backups of synthetic folders: sharing, interruptions, damage, and restoring a point in time.

use std::path::Path;

use isomer_storage::StorageError;
use isomer_vfs::{Disk, Loss, OpenMode, SimDisk};

use super::{
    files::{FILES, files_below},
    *,
};

const DB: &str = "/db";
const TARGET: &str = "/backups";

fn write(disk: &SimDisk, name: &str, content: &[u8]) {
    let path = Path::new(DB).join(name);
    disk.make_folder(path.parent().unwrap()).unwrap();
    let file = disk.open(&path, OpenMode::Create).unwrap();
    file.write_all_at(content, 0).unwrap();
    file.sync().unwrap();
    disk.sync_folder(path.parent().unwrap()).unwrap();
}

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A database of that version: its manifest and log change, tables are added and removed.
fn database(version: u8) -> SimDisk {
    let disk = SimDisk::new();
    write(&disk, "MANIFEST", &[version; 50]);
    write(&disk, "log/1.log", &vec![7; usize::from(version) * 10]);
    for table in version..version + 3 {
        write(
            &disk,
            &format!("tables/{table}.table"),
            &vec![table; 3 << 10],
        );
    }
    disk
}

fn is_log(name: &str) -> bool {
    name.starts_with("log/")
}

fn take_from(db: &SimDisk, version: u8, target: &SimDisk) -> Result<BackupResult, StorageError> {
    let source = Source {
        disk: db,
        folder: Path::new(DB),
        identity: 9,
        version: version.into(),
        time_ms: u64::from(version) * 1000,
        is_immutable: &|name| name.starts_with("tables/"),
        has_other_history: &|_, _, _| Ok(false),
    };
    let mut last = (0, 1);
    let taken = take(&source, target, Path::new(TARGET), &mut |done, total| {
        assert!(done >= last.0 && done <= total);
        last = (done, total);
    })?;
    assert_eq!(last.0, last.1);
    Ok(taken)
}

fn restored(target: &SimDisk, point: RestoreTarget) -> Result<SimDisk, StorageError> {
    let backups = list(target, Path::new(TARGET))?;
    let selection = select(&backups, point, &is_log)?;
    let into = SimDisk::new();
    restore(
        target,
        Path::new(TARGET),
        &selection,
        &into,
        Path::new(DB),
        &mut |_, _| {},
    )
    .and_then(|mark| end(&into, Path::new(DB), &mark))?;
    Ok(into)
}

/// Whether a restored folder is that database, with the log of another version.
fn assert_is(found: &SimDisk, version: u8, log_of: u8) {
    let expected = database(version);
    let mut names = Vec::new();
    files_below(&expected, Path::new(DB), "", 3, &mut names).unwrap();
    let mut there = Vec::new();
    files_below(found, Path::new(DB), "", 3, &mut there).unwrap();
    names.sort_unstable();
    there.sort_unstable();
    assert_eq!(names, there);
    for name in names {
        let path = Path::new(DB).join(&name);
        let from = if is_log(&name) {
            database(log_of)
        } else {
            expected.clone()
        };
        assert!(read(found, &path) == read(&from, &path), "{name}");
    }
}

#[test]
fn a_second_backup_copies_what_is_new() {
    let target = SimDisk::new();
    let first = take_from(&database(1), 1, &target).unwrap();
    assert_eq!((first.number, first.copied.0, first.shared.0), (1, 5, 0));
    let second = take_from(&database(2), 2, &target).unwrap();
    assert_eq!((second.copied.0, second.shared), (3, (2, 6 << 10)));
    let same = take_from(&database(2), 2, &target).unwrap();
    assert_eq!((same.number, same.copied, same.shared.0), (3, (0, 0), 5));
    for (point, version) in [
        (RestoreTarget::Newest, 2),
        (RestoreTarget::Version(2), 2),
        (RestoreTarget::Version(1), 1),
        (RestoreTarget::Time(5000), 2),
    ] {
        assert_is(&restored(&target, point).unwrap(), version, version);
    }
    assert_is(&restored(&target, RestoreTarget::Time(1500)).unwrap(), 1, 2);
    assert_eq!(keep_last(&target, Path::new(TARGET), 2).unwrap(), 1);
    assert!(restored(&target, RestoreTarget::Version(1)).is_err());
    assert_is(&restored(&target, RestoreTarget::Newest).unwrap(), 2, 2);
    let kept = target.list(&Path::new(TARGET).join(FILES)).unwrap().len();
    assert_eq!(kept, 5);
}

#[test]
fn a_point_between_backups_takes_the_log_of_the_next() {
    let target = SimDisk::new();
    for version in [10, 20, 30] {
        take_from(&database(version), version, &target).unwrap();
    }
    assert_is(
        &restored(&target, RestoreTarget::Version(15)).unwrap(),
        10,
        30,
    );
    let backups = list(&target, Path::new(TARGET)).unwrap();
    assert!(
        select(&backups, RestoreTarget::Version(15), &is_log)
            .unwrap()
            .partial
    );
    assert!(
        !select(&backups, RestoreTarget::Version(20), &is_log)
            .unwrap()
            .partial
    );
    for (point, word) in [
        (RestoreTarget::Version(9), "reaches back"),
        (RestoreTarget::Version(31), "newest backup holds version 30"),
        (RestoreTarget::Time(9), "reaches back"),
    ] {
        let error = restored(&target, point).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn other_files_in_the_target_are_left_alone() {
    let target = SimDisk::new();
    assert!(list(&target, Path::new(TARGET)).is_err());
    target.make_folder(Path::new(TARGET)).unwrap();
    let other = Path::new(TARGET).join("mine.txt");
    target.open(&other, OpenMode::Create).unwrap();
    let error = take_from(&database(1), 1, &target).unwrap_err();
    assert!(error.to_string().contains("mine.txt"), "{error}");
    target.remove(&other).unwrap();
    take_from(&database(1), 1, &target).unwrap();
    let db = database(2);
    let foreign = Source {
        disk: &db,
        folder: Path::new(DB),
        identity: 10,
        version: 2,
        time_ms: 0,
        is_immutable: &|_| false,
        has_other_history: &|_, _, _| Ok(false),
    };
    let error = take(&foreign, &target, Path::new(TARGET), &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("another database"), "{error}");
    let backups = list(&target, Path::new(TARGET)).unwrap();
    let selection = select(&backups, RestoreTarget::Newest, &is_log).unwrap();
    let error = restore(
        &target,
        Path::new(TARGET),
        &selection,
        &db,
        Path::new(DB),
        &mut |_, _| {},
    );
    assert!(error.unwrap_err().to_string().contains("not empty"));
}

#[test]
fn a_damaged_backup_is_reported_and_not_restored() {
    let target = SimDisk::new();
    take_from(&database(1), 1, &target).unwrap();
    let folder = Path::new(TARGET).join(FILES);
    let names = target.list(&folder).unwrap();
    for name in &names {
        let path = folder.join(name);
        target.flip(&path, 3, 3).unwrap();
        let error = restored(&target, RestoreTarget::Newest).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt(_)), "{error}");
        target.flip(&path, 3, 3).unwrap();
    }
    restored(&target, RestoreTarget::Newest).unwrap();
    target.remove(&folder.join(&names[0])).unwrap();
    let error = restored(&target, RestoreTarget::Newest).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

/// At whichever point the power is lost during a backup: the earlier one is complete, and so is the new one if
/// the catalog names it; the next one succeeds.
#[test]
fn an_interrupted_backup_leaves_the_earlier_ones() {
    let small = |version: u8| {
        let disk = database(version);
        for table in version..version + 3 {
            write(&disk, &format!("tables/{table}.table"), &[table; 900]);
        }
        disk
    };
    let target = SimDisk::new();
    target.make_folder(Path::new(TARGET)).unwrap();
    target.sync_folder(Path::new("/")).unwrap();
    take_from(&small(1), 1, &target).unwrap();
    let recorder = target.record();
    take_from(&small(2), 2, &target).unwrap();
    let recording = recorder.finish();
    let mut replay = recording.replay();
    for change in recording.first()..=recording.end() {
        replay.forward_to(change);
        for (loss, seed) in Loss::ALL
            .into_iter()
            .flat_map(|loss| [(loss, 1), (loss, 2)])
        {
            let target = replay.after_power_loss(loss, seed);
            let count = list(&target, Path::new(TARGET)).unwrap().len();
            assert!(count == 2 || change < recording.end());
            for version in 1..=count as u64 {
                restored(&target, RestoreTarget::Version(version)).unwrap();
            }
            take_from(&small(3), 3, &target).unwrap();
            restored(&target, RestoreTarget::Newest).unwrap();
            keep_last(&target, Path::new(TARGET), 9).unwrap();
            restored(&target, RestoreTarget::Version(1)).unwrap();
        }
    }
}

/// At whichever point the power is lost during a restore: the database is complete, or opening reports that it
/// is not.
#[test]
fn an_interrupted_restore_does_not_open() {
    let target = SimDisk::new();
    take_from(&database(1), 1, &target).unwrap();
    let backups = list(&target, Path::new(TARGET)).unwrap();
    let selection = select(&backups, RestoreTarget::Newest, &is_log).unwrap();
    let into = SimDisk::new();
    let recorder = into.record();
    restore(
        &target,
        Path::new(TARGET),
        &selection,
        &into,
        Path::new(DB),
        &mut |_, _| {},
    )
    .and_then(|mark| end(&into, Path::new(DB), &mark))
    .unwrap();
    let recording = recorder.finish();
    let mut replay = recording.replay();
    let mut unfinished = 0;
    for change in recording.first()..=recording.end() {
        replay.forward_to(change);
        for loss in Loss::ALL {
            let found = replay.after_power_loss(loss, 5);
            let manifest = found.exists(&Path::new(DB).join("MANIFEST")).unwrap();
            match refuse_unfinished(&found, Path::new(DB)) {
                Ok(()) if manifest => assert_is(&found, 1, 1),
                Ok(()) => {}
                Err(_) => unfinished += 1,
            }
        }
    }
    assert!(unfinished > 10);
}
