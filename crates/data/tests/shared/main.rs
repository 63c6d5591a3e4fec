//! A database that several processes have open: each is a store over an engine of its own, and all commit to one log.

mod histories;
mod model;
mod processes;
mod reservations;
mod threads;
