//! File format of columns (`view_file::format` describes the enclosing file).
//!
//! ```text
//! first block
//!   u32           number of pages
//!   u8            1: values are as they are read, of convergent properties too
//! one block per page of 4,096 node ids, empty for a page without nodes of the label; else
//!   64 × u64      which rows are nodes of the label
//!   64 × u64      which of them have a value
//!   u32           number of odd rows, about which the database's rows must be asked
//!   u16 …         the odd rows, ascending
//!   per row with a value, ascending:
//!     packed      bytes of the value (see `adjacency::stored`)
//!     bytes       the value, as in a record (see `value::record`)
//! ```

use std::sync::Arc;

use isomer_data::{Catalog, Transaction};
use isomer_value::{
    Interner, PropId, Value, ValueError,
    record::{decode_value, encode_value},
};

use super::{
    Cell, ColumnBase, ColumnPage, PAGE_ROWS,
    page::{PageBits, PageCells, bit},
};
use crate::{
    ViewKind,
    build::Effort,
    error::ViewError,
    registry::Registry,
    slot::{Generation, Slot},
    view_file::{
        Blocks, Stored, Taker, ViewFileError, ViewFileOverflow, ViewFileRejection, Writer,
        malformed, push_packed,
    },
};

/// Marker in the first block. Files without it predate convergent fields in columns.
const AS_READ: u8 = 1;

/// Resolves the names of nested values: all are in the catalog, because the values are in the database.
struct CatalogNames<'a>(&'a Catalog);

impl Interner for CatalogNames<'_> {
    fn intern(&mut self, name: &str) -> Result<PropId, ValueError> {
        self.0.prop_id(name).ok_or(ValueError::Corrupt {
            what: "column",
            at: 0,
            reason: "a property name is not in the catalog",
        })
    }
}

impl Stored for ColumnBase {
    fn store(&self, catalog: &Catalog, writer: &mut Writer) -> Result<(), ViewFileError> {
        push_head(writer, self.pages.len() as u32)?;
        let mut block = Vec::new();
        for page in &self.pages {
            block.clear();
            if let Some(page) = page {
                push_page(page, catalog, &mut block).map_err(ViewFileOverflow::from)?;
            }
            writer.block(&block)?;
        }
        Ok(())
    }

    fn load(
        blocks: &mut Blocks,
        catalog: &Catalog,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        let mut head = Taker(blocks.expect(effort)?);
        let count = head.u32().ok_or_else(malformed)?;
        if head.u8() != Some(AS_READ) {
            return Err(ViewError::Rejected(ViewFileRejection::NoConvergentFields));
        }
        let mut pages = Vec::new();
        for _ in 0..count {
            effort.check()?;
            let block = blocks.expect(effort)?;
            let page = if block.is_empty() {
                None
            } else {
                take_page(block, catalog).ok_or_else(malformed)?.finish()
            };
            if let Some(page) = &page {
                effort.reserve(page.bytes())?;
            }
            pages.push(page.map(Arc::new));
        }
        pages.shrink_to_fit();
        Ok(Self::new(pages))
    }

    fn fresh(
        tx: &Transaction,
        kind: &ViewKind,
        _: &Self,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        match kind.as_column() {
            Some((owner, path)) => super::build(tx, owner, path, effort),
            None => Err(malformed().into()),
        }
    }

    fn merged(
        generation: &Generation<Self>,
        tx: &Transaction,
        kind: &ViewKind,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        match kind.as_column() {
            Some((owner, path)) => super::merge(generation, tx, owner, path, effort),
            None => Err(malformed().into()),
        }
    }

    fn agrees(&self, other: &Self) -> bool {
        let bound = (self.pages.len().max(other.pages.len()) * PAGE_ROWS) as u32;
        (0..bound).all(|node| match (self.cell(node), other.cell(node)) {
            (Cell::Rows, cell) | (cell, Cell::Rows) => !matches!(cell, Cell::Absent),
            (Cell::Absent, Cell::Absent) => true,
            (Cell::Value(one), Cell::Value(two)) => one == two,
            _ => false,
        })
    }

    fn enter(registry: &mut Registry, kind: &ViewKind, slot: Arc<Slot<Self>>) {
        if let Some((owner, path)) = kind.as_column() {
            let columns = registry.columns.entry(owner).or_default();
            columns.push((path.clone(), slot));
        }
    }
}

/// Streams a column to a file with only one page in memory.
pub(crate) struct ColumnWriter {
    cells: PageCells,
    page: usize,
    block: Vec<u8>,
}

impl ColumnWriter {
    /// Starts a column whose last row is `last`.
    pub(crate) fn new(writer: &mut Writer, last: u32) -> Result<Self, ViewFileError> {
        push_head(writer, last / PAGE_ROWS as u32 + 1)?;
        Ok(Self {
            cells: PageCells::default(),
            page: 0,
            block: Vec::new(),
        })
    }

