//! Why a file of a view is not used, or not written.

use std::io;

use isomer_value::ValueError;
use isomer_vfs::Unsealed;
use thiserror::Error;

/// Why a file was not read or written.
#[derive(Debug, Error)]
pub(crate) enum ViewFileError {
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content differs from what was written.
    #[error(transparent)]
    Damaged(#[from] ViewFileDamage),
    /// The file is intact, and not for this database and program.
    #[error(transparent)]
    Rejected(#[from] ViewFileRejection),
    /// The view does not fit into the format.
    #[error(transparent)]
    Unwritable(#[from] ViewFileOverflow),
}

/// How the content of a stored view differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ViewFileDamage {
    /// The file begins with other bytes than a stored view.
    #[error("wrong magic number")]
    WrongMagic,
    /// The checksum of the header does not match.
    #[error("header checksum mismatch")]
    HeaderChecksum,
    /// A field of the header has a value that is never written.
    #[error("malformed header")]
    MalformedHeader,
    /// The file was cut or extended.
    #[error("the file has {bytes} bytes, its header says {stated}")]
    WrongLength {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes according to its header.
        stated: u64,
    },
    /// The file ends early.
    #[error("the file ends within {part}")]
    Truncated {
        /// The part that is incomplete, as a noun.
        part: &'static str,
    },
    /// A block is longer than the rest of the file, or than any block.
    #[error("block {number} is longer than the file")]
    BlockTooLong {
        /// The block, from 1.
        number: u64,
    },
    /// The checksum of a block does not match.
    #[error("checksum mismatch in block {number}")]
    BlockChecksum {
        /// The block, from 1.
        number: u64,
    },
    /// A block cannot be decrypted.
    #[error("block {number}: {source}")]
    Unsealed {
        /// The block, from 1.
        number: u64,
        /// Why.
        source: Unsealed,
    },
    /// The blocks are not those that the footer was written for.
    #[error("the footer does not match the blocks")]
    FooterMismatch,
    /// The checksums match, and the content is inconsistent: another program wrote it.
    #[error("malformed content")]
    MalformedContent,
    /// The file has the name of one view and the header of another.
    #[error("it holds another view")]
    OtherView,
}

/// Why an intact file of a stored view is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ViewFileRejection {
    /// The file is of another database, another history, or was written with another key.
    #[error("the file belongs to another history of the database")]
    Foreign,
    /// The file has a newer format.
    #[error("the file has format {found}, this program reads formats up to {newest}")]
    Format {
        /// The format of the file.
        found: u32,
        /// The newest known format.
        newest: u32,
    },
    /// A column without convergent fields, which columns contain now.
    #[error("it was written before columns held convergent fields")]
    NoConvergentFields,
}

/// Why a view cannot be written to a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewFileOverflow {
    /// A block exceeds its limit.
    #[error("a block has {bytes} bytes, the limit is {max}")]
    BlockTooLarge {
        /// Bytes of the block.
        bytes: usize,
        /// The limit.
        max: u32,
    },
    /// A value of a column has no encoding.
    #[error("a value of the column cannot be stored: {0}")]
    Value(#[from] ValueError),
}
