//! Log entries of local transactions that changed files: the operations for other replicas; and files that are older
//! than replication.

use std::collections::{BTreeMap, BTreeSet};

use isomer_data::{
    DataError, FileId, Transaction, UNNAMED_FILES as UNNAMED, after_prefix,
    internals::{FileNote, notes_mut},
};
use isomer_layout::{
    files::{MAX_PATH_NAMES, ROOT, Stored, names},
    keyspace::{self, FileKind, IdSpace, push_id},
    pairs::each_pair,
    replicated::identity::Identity,
};
use isomer_storage::Read;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    buckets, cells,
    entry::Op,
    files::{self, FileMetadata, folder_of, hash_of},
    versions::{Stamp, Version, push_versions},
};

/// The file operations of a transaction, as they are collected.
#[derive(Default)]
struct FileOperations {
    ops: Vec<Op>,
    /// Paths to assign again, and folders that may be empty now.
    touched: Vec<String>,
    left: Vec<String>,
    /// Files whose content has operations, with their kinds.
    sized: BTreeSet<u64>,
    cut: BTreeMap<u64, u64>,
    written: BTreeSet<(u64, u64)>,
}

/// Records what this transaction did to files; returns the operations.
pub(crate) fn log_file_changes(tx: &mut Transaction, stamp: Stamp) -> Result<Vec<Op>, DataError> {
    let notes = std::mem::take(&mut notes_mut(tx).files);
    let mut operations = FileOperations::default();
    let (mut made, mut gone) = (FxHashSet::default(), FxHashSet::default());
    let mut last_called = FxHashMap::default();
    for (at, note) in notes.iter().enumerate() {
        match note {
            FileNote::Created(number) => drop(made.insert(*number)),
            FileNote::Deleted(number) => drop(gone.insert(*number)),
            FileNote::Renamed(number, _) => drop(last_called.insert(*number, at)),
            _ => {}
        }
    }
    for (at, note) in notes.into_iter().enumerate() {
        match note {
            FileNote::Created(number) if !gone.contains(&number) => {
                log_created_file(tx, number, stamp, &mut operations)?;
            }
            FileNote::Deleted(number) if !made.contains(&number) => {
                log_removed_file(tx, number, &mut operations)?;
            }
            FileNote::Renamed(number, path)
                if !gone.contains(&number) && last_called[&number] == at =>
            {
                log_path_change(tx, number, path, stamp, &mut operations)?;
            }
            FileNote::FolderCreated(path) => log_folder_change(tx, path, stamp, &mut operations)?,
            FileNote::FolderDeleted(path) => {
                files::put_makings(tx, &path, Vec::new())?;
                operations.left.push(folder_of(&path).to_owned());
                operations.touched.push(path.clone());
                operations.ops.push(Op::FolderDeleted { path });
            }
            FileNote::Resized(number) => drop(operations.sized.insert(number)),
            FileNote::Written(number, from, to) => {
                operations
                    .written
                    .extend((from..to).map(|chunk| (number, chunk)));
            }
            FileNote::Truncated(number, from) => {
                let first = operations.cut.entry(number).or_insert(from);
                *first = from.min(*first);
            }
            FileNote::Created(_) | FileNote::Deleted(_) | FileNote::Renamed(..) => {}
        }
    }
    log_content_change(tx, stamp, &gone, &mut operations)?;
    let mut touched = operations.touched;
    for folder in operations.left {
        files::prune(tx, &folder, &mut touched)?;
    }
    files::assign_paths(tx, touched)?;
    Ok(operations.ops)
}

fn log_created_file(
    tx: &mut Transaction,
    number: u64,
    stamp: Stamp,
    operations: &mut FileOperations,
) -> Result<(), DataError> {
    let created_ms = tx.files().file_record(FileId(number))?.created_ms;
    let replica = stamp.dot.replica;
    let identity = Identity::Made {
        replica,
        id: number,
    };
    let metadata = FileMetadata {
        identity: identity.clone(),
        creation: stamp,
        created_ms,
        called: Vec::new(),
        shown: String::new(),
    };
    files::put_file_metadata(tx, number, &metadata)?;
    operations.sized.insert(number);
    operations.ops.push(Op::FileCreated {
        file: identity,
        created_ms,
    });
    Ok(())
}

fn log_removed_file(
    tx: &mut Transaction,
    number: u64,
    operations: &mut FileOperations,
) -> Result<(), DataError> {
    let Some(metadata) = files::file_metadata(tx, number)? else {
        return Ok(());
    };
    operations.left.push(folder_of(&metadata.shown).to_owned());
    operations
        .touched
        .extend(files::forget_file(tx, number, &metadata)?);
    operations.ops.push(Op::FileDeleted {
        file: metadata.identity,
    });
    Ok(())
}

fn log_path_change(
    tx: &mut Transaction,
    number: u64,
    path: String,
    stamp: Stamp,
    operations: &mut FileOperations,
) -> Result<(), DataError> {
    let Some(mut metadata) = files::file_metadata(tx, number)? else {
        return Ok(());
    };
    operations.left.push(folder_of(&metadata.shown).to_owned());
    operations.ops.push(Op::FileRenamed {
        file: metadata.identity.clone(),
        path: path.clone(),
    });
    metadata.shown.clone_from(&path);
    tx.replication_mut()
        .delete_row(&keyspace::conflict_in_name(number))?;
    let value = path.into_bytes();
    let touched = files::call_file(tx, number, metadata, vec![Version { stamp, value }])?;
    operations.touched.extend(touched);
    Ok(())
}

