//! The operating system's file system.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Disk, DiskFile, FileMapping, FileType, Lock, LockError, LockMode, OpenMode, lock, platform,
};

/// Bytes that [`DiskFile::write_zeros`] writes at once.
const ZEROS_BYTES: usize = 4 << 10;

/// The real disk.
///
/// Linux keeps what one call wrote in one unit of its page cache, if it can, and a sync writes such a unit as a whole
/// after any store to a mapping of it. So zeros are written in pieces of 4 KiB: in one piece of 256 KiB, a sync after
/// each store of 300 bytes took 170 us instead of 125 (ext4 under Linux 6.18).
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Wraps an open file.
    pub fn file(file: File) -> Arc<dyn DiskFile> {
        Arc::new(RealFile(file))
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(true);
                platform::private_file(&mut options);
            }
        }
        Ok(Self::file(options.open(path)?))
    }

    fn kind(&self, path: &Path) -> io::Result<FileType> {
        let metadata = fs::metadata(path)?;
        Ok(if metadata.is_file() {
            FileType::File
        } else if metadata.is_dir() {
            FileType::Folder
        } else {
            FileType::Other
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().into()))
            .collect()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        platform::private_folder().recursive(true).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        platform::sync_folder(folder)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        lock::take(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        platform::free_bytes(path)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        platform::read_at(&self.0, out, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        platform::write_at(&self.0, bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(platform::stored_bytes(&self.0.metadata()?))
    }

    fn name_count(&self) -> io::Result<u64> {
        platform::name_count(&self.0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // `fdatasync` includes the length; timestamps need not be durable.
        self.0.sync_data()
    }

    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let zeros = [0; ZEROS_BYTES];
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            // Up to the next multiple, so that the pieces are pages.
            let piece = (at + 1).next_multiple_of(ZEROS_BYTES as u64).min(end) - at;
            self.write_all_at(&zeros[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }

    fn map(&self, offset: u64, bytes: usize) -> io::Result<Option<Box<dyn FileMapping>>> {
        let end = offset.saturating_add(bytes as u64);
        let len = self.len()?;
        if end > len {
            let what = format!("bytes up to {end} are to be mapped, and the file has {len}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        let mapped = platform::system::map_for_writing(&self.0, offset, bytes)?;
        Ok(mapped.map(|mapping| Box::new(RealMapping { mapping, offset }) as Box<dyn FileMapping>))
    }
}

/// The part of a file from `offset` on.
#[derive(Debug)]
struct RealMapping {
    mapping: platform::system::WriteMapping,
    offset: u64,
}

impl FileMapping for RealMapping {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = offset.checked_sub(self.offset);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let start = start.expect("bytes before the mapped part are not written");
        self.mapping.write(bytes, start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultyDisk;

    /// A file of `len` bytes without a place on the disk.
    fn sparse(folder: &Path, len: u64) -> Arc<dyn DiskFile> {
        let path = folder.join("file");
        let file = RealDisk.open(&path, OpenMode::Create).expect("a file");
        file.set_len(len).expect("a hole");
        file
    }

    #[test]
    fn what_is_written_to_a_mapping_is_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = sparse(folder.path(), 300_000);
        let other = RealDisk.open(&folder.path().join("file"), OpenMode::Read);
        let other = other.expect("the file");
        // The part begins and ends within a page of memory.
        let (start, bytes) = (70_001, 150_000);
        let before = file.stored_bytes().expect("a number");
        let Some(mut mapping) = file.map(start, bytes).expect("it is mapped") else {
            eprintln!("skipped: this file system does not overwrite in place");
            return;
        };
        let after = file.stored_bytes().expect("a number");
        assert!(
            after >= before + bytes as u64,
            "it has a place: {before} {after}"
        );
        let mut expected = vec![0; 300_000];
        for (at, len) in [(70_001, 1), (70_002, 9000), (220_000, 1), (100_003, 0)] {
            let content: Vec<u8> = (0..len).map(|byte| byte as u8 | 1).collect();
            mapping.write_at(&content, at).expect("it is written");
            expected[at as usize..][..len].copy_from_slice(&content);
            let mut found = vec![0; expected.len()];
            other.read_exact_at(&mut found, 0).expect("bytes");
            assert!(found == expected, "{at}");
        }
        file.sync().expect("durable");
        drop(file);
        // The mapping lives on without the handle.
        mapping.write_at(&[7], 70_001).expect("it is written");
        let mut found = [0];
        other.read_exact_at(&mut found, 70_001).expect("a byte");
        assert_eq!(found, [7]);
    }

    #[test]
    fn zeros_are_written_where_they_are_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = sparse(folder.path(), 0);
        let mut expected = vec![7; 30_000];
        for (at, bytes) in [(5_000, 10_000), (4_096, 4_096), (29_999, 5), (1, 0)] {
            file.write_all_at(&[7; 30_000], 0).expect("written");
            file.write_zeros(at as u64, bytes as u64).expect("written");
            expected.resize(expected.len().max(at + bytes), 0);
            expected[..30_000].fill(7);
            expected[at..at + bytes].fill(0);
            let mut found = vec![1; expected.len()];
            file.read_exact_at(&mut found, 0).expect("bytes");
            assert!(found == expected, "{at} {bytes}");
        }
    }

    #[test]
    fn nothing_beyond_the_end_of_a_file_is_mapped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = sparse(folder.path(), 10_000);
        for (offset, bytes) in [(0, 10_001), (9_000, 2_000), (u64::MAX, 2)] {
            let refused = file.map(offset, bytes).expect_err("it is too long");
            assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof, "{offset}");
        }
        assert_eq!(file.len().expect("a length"), 10_000);
        let nothing = file.map(10_000, 0).expect("no error");
        assert!(nothing.is_none());
    }

    #[test]
    #[should_panic(expected = "within the mapping")]
    fn a_write_beyond_a_mapping_panics() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = sparse(folder.path(), 10_000);
        match file.map(1_000, 1_000).expect("no error") {
            Some(mut mapping) => mapping.write_at(&[1; 2], 1_999).expect("not reached"),
            None => panic!("the bytes are within the mapping that there is not"),
        }
    }

    /// A fault of the disk below is one of its mappings, too.
    #[test]
    fn a_faulty_disk_fails_writes_to_mappings() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(sparse(folder.path(), 10_000));
        let disk = FaultyDisk::new(
            Arc::new(RealDisk),
            Arc::new(|call, _: &Path| match call {
                crate::Call::Write => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }),
        );
        let file = disk.open(&folder.path().join("file"), OpenMode::Write);
        let mapping = file.and_then(|file| file.map(0, 100));
        if let Some(mut mapping) = mapping.expect("no error") {
            let failed = mapping.write_at(&[1], 0).expect_err("it is full");
            assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        }
    }
}
