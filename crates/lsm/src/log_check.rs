//! Consistency check of the log against the tables and memtables (the *state*): every commit can be read, and
//! everything that can be read was committed.
//!
//! One pass over the log looks up every put and deletion in the state, another pass over the state sums up what
//! was put by commits that the log has. An entry that does not match is a *suspect* until a later commit is
//! found to account for it. Sums of hashes show whether both passes met the same pairs of key and version; only
//! if they differ, a slower search determines which ones. Memory: suspects and searched pairs are bounded; if
//! suspects do not fit, a pass continues with the lower keys only and leaves the others to the next pass.
//! Deleted ranges and the versions of bulk loads are kept in full.
//!
//! An entry that was compacted into the last level has lost its version ([`BOTTOM_VERSION`]). Such pairs must
//! have the last value that the log has for their key; without one they are not checked.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use isomer_storage::{KeyRange, StorageError, Version};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::{
    RangeTombstone, RangeTombstones,
    compaction::write::BOTTOM_VERSION,
    log::{Change, Content, Log, Pinned, Record},
    state::State,
};

/// Largest number of findings that are reported.
const MAX_FINDINGS: usize = 100;
/// Largest number of bytes of suspects, or of searched pairs, at once.
const MAX_BYTES: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// Bytes that each takes in addition to its key.
const BYTES_EACH: usize = 64;
/// Longer keys are abbreviated in messages.
const MAX_SHOWN_BYTES: usize = 40;

/// Compares the log with the state at the version `upto`, which a view holds. From `whole_from` on the log has
/// every commit; `progress` is called with the bytes of log that were read. Returns the differences.
pub(crate) fn compare(
    log: &Log,
    pinned: &Pinned,
    state: &State,
    whole_from: Version,
    upto: Version,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, StorageError> {
    let mut comparison = Comparison {
        log,
        pinned,
        state,
        from: whole_from,
        upto,
        matched: Sum::default(),
        range_tombstones: Arc::new(RangeTombstones::new()),
        ingested: HashSet::new(),
        findings: Vec::new(),
    };
    comparison.log_in_state(progress)?;
    comparison.state_in_log()?;
    comparison.findings.truncate(MAX_FINDINGS);
    Ok(comparison.findings)
}

/// A set of pairs of key and version, as a number and a sum of hashes: equal for equal sets, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    pairs: u64,
    hashes: u128,
}

impl Sum {
    fn add(&mut self, key: &[u8], version: Version) {
        self.pairs += 1;
        self.hashes = self.hashes.wrapping_add(xxh3_128_with_seed(key, version));
    }
}

struct Comparison<'a> {
    log: &'a Log,
    /// The part of the log that is compared.
    pinned: &'a Pinned,
    state: &'a State,
    from: Version,
    upto: Version,
    /// The last puts of the log that the state has as well.
    matched: Sum,
    /// The ranges deleted in the log.
    range_tombstones: Arc<RangeTombstones>,
    /// Commits whose pairs are not in the log (bulk loads).
    ingested: HashSet<Version>,
    findings: Vec<String>,
}

/// A change in the log that the state does not have.
#[derive(Clone, Copy)]
enum Suspect {
    /// This commit put the key.
    Put(Version),
    /// This commit deleted it.
    Deletion(Version),
}

/// Keys whose last commit in the log does not match the state, so far. They are in the range of one pass, whose
/// end is lowered when they are too many.
struct Suspects {
    keys: BTreeMap<Box<[u8]>, Suspect>,
    bytes: usize,
    start: Box<[u8]>,
    /// `None`: the end of the key space.
    end: Option<Box<[u8]>>,
}

impl Suspects {
    fn new(start: Box<[u8]>) -> Self {
        Self {
            keys: BTreeMap::new(),
            bytes: 0,
            start,
            end: None,
        }
    }

