//! The benchmark `convergent` on established CRDT crates: `convergent-peers SYSTEM [--scale F] [--limit
//! SECONDS]`. Prints JSON lines as `isomer bench convergent` does, with a `"system"` in each.

#[path = "../../../crates/bench/src/measure.rs"]
#[allow(dead_code)]
mod measure;
#[path = "../../../crates/bench/src/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../../crates/bench/src/report.rs"]
#[allow(dead_code)]
mod report;

mod automerge_peer;
mod crdts_peer;
mod loro_peer;
mod peer;
mod work;
mod yrs_peer;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use report::{Case, Report};
use work::Plan;

fn main() -> Result<()> {
    let mut positional = Vec::new();
    let (mut scale, mut limit) = (0.02, f64::INFINITY);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<f64> {
            let text = arguments
                .next()
                .with_context(|| format!("{argument} needs a number"))?;
            text.parse().with_context(|| format!("{text} is not a number"))
        };
        match argument.as_str() {
            "--scale" => scale = number()?,
            "--limit" => limit = number()?,
            _ => positional.push(argument),
        }
    }
    let [system] = positional.as_slice() else {
        bail!("usage: convergent-peers SYSTEM [--scale F] [--limit SECONDS]");
    };
    let plan = Plan {
        largest: (1_000_000.0 * scale).max(100.0) as u64,
        limit: Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX),
    };
    let mut told = JsonReport {
        system: system.clone(),
    };
    match system.as_str() {
        "crdts" => work::run::<crdts_peer::Crdts>(&plan, &mut told),
        "yrs" => work::run::<yrs_peer::Yrs>(&plan, &mut told),
        "automerge" => work::run::<automerge_peer::Automerge>(&plan, &mut told),
        "loro" => work::run::<loro_peer::Loro>(&plan, &mut told),
        other => bail!("unknown system {other}: choose from crdts, yrs, automerge, loro"),
    }
}

/// Metrics to standard output, all else to standard error.
struct JsonReport {
    system: String,
}

impl Report for JsonReport {
    fn case(&mut self, case: Case) {
        let json = case.to_json();
        println!("{{\"system\":\"{}\",{}", self.system, &json[1..]);
    }

    fn stage(&mut self, what: &str) {
        eprintln!("{}: {what} …", self.system);
    }

    fn note(&mut self, text: &str) {
        eprintln!("  {text}");
    }
}
