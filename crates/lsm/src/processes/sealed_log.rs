//! A shared log whose records are encrypted.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use isomer_shared_log::{Append, LogError, LogId, Position, SharedLog};
use isomer_vfs::{Seal, SealedPosition};

/// Seals each record for its position in the log, and opens it when it is read. Every attempt to append a record has
/// another nonce.
#[derive(Debug)]
pub struct SealedLog {
    log: Arc<dyn SharedLog>,
    seal: Seal,
}

impl SealedLog {
    /// Encrypts the records of `log`.
    pub fn new(log: Arc<dyn SharedLog>, seal: Seal) -> Self {
        Self { log, seal }
    }

    fn place(&self, at: Position) -> SealedPosition {
        let LogId(file) = self.log.id();
        SealedPosition { file, at }
    }
}

impl SharedLog for SealedLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        let (bytes, max) = (record.len(), self.max_record_bytes());
        if bytes > max {
            return Err(LogError::TooLarge { bytes, max });
        }
        let mut sealed = Vec::with_capacity(bytes + self.seal.overhead());
        sealed.extend_from_slice(record);
        self.seal.seal(self.place(at), &mut sealed, 0);
        self.log.append(at, &sealed)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        let mut records = self.log.read(from, max_bytes)?;
        for (at, record) in (from..).zip(&mut records) {
            let opened = self.seal.open(self.place(at), record, 0);
            opened.map_err(|error| LogError::Damaged(format!("the record {at}: {error}")))?;
        }
        Ok(records)
    }

    fn reserve(&self, time: Duration) -> Result<(), LogError> {
        self.log.reserve(time)
    }

    fn release(&self) {
        self.log.release();
    }

    fn end(&self) -> Result<Position, LogError> {
        self.log.end()
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.log.sync(upto)
    }

    fn first(&self) -> Result<Position, LogError> {
        self.log.first()
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.log.trim(below)
    }

    fn durable(&self) -> Result<Position, LogError> {
        self.log.durable()
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        ends: &AtomicBool,
    ) -> Result<Position, LogError> {
        self.log.wait_unless(seen, time, ends)
    }

    fn wake(&self) {
        self.log.wake();
    }

    fn max_record_bytes(&self) -> usize {
        self.log
            .max_record_bytes()
            .saturating_sub(self.seal.overhead())
    }

    fn id(&self) -> LogId {
        self.log.id()
    }

    fn grace(&self) -> Duration {
        self.log.grace()
    }

    fn syncs(&self) -> u64 {
        self.log.syncs()
    }
}
