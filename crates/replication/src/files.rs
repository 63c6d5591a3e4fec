//! Files and folders between replicas: their metadata, and the path under which each is shown.
//!
//! A file is identified between replicas by the one that made it and its number there. It has one creation, which a
//! removal ends for good; its path is a plain value with versions, the latest is read; its size and its chunks are such
//! values, too (of sizes the greatest is read, so that no chunk lies behind the end). A folder is identified by its
//! path: it exists while a creation of it is left, or a file has a path inside it. So two replicas that make one folder
//! make the same one, and a file that is put into a folder while another replica removes it keeps the folder.
//!
//! What is shown follows from that alone. A file is shown under its path, where that is not a folder; of several with
//! the same path the latest. All others are shown in the same folder, as `NAME~` and 16 hexadecimal digits from their
//! identity, and are listed among the conflicts, until they are renamed or removed.
//!
//! ```text
//! metadata row  identity, stamp of its creation, id created (ms), versions of its path, bytes path under which it is shown or nothing
//! folder made   bytes path, versions of its creation, each with an id of its time (ms)
//! ```

use isomer_data::{
    CHUNK_BYTES, Change, DataError, Dot, FileId, MAX_FILE_BYTES, MAX_FILE_NAME_BYTES, ReplicaId,
    Transaction, after_prefix,
    internals::{footprint::Space, new_file_number, own_replica, replica_state},
};
use isomer_layout::{
    files::{Stored, names},
    keyspace::{self, FileKind, IdSpace, push_id, sole_id, take_id},
    replicated::{
        codec::{malformed, push_bytes, take_text},
        identity::Identity,
    },
};
use isomer_storage::KeyRange;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::{
    buckets, cells,
    entry::{LogEntry, Op},
    records, spelling,
    state::{NameHash, replication_of},
    versions::{self, Stamp, Version, push_versions, rank, remove_seen, take_versions},
};

/// The metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileMetadata {
    pub(super) identity: Identity,
    pub(super) creation: Stamp,
    pub(super) created_ms: u64,
    /// Its path; nothing while it is being written.
    pub(super) called: Vec<Version>,
    /// The path under which it is shown here.
    pub(super) shown: String,
}

/// The order of files with one path, by when it was assigned: the greatest is shown under it.
type AssignmentOrder = (u64, Option<ReplicaId>, u64, u32);

impl FileMetadata {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.identity.to_bytes();
        self.creation.push(&mut out);
        push_id(&mut out, self.created_ms);
        push_versions(&mut out, &self.called, None);
        push_bytes(&mut out, self.shown.as_bytes());
        out
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, DataError> {
        let rest = &mut bytes;
        let parsed = (|| {
            Some(Self {
                identity: Identity::take(rest)?,
                creation: Stamp::take(rest)?,
                created_ms: take_id(rest)?,
                called: take_versions(rest, &[])?,
                shown: take_text(rest)?,
            })
        })();
        match parsed {
            Some(metadata) if rest.is_empty() => Ok(metadata),
            _ => Err(malformed("the metadata of a file")),
        }
    }
}

/// The folder that a path is in.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub(super) fn hash_of(path: &str) -> u128 {
    xxh3_128(path.as_bytes())
}

/// The latest time of a file or folder: the latest that a time stamp can be, in December 9999.
const MAX_TIME_MS: u64 = 253_402_207_200_000;

/// The record that results from its versions.
fn record_of(sizes: &[Version], created_ms: u64) -> Result<Stored, DataError> {
    let mut record = Stored {
        bytes: 0,
        created_ms,
        modified_ms: created_ms,
    };
    for version in sizes {
        let own = Stored::decode(&version.value)?;
        record.bytes = record.bytes.max(own.bytes);
        record.modified_ms = record.modified_ms.max(own.modified_ms);
    }
    // A peer may send anything.
    record.bytes = record.bytes.min(MAX_FILE_BYTES);
    record.created_ms = record.created_ms.min(MAX_TIME_MS);
    record.modified_ms = record.modified_ms.min(MAX_TIME_MS);
    Ok(record)
}

/// Checks a path that another replica sent.
pub(super) fn check_path(path: &str) -> Result<(), DataError> {
    match names(path)?.is_empty() || path.ends_with('/') {
        true => Err(DataError::invalid(
            "a page of replication has a file with an invalid path: the peer is damaged",
        )),
        false => Ok(()),
    }
}

