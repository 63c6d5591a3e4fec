//! Columns in pages: built from the rows, or by merging an older base with its delta.

use std::sync::Arc;

use isomer_data::{ConvergentOwner, DataError, GraphRead, ScalarField, Transaction};
use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};

use super::{Cell, CellChange, ColumnPage, PAGE_ROWS, cell_of, page::PageCells};
use crate::{
    Owner,
    build::Effort,
    delta::Delta,
    error::ViewError,
    id::small,
    slot::{Base, Generation},
};

/// The values at one path of a label's nodes, or of a type's relationships, at one version.
///
/// Shape: page `n / 4096` holds node `n`, or is absent if none of its nodes has the label.
pub(crate) struct ColumnBase {
    pub(crate) pages: Vec<Option<Arc<ColumnPage>>>,
    bytes: usize,
    count: u64,
}

impl ColumnBase {
    pub(crate) fn new(pages: Vec<Option<Arc<ColumnPage>>>) -> Self {
        let standing = || pages.iter().flatten();
        Self {
            bytes: pages.capacity() * 8 + standing().map(|page| page.bytes()).sum::<usize>(),
            count: standing().map(|page| page.value_count()).sum(),
            pages,
        }
    }

    #[inline]
    pub(crate) fn page(&self, node: u32) -> Option<&ColumnPage> {
        self.pages.get(node as usize / PAGE_ROWS)?.as_deref()
    }

    /// The cell of a node in the base.
    #[inline]
    pub(crate) fn cell(&self, node: u32) -> Cell {
        match self.page(node) {
            Some(page) => page.cell(node as usize % PAGE_ROWS),
            None => Cell::Absent,
        }
    }

    pub(crate) fn is_member(&self, node: u32) -> bool {
        self.page(node)
            .is_some_and(|page| page.is_member(node as usize % PAGE_ROWS))
    }
}

impl Base for ColumnBase {
    type Change = CellChange;

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn len(&self) -> u64 {
        self.count
    }

    fn id_bound(&self) -> u64 {
        (self.pages.len() * PAGE_ROWS) as u64
    }
}

/// Resolves a node's cell from its changes, given newest first; `base` is the cell before them.
pub(crate) struct Folding {
    /// The value set by the newest change, if known.
    set: Option<Cell>,
    /// The resolved cell, once a change decides it.
    decided: Option<Cell>,
}

impl Folding {
    pub(crate) fn new() -> Self {
        Self {
            set: None,
            decided: None,
        }
    }

    pub(crate) fn change(&mut self, change: &CellChange) {
        // Changes come newest first, so older changes cannot override a decision.
        if self.decided.is_some() {
            return;
        }
        match change {
            CellChange::Is(cell) => {
                // Created with this cell; a newer `Set` has precedence.
                self.decided = Some(self.set.take().unwrap_or_else(|| cell.clone()));
            }
            CellChange::Gone => self.decided = Some(Cell::Absent),
            // The node gained the label with an unknown value, unless a newer `Set` defines it.
            CellChange::Joined => self.decided = Some(self.set.take().unwrap_or(Cell::Rows)),
            CellChange::Set(cell) => {
                self.set.get_or_insert_with(|| cell.clone());
            }
        }
    }

    pub(crate) fn finish(self, base: impl FnOnce() -> Cell) -> Cell {
        match (self.decided, self.set) {
            (Some(cell), _) => cell,
            (None, None) => base(),
            // A `Set` is recorded for every label's column; it applies only if the node was in this one.
            (None, Some(set)) => match base() {
                Cell::Absent => Cell::Absent,
                _ => set,
            },
        }
    }
}

/// The convergent fields of one property, combined with the plain values in records.
struct Fields<'a> {
    tx: &'a Transaction,
    /// `None` if the property is plain everywhere.
    prop: Option<PropId>,
}

impl<'a> Fields<'a> {
    /// Checked after the snapshot was taken: a property that is not convergent now has no fields in the
    /// snapshot.
    fn at(tx: &'a Transaction, path: &[PropId]) -> Self {
        let prop = match path {
            [prop] => Some(*prop).filter(|prop| tx.store().is_convergent(*prop)),
            _ => None,
        };
        Self { tx, prop }
    }

