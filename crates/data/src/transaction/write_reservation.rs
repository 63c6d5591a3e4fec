//! The memory reservation of a transaction's writes.

use isomer_storage::{MemoryBudget, MemoryKind, Reservation, StorageError};

/// A transaction may hold this without a reservation: small ones never touch the budget.
const FREE_BYTES: usize = 64 << 10;

/// The reservation for a transaction's write set and its operations for the change stream.
#[derive(Debug, Default)]
pub(super) struct WriteReservation {
    reserved: Option<Reservation>,
}

/// Whether a write of this many bytes is too small to need a reservation in advance.
#[inline]
pub(super) fn covers_small(bytes: usize, operations: &Vec<u8>) -> bool {
    bytes < FREE_BYTES
        && (operations.len() + bytes < operations.capacity() || operations.capacity() < FREE_BYTES)
}

impl WriteReservation {
    /// Reserved bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let reserved = self.reserved.as_ref();
        reserved.map_or(FREE_BYTES, |reserved| reserved.bytes().max(FREE_BYTES))
    }

    /// Reserves the memory of a write of `bytes` and of its operation, before either is copied: `written` bytes are in
    /// the write set. The buffer of operations grows by half, and both copies count while it is copied.
    #[cold]
    pub(super) fn prepare(
        &mut self,
        memory: &MemoryBudget,
        written: usize,
        bytes: usize,
        operations: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        let (len, old) = (operations.len(), operations.capacity());
        // The operation has a head, and a value may be split.
        let needed = len + bytes + bytes / 64 + 1024;
        if needed <= old {
            return self.cover(memory, written + bytes + old);
        }
        let new = needed.max(old + old / 2);
        self.cover(memory, written + bytes + old + new)?;
        operations.reserve_exact(new - len);
        Ok(())
    }

    /// Reserves `size` bytes and some more, so that the budget is used rarely.
    #[cold]
    pub(super) fn grow(&mut self, memory: &MemoryBudget, size: usize) -> Result<(), StorageError> {
        let ahead = (size / 16).clamp(FREE_BYTES, 1 << 20);
        match self.cover(memory, size + ahead) {
            Ok(()) => Ok(()),
            Err(_) => self.cover(memory, size),
        }
    }

    /// Reserves `size` bytes, if fewer are reserved.
    fn cover(&mut self, memory: &MemoryBudget, size: usize) -> Result<(), StorageError> {
        if size <= self.bytes() {
            return Ok(());
        }
        let reserved = self
            .reserved
            .get_or_insert_with(|| memory.reservation(MemoryKind::Writes));
        let before = reserved.bytes();
        reserved
            .grow(size - before)
            .map_err(|over| StorageError::TooLarge {
                what: "the write set of a transaction",
                size,
                max: before + over.limit.saturating_sub(over.in_use),
                advice: "commit in smaller parts, load in bulk, end other work, or raise the memory option",
            })
    }

    /// Releases the reservation beyond `size` bytes.
    pub(super) fn shrink(&mut self, size: usize) {
        if let Some(reserved) = &mut self.reserved {
            reserved.shrink(reserved.bytes().saturating_sub(size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_transactions_never_touch_the_budget_and_large_ones_stay_within_it() {
        let memory = MemoryBudget::new(8 << 20);
        let mut covered = WriteReservation::default();
        assert_eq!((covered.bytes(), memory.used_bytes()), (FREE_BYTES, 0));
        covered.grow(&memory, 1 << 20).unwrap();
        assert!(covered.bytes() >= 1 << 20);
        let mut operations = vec![0; 1 << 20];
        covered
            .prepare(&memory, 1 << 20, 1 << 20, &mut operations)
            .unwrap();
        assert!(operations.capacity() >= 2 << 20);
        let held = memory.used_bytes();
        let error = covered.grow(&memory, 9 << 20).unwrap_err();
        assert!(
            error.to_string().contains("raise the memory option"),
            "{error}"
        );
        assert_eq!(memory.used_bytes(), held);
        covered.shrink(1 << 20);
        assert!(memory.used_bytes() < 2 << 20);
        drop(covered);
        assert_eq!(memory.used_bytes(), 0);
    }
}
