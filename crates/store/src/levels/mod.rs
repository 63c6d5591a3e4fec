//! Levels of runs of tables, as they are at one moment.
//!
//! What lies in a run is, key by key, older than what lies in the runs before it: newer levels come first, and in a level
//! newer runs. The last level is one run and holds most of what there is.

pub(crate) mod check;
pub(crate) mod cursor;
pub(crate) mod search;

use std::{collections::HashMap, sync::Arc};

use isomer_storage::{StorageError, Version};

use crate::{
    Erasures,
    blob::Blobs,
    codec::head,
    detours::Detours,
    manifest::{Job, StoredPart},
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
    /// Whether entries of the table lie before or behind the part.
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

    /// What is left of the part outside of a range.
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

    pub(crate) fn erasures(&self) -> Erasures {
        self.table
            .erasures
            .clipped(&self.from, self.until.as_deref())
    }

    /// Whether a merge to the bottom would leave something of it out, once no reader is older than its newest entry.
    pub(crate) fn has_garbage(&self) -> bool {
        let properties = &self.table.properties;
        self.cut_below
            || self.cut_above
            || properties.deletions + properties.superseded > 0
            || !self.table.erasures.is_empty()
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
    /// A run of parts, sorted here. Panics where they overlap: a reader would find one of two answers.
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

    /// Number of the first part that ends behind `key`.
    fn part_at(&self, key: &[u8]) -> usize {
        let head = head(key);
        let low = self.starts.partition_point(|start| *start < head);
        // Those that begin with the same bytes are compared in full.
        let same = self.starts[low..].partition_point(|start| *start == head);
        let after = low + self.parts[low..low + same].partition_point(|p| *p.from <= *key);
        match after.checked_sub(1) {
            Some(at) if self.parts[at].until.as_ref().is_none_or(|end| **end > *key) => at,
            _ => after,
        }
    }

    /// The part that holds `key`, if there is one.
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

    /// The run without what lies in a range.
    pub(crate) fn without(&self, from: &[u8], until: Option<&[u8]>) -> Self {
        let parts = self
            .parts
            .iter()
            .flat_map(|part| part.without(from, until))
            .collect();
        Self::new(self.id, parts)
    }

    /// The run and more parts.
    pub(crate) fn with(&self, parts: &[Part]) -> Self {
        Self::new(self.id, [&self.parts[..], parts].concat())
    }

    /// Bytes of the files of its parts. A file of which a part is merged counts whole.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.table.file_bytes()).sum()
    }
}

/// The commit that decided over a key, and the value where it put one.
pub type Decided = (Version, Option<Vec<u8>>);

/// All tables at one moment. Readers hold it for as long as they read.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// Per level its runs, newest first. The last level has at most one.
    pub(crate) levels: Vec<Vec<Arc<Run>>>,
    pub(crate) blobs: Arc<Blobs>,
    /// Everything erased by any table.
    pub(crate) erasures: Arc<Erasures>,
    pub(crate) jobs: Vec<Job>,
    /// Everything up to this version is in tables.
    pub(crate) flushed: Version,
    pub(crate) log_needed_from: u64,
    pub(crate) ingested: Option<Version>,
    pub(crate) collected_below: Version,
    /// Lengths of beginnings of keys that filters may know of.
    pub(crate) filter_prefixes: Arc<[usize]>,
    /// Of all readers, since the tables were opened.
    pub(crate) detours: Arc<Detours>,
}

/// How many bytes all keys from `from` up to `until` begin with.
fn shared_prefix(from: &[u8], until: Option<&[u8]>) -> usize {
    let Some(until) = until else {
        return 0;
    };
    let common = common_prefix(from, until);
    // Up to the first key that begins otherwise: the byte behind what they share is one higher, and the last.
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

    /// Puts together what its parts erase, after a change.
    pub(crate) fn gather_erasures(&mut self) {
        let parts = self.parts();
        let erasing = parts.filter(|part| !part.table.erasures.is_empty());
        let all = Erasures::union_of(erasing.map(Part::erasures).collect());
        if all != *self.erasures {
            self.erasures = Arc::new(all);
        }
    }

    /// What a reader at `at` finds under `key`: the commit that decided, and the value where it put one. `None` where no
    /// commit did anything with the key.
    pub fn get(&self, key: &[u8], at: Version) -> Result<Option<Decided>, StorageError> {
        let mut decided = None;
        let mut search = Search::new(self, key, at);
        search.begin(None)?;
        search.tell(|found| {
            decided = found.map(|(version, value)| (version, value.map(<[u8]>::to_vec)));
        })?;
        Ok(decided)
    }

    /// The newest erasure that covers `key` for a reader at `at`; 0 where there is none.
    pub fn newest_erasure(&self, key: &[u8], at: Version) -> Version {
        self.erasures.newest_covering(key, at)
    }

    /// Everything that is erased.
    pub fn erasures(&self) -> &Arc<Erasures> {
        &self.erasures
    }

    /// Cursors over the runs that have keys from `from` up to `until` (`None`: the end), newest first. Where all of these
    /// keys begin with the same, runs whose filters know of no such key are left out.
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

    /// The first segment of the log that is not in tables.
    pub fn log_needed_from(&self) -> u64 {
        self.log_needed_from
    }

    /// Runs of level 0: how far compaction is behind.
    pub fn young_runs(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Bytes of each file of values that tables refer to. A table of which a part is merged counts whole.
    pub(crate) fn blob_use(&self) -> HashMap<u64, u64> {
        let mut seen: HashMap<u64, ()> = HashMap::new();
        let mut used: HashMap<u64, u64> = HashMap::new();
        for part in self.parts() {
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
    fn what_all_keys_of_a_range_begin_with() {
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
