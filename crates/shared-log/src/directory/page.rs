//! The shared page of a log in a directory: the file `page`, mapped by every process that appends.
//!
//! ```text
//! word 0  "isomerSP"            4  first position of the tail's segment     9  checksum of the words 2 to 8; 0 while a process changes them
//!      1  format                5  offset of the tail in it                10  process that appends, for messages; 0: none
//!      2  log, low half         6  hash of the frame before the tail       11  the records below are durable
//!      3  log, high half        7  first position that is not trimmed      12  checksum of the words 2, 3 and 11
//!                               8  the position after the last record      13  not 0: a sync has failed
//!     14  number of sync requests
//!     15  their number when the last sync began     16  threads that requested it        17  its duration in ns
//!     18  the favoured process; 0: none             19  not 0: it is within an append
//!     20  number that users of the log raise (their manifest), and its checksum
//!     21  the *scan start*: position        22  its segment        23  its offset
//!     24  hash of the frame before it           25  checksum of the words 2, 3 and 21 to 24
//!     26  the reservation; 0: none
//! from 64 on, eight words (a cache line) for each process:
//!      0  its number; 0: free; the highest bit is set while a process writes itself here
//!      1  when it started     2  the numbering of processes     3  it has applied the records below this position
//!      4  its kind: 16 bytes of UTF-8, zeros at the end
//! at the end: the bells
//! ```
//!
//! The page caches what the files contain. If its checksum does not match, an appender rebuilds it from them, under the
//! append lock. The
//! words 11 and 12 are a *receipt* in addition. The system writes the page to the disk at some time after they were
//! stored, and the records below were durable before that: a log that ends earlier has lost records.
//!
//! The records below the scan start, and the one there, were durable, too, before it was stored. A process that opens
//! the log looks for its end from there on, instead of from the beginning of a segment. The record at the scan start is
//! compared again, so that a log that lost its end is noticed.
//!
//! Word 20 and the processes are about the processes that have the log open: the first one that opens it clears them.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release, SeqCst},
        fence,
    },
    time::Duration,
};

use isomer_vfs::{Bell, SharedPage};
use xxhash_rust::xxh3::xxh3_64;

use super::segment::Cursor;
use crate::{LogId, Position};

/// Its name in the folder of the log.
pub(super) const NAME: &str = "page";
/// Size of the file.
pub(super) const PAGE_BYTES: usize = 64 << 10;

const MAGIC: u64 = u64::from_le_bytes(*b"isomerSP");
const FORMAT: u64 = 2;

/// The words before the slots.
#[derive(Clone, Copy)]
enum Word {
    Magic = 0,
    Format = 1,
    IdLow = 2,
    IdHigh = 3,
    Segment = 4,
    Offset = 5,
    Previous = 6,
    First = 7,
    End = 8,
    Check = 9,
    Appender = 10,
    Synced = 11,
    SyncedCheck = 12,
    Failed = 13,
    SyncRequests = 14,
    SyncBegan = 15,
    SyncRequesters = 16,
    SyncDuration = 17,
    Favoured = 18,
    Busy = 19,
    Manifest = 20,
    StartPosition = 21,
    StartSegment = 22,
    StartOffset = 23,
    StartPrevious = 24,
    StartCheck = 25,
    Reservation = 26,
}

/// Bits of the word `Manifest` that are its check; those above are the number.
const MANIFEST_CHECK_BITS: u32 = 16;
/// Largest number of that word.
pub(super) const MAX_MANIFEST_NUMBER: u64 = u64::MAX >> MANIFEST_CHECK_BITS;

/// The word where the processes begin.
const FIRST_PROCESS: usize = 64;

/// The log as the page describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) tail: Cursor,
    /// The first position that is not trimmed.
    pub(super) first: Position,
}

/// How the last sync went, for the next one: a group of that size is worth waiting for, for that long. Any value is
/// possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastSync {
    /// The number of sync requests when it began.
    pub(super) began: u64,
    /// The number of threads that asked for it, or for the next one while it ran.
    pub(super) askers: u64,
    pub(super) took: Duration,
}

/// Whose page it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of this log, in this format.
    Own,
    /// Of a program that knows another format.
    OtherFormat(u64),
    /// Foreign, damaged or new.
    Unknown,
}

