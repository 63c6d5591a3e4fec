//! Invalid queries, and queries that would run forever.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use isomer_db::{CancelHandle, Database, ErrorKind, Limits, Query, QueryOptions};
use isomer_testkit::harness::{Harness, Outcome, Verdict};

use crate::refused;

/// Without a limit, each of these queries runs for hours. That a query stops within a second is tested with repetitions
/// in `crates/db/tests/db/cancel.rs`.
const SOON: Duration = Duration::from_secs(10);

pub fn cases(harness: &mut Harness) {
    harness.case(
        "a_syntax_error_shows_line_column_and_caret",
        a_syntax_error_shows_line_column_and_caret,
    );
    harness.case(
        "any_truncation_of_a_query_is_an_answer_or_an_error",
        any_truncation_of_a_query_is_an_answer_or_an_error,
    );
    harness.case(
        "a_type_error_deep_in_a_query_is_reported",
        a_type_error_deep_in_a_query_is_reported,
    );
    harness.case("a_missing_parameter_is_named", a_missing_parameter_is_named);
    harness.case(
        "a_cartesian_product_ends_soon_after_its_cancellation",
        || ends_soon_after_its_cancellation(PRODUCT),
    );
    harness.case("an_unbounded_path_ends_soon_after_its_cancellation", || {
        ends_soon_after_its_cancellation(PATHS)
    });
    harness.case("an_endless_sort_ends_soon_after_its_cancellation", || {
        ends_soon_after_its_cancellation(SORT)
    });
    harness.case("a_cartesian_product_ends_at_its_time_limit", || {
        ends_at_its_time_limit(PRODUCT)
    });
    harness.case("an_unbounded_path_ends_at_its_time_limit", || {
        ends_at_its_time_limit(PATHS)
    });
    harness.case("memory_has_a_limit", memory_has_a_limit);
    harness.case(
        "injection_in_a_parameter_stays_a_value",
        injection_in_a_parameter_stays_a_value,
    );
    harness.case("negative_limits_are_refused", negative_limits_are_refused);
    harness.case(
        "a_cancelled_write_leaves_no_trace",
        a_cancelled_write_leaves_no_trace,
    );
}

const PRODUCT: &str =
    "MATCH (a:N), (b:N), (c:N), (d:N) WHERE a.n + b.n + c.n + d.n = -1 RETURN count(*)";
const PATHS: &str = "MATCH p = (:N {n: 0})-[*]-(:N {n: 39}) RETURN count(p)";
const SORT: &str = "UNWIND range(1, 400) AS a UNWIND range(1, 400) AS b UNWIND range(1, 4000) AS c RETURN a + b + c AS s ORDER BY s DESC LIMIT 3";

/// 40 nodes, each linked to all others.
fn dense() -> Result<Database> {
    let db = Database::open_in_memory()?;
    db.query("UNWIND range(0, 39) AS i CREATE (:N {n: i})")?;
    db.query("MATCH (a:N), (b:N) WHERE a.n < b.n CREATE (a)-[:T]->(b)")?;
    db.query("CREATE (:Nowhere)")?;
    Ok(db)
}

fn run(db: &Database, text: &str, options: &QueryOptions) -> Result<(), isomer_db::Error> {
    db.query(Query::new(text).options(options)).map(drop)
}

fn ends_soon_after_its_cancellation(text: &'static str) -> Outcome {
    let db = dense()?;
    let cancel = CancelHandle::default();
    let options = QueryOptions::new()
        .cancel(cancel.clone())
        .limits(unlimited());
    let runner = std::thread::spawn(move || run(&db, text, &options));
    // In the middle of the query, which takes far longer.
    std::thread::sleep(Duration::from_millis(300));
    ensure!(
        !runner.is_finished(),
        "the query was too fast to be cancelled: {:?}",
        runner.join()
    );
    let asked = Instant::now();
    cancel.cancel();
    let ended = runner.join().ok().context("the query panicked")?;
    ensure!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    refused(ended, &[ErrorKind::Cancelled], "")?;
    Ok(Verdict::Passed)
}

fn unlimited() -> Limits {
    let mut limits = Limits::default();
    limits.time = None;
    limits
}

fn ends_at_its_time_limit(text: &str) -> Outcome {
    let db = dense()?;
    let mut limits = Limits::default();
    limits.time = Some(Duration::from_millis(300));
    let options = QueryOptions::new().limits(limits);
    let started = Instant::now();
    refused(run(&db, text, &options), &[ErrorKind::Limit], "")?;
    ensure!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    Ok(Verdict::Passed)
}

fn memory_has_a_limit() -> Outcome {
    let db = dense()?;
    let mut limits = Limits::default();
    limits.memory_bytes = 16 << 20;
    let options = QueryOptions::new().limits(limits);
    for text in [
        "UNWIND range(1, 100000000) AS x RETURN collect(x)",
        "RETURN range(1, 1000000000000)",
    ] {
        let error = refused(run(&db, text, &options), &[ErrorKind::Limit], "memory")
            .with_context(|| text.to_owned())?;
        ensure!(error.message().contains("limit"), "{error}");
    }
    // Operators that can spill continue on disk.
    let mut limits = Limits::default();
    limits.memory_bytes = 1 << 20;
    let options = QueryOptions::new().limits(limits);
    for text in [
        "UNWIND range(1, 50000) AS x WITH x ORDER BY x DESC RETURN count(x) AS c",
        "UNWIND range(1, 50000) AS x WITH DISTINCT toString(x) AS t RETURN count(t) AS c",
        "UNWIND range(1, 50000) AS x WITH toString(x) AS t, count(*) AS n RETURN sum(n) AS c",
    ] {
        let answer = db
            .query(Query::new(text).options(&options))
            .with_context(|| text.to_owned())?;
        ensure!(answer.deserialize::<i64>()? == [50_000], "{text}");
    }
    Ok(Verdict::Passed)
}

