//! External merge sort.

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

use isomer_data::{SPILL_BLOCK_BYTES, SpillFile, SpillFolder, SpillReader, SpillRun};
use isomer_plan::physical::OpId;
use isomer_value::{Value, order::cmp_order};

use super::{
    codec::{keep_small, put_row, read_row},
    files::{failed, folder, most_open, note},
    rows::{Gathered, Layout, Room},
};
use crate::{chunk::Chunk, context::Cx, error::Result, operator::FULL_BATCH};

/// Maximum number of batches for the next rows of all merged runs.
const HEAD_BATCHES: usize = 2;

/// Sorted runs of rows in files. Of rows with equal keys those of the earlier run come first, so that the sort is
/// stable if each run is.
pub(crate) struct SortedRuns {
    op: OpId,
    folder: Arc<SpillFolder>,
    file: Option<SpillFile>,
    /// One per key.
    descending: Arc<[bool]>,
    runs: Vec<SpillRun>,
    /// Bytes of the largest row so far.
    largest_row: usize,
}

impl SortedRuns {
    /// No runs yet; `descending` gives the sort direction per key.
    pub(crate) fn new(op: OpId, descending: impl IntoIterator<Item = bool>, cx: &Cx<'_>) -> Self {
        Self {
            op,
            folder: folder(cx),
            file: None,
            descending: descending.into_iter().collect(),
            runs: Vec::new(),
            largest_row: 0,
        }
    }

    /// Adds a run: `fill` pushes its rows in their order.
    pub(crate) fn add(
        &mut self,
        cx: &mut Cx<'_>,
        fill: impl FnOnce(&mut RunWriter<'_>, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        let failed = failed(&self.folder);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.folder.file().map_err(&failed)?),
        };
        let before = file.bytes();
        let mut writer = RunWriter {
            folder: &self.folder,
            out: file.writer(),
            row: Vec::new(),
            largest_row: 0,
        };
        fill(&mut writer, cx)?;
        self.largest_row = self.largest_row.max(writer.largest_row);
        let run = writer.out.finish().map_err(&failed)?;
        if !run.is_empty() {
            self.runs.push(run);
        }
        let written = file.bytes() - before;
        note(cx, self.op, written);
        Ok(())
    }

    /// The rows of all runs in order; `layout` describes the values that follow the keys.
    pub(crate) fn merge(mut self, layout: Layout, cx: &mut Cx<'_>) -> Result<MergedRows> {
        // The next row of each run that is open is in memory.
        let rows = HEAD_BATCHES * cx.run.watch.batch_bytes() / self.largest_row.max(1);
        let most = most_open(cx).min(rows).max(2);
        // Several passes if there are more runs than files may be open: each pass divides their number by the fan-in.
        while self.runs.len() > most {
            let runs = std::mem::take(&mut self.runs);
            let mut fewer = Self {
                op: self.op,
                folder: self.folder.clone(),
                file: None,
                descending: self.descending.clone(),
                runs: Vec::new(),
                largest_row: self.largest_row,
            };
            for some in runs.chunks(most) {
                let mut merge = Merge::new(&self, some, cx)?;
                fewer.add(cx, |writer, cx| {
                    while let Some((row, _)) = merge.next(cx)? {
                        writer.push(&row)?;
                    }
                    Ok(())
                })?;
            }
            self = fewer;
        }
        let runs = std::mem::take(&mut self.runs);
        let mut room = Room::new(cx);
        // Heads of small rows are as little as the buffers of the files. One row is read.
        if self.largest_row >= SPILL_BLOCK_BYTES {
            room.keep((runs.len() + 1) * self.largest_row)?;
        }
        Ok(MergedRows {
            merge: Merge::new(&self, &runs, cx)?,
            layout,
            room,
        })
    }
}

/// Writes one run.
pub(crate) struct RunWriter<'f> {
    folder: &'f SpillFolder,
    out: isomer_data::SpillWriter<'f>,
    row: Vec<u8>,
    largest_row: usize,
}

impl RunWriter<'_> {
    /// Adds a row: its keys, then its values.
    pub(crate) fn push(&mut self, row: &[Value]) -> Result<()> {
        self.row.clear();
        put_row(&mut self.row, row.iter())?;
        self.largest_row = self.largest_row.max(self.row.len());
        std::io::Write::write_all(&mut self.out, &self.row).map_err(failed(self.folder))?;
        keep_small(&mut self.row);
        Ok(())
    }
}

/// Merges runs.
struct Merge {
    folder: Arc<SpillFolder>,
    descending: Arc<[bool]>,
    inputs: Vec<SpillReader>,
    heads: BinaryHeap<Head>,
    buffer: Vec<u8>,
}

/// The next row of a run.
struct Head {
    row: Vec<Value>,
    /// Its bytes on disk.
    bytes: usize,
    run: usize,
    descending: Arc<[bool]>,
}

impl Merge {
    fn new(runs: &SortedRuns, some: &[SpillRun], cx: &mut Cx<'_>) -> Result<Self> {
        let mut merge = Self {
            folder: runs.folder.clone(),
            descending: runs.descending.clone(),
            inputs: some.iter().map(SpillRun::reader).collect(),
            heads: BinaryHeap::with_capacity(some.len()),
            buffer: Vec::new(),
        };
        for run in 0..some.len() {
            cx.tick(1)?;
            merge.advance(run, Vec::new())?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize, mut row: Vec<Value>) -> Result<()> {
        let more = read_row(&mut self.inputs[run], &mut self.buffer, &mut row)
            .map_err(failed(&self.folder))?;
        if more {
            self.heads.push(Head {
                row,
                bytes: self.buffer.len(),
                run,
                descending: self.descending.clone(),
            });
        }
        keep_small(&mut self.buffer);
        Ok(())
    }

    /// The next row, keys first, and its bytes on disk.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<(Vec<Value>, usize)>> {
        cx.tick(1)?;
        let Some(head) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(head.run, Vec::with_capacity(head.row.len()))?;
        Ok(Some((head.row, head.bytes)))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The greatest comes first: the row that is returned next.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.row.iter().zip(&other.row).zip(&*self.descending);
        keys.map(|((mine, theirs), descending)| {
            let order = cmp_order(theirs, mine);
            if *descending { order.reverse() } else { order }
        })
        .find(|order| order.is_ne())
        // Equal keys: the earlier run first, which makes the merge stable.
        .unwrap_or_else(|| other.run.cmp(&self.run))
    }
}

/// The rows of sorted runs, in order.
pub(crate) struct MergedRows {
    merge: Merge,
    layout: Layout,
    room: Room,
}

impl MergedRows {
    /// The next rows, at most `most`; none at the end.
    pub(crate) fn next_chunk(&mut self, most: usize, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let keys = self.merge.descending.len();
        let mut rows = Gathered::new(&self.layout);
        self.room.begin();
        let mut has_room = true;
        while has_room
            && rows.len() < most.min(FULL_BATCH)
            && let Some((row, bytes)) = self.merge.next(cx)?
        {
            rows.push(row.into_iter().skip(keys));
            has_room = self.room.add(bytes)?;
        }
        Ok((rows.len() > 0).then(|| rows.into_chunk(&self.layout)))
    }
}