/// The page of a log.
#[derive(Debug)]
pub(super) struct Page {
    shared: SharedPage,
    id: LogId,
    /// This process.
    pid: u64,
    /// The last end that matched the check of the page, so that it need not be compared again.
    checked_end: CacheLine,
}

/// A word that threads change often, apart from those that they only read.
#[derive(Debug)]
#[repr(align(64))]
struct CacheLine(AtomicU64);

impl Page {
    pub(super) fn new(shared: SharedPage, id: LogId) -> Self {
        Self {
            shared,
            id,
            pid: std::process::id().into(),
            checked_end: CacheLine(AtomicU64::new(0)),
        }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.shared.words()[word as usize]
    }

    fn load(&self, word: Word) -> u64 {
        self.word(word).load(SeqCst)
    }

    /// Stores a word that others read after one that is stored later.
    fn store_before(&self, word: Word, value: u64) {
        self.word(word).store(value, Release);
    }

    fn store(&self, word: Word, value: u64) {
        self.word(word).store(value, SeqCst);
    }

    fn id_words(&self) -> [u64; 2] {
        id_words(self.id)
    }

    pub(super) fn owner(&self) -> Owner {
        let id = [self.load(Word::IdLow), self.load(Word::IdHigh)];
        match (self.load(Word::Magic), self.load(Word::Format)) {
            (MAGIC, FORMAT) if id == self.id_words() => Owner::Own,
            (MAGIC, format) if format != FORMAT => Owner::OtherFormat(format),
            _ => Owner::Unknown,
        }
    }

    /// The state while no process changes it, which the append lock ensures; `None` if it must be made again. Without
    /// the lock, it is one that was current during the call; `None` if another process was changing it.
    pub(super) fn state(&self) -> Option<State> {
        let state = self.loaded();
        let is_valid = self.owner() == Owner::Own && self.load(Word::Check) == self.check(&state);
        is_valid.then_some(state)
    }

    /// The state while other processes may change it: it is at least that of every append and trim that has returned.
    /// `None` if the page is damaged.
    pub(super) fn load_consistent(&self) -> Option<State> {
        let before = self.load(Word::Check);
        let state = self.loaded();
        if state.tail.position == 0 || state.first == 0 {
            return None;
        }
        // A process is changing the state: each word is from before or after that.
        if before == 0 || before != self.load(Word::Check) {
            return Some(state);
        }
        (before == self.check(&state)).then_some(state)
    }

    /// The position after the last record: that of [`Page::load_consistent`]. One load while it does not change.
    pub(super) fn end(&self) -> Option<Position> {
        let end = self.load(Word::End);
        if end == self.checked_end.0.load(Relaxed) && end != 0 {
            return Some(end);
        }
        let end = self.load_consistent()?.tail.position;
        if self.load(Word::Check) != 0 {
            self.checked_end.0.store(end, Relaxed);
        }
        Some(end)
    }

    fn loaded(&self) -> State {
        // First the end: the others are at least those that were stored with it.
        let position = self.load(Word::End);
        State {
            tail: Cursor {
                position,
                segment: self.load(Word::Segment),
                offset: self.load(Word::Offset),
                previous: self.load(Word::Previous),
            },
            first: self.load(Word::First),
        }
    }

    fn check(&self, state: &State) -> u64 {
        let [low, high] = self.id_words();
        let tail = &state.tail;
        let words = [
            low,
            high,
            tail.segment,
            tail.offset,
            tail.previous,
            state.first,
            tail.position,
        ];
        hash(words)
    }

    /// Marks the state as changing: if this process ends now, it is made from the files again.
    pub(super) fn mark_changing(&self) {
        self.store_before(Word::Appender, self.pid);
        self.store_before(Word::Check, 0);
        // What is written next, also by copying into a mapped file, stays after that: a process that ends in between
        // must leave a page that says so.
        fence(Release);
    }

    /// Stores the state, after [`Page::begin`]. The end is the only word that is in one order with those of the bells:
    /// a thread that listens sees it, or is seen. Such a store costs more than all the others together.
    pub(super) fn publish(&self, state: &State) {
        let tail = &state.tail;
        self.store_before(Word::Segment, tail.segment);
        self.store_before(Word::Offset, tail.offset);
        self.store_before(Word::Previous, tail.previous);
        self.store_before(Word::First, state.first);
        self.store(Word::End, tail.position);
        self.store_before(Word::Check, self.check(state));
        self.store_before(Word::Appender, 0);
    }

