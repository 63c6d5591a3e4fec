//! Properties of a database after a loss of power or another fault.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{Durability, Version, conformance::Random};
use isomer_vfs::{Disk, SimDisk};

use crate::{
    subject::{self, DATABASE, Tended},
    workload::{Copied, Journal, State, assert_same, read_all},
};

/// Opens the database and compares it with the journal: a version that was committed, no older than `durable`,
/// complete; the change stream agrees with it, complete after `trimmed`; it verifies clean and keeps working.
pub fn inspect(
    disk: &SimDisk,
    journal: &Journal,
    durable: Version,
    trimmed: Version,
    what: &str,
) -> Version {
    let open = || {
        subject::open(Arc::new(disk.clone()), Path::new(DATABASE))
            .unwrap_or_else(|error| panic!("{what}: does not open: {error}"))
    };
    let tended = open();
    let version = compare(&tended, journal, durable, trimmed, what);
    verify(&tended, what);
    let mut pairs = (*state(journal, version, what).pairs).clone();
    let engine = tended.engine();
    for round in 0..3_u8 {
        let mut transaction = engine.begin().expect("begins");
        let key = vec![b'z', round];
        transaction.put(&key, b"after the fault").expect("put");
        pairs.insert(key, b"after the fault"[..].into());
        let done = transaction.commit(Durability::Synced);
        let done = done.unwrap_or_else(|error| panic!("{what}: does not go on: {error}"));
        assert_eq!(done, version + 1 + u64::from(round), "{what}");
        let tended = match round {
            0 => tended.flush(),
            1 => tended.compact(),
            _ => Ok(()),
        };
        tended.unwrap_or_else(|error| panic!("{what}: does not go on: {error}"));
    }
    drop(tended);
    let again = open();
    let snapshot = again.engine().snapshot().expect("a snapshot");
    let found =
        read_all(&*snapshot).unwrap_or_else(|error| panic!("{what}: opened again: {error}"));
    assert_same(&found, &pairs, &format!("{what}: opened again"));
    version
}

fn state<'j>(journal: &'j Journal, version: Version, what: &str) -> &'j State {
    let written = journal.states.iter().rev().find(|at| at.version == version);
    written.unwrap_or_else(|| panic!("{what}: version {version} never was"))
}

fn compare(
    tended: &Tended,
    journal: &Journal,
    durable: Version,
    trimmed: Version,
    what: &str,
) -> Version {
    let engine = tended.engine();
    let version = engine.version();
    assert!(
        version >= durable,
        "{what}: version {version} is there, {durable} was acknowledged as durable"
    );
    let snapshot = engine.snapshot().expect("a snapshot");
    let found = read_all(&*snapshot).unwrap_or_else(|error| panic!("{what}: reading: {error}"));
    let what = &format!("{what}: version {version}");
    assert_same(&found, &state(journal, version, what).pairs, what);
    let stream = engine
        .stream(0, 100_000, usize::MAX, false)
        .unwrap_or_else(|error| panic!("{what}: the change stream: {error}"));
    for entry in &stream {
        let written = state(journal, entry.version, what);
        assert!(
            entry.version <= version,
            "{what}: the change stream is ahead"
        );
        assert_eq!(
            entry.bytes, written.stream,
            "{what}: entry {} of the change stream",
            entry.version
        );
    }
    let kept: Vec<Version> = stream.iter().map(|entry| entry.version).collect();
    check_stream_of(journal, &kept, version, trimmed, what);
    version
}

/// The change stream up to `version` has no gaps, and begins at or before the trim watermark.
pub fn check_stream_of(
    journal: &Journal,
    kept: &[Version],
    version: Version,
    trimmed: Version,
    what: &str,
) {
    let committed = |after: Version| -> Vec<Version> {
        let states = journal.states.iter();
        let mut committed: Vec<Version> = states
            .filter(|state| state.version > after && state.version <= version)
            .filter(|state| !state.stream.is_empty())
            .map(|state| state.version)
            .collect();
        committed.dedup();
        committed
    };
    let before = kept.first().map_or(trimmed, |first| first - 1);
    assert_eq!(
        kept,
        committed(before.min(trimmed)),
        "{what}: the change stream has gaps, or begins behind {trimmed}, up to which it was trimmed"
    );
}

/// Reads and verifies everything that is stored.
pub fn verify(tended: &Tended, what: &str) {
    let damage = tended.engine().verify(&mut |_, _| {});
    let damage = damage.unwrap_or_else(|error| panic!("{what}: verifying: {error}"));
    assert_eq!(damage, Vec::<String>::new(), "{what}");
}

/// A complete copy is the database of its version; an incomplete one is refused, or is that, too.
pub fn inspect_copy(disk: &SimDisk, journal: &Journal, copied: &Copied, change: u64, what: &str) {
    let what = format!("{what}: the copy {}", copied.folder.display());
    match subject::open_existing(Arc::new(disk.clone()), &copied.folder) {
        Ok(tended) => {
            let what = format!("{what}, finished at {:?}", copied.finished);
            let found = read_all(&*tended.engine().snapshot().expect("a snapshot"))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_same(&found, &state(journal, copied.version, &what).pairs, &what);
            verify(&tended, &what);
        }
        Err(error) => assert!(
            copied.finished.is_none_or(|at| change < at),
            "{what}: does not open: {error}"
        ),
    }
}

/// The complete backups are listed, and the last of them is restored to its version; a later one is complete or
/// missing.
pub fn inspect_backups(disk: &SimDisk, journal: &Journal, change: u64, what: &str) {
    let finished = |backup: &&Copied| backup.finished.is_some_and(|at| at <= change);
    let Some(last) = journal.backups.iter().rfind(finished) else {
        return;
    };
    let what = format!("{what}: the backups");
    let listed = isomer_lsm::backup::list(disk, &last.folder)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let listed: Vec<Version> = listed.iter().map(|backup| backup.version).collect();
    for backup in journal.backups.iter().filter(finished) {
        assert!(
            listed.contains(&backup.version),
            "{what}: {listed:?} lack version {}",
            backup.version
        );
    }
    for version in listed
        .into_iter()
        .filter(|version| *version >= last.version)
    {
        let what = format!("{what}: version {version}");
        // Inspected twice, as the power is lost again: each time into a separate folder.
        let folder = (0..)
            .map(|turn| PathBuf::from(format!("/restored{version}-{turn}")))
            .find(|folder| matches!(disk.exists(folder), Ok(false)))
            .expect("a folder that is not there");
        let folder = folder.as_path();
        subject::restore(Arc::new(disk.clone()), &last.folder, version, folder)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let tended = subject::open_existing(Arc::new(disk.clone()), folder)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = read_all(&*tended.engine().snapshot().expect("a snapshot"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_same(&found, &state(journal, version, &what).pairs, &what);
        verify(&tended, &what);
    }
}

/// Seeds for `Random` that do not depend on one another.
pub fn mixed(seed: u64, change: u64, loss: u64) -> u64 {
    Random(
        seed.wrapping_mul(0x9e37)
            .wrapping_add(change.wrapping_mul(31) + loss),
    )
    .number()
}
