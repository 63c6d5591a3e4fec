//! Group records: what a process writes into the shared log, as the content of a record of `isomer-shared-log`.
//!
//! ```text
//! u8   format: 1
//! u8   kind: 1 group of commits, 2 note
//! u64  time in milliseconds since 1970, never decreasing in the order of the log
//! u64  version of the first commit; of a note, the version that the next commit will have
//! u64  the change stream is trimmed up to and including this version
//! u64  the change stream has no entries above that up to and including this version
//! u32  number of commits; of a note 0
//!      the commits, whose versions are consecutive
//! ```
//!
//! The two watermarks of the change stream are those behind the record. A commit, with LEB128 numbers:
//!
//! ```text
//! u8   1 if it conflicts with every transaction that began before it (a bulk load), otherwise 0
//! n    number of changed granules, each: u128
//! n    length, bytes    entry of the change stream
//! n    length in bytes of what follows
//! n    number of deleted ranges, each: length, start, 1 + length or 0 for the end of the key space, end
//! n    number of puts and deletions, each: length, key, 1 + length or 0 for a deletion, value
//! ```
//!
//! Numbers of a fixed size are little-endian. The checksum is that of the record around it.

use isomer_shared_log::Record;

use crate::{Commit, Granule, KeyRange, Version, WriteSet};

/// Version of the format. A process refuses others: it would not apply them as their writer did.
pub const GROUP_FORMAT: u8 = 1;

const GROUP: u8 = 1;
const NOTE: u8 = 2;
const HEAD_BYTES: usize = 2 + 4 * 8 + 4;
const GRANULE_BYTES: usize = 16;
/// A commit has at most that in addition to its granules, entry and writes: a byte and three numbers.
const MAX_COUNTS_BYTES: usize = 1 + 3 * 10;

/// What the change stream contains, after some record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// It is trimmed up to and including this version.
    pub trimmed: Version,
    /// No other version up to and including this one has an entry: the log is not needed for the change stream before
    /// the next version. Never below `trimmed`.
    pub without_entries: Version,
}

impl Watermarks {
    /// Those after the commit `version`, the next one.
    #[must_use]
    pub fn after_commit(self, version: Version, has_entry: bool) -> Self {
        let continues = !has_entry && self.without_entries + 1 == version;
        Self {
            trimmed: self.trimmed,
            without_entries: self.without_entries + u64::from(continues),
        }
    }

    /// Those after the change stream is trimmed up to and including `upto`.
    #[must_use]
    pub fn after_trim(self, upto: Version) -> Self {
        let trimmed = self.trimmed.max(upto);
        Self {
            trimmed,
            without_entries: self.without_entries.max(trimmed),
        }
    }
}

/// The beginning of a group record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// When it was written, in milliseconds since 1970. Never decreasing in the order of the log.
    pub time_ms: u64,
    /// Version of the first commit; without commits, the version that the next one will have.
    pub first: Version,
    /// Watermarks of the change stream behind it.
    pub stream: Watermarks,
}

/// What a commit changed, for the validation of other transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedFootprint<'a> {
    /// These granules.
    Granules(&'a [Granule]),
    /// Perhaps everything: it is a bulk load.
    Everything,
}

/// A group record, decoded as far as its head.
#[derive(Clone, Copy, Debug)]
pub struct GroupRecord<'a> {
    /// Its beginning.
    pub head: GroupHead,
    count: u32,
    commits: &'a [u8],
}

/// A commit in a group record; its parts are still encoded, and valid.
#[derive(Clone, Copy, Debug)]
pub struct LoggedCommit<'a> {
    /// Its version.
    pub version: Version,
    /// Its entry in the change stream; may be empty.
    pub stream: &'a [u8],
    /// Whether it conflicts with every transaction that began before it.
    pub changes_everything: bool,
    granules: &'a [u8],
    writes: &'a [u8],
}

impl LoggedCommit<'_> {
    /// Whether what it wrote is in tables, and not in the log; `writes` are those of its record. It is a bulk load, or
    /// from before the database was shared.
    pub fn is_in_tables(&self, writes: &WriteSet) -> bool {
        self.changes_everything && writes.is_empty()
    }
}

