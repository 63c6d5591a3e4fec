//! The benchmark `pokec`: the five queries of ArangoDB's multi-model benchmark (2015) on a social network of
//! the same shape: single reads, single writes, an aggregate, neighbours of neighbours, shortest paths; and
//! the preceding load.
//!
//! The network is generated from a seed. Reference results are computed by plain loops over arrays
//! ([`arrays`]) before anything is loaded; a different result stops the benchmark: wrong results have no
//! times.
//!
//! - [`job`]: the jobs and their metrics; [`questions`]: the parameters of the queries, and the reference
//!   results;
//! - [`arrays`]: the network as arrays: the reference, and the limit that a database can approach;
//! - [`graph`]: this database; [`worker`]: either of them, job by job, for comparisons with other systems.

pub mod arrays;
pub mod graph;
pub mod job;
pub mod questions;
pub mod worker;

use std::path::Path;

use anyhow::{Context, Result};
use isomer_db::{EngineKind, Sharing};

use crate::{
    Network,
    measure::{mib, peak_memory, reset_peak_memory},
    network::DEFAULT_SEED,
    report::{Case, Report},
};
use arrays::Arrays;
use graph::{Graph, Source};
use job::{Job, Measured, NAME};
use questions::{Answers, EdgeFile, Questions};

/// Runs every job on a new database in `folder`, which is opened with `sharing` once it is loaded.
pub fn run(
    folder: &Path,
    scale: f64,
    engine: EngineKind,
    sharing: Sharing,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage("making the network");
    let mut network = Network::at_scale(scale, DEFAULT_SEED);
    report.note(&format!(
        "{} people, {} relationships",
        network.people(),
        network.edges().len()
    ));
    report.stage("finding the answers");
    let questions = Questions::draw(&network);
    let answers = Answers::find(&Arrays::of_network(&network, false), &questions)?;
    // From here on the relationships are on disk, so that the measured memory is the database's.
    let edges = EdgeFile::write(&folder.join("edges.bin"), network.take_edges())?;
    reset_peak_memory();
    let graph = Graph::new(folder, engine, Source::Generated { network, edges });
    let mut graph = graph.shared_as(sharing);
    for job in Job::ALL {
        if job == Job::NoPath && questions.apart.is_none() {
            report.note("this network is so small that everybody reaches everybody");
            continue;
        }
        if job == Job::ViewsKept && engine == EngineKind::Memory {
            report.note("a database in memory cannot be opened again without views");
            continue;
        }
        report.stage(job.says());
        let measured = graph.run(job, &questions, report)?;
        answers.check(job, &measured)?;
        report_job(job, &measured, report);
        if job == Job::Load {
            let bytes = graph.disk_bytes()?;
            report.case(Case::new(NAME, "disk_mib", mib(bytes), "MiB", 1));
        }
    }
    graph.close()?;
    let peak = peak_memory().context("/proc/self/status does not report the peak memory here")?;
    report.case(Case::new(NAME, "peak_rss_mib", mib(peak), "MiB", 1));
    Ok(())
}

fn report_job(job: Job, measured: &Measured, report: &mut dyn Report) {
    for note in &measured.notes {
        report.note(note);
    }
    for case in job.cases(measured) {
        report.case(case);
    }
}
