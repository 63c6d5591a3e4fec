//! Making the shared page from the files, which a process that ended within an append, or a loss of power, left behind.

use super::{
    file_system::io_error,
    frame::Head,
    manifest::Manifest,
    page::{Owner, Page, State},
    segments::{Segments, path},
};
use crate::LogError;

/// Finds the tail of the log, clears what is after it and publishes it. The caller has the append lock, or is the only
/// process that has the log open (`is_alone`): then there may have been a loss of power, and everything becomes
/// durable.
///
/// # Errors
/// `Damaged` if records are missing that were durable, or, unless this process is alone, that any process has seen.
pub(super) fn recover(segments: &Segments, page: &Page, is_alone: bool) -> Result<State, LogError> {
    let manifest = manifest(segments)?;
    // The process that wrote the manifest may have ended before its name was durable.
    let synced = segments.disk.sync_folder(&segments.folder);
    synced.map_err(|error| io_error(&segments.folder, &error))?;
    if is_alone {
        remove_trimmed(segments, &manifest)?;
    }
    remove_unnamed(segments, &manifest)?;
    let newest = segments.existing(manifest.newest)?;
    // The records before the newest segment were durable when it was made.
    let receipt = match page.owner() {
        Owner::Own => page.synced(),
        Owner::OtherFormat(_) | Owner::Unknown => None,
    };
    let durable = receipt.unwrap_or(0).max(manifest.newest);
    let seen = segments.last_in(manifest.newest);
    let start = receipt.and_then(|receipt| {
        let start = page.scan_start()?;
        let is_durable = start.position < receipt && start.segment == manifest.newest;
        is_durable.then_some(start)
    });
    let from = seen.into_iter().chain(start);
    let from = from.max_by_key(|cursor| cursor.position);
    let (last, tail) = newest.scan(from.unwrap_or_else(|| newest.start()))?;
    if tail.position < durable {
        let what = format!("it was durable up to the record {}", durable - 1);
        return Err(newest.damaged(&tail, &what));
    }
    // While processes live no record is lost, and after a loss of power none that was durable.
    let is_loss = |later: &Head| !is_alone || later.durable > tail.position;
    page.mark_changing();
    if let Some(end) = newest.remains(&tail, is_loss)? {
        newest.clear(&tail, end)?;
    }
    page.adopt();
    if is_alone {
        // Without a page of this log it is not known whether a sync has failed.
        if receipt.is_none() || page.has_failed() {
            newest.rewrite(&tail)?;
        }
        let synced = newest.file.sync();
        synced.map_err(|error| io_error(&newest.path, &error))?;
        page.set_synced(tail.position);
        page.set_scan_start(&last);
        page.set_failed(false);
        page.set_favoured(0);
        page.set_busy(false);
        page.forget_processes();
    } else if receipt.is_none() {
        page.set_synced(manifest.newest);
    }
    let state = State {
        tail,
        first: manifest.first,
    };
    page.publish(&state);
    segments.remember(last);
    segments.remember(tail);
    Ok(state)
}

/// The manifest of a log that is open.
pub(super) fn manifest(segments: &Segments) -> Result<Manifest, LogError> {
    let manifest = Manifest::read(&*segments.disk, &segments.folder)?;
    let own = manifest.filter(|manifest| manifest.id == segments.id);
    own.ok_or_else(|| LogError::Damaged("its manifest was removed or replaced".into()))
}

/// Removes the segments all of whose records are trimmed.
pub(super) fn remove_trimmed(segments: &Segments, manifest: &Manifest) -> Result<(), LogError> {
    let all = Segments::list(&*segments.disk, &segments.folder)?;
    for (first, next) in all.iter().zip(all.iter().skip(1)) {
        if *next <= manifest.first && *first < manifest.newest {
            segments.remove(*first)?;
        }
    }
    Ok(())
}

/// Removes segments that the manifest does not name yet: a process ended while it made the next one, which has no
/// records.
fn remove_unnamed(segments: &Segments, manifest: &Manifest) -> Result<(), LogError> {
    let all = Segments::list(&*segments.disk, &segments.folder)?;
    for first in all.into_iter().filter(|first| *first > manifest.newest) {
        if !segments.existing(first)?.is_empty()? {
            let path = path(&segments.folder, first);
            let what = format!("the manifest does not know `{}`", path.display());
            return Err(LogError::Damaged(what));
        }
        segments.remove(first)?;
    }
    Ok(())
}