    /// The cell of a record; `plain` is the value in the record itself.
    fn over(&self, owner: ConvergentOwner, plain: Cell) -> Result<Cell, DataError> {
        let Some(prop) = self.prop else {
            return Ok(plain);
        };
        Ok(match self.tx.fields().scalar(owner, prop)? {
            ScalarField::Absent => plain,
            ScalarField::Value(value) => Cell::Value(value),
            ScalarField::Large => Cell::Rows,
        })
    }
}

/// The cell of a node at `version`.
pub(crate) fn folded(
    base: &ColumnBase,
    delta: &Delta<CellChange>,
    from: isomer_data::Version,
    version: isomer_data::Version,
    node: u32,
) -> Cell {
    let mut folding = Folding::new();
    delta.newest_first(node, from, version, |change| folding.change(change));
    folding.finish(|| base.cell(node))
}

/// Builds a column from the rows.
pub(crate) fn build(
    tx: &Transaction,
    owner: Owner,
    path: &[PropId],
    effort: &mut Effort<'_>,
) -> Result<ColumnBase, ViewError> {
    match owner {
        Owner::Nodes(label) => of_nodes(tx, label, path, effort),
        Owner::Relationships(type_id) => of_relationships(tx, type_id, path, effort),
    }
}

fn of_relationships(
    tx: &Transaction,
    type_id: TypeId,
    path: &[PropId],
    effort: &mut Effort<'_>,
) -> Result<ColumnBase, ViewError> {
    let catalog = tx.catalog();
    let fields = Fields::at(tx, path);
    let mut making = ColumnMaking::default();
    let mut plain = Vec::new();
    let mut after: Option<RelId> = None;
    loop {
        effort.check()?;
        let mut too_large = false;
        after = tx
            .graph()
            .visit_relationships(type_id, after, PAGE_ROWS, |id, record| {
                too_large |= small(id.0).is_none();
                plain.push((id, cell_of(record, path, &catalog)?));
                Ok(())
            })?;
        for (id, cell) in plain.drain(..) {
            making.push(id.0, fields.over(ConvergentOwner::Relationship(id), cell)?);
        }
        if too_large {
            return Err(ViewError::IdTooLarge);
        }
        making.flush_pages(effort)?;
        if after.is_none() {
            return making.finish(effort);
        }
    }
}

/// Builds a column from cells in row order.
#[derive(Default)]
pub(crate) struct ColumnMaking {
    pages: Vec<Option<Arc<ColumnPage>>>,
    cells: PageCells,
    number: usize,
    finished: Vec<(usize, PageCells)>,
}

impl ColumnMaking {
    /// Appends the next cell; its row must be above all earlier ones.
    pub(crate) fn push(&mut self, row: u64, cell: Cell) {
        let number = row as usize / PAGE_ROWS;
        if number != self.number {
            let done = std::mem::take(&mut self.cells);
            self.finished.push((self.number, done));
            self.number = number;
        }
        self.cells.push(row as usize % PAGE_ROWS, cell);
    }

