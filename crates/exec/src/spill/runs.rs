//! External merge sort.

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc};

use isomer_data::{SpillFile, SpillFolder, SpillReader, SpillRun};
use isomer_plan::physical::OpId;
use isomer_value::{Value, order::cmp_order};

use super::{
    codec::{put_row, read_row},
    failed, folder, most_open, note,
    rows::{Gathered, Layout},
};
use crate::{chunk::Chunk, context::Cx, error::Result, operator::FULL_BATCH};

/// Sorted runs of rows in files. Of rows with equal keys those of the earlier run come first, so that the sort is stable
/// if each run is.
pub(crate) struct SortedRuns {
    op: OpId,
    folder: Arc<SpillFolder>,
    file: Option<SpillFile>,
    /// One per key.
    descending: Arc<[bool]>,
    runs: Vec<SpillRun>,
}

impl SortedRuns {
    /// No runs yet; `descending` says for each key of a row which way it is sorted.
    pub(crate) fn new(op: OpId, descending: impl IntoIterator<Item = bool>, cx: &Cx<'_>) -> Self {
        Self {
            op,
            folder: folder(cx),
            file: None,
            descending: descending.into_iter().collect(),
            runs: Vec::new(),
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
        };
        fill(&mut writer, cx)?;
        let run = writer.out.finish().map_err(&failed)?;
        if !run.is_empty() {
            self.runs.push(run);
        }
        let written = file.bytes() - before;
        note(cx, self.op, written);
        Ok(())
    }

    /// The rows of all runs in order; `layout` says what is in them beside the keys.
    pub(crate) fn merge(mut self, layout: Layout, cx: &mut Cx<'_>) -> Result<MergedRows> {
        let most = most_open(cx);
        while self.runs.len() > most {
            let runs = std::mem::take(&mut self.runs);
            let mut fewer = Self {
                op: self.op,
                folder: self.folder.clone(),
                file: None,
                descending: self.descending.clone(),
                runs: Vec::new(),
            };
            for some in runs.chunks(most) {
                let mut merge = Merge::new(&self, some, cx)?;
                fewer.add(cx, |writer, cx| {
                    while let Some(row) = merge.next(cx)? {
                        writer.push(&row)?;
                    }
                    Ok(())
                })?;
            }
            self = fewer;
        }
        let runs = std::mem::take(&mut self.runs);
        Ok(MergedRows {
            merge: Merge::new(&self, &runs, cx)?,
            layout,
        })
    }
}

/// Writes one run.
pub(crate) struct RunWriter<'f> {
    folder: &'f SpillFolder,
    out: isomer_data::SpillWriter<'f>,
    row: Vec<u8>,
}

impl RunWriter<'_> {
    /// Adds a row: its keys, then its values.
    pub(crate) fn push(&mut self, row: &[Value]) -> Result<()> {
        self.row.clear();
        put_row(&mut self.row, row.iter())?;
        std::io::Write::write_all(&mut self.out, &self.row).map_err(failed(self.folder))
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
                run,
                descending: self.descending.clone(),
            });
        }
        Ok(())
    }

    /// The next row, keys first.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Vec<Value>>> {
        cx.tick(1)?;
        let Some(head) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(head.run, Vec::with_capacity(head.row.len()))?;
        Ok(Some(head.row))
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

/// The greatest comes first: the row that is to be given next.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.row.iter().zip(&other.row).zip(&*self.descending);
        keys.map(|((mine, theirs), descending)| {
            let order = cmp_order(theirs, mine);
            if *descending { order.reverse() } else { order }
        })
        .find(|order| order.is_ne())
        .unwrap_or_else(|| other.run.cmp(&self.run))
    }
}

/// The rows of sorted runs, in order.
pub(crate) struct MergedRows {
    merge: Merge,
    layout: Layout,
}

impl MergedRows {
    /// The next rows, at most `most`; none at the end.
    pub(crate) fn next_chunk(&mut self, most: usize, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let keys = self.merge.descending.len();
        let mut rows = Gathered::new(&self.layout);
        while rows.len() < most.min(FULL_BATCH)
            && let Some(row) = self.merge.next(cx)?
        {
            rows.push(row.into_iter().skip(keys));
        }
        Ok((rows.len() > 0).then(|| rows.into_chunk(&self.layout)))
    }
}
