//! The benchmark `uuid` on other embedded stores: `uuid-peers SYSTEM FOLDER [--scale F] [--limit SECONDS]`.
//! Prints JSON lines as `isomer bench uuid` does, with a `"system"` in each. It compiles that benchmark's own
//! source.

#[path = "../../../crates/bench/src/measure.rs"]
#[allow(dead_code)]
mod measure;
#[path = "../../../crates/bench/src/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../../crates/bench/src/report.rs"]
mod report;

#[path = "../../../crates/bench/src/uuid"]
mod uuid {
    pub mod pairs;
    pub mod work;
}

mod lmdb;
mod redb_store;
mod rocks;
mod sqlite;
mod surreal;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use report::{Case, Report};
use uuid::work::{OpenStore, Plan, run};

/// Memory of each store for cache and memtables together, if configurable.
pub const BUDGET_BYTES: usize = 128 << 20;

fn main() -> Result<()> {
    let mut positional = Vec::new();
    let (mut scale, mut limit) = (0.1, f64::INFINITY);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<f64> {
            let text = arguments
                .next()
                .with_context(|| format!("{argument} needs a number"))?;
            text.parse().with_context(|| format!("{text} is not a number"))
        };
        match argument.as_str() {
            "--scale" => scale = number()?,
            "--limit" => limit = number()?,
            _ => positional.push(argument),
        }
    }
    let [system, folder] = positional.as_slice() else {
        bail!("usage: uuid-peers SYSTEM FOLDER [--scale F] [--limit SECONDS]");
    };
    let open: &OpenStore<'_> = match system.as_str() {
        "rocksdb" => &|folder| rocks::plain(folder),
        "rocksdb_transactions" => &|folder| rocks::transactional(folder),
        "lmdb" => &|folder| lmdb::open(folder),
        "redb" => &|folder| redb_store::open(folder),
        "surrealkv" => &|folder| surreal::open(folder),
        "sqlite" => &|folder| sqlite::open(folder),
        other => bail!(
            "unknown system {other}: choose from rocksdb, rocksdb_transactions, lmdb, redb, surrealkv, sqlite"
        ),
    };
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    let mut plan = Plan::at_scale(scale);
    if limit.is_finite() {
        plan.limit = Duration::from_secs_f64(limit);
    }
    run(
        open,
        &folder,
        plan,
        &mut JsonReport {
            system: system.clone(),
        },
    )
}

/// Metrics to standard output, all else to standard error.
struct JsonReport {
    system: String,
}

impl Report for JsonReport {
    fn case(&mut self, case: Case) {
        let json = case.to_json();
        println!("{{\"system\":\"{}\",{}", self.system, &json[1..]);
    }

    fn stage(&mut self, what: &str) {
        eprintln!("{}: {what} …", self.system);
    }

    fn note(&mut self, text: &str) {
        eprintln!("  {text}");
    }
}
