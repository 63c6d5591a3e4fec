//! Checks the state that a process leaves when it is killed at any moment.
//!
//! Writers number their transactions; transaction `n` of a writer has effects in every model that follow from
//! `n` alone. A writer prints a line to standard output before it commits, and another one when the commit
//! was acknowledged. These lines (the *journal*) determine which transactions must exist and which one may.

use std::{
    collections::BTreeMap,
    io::Write,
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use isomer_db::{
    Database, ErrorKind, ReadTransaction, Sharing, WriteTransaction,
    internals::{
        BuilderInternals as _, DatabaseInternals as _, TransactionInternals as _,
        views::{AdjacencySide, ViewKind, ViewOptions},
    },
    params,
};

/// Concurrent writers, so that commits share a sync.
pub const WRITERS: u64 = 3;

/// Progress of one writer, from its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last acknowledged transaction.
    pub acknowledged: u64,
    /// The last transaction whose commit began.
    pub begun: u64,
}

/// Progress of each writer.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    writers: BTreeMap<u64, Progress>,
}

impl Journal {
    /// Reads a line of a writer: `begin W N` or `ack W N`.
    pub fn read_line(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [word, writer, number] = words[..] else {
            bail!("unexpected line from the child: {line:?}")
        };
        let progress = self.writers.entry(writer.parse()?).or_default();
        let number = number.parse()?;
        match word {
            "begin" => progress.begun = number,
            "ack" => progress.acknowledged = number,
            _ => bail!("unexpected line from the child: {line:?}"),
        }
        Ok(())
    }

    /// Parses one line of a child that may be incomplete; returns whether it was an acknowledgement.
    pub fn read_begun(&mut self, line: &str) -> Result<bool> {
        let acknowledgement = line.starts_with("ack");
        if !acknowledgement {
            self.read_line(line)?;
        }
        Ok(acknowledgement)
    }

    /// Number of acknowledged transactions, over all writers.
    pub fn acknowledged(&self) -> u64 {
        self.writers
            .values()
            .map(|progress| progress.acknowledged)
            .sum()
    }

    /// Number of transactions whose commit began, over all writers.
    pub fn begun(&self) -> u64 {
        let writers = self.writers.values();
        writers
            .map(|progress| progress.begun.max(progress.acknowledged))
            .sum()
    }

    /// Records the state found in the database as the state required from now on.
    fn set_progress(&mut self, writer: u64, number: u64) {
        self.writers.insert(
            writer,
            Progress {
                acknowledged: number,
                begun: number,
            },
        );
    }
}

/// Number of relationships and parts that transaction `number` creates.
fn parts(number: u64) -> u64 {
    1 + number % 4
}

/// The transaction whose parts transaction `number` deletes.
fn deletes(number: u64) -> Option<u64> {
    number.is_multiple_of(5).then(|| number - 3)
}

/// Creates the schema that writers need; does nothing if it exists.
pub fn prepare(db: &Database) -> Result<()> {
    db.query("CREATE INDEX part_number IF NOT EXISTS FOR (p:Part) ON (p.n)")?;
    db.query("CREATE CONSTRAINT part_tag IF NOT EXISTS FOR (p:Part) REQUIRE p.tag IS UNIQUE")?;
    Ok(())
}

/// Opens the database, shared if it is stored so, with read views that are built, merged and written to disk all the
/// time.
pub fn open(path: &Path) -> Result<Database> {
    let mut views = ViewOptions::default();
    views.demand = 1;
    views.merge_after = 8;
    views.keep_at_least = 1;
    let builder = Database::builder().sharing(Sharing::AsStored);
    Ok(builder.views(views).open(path)?)
}

/// Opens the database at `path` and commits until killed (or until `most` transactions of each writer);
/// writes the journal to `out`.
pub fn write_until_killed(path: &Path, most: u64) -> Result<()> {
    let db = open(path)?;
    prepare(&db)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                write_views(&db);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let written = write_all(&db, most);
        done.store(true, Ordering::Relaxed);
        written
    })
}

/// Builds and merges views, each of which is then written.
fn write_views(db: &Database) {
    let Ok(catalog) = db.store().map(|store| store.catalog()) else {
        return;
    };
    let mut kinds = vec![ViewKind::Members(None)];
    for (type_id, _) in catalog.types() {
        kinds.extend(
            [AdjacencySide::Out, AdjacencySide::In].map(|side| ViewKind::Adjacency(type_id, side)),
        );
    }
    if let (Some(label), Some(n)) = (catalog.label_id("Part"), catalog.prop_id("n")) {
        kinds.push(ViewKind::Column(label, [n].into()));
    }
    for kind in kinds {
        // A view that cannot be built now is built in the next round.
        let _ = db
            .views()
            .make(&kind)
            .and_then(|()| db.views().merge_now(&kind));
    }
}

fn write_all(db: &Database, most: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(db, writer, most)))
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().expect("a writer does not panic"))
    })
}

fn write(db: &Database, writer: u64, most: u64) -> Result<()> {
    let first = 1 + db.try_read(|tx| last_number(tx, writer))?;
    for number in first..first.saturating_add(most) {
        loop {
            let tx = db.begin()?;
            apply(&tx, writer, number)?;
            print_line(&format!("begin {writer} {number}\n"));
            match tx.commit() {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Retry => {}
                Err(error) => return Err(error.into()),
            }
        }
        print_line(&format!("ack {writer} {number}\n"));
    }
    Ok(())
}

