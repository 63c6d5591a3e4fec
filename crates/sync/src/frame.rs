//! Frames: what is said between peers, in bytes.
//!
//! ```text
//! "isomsync"   8 bytes
//! u8           version of the protocol (1)
//! u8           what it is (see [`Kind`])
//! u8           0 as it is, 1 LZ4
//! u32 LE       bytes unpacked
//! u32 LE       bytes that follow
//! u64 LE       xxh3 of what comes before and of the bytes that follow
//! …            the bytes
//! ```

use xxhash_rust::xxh3::Xxh3;

/// Magic number.
const MAGIC: &[u8; 8] = b"isomsync";
/// Protocol version.
pub(crate) const VERSION: u8 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 27;
/// Maximum size of an uncompressed frame.
pub(crate) const MAX_UNPACKED_BYTES: usize = 96 << 20;
/// Shorter contents are not compressed.
const PACKED_FROM: usize = 128;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Requests identity and versions; contains the sender's greeting, which is recorded, or nothing.
    Greet = 1,
    /// Requests the entries that the contained greeting lacks.
    Entries = 2,
    /// Pushes entries.
    Apply = 3,
    /// Requests a page of a state transfer: the cursor, or nothing.
    Snapshot = 4,
    /// Pushes a page of a state transfer: u128 LE session (0 in the first page), 16 bytes the sender's id, u32 LE and
    /// as many bytes: the cursor that the page before named; the page.
    Join = 5,
    /// Requests fingerprints.
    Fingerprints = 6,
    /// Requests ranges: u16 LE each.
    Ranges = 7,
    /// Pushes ranges.
    Repair = 8,
    /// A greeting.
    Greeting = 65,
    /// A page.
    Page = 66,
    /// Result of applying: u64 LE transactions, operations, known ones; u8 more, u8 behind; u128 LE session, after a
    /// page of a state transfer (0 after entries); if transactions are held back the first of them: 16 bytes and u32
    /// BE the replica that wrote it, u64 LE its number, its timestamp in ms since 1970, by how many ms that is ahead,
    /// how many transactions there are. Earlier versions end after `behind`, or after the session, and read no
    /// further.
    Applied = 67,
    /// An error: kind, a line break, message. Kinds are those of errors, and `Joining`: a state transfer is
    /// incomplete; `JoinRunning`: a state is being joined at the moment, the same frame can be sent again soon;
    /// `ClockAhead`: the state has timestamps too far ahead of the clock.
    Refused = 127,
}

impl Kind {
    fn of(code: u8) -> Option<Self> {
        [
            Self::Greet,
            Self::Entries,
            Self::Apply,
            Self::Snapshot,
            Self::Join,
            Self::Fingerprints,
            Self::Ranges,
            Self::Repair,
            Self::Greeting,
            Self::Page,
            Self::Applied,
            Self::Refused,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }
}

/// Why bytes are not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    Version(u8),
    Invalid(&'static str),
}

/// Encodes a frame.
pub(crate) fn encode(kind: Kind, content: &[u8]) -> Vec<u8> {
    assert!(
        u32::try_from(content.len()).is_ok(),
        "a frame has at most 4 GiB: its length would be cut off"
    );
    let packed = (content.len() >= PACKED_FROM).then(|| lz4_flex::block::compress(content));
    let packed = packed.filter(|packed| packed.len() < content.len());
    let (how, bytes) = match &packed {
        Some(packed) => (1, packed.as_slice()),
        None => (0, content),
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + bytes.len());
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&[VERSION, kind as u8, how]);
    frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    let sum = checksum(&frame, bytes);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(bytes);
    debug_assert!(
        content.len() > MAX_UNPACKED_BYTES
            || decode(&frame).is_ok_and(|read| read.0 == kind && read.1 == content),
        "a frame is read as it was written"
    );
    frame
}

/// Decodes a frame.
pub(crate) fn decode(frame: &[u8]) -> Result<(Kind, Vec<u8>), FrameError> {
    let (head, bytes) = frame
        .split_at_checked(HEADER_BYTES)
        .ok_or(FrameError::Invalid("shorter than a header"))?;
    if !head.starts_with(MAGIC) {
        return Err(FrameError::Invalid("wrong magic number"));
    }
    if head[8] != VERSION {
        return Err(FrameError::Version(head[8]));
    }
    let number = |at: usize| {
        u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
    };
    let (unpacked, length) = (number(11), number(15));
    if length != bytes.len() {
        return Err(FrameError::Invalid("truncated"));
    }
    if unpacked > MAX_UNPACKED_BYTES {
        return Err(FrameError::Invalid("too long"));
    }
    let mut sum = [0; 8];
    sum.copy_from_slice(&head[19..]);
    if u64::from_le_bytes(sum) != checksum(&head[..19], bytes) {
        return Err(FrameError::Invalid("wrong checksum"));
    }
    let kind = Kind::of(head[9]).ok_or(FrameError::Invalid("unknown kind"))?;
    let content = match head[10] {
        0 if unpacked == length => bytes.to_vec(),
        1 => lz4_flex::block::decompress(bytes, unpacked)
            .map_err(|_| FrameError::Invalid("invalid compression"))?,
        _ => return Err(FrameError::Invalid("unknown compression")),
    };
    if content.len() != unpacked {
        return Err(FrameError::Invalid("wrong length"));
    }
    Ok((kind, content))
}

fn checksum(head: &[u8], bytes: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(bytes);
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_damage_is_detected() {
        for length in [0, 1, 127, 128, 5000, 100_000] {
            let content: Vec<u8> = (0..length).map(|at| (at / 7 % 251) as u8).collect();
            let frame = encode(Kind::Apply, &content);
            assert_eq!(decode(&frame), Ok((Kind::Apply, content)));
            for cut in [0, 5, HEADER_BYTES - 1, frame.len() - 1] {
                if cut < frame.len() {
                    assert!(
                        decode(&frame[..cut]).is_err(),
                        "cut at {cut} of {}",
                        frame.len()
                    );
                }
            }
            for at in (0..frame.len()).step_by(1 + frame.len() / 97) {
                let mut damaged = frame.clone();
                damaged[at] ^= 0x10;
                assert!(
                    decode(&damaged).is_err(),
                    "a bit flipped at {at} was not detected"
                );
            }
        }
        let mut other = encode(Kind::Greet, b"");
        other[8] = 9;
        assert_eq!(decode(&other), Err(FrameError::Version(9)));
        assert!(frame_of_bomb().is_err());
    }

    /// A frame that claims to decompress to more than the maximum.
    fn frame_of_bomb() -> Result<(Kind, Vec<u8>), FrameError> {
        let mut frame = encode(Kind::Apply, &[0; 1000]);
        frame[11..15].copy_from_slice(&u32::MAX.to_le_bytes());
        let sum = checksum(&frame[..19], &frame[HEADER_BYTES..]);
        frame[19..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        decode(&frame)
    }
}
