//! Resource limits while a base is built: memory from the budget, and cancellation when the database closes.

use std::sync::atomic::{AtomicBool, Ordering};

use isomer_storage::{OverBudget, Reservation};

use crate::error::ViewError;

/// Evicts views to free this many bytes; returns whether that may have helped.
pub(crate) type MakeRoom<'a> = &'a dyn Fn(usize) -> bool;

/// Whether the caller still wants the result; called every few milliseconds.
pub(crate) type ShouldContinue<'a> = &'a dyn Fn() -> bool;

/// For background work that no query waits for.
pub(crate) const ALWAYS: ShouldContinue<'static> = &|| true;

/// Resources of one build.
pub(crate) struct Effort<'a> {
    stop: &'a AtomicBool,
    should_continue: ShouldContinue<'a>,
    make_room: MakeRoom<'a>,
    /// Memory that stays with the base.
    kept: Reservation,
    /// Memory released at the end of the build.
    passing: Reservation,
}

impl<'a> Effort<'a> {
    pub(crate) fn new(
        stop: &'a AtomicBool,
        should_continue: ShouldContinue<'a>,
        make_room: MakeRoom<'a>,
        kept: Reservation,
        passing: Reservation,
    ) -> Self {
        Self {
            stop,
            should_continue,
            make_room,
            kept,
            passing,
        }
    }

    /// Fails if the build was cancelled.
    pub(crate) fn check(&self) -> Result<(), ViewError> {
        if self.stop.load(Ordering::Relaxed) || !(self.should_continue)() {
            return Err(ViewError::Stopped);
        }
        Ok(())
    }

    /// Reserves memory that the base keeps.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), ViewError> {
        grow(&mut self.kept, bytes, self.make_room)?;
        Ok(())
    }

    /// Reserves memory for the duration of the build.
    pub(crate) fn pass(&mut self, bytes: usize) -> Result<(), ViewError> {
        grow(&mut self.passing, bytes, self.make_room)?;
        Ok(())
    }

    /// Releases memory reserved for a part of the build.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.passing.shrink(bytes);
    }

    #[cfg(test)]
    pub(crate) fn passing_bytes(&self) -> usize {
        self.passing.bytes()
    }

    /// The reservation that the base keeps.
    pub(crate) fn into_kept(self) -> Reservation {
        self.kept
    }
}

fn grow(
    reservation: &mut Reservation,
    bytes: usize,
    make_room: MakeRoom<'_>,
) -> Result<(), OverBudget> {
    match reservation.try_grow(bytes) {
        Err(_) if make_room(bytes) => reservation.try_grow(bytes),
        outcome => outcome,
    }
}
