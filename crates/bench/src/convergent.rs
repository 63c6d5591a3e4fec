//! The benchmark `convergent`: elements are added one at a time to a set inside a map, as in the founding
//! document on Riak's data types, up to a million of them; then looked up, read and removed.

use std::{ops::Bound, path::Path};

use anyhow::{Context, Result, ensure};
use isomer_db::{
    ConvergentOwner, Database, Durability, EngineKind, Value,
    internals::{
        DatabaseInternals as _, TransactionInternals as _,
        data::{ConvergentOp, Transaction},
    },
    params,
};
use isomer_sync::{Local, exchange};

use crate::{
    measure::{Stopwatch, mib, micros, millis, peak_memory, reset_peak_memory, resident_bytes},
    random::Random,
    report::{Case, Report},
};

/// The set sizes measured.
const SIZES: [u64; 7] = [100, 1_000, 3_000, 10_000, 20_000, 100_000, 1_000_000];
/// The name of the set in the map.
const SET: [&str; 2] = ["map", "set"];

/// Runs every case on a database in `folder`; `scale` 1 is a set of a million elements.
pub fn run(folder: &Path, scale: f64, engine: EngineKind, report: &mut dyn Report) -> Result<()> {
    let db = Database::builder().engine(engine).open(folder.join("db"))?;
    db.query("CREATE (:Owner {_key: 'owner'})")?;
    let tx = db.begin()?;
    let label = "Owner";
    let node = tx
        .data()
        .documents()
        .node(label, &"owner".into())?
        .context("the owner was just made")?;
    tx.rollback();
    let mut bench = Bench {
        db: &db,
        owner: ConvergentOwner::Node(node),
        size: 0,
        random: Random::new(5),
    };
    // The names, counters and totals that remain of a database with such a set; they belong to no element.
    bench.add(1, Durability::Synced)?;
    bench.commit(Durability::Synced, |tx| {
        Ok(tx
            .fields_mut()
            .converge(bench.owner, &SET[..1], &ConvergentOp::Clear, None)?)
    })?;
    bench.size = 0;
    let empty = bench.stored()?;
    let largest = (1_000_000.0 * scale).max(100.0) as u64;
    for size in SIZES.into_iter().filter(|size| *size <= largest) {
        report.stage(&format!("a set of {size} elements"));
        bench.grow(size, report)?;
        bench.at_size(size, report)?;
    }
    bench.space(empty, report)?;
    report.stage("a counter");
    bench.counter(report)?;
    counters(folder, engine, scale, report)?;
    replicas(folder, engine, largest, report)
}

struct Bench<'d> {
    db: &'d Database,
    owner: ConvergentOwner,
    /// Number of elements in the set: the numbers from 1, as strings.
    size: u64,
    random: Random,
}

/// Records a measured case: its name without the size, the value, its unit, and the number of operations.
type Record<'r> = dyn FnMut(&str, f64, &'static str, u64) + 'r;

