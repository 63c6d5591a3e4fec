//! One step along relationships: to neighbours, between bound nodes, counted, or checked.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::{
    expr::SlotId,
    physical::{self, Direction, Op, StatementClass},
};
use isomer_value::{NodeId, RelId, TypeId, Value};
use rustc_hash::FxHashMap;

use super::{Argument, Child, Operate, OperatorRef, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::{Column, rel_row},
    context::{Cx, TypeFilter},
    dense::{WalkScratch, Walks, small},
    error::{ExecError, Result, shown},
};

/// Target number of neighbours per call: input rows are batched by their expected neighbours, and a batch is cut when
/// it has more.
const NEIGHBOURS_PER_CALL: usize = 4096;
/// The first batch reads this many nodes, and each following batch twice as many, so that a run of nodes with far more
/// neighbours than those before is cut in time.
const FIRST_READ: usize = 8;

/// The relationships that a new one must differ from.
pub(super) struct Used<'c>(Vec<&'c Column>);

impl<'c> Used<'c> {
    pub(super) fn new(slots: &[SlotId], chunk: &'c Chunk) -> Self {
        Self(
            slots
                .iter()
                .filter_map(|slot| chunk.column(*slot))
                .collect(),
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether row `row` uses the relationship.
    pub(super) fn contains(&self, row: usize, id: RelId) -> bool {
        self.0.iter().any(|column| match column {
            Column::Rels(rels) => rels[row].id == id,
            Column::Values(values) => holds(&values[row], id),
            Column::Const(value) => holds(value, id),
            _ => false,
        })
    }

    /// Fills `rows` with the relationships that row `row` uses, each once.
    pub(super) fn rows(&self, row: usize, rows: &mut Vec<RelRow>) {
        rows.clear();
        for column in &self.0 {
            match column {
                Column::Rels(rels) => rows.push(rels[row]),
                other => match other.get(row) {
                    Value::Relationship(one) => rows.push(rel_row(&one)),
                    Value::List(items) => {
                        rows.extend(
                            items
                                .iter()
                                .filter_map(|item| item.as_relationship().map(rel_row)),
                        );
                    }
                    _ => {}
                },
            }
        }
        if rows.len() > 1 {
            // A relationship may be in several of the slots, but must take only
            // one end, or one count, away.
            rows.sort_unstable_by_key(|rel| rel.id);
            rows.dedup_by_key(|rel| rel.id);
        }
    }

    /// The relationships that row `row` uses.
    pub(super) fn ids(&self, row: usize) -> Vec<RelId> {
        let mut ids = Vec::new();
        for column in &self.0 {
            match column.get(row) {
                Value::Relationship(one) => ids.push(one.id),
                Value::List(items) => ids.extend(
                    items
                        .iter()
                        .filter_map(|item| item.as_relationship().map(|one| one.id)),
                ),
                _ => {}
            }
        }
        ids
    }
}

fn holds(value: &Value, id: RelId) -> bool {
    match value {
        Value::Relationship(one) => one.id == id,
        Value::List(items) => items.iter().any(|item| holds(item, id)),
        _ => false,
    }
}

/// The nodes of a slot; rows with null are left out.
pub(super) fn bound_nodes(chunk: &Chunk, slot: SlotId) -> Result<(Vec<u32>, Vec<NodeId>)> {
    match chunk.column(slot) {
        Some(Column::Nodes(nodes)) => Ok(((0..nodes.len() as u32).collect(), nodes.clone())),
        None => Ok((Vec::new(), Vec::new())),
        Some(other) => {
            let (mut rows, mut nodes) = (Vec::new(), Vec::new());
            for row in 0..chunk.len() {
                match other.node(row) {
                    Some(node) => {
                        rows.push(row as u32);
                        nodes.push(node);
                    }
                    None if other.is_null(row) => {}
                    None => {
                        return Err(ExecError::type_mismatch(format!(
                            "a pattern starts at a node, not at {}",
                            shown(&other.get(row))
                        )));
                    }
                }
            }
            Ok((rows, nodes))
        }
    }
}

/// From bound nodes to their neighbours.
pub(super) struct Expand {
    op_ref: OperatorRef,
    input: Child,
    chunk: Option<Chunk>,
    /// First row of `chunk` that was not expanded yet.
    row: usize,
    /// Rows to expand at once: adapts to the number of neighbours found per row.
    step: usize,
    found: Neighbours,
    /// Cached neighbours: walks often return to the same nodes. Only in statements that write nothing.
    remembered: FxHashMap<NodeId, Box<[RelRow]>>,
    held: usize,
    /// Neighbours from the read views, if they are available and no operator reads the relationships.
    walks: Option<Walks>,
    scratch: WalkScratch,
}

impl Expand {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            walks: None,
            scratch: WalkScratch::default(),
            op_ref,
            input,
            chunk: None,
            row: 0,
            step: 64,
            found: Neighbours::new(),
            remembered: FxHashMap::default(),
            held: 0,
        }
    }

