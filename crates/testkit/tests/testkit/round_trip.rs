//! An export that is imported again gives the original data: random databases of every type, in every format, compared
//! record by record with types. If a format cannot represent something, the export is refused and names a format that
//! can.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use isomer_data::{Access, ConvergentKind, ConvergentOp, ConvergentOwner, GraphRead, Transaction};
use isomer_db::{Database, Map, Value, internals::DatabaseInternals as _};
use isomer_testkit::{
    binary,
    generate::{document_key, property},
    random::Random,
};
use isomer_value::{Crs, NodeId, Point, ZonedDateTime, record::encode_value};

/// Names that could be mistaken for a header, a type or a tag.
const NAMES: [&str; 22] = [
    "a",
    "b",
    "c",
    "",
    "a,b",
    "a:int",
    "q\"uote",
    "new\nline",
    "cr\rname",
    "#tag",
    " lead",
    "trail ",
    ":ID",
    ":ignore",
    "7",
    "true",
    "$date",
    "$map",
    "_from",
    "_labels",
    "\u{feff}bom",
    "x;y",
];

/// Texts that could be mistaken for a value of another type.
const TEXTS: [&str; 20] = [
    "007",
    "+5",
    "1.0",
    "1e5",
    "NaN",
    "true",
    "2024-02-29",
    "10:00",
    "2024-02-29T10:00Z",
    "P1D",
    "null",
    "\"",
    "{}",
    "[1]",
    "{\"$date\":\"2024-02-29\"}",
    " x ",
    "#",
    "\r",
    "a\rb\r\nc",
    ",",
];

const MOMENTS: [&str; 8] = [
    "2023-11-05T01:40:30.5-07:00[America/Los_Angeles]",
    "2023-11-05T01:40:30.5-08:00[America/Los_Angeles]",
    "9999-12-31T23:59:59.999999999-18:00",
    "-9999-01-01T00:00+18:00",
    "9999-12-31T23:59:59Z",
    "1818-07-21T21:40:32.142+00:53:28[Europe/Stockholm]",
    "2024-01-01T00:00[Asia/Tokyo]",
    "2024-01-01T00:00+00:00:01",
];

fn value(random: &mut Random) -> Value {
    match random.below(6) {
        0 => (*random.pick(&TEXTS)).into(),
        1 => {
            let text = *random.pick(&MOMENTS);
            text.parse::<ZonedDateTime>().expect(text).into()
        }
        2 if random.once_in(3) => Point {
            crs: *random.pick(&[Crs::Wgs84, Crs::Wgs84Height]),
            x: -179.5,
            y: 1e-9,
            z: 0.0,
        }
        .into(),
        3 if random.once_in(3) => {
            let inner = property(random, 1);
            let tag = *random.pick(&["$date", "$map", "$float", "$bytes", "$point"]);
            Map::from_iter([(tag, inner)]).into()
        }
        _ => property(random, 2),
    }
}

/// A record's properties; in some databases each name has one type, so that CSV has typed columns.
fn properties(random: &mut Random, types: Option<&BTreeMap<&'static str, u64>>) -> Map {
    let mut map = Map::new();
    for _ in 0..random.below(6) {
        let name = *random.pick(&NAMES);
        let made = match types {
            Some(types) => loop {
                let made = value(random);
                let number =
                    made.type_name().len() as u64 + u64::from(made.type_name().as_bytes()[0]);
                if number % 16 == types[name] % 16 || random.once_in(40) {
                    break made;
                }
            },
            None => value(random),
        };
        map.insert(name, made);
    }
    map
}

