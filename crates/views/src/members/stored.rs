//! Files of label sets.

use std::sync::Arc;

use isomer_data::{Catalog, Transaction};
use roaring::RoaringBitmap;

use crate::{
    build::Effort,
    error::ViewError,
    members::{MemberBase, build, merge},
    registry::Registry,
    slot::{Base, Generation, Slot},
    status::ViewKind,
    view_file::{Blocks, Stored, ViewFileError, Writer, malformed},
};

/// File format: one block, a roaring bitmap in the portable format
/// (<https://github.com/RoaringBitmap/RoaringFormatSpec>).
impl Stored for MemberBase {
    fn store(&self, _: &Catalog, writer: &mut Writer) -> Result<(), ViewFileError> {
        store_set(&self.set, writer)
    }

    fn load(blocks: &mut Blocks, _: &Catalog, effort: &mut Effort<'_>) -> Result<Self, ViewError> {
        let set =
            RoaringBitmap::deserialize_from(blocks.expect(effort)?).map_err(|_| malformed())?;
        let base = Self::new(set);
        effort.reserve(base.bytes())?;
        Ok(base)
    }

    fn fresh(
        tx: &Transaction,
        kind: &ViewKind,
        _: &Self,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        match kind {
            ViewKind::Members(label) => build(tx, *label, effort),
            _ => Err(malformed().into()),
        }
    }

    fn merged(
        generation: &Generation<Self>,
        tx: &Transaction,
        _: &ViewKind,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        merge(generation, tx.version(), effort)
    }

    fn agrees(&self, other: &Self) -> bool {
        self.set == other.set
    }

    fn enter(registry: &mut Registry, kind: &ViewKind, slot: Arc<Slot<Self>>) {
        if let ViewKind::Members(label) = kind {
            registry.members.insert(*label, slot);
        }
    }
}

/// Writes a set to a file.
pub(crate) fn store_set(set: &RoaringBitmap, writer: &mut Writer) -> Result<(), ViewFileError> {
    let mut block = Vec::new();
    set.serialize_into(&mut block)?;
    writer.block(&block)
}
