//! Cursors over a run.

use std::{ops::ControlFlow, sync::Arc};

use isomer_storage::{StorageError, Version, Visitor};

use super::Run;
use crate::{
    BlobRef, EntryCursor, EntryKind,
    blob::Blobs,
    table::{
        Reading,
        block::{RunEnd, ValueKind},
        cursor::TableCursor,
    },
};

/// A position in a run of tables.
pub struct RunCursor {
    run: Arc<Run>,
    blobs: Arc<Blobs>,
    reading: Reading,
    /// Number of the part that `cursor` is in.
    at: usize,
    cursor: Option<TableCursor>,
    valid: bool,
    cut_above: bool,
    /// The value from a blob file, once it was read.
    apart: Option<Arc<[u8]>>,
}

#[cold]
fn nowhere() -> StorageError {
    StorageError::Invalid("a cursor without a position was moved: seek first".to_owned())
}

impl RunCursor {
    pub(crate) fn new(run: Arc<Run>, blobs: Arc<Blobs>) -> Self {
        Self {
            run,
            blobs,
            reading: Reading::Cached,
            at: 0,
            cursor: None,
            valid: false,
            cut_above: false,
            apart: None,
        }
    }

    /// The same, with large reads that bypass the cache.
    pub(crate) fn in_bulk(mut self) -> Self {
        self.reading = Reading::Bulk;
        self
    }

    fn enter(&mut self, at: usize) -> bool {
        self.valid = false;
        let Some(part) = self.run.parts.get(at) else {
            return false;
        };
        self.at = at;
        self.cut_above = part.cut_above;
        match &mut self.cursor {
            // Neighbouring parts may be of one table, whose middle was compacted
            // away: the cursor keeps its block.
            Some(cursor) if Arc::ptr_eq(cursor.table(), &part.table) => {}
            Some(cursor) => cursor.move_to(part.table.clone()),
            None => self.cursor = Some(TableCursor::new(part.table.clone(), self.reading)),
        }
        true
    }

    #[inline]
    fn table(&mut self) -> Result<&mut TableCursor, StorageError> {
        self.cursor.as_mut().ok_or_else(nowhere)
    }

    /// After a step forward: moves to the next part if the entry is outside of this one.
    #[inline]
    fn enter_next_part(&mut self) -> Result<(), StorageError> {
        self.apart = None;
        loop {
            let Some(cursor) = &self.cursor else {
                return Ok(());
            };
            if cursor.valid() {
                // Almost every part is a whole table: no comparison of keys per entry.
                if !self.cut_above {
                    self.valid = true;
                    return Ok(());
                }
                let until = self.run.parts[self.at].until.as_deref();
                if until.is_none_or(|until| cursor.key() < until) {
                    self.valid = true;
                    return Ok(());
                }
            }
            if !self.enter(self.at + 1) {
                self.valid = false;
                return Ok(());
            }
            let (cut_below, from) = {
                let part = &self.run.parts[self.at];
                (part.cut_below, part.from.clone())
            };
            let cursor = self.table()?;
            if cut_below {
                // Entries of a key are ordered from the newest version, so the greatest
                // version is before all of them.
                cursor.seek(&from, Version::MAX)?;
            } else {
                cursor.first()?;
            }
        }
    }

    /// After a step back, like [`RunCursor::enter_next_part`].
    fn enter_previous_part(&mut self) -> Result<(), StorageError> {
        self.apart = None;
        loop {
            let Some(cursor) = &self.cursor else {
                return Ok(());
            };
            let part = &self.run.parts[self.at];
            if cursor.valid() && (!part.cut_below || *cursor.key() >= *part.from) {
                self.valid = true;
                return Ok(());
            }
            let before = self.at.checked_sub(1);
            if !before.is_some_and(|before| self.enter(before)) {
                self.valid = false;
                return Ok(());
            }
            self.last_of_part()?;
        }
    }

    fn last_of_part(&mut self) -> Result<(), StorageError> {
        let until = if self.cut_above {
            self.run.parts[self.at].until.clone()
        } else {
            None
        };
        self.table()?.seek_before(until.as_deref())
    }
}

