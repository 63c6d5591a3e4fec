//! Libraries of Neo4j's ecosystem against a server: the programs in `tests/compat`.
//!
//! Each library is installed into `target/compat` in the version that its manifest pins, and reused; each program gets
//! a separate server. The suite `compat` runs a part of them, `cargo xtask compat` all.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    commands::succeeds,
    context::{Context, test_environment},
    live::{Live, Status},
    needs::on_path,
    process::{self, Log},
    server::{PASSWORD, Server},
    tally::Tally,
    workspace,
};

/// The installer of Python packages; it pins those that others depend on by date.
const UV: &str = "uv==0.13.8";
/// Packages released later are not installed.
const PYTHON_DATE: &str = "2026-11-27";
/// What marks a test that must fail: see `tests/compat/README.md`.
const EXPECTED: &str = " (expected to fail)";
/// Limits of an installation and of a program.
const INSTALL_MINUTES: u64 = 15;
const RUN_MINUTES: u64 = 5;

/// How a library is installed and its program run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `requirements.txt`, `program.py`; a virtual environment.
    Python,
    /// `package.json`, `program.js`.
    Node,
    /// `pom.xml`, `*.java`; the class with `main`.
    Java(&'static str),
    /// `pom.xml`, `program.py`, which starts Java.
    JavaShell,
    /// `Cargo.toml`, `src`; the package.
    Rust(&'static str),
}

impl Kind {
    /// The programs that it needs.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["python3"],
            Self::Node => &["node", "npm"],
            Self::Java(_) => &["java", "javac", "mvn"],
            Self::JavaShell => &["java", "mvn", "python3"],
            Self::Rust(_) => &["cargo"],
        }
    }
}

/// A library.
#[derive(Debug)]
struct Library {
    name: &'static str,
    /// The library as its registry names it, and the version that the manifest pins.
    package: &'static str,
    version: &'static str,
    /// Its folder below `tests/compat`.
    folder: &'static str,
    kind: Kind,
    /// Whether the suite `compat` runs it.
    is_in_suite: bool,
}

impl Library {
    const fn of(
        name: &'static str,
        package: &'static str,
        version: &'static str,
        kind: Kind,
    ) -> Self {
        Self {
            name,
            package,
            version,
            folder: name,
            kind,
            is_in_suite: false,
        }
    }

    const fn in_folder(self, folder: &'static str) -> Self {
        Self { folder, ..self }
    }

    const fn in_suite(self) -> Self {
        Self {
            is_in_suite: true,
            ..self
        }
    }
}

const LIBRARIES: &[Library] = &[
    Library::of("browser", "neo4j-driver", "6.3.0", Kind::Node).in_suite(),
    Library::of("cypher-shell", "cypher-shell", "5.26.0", Kind::JavaShell).in_suite(),
    Library::of("gqlalchemy", "gqlalchemy", "1.10.0", Kind::Python),
    Library::of("graphiti", "graphiti-core", "0.31.2", Kind::Python),
    Library::of("graphql", "@neo4j/graphql", "7.6.3", Kind::Node).in_suite(),
    Library::of("graphrag", "neo4j-graphrag", "1.22.0", Kind::Python),
    Library::of(
        "jdbc",
        "neo4j-jdbc-bundle",
        "6.10.5",
        Kind::Java("jdbc.Program"),
    ),
    Library::of("langchain", "langchain-neo4j", "0.11.0", Kind::Python),
    Library::of("lightrag", "lightrag-hku", "1.5.7", Kind::Python),
    Library::of(
        "llamaindex",
        "llama-index-graph-stores-neo4j",
        "0.8.0",
        Kind::Python,
    ),
    Library::of(
        "neo4rs-next",
        "neo4rs",
        "0.9.0-rc.11",
        Kind::Rust("compat-neo4rs-next"),
    )
    .in_folder("neo4rs/next"),
    Library::of(
        "neo4rs-stable",
        "neo4rs",
        "0.8.0",
        Kind::Rust("compat-neo4rs-stable"),
    )
    .in_folder("neo4rs/stable")
    .in_suite(),
    Library::of("neode", "neode", "0.4.9", Kind::Node),
    Library::of("neogma", "neogma", "1.16.1", Kind::Node),
    Library::of("neomodel", "neomodel", "7.0.0", Kind::Python).in_suite(),
    Library::of("ogm", "neo4j-ogm-core", "4.0.18", Kind::Java("ogm.Program")),
    Library::of("py2neo", "py2neo", "2021.2.4", Kind::Python),
    Library::of(
        "spring-elements",
        "spring-boot-dependencies",
        "3.5.7",
        Kind::Java("spring.elements.Elements"),
    )
    .in_folder("spring")
    .in_suite(),
    Library::of(
        "spring-numbers",
        "spring-boot-dependencies",
        "3.5.7",
        Kind::Java("spring.numbers.Numbers"),
    )
    .in_folder("spring"),
];

