//! The file of one view, byte by byte. Numbers are little endian; `xxh3(seed)` is the 64-bit XXH3 of the bytes named.
//!
//! ```text
//! header, 64 bytes and the kind
//!   0   8 bytes   "ISOMVIEW"
//!   8   u32       format: 1, or 2 where the blocks are sealed; 3 or 4 where something is stored in several blocks
//!   12  u32       k: bytes of the kind
//!   16  16 bytes  era of the database (see `data::lineage`)
//!   32  u64       version of the base in that era
//!   40  u64       n: number of blocks
//!   48  u64       number of bytes of the whole file
//!   56  k bytes   kind (below)
//!   …   u64       xxh3(0) of everything before it
//! n blocks, each
//!   u32           m: bytes of the block, at most 2³⁰; the highest bit is set if the next block continues this
//!                 one: content above 2²⁹ bytes is split
//!   m bytes       content (see the view's kind)
//!   u64           xxh3(number of the block, from 1) of m with its highest bit, and of the content
//! footer, 24 bytes
//!   u64           xxh3(0) of the n block checksums, one after another
//!   8 bytes       "VIEWDONE"
//!   u64           xxh3(1) of the 16 bytes before it
//! ```
//!
//! In an encrypted database the content of a block is sealed (see `vfs::Seal`), bound to the place (file: the
//! 128-bit XXH3 of era, version and kind as in the header; at: number of the block); m and the checksum are those
//! of the sealed bytes.
//!
//! Header and footer are known only after all blocks: the header is reserved as zeros and written last, so that an
//! incomplete file has no magic number.
//!
//! **Kind**: one byte, then what names the view.
//!
//! | byte | rest | what |
//! |---|---|---|
//! | `01` | `u32` type, `u8` end (0 outgoing, 1 incoming) | relationships of a type, seen from one end |
//! | `02` | `u8` whether of one label, `u32` label or 0 | nodes of a label, or all nodes |
//! | `03` | `u32` label, `u32` length, then that many `u32` property names | values at a path of a label's nodes |
//! | `04` | `u32` type, then as `03` | values at a path of a type's relationships |

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write},
};

use isomer_data::{EraId, Version};
use isomer_value::{LabelId, PropId, TypeId};
use isomer_vfs::{Seal, SealedPosition};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed, xxh3_128};

use crate::{
    build::Effort,
    error::ViewError,
    side::AdjacencySide,
    status::ViewKind,
    view_file::{
        error::{ViewFileDamage, ViewFileError, ViewFileOverflow, ViewFileRejection},
        numbers::Taker,
    },
};

const MAGIC: &[u8; 8] = b"ISOMVIEW";
const DONE: &[u8; 8] = b"VIEWDONE";
const FORMAT: u32 = 1;
/// The format of a file with sealed blocks.
const SEALED_FORMAT: u32 = 2;
/// Added to the format of a file that has split blocks, so that programs that do not know split blocks report
/// the format instead of damage.
const IN_PIECES: u32 = 2;
const NEWEST_FORMAT: u32 = SEALED_FORMAT + IN_PIECES;
/// The header without kind and checksum.
const HEAD_BYTES: usize = 56;
const FOOT_BYTES: u64 = 24;
/// Maximum size of a view's name.
const MAX_KIND_BYTES: usize = 4096;
/// Largest block.
const MAX_BLOCK_BYTES: u32 = 1 << 30;
/// Larger blocks are split into pieces.
const PIECE_BYTES: usize = if cfg!(test) { 64 } else { 1 << 29 };
/// Flag in a block's length: the next block continues this one.
const CONTINUED: u32 = 1 << 31;

/// The view and version that a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: ViewKind,
    pub(crate) era: EraId,
    pub(crate) version: Version,
}

