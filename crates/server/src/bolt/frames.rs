//! Messages in chunks: two bytes of size, so many bytes, and again, until a size of 0 ends the message. Sizes of 0 between
//! messages mean nothing (they keep a connection alive).

use std::{collections::VecDeque, time::Instant};

/// Longest chunk.
const MOST_CHUNK: usize = 0xffff;
/// Messages that may wait before more is read.
const MOST_WAITING: usize = 1_000;
/// The tag of `RESET`, which is seen before its turn.
const RESET: u8 = 0x0f;

/// A message is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes that it may have.
    pub most: usize,
}

/// What has arrived and was not answered yet. Memory: twice the longest message, as [`Inbox::has_room`] is asked before more
/// is read; what is lent to those who answer it counts until they give the rest back.
#[derive(Debug)]
pub struct Inbox {
    most: usize,
    /// Bytes of the head of a chunk that came without the rest.
    head: Option<u8>,
    /// Bytes of the chunk that are still to come.
    chunk: usize,
    message: Vec<u8>,
    /// When the message that is not complete began to come.
    began: Option<Instant>,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    lent: usize,
    lent_bytes: usize,
}

impl Inbox {
    /// Takes messages of `most` bytes at most.
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

    /// Takes longer messages from now on, or shorter ones.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Takes bytes as they come; how many messages `RESET` came with them.
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

    /// Since when a message is on its way.
    pub fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Whether more may be read.
    pub fn has_room(&self) -> bool {
        self.waiting.len() + self.lent < MOST_WAITING
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

    /// Lends the messages before the first with a tag that `ends` holds of, that one included where it says so.
    pub fn lend(&mut self, ends: impl Fn(u8) -> Option<End>) -> VecDeque<Vec<u8>> {
        let end = self.waiting.iter().enumerate().find_map(|(at, message)| {
            let end = ends(message.get(1).copied().unwrap_or_default())?;
            Some(at + usize::from(end == End::Behind))
        });
        let later = self.waiting.split_off(end.unwrap_or(self.waiting.len()));
        let lent = std::mem::replace(&mut self.waiting, later);
        let bytes = lent.iter().map(Vec::len).sum::<usize>();
        self.waiting_bytes -= bytes;
        self.lent = lent.len();
        self.lent_bytes = bytes;
        lent
    }

    /// Takes back what is left of what was lent: the next messages again.
    pub fn take_back(&mut self, mut rest: VecDeque<Vec<u8>>) {
        (self.lent, self.lent_bytes) = (0, 0);
        self.waiting_bytes += rest.iter().map(Vec::len).sum::<usize>();
        rest.append(&mut self.waiting);
        self.waiting = rest;
    }
}

/// Where messages that are lent end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In front of this one.
    Before,
    /// Behind this one.
    Behind,
}

/// Messages to be sent.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
}

impl Outbox {
    /// Adds the message that `write` appends.
    pub fn message(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        write(&mut self.bytes);
        let size = self.bytes.len() - start - 2;
        if let Ok(size) = u16::try_from(size) {
            self.bytes[start..start + 2].copy_from_slice(&size.to_be_bytes());
        } else {
            let message = self.bytes.split_off(start + 2);
            self.bytes.truncate(start);
            for chunk in message.chunks(MOST_CHUNK) {
                self.bytes
                    .extend_from_slice(&(chunk.len() as u16).to_be_bytes());
                self.bytes.extend_from_slice(chunk);
            }
        }
        self.bytes.extend_from_slice(&[0, 0]);
    }

    /// How much is to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Throws away what was added after there were so many bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// All bytes; none are left.
    pub fn drain(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
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
    fn messages_come_back_however_they_are_cut() {
        let long = vec![7; 200_000];
        let messages: [&[u8]; 4] = [&[1], &long, &[0xb0, RESET], &vec![9; MOST_CHUNK]];
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
    fn a_long_message_is_refused_before_it_has_come() {
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
        let behind = inbox.lend(|tag| (tag == 3).then_some(End::Behind));
        assert_eq!(tags(&behind), [1, 2, 3]);
        inbox.take_back(VecDeque::new());
        assert_eq!(tags(&inbox.lend(|_| None)), [4, 5]);
        inbox.take_back(VecDeque::new());
        assert_eq!((inbox.waiting_bytes, inbox.next_tag()), (0, None));
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut inbox = Inbox::new(10);
        inbox
            .take(&sent(&[&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6]]))
            .unwrap();
        assert!(!inbox.has_room());
        let mut lent = inbox.lend(|_| None);
        assert_eq!((lent.len(), inbox.next_tag()), (2, None));
        assert!(!inbox.has_room(), "what is lent counts");
        lent.pop_front();
        inbox.take_back(lent);
        assert!(inbox.has_room());
        assert_eq!(inbox.next_tag(), Some(2));
        let mut inbox = Inbox::new(1 << 20);
        for _ in 0..MOST_WAITING {
            assert!(inbox.has_room());
            inbox.take(&sent(&[&[1]])).unwrap();
        }
        assert!(!inbox.has_room());
    }
}
