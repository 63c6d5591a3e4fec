//! Whether the log and the state tell the same: what was committed is what is read, and what is read was committed.
//!
//! One pass over the log looks every put and deletion up in the state, another over the state sums up what was put by
//! commits that the log has. What does not agree is a *suspect* until a later commit is seen to account for it.
//! Sums of hashes tell whether both passes met the same pairs of key and version; only where they differ a slower search
//! says which ones. Memory: suspects and pairs searched for are bounded; where suspects do not fit, a pass goes on with the
//! lower keys and leaves the others to the next one. Deleted ranges and the numbers of bulk loads are held whole.
//!
//! What was merged to the bottom is *settled*: its version is not kept. Such pairs must have the last value that the log
//! knows of; whether the log knows of each of them cannot be asked.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use isomer_storage::{KeyRange, StorageError, Version};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::{
    Erasure, Erasures,
    compaction::write::SETTLED,
    log::{Change, Content, Log, Pinned, Record},
    state::State,
};

/// Most findings that are told.
const MOST_FINDINGS: usize = 100;
/// Most bytes of suspects, or of pairs that are searched for, at once.
const MOST_BYTES: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// What each takes beside its key.
const BYTES_EACH: usize = 64;
/// A key is told up to here.
const TOLD_BYTES: usize = 40;

/// Compares the log with the state at the version `upto`, which a view holds. `whole_from` is the version from which on
/// the log has every commit, and `progress` is told the bytes of log that were read. Answers what does not agree.
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
        told: Sum::default(),
        erasures: Arc::new(Erasures::new()),
        ingested: HashSet::new(),
        findings: Vec::new(),
    };
    comparison.log_in_state(progress)?;
    comparison.state_in_log()?;
    comparison.findings.truncate(MOST_FINDINGS);
    Ok(comparison.findings)
}

/// Pairs of key and version as a number and a sum of hashes: equal for equal sets, in whatever order.
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
    /// What of the log is compared.
    pinned: &'a Pinned,
    state: &'a State,
    from: Version,
    upto: Version,
    /// What the log put last, and the state has so.
    told: Sum,
    /// What the log erased.
    erasures: Arc<Erasures>,
    /// Commits whose pairs are not in the log.
    ingested: HashSet<Version>,
    findings: Vec<String>,
}

/// What the log says and the state does not.
#[derive(Clone, Copy)]
enum Suspect {
    /// That this commit put the key.
    Put(Version),
    /// That this commit deleted it.
    Deletion(Version),
}

/// Keys whose last commit in the log is not what the state has, so far. They lie in the range of one pass, whose end comes
/// down when they are too many.
struct Suspects {
    keys: BTreeMap<Box<[u8]>, Suspect>,
    bytes: usize,
    start: Box<[u8]>,
    /// Missing: the end of the key space.
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
        // The higher half goes, and never all: each pass gets beyond its start.
        if self.bytes > MOST_BYTES {
            while self.keys.len() > 1 && self.bytes > MOST_BYTES / 2 {
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
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(what);
        }
    }

    /// That the state holds what the log says.
    fn log_in_state(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        let mut first_pass = true;
        let mut next: Option<Box<[u8]>> = Some(Box::default());
        let mut erased = Vec::new();
        while let Some(start) = next {
            let mut suspects = Suspects::new(start);
            let (log, pinned, upto) = (self.log, self.pinned, self.upto);
            log.each_commit(pinned, self.from.max(1) - 1, upto, &mut |record| {
                self.commit(record, first_pass, &mut suspects, &mut erased)?;
                progress(record.bytes as u64);
                Ok(self.findings.len() < MOST_FINDINGS)
            })?;
            for (key, suspect) in &suspects.keys {
                self.tell(key, *suspect);
            }
            assert!(
                suspects
                    .end
                    .as_ref()
                    .is_none_or(|end| *end > suspects.start),
                "a pass settles some keys"
            );
            next = suspects.end.filter(|_| self.findings.len() < MOST_FINDINGS);
            first_pass = false;
        }
        self.erasures = Arc::new(Erasures::of(erased));
        Ok(())
    }

    fn tell(&mut self, key: &[u8], suspect: Suspect) {
        let key = told(key);
        match suspect {
            Suspect::Put(version) => self.find(format!(
                "the commit {version} put the key {key}, says the log, and the tables do not have it"
            )),
            // It may have been loaded again, past the log.
            Suspect::Deletion(version) if self.ingested.iter().any(|at| *at > version) => {}
            Suspect::Deletion(version) => self.find(format!(
                "the key {key} is in the tables, and the commit {version} deleted it, says the log"
            )),
        }
    }