impl EntryCursor for RunCursor {
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        self.apart = None;
        if !self.enter(self.run.part_at(key)) {
            return Ok(());
        }
        let from = self.run.parts[self.at].from.clone();
        if *from > *key {
            self.table()?.seek(&from, Version::MAX)?;
        } else {
            self.table()?.seek(key, version)?;
        }
        self.enter_next_part()
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        self.apart = None;
        let part = match key {
            // The last part that begins before the key.
            Some(key) => self.run.parts.partition_point(|part| *part.from < *key),
            None => self.run.parts.len(),
        };
        let Some(at) = part.checked_sub(1) else {
            self.valid = false;
            return Ok(());
        };
        self.enter(at);
        match key {
            Some(key)
                if self.run.parts[at]
                    .until
                    .as_ref()
                    .is_none_or(|until| *key < **until) =>
            {
                self.table()?.seek_before(Some(key))?;
            }
            _ => self.last_of_part()?,
        }
        self.enter_previous_part()
    }

    #[inline]
    fn next(&mut self) -> Result<(), StorageError> {
        self.table()?.next()?;
        self.enter_next_part()
    }

    fn prev(&mut self) -> Result<(), StorageError> {
        self.table()?.prev()?;
        self.enter_previous_part()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], TableCursor::key)
    }

    #[inline]
    fn version(&self) -> Version {
        self.cursor.as_ref().map_or(0, TableCursor::version)
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        match self.cursor.as_ref().map(TableCursor::held) {
            Some(ValueKind::Deletion) | None => EntryKind::Delete,
            Some(ValueKind::Value | ValueKind::Apart) => EntryKind::Put,
        }
    }

    #[inline]
    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        let Some(cursor) = &self.cursor else {
            return Ok((&[], &[]));
        };
        if cursor.held() != ValueKind::Apart {
            return Ok((cursor.key(), cursor.value()));
        }
        if self.apart.is_none()
            && let Some(reference) = cursor.blob_ref()?
        {
            self.apart = Some(self.blobs.read(&reference)?);
        }
        Ok((cursor.key(), self.apart.as_deref().unwrap_or_default()))
    }

    #[inline]
    fn next_key(&mut self) -> Result<(), StorageError> {
        self.table()?.next_key()?;
        self.enter_next_part()
    }

    fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        while self.valid {
            let until = match self.cut_above {
                true => self.run.parts[self.at].until.as_deref(),
                false => None,
            };
            // The table does not know the part's end; the earlier of the two ends bounds the run in it.
            let end_here = match (end, until) {
                (Some(end), Some(until)) => Some(end.min(until)),
                (end, until) => end.or(until),
            };
            let cursor = self.cursor.as_mut().ok_or_else(nowhere)?;
            match cursor.run(end_here, at, visit)? {
                RunEnd::Broke => {
                    self.apart = None;
                    return Ok(ControlFlow::Break(()));
                }
                RunEnd::Apart => {
                    self.apart = None;
                    let (key, value) = self.pair()?;
                    if visit(key, value).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    self.next_key()?;
                }
                RunEnd::Ended => {
                    self.enter_next_part()?;
                    if self.valid
                        && (self.version() > at || end.is_some_and(|end| self.key() >= end))
                    {
                        break;
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn pass(&mut self, until: Option<&[u8]>, deleted_at: Version) -> Result<bool, StorageError> {
        let part = &self.run.parts[self.at];
        if part.table.properties.newest >= deleted_at {
            return Ok(false);
        }
        let whole = match (until, &part.until) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(until), Some(end)) => **end <= *until,
        };
        if whole {
            // Continue after the part.
            let cursor = self.table()?;
            cursor.seek_past_end();
            self.enter_next_part()?;
        } else if let Some(until) = until {
            self.table()?.seek(until, Version::MAX)?;
            self.enter_next_part()?;
        }
        Ok(true)
    }

    fn pass_back(&mut self, from: &[u8], deleted_at: Version) -> Result<bool, StorageError> {
        let part = &self.run.parts[self.at];
        if part.table.properties.newest >= deleted_at {
            return Ok(false);
        }
        if *part.from >= *from {
            self.table()?.seek_past_end();
        } else {
            self.table()?.seek_before(Some(from))?;
        }
        self.enter_previous_part()?;
        Ok(true)
    }

    fn blob_ref(&self) -> Result<Option<BlobRef>, StorageError> {
        match &self.cursor {
            Some(cursor) => cursor.blob_ref(),
            None => Ok(None),
        }
    }
}