fn log_folder_change(
    tx: &mut Transaction,
    path: String,
    stamp: Stamp,
    operations: &mut FileOperations,
) -> Result<(), DataError> {
    let created_ms = match tx.files().find_path(&names(&path)?)? {
        Some((FileKind::Folder, number)) => tx.files().file_record(FileId(number))?.created_ms,
        _ => 0, // it is gone again
    };
    let mut value = Vec::new();
    push_id(&mut value, created_ms);
    files::put_makings(tx, &path, vec![Version { stamp, value }])?;
    operations.ops.push(Op::FolderCreated { path, created_ms });
    Ok(())
}

/// Content as it is now, after truncations, as chunks may have been written again since.
fn log_content_change(
    tx: &mut Transaction,
    stamp: Stamp,
    gone: &FxHashSet<u64>,
    operations: &mut FileOperations,
) -> Result<(), DataError> {
    for (number, from) in std::mem::take(&mut operations.cut) {
        let Some(file) = named_file(tx, number, gone)? else {
            continue;
        };
        let start = keyspace::cell(&keyspace::file_chunk(number, from));
        let end = after_prefix(&keyspace::cell(&keyspace::file_chunks(number)));
        for cell in tx.raw().keys_between(&start, end.as_deref())? {
            cells::drop_cell(tx, &cell[1..])?;
        }
        operations.ops.push(Op::ChunksDeleted { file, from });
    }
    for (number, chunk) in std::mem::take(&mut operations.written) {
        let Some(file) = named_file(tx, number, gone)? else {
            continue;
        };
        let stored = keyspace::file_chunk(number, chunk);
        if let Some(bytes) = tx.read().get(&stored)? {
            cells::own_cell(tx, &stored, stamp)?;
            operations.ops.push(Op::ChunkPut { file, chunk, bytes });
        }
    }
    for number in std::mem::take(&mut operations.sized) {
        let Some(file) = named_file(tx, number, gone)? else {
            continue;
        };
        let record = tx.files().file_record(FileId(number))?;
        let value = Stored {
            created_ms: 0,
            ..record
        };
        let value = value.encode();
        buckets::put_creations(tx, &keyspace::file(number), vec![Version { stamp, value }])?;
        operations.ops.push(Op::FileResized {
            file,
            bytes: record.bytes,
            modified_ms: record.modified_ms,
        });
    }
    Ok(())
}

/// The identity of a file that still exists.
fn named_file(
    tx: &Transaction,
    number: u64,
    gone: &FxHashSet<u64>,
) -> Result<Option<Identity>, DataError> {
    match gone.contains(&number) {
        true => Ok(None),
        false => Ok(files::file_metadata(tx, number)?.map(|metadata| metadata.identity)),
    }
}

/// Stores metadata of files that are older than replication, as if `base` had created and named them. Costs a read and
/// two writes for each file.
///
/// # Errors
/// [`DataError::Limit`] for a path with more names than other replicas accept.
pub(super) fn adopt(
    tx: &mut dyn isomer_storage::EngineTransaction,
    base: Stamp,
) -> Result<(), DataError> {
    let mut puts: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut folders = vec![(ROOT, Some(String::new())), (UNNAMED, None)];
    while let Some((folder, path)) = folders.pop() {
        let prefix = keyspace::file_entries(folder);
        each_pair(as_read(tx), &prefix, |key, value| {
            let name = std::str::from_utf8(&key[prefix.len()..])
                .map_err(|_| DataError::corrupt("the name of a file is not UTF-8"))?;
            let (kind, number) = keyspace::take_file_entry(value)?;
            let path = path.as_ref().map(|path| format!("{path}/{name}"));
            path.as_deref().map_or(Ok(()), check_depth)?;
            let record = as_read(tx).get(&keyspace::file(number))?;
            let record = record.ok_or_else(|| DataError::corrupt("a file has no record"))?;
            let created_ms = Stored::decode(&record)?.created_ms;
            if let (FileKind::Folder, Some(path)) = (kind, path.clone()) {
                let mut value = Vec::new();
                push_id(&mut value, created_ms);
                let mut stored = Vec::new();
                isomer_layout::replicated::codec::push_bytes(&mut stored, path.as_bytes());
                push_versions(&mut stored, &[Version { stamp: base, value }], None);
                puts.push((keyspace::folder_made(hash_of(&path)), stored));
                folders.push((number, Some(path)));
                return Ok(());
            }
            let called = path.iter().map(|path| Version {
                stamp: base,
                value: path.clone().into_bytes(),
            });
            let metadata = FileMetadata {
                identity: Identity::Made {
                    replica: base.dot.replica,
                    id: number,
                },
                creation: base,
                created_ms,
                called: called.collect(),
                shown: path.clone().unwrap_or_default(),
            };
            puts.push((
                keyspace::metadata_row(IdSpace::Files, number),
                metadata.encode(),
            ));
            puts.extend(
                path.map(|path| (keyspace::file_called(hash_of(&path), number), Vec::new())),
            );
            Ok(())
        })?;
    }
    for (key, value) in puts {
        tx.put(&key, &value)?;
    }
    Ok(())
}

/// A folder that was moved into another one may contain paths that are too long for other replicas.
fn check_depth(path: &str) -> Result<(), DataError> {
    let count = path.matches('/').count();
    match count <= MAX_PATH_NAMES {
        true => Ok(()),
        false => Err(DataError::Limit {
            what: format!("the path `{}…`", path.chars().take(40).collect::<String>()),
            size: format!("{count} names"),
            max: format!("{MAX_PATH_NAMES} names"),
            advice: "move a folder that it is in nearer to the root before the database becomes a replica",
        }),
    }
}

fn as_read(tx: &dyn isomer_storage::EngineTransaction) -> &dyn Read {
    tx
}