/// A database with nodes of a label `L` and relationships of a type `T`; and, if requested, convergent fields of all
/// kinds.
fn database(random: &mut Random, path: &Path, converging: bool) {
    let db = Database::open(path).expect("a new database");
    let types: BTreeMap<&str, u64> = NAMES
        .iter()
        .map(|name| (*name, random.next_u64()))
        .collect();
    let types = random.once_in(2).then_some(types);
    let mixed_keys = random.once_in(2);
    let store = db.store().expect("open");
    let mut tx = store.begin(Access::Write).expect("a transaction");
    let (label, rel_type) = (
        tx.name_ids().intern_label("L").expect("a label"),
        tx.name_ids().intern_type("T").expect("a type"),
    );
    let mut nodes: Vec<NodeId> = Vec::new();
    for number in 0..1 + random.below(9) {
        let mut map = properties(random, types.as_ref());
        let key = match mixed_keys {
            true => document_key(random),
            false => Value::from(format!("k{number}")),
        };
        map.insert("_key", key);
        // An existing key creates no node.
        let mark = tx.savepoint();
        match tx.graph_mut().create_node(&[label], &map) {
            Ok(node) => nodes.push(node),
            Err(_) => tx.rollback_to(mark).expect("back"),
        }
    }
    let mut owners = Vec::new();
    for _ in 0..random.below(8) {
        let (from, to) = (*random.pick(&nodes), *random.pick(&nodes));
        let mut map = properties(random, types.as_ref());
        map.remove("_from");
        let relationship = tx
            .graph_mut()
            .create_relationship(rel_type, from, to, &map)
            .expect("a relationship");
        owners.push(ConvergentOwner::Relationship(relationship));
    }
    if converging {
        owners.extend(nodes.iter().copied().map(ConvergentOwner::Node));
        for owner in owners {
            for (path, op) in operations(random) {
                tx.fields_mut()
                    .converge(owner, path, &op, None)
                    .expect("an operation");
            }
        }
    }
    tx.commit().expect("a commit");
    db.query("CREATE INDEX names FOR (n:L) ON (n.c)")
        .expect("an index");
    if converging {
        db.query("CREATE CONSTRAINT votes FOR (n:L) REQUIRE n.votes IS CONVERGENT COUNTER")
            .expect("a constraint");
    }
    db.close().expect("closed");
}

fn operations(random: &mut Random) -> Vec<(&'static [&'static str], ConvergentOp)> {
    let small = random.below(100) as i64;
    let all: [(&[&str], ConvergentOp); 10] = [
        (&["votes"], ConvergentOp::Count(i64::MIN + small)),
        (&["tags"], ConvergentOp::Insert("x".into())),
        (&["tags"], ConvergentOp::Insert(Value::Float(f64::NAN))),
        (&["seen"], ConvergentOp::InsertGrowing(small.into())),
        (
            &["state"],
            ConvergentOp::Assign(MOMENTS[1].parse::<ZonedDateTime>().expect("one").into()),
        ),
        (&["draft"], ConvergentOp::AssignMulti("one".into())),
        (&["done"], ConvergentOp::Enable),
        (&["visitors"], ConvergentOp::Observe(small.into(), Some(6))),
        (&["map", "inner", "likes"], ConvergentOp::Count(small + 1)),
        (&["map", "flag"], ConvergentOp::Enable),
    ];
    all.into_iter().filter(|_| !random.once_in(4)).collect()
}

/// All exported data of a database, as text that differs for different types, signs of zero and zones.
#[derive(Debug, PartialEq)]
struct Content {
    nodes: BTreeMap<String, String>,
    relationships: Vec<String>,
    schema: Vec<String>,
}

fn content(path: &Path) -> Content {
    let db = Database::open(path).expect("a database");
    let tx = db
        .store()
        .expect("open")
        .begin(Access::Read)
        .expect("a transaction");
    let catalog = tx.catalog();
    let (mut ids, mut contents) = (Vec::new(), Vec::new());
    tx.scan_nodes(None, None, 1_000, &mut ids).expect("nodes");
    tx.node_contents(&ids, &mut contents).expect("contents");
    let mut keys = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for (id, content) in ids.iter().zip(contents.iter().flatten()) {
        let key = format!("{:?}", content.properties.get("_key"));
        let kinds = kinds(&tx, ConvergentOwner::Node(*id), &content.properties);
        let text = format!(
            "{:?} {} {kinds:?}",
            content.labels,
            shown(&content.properties)
        );
        assert!(nodes.insert(key.clone(), text).is_none(), "{key} twice");
        keys.insert(*id, key);
    }
    let (mut rows, mut contents) = (Vec::new(), Vec::new());
    tx.scan_relationships(None, None, 1_000, &mut rows)
        .expect("relationships");
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    tx.relationship_contents(&ids, &mut contents)
        .expect("contents");
    let each = rows.iter().zip(contents.iter().flatten());
    let mut relationships: Vec<String> = each
        .map(|(row, content)| {
            let (from, to) = (&keys[&row.source], &keys[&row.target]);
            let owner = ConvergentOwner::Relationship(row.id);
            let kinds = kinds(&tx, owner, &content.properties);
            format!(
                "{from} {} {to} {} {kinds:?}",
                content.type_name,
                shown(&content.properties)
            )
        })
        .collect();
    relationships.sort();
    let indexes = catalog
        .indexes()
        .iter()
        .map(|index| format!("{} {:?}", index.name, index.fields));
    let constraints = catalog.constraints().iter();
    let constraints = constraints.map(|one| format!("{} {:?}", one.name, one.kind));
    let schema = indexes.chain(constraints).collect();
    drop(tx);
    db.close().expect("closed");
    Content {
        nodes,
        relationships,
        schema,
    }
}

