//! The power is lost while several engines use a database: the log has every commit, and the tables fit it.

use std::{path::Path, sync::Arc, time::Duration};

use isomer_lsm::{LsmEngine, LsmOptions, Sharing};
use isomer_shared_log::{LogId, MemoryLog};
use isomer_storage::{Durability, Engine, StorageError, conformance::Random};
use isomer_vfs::{Loss, SimDisk};

use super::{Map, assert_sound, contents, small};

const DB: &str = "/db";

/// Writes some pairs. A commit whose outcome is unknown is in the log, which never fails here.
fn write(engine: &LsmEngine, random: &mut Random, step: u32, model: &mut Map) {
    let Ok(mut transaction) = engine.begin() else {
        return;
    };
    let mut changed = model.clone();
    for _ in 0..1 + random.below(12) {
        let key = vec![random.below(90) as u8];
        match random.below(5) {
            0 => {
                transaction.delete(&key).expect("fits");
                changed.remove(&key);
            }
            _ => {
                let value = step.to_be_bytes().repeat(1 + random.below(200) as usize);
                transaction.put(&key, &value).expect("fits");
                changed.insert(key, value);
            }
        }
    }
    match transaction.commit(Durability::Synced) {
        Ok(_) | Err(StorageError::CommitUnknown(_)) => *model = changed,
        Err(_) => {}
    }
}

#[test]
fn a_loss_of_power_loses_no_commit() {
    let (mut cuts, mut commits) = (0, 0);
    for seed in 0..120 {
        let mut random = Random(seed);
        let loss = Loss::ALL[(seed % 3) as usize];
        let disk = SimDisk::new();
        let log = MemoryLog::new(LogId(7), Duration::from_secs(60));
        let options = LsmOptions {
            disk: Arc::new(disk.clone()),
            sharing: Sharing::Over(Arc::new(log.clone())),
            memtable_bytes: 16 << 10,
            ..small(false)
        };
        let open = || LsmEngine::open(Path::new(DB), options.clone()).expect("opens");
        let mut model = Map::new();
        for life in 0..4 {
            let mut engines: Vec<LsmEngine> = (0..1 + random.below(3)).map(|_| open()).collect();
            for engine in &engines {
                let found = contents(&*engine.begin().expect("begins"));
                assert!(found == model, "seed {seed}, life {life}");
                assert_sound(engine);
            }
            disk.cut_power_at(disk.changes() + random.below(150), loss, seed);
            for step in 0..150 {
                let at = random.below(engines.len() as u64) as usize;
                write(&engines[at], &mut random, step, &mut model);
                let at = random.below(engines.len() as u64) as usize;
                let engine = &engines[at];
                // Without power these fail.
                let _ = match random.below(8) {
                    0 if engine.maintains() => engine.flush(),
                    1 if engine.maintains() => engine.compact(),
                    2 | 3 => engine.follow(),
                    4 if engines.len() > 1 && random.below(6) == 0 => {
                        drop(engines.swap_remove(at));
                        Ok(())
                    }
                    _ => Ok(()),
                };
                if disk.is_off() {
                    break;
                }
            }
            cuts += u64::from(disk.is_off());
            drop(engines);
            disk.restart();
        }
        commits += log.history().len();
        let engine = open();
        assert!(contents(&*engine.begin().expect("begins")) == model);
        engine.flush().expect("flushed");
        engine.compact_all().expect("merged");
        assert_sound(&engine);
    }
    assert!(
        cuts > 150 && commits > 5000,
        "{cuts} cuts, {commits} commits"
    );
}
