//! Replicas from the command line.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(arguments)
            .current_dir(self.0.path())
            .output()
            .expect("the binary runs")
    }

    fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    fn bad(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?} went well");
        String::from_utf8(output.stderr).expect("text")
    }

    fn query(&self, db: &str, query: &str) -> String {
        self.good(&["query", db, query, "--format", "csv"])
    }
}

/// The commands of the document, one after the other.
#[test]
fn a_replica_in_five_minutes() {
    let folder = Folder::new();
    let document = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/convergence.md"
    ))
    .expect("the document");
    let (_, rest) = document
        .split_once("```sh replica\n")
        .expect("the commands");
    let (script, _) = rest.split_once("```").expect("their end");
    let mut last = String::new();
    let mut read = String::new();
    for line in script.lines() {
        let output = Command::new("sh")
            .args([
                "-ec",
                &line.replacen("isomer", env!("CARGO_BIN_EXE_isomer"), 1),
            ])
            .current_dir(folder.0.path())
            .output()
            .expect("a shell");
        assert!(
            output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        last = String::from_utf8(output.stdout).expect("text");
        if line.contains("RETURN p.likes") {
            read = last.clone();
        }
    }
    assert!(read.contains('6') && read.contains("London"), "{read}");
    assert!(last.contains("disk.db: last exchanged"), "{last}");
}

/// Two databases on one machine: documents, relationships, plain and convergent fields, buckets.
#[test]
fn two_databases_exchange_transactions() {
    let folder = Folder::new();
    let told = folder.good(&["replica", "add", "laptop.db", "disk.db"]);
    assert!(told.contains("disk.db is a peer now"), "{told}");
    folder.good(&["replica", "add", "disk.db", "laptop.db"]);

    folder.query(
        "laptop.db",
        "CREATE (a:Person {_key: 'ada', born: 1815})-[:KNOWS {since: 1833}]->(b:Person {_key: 'charles'}) \
         SET a.likes = counter.add(a.likes, 5), a.tags = set.add(a.tags, 'math') RETURN 1",
    );
    folder.query("disk.db", "CREATE (:Person {_key: 'grace'}) RETURN 1");
    let told = folder.good(&["sync", "once", "laptop.db"]);
    assert!(told.contains("1 transaction received, 1 sent"), "{told}");
    for db in ["laptop.db", "disk.db"] {
        assert_eq!(
            folder.query(db, "MATCH (p:Person) RETURN p._key AS key ORDER BY key"),
            "key\nada\ncharles\ngrace\n"
        );
        assert_eq!(
            folder.query(db, "MATCH (a {_key: 'ada'})-[k:KNOWS]->(b) RETURN a.likes AS l, size(a.tags) AS t, k.since AS s, b._key AS b"),
            "l,t,s,b\n5,1,1833,charles\n"
        );
    }

    // Both at once: increments add up, elements stay, of plain values the later one is read everywhere.
    folder.query("laptop.db", "MATCH (a:Person {_key: 'ada'}) SET a.likes = counter.add(a.likes, 1), a.city = 'London' RETURN 1");
    folder.query("disk.db", "MATCH (a:Person {_key: 'ada'}) SET a.likes = counter.add(a.likes, 10), a.city = 'Paris' RETURN 1");
    folder.query(
        "disk.db",
        "MATCH (:Person {_key: 'charles'})-[k]-() DELETE k RETURN 1",
    );
    folder.good(&["sync", "once", "disk.db"]);
    for db in ["laptop.db", "disk.db"] {
        assert_eq!(
            folder.query(db, "MATCH (a:Person {_key: 'ada'}) RETURN a.likes AS l, a.city AS c, COUNT { (a)--() } AS n"),
            "l,c,n\n16,Paris,0\n"
        );
        folder.good(&["check", db]);
    }
    let told = folder.good(&["sync", "once", "disk.db"]);
    assert!(told.contains("0 transactions received, 0 sent"), "{told}");

    let told = folder.good(&["sync", "scrub", "disk.db"]);
    assert!(told.contains("holds the same"), "{told}");
    let status = folder.good(&["replica", "status", "laptop.db"]);
    assert!(
        status.contains("replica ") && status.contains("disk.db: last exchanged"),
        "{status}"
    );
    assert!(
        folder
            .bad(&["replica", "remove", "laptop.db", "nobody.db"])
            .contains("no peer")
    );
    folder.good(&["replica", "remove", "laptop.db", "disk.db"]);
    assert!(
        folder
            .bad(&["sync", "once", "laptop.db"])
            .contains("there is no peer")
    );
    assert!(folder.path("disk.db").exists());
}