/// Why bytes are not a group record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Of another version of the program.
    #[error(
        "the group has the format {0}, and this program knows {GROUP_FORMAT}: \
         use the version of the program that the other processes use"
    )]
    Format(u8),
    /// Its checksum matches, so another program wrote it.
    #[error("the group is malformed: use the version of the program that the other processes use")]
    Malformed,
}

/// Encodes the commits of a group, one by one.
#[derive(Debug)]
pub struct GroupEncoder {
    bytes: Vec<u8>,
    head: GroupHead,
    count: u32,
}

impl GroupEncoder {
    /// A record without commits. `before` are the watermarks of the change stream before it.
    pub fn new(time_ms: u64, first: Version, before: Watermarks) -> Self {
        Self::reusing(Vec::with_capacity(256), time_ms, first, before)
    }

    /// Like [`GroupEncoder::new`], with the memory of `bytes`, whose content is dropped.
    pub fn reusing(mut bytes: Vec<u8>, time_ms: u64, first: Version, before: Watermarks) -> Self {
        bytes.clear();
        bytes.resize(HEAD_BYTES, 0);
        Self {
            bytes,
            head: GroupHead {
                time_ms,
                first,
                stream: before,
            },
            count: 0,
        }
    }

    /// Appends the next commit.
    ///
    /// # Panics
    /// If its version does not follow the last one.
    pub fn push(&mut self, commit: &Commit<'_>, changed: LoggedFootprint<'_>) {
        let head = &mut self.head;
        assert!(
            commit.version == head.first + u64::from(self.count),
            "the commits of a group have consecutive versions"
        );
        head.stream = head
            .stream
            .after_commit(commit.version, !commit.stream.is_empty());
        self.count += 1;
        let writes = writes_bytes(commit.writes);
        let granules = match changed {
            LoggedFootprint::Granules(granules) => granules.len() * GRANULE_BYTES,
            LoggedFootprint::Everything => 0,
        };
        let out = &mut self.bytes;
        // With room for the head and the check of the record, which a large content becomes in place.
        let record = Record::encoded_bytes(0);
        let bytes = granules + commit.stream.len() + writes as usize;
        out.reserve(bytes + MAX_COUNTS_BYTES + record);
        out.push(u8::from(changed == LoggedFootprint::Everything));
        match changed {
            LoggedFootprint::Granules(granules) => {
                put_number(out, granules.len() as u64);
                for granule in granules {
                    out.extend_from_slice(&granule.0.to_le_bytes());
                }
            }
            LoggedFootprint::Everything => put_number(out, 0),
        }
        put_bytes(out, commit.stream);
        put_number(out, writes);
        put_writes(out, commit.writes);
    }

    /// Trims the change stream up to and including `upto`.
    pub fn trim(&mut self, upto: Version) {
        self.head.stream = self.head.stream.after_trim(upto);
    }

    /// The bytes, and the head that was written.
    pub fn finish(self) -> (Vec<u8>, GroupHead) {
        let Self {
            mut bytes,
            head,
            count,
        } = self;
        let kind = if count == 0 { NOTE } else { GROUP };
        bytes[..2].copy_from_slice(&[GROUP_FORMAT, kind]);
        let Watermarks {
            trimmed,
            without_entries,
        } = head.stream;
        let numbers = [head.time_ms, head.first, trimmed, without_entries];
        let (words, end) = bytes[2..HEAD_BYTES].as_chunks_mut::<8>();
        for (word, number) in words.iter_mut().zip(numbers) {
            *word = number.to_le_bytes();
        }
        end.copy_from_slice(&count.to_le_bytes());
        (bytes, head)
    }
}

