//! The benchmark `guanciale`: the recommendation traversal of Max De Marzi's GuancialeDB (2016), and its two write
//! tests.
//!
//! People like items. The query starts with one person: the items they like, the people who like these, what
//! those people like, counted; the ten most frequent, ties by key. As its author wrote it, neither the person
//! nor items already liked are excluded. Results are checked against plain loops ([`likes`]) before their
//! time counts.
//!
//! - [`likes`]: the graph, generated from a seed, and the plain loops; [`graph`]: this database;
//! - [`worker`]: either of them, command by command, for comparisons with other systems.

pub mod graph;
pub mod likes;
pub mod worker;

use std::{path::Path, time::Duration};

use anyhow::Result;

use crate::{
    measure::Stopwatch,
    report::{Case, Report},
};
use graph::{Graph, Location};
use likes::{Likes, Shape};

/// The name of the benchmark.
pub const NAME: &str = "guanciale";
/// People whose recommendations are queried, in turn.
pub const ASKED: usize = 1_000;
/// Number of results that are checked.
pub const CHECKED: usize = 40;
/// Number of databases on which each creation is measured, one after another; the metric is the median. The
/// first one gets its memory fresh from the operating system.
const ROUNDS: usize = 3;
/// From this scale on, measurements take [`LONG`]; below it [`SHORT`].
const WHOLE_SCALE: f64 = 0.1;
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(100);

/// Runs every case on in-memory databases, and one in `folder`.
pub fn run(folder: &Path, scale: f64, report: &mut dyn Report) -> Result<()> {
    let (time, checked) = if scale < WHOLE_SCALE {
        (SHORT, 3)
    } else {
        (LONG, CHECKED)
    };
    for shape in Shape::grid(scale) {
        report.stage(&format!("recommending: {shape}"));
        recommend(shape, time, checked, report)?;
    }
    let locations = [
        (
            Location::Memory,
            ["create_nodes_ops_s", "create_nodes_and_relationships_ops_s"],
        ),
        (
            Location::Folder(folder.join("guanciale")),
            [
                "create_nodes_durable_ops_s",
                "create_nodes_and_relationships_durable_ops_s",
            ],
        ),
    ];
    for (location, names) in locations {
        report.stage(&format!("creating, {location}"));
        creations(&location, names, scale, time, report)?;
    }
    Ok(())
}

fn recommend(shape: Shape, time: Duration, checked: usize, report: &mut dyn Report) -> Result<()> {
    let likes = Likes::draw(shape);
    let asked = likes.queried_people();
    let graph = Graph::load(&likes)?;
    let mut loops = likes.loops();
    let right: Vec<String> = asked[..checked]
        .iter()
        .map(|&person| loops.recommend(person))
        .collect();
    let found = asked[..checked]
        .iter()
        .map(|&person| graph.recommend(person))
        .collect::<Result<Vec<_>>>()?;
    crate::pokec::questions::compare(&format!("recommend {shape}"), &right, &found)?;
    let (operations, taken) = repeat(time, &asked, |person| graph.recommend_only(person))?;
    let (bare, bare_taken) = repeat(time / 10, &asked, |person| {
        std::hint::black_box(loops.recommend_only(person));
        Ok(())
    })?;
    report.note(&format!(
        "bare loops that group: {:.0} ops/s",
        bare as f64 / bare_taken.as_secs_f64()
    ));
    report.case(Case::new(
        NAME,
        format!("recommend_{}_ops_s", shape.name()),
        operations as f64 / taken.as_secs_f64(),
        "ops/s",
        operations,
    ));
    Ok(())
}

/// 1,000 nodes per transaction; then 1,000 nodes and 100,000 relationships.
fn creations(
    location: &Location,
    names: [&'static str; 2],
    scale: f64,
    time: Duration,
    report: &mut dyn Report,
) -> Result<()> {
    for (name, per_person) in names.into_iter().zip([0, 100]) {
        let mut rates = Vec::with_capacity(ROUNDS);
        let mut all = 0;
        for _ in 0..ROUNDS {
            let mut creator = graph::Creator::open(location, per_person, scale)?;
            creator.create()?; // enters names, builds plans
            let mut operations = 0u32;
            let watch = Stopwatch::start();
            while operations < 3 || watch.read().0 < time {
                creator.create()?;
                operations += 1;
            }
            let (taken, cpu) = watch.read();
            let per_second = |time: Duration| f64::from(operations) / time.as_secs_f64();
            report.note(&format!(
                "{name}: {:.1} a second, {:.1} of processor time",
                per_second(taken),
                per_second(cpu)
            ));
            rates.push(per_second(taken));
            all += operations;
            creator.check()?;
        }
        rates.sort_by(f64::total_cmp);
        report.case(Case::new(
            NAME,
            name,
            rates[ROUNDS / 2],
            "ops/s",
            u64::from(all),
        ));
    }
    Ok(())
}

/// Queries people in turn until the time is over, at least three times.
pub(crate) fn repeat(
    time: Duration,
    asked: &[u32],
    mut ask: impl FnMut(u32) -> Result<()>,
) -> Result<(u64, Duration)> {
    let start = std::time::Instant::now();
    let mut operations = 0;
    for &person in asked.iter().cycle() {
        // Short operations: the clock is read only every few iterations.
        let look = operations < 64 || operations % 16 == 0;
        if operations >= 3 && look && start.elapsed() >= time {
            break;
        }
        ask(person)?;
        operations += 1;
    }
    Ok((operations, start.elapsed()))
}
