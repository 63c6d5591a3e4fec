//! A producer thread and a consumer thread for a load.

use std::{ops::ControlFlow, sync::mpsc};

use isomer_storage::StorageError;

use isomer_data::DataError;

use crate::load::{BulkPhase, BulkWatch, REPORT_EVERY};

/// Rows or pairs that are handed over at a time.
const BATCH_ITEMS: usize = 512;
/// Most batches in the queue.
const MAX_QUEUED_BATCHES: usize = 4;

/// A pair for the engine.
pub(super) type Pair = Result<(Vec<u8>, Vec<u8>), StorageError>;

/// Reads all rows on this thread while `take` processes them on another. The inner error of `take` is the row's, the
/// outer one the load's. Returns how many rows were refused.
pub(super) fn read_rows<T: Send>(
    rows: &mut dyn Iterator<Item = Result<T, DataError>>,
    watch: &mut dyn BulkWatch,
    mut take: impl FnMut(&T) -> Result<Result<(), DataError>, DataError> + Send,
    number_of: impl Fn(&T) -> u64 + Send,
) -> Result<u64, DataError> {
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel::<Vec<T>>(MAX_QUEUED_BATCHES);
        let (refuse, refused) = mpsc::channel();
        let worker = scope.spawn(move || -> Result<(), DataError> {
            for row in batches.into_iter().flatten() {
                if let Err(error) = take(&row)? {
                    // The receiver is gone where the load was stopped.
                    let _ = refuse.send((number_of(&row), error));
                }
            }
            Ok(())
        });
        let mut rejected = 0;
        let mut look = |watch: &mut dyn BulkWatch, one: (u64, DataError)| {
            rejected += 1;
            match watch.rejected(one.0, &one.1) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(one.1),
            }
        };
        let mut broken = None;
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        for (done, row) in rows.enumerate() {
            match row {
                Ok(row) => batch.push(row),
                // Errors of earlier rows are reported first.
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
            let done = done as u64 + 1;
            if batch.len() == BATCH_ITEMS {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ITEMS));
                if sender.send(full).is_err() {
                    break; // it says why
                }
                refused.try_iter().try_for_each(|one| look(watch, one))?;
            }
            if done.is_multiple_of(REPORT_EVERY)
                && watch.progress(BulkPhase::Reading, done, None).is_break()
            {
                return Err(DataError::Cancelled);
            }
        }
        let _ = sender.send(batch);
        drop(sender);
        refused.iter().try_for_each(|one| look(watch, one))?;
        match worker.join() {
            Ok(taken) => taken?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        match broken {
            Some(error) => Err(error),
            None => Ok(rejected),
        }
    })
}

/// Produces pairs on another thread while `consume` processes them on this one.
pub(super) fn made_ahead<R>(
    pairs: &mut (impl Iterator<Item = Pair> + Send),
    consume: impl FnOnce(&mut dyn Iterator<Item = Pair>) -> R,
) -> R {
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel::<Vec<Pair>>(MAX_QUEUED_BATCHES);
        scope.spawn(move || {
            loop {
                let batch: Vec<Pair> = pairs.by_ref().take(BATCH_ITEMS).collect();
                // The receiver is gone where the load was stopped.
                if batch.is_empty() || sender.send(batch).is_err() {
                    return;
                }
            }
        });
        let mut pairs = batches.into_iter().flatten();
        let done = consume(&mut pairs);
        drop(pairs);
        done
    })
}