/// The stored bytes of the properties, which are exact, and the properties for display.
fn shown(map: &Map) -> String {
    let mut bytes = Vec::new();
    let mut names = isomer_value::NameTable::new();
    for value in map.values() {
        encode_value(value, &mut names, &mut bytes).expect("storable");
    }
    format!("{map:?} {bytes:02x?}")
}

fn kinds(tx: &Transaction, owner: ConvergentOwner, map: &Map) -> Vec<(String, ConvergentKind)> {
    let of = |name: &str| tx.fields().kind(owner, &[name]).expect("a kind");
    map.names()
        .filter_map(|name| Some((name.to_string(), of(name)?)))
        .collect()
}

/// Runs the binary; returns none if it succeeds, or its error.
fn isomer(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = binary::isomer().expect("the binary");
    command.args(arguments).current_dir(folder);
    binary::refused(&mut command).expect("it ends with 0 or 1")
}

fn well(folder: &Path, arguments: &[&str]) {
    assert_eq!(isomer(folder, arguments), None, "{arguments:?}");
}

/// Exports both kinds of records in one format and imports them into a new database.
fn through(folder: &Path, seed: u64, extension: &str) -> Content {
    let (nodes, relationships) = (format!("n.{extension}"), format!("r.{extension}"));
    let copy = format!("copy-{extension}");
    well(
        folder,
        &["export", "db", "nodes", "--label", "L", "-o", &nodes],
    );
    well(
        folder,
        &[
            "export",
            "db",
            "relationships",
            "--type",
            "T",
            "-o",
            &relationships,
        ],
    );
    let import: [&[&str]; 2] = [
        &["nodes", &nodes, "--label", "L"],
        &[
            "relationships",
            &relationships,
            "--type",
            "T",
            "--from",
            "L",
            "--to",
            "L",
        ],
    ];
    for one in import {
        let arguments = [&["import", &copy], one].concat();
        let refused = isomer(folder, &arguments);
        assert_eq!(
            refused,
            None,
            "seed {seed}, {extension}: {}",
            file(folder, one[1])
        );
    }
    content(&folder.join(copy))
}