fn a_syntax_error_shows_line_column_and_caret() -> Outcome {
    let db = Database::open_in_memory()?;
    for (text, line, caret) in [
        ("RETRUN 1", 1, "^"),
        ("MATCH (n)\nWHERE n.x = = 1\nRETURN n", 2, "^"),
        ("", 1, ""),
        ("MATCH (n) RETURN", 1, "^"),
        ("RETURN 'é🦀' +", 1, "^"),
        ("RETURN 'unclosed", 1, "^"),
        ("MATCH (n:`unclosed) RETURN n", 1, "^"),
        ("RETURN 1 /* unclosed", 1, "^"),
        ("\u{0}", 1, "^"),
    ] {
        let error = refused(db.query(text), &[ErrorKind::Invalid], "")
            .with_context(|| format!("{text:?}"))?;
        let message = error.to_string();
        ensure!(message.contains(caret), "{text:?}: {message}");
        ensure!(
            caret.is_empty() || message.contains(&format!("line {line}")),
            "{text:?}: no line {line} in {message}"
        );
    }
    Ok(Verdict::Passed)
}

fn any_truncation_of_a_query_is_an_answer_or_an_error() -> Outcome {
    let db = dense()?;
    let text = "MATCH p = (a:N {n: 0})-[r:T*1..2 {}]->(b) WHERE a.n <> b.n AND NOT (a)<--(b) OPTIONAL MATCH (b)-[q]->(c:N) \
                WITH a, b, count(q) AS n ORDER BY n DESC SKIP 1 LIMIT 3 \
                RETURN CASE WHEN n > 1 THEN [x IN range(0, n) WHERE x % 2 = 0 | x ^ 2] ELSE {é: 'ü🦀', list: [1, 2][0..1]} END AS x UNION RETURN null AS x";
    db.query(text).context("the whole query")?;
    for (end, _) in text.char_indices() {
        if let Err(error) = db.query(&text[..end]) {
            ensure!(
                error.kind() == ErrorKind::Invalid,
                "{:?}: {:?}: {error}",
                &text[..end],
                error.kind()
            );
        }
    }
    Ok(Verdict::Passed)
}

fn a_type_error_deep_in_a_query_is_reported() -> Outcome {
    let db = dense()?;
    let text = "MATCH (n:N) WITH n ORDER BY n.n RETURN [x IN [{a: [1, 'two', n.n]}] | x.a[1] * 2]";
    refused(db.query(text), &[ErrorKind::Invalid], "")?;
    Ok(Verdict::Passed)
}

fn a_missing_parameter_is_named() -> Outcome {
    let db = Database::open_in_memory()?;
    let missing = db.query("RETURN $who");
    refused(missing, &[ErrorKind::Invalid, ErrorKind::NotFound], "who")?;
    Ok(Verdict::Passed)
}

fn injection_in_a_parameter_stays_a_value() -> Outcome {
    let db = dense()?;
    let evil = "x' OR 1=1 //}) DETACH DELETE n //";
    let rows = db
        .query(("MATCH (n:N {n: $v}) RETURN n", [("v", evil)]))?
        .into_rows();
    ensure!(rows.is_empty(), "{} rows", rows.len());
    let n: i64 = db
        .query("MATCH (n:N) RETURN count(*) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 40, "{n}");
    Ok(Verdict::Passed)
}

fn negative_limits_are_refused() -> Outcome {
    let db = dense()?;
    for text in [
        "MATCH (n) RETURN n LIMIT -1",
        "MATCH (n) RETURN n SKIP -1",
        "MATCH (n) RETURN n LIMIT 1.5",
        "MATCH (n) RETURN n LIMIT 'a'",
    ] {
        refused(db.query(text), &[ErrorKind::Invalid], "").with_context(|| text.to_owned())?;
    }
    let rows = db
        .query("MATCH (n) RETURN n SKIP 9223372036854775807")?
        .into_rows();
    ensure!(rows.is_empty(), "{} rows", rows.len());
    Ok(Verdict::Passed)
}

fn a_cancelled_write_leaves_no_trace() -> Outcome {
    let db = dense()?;
    let cancel = CancelHandle::default();
    let options = QueryOptions::new()
        .cancel(cancel.clone())
        .limits(unlimited());
    let runner = std::thread::spawn({
        let db = db.clone();
        move || {
            run(
                &db,
                "UNWIND range(1, 100000000) AS i CREATE (:Trace {i: i})",
                &options,
            )
        }
    });
    // In the middle of the query, which takes far longer.
    std::thread::sleep(Duration::from_millis(300));
    cancel.cancel();
    let ended = runner.join().ok().context("the query panicked")?;
    refused(ended, &[ErrorKind::Cancelled, ErrorKind::Limit], "")?;
    let n: i64 = db
        .query("MATCH (t:Trace) RETURN count(*) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 0, "{n} traces");
    Ok(Verdict::Passed)
}
