//! Read views across openings, through the public API.

use std::{fs, path::Path};

use isomer_db::{
    Database, EngineKind, MasterKey,
    internals::{DatabaseInternals as _, views::ViewState},
};

use isomer_testkit::second_process;

use crate::place::{self, Opening as _};

/// A network of 3,000 nodes and 9,000 relationships.
fn make(path: &Path) -> Database {
    let db = place::open(path).unwrap();
    db.query("UNWIND range(0, 2999) AS i CREATE (:P {_key: i, age: i % 80})")
        .unwrap();
    db.query(
        "MATCH (p:P) WITH collect(p) AS all UNWIND range(0, 2999) AS i UNWIND [1, 17, 400] AS step \
         WITH all[i] AS a, all[(i * step + 1) % 3000] AS b CREATE (a)-[:T]->(b)",
    )
    .unwrap();
    db
}

/// Neighbours of neighbours of many people: enough work to build views.
fn traverse(db: &Database) -> i64 {
    let query =
        "MATCH (a:P)-[:T]->(b)-[:T]->(c) RETURN count(DISTINCT c) + sum(b.age * a.age % 7) AS n";
    db.query(query).unwrap().single().unwrap().get("n").unwrap()
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

    let db = place::open(&path).unwrap();
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
        let here = |view: &&isomer_db::internals::views::ViewStatus| {
            view.state == ViewState::Standing && view.stored_version == Some(view.version)
        };
        all.iter().filter(here).count()
    };
    assert!(restored(&db) > 0, "{:?}", db.views().status());
    assert_eq!(traverse(&db), answer);
    assert!(db.views().check(&mut |_| {}).wrong.is_empty());
    db.query("MATCH (p:P {_key: 7}) SET p.age = 1000 CREATE (p)-[:T]->(p)")
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
    let db = place::open(&path).unwrap();
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

/// All bytes of the files below a folder.
fn all_bytes(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => bytes.extend(all_bytes(&path)),
            false => bytes.extend(fs::read(&path).unwrap()),
        }
    }
    bytes
}

/// Keys and values of an encrypted database appear in none of its files, including those of its views and their
/// sources; in a database without a key they do.
#[test]
fn views_of_an_encrypted_database_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    for key in [None, Some(MasterKey::generate().unwrap())] {
        if key.is_some() && second_process::needs_alone("the second process has no key") {
            continue;
        }
        let path = folder
            .path()
            .join(if key.is_some() { "sealed" } else { "open" });
        let encrypted = key.is_some();
        let open = || {
            // The other engine does not encrypt.
            let builder = Database::builder().engine(EngineKind::Lsm);
            match key.clone() {
                Some(key) => builder.key(key).open_at(&path).unwrap(),
                None => builder.open_at(&path).unwrap(),
            }
        };
        let db = open();
        db.query("UNWIND range(0, 2999) AS i CREATE (:P {_key: 'personalkey' + i, name: 'hiddenname' + i % 7, age: 31337000 + i})")
        .unwrap();
        db.query("MATCH (p:P) WITH collect(p) AS all UNWIND range(0, 2999) AS i UNWIND [1, 17, 400] AS step \
             WITH all[i] AS a, all[(i * step + 1) % 3000] AS b, i CREATE (a)-[:T {since: 'secretyear' + i}]->(b)")
        .unwrap();
        let ask = |db: &Database| -> (i64, i64, i64) {
            let one = |text: &str| db.query(text).unwrap().single().unwrap().get("n").unwrap();
            (
                one("MATCH (a:P)-[:T]->(b)-[:T]->(c) RETURN count(DISTINCT c) + sum(b.age) AS n"),
                one("MATCH (a:P) WITH a.name AS name, count(*) AS each RETURN count(name) AS n"),
                one("MATCH (a:P) WITH a._key AS key, count(*) AS each RETURN count(key) AS n"),
            )
        };
        let answers = ask(&db);
        for _ in 0..3 {
            assert_eq!(ask(&db), answers);
            db.views().wait_ready();
        }
        let standing = db.views().status();
        assert!(
            standing
                .iter()
                .filter(|view| view.state == ViewState::Standing)
                .count()
                >= 3,
            "{standing:?}"
        );
        db.close().unwrap();
        let kept = fs::read_dir(path.join("views")).unwrap().count();
        assert!(kept >= 1, "no view has a file");
        // As text, and as the integers of a column.
        let age = 31_337_500_i64.to_le_bytes();
        let needles: [&[u8]; 4] = [b"personalkey", b"hiddenname", b"secretyear", &age[..4]];
        let bytes = all_bytes(&path);
        for needle in needles {
            let found = bytes.windows(needle.len()).any(|window| window == needle);
            assert!(
                !(found && encrypted),
                "`{}` is in a file",
                String::from_utf8_lossy(needle)
            );
        }
        let names = bytes.windows(10).any(|window| window == b"hiddenname");
        assert_eq!(names, !encrypted);
        assert_eq!(ask(&open()), answers);
    }
}
