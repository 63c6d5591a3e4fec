//! Imports from the user's point of view: formats, keys, inferred types, bad rows.

use crate::support::{Folder, PEOPLE, gzip, text};

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
        if name == "h.csv" {
            arguments.extend(["--comment", "#"]);
        }
        let printed = folder.good(&arguments);
        assert!(printed.starts_with("imported 2 nodes"), "{name}: {printed}");
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

/// A key is an integer in every case in which its field is declared as one: by `--key`, in the header, by `--columns`
/// or `--types`.
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
        let printed = folder.bad(&[
            "import", "db", "nodes", &file, "--label", "X", "--key", "id",
        ]);
        assert!(
            printed.contains(reason) && printed.contains("nothing was imported"),
            "{name}: {printed}"
        );
        assert_eq!(
            folder.rows("MATCH (n) RETURN count(n) AS n"),
            "n\n0\n",
            "{name}"
        );
    }
}

/// Ambiguous files are refused, not guessed: a first line of values, an unknown type, another delimiter, a single
/// object.
#[test]
fn ambiguous_files_are_refused() {
    let cases: [(&str, &str, &str); 13] = [
        (
            "a.tsv",
            "# FromNodeId\tToNodeId\n0\t11342\n0\t824020\n",
            "--columns source,target",
        ),
        ("b.csv", "ada,36\nbob,40\n", "`36` in it is a value"),
        (
            "q.csv",
            "\"0\",\"11342\"\n\"0\",\"824020\"\n",
            "`0` in it is a value",
        ),
        ("c.csv", "name,born\nada,1815\n", ""),
        (
            "d.csv",
            "at,2024-01-01\nx,y\n",
            "`2024-01-01` in it is a value",
        ),
        (
            "e.csv",
            "name,age:itn\nada,36\n",
            "`itn` in `age:itn` is not a type: string, int",
        ),
        (
            "f.csv",
            "name:ID,:LABEL\nada,A;B\n",
            "--types ':LABEL:ignore'",
        ),
        ("g.csv", "id;name\n1;ada\n", "--delimiter ';'"),
        (
            "h.json",
            "{\"name\": \"Ada\", \"age\": 36}",
            "`name` is a string, where an object was expected",
        ),
        ("i.csv", "a\rb\n1\n", "line feed in a field without quotes"),
        (
            "j.csv",
            "a,b\n1,x\ry\n",
            "a carriage return alone in a field without quotes",
        ),
        (
            "k.csv",
            "n:float\n9007199254740993\n",
            "a float would round",
        ),
        (
            "l.csv",
            "at:datetime\n2024-01-01T10:00\n",
            "declare it `localdatetime`",
        ),
    ];
    for (name, bytes, reason) in cases {
        let folder = Folder::new();
        let file = folder.write(name, bytes);
        let import = ["import", "db", "nodes", &file, "--label", "X"];
        if reason.is_empty() {
            folder.good(&import);
            continue;
        }
        let output = folder.bad(&import);
        assert!(
            output.contains(reason) && output.contains(name),
            "{name}: {output}"
        );
    }
    // Each has a remedy.
    let folder = Folder::new();
    let imported = |name: &str, bytes: &str, options: &[&str]| {
        let file = folder.write(name, bytes);
        let label = name.split('.').next().expect("a name").to_uppercase();
        folder.good(
            &[
                &["import", "db", "nodes", &file, "--label", &label],
                options,
            ]
            .concat(),
        );
        folder.rows(&format!("MATCH (n:{label}) WITH properties(n) AS p ORDER BY n._key RETURN [k IN keys(p) WHERE k <> '_key' | k + '=' + p[k]] AS p"))
    };
    assert_eq!(
        imported(
            "wide.csv",
            "id,2019,2020\na,1,2\n",
            &["--plain-header", "--key", "id"]
        ),
        "p\n\"[\"\"2019=1\"\",\"\"2020=2\"\"]\"\n"
    );
    assert_eq!(
        imported("tags.csv", "id,tag\n#1,#rust\n2,go\n", &["--key", "id"]),
        "p\n\"[\"\"tag=#rust\"\"]\"\n\"[\"\"tag=go\"\"]\"\n"
    );
    assert_eq!(
        imported("mac.csv", "id,v\r1,5\r2,6\r", &["--key", "id"]),
        "p\n\"[\"\"v=5\"\"]\"\n\"[\"\"v=6\"\"]\"\n"
    );
    assert_eq!(
        imported(
            "neo.csv",
            "id:ID(Person)|name:STRING|:IGNORE|:LABEL|age:LONG\na|Ada|x|L|\n",
            &["--delimiter", "|", "--types", ":LABEL:ignore"]
        ),
        "p\n\"[\"\"name=Ada\"\"]\"\n"
    );
}

