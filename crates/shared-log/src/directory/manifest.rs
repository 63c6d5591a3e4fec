//! The manifest of a log in a directory: the file `manifest`.
//!
//! ```text
//! "isomerSM", u32 format, u32 0, u128 log, u64 grace period in milliseconds, u64 first position that is not trimmed,
//! u64 first position of the newest segment, u64 check: XXH3 of the bytes before
//! ```
//!
//! Every format begins with the first two fields, and ends with the check. It is replaced whole, durably, under the
//! append lock. The newest segment is durable before the manifest names it, and the manifest names it before a record
//! is written to it: a file that is named and missing was removed by another program, and one that is newer has no
//! records.

use std::{io, path::Path, time::Duration};

use isomer_vfs::{Disk, OpenMode};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    file_system::io_error,
    frame::{FORMAT, take},
};
use crate::{LogError, LogId, Position};

const MAGIC: [u8; 8] = *b"isomerSM";
const BYTES: usize = 64;
/// No format has a larger manifest.
const MAX_BYTES: u64 = 4 << 10;
const NAME: &str = "manifest";
const NEW_NAME: &str = "manifest.new";

/// The format of a manifest of any format; `None` if it is damaged.
fn format_of(bytes: &[u8]) -> Option<u32> {
    let (fields, check) = bytes.split_last_chunk()?;
    let is_whole = xxh3_64(fields) == u64::from_le_bytes(*check);
    let mut rest = fields.strip_prefix(&MAGIC).filter(|_| is_whole)?;
    Some(u32::from_le_bytes(take(&mut rest)?))
}

/// What all processes of a log agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) id: LogId,
    pub(super) grace: Duration,
    /// The first position that is not trimmed.
    pub(super) first: Position,
    /// The first position of the newest segment.
    pub(super) newest: Position,
}

impl Manifest {
    /// The manifest in `folder`; `None` if there is none.
    pub(super) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, LogError> {
        let path = folder.join(NAME);
        let read = disk.open(&path, OpenMode::Read).and_then(|file| {
            let len = file.len()?.min(MAX_BYTES);
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path, &error)),
        };
        let damaged = || LogError::Damaged(format!("`{}` is not a manifest", path.display()));
        // First the check, so that damage does not pass for another format.
        let format = format_of(&bytes).ok_or_else(damaged)?;
        if format != FORMAT {
            return Err(LogError::Refused(format!(
                "the log in `{}` has the format {format}, and this program knows {FORMAT}: use the version of the \
                 program that made it",
                folder.display()
            )));
        }
        let bytes = bytes.try_into().map_err(|_| damaged())?;
        Self::decode(&bytes).ok_or_else(damaged).map(Some)
    }

    /// Replaces the manifest in `folder`, durably. After an error it may be the old one or the new one.
    pub(super) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<(), LogError> {
        let (new, path) = (folder.join(NEW_NAME), folder.join(NAME));
        let written = disk.open(&new, OpenMode::Create).and_then(|file| {
            file.write_all_at(&self.encode(), 0)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_folder(folder)
        });
        written.map_err(|error| io_error(&path, &error))
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut out = Vec::with_capacity(BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.0.to_le_bytes());
        let grace = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        for number in [grace, self.first, self.newest] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let mut bytes = [0; BYTES];
        bytes[..56].copy_from_slice(&out);
        bytes[56..].copy_from_slice(&xxh3_64(&out).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut rest = &bytes[16..];
        let manifest = Self {
            id: LogId(u128::from_le_bytes(take(&mut rest)?)),
            grace: Duration::from_millis(u64::from_le_bytes(take(&mut rest)?)),
            first: u64::from_le_bytes(take(&mut rest)?),
            newest: u64::from_le_bytes(take(&mut rest)?),
        };
        (manifest.encode() == *bytes && manifest.first > 0).then_some(manifest)
    }
}
