//! The catalog of a folder of backups, byte by byte. Numbers are little-endian.
//!
//! ```text
//! 0    8 bytes   "ISOMBKUP"
//! 8    u32       format: 1
//! 12   u32       n: number of backups
//! 16   16 bytes  identity of the database that they are of
//! 32   n backups, oldest first, each
//!        u64       its number, from 1 on, never given twice
//!        u64       version of the database in it
//!        u64       when it was made, in milliseconds since 1970
//!        u32       m: number of files
//!        m files, each
//!          u16       k: bytes of the name
//!          k bytes   its name in the database's folder, UTF-8, folders with `/`
//!          u64       its length
//!          16 bytes  its XXH3 of 128 bits
//! …    u64       XXH3 of everything before it
//! ```

use std::{io, path::Path};

use isomer_storage::{StorageError, Version, io_error};
use isomer_vfs::{Disk, OpenMode};
use xxhash_rust::xxh3::xxh3_64;

use super::files::{CATALOG, NEW, damaged, is_inside};

const MAGIC: &[u8; 8] = b"ISOMBKUP";
const FORMAT: u32 = 1;
/// A catalog is read as a whole: a longer file is refused.
const MAX_BYTES: u64 = 256 << 20;

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name in the database's folder.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// Its XXH3 of 128 bits.
    pub sum: u128,
}

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRecord {
    /// From 1 on; never given twice.
    pub number: u64,
    /// Version of the database in it.
    pub version: Version,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// What it consists of.
    pub files: Vec<StoredFile>,
}

impl BackupRecord {
    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// All backups in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    pub identity: u128,
    pub backups: Vec<BackupRecord>,
}

impl Catalog {
    /// Reads the catalog of the folder `target`; `None` if there is none.
    pub fn read(disk: &dyn Disk, target: &Path) -> Result<Option<Self>, StorageError> {
        let path = target.join(CATALOG);
        let fail = |error: io::Error| io_error("reading", &path, &error);
        let file = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let len = file.len().map_err(fail)?;
        if len > MAX_BYTES {
            return Err(damaged(target, "its catalog is too long"));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0).map_err(fail)?;
        Self::decode(&bytes).map(Some).map_err(|error| match error {
            Refused::Format(format) => StorageError::Corrupt(format!(
                "the backup `{}` is of format {format}, this program reads format {FORMAT}: use a newer program",
                target.display()
            )),
            Refused::Damaged(what) => damaged(target, what),
        })
    }

    /// Writes it in place of the existing one.
    pub fn write(&self, disk: &dyn Disk, target: &Path) -> Result<(), StorageError> {
        let path = target.join(CATALOG);
        let passing = path.with_extension(NEW);
        let written = (|| {
            let file = disk.open(&passing, OpenMode::Create)?;
            file.write_all_at(&self.encode(), 0)?;
            file.sync()?;
            disk.rename(&passing, &path)?;
            disk.sync_folder(target)
        })();
        written.map_err(|error| io_error("writing", &path, &error))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(self.backups.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.identity.to_le_bytes());
        for backup in &self.backups {
            bytes.extend_from_slice(&backup.number.to_le_bytes());
            bytes.extend_from_slice(&backup.version.to_le_bytes());
            bytes.extend_from_slice(&backup.time_ms.to_le_bytes());
            bytes.extend_from_slice(&(backup.files.len() as u32).to_le_bytes());
            for file in &backup.files {
                let name = file.name.as_bytes();
                bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
                bytes.extend_from_slice(name);
                bytes.extend_from_slice(&file.len.to_le_bytes());
                bytes.extend_from_slice(&file.sum.to_le_bytes());
            }
        }
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        let short = || Refused::Damaged("its catalog is too short");
        let (content, sum) = bytes.split_last_chunk::<8>().ok_or_else(short)?;
        let mut taker = Taker(content);
        if taker.take::<8>() != Some(*MAGIC) {
            return Err(Refused::Damaged("its catalog does not begin as one"));
        }
        if xxh3_64(content).to_le_bytes() != *sum {
            return Err(Refused::Damaged(
                "the checksum of its catalog does not match",
            ));
        }
        match taker.u32().ok_or_else(short)? {
            FORMAT => {}
            other => return Err(Refused::Format(other)),
        }
        let count = taker.u32().ok_or_else(short)?;
        let identity = u128::from_le_bytes(taker.take().ok_or_else(short)?);
        let mut catalog = Self {
            identity,
            backups: Vec::new(),
        };
        for _ in 0..count {
            catalog.backups.push(
                taker
                    .backup()
                    .ok_or(Refused::Damaged("its catalog is malformed"))?,
            );
        }
        if !taker.0.is_empty() {
            return Err(Refused::Damaged("its catalog is too long"));
        }
        Ok(catalog)
    }
}

enum Refused {
    Format(u32),
    Damaged(&'static str),
}

/// Takes numbers off the front; `None` if the bytes end too early.
struct Taker<'a>(&'a [u8]);

impl<'a> Taker<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn backup(&mut self) -> Option<BackupRecord> {
        let (number, version, time_ms) = (self.u64()?, self.u64()?, self.u64()?);
        let count = self.u32()?;
        let mut files = Vec::new();
        for _ in 0..count {
            files.push(self.file()?);
        }
        Some(BackupRecord {
            number,
            version,
            time_ms,
            files,
        })
    }

    fn file(&mut self) -> Option<StoredFile> {
        let len = self.take().map(u16::from_le_bytes)?;
        let name = str::from_utf8(self.bytes(len.into())?).ok()?;
        Some(StoredFile {
            name: Some(name).filter(|name| is_inside(name))?.to_owned(),
            len: self.u64()?,
            sum: self.take().map(u128::from_le_bytes)?,
        })
    }
}

/// For fuzzing: any bytes as a catalog, except for its checksum. A catalog that is accepted is written back
/// identically, and names no file outside of its folder.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_catalog(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    if let Ok(catalog) = Catalog::decode(&bytes) {
        assert_eq!(catalog.encode(), bytes);
        let files = catalog.backups.iter().flat_map(|backup| &backup.files);
        files.for_each(|file| assert!(is_inside(&file.name), "{:?}", file.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let file = |name: &str, len| StoredFile {
            name: name.to_owned(),
            len,
            sum: u128::from(len) << 90,
        };
        let backup = |number| BackupRecord {
            number,
            version: number * 100,
            time_ms: 1 << 40,
            files: vec![file("MANIFEST", 7), file("tables/1.table", number)],
        };
        Catalog {
            identity: 5,
            backups: vec![backup(3), backup(4)],
        }
    }

    #[test]
    fn a_catalog_comes_back_and_a_damaged_one_is_refused() {
        let bytes = catalog().encode();
        assert_eq!(Catalog::decode(&bytes).ok(), Some(catalog()));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Catalog::decode(&bytes).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Catalog::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    /// Even if the checksum of a catalog matches, no file is named outside of the folder.
    #[test]
    fn names_stay_inside() {
        for name in ["../x", "/etc/passwd", "a/../../b", "", "a\\..\\b", "."] {
            let mut catalog = catalog();
            name.clone_into(&mut catalog.backups[0].files[0].name);
            assert!(Catalog::decode(&catalog.encode()).is_err(), "{name}");
        }
    }
}
