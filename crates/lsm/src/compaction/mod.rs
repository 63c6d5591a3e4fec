//! Compaction: merging runs, so that a reader searches few tables and versions that are no longer readable are
//! dropped.
//!
//! Lazy leveling ("Dostoevsky", Dayan and Idreos, 2018): runs gather in a level until there are [`FANOUT`] of
//! them, then they are merged into one run of the next level; the last level, which holds most of the data, is
//! always one run. When the last level has become [`FANOUT`] times as large as what is merged into it, a level
//! is inserted before it.
//!
//! A compaction is a [`Job`] that goes from the lowest keys to the highest in slices. Each slice ends with one
//! change of the manifest: its output is added to the target run, and its input ranges are removed from the
//! input runs, table by table. So a compaction of any size needs disk space for little more than a slice, and
//! continues where it was after the database is reopened.
//!
//! If lookups have used up the seek budget (see [`crate::seek_budget`]), the runs of the first levels are
//! merged before a level is full (seek-triggered compaction): those of as few levels as have two runs, unless
//! one of them holds nearly all of the data or they are larger than a slice.
//!
//! Before anything else, tables that one range tombstone covers are dropped without being read, and tables with
//! many tombstones are compacted into the last level.

pub(crate) mod rule;
pub(crate) mod write;

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
};

use isomer_storage::{StorageError, Version};

use crate::{
    RangeTombstones,
    levels::{Levels, Part, Run, cursor::RunCursor},
    manifest::Job,
    merge::Merge,
    tree::Tree,
};
use rule::{Horizon, Readable, Rule};
use write::{Limits, Output, garbage, write_merged};

/// Runs of a level that are merged at once.
pub(crate) const FANOUT: usize = 8;
/// A table with fewer tombstones, relative to its size, is not compacted for them: 1024 for tables of 32 MiB.
const BYTES_PER_DELETION: u64 = 32 << 10;
/// A blob file smaller than this fraction of a table is not worth a compaction to collect its garbage.
const GARBAGE_PART: u64 = 32;
/// Target of a job for which a run is created: no run has this number.
const NEW_RUN: u64 = 0;
/// Approximate maximum number of tables in a level: each is an open file.
const TABLES_PER_LEVEL: u64 = 256;
const MAX_TABLE_BYTES: u64 = 1 << 30;

impl Tree {
    /// Does one step of the pending work: a slice of a compaction, or dropping tables. Returns whether there
    /// was any.
    pub fn compact_once(&self, horizon: &dyn Horizon) -> Result<bool, StorageError> {
        let _one_at_a_time = self.compacting.lock();
        if !self.maintains() {
            return Ok(false);
        }
        self.check()?;
        self.collect_files();
        let readable = horizon.readable();
        // Cheapest first: it frees space without reading or writing a table, also
        // when the disk is nearly full.
        if self.drop_covered_tables(&readable)? {
            return Ok(true);
        }
        if let Some(job) = self.pick(&readable)? {
            self.run_slice(&job, &readable)?;
            self.collect_files();
            return Ok(true);
        }
        Ok(false)
    }

    /// Compacts everything into one run, without versions that are no longer readable.
    pub fn compact_all(&self, horizon: &dyn Horizon) -> Result<(), StorageError> {
        while self.compact_once(horizon)? {}
        {
            let _one_at_a_time = self.compacting.lock();
            let levels = self.current();
            let last = levels.levels.len() - 1;
            let above = levels.levels[..last].iter().any(|level| !level.is_empty());
            let garbage = || levels.parts().any(Part::has_garbage);
            if above || garbage() {
                self.begin_job(|levels| {
                    let last = levels.levels.len() - 1;
                    let bottom = levels.levels[last].first();
                    Some(Job {
                        level: last,
                        target: bottom.map_or(NEW_RUN, |run| run.id),
                        inputs: levels.runs().map(|run| run.id).collect(),
                        bottom: true,
                        from: Box::default(),
                        until: None,
                    })
                })?;
            }
        }
        while self.compact_once(horizon)? {}
        Ok(())
    }

