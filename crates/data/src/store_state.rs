//! Small parts of the state of an open store.

use isomer_layout::lineage::EraId;
use isomer_storage::{SharedLock, Version};

/// What an open store knows of its current era.
#[derive(Debug, Default)]
pub(crate) struct OwnEra {
    /// The version that was opened.
    pub(crate) opened: Version,
    /// Added to the record.
    pub(crate) id: Option<EraId>,
    /// The record could not be changed when the store was opened: it does not describe the current history.
    pub(crate) lost: bool,
}

/// The copies that this process makes now.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// How many.
    pub count: usize,
    /// While there are any, in a shared database: the lock `copy`.
    pub among_processes: Option<SharedLock>,
}