    /// Appends the next cell; its row must be above all earlier ones.
    pub(crate) fn push(
        &mut self,
        writer: &mut Writer,
        catalog: &Catalog,
        row: u32,
        cell: Cell,
    ) -> Result<(), ViewFileError> {
        while self.page < row as usize / PAGE_ROWS {
            self.end_page(writer, catalog)?;
        }
        self.cells.push(row as usize % PAGE_ROWS, cell);
        Ok(())
    }

    /// Writes the current page.
    pub(crate) fn end_page(
        &mut self,
        writer: &mut Writer,
        catalog: &Catalog,
    ) -> Result<(), ViewFileError> {
        self.block.clear();
        if let Some(page) = std::mem::take(&mut self.cells).finish() {
            push_page(&page, catalog, &mut self.block).map_err(ViewFileOverflow::from)?;
        }
        self.page += 1;
        writer.block(&self.block)
    }
}

fn push_head(writer: &mut Writer, page_count: u32) -> Result<(), ViewFileError> {
    let mut head = page_count.to_le_bytes().to_vec();
    head.push(AS_READ);
    writer.block(&head)
}

fn push_page(page: &ColumnPage, catalog: &Catalog, block: &mut Vec<u8>) -> Result<(), ValueError> {
    for bits in [page.members(), page.valid()] {
        for word in bits.iter() {
            block.extend_from_slice(&word.to_le_bytes());
        }
    }
    block.extend_from_slice(&(page.odd().len() as u32).to_le_bytes());
    for row in page.odd() {
        block.extend_from_slice(&row.to_le_bytes());
    }
    let mut encoded = Vec::new();
    for row in (0..PAGE_ROWS).filter(|row| bit(page.valid(), *row)) {
        if let Cell::Value(value) = page.cell(row) {
            encoded.clear();
            encode_value(&value, &mut CatalogNames(catalog), &mut encoded)?;
            push_packed(block, encoded.len() as u32);
            block.extend_from_slice(&encoded);
        }
    }
    Ok(())
}

fn take_page(block: &[u8], catalog: &Catalog) -> Option<PageCells> {
    let mut taker = Taker(block);
    let mut bits = || {
        let mut bits: PageBits = [0; PAGE_ROWS / 64];
        for word in &mut bits {
            *word = taker.u64()?;
        }
        Some(bits)
    };
    let (members, valid) = (bits()?, bits()?);
    let odd_count = taker.u32()? as usize;
    let two = |two: &[u8]| u16::from_le_bytes([two[0], two[1]]);
    let odd = taker.bytes(odd_count.checked_mul(2)?)?.chunks_exact(2);
    let odd: Vec<u16> = odd.map(two).collect();
    let mut cells = PageCells::default();
    for row in (0..PAGE_ROWS).filter(|row| bit(&members, *row)) {
        let cell = if bit(&valid, row) {
            let len = taker.packed()? as usize;
            Cell::Value(decode_value(taker.bytes(len)?, catalog).ok()?)
        } else if odd.binary_search(&(row as u16)).is_ok() {
            Cell::Rows
        } else {
            Cell::Value(Value::Null)
        };
        cells.push(row, cell);
    }
    taker.is_empty().then_some(cells)
}

#[cfg(test)]
mod tests {
    use isomer_data::{Access, DataStore, DataStoreOptions};
    use isomer_storage::MemoryEngine;
    use isomer_value::Map;

    use super::*;
    use crate::{Owner, ViewOptions, Views, view_file::Folder};

    /// Such a column may lack convergent values: it is rebuilt, but its file is not reported as damaged.
    #[test]
    fn columns_of_before_convergent_fields_are_made_anew() {
        let path = tempfile::tempdir().unwrap();
        let store =
            DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.name_ids().intern_label("N").unwrap();
        let properties: Map = [("p", Value::Int(1))].into_iter().collect();
        for _ in 0..5 {
            tx.graph_mut().create_node(&[label], &properties).unwrap();
        }
        let prop = tx.name_ids().intern_prop("p").unwrap();
        tx.commit().unwrap();
        let kind = Owner::Nodes(label).column([prop].into());
        let open = || {
            let options = ViewOptions {
                folder: Some(path.path().to_owned()),
                keep_at_least: 1,
                ..ViewOptions::default()
            };
            Views::open(&store, options).unwrap()
        };
        let views = open();
        views.make(&kind).unwrap();
        views.close();
        let folder = Folder::new(path.path(), store.options());
        let (head, _) = folder.list().heads.remove(0);
        let old = |writer: &mut Writer| writer.block(&0_u32.to_le_bytes());
        folder.write(head, old).unwrap();
        let views = open();
        assert!(views.status()[0].stored_version.is_some());
        views.make(&kind).unwrap();
        assert_eq!(views.status()[0].count, 5);
        assert_eq!(views.damaged(), []);
        views.close();
    }
}
