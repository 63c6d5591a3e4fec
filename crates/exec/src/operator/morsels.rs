//! Shares of a scan, for several threads: small ranges of ids (morsels: Leis, Boncz, Kemper and Neumann, SIGMOD 2014).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use isomer_plan::physical::OpId;

/// Ids per share.
const MORSEL: u64 = 4096;

/// The shares of a scan's nodes or relationships that no thread has taken yet.
#[derive(Debug)]
pub(crate) struct Morsels {
    /// The scan that they belong to.
    pub(crate) scan: OpId,
    next: AtomicU64,
    done: AtomicBool,
}

impl Morsels {
    pub(super) fn new(scan: OpId) -> Self {
        Self {
            scan,
            next: AtomicU64::new(0),
            done: AtomicBool::new(false),
        }
    }

    /// The next share of ids: from, to.
    pub(crate) fn take(&self) -> Option<(u64, u64)> {
        if self.done.load(Ordering::Relaxed) {
            return None;
        }
        let start = self.next.fetch_add(MORSEL, Ordering::Relaxed);
        Some((start, start.saturating_add(MORSEL)))
    }

    /// The index of the share that an id is in.
    pub(crate) fn number_of(id: u64) -> u64 {
        id / MORSEL
    }

    /// There is no id between the last share taken and `id`.
    pub(crate) fn skip_to(&self, id: u64) {
        self.next.fetch_max(id / MORSEL * MORSEL, Ordering::Relaxed);
    }

    /// No remaining share has any id.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}