    /// Whether [`Tree::compact_once`] would merge runs.
    pub fn needs_compaction(&self) -> bool {
        let levels = self.current();
        !levels.jobs.is_empty()
            || full_level(&levels).is_some()
            || early_compaction(&levels, self.files.options.slice_bytes).is_some()
    }

    /// Bytes of the runs that are waiting to be compacted: inputs of the running jobs, and runs of a level that
    /// is full.
    pub fn backlog_bytes(&self) -> u64 {
        let levels = self.current();
        let full = full_level(&levels).map_or(&[][..], |level| &levels.levels[level]);
        let due = |run: &&Arc<Run>| levels.jobs.iter().any(|job| job.inputs.contains(&run.id));
        let under_way = levels.runs().filter(due).map(|run| run.file_bytes());
        under_way.sum::<u64>() + full.iter().map(|run| run.file_bytes()).sum::<u64>()
    }

    /// Drops the tables whose entries are all covered by one range tombstone, unless a reader is older than
    /// that.
    fn drop_covered_tables(&self, readable: &Readable) -> Result<bool, StorageError> {
        let levels = self.current();
        if levels.range_tombstones.is_empty() {
            return Ok(false);
        }
        let gone = |part: &Part| {
            let properties = &part.table.properties;
            // A table with range tombstones must stay, as dropping it would uncover older entries.
            properties.entries > 0
                && part.table.range_tombstones.is_empty()
                && is_covered(&levels.range_tombstones, part, |version| {
                    // No reader is between the table's oldest entry and the tombstone. What older runs have of
                    // these keys is older, and covered by the same tombstone.
                    version > properties.newest && !readable.sees(properties.oldest, Some(version))
                })
        };
        let any = levels
            .runs()
            .any(|run| !self.is_busy(&levels, run.id) && run.parts.iter().any(gone));
        if !any {
            return Ok(false);
        }
        self.change(|levels, _| {
            let busy: HashSet<u64> = levels
                .jobs
                .iter()
                .flat_map(|job| job.inputs.clone())
                .collect();
            for level in &mut levels.levels {
                for run in level.iter_mut() {
                    if busy.contains(&run.id) || !run.parts.iter().any(gone) {
                        continue;
                    }
                    let kept = run.parts.iter().filter(|part| !gone(part)).cloned();
                    *run = Arc::new(Run::new(run.id, kept.collect()));
                }
            }
            let collected = self.collected(readable.from, levels.flushed);
            levels.collected_below = levels.collected_below.max(collected);
            Ok(())
        })?;
        Ok(true)
    }

    fn is_busy(&self, levels: &Levels, run: u64) -> bool {
        levels
            .jobs
            .iter()
            .any(|job| job.target == run || job.inputs.contains(&run))
    }

    /// The job to continue: the one of the lowest level, after starting those that are due.
    fn pick(&self, readable: &Readable) -> Result<Option<Job>, StorageError> {
        let levels = self.current();
        // Full levels first: they slow down writers. Rewriting for tombstones, for blob
        // files and for lookups can wait.
        if let Some(level) = full_level(&levels) {
            self.begin_job(|levels| level_compaction(levels, level))?;
        } else if levels.jobs.is_empty() {
            let floor = readable.floor();
            let options = &self.files.options;
            let min_deletions = (options.table_bytes / BYTES_PER_DELETION).max(1);
            let due = |levels: &Levels| {
                heavy_table(levels, floor, min_deletions)
                    .or_else(|| wasteful_values(levels, options.table_bytes / GARBAGE_PART))
            };
            if due(&levels).is_some() {
                // Evaluated again on the levels being changed: an ingestion may have changed them in between.
                self.begin_job(|levels| due(levels))?;
            } else if early_compaction(&levels, options.slice_bytes).is_some() {
                self.begin_job(|levels| {
                    let job = early_compaction(levels, options.slice_bytes)?;
                    levels.seek_budget.spend();
                    Some(job)
                })?;
            }
        }
        let levels = self.current();
        Ok(levels.jobs.iter().min_by_key(|job| job.level).cloned())
    }

