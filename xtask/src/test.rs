//! `cargo xtask test`: runs the suites in parallel and adds up their results.
//!
//! What is installed first and what is built decides when a part of a suite can start; the [`Pool`] decides when it
//! does. Every program has its own log.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build::Build,
    context::Context,
    durations::Durations,
    live::{Live, Screen},
    needs::{self, Missing},
    pool::{Cost, Finished, Limits, Pool},
    portions::{self, LONG_SECONDS, Portion},
    process::{self, Log},
    suites::{Invocation, Part, SUITES, Suite, When, Work},
    table::{Row, Table},
    tally::Tally,
    test_program::TestProgram,
    usage, workspace,
};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Options {
    /// Counts skipped tests as failed, except for missing shared data and for what the machine does not allow
    #[arg(long)]
    strict: bool,
    /// Fewer repetitions, fewer suites, no release build: for the loop of writing code
    #[arg(long)]
    quick: bool,
    /// Also the suites that take long and seldom find anything that others do not: `redb`, `platforms`
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Only this suite; may be given several times
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Cores to keep busy [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Lists the suites
    #[arg(long)]
    list: bool,
}

impl Options {
    fn names(&self, suite: &str) -> bool {
        self.suites.iter().any(|name| name == suite)
    }
}

/// Runs the selected suites; returns whether none failed.
pub fn run(options: &Options) -> Result<bool> {
    if options.list {
        for suite in SUITES {
            println!("{:<10} {}", suite.name, suite.about);
        }
        return Ok(true);
    }
    let logs = workspace::target_dir().join("xtask");
    fs::create_dir_all(&logs).with_context(|| format!("{} cannot be made", logs.display()))?;
    println!("logs in {}", logs.display());
    process::handle_interrupts()?;
    let mut run = Run::new(options, logs)?;
    run.start();
    run.finish()
}

/// What a task of the pool does.
#[derive(Clone, Debug)]
enum Key {
    /// Installs the prerequisites of a suite, given by its place in [`Run::suites`].
    Install(usize),
    /// Builds.
    Build(Build),
    /// Runs a part of a suite, or one of its programs.
    Part { suite: usize, part: usize },
}

/// The result of a task.
enum Outcome {
    Installed(Result<(), Missing>),
    Built {
        programs: Option<Vec<TestProgram>>,
        report: Report,
    },
    Ran {
        tally: Tally,
        report: Report,
    },
}

/// What a task leaves besides its result.
#[derive(Default)]
struct Report {
    busy: Duration,
    notes: Vec<String>,
    /// The last lines of the log.
    tail: Vec<String>,
    log: PathBuf,
}

/// A suite of this run.
struct State {
    suite: &'static Suite,
    tally: Tally,
    row: Row,
    /// Its prerequisites are installed.
    is_ready: bool,
    parts: Vec<Progress>,
}

/// A part of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It waits for a build, a prerequisite or another part.
    Waiting,
    /// Number of its tasks that are in the pool.
    Started(usize),
    /// All its tasks ended.
    Ended,
}

/// A build of this run.
enum Progressing {
    Started,
    Ended(Option<Arc<Vec<TestProgram>>>),
}

/// One run: its suites, builds and totals.
struct Run<'a> {
    options: &'a Options,
    logs: PathBuf,
    started: Instant,
    suites: Vec<State>,
    builds: BTreeMap<Build, Progressing>,
    pool: Pool<Key, Outcome>,
    durations: Durations,
    table: Table,
    total: Total,
}

/// Totals over all suites.
#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    /// What the failed tests said.
    said: Vec<String>,
    notes: Vec<String>,
}

/// Percent of a core that the pool fills per core: many tests wait for disks, timers and clients.
const FILL_PERCENT: u32 = 150;

impl<'a> Run<'a> {
    fn new(options: &'a Options, logs: PathBuf) -> Result<Self> {
        let mut total = Total::default();
        let suites: Vec<State> = select_suites(options, &mut total.notes)?
            .into_iter()
            .map(|suite| State {
                suite,
                tally: Tally::default(),
                row: Row::new(suite.name),
                is_ready: false,
                parts: select_parts(options, suite, &mut total.notes),
            })
            .collect();
        let cores = options
            .jobs
            .unwrap_or_else(|| workspace::core_count() as u32);
        let file = match options.quick {
            true => "durations-quick.json",
            false => "durations.json",
        };
        Ok(Self {
            options,
            suites,
            builds: BTreeMap::new(),
            pool: Pool::new(Limits {
                cores_percent: cores * FILL_PERCENT,
                // The rest is for caches of files, and for estimates that are too low.
                memory_mib: usage::available_memory_mib().map_or(u64::MAX, |free| free * 4 / 5),
            }),
            durations: Durations::load(logs.join(file)),
            logs,
            started: Instant::now(),
            table: Table::default(),
            total,
        })
    }

