//! A shared log in a directory of one machine, for any number of its processes.
//!
//! | file | content |
//! |---|---|
//! | `manifest` | what all processes agree on: [`manifest`] |
//! | `NNNNNNNNNNNNNNNNNNNN.log` | segments with the records: [`frame`] |
//! | `page` | shared memory, made from the other files: [`page`]; its lock is the *append lock* |
//! | `sync` | empty; its lock is the *sync lock* |
//! | `favoured` | empty; the process that appends alone has its lock: [`append_lock`] |
//! | `reserved` | empty; the process for which the others wait has its lock: [`reservation`] |
//!
//! The files are the truth. An append writes a frame after the last one under the append lock, and then publishes the
//! new tail in the page. A process that ends in between leaves a page that says so: the next appender makes it again
//! from the files. A frame that is complete is part of the log, whether its process lived to say so or not. One that is
//! not complete was not acknowledged, and is dropped.
//!
//! The append lock is released before the sync. One process syncs for all that wait, under the sync lock.
//!
//! A process that has the log open for appending has a shared lock on the folder. The one that finds no other makes the
//! page again from the files, whatever it contains: after a loss of power it may be anything.

mod append_lock;
mod appending;
mod blobs;
mod file_system;
mod following;
mod frame;
mod log;
mod manifest;
mod options;
mod page;
mod process_lock;
mod processes;
mod random;
mod recovery;
mod reservation;
mod segment;
mod segments;
mod tail;
#[cfg(test)]
mod tests;

pub use self::{
    blobs::DirectoryBlobs,
    log::DirectoryLog,
    options::{DirectoryMode, DirectoryOptions},
    processes::LogProcess,
};
