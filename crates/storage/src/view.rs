//! Views: all pairs of one version.

use crate::{KeyRange, Order, Parked, StorageError, ValueVisitor, Version, Visitor};

/// All pairs of one version. A view is immutable and may be read by several threads concurrently.
pub trait View: Send + Sync + 'static {
    /// Whether a visitor passed to [`View::visit`] may block, panic, or read and write the database: the view
    /// holds no lock during the visit and does not keep alive anything that the engine wants to free. Otherwise
    /// such visits are split into pages.
    const LENDS: bool = false;
    /// The version.
    fn version(&self) -> Version;
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError>;
    /// As [`crate::Read::visit_many`].
    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        for key in keys {
            if visit(self.get(key)?.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }
    /// Calls `visit` with the pairs of `range` in `order` until it breaks or the range ends.
    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError>;
    /// Like [`View::visit`]. If `visit` breaks, the view may leave a cursor in `parked`, which saves a search
    /// when the rest of the range, from that pair on, is visited next. `parked` may come from another visit,
    /// another view or another engine; the view then ignores it.
    fn visit_on(
        &self,
        parked: &mut Parked,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let _ = parked;
        self.visit(range, order, visit)
    }
}