impl Head {
    fn kind_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.kind {
            ViewKind::Adjacency(type_id, side) => {
                bytes.push(1);
                bytes.extend_from_slice(&type_id.0.to_le_bytes());
                bytes.push(u8::from(*side == AdjacencySide::In));
            }
            ViewKind::Members(label) => {
                bytes.push(2);
                bytes.push(label.is_some().into());
                let label = label.map_or(0, |label| label.0);
                bytes.extend_from_slice(&label.to_le_bytes());
            }
            ViewKind::Column(label, path) => push_column(&mut bytes, 3, label.0, path),
            ViewKind::RelColumn(type_id, path) => push_column(&mut bytes, 4, type_id.0, path),
        }
        bytes
    }

    /// Identity of the file, to which sealed blocks are bound.
    fn identity(&self) -> u128 {
        let mut bytes = self.era.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.kind_bytes());
        xxh3_128(&bytes)
    }

    fn kind_of(bytes: &[u8]) -> Option<ViewKind> {
        let mut taker = Taker(bytes);
        let kind = match taker.u8()? {
            1 => {
                let type_id = TypeId(taker.u32()?);
                let side = match taker.u8()? {
                    0 => AdjacencySide::Out,
                    1 => AdjacencySide::In,
                    _ => return None,
                };
                ViewKind::Adjacency(type_id, side)
            }
            2 => match (taker.u8()?, taker.u32()?) {
                (0, 0) => ViewKind::Members(None),
                (1, label) => ViewKind::Members(Some(LabelId(label))),
                _ => return None,
            },
            sort @ (3 | 4) => {
                let owner = taker.u32()?;
                let count = taker.u32()? as usize;
                let path = taker.u32s(count)?.into_iter().map(PropId).collect();
                match sort {
                    3 => ViewKind::Column(LabelId(owner), path),
                    _ => ViewKind::RelColumn(TypeId(owner), path),
                }
            }
            _ => return None,
        };
        taker.is_empty().then_some(kind)
    }
}

fn push_column(bytes: &mut Vec<u8>, sort: u8, owner: u32, path: &[PropId]) {
    bytes.push(sort);
    bytes.extend_from_slice(&owner.to_le_bytes());
    bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
    for prop in path {
        bytes.extend_from_slice(&prop.0.to_le_bytes());
    }
}

/// Writes a file sequentially.
pub(crate) struct Writer {
    file: BufWriter<File>,
    head: Head,
    seal: Seal,
    identity: u128,
    /// Buffer for sealing a block.
    sealed: Vec<u8>,
    sums: Xxh3,
    blocks: u64,
    bytes: u64,
    /// Whether any block was split.
    in_pieces: bool,
}

impl Writer {
    /// Starts in an empty file.
    pub(crate) fn new(file: File, head: Head, seal: &Seal) -> Result<Self, ViewFileError> {
        let mut file = BufWriter::with_capacity(1 << 18, file);
        let room = HEAD_BYTES + head.kind_bytes().len() + 8;
        file.write_all(&vec![0; room])?;
        Ok(Self {
            file,
            identity: head.identity(),
            head,
            seal: seal.clone(),
            sealed: Vec::new(),
            sums: Xxh3::with_seed(0),
            blocks: 0,
            bytes: room as u64,
            in_pieces: false,
        })
    }

