//! Lookup of one key in the runs.

use std::{iter::Flatten, ptr, slice, sync::Arc};

use isomer_storage::{StorageError, Version};

use super::{Levels, Run};
use crate::table::{CandidateBlock, Table, TableEntry, filter::filter_hash};

/// The commit that last changed a key, and the value if it put one. `None` if no commit changed the key.
pub(crate) type LookupResult<'v> = Option<(Version, Option<&'v [u8]>)>;

/// A lookup of a key for a reader at a version. It is positioned at a block that may hold the newest entry, in
/// the newest run that has such a block, and has not searched that block yet.
pub(crate) struct Search<'a> {
    levels: &'a Levels,
    key: &'a [u8],
    at: Version,
    /// Version of the newest range tombstone that covers the key.
    deleted_at: Version,
    hash: Option<u64>,
    /// The older runs.
    runs: Flatten<slice::Iter<'a, Vec<Arc<Run>>>>,
    here: Option<(&'a Table, CandidateBlock)>,
    /// Runs that might have had it, and did not.
    passed: u32,
}

impl<'a> Search<'a> {
    /// A lookup that has not started.
    #[inline]
    pub(crate) fn new(levels: &'a Levels, key: &'a [u8], at: Version) -> Self {
        Self {
            levels,
            key,
            at,
            deleted_at: levels.range_tombstones.newest_covering(key, at),
            hash: None,
            runs: levels.levels.iter().flatten(),
            here: None,
            passed: 0,
        }
    }

    /// Starts it; a lookup started for another key may be at the same block.
    #[inline]
    pub(crate) fn begin(&mut self, other: Option<&Self>) -> Result<(), StorageError> {
        self.advance(other.and_then(|other| other.here.as_ref()))
    }

    /// Moves to the next run with a block that may hold an entry; that may be a `known` one.
    fn advance(&mut self, known: Option<&(&'a Table, CandidateBlock)>) -> Result<(), StorageError> {
        self.here = None;
        for run in self.runs.by_ref() {
            let Some(part) = run.part_of(self.key) else {
                continue;
            };
            let properties = &part.table.properties;
            // All of the table is newer than the reader, or older than a range tombstone over the key:
            // neither the filter nor a block needs to be read.
            if properties.oldest > self.at || properties.newest < self.deleted_at {
                continue;
            }
            if let Some((table, candidate)) = known
                && ptr::eq(*table, &*part.table)
                && let Some(candidate) = candidate.also_of(self.key)
            {
                self.here = Some((&part.table, candidate));
                break;
            }
            // Computed at most once per lookup, and not at all if a table is left out by its versions.
            let hash = *self.hash.get_or_insert_with(|| filter_hash(self.key));
            if let Some(candidate) = part.table.candidate(self.key, self.at, hash)? {
                self.here = Some((&part.table, candidate));
                break;
            }
            self.passed += 1;
        }
        Ok(())
    }

    /// See [`CandidateBlock::touch`].
    #[inline]
    pub(crate) fn touch(&self) {
        if let Some((_, candidate)) = &self.here {
            candidate.touch();
        }
    }

    /// See [`CandidateBlock::touch_entry`].
    #[inline]
    pub(crate) fn touch_entry(&self) {
        if let Some((_, candidate)) = &self.here {
            candidate.touch_entry(self.key);
        }
    }

    /// Completes the lookup, and calls `then` once with the result.
    pub(crate) fn finish(
        &mut self,
        mut then: impl FnMut(LookupResult<'_>),
    ) -> Result<(), StorageError> {
        while let Some((table, candidate)) = &self.here {
            let outcome = table.look_up(candidate, self.key, self.at, |version, got| {
                // The newest entry is older than the range tombstone, and the entries
                // of older runs are older still.
                if version < self.deleted_at {
                    return Ok(false);
                }
                match got {
                    TableEntry::Value(value) => then(Some((version, Some(value)))),
                    TableEntry::Deletion => then(Some((version, None))),
                    TableEntry::InBlobFile(reference) => {
                        let value = self.levels.blobs.read(&reference)?;
                        then(Some((version, Some(&value))));
                    }
                }
                Ok(true)
            })?;
            match outcome {
                // The first run with an entry decides: key by key, entries of later runs are older.
                Some(true) => {
                    self.levels.seek_budget.add(self.passed);
                    return Ok(());
                }
                Some(false) => break,
                None => {
                    self.passed += 1;
                    self.advance(None)?;
                }
            }
        }
        // A single run would have to be searched for a missing key as well.
        self.levels.seek_budget.add(self.passed.saturating_sub(1));
        then((self.deleted_at > 0).then_some((self.deleted_at, None)));
        Ok(())
    }
}
