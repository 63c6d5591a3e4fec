//! Bytes that nobody wrote, read as parts of a log (see [`crate::fuzzed`]).

use std::{path::Path, sync::Arc};

use isomer_storage::StorageError;
use isomer_vfs::{Disk, Seal};

use super::{
    Flushed, Log, LogOptions,
    record::{Content, decode},
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

/// Opens the log in `folder` and reads its change stream.
pub fn segment(disk: Arc<dyn Disk>, folder: &Path, seal: &Seal) {
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