/// Installs the libraries of the suite.
pub fn install(context: &mut Context<'_>) -> Result<Tally> {
    let target = Target::new()?;
    let mut tally = Tally::default();
    for library in LIBRARIES.iter().filter(|library| library.is_in_suite) {
        let done = context.check(
            &mut target.installation(library),
            INSTALL_MINUTES,
            library.name,
        )?;
        if done.failed > 0 {
            tally = tally.and(done);
        }
    }
    Ok(tally)
}

/// Runs the programs of the suite, one after the other.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let target = Target::new()?;
    let isomer = context.isomer();
    let mut tally = Tally::default();
    for library in LIBRARIES.iter().filter(|library| library.is_in_suite) {
        let server = Server::start(&isomer, &target.servers(), library.name, &[])?;
        let mut command = target.program(library, &server);
        tally = tally.and(context.count(&mut command, RUN_MINUTES, library.name)?);
        context.busy += server.busy();
    }
    Ok(tally)
}

/// Installs the named libraries, or all, runs their programs in parallel and prints a table; returns whether no test
/// failed. The server is `isomer`, or else it is built.
pub fn run(names: &[String], jobs: usize, isomer: Option<PathBuf>) -> Result<bool> {
    for name in names {
        if LIBRARIES.iter().all(|library| library.name != name) {
            let known: Vec<&str> = LIBRARIES.iter().map(|library| library.name).collect();
            bail!("unknown library `{name}`: expected {}", known.join(", "));
        }
    }
    let isomer = match isomer {
        Some(isomer) => isomer
            .canonicalize()
            .with_context(|| isomer.display().to_string())?,
        None => {
            let mut build = workspace::cargo();
            build.args(["build", "--locked", "-p", "isomer-cli"]);
            if !succeeds(&mut build)? {
                return Ok(false);
            }
            workspace::target_dir().join("debug/isomer")
        }
    };
    process::handle_interrupts()?;
    let target = Target::new()?;
    let chosen: Vec<&Library> = LIBRARIES
        .iter()
        .filter(|library| names.is_empty() || names.iter().any(|name| name == library.name))
        .collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, chosen.len()) {
            scope.spawn(|| {
                while let Some(library) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let outcome = try_library(library, &target, &isomer);
                    let row = Row::new(library, outcome, began.elapsed());
                    println!("{row}");
                    outcomes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(row);
                }
            });
        }
    });
    let mut rows = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|row| row.library.name);
    println!("\n{}", Row::HEAD);
    rows.iter().for_each(|row| println!("{row}"));
    for row in rows.iter().filter(|row| !row.is_good()) {
        println!(
            "\n{}: see {}",
            row.library.name,
            target.log(row.library).display()
        );
        row.failures
            .iter()
            .for_each(|failure| println!("  {failure}"));
    }
    Ok(rows.iter().all(Row::is_good))
}

/// A line of the table.
struct Row {
    library: &'static Library,
    passed: u64,
    expected: u64,
    failures: Vec<String>,
    took: Duration,
}

impl Row {
    const HEAD: &'static str = "library           package                         version      passed expected failed seconds";

    fn new(library: &'static Library, outcome: Result<(Tally, u64)>, took: Duration) -> Self {
        let (passed, expected, failures) = match outcome {
            Ok((tally, expected)) => (
                tally.passed - expected.min(tally.passed),
                expected,
                tally.failures,
            ),
            Err(error) => (0, 0, vec![format!("{error:#}")]),
        };
        Self {
            library,
            passed,
            expected,
            failures,
            took,
        }
    }

