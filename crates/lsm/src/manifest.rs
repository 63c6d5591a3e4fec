//! The manifest: the files that make up the levels. It is written anew with each change and renamed over the
//! previous one.
//!
//! ```text
//! manifest   magic "IsomerDB tables\n" (16 bytes), format: u32, 0: u32, sequence: u64, identity: u128,
//!            length of the sealed bytes: u64, sealed bytes, XXH3-64 of all before: u64
//! sealed     next file, next run, flushed version, first log segment needed, version of the last ingestion + 1 or 0,
//!            collected below: varints;
//!            count of files of values: varint, each: number: varint, identity: u128, bytes: varint;
//!            count of levels: varint, per level count of runs: varint, per run: id: varint, count of parts: varint, each:
//!            number: varint, identity: u128, bytes: varint, checksum of the footer: u64, from: bytes, until: bytes or missing;
//!            count of jobs: varint, each: level, target run, count of inputs, each input: varints, bottom: u8,
//!            from: bytes, until: bytes or missing;
//!            since format 2: identity of the database: u128; count of segments of the log: varint, each: number: varint,
//!            salt: u64, end of its records, or 0 while it is not closed: varint; where it is closed: first and last version: varints;
//!            since format 3: position in the shared log after everything in the tables: varint, hash of the record before: u64
//! ```
//!
//! One file defines what belongs together: a table, a blob file or a log segment that it names and that is
//! missing or was replaced is detected, whatever other files were replaced. Format 1, of version 0.1.0, does
//! not name segments; it is not written any more. Format 3 belongs to a database whose log is shared by several
//! processes; databases with a private log are written in format 2.
//!
//! A table of 32 MiB takes about 150 bytes here, so a change costs far less than the data it refers to.

use std::{io, path::Path};

use isomer_storage::{LogPoint, StorageError, Version, io_error};
use isomer_vfs::{Disk, OpenMode, Seal, SealedPosition};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    codec::{Reader, corrupt, put_bytes, put_option, put_varint},
    log::{Ended, Link, Links},
    table::TableFile,
};

/// Name of the manifest in its folder.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// Its name while it is being written.
pub(crate) const NEW_MANIFEST: &str = "MANIFEST.new";
/// The manifest of a bulk load into a shared database, until it is known whether the load is in the log.
pub(crate) const LOAD_MANIFEST: &str = "MANIFEST.load";
const MAGIC: &[u8; 16] = b"IsomerDB tables\n";
/// The newest format that is read.
const FORMAT_VERSION: u32 = 3;
const HEAD_BYTES: usize = 56;
/// Bytes of the head up to and including the sequence.
const SEQUENCE_END: usize = 32;

/// The contents of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Number of times it was written.
    pub(crate) sequence: u64,
    pub(crate) next_file: u64,
    pub(crate) next_run: u64,
    /// Everything up to this version is in tables.
    pub(crate) flushed: Version,
    pub(crate) log_needed_from: u64,
    pub(crate) ingested: Option<Version>,
    /// Versions below it may have been dropped by compactions.
    pub(crate) collected_below: Version,
    pub(crate) blobs: Vec<StoredBlob>,
    /// Per level its runs, newest first.
    pub(crate) levels: Vec<Vec<StoredRun>>,
    pub(crate) jobs: Vec<Job>,
    /// The other files of the database; `None` in format 1.
    pub(crate) whole: Option<Whole>,
    /// The place in the shared log behind everything in the tables; `None` if the database has a private log.
    pub(crate) log_point: Option<LogPoint>,
}

/// The identity of the database and of the files that belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Identity of the database, as in its file `STORE`.
    pub(crate) database: u128,
    /// The segments of its log.
    pub(crate) links: Links,
}

impl Whole {
    fn put(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.database.to_le_bytes());
        put_varint(body, self.links.len() as u64);
        for (number, link) in &self.links {
            put_varint(body, *number);
            body.extend_from_slice(&link.salt.to_le_bytes());
            put_varint(body, link.ended.map_or(0, |ended| ended.end));
            if let Some(ended) = link.ended {
                put_varint(body, ended.first);
                put_varint(body, ended.last);
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Option<Self> {
        let database = reader.fixed_u128()?;
        let mut links = Links::new();
        for _ in 0..reader.varint()? {
            let (number, salt) = (reader.varint()?, reader.fixed_u64()?);
            let ended = match reader.varint()? {
                0 => None,
                end => Some(Ended {
                    end,
                    first: reader.varint()?,
                    last: reader.varint()?,
                }),
            };
            if links.insert(number, Link { salt, ended }).is_some() {
                return None;
            }
        }
        Some(Self { database, links })
    }
}

/// A blob file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredBlob {
    pub(crate) number: u64,
    pub(crate) identity: u128,
    pub(crate) bytes: u64,
}

/// A run: parts of tables that ascend and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRun {
    pub(crate) id: u64,
    pub(crate) parts: Vec<StoredPart>,
}

