//! The shared page of a log in a directory: the file `page`, mapped by every process that appends.
//!
//! ```text
//! word 0  "isomerSP"            4  first position of the tail's segment     9  check of the words 2 to 8; 0: they change
//!      1  format                5  offset of the tail in it                10  process that appends, for messages; 0: none
//!      2  log, low half         6  hash of the frame before the tail       11  the records below are durable
//!      3  log, high half        7  first position that is not trimmed      12  check of the words 2, 3 and 11
//!                               8  the position after the last record      13  not 0: a sync has failed
//!     14  syncs that were asked for
//!     15  their number when the last one began      16  threads that asked for it        17  how long it took, in ns
//!     18  the favoured process; 0: none             19  not 0: it is within an append
//! from 64 on, three words for each process: its number (0: free), when it started, the numbering of processes
//! at the end: the bells
//! ```
//!
//! The page only says what the files have: with a wrong check it is made from them again, under the append lock. The
//! words 11 and 12 are a *receipt* in addition. The system writes the page to the disk at some time after they were
//! stored, and the records below were durable before that: a log that ends earlier has lost records.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use isomer_vfs::{Bell, SharedPage, process::ProcessId};
use xxhash_rust::xxh3::xxh3_64;

use super::segment::Cursor;
use crate::{LogId, Position};

/// Size of the file.
pub(super) const PAGE_BYTES: usize = 64 << 10;

const MAGIC: u64 = u64::from_le_bytes(*b"isomerSP");
const FORMAT: u64 = 1;
const FIRST_SLOT: usize = 64;
const SLOT_WORDS: usize = 3;

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
    Asked = 14,
    Began = 15,
    Expected = 16,
    Took = 17,
    Favoured = 18,
    Busy = 19,
}

/// What the page says of the log.
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
    /// The number of syncs that were asked for when it began.
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
}

impl Page {
    pub(super) fn new(shared: SharedPage, id: LogId) -> Self {
        Self {
            shared,
            id,
            pid: std::process::id().into(),
        }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.shared.words()[word as usize]
    }

    fn load(&self, word: Word) -> u64 {
        self.word(word).load(SeqCst)
    }

    fn store(&self, word: Word, value: u64) {
        self.word(word).store(value, SeqCst);
    }

    fn id_words(&self) -> [u64; 2] {
        [self.id.0 as u64, (self.id.0 >> 64) as u64]
    }

    pub(super) fn owner(&self) -> Owner {
        let id = [self.load(Word::IdLow), self.load(Word::IdHigh)];
        match (self.load(Word::Magic), self.load(Word::Format)) {
            (MAGIC, FORMAT) if id == self.id_words() => Owner::Own,
            (MAGIC, format) if format != FORMAT => Owner::OtherFormat(format),
            _ => Owner::Unknown,
        }
    }

    /// The state while no process changes it, which the append lock ensures; `None` if it must be made again.
    pub(super) fn state(&self) -> Option<State> {
        let state = self.loaded();
        let is_valid = self.owner() == Owner::Own && self.load(Word::Check) == self.check(&state);
        is_valid.then_some(state)
    }

    /// The state while other processes may change it: it is at least that of every append and trim that has returned.
    /// `None` if the page is damaged.
    pub(super) fn glance(&self) -> Option<State> {
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
    pub(super) fn begin(&self) {
        self.store(Word::Appender, self.pid);
        self.store(Word::Check, 0);
    }

    /// Stores the state, after [`Page::begin`].
    pub(super) fn publish(&self, state: &State) {
        let tail = &state.tail;
        self.store(Word::Segment, tail.segment);
        self.store(Word::Offset, tail.offset);
        self.store(Word::Previous, tail.previous);
        self.store(Word::First, state.first);
        self.store(Word::End, tail.position);
        self.store(Word::Check, self.check(state));
        self.store(Word::Appender, 0);
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

    /// Counts a sync that is asked for, and wakes the thread that gathers them.
    pub(super) fn ask_for_sync(&self) {
        self.word(Word::Asked).fetch_add(1, SeqCst);
        self.sync_asked().ring();
    }

    /// The number of syncs that were asked for; wraps around.
    pub(super) fn asked(&self) -> u64 {
        self.load(Word::Asked)
    }

    pub(super) fn last_sync(&self) -> LastSync {
        LastSync {
            began: self.load(Word::Began),
            askers: self.load(Word::Expected),
            took: Duration::from_nanos(self.load(Word::Took)),
        }
    }

    pub(super) fn set_last_sync(&self, last: &LastSync) {
        self.store(Word::Began, last.began);
        self.store(Word::Expected, last.askers);
        let took = u64::try_from(last.took.as_nanos()).unwrap_or(u64::MAX);
        self.store(Word::Took, took);
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

    /// Rung when a sync is asked for.
    pub(super) fn sync_asked(&self) -> Bell<'_> {
        self.shared.bell(3)
    }

    fn slots(&self) -> impl Iterator<Item = &[AtomicU64]> {
        self.shared.words()[FIRST_SLOT..].chunks_exact(SLOT_WORDS)
    }

    fn process(slot: &[AtomicU64]) -> Option<ProcessId> {
        let pid = u32::try_from(slot[0].load(SeqCst)).ok()?;
        let process = ProcessId {
            pid,
            started: slot[1].load(SeqCst),
            namespace: slot[2].load(SeqCst),
        };
        (pid != 0).then_some(process)
    }

    /// Enters this process among those that have the log open, which is for people only. Returns its slot; `None` if
    /// there are too many. The slots of processes that have ended are taken.
    pub(super) fn register(&self) -> Option<usize> {
        let own = ProcessId::current();
        self.slots().position(|slot| {
            let before = slot[0].load(SeqCst);
            let is_free = before == 0
                || Self::process(slot).is_none_or(|other| other.is_running() == Some(false));
            let taken = is_free
                && slot[0]
                    .compare_exchange(before, own.pid.into(), SeqCst, SeqCst)
                    .is_ok();
            if taken {
                slot[1].store(own.started, SeqCst);
                slot[2].store(own.namespace, SeqCst);
            }
            taken
        })
    }

    pub(super) fn unregister(&self, slot: usize) {
        if let Some(slot) = self.slots().nth(slot) {
            slot[0].store(0, SeqCst);
        }
    }

    /// The processes that have the log open, without those that are known to have ended.
    pub(super) fn processes(&self) -> Vec<ProcessId> {
        let all = self.slots().filter_map(Self::process);
        all.filter(|process| process.is_running() != Some(false))
            .collect()
    }
}

fn hash<const N: usize>(words: [u64; N]) -> u64 {
    // 0 says that the words change.
    xxh3_64(words.map(u64::to_le_bytes).as_flattened()).max(1)
}
