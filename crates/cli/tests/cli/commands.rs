//! The binary from the user's point of view: rows out, bad input, exit codes.

use isomer_db::{Sharing, internals::DatabaseInternals as _};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{Folder, text};

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
        "import", "query", "run", "shell", "export", "files", "check", "stats", "bench", "demo",
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

/// If the path is a file, the error names the file, not something below it.
#[test]
fn a_file_is_no_database() {
    let folder = Folder::new();
    std::fs::write(folder.path("notes.txt"), "text").unwrap();
    for command in [
        &["query", "notes.txt", "RETURN 1"][..],
        &["stats", "notes.txt"],
        &["check", "notes.txt"],
        &["shell", "notes.txt"],
    ] {
        let printed = folder.bad(command);
        assert!(
            printed.contains("`notes.txt` is not a database: it is a file")
                && !printed.contains("notes.txt/"),
            "{command:?}: {printed}"
        );
    }
}

/// A missing database is never created by accident; the error names the commands that create one.
#[test]
fn a_missing_path_names_the_commands_that_create_a_database() {
    let folder = Folder::new();
    for command in [
        &["query", "db", "RETURN 1"][..],
        &["stats", "db"],
        &["check", "db"],
    ] {
        let printed = folder.bad(command);
        assert!(
            printed.contains("there is no database at `db`")
                && printed.contains("`isomer shell db`"),
            "{command:?}: {printed}"
        );
    }
    // The command that is named works.
    folder.run(&["shell", "db"], b"CREATE (:A);\n");
    assert!(
        folder
            .rows("MATCH (a:A) RETURN count(a) AS n")
            .contains('1')
    );
}

/// The lines of `isomer stats` are the ends of the statements that create them again.
#[test]
fn stats_spell_the_schema_as_statements_do() {
    let folder = Folder::new();
    let declared = [
        "CREATE INDEX tags FOR (p:Person) ON (p.tags[], p.name)",
        "CREATE CONSTRAINT pair FOR (p:Person) REQUIRE (p.a, p.b) IS UNIQUE",
        "CREATE CONSTRAINT key FOR (p:Person) REQUIRE (p.c, p.d) IS NODE KEY",
        "CREATE CONSTRAINT named FOR (p:Person) REQUIRE p.name IS NOT NULL",
        "CREATE CONSTRAINT age FOR (p:Person) REQUIRE p.age IS :: INTEGER | LIST<ANY>",
        "CREATE CONSTRAINT votes FOR (p:Person) REQUIRE p.votes IS CONVERGENT COUNTER",
    ];
    let script = declared.map(|text| format!("{text};\n")).concat();
    let output = folder.run(&["shell", "db"], script.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stats = folder.good(&["stats", "db"]);
    for statement in declared {
        let (_, end) = statement.split_once(" FOR (p").expect("a label");
        let line = end.replacen(") ON", "", 1).replacen(") REQUIRE", "", 1);
        let line = line.replace("p.", "");
        assert!(stats.contains(&line), "`{line}` is not in:\n{stats}");
    }
    // A label without nodes is listed, a metric that is zero is not.
    let metrics = stats.split_once("\nStorage\n").expect("metrics").1;
    let zeros = metrics.lines().filter(|line| {
        line.trim_end().ends_with("  0") || line.contains("  0 B") || line.contains("  0 runs")
    });
    assert_eq!(zeros.collect::<Vec<_>>(), Vec::<&str>::new());
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
    let printed = text(&output.stdout);
    assert!(
        printed.contains("| 1 |") && printed.ends_with("n\n1\n"),
        "{printed}"
    );
    let script = b"RETURN 1 AS a;\nRETRUN 2;\nRETURN 3 AS c;\n";
    let output = folder.run(&["shell"], script);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        !text(&output.stdout).contains("| 3 |")
            && text(&output.stderr).contains("standard input, statement at line 2: "),
        "the first error ends the script"
    );
    let output = folder.run(&["shell", "--keep-going"], script);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("| 3 |")
            && text(&output.stderr).contains("1 statement failed")
    );
}

