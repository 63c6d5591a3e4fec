//! Reading all levels and checking them; sizes and counts.

use std::collections::HashSet;

use isomer_storage::StorageError;

use super::{Levels, cursor::RunCursor};
use crate::{EntryCursor, merge::Merge};

/// Sizes and counts of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// Runs.
    pub runs: usize,
    /// Tables, including those of which a part was compacted already.
    pub tables: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries, including deletions.
    pub entries: u64,
    /// Deletions.
    pub deletions: u64,
    /// Bytes of keys and values.
    pub raw_bytes: u64,
}

impl Levels {
    /// Sizes and counts, level by level.
    pub fn statistics(&self) -> Vec<LevelStatistics> {
        self.levels
            .iter()
            .map(|level| {
                let mut sum = LevelStatistics {
                    runs: level.len(),
                    ..LevelStatistics::default()
                };
                for part in level.iter().flat_map(|run| &run.parts) {
                    let properties = &part.table.properties;
                    sum.tables += 1;
                    sum.bytes += part.table.file_bytes();
                    sum.entries += properties.entries;
                    sum.deletions += properties.deletions;
                    sum.raw_bytes += properties.raw_bytes;
                }
                sum
            })
            .collect()
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        let mut seen = HashSet::new();
        let tables: u64 = self
            .parts()
            .filter(|part| seen.insert(part.table.number))
            .map(|part| part.table.file_bytes())
            .sum();
        let blobs: u64 = self.blobs.files.values().map(|file| file.file.len()).sum();
        tables + blobs
    }

    /// Bytes of blob files, and how many of them tables refer to.
    pub fn value_bytes(&self) -> (u64, u64) {
        let all = self.blobs.files.values().map(|file| file.file.len()).sum();
        (all, self.blob_use().values().sum())
    }

    /// Reads everything: each table on its own (blocks, order, indexes, filters, counts), the blob files, and
    /// that newer runs hold newer entries. `progress` is called with (done, total) bytes. Returns the damage
    /// found.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        let mut problems = Vec::new();
        // Each table is read twice: on its own, and in the merge.
        let total = 2 * self.file_bytes();
        let mut done = 0;
        let mut seen = HashSet::new();
        for part in self.parts() {
            if !seen.insert(part.table.number) {
                continue;
            }
            let checked = part.table.verify(&mut |reference| {
                done += u64::from(reference.handle.len);
                self.blobs.read(reference).map(drop)
            });
            done += part.table.file_bytes();
            note(checked, &mut problems)?;
            progress(done.min(total), total);
        }
        if problems.is_empty() {
            let mut step = after(progress, done, total);
            let checked = self.verify_order(&mut step);
            drop(step);
            note(checked, &mut problems)?;
        }
        progress(total, total);
        Ok(problems)
    }

    /// Checks that the newer entries of each key are in the newer runs, and each entry is within its table's
    /// part.
    fn verify_order(&self, step: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        let cursors: Vec<RunCursor> = self
            .runs()
            .map(|run| RunCursor::new(run.clone(), self.blobs.clone()).in_bulk())
            .collect();
        let mut merge = Merge::new(cursors);
        merge.seek(&[])?;
        let mut last: Option<(Vec<u8>, usize)> = None;
        let mut count = 0_u64;
        while let Some(number) = merge.top_number() {
            let Some(source) = merge.top() else {
                break;
            };
            match &mut last {
                Some((key, run)) if *key == source.key() => {
                    if number < *run {
                        return Err(StorageError::Corrupt(format!(
                            "an entry of version {} lies in a newer table than a younger one of its key: \
                             restore the database from a backup",
                            source.version()
                        )));
                    }
                    *run = number;
                }
                Some((key, run)) => {
                    key.clear();
                    key.extend_from_slice(source.key());
                    *run = number;
                }
                None => last = Some((source.key().to_vec(), number)),
            }
            count += 1;
            if count.is_multiple_of(1 << 16) {
                step(count);
            }
            merge.next()?;
        }
        Ok(())
    }
}

fn after<'a>(progress: &'a mut dyn FnMut(u64, u64), done: u64, total: u64) -> impl FnMut(u64) + 'a {
    // Approximate: entries are not bytes.
    move |count| progress((done + 64 * count).min(total), total)
}

/// Records damage; an error that prevents reading is returned.
fn note(checked: Result<(), StorageError>, problems: &mut Vec<String>) -> Result<(), StorageError> {
    match checked {
        Err(StorageError::Corrupt(what)) => {
            problems.push(what);
            Ok(())
        }
        other => other,
    }
}
