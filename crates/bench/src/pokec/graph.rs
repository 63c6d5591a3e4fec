//! The jobs on this database, through its query language.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use isomer_db::{
    Database, Durability, EngineKind, Map, QueryResult, Sharing, Value, WriteTransaction,
    internals::{
        BuilderInternals as _, DatabaseInternals as _, LayerResult as _, TransactionInternals as _,
        bulk::{BulkPhase, BulkWatch},
        views::{AdjacencySide, ViewKind, ViewOptions, ViewState},
    },
    json, params,
};

use crate::{
    Network,
    load::{load_edges, load_people},
    measure::{Stopwatch, Timed, disk_bytes, micros, millis, time_each},
    pokec::{
        job::{Job, Measured},
        questions::{EdgeFile, KEPT_ROUNDS, Questions, Tally, path_line, person, set_line},
    },
    profile::to_map,
    report::Report,
};

/// A whole profile by its key.
pub const READ: &str = "MATCH (p:Person {_key: $key}) RETURN p";
/// The number of people per age.
pub const AGES: &str = "MATCH (p:Person) RETURN p.AGE AS age, count(*) AS people";
/// The people one or two hops away.
pub const NEIGHBOURS: &str =
    "MATCH (p:Person {_key: $key})-[:FRIEND*1..2]->(n) WHERE n <> p RETURN DISTINCT id(n) AS id";
/// The same with keys.
pub const NEIGHBOUR_KEYS: &str =
    "MATCH (p:Person {_key: $key})-[:FRIEND*1..2]->(n) WHERE n <> p RETURN DISTINCT n._key AS key";
/// The same with profiles.
pub const NEIGHBOUR_PROFILES: &str =
    "MATCH (p:Person {_key: $key})-[:FRIEND*1..2]->(n) WHERE n <> p RETURN DISTINCT n";
/// The number of paths of two relationships.
pub const PATHS: &str = "MATCH ()-[:FRIEND]->()-[:FRIEND]->() RETURN count(*) AS paths";
/// A shortest path as the keys of its people.
pub const SHORTEST: &str = "MATCH (a:Person {_key: $from}), (b:Person {_key: $to}), p = shortestPath((a)-[:FRIEND*]->(b)) RETURN [n IN nodes(p) | n._key] AS keys";

/// A new person with an incoming relationship from an existing one.
pub const GROW: &str = "MATCH (p:Person {_key: $from}) CREATE (p)-[:FRIEND]->(:Person $profile)";

/// The memory budget of the database, so that the whole process stays below 2 GiB.
const MEMORY_BYTES: usize = 1536 << 20;
/// Writers of [`Job::WritesSynced`].
const WRITERS: usize = 16;
/// Runs longer than this are not repeated.
const LONG_RUN: Duration = Duration::from_secs(2);

/// The source of the network.
#[derive(Debug)]
pub enum Source {
    /// A seed: profiles are generated as they are loaded, relationships are in a file.
    Generated {
        /// Without its relationships.
        network: Network,
        /// These.
        edges: EdgeFile,
    },
    /// `profiles.jsonl` and `edges.tsv` in this folder, through `isomer import`.
    Files(PathBuf),
}

/// This database, loaded with the network.
#[derive(Debug)]
pub struct Graph {
    folder: PathBuf,
    engine: EngineKind,
    /// How it is opened once it is loaded.
    sharing: Sharing,
    source: Source,
    db: Option<Database>,
    /// Person number by node id.
    people: HashMap<i64, u32>,
    /// Number of profile batches written.
    batches: usize,
    /// Whether read views are enabled.
    views: bool,
}

impl Graph {
    /// An empty database in `folder` (or in memory).
    pub fn new(folder: &Path, engine: EngineKind, source: Source) -> Self {
        Self {
            folder: folder.join("pokec"),
            engine,
            sharing: Sharing::Exclusive,
            source,
            db: None,
            people: HashMap::new(),
            batches: 0,
            views: true,
        }
    }

