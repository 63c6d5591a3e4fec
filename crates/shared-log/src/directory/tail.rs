//! Writing frames at the tail of a segment.
//!
//! The file grows in steps, with zeros ahead of the frames. Where the disk maps files, the part ahead of the tail is
//! mapped into memory, and a frame is copied to it without a system call: other processes read it from the file at
//! once, it survives the end of this process like any other write, and a sync of the file covers it. A frame that is
//! large, or for which the disk maps nothing, is written with a call.
//!
//! So are the first frames after a sync. A sync makes the pages of the mapping read-only, the next store to each of
//! them is a page fault, and the sync after that takes longer by half: 172 instead of 116 µs (ext4, one frame each).

use std::{io, sync::Arc};

use isomer_vfs::FileMapping;

use super::{
    frame::{HEAD_BYTES, frame_bytes},
    segment::Segment,
    segments::Segments,
};
use crate::{LogError, Position};

/// A larger frame is written with a call, which costs less than a page fault for each page that it would be copied to.
const MAX_COPIED_BYTES: u64 = 4 << 10;
/// A larger frame is not copied to become one write, and makes the file only as long as it is: a sync would write more
/// zeros than records.
const MAX_JOINED_BYTES: u64 = 64 << 10;
/// The number of frames after a sync that are written with calls, which together cost as much as the longer sync.
const CALLS_AFTER_SYNC: u64 = 64;
/// The most that is mapped at once.
const MAX_PART_BYTES: u64 = 1 << 20;

/// Writes the frames of one handle, which has the append lock whenever it does.
#[derive(Debug)]
pub(super) struct TailWriter {
    /// What a segment grows by.
    step_bytes: u64,
    active: Option<ActiveSegment>,
}

/// The segment that has the tail.
#[derive(Debug)]
pub(super) struct ActiveSegment {
    pub(super) segment: Arc<Segment>,
    step_bytes: u64,
    /// The file is at least that long.
    len: u64,
    part: Part,
    /// The frame that was written last with one call; kept for its memory.
    joined: Vec<u8>,
}

/// A part of a segment that is in the file.
#[derive(Debug, Default)]
struct Part {
    start: u64,
    end: u64,
    /// `None` if the disk does not map it.
    mapping: Option<Box<dyn FileMapping>>,
}

impl TailWriter {
    pub(super) fn new(step_bytes: u64) -> Self {
        Self {
            step_bytes,
            active: None,
        }
    }

    /// The segment that begins with `first`, which has the tail.
    pub(super) fn active(
        &mut self,
        segments: &Segments,
        first: Position,
    ) -> Result<&mut ActiveSegment, LogError> {
        let is_other = |active: &ActiveSegment| active.segment.header.first != first;
        if self.active.as_ref().is_some_and(is_other) {
            self.active = None;
        }
        match &mut self.active {
            Some(active) => Ok(active),
            none => Ok(none.insert(ActiveSegment {
                segment: segments.existing(first)?,
                step_bytes: self.step_bytes,
                len: 0,
                part: Part::default(),
                joined: Vec::new(),
            })),
        }
    }
}

impl ActiveSegment {
    /// Writes the frame of `record` at `offset`, the tail; `unsynced` records before it are not synced. After an error
    /// a part of it may be there.
    pub(super) fn write(
        &mut self,
        offset: u64,
        head: &[u8; HEAD_BYTES],
        record: &[u8],
        unsynced: u64,
    ) -> io::Result<()> {
        let bytes = frame_bytes(record.len());
        if bytes > MAX_COPIED_BYTES {
            return self.write_large(offset, head, record);
        }
        let end = offset + bytes;
        if offset < self.part.start || end > self.part.end {
            self.part = self.part_from(offset, end)?;
        }
        let Some(mapping) = &mut self.part.mapping else {
            return self.write_joined(offset, head, record);
        };
        if unsynced < CALLS_AFTER_SYNC {
            return self.write_joined(offset, head, record);
        }
        let padding = bytes as usize - HEAD_BYTES - record.len();
        mapping.write_at(record, offset + HEAD_BYTES as u64)?;
        mapping.write_at(&[0; 8][..padding], end - padding as u64)?;
        // Until the record is complete, other processes find the end of the log here.
        mapping.write_at(head, offset)
    }

    /// The part from `start` on, at least to `end`. If the file is too short, it grows by zeros up to the next step:
    /// the disk may become full there, and then nothing of the frame is written.
    fn part_from(&mut self, start: u64, end: u64) -> io::Result<Part> {
        let file = &self.segment.file;
        // Another process may have made it longer.
        self.len = file.len()?;
        if self.len < end {
            let grown = end.next_multiple_of(self.step_bytes);
            file.write_zeros(self.len, grown - self.len)?;
            self.len = grown;
        }
        let end = self.len.min(start + MAX_PART_BYTES);
        // If the system maps no more files or the disk is full, the write that follows reports it.
        let mapping = file.map(start, (end - start) as usize);
        Ok(Part {
            start,
            end,
            mapping: mapping.unwrap_or_default(),
        })
    }

    /// Writes the frame of `record` with calls. The zeros after it are first, for the reason of those in
    /// [`ActiveSegment::part_from`].
    fn write_large(
        &mut self,
        offset: u64,
        head: &[u8; HEAD_BYTES],
        record: &[u8],
    ) -> io::Result<()> {
        let file = &self.segment.file;
        let bytes = frame_bytes(record.len());
        let end = offset + bytes;
        if bytes > MAX_JOINED_BYTES {
            let padding = bytes as usize - HEAD_BYTES - record.len();
            file.write_all_at(&[0; 8][..padding], end - padding as u64)?;
            file.write_all_at(record, offset + HEAD_BYTES as u64)?;
            self.len = self.len.max(end);
            // Until the record is complete, other processes find the end of the log here.
            return file.write_all_at(head, offset);
        }
        if self.len < end {
            self.len = file.len()?;
            let grown = end.next_multiple_of(self.step_bytes);
            if self.len < grown && end < grown {
                file.write_zeros(end, grown - end)?;
                self.len = grown;
            }
        }
        self.write_joined(offset, head, record)
    }

    /// Writes the frame of `record` with one call.
    fn write_joined(
        &mut self,
        offset: u64,
        head: &[u8; HEAD_BYTES],
        record: &[u8],
    ) -> io::Result<()> {
        let joined = &mut self.joined;
        joined.clear();
        joined.extend_from_slice(head);
        joined.extend_from_slice(record);
        joined.resize(frame_bytes(record.len()) as usize, 0);
        self.segment.file.write_all_at(joined, offset)
    }
}
