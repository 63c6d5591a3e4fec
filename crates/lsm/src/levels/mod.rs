//! Levels of runs of tables, an immutable state.
//!
//! The entries of a run are, key by key, older than those in the runs before it: newer levels come first, and
//! in a level newer runs. The last level is one run and holds most of the data.

pub(crate) mod check;
pub(crate) mod cursor;
pub(crate) mod search;

use std::{collections::HashMap, sync::Arc};

use isomer_storage::{LogPoint, StorageError, Version};

use crate::{
    RangeTombstones,
    blob::Blobs,
    codec::head,
    manifest::{Job, StoredPart},
    seek_budget::SeekBudget,
    table::{Table, TableFile, block::common_prefix, filter::filter_hash},
};
use cursor::RunCursor;
use search::Search;

/// The part of a table that counts: from `from` up to (and without) `until`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) table: Arc<Table>,
    pub(crate) from: Arc<[u8]>,
    pub(crate) until: Option<Arc<[u8]>>,
    /// Whether the table has entries before or after the part.
    cut_below: bool,
    cut_above: bool,
}

impl Part {
    pub(crate) fn new(table: Arc<Table>, from: Arc<[u8]>, until: Option<Arc<[u8]>>) -> Self {
        let properties = &table.properties;
        Self {
            cut_below: *properties.first_key < *from,
            cut_above: until
                .as_ref()
                .is_some_and(|until| *properties.last_key >= **until),
            table,
            from,
            until,
        }
    }

    pub(crate) fn overlaps(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        until.is_none_or(|until| *self.from < *until)
            && self.until.as_ref().is_none_or(|end| **end > *from)
    }

    /// The rest of the part outside of a range.
    fn without(&self, from: &[u8], until: Option<&[u8]>) -> Vec<Self> {
        if !self.overlaps(from, until) {
            return vec![self.clone()];
        }
        let mut left = Vec::new();
        if *self.from < *from {
            left.push(Self::new(
                self.table.clone(),
                self.from.clone(),
                Some(from.into()),
            ));
        }
        if let Some(until) = until
            && self.until.as_ref().is_none_or(|end| **end > *until)
        {
            left.push(Self::new(
                self.table.clone(),
                until.into(),
                self.until.clone(),
            ));
        }
        left
    }

    pub(crate) fn stored(&self) -> StoredPart {
        StoredPart {
            file: TableFile {
                number: self.table.number,
                identity: self.table.identity(),
                file_bytes: self.table.file_bytes(),
                footer_sum: self.table.footer_sum,
            },
            from: (*self.from).into(),
            until: self.until.as_deref().map(Into::into),
        }
    }

    pub(crate) fn range_tombstones(&self) -> RangeTombstones {
        self.table
            .range_tombstones
            .clipped(&self.from, self.until.as_deref())
    }

    /// Whether a compaction into the last level would drop some of it, once no reader is older than its newest
    /// entry.
    pub(crate) fn has_garbage(&self) -> bool {
        let properties = &self.table.properties;
        self.cut_below
            || self.cut_above
            || properties.deletions + properties.superseded > 0
            || !self.table.range_tombstones.is_empty()
    }
}

/// Parts of tables that ascend and do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) parts: Vec<Part>,
    /// First 8 bytes of each part's `from`, so that most searches touch one array.
    starts: Vec<u64>,
}

impl Run {
    /// A run of parts, which are sorted here. Panics if they overlap: a reader would find one of two answers.
    pub(crate) fn new(id: u64, mut parts: Vec<Part>) -> Self {
        parts.sort_by(|a, b| a.from.cmp(&b.from));
        for pair in parts.windows(2) {
            let until = pair[0].until.as_ref();
            assert!(
                until.is_some_and(|until| **until <= *pair[1].from),
                "parts of a run do not overlap"
            );
        }
        Self {
            id,
            starts: parts.iter().map(|part| head(&part.from)).collect(),
            parts,
        }
    }

