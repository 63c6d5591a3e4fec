//! Bulk ingestion: sorted pairs are written as finished tables, bypassing the memtable, and made visible by one
//! change of the manifest.

use std::{collections::HashSet, sync::Arc};

use isomer_storage::{LogPoint, PairIterator, StorageError, Version, key_exists};

use crate::{
    RangeTombstones,
    blob::Blobs,
    compaction::write::{Limits, NewFiles, Output},
    levels::{Levels, Part, Run},
    tree::Tree,
};

/// Returns the first existing key at or after the given one.
pub type NextKey<'a> = dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>, StorageError> + 'a;

/// Pairs that are in finished tables, not visible yet. The tables are removed if it is dropped.
#[derive(Default)]
pub struct Ingestion {
    parts: Vec<Part>,
    files: NewFiles,
    /// Pairs.
    pub count: u64,
    version: Version,
}

impl Tree {
    /// Writes `pairs`, which ascend strictly, as entries of `version`. `existing` looks up existing keys: a
    /// pair with one of them is refused. Memory: one block of pairs, and the indexes of the tables.
    pub fn prepare_ingestion(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        existing: &mut NextKey<'_>,
    ) -> Result<Ingestion, StorageError> {
        let options = &self.files.options;
        let (nothing, blobs, relocate) = (RangeTombstones::new(), Blobs::default(), HashSet::new());
        let limits = Limits {
            table_bytes: options.table_bytes * 2,
            slice_bytes: u64::MAX,
        };
        let pace = options.pace.clone();
        let mut output = Output::new(&self.files, pace, limits, &nothing, &blobs, &relocate, &[]);
        // The first existing key at or after the last pair; `None`: there is none.
        let mut next_existing: Option<Vec<u8>> = None;
        let mut last: Vec<u8> = Vec::new();
        let mut count = 0;
        for pair in pairs {
            let (key, value) = pair?;
            if count > 0 && key <= last {
                return Err(StorageError::Invalid(
                    "the pairs of a bulk load do not ascend: sort them".to_owned(),
                ));
            }
            if count == 0 || next_existing.as_ref().is_some_and(|next| *next < key) {
                next_existing = existing(&key)?;
            }
            if next_existing.as_ref() == Some(&key) {
                return Err(key_exists(&key));
            }
            output.begin_key(&key)?;
            output.add(&key, version, Some(&value))?;
            last = key;
            count += 1;
        }
        let files = output.finish(None)?;
        self.files.sync_folder()?;
        Ok(Ingestion {
            parts: self.open_parts(&files)?,
            files,
            count,
            version,
        })
    }

    /// Makes the pairs visible: in the deepest level at which no level above overlaps them, so that they need
    /// no compaction. No memtable may hold anything of their range.
    pub fn commit_ingestion(&self, ingestion: Ingestion) -> Result<Arc<Levels>, StorageError> {
        let Ingestion {
            parts,
            mut files,
            version,
            ..
        } = ingestion;
        self.change_with(&mut files, |levels, files, new_run| {
            if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
                self.place(levels, &parts, &first.from, last.until.as_deref(), new_run);
            }
            levels.ingested = Some(version);
            levels.add_blobs(&self.files, &files.blobs)
        })
    }

    /// Like [`Tree::commit_ingestion`], in a shared database that no other process has open: `commit` appends the
    /// record that decides whether the load takes place. Everything up to `published`, in the log before `point`, is
    /// in tables.
    pub fn commit_load(
        &self,
        ingestion: Ingestion,
        published: Version,
        point: LogPoint,
        commit: &mut dyn FnMut() -> Result<(), StorageError>,
    ) -> Result<Arc<Levels>, StorageError> {
        let Ingestion {
            parts,
            mut files,
            version,
            ..
        } = ingestion;
        self.change_files(Some(commit), &mut files, |levels, files, new_run| {
            if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
                self.place(levels, &parts, &first.from, last.until.as_deref(), new_run);
            }
            (levels.flushed, levels.log_point) = (published, point);
            levels.ingested = Some(version);
            levels.add_blobs(&self.files, &files.blobs)
        })
    }

    fn place(
        &self,
        levels: &mut Levels,
        parts: &[Part],
        from: &[u8],
        until: Option<&[u8]>,
        new_run: &mut dyn FnMut() -> u64,
    ) {
        let last = levels.levels.len() - 1;
        let overlaps = |level: &[Arc<Run>]| level.iter().any(|run| run.overlaps(from, until));
        // On top of everything, including what a running merge is about to write.
        let free = if self.is_in_flight(from, until) {
            0
        } else {
            levels
                .levels
                .iter()
                .position(|level| overlaps(level))
                .unwrap_or(last + 1)
        };
        if free == last + 1 {
            // Nothing overlaps: add them to the last run, or create it.
            match levels.levels[last].first_mut() {
                Some(run) => *run = Arc::new(run.with(parts)),
                None => {
                    let run = Arc::new(Run::new(new_run(), parts.to_vec()));
                    levels.levels[last].push(run);
                }
            }
            return;
        }
        // The last level is one run: pairs that overlap it go to the level above.
        let level = free.min(last - 1);
        let run = Arc::new(Run::new(new_run(), parts.to_vec()));
        levels.levels[level].insert(0, run);
    }
}