    /// Adds everything that can start.
    fn start(&mut self) {
        for at in 0..self.suites.len() {
            let suite = self.suites[at].suite;
            if suite.needs.iter().all(needs::Need::is_met) {
                self.suites[at].is_ready = true;
                continue;
            }
            let cost = Cost {
                cores_percent: 0,
                memory_mib: 0,
                is_urgent: true,
                lock: Some("package managers"),
                ..Cost::USUAL
            };
            let name = format!("{}: installing", suite.name);
            self.pool.add(Key::Install(at), name, cost, move |_| {
                Outcome::Installed(suite.needs.iter().try_for_each(|need| need.meet()))
            });
        }
        self.advance();
    }

    /// Starts the builds that suites need, and the parts whose builds ended.
    fn advance(&mut self) {
        for at in 0..self.suites.len() {
            if !self.suites[at].is_ready {
                continue;
            }
            for part in 0..self.suites[at].parts.len() {
                if self.suites[at].parts[part] == Progress::Waiting {
                    self.start_part(at, part);
                }
            }
        }
    }

    fn start_part(&mut self, at: usize, index: usize) {
        let suite = self.suites[at].suite;
        let part = &suite.parts[index];
        if part.follows && self.suites[at].parts[index - 1] != Progress::Ended {
            return;
        }
        if part.follows && self.suites[at].tally.failed > 0 {
            self.end_part(at, index);
            return;
        }
        let mut ended = Vec::new();
        for build in part.builds(self.options.quick) {
            match self.builds.get(&build) {
                None => {
                    self.builds.insert(build, Progressing::Started);
                    self.add_build(build);
                    return self.start_part(at, index);
                }
                Some(Progressing::Started) => ended.push(None),
                Some(Progressing::Ended(programs)) => ended.push(Some(programs.clone())),
            }
        }
        if ended.iter().any(Option::is_none) {
            return;
        }
        let built: Option<Vec<_>> = ended.into_iter().flatten().collect();
        let Some(built) = built else {
            let name = task_name(suite, part);
            self.suites[at]
                .tally
                .fail(format!("{name} (does not build)"));
            self.end_part(at, index);
            return;
        };
        let programs = built.into_iter().next().unwrap_or_default();
        let tasks = match part.work {
            Work::Once(run) => {
                self.add_function(at, index, run, programs);
                1
            }
            Work::Programs(pick) => {
                let picked: Vec<(TestProgram, Invocation)> = programs
                    .iter()
                    .filter_map(|program| Some((program.clone(), pick(program)?)))
                    .collect();
                let programs = picked.into_iter();
                programs
                    .map(|(program, invocation)| self.add_program(at, index, program, invocation))
                    .sum()
            }
        };
        self.suites[at].parts[index] = Progress::Started(tasks);
        if tasks == 0 {
            let name = format!("{} (no such test target)", task_name(suite, part));
            self.suites[at].tally.fail(name);
            self.end_part(at, index);
        }
    }

    fn add_build(&mut self, build: Build) {
        let name = format!("build {}", build.name());
        let path = self.logs.join(format!("build-{}.log", build.name()));
        let cost = self.cost(&name, build.cost());
        self.pool.add(Key::Build(build), name, cost, move |status| {
            let mut programs = None;
            let report = with_log(&path, |log| {
                let built = build.run(log, &mut Live::Status(status.clone()))?;
                programs = built.programs;
                Ok(Report {
                    busy: built.busy.unwrap_or_default(),
                    ..Report::default()
                })
            });
            match report {
                Ok(report) => Outcome::Built { programs, report },
                Err(report) => Outcome::Built {
                    programs: None,
                    report,
                },
            }
        });
    }

