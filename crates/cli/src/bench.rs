//! `isomer bench` and `isomer generate`.

use std::{io::IsTerminal, path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_bench::{
    Network, convergent, core, files, guanciale, language, network, pokec, processes,
    report::{Case, Report},
    server, uuid,
};
use isomer_db::Sharing;

use crate::{
    open,
    style::{counted, duration, line},
};

/// Options of `isomer bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer bench core --scale 0.1

Prints one JSON object per line for each result, and nothing else, on standard output:
  {\"bench\":\"core\",\"case\":\"point_read_us\",\"value\":7.250,\"unit\":\"us\",\"n\":50000}")]
pub struct BenchOptions {
    /// Which benchmark
    #[arg(value_enum)]
    pub name: BenchName,
    /// Size of the data: 1.0 is 1,632,803 people and 30,622,564 relationships, a million documents, or the size given
    /// with the name
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1)]
    pub scale: f64,
    /// Folder in which the database is created, and removed afterwards [default: the folder for temporary files]
    #[arg(long, visible_alias = "dir", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// The layer that `uuid` measures
    #[arg(long, value_enum, default_value_t)]
    pub layer: Layer,
    /// Acts as this system in a comparison: reads jobs from standard input, one per line, and answers each
    #[arg(long, value_enum, value_name = "SYSTEM", hide = true)]
    pub worker: Option<Worker>,
    /// Acts as the client of idle connections to the server at this address
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub hold: Option<std::net::SocketAddr>,
    /// Acts as one of the processes of `processes`
    #[arg(long, hide = true)]
    pub member: bool,
    /// For `--worker`: the folder that `isomer generate --questions` filled
    #[arg(long, value_name = "FOLDER", requires = "worker", hide = true)]
    pub data: Option<PathBuf>,
}

/// Layers that `uuid` measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Layer {
    /// The storage contract alone
    Contract,
    /// A bucket, with all layers: names of cases begin with bucket_
    Bucket,
    /// Both, in sequence
    #[default]
    Both,
}

impl Layer {
    fn layers(self) -> &'static [uuid::Layer] {
        match self {
            Self::Contract => &[uuid::Layer::Contract],
            Self::Bucket => &[uuid::Layer::Bucket],
            Self::Both => &[uuid::Layer::Contract, uuid::Layer::Bucket],
        }
    }
}

/// Systems that take part in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Worker {
    /// This database
    Isomer,
    /// Plain loops over arrays
    Limit,
}

impl From<Worker> for pokec::worker::System {
    fn from(worker: Worker) -> Self {
        match worker {
            Worker::Isomer => Self::Isomer,
            Worker::Limit => Self::Limit,
        }
    }
}

/// The benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchName {
    /// Load, point reads, neighbours, an aggregate, single writes
    Core,
    /// The overhead of the language over the storage, and the cost of planning
    Language,
    /// Five queries on a social network: reads, writes, an aggregate, neighbours, shortest paths
    Pokec,
    /// Recommendations (items liked by people with the same likes); creation of nodes and relationships
    Guanciale,
    /// Pairs of UUIDs, 10 million at scale 1, on the storage contract and through a bucket
    Uuid,
    /// Elements added one by one to a set in a map, a million at scale 1; counters
    Convergent,
    /// One database in several processes: writes of all, the cost for one that is alone; 10 million pairs at scale 1
    Processes,
    /// Single documents read and written over HTTP and Bolt, of a million at scale 1; 10,000 idle connections
    Server,
}

/// Runs the command.
pub fn command(options: &BenchOptions) -> Result<()> {
    if let Some(address) = options.hold {
        return server::hold(
            address,
            &mut std::io::stdin().lock(),
            &mut std::io::stdout(),
        );
    }
    if options.member {
        return processes::member(&mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    }
    check_scale(options.scale)?;
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)
            .with_context(|| format!("cannot create a folder in {}", folder.display()))?,
        None => tempfile::tempdir().context("cannot create a temporary folder")?,
    };
    if cfg!(debug_assertions) {
        report!("note: this build is not optimised: its figures say little");
    }
    if let Some(worker) = options.worker {
        return work(options, worker.into(), folder.path());
    }
    let mut report = BenchReport::new();
    let (folder, scale) = (folder.path(), options.scale);
    let sharing = open::sharing().unwrap_or(Sharing::Exclusive);
    let outcome = match options.name {
        BenchName::Language => language::run(folder, scale, &mut report),
        BenchName::Core => core::run(folder, scale, open::sharing(), &mut report),
        BenchName::Pokec => pokec::run(folder, scale, open::engine(), sharing, &mut report),
        BenchName::Guanciale => guanciale::run(folder, scale, &mut report),
        BenchName::Convergent => convergent::run(folder, scale, open::engine(), &mut report),
        BenchName::Server => serve(folder, scale, &mut report),
        BenchName::Processes => {
            let program = std::env::current_exe()?;
            let command = || {
                let mut command = std::process::Command::new(&program);
                command.args(["bench", "processes", "--member"]);
                command
            };
            processes::run(folder, scale, &command, &mut report)
        }
        BenchName::Uuid => {
            let options = uuid::Options {
                scale,
                engine: open::engine(),
                sharing,
                layers: options.layer.layers(),
                cache_bytes: uuid::CACHE_BYTES,
            };
            uuid::run(folder, options, &mut report)
        }
    };
    report.bar.finish_and_clear();
    outcome
}

/// Maximum connections of the server.
const CONNECTIONS: usize = 20_000;