    fn is_good(&self) -> bool {
        self.failures.is_empty()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{:<17} {:<31} {:<12} {:>6} {:>8} {:>6} {:>7.1}",
            self.library.name,
            self.library.package,
            self.library.version,
            self.passed,
            self.expected,
            self.failures.len(),
            self.took.as_secs_f64()
        )
    }
}

/// Installs a library and runs its program; the results, and how many tests failed as expected.
fn try_library(library: &'static Library, target: &Target, isomer: &Path) -> Result<(Tally, u64)> {
    let missing = library.kind.tools().iter().find(|tool| !on_path(tool));
    if let Some(tool) = missing {
        bail!("`{tool}` is not installed");
    }
    let mut log = Log::new(File::create(target.log(library))?);
    let mut live = Live::Status(Status::default());
    let mut run = |command: &mut Command, minutes: u64, tally: &mut Tally, expected: &mut u64| {
        let limit = Duration::from_secs(minutes * 60);
        process::run(command, limit, &mut log, &mut live, &mut |_, line| {
            tally.read_line(line);
            *expected += u64::from(
                line.starts_with("test ") && line.contains(EXPECTED) && line.ends_with("ok"),
            );
            true
        })
    };
    let (mut tally, mut expected) = (Tally::default(), 0);
    let mut installation = target.installation(library);
    if !run(
        &mut installation,
        INSTALL_MINUTES,
        &mut tally,
        &mut expected,
    )?
    .succeeded
    {
        bail!("it cannot be installed");
    }
    let server = Server::start(isomer, &target.servers(), library.name, &[])?;
    let mut command = target.program(library, &server);
    test_environment(&mut command, false);
    let ended = run(&mut command, RUN_MINUTES, &mut tally, &mut expected)?;
    if let Some(missing) = tally.missing_results() {
        tally.fail(missing);
    } else if !ended.succeeded && tally.failed == 0 {
        tally.fail("the program failed after its tests");
    }
    Ok((tally, expected))
}

/// Where libraries are installed, and where their sources are.
struct Target {
    folder: PathBuf,
    sources: PathBuf,
}

