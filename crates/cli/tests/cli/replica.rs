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

/// The commands of a part of the document, in sequence; returns the output of each.
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
    let printed = run_document(1);
    let read = &printed[printed.len() - 3];
    assert!(read.contains('6') && read.contains("London"), "{read}");
    let last = &printed[printed.len() - 1];
    assert!(last.contains("disk.db: last exchanged"), "{last}");
}

/// Files are moved and written concurrently; of two with one name both stay, and a conflict is recorded.
#[test]
fn files_travel() {
    let printed = run_document(3);
    let [.., root, papers, conflicts] = &printed[..] else {
        panic!("{printed:?}")
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

/// A part of a database is replicated; an empty database adopts the space of its peer, and others get an error with the
/// reason.
#[test]
fn a_part_of_a_database_is_replicated() {
    let printed = run_document(2);
    let [.., read, space] = &printed[..] else {
        panic!("{printed:?}")
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
    let printed = folder.bad(&["sync", "once", "part.db"]);
    assert!(printed.contains("do not replicate the same"), "{printed}");
    let status = folder.good(&["replica", "status", "part.db"]);
    assert!(status.contains("QUARANTINED"), "{status}");
    assert!(status.contains("what to do: "), "{status}");
    let status = folder.good(&["replica", "status", "part.db", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(report["peers"][0]["state"], "quarantined", "{report}");
    for field in ["why", "advice"] {
        let text = report["peers"][0][field].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{report}");
    }
    let printed = folder.bad(&[
        "replica", "space", "part.db", "--name", "all", "--label", "X",
    ]);
    assert!(printed.contains("already"), "{printed}");
    let printed = folder.good(&["replica", "space", "whole.db"]);
    assert!(printed.contains("the whole database"), "{printed}");
}

/// A peer with unusable files is refused, with the file's name, and the database does not become a replica.
#[test]
fn a_peer_that_is_refused_makes_no_replica() {
    let folder = Folder::new();
    std::fs::write(folder.path("script"), "CREATE (:P);").expect("written");
    folder.good(&["run", "a.db", "script"]);
    std::fs::write(folder.path("empty"), "").expect("written");
    std::fs::write(folder.path("text"), "no certificate").expect("written");
    let url = "https://db.example.org/people";
    for (more, what) in [
        (["--certificates", "empty"], "empty is empty"),
        (["--certificates", "text"], "text holds no certificate"),
        (["--certificates", "absent"], "absent"),
        (
            ["--token-file", "empty"],
            "the token file empty holds no token",
        ),
    ] {
        let said = folder.bad(&["replica", "add", "a.db", url, more[0], more[1]]);
        assert!(said.contains(what), "{said}");
    }
    let status = folder.good(&["replica", "status", "a.db", "--format", "json"]);
    assert_eq!(status.trim(), "null");
}

/// Two databases on one machine: documents, relationships, plain and convergent fields, buckets.
#[test]
fn two_databases_exchange_transactions() {
    let folder = Folder::new();
    let printed = folder.good(&["replica", "add", "laptop.db", "disk.db"]);
    assert!(printed.contains("added the peer"), "{printed}");
    folder.good(&["replica", "add", "disk.db", "laptop.db"]);

    folder.query(
        "laptop.db",
        "CREATE (a:Person {_key: 'ada', born: 1815})-[:KNOWS {since: 1833}]->(b:Person {_key: 'charles'}) \
         SET a.likes = counter.add(a.likes, 5), a.tags = set.add(a.tags, 'math') RETURN 1",
    );
    folder.query("disk.db", "CREATE (:Person {_key: 'grace'}) RETURN 1");
    let printed = folder.good(&["sync", "once", "laptop.db"]);
    assert!(
        printed.contains("1 transaction received, 1 sent"),
        "{printed}"
    );
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

    // Concurrently: increments add up, elements stay, and of plain values the later one is read everywhere.
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
    let printed = folder.good(&["sync", "once", "disk.db"]);
    assert!(
        printed.contains("0 transactions received, 0 sent"),
        "{printed}"
    );

    // Right after an exchange neither lists the other one as behind.
    for db in ["laptop.db", "disk.db"] {
        let status = folder.good(&["replica", "status", db]);
        assert!(status.contains("up to date"), "{status}");
    }
    let until = [
        "replica",
        "accept-clock",
        "disk.db",
        "--until",
        "2126-12-01T00:00:00Z",
    ];
    let said = folder.good(&until);
    assert!(
        said.contains("accepted up to 2126-12-01T00:00:00Z"),
        "{said}"
    );
    let status = folder.good(&["replica", "status", "disk.db"]);
    assert!(
        status.contains("accepted up to 2126-12-01T00:00:00Z"),
        "{status}"
    );
    folder.good(&["replica", "accept-clock", "disk.db", "--none"]);
    let said = folder.good(&["replica", "accept-clock", "disk.db", "laptop.db"]);
    assert!(
        said.contains("no transaction was stamped ahead of the clock"),
        "{said}"
    );

    let printed = folder.good(&["sync", "scrub", "disk.db"]);
    assert!(printed.contains("identical"), "{printed}");
    let status = folder.good(&["replica", "status", "laptop.db"]);
    assert!(
        status.contains("replica ") && status.contains("disk.db: last exchanged"),
        "{status}"
    );
    assert!(
        folder
            .bad(&["replica", "remove", "laptop.db", "other.db"])
            .contains("is not a peer")
    );
    assert!(status.contains("are kept for 90 days"), "{status}");
    let printed = folder.good(&["replica", "retain", "laptop.db", "7"]);
    assert!(printed.contains("are kept for 7 days"), "{printed}");
    let status = folder.good(&["replica", "status", "laptop.db"]);
    assert!(status.contains("are kept for 7 days"), "{status}");

    // By a command and by a statement; exports contain it.
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
            "name,type,label\nNEEDS_keep_endpoints,KEEP_ENDPOINTS,NEEDS\nowned,KEEP_ENDPOINTS,OWNS\n"
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

/// The status names the cause (here: an unreachable peer) and what to do.
#[test]
fn a_status_says_why_a_peer_does_not_advance() {
    let folder = Folder::new();
    folder.good(&["replica", "add", "a.db", "http://127.0.0.1:1/db"]);
    folder.bad(&["sync", "once", "a.db"]);
    let status = folder.good(&["replica", "status", "a.db"]);
    assert!(
        status.contains("never exchanged; unreachable: "),
        "{status}"
    );
    assert!(status.contains("what to do: "), "{status}");
    std::fs::write(folder.path("p.jsonl"), "{\"id\": 1}\n").expect("written");
    folder.good(&[
        "import", "b.db", "nodes", "p.jsonl", "--label", "P", "--key", "id",
    ]);
    let none = folder.good(&["replica", "status", "b.db", "--format", "json"]);
    assert_eq!(none.trim(), "null");
}
