//! `isomer demo`: creates and fills a database, and shows queries with their first rows and times.

use std::{
    io::IsTerminal,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use isomer_bench::{
    Network,
    files::{PathQuery, path_queries},
    load::{load_friendships, load_people},
    network::DEFAULT_SEED,
};
use isomer_db::{
    Database, Map, QueryResult, Row, Value, internals::DatabaseInternals as _, params,
};

use crate::{
    output::{self, table},
    style::{Style, bytes, count, counted, duration, rate},
};

/// Options of `isomer demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer demo

The database is created in a temporary folder and removed afterwards.")]
pub struct DemoOptions {
    /// Number of people in the network
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    pub people: u32,
}

/// Maximum width of a result.
const TABLE_WIDTH: u16 = 116;
/// Rows shown of each result.
const SHOWN_ROWS: usize = 5;
/// Single reads and writes per measurement.
const READS: usize = 1_000;
const WRITES: usize = 20;
/// Sessions in the bucket.
const SESSIONS: u32 = 1_000;

/// Runs the command.
pub fn command(options: &DemoOptions) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("isomer-demo-")
        .tempdir()
        .context("cannot create a temporary folder")?;
    let outcome = run(&folder.path().join("people"), options);
    folder
        .close()
        .context("cannot remove the temporary folder")?;
    outcome
}

struct Demo {
    db: Database,
    network: Network,
    style: Style,
    number: u32,
}

fn run(path: &Path, options: &DemoOptions) -> Result<()> {
    let style = Style::stdout();
    say!(
        "{} A database in {}, a social network generated from a seed.\n",
        style.heading("IsomerDB demonstration."),
        path.display()
    );
    if cfg!(debug_assertions) {
        say!("(This build is not optimised: run it with --release to see real times.)\n");
    }
    let network = run_step(
        "Generating the network",
        || Ok(Network::of_people(options.people, DEFAULT_SEED)),
        |network| {
            format!(
                "{} people, {} friendships",
                count(u64::from(network.people())),
                count(network.edges().len() as u64)
            )
        },
    )?;
    let db = run_step(
        "Opening the database",
        || crate::open::open(path),
        |_| "created a database in an empty folder".into(),
    )?;
    let start = Instant::now();
    run_step(
        "Loading the profiles",
        || load_people(&db, &network, &mut ()),
        |loaded| format!("{} JSON documents", count(*loaded)),
    )?;
    run_step(
        "Loading the friendships",
        || load_friendships(&db, &network, &mut ()),
        |loaded| format!("{} relationships", count(*loaded)),
    )?;
    let loading = start.elapsed();
    let mut demo = Demo {
        db,
        network,
        style,
        number: 0,
    };
    run_step(
        "Opening sessions",
        || demo.open_sessions(),
        |opened| format!("{} keys in the bucket `sessions`", count(*opened)),
    )?;
    let rows = demo.network.edges().len() as u64 + u64::from(demo.network.people());
    let size = demo.db.store()?.engine().statistics()?.stored_bytes;
    say!(
        "\n{} rows a second while loading, {} on disk, every commit durable.",
        rate(rows, loading),
        bytes(size)
    );
    demo.single_reads()?;
    demo.single_writes()?;
    demo.aggregate()?;
    demo.neighbours()?;
    demo.paths()?;
    demo.recommendation()?;
    demo.all_models()?;
    demo.db.close()?;
    say!(
        "\n{} `isomer shell` opens an empty database to try things; `isomer --help` lists all commands.",
        style.heading("End of the demonstration.")
    );
    Ok(())
}