// ---- Lookups, and stored metadata.

/// Whether another database continues under the name under which this one made a file: this one was copied, or
/// restored from a backup, since.
pub(crate) fn may_be_finished_elsewhere(tx: &Transaction, number: u64) -> Result<bool, DataError> {
    let maker = match file_metadata(tx, number)?.map(|metadata| metadata.identity) {
        Some(Identity::Made { replica, .. }) => Some(replica),
        _ => None,
    };
    Ok(maker.is_some_and(|maker| own_replica(tx.store()).latest() != Some(maker)))
}

/// Distinguishes contents of one size and one time, equally in all replicas: 0 if the last transaction that
/// wrote a file had seen all others, else a hash of those that had not seen one another.
pub(crate) fn merge_mark(tx: &Transaction, number: u64) -> Result<u64, DataError> {
    if !replica_state(tx.store()).is_on() {
        return Ok(0);
    }
    let sizes = buckets::creations(tx, &keyspace::file(number))?;
    if sizes.len() < 2 {
        return Ok(0);
    }
    let hashes = sizes
        .iter()
        .map(|size| xxh3_64(&spelling::spell_stamp(tx, size.stamp)));
    Ok(hashes.fold(0, u64::wrapping_add).max(1))
}

pub(crate) fn find_file(tx: &Transaction, identity: &Identity) -> Result<Option<u64>, DataError> {
    if let Some(number) = records::find_identity(tx, IdSpace::Files, identity)? {
        return Ok(Some(number));
    }
    // Files made here are identified by their numbers.
    let Identity::Made { id, .. } = identity else {
        return Ok(None);
    };
    let metadata = file_metadata(tx, *id)?;
    Ok(metadata
        .is_some_and(|own| own.identity == *identity)
        .then_some(*id))
}

pub(crate) fn file_metadata(
    tx: &Transaction,
    number: u64,
) -> Result<Option<FileMetadata>, DataError> {
    tx.footprint().read_key(Space::Files, &number.to_be_bytes());
    let stored = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Files, number))?;
    stored
        .map(|stored| FileMetadata::decode(&stored))
        .transpose()
}

fn known_file(tx: &Transaction, number: u64) -> Result<FileMetadata, DataError> {
    let metadata = file_metadata(tx, number)?;
    metadata.ok_or_else(|| malformed("the metadata of a file"))
}

pub(crate) fn put_file_metadata(
    tx: &mut Transaction,
    number: u64,
    metadata: &FileMetadata,
) -> Result<(), DataError> {
    tx.files_mut().change_file(FileId(number));
    tx.replication_mut().put_row(
        &keyspace::metadata_row(IdSpace::Files, number),
        &metadata.encode(),
    )
}

/// The identity of a file.
fn latest<'s>(
    tx: &Transaction,
    metadata: &'s FileMetadata,
) -> Result<Option<(&'s str, AssignmentOrder)>, DataError> {
    let replicas = own_replica(tx.store());
    let Some(at) = versions::winner(&metadata.called, replicas) else {
        return Ok(None);
    };
    let path = std::str::from_utf8(&metadata.called[at].value)
        .map_err(|_| malformed("the path of a file"))?;
    Ok(Some((path, rank(&metadata.called[at], replicas))))
}

fn latest_path(tx: &Transaction, metadata: &FileMetadata) -> Result<Option<String>, DataError> {
    Ok(latest(tx, metadata)?.map(|(path, _)| path.to_owned()))
}

/// Stores the path of a file; returns the paths to assign again.
pub(crate) fn call_file(
    tx: &mut Transaction,
    number: u64,
    mut metadata: FileMetadata,
    mut called: Vec<Version>,
) -> Result<Vec<String>, DataError> {
    called.sort_unstable_by_key(|version| version.stamp.dot);
    let before = latest_path(tx, &metadata)?;
    metadata.called = called;
    let after = latest_path(tx, &metadata)?;
    put_file_metadata(tx, number, &metadata)?;
    if before != after {
        if let Some(path) = &before {
            change_called(tx, path);
            tx.replication_mut()
                .delete_row(&keyspace::file_called(hash_of(path), number))?;
        }
        if let Some(path) = &after {
            change_called(tx, path);
            tx.replication_mut()
                .put_row(&keyspace::file_called(hash_of(path), number), &[])?;
        }
    }
    Ok(before.into_iter().chain(after).collect())
}