    fn commit(
        &mut self,
        record: &Record<'_>,
        first_pass: bool,
        suspects: &mut Suspects,
        erased: &mut Vec<Erasure>,
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
                    Change::Erase(range) => {
                        suspects.remove_range(range);
                        if first_pass {
                            erased.push(Erasure {
                                start: range.start.into(),
                                end: range.end.map(Into::into),
                                version,
                            });
                        }
                        Ok(())
                    }
                    // The first pass looks every key up; what it leaves out is looked up again by another.
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
            Some((SETTLED, Some(found))) if found == value => suspects.remove(key),
            Some((at, Some(found))) if at == version && at != SETTLED => {
                suspects.remove(key);
                if first_pass {
                    self.told.add(key, version);
                    if found != value {
                        self.find(format!(
                            "the key {} has a value of {} bytes in the tables that is not the one of {} bytes that the commit {version} put, says the log",
                            told(key),
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

    /// That what is read was committed, and not erased.
    fn state_in_log(&mut self) -> Result<(), StorageError> {
        let mut found = Sum::default();
        self.each_told(&mut |key, version| {
            found.add(key, version);
            true
        })?;
        if !self.erasures.is_empty() {
            let erasures = self.erasures.clone();
            let upto = self.upto;
            let undead = self.without_put(&mut |comparison, visit| {
                comparison.each_pair(&mut |key, version| {
                    let erased = erasures.newest_covering(key, upto);
                    erased <= version || visit(key, erased)
                })
            })?;
            let loaded = self.ingested.iter().max().copied().unwrap_or(0);
            for (version, key) in undead.iter().filter(|(version, _)| *version > loaded) {
                self.find(format!(
                    "the key {} is in the tables, and the commit {version} erased it, says the log",
                    told(key)
                ));
            }
        }
        if found != self.told && self.findings.is_empty() {
            let left = self.without_put(&mut |comparison, visit| {
                comparison.each_told(&mut |key, version| visit(key, version))
            })?;
            for (version, key) in &left {
                self.find(format!(
                    "the key {} is in the tables since the commit {version}, and the log has no such put",
                    told(key)
                ));
            }
            if left.is_empty() {
                self.find(
                    "a scan of the tables and reading key by key do not find the same".to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Calls `visit` with what is read at the version, and the commits that put it.
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

    /// The same, without what was committed before the log begins, what was loaded past it and what is settled.
    fn each_told(&self, visit: &mut dyn FnMut(&[u8], Version) -> bool) -> Result<(), StorageError> {
        self.each_pair(&mut |key, version| {
            let counts =
                version >= self.from && version != SETTLED && !self.ingested.contains(&version);
            !counts || visit(key, version)
        })
    }

    /// Those of the pairs of key and version that `each` calls with, in the order of their keys, that the log did not put at
    /// this version or later; so many at a time as fit into memory.
    fn without_put(&self, each: &mut Pairs<'_>) -> Result<Vec<Left>, StorageError> {
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
                bytes < MOST_BYTES
            })?;
            behind = sought.last_key_value().map(|(key, _)| key.clone());
            let first = sought.values().min().copied().unwrap_or(Version::MAX);
            let after = first.max(self.from).max(1) - 1;
            let pinned = self.pinned;
            self.log
                .each_commit(pinned, after, self.upto, &mut |record| {
                    if let Content::Commit(writes) = record.content {
                        // What cannot be read was told already.
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
            if bytes < MOST_BYTES || left.len() >= MOST_FINDINGS {
                return Ok(left);
            }
        }
    }
}

/// A pair that nobody accounts for.
type Left = (Version, Box<[u8]>);

/// Calls what it is given with pairs until that says no.
type Pairs<'a> = dyn FnMut(&Comparison<'_>, &mut dyn FnMut(&[u8], Version) -> bool) -> Result<(), StorageError>
    + 'a;

/// A key for people: text where it is, with a mark of what it was where it is long.
fn told(key: &[u8]) -> String {
    let shown = &key[..key.len().min(TOLD_BYTES)];
    let text = shown.escape_ascii();
    match key.len() > TOLD_BYTES {
        true => format!("`{text}…` ({} bytes, {:016x})", key.len(), xxh3_64(key)),
        false => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use isomer_storage::{Durability, Engine, conformance::Random};
    use isomer_vfs::{Disk, SimDisk};

    use super::*;
    use crate::{StoreEngine, StoreOptions};

    fn key(number: u64) -> Vec<u8> {
        format!("some/key/{number:05}").into_bytes()
    }

    /// Far more suspects than fit, of one commit: each pass settles some keys, and together they settle all.
    #[test]
    fn a_commit_larger_than_the_memory_for_suspects_is_compared() {
        let disk = SimDisk::new();
        disk.make_folder(std::path::Path::new("/db")).expect("made");
        let options = StoreOptions {
            disk: Arc::new(disk),
            background: false,
            ..StoreOptions::default()
        };
        let engine = StoreEngine::open("/db", options).expect("opens");
        let commit = |put: &dyn Fn(u64) -> Option<&'static [u8]>| {
            let mut transaction = engine.begin().expect("begins");
            for number in 0..1000 {
                match put(number) {
                    Some(value) => transaction.put(&key(number), value),
                    None => transaction.delete(&key(number)),
                }
                .expect("written");
            }
            transaction.append_stream(b"told");
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
    fn passes_find_together_what_one_would() {
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
                    assert!(suspects.bytes <= MOST_BYTES);
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
