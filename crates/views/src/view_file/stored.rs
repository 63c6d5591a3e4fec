//! What a base must do to have a file.

use std::sync::Arc;

use isomer_data::{Catalog, Transaction};

use crate::{
    build::Effort,
    error::ViewError,
    registry::Registry,
    slot::{Base, Generation, Slot},
    status::ViewKind,
    view_file::{
        error::ViewFileError,
        format::{Blocks, Writer},
    },
};

/// A base that can be stored in a file.
pub(crate) trait Stored: Base + Sized {
    /// Writes it.
    fn store(&self, catalog: &Catalog, writer: &mut Writer) -> Result<(), ViewFileError>;
    /// Reads it; the caller reads the footer.
    fn load(
        blocks: &mut Blocks,
        catalog: &Catalog,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError>;
    /// Builds it from the rows, with the same parts as `like`.
    fn fresh(
        tx: &Transaction,
        kind: &ViewKind,
        like: &Self,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError>;
    /// Merges an older base with its delta as of the transaction's version.
    fn merged(
        generation: &Generation<Self>,
        tx: &Transaction,
        kind: &ViewKind,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError>;
    /// Whether both have equal content, apart from cells that one of them leaves to the rows.
    fn agrees(&self, other: &Self) -> bool;
    /// Adds a slot of this kind and name to a registry.
    fn enter(registry: &mut Registry, kind: &ViewKind, slot: Arc<Slot<Self>>);
}