fn file(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The differences, record by record, for a readable failure.
fn assert_same(seed: u64, format: &str, before: &Content, after: &Content, source: &str) {
    for (key, node) in &before.nodes {
        assert_eq!(
            after.nodes.get(key),
            Some(node),
            "seed {seed}, {format}, node {key}\n{source}"
        );
    }
    assert_eq!(
        before.nodes.len(),
        after.nodes.len(),
        "seed {seed}, {format}\n{source}"
    );
    assert_eq!(
        before.relationships, after.relationships,
        "seed {seed}, {format}\n{source}"
    );
}

fn databases() -> u64 {
    let wanted = std::env::var("ISOMER_ROUND_TRIPS").ok();
    wanted.and_then(|number| number.parse().ok()).unwrap_or(12)
}

fn first_seed() -> u64 {
    let wanted = std::env::var("ISOMER_SEED").ok();
    wanted.and_then(|number| number.parse().ok()).unwrap_or(1)
}

#[test]
fn every_format_returns_the_exported_data() {
    for seed in first_seed()..first_seed() + databases() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder: PathBuf = folder.path().to_owned();
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut random = Random::new(seed);
        database(&mut random, &folder.join("db"), false);
        let before = content(&folder.join("db"));
        let has_relationships = !before.relationships.is_empty();
        for extension in ["csv", "jsonl", "json"] {
            if has_relationships {
                let after = through(&folder, seed, extension);
                let source = file(&folder, &format!("n.{extension}"));
                assert_same(seed, extension, &before, &after, &source);
            }
        }
        well(&folder, &["export", "db", "all", "-o", "all.jsonl"]);
        well(&folder, &["import", "copy", "all", "all.jsonl"]);
        assert_eq!(content(&folder.join("copy")), before, "seed {seed}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}

/// Convergent fields are only exported by `all`, with their kinds, values and constraints; the other formats refuse
/// them.
#[test]
fn convergent_fields_come_back_or_are_refused() {
    for seed in first_seed()..first_seed() + databases().div_ceil(3) {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let mut random = Random::new(seed ^ 0xC0_FFEE);
        database(&mut random, &folder.join("db"), true);
        let before = content(&folder.join("db"));
        well(folder, &["export", "db", "all", "-o", "all.jsonl"]);
        well(folder, &["import", "copy", "all", "all.jsonl"]);
        assert_eq!(content(&folder.join("copy")), before, "seed {seed}");
        let dump = file(folder, "all.jsonl");
        assert!(dump.starts_with("{\"isomer\":2}"), "seed {seed}");
        for format in ["csv", "jsonl", "json"] {
            let export = [
                "export", "db", "nodes", "--label", "L", "--format", format, "-o", "out",
            ];
            let refused = isomer(folder, &export).unwrap_or_default();
            assert!(
                refused.contains("isomer export DB all"),
                "seed {seed}, {format}: {refused}"
            );
            assert!(!folder.join("out").exists());
            well(folder, &[&export[..], &["--plain"]].concat());
            std::fs::remove_file(folder.join("out")).expect("removed");
        }
        // The fields remain convergent.
        well(
            folder,
            &[
                "query",
                "copy",
                "MATCH (n:L) SET n.votes = counter.add(n.votes, 1)",
            ],
        );
        assert!(isomer(folder, &["query", "copy", "MATCH (n:L) SET n.votes = 5"]).is_some());
    }
}

/// Constraints of every kind that the language declares, and indexes, come back from `all` under their names, and hold
/// in the copy.
#[test]
fn constraints_and_indexes_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let db = Database::open(folder.join("db")).expect("a new database");
    for text in [
        "CREATE CONSTRAINT `odd \"name\";` FOR (n:`La bel`) REQUIRE n.`a,b` IS NOT NULL",
        "CREATE CONSTRAINT each FOR (n:L) REQUIRE n.e IS UNIQUE",
        "CREATE CONSTRAINT deep FOR (n:L) REQUIRE (n.m.k, n.z) IS UNIQUE",
        "CREATE CONSTRAINT pair FOR (n:K) REQUIRE (n.a, n.b) IS NODE KEY",
        "CREATE CONSTRAINT born FOR (n:L) REQUIRE n.born IS :: DATE",
        "CREATE INDEX tags FOR (n:L) ON (n.tags[])",
        "CREATE UNIQUE INDEX code FOR (n:L) ON (n.code)",
        "CREATE (:`La bel`:L {_key: 1, `a,b`: 1, e: 1, m: {k: 1}, z: 1, born: date('2024-01-01'), tags: ['x'], code: 7})",
        "CREATE (:K {_key: 2, a: 1, b: 2}), ({_key: 3})",
    ] {
        db.query(text).expect(text);
    }
    db.close().expect("closed");
    well(folder, &["export", "db", "all", "-o", "all.jsonl"]);
    well(folder, &["import", "copy", "all", "all.jsonl"]);
    let schema = |name: &str| {
        let db = Database::open(folder.join(name)).expect("a database");
        let shown = [
            "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties, ownedIndex, propertyType",
            "SHOW INDEXES YIELD name, state, labelsOrTypes, properties, owningConstraint, unique",
        ];
        let shown = shown.map(|text| {
            let rows = db.query(text).expect("rows").into_rows();
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        });
        db.close().expect("closed");
        shown
    };
    let before = schema("db");
    assert_eq!((before[0].len(), before[1].len()), (5, 5), "{before:?}");
    assert_eq!(schema("copy"), before);
    assert_eq!(
        content(&folder.join("copy")).nodes,
        content(&folder.join("db")).nodes
    );
    for (text, name) in [
        ("CREATE (:`La bel`)", "odd \"name\";"),
        ("CREATE (:L {e: 1})", "each"),
        ("CREATE (:L {m: {k: 1}, z: 1})", "deep"),
        ("CREATE (:K {a: 1, b: 2})", "pair"),
        ("CREATE (:K {a: 1})", "pair"),
        ("CREATE (:L {born: '2024-01-01'})", "born"),
        ("CREATE (:L {code: 7})", "code"),
    ] {
        let refused = isomer(folder, &["query", "copy", text]).unwrap_or_default();
        assert!(refused.contains(name), "{text}: {refused}");
    }
}
