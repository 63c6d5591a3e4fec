//! One expression over the same values in three forms: one row of parameters at a time, many rows at once,
//! and as literals. All must yield the same result.

use anyhow::{Result, ensure};
use isomer_db::{Database, Query, QueryOptions};
use isomer_value::{Map, Value};
use std::time::Duration;

use crate::random::Random;
use crate::tck::notation::Noted;

/// Values in their written form.
const VALUES: [&str; 30] = [
    "null",
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "9223372036854775807",
    "1.5",
    "-0.5",
    "0.0",
    "(0.0 / 0.0)",
    "1e300",
    "''",
    "'a'",
    "'ab'",
    "'1'",
    "'2020-01-01'",
    "[]",
    "[1]",
    "[1, null]",
    "[[1], 'a']",
    "{}",
    "{a: 1}",
    "{a: null, b: [1]}",
    "date('2020-02-29')",
    "duration('P1M')",
    "localtime('12:00')",
];

/// Variables per expression.
const VARIABLES: usize = 3;
/// Rows per batch.
const ROWS: usize = 6;

/// Result of an expression: its value, or an error.
type Outcome = Result<String, String>;

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evaluated {
    /// Expressions tried.
    pub expressions: usize,
    /// Values compared.
    pub values: usize,
}

/// Tries `count` random expressions. The first difference is the error.
pub fn compare(count: usize, seed: u64) -> Result<Evaluated> {
    let mut random = Random::new(seed);
    let database = Database::open_in_memory()?;
    let mut values = Vec::new();
    for text in VALUES {
        let result = database.query(&format!("RETURN {text} AS v"))?;
        values.push(result.single()?.value("v")?.clone());
    }
    let mut evaluated = Evaluated::default();
    for _ in 0..count {
        let expression = expression(&mut random, 3);
        let rows: Vec<Vec<usize>> = (0..ROWS)
            .map(|_| {
                (0..VARIABLES)
                    .map(|_| random.below(VALUES.len() as u64) as usize)
                    .collect()
            })
            .collect();
        let alone: Vec<Outcome> = rows
            .iter()
            .map(|row| by_parameters(&database, &expression, row, &values))
            .collect();
        let together = all_at_once(&database, &expression, &rows, &values);
        match (&together, alone.iter().find_map(|one| one.as_ref().err())) {
            (Ok(together), None) => {
                for (at, (one, other)) in alone.iter().zip(together).enumerate() {
                    ensure!(
                        one.as_ref() == Ok(other),
                        "{expression}\nover {} is {one:?} alone and {other} among {ROWS} rows",
                        shown(&rows[at])
                    );
                }
                evaluated.values += ROWS;
            }
            (Err(_), Some(_)) => {}
            (Ok(_), Some(error)) => anyhow::bail!(
                "{expression}\nover {:?} fails alone and not among others: {error}",
                show_all(&rows)
            ),
            (Err(error), None) => anyhow::bail!(
                "{expression}\nover {:?} fails among others and not alone: {error}",
                show_all(&rows)
            ),
        }
        // Literals may be rejected before running where a value would not be: only values are compared.
        if let (Ok(written), Ok(given)) = (as_written(&database, &expression, &rows[0]), &alone[0])
        {
            ensure!(
                written == *given,
                "{expression}\nover {} is {written} written out and {given} by parameters",
                shown(&rows[0])
            );
        }
        evaluated.expressions += 1;
    }
    Ok(evaluated)
}

fn shown(row: &[usize]) -> String {
    row.iter()
        .map(|at| VALUES[*at])
        .collect::<Vec<_>>()
        .join(", ")
}

fn show_all(rows: &[Vec<usize>]) -> Vec<String> {
    rows.iter().map(|row| shown(row)).collect()
}

fn run_query(database: &Database, text: &str, parameters: Map) -> Result<Vec<String>, String> {
    let options = QueryOptions::new().time_limit(Duration::from_secs(10));
    let result = database
        .query(Query::new(text).params(parameters).options(&options))
        .map_err(|error| error.to_string())?;
    Ok(result
        .rows()
        .iter()
        .filter_map(|row| row.values().first())
        .map(|value| Noted::of(value).to_string())
        .collect())
}

fn one(answer: Result<Vec<String>, String>) -> Outcome {
    answer.map(|mut rows| rows.pop().unwrap_or_default())
}

fn by_parameters(
    database: &Database,
    expression: &str,
    row: &[usize],
    values: &[Value],
) -> Outcome {
    let names = (0..VARIABLES).map(|at| format!("v{at}"));
    let parameters: Map = names
        .zip(row)
        .map(|(name, value)| (name, values[*value].clone()))
        .collect();
    one(run_query(
        database,
        &format!("WITH $v0 AS v0, $v1 AS v1, $v2 AS v2 RETURN {expression} AS x"),
        parameters,
    ))
}

fn as_written(database: &Database, expression: &str, row: &[usize]) -> Outcome {
    let written = row
        .iter()
        .enumerate()
        .fold(expression.to_owned(), |text, (at, value)| {
            text.replace(&format!("v{at}"), VALUES[*value])
        });
    one(run_query(
        database,
        &format!("RETURN {written} AS x"),
        Map::new(),
    ))
}

fn all_at_once(
    database: &Database,
    expression: &str,
    rows: &[Vec<usize>],
    values: &[Value],
) -> Result<Vec<String>, String> {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| Value::from(row.iter().map(|at| values[*at].clone()).collect::<Vec<_>>()))
        .collect();
    let parameters: Map = [("rows", Value::from(rows))].into_iter().collect();
    run_query(
        database,
        &format!(
            "UNWIND $rows AS row WITH row[0] AS v0, row[1] AS v1, row[2] AS v2 RETURN {expression} AS x"
        ),
        parameters,
    )
}

fn expression(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.once_in(8) {
        return match random.once_in(4) {
            true => (*random.pick(&["1", "'a'", "null", "true", "[1, 2]", "0", "2.5"])).to_owned(),
            false => format!("v{}", random.below(VARIABLES as u64)),
        };
    }
    let mut part = || expression(random, depth - 1);
    let (a, b, c) = (part(), part(), part());
    let infix = *random.pick(&[
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "AND",
        "OR",
        "XOR",
        "IN",
        "STARTS WITH",
        "ENDS WITH",
        "CONTAINS",
        "=",
        "<",
        "+",
    ]);
    let function = *random.pick(&[
        "size",
        "head",
        "last",
        "toString",
        "toInteger",
        "toFloat",
        "abs",
        "reverse",
        "keys",
        "toBoolean",
        "sign",
        "tail",
        "toUpper",
    ]);
    match random.below(16) {
        0..=5 => format!("({a} {infix} {b})"),
        6 => format!("(NOT {a})"),
        7 => format!("({a} IS NULL)"),
        8 => format!("CASE WHEN {a} IS NULL THEN {b} ELSE {c} END"),
        9 => format!("CASE {a} WHEN {b} THEN 1 WHEN null THEN 2 ELSE {c} END"),
        10 => format!("coalesce({a}, {b}, {c})"),
        11 => format!("[{a}, {b}]"),
        12 => format!("({a})[{b}]"),
        13 => format!("{function}({a})"),
        14 => format!("[x IN [{a}, {b}] WHERE x IS NOT NULL | [x, {c}]]"),
        _ => format!(
            "{}(x IN [{a}, {b}, null] WHERE x = {c})",
            random.pick(&["any", "all", "none", "single"])
        ),
    }
}
