//! Chunked messages: a chunk is two bytes of size and its data; a chunk of size 0 ends the message. Further chunks of
//! size 0 between messages are keep-alives and are ignored.

use std::{collections::VecDeque, time::Instant};

use isomer_db::internals::data::Reservation;

use crate::{ServerError, sending::Reserved};

/// Maximum size of a chunk.
const MAX_CHUNK_BYTES: usize = 0xffff;
/// Messages that may be queued before reading pauses.
const MAX_QUEUED_MESSAGES: usize = 1_000;
/// The tag of `RESET`, which takes effect out of order.
const RESET: u8 = 0x0f;

/// A message exceeds the size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The limit in bytes.
    pub most: usize,
}

/// Received bytes and messages that were not answered yet. Memory: twice the longest message, as [`Inbox::has_room`]
/// is checked before each read; messages lent for answering count until they are returned.
#[derive(Debug)]
pub struct Inbox {
    most: usize,
    /// First byte of a chunk header whose second byte has not arrived.
    head: Option<u8>,
    /// Bytes of the chunk that have not arrived.
    chunk: usize,
    message: Vec<u8>,
    /// When the first byte of the incomplete message arrived.
    began: Option<Instant>,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    lent: usize,
    lent_bytes: usize,
}

impl Inbox {
    /// Accepts messages of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            head: None,
            chunk: 0,
            message: Vec::new(),
            began: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lent: 0,
            lent_bytes: 0,
        }
    }

    /// Changes the size limit.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Appends received bytes; returns how many `RESET` messages were among them.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<usize, TooLong> {
        let mut resets = 0;
        while let Some((&first, rest)) = bytes.split_first() {
            if self.chunk > 0 {
                let (now, later) = bytes.split_at(self.chunk.min(bytes.len()));
                self.message.extend_from_slice(now);
                self.chunk -= now.len();
                bytes = later;
                continue;
            }
            bytes = rest;
            let Some(high) = self.head.take() else {
                self.head = Some(first);
                continue;
            };
            self.chunk = usize::from(u16::from_be_bytes([high, first]));
            if self.message.len() + self.chunk > self.most {
                return Err(TooLong { most: self.most });
            }
            if self.chunk > 0 {
                self.began.get_or_insert_with(Instant::now);
            } else if !self.message.is_empty() {
                let message = std::mem::take(&mut self.message);
                resets += usize::from(message.get(1) == Some(&RESET));
                self.waiting_bytes += message.len();
                self.waiting.push_back(message);
                self.began = None;
            }
        }
        Ok(resets)
    }

    /// When the incomplete message began to arrive.
    pub fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Whether more may be read.
    pub fn has_room(&self) -> bool {
        self.waiting.len() + self.lent < MAX_QUEUED_MESSAGES
            && self.waiting_bytes + self.lent_bytes <= self.most
    }

    /// The tag of the next message.
    pub fn next_tag(&self) -> Option<u8> {
        self.waiting
            .front()
            .map(|message| message.get(1).copied().unwrap_or_default())
    }

    /// The next message.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        let message = self.waiting.pop_front()?;
        self.waiting_bytes -= message.len();
        Some(message)
    }

    /// Lends the messages up to the first one whose tag `ends` matches, including it for [`End::After`].
    pub fn lend(&mut self, ends: impl Fn(u8) -> Option<End>) -> VecDeque<Vec<u8>> {
        let end = self.waiting.iter().enumerate().find_map(|(at, message)| {
            let end = ends(message.get(1).copied().unwrap_or_default())?;
            Some(at + usize::from(end == End::After))
        });
        let later = self.waiting.split_off(end.unwrap_or(self.waiting.len()));
        let lent = std::mem::replace(&mut self.waiting, later);
        let bytes = lent.iter().map(Vec::len).sum::<usize>();
        self.waiting_bytes -= bytes;
        self.lent = lent.len();
        self.lent_bytes = bytes;
        lent
    }

    /// Takes back lent messages that were not answered: they are next again.
    pub fn take_back(&mut self, mut rest: VecDeque<Vec<u8>>) {
        (self.lent, self.lent_bytes) = (0, 0);
        self.waiting_bytes += rest.iter().map(Vec::len).sum::<usize>();
        rest.append(&mut self.waiting);
        self.waiting = rest;
    }
}

/// Where lending stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Before the matching message.
    Before,
    /// After the matching message.
    After,
}

/// Messages to send. Memory: large ones are reserved until they are sent.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    reserved: Reserved,
    /// What is reserved for bytes that were drained and are not sent yet.
    drained: Vec<Reservation>,
}

impl Outbox {
    /// An empty one, whose messages count in what is reserved so.
    pub(crate) fn new(reserved: Reserved) -> Self {
        Self {
            reserved,
            ..Self::default()
        }
    }

    /// Makes room for a message of `more` bytes at most.
    ///
    /// # Errors
    /// `Limit` where the memory budget has no room for it.
    pub(crate) fn make_room(&mut self, more: usize) -> Result<(), ServerError> {
        let heads = 2 * (more / MAX_CHUNK_BYTES + 3);
        self.reserved.make_room_in(&mut self.bytes, more + heads)
    }