impl Bench<'_> {
    fn commit(
        &self,
        durability: Durability,
        body: impl FnOnce(&mut Transaction) -> Result<()>,
    ) -> Result<()> {
        let tx = self.db.begin()?;
        body(&mut tx.data())?;
        tx.set_durability(durability);
        tx.commit()?;
        Ok(())
    }

    fn add(&mut self, count: u64, durability: Durability) -> Result<()> {
        let (first, owner) = (self.size + 1, self.owner);
        self.commit(durability, |tx| {
            for number in first..first + count {
                tx.fields_mut().converge(
                    owner,
                    &SET,
                    &ConvergentOp::Insert(element(number)),
                    None,
                )?;
            }
            Ok(())
        })?;
        self.size += count;
        Ok(())
    }

    fn grow(&mut self, size: u64, report: &mut dyn Report) -> Result<()> {
        while self.size < size {
            self.add((size - self.size).min(1_000), Durability::Buffered)?;
            report.progress(self.size, Some(size));
        }
        self.db.sync()?;
        // Finish the compactions caused by growing, so that the next measurement pays only for its own.
        Ok(self.db.store()?.engine().wait_for_background_work()?)
    }

    /// Measures operations at this size. Elements added by a measurement are removed again.
    fn at_size(&mut self, size: u64, report: &mut dyn Report) -> Result<()> {
        let mut record = |case: &str, value: f64, unit: &'static str, n: u64| {
            report.case(Case::new(
                "convergent",
                format!("{case}_{size}"),
                value,
                unit,
                n,
            ));
        };
        self.measure_writes(size, &mut record)?;
        self.measure_reads(size, &mut record)
    }

    fn measure_writes(&mut self, size: u64, record: &mut Record<'_>) -> Result<()> {
        const SINGLE: u64 = 2_000;
        let watch = Stopwatch::start();
        for _ in 0..SINGLE {
            self.add(1, Durability::Buffered)?;
        }
        let (wall, cpu) = watch.read();
        record("add_us", micros(cpu) / SINGLE as f64, "us", SINGLE);
        record("add_wall_us", micros(wall) / SINGLE as f64, "us", SINGLE);

        const BATCHES: u64 = 20;
        let watch = Stopwatch::start();
        for _ in 0..BATCHES {
            self.add(100, Durability::Buffered)?;
        }
        let count = BATCHES * 100;
        record(
            "add_of_100_us",
            micros(watch.read().1) / count as f64,
            "us",
            count,
        );

        const SYNCED: u64 = 20;
        let watch = Stopwatch::start();
        for _ in 0..SYNCED {
            self.add(1, Durability::Synced)?;
        }
        record(
            "add_synced_us",
            micros(watch.read().0) / SYNCED as f64,
            "us",
            SYNCED,
        );

        let added = self.size - size;
        let watch = Stopwatch::start();
        for number in size + 1..=size + SINGLE {
            let owner = self.owner;
            self.commit(Durability::Buffered, |tx| {
                let remove = ConvergentOp::Remove(element(number));
                Ok(tx.fields_mut().converge(owner, &SET, &remove, None)?)
            })?;
        }
        record(
            "remove_us",
            micros(watch.read().1) / SINGLE as f64,
            "us",
            SINGLE,
        );
        let owner = self.owner;
        self.commit(Durability::Synced, |tx| {
            for number in size + SINGLE + 1..=size + added {
                let remove = ConvergentOp::Remove(element(number));
                tx.fields_mut().converge(owner, &SET, &remove, None)?;
            }
            Ok(())
        })?;
        self.size = size;
        Ok(self.db.store()?.engine().wait_for_background_work()?)
    }

    fn measure_reads(&mut self, size: u64, record: &mut Record<'_>) -> Result<()> {
        let owner = self.owner;
        let tx = self.db.begin_read()?;
        let data = tx.data_ref();
        const LOOKS: u64 = 10_000;
        let wanted: Vec<Value> = (0..LOOKS)
            .map(|_| element(1 + self.random.below(size as usize * 2) as u64))
            .collect();
        let watch = Stopwatch::start();
        let mut found = 0;
        for value in &wanted {
            found += u64::from(data.fields().contains(owner, &SET, value)? == Some(true));
        }
        record(
            "contains_us",
            micros(watch.read().1) / LOOKS as f64,
            "us",
            LOOKS,
        );
        ensure!(
            found > LOOKS / 4 && found < LOOKS * 3 / 4,
            "{found} of {LOOKS} were found"
        );

        const PAGES: u64 = 50;
        let watch = Stopwatch::start();
        for value in &wanted[..PAGES as usize] {
            let page = data
                .fields()
                .page(owner, &SET, Bound::Included(value), 100)?;
            ensure!(page.is_some(), "the set is gone");
        }
        record(
            "page_of_100_us",
            micros(watch.read().1) / PAGES as f64,
            "us",
            PAGES,
        );

        let rounds = if size > 100_000 { 1 } else { 5 };
        let mut times = Vec::new();
        for _ in 0..rounds {
            let watch = Stopwatch::start();
            let value = data.fields().value(owner, &SET)?;
            times.push(watch.read().1);
            let count = value
                .as_ref()
                .and_then(Value::as_list)
                .map_or(0, <[Value]>::len);
            ensure!(count as u64 == size, "{count} of {size} elements were read");
        }
        times.sort_unstable();
        record("read_all_ms", millis(times[times.len() / 2]), "ms", rounds);
        let watch = Stopwatch::start();
        let counted = data.fields().size(owner, &SET)?;
        record("size_ms", millis(watch.read().1), "ms", 1);
        ensure!(counted == Some(size), "{counted:?} elements were counted");
        Ok(())
    }

    /// Bytes on disk per element, and the bytes left after all are removed at once.
    fn space(&mut self, empty: u64, report: &mut dyn Report) -> Result<()> {
        let mut record = |case: &'static str, value: f64, unit: &'static str, n: u64| {
            report.case(Case::new("convergent", case, value, unit, n));
        };
        let full = self.stored()?;
        let each = full.saturating_sub(empty) as f64 / self.size as f64;
        record("bytes_per_element", each, "bytes", self.size);
        let owner = self.owner;
        let watch = Stopwatch::start();
        self.commit(Durability::Synced, |tx| {
            Ok(tx
                .fields_mut()
                .converge(owner, &SET[..1], &ConvergentOp::Clear, None)?)
        })?;
        record("remove_all_ms", millis(watch.read().0), "ms", self.size);
        let left = self.stored()?.saturating_sub(empty) as f64 / self.size as f64;
        record("bytes_left_per_element", left, "bytes", self.size);
        record("bytes_left", left * self.size as f64, "bytes", self.size);
        self.size = 0;
        Ok(())
    }

    /// Bytes on disk after everything reclaimable was reclaimed.
    fn stored(&self) -> Result<u64> {
        let store = self.db.store()?;
        store.numbering().sum_up()?;
        let engine = store.engine().clone();
        engine.trim_stream(engine.version())?;
        engine.compact()?;
        Ok(engine.statistics()?.stored_bytes)
    }

    fn counter(&mut self, report: &mut dyn Report) -> Result<()> {
        const COUNTS: u64 = 5_000;
        let owner = self.owner;
        let watch = Stopwatch::start();
        for _ in 0..COUNTS {
            self.commit(Durability::Buffered, |tx| {
                Ok(tx
                    .fields_mut()
                    .converge(owner, &["count"], &ConvergentOp::Count(1), None)?)
            })?;
        }
        let each = micros(watch.read().1) / COUNTS as f64;
        report.case(Case::new(
            "convergent",
            "counter_add_us",
            each,
            "us",
            COUNTS,
        ));
        let tx = self.db.begin_read()?;
        let watch = Stopwatch::start();
        const READS: u64 = 500;
        for _ in 0..READS {
            let value = tx.data_ref().fields().value(owner, &["count"])?;
            ensure!(
                value == Some(Value::Int(COUNTS as i64)),
                "{value:?} was counted"
            );
        }
        let each = micros(watch.read().1) / READS as f64;
        report.case(Case::new(
            "convergent",
            "counter_read_us",
            each,
            "us",
            READS,
        ));
        drop(tx);

        let text = "MATCH (o:Owner {_key: $k}) SET o.words = set.add(o.words, $word)";
        let prepared = self.db.prepare(text)?;
        const WORDS: u64 = 2_000;
        let watch = Stopwatch::start();
        for number in 0..WORDS {
            let tx = self.db.begin()?;
            tx.query_prepared(
                &prepared,
                params! { "k" => "owner", "word" => element(number) },
            )?;
            tx.set_durability(Durability::Buffered);
            tx.commit()?;
        }
        let each = micros(watch.read().1) / WORDS as f64;
        report.case(Case::new("convergent", "query_add_us", each, "us", WORDS));
        Ok(())
    }
}