/// Runs one step, and prints its result and its time.
fn run_step<T>(
    what: &str,
    work: impl FnOnce() -> Result<T>,
    summary: impl FnOnce(&T) -> String,
) -> Result<T> {
    let target = if std::io::stdout().is_terminal() {
        ProgressDrawTarget::stdout()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.enable_steady_tick(Duration::from_millis(80));
    bar.set_message(format!("{what} …"));
    let start = Instant::now();
    let made = work();
    bar.finish_and_clear();
    let made = made.with_context(|| format!("{}: failed", what.to_lowercase()))?;
    say!(
        "  {what:<24} {:>9}  {}",
        duration(start.elapsed()),
        summary(&made)
    );
    Ok(made)
}

impl Demo {
    /// The person with the most friendships: every query about them has rows.
    fn hub(&self) -> String {
        let mut counts = vec![0u32; self.network.people() as usize];
        for &(source, _) in self.network.edges() {
            counts[source as usize] += 1;
        }
        // Well connected, but not the most connected person: the friends of a friend must fit on a screen.
        let chosen = (0..self.network.people())
            .filter(|&person| counts[person as usize] <= 40)
            .max_by_key(|&person| counts[person as usize])
            .unwrap_or(0);
        Network::key(chosen)
    }

    fn open_sessions(&self) -> Result<u64> {
        let stride = (self.network.people() / SESSIONS).max(1);
        let sessions: Vec<Value> = (0..SESSIONS)
            .map(|session| {
                let user = if session == 0 {
                    self.hub()
                } else {
                    Network::key((session * stride) % self.network.people())
                };
                params! { "id" => format!("session-{session:04}"), "user" => user }.into()
            })
            .collect();
        self.db.query((
            "UNWIND $sessions AS s CALL kv.put('sessions', s.id, s.user)",
            params! { "sessions" => sessions },
        ))?;
        Ok(u64::from(SESSIONS))
    }

    fn title(&mut self, text: &str) -> Result<()> {
        self.number += 1;
        say!(
            "\n{}",
            self.style.heading(&format!("{}. {text}", self.number))
        );
        Ok(())
    }

    fn show_query(&self, text: &str, params: &Map) -> Result<()> {
        for line in text.lines() {
            say!("   {}", self.style.bold(line));
        }
        self.show_params(params)
    }

    fn show_params(&self, params: &Map) -> Result<()> {
        if !params.is_empty() {
            let given: Vec<String> = params
                .iter()
                .map(|(name, value)| format!("${name} = {}", quoted(value)))
                .collect();
            say!(
                "   {}",
                self.style.dim(&format!("with {}", given.join(", ")))
            );
        }
        Ok(())
    }

    /// Prints a query, runs it twice and prints its first rows and the second time.
    fn run_query(&self, text: &str, params: Map) -> Result<QueryResult> {
        self.show_query(text, &Map::new())?;
        self.answer(text, params)
    }

    /// Prints a query's parameters, its first rows and its time.
    fn answer(&self, text: &str, params: Map) -> Result<QueryResult> {
        self.show_params(&params)?;
        let query = self.db.prepare(text)?;
        let first = Instant::now();
        query.query(&params)?;
        let first = first.elapsed();
        let again = Instant::now();
        let result = query.query(&params)?;
        let again = again.elapsed();
        self.show_rows(&result)?;
        say!(
            "   {}",
            self.style.dim(&format!(
                "{} in {} (the first time {})",
                counted(result.len() as u64, "row"),
                duration(again),
                duration(first)
            ))
        );
        Ok(result)
    }

    fn show_rows(&self, result: &QueryResult) -> Result<()> {
        let rows: Vec<Row> = result.iter().take(SHOWN_ROWS).cloned().collect();
        if rows.is_empty() {
            say!("   (no rows)");
            return Ok(());
        }
        for line in table(result.columns(), &rows, Some(TABLE_WIDTH)).lines() {
            say!("   {line}");
        }
        if result.len() > rows.len() {
            say!("   … {} more", count((result.len() - rows.len()) as u64));
        }
        Ok(())
    }

    fn single_reads(&mut self) -> Result<()> {
        self.title("Single reads: one document by its key")?;
        let text = "MATCH (p:Person {_key: $key}) RETURN p";
        let result = self.db.query((text, [("key", "P1")]))?;
        self.show_query(text, &params! { "key" => "P1" })?;
        self.show_rows(&result)?;
        let query = self.db.prepare(text)?;
        let stride = (self.network.people() as usize / READS).max(1);
        let start = Instant::now();
        for person in (0..self.network.people()).step_by(stride).take(READS) {
            query.query([("key", Network::key(person))])?;
        }
        let time = start.elapsed();
        say!(
            "   {}",
            self.style.dim(&format!(
                "{} reads, prepared: {} each",
                count(READS as u64),
                duration(time / READS as u32)
            ))
        );
        Ok(())
    }

    fn single_writes(&mut self) -> Result<()> {
        self.title("Single writes: one document a transaction, on disk when it returns")?;
        let text = "CREATE (v:Visit {_key: $key, person: $person, page: '/home'})";
        self.show_query(text, &params! { "key" => "V0", "person" => "P1" })?;
        let query = self.db.prepare(text)?;
        let start = Instant::now();
        for number in 0..WRITES {
            query.query(params! { "key" => format!("V{number}"), "person" => "P1" })?;
        }
        let time = start.elapsed();
        say!(
            "   {}",
            self.style.dim(&format!(
                "{WRITES} durable writes: {} each",
                duration(time / WRITES as u32)
            ))
        );
        Ok(())
    }

    fn aggregate(&mut self) -> Result<()> {
        self.title("An aggregate over every document: how many people there are of each age")?;
        self.run_query(
            "MATCH (p:Person) RETURN p.AGE AS age, count(*) AS people ORDER BY people DESC",
            Map::new(),
        )?;
        Ok(())
    }

    fn neighbours(&mut self) -> Result<()> {
        self.title("Neighbours of neighbours: friends of my friends")?;
        self.run_query("MATCH (:Person {_key: $key})-[:FRIEND]->()-[:FRIEND]->(f)\nRETURN DISTINCT f._key AS person, f.home.town AS town", params! { "key" => self.hub() })?;
        Ok(())
    }

    fn paths(&mut self) -> Result<()> {
        self.title("Shortest paths: the number of people between two strangers")?;
        let text = "MATCH (a:Person {_key: $from}), (b:Person {_key: $to})\nMATCH p = shortestPath((a)-[:FRIEND*]->(b))\nRETURN length(p) AS steps, [n IN nodes(p) | n._key] AS over";
        let queries = path_queries(&self.network, 2);
        self.show_query(text, &Map::new())?;
        for PathQuery {
            source,
            target,
            distance,
        } in queries
        {
            let result = self.answer(
                text,
                params! { "from" => Network::key(source), "to" => Network::key(target) },
            )?;
            if distance.is_none() && result.is_empty() {
                say!(
                    "   {}",
                    self.style
                        .dim("there is no path, which is the correct result")
                );
            }
        }
        Ok(())
    }

    fn recommendation(&mut self) -> Result<()> {
        self.title("A recommendation: the people whom most of my friends know and I do not")?;
        self.run_query(
            "MATCH (me:Person {_key: $key})-[:FRIEND]->(friend)-[:FRIEND]->(other)\nWHERE other <> me AND NOT (me)-[:FRIEND]->(other)\nRETURN other._key AS person, count(*) AS friends, other.home.town AS town\nORDER BY friends DESC, person LIMIT 10",
            params! { "key" => self.hub() },
        )?;
        Ok(())
    }

    fn all_models(&mut self) -> Result<()> {
        self.title("All three models in one query: a session from a bucket, its user's document, friends of friends by a nested property")?;
        self.run_query(
            "MATCH (me:Person {_key: kv.get('sessions', $session)})-[:FRIEND]->()-[:FRIEND]->(other)\nWHERE other.looks.eyes = 'green' AND other.home.province = me.home.province\nRETURN DISTINCT other._key AS person, other.home.town AS town, other.looks.hair AS hair\nORDER BY person LIMIT 10",
            params! { "session" => "session-0000" },
        )?;
        Ok(())
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        other => output::text(other),
    }
}
