//! `cargo xtask memory`: loads and queries a whole network under a memory limit of a few gigabytes.
//!
//! The limit is `RLIMIT_AS`, set by a shell for each command: larger allocations fail, and a program that
//! exceeds its budget ends with an error.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace;

/// Options of `cargo xtask memory`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: cargo xtask memory --scale 0.1 --limit-mib 1024")]
pub struct Options {
    /// Size of the network: 1.0 is 1,632,803 people and 30,622,564 relationships
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Address space that each command may have
    #[arg(long, default_value_t = 2048)]
    limit_mib: u64,
    /// The database's memory budget; half of the limit unless given
    #[arg(long)]
    memory_mib: Option<u64>,
    /// The database's engine: lsm or redb [default: that of `isomer`]
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// A built `isomer`, instead of building it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Folder for the files, about 6 GB at scale 1; removed afterwards [default: target/memory]
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// A statement, and the check of the single number in its result.
struct Question {
    case: &'static str,
    text: &'static str,
    answer: Answer,
}

enum Answer {
    People,
    Relationships,
    /// A lower bound.
    AtLeast(u64),
}

/// Queries that read everything, sort everything, group by more than fits into memory, and traverse.
const QUESTIONS: &[Question] = &[
    Question {
        case: "count_relationships",
        text: "MATCH (:Person)-[f:FRIEND]->(:Person) RETURN count(f)",
        answer: Answer::Relationships,
    },
    Question {
        case: "count_by_age",
        text: "MATCH (p:Person) WITH p.AGE AS age, count(*) AS people RETURN sum(people)",
        answer: Answer::People,
    },
    Question {
        case: "sort_people",
        text: "MATCH (p:Person) WITH p.AGE AS age, p._key AS key ORDER BY age DESC, key RETURN count(key)",
        answer: Answer::People,
    },
    Question {
        case: "distinct_keys",
        text: "MATCH (p:Person) WITH DISTINCT p._key AS key, p.AGE AS age RETURN count(*)",
        answer: Answer::People,
    },
    Question {
        case: "group_by_key",
        text: "MATCH (p:Person) WITH p._key AS key, count(*) AS c, max(p.AGE) AS age RETURN sum(c)",
        answer: Answer::People,
    },
    Question {
        case: "friends_by_person",
        text: "MATCH (p:Person)-[:FRIEND]->(q:Person) WITH q, count(*) AS c ORDER BY c DESC RETURN sum(c)",
        answer: Answer::Relationships,
    },
    Question {
        case: "neighbours2",
        text: "MATCH (p:Person {_key: 'P100'})-[:FRIEND*1..2]->(q) RETURN count(DISTINCT q)",
        answer: Answer::AtLeast(1),
    },
    Question {
        case: "shortest_path",
        text: "MATCH (a:Person {_key: 'P1'}), (b:Person {_key: 'P1000'}) MATCH p = shortestPath((a)-[:FRIEND*]->(b)) RETURN length(p)",
        answer: Answer::AtLeast(1),
    },
];

/// Runs all statements; returns whether all checks passed.
pub fn run(options: &Options) -> Result<bool> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => built()?,
    };
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => workspace::target_dir().join("memory"),
    };
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let outcome = run_in(options, &binary, &folder);
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn built() -> Result<PathBuf> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--locked", "--package", "isomer-cli"]);
    if !build.status().context("cargo does not start")?.success() {
        bail!("the release build failed");
    }
    Ok(workspace::target_dir().join("release").join("isomer"))
}

