//! Awkward keys, numbers, texts and documents: exact, or refused with a clear error.

use anyhow::{Result, ensure};
use isomer_db::{Database, ErrorKind, QueryResult, params};
use isomer_testkit::{
    generate,
    harness::{Harness, Outcome, Verdict, seed},
    random::Random,
};
use isomer_value::{Map, Value};

use crate::refused;

const BAD: [ErrorKind; 2] = [ErrorKind::Invalid, ErrorKind::Limit];

pub fn cases(harness: &mut Harness) {
    harness.case("numbers_survive_exactly", numbers_survive_exactly);
    harness.case("texts_survive_exactly", texts_survive_exactly);
    harness.case("any_value_survives_reopening", any_value_survives_reopening);
    harness.case(
        "keys_of_documents_have_a_length",
        keys_of_documents_have_a_length,
    );
    harness.case("nesting_has_a_limit_of_128", nesting_has_a_limit_of_128);
    harness.case(
        "nesting_of_a_query_has_a_limit",
        nesting_of_a_query_has_a_limit,
    );
    harness.case(
        "empty_and_dotted_property_names_are_names",
        empty_and_dotted_property_names_are_names,
    );
    harness.case("a_key_is_taken_once", a_key_is_taken_once);
    harness.case(
        "a_relationship_needs_both_ends",
        a_relationship_needs_both_ends,
    );
    harness.case("arithmetic_never_wraps", arithmetic_never_wraps);
}

/// The only value of a result.
fn only(result: QueryResult) -> Result<Value> {
    Ok(result.single()?.values()[0].clone())
}

/// Stores a value, reads it back in another transaction.
fn round_trip(db: &Database, value: Value) -> Result<Value> {
    db.query((
        "MERGE (n:Cell {_key: 1}) SET n.v = $v",
        params! { "v" => value },
    ))?;
    only(db.query("MATCH (n:Cell {_key: 1}) RETURN n.v AS v")?)
}

fn numbers_survive_exactly() -> Outcome {
    let db = Database::open_in_memory()?;
    for int in [
        0,
        -1,
        i64::MIN,
        i64::MAX,
        (1 << 53) + 1,
        -(1 << 53) - 1,
        999_999_999_999_999_999,
    ] {
        ensure!(
            round_trip(&db, Value::Int(int))? == Value::Int(int),
            "{int}"
        );
    }
    for float in [
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        5e-324,
        f64::MAX,
        0.1,
    ] {
        let back = round_trip(&db, Value::Float(float))?;
        let same = matches!(back, Value::Float(back)
            if back.to_bits() == float.to_bits() || (back.is_nan() && float.is_nan()));
        ensure!(same, "{float}: {back:?}");
    }
    for text in [
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740993",
    ] {
        let value = only(db.query(&format!("RETURN {text} AS n"))?)?;
        ensure!(value == Value::Int(text.parse()?), "{text}: {:?}", value);
    }
    refused(
        db.query("RETURN 9223372036854775808"),
        &[ErrorKind::Invalid],
        "",
    )?;
    refused(db.query("RETURN 1e400"), &[ErrorKind::Invalid], "")?;
    Ok(Verdict::Passed)
}

fn texts_survive_exactly() -> Outcome {
    let db = Database::open_in_memory()?;
    for text in [
        "",
        "\0",
        "a\0b",
        "\u{FEFF}bom",
        "e\u{301}",
        "é",
        "🦀",
        "\u{202E}",
        "\u{FFFF}",
        "'\"`\\",
        &"x".repeat(1 << 20),
    ] {
        ensure!(
            round_trip(&db, Value::from(text))? == Value::from(text),
            "{:?}",
            &text[..text.len().min(40)]
        );
    }
    Ok(Verdict::Passed)
}

fn any_value_survives_reopening() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut random = Random::new(seed());
    let values: Vec<Value> = (0..500)
        .map(|_| generate::property(&mut random, 3))
        .collect();
    let db = Database::open(folder.path())?;
    db.transact(|tx| {
        for (at, value) in values.iter().enumerate() {
            tx.query((
                "CREATE (:V {_key: $k, v: $v})",
                params! { "k" => at as i64, "v" => value.clone() },
            ))?;
        }
        Ok::<(), isomer_db::Error>(())
    })?;
    drop(db);
    let db = Database::open(folder.path())?;
    for (at, value) in values.iter().enumerate() {
        let found = only(db.query(("MATCH (n:V {_key: $k}) RETURN n.v", [("k", at as i64)]))?)?;
        ensure!(found == *value, "{value:?} came back as {:?}", found);
    }
    Ok(Verdict::Passed)
}

