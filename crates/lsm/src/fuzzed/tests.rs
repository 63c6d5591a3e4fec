//! Replays the inputs of the fuzz targets `lsm_*` (`fuzz/corpus`), without a fuzzing engine, and random
//! changes of them. `UPDATE_GOLDEN=1` rewrites the seeds, from parts of a database.

use std::{
    fs,
    path::{Path, PathBuf},
};

use isomer_storage::{Durability, Engine, conformance::Random};
use isomer_vfs::RealDisk;

use crate::{LsmEngine, LsmOptions, fuzzed};

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 5] = [
    ("lsm_block", fuzzed::block),
    ("lsm_record", fuzzed::record),
    ("lsm_segment", fuzzed::segment),
    ("lsm_catalog", fuzzed::catalog),
    ("lsm_manifest", fuzzed::manifest),
];

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let folder = corpus(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let inputs: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(inputs.len() >= 2, "{target} has {} inputs", inputs.len());
    inputs
}

#[test]
fn inputs_are_read_or_refused() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        write_seeds();
    }
    for (target, run) in TARGETS {
        inputs(target).iter().for_each(|input| run(input));
    }
}

/// What a fuzzer tries first: bytes are changed, removed and inserted.
#[test]
fn changed_inputs_are_read_or_refused() {
    let mut random = Random(5);
    for (target, run) in TARGETS {
        let inputs = inputs(target);
        for round in 0..3_000 {
            let mut input = inputs[round % inputs.len()].clone();
            for _ in 0..1 + random.below(4) {
                if input.is_empty() {
                    break;
                }
                let at = random.below(input.len() as u64) as usize;
                match random.below(5) {
                    0 => input.truncate(at),
                    1 => input.insert(at, random.number() as u8),
                    2 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                    3 => {
                        let from = random.below(input.len() as u64) as usize;
                        let part = input[from..].iter().copied().take(9).collect::<Vec<_>>();
                        input.splice(at..at, part);
                    }
                    _ => input[at] ^= 1 << random.below(8),
                }
            }
            run(&input);
        }
    }
}

fn write_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let (db, backups) = (folder.path().join("db"), folder.path().join("backups"));
    let options = LsmOptions {
        segment_bytes: 4 << 10,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(&db, options).unwrap();
    for round in 0..20_u32 {
        let mut transaction = engine.begin().unwrap();
        let key = format!("key {}", round % 7);
        transaction
            .put(key.as_bytes(), &vec![round as u8; 7 * round as usize])
            .unwrap();
        transaction.delete(b"another").unwrap();
        transaction.append_stream(&round.to_be_bytes());
        transaction.commit(Durability::Synced).unwrap();
        if round % 8 == 7 {
            engine.backup(&RealDisk, &backups, &mut |_, _| {}).unwrap();
        }
    }
    drop(engine);
    for (number, entry) in fs::read_dir(db.join("log")).unwrap().enumerate() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        write(
            "lsm_segment",
            &number.to_string(),
            &bytes[..bytes.len().min(4096)],
        );
        write("lsm_segment", &format!("{number}-cut"), &bytes[..1500]);
        // Left open, with a receipt after its second record.
        let mut open = bytes[..bytes.len().min(2048)].to_vec();
        open[512..592].fill(0);
        let mut end = 1024;
        for _ in 0..2 {
            let len = u32::from_le_bytes(open[end..end + 4].try_into().unwrap()) as usize;
            end = (end + 16 + len).next_multiple_of(8);
        }
        open[end..end + 16].copy_from_slice(b"\0\0\0\0rcpt\x02\0\0\0\0\0\0\0");
        write("lsm_segment", &format!("{number}-open"), &open);
        // The bodies of its first records.
        let mut at = 1024;
        for record in 0..4 {
            let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            write(
                "lsm_record",
                &format!("{number}-{record}"),
                &bytes[at + 16..][..len],
            );
            at = (at + 16 + len).next_multiple_of(8);
        }
    }
    let catalog = fs::read(backups.join("BACKUP")).unwrap();
    let content = &catalog[..catalog.len() - 8];
    write("lsm_catalog", "two", content);
    write("lsm_catalog", "cut", &content[..content.len() / 2]);
    write("lsm_catalog", "head", &content[..32]);
    for (name, bytes) in fuzzed::seeds() {
        let (target, name) = name.split_once('/').unwrap();
        write(target, name, &bytes);
    }
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = corpus(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(Path::new(&folder).join(name), bytes).unwrap();
}
