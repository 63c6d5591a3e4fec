//! Making a base: bounded in memory, stopped when the database closes.

use std::sync::atomic::{AtomicBool, Ordering};

use isomer_storage::{OverBudget, Reservation};

use crate::error::ViewError;

/// Gives memory back so that so many bytes more fit; says whether it may have helped.
pub(crate) type MakeRoom<'a> = &'a dyn Fn(usize) -> bool;

/// Whether whoever waits for the work still wants it; asked every few milliseconds.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> bool;

/// What a base takes while it is made.
pub(crate) struct Effort<'a> {
    stop: &'a AtomicBool,
    go_on: GoOn<'a>,
    make_room: MakeRoom<'a>,
    /// What stays.
    kept: Reservation,
    /// What is given back at the end.
    passing: Reservation,
}

impl<'a> Effort<'a> {
    pub(crate) fn new(
        stop: &'a AtomicBool,
        go_on: GoOn<'a>,
        make_room: MakeRoom<'a>,
        kept: Reservation,
        passing: Reservation,
    ) -> Self {
        Self {
            stop,
            go_on,
            make_room,
            kept,
            passing,
        }
    }

    /// Ends the work where nobody wants it any more.
    pub(crate) fn check(&self) -> Result<(), ViewError> {
        if self.stop.load(Ordering::Relaxed) || !(self.go_on)() {
            return Err(ViewError::Stopped);
        }
        Ok(())
    }

    /// Takes memory that the base keeps.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), ViewError> {
        grow(&mut self.kept, bytes, self.make_room)?;
        Ok(())
    }

    /// Takes memory for the time of the work.
    pub(crate) fn pass(&mut self, bytes: usize) -> Result<(), ViewError> {
        grow(&mut self.passing, bytes, self.make_room)?;
        Ok(())
    }

    /// Gives back what was taken for a part of the work.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.passing.shrink(bytes);
    }

    #[cfg(test)]
    pub(crate) fn passing_bytes(&self) -> usize {
        self.passing.bytes()
    }

    /// What the base keeps.
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
