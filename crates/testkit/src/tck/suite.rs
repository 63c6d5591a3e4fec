//! Runs all scenarios of a folder, on as many threads as there are cores.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use super::run::{Outcome, run};
use super::scenario::Scenario;
use crate::naive::subject::Mode;

/// Stack size: unoptimised frames of deep queries exceed a thread's default.
const STACK_BYTES: usize = 64 << 20;

/// Runs the scenarios as users run queries; a panic is a failure.
pub fn run_all(
    scenarios: Vec<Scenario>,
    graphs: Option<&Path>,
) -> Result<Vec<(Scenario, Outcome)>> {
    run_in(scenarios, graphs, None)
}

/// Runs the scenarios in a given mode, if any; a panic is a failure.
pub fn run_in(
    scenarios: Vec<Scenario>,
    graphs: Option<&Path>,
    mode: Option<Mode>,
) -> Result<Vec<(Scenario, Outcome)>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; scenarios.len()]);
    // Panics are reported once each, in the report.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let ran = std::thread::scope(|scope| {
        for _ in 0..threads {
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(scenario) = scenarios.get(at) else {
                            return;
                        };
                        let outcome =
                            catch_unwind(AssertUnwindSafe(|| run(scenario, graphs, mode)))
                                .unwrap_or_else(|panic| {
                                    Outcome::Failed(format!("panic: {}", message(panic.as_ref())))
                                });
                        if let Ok(mut outcomes) = outcomes.lock() {
                            outcomes[at] = Some(outcome);
                        }
                    }
                })?;
        }
        Ok::<(), std::io::Error>(())
    });
    std::panic::set_hook(hook);
    ran?;
    let outcomes = outcomes.into_inner().unwrap_or_default();
    let missing = || Outcome::Failed("it was not run to its end".into());
    Ok(scenarios
        .into_iter()
        .zip(outcomes)
        .map(|(scenario, outcome)| (scenario, outcome.unwrap_or_else(missing)))
        .collect())
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "without a message".into(),
    }
}
