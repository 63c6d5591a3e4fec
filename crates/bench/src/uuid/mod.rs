//! The benchmark `uuid`: ten million pairs of UUIDs in transactions of a hundred, as in the comparison of
//! Xodus and RocksDB. Once on the storage contract, once through a bucket and all layers.

pub mod pairs;
pub mod work;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use anyhow::{Context, Result};
use isomer_db::{
    Database, EngineKind, Sharing,
    internals::{
        DatabaseInternals as _,
        data::{Durability, Engine, KeyRange, Order, Snapshot},
    },
};

use crate::report::Report;
use pairs::Pair;
use work::{OpenStore, Plan, Reader, Subject};

/// The measured layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The storage contract alone.
    Contract,
    /// A bucket, with footprint, change stream and all.
    Bucket,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// 1 is 10 million pairs.
    pub scale: f64,
    /// The engine.
    pub engine: EngineKind,
    /// How the databases are opened.
    pub sharing: Sharing,
    /// The layers, in order.
    pub layers: &'a [Layer],
    /// Memory of the engine: cache and memtables together.
    pub cache_bytes: usize,
}

/// The same memory for all stores: cache and memtables together.
pub const CACHE_BYTES: usize = 128 << 20;

/// The name of the bucket.
const BUCKET: &str = "uuid";

/// Runs every case on new databases in `folder`. The cases of a bucket start with `bucket_`.
pub fn run(folder: &Path, options: Options<'_>, report: &mut dyn Report) -> Result<()> {
    for layer in options.layers {
        let mut plan = Plan::at_scale(options.scale);
        let name = match layer {
            Layer::Contract => "contract",
            Layer::Bucket => {
                plan.prefix = "bucket_";
                "bucket"
            }
        };
        report.stage(&format!("on the {name}"));
        let folder = folder.join(name);
        std::fs::create_dir(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let open: &OpenStore<'_> = &|folder| open(folder, options, *layer);
        work::run(open, &folder, plan, report)?;
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}

fn open(folder: &Path, options: Options<'_>, layer: Layer) -> Result<Box<dyn Subject>> {
    let db = Database::builder()
        .engine(options.engine)
        .sharing(options.sharing)
        .cache_bytes(options.cache_bytes)
        .open(folder.join("db"))?;
    let engine = db.store()?.engine().clone();
    Ok(match layer {
        Layer::Contract => Box::new(Contract { engine, _db: db }),
        Layer::Bucket => Box::new(Bucket { engine, db }),
    })
}

/// An engine without upper layers.
struct Contract {
    engine: Arc<dyn Engine>,
    /// Keeps the engine open.
    _db: Database,
}

impl Subject for Contract {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let mut transaction = self.engine.begin()?;
        for pair in pairs {
            transaction.put(pair.key.as_bytes(), pair.value.as_bytes())?;
        }
        transaction.commit(durability(synced))?;
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(ContractReader(self.engine.snapshot()?)))
    }

    fn finish_background_work(&self) -> Result<()> {
        Ok(self.engine.wait_for_background_work()?)
    }

    fn compact(&self) -> Result<()> {
        Ok(self.engine.compact()?)
    }
}

struct ContractReader(Arc<dyn Snapshot>);

impl Reader for ContractReader {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.0.get(key)?;
        Ok(found.is_some_and(|found| {
            *value = found;
            true
        }))
    }

    fn scan(&mut self, visit: &mut work::Visit<'_>) -> Result<()> {
        let mut outcome = Ok(());
        // All other stored keys start with a byte below the hexadecimal digits.
        let range = KeyRange {
            start: b"0",
            end: None,
        };
        self.0.visit(range, Order::Ascending, &mut |key, value| {
            outcome = visit(key, value);
            match outcome {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        outcome
    }
}

/// A bucket of a database.
struct Bucket {
    engine: Arc<dyn Engine>,
    db: Database,
}

impl Subject for Bucket {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let transaction = self.db.begin()?;
        let bucket = transaction.bucket(BUCKET);
        for pair in pairs {
            bucket.put_bytes(pair.key.as_bytes(), pair.value.as_bytes())?;
        }
        transaction.set_durability(durability(synced));
        transaction.commit()?;
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(BucketReader(self.db.begin_read()?)))
    }

    fn finish_background_work(&self) -> Result<()> {
        Ok(self.engine.wait_for_background_work()?)
    }

    fn compact(&self) -> Result<()> {
        // The log is the change stream, and would retain its latest commits for consumers.
        self.engine.trim_stream(self.engine.version())?;
        Ok(self.engine.compact()?)
    }
}

struct BucketReader(isomer_db::ReadTransaction);

impl Reader for BucketReader {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.0.bucket(BUCKET).get_bytes(key)?;
        Ok(found.is_some_and(|found| {
            *value = found;
            true
        }))
    }

    fn scan(&mut self, visit: &mut work::Visit<'_>) -> Result<()> {
        let mut outcome = Ok(());
        let bucket = self.0.bucket(BUCKET);
        bucket.visit(.., Order::Ascending, |key, value| {
            outcome = visit(key, value);
            outcome.is_ok()
        })?;
        outcome
    }
}

fn durability(synced: bool) -> Durability {
    if synced {
        Durability::Synced
    } else {
        Durability::Buffered
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::Case;

    #[derive(Default)]
    struct Names(BTreeSet<String>);

    impl Report for Names {
        fn case(&mut self, case: Case) {
            assert!(case.value.is_finite() && case.n > 0, "{case:?}");
            assert!(self.0.insert(case.case.to_string()), "{} twice", case.case);
        }

        fn stage(&mut self, _: &str) {}

        fn note(&mut self, _: &str) {}
    }

    #[test]
    fn every_metric_is_reported_once_per_layer() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut names = Names::default();
        let options = Options {
            scale: 0.0001,
            engine: EngineKind::default(),
            layers: &[Layer::Contract, Layer::Bucket],
            cache_bytes: CACHE_BYTES,
            sharing: Sharing::default(),
        };
        run(folder.path(), options, &mut names).expect("it runs");
        for case in [
            "writes_per_s",
            "last_to_first_million",
            "worst_commit_ms",
            "worst_commit_ms_beside_a_reader",
            "settled_writes_per_s",
            "reads_per_s_1",
            "reads_per_s_2",
            "reopened_reads_per_s_1",
            "reopened_reads_per_s_2",
            "scan_per_s",
            "disk_bytes_per_raw_byte",
            "peak_rss_mib",
            "synced_commits_per_s_1",
            "synced_commits_per_s_16",
            "writes_per_s_2_writers",
        ] {
            assert!(names.0.contains(case), "{case} is missing");
            assert!(
                names.0.contains(&format!("bucket_{case}")),
                "bucket_{case} is missing"
            );
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
    }
}
