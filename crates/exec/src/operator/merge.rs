//! Match or create, row by row: each row sees what the rows before it created.

use isomer_plan::physical::{CreateItem, Op, Properties};

use super::{
    Argument, Child, Operate, OperatorRef,
    scan::misplaced,
    write::{NullProperty, apply_items, create_rows, pattern_properties},
};
use crate::{chunk::Chunk, context::Cx, error::Result, eval::Row};

/// Runs the matching side for each row; creates the pattern if it finds nothing.
pub(super) struct Merge {
    op_ref: OperatorRef,
    input: Child,
    matching: Child,
    chunk: Option<Chunk>,
    row: usize,
}

impl Merge {
    pub(super) fn new(op_ref: OperatorRef, input: Child, matching: Child) -> Self {
        Self {
            op_ref,
            input,
            matching,
            chunk: None,
            row: 0,
        }
    }
}

impl Operate for Merge {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Merge(merge) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if self
            .chunk
            .as_ref()
            .is_none_or(|chunk| self.row >= chunk.len())
        {
            self.chunk = self.input.pull_flat(cx)?;
            self.row = 0;
        }
        let Some(chunk) = &self.chunk else {
            return Ok(None);
        };
        // One row at a time: a later row must find what an earlier one created.
        let outer = chunk.gather(&[self.row as u32]);
        self.row += 1;
        // A null property is an error even if a match exists.
        for item in &merge.create.items {
            let properties = match item {
                CreateItem::Node(node) => &node.properties,
                CreateItem::Relationship(one) => &one.properties,
            };
            if reads_only(properties, &outer) {
                pattern_properties(
                    properties,
                    Row {
                        chunk: &outer,
                        row: 0,
                    },
                    NullProperty::Refused,
                    cx,
                )?;
            }
        }
        self.matching.open(&Argument::new(outer.clone()));
        let mut found = Chunk::default();
        while let Some(matched) = self.matching.pull_flat(cx)? {
            found.append(matched);
        }
        // Closed before anything is created, so that none of its operators is open during the writes.
        self.matching.close(cx);
        let mut made = if !found.is_empty() {
            for slot in outer.slots() {
                if found.column(slot).is_none() {
                    found.set(slot, crate::column::Column::Const(outer.value(slot, 0)));
                }
            }
            for row in 0..found.len() {
                apply_items(&merge.on_match, Row { chunk: &found, row }, cx)?;
            }
            found
        } else {
            let made = create_rows(&merge.create, outer, NullProperty::Refused, cx)?;
            apply_items(
                &merge.on_create,
                Row {
                    chunk: &made,
                    row: 0,
                },
                cx,
            )?;
            made
        };
        op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunk = None;
        self.row = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.matching.close(cx);
        self.chunk = None;
    }
}

/// Whether properties read only slots of the input row: then they can be checked before matching.
fn reads_only(properties: &Properties, row: &Chunk) -> bool {
    let mut known = true;
    let mut look = |slot| known &= row.column(slot).is_some();
    match properties {
        Properties::Entries(entries) => entries
            .iter()
            .for_each(|(_, expr)| expr.for_each_slot(&mut look)),
        Properties::Map(expr) => expr.for_each_slot(&mut look),
    }
    known
}
