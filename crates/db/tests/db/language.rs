//! Queries that scenarios cannot express: very long ones, very deep ones, and files.

use std::fs;

use isomer_db::{Database, ErrorKind, Limits, Map, Query, QueryOptions, Value, params};

use crate::place::{self, Opening as _};

/// Sums and products of any number of terms are flat.
#[test]
fn sums_of_thousands_of_terms_are_computed() {
    let db = place::open_empty().unwrap();
    let sum = format!("RETURN 0{} AS v", " + 1".repeat(50_000));
    assert_eq!(single(&db, &sum), Value::Int(50_000));
    let mixed = format!("UNWIND [2] AS x RETURN 1{} AS v", " + x - 1".repeat(5_000));
    assert_eq!(single(&db, &mixed), Value::Int(5_001));
    let product = format!("RETURN 1{} AS v", " * 3 / 3".repeat(10_000));
    assert_eq!(single(&db, &product), Value::Int(1));
    let text = format!("RETURN size(''{}) AS v", " + 'ab'".repeat(10_000));
    assert_eq!(single(&db, &text), Value::Int(20_000));
    let overflow = format!("RETURN 9223372036854775000{} AS v", " + 1".repeat(1_000));
    let error = db.query(&overflow).unwrap_err();
    assert_eq!(error.query_error().unwrap().detail, "IntegerOverflow");
    let wrong = format!("RETURN 1{} + true AS v", " + 1".repeat(1_000));
    assert_eq!(db.query(&wrong).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Patterns in parentheses are values under boolean operators, and names of temporal fields have any case.
#[test]
fn values_are_written_as_in_neo4j() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:A {n: 1})-[:T]->(:A {n: 2}), (:A {n: 3})")
        .unwrap();
    let lonely = "MATCH (a:A) WITH a, not((a)--()) AS x, ((a)-->()) OR false AS y ORDER BY a.n \
        RETURN collect([x, y]) AS v";
    let pairs = [[false, true], [false, false], [true, false]];
    let expected: Value = pairs
        .iter()
        .map(|pair| pair.iter().map(|truth| Value::Bool(*truth)).collect())
        .collect();
    assert_eq!(single(&db, lonely), expected);
    let same = "RETURN datetime({epochmillis: 1500, TimeZone: '+01:00'}) = \
        datetime({epochMillis: 1500, timezone: '+01:00'}) \
        AND date({Year: 2024, ORDINALDAY: 60}) = date('2024-02-29') \
        AND duration({Days: 1}) = duration('P1D') AS v";
    assert_eq!(single(&db, same), Value::Bool(true));
    let unknown = db.query("RETURN date({yaer: 2024})").unwrap_err();
    assert!(unknown.to_string().contains("no field `yaer`"), "{unknown}");
}

/// Anything nested a hundred thousand levels deep is refused, from any source.
#[test]
fn deep_nesting_is_refused() {
    let db = place::open_empty().unwrap();
    let nested = |open: &str, close: &str| {
        let count = 100_000.min((1 << 19) / (open.len() + close.len()));
        format!("RETURN {}1{} AS v", open.repeat(count), close.repeat(count))
    };
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{a:", "}"),
        ("-", ""),
        ("NOT ", ""),
        ("abs(", ")"),
        ("CASE WHEN true THEN ", " END"),
        ("COUNT { RETURN ", " AS x }"),
        ("[x IN [1] | ", "]"),
        ("reduce(a = 1, x IN [1] | ", ")"),
        ("1 ^ ", ""),
    ] {
        let error = db.query(&nested(open, close)).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Limit | ErrorKind::Invalid),
            "{open}: {error:?}"
        );
    }
    let deep = "RETURN reduce(a = [], x IN range(1, 100000) | [a]) AS v";
    assert_eq!(db.query(deep).unwrap_err().kind(), ErrorKind::Limit);
    for wrap in [
        |value: Value| Value::from(vec![value]),
        |value: Value| Value::from(params! { "a" => value }),
    ] {
        let deep = (0..100_000).fold(Value::Null, |value, _| wrap(value));
        let mut parameters = Map::new();
        parameters.insert("v", deep);
        let error = db.query(("RETURN $v AS v", parameters)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}

/// A runtime error shows the user's text, also if its plan was cached for other literals.
#[test]
fn errors_of_running_queries_have_a_place() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:N {x: 0, s: 'abc'})").unwrap();
    for (text, line, column) in [
        ("MATCH (n:N)\nRETURN 1, 2 / n.x AS y", 2, 11),
        (
            "MATCH (n:N) WHERE n.s = 'abc' AND\n  n.x = 0 AND 100 % n.x = 1 RETURN n",
            2,
            15,
        ),
        (
            "MATCH (n:N) WHERE n.s = 'abc' AND n.x = 0 AND 7 / n.x = 1 RETURN n",
            1,
            47,
        ),
        (
            "MATCH (n:N) WHERE n.s = 'abc' AND n.x = 0 AND 12345 / n.x = 1 RETURN n",
            1,
            47,
        ),
        ("WITH [1] AS l, 'a' AS i\nRETURN l[i]", 2, 8),
        ("RETURN date('nope') AS d", 1, 8),
        ("UNWIND [1, 'a'] AS x RETURN abs(1) + toInteger([x])", 1, 38),
    ] {
        let error = db.query(text).unwrap_err();
        let place = format!("--> line {line}, column {column}");
        assert!(error.to_string().contains(&place), "{text}\n{error}");
    }
}

