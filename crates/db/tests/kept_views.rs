//! Read views across openings, as a user meets them.

use std::{fs, path::Path};

use isomer_db::{Database, views::ViewState};

/// A network of 3,000 nodes and 9,000 relationships.
fn make(path: &Path) -> Database {
    let db = Database::open(path).unwrap();
    db.query(
        "UNWIND range(0, 2999) AS i CREATE (:P {_key: i, age: i % 80})",
        (),
    )
    .unwrap();
    db.query(
        "MATCH (p:P) WITH collect(p) AS all UNWIND range(0, 2999) AS i UNWIND [1, 17, 400] AS step \
         WITH all[i] AS a, all[(i * step + 1) % 3000] AS b CREATE (a)-[:T]->(b)",
        (),
    )
    .unwrap();
    db
}

/// Neighbours of neighbours of many people: enough to ask for views.
fn traverse(db: &Database) -> i64 {
    let query =
        "MATCH (a:P)-[:T]->(b)-[:T]->(c) RETURN count(DISTINCT c) + sum(b.age * a.age % 7) AS n";
    db.query(query, ())
        .unwrap()
        .single()
        .unwrap()
        .get("n")
        .unwrap()
}

#[test]
fn views_are_there_after_opening_and_damage_costs_only_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = make(&path);
    let answer = traverse(&db);
    db.views().wait_ready();
    assert_eq!(traverse(&db), answer);
    db.close().unwrap();
    let files: Vec<_> = fs::read_dir(path.join("views"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(!files.is_empty());

    let db = Database::open(&path).unwrap();
    let stored = |db: &Database| {
        let all = db.views().status();
        all.iter()
            .filter(|view| view.stored_version.is_some())
            .count()
    };
    assert_eq!(stored(&db), files.len());
    assert_eq!(traverse(&db), answer);
    db.views().wait_ready();
    let restored = |db: &Database| {
        let all = db.views().status();
        let here = |view: &&isomer_db::views::ViewStatus| {
            view.state == ViewState::Standing && view.stored_version == Some(view.version)
        };
        all.iter().filter(here).count()
    };
    assert!(restored(&db) > 0, "{:?}", db.views().status());
    assert_eq!(traverse(&db), answer);
    assert!(db.views().check(&mut |_| {}).wrong.is_empty());
    db.query(
        "MATCH (p:P {_key: 7}) SET p.age = 1000 CREATE (p)-[:T]->(p)",
        (),
    )
    .unwrap();
    let changed = traverse(&db);
    assert_ne!(changed, answer);
    db.close().unwrap();

    for (at, file) in files.iter().enumerate() {
        let mut bytes = fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        match at % 2 {
            0 => bytes[middle] ^= 4,
            _ => bytes.truncate(middle),
        }
        fs::write(file, bytes).unwrap();
    }
    let db = Database::open(&path).unwrap();
    assert_eq!(traverse(&db), changed);
    db.views().wait_ready();
    assert_eq!(traverse(&db), changed);
    drop(db);

    // Without them, and read only.
    fs::remove_dir_all(path.join("views")).unwrap();
    let db = Database::builder().read_only(true).open(&path).unwrap();
    assert_eq!(traverse(&db), changed);
    db.views().wait_ready();
    assert_eq!(traverse(&db), changed);
    db.close().unwrap();
    assert!(!path.join("views").exists());
}
