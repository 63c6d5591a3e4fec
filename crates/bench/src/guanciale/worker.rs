//! One system, command by command, for a program that compares several systems in one run: reads `load
//! <shape>` or `recommend <seconds>` from standard input, writes one line of JSON for each.
//!
//! `{"step":"recommend","ops_s":123.0,"n":246,"answer":["person7: …",…]}`, or `{"step":"…","error":"…"}`.

use std::{
    io::{BufRead, Write},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    guanciale::{
        CHECKED,
        graph::Graph,
        likes::{Likes, Shape},
        repeat,
    },
    pokec::worker::{System, quoted},
};

/// Executes the commands of `steps`, and writes results to `out`.
pub fn serve(system: System, steps: &mut dyn BufRead, out: &mut dyn Write) -> Result<()> {
    let mut loaded = None;
    let mut line = String::new();
    while steps.read_line(&mut line)? > 0 {
        let (name, argument) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let response = match execute(system, name, argument, &mut loaded) {
            Ok(response) => format!("{{\"step\":{},{response}}}", quoted(name)),
            Err(error) => format!(
                "{{\"step\":{},\"error\":{}}}",
                quoted(name),
                quoted(&format!("{error:#}"))
            ),
        };
        writeln!(out, "{response}")?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}

fn execute(
    system: System,
    name: &str,
    argument: &str,
    loaded: &mut Option<(Likes, Option<Graph>)>,
) -> Result<String> {
    match name {
        "load" => {
            *loaded = None;
            let likes = Likes::draw(Shape::named(argument)?);
            let start = Instant::now();
            let graph = match system {
                System::Isomer => Some(Graph::load(&likes)?),
                System::Limit => None,
            };
            let seconds = start.elapsed().as_secs_f64();
            *loaded = Some((likes, graph));
            Ok(format!("\"seconds\":{seconds:.6}"))
        }
        "recommend" => {
            let (likes, graph) = loaded.as_ref().context("load first")?;
            let time = Duration::try_from_secs_f64(argument.parse()?)?;
            let asked = likes.queried_people();
            let mut loops = likes.loops();
            let mut checked = Vec::new();
            for &person in &asked[..CHECKED] {
                checked.push(quoted(&match graph {
                    Some(graph) => graph.recommend(person)?,
                    None => loops.recommend(person),
                }));
            }
            let (operations, taken) = repeat(time, &asked, |person| match graph {
                Some(graph) => graph.recommend_only(person),
                None => {
                    std::hint::black_box(loops.recommend_only(person));
                    Ok(())
                }
            })?;
            Ok(format!(
                "\"ops_s\":{:.3},\"n\":{operations},\"answer\":[{}]",
                operations as f64 / taken.as_secs_f64(),
                checked.join(",")
            ))
        }
        _ => bail!("unknown command `{name}`: expected load or recommend"),
    }
}
