//! The binary as a user meets it: formats in, rows out, bad input, exit codes.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // A command that does not read its input closes it early: that is no failure.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    /// Runs a command that must succeed; what it printed.
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, b"");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs a command that must fail with exit code 1; what it said.
    fn bad(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, b"");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stderr)
    }

    fn rows(&self, query: &str) -> String {
        self.good(&["query", "db", query, "--format", "csv"])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PEOPLE: &str = "id,name,age\nada,Ada,36\nbob,\"Bob, the builder\",\n";

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).expect("memory takes it");
    out.finish().expect("memory takes it")
}

#[test]
fn every_format_gives_the_same_nodes() {
    let expected = "name,age\nAda,36\n\"Bob, the builder\",\n";
    let json = r#"[{"id":"ada","name":"Ada","age":36},{"id":"bob","name":"Bob, the builder"}]"#;
    let files: [(&str, Vec<u8>); 8] = [
        ("a.csv", PEOPLE.into()),
        ("b.tsv", "id\tname\tage:int?\nada\tAda\t36\nbob\tBob, the builder\t\n".into()),
        ("c.jsonl", "{\"id\":\"ada\",\"name\":\"Ada\",\"age\":36}\n{\"id\":\"bob\",\"name\":\"Bob, the builder\"}\n".into()),
        ("d.json", json.into()),
        ("e.json", r#"{"ada":{"name":"Ada","age":36},"bob":{"name":"Bob, the builder"}}"#.into()),
        ("f.csv.gz", gzip(PEOPLE)),
        ("g.json.zst", zstd::encode_all(json.as_bytes(), 1).expect("memory takes it")),
        ("h.csv", format!("\u{feff}# people\r\n{}", PEOPLE.replace('\n', "\r\n")).into()),
    ];
    for (name, bytes) in files {
        let folder = Folder::new();
        let file = folder.write(name, bytes);
        let mut arguments = vec!["import", "db", "nodes", &file, "--label", "Person"];
        if name != "e.json" {
            arguments.extend(["--key", "id"]);
        }
        let told = folder.good(&arguments);
        assert!(told.starts_with("imported 2 nodes"), "{name}: {told}");
        assert_eq!(
            folder.rows("MATCH (p:Person) RETURN p.name AS name, p.age AS age ORDER BY p._key"),
            expected,
            "{name}"
        );
        assert_eq!(
            folder.rows("MATCH (p:Person {_key: 'ada'}) RETURN keys(p) AS k"),
            "k\n\"[\"\"_key\"\",\"\"age\"\",\"\"name\"\"]\"\n",
            "{name}"
        );
    }
}

#[test]
fn standard_input_is_a_file_too() {
    let folder = Folder::new();
    let output = folder.run(
        &[
            "import", "db", "nodes", "-", "--label", "Person", "--key", "id",
        ],
        PEOPLE.as_bytes(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let edges = b"# from to\nada\tbob\t1999\n";
    let output = folder.run(
        &[
            "import",
            "db",
            "relationships",
            "-",
            "--type",
            "KNOWS",
            "--from",
            "Person",
            "--to",
            "Person",
            "--columns",
            "a,b,since",
        ],
        edges,
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("1 comment line skipped"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(
        folder.rows("MATCH (a)-[k:KNOWS]->(b) RETURN a._key, b._key, k.since"),
        "a._key,b._key,k.since\nada,bob,1999\n"
    );
}

/// A key is an integer wherever its field is declared as one: by `--key`, in the header, by `--columns` or `--types`.
#[test]
fn keys_have_the_type_that_is_declared_for_their_field() {
    let folder = Folder::new();
    let typed = folder.write("typed.csv", "id:int,name\n7,a\n");
    let plain = folder.write("plain.csv", "id,name\n7,a\n");
    let bare = folder.write("bare.csv", "7,a\n");
    let json = folder.write("k.jsonl", "{\"id\": 7, \"name\": \"a\"}\n");
    let cases: [(&str, &[&str], &str); 6] = [
        (&typed, &["--key", "id"], "7"),
        (&plain, &["--key", "id"], "'7'"),
        (&plain, &["--key", "id", "--types", "id:int"], "7"),
        (&bare, &["--key", "id", "--columns", "id:int,name"], "7"),
        (&json, &["--key", "id"], "'7'"),
        (&json, &["--key", "id", "--types", "id:int"], "7"),
    ];
    for (at, (file, options, key)) in cases.into_iter().enumerate() {
        let label = format!("L{at}");
        let mut arguments = vec!["import", "db", "nodes", file, "--label", &label];
        arguments.extend(options);
        folder.good(&arguments);
        assert_eq!(
            folder.rows(&format!("MATCH (n:{label} {{_key: {key}}}) RETURN n.name")),
            "n.name\na\n",
            "{file} {options:?}"
        );
    }
}

#[test]
fn endpoints_are_read_as_the_labels_keys_are() {
    let folder = Folder::new();
    let strings = folder.write("s.json", r#"{"0": ["Rock"], "1": []}"#);
    let integers = folder.write("i.csv", "id:int\n7\n8\n");
    let edges = folder.write("e.csv", "x,y\n0,7\n1,8\n");
    folder.good(&[
        "import",
        "db",
        "nodes",
        &strings,
        "--label",
        "User",
        "--value-field",
        "genres",
    ]);
    folder.good(&[
        "import", "db", "nodes", &integers, "--label", "Item", "--key", "id:int",
    ]);
    folder.good(&[
        "import",
        "db",
        "relationships",
        &edges,
        "--type",
        "HAS",
        "--from",
        "User",
        "--to",
        "Item",
    ]);
    assert_eq!(
        folder.rows("MATCH (u:User)-[:HAS]->(i:Item) RETURN u._key AS u, i._key AS i ORDER BY i"),
        "u,i\n0,7\n1,8\n"
    );
    assert!(
        folder
            .good(&[
                "import",
                "db",
                "relationships",
                &strings,
                "--type",
                "LIKES",
                "--from",
                "User",
                "--to",
                "Genre",
                "--create-missing"
            ])
            .starts_with("imported 1 relationship and 1 node")
    );
    assert_eq!(
        folder.rows("MATCH (u)-[:LIKES]->(g:Genre) RETURN u._key AS u, g._key AS g"),
        "u,g\n0,Rock\n"
    );
}

#[test]
fn a_bad_row_stops_the_import_and_nothing_is_imported() {
    let cases: [(&str, &str, &str); 9] = [
        (
            "a.csv",
            "id,n\na,1\nb\n",
            "line 3: the row has 1 field, expected 2",
        ),
        (
            "b.csv",
            "id,n\na,1\nb,\"2\n",
            "line 3: the quote opened at byte 3 is never closed",
        ),
        (
            "c.csv",
            "id,n:int\na,1\nb,two\n",
            "line 3: column `n` is `two`, which is not an integer",
        ),
        ("d.csv", "id,n\na,1\na,2\n", "line 3: "),
        ("e.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"\n", "line 2: "),
        (
            "f.jsonl",
            "{\"id\":\"a\"}\n{\"id\":\"b\",\"x\":1,\"x\":2}\n",
            "line 2: ",
        ),
        (
            "g.json",
            "[{\"id\":\"a\"},\n{\"n\":2}]",
            "line 2: the key `id` is missing",
        ),
        (
            "h.json",
            "[{\"id\":\"a\"}\n{\"id\":\"b\"}]",
            "line 2: a comma",
        ),
        (
            "i.csv",
            "id,n\na,1\n,2\n",
            "line 3: the key `id` is missing",
        ),
    ];
    for (name, bytes, reason) in cases {
        let folder = Folder::new();
        let file = folder.write(name, bytes);
        let told = folder.bad(&[
            "import", "db", "nodes", &file, "--label", "X", "--key", "id",
        ]);
        assert!(
            told.contains(reason) && told.contains("nothing was imported"),
            "{name}: {told}"
        );
        assert_eq!(
            folder.rows("MATCH (n) RETURN count(n) AS n"),
            "n\n0\n",
            "{name}"
        );
    }
}

#[test]
fn a_missing_end_stops_the_import_of_relationships() {
    let folder = Folder::new();
    let people = folder.write("p.csv", PEOPLE);
    let edges = folder.write("e.csv", "from,to\nada,bob\nada,carl\n");
    folder.good(&[
        "import", "db", "nodes", &people, "--label", "Person", "--key", "id",
    ]);
    let told = folder.bad(&[
        "import",
        "db",
        "relationships",
        &edges,
        "--type",
        "K",
        "--from",
        "Person",
        "--to",
        "Person",
    ]);
    assert!(told.contains("line 3") && told.contains("carl"), "{told}");
    assert_eq!(
        folder.rows("MATCH ()-[r]->() RETURN count(r) AS n"),
        "n\n0\n"
    );
}

#[test]
fn allowed_bad_rows_go_to_a_file_with_line_and_reason() {
    let folder = Folder::new();
    let file = folder.write("p.csv", "id,n:int\na,1\nb\nc,3\na,4\nd,x\n");
    let told = folder.good(&[
        "import",
        "db",
        "nodes",
        &file,
        "--label",
        "X",
        "--key",
        "id",
        "--max-rejects",
        "3",
    ]);
    assert!(
        told.starts_with("imported 2 nodes")
            && told.contains("3 rows refused: see p.csv.rejects.jsonl"),
        "{told}"
    );
    let rejects = std::fs::read_to_string(folder.path("p.csv.rejects.jsonl")).expect("the file");
    let lines: Vec<serde_json::Value> = rejects
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        lines
            .iter()
            .map(|line| line["line"].as_u64().expect("a number"))
            .collect::<Vec<_>>(),
        [3, 5, 6]
    );
    assert_eq!(lines[0]["row"], "b");
    assert!(
        lines[1]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("exists")),
        "{rejects}"
    );
    assert_eq!(
        folder.rows("MATCH (x:X) RETURN x._key AS k ORDER BY k"),
        "k\na\nc\n"
    );
    let told = folder.bad(&[
        "import",
        "db",
        "nodes",
        &file,
        "--label",
        "Y",
        "--key",
        "id",
        "--max-rejects",
        "2",
    ]);
    assert!(
        told.contains("--max-rejects is 2; nothing was imported"),
        "{told}"
    );
}

#[test]
fn a_dry_run_checks_everything_and_changes_nothing() {
    let folder = Folder::new();
    let people = folder.write("p.csv", PEOPLE);
    let told = folder.good(&[
        "import",
        "db",
        "nodes",
        &people,
        "--label",
        "Person",
        "--key",
        "id",
        "--dry-run",
    ]);
    assert!(told.starts_with("would import 2 rows"), "{told}");
    assert_eq!(folder.rows("MATCH (n) RETURN count(n) AS n"), "n\n0\n");
    let twice = folder.write("t.csv", "id\na\na\n");
    assert!(
        folder
            .bad(&[
                "import",
                "db",
                "nodes",
                &twice,
                "--label",
                "Person",
                "--key",
                "id",
                "--dry-run"
            ])
            .contains("line 3")
    );
}

#[test]
fn wrong_usage_is_exit_code_2_and_errors_are_1() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["nosuch"], b"").status.code(), Some(2));
    assert_eq!(
        folder
            .run(&["import", "db", "nodes", "x.csv"], b"")
            .status
            .code(),
        Some(2)
    );
    assert!(
        folder
            .bad(&["query", "nowhere", "RETURN 1"])
            .contains("nowhere")
    );
    assert!(
        folder
            .bad(&["import", "db", "nodes", "nofile.csv", "--label", "X"])
            .contains("nofile.csv")
    );
    assert!(
        folder
            .bad(&["query", ":memory:", "MATCH (n) RETRUN n"])
            .contains("line 1, column 11")
    );
    assert!(
        folder
            .bad(&["query", ":memory:", "RETURN $x"])
            .contains("$x")
    );
    for command in [
        "import", "query", "shell", "export", "files", "check", "stats", "bench", "demo",
        "generate",
    ] {
        let help = folder.good(&[command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
    }
    for what in ["nodes", "relationships"] {
        assert!(
            folder
                .good(&["import", "db", what, "--help"])
                .contains("Example")
        );
    }
}

#[test]
fn results_come_in_four_formats() {
    let folder = Folder::new();
    let query = "UNWIND [1, null] AS n RETURN n, 'a\"b' AS t, [n] AS l";
    let run = |format: &str| folder.good(&["query", ":memory:", query, "--format", format]);
    assert_eq!(
        run("jsonl"),
        "{\"n\": 1, \"t\": \"a\\\"b\", \"l\": [1]}\n{\"n\": null, \"t\": \"a\\\"b\", \"l\": [null]}\n"
    );
    let whole: serde_json::Value = serde_json::from_str(&run("json")).expect("one JSON array");
    assert_eq!(whole[1]["l"], serde_json::json!([null]));
    assert_eq!(run("csv"), "n,t,l\n1,\"a\"\"b\",[1]\n,\"a\"\"b\",[null]\n");
    let table = run("table");
    assert!(
        table.contains("| n") && table.contains("a\"b") && !table.contains('\u{1b}'),
        "{table}"
    );
    assert_eq!(
        folder.good(&[
            "query",
            ":memory:",
            "RETURN $a + 1 AS b",
            "--param",
            "a=41",
            "--format",
            "csv"
        ]),
        "b\n42\n"
    );
    assert_eq!(
        folder.good(&["query", ":memory:", "CREATE (:A {x: 1})"]),
        "1 node created, 1 property set, 1 label added\n"
    );
}

#[test]
fn the_shell_reads_statements_from_a_pipe() {
    let folder = Folder::new();
    let script = b"CREATE (:A {x: 1});\nMATCH (a:A)\nRETURN a.x AS x;\n:begin\nCREATE (:A {x: 2});\n:rollback\n:mode csv\nMATCH (a:A) RETURN count(a) AS n;\n";
    let output = folder.run(&["shell", "db"], script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("| 1 |") && told.ends_with("n\n1\n"), "{told}");
    let output = folder.run(&["shell"], b"RETURN 1 AS a;\nRETRUN 2;\nRETURN 3 AS c;\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("| 3 |")
            && text(&output.stderr).contains("1 statement failed")
    );
}

#[test]
fn a_second_process_is_told_who_has_the_database() {
    let folder = Folder::new();
    let db = isomer_db::Database::open(folder.path("db")).expect("a database");
    let told = folder.bad(&["stats", "db"]);
    assert!(told.contains(&std::process::id().to_string()), "{told}");
    db.close().expect("it closes");
    drop(db);
    folder.good(&["stats", "db"]);
    assert!(folder.good(&["check", "db"]).contains("is sound"));
}

/// A copy of a folder.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// Flips a bit in the middle of the largest file in `folder` with that ending.
fn flip(folder: &Path, ending: &str, at: impl FnOnce(&[u8]) -> usize) {
    let path = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .max_by_key(|path| std::fs::metadata(path).expect("a file").len())
        .expect("such a file");
    let mut bytes = std::fs::read(&path).expect("read");
    let at = at(&bytes);
    bytes[at] ^= 4;
    std::fs::write(path, bytes).expect("written");
}

/// Each kind of thing that is stored is damaged in a copy of a sound database: `check` finds it, says what it is and ends
/// with 1.
#[test]
fn check_finds_damage_of_each_kind_of_thing() {
    let folder = Folder::new();
    let sound = folder.path("sound");
    let made = isomer_db::Database::builder()
        .engine(isomer_db::EngineKind::Store)
        .open(&sound)
        .expect("a database");
    made.close().expect("it closes");
    let run = |db: &str, query: &str| folder.good(&["query", db, query]);
    run("sound", "CREATE INDEX ages FOR (p:P) ON (p.age)");
    run(
        "sound",
        "UNWIND range(1, 300) AS n CREATE (:P {_key: n, age: n % 90, text: 'some text of ' + n})",
    );
    run(
        "sound",
        "MATCH (a:P), (b:P) WHERE b._key = a._key + 1 CREATE (a)-[:KNOWS]->(b)",
    );
    copy_folder(&sound, &folder.path("other"));
    // Two histories of one database, of equal length, both wholly in tables.
    run("sound", "MATCH (p:P {_key: 7}) SET p.text = 'one'");
    run("other", "MATCH (p:P {_key: 7}) SET p.text = 'two'");
    for db in ["sound", "other"] {
        folder.good(&["compact", db]);
        assert!(folder.good(&["check", db]).contains("is sound"), "{db}");
    }

    // Past everything that keeps structures together: the first key that begins with a tag goes (see data/src/keyspace.rs).
    let without = |tag: u8| {
        move |db: &Path| {
            let opened = isomer_db::Database::open(db).expect("opens");
            let store = opened.store().expect("a store");
            let engine = store.engine();
            let mut page = isomer_db::data::Page::new();
            let snapshot = engine.snapshot().expect("a snapshot");
            let range = isomer_db::data::KeyRange {
                start: &[tag],
                end: Some(&[tag + 1]),
            };
            let limit = isomer_db::data::PageLimit {
                keys: 1,
                bytes: 1 << 20,
            };
            snapshot
                .scan(range, isomer_db::data::Order::Ascending, limit, &mut page)
                .expect("a scan");
            let mut transaction = engine.begin().expect("begins");
            transaction.delete(page.pair(0).0).expect("deleted");
            transaction
                .commit(isomer_db::data::Durability::Synced)
                .expect("commits");
            drop(store);
            opened.close().expect("closes");
        }
    };
    type Damage<'a> = (&'static str, Box<dyn Fn(&Path) + 'a>, &'static str);
    let middle = |bytes: &[u8]| bytes.len() / 2;
    let cases: [Damage<'_>; 9] = [
        (
            "tables",
            Box::new(move |db| flip(&db.join("tables"), "tab", middle)),
            "checksum",
        ),
        // Behind the head of the segment and of its first record.
        (
            "log",
            Box::new(|db| flip(&db.join("log"), "log", |_| 1024 + 100)),
            "log segment",
        ),
        (
            "history",
            Box::new(|db| {
                std::fs::remove_dir_all(db.join("tables")).expect("removed");
                copy_folder(&folder.path("other").join("tables"), &db.join("tables"));
            }),
            "says the log",
        ),
        (
            "adjacency",
            Box::new(without(0x12)),
            "is not found from its",
        ),
        ("label", Box::new(without(0x13)), "not among its nodes"),
        ("key", Box::new(without(0x14)), "key"),
        ("index", Box::new(without(0x15)), "ages"),
        ("node", Box::new(without(0x10)), "node"),
        ("relationship", Box::new(without(0x11)), "relationship"),
    ];
    for (name, damage, told) in cases {
        let db = folder.path(name);
        copy_folder(&sound, &db);
        damage(&db);
        let output = folder.run(&["check", name], b"");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(told), "{name}: {said}");
    }
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = Folder::new();
    let file = folder.write("file.db", b"not a database at all");
    assert!(!folder.bad(&["query", &file, "RETURN 1"]).is_empty());
    std::fs::create_dir(folder.path("foreign")).expect("a folder");
    folder.write("foreign/data", b"something else");
    assert!(!folder.bad(&["query", "foreign", "RETURN 1"]).is_empty());
    assert!(Path::new(&folder.path("foreign/data")).is_file());
}

#[test]
fn generated_files_can_be_imported() {
    let folder = Folder::new();
    folder.good(&["generate", "data", "--scale", "0.0002"]);
    folder.good(&[
        "import",
        "db",
        "nodes",
        "data/profiles.jsonl",
        "--label",
        "Person",
    ]);
    folder.good(&[
        "import",
        "db",
        "relationships",
        "data/edges.tsv",
        "--columns",
        "from,to",
        "--type",
        "FRIEND",
        "--from",
        "Person",
        "--to",
        "Person",
    ]);
    assert_eq!(
        folder.rows("MATCH (p:Person) RETURN count(p) AS n"),
        "n\n327\n"
    );
    let edges = std::fs::read_to_string(folder.path("data/edges.tsv"))
        .expect("the file")
        .lines()
        .count()
        - 1;
    assert_eq!(
        folder.rows("MATCH ()-[f:FRIEND]->() RETURN count(f) AS n"),
        format!("n\n{edges}\n")
    );
}

#[test]
fn what_is_exported_can_be_imported_again() {
    let folder = Folder::new();
    let create = "CREATE (a:P {_key: 'a', name: 'A, \"the first\"', age: 36, tags: ['x', 'y'], code: '007', empty: ''}),
        (b:P {_key: 'b', score: 1.5, born: date('1815-12-10'), home: {town: 'Lucca'}}), (a)-[:K {since: 1999}]->(b), (b)-[:K]->(a)";
    let seed = folder.write("seed.csv", "id\n");
    folder.good(&[
        "import", "db", "nodes", &seed, "--label", "P", "--key", "id",
    ]);
    folder.good(&["query", "db", create]);
    let nodes = |folder: &Folder, db: &str| {
        folder.good(&["query", db, "MATCH (p:P) RETURN p._key AS k, p.name AS name, p.age AS age, p.tags AS tags, p.code AS code, p.empty = '' AS empty, p.score AS score, toString(p.born) AS born, p.home AS home ORDER BY k", "--format", "jsonl"])
    };
    let ends = |folder: &Folder, db: &str| {
        folder.good(&[
            "query",
            db,
            "MATCH (a)-[k:K]->(b) RETURN a._key AS a, b._key AS b, k.since AS since ORDER BY a",
            "--format",
            "csv",
        ])
    };
    let (all_nodes, all_ends) = (nodes(&folder, "db"), ends(&folder, "db"));
    for extension in ["csv", "jsonl", "json.gz", "csv.zst"] {
        let (people, known, copy) = (
            format!("p.{extension}"),
            format!("k.{extension}"),
            format!("copy-{extension}"),
        );
        folder.good(&["export", "db", "nodes", "--label", "P", "--output", &people]);
        folder.good(&[
            "export",
            "db",
            "relationships",
            "--type",
            "K",
            "--output",
            &known,
        ]);
        let mut import = vec!["import", &copy, "nodes", &people, "--label", "P"];
        if !extension.contains("csv") {
            import.extend(["--types", "born:date?"]);
        }
        folder.good(&import);
        folder.good(&[
            "import",
            &copy,
            "relationships",
            &known,
            "--type",
            "K",
            "--from",
            "P",
            "--to",
            "P",
        ]);
        assert_eq!(nodes(&folder, &copy), all_nodes, "{extension}");
        assert_eq!(ends(&folder, &copy), all_ends, "{extension}");
    }
    folder.good(&["export", "db", "all", "--output", "all.jsonl.gz"]);
    assert!(
        folder
            .good(&["import", "copy", "all", "all.jsonl.gz"])
            .starts_with("imported 2 nodes, 2 relationships")
    );
    assert_eq!(
        (nodes(&folder, "copy"), ends(&folder, "copy")),
        (all_nodes, all_ends)
    );
    assert!(folder.good(&["check", "copy"]).contains("is sound"));
    assert!(
        folder
            .bad(&["import", "copy", "all", "all.jsonl.gz"])
            .contains("is there already")
    );
    assert!(
        folder
            .bad(&["export", "db", "nodes", "--label", "Nosuch"])
            .contains("Nosuch")
    );
}

#[test]
fn the_demonstration_runs_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(["demo", "--people", "1000"])
        .env("TMPDIR", folder.0.path())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    for part in [
        "1. Single reads",
        "no path leads there",
        "7. All three models",
        "kv.get('sessions', $session)",
        "That was it.",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        !told.contains('\u{1b}'),
        "no colours where nobody sees them"
    );
    assert_eq!(
        std::fs::read_dir(folder.0.path())
            .expect("the folder")
            .count(),
        0
    );
}

#[test]
fn benchmarks_print_their_figures_and_nothing_else() {
    let folder = Folder::new();
    let benches: [(&str, usize, &[&str]); 2] = [
        ("core", 7, &[]),
        (
            "server",
            8,
            &[
                "http_reads_per_s",
                "http_read_p99_ms",
                "http_reads_100k_s",
                "http_writes_100k_s",
                "bolt_reads_100k_s",
                "bolt_writes_100k_s",
                "idle_connections_rss_mib",
            ],
        ),
    ];
    for (bench, figures, names) in benches {
        let told = folder.good(&["bench", bench, "--scale", "0.0004", "--folder", "."]);
        let cases: Vec<serde_json::Value> = told
            .lines()
            .map(|line| serde_json::from_str(line).expect("every line is JSON"))
            .collect();
        assert_eq!(cases.len(), figures, "{told}");
        for case in &cases {
            assert!(
                case["bench"] == bench
                    && case["value"].is_f64()
                    && case["value"].as_f64().is_some_and(|value| value > 0.0)
                    && case["unit"].is_string()
                    && case["n"].as_u64().is_some_and(|n| n > 0),
                "{case}"
            );
        }
        for name in names {
            assert_eq!(
                cases.iter().filter(|case| case["case"] == *name).count(),
                1,
                "{name}"
            );
        }
    }
    assert_eq!(
        std::fs::read_dir(folder.0.path())
            .expect("the folder")
            .count(),
        0
    );
}

#[test]
fn files_go_in_and_out() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("photos/2026")).expect("a folder");
    let photo = vec![7; 200_000];
    std::fs::write(folder.path("photos/2026/ada.jpg"), &photo).expect("a file");
    std::fs::write(folder.path("photos/note.txt"), "kept").expect("a file");
    folder.good(&["files", "db", "put", "photos", "/albums/photos"]);
    folder.good(&["files", "db", "put", "photos/note.txt", "/albums/"]);
    assert_eq!(
        folder.good(&["files", "db", "cat", "/albums/note.txt"]),
        "kept"
    );
    folder.good(&["files", "db", "mv", "/albums/photos/2026", "/albums/old"]);
    folder.good(&["files", "db", "mkdir", "/a/b"]);
    folder.good(&["files", "db", "mv", "/albums/note.txt", "/a/b"]);
    let listed = folder.good(&["files", "db", "ls", "/albums"]);
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split("  ").last())
        .collect();
    assert_eq!(names, ["old/", "photos/"], "{listed}");
    let told = folder.good(&["files", "db", "ls", "/albums/old", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert!(
        told["name"] == "ada.jpg" && told["kind"] == "file" && told["bytes"] == 200_000,
        "{told}"
    );
    folder.good(&["files", "db", "get", "/albums", "."]);
    #[cfg(unix)]
    {
        // Not through a link that nobody named, but to what is named.
        std::fs::create_dir(folder.path("out")).expect("a folder");
        std::os::unix::fs::symlink("../photos", folder.path("out/albums")).expect("a link");
        let told = folder.bad(&["files", "db", "get", "/albums", "out"]);
        assert!(told.contains("out/albums: a link stands there"), "{told}");
        assert!(!folder.path("photos/old").exists());
        folder.good(&["files", "db", "get", "/albums/old/ada.jpg", "/dev/null"]);
    }
    assert_eq!(
        std::fs::read(folder.path("albums/old/ada.jpg")).expect("a file"),
        photo
    );
    assert!(
        folder
            .bad(&["files", "db", "rm", "/albums"])
            .contains("not empty")
    );
    folder.good(&["files", "db", "rm", "-r", "/albums"]);
    assert!(
        folder
            .bad(&["files", "db", "cat", "/albums/old/ada.jpg"])
            .contains("/albums/old/ada.jpg")
    );
    assert!(
        folder
            .bad(&["files", "db", "put", "photos/note.txt", "/none/x"])
            .contains("make it first")
    );
    let output = folder.run(
        &["files", "db", "put", "-", "/typed"],
        b"from standard input",
    );
    assert!(output.status.success());
    assert_eq!(
        folder.good(&["files", "db", "get", "/typed", "-"]),
        "from standard input"
    );
    folder.good(&["check", "db"]);
}

#[test]
fn a_database_is_opened_with_its_own_engine() {
    let folder = Folder::new();
    for engine in ["store", "redb"] {
        folder.good(&["--engine", engine, "files", engine, "mkdir", "/made"]);
        folder.good(&["query", engine, "CREATE (:A {n: 1})"]);
        let found = folder.good(&[
            "query",
            engine,
            "MATCH (a:A) RETURN a.n AS n",
            "--format",
            "csv",
        ]);
        assert!(found.contains('1'), "{found}");
        let stats = folder.good(&["stats", engine]);
        assert!(
            stats
                .lines()
                .any(|line| line.contains("engine") && line.contains(engine)),
            "{stats}"
        );
        let other = if engine == "store" { "redb" } else { "store" };
        let told = folder.bad(&["--engine", other, "query", engine, "RETURN 1"]);
        assert!(
            told.contains(&format!("a database of the engine {engine}, not {other}")),
            "{told}"
        );
    }
}

#[test]
fn the_past_can_be_asked() {
    let folder = Folder::new();
    let kept = |arguments: &[&str]| {
        let all = [&["--engine", "store", "--keep-versions", "3600"], arguments].concat();
        folder.good(&all)
    };
    kept(&["files", "db", "mkdir", "/made"]);
    kept(&["query", "db", "CREATE (:A {n: 1})"]);
    let stats = kept(&["stats", "db"]);
    let version = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("version"))
        .expect("the version is told")
        .trim()
        .replace(',', "");
    kept(&["query", "db", "MATCH (a:A) SET a.n = 2"]);
    let read = "MATCH (a:A) RETURN a.n AS n";
    let now = kept(&["query", "db", read, "--format", "csv"]);
    let then = kept(&[
        "query",
        "db",
        read,
        "--format",
        "csv",
        "--at-version",
        &version,
    ]);
    assert!(now.contains('2') && then.contains('1'), "{now} {then}");
    let told = folder.bad(&["query", "db", read, "--at-version", "999999"]);
    assert!(told.contains("999999"), "{told}");
}