    /// Appends the message that `write` produces.
    pub fn message(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        write(&mut self.bytes);
        let size = self.bytes.len() - start - 2;
        if let Ok(size) = u16::try_from(size) {
            self.bytes[start..start + 2].copy_from_slice(&size.to_be_bytes());
        } else {
            // From the last chunk on, each is moved to behind the sizes of those before it and its own.
            let chunks = size.div_ceil(MAX_CHUNK_BYTES);
            self.bytes.resize(start + size + 2 * chunks, 0);
            for chunk in (0..chunks).rev() {
                let from = start + 2 + chunk * MAX_CHUNK_BYTES;
                let len = (size - chunk * MAX_CHUNK_BYTES).min(MAX_CHUNK_BYTES);
                let to = from + 2 * chunk;
                self.bytes.copy_within(from..from + len, to);
                self.bytes[to - 2..to].copy_from_slice(&(len as u16).to_be_bytes());
            }
        }
        self.bytes.extend_from_slice(&[0, 0]);
    }

    /// Bytes to send.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Truncates to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Removes and returns all bytes. Their reservation stays until [`Outbox::sent`].
    pub fn drain(&mut self) -> Vec<u8> {
        self.drained.extend(self.reserved.take());
        std::mem::take(&mut self.bytes)
    }

    /// All bytes that were drained are sent.
    pub fn sent(&mut self) {
        self.drained.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Outbox::default();
        for message in messages {
            out.message(|bytes| bytes.extend_from_slice(message));
        }
        out.drain()
    }

    #[test]
    fn messages_round_trip_however_they_are_chunked() {
        let long = vec![7; 200_000];
        let messages: [&[u8]; 4] = [&[1], &long, &[0xb0, RESET], &vec![9; MAX_CHUNK_BYTES]];
        let mut bytes = vec![0, 0, 0, 0];
        bytes.extend(sent(&messages));
        for step in [1, 2, 3, 1_000, bytes.len()] {
            let mut inbox = Inbox::new(1 << 20);
            let mut resets = 0;
            for part in bytes.chunks(step) {
                resets += inbox.take(part).unwrap();
            }
            assert_eq!(resets, 1);
            assert!(inbox.began().is_none());
            for message in messages {
                assert_eq!(inbox.next().as_deref(), Some(message));
            }
            assert_eq!(inbox.next(), None);
        }
    }

    #[test]
    fn a_message_is_reserved_until_it_is_sent() {
        let memory = isomer_db::internals::data::MemoryBudget::new(4 << 20);
        let mut out = Outbox::new(Reserved::of(&memory));
        out.make_room(1 << 20).unwrap();
        out.message(|bytes| bytes.resize(1 << 20, 1));
        let held = memory.used_bytes();
        assert!(held >= 1 << 20, "{held}");
        let sent = out.drain();
        assert_eq!(memory.used_bytes(), held);
        drop(sent);
        out.sent();
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn a_long_message_is_refused_before_it_has_arrived() {
        let mut inbox = Inbox::new(10);
        assert_eq!(inbox.take(&[0, 11]), Err(TooLong { most: 10 }));
        let mut inbox = Inbox::new(10);
        inbox.take(&[0, 6, 1, 1, 1, 1, 1, 1]).unwrap();
        assert!(inbox.began().is_some());
        assert_eq!(inbox.take(&[0, 5]), Err(TooLong { most: 10 }));
        assert!(inbox.message.capacity() < 100);
    }

    #[test]
    fn messages_are_lent_up_to_a_tag() {
        let mut inbox = Inbox::new(100);
        let tags = |messages: &VecDeque<Vec<u8>>| messages.iter().map(|m| m[1]).collect::<Vec<_>>();
        inbox
            .take(&sent(&[&[0, 1], &[0, 2], &[0, 3], &[0, 4]]))
            .unwrap();
        let before = inbox.lend(|tag| (tag == 3).then_some(End::Before));
        assert_eq!(tags(&before), [1, 2]);
        inbox.take(&sent(&[&[0, 5]])).unwrap();
        inbox.take_back(before);
        let behind = inbox.lend(|tag| (tag == 3).then_some(End::After));
        assert_eq!(tags(&behind), [1, 2, 3]);
        inbox.take_back(VecDeque::new());
        assert_eq!(tags(&inbox.lend(|_| None)), [4, 5]);
        inbox.take_back(VecDeque::new());
        assert_eq!((inbox.waiting_bytes, inbox.next_tag()), (0, None));
    }

    #[test]
    fn the_queue_is_limited() {
        let mut inbox = Inbox::new(10);
        inbox
            .take(&sent(&[&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6]]))
            .unwrap();
        assert!(!inbox.has_room());
        let mut lent = inbox.lend(|_| None);
        assert_eq!((lent.len(), inbox.next_tag()), (2, None));
        assert!(!inbox.has_room(), "lent messages count");
        lent.pop_front();
        inbox.take_back(lent);
        assert!(inbox.has_room());
        assert_eq!(inbox.next_tag(), Some(2));
        let mut inbox = Inbox::new(1 << 20);
        for _ in 0..MAX_QUEUED_MESSAGES {
            assert!(inbox.has_room());
            inbox.take(&sent(&[&[1]])).unwrap();
        }
        assert!(!inbox.has_room());
    }
}