impl Target {
    fn new() -> Result<Self> {
        let folder = workspace::target_dir().join("compat");
        fs::create_dir_all(folder.join("servers"))
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Self {
            folder: folder.canonicalize()?,
            sources: workspace::root().join("tests/compat"),
        })
    }

    fn servers(&self) -> PathBuf {
        self.folder.join("servers")
    }

    fn log(&self, library: &Library) -> PathBuf {
        self.folder.join(format!("{}.log", library.name))
    }

    fn installed(&self, library: &Library) -> PathBuf {
        match library.kind {
            Kind::Rust(_) => self.folder.join("neo4rs-build"),
            _ => self.folder.join(library.folder),
        }
    }

    /// Installs a library unless its manifest is the one that was installed.
    fn installation(&self, library: &Library) -> Command {
        let sources = self.sources.join(library.folder);
        let installed = self.installed(library);
        if let Kind::Rust(_) = library.kind {
            let mut command = workspace::cargo();
            command
                .args(["build", "--locked", "--manifest-path"])
                .arg(sources.join("Cargo.toml"))
                .env("CARGO_TARGET_DIR", installed);
            return command;
        }
        let script = match library.kind {
            Kind::Python => {
                "test -x \"$3/uv/bin/uv\" || flock \"$3/uv.lock\" sh -c 'test -x \"$0/uv/bin/uv\" || \
                 { python3 -m venv \"$0/uv\" && \"$0/uv/bin/pip\" install -q \"$1\"; }' \"$3\" \"$4\" && \
                 cat \"$1\"/*.txt > \"$2.wanted\" && cmp -s \"$2.wanted\" \"$2/done\" && exit; \
                 uv=\"$3/uv/bin/uv\"; export UV_CACHE_DIR=\"$3/uv-cache\"; rm -rf \"$2\"; \
                 overrides=; test -e \"$1/overrides.txt\" && overrides=\"--overrides $1/overrides.txt\"; \
                 \"$uv\" venv -q --python python3 \"$2\" && \
                 \"$uv\" pip install -q --exclude-newer \"$5\" --python \"$2/bin/python\" -r \"$1/requirements.txt\" $overrides && \
                 cp \"$2.wanted\" \"$2/done\""
            }
            Kind::Node => {
                "mkdir -p \"$2\" && cmp -s \"$1/package.json\" \"$2/done\" && exit; \
                 cp \"$1/package.json\" \"$2\" && cd \"$2\" && \
                 npm install --ignore-scripts --no-audit --no-fund --no-package-lock && cp package.json done"
            }
            _ => {
                "mkdir -p \"$2\" && exec 9> \"$2.lock\" && flock 9 && \
                 cat \"$1\"/* \"$1\"/../harness/Harness.java > \"$2.wanted\" && \
                 cmp -s \"$2.wanted\" \"$2/done\" && exit; \
                 rm -rf \"$2\" && mkdir \"$2\" && \
                 mvn -q -B -f \"$1/pom.xml\" dependency:copy-dependencies -DoutputDirectory=\"$2\" && \
                 { ! ls \"$1\"/*.java > /dev/null 2>&1 || \
                 javac -parameters -cp \"$2/*\" -d \"$2/classes\" \"$1\"/../harness/Harness.java \"$1\"/*.java; } && \
                 cp \"$2.wanted\" \"$2/done\""
            }
        };
        let mut command = Command::new("bash");
        command
            .args(["-c", script, "install"])
            .args([&sources, &installed, &self.folder])
            .args([UV, PYTHON_DATE]);
        command
    }

    /// The program of a library, with the addresses of its server in the environment.
    fn program(&self, library: &Library, server: &Server) -> Command {
        let sources = self.sources.join(library.folder);
        let installed = self.installed(library);
        let mut command = match library.kind {
            Kind::Python => Command::new(installed.join("bin/python")),
            Kind::JavaShell => Command::new("python3"),
            Kind::Node => Command::new("node"),
            Kind::Java(_) => Command::new("java"),
            Kind::Rust(package) => Command::new(installed.join("debug").join(package)),
        };
        match library.kind {
            Kind::Python | Kind::JavaShell => {
                command
                    .arg(sources.join("program.py"))
                    .env("PYTHONPATH", self.sources.join("harness"))
                    .env("PYTHONDONTWRITEBYTECODE", "1");
            }
            Kind::Node => {
                command.arg(sources.join("program.js"));
            }
            Kind::Java(main) => {
                let path = format!("{0}/classes:{0}/*", installed.display());
                command.args(["-XX:TieredStopAtLevel=1", "-cp", &path, main]);
            }
            Kind::Rust(_) => {}
        }
        command
            .current_dir(&self.folder)
            .env("MODULES", installed)
            .env("BOLT", server.bolt())
            .env("URL", server.url())
            .env("PASSWORD", PASSWORD);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifests pin what the table says, and the documentation names it.
    #[test]
    fn versions_are_those_of_the_manifests_and_the_documentation() {
        let documentation = fs::read_to_string(workspace::root().join("docs/neo4j.md")).unwrap();
        for library in LIBRARIES {
            let folder = workspace::root().join("tests/compat").join(library.folder);
            let manifest = match library.kind {
                Kind::Python => "requirements.txt",
                Kind::Node => "package.json",
                Kind::Java(_) | Kind::JavaShell => "pom.xml",
                Kind::Rust(_) => "Cargo.toml",
            };
            let manifest = fs::read_to_string(folder.join(manifest)).unwrap();
            for text in [library.package, library.version] {
                assert!(
                    manifest.contains(text),
                    "{text} is not in the manifest of {}",
                    library.name
                );
            }
            let row = format!(" {}", library.version);
            assert!(
                documentation
                    .lines()
                    .any(|line| line.starts_with('|') && line.contains(&row)),
                "docs/neo4j.md has no line for {} {}",
                library.package,
                library.version
            );
        }
    }

    #[test]
    fn each_language_is_in_the_suite() {
        for kind in ["Python", "Node", "Java(", "Rust("] {
            let has = |library: &&Library| format!("{:?}", library.kind).starts_with(kind);
            let found = LIBRARIES
                .iter()
                .filter(has)
                .any(|library| library.is_in_suite);
            assert!(found, "{kind}");
        }
    }
}