#[test]
fn a_backup_goes_back_to_any_version() {
    let folder = Folder::new();
    let query = |db: &str, text: &str| folder.good(&["--engine", "store", "query", db, text]);
    folder.write("notes.jsonl", "{\"n\": 1}\n");
    let import = [
        "--engine",
        "store",
        "import",
        "db",
        "nodes",
        "notes.jsonl",
        "--label",
        "Note",
    ];
    folder.good(&import);
    let first = folder.good(&["backup", "db", "backups"]);
    assert!(
        first.contains("backup 1 in backups holds version"),
        "{first}"
    );
    query("db", "CREATE (:Note {n: 2})");
    let told = folder.good(&["backup", "db", "backups", "--quiet"]);
    assert!(told.contains("backup 2"), "{told}");
    let listed = folder.good(&["backup", "--list", "backups"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let version = first.split("version ").nth(1).expect("a version");
    let version: String = version
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    folder.good(&["restore", "backups", "newest"]);
    folder.good(&["restore", "backups", "older", "--to-version", &version]);
    let count = "MATCH (n:Note) RETURN count(*) AS count";
    assert!(query("newest", count).contains('2'));
    assert!(query("older", count).contains('1'));
    folder.good(&["check", "newest"]);
    let told = folder.good(&["checkpoint", "newest", "copied"]);
    assert!(
        told.contains("copied is a copy of newest at version"),
        "{told}"
    );
    folder.good(&["check", "copied"]);
    let told = folder.bad(&["checkpoint", "newest", "copied"]);
    assert!(told.contains("give a new or an empty directory"), "{told}");
    let told = folder.good(&["compact", "newest"]);
    assert!(told.contains("before") && told.contains("now"), "{told}");
    assert!(query("newest", count).contains('2'));
    let told = folder.bad(&["restore", "backups", "older"]);
    assert!(told.contains("not empty"), "{told}");
    let told = folder.bad(&["restore", "db", "third"]);
    assert!(told.contains("holds no backup"), "{told}");
    let told = folder.bad(&["restore", "backups", "third", "--to-version", "999999"]);
    assert!(told.contains("newest backup holds version"), "{told}");
    let told = folder.good(&["backup", "db", "backups", "--keep", "1"]);
    assert!(told.contains("2 older backups forgotten"), "{told}");
}

#[test]
fn an_encrypted_database_opens_with_its_key_alone() {
    let folder = Folder::new();
    folder.write("old.key", "11".repeat(32));
    folder.write("new.key", "22".repeat(32));
    folder.write("short.key", "22");
    let count = "MATCH (n:Note) RETURN count(*) AS count";
    folder.write("notes.jsonl", "{\"text\": \"for few eyes\"}\n");
    let import = ["nodes", "notes.jsonl", "--label", "Note"];
    let keyed = ["--engine", "store", "--key-file", "old.key", "import", "db"];
    folder.good(&[&keyed[..], &import].concat());
    let told = folder.bad(&["query", "db", count]);
    assert!(told.contains("encrypted"), "{told}");
    let told = folder.bad(&["--key-file", "new.key", "query", "db", count]);
    assert!(
        told.contains("the key is not that of the database"),
        "{told}"
    );
    let told = folder.bad(&["--key-file", "short.key", "query", "db", count]);
    assert!(told.contains("32 bytes") && !told.contains("22"), "{told}");
    folder.good(&["--key-file", "old.key", "backup", "db", "backups"]);
    let rotate = [
        "--key-file",
        "old.key",
        "rotate-key",
        "db",
        "--new-key-file",
        "new.key",
    ];
    folder.good(&rotate);
    assert!(folder.bad(&rotate).contains("the key is not that"));
    let found = folder.good(&["--key-file", "new.key", "query", "db", count]);
    assert!(found.contains('1'), "{found}");
    // The key may be in the environment, too.
    for (key, opens) in [("22", true), ("11", false)] {
        let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(["query", "db", count])
            .env("ISOMER_KEY", key.repeat(32))
            .current_dir(folder.0.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.success(), opens, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).contains('1'), opens);
    }
    let told = folder.bad(&["restore", "backups", "again"]);
    assert!(told.contains("encrypted"), "{told}");
    folder.good(&["--key-file", "old.key", "restore", "backups", "again"]);
    let found = folder.good(&["--key-file", "old.key", "query", "again", count]);
    assert!(found.contains('1'), "{found}");
    for database in ["db", "again", "backups/files"] {
        for entry in walk(&folder.path(database)) {
            let bytes = std::fs::read(&entry).expect("a file");
            let open = bytes.windows(8).any(|part| part == b"few eyes");
            assert!(!open, "{} tells", entry.display());
        }
    }
    folder.good(&[&["--engine", "redb", "import", "plain"][..], &import].concat());
    let told = folder.bad(&["--key-file", "old.key", "query", "plain", count]);
    assert!(told.contains("does not encrypt"), "{told}");
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}