    /// Stores completed pages: call it every few thousand cells.
    pub(crate) fn flush_pages(&mut self, effort: &mut Effort<'_>) -> Result<(), ViewError> {
        for (number, cells) in std::mem::take(&mut self.finished) {
            place(&mut self.pages, number, cells, effort)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, effort: &mut Effort<'_>) -> Result<ColumnBase, ViewError> {
        self.flush_pages(effort)?;
        place(&mut self.pages, self.number, self.cells, effort)?;
        self.pages.shrink_to_fit();
        Ok(ColumnBase::new(self.pages))
    }
}

fn of_nodes(
    tx: &Transaction,
    label: LabelId,
    path: &[PropId],
    effort: &mut Effort<'_>,
) -> Result<ColumnBase, ViewError> {
    let catalog = tx.catalog();
    let fields = Fields::at(tx, path);
    let mut making = ColumnMaking::default();
    let mut plain = Vec::new();
    let mut ids = Vec::with_capacity(PAGE_ROWS);
    let mut after: Option<NodeId> = None;
    loop {
        effort.check()?;
        ids.clear();
        tx.scan_nodes(Some(label), after, PAGE_ROWS, &mut ids)?;
        if ids.last().is_some_and(|id| small(id.0).is_none()) {
            return Err(ViewError::IdTooLarge);
        }
        tx.graph().visit_node_records(&ids, |id, record| {
            if let Some(record) = record {
                plain.push((id, cell_of(record, path, &catalog)?));
            }
            Ok(())
        })?;
        for (id, cell) in plain.drain(..) {
            making.push(id.0, fields.over(ConvergentOwner::Node(id), cell)?);
        }
        making.flush_pages(effort)?;
        if ids.len() < PAGE_ROWS {
            return making.finish(effort);
        }
        after = ids.last().copied();
    }
}

/// Stores a page at its index.
fn place(
    pages: &mut Vec<Option<Arc<ColumnPage>>>,
    number: usize,
    cells: PageCells,
    effort: &mut Effort<'_>,
) -> Result<(), ViewError> {
    let page = cells.finish();
    if let Some(page) = &page {
        effort.reserve(page.bytes())?;
    }
    if page.is_some() && number >= pages.len() {
        pages.resize(number + 1, None);
    }
    if let Some(at) = pages.get_mut(number) {
        *at = page.map(Arc::new);
    }
    Ok(())
}

/// Merges base and delta as of the transaction's version; pages without changes are shared with the old base.
pub(crate) fn merge(
    generation: &Generation<ColumnBase>,
    tx: &Transaction,
    owner: Owner,
    path: &[PropId],
    effort: &mut Effort<'_>,
) -> Result<ColumnBase, ViewError> {
    let version = tx.version();
    // Cloning copies pointers: a page without changes is shared, so the cost is in proportion to the changed pages.
    let mut pages = generation.base.pages.clone();
    let changed = generation.delta.nodes(generation.from, version);
    // The changed nodes ascend, so those of one page follow one another, and each page is rebuilt once.
    for nodes in changed.chunk_by(|a, b| *a as usize / PAGE_ROWS == *b as usize / PAGE_ROWS) {
        effort.check()?;
        let number = nodes[0] as usize / PAGE_ROWS;
        let old = pages.get(number).and_then(Option::as_ref);
        // Pages are immutable, because readers of the old generation may hold them: changes go into an unpacked copy.
        let mut cells = old.map_or_else(PageCells::default, |page| PageCells::of(page));
        for &node in nodes {
            let mut cell = folded(
                &generation.base,
                &generation.delta,
                generation.from,
                version,
                node,
            );
            // The delta knows that the value changed, not to what. The merge runs on a snapshot of `version`, where the
            // rows hold it; later reads of this page are then answered without the rows.
            if let Cell::Rows = cell {
                cell = read_cell(tx, owner, path, node)?;
            }
            cells.put(node as usize % PAGE_ROWS, cell);
        }
        place(&mut pages, number, cells, effort)?;
    }
    Ok(ColumnBase::new(pages))
}

/// The cell of a node or relationship, read from the rows, for a change whose value is not in the change
/// stream. A path through a value that is not a map stays with the rows permanently.
fn read_cell(tx: &Transaction, owner: Owner, path: &[PropId], id: u32) -> Result<Cell, DataError> {
    let catalog = tx.catalog();
    let mut plain = Cell::Absent;
    let owner = match owner {
        Owner::Nodes(label) => {
            let id = NodeId(id.into());
            tx.graph().visit_node_records(&[id], |_, record| {
                if let Some(record) = record.filter(|record| record.has_label(label)) {
                    plain = cell_of(record, path, &catalog)?;
                }
                Ok(())
            })?;
            ConvergentOwner::Node(id)
        }
        Owner::Relationships(_) => {
            let id = RelId(id.into());
            tx.graph().visit_relationship_record(id, |record| {
                plain = cell_of(record, path, &catalog)?;
                Ok(())
            })?;
            ConvergentOwner::Relationship(id)
        }
    };
    match plain {
        Cell::Absent => Ok(plain),
        plain => Fields::at(tx, path).over(owner, plain),
    }
}