/// Deletes the metadata of a removed file; returns its paths.
pub(crate) fn forget_file(
    tx: &mut Transaction,
    number: u64,
    metadata: &FileMetadata,
) -> Result<Option<String>, DataError> {
    let path = latest_path(tx, metadata)?;
    if let Some(path) = &path {
        change_called(tx, path);
        tx.replication_mut()
            .delete_row(&keyspace::file_called(hash_of(path), number))?;
    }
    tx.files_mut().change_file(FileId(number));
    tx.replication_mut()
        .delete_row(&keyspace::metadata_row(IdSpace::Files, number))?;
    let named = keyspace::identity(IdSpace::Files, &metadata.identity.to_bytes());
    tx.replication_mut().delete_row(&named)?;
    tx.replication_mut()
        .delete_row(&keyspace::conflict_in_name(number))?;
    tx.replication_mut()
        .delete_row(&keyspace::cell(&keyspace::file(number)))?;
    let chunks = keyspace::file_chunks(number);
    for all in [keyspace::cell(&chunks), keyspace::conflict_in_cell(&chunks)] {
        let end = after_prefix(&all);
        let range = KeyRange {
            start: &all,
            end: end.as_deref(),
        };
        tx.replication_mut().delete_rows(range)?;
    }
    Ok(path)
}

/// The files with this path, the latest first.
fn files_called(tx: &Transaction, path: &str) -> Result<Vec<(u64, FileMetadata)>, DataError> {
    tx.footprint().read_key(Space::Folders, &path_item(path));
    let prefix = keyspace::files_called(hash_of(path));
    let mut found = Vec::new();
    for key in tx
        .raw()
        .keys_between(&prefix, after_prefix(&prefix).as_deref())?
    {
        let number = sole_id(&key[prefix.len()..], "a file's path")?;
        let metadata = known_file(tx, number)?;
        if let Some((_, turn)) = latest(tx, &metadata)? {
            found.push((turn, number, metadata));
        }
    }
    // No transaction gives two files one path, but a peer may claim it.
    found.sort_by_cached_key(|(turn, _, metadata)| {
        std::cmp::Reverse((*turn, spelling::spell_identity(tx, &metadata.identity)))
    });
    Ok(found
        .into_iter()
        .map(|(_, number, metadata)| (number, metadata))
        .collect())
}

fn change_called(tx: &mut Transaction, path: &str) {
    tx.footprint_mut()
        .change_key(Space::Folders, &path_item(path), true);
}

/// The remaining creations of a folder.
pub(crate) fn makings(tx: &Transaction, path: &str) -> Result<Vec<Version>, DataError> {
    tx.footprint().read_key(Space::Folders, &path_item(path));
    match tx.read().get(&keyspace::folder_made(hash_of(path)))? {
        Some(stored) => Ok(decode_making(&stored)?.1),
        None => Ok(Vec::new()),
    }
}

pub(crate) fn put_makings(
    tx: &mut Transaction,
    path: &str,
    mut makings: Vec<Version>,
) -> Result<(), DataError> {
    change_called(tx, path);
    let key = keyspace::folder_made(hash_of(path));
    if makings.is_empty() {
        return tx.replication_mut().delete_row(&key);
    }
    makings.sort_unstable_by_key(|making| making.stamp.dot);
    let mut stored = Vec::new();
    push_bytes(&mut stored, path.as_bytes());
    push_versions(&mut stored, &makings, None);
    tx.replication_mut().put_row(&key, &stored)
}

/// Path and creations of a folder.
pub(super) fn decode_making(mut stored: &[u8]) -> Result<(String, Vec<Version>), DataError> {
    let parsed = take_text(&mut stored).zip(take_versions(&mut stored, &[]));
    match parsed {
        Some(making) if stored.is_empty() => Ok(making),
        _ => Err(malformed("a folder")),
    }
}

/// The conflict granule of a path: no folder has such a number.
fn path_item(path: &str) -> Vec<u8> {
    [&[0xff; 9][..], path.as_bytes()].concat()
}

// ---- Applying operations of another replica.