/// Five replicas increment concurrently, and exchange in a ring until all have the total.
fn counters(folder: &Path, engine: EngineKind, scale: f64, report: &mut dyn Report) -> Result<()> {
    const REPLICAS: usize = 5;
    report.stage("a counter in five replicas");
    let each = ((2_000.0 * scale) as u64).max(100);
    let databases = (0..REPLICAS)
        .map(|number| {
            let builder = Database::builder().engine(engine);
            Ok(builder.open(folder.join(format!("counting-{number}")))?)
        })
        .collect::<Result<Vec<Database>>>()?;
    for db in &databases {
        isomer_replication::begin_replication(&db.store()?)?;
    }
    databases[0].query("CREATE (:Owner {_key: 'owner'})")?;
    let around = || -> Result<u64> {
        let mut received = 0;
        for (number, db) in databases.iter().enumerate() {
            let next = (number + 1) % REPLICAS;
            let mut peer = Local::new(format!("counting-{next}"), &databases[next])?;
            let done = exchange(&db.store()?, &mut peer, &mut |_| ())?;
            received += done.received + done.sent;
        }
        Ok(received)
    };
    while around()? > 0 {}
    let watch = Stopwatch::start();
    for db in &databases {
        let tx = db.begin()?;
        let node = tx.data().documents().node("Owner", &"owner".into())?;
        let owner = ConvergentOwner::Node(node.context("the owner came to all")?);
        tx.rollback();
        for _ in 0..each {
            let tx = db.begin()?;
            tx.data()
                .fields_mut()
                .converge(owner, &["count"], &ConvergentOp::Count(1), None)?;
            tx.set_durability(Durability::Buffered);
            tx.commit()?;
        }
    }
    let total = each * REPLICAS as u64;
    let mut record = |case: &'static str, value: f64, unit: &'static str, n: u64| {
        report.case(Case::new("convergent", case, value, unit, n));
    };
    let mut received = 0;
    loop {
        match around()? {
            0 => break,
            some => received += some,
        }
    }
    let (wall, cpu) = watch.read();
    let wanted = total * (REPLICAS as u64 - 1);
    ensure!(
        received == wanted,
        "{received} of {wanted} transactions came"
    );
    record(
        "counter_5_sync_cpu_us_per_op",
        micros(cpu) / wanted as f64,
        "us",
        wanted,
    );
    record("counter_5_sync_ms", millis(wall), "ms", wanted);
    const READS: u64 = 100;
    let watch = Stopwatch::start();
    for db in &databases {
        for _ in 0..READS {
            let rows = db.query("MATCH (o:Owner) RETURN o.count AS n")?;
            let counted: i64 = rows.single()?.get("n")?;
            ensure!(counted == total as i64, "{counted} of {total} were counted");
        }
    }
    let reads = READS * REPLICAS as u64;
    record(
        "counter_of_5_read_us",
        micros(watch.read().1) / reads as f64,
        "us",
        reads,
    );
    Ok(())
}

