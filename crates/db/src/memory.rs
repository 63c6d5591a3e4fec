//! The memory budget as programs see it: its size and use. Reservations are made by the layers below.

use isomer_data::{MemoryKind, MemoryUse};

/// A memory budget. Clones share it, and several databases may: see
/// [`Builder::shared_memory`](crate::Builder::shared_memory).
///
/// ```
/// use isomerdb::{Database, Memory, MemoryKind};
///
/// let memory = Memory::new(64 << 20);
/// let db = Database::builder().shared_memory(&memory).open_in_memory()?;
/// assert_eq!(memory.total_bytes(), 64 << 20);
/// assert_eq!(memory.usage(MemoryKind::Queries).used_bytes, 0);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Memory(isomer_data::MemoryBudget);

impl Memory {
    /// A budget in bytes. By default, read views may use half of it and write sets all but an eighth, so that a
    /// transaction's writes can still be committed; the others may use all of it. [`Memory::set_ceiling`] changes that.
    pub fn new(total_bytes: usize) -> Self {
        Self(isomer_data::MemoryBudget::new(total_bytes))
    }

    /// A quarter of the memory that this process may use: that of the machine, of the container, or of the process's
    /// address space limit.
    pub fn of_this_machine() -> Self {
        Self(isomer_data::MemoryBudget::of_this_machine())
    }

    pub(crate) fn of(memory: isomer_data::MemoryBudget) -> Self {
        Self(memory)
    }

    pub(crate) fn budget(&self) -> &isomer_data::MemoryBudget {
        &self.0
    }

    /// The whole budget.
    pub fn total_bytes(&self) -> usize {
        self.0.total_bytes()
    }

    /// Bytes reserved now.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// Bytes that are not reserved.
    pub fn free_bytes(&self) -> usize {
        self.0.free_bytes()
    }

    /// What one kind of holder has reserved.
    pub fn usage(&self, kind: MemoryKind) -> MemoryUse {
        self.0.usage(kind)
    }

    /// Limits a kind of holder to `bytes`. Existing reservations stay.
    pub fn set_ceiling(&self, kind: MemoryKind, bytes: usize) {
        self.0.set_ceiling(kind, bytes);
    }
}
