//! A process that only reads a log in a directory.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use isomer_vfs::{Disk, OpenMode};
use parking_lot::Mutex;

use super::{
    file_system::local_folder,
    manifest::Manifest,
    options::DirectoryOptions,
    page,
    segment::{Cursor, Window, lost},
    segments::Segments,
};
use crate::{LogError, Position, log::is_stopped};

/// A process that only reads looks that often for new records while it waits: it cannot be woken, because it writes
/// nothing.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// The log as a process sees it that writes nothing: its end is where the valid frames end.
#[derive(Debug)]
pub(super) struct Following {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    segments: Segments,
    end: Mutex<Cursor>,
}

impl Following {
    pub(super) fn open(folder: &Path, options: &DirectoryOptions) -> Result<Self, LogError> {
        let disk = options.disk.clone();
        let Some(manifest) = Manifest::read(&*disk, folder)? else {
            let what = format!("`{}` has no log", folder.display());
            return Err(LogError::Refused(what));
        };
        let segments = Segments::new(disk.clone(), folder, manifest.id, OpenMode::Read);
        let start = page::read_scan_start(&local_folder(&*disk, folder)?, manifest.id);
        let start = start.filter(|start| start.segment == manifest.newest);
        // The record there was durable; otherwise the page does not belong to these segments.
        let start = match start {
            Some(start)
                if segments
                    .read_record(&start, &mut Window::default())?
                    .is_some() =>
            {
                start
            }
            _ => segments.existing(manifest.newest)?.start(),
        };
        let following = Self {
            folder: folder.to_owned(),
            disk,
            segments,
            end: Mutex::new(start),
        };
        following.end()?;
        Ok(following)
    }

    pub(super) fn manifest(&self) -> Result<Manifest, LogError> {
        let manifest = Manifest::read(&*self.disk, &self.folder)?;
        let own = manifest.filter(|manifest| manifest.id == self.segments.id);
        own.ok_or_else(|| LogError::Damaged("its manifest was removed or replaced".into()))
    }

    pub(super) fn end(&self) -> Result<Position, LogError> {
        let mut end = self.end.lock();
        loop {
            let mut window = Window::default();
            while let Some((_, next)) = self.segments.read_record(&end, &mut window)? {
                *end = next;
            }
            // The segments after this one may have been trimmed.
            let newest = self.manifest()?.newest;
            if newest <= end.position {
                return Ok(end.position);
            }
            *end = self.segments.existing(newest)?.start();
        }
    }

    pub(super) fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        let end = self.end()?;
        let outcome = self.segments.read(from, end, max_bytes);
        let first = self.manifest()?.first;
        if from < first {
            return Err(LogError::Trimmed { first });
        }
        if from >= end {
            return Ok(Vec::new());
        }
        let found = outcome?;
        match found.ended {
            true => Err(lost(&found.next)),
            false => Ok(found.records),
        }
    }

    /// The beginning of the newest segment: the ones before it were synced before it began.
    pub(super) fn durable(&self) -> Result<Position, LogError> {
        Ok(self.manifest()?.newest)
    }

    pub(super) fn wait(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        let until = Instant::now().checked_add(time);
        let mut pause = SHORTEST_LOOK;
        loop {
            let end = self.end()?;
            let left = until.map_or(LONGEST_LOOK, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if end > seen || left.is_zero() || is_stopped(stop) {
                return Ok(end);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }
}
