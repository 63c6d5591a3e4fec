//! View files: one file per view, checksummed throughout, rejected as a whole if any check fails.
//!
//! [`format`] describes the file byte by byte; [`folder`] names files, writes them atomically, and removes
//! damaged and foreign ones.

mod error;
mod folder;
mod format;
mod numbers;
mod stored;

pub(crate) use error::ViewFileError;
pub use error::{ViewFileDamage, ViewFileOverflow, ViewFileRejection};
pub use folder::DamagedFile;
pub(crate) use folder::{Folder, FolderListing, NewFile};
pub(crate) use format::{Blocks, Head, Writer, malformed};
pub(crate) use numbers::{Taker, push_packed};
pub(crate) use stored::Stored;