    /// Appends a block of any length.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> Result<(), ViewFileError> {
        let mut rest = bytes;
        while let Some((piece, more)) = rest.split_at_checked(PIECE_BYTES)
            && !more.is_empty()
        {
            self.piece(piece, CONTINUED)?;
            rest = more;
        }
        self.piece(rest, 0)
    }

    fn piece(&mut self, bytes: &[u8], flag: u32) -> Result<(), ViewFileError> {
        self.blocks += 1;
        self.in_pieces |= flag != 0;
        let bytes = if self.seal.encrypts() {
            self.sealed.clear();
            self.sealed.extend_from_slice(bytes);
            let place = place(self.identity, self.blocks);
            self.seal.seal(place, &mut self.sealed, 0);
            &self.sealed
        } else {
            bytes
        };
        let len = u32::try_from(bytes.len())
            .ok()
            .filter(|len| *len <= MAX_BLOCK_BYTES)
            .ok_or(ViewFileOverflow::BlockTooLarge {
                bytes: bytes.len(),
                max: MAX_BLOCK_BYTES,
            })?;
        let sum = block_sum(self.blocks, len | flag, bytes);
        self.file.write_all(&(len | flag).to_le_bytes())?;
        self.file.write_all(bytes)?;
        self.file.write_all(&sum)?;
        self.sums.update(&sum);
        self.bytes += 12 + u64::from(len);
        Ok(())
    }

    /// Sets the version, which was not known at the start. Not for sealed blocks: these are bound to the
    /// version given at the start.
    pub(crate) fn set_version(&mut self, version: Version) {
        assert!(
            !self.seal.encrypts(),
            "sealed blocks are bound to one version"
        );
        self.head.version = version;
    }

    /// Writes footer and header and syncs. Returns the size of the file.
    pub(crate) fn finish(mut self) -> Result<u64, ViewFileError> {
        self.bytes += FOOT_BYTES;
        self.file
            .write_all(&foot(self.sums.digest().to_le_bytes()))?;
        self.file.flush()?;
        let mut file = self
            .file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        let kind = self.head.kind_bytes();
        let mut head = Vec::with_capacity(HEAD_BYTES + kind.len() + 8);
        head.extend_from_slice(MAGIC);
        let format = format_of(&self.seal, self.in_pieces);
        head.extend_from_slice(&format.to_le_bytes());
        head.extend_from_slice(&(kind.len() as u32).to_le_bytes());
        head.extend_from_slice(&self.head.era);
        head.extend_from_slice(&self.head.version.to_le_bytes());
        head.extend_from_slice(&self.blocks.to_le_bytes());
        head.extend_from_slice(&self.bytes.to_le_bytes());
        head.extend_from_slice(&kind);
        let sum = xxh3_64_with_seed(&head, 0).to_le_bytes();
        head.extend_from_slice(&sum);
        file.write_all(&head)?;
        file.sync_all()?;
        Ok(self.bytes)
    }
}

fn format_of(seal: &Seal, in_pieces: bool) -> u32 {
    let format = if seal.encrypts() {
        SEALED_FORMAT
    } else {
        FORMAT
    };
    format + if in_pieces { IN_PIECES } else { 0 }
}

fn place(file: u128, at: u64) -> SealedPosition {
    SealedPosition { file, at }
}

fn block_sum(number: u64, len: u32, bytes: &[u8]) -> [u8; 8] {
    let mut sum = Xxh3::with_seed(number);
    sum.update(&len.to_le_bytes());
    sum.update(bytes);
    sum.digest().to_le_bytes()
}

fn foot(sums: [u8; 8]) -> [u8; FOOT_BYTES as usize] {
    let mut foot = [0; FOOT_BYTES as usize];
    foot[..8].copy_from_slice(&sums);
    foot[8..16].copy_from_slice(DONE);
    let sum = xxh3_64_with_seed(&foot[..16], 1).to_le_bytes();
    foot[16..].copy_from_slice(&sum);
    foot
}

/// Reads a file sequentially; all data is verified against its checksum before it is returned.
pub(crate) struct Blocks {
    file: BufReader<File>,
    head: Head,
    seal: Seal,
    identity: u128,
    sums: Xxh3,
    /// Number of the last block read.
    read: u64,
    blocks: u64,
    /// Bytes of the file not read yet.
    left: u64,
    bytes: u64,
    block: Vec<u8>,
    /// Bytes reserved from the budget.
    reserved: usize,
    /// Whether blocks may be split.
    in_pieces: bool,
}

