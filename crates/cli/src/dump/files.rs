//! Files and folders in a dump: see [`crate::dump`].

use anyhow::{Context, Result, anyhow, bail};
use isomer_db::{
    Map, PathKind,
    internals::data::{CHUNK_BYTES, FileId, Transaction},
    params,
};

use super::{Writer, bytes_of_hex, field, integer, number};

/// Entries per read of a listing.
const PAGE: usize = 1_000;

/// Writes all folders, and all files with their content; returns the number of files.
pub(super) fn write(transaction: &Transaction, writer: &mut Writer<'_>) -> Result<u64> {
    let mut files = 0;
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let mut after: Option<String> = None;
        loop {
            let path = if folder.is_empty() { "/" } else { &folder };
            let page = transaction
                .files()
                .list_folder(path, after.as_deref(), PAGE)?;
            for (name, about) in &page {
                let path = format!("{folder}/{name}");
                match (about.kind, about.file) {
                    (PathKind::File, Some(id)) => {
                        write_file(transaction, &path, id, writer)?;
                        files += 1;
                    }
                    _ => {
                        writer.line(params! { "folder" => path.clone() })?;
                        folders.push(path);
                    }
                }
            }
            if page.len() < PAGE {
                break;
            }
            after = page.last().map(|(name, _)| name.clone());
        }
    }
    Ok(files)
}

fn write_file(
    transaction: &Transaction,
    path: &str,
    id: FileId,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let size = transaction.files().file_bytes(id)?;
    writer.line(params! { "file" => path.to_owned(), "bytes" => number(size)? })?;
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    let mut at = 0;
    while at < size {
        let count = transaction.files().read_file(id, at, &mut chunk)?;
        if count == 0 {
            bail!("the file `{path}` ends at {at} of {size} bytes: run `isomer check`");
        }
        let bytes = &chunk[..count];
        // A gap reads as zeros and is not written.
        if bytes.iter().any(|byte| *byte != 0) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writer.line(params! { "of" => path.to_owned(), "at" => number(at)?, "hex" => hex })?;
        }
        at += count as u64;
    }
    Ok(())
}

/// Reads the lines of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The file whose content is being read.
    open: Option<(String, FileId)>,
    /// Files so far.
    pub(super) count: u64,
}

impl Files {
    /// Consumes a line of a file or folder; returns its size in bytes, or none for another kind of line.
    pub(super) fn take(
        &mut self,
        transaction: &mut Transaction,
        fields: &Map,
    ) -> Result<Option<usize>> {
        if fields.contains("folder") {
            transaction
                .files_mut()
                .create_folder(field(fields, "folder")?)?;
            return Ok(Some(0));
        }
        let offset = |name: &str| -> Result<u64> {
            let value = fields
                .get(name)
                .ok_or_else(|| anyhow!("`{name}` is missing"))?;
            u64::try_from(integer(value)?).with_context(|| format!("`{name}` is below 0"))
        };
        if fields.contains("file") {
            let path = field(fields, "file")?;
            let id = transaction.files_mut().create_file(path)?;
            transaction.files_mut().resize_file(id, offset("bytes")?)?;
            self.open = Some((path.to_owned(), id));
            self.count += 1;
            return Ok(Some(0));
        }
        if !fields.contains("of") {
            return Ok(None);
        }
        let path = field(fields, "of")?;
        let (_, id) = self
            .open
            .as_ref()
            .filter(|(open, _)| open == path)
            .ok_or_else(|| anyhow!("the content of `{path}` does not follow its file"))?;
        let (at, bytes) = (offset("at")?, bytes_of_hex(field(fields, "hex")?)?);
        let size = transaction.files().file_bytes(*id)?;
        if at
            .checked_add(bytes.len() as u64)
            .is_none_or(|end| end > size)
        {
            bail!("the content of `{path}` goes beyond its {size} bytes");
        }
        transaction.files_mut().write_file(*id, at, &bytes)?;
        Ok(Some(bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use isomer_db::{Database, internals::DatabaseInternals as _};

    use crate::dump::{read, write};

    /// Folders (also empty ones), empty files, gaps, several chunks, names that JSON escapes.
    #[test]
    fn files_come_back_as_they_were() {
        let db = Database::open_in_memory().expect("a database");
        let large: Vec<u8> = (0..200_000_u32)
            .map(|at| (at.wrapping_mul(at) >> 7) as u8)
            .collect();
        db.transact(|tx| {
            let files = tx.files();
            files.create_folders("/a/b \"c\"/empty")?;
            files.write("/a/b \"c\"/large", &large)?;
            files.write("/a/nothing", b"")?;
            files.write("/ümlaut\n", b"text")?;
            files.write("/gap", b"x")?;
            files.open("/gap")?.set_size(1 << 20)
        })
        .expect("files");
        for number in 0..1500 {
            db.transact(|tx| tx.files().write(&format!("/many-{number:04}"), b"1"))
                .expect("a file");
        }
        let mut first = Vec::new();
        let dumped = write(&db, &mut first).expect("a dump");
        assert_eq!(dumped.files, 1504);
        let other = Database::open_in_memory().expect("a database");
        let again = read(&other, &mut first.as_slice(), &mut || ()).expect("it is read");
        assert_eq!(again, dumped);
        let mut second = Vec::new();
        write(&other, &mut second).expect("a dump");
        assert_eq!(first, second);
        other
            .transact(|tx| {
                let files = tx.files();
                assert_eq!(files.read("/a/b \"c\"/large")?, large);
                assert_eq!(files.read("/a/nothing")?, b"");
                assert_eq!(files.list("/a/b \"c\"/empty")?, []);
                let gap = files.read("/gap")?;
                assert!(gap.len() == 1 << 20 && gap[0] == b'x' && gap[1..].iter().all(|b| *b == 0));
                Ok(())
            })
            .expect("the files");
        let store = other.store().expect("a store");
        let found = isomer_check::check(&store, &mut |_, _| std::ops::ControlFlow::Continue(()));
        assert_eq!(found.expect("checked"), Vec::<String>::new());
    }

    #[test]
    fn content_without_its_file_is_refused() {
        for (lines, message) in [
            (
                r#"{"of":"/a","at":0,"hex":"00"}"#,
                "does not follow its file",
            ),
            (
                "{\"file\":\"/a\",\"bytes\":1}\n{\"of\":\"/a\",\"at\":1,\"hex\":\"00\"}",
                "beyond its 1 bytes",
            ),
            (r#"{"file":"/none/a","bytes":1}"#, "/none"),
            (r#"{"file":"/a","bytes":-1}"#, "below 0"),
            (
                "{\"file\":\"/a\",\"bytes\":1}\n{\"of\":\"/a\",\"at\":0,\"hex\":\"0\"}",
                "odd number",
            ),
        ] {
            let count = lines.lines().count() + 1;
            let text = format!("{{\"isomer\":1}}\n{lines}\n{{\"end\":{count}}}\n");
            let db = Database::open_in_memory().expect("a database");
            let error = read(&db, &mut text.as_bytes(), &mut || ()).expect_err(message);
            let error = format!("{error:#}");
            assert!(error.contains(message), "{error}");
        }
    }
}
