//! A database that several processes have open: each is a store over a separate engine, and all commit to one log.

mod histories;
mod model;
mod processes;
mod reservations;
mod threads;