impl Blocks {
    /// Reads and verifies the header.
    pub(crate) fn open(file: File, seal: &Seal) -> Result<Self, ViewFileError> {
        let bytes = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut head = vec![0; HEAD_BYTES];
        read_exact(&mut file, &mut head, "its header")?;
        let mut taker = Taker(&head);
        let damaged = || ViewFileDamage::MalformedHeader;
        if taker.bytes(8) != Some(MAGIC) {
            return Err(ViewFileDamage::WrongMagic.into());
        }
        let format = taker.u32().ok_or_else(damaged)?;
        let kind_bytes = taker.u32().ok_or_else(damaged)? as usize;
        let era: EraId = taker
            .bytes(16)
            .and_then(|era| era.try_into().ok())
            .ok_or_else(damaged)?;
        let version = taker.u64().ok_or_else(damaged)?;
        let blocks = taker.u64().ok_or_else(damaged)?;
        let stated = taker.u64().ok_or_else(damaged)?;
        if kind_bytes > MAX_KIND_BYTES {
            return Err(damaged().into());
        }
        head.resize(HEAD_BYTES + kind_bytes, 0);
        read_exact(&mut file, &mut head[HEAD_BYTES..], "its header")?;
        let mut sum = [0; 8];
        read_exact(&mut file, &mut sum, "its header")?;
        if xxh3_64_with_seed(&head, 0).to_le_bytes() != sum {
            return Err(ViewFileDamage::HeaderChecksum.into());
        }
        let in_pieces = format == format_of(seal, true);
        match format {
            _ if in_pieces || format == format_of(seal, false) => {}
            // The header is intact, but was not written with this key: a foreign file.
            FORMAT..=NEWEST_FORMAT => return Err(ViewFileRejection::Foreign.into()),
            _ => {
                let newest = NEWEST_FORMAT;
                return Err(ViewFileRejection::Format {
                    found: format,
                    newest,
                }
                .into());
            }
        }
        if stated != bytes {
            return Err(ViewFileDamage::WrongLength { bytes, stated }.into());
        }
        let kind = Head::kind_of(&head[HEAD_BYTES..]).ok_or_else(damaged)?;
        let opened = Head { kind, era, version };
        Ok(Self {
            identity: opened.identity(),
            head: opened,
            seal: seal.clone(),
            sums: Xxh3::with_seed(0),
            read: 0,
            blocks,
            left: bytes - (head.len() + 8) as u64,
            bytes,
            block: Vec::new(),
            reserved: 0,
            in_pieces,
            file,
        })
    }

    /// The view and version that the file holds.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Size of the whole file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next block; `None` after the last one, once the footer was verified.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, ViewFileError> {
        if self.next_within(&mut |_| Ok::<_, ViewFileError>(()))? {
            Ok(Some(&self.block))
        } else {
            Ok(None)
        }
    }

    /// Reads the next block, if any; calls `room` first for the memory it needs beyond that of earlier
    /// blocks.
    fn next_within<E: From<ViewFileError>>(
        &mut self,
        room: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.block.clear();
        while let Some((len, continues)) = self.next_length()? {
            let bytes = self.block.len() + len as usize;
            if bytes > self.reserved {
                room(bytes - self.reserved)?;
                self.reserved = bytes;
                self.block.reserve_exact(len as usize);
            }
            self.next_piece(len, continues)?;
            if !continues {
                return Ok(true);
            }
        }
        if self.block.is_empty() {
            Ok(false)
        } else {
            Err(malformed().into())
        }
    }

    /// The length of the next piece, and whether another one follows; `None` after the last one.
    fn next_length(&mut self) -> Result<Option<(u32, bool)>, ViewFileError> {
        if self.read == self.blocks {
            let mut stored = [0; FOOT_BYTES as usize];
            read_exact(&mut self.file, &mut stored, "its footer")?;
            let whole = self.left == FOOT_BYTES;
            if !whole || stored != foot(self.sums.digest().to_le_bytes()) {
                return Err(ViewFileDamage::FooterMismatch.into());
            }
            return Ok(None);
        }
        self.read += 1;
        let number = self.read;
        let mut len = [0; 4];
        read_exact(&mut self.file, &mut len, "a block")?;
        let len = u32::from_le_bytes(len);
        let (len, continues) = if self.in_pieces {
            (len & !CONTINUED, len & CONTINUED != 0)
        } else {
            (len, false)
        };
        let taken = u64::from(len) + 12;
        if len > MAX_BLOCK_BYTES || taken + FOOT_BYTES > self.left {
            return Err(ViewFileDamage::BlockTooLong { number }.into());
        }
        self.left -= taken;
        Ok(Some((len, continues)))
    }

    /// Reads a piece and appends it to the block.
    fn next_piece(&mut self, len: u32, continues: bool) -> Result<(), ViewFileError> {
        let number = self.read;
        let start = self.block.len();
        self.block.resize(start + len as usize, 0);
        let piece = &mut self.block[start..];
        read_exact(&mut self.file, piece, "a block")?;
        let mut sum = [0; 8];
        read_exact(&mut self.file, &mut sum, "a block")?;
        let flag = if continues { CONTINUED } else { 0 };
        if block_sum(number, len | flag, piece) != sum {
            return Err(ViewFileDamage::BlockChecksum { number }.into());
        }
        self.sums.update(&sum);
        self.seal
            .open(place(self.identity, number), &mut self.block, start)
            .map_err(|source| ViewFileDamage::Unsealed { number, source })?;
        Ok(())
    }

    /// The next block, which must exist. Its memory is reserved from the budget of the build.
    pub(crate) fn expect(&mut self, effort: &mut Effort<'_>) -> Result<&[u8], ViewError> {
        if self.next_within(&mut |bytes| effort.pass(bytes))? {
            Ok(&self.block)
        } else {
            Err(malformed().into())
        }
    }

    /// Reads the rest of the file, up to the footer.
    pub(crate) fn finish(mut self) -> Result<(), ViewFileError> {
        match self.next()? {
            None => Ok(()),
            Some(_) => Err(malformed()),
        }
    }
}

