//! The leaf: outer rows.

use super::{Argument, Operate};
use crate::{chunk::Chunk, context::Cx, error::Result};

/// Hands out the outer rows once.
pub(super) struct ArgumentRows {
    rows: Option<Argument>,
}

impl ArgumentRows {
    pub(super) fn new(argument: &Argument) -> Self {
        Self {
            rows: Some(argument.clone()),
        }
    }
}

impl Operate for ArgumentRows {
    fn next(&mut self, _: &mut Cx<'_>) -> Result<Option<Chunk>> {
        Ok(self.rows.take().map(|argument| argument.chunk().clone()))
    }

    fn open(&mut self, argument: &Argument) {
        self.rows = Some(argument.clone());
    }

    fn close(&mut self, _: &mut Cx<'_>) {
        self.rows = None;
    }
}
