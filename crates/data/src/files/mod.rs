//! Files: folders and streams of bytes under paths, in the same transactions as other data.
//!
//! A path is `/`, or names with a `/` before each. A name has 1 to 255 bytes, is neither `.` nor `..`, and contains no
//! `/` and no zero. A folder's entries name files and folders by number, so that renaming either moves one entry,
//! however large its content is.
//!
//! **Content** is stored in chunks of [`CHUNK_BYTES`]. A write inside a chunk rewrites it, and reading a byte reads it:
//! large enough that a gigabyte has only 16,384 keys, small enough that a change of a few bytes costs a few dozen
//! microseconds. Unwritten chunks, and the unwritten end of a chunk, read as zeros and use no space.
//!
//! [`CHUNK_BYTES`]: isomer_layout::files::CHUNK_BYTES
//!
//! **Isolation.** The unit of conflict is a file, not the folder it is in and not its chunks: two transactions that
//! write one file conflict, two that make two files in one folder do not. Looking a path up observes its entries;
//! listing a folder observes the names on the page.
//!
//! **Limits.** A file has up to 2^44 bytes. A transaction holds its writes in memory: a large file is written over
//! several (see `isomer_db::FileWriter`), without a path until it is complete.

mod check;
mod content;
mod folders;
mod handles;
pub(crate) mod metadata;
mod numbers;

pub use handles::{FileTree, FileTreeMut};

pub(crate) use numbers::FileNumbers;