fn keys_of_documents_have_a_length() -> Outcome {
    let db = Database::open_in_memory()?;
    let put = |key: Value| {
        db.query(("CREATE (:D {_key: $k})", params! { "k" => key }))
            .map(drop)
    };
    put(Value::from("x".repeat(1_000)))?;
    refused(put(Value::from("x".repeat(64 * 1024 + 1))), &BAD, "limit")?;
    refused(put(Value::Float(1.5)), &BAD, "_key")?;
    refused(put(Value::Bool(true)), &BAD, "_key")?;
    refused(put(Value::empty_list()), &BAD, "_key")?;
    let n: i64 = db
        .query("MATCH (d:D) RETURN count(*) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1, "{n} documents, one was accepted");
    Ok(Verdict::Passed)
}

fn nesting_has_a_limit_of_128() -> Outcome {
    let db = Database::open_in_memory()?;
    let put = |depth: usize| {
        let params = params! { "v" => generate::deep_list(depth) };
        db.query(("CREATE (:D {v: $v})", params)).map(drop)
    };
    put(120)?;
    refused(put(200), &BAD, "128")?;
    let mut deep = Value::Int(1);
    for _ in 0..200 {
        deep = Value::from(Map::from_iter([("m", deep)]));
    }
    refused(
        db.query(("CREATE (:D {v: $v})", params! { "v" => deep }))
            .map(drop),
        &BAD,
        "128",
    )?;
    Ok(Verdict::Passed)
}

fn nesting_of_a_query_has_a_limit() -> Outcome {
    let db = Database::open_in_memory()?;
    for (open, middle, close) in [
        ("[", "1", "]"),
        ("(", "1", ")"),
        ("{a: ", "1", "}"),
        ("NOT ", "true", ""),
        ("-", "1", ""),
        ("[x IN ", "[]", " | x]"),
    ] {
        for depth in [1_000, 100_000] {
            let text = format!(
                "RETURN {}{middle}{} AS x",
                open.repeat(depth),
                close.repeat(depth)
            );
            // At any depth: a result, or an error that names a limit, without stack overflow.
            if let Err(error) = db.query(&text) {
                ensure!(
                    BAD.contains(&error.kind()),
                    "{open:?} × {depth}: {:?}",
                    error.kind()
                );
                ensure!(
                    error.message().len() < 2_000,
                    "{open:?} × {depth}: a message of {} bytes",
                    error.message().len()
                );
            }
        }
    }
    let chain = format!("RETURN {} AS x", vec!["1"; 50_000].join(" + "));
    let sum = db
        .query(&chain)
        .and_then(|result| result.single()?.get::<i64>("x"));
    ensure!(
        matches!(&sum, Ok(50_000)) || sum.is_err_and(|error| BAD.contains(&error.kind())),
        "a long sum"
    );
    let pattern = format!(
        "MATCH {} RETURN count(*) AS n",
        vec!["()"; 5_000].join("-->")
    );
    if let Err(error) = db.query(&pattern) {
        ensure!(BAD.contains(&error.kind()), "a long pattern: {error}");
    }
    Ok(Verdict::Passed)
}

fn empty_and_dotted_property_names_are_names() -> Outcome {
    let db = Database::open_in_memory()?;
    let names = ["", "a.b", "__proto__", "$where", "with space", "`", "名前"];
    let map: Map = names
        .iter()
        .enumerate()
        .map(|(at, name)| (*name, Value::Int(at as i64)))
        .collect();
    let back = round_trip(&db, Value::from(map.clone()))?;
    ensure!(back == Value::from(map.clone()), "{back:?}");
    db.query((
        "CREATE (n:Names) SET n = $map",
        params! { "map" => Value::from(map.clone()) },
    ))?;
    let value = only(db.query("MATCH (n:Names) RETURN properties(n)")?)?;
    ensure!(value == Value::from(map), "{value:?}");
    let dotted: i64 = db
        .query("MATCH (n:Names) RETURN n.`a.b` AS v")?
        .single()?
        .get("v")?;
    ensure!(dotted == 1);
    Ok(Verdict::Passed)
}

fn a_key_is_taken_once() -> Outcome {
    let db = Database::open_in_memory()?;
    db.query("CREATE (:P {_key: 'a'})")?;
    refused(
        db.query("CREATE (:P {_key: 'a'})"),
        &[ErrorKind::Exists],
        "a",
    )?;
    db.query("CREATE (:Q {_key: 'a'})")?;
    let taken = db.transact(|tx| {
        tx.query("CREATE (:P {_key: 'b'})")?;
        tx.query("CREATE (:P {_key: 'b'})").map(drop)
    });
    refused(taken, &[ErrorKind::Exists], "b")?;
    let n: i64 = db
        .query("MATCH (p:P) RETURN count(*) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1, "{n}");
    Ok(Verdict::Passed)
}

fn a_relationship_needs_both_ends() -> Outcome {
    let db = Database::open_in_memory()?;
    db.query("CREATE (:P {_key: 'a'})-[:T]->(:P {_key: 'b'})")?;
    refused(
        db.query("MATCH (p:P {_key: 'a'}) DELETE p"),
        &[ErrorKind::Invalid],
        "relationship",
    )?;
    let n: i64 = db
        .query("MATCH (:P)-[t:T]->(:P) RETURN count(t) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1, "the refused deletion left {n} relationships");
    db.query("MATCH (p:P {_key: 'a'}) DETACH DELETE p")?;
    let n: i64 = db
        .query("MATCH ()-[t]-() RETURN count(t) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 0, "{n} relationships outlived their end");
    Ok(Verdict::Passed)
}

fn arithmetic_never_wraps() -> Outcome {
    let db = Database::open_in_memory()?;
    for text in [
        "RETURN 9223372036854775807 + 1",
        "RETURN -9223372036854775808 - 1",
        "RETURN 9223372036854775807 * 2",
        "RETURN 1 / 0",
        "RETURN 1 % 0",
        "UNWIND [9223372036854775807, 1] AS x RETURN sum(x)",
    ] {
        refused(db.query(text), &BAD, "").map_err(|error| error.context(text))?;
    }
    Ok(Verdict::Passed)
}
