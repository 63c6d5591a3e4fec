//! Isolation, from recorded histories: random concurrent transactions across all models, checked for every
//! anomaly that a serializable database never shows; and the proof that the checker detects disabled
//! validation.
//!
//! `ISOMER_TEST_SEED` selects another history, `ISOMER_TEST_QUICK` a shorter one.

mod contract;
mod language;
mod records;

use std::{path::Path, process::ExitCode, sync::Arc};

use anyhow::{Result, bail, ensure};
use contract::Contract;
use isomer_db::{Database, Durability};
use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Engine, MemoryEngine};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use isomer_testkit::{
    harness::{Harness, Outcome, Verdict, is_quick, seed},
    isolation::{
        Class, Report, check,
        workload::{Plan, Subject, run},
    },
    second_process,
    unchecked::Unchecked,
};
use language::Language;
use records::Records;

/// Objects of each kind in use at one time, from a single contended one to many.
const CONTENTION: [u64; 5] = [1, 2, 4, 16, 64];

fn main() -> ExitCode {
    second_process::run_if_asked();
    let mut harness = Harness::new();
    for objects in CONTENTION {
        harness.case(format!("contract_on_memory_{objects}_objects"), move || {
            serializable(
                &Contract(Arc::new(MemoryEngine::new())),
                plan(2_000, objects),
            )
        });
    }
    for objects in CONTENTION {
        harness.case(format!("records_on_memory_{objects}_objects"), move || {
            serializable(
                &Records::open(Arc::new(MemoryEngine::new()))?,
                plan(10_000, objects),
            )
        });
    }
    for objects in CONTENTION {
        harness.case(format!("records_on_disk_{objects}_objects"), move || {
            let folder = tempfile::tempdir()?;
            serializable(
                &Records::open(on_disk(folder.path())?)?,
                plan(10_000, objects),
            )
        });
    }
    for objects in CONTENTION {
        harness.case(format!("language_on_memory_{objects}_objects"), move || {
            serializable(
                &Language::new(Database::open_in_memory()?)?,
                plan(1_500, objects),
            )
        });
    }
    harness.case("language_on_disk_4_objects", || {
        let folder = tempfile::tempdir()?;
        let builder = Database::builder().durability(Durability::Buffered);
        let db = second_process::open(&[], builder, folder.path())?;
        let outcome = serializable(&Language::new(db)?, plan(1_500, 4));
        second_process::end_all();
        outcome
    });
    harness.case("records_with_validation_switched_off_are_caught", || {
        let engine = Unchecked::new(Arc::new(MemoryEngine::new()));
        caught(&Records::open(Arc::new(engine))?, whole_plan(4_000, 2))
    });
    harness.case("contract_with_validation_switched_off_is_caught", || {
        caught(
            &Contract(Arc::new(Unchecked::new(Arc::new(MemoryEngine::new())))),
            whole_plan(2_000, 2),
        )
    });
    harness.run()
}

/// A plan with fewer transactions in a quick run.
fn plan(transactions: u32, objects: u64) -> Plan {
    let share = if is_quick() { 10 } else { 1 };
    whole_plan(transactions / share, objects)
}

/// A plan with as many transactions in a quick run: with fewer, an anomaly that is allowed need not happen.
fn whole_plan(transactions: u32, objects: u64) -> Plan {
    Plan {
        transactions,
        objects,
        clients: 2,
        open: 6,
        round: 250,
        seed: seed(),
    }
}

/// The engine that ISOMER_ENGINE names, or the default one.
fn on_disk(path: &Path) -> Result<Arc<dyn Engine>> {
    Ok(match std::env::var("ISOMER_ENGINE").as_deref() {
        Ok("redb") => Arc::new(RedbEngine::open(path, RedbOptions::default())?),
        _ => Arc::new(LsmEngine::open(path, LsmOptions::default())?),
    })
}

/// Runs the plan and expects no anomaly.
fn serializable(subject: &dyn Subject, plan: Plan) -> Outcome {
    let report = check(&run(subject, plan)?);
    print_summary(plan, &report);
    if !report.anomalies.is_empty() {
        report
            .anomalies
            .iter()
            .for_each(|anomaly| println!("{anomaly}"));
        bail!("{plan}: {:?}", report.counts);
    }
    let enough = plan.transactions as usize / 10;
    ensure!(
        report.committed > enough,
        "{plan}: only {} committed, too few to be significant",
        report.committed
    );
    Ok(Verdict::Passed)
}

/// Runs the plan on a database without validation and expects the anomalies that this allows.
fn caught(subject: &dyn Subject, plan: Plan) -> Outcome {
    let report = check(&run(subject, plan)?);
    print_summary(plan, &report);
    for class in [Class::LostUpdate, Class::WriteSkew, Class::Phantom] {
        ensure!(
            report.counts.contains_key(&class),
            "{plan}: {} was not caught: {:?}",
            class.name(),
            report.counts
        );
    }
    Ok(Verdict::Passed)
}

fn print_summary(plan: Plan, report: &Report) {
    println!(
        "{plan}: {} committed, {} dependencies, {:?}",
        report.committed, report.dependencies, report.counts
    );
}
