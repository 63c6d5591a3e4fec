//! Commits enter memtables: one by one, in parts if they are large, and again when the log is replayed.

use std::{collections::HashSet, ops::ControlFlow, path::Path};

use isomer_storage::{Commit, KeyRange, LogPoint, Order, StorageError, Version, damaged};

use crate::{
    RangeTombstone,
    core::Core,
    log::{Change, Replayed},
    memtable::Committer,
    state::State,
};

/// A deleted range with more keys than this becomes a range tombstone.
const MAX_SINGLE_DELETIONS: usize = 32;
/// Bytes that an entry takes in a memtable in addition to its key and value.
const ENTRY_BYTES: usize = 48;
/// Number of steps in which a large commit fills a memtable.
const PARTS: usize = 8;

/// Inserts a group of commits that does not fit into a memtable into several, each of which is flushed when
/// it is full. Readers see their contents only once the last version is published, and until the next flush
/// the log has all of it.
///
/// In a shared log the group is one record, up to `record_end`: once it is applied from there again, all of it is.
pub(super) fn insert_large(core: &Core, commits: &[Commit<'_>], record_end: Option<LogPoint>) {
    let limit = core.options.memtable_bytes;
    let mut continues = true;
    let before_group = commits.first().map_or(0, |first| first.version - 1);
    for commit in commits {
        let (last, end) = match record_end {
            Some(end) => (before_group, end.next),
            None => (commit.version - 1, 0),
        };
        let state = core.shared.state();
        let mut committer = state.active.committer();
        insert_deleted_ranges(&state, &mut committer, commit);
        drop(committer);
        drop(state);
        let mut slots = commit.writes.slots().peekable();
        while slots.peek().is_some() {
            let state = core.shared.state();
            let mut bytes = 0;
            let part = std::iter::from_fn(|| {
                let (key, value) = slots.next_if(|_| bytes < limit / PARTS)?;
                bytes += key.len() + value.map_or(0, <[u8]>::len) + ENTRY_BYTES;
                Some((key, value))
            });
            state.active.committer().insert_all(commit.version, part);
            if continues && state.active.bytes() >= limit - limit / PARTS {
                drop(state);
                // If the disk is full, the rest of the commit stays in memory: it is in the log already.
                continues = core.flush_part(last, end).is_ok();
            }
        }
    }
}

/// Bytes of a commit's keys and values.
pub(super) fn content_bytes(commit: &Commit<'_>) -> usize {
    commit.writes.content_bytes() + commit.stream.len()
}

/// Approximate bytes that a commit takes in memtables.
pub(super) fn room_for(commit: &Commit<'_>) -> usize {
    let entries = commit.writes.slots().len() + commit.writes.deleted_ranges().len();
    commit.writes.content_bytes() + entries * ENTRY_BYTES
}

/// Inserts commits into the active memtable.
pub(super) fn insert(state: &State, commits: &[Commit<'_>]) {
    let mut committer = state.active.committer();
    for commit in commits {
        insert_deleted_ranges(state, &mut committer, commit);
        committer.insert_all(commit.version, commit.writes.slots());
    }
}

/// Inserts the deleted ranges of a commit into the active memtable.
fn insert_deleted_ranges(state: &State, committer: &mut Committer<'_>, commit: &Commit<'_>) {
    for range in commit.writes.deleted_ranges() {
        let is_written = |key: &[u8]| commit.writes.has_slot(key);
        // If reading the range fails, a range tombstone still deletes it.
        if !delete_singly(state, committer, commit.version, range, &is_written).unwrap_or(false) {
            insert_range_tombstone(committer, range, commit.version);
        }
    }
}

fn insert_range_tombstone(committer: &mut Committer<'_>, range: KeyRange<'_>, version: Version) {
    committer.add_range_tombstone(RangeTombstone {
        start: range.start.into(),
        end: range.end.map(Into::into),
        version,
    });
}

/// Deletes the keys of a range one by one if they are few, except for those that the same commit writes: a
/// range tombstone slows down reads of nearby keys until it has been compacted into the last level. Returns
/// whether it did.
fn delete_singly(
    state: &State,
    committer: &mut Committer<'_>,
    version: Version,
    range: KeyRange<'_>,
    is_written: &dyn Fn(&[u8]) -> bool,
) -> Result<bool, StorageError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut cursor = state.cursor(range, version - 1)?;
    cursor.visit(range, Order::Ascending, &mut |key, _| {
        keys.push(key.to_vec());
        match keys.len() > MAX_SINGLE_DELETIONS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if keys.len() > MAX_SINGLE_DELETIONS {
        return Ok(false);
    }
    for key in keys.iter().filter(|key| !is_written(key)) {
        committer.insert(key, version, None);
    }
    Ok(true)
}

/// Inserts a commit that only the log has into the memtable.
///
/// If a bulk load followed it that is in tables already, a range that the commit deletes must not become a
/// range tombstone, which would hide the loaded pairs below it: the keys that were originally deleted one by
/// one are found again. If they were many, the range got a range tombstone, and the bulk load waited until that
/// was flushed, or does not overlap the range.
pub(super) fn replay(
    state: &State,
    replayed: Replayed<'_>,
    directory: &Path,
) -> Result<(), StorageError> {
    let Replayed { version, writes } = replayed;
    let undecoded = |_| {
        damaged(
            directory,
            &format!("the commit {version} in its log cannot be decoded"),
        )
    };
    let is_before_load = state.levels.ingested.is_some_and(|load| load > version);
    let mut written: HashSet<Vec<u8>> = HashSet::new();
    if is_before_load {
        let noted = writes.for_each(|change| {
            if let Change::Set(key, _) = change {
                written.insert(key.to_vec());
            }
        });
        noted.map_err(undecoded)?;
    }
    let mut committer = state.active.committer();
    let mut outcome = Ok(());
    let applied = writes.for_each(|change| match change {
        Change::DeleteRange(range) => {
            let is_written = |key: &[u8]| written.contains(key);
            match is_before_load {
                true => match delete_singly(state, &mut committer, version, range, &is_written) {
                    Ok(true) => {}
                    Ok(false) => insert_range_tombstone(&mut committer, range, version),
                    Err(error) => outcome = Err(error),
                },
                false => insert_range_tombstone(&mut committer, range, version),
            }
        }
        Change::Set(key, value) => committer.insert(key, version, value),
    });
    applied.map_err(undecoded)?;
    outcome
}
