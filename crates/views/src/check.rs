//! Holding views and their files against the rows.

use crate::{
    ViewError, ViewKind, Views, keeping::Keeping, making::ALWAYS, segment::Stored, slot::Slot,
    views::for_slot,
};

/// What was found: see [`Views::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewCheck {
    /// Views that were compared and agree with the rows.
    pub sound: usize,
    /// Views that do not, and were dropped with their files.
    pub wrong: Vec<ViewKind>,
    /// Views that were not compared, and why.
    pub skipped: Vec<(ViewKind, String)>,
    /// Files that were damaged: they were removed when they were met, since the opening.
    pub damaged: Vec<DamagedFile>,
}

/// A file of a view that was not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its name in the folder of views.
    pub name: String,
    /// How that was seen.
    pub reason: String,
}

impl Views {
    /// Compares every view that stands, and every one that has a file, with one made anew from the rows. What differs is a
    /// fault of this program, or of memory: it is dropped. Files that are damaged are a fault of the disk, and are never
    /// answered from. `progress` is told which view comes next.
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

    /// Files that were found damaged since the opening, and removed.
    pub fn damaged(&self) -> Vec<DamagedFile> {
        self.keeping
            .as_ref()
            .map_or_else(Vec::new, Keeping::damaged)
    }

    /// Whether a view agrees with the rows; nothing where there is no view.
    fn check_slot<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
    ) -> Result<Option<bool>, ViewError> {
        let _making = slot.making.lock();
        if !slot.stands() && !self.restore(slot, kind, ALWAYS, |_| true)? {
            return Ok(None);
        }
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let told = self.inbox.newest();
        let tx = self.settled(&store, told, ALWAYS)?;
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