    fn has_room_for(&self, key: &[u8]) -> bool {
        *key >= *self.start && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn insert(&mut self, key: &[u8], suspect: Suspect) {
        self.remove(key);
        if !self.has_room_for(key) {
            return;
        }
        self.bytes += key.len() + BYTES_EACH;
        self.keys.insert(key.into(), suspect);
        // Drops the greater half, but never all: each pass gets beyond its start.
        if self.bytes > MAX_BYTES {
            while self.keys.len() > 1 && self.bytes > MAX_BYTES / 2 {
                let (key, _) = self.keys.pop_last().expect("more than one");
                self.bytes -= key.len() + BYTES_EACH;
                self.end = Some(key);
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if self.keys.remove(key).is_some() {
            self.bytes -= key.len() + BYTES_EACH;
        }
    }

    fn remove_range(&mut self, range: KeyRange<'_>) {
        let is_within = |key: &[u8]| range.end.is_none_or(|end| key < end);
        let gone: Vec<Box<[u8]>> = self
            .keys
            .range::<[u8], _>((
                std::ops::Bound::Included(range.start),
                std::ops::Bound::Unbounded,
            ))
            .map(|(key, _)| key)
            .take_while(|key| is_within(key))
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.remove(key));
    }
}

impl Comparison<'_> {
    fn find(&mut self, what: String) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(what);
        }
    }

    /// Checks that the state holds what the log says.
    fn log_in_state(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        let mut first_pass = true;
        let mut next: Option<Box<[u8]>> = Some(Box::default());
        let mut deleted_ranges = Vec::new();
        while let Some(start) = next {
            let mut suspects = Suspects::new(start);
            let (log, pinned, upto) = (self.log, self.pinned, self.upto);
            log.each_commit(pinned, self.from.max(1) - 1, upto, &mut |record| {
                self.commit(record, first_pass, &mut suspects, &mut deleted_ranges)?;
                progress(record.bytes as u64);
                Ok(self.findings.len() < MAX_FINDINGS)
            })?;
            for (key, suspect) in &suspects.keys {
                self.report(key, *suspect);
            }
            assert!(
                suspects
                    .end
                    .as_ref()
                    .is_none_or(|end| *end > suspects.start),
                "a pass decides about some keys"
            );
            next = suspects.end.filter(|_| self.findings.len() < MAX_FINDINGS);
            first_pass = false;
        }
        self.range_tombstones = Arc::new(RangeTombstones::of(deleted_ranges));
        Ok(())
    }

    fn report(&mut self, key: &[u8], suspect: Suspect) {
        let key = display_key(key);
        match suspect {
            Suspect::Put(version) => self.find(format!(
                "the log says that commit {version} put the key {key}, but the tables do not have it"
            )),
            // A later bulk load, whose pairs are not in the log, may have put it again.
            Suspect::Deletion(version) if self.ingested.iter().any(|at| *at > version) => {}
            Suspect::Deletion(version) => self.find(format!(
                "the key {key} is in the tables, but the log says that commit {version} deleted it"
            )),
        }
    }

    fn commit(
        &mut self,
        record: &Record<'_>,
        first_pass: bool,
        suspects: &mut Suspects,
        deleted_ranges: &mut Vec<RangeTombstone>,
    ) -> Result<(), StorageError> {
        let version = record.version;
        let Content::Commit(writes) = record.content else {
            self.ingested.insert(version);
            return Ok(());
        };
        let mut outcome = Ok(());
        let walked = writes.for_each(|change| {
            if outcome.is_ok() {
                outcome = match change {
                    Change::DeleteRange(range) => {
                        suspects.remove_range(range);
                        if first_pass {
                            deleted_ranges.push(RangeTombstone {
                                start: range.start.into(),
                                end: range.end.map(Into::into),
                                version,
                            });
                        }
                        Ok(())
                    }
                    // The first pass looks up every key; a key that it leaves out is looked up again by a later
                    // pass.
                    Change::Set(key, _) if !first_pass && !suspects.has_room_for(key) => Ok(()),
                    Change::Set(key, Some(value)) => {
                        self.put(key, value, version, first_pass, suspects)
                    }
                    Change::Set(key, None) => self.deletion(key, version, suspects),
                };
            }
        });
        outcome?;
        if walked.is_err() {
            self.find(format!(
                "the commit {version} in the log cannot be read to its end"
            ));
        }
        Ok(())
    }

    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        version: Version,
        first_pass: bool,
        suspects: &mut Suspects,
    ) -> Result<(), StorageError> {
        match self.state.decided(key, self.upto)? {
            Some((at, _)) if at > version => suspects.remove(key),
            Some((BOTTOM_VERSION, Some(found))) if found == value => suspects.remove(key),
            Some((at, Some(found))) if at == version && at != BOTTOM_VERSION => {
                suspects.remove(key);
                if first_pass {
                    self.matched.add(key, version);
                    if found != value {
                        self.find(format!(
                            "the key {} has a value of {} bytes in the tables, but the log says that commit {version} put another one of {} bytes",
                            display_key(key),
                            found.len(),
                            value.len()
                        ));
                    }
                }
            }
            _ => suspects.insert(key, Suspect::Put(version)),
        }
        Ok(())
    }

    fn deletion(
        &mut self,
        key: &[u8],
        version: Version,
        suspects: &mut Suspects,
    ) -> Result<(), StorageError> {
        match self.state.decided(key, self.upto)? {
            Some((at, Some(_))) if at <= version => {
                suspects.insert(key, Suspect::Deletion(version));
            }
            _ => suspects.remove(key),
        }
        Ok(())
    }

    /// Checks that what is read was committed, and not deleted by a range.
    fn state_in_log(&mut self) -> Result<(), StorageError> {
        let mut found = Sum::default();
        self.each_logged(&mut |key, version| {
            found.add(key, version);
            true
        })?;
        if !self.range_tombstones.is_empty() {
            let range_tombstones = self.range_tombstones.clone();
            let upto = self.upto;
            let undead = self.without_put(&mut |comparison, visit| {
                comparison.each_pair(&mut |key, version| {
                    let deleted_at = range_tombstones.newest_covering(key, upto);
                    deleted_at <= version || visit(key, deleted_at)
                })
            })?;
            let loaded = self.ingested.iter().max().copied().unwrap_or(0);
            for (version, key) in undead.iter().filter(|(version, _)| *version > loaded) {
                self.find(format!(
                    "the key {} is in the tables, but the log says that commit {version} deleted its range",
                    display_key(key)
                ));
            }
        }
        if found != self.matched && self.findings.is_empty() {
            let left = self.without_put(&mut |comparison, visit| {
                comparison.each_logged(&mut |key, version| visit(key, version))
            })?;
            for (version, key) in &left {
                self.find(format!(
                    "the key {} is in the tables since commit {version}, but the log has no such put",
                    display_key(key)
                ));
            }
            if left.is_empty() {
                self.find(
                    "a scan of the tables and lookups of single keys give different results"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Calls `visit` with the visible pairs at the version, and the commits that put them.
    fn each_pair(&self, visit: &mut dyn FnMut(&[u8], Version) -> bool) -> Result<(), StorageError> {
        let all = KeyRange {
            start: b"",
            end: None,
        };
        let mut cursor = self.state.cursor(all, self.upto)?;
        cursor.seek(b"")?;
        while cursor.valid() {
            let version = cursor.version();
            if !visit(cursor.key(), version) {
                break;
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// The same, without pairs committed before the log begins, pairs of bulk loads, and pairs without a
    /// version.
    fn each_logged(
        &self,
        visit: &mut dyn FnMut(&[u8], Version) -> bool,
    ) -> Result<(), StorageError> {
        self.each_pair(&mut |key, version| {
            let counts = version >= self.from
                && version != BOTTOM_VERSION
                && !self.ingested.contains(&version);
            !counts || visit(key, version)
        })
    }

    /// Those of the pairs of key and version passed by `each`, in the order of their keys, that the log did not
    /// put at this version or later; processed in batches that fit into memory.
    fn without_put(&self, each: &mut Pairs<'_>) -> Result<Vec<UnmatchedPair>, StorageError> {
        let mut left = Vec::new();
        let mut behind: Option<Box<[u8]>> = None;
        loop {
            let mut sought: BTreeMap<Box<[u8]>, Version> = BTreeMap::new();
            let mut bytes = 0;
            each(self, &mut |key, version| {
                if behind.as_ref().is_some_and(|behind| *key <= **behind) {
                    return true;
                }
                bytes += key.len() + BYTES_EACH;
                sought.insert(key.into(), version);
                bytes < MAX_BYTES
            })?;
            behind = sought.last_key_value().map(|(key, _)| key.clone());
            let first = sought.values().min().copied().unwrap_or(Version::MAX);
            let after = first.max(self.from).max(1) - 1;
            let pinned = self.pinned;
            self.log
                .each_commit(pinned, after, self.upto, &mut |record| {
                    if let Content::Commit(writes) = record.content {
                        // Unreadable records have been reported already.
                        let _ = writes.for_each(|change| {
                            if let Change::Set(key, Some(_)) = change
                                && sought.get(key).is_some_and(|at| *at <= record.version)
                            {
                                sought.remove(key);
                            }
                        });
                    }
                    Ok(!sought.is_empty())
                })?;
            left.extend(sought.into_iter().map(|(key, version)| (version, key)));
            if bytes < MAX_BYTES || left.len() >= MAX_FINDINGS {
                return Ok(left);
            }
        }
    }
}

/// A pair without a matching put in the log.
type UnmatchedPair = (Version, Box<[u8]>);

/// A function that calls its argument with pairs until that returns false.
type Pairs<'a> = dyn FnMut(&Comparison<'_>, &mut dyn FnMut(&[u8], Version) -> bool) -> Result<(), StorageError>
    + 'a;

/// A key for messages: as text if possible; a long one is abbreviated and followed by its length and hash.
fn display_key(key: &[u8]) -> String {
    let shown = &key[..key.len().min(MAX_SHOWN_BYTES)];
    let text = shown.escape_ascii();
    match key.len() > MAX_SHOWN_BYTES {
        true => format!("`{text}…` ({} bytes, {:016x})", key.len(), xxh3_64(key)),
        false => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use isomer_storage::{Durability, Engine, conformance::Random};
    use isomer_vfs::{Disk, SimDisk};

    use super::*;
    use crate::{LsmEngine, LsmOptions};

    fn key(number: u64) -> Vec<u8> {
        format!("some/key/{number:05}").into_bytes()
    }

    /// Far more suspects of one commit than fit: each pass decides about some keys, and together they cover
    /// all.
    #[test]
    fn a_commit_larger_than_the_memory_for_suspects_is_compared() {
        let disk = SimDisk::new();
        disk.make_folder(std::path::Path::new("/db")).expect("made");
        let options = LsmOptions {
            disk: Arc::new(disk),
            background: false,
            ..LsmOptions::default()
        };
        let engine = LsmEngine::open("/db", options).expect("opens");
        let commit = |put: &dyn Fn(u64) -> Option<&'static [u8]>| {
            let mut transaction = engine.begin().expect("begins");
            for number in 0..1000 {
                match put(number) {
                    Some(value) => transaction.put(&key(number), value),
                    None => transaction.delete(&key(number)),
                }
                .expect("written");
            }
            transaction.append_stream(b"entry");
            transaction.commit(Durability::Synced).expect("a commit");
        };
        commit(&|_| Some(b"first"));
        engine.compact_all().expect("merged");
        commit(&|number| (number % 3 > 0).then_some(b"second"));
        engine.compact_all().expect("merged");
        let damage = engine.verify(&mut |_, _| {}).expect("verified");
        assert_eq!(damage, Vec::<String>::new());
    }

    #[test]
    fn several_passes_find_the_same_as_one() {
        for seed in 0..30 {
            let steps: Vec<(u64, bool)> = {
                let random = &mut Random(seed);
                (0..2000)
                    .map(|_| (random.below(600), random.below(3) > 0))
                    .collect()
            };
            let mut expected = BTreeMap::new();
            for (version, (number, put)) in steps.iter().enumerate() {
                match put {
                    true => expected.insert(key(*number), version as Version),
                    false => expected.remove(&key(*number)),
                };
            }
            let (mut found, mut passes) = (BTreeMap::new(), 0);
            let mut next = Some(Box::default());
            while let Some(start) = next {
                let mut suspects = Suspects::new(start);
                for (version, (number, put)) in steps.iter().enumerate() {
                    match put {
                        true => suspects.insert(&key(*number), Suspect::Put(version as Version)),
                        false => suspects.remove(&key(*number)),
                    }
                    assert!(suspects.bytes <= MAX_BYTES);
                }
                for (key, suspect) in suspects.keys {
                    let Suspect::Put(version) = suspect else {
                        panic!("nothing was deleted");
                    };
                    assert_eq!(found.insert(key.into_vec(), version), None);
                }
                next = suspects.end;
                passes += 1;
            }
            assert_eq!(found, expected, "seed {seed}");
            assert!((5..100).contains(&passes), "{passes} passes");
        }
    }
}