impl<'a> GroupRecord<'a> {
    /// The record in `content`. Its commits are decoded by [`GroupRecord::commits`].
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn decode(content: &'a [u8]) -> Result<Self, GroupError> {
        let (&format, mut rest) = content.split_first().ok_or(GroupError::Malformed)?;
        if format != GROUP_FORMAT {
            return Err(GroupError::Format(format));
        }
        let rest = &mut rest;
        let [kind] = take_array(rest)?;
        let mut word = || take_array(rest).map(u64::from_le_bytes);
        let (time_ms, first, trimmed, without_entries) = (word()?, word()?, word()?, word()?);
        let count = u32::from_le_bytes(take_array(rest)?);
        let last = first.checked_add(count.into());
        let is_valid = match kind {
            GROUP => count > 0,
            NOTE => count == 0 && rest.is_empty(),
            _ => false,
        };
        let follows = trimmed <= without_entries && last.is_some_and(|last| without_entries < last);
        if !is_valid || first == 0 || !follows {
            return Err(GroupError::Malformed);
        }
        Ok(Self {
            head: GroupHead {
                time_ms,
                first,
                stream: Watermarks {
                    trimmed,
                    without_entries,
                },
            },
            count,
            commits: rest,
        })
    }

    /// Number of commits.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no commit: it is a note.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The version that the first commit behind it has.
    pub fn next_version(&self) -> Version {
        self.head.first + u64::from(self.count)
    }

    /// Its commits.
    ///
    /// # Errors
    /// `Malformed` if one of them, or what follows them, is.
    pub fn commits(&self) -> Result<Vec<LoggedCommit<'a>>, GroupError> {
        let mut rest = self.commits;
        let mut commits = Vec::new();
        for version in self.head.first..self.next_version() {
            commits.push(LoggedCommit::decode(version, &mut rest)?);
        }
        match rest.is_empty() {
            true => Ok(commits),
            false => Err(GroupError::Malformed),
        }
    }
}

impl<'a> LoggedCommit<'a> {
    fn decode(version: Version, rest: &mut &'a [u8]) -> Result<Self, GroupError> {
        let changes_everything = match take_array(rest)? {
            [0] => false,
            [1] => true,
            _ => return Err(GroupError::Malformed),
        };
        let count = take_number(rest)?;
        let bytes = count.checked_mul(GRANULE_BYTES as u64);
        let granules = take(rest, bytes.ok_or(GroupError::Malformed)?)?;
        let stream = take_bytes(rest)?;
        let writes = take_bytes(rest)?;
        Ok(Self {
            version,
            stream,
            changes_everything,
            granules,
            writes,
        })
    }

    /// The granules that it changed.
    pub fn granules(&self) -> impl ExactSizeIterator<Item = Granule> + 'a {
        let chunks = self.granules.as_chunks::<GRANULE_BYTES>().0;
        chunks
            .iter()
            .map(|chunk| Granule(u128::from_le_bytes(*chunk)))
    }

    /// What it writes.
    ///
    /// # Errors
    /// `Malformed`.
    pub fn writes(&self) -> Result<WriteSet, GroupError> {
        let mut writes = WriteSet::new();
        let rest = &mut { self.writes };
        for _ in 0..take_number(rest)? {
            let start = take_bytes(rest)?;
            let end = take_optional(rest)?;
            writes.delete_range(KeyRange { start, end });
        }
        for _ in 0..take_number(rest)? {
            let key = take_bytes(rest)?;
            // No engine takes it, and what follows commits looks at the first byte.
            if key.is_empty() {
                return Err(GroupError::Malformed);
            }
            match take_optional(rest)? {
                Some(value) => writes.put(key, value),
                None => writes.delete(key),
            }
        }
        if !rest.is_empty() {
            return Err(GroupError::Malformed);
        }
        writes.prepare();
        Ok(writes)
    }
}

fn writes_bytes(writes: &WriteSet) -> u64 {
    let of_bytes = |bytes: &[u8]| number_bytes(bytes.len() as u64) + bytes.len() as u64;
    let of_optional = |bytes: Option<&[u8]>| {
        let len = bytes.map_or(0, |bytes| bytes.len() as u64);
        number_bytes(len + u64::from(bytes.is_some())) + len
    };
    let (ranges, slots) = (writes.deleted_ranges(), writes.slots());
    let counts = number_bytes(ranges.len() as u64) + number_bytes(slots.len() as u64);
    let ranges: u64 = ranges
        .map(|range| of_bytes(range.start) + of_optional(range.end))
        .sum();
    let slots: u64 = slots
        .map(|(key, value)| of_bytes(key) + of_optional(value))
        .sum();
    counts + ranges + slots
}