#[test]
fn files_of_the_folder_are_read_and_no_others() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("csv");
    fs::create_dir_all(folder.join("deep")).unwrap();
    fs::write(outside.path().join("secret.csv"), "a,b\n1,2\n").unwrap();
    // Its name begins with the folder's name.
    let sibling = outside.path().join("csv-other");
    fs::create_dir(&sibling).unwrap();
    fs::write(sibling.join("secret.csv"), "a,b\n1,2\n").unwrap();
    fs::write(
        folder.join("people.csv"),
        "name,age,city\nAda,36,London\n\"Grace \"\"G\"\" H\",,\"New\nYork\"\nAlan,41\n",
    )
    .unwrap();
    fs::write(folder.join("deep/plain file.csv"), "1;2\n3;\n").unwrap();
    fs::write(folder.join("bad.csv"), "a,b\n1,2\nx,\"open\n").unwrap();
    fs::write(folder.join("wide.csv"), "a,b\n1,2\n1,2,3\n").unwrap();
    fs::write(folder.join("twice.csv"), "a,a\n1,2\n").unwrap();
    #[cfg(unix)]
    for (to, name) in [
        (outside.path().join("secret.csv"), "link.csv"),
        (sibling.clone(), "sibling"),
    ] {
        std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
    }

    let closed = place::open_empty().unwrap();
    let error = closed
        .query("LOAD CSV FROM 'people.csv' AS row RETURN row")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);

    let db = Database::builder()
        .csv_folder(&folder)
        .open_empty()
        .unwrap();
    let query = "LOAD CSV WITH HEADERS FROM 'people.csv' AS row
                 RETURN collect([row.name, toInteger(row.age), row.city]) AS v";
    let row = |name: &str, age: Value, city: Value| Value::from(vec![name.into(), age, city]);
    assert_eq!(
        single(&db, query),
        Value::from(vec![
            row("Ada", Value::Int(36), "London".into()),
            row("Grace \"G\" H", Value::Null, "New\nYork".into()),
            row("Alan", Value::Int(41), Value::Null),
        ])
    );
    let query = "UNWIND ['file:///deep/plain%20file.csv', './deep/plain file.csv'] AS name
                 LOAD CSV FROM name AS row FIELDTERMINATOR ';' RETURN collect(row) AS v";
    let list = |a: &str, b: Value| Value::from(vec![a.into(), b]);
    let both = [list("1", "2".into()), list("3", Value::Null)];
    assert_eq!(
        single(&db, query),
        Value::from([both.clone(), both].concat())
    );
    let made = "LOAD CSV WITH HEADERS FROM 'people.csv' AS row CREATE (p:P {name: row.name}) RETURN count(p) AS v";
    assert_eq!(single(&db, made), Value::Int(3));

    for name in [
        "../secret.csv",
        "deep/../../secret.csv",
        "/etc/passwd",
        "file:///../secret.csv",
        "file:////etc/passwd",
        "file://host/people.csv",
        "http://localhost/people.csv",
        "deep",
        #[cfg(unix)]
        "link.csv",
        #[cfg(unix)]
        "sibling/secret.csv",
        "../csv-other/secret.csv",
        &sibling.join("secret.csv").display().to_string(),
        &format!("file:///{}", sibling.join("secret.csv").display()),
    ] {
        let error = db
            .query((
                "LOAD CSV FROM $name AS row RETURN row",
                params! { "name" => name },
            ))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{name}: {error}");
    }
    for (name, message) in [
        ("bad.csv", "bad.csv, line 3"),
        ("twice.csv", "twice.csv, line 1"),
        ("none.csv", "none.csv cannot be read"),
    ] {
        let error = db
            .query((
                "LOAD CSV WITH HEADERS FROM $name AS row RETURN row",
                params! { "name" => name },
            ))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = db
        .query("LOAD CSV FROM 'people.csv' AS row FIELDTERMINATOR '->' RETURN row")
        .unwrap_err();
    assert!(error.to_string().contains("FIELDTERMINATOR"), "{error}");
}