#[test]
fn a_second_process_gets_the_id_of_the_first() {
    let folder = Folder::new();
    let builder = isomer_db::Database::builder().sharing(Sharing::Exclusive);
    let db = builder.open(folder.path("db")).expect("a database");
    let printed = folder.bad(&["stats", "db"]);
    assert!(
        printed.contains(&std::process::id().to_string()),
        "{printed}"
    );
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

/// Each kind of stored data is damaged in a copy of a sound database: `check` finds the damage, names it and exits with
/// 1.
#[test]
fn check_finds_damage_of_each_kind_of_thing() {
    check_finds_damage_in(Sharing::Exclusive);
}

/// The same, in a shared database.
#[test]
fn check_finds_damage_of_each_kind_of_thing_in_a_shared_database() {
    check_finds_damage_in(Sharing::Shared);
}

fn check_finds_damage_in(sharing: Sharing) {
    let folder = Folder::new();
    let sound = folder.path("sound");
    let made = isomer_db::Database::builder()
        .engine(isomer_db::EngineKind::Lsm)
        .sharing(sharing)
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
    // Two histories of one database, of equal length, both entirely in tables.
    run("sound", "MATCH (p:P {_key: 7}) SET p.text = 'one'");
    run("other", "MATCH (p:P {_key: 7}) SET p.text = 'two'");
    for db in ["sound", "other"] {
        folder.good(&["compact", db]);
        assert!(folder.good(&["check", db]).contains("is sound"), "{db}");
    }

    // Bypasses everything that keeps structures consistent: deletes the first key that begins with a tag (see
    // data/src/keyspace.rs).
    let without = |tag: u8| {
        move |db: &Path| {
            let opened = isomer_db::Database::open(db).expect("opens");
            let store = opened.store().expect("a store");
            let engine = store.engine();
            let mut page = isomer_db::internals::data::Page::new();
            let snapshot = engine.snapshot().expect("a snapshot");
            let range = isomer_db::internals::data::KeyRange {
                start: &[tag],
                end: Some(&[tag + 1]),
            };
            let limit = isomer_db::internals::data::PageLimit {
                keys: 1,
                bytes: 1 << 20,
            };
            snapshot
                .scan(
                    range,
                    isomer_db::internals::data::Order::Ascending,
                    limit,
                    &mut page,
                )
                .expect("a scan");
            let mut transaction = engine.begin().expect("begins");
            transaction.delete(page.pair(0).0).expect("deleted");
            transaction
                .commit(isomer_db::internals::data::Durability::Synced)
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
        // After the header of the segment and of its first record.
        match sharing {
            Sharing::Shared => (
                "log",
                Box::new(|db| flip(&db.join("shared"), "log", |_| 200)),
                "log",
            ),
            _ => (
                "log",
                Box::new(|db| flip(&db.join("log"), "log", |_| 1024 + 100)),
                "log segment",
            ),
        },
        (
            "history",
            Box::new(|db| {
                std::fs::remove_dir_all(db.join("tables")).expect("removed");
                copy_folder(&folder.path("other").join("tables"), &db.join("tables"));
            }),
            match sharing {
                Sharing::Shared => "is not the one that its tables contain",
                _ => "is inconsistent",
            },
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
    for (name, damage, printed) in cases {
        let db = folder.path(name);
        copy_folder(&sound, &db);
        damage(&db);
        let output = folder.run(&["check", name], b"");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(printed), "{name}: {said}");
    }
}

#[test]
fn a_folder_without_a_database_is_refused() {
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
fn exports_can_be_imported_again() {
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
        let import = ["import", &copy, "nodes", &people, "--label", "P"];
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
    // Labels are not in the files of one label, and the export says so.
    let export = ["export", "db", "nodes", "--label", "P"];
    let message = |folder: &Folder| text(&folder.run(&export, b"").stderr);
    assert_eq!(message(&folder), "exported 2 nodes\n");
    folder.good(&["query", "db", "MATCH (p:P {_key: 'a'}) SET p:Q"]);
    assert!(
        message(&folder).starts_with("exported 2 nodes; 1 of them with further labels"),
        "{}",
        message(&folder)
    );
    folder.good(&["query", "db", "MATCH (q:Q) REMOVE q:Q"]);
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
            .contains("already exists")
    );
    assert!(
        folder
            .bad(&["export", "db", "nodes", "--label", "Nosuch"])
            .contains("Nosuch")
    );
}

/// Keys are unique per label, and an import of relationships takes one label for each side: relationships between nodes
/// of several labels are not exported into one file, but in parts, which an import puts together again.
#[test]
fn relationships_between_several_labels_are_exported_in_parts() {
    let folder = Folder::new();
    let shell = |db: &str, statement: &str| {
        let output = folder.run(&["shell", db], statement.as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    shell(
        "db",
        "CREATE (a:A {_key: 1}), (b:B {_key: 1}), (c:`a c`:z {_key: 1}), (a)-[:R {n: 1}]->(b), (b)-[:R {n: 2}]->(a),
           (a)-[:R {n: 3}]->(c), (:A {_key: 2})-[:R {n: 4}]->(b), (b)-[:S]->(c)",
    );
    let rows = |db: &str| {
        let query = "MATCH (x)-[r:R]->(y) RETURN labels(x)[0] AS x, x._key AS xk, r.n AS n, labels(y)[0] AS y, y._key AS yk ORDER BY n";
        folder.good(&["query", db, query, "--format", "csv"])
    };
    let export = |more: &[&str]| {
        let fixed = ["export", "db", "relationships", "--type", "R"];
        let output = folder.run(&[&fixed[..], more].concat(), b"");
        (output.status.success(), text(&output.stderr))
    };
    let (good, said) = export(&[]);
    assert!(!good && said.contains("begin at nodes that have no common label (labels: A, B)"));
    assert!(said.contains("--from LABEL"), "{said}");
    let (good, said) = export(&["--from", "A"]);
    assert!(!good && said.contains("end at nodes that have no common label"));
    assert!(said.contains("--to LABEL"), "{said}");
    let (good, said) = export(&["--from", "A", "--to", "Q"]);
    assert!(!good && said.contains("no node has ever had the label `Q`"));
    // For other programs the ends are keys, whatever they are keys of.
    assert!(export(&["--plain"]).0);
    shell(
        "copy",
        "CREATE (:A {_key: 1}), (:A {_key: 2}), (:B {_key: 1}), (:`a c` {_key: 1})",
    );
    let parts = [
        (
            "A",
            "B",
            "2 relationships; they are imported with --type R --from A --to B",
        ),
        (
            "B",
            "A",
            "1 relationship; they are imported with --type R --from B --to A",
        ),
        (
            "A",
            "a c",
            "1 relationship; they are imported with --type R --from A --to 'a c'",
        ),
        ("B", "B", "0 relationships\n"),
    ];
    for (from, to, summary) in parts {
        for extension in ["csv", "jsonl"] {
            let file = format!("{from}{to}.{extension}");
            let (good, said) = export(&["--from", from, "--to", to, "--output", &file]);
            assert!(good && said.contains(summary), "{said}");
        }
        let file = format!("{from}{to}.csv");
        let import = ["import", "copy", "relationships", &file, "--type", "R"];
        if from != to {
            folder.good(&[&import[..], &["--from", from, "--to", to]].concat());
        }
    }
    assert_eq!(rows("copy"), rows("db"));
    // The labels are found where they are the same everywhere.
    let (good, said) = {
        let output = folder.run(&["export", "db", "relationships", "--type", "S"], b"");
        (output.status.success(), text(&output.stderr))
    };
    assert!(good && said.contains("--type S --from B --to "), "{said}");
}

#[test]
fn the_demonstration_runs_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(["demo", "--people", "1000"])
        .env("TMPDIR", folder.root())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for part in [
        "1. Single reads",
        "there is no path",
        "7. All three models",
        "kv.get('sessions', $session)",
        "End of the demonstration.",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(
        !printed.contains('\u{1b}'),
        "no colours in redirected output"
    );
    assert_eq!(
        std::fs::read_dir(folder.root())
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
        let printed = folder.good(&["bench", bench, "--scale", "0.0004", "--folder", "."]);
        let cases: Vec<serde_json::Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("every line is JSON"))
            .collect();
        assert_eq!(cases.len(), figures, "{printed}");
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
        std::fs::read_dir(folder.root())
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
    let printed = folder.good(&["files", "db", "ls", "/albums/old", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert!(
        printed["name"] == "ada.jpg" && printed["kind"] == "file" && printed["bytes"] == 200_000,
        "{printed}"
    );
    folder.good(&["files", "db", "get", "/albums", "."]);
    #[cfg(unix)]
    {
        // Not through a link that was not named, but to what is named.
        std::fs::create_dir(folder.path("out")).expect("a folder");
        std::os::unix::fs::symlink("../photos", folder.path("out/albums")).expect("a link");
        let printed = folder.bad(&["files", "db", "get", "/albums", "out"]);
        assert!(
            printed.contains("out/albums: a link already exists"),
            "{printed}"
        );
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
    for engine in ["lsm", "redb"] {
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
        let other = if engine == "lsm" { "redb" } else { "lsm" };
        let printed = folder.bad(&["--engine", other, "query", engine, "RETURN 1"]);
        assert!(
            printed.contains(&format!("a database of the engine {engine}, not {other}")),
            "{printed}"
        );
    }
}

/// Version 0.1.0 called the LSM engine `store`: scripts with that spelling keep working.
#[test]
fn the_old_name_of_the_engine_is_accepted() {
    let folder = Folder::new();
    folder.good(&["--engine", "store", "files", "db", "mkdir", "/made"]);
    folder.good(&["--engine", "store", "query", "db", "CREATE (:A {n: 1})"]);
    for name in ["store", "lsm"] {
        let found = folder.good(&[
            "--engine",
            name,
            "query",
            "db",
            "MATCH (a:A) RETURN a.n AS n",
        ]);
        assert!(found.contains('1'), "{found}");
    }
    let stats = folder.good(&["stats", "db"]);
    assert!(
        stats
            .lines()
            .any(|line| line.contains("engine") && line.contains("lsm")),
        "{stats}"
    );
    let output = folder.run(&["--engine", "stores", "query", "db", "RETURN 1"], b"");
    assert_eq!(
        output.status.code(),
        Some(2),
        "an error of the command line"
    );
    let refused = text(&output.stderr);
    assert!(refused.contains("possible values: lsm"), "{refused}");
}

#[test]
fn the_past_can_be_asked() {
    let folder = Folder::new();
    let kept = |arguments: &[&str]| {
        let all = [&["--engine", "lsm", "--keep-versions", "3600"], arguments].concat();
        folder.good(&all)
    };
    kept(&["files", "db", "mkdir", "/made"]);
    kept(&["query", "db", "CREATE (:A {n: 1})"]);
    let stats = kept(&["stats", "db"]);
    let version = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("version"))
        .expect("the version is printed")
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
    let printed = folder.bad(&["query", "db", read, "--at-version", "999999"]);
    assert!(printed.contains("999999"), "{printed}");
}

#[test]
fn a_backup_restores_any_version() {
    let folder = Folder::new();
    let query = |db: &str, text: &str| folder.good(&["--engine", "lsm", "query", db, text]);
    folder.write("notes.jsonl", "{\"n\": 1}\n");
    let import = [
        "--engine",
        "lsm",
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
    let printed = folder.good(&["backup", "db", "backups", "--quiet"]);
    assert!(printed.contains("backup 2"), "{printed}");
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
    let printed = folder.good(&["checkpoint", "newest", "copied"]);
    assert!(
        printed.contains("copied is a copy of newest at version"),
        "{printed}"
    );
    folder.good(&["check", "copied"]);
    let printed = folder.bad(&["checkpoint", "newest", "copied"]);
    assert!(
        printed.contains("give a new or an empty directory"),
        "{printed}"
    );
    let printed = folder.good(&["compact", "newest"]);
    assert!(
        printed.contains("before") && printed.contains("now"),
        "{printed}"
    );
    assert!(query("newest", count).contains('2'));
    let printed = folder.bad(&["restore", "backups", "older"]);
    assert!(printed.contains("not empty"), "{printed}");
    let printed = folder.bad(&["restore", "db", "third"]);
    assert!(printed.contains("holds no backup"), "{printed}");
    let printed = folder.bad(&["restore", "backups", "third", "--to-version", "999999"]);
    assert!(printed.contains("newest backup holds version"), "{printed}");
    let printed = folder.good(&["backup", "db", "backups", "--keep", "1"]);
    assert!(printed.contains("2 older backups forgotten"), "{printed}");
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
    let keyed = ["--engine", "lsm", "--key-file", "old.key", "import", "db"];
    folder.good(&[&keyed[..], &import].concat());
    let printed = folder.bad(&["query", "db", count]);
    assert!(printed.contains("encrypted"), "{printed}");
    let printed = folder.bad(&["--key-file", "new.key", "query", "db", count]);
    assert!(
        printed.contains("the key is not that of the database"),
        "{printed}"
    );
    let printed = folder.bad(&["--key-file", "short.key", "query", "db", count]);
    assert!(
        printed.contains("32 bytes") && !printed.contains("22"),
        "{printed}"
    );
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
    // The key may also be in the environment.
    for (key, opens) in [("22", true), ("11", false)] {
        let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(["query", "db", count])
            .env("ISOMER_KEY", key.repeat(32))
            .current_dir(folder.root())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.success(), opens, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).contains('1'), opens);
    }
    let printed = folder.bad(&["restore", "backups", "again"]);
    assert!(printed.contains("encrypted"), "{printed}");
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
    let printed = folder.bad(&["--key-file", "old.key", "query", "plain", count]);
    assert!(printed.contains("does not encrypt"), "{printed}");
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
