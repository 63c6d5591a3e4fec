//! Files in a state transfer: their items, and merging those of two states.

use isomer_data::{DataError, Transaction};
use isomer_layout::{
    files::Stored,
    keyspace::{self, IdSpace, push_id, sole_id, take_id},
    replicated::codec::{malformed, push_bytes, take_text},
};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    buckets, cells,
    files::{self, FileMetadata, check_chunk, check_path, chunk_of, decode_making, hash_of},
    mapping::{self, Mapper, take_identity},
    scope, spelling,
    state_transfer::progress::Sides,
    versions::{Stamp, Version, merge, push_versions, take_versions},
    wire::{Incoming, Outgoing, tag},
};

/// Versions of paths, sizes, creations and chunks: their values are the same in all replicas.
fn mapped(map: &mut impl Mapper, own: &[Version]) -> Result<Vec<Version>, DataError> {
    mapping::versions(map, own, |_, value| Ok(value.to_vec()))
}

fn push_mapped(
    page: &mut Outgoing<'_>,
    own: &[Version],
    content: &mut Vec<u8>,
) -> Result<(), DataError> {
    push_versions(content, &mapped(page, own)?, None);
    Ok(())
}

fn take_mapped(map: &mut Incoming<'_>, rest: &mut &[u8]) -> Result<Vec<Version>, DataError> {
    let theirs = take_versions(rest, &[]).ok_or_else(mapping::bad_item)?;
    mapped(map, &theirs)
}

/// The file of a metadata row's key.
pub(crate) fn file_of(key: &[u8]) -> Result<u64, DataError> {
    sole_id(&key[2..], "the key of a file")
}

/// The item of a file.
pub(crate) fn push_file(
    tx: &Transaction,
    key: &[u8],
    page: &mut Outgoing<'_>,
) -> Result<(), DataError> {
    let number = file_of(key)?;
    let metadata = files::file_metadata(tx, number)?;
    let metadata = metadata.ok_or_else(|| malformed("the metadata of a file"))?;
    let mut content = mapping::identity(page, &metadata.identity)?.to_bytes();
    mapping::stamp(page, metadata.creation)?.push(&mut content);
    push_id(&mut content, metadata.created_ms);
    push_mapped(page, &metadata.called, &mut content)?;
    push_mapped(
        page,
        &buckets::creations(tx, &keyspace::file(number))?,
        &mut content,
    )?;
    page.push(tag::FILE, &content);
    Ok(())
}

pub(crate) fn push_folder(stored: &[u8], page: &mut Outgoing<'_>) -> Result<(), DataError> {
    let (path, makings) = decode_making(stored)?;
    let mut content = Vec::new();
    push_bytes(&mut content, path.as_bytes());
    push_mapped(page, &makings, &mut content)?;
    page.push(tag::FOLDER, &content);
    Ok(())
}

pub(crate) fn push_chunk(
    tx: &Transaction,
    key: &[u8],
    page: &mut Outgoing<'_>,
) -> Result<(), DataError> {
    let (number, chunk) = chunk_of(key)?;
    let Some(metadata) = files::file_metadata(tx, number)? else {
        return Ok(());
    };
    let mut content = mapping::identity(page, &metadata.identity)?.to_bytes();
    push_id(&mut content, chunk);
    push_mapped(page, &cells::cell_versions(tx, key)?, &mut content)?;
    page.push(tag::CHUNK, &content);
    Ok(())
}