pub(crate) fn apply_to_files(
    tx: &mut Transaction,
    entry: &LogEntry,
    op: &Op,
) -> Result<(), DataError> {
    let saw = |dot: Dot| entry.saw(dot);
    let stamp = entry.stamp();
    match op {
        Op::FileCreated { file, created_ms } => {
            if find_file(tx, file)?.is_some() {
                return Ok(()); // a state transfer brought it
            }
            make_file(tx, file, stamp, *created_ms).map(drop)
        }
        Op::FileDeleted { file } => match find_file(tx, file)? {
            Some(number) => purge_file(tx, number),
            None => Ok(()),
        },
        Op::FileRenamed { file, path } => {
            check_path(path)?;
            let Some(number) = find_file(tx, file)? else {
                return Ok(()); // it is gone for good
            };
            let metadata = known_file(tx, number)?;
            let mut called = metadata.called.clone();
            remove_seen(&mut called, &saw);
            let value = path.clone().into_bytes();
            called.push(Version { stamp, value });
            let touched = call_file(tx, number, metadata, called)?;
            assign_paths(tx, touched)
        }
        Op::FileResized {
            file,
            bytes,
            modified_ms,
        } => {
            let Some(number) = find_file(tx, file)? else {
                return Ok(());
            };
            let value = Stored {
                bytes: *bytes,
                created_ms: 0,
                modified_ms: *modified_ms,
            };
            let mut sizes = buckets::creations(tx, &keyspace::file(number))?;
            remove_seen(&mut sizes, &saw);
            let value = value.encode();
            sizes.push(Version { stamp, value });
            materialize_size(tx, number, sizes)
        }
        Op::ChunkPut { file, chunk, bytes } => {
            check_chunk(*chunk, bytes)?;
            let Some(number) = find_file(tx, file)? else {
                return Ok(());
            };
            let stored = keyspace::file_chunk(number, *chunk);
            let (before, mut after) = cells::see_cell(tx, &stored, &saw)?;
            let value = bytes.clone();
            after.push(Version { stamp, value });
            materialize_chunk(tx, number, *chunk, &before, after)
        }
        Op::ChunksDeleted { file, from } => {
            let Some(number) = find_file(tx, file)? else {
                return Ok(());
            };
            let start = keyspace::file_chunk(number, *from);
            let prefix = keyspace::file_chunks(number);
            for stored in tx
                .raw()
                .keys_between(&start, after_prefix(&prefix).as_deref())?
            {
                let chunk = sole_id(&stored[prefix.len()..], "the number of a chunk")?;
                let (before, after) = cells::see_cell(tx, &stored, &saw)?;
                materialize_chunk(tx, number, chunk, &before, after)?;
            }
            Ok(())
        }
        Op::FolderCreated { path, created_ms } => {
            check_path(path)?;
            let mut makings = makings(tx, path)?;
            remove_seen(&mut makings, &saw);
            let mut value = Vec::new();
            push_id(&mut value, *created_ms);
            makings.push(Version { stamp, value });
            materialize_folder(tx, path, makings)
        }
        Op::FolderDeleted { path } => {
            check_path(path)?;
            let mut makings = makings(tx, path)?;
            remove_seen(&mut makings, &saw);
            materialize_folder(tx, path, makings)
        }
        _ => Err(malformed("an operation")),
    }
}

/// Creates a file that another replica made, without a path.
pub(crate) fn make_file(
    tx: &mut Transaction,
    identity: &Identity,
    creation: Stamp,
    created_ms: u64,
) -> Result<u64, DataError> {
    let number = new_file_number(tx)?;
    let metadata = FileMetadata {
        identity: identity.clone(),
        creation,
        created_ms,
        called: Vec::new(),
        shown: String::new(),
    };
    tx.files_mut()
        .put_file_record(FileId(number), record_of(&[], created_ms)?)?;
    // Its size was not reported yet, and is not older than replication, either.
    buckets::put_creations(tx, &keyspace::file(number), Vec::new())?;
    put_file_metadata(tx, number, &metadata)?;
    records::put_identity(tx, IdSpace::Files, identity, number)?;
    Ok(number)
}

/// Removes a file with its metadata.
pub(crate) fn purge_file(tx: &mut Transaction, number: u64) -> Result<(), DataError> {
    let mut touched = Vec::new();
    unshow(tx, number, &mut touched)?;
    let metadata = known_file(tx, number)?;
    touched.extend(forget_file(tx, number, &metadata)?);
    tx.files_mut().delete_content(FileId(number))?;
    assign_paths(tx, touched)
}

