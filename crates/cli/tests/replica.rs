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

/// The commands of a part of the document, one after the other: what each of them said.
fn run_document(part: usize) -> Vec<String> {
    let folder = Folder::new();
    let document = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/convergence.md"
    ))
    .expect("the document");
    let script = document.split("```sh replica\n").nth(part);
    let (script, _) = script
        .and_then(|rest| rest.split_once("```"))
        .expect("the commands");
    let run = |line: &str| {
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
        String::from_utf8(output.stdout).expect("text")
    };
    script.lines().map(run).collect()
}

#[test]
fn a_replica_in_five_minutes() {
    let told = run_document(1);
    let read = &told[told.len() - 3];
    assert!(read.contains('6') && read.contains("London"), "{read}");
    let last = &told[told.len() - 1];
    assert!(last.contains("disk.db: last exchanged"), "{last}");
}

/// Files are moved and written at once; of two of one name both stay, and a conflict tells of it.
#[test]
fn files_travel() {
    let told = run_document(3);
    let [.., root, papers, conflicts] = &told[..] else {
        panic!("{told:?}")
    };
    for name in ["notes", "papers", "plan", "plan~"] {
        assert!(root.contains(name), "{root}");
    }
    assert!(
        papers.contains("today") && !papers.contains("more"),
        "{papers}"
    );
    assert!(conflicts.contains("/plan~"), "{conflicts}");
}

/// A part of a database is replicated; an empty one takes the space of the one that it meets, and others are told why not.
#[test]
fn a_part_of_a_database_is_replicated() {
    let told = run_document(2);
    let [.., read, space] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(read.contains("wash") && !read.contains("today"), "{read}");
    assert!(
        space.contains("the space team is replicated, labels Task, buckets settings"),
        "{space}"
    );
    let folder = Folder::new();
    folder.good(&["replica", "add", "whole.db", "another.db"]);
    folder.query("whole.db", "CREATE (:Task {_key: 'cook'}) RETURN 1");
    folder.good(&[
        "replica", "space", "part.db", "--name", "team", "--label", "Task",
    ]);
    folder.query("part.db", "CREATE (:Task {_key: 'bake'}) RETURN 1");
    folder.good(&["replica", "add", "part.db", "whole.db"]);
    let told = folder.bad(&["sync", "once", "part.db"]);
    assert!(told.contains("do not replicate the same"), "{told}");
    let status = folder.good(&["replica", "status", "part.db"]);
    assert!(status.contains("QUARANTINED"), "{status}");
    let told = folder.bad(&[
        "replica", "space", "part.db", "--name", "all", "--label", "X",
    ]);
    assert!(told.contains("already"), "{told}");
    let told = folder.good(&["replica", "space", "whole.db"]);
    assert!(told.contains("all of the database"), "{told}");
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
    assert!(status.contains("are kept 90 days"), "{status}");
    let told = folder.good(&["replica", "retain", "laptop.db", "7"]);
    assert!(told.contains("are kept 7 days"), "{told}");
    let status = folder.good(&["replica", "status", "laptop.db"]);
    assert!(status.contains("are kept 7 days"), "{status}");

    // By a command and by a statement;exports tell of it.
    folder.good(&["replica", "keep", "laptop.db", "NEEDS"]);
    folder.good(&[
        "query",
        "laptop.db",
        "CREATE CONSTRAINT owned FOR ()-[r:OWNS]-() REQUIRE KEEP ENDPOINTS",
    ]);
    folder.good(&["export", "laptop.db", "all", "--output", "all.jsonl.gz"]);
    folder.good(&["import", "new.db", "all", "all.jsonl.gz"]);
    for db in ["laptop.db", "new.db"] {
        assert_eq!(
            folder.query(db, "SHOW CONSTRAINTS YIELD name, type, label"),
            "name,type,label\nNEEDS_keep_endpoints,keep endpoints,NEEDS\nowned,keep endpoints,OWNS\n"
        );
    }
    folder.good(&["query", "new.db", "DROP CONSTRAINT owned"]);
    folder.good(&["replica", "keep", "new.db", "NEEDS", "--off"]);
    assert_eq!(
        folder.query("new.db", "SHOW CONSTRAINTS YIELD name"),
        "name\n"
    );

    folder.good(&["replica", "remove", "laptop.db", "disk.db"]);
    assert!(
        folder
            .bad(&["sync", "once", "laptop.db"])
            .contains("there is no peer")
    );
    assert!(folder.path("disk.db").exists());
}