/// A file that begins as gzip does is decompressed, whatever its name; its parts may be compressed one by one.
#[test]
fn compressed_files_are_read() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let packed = |text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    };
    let parts = [packed("name,born\nAda,1815\n"), packed("Grace,1906\n")].concat();
    fs::write(folder.path().join("people.csv.gz"), &parts).unwrap();
    fs::write(folder.path().join("people"), &parts).unwrap();
    fs::write(folder.path().join("cut.gz"), &parts[..parts.len() - 9]).unwrap();
    fs::write(folder.path().join("one.csv"), "a").unwrap();
    fs::write(folder.path().join("empty.csv"), "").unwrap();
    let db = Database::builder()
        .csv_folder(folder.path())
        .open_empty()
        .unwrap();
    for name in ["people.csv.gz", "people"] {
        let query = format!(
            "LOAD CSV WITH HEADERS FROM '{name}' AS row RETURN collect(row.name + row.born) AS v"
        );
        assert_eq!(
            single(&db, &query),
            Value::from(["Ada1815", "Grace1906"].map(Value::from).to_vec())
        );
    }
    let cut = "LOAD CSV FROM 'cut.gz' AS row RETURN count(row) AS v";
    let error = db.query(cut).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(
        error.to_string().contains("cut.gz cannot be read"),
        "{error}"
    );
    for (name, rows) in [("one.csv", 1), ("empty.csv", 0)] {
        let query = format!("LOAD CSV FROM '{name}' AS row RETURN count(row) AS v");
        assert_eq!(single(&db, &query), Value::Int(rows));
    }
}