impl StoredRun {
    /// Whether its parts ascend and do not overlap: a key is in one of them at most.
    fn is_disjoint(&self) -> bool {
        self.parts.windows(2).all(|pair| {
            let until = pair[0].until.as_deref();
            until.is_some_and(|until| pair[0].from <= pair[1].from && *until <= *pair[1].from)
        })
    }
}

/// The part of a table that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredPart {
    pub(crate) file: TableFile,
    pub(crate) from: Box<[u8]>,
    pub(crate) until: Option<Box<[u8]>>,
}

/// A compaction in progress, from its lowest keys to its highest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The level of the output run.
    pub(crate) level: usize,
    pub(crate) target: u64,
    /// Input runs, including the target if it existed before.
    pub(crate) inputs: Vec<u64>,
    /// Whether there is nothing older below.
    pub(crate) bottom: bool,
    /// The range that is left to do.
    pub(crate) from: Box<[u8]>,
    pub(crate) until: Option<Box<[u8]>>,
}

impl Stored {
    /// The bytes of the manifest.
    pub(crate) fn encode(&self, identity: u128, seal: &Seal) -> Vec<u8> {
        let mut body = Vec::new();
        for number in [
            self.next_file,
            self.next_run,
            self.flushed,
            self.log_needed_from,
            self.ingested.map_or(0, |version| version + 1),
            self.collected_below,
            self.blobs.len() as u64,
        ] {
            put_varint(&mut body, number);
        }
        for blob in &self.blobs {
            put_varint(&mut body, blob.number);
            body.extend_from_slice(&blob.identity.to_le_bytes());
            put_varint(&mut body, blob.bytes);
        }
        put_varint(&mut body, self.levels.len() as u64);
        for level in &self.levels {
            put_varint(&mut body, level.len() as u64);
            for run in level {
                assert!(run.is_disjoint(), "parts of run {} overlap", run.id);
                put_varint(&mut body, run.id);
                put_varint(&mut body, run.parts.len() as u64);
                for part in &run.parts {
                    put_varint(&mut body, part.file.number);
                    body.extend_from_slice(&part.file.identity.to_le_bytes());
                    put_varint(&mut body, part.file.file_bytes);
                    body.extend_from_slice(&part.file.footer_sum.to_le_bytes());
                    put_bytes(&mut body, &part.from);
                    put_option(&mut body, part.until.as_deref());
                }
            }
        }
        put_varint(&mut body, self.jobs.len() as u64);
        for job in &self.jobs {
            put_varint(&mut body, job.level as u64);
            put_varint(&mut body, job.target);
            put_varint(&mut body, job.inputs.len() as u64);
            for input in &job.inputs {
                put_varint(&mut body, *input);
            }
            body.push(u8::from(job.bottom));
            put_bytes(&mut body, &job.from);
            put_option(&mut body, job.until.as_deref());
        }
        if let Some(whole) = &self.whole {
            whole.put(&mut body);
        }
        if let Some(point) = self.log_point {
            put_varint(&mut body, point.next);
            body.extend_from_slice(&point.hash.to_le_bytes());
        }
        let format = self.format();
        debug_assert!(
            Self::parse(&body, format).is_some_and(|mut stored| {
                stored.sequence = self.sequence;
                stored == *self
            }),
            "a manifest is read as it was written"
        );
        let place = SealedPosition {
            file: identity,
            at: self.sequence,
        };
        seal.seal(place, &mut body, 0);
        let mut out = Vec::with_capacity(body.len() + 64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&format.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&identity.to_le_bytes());
        out.extend_from_slice(&(body.len() as u64).to_le_bytes());
        out.extend_from_slice(&body);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The number of the format in which it is written.
    fn format(&self) -> u32 {
        match (&self.whole, self.log_point) {
            (None, None) => 1,
            (Some(_), None) => 2,
            (Some(_), Some(_)) => 3,
            (None, Some(_)) => unreachable!("a shared database has an identity"),
        }
    }

    /// Decodes a manifest, or returns what is wrong with it.
    pub(crate) fn decode(bytes: &[u8], seal: &Seal) -> Result<Self, String> {
        let (head, _) = bytes
            .split_at_checked(HEAD_BYTES)
            .ok_or("the manifest is too short")?;
        if head[..16] != MAGIC[..] {
            return Err("this is not a manifest of tables".to_owned());
        }
        let (all, sum) = bytes
            .split_last_chunk::<8>()
            .ok_or("the manifest is too short")?;
        if xxh3_64(all) != u64::from_le_bytes(*sum) {
            return Err("the manifest does not match its checksum".to_owned());
        }
        let mut reader = Reader::new(&all[16..]);
        let head = (
            reader.fixed_u32(),
            reader.fixed_u32(),
            reader.fixed_u64(),
            reader.fixed_u128(),
            reader.fixed_u64(),
        );
        let (Some(format), _, Some(sequence), Some(identity), Some(len)) = head else {
            return Err("the manifest is too short".to_owned());
        };
        if !(1..=FORMAT_VERSION).contains(&format) {
            return Err(format!(
                "the manifest has format {format}, this version knows up to {FORMAT_VERSION}: use a newer version"
            ));
        }
        let body = &all[HEAD_BYTES.min(all.len())..];
        if body.len() as u64 != len {
            return Err("the manifest does not have the length that was written".to_owned());
        }
        let mut body = body.to_vec();
        let place = SealedPosition {
            file: identity,
            at: sequence,
        };
        seal.open(place, &mut body, 0)
            .map_err(|error| error.to_string())?;
        let mut stored = Self::parse(&body, format).ok_or("the manifest is malformed")?;
        stored.sequence = sequence;
        Ok(stored)
    }

    fn parse(body: &[u8], format: u32) -> Option<Self> {
        let mut reader = Reader::new(body);
        let mut stored = Self {
            sequence: 0,
            next_file: reader.varint()?,
            next_run: reader.varint()?,
            flushed: reader.varint()?,
            log_needed_from: reader.varint()?,
            ingested: reader.varint()?.checked_sub(1),
            collected_below: reader.varint()?,
            ..Self::default()
        };
        for _ in 0..reader.varint()? {
            stored.blobs.push(StoredBlob {
                number: reader.varint()?,
                identity: reader.fixed_u128()?,
                bytes: reader.varint()?,
            });
        }
        for _ in 0..reader.varint()? {
            let mut level = Vec::new();
            for _ in 0..reader.varint()? {
                let id = reader.varint()?;
                let mut parts = Vec::new();
                for _ in 0..reader.varint()? {
                    let file = TableFile {
                        number: reader.varint()?,
                        identity: reader.fixed_u128()?,
                        file_bytes: reader.varint()?,
                        footer_sum: reader.fixed_u64()?,
                    };
                    let from = reader.bytes()?.into();
                    let until = reader.option()?.map(Into::into);
                    parts.push(StoredPart { file, from, until });
                }
                let run = StoredRun { id, parts };
                if !run.is_disjoint() {
                    return None;
                }
                level.push(run);
            }
            stored.levels.push(level);
        }
        for _ in 0..reader.varint()? {
            let level = usize::try_from(reader.varint()?).ok()?;
            let target = reader.varint()?;
            let mut inputs = Vec::new();
            for _ in 0..reader.varint()? {
                inputs.push(reader.varint()?);
            }
            stored.jobs.push(Job {
                level,
                target,
                inputs,
                bottom: reader.byte()? != 0,
                from: reader.bytes()?.into(),
                until: reader.option()?.map(Into::into),
            });
        }
        if format > 1 {
            stored.whole = Some(Whole::take(&mut reader)?);
        }
        if format > 2 {
            let (next, hash) = (reader.varint()?, reader.fixed_u64()?);
            // Positions are counted from 1 on.
            stored.log_point = (next > 0).then_some(LogPoint { next, hash });
            stored.log_point?;
        }
        reader.is_done().then_some(stored)
    }

    /// For fuzzing: any bytes as the encrypted body of a manifest; a body that is accepted is written back
    /// equivalently.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check_body(bytes: &[u8]) {
        for format in 1..=FORMAT_VERSION {
            if let Some(stored) = Self::parse(bytes, format) {
                let again = Self::decode(&stored.encode(7, &Seal::plain()), &Seal::plain());
                assert_eq!(again, Ok(stored));
            }
        }
    }

