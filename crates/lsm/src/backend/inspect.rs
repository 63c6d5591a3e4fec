//! What an open database holds, and whether its log and its tables agree.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
};

use isomer_storage::{KeyRange, Order, Statistics, StorageError, View as _};

use crate::{
    LevelStatistics,
    core::Core,
    log_check,
    processes::{self, Wal},
    state::LsmView,
};

/// With more entries than this, pairs are estimated instead of counted.
const MAX_COUNTED_ENTRIES: u64 = 200_000;

/// See [`isomer_storage::Backend::statistics`].
pub(super) fn statistics(core: &Core, view: &LsmView) -> Result<Statistics, StorageError> {
    let log = match &core.wal {
        Wal::Own(log) => log.statistics(view.version())?,
        Wal::Shared(_) => processes::log_statistics(core)?,
    };
    let state = core.shared.state();
    let levels = state.levels.statistics();
    let sum = |of: fn(&LevelStatistics) -> u64| levels.iter().map(of).sum::<u64>();
    let (value_bytes, _) = state.levels.value_bytes();
    let table_bytes = sum(|level| level.bytes);
    let entries = sum(|level| level.entries)
        + state
            .memtables()
            .map(|memtable| memtable.entry_count())
            .sum::<u64>();
    let mut key_count = 0;
    if entries <= MAX_COUNTED_ENTRIES {
        let all = KeyRange {
            start: b"",
            end: None,
        };
        view.visit(all, Order::Ascending, &mut |_, _| {
            key_count += 1;
            ControlFlow::Continue(())
        })?;
    } else {
        // Counting would read all of them, which takes seconds: assume that each deletion deleted a key,
        // and that none was put twice.
        key_count = entries.saturating_sub(2 * sum(|level| level.deletions));
    }
    let detail = |name: &str, value: u64| (name.to_owned(), value.to_string());
    let (hits, misses) = core.cache.hits_and_misses();
    let mut details = vec![
        detail("log_bytes", log.stored_bytes),
        detail("log_segments", log.segments),
        detail("log_dropped_bytes", log.dropped_bytes),
        detail("table_bytes", table_bytes),
        detail("value_bytes", value_bytes),
        detail("entries", entries),
        detail("memtable_bytes", state.memtable_bytes() as u64),
        detail("sealed_memtables", state.sealed.len() as u64),
        detail("cache_bytes", core.cache.used_bytes() as u64),
        detail("pinned_bytes", core.cache.pinned_bytes() as u64),
        detail("slowed_ms", core.slowed_ms()),
        detail("cache_hits", hits),
        detail("cache_misses", misses),
        detail("runs", levels.iter().map(|level| level.runs as u64).sum()),
        detail("compaction_backlog_bytes", core.tree.backlog_bytes()),
        detail(
            "compacted_bytes",
            core.tree.compacted_bytes.load(Ordering::Relaxed),
        ),
        detail(
            "flushed_bytes",
            core.tree.flushed_bytes.load(Ordering::Relaxed),
        ),
        detail("oldest_version", core.shared.floor()),
    ];
    if let Some(wal) = core.wal.shared() {
        let point = core.tree.current().log_point;
        details.push(detail("maintains_tables", u64::from(core.tree.maintains())));
        details.push(detail(
            "adopted_tables",
            wal.adoptions.load(Ordering::Relaxed),
        ));
        details.push(detail("applied_position", wal.applied().next));
        details.push(detail("flushed_position", point.next));
    }
    details.extend(
        core.compaction_error()
            .map(|error| ("compaction_error".to_owned(), error)),
    );
    for (number, level) in levels.iter().enumerate() {
        let text = format!(
            "{} runs, {} tables, {} bytes, {} entries",
            level.runs, level.tables, level.bytes, level.entries
        );
        details.push((format!("level_{number}"), text));
    }
    let mut statistics = Statistics::default();
    statistics.key_count = key_count;
    statistics.stored_bytes = log.stored_bytes + table_bytes + value_bytes;
    statistics.syncs = log.syncs;
    statistics.stream_entries = log.stream_entries;
    statistics.details = details;
    Ok(statistics)
}

/// See [`isomer_storage::Backend::verify`]. `view` gives the last version, once no segment of the log can be removed.
pub(super) fn verify(
    core: &Core,
    view: &dyn Fn() -> Result<Arc<LsmView>, StorageError>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<String>, StorageError> {
    let own = match &core.wal {
        Wal::Own(own) => own,
        Wal::Shared(wal) => return processes::verify(core, wal, progress),
    };
    let (view, state, pinned) = {
        // No segment may be removed between the two; afterwards `pinned` holds them.
        let _tidying = core.tidying.lock();
        (view()?, core.shared.state(), own.pin())
    };
    let levels = state.levels.clone();
    let (in_log, in_tables) = (pinned.record_bytes(), 2 * levels.file_bytes());
    // The log is read a second time to compare it with the tables.
    let total = 2 * in_log + in_tables;
    let mut done = 0;
    let log = own.verify(&pinned, &mut |bytes| {
        done += bytes;
        progress(done.min(in_log), total);
    })?;
    let mut damage = log.damage;
    damage.extend(levels.verify(&mut |done, _| progress(in_log + done.min(in_tables), total))?);
    let upto = view.version();
    if upto > levels.flushed().max(log.last) {
        damage.push(format!(
            "the log ends at the commit {}, the last one is {upto}, which is not in tables",
            log.last
        ));
    }
    if damage.is_empty() && log.last >= upto && log.whole_from <= upto {
        let mut done = in_log + in_tables;
        damage = log_check::compare(own, &pinned, &state, log.whole_from, upto, &mut |bytes| {
            done += bytes;
            progress(done.min(total), total);
        })?;
    }
    progress(total, total);
    Ok(damage)
}
