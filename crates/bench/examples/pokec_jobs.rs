//! Single jobs of `isomer bench pokec`, repeated on one database, for CPU profiling:
//! `cargo run --profile quick -p isomer-bench --example pokec_jobs -- 0.1 FOLDER single_reads
//! neighbors2_profiles`.
//!
//! The first run loads the network into the folder; later ones open it. Results are not checked here.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use isomer_bench::{
    Network, network,
    pokec::{
        graph::{Graph, Source},
        job::Job,
        questions::{EdgeFile, Questions},
    },
    report::{Case, Report},
};
use isomer_db::EngineKind;

/// As in the released binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Print;

impl Report for Print {
    fn case(&mut self, _case: Case) {}
    fn stage(&mut self, what: &str) {
        eprintln!("{what}");
    }
    fn note(&mut self, text: &str) {
        eprintln!("  {text}");
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let scale: f64 = arguments.next().context("SCALE FOLDER JOBS...")?.parse()?;
    let folder = PathBuf::from(arguments.next().context("SCALE FOLDER JOBS...")?);
    fs::create_dir_all(&folder)?;
    let people = folder.join("profiles.jsonl");
    let (mut graph, questions);
    if people.exists() {
        questions = Questions::read(&folder)?;
        graph = Graph::new(&folder, EngineKind::Lsm, Source::Files(folder.clone()));
        graph.reopen()?;
    } else {
        let mut network = Network::at_scale(scale, network::DEFAULT_SEED);
        questions = Questions::draw(&network);
        let edges = EdgeFile::write(&folder.join("edges.bin"), network.take_edges())?;
        let count = network.people();
        let source = Source::Generated { network, edges };
        graph = Graph::new(&folder, EngineKind::Lsm, source);
        let measured = graph.run(Job::Load, &questions, &mut Print)?;
        println!("import {:?}", measured.timed.wall);
        questions.write(&folder)?;
        fs::write(&people, "\n".repeat(count as usize))?;
    }
    println!("{:.0} MiB", graph.disk_bytes()? as f64 / (1 << 20) as f64);
    for name in arguments {
        let job = Job::named(&name).with_context(|| format!("no job is named {name}"))?;
        let measured = graph.run(job, &questions, &mut Print)?;
        for note in &measured.notes {
            println!("  {note}");
        }
        for case in job.cases(&measured) {
            println!("{}", case.to_json());
        }
    }
    graph.close()
}