pub(crate) fn materialize_size(
    tx: &mut Transaction,
    number: u64,
    sizes: Vec<Version>,
) -> Result<(), DataError> {
    let metadata = known_file(tx, number)?;
    let record = record_of(&sizes, metadata.created_ms)?;
    buckets::put_creations(tx, &keyspace::file(number), sizes)?;
    match tx.files().file_record(FileId(number))? == record {
        true => {
            tx.files_mut().change_file(FileId(number));
            Ok(())
        }
        false => tx.files_mut().put_file_record(FileId(number), record),
    }
}

/// Materializes a chunk from its versions.
pub(crate) fn materialize_chunk(
    tx: &mut Transaction,
    number: u64,
    chunk: u64,
    before: &[Version],
    mut after: Vec<Version>,
) -> Result<(), DataError> {
    after.sort_unstable_by_key(|version| version.stamp.dot);
    if before == after {
        return Ok(());
    }
    let stored = keyspace::file_chunk(number, chunk);
    let read = cells::put_cell(tx, &stored, &after)?;
    tx.files_mut().change_file(FileId(number));
    let old = tx.read().get(&stored)?;
    let new = read.map(|at| after[at].value.clone());
    if old == new {
        return Ok(());
    }
    match &new {
        Some(bytes) => tx.replication_mut().put_row(&stored, bytes)?,
        None => tx.replication_mut().delete_row(&stored)?,
    }
    // Watchers apply this over the previous content: a shorter chunk is padded with zeros.
    let mut content = new.unwrap_or_default();
    content.resize(content.len().max(old.map_or(0, |old| old.len())), 0);
    tx.log(&Change::FileWritten {
        file: number,
        offset: chunk * CHUNK_BYTES,
        bytes: &content,
    });
    Ok(())
}

/// Materializes a folder from its creations.
pub(crate) fn materialize_folder(
    tx: &mut Transaction,
    path: &str,
    makings: Vec<Version>,
) -> Result<(), DataError> {
    let is_made = !makings.is_empty();
    put_makings(tx, path, makings)?;
    let mut touched = Vec::new();
    if is_made {
        ensure_folder(tx, path, &mut touched)?;
    }
    date_folder(tx, path)?;
    prune(tx, path, &mut touched)?;
    assign_paths(tx, touched)
}

/// A folder was made when the first of its creations was; one without creations has no time.
fn date_folder(tx: &mut Transaction, path: &str) -> Result<(), DataError> {
    let Some((FileKind::Folder, number)) = tx.files().find_path(&names(path)?)? else {
        return Ok(());
    };
    let mut first = None;
    for making in makings(tx, path)? {
        let created = sole_id(&making.value, "when a folder was made")?;
        first = Some(first.map_or(created, |first: u64| first.min(created)));
    }
    let created_ms = first.unwrap_or(0).min(MAX_TIME_MS);
    let record = Stored {
        bytes: 0,
        created_ms,
        modified_ms: created_ms,
    };
    match tx.files().file_record(FileId(number))? == record {
        true => Ok(()),
        false => tx.files_mut().put_file_record(FileId(number), record),
    }
}

/// Checks a chunk that another replica sent.
pub(super) fn check_chunk(chunk: u64, bytes: &[u8]) -> Result<(), DataError> {
    match chunk < MAX_FILE_BYTES / CHUNK_BYTES && bytes.len() as u64 <= CHUNK_BYTES {
        true => Ok(()),
        false => Err(DataError::invalid(
            "a page of replication has an invalid chunk of a file: the peer is damaged",
        )),
    }
}

// ---- Paths that are shown.

/// Assigns the shown paths of files and folders. Only paths in `touched` may have changed.
pub(crate) fn assign_paths(
    tx: &mut Transaction,
    mut touched: Vec<String>,
) -> Result<(), DataError> {
    while let Some(path) = touched.pop() {
        assign_path(tx, &path, &mut touched)?;
    }
    Ok(())
}

