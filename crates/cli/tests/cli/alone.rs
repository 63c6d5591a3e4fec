//! What needs a shared database alone: it works if no other process has the database open, and otherwise says which
//! processes are in the way. The table in `docs/processes.md` lists these tests.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    shared::{Server, ask, open},
    support::{Folder, text},
};

/// What names this process in an error.
fn this_program() -> String {
    format!("{} (library)", std::process::id())
}

/// More than one transaction of a shared database takes.
fn large_rows() -> String {
    let text = "x".repeat(1 << 20);
    let rows = (0..70).map(|number| format!("{{\"_key\": \"{number}\", \"text\": \"{text}\"}}\n"));
    rows.collect()
}

#[test]
fn imports_of_any_size_need_the_database_alone() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    folder.write("large.jsonl", large_rows());
    folder.write("small.jsonl", "{\"_key\": \"small\"}\n");
    folder.write("ends.csv", "from,to\n1,2\n");
    let large = [
        "import",
        "db",
        "nodes",
        "large.jsonl",
        "--label",
        "L",
        "--quiet",
    ];
    let small = [
        "import",
        "db",
        "nodes",
        "small.jsonl",
        "--label",
        "S",
        "--quiet",
    ];
    let ends = [
        "import",
        "db",
        "relationships",
        "ends.csv",
        "--type",
        "T",
        "--from",
        "L",
        "--to",
        "L",
        "--quiet",
    ];
    let db = open(&folder.path("db"));
    let refused = folder.bad(&large);
    assert!(
        refused.contains("an import of any size needs the database alone")
            && refused.contains(&this_program()),
        "{refused}"
    );
    // As one transaction, which the program sees.
    folder.good(&small);
    let count = |label: &str| {
        let found = db.query(format!("MATCH (n:{label}) RETURN count(n) AS n").as_str());
        let found: u64 = found
            .and_then(|rows| rows.single()?.get("n"))
            .expect("read");
        found
    };
    assert_eq!((count("L"), count("S")), (0, 1));
    db.close().expect("closed");

    folder.good(&large);
    folder.good(&ends);
    let again = open(&folder.path("db"));
    let found = again
        .query("MATCH (a:L)-[:T]->(b:L) RETURN size(a.text) AS n, count(*) AS c")
        .expect("read");
    assert_eq!(found.len(), 1);
    assert!(
        folder
            .rows("MATCH (n:L) RETURN count(n) AS n")
            .contains("70")
    );
    again.close().expect("closed");
    folder.good(&["check", "db"]);
}

/// Another command that comes while an import has the database alone is refused with its number, or waits.
#[test]
fn commands_during_an_import_name_it_or_wait() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    let import = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args([
            "import",
            "db",
            "nodes",
            "-",
            "--label",
            "L",
            "--input-format",
            "jsonl",
            "--quiet",
        ])
        .current_dir(folder.root())
        .stdin(Stdio::piped())
        .spawn();
    let mut import = import.expect("the binary runs");
    // It waits for more rows.
    let mut rows = import.stdin.take().expect("a pipe");
    rows.write_all(b"{\"_key\": \"one\"}\n").expect("written");
    let began = Instant::now();
    let refused = loop {
        let output = folder.run(&["query", "db", "RETURN 1"], b"");
        if !output.status.success() {
            break text(&output.stderr);
        }
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it never has it alone"
        );
        // Only another command shows whether the import has the database alone.
        thread::sleep(Duration::from_millis(20));
    };
    assert!(
        refused.contains(&format!("in use by process {}", import.id()))
            && refused.contains("wait until its import ends"),
        "{refused}"
    );
    drop(rows);
    assert!(import.wait().expect("it ends").success());
    folder.good(&["query", "db", "RETURN 1"]);
}

#[test]
fn keys_are_rotated_alone() {
    let folder = Folder::new();
    folder.write("old.key", "11".repeat(32));
    folder.write("new.key", "22".repeat(32));
    folder.good(&["--key-file", "old.key", "share", "db"]);
    folder.good(&["--key-file", "old.key", "query", "db", "CREATE (:N)"]);
    let key = isomerdb_key(&folder, "old.key");
    let builder = isomer_db::Database::builder().key(key);
    let db = builder.open(folder.path("db")).expect("opened");
    let rotate = [
        "--key-file",
        "old.key",
        "rotate-key",
        "db",
        "--new-key-file",
        "new.key",
    ];
    let refused = folder.bad(&rotate);
    assert!(
        refused.contains("this needs it alone") && refused.contains(&this_program()),
        "{refused}"
    );
    db.close().expect("closed");
    folder.good(&rotate);
    let count = [
        "--key-file",
        "new.key",
        "query",
        "db",
        "MATCH (n:N) RETURN count(n) AS n",
    ];
    assert!(folder.good(&count).contains('1'));
}