/// Merges a file, a folder or a chunk; returns its key, where it exists here.
pub(crate) fn merge_file(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    found: u8,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<Option<u128>, DataError> {
    scope::check_files_travel(tx.store())?;
    let mut rest = content;
    match found {
        tag::FOLDER => {
            let path = take_text(&mut rest).ok_or_else(mapping::bad_item)?;
            check_path(&path)?;
            let theirs = take_mapped(map, &mut rest)?;
            if theirs
                .iter()
                .any(|making| sole_id(&making.value, "").is_err())
            {
                return Err(mapping::bad_item());
            }
            merge_folder_creations(tx, &path, &theirs, sides)?;
            Ok(Some(xxh3_128(&keyspace::folder_made(hash_of(&path)))))
        }
        tag::CHUNK => {
            let identity = take_identity(map, &mut rest)?;
            let chunk = take_id(&mut rest).ok_or_else(mapping::bad_item)?;
            let theirs = take_mapped(map, &mut rest)?;
            for version in &theirs {
                check_chunk(chunk, &version.value)?;
            }
            // Chunks come after the files: a file that is missing now was removed
            // here, and its content with it.
            let Some(number) = files::find_file(tx, &identity)? else {
                return Ok(None);
            };
            merge_chunk(tx, number, chunk, &theirs, sides)?;
            Ok(Some(xxh3_128(&keyspace::file_chunk(number, chunk))))
        }
        _ => {
            let identity = take_identity(map, &mut rest)?;
            let creation = Stamp::take(&mut rest).ok_or_else(mapping::bad_item)?;
            let creation = mapping::stamp(map, creation)?;
            let created_ms = take_id(&mut rest).ok_or_else(mapping::bad_item)?;
            let called = take_mapped(map, &mut rest)?;
            for version in &called {
                let path = std::str::from_utf8(&version.value).map_err(|_| mapping::bad_item())?;
                check_path(path)?;
            }
            let sizes = take_mapped(map, &mut rest)?;
            if sizes
                .iter()
                .any(|size| Stored::decode(&size.value).is_err())
            {
                return Err(mapping::bad_item());
            }
            let number = match files::find_file(tx, &identity)? {
                Some(number) => number,
                None if sides.here.covers(creation.dot) => return Ok(None), // it was removed here
                None => files::make_file(tx, &identity, creation, created_ms)?,
            };
            merge_paths(tx, number, &called, sides)?;
            let ours = buckets::creations(tx, &keyspace::file(number))?;
            let merged = merge(&ours, sides.here, &sizes, sides.theirs);
            if merged != ours {
                files::materialize_size(tx, number, merged)?;
            }
            let key = keyspace::metadata_row(IdSpace::Files, number);
            Ok(Some(xxh3_128(&key)))
        }
    }
}

fn merge_paths(
    tx: &mut Transaction,
    number: u64,
    theirs: &[Version],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let Some(metadata) = files::file_metadata(tx, number)? else {
        return Ok(());
    };
    let merged = merge(&metadata.called, sides.here, theirs, sides.theirs);
    if merged == metadata.called {
        return Ok(());
    }
    let touched = files::call_file(tx, number, metadata, merged)?;
    files::assign_paths(tx, touched)
}

fn merge_folder_creations(
    tx: &mut Transaction,
    path: &str,
    theirs: &[Version],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let ours = files::makings(tx, path)?;
    let merged = merge(&ours, sides.here, theirs, sides.theirs);
    match merged == ours {
        true => Ok(()),
        false => files::materialize_folder(tx, path, merged),
    }
}

fn merge_chunk(
    tx: &mut Transaction,
    number: u64,
    chunk: u64,
    theirs: &[Version],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let ours = cells::cell_versions(tx, &keyspace::file_chunk(number, chunk))?;
    let merged = merge(&ours, sides.here, theirs, sides.theirs);
    files::materialize_chunk(tx, number, chunk, &ours, merged)
}

/// Rows that exist here alone: removes those that the other state has seen removed.
pub(crate) fn merge_local_file(
    tx: &mut Transaction,
    key: &[u8],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    if key.first() == Some(&keyspace::TAG_FILE_CHUNK) {
        let (number, chunk) = chunk_of(key)?;
        return match files::file_metadata(tx, number)? {
            Some(_) => merge_chunk(tx, number, chunk, &[], sides),
            None => Ok(()),
        };
    }
    if key.starts_with(keyspace::FOLDERS_MADE) {
        let Some(stored) = tx.read().get(key)? else {
            return Ok(());
        };
        let (path, _) = decode_making(&stored)?;
        return merge_folder_creations(tx, &path, &[], sides);
    }
    let number = file_of(key)?;
    match files::file_metadata(tx, number)? {
        Some(metadata) if sides.theirs.covers(metadata.creation.dot) => {
            files::purge_file(tx, number)
        }
        _ => Ok(()),
    }
}

/// The name of a file, a folder or a chunk for comparing two replicas.
pub(crate) fn file_name(tx: &Transaction, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
    let spelled = |metadata: &FileMetadata| spelling::spell_identity(tx, &metadata.identity);
    if key.first() == Some(&keyspace::TAG_FILE_CHUNK) {
        let (number, chunk) = chunk_of(key)?;
        let metadata = files::file_metadata(tx, number)?;
        return Ok(
            metadata.map(|own| [&[tag::CHUNK][..], &chunk.to_be_bytes(), &spelled(&own)].concat())
        );
    }
    if key.starts_with(keyspace::FOLDERS_MADE) {
        return Ok(Some([&[tag::FOLDER], &key[2..]].concat()));
    }
    let metadata = files::file_metadata(tx, file_of(key)?)?;
    Ok(metadata.map(|own| [&[tag::FILE][..], &spelled(&own)].concat()))
}
