//! Checks views and their files against the rows.

use crate::{
    ViewError, ViewKind, Views,
    build::ALWAYS,
    keeping::Keeping,
    slot::Slot,
    view_file::{DamagedFile, Stored},
    views::for_slot,
};

/// Result of [`Views::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewCheck {
    /// Number of views that agree with the rows.
    pub sound: usize,
    /// Views that disagree; they were dropped together with their files.
    pub wrong: Vec<ViewKind>,
    /// Views that could not be checked, with the reason.
    pub skipped: Vec<(ViewKind, String)>,
    /// Damaged files found since the database was opened; they were removed.
    pub damaged: Vec<DamagedFile>,
}

impl Views {
    /// Compares every ready view, and every view that has a file, with one built anew from the rows. A
    /// difference is a bug in this program or a memory error, and the view is dropped. A damaged file is a
    /// disk fault; its content is never used. `progress` is called with the view that is checked next.
    pub fn check(&self, progress: &mut dyn FnMut(&ViewKind)) -> ViewCheck {
        let mut found = ViewCheck::default();
        for view in self.status() {
            progress(&view.kind);
            let kind = view.kind;
            match for_slot!(self, &kind, slot => self.check_slot(&slot, &kind)) {
                Ok(None) => {}
                Ok(Some(true)) => found.sound += 1,
                Ok(Some(false)) => found.wrong.push(kind),
                Err(error) => found.skipped.push((kind, error.to_string())),
            }
        }
        found.damaged = self.damaged();
        found
    }

    /// Damaged files found and removed since the database was opened.
    pub fn damaged(&self) -> Vec<DamagedFile> {
        self.keeping
            .as_ref()
            .map_or_else(Vec::new, Keeping::damaged)
    }

    /// Whether a view agrees with the rows; `None` if there is no view.
    fn check_slot<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
    ) -> Result<Option<bool>, ViewError> {
        let _making = slot.making.lock();
        if !slot.is_ready() && !self.files().restore(slot, kind, ALWAYS, |_| true)? {
            return Ok(None);
        }
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let newest = self.inbox.newest();
        let tx = self.snapshot_including(&store, newest, ALWAYS)?;
        let Some(pinned) = slot.pin(tx.version()) else {
            return Ok(None);
        };
        let (now, _held) = self.with_effort(kind, |effort| {
            B::merged(&pinned.generation, &tx, kind, effort)
        })?;
        let (fresh, _held_too) =
            self.with_effort(kind, |effort| B::fresh(&tx, kind, pinned.base(), effort))?;
        let agrees = now.agrees(&fresh);
        if !agrees {
            if let Some(keeping) = &self.keeping {
                keeping.forget(kind);
            }
            let feed = self.feed();
            let cleared = slot.clear();
            drop(feed);
            drop(cleared);
        }
        Ok(Some(agrees))
    }
}
