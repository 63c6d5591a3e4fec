//! Whether the log and the state tell the same: what was committed is what is read, and what is read was committed.
//!
//! One pass over the log looks every put and deletion up in the state, another over the state sums up what was put by
//! commits that the log has. What does not agree is a *suspect* until a later commit is seen to account for it.
//! Sums of hashes tell whether both passes met the same pairs of key and version; only where they differ a slower search
//! says which ones. Memory: suspects and pairs searched for are bounded, and what does not fit is left to a further pass.
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
    log::{Change, Content, Log, Record},
    state::State,
};

/// Most findings that are told.
const MOST_FINDINGS: usize = 100;
/// Most bytes of suspects, or of pairs that are searched for, at once.
const MOST_BYTES: usize = 32 << 20;
/// What each takes beside its key.
const BYTES_EACH: usize = 64;
/// A key is told up to here.
const TOLD_BYTES: usize = 40;

/// Compares the log with the state at the version `upto`, which a view holds. `whole_from` is the version from which on
/// the log has every commit, and `progress` is told the bytes of log that were read. Answers what does not agree.
pub(crate) fn compare(
    log: &Log,
    state: &State,
    whole_from: Version,
    upto: Version,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, StorageError> {
    let mut comparison = Comparison {
        log,
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

/// Keys whose last commit in the log is not what the state has, so far.
#[derive(Default)]
struct Suspects {
    keys: BTreeMap<Box<[u8]>, Suspect>,
    bytes: usize,
    /// The first commit whose suspects did not fit.
    left_out_from: Option<Version>,
}

impl Suspects {
    fn insert(&mut self, key: &[u8], suspect: Suspect) {
        self.remove(key);
        let (Suspect::Put(version) | Suspect::Deletion(version)) = suspect;
        if self.left_out_from.is_some() || self.bytes + key.len() + BYTES_EACH > MOST_BYTES {
            self.left_out_from.get_or_insert(version);
            return;
        }
        self.bytes += key.len() + BYTES_EACH;
        self.keys.insert(key.into(), suspect);
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
        let mut next = Some(self.from);
        let mut erased = Vec::new();
        while let Some(from) = next {
            let mut suspects = Suspects::default();
            let (log, upto) = (self.log, self.upto);
            log.each_commit(from.max(1) - 1, upto, &mut |record| {
                self.commit(record, first_pass, &mut suspects, &mut erased)?;
                progress(record.bytes as u64);
                Ok(self.findings.len() < MOST_FINDINGS)
            })?;
            for (key, suspect) in &suspects.keys {
                self.tell(key, *suspect);
            }
            // Each pass settles what it began with, so that the next one begins later.
            next = suspects
                .left_out_from
                .filter(|_| self.findings.len() < MOST_FINDINGS);
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
            self.log.each_commit(after, self.upto, &mut |record| {
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