    /// The body of the manifest, before encryption.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn body(&self) -> Vec<u8> {
        let bytes = self.encode(7, &Seal::plain());
        bytes[HEAD_BYTES..bytes.len() - 8].to_vec()
    }

    /// Writes the manifest in `folder`, durably and atomically. The flag of an error says whether it is unknown
    /// which of the two manifests will be found.
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        identity: u128,
        seal: &Seal,
    ) -> Result<(), (StorageError, bool)> {
        self.write_as(MANIFEST, disk, folder, identity, seal)
    }

    /// Like [`Stored::write`], as the manifest of a bulk load: [`Stored::settle_load`] makes it the manifest.
    pub(crate) fn write_load(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        identity: u128,
        seal: &Seal,
    ) -> Result<(), StorageError> {
        let written = self.write_as(LOAD_MANIFEST, disk, folder, identity, seal);
        written.map_err(|(error, _)| error)
    }

    /// Makes the manifest of a bulk load, whose record in the log is durable, the manifest; or removes it.
    pub(crate) fn settle_load(
        disk: &dyn Disk,
        folder: &Path,
        is_committed: bool,
    ) -> Result<(), StorageError> {
        let (load, path) = (folder.join(LOAD_MANIFEST), folder.join(MANIFEST));
        let settled = match is_committed {
            true => disk.rename(&load, &path),
            false => match disk.remove(&load) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
        };
        let settled = settled.and_then(|()| disk.sync_folder(folder));
        settled.map_err(|error| io_error("renaming", &load, &error))
    }

    fn write_as(
        &self,
        name: &str,
        disk: &dyn Disk,
        folder: &Path,
        identity: u128,
        seal: &Seal,
    ) -> Result<(), (StorageError, bool)> {
        let bytes = self.encode(identity, seal);
        let (new, path) = (folder.join(NEW_MANIFEST), folder.join(name));
        let written = (|| {
            let file = disk.open(&new, OpenMode::Create)?;
            file.write_all_at(&bytes, 0)?;
            file.sync()
        })();
        written.map_err(|error| (io_error("writing", &new, &error), false))?;
        let renamed = disk
            .rename(&new, &path)
            .and_then(|()| disk.sync_folder(folder));
        renamed.map_err(|error| (io_error("renaming", &path, &error), true))
    }

    /// The sequence of the manifest in `folder`, without its contents; 0 if there is none.
    pub(crate) fn read_sequence(disk: &dyn Disk, folder: &Path) -> Result<u64, StorageError> {
        let path = folder.join(MANIFEST);
        let mut head = [0; SEQUENCE_END];
        let read = disk
            .open(&path, OpenMode::Read)
            .and_then(|file| file.read_exact_at(&mut head, 0));
        match read {
            Ok(()) => {
                let (_, sequence) = head.split_last_chunk().expect("32 bytes");
                Ok(u64::from_le_bytes(*sequence))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(io_error("reading", &path, &error)),
        }
    }

    /// Reads the manifest in `folder`, if there is one.
    pub(crate) fn read(
        disk: &dyn Disk,
        folder: &Path,
        seal: &Seal,
    ) -> Result<Option<Self>, StorageError> {
        Self::read_as(MANIFEST, disk, folder, seal)
    }

    /// Reads the manifest of a bulk load, if one has not ended.
    pub(crate) fn read_load(
        disk: &dyn Disk,
        folder: &Path,
        seal: &Seal,
    ) -> Result<Option<Self>, StorageError> {
        Self::read_as(LOAD_MANIFEST, disk, folder, seal)
    }

    fn read_as(
        name: &str,
        disk: &dyn Disk,
        folder: &Path,
        seal: &Seal,
    ) -> Result<Option<Self>, StorageError> {
        let path = folder.join(name);
        let read = (|| {
            let file = disk.open(&path, OpenMode::Read)?;
            let len = file.len()?;
            let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, 0)?;
            Ok::<_, io::Error>(bytes)
        })();
        match read {
            Ok(bytes) => Self::decode(&bytes, seal)
                .map(Some)
                .map_err(|what| corrupt(&path, 0, &what)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("reading", &path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Stored {
        let part = |number: u64, from: &[u8], until: Option<&[u8]>| StoredPart {
            file: TableFile {
                number,
                identity: u128::from(number) << 70,
                file_bytes: 1 << 25,
                footer_sum: u64::MAX - number,
            },
            from: from.into(),
            until: until.map(Into::into),
        };
        Stored {
            sequence: 12,
            next_file: 300,
            next_run: 40,
            flushed: 1 << 33,
            log_needed_from: 9,
            ingested: Some(0),
            collected_below: 77,
            blobs: vec![StoredBlob {
                number: 5,
                identity: 1 << 100,
                bytes: 4096,
            }],
            levels: vec![
                vec![
                    StoredRun {
                        id: 39,
                        parts: vec![part(9, b"", None)],
                    },
                    StoredRun {
                        id: 38,
                        parts: Vec::new(),
                    },
                ],
                Vec::new(),
                vec![StoredRun {
                    id: 2,
                    parts: vec![part(3, b"a", Some(b"b")), part(4, b"b", Some(b"x"))],
                }],
            ],
            jobs: vec![Job {
                level: 2,
                target: 2,
                inputs: vec![38, 2],
                bottom: true,
                from: Box::from(*b"c"),
                until: None,
            }],
            whole: Some(Whole {
                database: 1 << 99,
                links: Links::from([
                    (
                        8,
                        Link {
                            salt: 3,
                            ended: Some(Ended {
                                end: 2048,
                                first: 70,
                                last: 76,
                            }),
                        },
                    ),
                    (
                        9,
                        Link {
                            salt: 4,
                            ended: None,
                        },
                    ),
                ]),
            }),
            log_point: None,
        }
    }

    fn shared_example() -> Stored {
        Stored {
            log_point: Some(LogPoint {
                next: 1 << 20,
                hash: 0x0102_0304_0506_0708,
            }),
            ..example()
        }
    }

    #[test]
    fn manifests_round_trip() {
        let seal = Seal::plain();
        let stored = example();
        assert_eq!(
            Stored::decode(&stored.encode(7, &seal), &seal).unwrap(),
            stored
        );
        let shared = shared_example();
        let bytes = shared.encode(7, &seal);
        assert_eq!(bytes[16], 3);
        assert_eq!(Stored::decode(&bytes, &seal).unwrap(), shared);
        let encrypted = Seal::ephemeral().unwrap();
        let bytes = stored.encode(7, &encrypted);
        assert_eq!(Stored::decode(&bytes, &encrypted).unwrap(), stored);
        assert!(Stored::decode(&bytes, &Seal::ephemeral().unwrap()).is_err());
        let first_format = Stored {
            whole: None,
            ..example()
        };
        let bytes = first_format.encode(7, &seal);
        assert_eq!(bytes[16], 1);
        assert_eq!(Stored::decode(&bytes, &seal).unwrap(), first_format);
    }

    /// The bytes of the smallest manifest of a shared database, one by one.
    #[test]
    fn the_third_format_is_as_specified() {
        let stored = Stored {
            sequence: 5,
            next_file: 1,
            next_run: 1,
            flushed: 300,
            whole: Some(Whole {
                database: 9,
                links: Links::new(),
            }),
            log_point: Some(LogPoint {
                next: 130,
                hash: 0x1112_1314_1516_1718,
            }),
            ..Stored::default()
        };
        let mut expected = b"IsomerDB tables\n".to_vec();
        expected.extend_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0]); // format, 0
        expected.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0]); // sequence
        expected.push(7); // identity of the file
        expected.extend_from_slice(&[0; 15]);
        expected.extend_from_slice(&[37, 0, 0, 0, 0, 0, 0, 0]); // length
        // Next file, next run, flushed, first segment, no ingestion, collected, no blobs, no levels, no jobs.
        expected.extend_from_slice(&[1, 1, 0xac, 2, 0, 0, 0, 0, 0, 0]);
        expected.push(9); // identity of the database
        expected.extend_from_slice(&[0; 15]);
        expected.push(0); // no segments
        expected.extend_from_slice(&[0x82, 1]); // position in the shared log
        expected.extend_from_slice(&[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        let sum = xxh3_64(&expected);
        expected.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(stored.encode(7, &Seal::plain()), expected);
        assert_eq!(Stored::decode(&expected, &Seal::plain()), Ok(stored));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let seal = Seal::plain();
        let bytes = shared_example().encode(7, &seal);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(Stored::decode(&damaged, &seal).is_err());
            }
            assert!(Stored::decode(&bytes[..at], &seal).is_err());
        }
    }

    /// Behind the checksum, too, bytes are decoded without a panic.
    #[test]
    fn malformed_bodies_are_refused() {
        let seal = Seal::plain();
        let bytes = shared_example().encode(7, &seal);
        let body = &bytes[HEAD_BYTES..bytes.len() - 8];
        for at in 0..body.len() {
            let mut damaged = body.to_vec();
            damaged[at] = !damaged[at];
            let _ = Stored::parse(&damaged, FORMAT_VERSION);
            assert!(Stored::parse(&body[..at], FORMAT_VERSION).is_none());
        }
    }
}