/// The checksums match but the content is inconsistent: another program wrote it.
pub(crate) fn malformed() -> ViewFileError {
    ViewFileDamage::MalformedContent.into()
}

fn read_exact(
    file: &mut impl Read,
    buffer: &mut [u8],
    part: &'static str,
) -> Result<(), ViewFileError> {
    file.read_exact(buffer).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => ViewFileDamage::Truncated { part }.into(),
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            kind: ViewKind::Column(LabelId(7), [PropId(3), PropId(900)].into()),
            era: [9; 16],
            version: 1 << 40,
        }
    }

    fn written(blocks: &[&[u8]]) -> Vec<u8> {
        written_with(blocks, &Seal::plain())
    }

    fn written_with(blocks: &[&[u8]], seal: &Seal) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(file.try_clone().unwrap(), head(), seal).unwrap();
        blocks.iter().for_each(|block| writer.block(block).unwrap());
        let size = writer.finish().unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, size);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Head, Vec<Vec<u8>>), ViewFileError> {
        read_with(bytes, &Seal::plain())
    }

    fn read_with(bytes: &[u8], seal: &Seal) -> Result<(Head, Vec<Vec<u8>>), ViewFileError> {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        file.seek(SeekFrom::Start(0))?;
        let mut blocks = Blocks::open(file, seal)?;
        let mut found = Vec::new();
        while let Some(block) = blocks.next()? {
            found.push(block.to_vec());
        }
        Ok((blocks.head().clone(), found))
    }

    #[test]
    fn kinds_come_back() {
        for kind in [
            ViewKind::Adjacency(TypeId(5), AdjacencySide::In),
            ViewKind::Adjacency(TypeId(u32::MAX), AdjacencySide::Out),
            ViewKind::Members(None),
            ViewKind::Members(Some(LabelId(0))),
            ViewKind::Column(LabelId(1), [].into()),
            ViewKind::RelColumn(TypeId(9), [PropId(1)].into()),
            head().kind,
        ] {
            let bytes = Head {
                kind: kind.clone(),
                ..head()
            }
            .kind_bytes();
            assert_eq!(Head::kind_of(&bytes), Some(kind));
            for cut in 0..bytes.len() {
                assert_eq!(Head::kind_of(&bytes[..cut]), None);
            }
        }
    }

    /// Every bit of the file is covered: each flip, truncation and appended byte is detected.
    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let blocks: [&[u8]; 3] = [b"first block", b"", &[7; 100]];
        let whole = written(&blocks);
        let (found_head, found) = read(&whole).unwrap();
        assert_eq!((found_head, found.len()), (head(), 3));
        assert_eq!(found[2], blocks[2]);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bytes).is_err(), "bit {bit}");
        }
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
        // Swapped blocks are detected too.
        assert!(read(&written(&[])).unwrap().1.is_empty());
    }

    /// A split block is reassembled, sealed or not; a file that ends between two pieces is damaged.
    #[test]
    fn long_blocks_are_stored_in_pieces() {
        let long: Vec<u8> = (0..10 * PIECE_BYTES as u32 + 7)
            .map(|at| ((at * 31) >> 3) as u8)
            .collect();
        let exact = vec![5; 2 * PIECE_BYTES];
        let blocks: [&[u8]; 4] = [b"", &long, &exact, b"end"];
        for seal in [Seal::plain(), Seal::ephemeral().unwrap()] {
            let whole = written_with(&blocks, &seal);
            let found = read_with(&whole, &seal).unwrap().1;
            assert_eq!(found, blocks);
            // The format number says whether there are split blocks.
            let format = |bytes: &[u8]| bytes[8];
            let short = written_with(&[b"short"], &seal);
            assert_eq!(format(&whole), format(&short) + 2);
        }
        assert_eq!(written(&[b"short"])[8], 1);
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(file.try_clone().unwrap(), head(), &Seal::plain()).unwrap();
        writer.piece(b"half", CONTINUED).unwrap();
        writer.finish().unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert!(matches!(read(&bytes), Err(ViewFileError::Damaged(_))));
    }

    /// Memory for a block is reserved before it is read, and only once for blocks of equal size.
    #[test]
    fn room_is_asked_for_before_a_block_is_read() {
        let bytes = written(&[&[1; 40], &[2; 200], &[3; 150]]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut blocks = Blocks::open(file, &Seal::plain()).unwrap();
        let mut asked = 0;
        for most in [40, 200, 200] {
            let mut room = |more: usize| {
                asked += more;
                Ok::<_, ViewFileError>(())
            };
            assert!(blocks.next_within(&mut room).unwrap());
            assert_eq!(asked, most);
        }
        let file = tempfile::tempfile().unwrap();
        let mut again = file.try_clone().unwrap();
        again.write_all(&bytes).unwrap();
        again.seek(SeekFrom::Start(0)).unwrap();
        let mut blocks = Blocks::open(file, &Seal::plain()).unwrap();
        let refused =
            blocks.next_within(&mut |_| Err(ViewFileError::from(ViewFileRejection::Foreign)));
        assert!(matches!(
            refused,
            Err(ViewFileError::Rejected(ViewFileRejection::Foreign))
        ));
    }

    /// A sealed file reveals nothing about its blocks, opens with its own key only, and is not mistaken for a
    /// plain one.
    #[test]
    fn sealed_blocks_open_with_their_key() {
        let seal = Seal::ephemeral().unwrap();
        let blocks: [&[u8]; 3] = [b"the secret", b"", b"another"];
        let whole = written_with(&blocks, &seal);
        assert!(!whole.windows(6).any(|six| six == b"secret"));
        assert_eq!(read_with(&whole, &seal).unwrap().1, blocks);
        assert!(matches!(
            read(&whole),
            Err(ViewFileError::Rejected(ViewFileRejection::Foreign))
        ));
        let plain = written(&blocks);
        assert!(matches!(
            read_with(&plain, &seal),
            Err(ViewFileError::Rejected(ViewFileRejection::Foreign))
        ));
        let other = Seal::ephemeral().unwrap();
        assert!(matches!(
            read_with(&whole, &other),
            Err(ViewFileError::Damaged(_))
        ));
    }
}