fn assign_path(
    tx: &mut Transaction,
    path: &str,
    touched: &mut Vec<String>,
) -> Result<(), DataError> {
    let called = files_called(tx, path)?;
    let occupant = tx.files().find_path(&names(path)?)?;
    // A folder metadata rows files with its path.
    let is_folder = matches!(occupant, Some((FileKind::Folder, _)));
    if let Some((FileKind::File, other)) = occupant
        && !called.is_empty()
        && called.iter().all(|(number, _)| *number != other)
    {
        displace_file(tx, other, touched)?;
    }
    // All files leave their old paths before any of them gets a new one: two of them may swap paths.
    let mut wanted = Vec::new();
    for (at, (number, metadata)) in called.iter().enumerate() {
        let place = match at == 0 && !is_folder {
            true => path.to_owned(),
            false => substitute_path(tx, path, *number, metadata)?,
        };
        if metadata.shown != place {
            unshow(tx, *number, touched)?;
            wanted.push((*number, place));
        } else if place == *path {
            // Until now it was shown under a substitute name, next to another file.
            tx.replication_mut()
                .delete_row(&keyspace::conflict_in_name(*number))?;
        }
    }
    for (number, place) in wanted {
        show(tx, number, path, &place, touched)?;
    }
    if called.is_empty() {
        recall(tx, path, touched)?;
    }
    Ok(())
}

/// The path of a file that cannot be shown under its own. (If another file has the substitute path, their
/// identities have the same hash: then the first that came keeps it.)
fn substitute_path(
    tx: &Transaction,
    path: &str,
    number: u64,
    metadata: &FileMetadata,
) -> Result<String, DataError> {
    let base = substitute_base(tx, path, &metadata.identity);
    let mut place = base.clone();
    for count in 1_u64.. {
        let is_taken = match tx.files().find_path(&names(&place)?)? {
            Some((FileKind::Folder, _)) => true,
            Some((FileKind::File, other)) => other != number,
            None => false,
        };
        if !is_taken && files_called(tx, &place)?.is_empty() {
            break;
        }
        place = format!("{base}~{count}");
    }
    Ok(place)
}

/// Removes a file from its path, with empty folders that have no creation.
fn unshow(tx: &mut Transaction, number: u64, touched: &mut Vec<String>) -> Result<(), DataError> {
    let mut metadata = known_file(tx, number)?;
    let place = std::mem::take(&mut metadata.shown);
    if place.is_empty() {
        return tx.files_mut().drop_unnamed(number);
    }
    put_file_metadata(tx, number, &metadata)?;
    tx.replication_mut()
        .delete_row(&keyspace::conflict_in_name(number))?;
    take_entry(tx, &place)?;
    prune(tx, folder_of(&place), touched)
}

/// Removes the entry of a path from its folder.
fn take_entry(tx: &mut Transaction, path: &str) -> Result<(), DataError> {
    let (folder, name) = tx.files().parent(path)?;
    tx.files_mut().delete_entry(folder, name)
}

fn show(
    tx: &mut Transaction,
    number: u64,
    path: &str,
    place: &str,
    touched: &mut Vec<String>,
) -> Result<(), DataError> {
    let folder = ensure_folder(tx, folder_of(place), touched)?;
    let name = &place[folder_of(place).len() + 1..];
    if let Some((_, other)) = tx.files().find_entry(folder, name)? {
        displace_file(tx, other, touched)?;
    }
    // The removal may have removed the folder too.
    let folder = ensure_folder(tx, folder_of(place), touched)?;
    tx.files_mut()
        .put_entry(folder, name, (FileKind::File, number))?;
    let mut metadata = known_file(tx, number)?;
    metadata.shown = place.to_owned();
    put_file_metadata(tx, number, &metadata)?;
    match place == path {
        true => Ok(()),
        false => tx
            .replication_mut()
            .put_row(&keyspace::conflict_in_name(number), &[]),
    }
}

/// Removes a file from a path that a folder or another file gets; the file gets another path afterwards.
fn displace_file(
    tx: &mut Transaction,
    number: u64,
    touched: &mut Vec<String>,
) -> Result<(), DataError> {
    let metadata = known_file(tx, number)?;
    unshow(tx, number, touched)?;
    touched.extend(latest_path(tx, &metadata)?);
    Ok(())
}

/// The folder of a path, created with its parents where missing.
fn ensure_folder(
    tx: &mut Transaction,
    path: &str,
    touched: &mut Vec<String>,
) -> Result<u64, DataError> {
    let mut folder = isomer_layout::files::ROOT;
    for name in path.split('/').skip(1) {
        folder = match tx.files().find_entry(folder, name)? {
            Some((FileKind::Folder, number)) => number,
            found => {
                if let Some((_, file)) = found {
                    displace_file_in_place(tx, file, folder, name, touched)?;
                }
                make_folder_in(tx, folder, name)?
            }
        };
    }
    Ok(folder)
}