    /// Number of the first part that ends after `key`.
    fn part_at(&self, key: &[u8]) -> usize {
        let head = head(key);
        // Two binary searches over 8-byte numbers in one array; whole keys, each in another allocation,
        // are compared only where these are equal.
        let low = self.starts.partition_point(|start| *start < head);
        // Those with the same first bytes are compared in full.
        let same = self.starts[low..].partition_point(|start| *start == head);
        let after = low + self.parts[low..low + same].partition_point(|p| *p.from <= *key);
        match after.checked_sub(1) {
            Some(at) if self.parts[at].until.as_ref().is_none_or(|end| **end > *key) => at,
            _ => after,
        }
    }

    /// The part whose range contains `key`, if there is one.
    #[inline]
    fn part_of(&self, key: &[u8]) -> Option<&Part> {
        let part = self.parts.get(self.part_at(key))?;
        (*part.from <= *key).then_some(part)
    }

    pub(crate) fn overlaps(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        self.parts[self.part_at(from)..]
            .first()
            .is_some_and(|part| part.overlaps(from, until))
    }

    /// The run without a range.
    pub(crate) fn without(&self, from: &[u8], until: Option<&[u8]>) -> Self {
        let parts = self
            .parts
            .iter()
            .flat_map(|part| part.without(from, until))
            .collect();
        Self::new(self.id, parts)
    }

    /// The run with additional parts.
    pub(crate) fn with(&self, parts: &[Part]) -> Self {
        Self::new(self.id, [&self.parts[..], parts].concat())
    }

    /// Bytes of the files of its parts. A file of which a part was compacted counts as a whole.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.table.file_bytes()).sum()
    }
}

/// The commit that last changed a key, and the value if it put one.
pub type Decided = (Version, Option<Vec<u8>>);

/// All tables at one moment. Readers hold it for as long as they read.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// Per level its runs, newest first. The last level has at most one.
    pub(crate) levels: Vec<Vec<Arc<Run>>>,
    pub(crate) blobs: Arc<Blobs>,
    /// Range tombstones of all tables.
    pub(crate) range_tombstones: Arc<RangeTombstones>,
    pub(crate) jobs: Vec<Job>,
    /// Everything up to this version is in tables.
    pub(crate) flushed: Version,
    /// Memtables up to this number are in tables. Counted since opening: not in the manifest.
    pub(crate) flushed_memtables: u64,
    pub(crate) log_needed_from: u64,
    /// The place in a shared log behind everything in tables.
    pub(crate) log_point: LogPoint,
    pub(crate) ingested: Option<Version>,
    pub(crate) collected_below: Version,
    /// Lengths of key prefixes that filters may contain.
    pub(crate) filter_prefixes: Arc<[usize]>,
    /// Shared by all readers, since the tables were opened.
    pub(crate) seek_budget: Arc<SeekBudget>,
}

/// Length of the common prefix of all keys from `from` up to `until`.
fn shared_prefix(from: &[u8], until: Option<&[u8]>) -> usize {
    let Some(until) = until else {
        return 0;
    };
    let common = common_prefix(from, until);
    // The range may also end right after the last key with that prefix: if the next byte of `until` is one
    // higher and its last.
    match (from.get(common), until.get(common..)) {
        (Some(byte), Some([next])) if byte.checked_add(1) == Some(*next) => common + 1,
        _ => common,
    }
}