fn run_in(options: &Options, binary: &Path, folder: &Path) -> Result<bool> {
    let mut generate = Command::new(binary);
    generate
        .arg("generate")
        .arg(folder.join("files"))
        .arg("--scale")
        .arg(options.scale.to_string());
    let output = output(&mut generate)?;
    let numbers = numbers(&output);
    let [people, relationships, ..] = numbers.as_slice() else {
        bail!("`isomer generate` printed no counts: {output}");
    };
    let limited = Limited {
        binary,
        limit_kib: options.limit_mib << 10,
        engine: options.engine.as_deref(),
        memory: format!("{}MiB", options.memory_mib.unwrap_or(options.limit_mib / 2)),
    };
    let db = folder.join("db");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let (db, files) = (text(db), folder.join("files"));
    let import_people = ["import", &db, "nodes", &text(files.join("profiles.jsonl"))];
    let mut all_good = true;
    let mut load = limited.run(&[&import_people[..], &["--label", "Person"]].concat())?;
    let edges = text(files.join("edges.tsv"));
    let import_edges = ["import", &db, "relationships", &edges];
    let ends = ["--columns", "from,to", "--type", "FRIEND"];
    let labels = ["--from", "Person", "--to", "Person"];
    if load.succeeded {
        let second = limited.run(&[&import_edges[..], &ends, &labels].concat())?;
        load = load.and(second);
    }
    load.report("import", *people + *relationships);
    all_good &= load.succeeded;
    for question in QUESTIONS.iter().filter(|_| load.succeeded) {
        let asked = limited.run(&["query", &db, question.text, "--format", "json"])?;
        asked.report(question.case, 1);
        let answer = self::numbers(&asked.output).last().copied();
        let right = match question.answer {
            Answer::People => answer == Some(*people),
            Answer::Relationships => answer == Some(*relationships),
            Answer::AtLeast(least) => answer.is_some_and(|answer| answer >= least),
        };
        if !right {
            eprintln!("{}: wrong answer: {}", question.case, asked.output.trim());
        }
        all_good &= asked.succeeded && right;
    }
    Ok(all_good)
}

/// The whole numbers in a text; commas inside them are removed.
fn numbers(text: &str) -> Vec<u64> {
    let is_part = |c: char| c.is_ascii_digit() || c == ',';
    text.split(|c| !is_part(c))
        .filter_map(|part| part.replace(',', "").parse().ok())
        .collect()
}

fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("isomer does not start")?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command line of `isomer`.
struct Limited<'a> {
    binary: &'a Path,
    limit_kib: u64,
    engine: Option<&'a str>,
    memory: String,
}

/// Metrics of a run.
struct Run {
    succeeded: bool,
    output: String,
    time: Duration,
    /// Peak resident memory, sampled.
    resident_kib: u64,
    /// Peak address space, sampled.
    virtual_kib: u64,
}

impl Limited<'_> {
    fn run(&self, arguments: &[&str]) -> Result<Run> {
        let started = Instant::now();
        let script = format!("ulimit -v {} && exec \"$@\"", self.limit_kib);
        let mut child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(self.binary)
            .args(["--memory", &self.memory])
            .args(self.engine.into_iter().flat_map(|name| ["--engine", name]))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .context("sh does not start")?;
        let (mut resident_kib, mut virtual_kib) = (0, 0);
        while child.try_wait()?.is_none() {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
            if let Ok(status) = status {
                resident_kib = resident_kib.max(field(&status, "VmHWM:"));
                virtual_kib = virtual_kib.max(field(&status, "VmPeak:"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            eprintln!("isomer {}: {}", arguments.join(" "), output.status);
        }
        Ok(Run {
            succeeded: output.status.success(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            time: started.elapsed(),
            resident_kib,
            virtual_kib,
        })
    }
}

impl Run {
    /// Combines this run with a later one.
    fn and(self, next: Self) -> Self {
        Self {
            succeeded: self.succeeded && next.succeeded,
            output: self.output + &next.output,
            time: self.time + next.time,
            resident_kib: self.resident_kib.max(next.resident_kib),
            virtual_kib: self.virtual_kib.max(next.virtual_kib),
        }
    }

    fn report(&self, case: &str, n: u64) {
        let print = |what: &str, value: f64, unit: &str| {
            println!(
                "{{\"bench\":\"memory\",\"case\":\"{case}_{what}\",\"value\":{value:.3},\"unit\":\"{unit}\",\"n\":{n}}}"
            );
        };
        print("s", self.time.as_secs_f64(), "s");
        print("peak_rss_mib", self.resident_kib as f64 / 1024.0, "MiB");
        print(
            "peak_address_space_mib",
            self.virtual_kib as f64 / 1024.0,
            "MiB",
        );
    }
}

/// A line of `/proc/PID/status`, in KiB.
fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_from_output() {
        let output = "wrote 1,632,803 profiles and 30,622,564 relationships to /tmp/x in 9.5 s";
        assert_eq!(&numbers(output)[..2], [1_632_803, 30_622_564]);
        assert_eq!(numbers("[{\"count(f)\":30622564}]"), [30_622_564]);
        assert_eq!(field("VmPeak:\t  12 kB\nVmHWM:\t 7 kB\n", "VmHWM:"), 7);
    }
}