/// As [`displace_file`], where a folder replaces the file: the parent folder stays.
fn displace_file_in_place(
    tx: &mut Transaction,
    number: u64,
    folder: u64,
    name: &str,
    touched: &mut Vec<String>,
) -> Result<(), DataError> {
    let mut metadata = known_file(tx, number)?;
    metadata.shown.clear();
    put_file_metadata(tx, number, &metadata)?;
    tx.replication_mut()
        .delete_row(&keyspace::conflict_in_name(number))?;
    tx.files_mut().delete_entry(folder, name)?;
    touched.extend(latest_path(tx, &metadata)?);
    Ok(())
}

fn make_folder_in(tx: &mut Transaction, folder: u64, name: &str) -> Result<u64, DataError> {
    let number = new_file_number(tx)?;
    tx.files_mut()
        .put_entry(folder, name, (FileKind::Folder, number))?;
    let record = Stored {
        bytes: 0,
        created_ms: 0,
        modified_ms: 0,
    };
    tx.files_mut().put_file_record(FileId(number), record)?;
    Ok(number)
}

/// Removes a folder that is empty and has no creation, and likewise its parents.
pub(crate) fn prune(
    tx: &mut Transaction,
    path: &str,
    touched: &mut Vec<String>,
) -> Result<(), DataError> {
    let mut path = path;
    while !path.is_empty() {
        let Some((FileKind::Folder, number)) = tx.files().find_path(&names(path)?)? else {
            return Ok(());
        };
        if !makings(tx, path)?.is_empty() || tx.files().has_entries(number)? {
            return Ok(());
        }
        take_entry(tx, path)?;
        tx.files_mut().delete_content(FileId(number))?;
        touched.push(path.to_owned());
        path = folder_of(path);
    }
    Ok(())
}

/// The path is free now: a file with this path gets it.
fn recall(tx: &Transaction, path: &str, touched: &mut Vec<String>) -> Result<(), DataError> {
    if !is_substitute(path) {
        return Ok(());
    }
    let prefix = keyspace::conflicts_in_names();
    for note in tx
        .raw()
        .keys_between(&prefix, after_prefix(&prefix).as_deref())?
    {
        let number = sole_id(&note[prefix.len()..], "a conflict")?;
        let metadata = known_file(tx, number)?;
        if let Some(own) = latest_path(tx, &metadata)? {
            let base = substitute_base(tx, &own, &metadata.identity);
            let is_meant = path.strip_prefix(&base);
            if is_meant.is_some_and(is_count) && metadata.shown != path && metadata.shown != base {
                touched.push(own);
            }
        }
    }
    Ok(())
}

/// Hexadecimal digits in the substitute name of a file.
const HASH_DIGITS: usize = 16;

/// The substitute path for a file of that identity.
pub(super) fn substitute_base(tx: &Transaction, path: &str, identity: &Identity) -> String {
    let folder = folder_of(path);
    let name = &path[folder.len() + 1..];
    // Leaves space for the digits, and for a count after them.
    let room = MAX_FILE_NAME_BYTES - HASH_DIGITS - 1 - MAX_COUNT_BYTES;
    let kept = name.floor_char_boundary(room.min(name.len()));
    let NameHash(hash) = replication_of(tx.store()).name_hash;
    let hash = hash(&spelling::spell_identity(tx, identity));
    format!("{folder}/{}~{hash:016x}", &name[..kept])
}

/// Bytes, at most, of `~` and the count that are appended where a path and its substitute are both taken.
const MAX_COUNT_BYTES: usize = 15;

/// Whether a suffix is valid after the digits: nothing, or `~` and a number.
fn is_count(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix('~').is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a path looks like a substitute path.
fn is_substitute(path: &str) -> bool {
    let is_hash = |digits: &str| {
        digits.len() == HASH_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut ends = path.rsplit('~');
    let last = ends.next().unwrap_or_default();
    is_hash(last) || (is_number(last) && ends.next().is_some_and(is_hash))
}

/// The file and the chunk of a chunk's key.
pub(crate) fn chunk_of(key: &[u8]) -> Result<(u64, u64), DataError> {
    let mut rest = &key[1..];
    let file = take_id(&mut rest).ok_or_else(|| malformed("the key of a chunk"))?;
    Ok((file, sole_id(rest, "the number of a chunk")?))
}
