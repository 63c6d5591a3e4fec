//! Rows on disk in the order of arrival.

use std::{io::Write, sync::Arc};

use isomer_data::{SpillFile, SpillFolder, SpillReader, SpillRun};
use isomer_plan::physical::OpId;
use isomer_value::Value;

use super::{
    codec::{keep_small, put_row, read_row},
    files::{failed, folder, note},
    rows::{Gathered, Layout, Room},
};
use crate::{chunk::Chunk, context::Cx, error::Result, operator::FULL_BATCH};

/// Rows on disk: written first, then read, any number of times.
pub(crate) struct Spool {
    op: OpId,
    folder: Arc<SpillFolder>,
    file: SpillFile,
    runs: Vec<SpillRun>,
    layout: Layout,
}

impl Spool {
    /// An empty one.
    pub(crate) fn new(op: OpId, cx: &Cx<'_>) -> Result<Self> {
        let folder = folder(cx);
        let file = folder.file().map_err(failed(&folder))?;
        Ok(Self {
            op,
            folder,
            file,
            runs: Vec::new(),
            layout: Layout::default(),
        })
    }

    /// Appends the rows of a chunk without list group.
    pub(crate) fn push(&mut self, chunk: &Chunk, cx: &mut Cx<'_>) -> Result<()> {
        let failed = failed(&self.folder);
        self.layout.add_columns(chunk);
        let before = self.file.bytes();
        let mut out = self.file.writer();
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for row in 0..chunk.len() {
            values.clear();
            bytes.clear();
            self.layout.push_row(chunk, row, &mut values);
            put_row(&mut bytes, values.iter())?;
            out.write_all(&bytes).map_err(&failed)?;
            keep_small(&mut bytes);
        }
        // A run for each chunk: it can be read as soon as it is written.
        self.runs.push(out.finish().map_err(&failed)?);
        let written = self.file.bytes() - before;
        note(cx, self.op, written);
        cx.tick(chunk.len())
    }

    /// Reads it from its start.
    pub(crate) fn reader(&self) -> SpoolReader {
        SpoolReader {
            runs: self.runs.clone().into_iter(),
            input: None,
            buffer: Vec::new(),
            room: None,
        }
    }
}

/// Reads a spool.
pub(crate) struct SpoolReader {
    runs: std::vec::IntoIter<SpillRun>,
    input: Option<SpillReader>,
    buffer: Vec<u8>,
    /// None before the first rows.
    room: Option<Room>,
}

impl SpoolReader {
    /// The next rows; none at the end.
    pub(crate) fn next_chunk(&mut self, spool: &Spool, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let mut rows = Gathered::new(&spool.layout);
        let mut values: Vec<Value> = Vec::new();
        let room = self.room.get_or_insert_with(|| Room::new(cx));
        room.begin();
        let mut has_room = true;
        while has_room && rows.len() < FULL_BATCH {
            if self.input.as_ref().is_none_or(SpillReader::is_at_end) {
                let Some(run) = self.runs.next() else { break };
                self.input = Some(run.reader());
            }
            let Some(input) = &mut self.input else { break };
            if read_row(input, &mut self.buffer, &mut values).map_err(failed(&spool.folder))? {
                rows.push(values.drain(..));
                has_room = room.add(self.buffer.len())?;
                keep_small(&mut self.buffer);
            }
        }
        cx.tick(rows.len())?;
        Ok((rows.len() > 0).then(|| rows.into_chunk(&spool.layout)))
    }
}
