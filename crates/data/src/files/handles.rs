//! The handles through which a transaction reads and changes its files.

use crate::Transaction;

/// Folders and files as one transaction sees them.
///
/// A path costs one lookup for each of its names. Content is read in chunks: a read costs as many as it covers.
#[derive(Clone, Copy)]
pub struct FileTree<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Creates, moves, writes and removes folders and files.
///
/// A rename changes the entries in two folders, whatever is below them; only in a replica it sends one operation per
/// file. A write replaces whole chunks, and reads those that it covers in part.
pub struct FileTreeMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of the files and folders.
    pub fn files(&self) -> FileTree<'_> {
        FileTree { tx: self }
    }

    /// Changes of the files and folders.
    pub fn files_mut(&mut self) -> FileTreeMut<'_> {
        FileTreeMut { tx: self }
    }
}
