//! Random whole queries: the database in all its modes and an independent interpreter agree.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use isomer_testkit::harness::{Harness, Verdict, is_quick, seed};
use isomer_testkit::naive::constraints;
use isomer_testkit::naive::differential::{Bounds, compare};
use isomer_testkit::naive::nested;
use isomer_testkit::naive::scenarios;
use isomer_testkit::tck::suite_folder;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.case("random_queries_agree_with_the_interpreter", || {
        let count = number("ISOMER_TEST_QUERIES").unwrap_or(if is_quick() { 2_000 } else { 20_000 });
        let started = Instant::now();
        println!("seed {}", seed());
        let bounds = Bounds {
            queries: count as usize,
            differences: number("ISOMER_TEST_DIFFERENCES").unwrap_or(1) as usize,
            part: number("ISOMER_TEST_PART"),
            until: number("ISOMER_TEST_SECONDS").map(|seconds| started + Duration::from_secs(seconds)),
        };
        let tally = compare(seed(), bounds)?;
        println!(
            "{} queries in {:.0} s: {} agreed ({} with rows, {} writing, {} kept, {} in error), {} left open by the language, {} undecided, {} refused, {} too large",
            tally.tried,
            started.elapsed().as_secs_f64(),
            tally.agreed,
            tally.with_rows,
            tally.wrote,
            tally.kept,
            tally.errors,
            tally.open,
            tally.undecided,
            tally.refused,
            tally.too_large
        );
        ensure!(tally.differences.is_empty(), "{}", tally.differences.join("\n\n"));
        ensure!(tally.agreed > tally.tried / 2, "too few queries agreed: {tally:?}");
        ensure!(tally.undecided < tally.tried / 50, "many queries are undecided: {tally:?}");
        Ok(Verdict::Passed)
    });
    harness.case("constraints_hold_for_statements", || {
        let count =
            number("ISOMER_TEST_STATEMENTS").unwrap_or(if is_quick() { 1_500 } else { 15_000 });
        println!("seed {}", seed());
        let tally = constraints::compare(count as usize, seed())?;
        println!("{tally:?}");
        ensure!(
            tally.accepted > tally.tried / 10,
            "few statements are accepted: {tally:?}"
        );
        ensure!(
            tally.refused > tally.tried / 20,
            "few statements are refused: {tally:?}"
        );
        ensure!(
            tally.mended > tally.tried / 100,
            "few statements mend what they broke: {tally:?}"
        );
        Ok(Verdict::Passed)
    });
    harness.case("paths_over_other_shapes_are_null", || {
        let count = number("ISOMER_TEST_PATHS").unwrap_or(if is_quick() { 3_000 } else { 20_000 });
        println!("seed {}", seed());
        let tally = nested::compare(count as usize, seed())?;
        println!("{tally:?}");
        ensure!(
            tally.agreed > tally.tried / 2,
            "few queries tell anything: {tally:?}"
        );
        ensure!(
            tally.with_rows > tally.tried / 3,
            "few queries have rows: {tally:?}"
        );
        ensure!(
            tally.errors < tally.tried / 10,
            "many queries are in error: {tally:?}"
        );
        Ok(Verdict::Passed)
    });
    harness.case(
        "the_queries_of_scenarios_agree_with_the_interpreter",
        || {
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/language");
            let suite = suite_folder().map(|folder| folder.join("features"));
            for folder in [own].into_iter().chain(suite) {
                let crossed = scenarios::compare(&folder)?;
                println!(
                    "{} queries agreed, {} left out",
                    crossed.agreed, crossed.left_out
                );
                ensure!(
                    crossed.differences.is_empty(),
                    "{} differ\n{}",
                    crossed.differences.len(),
                    crossed.differences.join("\n\n")
                );
                ensure!(crossed.agreed > 200, "{crossed:?}");
            }
            Ok(Verdict::Passed)
        },
    );
    harness.run()
}