    /// Marks the page as one of this log, whatever it was, after [`Page::begin`]. The state is published next.
    pub(super) fn adopt(&self) {
        let [low, high] = self.id_words();
        self.store(Word::Format, FORMAT);
        self.store(Word::IdLow, low);
        self.store(Word::IdHigh, high);
        self.store(Word::Magic, MAGIC);
    }

    /// The process that appends now, for a message.
    pub(super) fn appender(&self) -> Option<u64> {
        Some(self.load(Word::Appender)).filter(|pid| *pid != 0)
    }

    fn synced_check(&self, synced: Position) -> u64 {
        let [low, high] = self.id_words();
        hash([low, high, synced])
    }

    /// The position below which the page says that all records are durable; `None` if it says nothing.
    pub(super) fn synced(&self) -> Option<Position> {
        let synced = self.load(Word::Synced);
        (self.load(Word::SyncedCheck) == self.synced_check(synced)).then_some(synced)
    }

    /// Says that the records below `synced` are durable. If two processes say so at once, the check may not match then,
    /// and the next sync says it again.
    pub(super) fn set_synced(&self, synced: Position) {
        self.store(Word::Synced, synced);
        self.store(Word::SyncedCheck, self.synced_check(synced));
    }

    /// Where to begin to look for the end of the log; `None` if the page does not say it. It is of use only together
    /// with a receipt above it.
    pub(super) fn scan_start(&self) -> Option<Cursor> {
        let start = Cursor {
            position: self.load(Word::StartPosition),
            segment: self.load(Word::StartSegment),
            offset: self.load(Word::StartOffset),
            previous: self.load(Word::StartPrevious),
        };
        (self.load(Word::StartCheck) == start_check(self.id, &start)).then_some(start)
    }

    /// Says that the records below `start`, and the one there, are durable. Two processes may say so at once, as in
    /// [`Page::set_synced`].
    pub(super) fn set_scan_start(&self, start: &Cursor) {
        self.store(Word::StartPosition, start.position);
        self.store(Word::StartSegment, start.segment);
        self.store(Word::StartOffset, start.offset);
        self.store(Word::StartPrevious, start.previous);
        self.store(Word::StartCheck, start_check(self.id, start));
    }

    /// The favoured process, see [`super::append_lock`].
    pub(super) fn favoured(&self) -> u64 {
        self.load(Word::Favoured)
    }

    pub(super) fn set_favoured(&self, process: u64) {
        self.store(Word::Favoured, process);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.load(Word::Busy) != 0
    }

    pub(super) fn set_busy(&self, is_busy: bool) {
        self.store(Word::Busy, is_busy.into());
    }

    /// The reservation, see [`super::reservation`]; 0: none.
    pub(super) fn reservation(&self) -> u64 {
        self.load(Word::Reservation)
    }

    pub(super) fn set_reservation(&self, reservation: u64) {
        self.store(Word::Reservation, reservation);
    }

    /// Ends the reservation `ended`, unless it was ended before.
    pub(super) fn end_reservation(&self, ended: u64) {
        let word = self.word(Word::Reservation);
        if word.compare_exchange(ended, 0, SeqCst, SeqCst).is_ok() {
            self.reservation_ended().ring();
        }
    }

    /// Counts a sync that is asked for; returns the number of them.
    pub(super) fn request_sync(&self) -> u64 {
        self.word(Word::SyncRequests)
            .fetch_add(1, SeqCst)
            .wrapping_add(1)
    }

    /// Whether as many threads have asked for a sync since `last` began as for that one.
    pub(super) fn is_group_complete(&self, last: &LastSync) -> bool {
        self.sync_requests().wrapping_sub(last.began) >= last.askers
    }

    /// The number of syncs that were asked for; wraps around.
    pub(super) fn sync_requests(&self) -> u64 {
        self.load(Word::SyncRequests)
    }

    pub(super) fn last_sync(&self) -> LastSync {
        LastSync {
            began: self.load(Word::SyncBegan),
            askers: self.load(Word::SyncRequesters),
            took: Duration::from_nanos(self.load(Word::SyncDuration)),
        }
    }