    /// The same, which is opened in this way once it is loaded: a shared database takes no large load.
    pub fn shared_as(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Bytes on disk; 0 for a database in memory.
    pub fn disk_bytes(&self) -> Result<u64> {
        match self.engine {
            EngineKind::Memory => Ok(0),
            _ => disk_bytes(&self.folder),
        }
    }

    /// Opens a database that was loaded earlier.
    pub fn reopen(&mut self) -> Result<()> {
        self.db = Some(self.open(self.sharing)?);
        self.number_people()
    }

    /// Closes the database.
    pub fn close(&mut self) -> Result<()> {
        match self.db.take() {
            Some(db) => Ok(db.close()?),
            None => Ok(()),
        }
    }

    fn open(&self, sharing: Sharing) -> Result<Database> {
        let mut views = ViewOptions::default();
        views.enabled = self.views;
        let builder = Database::builder()
            .engine(self.engine)
            .sharing(sharing)
            .memory(MEMORY_BYTES)
            .views(views);
        Ok(match self.engine {
            EngineKind::Memory => builder.open_in_memory()?,
            _ => builder.open(&self.folder)?,
        })
    }

    fn db(&self) -> Result<&Database> {
        self.db.as_ref().context("the network is not loaded")
    }

    /// Measures a job.
    pub fn run(
        &mut self,
        job: Job,
        questions: &Questions,
        report: &mut dyn Report,
    ) -> Result<Measured> {
        match job {
            Job::Load => self.load(report),
            Job::FirstTraversal => self.first_traversal(questions),
            Job::SingleReads => self.single_reads(questions),
            Job::AggregateAge => self.aggregate_age(),
            Job::Neighbors2 | Job::Neighbors2Keys | Job::Neighbors2Profiles => {
                self.neighbours(job, questions)
            }
            Job::CountPaths2 => self.count_paths(),
            Job::ShortestPath | Job::NoPath => self.paths(job, questions),
            Job::WritesBuffered => {
                let db = self.db()?.clone();
                self.writes_buffered(&db, questions)
            }
            Job::WritesSynced => self.writes_synced(questions),
            Job::ViewsKept => self.views_kept(questions),
        }
    }

    fn load(&mut self, report: &mut dyn Report) -> Result<Measured> {
        let watch = Stopwatch::start();
        let timed = match &self.source {
            Source::Generated { network, edges } => {
                let db = self.open(Sharing::Exclusive)?;
                report.stage("loading profiles");
                load_people(&db, network, &mut Progress(report))?;
                report.stage("loading relationships");
                load_edges(&db, edges.iter()?, &mut Progress(report))?;
                db.sync()?;
                let timed = watch.timed();
                self.db = Some(db);
                timed
            }
            Source::Files(data) => {
                import(self.engine, &self.folder, data)?;
                // The work was done by other processes: this process's processor time is meaningless.
                let (wall, _) = watch.read();
                self.db = Some(self.open(self.sharing)?);
                Timed::one(wall, Duration::ZERO)
            }
        };
        self.number_people()?;
        let (people, relationships) = self.sizes()?;
        let answer = format!("{people} people, {relationships} relationships");
        Ok(Measured {
            timed,
            questions: 1,
            answer: vec![answer],
            ..Measured::default()
        })
    }

    /// Maps ids to people, to check results that are ids.
    fn number_people(&mut self) -> Result<()> {
        let mut people = HashMap::new();
        for row in self
            .db()?
            .stream("MATCH (p:Person) RETURN id(p) AS id, p._key AS key")?
        {
            let row = row?;
            people.insert(int(row.value("id")?)?, key_of(row.value("key")?)?);
        }
        self.people = people;
        Ok(())
    }

    /// Closes and reopens; the files stay in the operating system's page cache.
    fn first_traversal(&mut self, questions: &Questions) -> Result<Measured> {
        let start = questions.starts[0];
        let mut times = Vec::new();
        let watch = Stopwatch::start();
        let (mut db, mut answer) = (self.db()?.clone(), Vec::new());
        let mut until_views = Duration::ZERO;
        // An in-memory database cannot be reopened.
        let rounds = if self.engine == EngineKind::Memory {
            1
        } else {
            3
        };
        for _ in 0..rounds {
            if self.engine != EngineKind::Memory {
                self.db = None;
                db.close()?;
            }
            let begin = Instant::now();
            if self.engine != EngineKind::Memory {
                db = self.open(self.sharing)?;
            }
            let found = db.query((NEIGHBOURS, [("key", Network::key(start))]))?;
            times.push(begin.elapsed());
            // From now on a view answers, which was read from its file in the background.
            db.views().wait_ready();
            until_views = begin.elapsed();
            self.db = Some(db.clone());
            answer = vec![self.set_line(start, &found, "id")?];
        }
        let (wall, cpu) = watch.read();
        Ok(Measured {
            timed: Timed { times, wall, cpu },
            questions: 1,
            answer,
            figures: vec![("views_ms", millis(until_views), "ms")],
            ..Measured::default()
        })
    }

    fn single_reads(&self, questions: &Questions) -> Result<Measured> {
        let read = self.db()?.prepare(READ)?;
        let mut tally = Tally::default();
        let keys: Vec<String> = questions
            .keys
            .iter()
            .map(|&key| Network::key(key))
            .collect();
        let ask = |key: &String| Ok(read.query([("key", key.as_str())])?);
        passes(self.db()?, &keys, 1, ask, |_, found| {
            add(&mut tally, found.single()?.value("p")?)?;
            Ok(None)
        })
        .map(|measured| Measured {
            answer: vec![tally.line()],
            ..measured
        })
    }

    fn aggregate_age(&self) -> Result<Measured> {
        let query = self.db()?.prepare(AGES)?;
        let watch = Stopwatch::start();
        let ages = query.query(())?;
        let first = watch.timed();
        let mut answer = Vec::new();
        for row in &ages {
            let age = row.value("age")?.as_int();
            answer.push((age.unwrap_or(i64::MAX), int(row.value("people")?)?));
        }
        answer.sort_unstable();
        self.db()?.views().wait_ready();
        let line = |(age, people): (i64, i64)| match age {
            i64::MAX => format!("none {people}"),
            age => format!("{age} {people}"),
        };
        let rounds = if first.wall > LONG_RUN { 3 } else { 11 };
        let timed = time_each(0..rounds, |_| {
            query.query(())?;
            Ok(())
        })?;
        Ok(Measured {
            timed,
            first: Some(first),
            questions: 1,
            answer: answer.into_iter().map(line).collect(),
            ..Measured::default()
        })
    }

    fn neighbours(&self, job: Job, questions: &Questions) -> Result<Measured> {
        let (text, rounds) = match job {
            Job::Neighbors2Keys => (NEIGHBOUR_KEYS, 2),
            Job::Neighbors2Profiles => (NEIGHBOUR_PROFILES, 1),
            _ => (NEIGHBOURS, 3),
        };
        let query = self.db()?.prepare(text)?;
        let keys: Vec<String> = questions
            .starts
            .iter()
            .map(|&key| Network::key(key))
            .collect();
        let ask = |key: &String| Ok(query.query([("key", key.as_str())])?);
        passes(self.db()?, &keys, rounds, ask, |at, found| {
            let start = questions.starts[at];
            Ok(Some(match job {
                Job::Neighbors2Profiles => {
                    let mut tally = Tally::default();
                    for row in &found {
                        add(&mut tally, row.value("n")?)?;
                    }
                    format!("{}: {}", keys[at], tally.line())
                }
                Job::Neighbors2Keys => self.set_line(start, &found, "key")?,
                _ => self.set_line(start, &found, "id")?,
            }))
        })
    }

    /// A column of ids or keys of people as a line of a result.
    fn set_line(&self, start: u32, found: &QueryResult, column: &str) -> Result<String> {
        let mut people = Vec::with_capacity(found.len());
        for row in found {
            let value = row.value(column)?;
            people.push(match value.as_int() {
                Some(id) => *self
                    .people
                    .get(&id)
                    .with_context(|| format!("no person has the id {id}"))?,
                None => key_of(value)?,
            });
        }
        Ok(set_line(start, people))
    }

    fn count_paths(&self) -> Result<Measured> {
        let query = self.db()?.prepare(PATHS)?;
        let watch = Stopwatch::start();
        let count = int(query.query(())?.single()?.value("paths")?)?;
        let first = watch.timed();
        self.db()?.views().wait_ready();
        let timed = time_each(0..5, |_| {
            query.query(())?;
            Ok(())
        })?;
        Ok(Measured {
            timed,
            first: Some(first),
            questions: 1,
            answer: vec![count.to_string()],
            figures: self.view_sizes()?,
            ..Measured::default()
        })
    }

    /// Bytes of memory per relationship in each ready adjacency view.
    fn view_sizes(&self) -> Result<Vec<(&'static str, f64, &'static str)>> {
        let views = self.db()?.views().status();
        let mut figures = Vec::new();
        for view in views.iter().filter(|view| view.count > 0) {
            let name = match view.kind {
                ViewKind::Adjacency(_, AdjacencySide::Out) => "bytes_per_relationship_out",
                ViewKind::Adjacency(_, AdjacencySide::In) => "bytes_per_relationship_in",
                _ => continue,
            };
            figures.push((name, view.bytes as f64 / view.count as f64, "bytes"));
        }
        Ok(figures)
    }

    fn paths(&self, job: Job, questions: &Questions) -> Result<Measured> {
        let query = self.db()?.prepare(SHORTEST)?;
        let (pairs, rounds) = match job {
            Job::ShortestPath => (questions.pairs.clone(), 10),
            _ => (questions.apart.into_iter().collect(), 50),
        };
        let ask = |pair: &crate::files::PathQuery| {
            let (from, to) = (Network::key(pair.source), Network::key(pair.target));
            Ok(query.query(params! { "from" => from, "to" => to })?)
        };
        let mut steps = HashSet::new();
        let measured = passes(self.db()?, &pairs, rounds, ask, |at, found| {
            let pair = &pairs[at];
            let Some(row) = found.iter().next() else {
                return Ok(Some(path_line(pair, None)));
            };
            let keys = row.value("keys")?.as_list().unwrap_or_default();
            let path = keys.iter().map(key_of).collect::<Result<Vec<u32>>>()?;
            if path.first() != Some(&pair.source) || path.last() != Some(&pair.target) {
                bail!("a path has other ends than the requested ones");
            }
            let length = match &self.source {
                Source::Generated { edges, .. } => edges.path_length(&path)?,
                Source::Files(_) => {
                    steps.extend(path.windows(2).map(|step| (step[0], step[1])));
                    path.len() as u32 - 1
                }
            };
            Ok(Some(path_line(pair, Some(length))))
        })?;
        if let Source::Files(data) = &self.source {
            are_relationships(steps, &data.join("edges.tsv"))?;
        }
        Ok(measured)
    }

    /// Documents to write, as parameters: profiles with new keys.
    fn documents(&self, count: usize, people: u32) -> Result<Vec<Map>> {
        let parameters = |number: usize, mut profile: Map| {
            profile.insert("_key", Network::key(number as u32).into());
            params! { "profile" => profile }
        };
        match &self.source {
            Source::Generated { network, .. } => Ok((0..count)
                .map(|number| {
                    let profile = network.profile((number % people as usize) as u32);
                    parameters(number, to_map(&profile))
                })
                .collect()),
            Source::Files(data) => {
                let text = fs::read_to_string(data.join("profiles.jsonl"))?;
                text.lines()
                    .cycle()
                    .take(count)
                    .enumerate()
                    .map(|(number, line)| match json::parse(line)? {
                        Value::Map(profile) => Ok(parameters(number, (*profile).clone())),
                        _ => bail!("profiles.jsonl: line {} is not an object", number + 1),
                    })
                    .collect()
            }
        }
    }

    /// A new label per batch, so that batches do not conflict.
    fn batch(&mut self) -> (String, String) {
        self.batches += 1;
        let label = format!("Written{}", self.batches);
        let text = format!("CREATE (:{label} $profile)");
        (label, text)
    }

    fn written(db: &Database, label: &str) -> Result<Vec<String>> {
        let mut tally = Tally::default();
        for row in db.stream(&format!("MATCH (w:{label}) RETURN w"))? {
            add(&mut tally, row?.value("w")?)?;
        }
        Ok(vec![tally.line()])
    }

    fn writes_buffered(&mut self, db: &Database, questions: &Questions) -> Result<Measured> {
        let documents = self.documents(questions.writes, questions.people)?;
        let (label, text) = self.batch();
        let write = db.prepare(&text)?;
        let mut timed = time_each(documents, |document| {
            let transaction = db.begin()?;
            transaction.query_prepared(&write, document)?;
            commit_buffered(transaction)
        })?;
        let watch = Stopwatch::start();
        db.sync()?;
        let (wall, cpu) = watch.read();
        timed.wall += wall;
        timed.cpu += cpu;
        Ok(Measured {
            questions: timed.count(),
            timed,
            answer: Self::written(db, &label)?,
            notes: vec![format!("the sync at the end: {wall:.1?}")],
            ..Measured::default()
        })
    }

    fn writes_synced(&mut self, questions: &Questions) -> Result<Measured> {
        let documents = self.documents(questions.writes, questions.people)?;
        let (label, text) = self.batch();
        let db = self.db()?;
        let write = db.prepare(&text)?;
        let before = db.store()?.engine().statistics()?;
        let next = AtomicUsize::new(0);
        let watch = Stopwatch::start();
        let times = std::thread::scope(|scope| -> Result<Vec<Duration>> {
            let work = || -> Result<Vec<Duration>> {
                let mut times = Vec::new();
                while let Some(document) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    write.query(document)?;
                    times.push(start.elapsed());
                }
                Ok(times)
            };
            let threads: Vec<_> = (0..WRITERS).map(|_| scope.spawn(work)).collect();
            let mut times = Vec::with_capacity(documents.len());
            for thread in threads {
                let own = thread.join();
                times.extend(own.map_err(|_| anyhow::anyhow!("a writer panicked"))??);
            }
            Ok(times)
        })?;
        let (wall, cpu) = watch.read();
        let after = db.store()?.engine().statistics()?;
        let (commits, syncs) = (after.commits - before.commits, after.syncs - before.syncs);
        let shared = commits as f64 / syncs.max(1) as f64;
        Ok(Measured {
            questions: documents.len() as u64,
            timed: Timed { times, wall, cpu },
            answer: Self::written(db, &label)?,
            notes: vec![format!("{commits} commits in {syncs} syncs")],
            figures: vec![("per_sync", shared, "writes")],
            ..Measured::default()
        })
    }

