//! What must hold of any bytes that are read as parts of a store. The fuzz targets `store_*` call these functions on bytes that
//! they make up, the tests on those kept in `fuzz/corpus`. Checksums stand before all of them in a store: here they do not.

use std::sync::Arc;

use isomer_vfs::{Disk, Open, Seal, SimDisk};

use crate::{
    log::fuzzed as log,
    manifest::Stored,
    table::block::{Block, BlockCursor},
};

/// Any bytes as a block: walking it either way ends, searching in it ends, and nothing is read beyond it.
pub fn block(bytes: &[u8]) {
    let Ok(block) = Block::parse(Arc::from(bytes), bytes.len()) else {
        return;
    };
    let mut cursor = BlockCursor::new();
    cursor.set(block.clone());
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut walked = cursor.first();
    while walked.is_ok() && cursor.valid() && keys.len() <= block.len() {
        keys.push(cursor.key().to_vec());
        let _ = (cursor.value().len(), cursor.stamp());
        walked = cursor.next();
    }
    assert!(keys.len() <= block.len(), "more entries than it says");
    let mut steps = 0;
    let mut walked = cursor.last();
    while walked.is_ok() && cursor.valid() {
        steps += 1;
        assert!(steps <= block.len(), "more entries backwards");
        walked = cursor.prev();
    }
    let absent: [&[u8]; 3] = [b"", b"key", &[0xff; 20]];
    for key in keys.iter().map(Vec::as_slice).take(50).chain(absent) {
        for version in [0, 1, u64::MAX] {
            if let Ok(Some(found)) = block.find(key, version) {
                assert!(!found.equal || found.version <= version, "too young");
            }
            let _ = cursor.seek(key, version);
        }
    }
}

/// Any bytes as the body of a record of the log: what decodes can be walked.
pub fn record(bytes: &[u8]) {
    log::record(bytes);
}

/// Any bytes as a segment of the log, as they are and with their checks made right: opening it is refused, or what it holds
/// can be read.
pub fn segment(bytes: &[u8]) {
    open_segment(bytes);
    let mut renewed = bytes.to_vec();
    log::renew(&mut renewed, 1);
    if renewed != bytes {
        open_segment(&renewed);
    }
}

fn open_segment(bytes: &[u8]) {
    let disk = SimDisk::new();
    let folder = std::path::Path::new("/db/log");
    disk.make_folder(folder).expect("a folder");
    let path = folder.join("0000000000000001.log");
    let written = disk
        .open(&path, Open::Create)
        .and_then(|file| file.write_all_at(bytes, 0));
    written.expect("written");
    log::open(Arc::new(disk), folder, &Seal::plain());
}

/// Any bytes as a catalog of backups: what is read is written back as it was, and names nothing outside its folder.
pub fn catalog(bytes: &[u8]) {
    crate::backup::check_catalog(bytes);
}

/// Any bytes as what stands sealed in a manifest.
pub fn manifest(bytes: &[u8]) {
    Stored::check_body(bytes);
}

/// Blocks and manifests to begin with, by target and name.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    use crate::{
        manifest::{Job, StoredBlob, StoredPart, StoredRun},
        table::{
            TableFile,
            block::{BlockBuilder, Held},
        },
    };
    let mut seeds = Vec::new();
    for (name, interval, count) in [("small", 16, 3), ("every", 1, 20), ("large", 16, 100)] {
        let mut builder = BlockBuilder::new(interval);
        for number in 0_usize..count {
            let key = format!("key/{:05}", number / 2);
            let version = if number.is_multiple_of(2) { 900 } else { 5 };
            let held = if number.is_multiple_of(7) {
                Held::Deletion
            } else {
                Held::Value
            };
            builder.add(key.as_bytes(), version, held, &vec![b'v'; number % 30]);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        seeds.push((format!("store_block/{name}"), bytes));
    }
    let part = |number: u64| StoredPart {
        file: TableFile {
            number,
            identity: u128::from(number) << 70,
            file_bytes: 1 << 25,
            footer_sum: u64::MAX - number,
        },
        from: Box::from(*b"a"),
        until: number.is_multiple_of(2).then(|| Box::from(*b"key")),
    };
    let run = |id: u64| StoredRun {
        id,
        parts: (0..id).map(part).collect(),
    };
    let mut stored = Stored::default();
    seeds.push(("store_manifest/empty".to_owned(), stored.body()));
    stored.levels = vec![vec![run(3), run(1)], Vec::new(), vec![run(2)]];
    stored.ingested = Some(7);
    seeds.push(("store_manifest/levels".to_owned(), stored.body()));
    stored.blobs = vec![StoredBlob {
        number: 5,
        identity: 1 << 100,
        bytes: 4096,
    }];
    stored.jobs = vec![Job {
        level: 2,
        target: 2,
        inputs: vec![38, 2],
        bottom: true,
        from: Box::from(*b"c"),
        until: None,
    }];
    seeds.push(("store_manifest/job".to_owned(), stored.body()));
    seeds
}