    /// Fills `found` with one group per node, for the first nodes that together have enough neighbours.
    fn read(
        &mut self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        self.found.clear();
        let (mut done, mut step) = (0, FIRST_READ);
        while done < nodes.len() && self.found.rows().len() < NEIGHBOURS_PER_CALL {
            let before = self.found.rows().len();
            let end = (done + step).min(nodes.len());
            self.read_more(&nodes[done..end], direction, types, cx)?;
            let found = self.found.rows();
            cx.tick(found.len() - before + end - done)?;
            cx.run.watch.allow(size_of_val(found))?;
            (done, step) = (end, 2 * step);
        }
        Ok(done)
    }

    /// Adds one group per node to `found`.
    fn read_more(
        &mut self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        // Ascending nodes come from a scan: each occurs once, and a cache would only cost. A statement that writes
        // must see its own changes.
        let ascending = nodes.windows(2).all(|pair| pair[0] < pair[1]);
        if ascending || self.op_ref.plan.class != StatementClass::Read {
            return Ok(cx
                .reader()
                .expand(nodes, direction, types, &mut self.found)?);
        }
        let mut missing: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|node| !self.remembered.contains_key(node))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        let mut read = Neighbours::new();
        cx.reader().expand(&missing, direction, types, &mut read)?;
        let bytes = size_of_val(read.rows()) + missing.len() * 48;
        // A cache may not push the operators above to disk: it takes a fraction, and is dropped as a whole when it is
        // full.
        let most = cx.run.watch.limits().memory_bytes / 8;
        if self.held + bytes > most || cx.run.watch.hold(bytes).is_err() {
            self.forget(cx);
            return Ok(cx
                .reader()
                .expand(nodes, direction, types, &mut self.found)?);
        }
        self.held += bytes;
        for (at, node) in missing.iter().enumerate() {
            self.remembered.insert(*node, read.of(at).into());
        }
        for node in nodes {
            if let Some(known) = self.remembered.get(node) {
                known.iter().for_each(|rel| self.found.push(*rel));
            }
            self.found.end_group();
        }
        Ok(())
    }

    fn forget(&mut self, cx: &mut Cx<'_>) {
        // A new map: `clear` would keep the capacity, which is part of what is released.
        self.remembered = FxHashMap::default();
        cx.run.watch.release(std::mem::take(&mut self.held));
    }

    /// Expands the rows of `chunk` to other ends only.
    ///
    /// A relationship that a row already uses must not be found again. Since no operator reads which relationship led
    /// to an end, it is enough to remove its other end once.
    fn over_views(
        &mut self,
        walks: &Walks,
        expand: &physical::Expand,
        filter: &TypeFilter,
        mut chunk: Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<Chunk> {
        let wants_ends = self.op_ref.is_live(expand.to);
        let (mut rows, mut nodes) = bound_nodes(&chunk, expand.from)?;
        let counted = expand.group && !wants_ends && expand.distinct_from.is_empty();
        if !counted {
            // Degrees are cheap in the view: rows beyond a batch of neighbours are put back before any list is
            // built.
            let (kept, promised) = self.fitting(walks, &nodes);
            if let Some(row) = rows.get(kept).map(|row| *row as usize) {
                rows.truncate(kept);
                nodes.truncate(kept);
                chunk = self.put_back(chunk, row);
            }
            // Reserved before it is allocated: a single node may have millions of neighbours.
            let per_row = self.row_bytes(expand, &chunk);
            cx.run.watch.allow(promised.saturating_mul(per_row))?;
        }
        let used = Used::new(&expand.distinct_from, &chunk);
        // Rows with null were left out of `nodes`: they get an empty group.
        let mut groups = rows.iter().zip(&nodes).peekable();
        let mut offsets = Vec::with_capacity(chunk.len() + 1);
        offsets.push(0_u32);
        let (mut ends, mut count) = (Vec::new(), 0_usize);
        let mut barred = Vec::new();
        for row in 0..chunk.len() {
            let at_row = groups.next_if(|(at, _)| **at as usize == row);
            if let Some(node) = at_row.and_then(|(_, node)| small(*node)) {
                // Only counted: the list stays empty, its offsets alone carry the multiplicity.
                if !wants_ends && used.is_empty() {
                    count += walks.degree(node, &mut self.scratch) as usize;
                } else {
                    let neighbours = walks.neighbours(node, &mut self.scratch);
                    let start = ends.len();
                    ends.extend(neighbours.iter().map(|end| NodeId(u64::from(*end))));
                    if !used.is_empty() {
                        used.rows(row, &mut barred);
                        leave_out(&mut ends, start, &barred, node, expand.direction, filter);
                    }
                    count = ends.len();
                }
            }
            offsets.push(u32::try_from(count).map_err(|_| too_many())?);
        }
        cx.tick(count + chunk.len())?;
        self.step =
            (NEIGHBOURS_PER_CALL / (count / nodes.len().max(1) + 1)).clamp(1, NEIGHBOURS_PER_CALL);
        self.op_ref.prune(&mut chunk);
        let columns = if wants_ends {
            vec![(expand.to, Column::Nodes(ends))]
        } else {
            Vec::new()
        };
        chunk.set_list(offsets, columns);
        if !expand.group {
            chunk.flatten();
        }
        Ok(chunk)
    }

    /// How many of these nodes (at least one) together have enough neighbours, and how many neighbours those are.
    fn fitting(&mut self, walks: &Walks, nodes: &[NodeId]) -> (usize, usize) {
        let mut promised = 0_usize;
        for (at, node) in nodes.iter().enumerate() {
            if promised >= NEIGHBOURS_PER_CALL {
                return (at, promised);
            }
            let degree = small(*node).map_or(0, |node| walks.degree(node, &mut self.scratch));
            promised = promised.saturating_add(usize::try_from(degree).unwrap_or(usize::MAX));
        }
        (nodes.len(), promised)
    }

    /// Bytes per neighbour: its own, and those of the repeated input row.
    fn row_bytes(&self, expand: &physical::Expand, chunk: &Chunk) -> usize {
        let wants_rels = expand
            .relationship
            .is_some_and(|slot| self.op_ref.is_live(slot));
        let own = size_of::<NodeId>() + if wants_rels { size_of::<RelRow>() } else { 0 };
        if expand.group {
            own
        } else {
            own + size_of::<u32>() + chunk.row_bytes(|slot| self.op_ref.is_live(slot))
        }
    }

    /// Keeps the first `rows` rows of a batch; the others come next.
    fn put_back(&mut self, piece: Chunk, rows: usize) -> Chunk {
        let kept: Vec<u32> = (0..rows as u32).collect();
        let kept = piece.gather(&kept);
        // The batch was cut from the chunk, whose position moves back. Otherwise the batch was the
        // chunk's end, or all of it, and becomes the current chunk again.
        if self.chunk.is_some() {
            self.row -= piece.len() - rows;
        } else {
            self.chunk = Some(piece);
            self.row = rows;
        }
        kept
    }

    /// The next rows to expand, as a separate chunk.
    fn piece(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        loop {
            match &mut self.chunk {
                // The usual case, without a copy: the whole chunk is one batch.
                Some(chunk) if self.row == 0 && chunk.len() <= self.step => {
                    return Ok(self.chunk.take());
                }
                Some(chunk) if self.row < chunk.len() => {
                    let end = (self.row + self.step).min(chunk.len());
                    let rows: Vec<u32> = (self.row as u32..end as u32).collect();
                    let piece = chunk.gather(&rows);
                    self.row = end;
                    if end == chunk.len() {
                        self.chunk = None;
                    }
                    return Ok(Some(piece));
                }
                _ => {
                    self.row = 0;
                    self.chunk = self.input.pull_flat(cx)?;
                    if self.chunk.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

impl Operate for Expand {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Expand(expand) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let filter = cx.type_filter(&expand.types);
        let Some(types) = filter.ids() else {
            // The type does not exist: nothing is found, but the operators below may write.
            while self.piece(cx)?.is_some() {}
            return Ok(None);
        };
        let Some(mut chunk) = self.piece(cx)? else {
            return Ok(None);
        };
        let wants_rels = expand.relationship.is_some_and(|slot| op_ref.is_live(slot));
        if !wants_rels && self.walks.is_none() {
            // The adjacency knows neighbours by number only. Where a relationship is read, the rows answer.
            self.walks = cx.walks(&filter, expand.direction);
        }
        if let Some(walks) = self.walks.take_if(|_| !wants_rels) {
            cx.run.note_view(op_ref.id);
            let made = self.over_views(&walks, expand, &filter, chunk, cx)?;
            self.walks = Some(walks);
            return Ok(Some(made));
        }
        let (mut rows, mut nodes) = bound_nodes(&chunk, expand.from)?;
        let read = self.read(&nodes, expand.direction, types, cx)?;
        // The batch had more neighbours than expected: the rows that were not read come next.
        if let Some(row) = rows.get(read).map(|row| *row as usize) {
            rows.truncate(read);
            nodes.truncate(read);
            chunk = self.put_back(chunk, row);
        }
        // The next batch has as many rows as should give one call's worth of neighbours, by the average so far.
        let per_row = self.found.rows().len() / nodes.len().max(1) + 1;
        self.step = (NEIGHBOURS_PER_CALL / per_row).clamp(1, NEIGHBOURS_PER_CALL);
        let bytes = size_of::<RelRow>() + self.row_bytes(expand, &chunk);
        let found = self.found.rows().len();
        cx.run.watch.allow(found.saturating_mul(bytes))?;

        let mut offsets = Vec::with_capacity(chunk.len() + 1);
        offsets.push(0_u32);
        let wants_ends = op_ref.is_live(expand.to);
        let (mut rels, mut ends) = (Vec::new(), Vec::new());
        let mut count = 0_u32;
        let used = Used::new(&expand.distinct_from, &chunk);
        let mut groups = rows.iter().zip(&nodes).enumerate().peekable();
        for row in 0..chunk.len() {
            if let Some((group, (_, node))) = groups.next_if(|(_, (at, _))| **at as usize == row) {
                let found = self.found.of(group);
                let kept = found
                    .iter()
                    .filter(|rel| used.is_empty() || !used.contains(row, rel.id));
                for rel in kept {
                    count += 1;
                    if wants_rels {
                        rels.push(*rel);
                    }
                    if wants_ends {
                        ends.push(end_of(rel, *node, expand.direction));
                    }
                }
            }
            offsets.push(count);
        }
        let mut columns = Vec::with_capacity(2);
        if wants_ends {
            columns.push((expand.to, Column::Nodes(ends)));
        }
        if let Some(slot) = expand.relationship.filter(|_| wants_rels) {
            columns.push((slot, Column::Rels(rels)));
        }
        op_ref.prune(&mut chunk);
        // Factorised: the input row once, and its neighbours as a list group. Only an operator that needs each pair
        // multiplies them out.
        chunk.set_list(offsets, columns);
        if !expand.group {
            chunk.flatten();
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.chunk = None;
        self.row = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.chunk = None;
        self.walks = None;
        self.forget(cx);
    }
}

pub(super) fn too_many() -> ExecError {
    ExecError::limit(
        "4294967295 neighbours in one step",
        "narrow the pattern, or expand from fewer nodes at once",
    )
}

/// Removes the other end of each excluded relationship of `node` from `ends[start..]`, once each.
pub(super) fn leave_out(
    ends: &mut Vec<NodeId>,
    start: usize,
    barred: &[RelRow],
    node: u32,
    direction: Direction,
    filter: &TypeFilter,
) {
    let node = NodeId(u64::from(node));
    for rel in barred
        .iter()
        .filter(|rel| is_found(rel, node, direction, filter))
    {
        let end = end_of(rel, node, direction);
        if let Some(at) = ends[start..].iter().position(|one| *one == end) {
            ends.remove(start + at);
        }
    }
}

/// Whether an expand from `node` finds a relationship.
pub(super) fn is_found(
    rel: &RelRow,
    node: NodeId,
    direction: Direction,
    filter: &TypeFilter,
) -> bool {
    filter.allows(rel.type_id)
        && match direction {
            Direction::Outgoing => rel.source == node,
            Direction::Incoming => rel.target == node,
            Direction::Both => rel.source == node || rel.target == node,
        }
}

/// The other end of a relationship found at `node`.
pub(super) fn end_of(rel: &RelRow, node: NodeId, direction: Direction) -> NodeId {
    match direction {
        Direction::Outgoing => rel.target,
        Direction::Incoming => rel.source,
        Direction::Both => rel.other(node),
    }
}

/// How many neighbours an expand would find.
pub(super) struct Degree {
    op_ref: OperatorRef,
    input: Child,
}

impl Degree {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for Degree {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Degree(degree) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let (rows, nodes) = bound_nodes(&chunk, degree.from)?;
        let filter = cx.type_filter(&degree.types);
        let mut counts = vec![0_i64; chunk.len()];
        if let Some(types) = filter.ids() {
            let direction = degree.direction;
            let mut degrees = Vec::with_capacity(nodes.len());
            if let Some(walks) = cx.walks(&filter, direction) {
                cx.run.note_view(op_ref.id);
                let mut scratch = WalkScratch::default();
                let of = |node: &NodeId| small(*node).map(|node| walks.degree(node, &mut scratch));
                degrees.extend(nodes.iter().map(of).map(Option::unwrap_or_default));
            } else {
                cx.reader().degree(&nodes, direction, types, &mut degrees)?;
            }
            for (row, found) in rows.iter().zip(degrees) {
                counts[*row as usize] = i64::try_from(found).unwrap_or(i64::MAX);
            }
            // The degree includes relationships that the row uses already: each that this expand would find
            // is subtracted, instead of testing all neighbours.
            let used = Used::new(&degree.distinct_from, &chunk);
            let mut barred = Vec::new();
            for (row, node) in rows.iter().zip(&nodes).filter(|_| !used.is_empty()) {
                used.rows(*row as usize, &mut barred);
                let found = barred
                    .iter()
                    .filter(|rel| is_found(rel, *node, degree.direction, &filter));
                counts[*row as usize] -= found.count() as i64;
            }
        }
        // A row without a match would have been left out by the expand that this operator replaces.
        let keep: Vec<bool> = counts.iter().map(|count| *count > 0).collect();
        chunk.set(degree.count, Column::Ints(counts));
        chunk.retain(&keep);
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// Checks a bound relationship against a pattern, and binds its ends.
pub(super) struct RelationshipEnds {
    op_ref: OperatorRef,
    input: Child,
}

impl RelationshipEnds {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for RelationshipEnds {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::RelationshipEnds(ends) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let filter = cx.type_filter(&ends.types);
        let used = Used::new(&ends.distinct_from, &chunk);
        let (mut rows, mut froms, mut tos) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..chunk.len() {
            let Some(rel) = chunk
                .column(ends.relationship)
                .and_then(|column| column.rel(row))
            else {
                continue;
            };
            if !filter.allows(rel.type_id) || used.contains(row, rel.id) {
                continue;
            }
            let fits = |slot, bound: bool, node| {
                !bound || chunk.column(slot).and_then(|column| column.node(row)) == Some(node)
            };
            let mut bind_ends = |from: NodeId, to: NodeId| {
                if fits(ends.from, ends.from_bound, from) && fits(ends.to, ends.to_bound, to) {
                    rows.push(row as u32);
                    froms.push(from);
                    tos.push(to);
                }
            };
            if ends.direction != Direction::Incoming {
                bind_ends(rel.source, rel.target);
            }
            // The reverse direction of a self loop would bind the same ends again:
            // one relationship, one match.
            if ends.direction == Direction::Incoming
                || (ends.direction == Direction::Both && rel.source != rel.target)
            {
                bind_ends(rel.target, rel.source);
            }
        }
        // A pattern `(a)-[r]->(a)` with `a` unbound has one slot for both ends.
        if ends.from == ends.to {
            let keep: Vec<bool> = froms
                .iter()
                .zip(&tos)
                .map(|(from, to)| from == to)
                .collect();
            let mut kept = keep.iter();
            rows.retain(|_| *kept.next().unwrap_or(&false));
            let mut kept = keep.iter();
            froms.retain(|_| *kept.next().unwrap_or(&false));
            tos.clone_from(&froms);
        }
        let mut made = chunk.gather(&rows);
        if !ends.from_bound {
            made.set(ends.from, Column::Nodes(froms));
        }
        if !ends.to_bound {
            made.set(ends.to, Column::Nodes(tos));
        }
        op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}