/// A single write, so that a line is complete or missing.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent reads our lines for as long as we live");
}

fn last_number(tx: &ReadTransaction, writer: u64) -> Result<u64> {
    let found = tx.query((
        "MATCH (c:Counter {_key: $writer}) RETURN c.n AS n",
        [("writer", writer as i64)],
    ))?;
    Ok(found.rows().first().map_or(Ok(0), |row| row.get("n"))?)
}

/// Runs the statements of one transaction, in every model.
fn apply(tx: &WriteTransaction, writer: u64, number: u64) -> Result<()> {
    let key = |number: u64| format!("{writer}/{number}");
    let params = params! {
        "key" => key(number), "writer" => writer as i64, "n" => number as i64, "last" => parts(number) as i64 - 1
    };
    tx.query(("CREATE (t:Txn {_key: $key, writer: $writer, n: $n}) WITH t UNWIND range(0, $last) AS i \
         CREATE (t)-[:PART {n: $n, i: i}]->(:Part {_key: $key + '/' + toString(i), n: $n, tag: $key + '#' + toString(i)})", &params))?;
    tx.query(("MERGE (c:Counter {_key: $writer}) SET c.n = $n", &params))?;
    tx.data()
        .kv_mut()
        .put("journal", key(number).as_bytes(), &number.to_be_bytes())?;
    if let Some(old) = deletes(number) {
        tx.query((
            "MATCH (:Txn {_key: $key})-[:PART]->(p) DETACH DELETE p",
            [("key", key(old))],
        ))?;
    }
    Ok(())
}

/// Compares the database with the journal: every acknowledged transaction is present and complete; of each
/// writer's others at most the one whose commit had begun, complete as well; nothing else. Records the state
/// found in the journal.
pub fn verify(db: &Database, journal: &mut Journal) -> Result<()> {
    db.try_read(|tx| {
        for writer in 0..WRITERS {
            let found = last_number(tx, writer)?;
            let progress = journal.writers.get(&writer).copied().unwrap_or_default();
            verify_writer(tx, writer, found, progress)
                .with_context(|| format!("writer {writer}"))?;
            journal.set_progress(writer, found);
        }
        anyhow::Ok(())
    })
}

fn verify_writer(tx: &ReadTransaction, writer: u64, found: u64, progress: Progress) -> Result<()> {
    ensure!(
        found >= progress.acknowledged,
        "{} was acknowledged, only {found} is there",
        progress.acknowledged
    );
    ensure!(
        found <= progress.begun.max(progress.acknowledged),
        "{found} is there, only {} had begun",
        progress.begun
    );

    let params = [("writer", writer as i64)];
    let rows = tx
        .query((
            "MATCH (t:Txn {writer: $writer}) OPTIONAL MATCH (t)-[r:PART]->(p:Part) \
             RETURN t.n AS n, count(r) AS relationships, count(p) AS parts ORDER BY n",
            params,
        ))?
        .into_rows();
    ensure!(
        rows.len() as u64 == found,
        "{} records for {found} transactions",
        rows.len()
    );
    let mut expected_parts = 0;
    for (at, row) in rows.iter().enumerate() {
        let number = at as u64 + 1;
        let deleted = (number + 1..=found).any(|later| deletes(later) == Some(number));
        let expected = if deleted { 0 } else { parts(number) };
        expected_parts += expected;
        let (n, relationships, parts): (u64, u64, u64) =
            (row.get("n")?, row.get("relationships")?, row.get("parts")?);
        ensure!(n == number, "transaction {number} is missing, {n} is there");
        ensure!(
            relationships == expected && parts == expected,
            "transaction {n} has {relationships} of {expected} relationships, {parts} parts"
        );
    }
    let prefix = format!("{writer}/");
    let all: u64 = tx
        .query((
            "MATCH (p:Part) WHERE p.tag STARTS WITH $prefix RETURN count(*) AS n",
            [("prefix", prefix)],
        ))?
        .single()?
        .get("n")?;
    ensure!(
        all == expected_parts,
        "{all} parts are stored, {expected_parts} belong to transactions"
    );
    if found > 0 {
        let key = format!("{writer}/{found}");
        let value = tx.data().kv().get("journal", key.as_bytes())?;
        ensure!(
            value == Some(found.to_be_bytes().to_vec()),
            "the bucket has {value:?} for transaction {found}"
        );
        let through_index = tx.query((
            "MATCH (p:Part) WHERE p.n = $n RETURN count(p) AS n",
            [("n", found as i64)],
        ))?;
        let through_index: u64 = through_index.single()?.get("n")?;
        ensure!(
            through_index >= parts(found),
            "the index finds {through_index} parts of transaction {found}"
        );
    }
    Ok(())
}

/// Reads everything and checks derived data against its source; the error lists the first problems. Returns
/// the number of read views that came from files.
pub fn check(path: &Path) -> Result<usize> {
    let db = open(path).context("opening to check")?;
    let mut problems = db.store()?.engine().verify(&mut |_, _| {})?;
    problems.extend(isomer_check::check(&db.store()?, &mut |_, _| {
        ControlFlow::Continue(())
    })?);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    let views = db.views().check(&mut |_| {});
    ensure!(views.wrong.is_empty(), "{views:?}");
    Ok(views.sound)
}