    fn add_function(
        &mut self,
        suite: usize,
        part: usize,
        run: fn(&mut Context<'_>) -> Result<Tally>,
        programs: Arc<Vec<TestProgram>>,
    ) {
        let described = &self.suites[suite].suite.parts[part];
        let name = task_name(self.suites[suite].suite, described);
        let path = self.logs.join(format!("{}.log", name.replace(' ', "-")));
        let cost = self.cost(&name, described.cost);
        let quick = self.options.quick;
        let key = Key::Part { suite, part };
        self.pool.add(key, name.clone(), cost, move |status| {
            run_logged(&name, &path, status, &programs, quick, run)
        });
    }

    /// Adds a program: one task or, if it is long, one per portion. Returns the number of tasks.
    fn add_program(
        &mut self,
        suite: usize,
        part: usize,
        program: TestProgram,
        invocation: Invocation,
    ) -> usize {
        let described = self.suites[suite].suite;
        let cost = described.parts[part].cost;
        let name = format!("{} {} {}", described.name, program.package, program.target);
        let seconds = self.durations.of_program(&name).unwrap_or(cost.seconds);
        let tests = match seconds > LONG_SECONDS {
            true => portions::list(&program, invocation.arguments, self.options.quick),
            false => None,
        };
        let portions = portions::split(tests.unwrap_or_default());
        // A program that lists no tests runs as a whole: its result counts, or says what is wrong.
        if portions.len() < 2 {
            self.add_task(suite, part, name, program, invocation, None);
            return 1;
        }
        for portion in &portions {
            let name = format!("{name} {}", portion.name);
            let portion = Some(portion.clone());
            self.add_task(suite, part, name, program.clone(), invocation, portion);
        }
        portions.len()
    }

    /// Adds a task that runs a program, or a portion of its tests.
    fn add_task(
        &mut self,
        suite: usize,
        part: usize,
        name: String,
        program: TestProgram,
        invocation: Invocation,
        portion: Option<Portion>,
    ) {
        let described = self.suites[suite].suite;
        let short = name.trim_start_matches(described.name).trim().to_owned();
        let file = format!("{}.log", short.replace(' ', "."));
        let path = self.logs.join(described.name).join(file);
        let cost = self.cost(&name, described.parts[part].cost);
        let quick = self.options.quick;
        let key = Key::Part { suite, part };
        self.pool.add(key, name.clone(), cost, move |status| {
            run_logged(&name, &path, status, &[], quick, |context| {
                let mut command = program.command();
                command.envs(invocation.environment.iter().copied());
                match &portion {
                    // Exact names take the place of the arguments, which selected them.
                    Some(portion) => command.arg("--exact").args(&portion.tests),
                    None => command.args(invocation.arguments),
                };
                let mut tally = context.count(&mut command, 30, &short)?;
                match &portion {
                    Some(portion) => tally.expect(portion.tests.len() as u64, &short),
                    None if tally.is_empty() && !invocation.arguments.is_empty() => {
                        tally.fail(format!("{short}: no test matches the suite's filter"));
                    }
                    None => {}
                }
                Ok(tally)
            })
        });
    }

    /// With the duration of the last run, if there was one.
    fn cost(&self, name: &str, cost: Cost) -> Cost {
        Cost {
            seconds: self.durations.get(name).unwrap_or(cost.seconds),
            ..cost
        }
    }

    /// Runs the pool until it is empty, and prints the result.
    fn finish(mut self) -> Result<bool> {
        let mut screen = Screen::new("running");
        while let Some(finished) = self.pool.next(&mut |pool| screen.tick(&activity(pool))) {
            if process::is_interrupted() {
                self.pool.cancel();
                continue;
            }
            self.note(finished, &screen);
            self.advance();
        }
        self.durations.save();
        if process::is_interrupted() {
            bail!("stopped by Ctrl-C");
        }
        for state in std::mem::take(&mut self.suites) {
            self.total
                .add(state.suite, &state.tally, self.options.strict);
        }
        println!("\n{}", self.table);
        Ok(self.total.close(self.started))
    }

    fn note(&mut self, finished: Finished<Key, Outcome>, screen: &Screen) {
        let Finished {
            key,
            name,
            started,
            result,
        } = finished;
        match (key, result) {
            (Key::Install(at), Ok(Outcome::Installed(Ok(())))) => self.suites[at].is_ready = true,
            (Key::Install(at), Ok(Outcome::Installed(Err(missing)))) => {
                let suite = self.suites[at].suite.name;
                screen.print(&format!("{suite:<40} skipped: {}", missing.reason));
                self.total.skip(suite, &missing, self.options.strict);
                self.suites[at].parts.fill(Progress::Ended);
                let mut row = self.suites[at].row.clone();
                row.skip(&missing.reason);
                self.table.push(row);
            }
            (Key::Build(build), Ok(Outcome::Built { programs, report })) => {
                let time = started.elapsed();
                self.durations.set(&name, time);
                let mut row = Row::new(&name);
                row.add(started, report.busy);
                self.table.push(row);
                let outcome = match &programs {
                    Some(_) => "built",
                    None => "does not build",
                };
                screen.print(&line(&name, time, outcome));
                if programs.is_none() {
                    show_failure(&Tally::default(), &report);
                }
                let ended = Progressing::Ended(programs.map(Arc::new));
                self.builds.insert(build, ended);
            }
            (Key::Part { suite, part }, Ok(Outcome::Ran { tally, report })) => {
                let time = started.elapsed();
                self.durations.set(&name, time);
                self.suites[suite].row.add(started, report.busy);
                screen.print(&line(&name, time, &tally.to_string()));
                if tally.failed > 0 {
                    show_failure(&tally, &report);
                }
                self.total.notes.extend(report.notes);
                let state = &mut self.suites[suite];
                state.tally = std::mem::take(&mut state.tally).and(tally);
                self.end_task(suite, part);
            }
            (Key::Part { suite, part }, Err(panic)) => {
                self.suites[suite].tally.fail(format!("{name}: {panic}"));
                self.end_task(suite, part);
            }
            (Key::Build(build), Err(panic)) => {
                screen.print(&line(&name, started.elapsed(), &panic));
                self.builds.insert(build, Progressing::Ended(None));
            }
            (Key::Install(at), Err(panic)) => {
                self.suites[at].tally.fail(format!("{name}: {panic}"));
                self.suites[at].parts.fill(Progress::Ended);
            }
            (_, Ok(_)) => unreachable!("each kind of task has its kind of result"),
        }
    }

    fn end_task(&mut self, at: usize, part: usize) {
        match &mut self.suites[at].parts[part] {
            Progress::Started(tasks) if *tasks > 1 => *tasks -= 1,
            _ => self.end_part(at, part),
        }
    }

    fn end_part(&mut self, at: usize, part: usize) {
        let state = &mut self.suites[at];
        state.parts[part] = Progress::Ended;
        if state.parts.iter().any(|part| *part != Progress::Ended) {
            return;
        }
        if state.tally.is_empty() {
            state.tally.fail("no test ran");
        }
        state.row.count(&state.tally);
        self.table.push(state.row.clone());
    }
}

/// The suite's name, and that of the part if it has several.
fn task_name(suite: &Suite, part: &Part) -> String {
    format!("{} {}", suite.name, part.name)
        .trim_end()
        .to_owned()
}

fn line(name: &str, time: Duration, outcome: &str) -> String {
    format!("{name:<40} {:>7.1} s  {outcome}", time.as_secs_f64())
}

/// What runs, for the progress line.
fn activity(pool: &Pool<Key, Outcome>) -> String {
    let running: Vec<String> = pool
        .running()
        .into_iter()
        .map(|(name, time, last)| match pool.running().len() {
            1 => format!("{name} {} s {last}", time.as_secs()),
            _ => format!("{name} {} s", time.as_secs()),
        })
        .collect();
    format!("{} wait; {}", pool.waiting_count(), running.join(", "))
}

/// Runs `work` with a new log; an error goes to the log, too.
fn with_log(path: &Path, work: impl FnOnce(&mut Log) -> Result<Report>) -> Result<Report, Report> {
    let file = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| File::create(path));
    let mut log = match file {
        Ok(file) => Log::new(file),
        Err(error) => {
            return Err(Report {
                tail: vec![format!("{} cannot be written: {error}", path.display())],
                ..Report::default()
            });
        }
    };
    let result = work(&mut log);
    let complete = |log: &Log, report: Report| Report {
        tail: log.tail().map(str::to_owned).collect(),
        log: path.to_path_buf(),
        ..report
    };
    match result {
        Ok(report) => Ok(complete(&log, report)),
        Err(error) => {
            log.line(&format!("{error:#}"));
            Err(complete(&log, Report::default()))
        }
    }
}

