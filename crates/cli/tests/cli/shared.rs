//! One database, several processes of three kinds: a program with the library, commands, servers.
//!
//! `ISOMER_KILLS` sets how many processes are killed (a soak: 500), `ISOMER_TEST_SEED` the moments.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_db::{Database, EngineKind, ErrorKind, Query, Sharing, Value};

use crate::support::{Folder, text};

const FOLDER: &str = "ISOMER_TEST_FOLDER";
const WRITER: &str = "ISOMER_TEST_WRITER";
/// What a survivor waits at most for a commit: others are stopped for a tenth of a second, and the machine may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

fn setting(variable: &str, otherwise: usize) -> usize {
    let text = env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

pub fn open(path: &Path) -> Database {
    let builder = Database::builder().sharing(Sharing::Shared);
    builder.memory(64 << 20).open(path).expect("opened")
}

#[test]
fn commands_work_while_a_program_has_the_database_open() {
    let folder = Folder::new();
    let said = folder.good(&["share", "db"]);
    assert!(said.contains("was created as a shared database"), "{said}");
    assert!(folder.good(&["share", "db"]).contains("already"));
    let db = open(&folder.path("db"));
    folder.good(&["query", "db", "CREATE (:Note {text: 'from a command'})"]);
    let notes = db.query("MATCH (n:Note) RETURN n.text").expect("read");
    assert_eq!(notes.len(), 1);
    db.query("CREATE (:Note {text: 'from the program'})")
        .expect("written");
    assert!(
        folder
            .rows("MATCH (n:Note) RETURN count(n) AS n")
            .contains('2')
    );
    folder.good(&["check", "db"]);
    folder.good(&["backup", "db", "backups"]);
    folder.good(&["checkpoint", "db", "copy"]);
    folder.good(&["export", "db", "all", "--output", "dump.jsonl"]);
    let copied = folder.good(&["query", "copy", "MATCH (n:Note) RETURN count(n) AS n"]);
    assert!(copied.contains('2'), "{copied}");

    let own = std::process::id();
    let stats = folder.good(&["stats", "db"]);
    assert!(
        stats.lines().any(|line| {
            line.trim_start().starts_with(&format!("{own} ")) && line.contains("library")
        }),
        "{stats}"
    );
    let stats = folder.good(&["stats", "db", "--processes", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    let processes = stats["processes"].as_array().expect("a list");
    let kinds: Vec<_> = processes
        .iter()
        .map(|process| {
            (
                process["kind"].as_str(),
                process["own"].as_bool(),
                process["behind"].as_u64(),
            )
        })
        .collect();
    assert_eq!(kinds.len(), 2, "{stats}");
    assert!(
        kinds.contains(&(Some("cli"), Some(true), Some(0))),
        "{stats}"
    );
    assert!(
        kinds
            .iter()
            .any(|(kind, own, _)| (*kind, *own) == (Some("library"), Some(false))),
        "{stats}"
    );

    let refused = folder.bad(&["--sharing", "exclusive", "query", "db", "RETURN 1"]);
    assert!(
        refused.contains("this needs it alone") && refused.contains(&format!("{own} (library)")),
        "{refused}"
    );
    db.close().expect("closed");
    folder.good(&["--sharing", "exclusive", "query", "db", "RETURN 1"]);
}

/// A program that only opens a database, which the test starts as a process: it runs the queries of its input.
#[test]
#[ignore = "started by another test"]
fn a_program_that_opens_a_database() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let db = Database::open(&folder).expect("opened");
    println!("\nopened");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        db.query(line.as_str()).expect("written");
        println!("\nwritten");
    }
}

/// Without any option, programs, commands and a server have a new database open at the same time.
#[test]
fn a_new_database_is_open_in_processes_of_three_kinds() {
    let folder = Folder::new();
    let path = folder.path("db");
    // A server makes it, in an empty folder. The tests may run with another engine.
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command
        .args(["--engine", "lsm", "--memory", "64MiB", "serve", "db"])
        .args(["--create", "--listen", "127.0.0.1:0"])
        .args(["--without-authentication", "--set", "log.format=json"])
        .current_dir(folder.root());
    let server = Server::start(&mut command);
    folder.good(&["query", "db", "CREATE (:Note {by: 'a command'})"]);
    let program = env::current_exe().expect("this program");
    let child = Command::new(program)
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("shared::a_program_that_opens_a_database")
        .env(FOLDER, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("this program runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line == "opened"), "it opens the database");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "CREATE (:Note {{by: 'a program'}})").expect("written");
    assert!(lines.any(|line| line == "written"), "it writes");
    let db = Database::open(&path).expect("opened");
    db.query("CREATE (:Note {by: 'this program'})")
        .expect("written");
    let body = r#"{"query": "CREATE (:Note {by: 'a server'})"}"#;
    let (status, body) = query(server.port, "", body).expect("an answer");
    assert_eq!(status, 200, "{body}");

    let all = "MATCH (n:Note) RETURN n.by ORDER BY n.by";
    let expected = ["a command", "a program", "a server", "this program"];
    let seen = db.query(all).expect("read").deserialize::<String>();
    assert_eq!(seen.expect("texts"), expected);
    let body = format!(r#"{{"query": "{all}"}}"#);
    let (_, body) = query(server.port, "", &body).expect("an answer");
    assert!(expected.iter().all(|by| body.contains(by)), "{body}");
    let printed = folder.rows(all);
    assert!(expected.iter().all(|by| printed.contains(by)), "{printed}");
    let stats = folder.good(&["stats", "db", "--processes"]);
    for kind in ["cli", "library", "server"] {
        assert!(stats.contains(kind), "{stats}");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
    drop(server);
    db.close().expect("closed");
    folder.good(&["check", "db"]);
}

/// Two neighbouring ports that were free a moment ago.
fn free_ports() -> u16 {
    let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = (0..100).find_map(|_| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
        let port = free.local_addr().ok()?.port();
        drop(free);
        (port < u16::MAX && is_free(port) && is_free(port + 1)).then_some(port)
    });
    first.expect("there are free ports")
}

/// Servers with one configuration, which has a list of ports: each takes the first free one.
#[test]
fn servers_take_the_free_ports_of_a_list() {
    let folder = Folder::new();
    let port = free_ports();
    let listen = format!("127.0.0.1:{port}-{}", port + 1);
    let arguments = [
        "--engine",
        "lsm",
        "--memory",
        "64MiB",
        "serve",
        "db",
        "--create",
        "--listen",
        &listen,
        "--set",
        "log.format=json",
    ];
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args(arguments)
            .env("ISOMER_ADMIN_PASSWORD", "a long password")
            .current_dir(folder.root());
        Server::start(&mut command)
    };
    let (mut first, second) = (start(), start());
    assert_eq!((first.port, second.port), (port, port + 1));
    let refused = folder.bad(&arguments);
    assert!(
        refused.contains(&format!("cannot listen on {listen}: it is already in use")),
        "{refused}"
    );
    // Data and users are those of both.
    let body = r#"{"user": "admin", "password": "a long password"}"#;
    let (status, body) = ask(first.port, "", "POST", "/v1/login", body).expect("an answer");
    assert_eq!(status, 200, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let token = body["token"].as_str().expect("a token");
    let create = r#"{"query": "CREATE (:N)"}"#;
    for at in [first.port, second.port] {
        let (status, body) = query(at, token, create).expect("an answer");
        assert_eq!(status, 200, "{body}");
    }
    first.kill();
    let count = r#"{"query": "MATCH (n:N) RETURN count(n)"}"#;
    let (_, body) = query(second.port, token, count).expect("an answer");
    assert!(body.contains("[2]"), "{body}");
    // The port of a server that has ended is free for the next one.
    assert_eq!(start().port, port);
}

#[test]
fn a_database_that_is_not_shared_says_how_to_share_it() {
    let folder = Folder::new();
    let builder = Database::builder()
        .engine(EngineKind::Lsm)
        .sharing(Sharing::Exclusive);
    let db = builder.open(folder.path("db")).expect("opened");
    for arguments in [&["query", "db", "RETURN 1"][..], &["share", "db"]] {
        let refused = folder.bad(arguments);
        assert!(
            refused.contains("in use by process") && refused.contains("isomer share db"),
            "{refused}"
        );
    }
    db.close().expect("closed");
    let stats = folder.good(&["stats", "db", "--processes"]);
    assert!(stats.contains("not a shared one"), "{stats}");
}

#[cfg(target_os = "linux")]
#[test]
fn two_servers_answer_on_one_port_and_know_the_same_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let listen = format!("127.0.0.1:{port}");
    let shared = Database::builder()
        .engine(EngineKind::Lsm)
        .sharing(Sharing::Shared);
    let made = shared.open(folder.path().join("db")).expect("made");
    made.close().expect("closed");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args(["--memory", "128MiB", "serve", "db"])
            .args(["--reuse-port", "--listen", &listen])
            .args(["--set", "log.format=json"])
            .env("ISOMER_ADMIN_PASSWORD", "a long password")
            .current_dir(folder.path());
        Server::start(&mut command)
    };
    let (first, mut second) = (start(), start());
    assert_eq!((first.port, second.port), (port, port));
    let login = || {
        let body = r#"{"user": "admin", "password": "a long password"}"#;
        let (status, body) = ask(port, "", "POST", "/v1/login", body).expect("an answer");
        assert_eq!(status, 200, "{body}");
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        body["token"].as_str().expect("a token").to_owned()
    };
    let token = login();
    // Each connection goes to one of them: the token of one is valid for the other.
    for at in 0..40 {
        let body = format!(r#"{{"query": "CREATE (:N {{_key: '{at}'}})"}}"#);
        let (status, body) = query(port, &token, &body).expect("an answer");
        assert_eq!(status, 200, "{body}");
        let (_, body) =
            query(port, &token, r#"{"query": "MATCH (n:N) RETURN count(n)"}"#).expect("an answer");
        assert!(body.contains(&format!("[{}]", at + 1)), "{body}");
    }
    second.kill();
    let (status, body) =
        query(port, &token, r#"{"query": "MATCH (n:N) RETURN count(n)"}"#).expect("an answer");
    assert!(status == 200 && body.contains("[40]"), "{body}");
}

/// A server, which is killed when the test ends.
pub struct Server {
    pub child: Child,
    pub port: u16,
}

impl Server {
    /// Starts it, and waits until it says where it listens.
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary runs");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = Vec::new();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let found = line
                .split_once("\"url\":\"")
                .map(|(_, rest)| rest.to_owned());
            said.push(line);
            let url = found?.split('"').next()?.to_owned();
            url.rsplit_once(':')?.1.parse().ok()
        });
        thread::spawn(move || lines.all(|line| line.is_ok()));
        Self {
            child,
            port: port.unwrap_or_else(|| panic!("the server does not start: {said:#?}")),
        }
    }

    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Status and body of an answer; none if the server is gone.
pub fn ask(port: u16, token: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{authorization}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.get(9..12)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

pub fn query(port: u16, token: &str, body: &str) -> Option<(u16, String)> {
    ask(port, token, "POST", "/v1/databases/db/query", body)
}

/// What every writer does for a number, in one statement: a node, and a relationship to it.
fn statement(key: &str, kind: &str) -> String {
    format!("MERGE (k:Kind {{_key: '{kind}'}}) CREATE (k)-[:WROTE]->(:W {{_key: '{key}'}})")
}

/// A program with the library, which the test starts as a process: it writes a node, a relationship and a pair of a
/// bucket in each transaction, and prints the keys of those that were acknowledged.
#[test]
#[ignore = "started by another test"]
fn a_program_that_writes_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let name = env::var(WRITER).expect("its name");
    let db = open(&folder);
    for number in 0_u64.. {
        let key = format!("{name}-{number}");
        let written = db.transact(|tx| {
            tx.query(statement(&key, "library").as_str())?;
            tx.bucket("written").put(&key, &*key)
        });
        written.expect("written");
        println!("acknowledged {key}");
    }
}

/// The state that all parts of the test share.
struct Round {
    folder: Folder,
    seed: usize,
    kills: AtomicUsize,
    most_kills: usize,
    acknowledged: Mutex<Vec<String>>,
    has_ended: AtomicBool,
}

impl Round {
    fn continues(&self) -> bool {
        self.kills.load(Ordering::Relaxed) < self.most_kills
    }

    /// Lets a process run for a while, stops it once for a moment in every third case, and kills it.
    fn end(&self, child: &mut Child, number: usize) {
        let moment = (self.seed + number).wrapping_mul(0x9E37_79B9) >> 7;
        // The kill comes at a random moment: any instruction may be the last.
        thread::sleep(Duration::from_millis(20 + (moment % 280) as u64));
        if moment.is_multiple_of(3) {
            let signal = |name: &str| {
                let pid = child.id().to_string();
                let _ = Command::new("kill").args([name, &pid]).status();
            };
            signal("-STOP");
            // How long a process is stopped: long enough that the others need what it holds.
            thread::sleep(Duration::from_millis(100));
            signal("-CONT");
            // A random moment again, shortly after it goes on.
            thread::sleep(Duration::from_millis(10));
        }
        // A command may have ended already.
        if child.kill().is_ok() {
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn acknowledge(&self, key: String) {
        self.acknowledged.lock().expect("not poisoned").push(key);
    }

    /// Programs, one after the other.
    fn programs(&self) {
        for number in (0..).take_while(|_| self.continues()) {
            let program = env::current_exe().expect("this program");
            let child = Command::new(program)
                .args(["--exact", "--ignored", "--nocapture"])
                .arg("shared::a_program_that_writes_until_it_is_killed")
                .env(FOLDER, self.folder.path("db"))
                .env(WRITER, format!("library-{number}"))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let mut child = child.expect("this program runs");
            let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            thread::scope(|scope| {
                scope.spawn(|| {
                    for line in lines.map_while(Result::ok) {
                        if let Some((_, key)) = line.split_once("acknowledged ") {
                            self.acknowledge(key.to_owned());
                        }
                    }
                });
                // A program needs about that long until it writes, and is killed at a random moment afterwards.
                thread::sleep(Duration::from_millis(150));
                self.end(&mut child, number);
            });
            child.wait().expect("it ended");
        }
    }

    /// Commands, each of which writes once: every other one is killed.
    fn commands(&self) {
        for number in (0..).take_while(|_| self.continues()) {
            let key = format!("cli-{number}");
            let child = Command::new(env!("CARGO_BIN_EXE_isomer"))
                .args(["query", "db", &statement(&key, "cli")])
                .current_dir(self.folder.root())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            let mut child = child.expect("the binary runs");
            let is_killed = number % 2 == 1;
            if is_killed {
                self.end(&mut child, number);
            }
            let output = child.wait_with_output().expect("it ended");
            match output.status.success() {
                true => self.acknowledge(key),
                false => assert!(is_killed, "{key}: {}", text(&output.stderr)),
            }
        }
    }

    /// Servers, one after the other, each of which has a client.
    fn servers(&self) {
        for number in (0..).take_while(|_| self.continues()) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
            command
                .args([
                    "--memory",
                    "64MiB",
                    "serve",
                    "db",
                    "--listen",
                    "127.0.0.1:0",
                ])
                .args(["--without-authentication", "--set", "log.format=json"])
                .current_dir(self.folder.root());
            let mut server = Server::start(&mut command);
            let port = server.port;
            thread::scope(|scope| {
                scope.spawn(|| {
                    for at in 0.. {
                        let key = format!("server-{number}-{at}");
                        let body = serde_json::json!({ "query": statement(&key, "server") });
                        match query(port, "", &body.to_string()) {
                            Some((200, _)) => self.acknowledge(key),
                            Some((status, body)) => panic!("{key}: {status}: {body}"),
                            None => return,
                        }
                    }
                });
                self.end(&mut server.child, number);
            });
            server.kill();
        }
    }

    /// A process that is never killed: it sees what was acknowledged before it looks, and never waits for long.
    /// Returns its longest wait, and the number of its writes.
    fn survivor(&self, db: &Database) -> (Duration, usize) {
        let (mut longest, mut count) = (Duration::ZERO, 0);
        while !self.has_ended.load(Ordering::Relaxed) {
            let newest = self
                .acknowledged
                .lock()
                .expect("not poisoned")
                .last()
                .cloned();
            let began = Instant::now();
            if let Some(key) = newest {
                assert!(is_there(db, &key), "{key} was acknowledged");
            }
            let key = format!("survivor-{count}");
            match db.query(statement(&key, "survivor").as_str()) {
                Ok(_) => {
                    count += 1;
                    self.acknowledge(key);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
            }
            longest = longest.max(began.elapsed());
            // Most commits are to come from processes that may be killed.
            thread::sleep(Duration::from_millis(2));
        }
        (longest, count)
    }
}

fn is_there(db: &Database, key: &str) -> bool {
    let found = db
        .query(Query::new("MATCH (:Kind)-[:WROTE]->(w:W {_key: $key}) RETURN w").param("key", key));
    found.expect("read").len() == 1
}

/// Those of `keys` whose commit is not there.
fn lost(db: &Database, keys: &[String]) -> Vec<String> {
    let text = "UNWIND $keys AS key OPTIONAL MATCH (w:W {_key: key})<-[r:WROTE]-(:Kind) \
                WITH key, count(r) AS found WHERE found <> 1 RETURN key";
    let keys: Vec<Value> = keys.iter().map(|key| key.as_str().into()).collect();
    let query = Query::new(text).param("keys", keys);
    let rows = db.query(query).expect("read");
    rows.into_iter()
        .map(|row| row.get("key").expect("a key"))
        .collect()
}

#[test]
fn processes_of_three_kinds_are_killed_and_nothing_is_lost() {
    let folder = Folder::new();
    folder.good(&["share", "db"]);
    let round = Round {
        folder,
        seed: setting("ISOMER_TEST_SEED", 1),
        kills: AtomicUsize::new(0),
        most_kills: setting("ISOMER_KILLS", 20),
        acknowledged: Mutex::default(),
        has_ended: AtomicBool::new(false),
    };
    let db = open(&round.folder.path("db"));
    let (longest, writes) = thread::scope(|scope| {
        let survivor = scope.spawn(|| round.survivor(&db));
        let parts = [
            scope.spawn(|| round.programs()),
            scope.spawn(|| round.commands()),
            scope.spawn(|| round.servers()),
        ];
        let ended = parts.map(|part| part.join());
        round.has_ended.store(true, Ordering::Relaxed);
        for part in ended {
            part.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        survivor
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let acknowledged = round.acknowledged.lock().expect("not poisoned");
    println!(
        "{} kills, {} acknowledged, {writes} of them by the survivor, which waited for at most {longest:.1?}",
        round.kills.load(Ordering::Relaxed),
        acknowledged.len()
    );
    assert!(
        longest < LONGEST_WAIT,
        "the survivor waited for {longest:?}"
    );
    for kind in ["library-", "cli-", "server-", "survivor-"] {
        assert!(
            acknowledged.iter().any(|key| key.starts_with(kind)),
            "no commit of {kind} was acknowledged"
        );
    }
    db.close().expect("closed");
    let db = open(&round.folder.path("db"));
    let tx = db.begin_read().expect("begun");
    for keys in acknowledged.chunks(1000) {
        let lost = lost(&db, keys);
        assert!(lost.is_empty(), "acknowledged, and not there: {lost:?}");
    }
    for key in acknowledged.iter() {
        let in_bucket = tx.bucket("written").get(key).expect("read").is_some();
        assert_eq!(in_bucket, key.starts_with("library-"), "{key}");
    }
    // What was not acknowledged is there as a whole, or not at all.
    let one = |query: &str| -> u64 {
        let result = db.query(query).expect("read");
        result.single().expect("a row").get("n").expect("a number")
    };
    let nodes = one("MATCH (w:W) RETURN count(w) AS n");
    assert_eq!(
        nodes,
        one("MATCH (:Kind)-[r:WROTE]->(:W) RETURN count(r) AS n")
    );
    assert_eq!(4, one("MATCH (k:Kind) RETURN count(k) AS n"));
    let by_library = one("MATCH (:Kind {_key: 'library'})-[r:WROTE]->(:W) RETURN count(r) AS n");
    let pairs = tx.bucket("written").prefix("").count() as u64;
    assert_eq!(pairs, by_library);
    drop(tx);
    db.close().expect("closed");
    round.folder.good(&["check", "db"]);
}