impl Levels {
    /// The runs from the newest to the oldest.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.levels.iter().flatten()
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.runs().flat_map(|run| &run.parts)
    }

    /// Recomputes the union of the range tombstones, after a change.
    pub(crate) fn gather_range_tombstones(&mut self) {
        let parts = self.parts();
        let with_tombstones = parts.filter(|part| !part.table.range_tombstones.is_empty());
        let all = RangeTombstones::union_of(with_tombstones.map(Part::range_tombstones).collect());
        // Kept if equal, so that states of the levels share it: most changes change no range tombstone.
        if all != *self.range_tombstones {
            self.range_tombstones = Arc::new(all);
        }
    }

    /// What a reader at `at` finds under `key`: the commit that last changed it, and the value if it put one.
    /// `None` if no commit changed the key.
    pub fn get(&self, key: &[u8], at: Version) -> Result<Option<Decided>, StorageError> {
        let mut decided = None;
        let mut search = Search::new(self, key, at);
        search.begin(None)?;
        search.finish(|found| {
            decided = found.map(|(version, value)| (version, value.map(<[u8]>::to_vec)));
        })?;
        Ok(decided)
    }

    /// Version of the newest range tombstone that covers `key` for a reader at `at`; 0 if there is none.
    pub fn newest_range_tombstone(&self, key: &[u8], at: Version) -> Version {
        self.range_tombstones.newest_covering(key, at)
    }

    /// All range tombstones.
    pub fn range_tombstones(&self) -> &Arc<RangeTombstones> {
        &self.range_tombstones
    }

    /// Cursors over the runs that have keys from `from` up to `until` (`None`: the end), newest first. If all
    /// of these keys have a common prefix, runs whose filters do not contain it are left out.
    pub fn cursors(
        &self,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> Result<Vec<RunCursor>, StorageError> {
        let prefix = &from[..shared_prefix(from, until)];
        let known = self
            .filter_prefixes
            .iter()
            .filter(|len| **len <= prefix.len())
            .max();
        let filtered = known.map(|len| (&prefix[..*len], filter_hash(&prefix[..*len])));
        let mut cursors = Vec::new();
        for run in self.runs() {
            let mut parts = run.parts[run.part_at(from)..]
                .iter()
                .take_while(|part| part.overlaps(from, until));
            let may_hold = match filtered {
                None => parts.next().is_some(),
                Some((prefix, hash)) => parts.try_fold(false, |may, part| {
                    Ok::<_, StorageError>(may || part.table.may_hold_prefix(prefix, hash)?)
                })?,
            };
            if may_hold {
                cursors.push(RunCursor::new(run.clone(), self.blobs.clone()));
            }
        }
        Ok(cursors)
    }

    /// Everything up to this version is in tables.
    pub fn flushed(&self) -> Version {
        self.flushed
    }

    /// Memtables up to this number are in tables.
    pub fn flushed_memtables(&self) -> u64 {
        self.flushed_memtables
    }

    /// The first log segment with commits that are not in tables.
    pub fn log_needed_from(&self) -> u64 {
        self.log_needed_from
    }

    /// The place in a shared log behind everything in tables.
    pub fn log_point(&self) -> LogPoint {
        self.log_point
    }

    /// Runs of level 0: the compaction backlog.
    pub fn young_runs(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Bytes of each blob file that tables refer to. A table of which a part was compacted counts as a whole.
    pub(crate) fn blob_use(&self) -> HashMap<u64, u64> {
        let mut seen: HashMap<u64, ()> = HashMap::new();
        let mut used: HashMap<u64, u64> = HashMap::new();
        for part in self.parts() {
            // Properties are of a table as a whole, and several parts may be of one table.
            if seen.insert(part.table.number, ()).is_none() {
                for (file, bytes, _) in &part.table.properties.blobs {
                    *used.entry(*file).or_default() += bytes;
                }
            }
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefix_of_a_range() {
        type Case = (&'static [u8], Option<&'static [u8]>, usize);
        let cases: [Case; 7] = [
            (b"ab", Some(b"ac"), 2),
            (b"ab\x05", Some(b"ac"), 2),
            (b"ab", Some(b"ad"), 1),
            (b"ab", Some(b"acx"), 1),
            (b"ab", None, 0),
            (b"a\xff", Some(b"b"), 1),
            (b"ab", Some(b"abc"), 2),
        ];
        for (from, until, expected) in cases {
            assert_eq!(shared_prefix(from, until), expected, "{from:?} {until:?}");
        }
    }
}