/// A part of a suite; an error of it is a failure.
fn run_logged(
    name: &str,
    path: &Path,
    status: &crate::live::Status,
    tests: &[TestProgram],
    quick: bool,
    run: impl FnOnce(&mut Context<'_>) -> Result<Tally>,
) -> Outcome {
    let mut tally = Tally::default();
    let report = with_log(path, |log| {
        let mut context = Context {
            log,
            live: &mut Live::Status(status.clone()),
            tests,
            quick,
            notes: Vec::new(),
            busy: Duration::ZERO,
        };
        tally = run(&mut context)?;
        Ok(Report {
            busy: context.busy,
            notes: context.notes,
            ..Report::default()
        })
    });
    let report = report.unwrap_or_else(|report| {
        let error = report.tail.last().cloned().unwrap_or_default();
        tally.fail(format!("{name}: {error}"));
        report
    });
    Outcome::Ran { tally, report }
}

fn select_suites(options: &Options, notes: &mut Vec<String>) -> Result<Vec<&'static Suite>> {
    for name in &options.suites {
        if !SUITES.iter().any(|suite| suite.name == name) {
            let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            bail!("unknown suite `{name}`: choose from {}", known.join(", "));
        }
    }
    let mut chosen = Vec::new();
    for suite in SUITES {
        match left_out(options, suite.when) {
            Some(why) => notes.push(format!("{why}: {}", suite.name)),
            None if options.suites.is_empty() || options.names(suite.name) => chosen.push(suite),
            None => {}
        }
    }
    Ok(chosen)
}