fn put_writes(out: &mut Vec<u8>, writes: &WriteSet) {
    let ranges = writes.deleted_ranges();
    put_number(out, ranges.len() as u64);
    for range in ranges {
        put_bytes(out, range.start);
        put_optional(out, range.end);
    }
    let slots = writes.slots();
    put_number(out, slots.len() as u64);
    for (key, value) in slots {
        put_bytes(out, key);
        put_optional(out, value);
    }
}

/// Bytes of a LEB128 number.
fn number_bytes(number: u64) -> u64 {
    u64::from((64 - (number | 1).leading_zeros()).div_ceil(7))
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_number(out, bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], GroupError> {
    let (array, after) = rest.split_first_chunk().ok_or(GroupError::Malformed)?;
    *rest = after;
    Ok(*array)
}

fn take_number(rest: &mut &[u8]) -> Result<u64, GroupError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take_array(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(GroupError::Malformed)
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8], GroupError> {
    let len = usize::try_from(len).map_err(|_| GroupError::Malformed)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(GroupError::Malformed)?;
    *rest = after;
    Ok(bytes)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], GroupError> {
    let len = take_number(rest)?;
    take(rest, len)
}

fn take_optional<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, GroupError> {
    match take_number(rest)?.checked_sub(1) {
        Some(len) => take(rest, len).map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Granules, entry, deleted ranges, writes.
    type Parts = (
        Vec<u128>,
        Vec<u8>,
        Vec<(Vec<u8>, Option<Vec<u8>>)>,
        Vec<(Vec<u8>, Option<Vec<u8>>)>,
    );

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 1..200)
    }

    fn parts() -> impl Strategy<Value = Parts> {
        let pairs = || prop::collection::vec((bytes(), prop::option::of(bytes())), 0..5);
        let entry = prop::collection::vec(any::<u8>(), 0..200);
        let granules = prop::collection::vec(any::<u128>(), 0..4);
        (granules, entry, pairs(), pairs())
    }

    fn writes_of(
        ranges: &[(Vec<u8>, Option<Vec<u8>>)],
        pairs: &[(Vec<u8>, Option<Vec<u8>>)],
    ) -> WriteSet {
        let mut writes = WriteSet::new();
        for (start, end) in ranges {
            let end = end.as_deref();
            writes.delete_range(KeyRange { start, end });
        }
        for (key, value) in pairs {
            match value {
                Some(value) => writes.put(key, value),
                None => writes.delete(key),
            }
        }
        writes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn what_is_written_is_read(
            first in 1..1_000_000_u64,
            all in prop::collection::vec(parts(), 0..4),
            is_load: bool,
        ) {
            let before = Watermarks { trimmed: first / 2, without_entries: first - 1 };
            let mut encoder = GroupEncoder::new(77, first, before);
            let written: Vec<WriteSet> = all.iter().map(|it| writes_of(&it.2, &it.3)).collect();
            for ((version, (granules, stream, ..)), writes) in (first..).zip(&all).zip(&written) {
                let granules: Vec<Granule> = granules.iter().copied().map(Granule).collect();
                let changed = match is_load {
                    true => LoggedFootprint::Everything,
                    false => LoggedFootprint::Granules(&granules),
                };
                let at = encoder.bytes.len();
                encoder.push(&Commit { version, writes, stream }, changed);
                prop_assert!(encoder.bytes.len() > at);
            }
            let (bytes, head) = encoder.finish();
            let group = GroupRecord::decode(&bytes).expect("a group");
            prop_assert_eq!(group.head, head);
            prop_assert_eq!(group.len(), all.len());
            let commits = group.commits().expect("commits");
            prop_assert_eq!(group.next_version(), first + commits.len() as u64);
            for ((commit, parts), writes) in commits.iter().zip(&all).zip(&written) {
                prop_assert_eq!(commit.stream, &parts.1[..]);
                prop_assert_eq!(commit.changes_everything, is_load);
                let granules: Vec<u128> = commit.granules().map(|granule| granule.0).collect();
                let expected = if is_load { &[][..] } else { &parts.0 };
                prop_assert_eq!(&granules[..], expected);
                let read = commit.writes().expect("writes");
                prop_assert!(read.deleted_ranges().eq(writes.deleted_ranges()));
                prop_assert!(read.slots().eq(writes.slots()));
            }
            let first_entry = all.iter().position(|parts| !parts.1.is_empty());
            let silent = first_entry.unwrap_or(all.len()) as u64;
            prop_assert_eq!(head.stream.without_entries, first - 1 + silent);
        }

        /// Changed and cut records are refused or read as something else, without a panic.
        #[test]
        fn any_bytes_are_decoded_without_a_panic(
            parts in parts(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut encoder = GroupEncoder::new(1, 1, Watermarks::default());
            let writes = writes_of(&parts.2, &parts.3);
            let commit = Commit { version: 1, writes: &writes, stream: &parts.1 };
            encoder.push(&commit, LoggedFootprint::Granules(&[Granule(1)]));
            let (mut bytes, _) = encoder.finish();
            let len = bytes.len();
            let cut = GroupRecord::decode(&bytes[..cut.index(len)]).map(|group| group.commits());
            prop_assert!(!matches!(cut, Ok(Ok(_))), "a part of a record is none");
            for (at, byte) in changes {
                bytes[at.index(len)] = byte;
            }
            if let Ok(group) = GroupRecord::decode(&bytes)
                && group.len() <= 1000
                && let Ok(commits) = group.commits()
            {
                for commit in commits {
                    let _ = (commit.granules().count(), commit.writes().map(drop));
                }
            }
        }
    }

    /// What hears of commits looks at the first byte of a key.
    #[test]
    fn an_empty_key_is_refused() {
        let mut writes = WriteSet::new();
        writes.put(b"", b"value");
        let mut encoder = GroupEncoder::new(1, 1, Watermarks::default());
        let commit = Commit {
            version: 1,
            writes: &writes,
            stream: b"",
        };
        encoder.push(&commit, LoggedFootprint::Granules(&[]));
        let (bytes, _) = encoder.finish();
        let commits = GroupRecord::decode(&bytes).and_then(|group| group.commits());
        let commits = commits.expect("one commit");
        assert_eq!(commits[0].writes().map(drop), Err(GroupError::Malformed));
    }

    /// The format, byte by byte.
    #[test]
    fn the_bytes_of_a_group() {
        let mut writes = WriteSet::new();
        writes.delete_range(KeyRange {
            start: b"m",
            end: None,
        });
        writes.put(b"k", b"val");
        writes.delete(b"d");
        let before = Watermarks {
            trimmed: 3,
            without_entries: 6,
        };
        let mut encoder = GroupEncoder::new(0x0102, 7, before);
        let none = WriteSet::new();
        let silent = Commit {
            version: 7,
            writes: &none,
            stream: b"",
        };
        encoder.push(&silent, LoggedFootprint::Everything);
        let commit = Commit {
            version: 8,
            writes: &writes,
            stream: b"entry",
        };
        encoder.push(&commit, LoggedFootprint::Granules(&[Granule(5)]));
        let (bytes, head) = encoder.finish();
        let without_entries = 7;
        assert_eq!(
            head.stream,
            Watermarks {
                trimmed: 3,
                without_entries
            }
        );
        let mut expected = vec![1, 1];
        for number in [0x0102_u64, 7, 3, 7] {
            expected.extend_from_slice(&number.to_le_bytes());
        }
        expected.extend_from_slice(&[2, 0, 0, 0]);
        expected.extend_from_slice(&[1, 0, 0, 2, 0, 0]);
        expected.extend_from_slice(&[0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(b"\x05entry\x0e\x01\x01m\x00\x02\x01d\x00\x01k\x04val");
        assert_eq!(bytes, expected);
        let mut note = GroupEncoder::new(9, 9, head.stream);
        note.trim(8);
        let (bytes, head) = note.finish();
        assert_eq!(bytes[..2], [1, 2]);
        let group = GroupRecord::decode(&bytes).expect("a note");
        assert!(group.is_empty());
        let trimmed = Watermarks {
            trimmed: 8,
            without_entries: 8,
        };
        assert_eq!((group.head, group.head.stream), (head, trimmed));
        let later = [&[2], &bytes[1..]].concat();
        let refused = GroupRecord::decode(&later).expect_err("another format");
        assert_eq!(refused, GroupError::Format(2));
    }
}