    /// Rounds with and without views alternate on the same growing network, so that neither has the smaller
    /// one.
    fn views_kept(&mut self, questions: &Questions) -> Result<Measured> {
        let before = self.sizes()?;
        let (mut with, mut without) = (Timed::default(), Timed::default());
        for round in 0..2 * KEPT_ROUNDS {
            let kept = round % 2 == 0;
            self.close()?;
            self.views = kept;
            self.db = Some(self.open(self.sharing)?);
            let timed = self.grow(questions, round, kept)?;
            let all = if kept { &mut with } else { &mut without };
            all.times.extend(timed.times);
            all.wall += timed.wall;
            all.cpu += timed.cpu;
        }
        self.views = true;
        let after = self.sizes()?;
        let slower = with.percentile(0.5).as_secs_f64() / without.percentile(0.5).as_secs_f64();
        let rounds = KEPT_ROUNDS as f64;
        let percent = |with: Duration, without: Duration| {
            (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0
        };
        let (wall, cpu) = (
            percent(with.wall, without.wall),
            percent(with.cpu, without.cpu),
        );
        Ok(Measured {
            questions: questions.kept_writes() as u64,
            answer: vec![format!(
                "{} more people, {} more relationships",
                after.0 - before.0,
                after.1 - before.1
            )],
            figures: vec![
                ("off_s", without.wall.as_secs_f64() / rounds, "s"),
                ("off_p50_us", micros(without.percentile(0.5)), "us"),
                ("slower_percent", (slower - 1.0) * 100.0, "%"),
            ],
            notes: vec![format!(
                "with views {wall:.1}% more time in all, {cpu:.1}% more of processors"
            )],
            timed: with,
            ..Measured::default()
        })
    }

    /// Adds people with one relationship each, without a sync per commit.
    fn grow(&mut self, questions: &Questions, round: usize, kept: bool) -> Result<Timed> {
        let count = questions.kept_writes();
        let mut documents = self.documents(count, questions.people)?;
        for (number, document) in documents.iter_mut().enumerate() {
            if let Some(Value::Map(profile)) = document.get_mut("profile") {
                let key = format!("new{round}-{number}");
                std::sync::Arc::make_mut(profile).insert("_key", key.into());
            }
            let from = questions.keys[number % questions.keys.len()];
            document.insert("from", Network::key(from).into());
        }
        let db = self.db()?.clone();
        // Touches what the views are built for; without views it warms the caches equally.
        for _ in 0..3 {
            db.query(AGES)?;
            for &start in questions.starts.iter().take(50) {
                db.query((NEIGHBOURS, [("key", Network::key(start))]))?;
            }
            db.views().wait_ready();
        }
        if kept {
            for kind in kept_views(&db)? {
                db.views().make_plain(&kind)?;
            }
        }
        check_kept(&db, kept)?;
        let write = db.prepare(GROW)?;
        let timed = time_each(documents, |document| {
            let transaction = db.begin()?;
            transaction.query_prepared(&write, document)?;
            commit_buffered(transaction)
        })?;
        check_kept(&db, kept)?;
        db.sync()?;
        Ok(timed)
    }

    fn sizes(&self) -> Result<(i64, i64)> {
        let count = |text: &str| -> Result<i64> { Ok(self.db()?.query(text)?.single()?.get("n")?) };
        Ok((
            count("MATCH (p:Person) RETURN count(p) AS n")?,
            count("MATCH (:Person)-[f:FRIEND]->(:Person) RETURN count(f) AS n")?,
        ))
    }
}

/// Checks that every hop of the paths is in `edges`.
fn are_relationships(mut steps: HashSet<(u32, u32)>, edges: &Path) -> Result<()> {
    for line in BufReader::with_capacity(1 << 20, fs::File::open(edges)?).lines() {
        let line = line?;
        if steps.is_empty() {
            break;
        }
        if let Some((source, target)) = line.split_once('\t').filter(|_| !line.starts_with('#')) {
            steps.remove(&(person(source)?, person(target)?));
        }
    }
    if let Some((source, target)) = steps.into_iter().next() {
        bail!(
            "a path goes from {} to {}, who are not neighbours",
            Network::key(source),
            Network::key(target)
        );
    }
    Ok(())
}

/// The views that writing people and relationships maintains.
fn kept_views(db: &Database) -> Result<Vec<ViewKind>> {
    let store = db.store()?;
    let catalog = store.catalog();
    let person = catalog.label_id("Person").context("no label Person")?;
    let friend = catalog.type_id("FRIEND").context("no type FRIEND")?;
    let mut kinds = vec![ViewKind::Members(None), ViewKind::Members(Some(person))];
    kinds.extend(AdjacencySide::BOTH.map(|side| ViewKind::Adjacency(friend, side)));
    for name in ["_key", "AGE"] {
        let prop = catalog.prop_id(name).context("no property")?;
        kinds.push(ViewKind::Column(person, [prop].into()));
    }
    Ok(kinds)
}

/// Checks that all maintained views are ready, or that there is none if views are disabled.
fn check_kept(db: &Database, kept: bool) -> Result<()> {
    let standing: HashSet<ViewKind> = db
        .views()
        .status()
        .into_iter()
        .filter(|view| view.state == ViewState::Standing)
        .map(|view| view.kind)
        .collect();
    let missing = kept_views(db)?
        .into_iter()
        .find(|kind| !standing.contains(kind));
    match (kept, missing) {
        (true, Some(kind)) => bail!("the view {kind:?} should be ready and is not"),
        (false, _) if !standing.is_empty() => {
            bail!("{} views are ready: expected none", standing.len())
        }
        _ => Ok(()),
    }
}

fn commit_buffered(transaction: WriteTransaction) -> Result<()> {
    transaction
        .into_data()
        .commit_with(Durability::Buffered)
        .lift()?;
    Ok(())
}

/// Runs every query once to check the result (which warms up), then `rounds` times with the clock running, or
/// once if that takes long.
fn passes<Q>(
    db: &Database,
    questions: &[Q],
    rounds: usize,
    ask: impl Fn(&Q) -> Result<QueryResult>,
    mut look: impl FnMut(usize, QueryResult) -> Result<Option<String>>,
) -> Result<Measured> {
    let mut answer = Vec::with_capacity(questions.len());
    let mut first = Timed::default();
    for (at, question) in questions.iter().enumerate() {
        let start = Instant::now();
        let found = ask(question)?;
        let time = start.elapsed();
        first.times.push(time);
        first.wall += time;
        answer.extend(look(at, found)?);
    }
    db.views().wait_ready();
    let rounds = if first.wall > LONG_RUN { 1 } else { rounds };
    let repeated = (0..rounds).flat_map(|_| questions);
    let timed = time_each(repeated, |question| ask(question).map(drop))?;
    let worst = first.percentile(1.0);
    Ok(Measured {
        timed,
        questions: questions.len() as u64,
        answer,
        notes: vec![format!(
            "the first pass: {:.1?} in all, the longest {worst:.1?}",
            first.wall
        )],
        ..Measured::default()
    })
}

/// `isomer import` of both files, as a user runs it.
fn import(engine: EngineKind, folder: &Path, data: &Path) -> Result<()> {
    let program = std::env::current_exe()?;
    let engine = match engine {
        EngineKind::Lsm => "lsm",
        EngineKind::Redb => "redb",
        _ => bail!("files are imported into a database on disk"),
    };
    let run = |rest: &[&str], file: &str| -> Result<()> {
        let done = Command::new(&program)
            .args(["--engine", engine])
            .arg("import")
            .arg(folder)
            .arg(rest[0])
            .arg(data.join(file))
            .args(&rest[1..])
            .output()
            .with_context(|| format!("{} does not start", program.display()))?;
        if !done.status.success() {
            bail!(
                "the import of {file}: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        Ok(())
    };
    run(&["nodes", "--label", "Person"], "profiles.jsonl")?;
    run(
        &[
            "relationships",
            "--columns",
            "from,to",
            "--type",
            "FRIEND",
            "--from",
            "Person",
            "--to",
            "Person",
        ],
        "edges.tsv",
    )
}

fn add(tally: &mut Tally, node: &Value) -> Result<()> {
    let content = node.as_node().and_then(|node| node.content.as_ref());
    let properties = &content
        .context("a node came without its properties")?
        .properties;
    let number = |name: &str| properties.get(name).and_then(Value::as_int);
    let key = properties.get("_key").context("a profile has no _key")?;
    tally.add(
        key_of(key)?,
        number("AGE"),
        number("completion").unwrap_or(0),
    );
    Ok(())
}

fn key_of(value: &Value) -> Result<u32> {
    person(value.as_str().context("a key is not a string")?)
}

fn int(value: &Value) -> Result<i64> {
    value.as_int().context("a number is not an integer")
}

/// Progress of a load.
struct Progress<'r>(&'r mut dyn Report);

impl BulkWatch for Progress<'_> {
    fn progress(&mut self, phase: BulkPhase, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let total = total.filter(|_| phase == BulkPhase::Writing);
        self.0.progress(done, total);
        ControlFlow::Continue(())
    }
}