/// The parts of a suite, those that this run does not include as ended.
fn select_parts(options: &Options, suite: &Suite, notes: &mut Vec<String>) -> Vec<Progress> {
    let parts = suite.parts.iter();
    let progress = parts.map(|part| match left_out(options, part.when) {
        Some(why) => {
            notes.push(format!("{why}: {} {}", suite.name, part.name));
            Progress::Ended
        }
        None => Progress::Waiting,
    });
    progress.collect()
}

/// Why this run does not include a suite or a part of it, unless it does or `--suite` names others.
fn left_out(options: &Options, when: When) -> Option<&'static str> {
    match when {
        _ if !options.suites.is_empty() => None,
        When::NotQuick if options.quick => Some("skipped by --quick"),
        When::Full if !options.full => Some("only with --full"),
        _ => None,
    }
}

fn show_failure(tally: &Tally, report: &Report) {
    for line in &report.tail {
        println!("    {line}");
    }
    for line in &tally.said {
        println!("  {line}");
    }
    for name in &tally.failures {
        println!("  failed: {name}");
    }
    println!("  whole log: {}", report.log.display());
}

impl Total {
    fn skip(&mut self, name: &str, missing: &Missing, strict: bool) {
        if strict && !missing.tolerated {
            self.failed += 1;
            self.failures.push(format!(
                "{name}: skipped, which --strict does not allow: {}",
                missing.reason
            ));
        } else {
            self.skipped += 1;
        }
    }

    fn add(&mut self, suite: &Suite, tally: &Tally, strict: bool) {
        self.passed += tally.passed;
        self.failed += tally.failed;
        self.failures.extend(
            tally
                .failures
                .iter()
                .map(|name| format!("{}: {name}", suite.name)),
        );
        self.said.extend(tally.said.iter().cloned());
        for (name, missing) in &tally.skips {
            self.skip(&format!("{}: {name}", suite.name), missing, strict);
        }
        for _ in 0..tally.skipped() - tally.skips.len() as u64 {
            let missing = Missing::required("a test was ignored without a reason");
            self.skip(suite.name, &missing, strict);
        }
    }

    /// Prints failures, skips and the closing line.
    fn close(&self, started: Instant) -> bool {
        let seconds = started.elapsed().as_secs_f64();
        match usage::of_children() {
            Some(busy) => println!(
                "total {seconds:.0} s, {:.0} s of processor time ({:.2} of {} cores)",
                busy.as_secs_f64(),
                busy.as_secs_f64() / seconds.max(1.0),
                workspace::core_count()
            ),
            None => println!("total {seconds:.0} s"),
        }
        for note in &self.notes {
            println!("{note}");
        }
        // Again: of a long output often only the end is kept.
        for line in &self.said {
            println!("  {line}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        );
        self.failed == 0
    }
}
