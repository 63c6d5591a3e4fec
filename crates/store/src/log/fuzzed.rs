//! Bytes that nobody wrote, read as parts of a log (see [`crate::fuzzed`]).

use std::{path::Path, sync::Arc};

use isomer_storage::StorageError;
use isomer_vfs::{Disk, Seal};

use super::{
    Flushed, Log, LogOptions,
    record::{self, Content, Spot, decode},
    segment::{self, FIRST_RECORD},
};

/// Walks a record, if it is one.
pub fn record(bytes: &[u8]) {
    let Ok(record) = decode(bytes) else { return };
    if let Content::Commit(writes) = record.content {
        let mut changes = 0;
        let walked = writes.for_each(|_| changes += 1);
        assert!(changes <= bytes.len(), "{changes} changes, {walked:?}");
    }
}

/// Makes all checks of a segment right: what a fuzzer makes up would not come past them.
pub fn renew(bytes: &mut [u8], number: u64) {
    let first = FIRST_RECORD as usize;
    if bytes.len() < first {
        return;
    }
    let salt = segment::renew(bytes, number);
    let mut at = first;
    while at < bytes.len() {
        let spot = Spot {
            segment: number,
            salt,
            offset: at as u64,
        };
        at += record::renew(&mut bytes[at..], spot);
    }
}

/// Opens the log in `folder` and reads its change stream.
pub fn open(disk: Arc<dyn Disk>, folder: &Path, seal: &Seal) {
    let options = LogOptions {
        disk,
        seal: seal.clone(),
        segment_bytes: 8 << 10,
        random: Arc::new(|| 1),
        read_only: false,
    };
    let flushed = Flushed {
        version: 0,
        needed_from: 1,
        ingested: None,
    };
    let opened = Log::open(folder, options, &flushed, &mut |replayed| {
        let walked = replayed.writes.for_each(|_| {});
        walked.map_err(|_| StorageError::Corrupt("it does not decode".to_owned()))
    });
    if let Ok((log, recovered)) = opened {
        let stream = log.stream(0, recovered, 1000, 1 << 20);
        assert!(stream.is_err() || log.verify(&log.pin(), &mut |_| {}).is_ok());
    }
}
