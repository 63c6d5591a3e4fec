//! The rows that an operator evaluates at once: all of a chunk, or fewer where the values computed for them are large.
//!
//! A batch whose values take more than their share of memory ([`ExecError::BatchFull`]) is evaluated again with fewer
//! rows, so that a statement over large values completes instead of being refused. Only the evaluation is repeated: an
//! operator changes nothing before its evaluation has succeeded.

use super::{Child, FULL_BATCH};
use crate::{
    chunk::Chunk,
    context::Cx,
    error::{ExecError, Result},
};

/// Computed values of less than this are not held for an operator that passes them on.
const MIN_HELD_BYTES: usize = 32 << 10;
/// Factor by which a batch shrinks after [`ExecError::BatchFull`].
const SHRINK_FACTOR: usize = 4;

/// Evaluates the rows of chunks piece by piece.
///
/// Memory: what was computed for the piece passed on last is held until the next one is asked for, when whatever
/// pulled it has used it or counts it itself.
pub(crate) struct Pieces {
    /// The chunk at hand, and its first row that is still to be evaluated.
    rest: Option<(Chunk, usize)>,
    /// Most rows at once.
    rows: usize,
    held: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            rest: None,
            rows: usize::MAX,
            held: 0,
        }
    }
}

impl Pieces {
    /// What `evaluate` computes for the next rows of `input`, and these rows; none at the end. A piece may be empty.
    pub(crate) fn next<T>(
        &mut self,
        input: &mut Child,
        cx: &mut Cx<'_>,
        evaluate: impl FnMut(&mut Chunk, &mut Cx<'_>) -> Result<T>,
    ) -> Result<Option<(Chunk, T)>> {
        self.release(cx);
        if self.rest.is_none() {
            self.rest = input.pull(cx)?.map(|chunk| (chunk, 0));
        }
        let Some((piece, value, computed)) = self.evaluate(cx, evaluate)? else {
            return Ok(None);
        };
        if computed >= MIN_HELD_BYTES {
            cx.run.watch.hold(computed)?;
            self.held = computed;
        }
        Ok(Some((piece, value)))
    }

    /// Calls `work` with all rows of a chunk, piece by piece. It evaluates first, calls
    /// [`LimitGuard::use_computed`](crate::limits::LimitGuard::use_computed), and only then changes anything.
    pub(crate) fn each(
        &mut self,
        chunk: Chunk,
        cx: &mut Cx<'_>,
        mut work: impl FnMut(&mut Chunk, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        self.rest = Some((chunk, 0));
        while let Some((_, (), computed)) = self.evaluate(cx, &mut work)? {
            if computed >= MIN_HELD_BYTES {
                cx.run.watch.release(0);
            }
        }
        Ok(())
    }

    /// Evaluates the next rows of the chunk at hand: these rows, what came out, and the bytes computed.
    fn evaluate<T>(
        &mut self,
        cx: &mut Cx<'_>,
        mut evaluate: impl FnMut(&mut Chunk, &mut Cx<'_>) -> Result<T>,
    ) -> Result<Option<(Chunk, T, usize)>> {
        while let Some((mut chunk, at)) = self.rest.take() {
            // Values are computed for flat rows too, of which there may be more than rows.
            let is_whole = at == 0 && chunk.row_count().max(chunk.len()) <= self.rows;
            let mut piece = if is_whole {
                std::mem::take(&mut chunk)
            } else {
                chunk.flatten();
                let end = chunk.len().min(at.saturating_add(self.rows));
                let rows: Vec<u32> = (at as u32..end as u32).collect();
                chunk.gather(&rows)
            };
            let rows = piece.row_count();
            let has_several = piece.len() > 1 || rows > 1;
            let (outcome, computed) = cx.evaluate(has_several, |cx| evaluate(&mut piece, cx));
            match outcome {
                Err(ExecError::BatchFull) if has_several => {
                    self.rows = (rows.max(piece.len()) / SHRINK_FACTOR).max(1);
                    // Where it was the whole chunk, rows that it has lost since are lost.
                    self.rest = Some(if is_whole { (piece, 0) } else { (chunk, at) });
                }
                Err(error) => return Err(error),
                Ok(value) => {
                    if !is_whole && at + rows < chunk.len() {
                        self.rest = Some((chunk, at + rows));
                    }
                    self.grow(computed, cx);
                    return Ok(Some((piece, value, computed)));
                }
            }
        }
        Ok(None)
    }

    /// More rows at once again, where the last ones took little.
    fn grow(&mut self, computed: usize, cx: &Cx<'_>) {
        if self.rows < FULL_BATCH && computed < cx.run.watch.batch_bytes() / 4 {
            self.rows *= 2;
        } else if self.rows >= FULL_BATCH {
            self.rows = usize::MAX;
        }
    }

    /// Gives back what is held for the piece passed on last.
    fn release(&mut self, cx: &mut Cx<'_>) {
        if self.held > 0 {
            cx.run.watch.release(std::mem::take(&mut self.held));
        }
    }

    /// Starts again with other rows.
    pub(crate) fn open(&mut self) {
        self.rest = None;
    }

    /// Gives back what it holds.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        self.rest = None;
        self.release(cx);
    }
}
