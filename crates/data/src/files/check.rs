//! Checks files against their folders and their content against their sizes.

use std::collections::{BTreeMap, BTreeSet};

use isomer_layout::{
    DataError,
    files::{CHUNK_BYTES, ROOT, Stored, UNNAMED},
    keyspace::{self, FileKind, TAG_FILE, TAG_FILE_CHUNK, TAG_FILE_ENTRY},
    pairs::each_pair,
};
use isomer_storage::Read;

use crate::{DataStore, files::numbers::FIRST_FILE};

/// Most findings that are reported.
const MAX_FINDINGS: usize = 100;

impl DataStore {
    /// Reads all files of the last version and returns the inconsistencies, at most 100 findings.
    pub fn check_files(&self) -> Result<Vec<String>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let read: &dyn Read = &*snapshot;
        let mut findings = Vec::new();
        let mut find = |what: String| {
            if findings.len() < MAX_FINDINGS {
                findings.push(what);
            }
        };
        // The numbers that folders name, with the kind and the folder.
        let mut named: BTreeMap<u64, (FileKind, u64)> = BTreeMap::new();
        let mut holders = BTreeSet::new();
        each_pair(read, &[TAG_FILE_ENTRY], |key, value| {
            let mut rest = &key[1..];
            let Some(folder) = keyspace::take_id(&mut rest) else {
                find(format!(
                    "an entry of a folder is malformed: {}",
                    key.escape_ascii()
                ));
                return Ok(());
            };
            let (kind, number) = keyspace::take_file_entry(value)?;
            let name = String::from_utf8_lossy(rest);
            if named.insert(number, (kind, folder)).is_some() {
                find(format!(
                    "`{name}` of folder {folder} names number {number}, as another entry does"
                ));
            }
            holders.insert(folder);
            Ok(())
        })?;
        for folder in holders {
            let known = folder == ROOT
                || folder == UNNAMED
                || matches!(named.get(&folder), Some((FileKind::Folder, _)));
            if !known {
                find(format!(
                    "there are entries of folder {folder}, which no folder names"
                ));
            }
        }
        let mut sizes = BTreeMap::new();
        each_pair(read, &[TAG_FILE], |key, value| {
            let number = keyspace::sole_id(&key[1..], "the number of a file")?;
            // A file that another replica has not written to its end has metadata, and is in no folder.
            let is_known = || read.get(&keyspace::metadata_row(keyspace::IdSpace::Files, number));
            if number < FIRST_FILE || !named.contains_key(&number) && is_known()?.is_none() {
                find(format!("file {number} is in no folder"));
            }
            sizes.insert(number, Stored::decode(value)?.bytes);
            Ok(())
        })?;
        for number in named.keys().filter(|number| !sizes.contains_key(number)) {
            find(format!("file {number} is named and has no record"));
        }
        each_pair(read, &[TAG_FILE_CHUNK], |key, bytes| {
            let mut rest = &key[1..];
            let number = keyspace::take_id(&mut rest);
            let chunk = keyspace::sole_id(rest, "the number of a chunk")?;
            let size = number.and_then(|number| sizes.get(&number)).copied();
            let fits = size.is_some_and(|size| {
                bytes.len() as u64 <= CHUNK_BYTES
                    && chunk * CHUNK_BYTES + bytes.len() as u64 <= size
            });
            if !fits {
                let file = number.map_or_else(|| "without a number".to_owned(), |n| n.to_string());
                find(format!(
                    "chunk {chunk} of file {file} is after the end of the file"
                ));
            }
            Ok(())
        })?;
        Ok(findings)
    }
}
