//! One system, job by job, for a program that compares several systems in one run: reads names of jobs from
//! standard input, writes one line of JSON for each.
//!
//! `{"job":"neighbors2","seconds":0.0075,"n":500,"p50_us":14.1,"p99_us":51.0,"cpu_s":0.0074,"answer":["P17 …",…]}`,
//! `{"job":"…","skipped":"not offered"}` if the system has no counterpart, or `{"job":"…","error":"…"}`.

use std::{
    fmt::Write as _,
    io::{BufRead, Write},
    path::Path,
};

use anyhow::{Result, bail};
use isomer_db::EngineKind;

use crate::{
    measure::micros,
    pokec::{
        arrays::Limit,
        graph::{Graph, Source},
        job::{Job, Measured},
        questions::Questions,
    },
    report::{Case, Report},
};

/// The system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// This database.
    Isomer,
    /// Plain loops over arrays.
    Limit,
}

/// Executes the jobs of `jobs` and writes results to `out`. `data` holds the files that `isomer generate
/// --questions` writes; the database is created in `folder`.
pub fn serve(
    system: System,
    engine: EngineKind,
    data: &Path,
    folder: &Path,
    jobs: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<()> {
    let questions = Questions::read(data)?;
    let mut graph = Graph::new(folder, engine, Source::Files(data.to_owned()));
    let mut limit = Limit::new(data, folder);
    let mut line = String::new();
    while jobs.read_line(&mut line)? > 0 {
        let name = line.trim();
        let done = match (Job::named(name), system) {
            (None, _) => Ok(None),
            (Some(job), System::Isomer) => graph.run(job, &questions, &mut Silent).map(Some),
            (Some(job), System::Limit) => limit.run(job, &questions),
        };
        let response = match done {
            Ok(Some(measured)) => response_line(name, &measured),
            Ok(None) => format!("{{\"job\":{},\"skipped\":\"not offered\"}}", quoted(name)),
            Err(error) => format!(
                "{{\"job\":{},\"error\":{}}}",
                quoted(name),
                quoted(&format!("{error:#}"))
            ),
        };
        writeln!(out, "{response}")?;
        out.flush()?;
        line.clear();
    }
    graph.close()
}

fn response_line(name: &str, measured: &Measured) -> String {
    let timed = &measured.timed;
    let passes = (timed.count() / measured.questions.max(1)).max(1) as f64;
    let answer: Vec<String> = measured.answer.iter().map(|line| quoted(line)).collect();
    format!(
        "{{\"job\":{},\"seconds\":{:.9},\"n\":{},\"p50_us\":{:.3},\"p99_us\":{:.3},\"cpu_s\":{:.6},\"answer\":[{}]}}",
        quoted(name),
        timed.wall.as_secs_f64() / passes,
        timed.count(),
        micros(timed.percentile(0.5)),
        micros(timed.percentile(0.99)),
        timed.cpu.as_secs_f64() / passes,
        answer.join(",")
    )
}

/// A string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", letter as u32);
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

struct Silent;

impl Report for Silent {
    fn case(&mut self, _case: Case) {}
    fn stage(&mut self, _what: &str) {}
    fn note(&mut self, _text: &str) {}
}

/// The system with this name.
pub fn system(name: &str) -> Result<System> {
    match name {
        "isomer" => Ok(System::Isomer),
        "limit" => Ok(System::Limit),
        _ => bail!("unknown system `{name}`: expected isomer or limit"),
    }
}