/// Replication times: joining the whole state of another replica; exchanging one per cent of new elements, in
/// transactions of one operation each; and an exchange between two equal replicas.
fn replicas(
    folder: &Path,
    engine: EngineKind,
    largest: u64,
    report: &mut dyn Report,
) -> Result<()> {
    for size in SIZES
        .into_iter()
        .filter(|size| *size <= largest && *size >= 1_000)
    {
        report.stage(&format!("replicas of a set of {size} elements"));
        let open = |name: &str| {
            Database::builder()
                .engine(engine)
                .open(folder.join(format!("{name}-{size}")))
        };
        let (one, other) = (open("one")?, open("other")?);
        one.query("CREATE (:Owner {_key: 'owner'})")?;
        let tx = one.begin_read()?;
        let node = tx
            .data_ref()
            .documents()
            .node("Owner", &"owner".into())?
            .context("the owner was just made")?;
        drop(tx);
        let mut bench = Bench {
            db: &one,
            owner: ConvergentOwner::Node(node),
            size: 0,
            random: Random::new(5),
        };
        bench.grow(size, report)?;
        let (from, to) = (one.store()?, other.store()?);
        isomer_replication::begin_replication(&from)?;
        isomer_replication::begin_replication(&to)?;
        let mut peer = Local::new("one", &one)?;
        reset_peak_memory();
        let before = resident_bytes().unwrap_or(0);
        let watch = Stopwatch::start();
        let joined = exchange(&to, &mut peer, &mut |_| ())?;
        let (wall, cpu) = watch.read();
        if let Some(peak) = peak_memory() {
            report.case(Case::new(
                "convergent",
                format!("join_memory_mib_{size}"),
                mib(peak.saturating_sub(before)),
                "MiB",
                size,
            ));
        }
        ensure!(joined.joined, "the state was not joined");
        report.case(Case::new(
            "convergent",
            format!("join_cpu_ms_{size}"),
            millis(cpu),
            "ms",
            size,
        ));
        report.case(Case::new(
            "convergent",
            format!("join_ms_{size}"),
            millis(wall),
            "ms",
            size,
        ));
        let news = (size / 100).min(10_000);
        for _ in 0..news {
            bench.add(1, Durability::Buffered)?;
        }
        let watch = Stopwatch::start();
        let exchanged = exchange(&to, &mut peer, &mut |_| ())?;
        let (wall, cpu) = watch.read();
        ensure!(
            exchanged.received == news,
            "{} of {news} transactions came",
            exchanged.received
        );
        let name = match size == largest.min(1_000_000) {
            true => "sync_us_per_op".to_owned(),
            false => format!("sync_us_per_op_{size}"),
        };
        report.case(Case::new(
            "convergent",
            name,
            micros(wall) / news as f64,
            "us",
            news,
        ));
        report.case(Case::new(
            "convergent",
            format!("sync_cpu_us_per_op_{size}"),
            micros(cpu) / news as f64,
            "us",
            news,
        ));
        let same = exchange(&to, &mut peer, &mut |_| ())?;
        report.case(Case::new(
            "convergent",
            format!("sync_equal_bytes_{size}"),
            same.bytes as f64,
            "B",
            1,
        ));
        let count = |db: &Database| -> Result<i64> {
            let rows = db.query("MATCH (o:Owner) RETURN size(o.map.set) AS n")?;
            Ok(rows.single()?.get("n")?)
        };
        ensure!(
            count(&one)? == count(&other)?,
            "the replicas do not hold the same"
        );
    }
    Ok(())
}

/// The elements of the original benchmark: numbers as strings.
fn element(number: u64) -> Value {
    Value::from(number.to_string().as_str())
}
