//! Files in snapshots: their rows, and joining those of two states.

use xxhash_rust::xxh3::xxh3_128;

use super::{
    codec::{malformed, push_bytes, take_text},
    files::{FileShadow, check_chunk, check_path, decode_making, hash_of},
    join_records::Sides,
    snapshot::take_identity,
    versions::{Stamp, Version, join, push_versions, take_versions},
    wire::{self, Incoming, Mapper, Outgoing},
};
use crate::{
    DataError, Transaction,
    files::Stored,
    keyspace::{self, IdSpace, push_id, sole_id, take_id},
};

/// Tags of items.
pub(super) const FILE: u8 = 21;
pub(super) const FOLDER: u8 = 22;
pub(super) const CHUNK: u8 = 23;

/// Versions of paths, sizes, creations and chunks: their values are the same in all replicas.
fn mapped(map: &mut impl Mapper, own: &[Version]) -> Result<Vec<Version>, DataError> {
    wire::versions(map, own, |_, value| Ok(value.to_vec()))
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
    let theirs = take_versions(rest, &[]).ok_or_else(wire::bad_item)?;
    mapped(map, &theirs)
}

/// The file and the chunk of a chunk's key.
pub(super) fn chunk_of(key: &[u8]) -> Result<(u64, u64), DataError> {
    let mut rest = &key[1..];
    let file = take_id(&mut rest).ok_or_else(|| malformed("the key of a chunk"))?;
    Ok((file, sole_id(rest, "the number of a chunk")?))
}

/// The file of a shadow's key.
pub(super) fn file_of(key: &[u8]) -> Result<u64, DataError> {
    sole_id(&key[2..], "the key of a file")
}

impl Transaction {
    /// The item of a snapshot for a file.
    pub(super) fn push_file(&self, key: &[u8], page: &mut Outgoing<'_>) -> Result<(), DataError> {
        let number = file_of(key)?;
        let shadow = self.file_shadow(number)?;
        let shadow = shadow.ok_or_else(|| malformed("the metadata of a file"))?;
        let mut content = wire::identity(page, &shadow.identity)?.to_bytes();
        wire::stamp(page, shadow.life)?.push(&mut content);
        push_id(&mut content, shadow.created_ms);
        push_mapped(page, &shadow.called, &mut content)?;
        push_mapped(page, &self.lives(&keyspace::file(number))?, &mut content)?;
        page.push(FILE, &content);
        Ok(())
    }

    pub(super) fn push_folder(
        &self,
        stored: &[u8],
        page: &mut Outgoing<'_>,
    ) -> Result<(), DataError> {
        let (path, makings) = decode_making(stored)?;
        let mut content = Vec::new();
        push_bytes(&mut content, path.as_bytes());
        push_mapped(page, &makings, &mut content)?;
        page.push(FOLDER, &content);
        Ok(())
    }

    pub(super) fn push_chunk(&self, key: &[u8], page: &mut Outgoing<'_>) -> Result<(), DataError> {
        let (number, chunk) = chunk_of(key)?;
        let Some(shadow) = self.file_shadow(number)? else {
            return Ok(());
        };
        let mut content = wire::identity(page, &shadow.identity)?.to_bytes();
        push_id(&mut content, chunk);
        push_mapped(page, &self.cell_versions(key)?, &mut content)?;
        page.push(CHUNK, &content);
        Ok(())
    }