    pub(super) fn set_last_sync(&self, last: &LastSync) {
        self.store(Word::SyncBegan, last.began);
        self.store(Word::SyncRequesters, last.askers);
        let took = u64::try_from(last.took.as_nanos()).unwrap_or(u64::MAX);
        self.store(Word::SyncDuration, took);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.load(Word::Failed) != 0
    }

    pub(super) fn set_failed(&self, failed: bool) {
        self.store(Word::Failed, failed.into());
    }

    /// Rung when a record was appended.
    pub(super) fn appended(&self) -> Bell<'_> {
        self.shared.bell(0)
    }

    /// Rung when a sync has ended.
    pub(super) fn sync_ended(&self) -> Bell<'_> {
        self.shared.bell(1)
    }

    /// Rung when the append lock is released.
    pub(super) fn released(&self) -> Bell<'_> {
        self.shared.bell(2)
    }

    /// Rung when the number that users raise is raised.
    pub(super) fn manifest_raised(&self) -> Bell<'_> {
        self.shared.bell(3)
    }

    /// Rung when a reservation has ended.
    pub(super) fn reservation_ended(&self) -> Bell<'_> {
        self.shared.bell(4)
    }

    /// The word that says `number`. One word has both, so that it changes at once.
    fn manifest_word(&self, number: u64) -> u64 {
        let [low, high] = self.id_words();
        let check = hash([low, high, number]) & ((1 << MANIFEST_CHECK_BITS) - 1);
        number << MANIFEST_CHECK_BITS | check
    }

    /// The number in a word; 0 if it is damaged.
    fn manifest_number_in(&self, word: u64) -> u64 {
        let number = word >> MANIFEST_CHECK_BITS;
        match word == self.manifest_word(number) {
            true => number,
            false => 0,
        }
    }

    /// The number that users of the log raise; 0 if the page does not have one.
    pub(super) fn manifest_number(&self) -> u64 {
        self.manifest_number_in(self.load(Word::Manifest))
    }

    /// Raises that number, which is at most [`MAX_MANIFEST_NUMBER`], to at least `number`.
    pub(super) fn raise_manifest_number(&self, number: u64) {
        let word = self.word(Word::Manifest);
        let raised = word.fetch_update(SeqCst, SeqCst, |word| {
            (self.manifest_number_in(word) < number).then(|| self.manifest_word(number))
        });
        if raised.is_ok() {
            self.manifest_raised().ring();
        }
    }

    /// The words in which the processes enter themselves.
    pub(super) fn process_words(&self) -> &[AtomicU64] {
        &self.shared.words()[FIRST_PROCESS..]
    }

    /// Forgets what is about the processes that had the log open; this one is alone.
    pub(super) fn forget_processes(&self) {
        self.store(Word::Manifest, 0);
        self.store(Word::Reservation, 0);
        for word in self.process_words() {
            word.store(0, SeqCst);
        }
    }
}

/// The scan start in the page of `folder`, which is read as a file: for a process that maps and writes nothing. `None`
/// if there is none.
pub(super) fn read_scan_start(folder: &Path, id: LogId) -> Option<Cursor> {
    let mut bytes = [0; FIRST_PROCESS * 8];
    let mut file = File::open(folder.join(NAME)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |word: Word| u64::from_ne_bytes(words[word as usize]);
    let start = Cursor {
        position: word(Word::StartPosition),
        segment: word(Word::StartSegment),
        offset: word(Word::StartOffset),
        previous: word(Word::StartPrevious),
    };
    let is_known = word(Word::Magic) == MAGIC && word(Word::Format) == FORMAT;
    (is_known && word(Word::StartCheck) == start_check(id, &start)).then_some(start)
}

fn start_check(id: LogId, start: &Cursor) -> u64 {
    let [low, high] = id_words(id);
    hash([
        low,
        high,
        start.position,
        start.segment,
        start.offset,
        start.previous,
    ])
}

fn id_words(id: LogId) -> [u64; 2] {
    [id.0 as u64, (id.0 >> 64) as u64]
}

fn hash<const N: usize>(words: [u64; N]) -> u64 {
    // 0 says that the words change.
    xxh3_64(words.map(u64::to_le_bytes).as_flattened()).max(1)
}