fn isomerdb_key(folder: &Folder, name: &str) -> isomer_db::MasterKey {
    isomer_db::MasterKey::from_file(folder.path(name)).expect("a key")
}

/// A replica is opened by one process at a time. A shared database becomes one if it is not open elsewhere.
#[test]
fn replicas_have_the_database_alone() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    let peer = ["replica", "add", "db", "other"];
    let db = open(&folder.path("db"));
    let refused = folder.bad(&peer);
    assert!(
        refused.contains("this needs it alone") && refused.contains(&this_program()),
        "{refused}"
    );
    db.close().expect("closed");
    folder.good(&peer);
    folder.good(&["replica", "add", "other", "db"]);
    folder.good(&["query", "db", "CREATE (:N)"]);
    folder.good(&["sync", "once", "db", "--quiet"]);
    // It is stored as a shared one, and opened exclusively: the error for others says so.
    let db = isomer_db::Database::open(folder.path("db")).expect("opened");
    let refused = folder.bad(&["query", "db", "RETURN 1"]);
    assert!(
        refused.contains(&format!("in use by process {}", std::process::id())),
        "{refused}"
    );
    let shared = folder.bad(&["--sharing", "shared", "query", "db", "RETURN 1"]);
    assert!(shared.contains("in use by process"), "{shared}");
    db.close().expect("closed");
    let shared = folder.bad(&["--sharing", "shared", "query", "db", "RETURN 1"]);
    assert!(shared.contains("is a replica"), "{shared}");
    assert!(
        folder
            .rows("MATCH (n:N) RETURN count(n) AS n")
            .contains('1')
    );
}

/// Other work continues while others have the database open.
#[test]
fn compaction_restores_and_indexes_work_beside_others() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    let db = open(&folder.path("db"));
    db.query("UNWIND range(1, 500) AS n CREATE (:N {n: n})")
        .expect("written");
    // This program maintains the tables, and hands that over.
    folder.good(&["compact", "db"]);
    folder.good(&["query", "db", "CREATE INDEX by_n FOR (n:N) ON (n.n)"]);
    folder.good(&[
        "query",
        "db",
        "CREATE CONSTRAINT one_n FOR (n:N) REQUIRE n.other IS UNIQUE",
    ]);
    folder.good(&["backup", "db", "backups", "--quiet"]);
    folder.good(&["restore", "backups", "restored", "--quiet"]);
    db.query("MATCH (n:N {n: 7}) SET n.n = 1007")
        .expect("written");
    let found = db
        .query("MATCH (n:N) WHERE n.n > 500 RETURN n.n AS n")
        .expect("read");
    assert_eq!(found.len(), 1);
    let restored = folder.good(&["query", "restored", "MATCH (n:N) RETURN max(n.n) AS n"]);
    assert!(restored.contains("500"), "{restored}");
    folder.good(&["compact", "db"]);
    folder.good(&["check", "db"]);
    db.close().expect("closed");
}

/// Imports over HTTP need the server's database alone.
#[test]
fn a_server_imports_into_a_shared_database_that_it_has_alone() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command
        .args([
            "--memory",
            "256MiB",
            "serve",
            "db",
            "--listen",
            "127.0.0.1:0",
        ])
        .args(["--without-authentication", "--set", "log.format=json"])
        .current_dir(folder.root());
    let server = Server::start(&mut command);
    let import = || {
        let path = "/v1/databases/db/import/nodes?label=L&key=id";
        let body = "{\"id\": \"a\"}\n{\"id\": \"b\"}\n";
        let answer = ask_as(server.port, path, "application/jsonl", body);
        answer.expect("an answer")
    };
    let db = open(&folder.path("db"));
    let (status, body) = import();
    assert_eq!(status, 503, "{body}");
    assert!(
        body.contains("this needs it alone") && body.contains(&this_program()),
        "{body}"
    );
    db.close().expect("closed");
    let (status, body) = import();
    assert_eq!(status, 200, "{body}");
    // Others can open it again.
    assert!(
        folder
            .rows("MATCH (n:L) RETURN count(n) AS n")
            .contains('2')
    );
    let (status, _) = ask(server.port, "", "GET", "/v1/databases", "").expect("an answer");
    assert_eq!(status, 200);
    assert!(fs::exists(folder.path("db").join("STORE")).expect("a file"));
}

fn ask_as(port: u16, path: &str, content_type: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.get(9..12)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}