/// Starts a server in this process and measures it.
fn serve(folder: &std::path::Path, scale: f64, report: &mut BenchReport) -> Result<()> {
    use isomer_server::{ServeOptions, config::Layers};
    let mut layers = Layers::new();
    for (key, value) in [
        ("listen", "127.0.0.1:0"),
        ("bolt", "127.0.0.1:0"),
        ("without_authentication", "true"),
        ("log.audit", "off"),
        ("limits.connections", &CONNECTIONS.to_string()),
        ("limits.connections_per_address", &CONNECTIONS.to_string()),
        ("limits.import", "1TiB"),
    ] {
        layers.add_flag(key, value)?;
    }
    // Child processes inherit the limit.
    let connections = isomer_server::files::room_for_connections(CONNECTIONS);
    let mut options = ServeOptions::new(layers.config()?);
    options.builder = open::shared_builder();
    options.create = true;
    options.databases = vec![(Some("bench".to_owned()), folder.join("db"))];
    let running = isomer_server::start(options)?;
    let bolt = running
        .bolt_address()
        .context("the server does not speak Bolt")?;
    let mut client = std::process::Command::new(std::env::current_exe()?);
    client
        .args(["bench", "server", "--hold"])
        .arg(running.address().to_string());
    let outcome = server::run(running.address(), bolt, connections, client, scale, report);
    running.stop()?;
    outcome
}

/// Answers jobs until there are no more.
fn work(
    options: &BenchOptions,
    system: pokec::worker::System,
    folder: &std::path::Path,
) -> Result<()> {
    let (mut jobs, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
    match options.name {
        BenchName::Core
        | BenchName::Language
        | BenchName::Uuid
        | BenchName::Convergent
        | BenchName::Processes
        | BenchName::Server => {
            bail!("only pokec and guanciale can be compared with other systems")
        }
        BenchName::Guanciale => guanciale::worker::serve(system, &mut jobs, &mut out),
        BenchName::Pokec => {
            let data = options.data.as_deref().context(
                "--worker needs --data: the folder that `isomer generate --questions` filled",
            )?;
            pokec::worker::serve(system, open::engine(), data, folder, &mut jobs, &mut out)
        }
    }
}

fn check_scale(scale: f64) -> Result<()> {
    if !(scale > 0.0 && scale <= 10.0) {
        bail!("the scale is {scale}: give a number above 0 and up to 10");
    }
    Ok(())
}

/// Results on standard output, everything else on standard error.
struct BenchReport {
    bar: ProgressBar,
}

impl BenchReport {
    fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {msg} {human_pos} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        Self { bar }
    }
}

impl Report for BenchReport {
    fn case(&mut self, case: Case) {
        self.bar.suspend(|| {
            if let Err(error) = line(&case.to_json()) {
                report!("error: cannot write standard output: {error}");
            }
        });
    }

    fn progress(&mut self, done: u64, total: Option<u64>) {
        match total {
            Some(total) => self.bar.set_length(total.max(done)),
            None => self.bar.unset_length(),
        }
        self.bar.set_position(done);
    }

    fn stage(&mut self, what: &str) {
        self.bar.set_position(0);
        self.bar.unset_length();
        self.bar.set_message(format!("{what} …"));
        if self.bar.is_hidden() {
            report!("{what} …");
        }
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| report!("  {text}"));
    }
}

/// Options of `isomer generate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer generate data --scale 0.01
  isomer import people.db nodes data/profiles.jsonl --label Person
  isomer import people.db relationships data/edges.tsv --columns from,to --type FRIEND --from Person --to Person

Writes profiles.jsonl, edges.tsv, keys.txt (keys to read) and pairs.tsv (pairs with the length of their shortest path).
The same scale and seed give the same files everywhere.")]
pub struct GenerateOptions {
    /// The target folder; created if it is missing
    pub folder: PathBuf,
    /// Size: 1.0 is 1,632,803 people and 30,622,564 relationships
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1)]
    pub scale: f64,
    /// Seed of the generator: another seed gives another network
    #[arg(long, value_name = "N", default_value_t = network::DEFAULT_SEED)]
    pub seed: u64,
    /// Also writes the queries of `isomer bench` and their correct results, for comparisons with other systems
    #[arg(long)]
    pub questions: bool,
}

/// Writes a social network as files.
pub fn generate(options: &GenerateOptions) -> Result<()> {
    check_scale(options.scale)?;
    let start = Instant::now();
    std::fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot create {}", options.folder.display()))?;
    let network = Network::at_scale(options.scale, options.seed);
    files::write_files(&network, &options.folder)
        .with_context(|| format!("cannot write the files in {}", options.folder.display()))?;
    if options.questions {
        questions(&network, options)
            .with_context(|| format!("the questions in {}", options.folder.display()))?;
    }
    let people = format!(
        "{} and {}",
        counted(u64::from(network.people()), "profile"),
        counted(network.edges().len() as u64, "relationship")
    );
    line(&format!(
        "wrote {people} to {} in {}",
        options.folder.display(),
        duration(start.elapsed())
    ))?;
    Ok(())
}

/// The queries of `pokec` and `guanciale`, with their results.
fn questions(network: &Network, options: &GenerateOptions) -> Result<()> {
    use guanciale::likes::{Likes, Shape};
    use pokec::{
        arrays::Arrays,
        questions::{Answers, Questions},
    };
    let questions = Questions::draw(network);
    questions.write(&options.folder)?;
    Answers::find(&Arrays::of_network(network, false), &questions)?.write(&options.folder)?;
    Shape::grid(options.scale.min(1.0))
        .into_iter()
        .try_for_each(|shape| Likes::draw(shape).write(&options.folder))
}