    /// Joins a file, a folder or a chunk; returns its key, where it exists here.
    pub(super) fn join_file(
        &mut self,
        map: &mut Incoming<'_>,
        tag: u8,
        content: &[u8],
        sides: &Sides<'_>,
    ) -> Result<Option<u128>, DataError> {
        self.store().check_files_travel()?;
        let mut rest = content;
        match tag {
            FOLDER => {
                let path = take_text(&mut rest).ok_or_else(wire::bad_item)?;
                check_path(&path)?;
                let theirs = take_mapped(map, &mut rest)?;
                if theirs
                    .iter()
                    .any(|making| sole_id(&making.value, "").is_err())
                {
                    return Err(wire::bad_item());
                }
                self.join_makings(&path, &theirs, sides)?;
                Ok(Some(xxh3_128(&keyspace::folder_made(hash_of(&path)))))
            }
            CHUNK => {
                let identity = take_identity(map, &mut rest)?;
                let chunk = take_id(&mut rest).ok_or_else(wire::bad_item)?;
                let theirs = take_mapped(map, &mut rest)?;
                for version in &theirs {
                    check_chunk(chunk, &version.value)?;
                }
                let Some(number) = self.find_file(&identity)? else {
                    return Ok(None);
                };
                self.join_chunk(number, chunk, &theirs, sides)?;
                Ok(Some(xxh3_128(&keyspace::file_chunk(number, chunk))))
            }
            _ => {
                let identity = take_identity(map, &mut rest)?;
                let life = Stamp::take(&mut rest).ok_or_else(wire::bad_item)?;
                let life = wire::stamp(map, life)?;
                let created_ms = take_id(&mut rest).ok_or_else(wire::bad_item)?;
                let called = take_mapped(map, &mut rest)?;
                for version in &called {
                    let path = std::str::from_utf8(&version.value).map_err(|_| wire::bad_item())?;
                    check_path(path)?;
                }
                let sizes = take_mapped(map, &mut rest)?;
                if sizes
                    .iter()
                    .any(|size| Stored::decode(&size.value).is_err())
                {
                    return Err(wire::bad_item());
                }
                let number = match self.find_file(&identity)? {
                    Some(number) => number,
                    None if sides.here.covers(life.dot) => return Ok(None), // it was removed here
                    None => self.make_file(&identity, life, created_ms)?,
                };
                self.join_called(number, &called, sides)?;
                let ours = self.lives(&keyspace::file(number))?;
                let joined = join(&ours, sides.here, &sizes, sides.theirs);
                if joined != ours {
                    self.materialize_size(number, joined)?;
                }
                let key = keyspace::shadow(IdSpace::Files, number);
                Ok(Some(xxh3_128(&key)))
            }
        }
    }

    fn join_called(
        &mut self,
        number: u64,
        theirs: &[Version],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let Some(shadow) = self.file_shadow(number)? else {
            return Ok(());
        };
        let joined = join(&shadow.called, sides.here, theirs, sides.theirs);
        if joined == shadow.called {
            return Ok(());
        }
        let touched = self.call_file(number, shadow, joined)?;
        self.assign_paths(touched)
    }

    fn join_makings(
        &mut self,
        path: &str,
        theirs: &[Version],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let ours = self.makings(path)?;
        let joined = join(&ours, sides.here, theirs, sides.theirs);
        match joined == ours {
            true => Ok(()),
            false => self.materialize_folder(path, joined),
        }
    }

    fn join_chunk(
        &mut self,
        number: u64,
        chunk: u64,
        theirs: &[Version],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let ours = self.cell_versions(&keyspace::file_chunk(number, chunk))?;
        let joined = join(&ours, sides.here, theirs, sides.theirs);
        self.materialize_chunk(number, chunk, &ours, joined)
    }

    /// Rows that exist here alone: removes those that the other state has seen removed.
    pub(super) fn sweep_file(&mut self, key: &[u8], sides: &Sides<'_>) -> Result<(), DataError> {
        if key.first() == Some(&keyspace::TAG_FILE_CHUNK) {
            let (number, chunk) = chunk_of(key)?;
            return match self.file_shadow(number)? {
                Some(_) => self.join_chunk(number, chunk, &[], sides),
                None => Ok(()),
            };
        }
        if key.starts_with(keyspace::FOLDERS_MADE) {
            let Some(stored) = self.read().get(key)? else {
                return Ok(());
            };
            let (path, _) = decode_making(&stored)?;
            return self.join_makings(&path, &[], sides);
        }
        let number = file_of(key)?;
        match self.file_shadow(number)? {
            Some(shadow) if sides.theirs.covers(shadow.life.dot) => self.purge_file(number),
            _ => Ok(()),
        }
    }

    /// The name of a file, a folder or a chunk for comparing two replicas.
    pub(super) fn file_name(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
        let spelled = |shadow: &FileShadow| self.spell_identity(&shadow.identity);
        if key.first() == Some(&keyspace::TAG_FILE_CHUNK) {
            let (number, chunk) = chunk_of(key)?;
            let shadow = self.file_shadow(number)?;
            return Ok(
                shadow.map(|own| [&[CHUNK][..], &chunk.to_be_bytes(), &spelled(&own)].concat())
            );
        }
        if key.starts_with(keyspace::FOLDERS_MADE) {
            return Ok(Some([&[FOLDER], &key[2..]].concat()));
        }
        let shadow = self.file_shadow(file_of(key)?)?;
        Ok(shadow.map(|own| [&[FILE][..], &spelled(&own)].concat()))
    }
}
