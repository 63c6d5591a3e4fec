//! Measures what an empty and a small database cost, exclusive and shared: time to create one and to close it, time to
//! open one with a few commits, bytes on the disk.
//!
//! ```text
//! cargo run --profile quick -p isomer-lsm --example fresh -- [DATABASES]
//! ```

use std::{
    error::Error,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine};
use isomer_vfs::stored_bytes;

fn main() -> Result<(), Box<dyn Error>> {
    let databases: usize = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 100,
    };
    let folder = tempfile::tempdir()?;
    for (name, sharing) in [
        ("exclusive", LogSharing::Exclusive),
        ("shared", LogSharing::Shared),
    ] {
        let root = folder.path().join(name);
        let open = |number: usize| -> Result<LsmEngine, Box<dyn Error>> {
            let options = LsmOptions {
                sharing: sharing.clone(),
                ..LsmOptions::default()
            };
            Ok(LsmEngine::open(root.join(number.to_string()), options)?)
        };
        let (mut created, mut closed, mut opened) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..databases {
            let began = Instant::now();
            let engine = open(number)?;
            created.push(began.elapsed());
            for pair in 0..10_u8 {
                let mut transaction = engine.begin()?;
                transaction.put(&[pair], b"value")?;
                transaction.append_stream(b"change");
                transaction.commit(Durability::Synced)?;
            }
            let began = Instant::now();
            drop(engine);
            closed.push(began.elapsed());
        }
        for number in 0..databases {
            let began = Instant::now();
            let engine = open(number)?;
            opened.push(began.elapsed());
            drop(engine);
        }
        let (length, blocks) = size(&root)?;
        let each = |bytes: u64| bytes / databases as u64 / 1024;
        println!(
            "{name}: created in {:?}, closed in {:?}, opened in {:?} (medians), {} KiB on the disk, files of {} KiB",
            median(&mut created),
            median(&mut closed),
            median(&mut opened),
            each(blocks),
            each(length)
        );
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Lengths of all files below a folder, and their bytes on the disk.
fn size(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut length, mut blocks) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            let (more_length, more_blocks) = size(&entry.path())?;
            length += more_length;
            blocks += more_blocks;
        } else {
            length += metadata.len();
            blocks += stored_bytes(&metadata);
        }
    }
    Ok((length, blocks))
}