/// The type test applies equally to rows after those from which a type was inferred.
#[test]
fn an_inferred_type_holds_to_the_last_row() {
    for (text, bad) in [
        ("02134", true),
        ("+5", true),
        (" 7", true),
        ("9007199254740993", false),
        ("", false),
    ] {
        let folder = Folder::new();
        let mut file = String::from("id,zip\n");
        (1..=1_000).for_each(|id| file += &format!("{id},{}\n", 20_000 + id));
        let file = folder.write("z.csv", file + &format!("1001,{text}\n"));
        let import = [
            "import", "db", "nodes", &file, "--label", "P", "--key", "id",
        ];
        if bad {
            let output = folder.bad(&import);
            assert!(
                output.contains("line 1002: column `zip` is `")
                    && output.contains("--types 'zip:string'"),
                "{output}"
            );
        } else {
            folder.good(&import);
            assert_eq!(
                folder.rows("MATCH (p:P {_key: '1001'}) RETURN p.zip AS zip"),
                format!("zip\n{text}\n")
            );
        }
    }
}

/// Headers of neo4j-admin for relationships, and old names of types.
#[test]
fn relationships_are_found_by_the_roles_of_their_columns() {
    let folder = Folder::new();
    let people = folder.write(
        "p.csv",
        "personId:ID(Person),at:instant?\nada,2024-01-01T10:00Z\nbob,\n",
    );
    let output = folder.good(&["import", "db", "nodes", &people, "--label", "Person"]);
    assert!(
        output.contains("the type `instant` of `at` is called `datetime` now"),
        "{output}"
    );
    let knows = folder.write(
        "k.csv",
        "since:int,Person.id:END_ID(Person),Person.id:START_ID(Person)\n1999,bob,ada\n,ada,bob\n",
    );
    folder.good(&[
        "import",
        "db",
        "relationships",
        &knows,
        "--type",
        "KNOWS",
        "--from",
        "Person",
        "--to",
        "Person",
    ]);
    assert_eq!(
        folder.rows(
            "MATCH (a)-[k:KNOWS]->(b) RETURN a._key AS a, b._key AS b, k.since AS since ORDER BY a"
        ),
        "a,b,since\nada,bob,1999\nbob,ada,\n"
    );
    let typed = folder.write("t.csv", "a,b,:TYPE\nada,bob,LIKES\n");
    let output = folder.bad(&[
        "import",
        "db",
        "relationships",
        &typed,
        "--type",
        "T",
        "--from",
        "Person",
        "--to",
        "Person",
    ]);
    assert!(output.contains("--type"), "{output}");
}

#[test]
fn a_missing_end_stops_the_import_of_relationships() {
    let folder = Folder::new();
    let people = folder.write("p.csv", PEOPLE);
    let edges = folder.write("e.csv", "from,to\nada,bob\nada,carl\n");
    folder.good(&[
        "import", "db", "nodes", &people, "--label", "Person", "--key", "id",
    ]);
    let printed = folder.bad(&[
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
    assert!(
        printed.contains("line 3") && printed.contains("carl"),
        "{printed}"
    );
    assert_eq!(
        folder.rows("MATCH ()-[r]->() RETURN count(r) AS n"),
        "n\n0\n"
    );
}

#[test]
fn allowed_bad_rows_go_to_a_file_with_line_and_reason() {
    let folder = Folder::new();
    let file = folder.write("p.csv", "id,n:int\na,1\nb\nc,3\na,4\nd,x\n");
    let printed = folder.good(&[
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
        printed.starts_with("imported 2 nodes")
            && printed.contains("3 rows refused: see p.csv.rejects.jsonl"),
        "{printed}"
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
    let printed = folder.bad(&[
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
        printed.contains("--max-rejects is 2; nothing was imported"),
        "{printed}"
    );
}

#[test]
fn a_dry_run_checks_everything_and_changes_nothing() {
    let folder = Folder::new();
    let people = folder.write("p.csv", PEOPLE);
    let printed = folder.good(&[
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
    assert!(printed.starts_with("would import 2 rows"), "{printed}");
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