/// `linenumber()` and `file()` are those of the last `LOAD CSV`, and null once its rows are combined.
#[test]
fn rows_of_files_know_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    fs::write(
        folder.path().join("deep/a b.csv"),
        "name\nAda\n\"Grace\nHopper\"\n\nAlan\n",
    )
    .unwrap();
    fs::write(folder.path().join("two.csv"), "x\ny\n").unwrap();
    let db = Database::builder()
        .csv_folder(folder.path())
        .open_empty()
        .unwrap();
    let load = "LOAD CSV WITH HEADERS FROM 'file:///deep/a%20b.csv' AS row";
    let ints = |all: &[i64]| all.iter().copied().map(Value::Int).collect::<Value>();
    let lines = |query: &str| single(&db, query);
    let collected = format!("{load} RETURN collect(linenumber()) AS v");
    assert_eq!(lines(&collected), ints(&[2, 3, 6]));
    let after_with = format!(
        "{load} WITH row.name AS name ORDER BY linenumber() DESC SKIP 1
         WITH name WHERE linenumber() > 1 UNWIND [1] AS one RETURN collect(LINENUMBER()) AS v"
    );
    assert_eq!(lines(&after_with), ints(&[3, 2]));
    let file = format!("{load} WITH file() AS v, linenumber() AS at WHERE at = 6 RETURN v");
    assert_eq!(lines(&file), Value::from("/deep/a b.csv"));
    let inside = format!(
        "{load} RETURN collect(EXISTS {{ WITH linenumber() AS at WHERE at = 3 RETURN at }}) AS v"
    );
    assert_eq!(
        lines(&inside),
        Value::from([false, true, false].map(Value::from).to_vec())
    );
    let last = "LOAD CSV FROM 'two.csv' AS a LOAD CSV FROM 'two.csv' AS b
                RETURN collect(linenumber()) AS v";
    assert_eq!(lines(last), ints(&[1, 2, 1, 2]));
    let grouped = "LOAD CSV FROM 'two.csv' AS a WITH file() AS f, count(*) AS n
                   RETURN [f, n, linenumber(), file()] AS v";
    let row: Vec<Value> = vec!["/two.csv".into(), Value::Int(2), Value::Null, Value::Null];
    assert_eq!(lines(grouped), Value::from(row));
    let distinct = "LOAD CSV FROM 'two.csv' AS a WITH DISTINCT 1 AS one RETURN linenumber() AS v";
    assert_eq!(lines(distinct), Value::Null);
    assert_eq!(lines("RETURN linenumber() AS v"), Value::Null);
    assert_eq!(lines("RETURN file() IS NULL AS v"), Value::Bool(true));
    for (query, message) in [
        (
            "LOAD CSV FROM 'two.csv' AS a RETURN count(*) + linenumber()",
            "not constant within a group",
        ),
        ("RETURN linenumber(1)", "linenumber"),
    ] {
        let error = db.query(query).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// Fields without a name are ignored, as in the scripts that users bring along, and the result says so.
#[test]
fn rows_longer_than_the_header_give_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("wide.csv"),
        "a,b\n1,2\n3,4,5\n6,7,8,9\n10\n",
    )
    .unwrap();
    fs::write(folder.path().join("even.csv"), "a,b\n1,2\n").unwrap();
    let db = Database::builder()
        .csv_folder(folder.path())
        .open_empty()
        .unwrap();
    let load = "LOAD CSV WITH HEADERS FROM $name AS row RETURN row.a AS a, row.b AS b";
    let wide = params! { "name" => "wide.csv" };
    let notice =
        "wide.csv: 2 rows, the first in line 3, have more fields than the first line names";
    let result = db.query((load, wide.clone())).unwrap();
    assert_eq!(result.len(), 4);
    assert_eq!(result.rows()[1].values(), ["3".into(), "4".into()]);
    assert_eq!(result.notices().len(), 1, "{:?}", result.notices());
    assert!(
        result.notices()[0].message.starts_with(notice),
        "{:?}",
        result.notices()
    );
    let mut stream = db.stream((load, wide.clone())).unwrap();
    assert_eq!(stream.by_ref().map(Result::unwrap).count(), 4);
    assert_eq!(stream.notices(), result.notices());

    let limited = db
        .query((&format!("{load} LIMIT 2"), wide.clone()))
        .unwrap();
    assert_eq!(limited.len(), 2);
    let twice = format!("UNWIND [1, 2] AS round {load}");
    assert_eq!(db.query((&twice, wide)).unwrap().notices().len(), 1);
    let even = db.query((load, params! { "name" => "even.csv" })).unwrap();
    assert!(even.notices().is_empty());
    // Without a header no field lacks a name.
    let lists = "LOAD CSV FROM 'wide.csv' AS row RETURN size(row) AS fields";
    assert!(db.query(lists).unwrap().notices().is_empty());
}

/// A file of any size is streamed: neither its rows nor its text are buffered.
#[test]
fn a_large_file_needs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..200_000)
        .map(|at| format!("{at},{}\n", "x".repeat(40)))
        .collect();
    fs::write(folder.path().join("large.csv"), &lines).unwrap();
    let db = Database::builder()
        .csv_folder(folder.path())
        .open_empty()
        .unwrap();
    let mut limits = Limits::default();
    limits.memory_bytes = 4 << 20;
    let options = QueryOptions::new().limits(limits);
    let query = "LOAD CSV FROM 'large.csv' AS row RETURN sum(toInteger(row[0])) AS v";
    let rows = db.query(Query::new(query).options(&options)).unwrap();
    let sum = rows.single().unwrap().value("v").unwrap().clone();
    assert_eq!(sum, Value::Int(19_999_900_000));
}

fn single(db: &Database, text: &str) -> Value {
    let rows = db.query(text).unwrap_or_else(|error| panic!("{error}"));
    rows.single().unwrap().value("v").unwrap().clone()
}