    /// Adds the job that `make` creates from the current levels, with a new run for it if it asks for one.
    fn begin_job(&self, make: impl FnOnce(&mut Levels) -> Option<Job>) -> Result<(), StorageError> {
        self.change(|levels, new_run| {
            if let Some(mut job) = make(levels) {
                if job.target == NEW_RUN {
                    job.target = new_run();
                    let target = Arc::new(Run::new(job.target, Vec::new()));
                    // Before the other runs of its level, as its inputs are newer than these.
                    levels.levels[job.level].insert(0, target);
                }
                // The last level is one run, so what is merged into it must be merged with it.
                if job.level + 1 == levels.levels.len() && !job.inputs.contains(&job.target) {
                    job.inputs.push(job.target);
                }
                levels.jobs.push(job);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Merges the next keys of a job, and changes the levels.
    fn run_slice(&self, job: &Job, readable: &Readable) -> Result<(), StorageError> {
        let until = job.until.as_deref();
        let (_in_flight, levels) = self.fly(&job.from, until);
        let inputs: Vec<&Arc<Run>> = levels
            .runs()
            .filter(|run| job.inputs.contains(&run.id))
            .collect();
        let parts = inputs.iter().flat_map(|run| &run.parts);
        let with_tombstones = parts.filter(|part| {
            !part.table.range_tombstones.is_empty() && part.overlaps(&job.from, until)
        });
        let range_tombstones =
            RangeTombstones::union_of(with_tombstones.map(Part::range_tombstones).collect());
        let range_tombstones = range_tombstones.clipped(&job.from, until);
        // In the last level a range tombstone hides nothing once no reader is older.
        let floor = readable.floor();
        let kept_tombstones = if job.bottom {
            range_tombstones.retained(|version| version > floor)
        } else {
            range_tombstones
        };
        let relocate = garbage(&levels.blobs, &levels.blob_use());
        let level_bytes: u64 = inputs.iter().map(|run| run.file_bytes()).sum();
        let options = &self.files.options;
        // Larger levels get larger tables, so that the number of open files stays bounded.
        let limits = Limits {
            table_bytes: (level_bytes / TABLES_PER_LEVEL).clamp(
                options.table_bytes,
                MAX_TABLE_BYTES.max(options.table_bytes),
            ),
            slice_bytes: options.slice_bytes,
        };
        let cursors: Vec<RunCursor> = inputs
            .iter()
            .filter(|run| run.overlaps(&job.from, until))
            .map(|run| RunCursor::new((*run).clone(), levels.blobs.clone()).in_bulk())
            .collect();
        let mut merge = Merge::new(cursors);
        merge.seek(&job.from)?;
        // With the range tombstones of all levels, not only those of the inputs: newer
        // ones above cover entries here.
        let mut rule = Rule::new(readable, &levels.range_tombstones);
        let output = Output::new(
            &self.files,
            options.pace.clone(),
            limits,
            &kept_tombstones,
            &levels.blobs,
            &relocate,
            &job.from,
        );
        let mut written = write_merged(
            &mut merge,
            until,
            &mut rule,
            job.bottom.then(|| levels.flushed()),
            &|| self.stopping(),
            output,
        )?;
        drop(merge);
        // The manifest may name the new files only after their names are durable.
        self.files.sync_folder()?;
        let parts = self.open_parts(&written)?;
        let bytes = parts.iter().map(|part| part.table.file_bytes()).sum();
        self.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        let stopped_at = written.stopped_at.clone();
        // One manifest change cuts the merged range off the inputs and adds the output to the target. A crash
        // before it leaves the new files as orphans; after it, the job continues at `stopped_at`.
        self.change_with(&mut written, |levels, written, _| {
            let upto = stopped_at.as_deref().or(until);
            for (number, level) in levels.levels.iter_mut().enumerate() {
                for run in level.iter_mut() {
                    let mut changed = if job.inputs.contains(&run.id) {
                        run.without(&job.from, upto)
                    } else if run.id == job.target {
                        (**run).clone()
                    } else {
                        continue;
                    };
                    if run.id == job.target {
                        debug_assert_eq!(number, job.level);
                        changed = changed.with(&parts);
                    }
                    *run = Arc::new(changed);
                }
            }
            // The job stays until its whole range is done; its next slice begins where this one stopped.
            levels.jobs.retain_mut(|one| {
                if one.target != job.target || one.inputs != job.inputs {
                    return true;
                }
                match &stopped_at {
                    Some(at) => {
                        one.from = at.clone();
                        true
                    }
                    None => false,
                }
            });
            let collected = self.collected(readable.from, levels.flushed);
            levels.collected_below = levels.collected_below.max(collected);
            levels.add_blobs(&self.files, &written.blobs)
        })?;
        Ok(())
    }
}

/// Whether the whole part is covered by range tombstones for which `counts` holds.
fn is_covered(
    range_tombstones: &RangeTombstones,
    part: &Part,
    counts: impl Fn(Version) -> bool,
) -> bool {
    let mut at: &[u8] = &part.from;
    loop {
        let (mut covered, mut end) = (false, None);
        let span = range_tombstones.span(at, Version::MAX);
        for version in range_tombstones.covering_range(at, span.until) {
            covered |= counts(*version);
        }
        if covered {
            end = Some(span.until);
        }
        match end {
            None => return false,
            Some(None) => return true,
            Some(Some(end)) => {
                if part.until.as_ref().is_some_and(|until| **until <= *end) {
                    return true;
                }
                at = end;
            }
        }
    }
}

/// The first level above the last that has enough runs to merge, not counting those that are being merged.
fn full_level(levels: &Levels) -> Option<usize> {
    let last = levels.levels.len() - 1;
    (0..last).find(|level| {
        levels.levels[*level].len() >= FANOUT
            && !levels.levels[*level].iter().any(|run| {
                levels
                    .jobs
                    .iter()
                    .any(|job| job.inputs.contains(&run.id) || job.target == run.id)
            })
            // One job at a time merges into the last level, with all of it.
            && (level + 1 < last
                || !levels.jobs.iter().any(|job| job.level == last))
    })
}

fn level_compaction(levels: &mut Levels, level: usize) -> Option<Job> {
    let inputs: Vec<u64> = levels.levels[level].iter().map(|run| run.id).collect();
    let bytes = |runs: &[Arc<Run>]| runs.iter().map(|run| run.file_bytes()).sum::<u64>();
    let mut last = levels.levels.len() - 1;
    if level + 1 == last
        && bytes(&levels.levels[last]) > FANOUT as u64 * bytes(&levels.levels[level])
        && levels.jobs.is_empty()
    {
        // Insert a level: the last one is too large to be rewritten for so little.
        levels.levels.insert(last, Vec::new());
        last += 1;
    }
    let target_level = level + 1;
    let target = match levels.levels[target_level].first() {
        Some(run) if target_level == last => run.id,
        _ => NEW_RUN,
    };
    Some(Job {
        level: target_level,
        target,
        inputs,
        bottom: target_level == last,
        from: Box::default(),
        until: None,
    })
}

/// A seek-triggered compaction of the first runs in as few levels as possible, if the seek budget allows it. It
/// is one slice long: a level that becomes full in the meantime does not wait for it.
fn early_compaction(levels: &Levels, slice_bytes: u64) -> Option<Job> {
    let upto = |level: usize| levels.levels[..=level].iter().flatten();
    let level = (0..levels.levels.len()).find(|level| upto(*level).count() > 1)?;
    let bytes: u64 = upto(level).map(|run| run.file_bytes()).sum();
    let largest = upto(level).map(|run| run.file_bytes()).max()?;
    // As when levels are full: a large run is not rewritten for a small fraction of its size.
    let is_little = bytes > FANOUT as u64 * (bytes - largest);
    if is_little || bytes > slice_bytes.min(levels.seek_budget.earned_bytes()) {
        return None;
    }
    let bottom = level + 1 == levels.levels.len();
    let target = levels.levels[level].first().filter(|_| bottom);
    Some(Job {
        level,
        target: target.map_or(NEW_RUN, |run| run.id),
        inputs: upto(level).map(|run| run.id).collect(),
        bottom,
        from: Box::default(),
        until: None,
    })
}

/// A compaction into the last level of a table with many tombstones, or with range tombstones that no reader
/// needs.
fn heavy_table(levels: &Levels, floor: Version, min_deletions: u64) -> Option<Job> {
    let last = levels.levels.len().checked_sub(1)?;
    let mut runs_from_here: Vec<u64> = levels.runs().map(|run| run.id).collect();
    for (number, level) in levels.levels.iter().enumerate() {
        for run in level {
            let heavy = run.parts.iter().find(|part| {
                let properties = &part.table.properties;
                let garbage = properties.deletions + properties.superseded;
                let many = garbage >= min_deletions && garbage * 2 >= properties.entries;
                // While a reader is older than what superseded them, the entries would have to be kept, and the
                // same table would be picked again at once.
                let due = properties.clean_from <= floor;
                let erases = !part.table.range_tombstones.is_empty();
                if number == last {
                    due && (many || erases)
                } else {
                    due && (many || (erases && properties.entries < min_deletions))
                }
            });
            if let Some(part) = heavy {
                let bottom = levels.levels[last].first();
                let (from, until) = widened(part, bottom);
                return Some(Job {
                    level: last,
                    target: bottom.map_or(NEW_RUN, |run| run.id),
                    inputs: runs_from_here,
                    bottom: true,
                    from,
                    until,
                });
            }
            // Inputs are this run and all older ones: a tombstone may be dropped only if nothing
            // that it hides is left below it.
            runs_from_here.remove(0);
        }
    }
    None
}

/// The range of a part, widened to the overlapping tables of the last level: none of them is to be left half
/// used.
fn widened(part: &Part, bottom: Option<&Arc<Run>>) -> (Box<[u8]>, Option<Box<[u8]>>) {
    let (mut from, mut until) = (&part.from, &part.until);
    for below in bottom.iter().flat_map(|run| &run.parts) {
        if below.overlaps(&part.from, part.until.as_deref()) {
            from = from.min(&below.from);
            until = match (until, &below.until) {
                (Some(one), Some(other)) if one < other => &below.until,
                (_, None) => &below.until,
                _ => until,
            };
        }
    }
    ((**from).into(), until.as_deref().map(Into::into))
}

/// A rewrite of the table that refers most to a blob file with mostly garbage.
fn wasteful_values(levels: &Levels, min_bytes: u64) -> Option<Job> {
    let wasted: HashSet<u64> = garbage(&levels.blobs, &levels.blob_use())
        .into_iter()
        .filter(|number| {
            levels
                .blobs
                .files
                .get(number)
                .is_some_and(|file| file.file.len() >= min_bytes)
        })
        .collect();
    if wasted.is_empty() {
        return None;
    }
    let last = levels.levels.len() - 1;
    let mut most: Option<(u64, Job)> = None;
    for (number, level) in levels.levels.iter().enumerate() {
        for run in level {
            for part in &run.parts {
                let bytes = part
                    .table
                    .properties
                    .blobs
                    .iter()
                    .filter(|(file, ..)| wasted.contains(file))
                    .map(|(_, bytes, _)| *bytes)
                    .sum();
                if bytes > 0 && most.as_ref().is_none_or(|(most, _)| bytes > *most) {
                    // Within its run: only the table's values move, so no other run takes part.
                    let job = Job {
                        level: number,
                        target: run.id,
                        inputs: vec![run.id],
                        bottom: number == last,
                        from: (*part.from).into(),
                        until: part.until.as_deref().map(Into::into),
                    };
                    most = Some((bytes, job));
                }
            }
        }
    }
    most.map(|(_, job)| job)
}
