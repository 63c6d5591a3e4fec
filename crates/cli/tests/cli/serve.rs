//! `isomer serve` as a process: the examples of its documentation, start and stop.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use isomer_db::{Value, params};
use isomer_server::{
    bolt::{packstream::Writer, structure::Forms},
    http::routes::ROUTES,
};
use isomer_testkit::poll;

/// A server that is killed when the test ends, in any way.
pub struct Server {
    child: Child,
    url: String,
    /// Its Bolt address, if it has one.
    bolt: String,
    lines: mpsc::Receiver<String>,
}

impl Server {
    pub fn start(folder: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args([
                "--memory",
                "256MiB",
                "serve",
                "people.isomer",
                "--create",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--set", "log.format=json"])
            .args(more)
            .envs(environment.iter().copied())
            .current_dir(folder);
        let mut server = Server::spawn(&mut command);
        server.find_url();
        server
    }

    /// Starts it and begins to read its log.
    fn spawn(command: &mut Command) -> Self {
        let child = command.stderr(Stdio::piped()).spawn();
        let mut server = Self {
            child: child.expect("the binary runs"),
            url: String::new(),
            bolt: String::new(),
            lines: mpsc::channel().1,
        };
        server.follow();
        server
    }

    /// Waits until it reports its address.
    fn find_url(&mut self) {
        let line = self.line_with("\"url\"");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        self.url = field(&line, "url").to_owned();
        let bolt = line["bolt"]
            .as_str()
            .and_then(|url| url.split("://").nth(1));
        self.bolt = bolt.unwrap_or_default().to_owned();
    }

    /// Reads its log as it is written.
    fn follow(&mut self) {
        let errors = BufReader::new(self.child.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        self.lines = lines;
    }

    /// The next line of the log that contains this.
    pub fn line_with(&self, part: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(Duration::from_secs(30))
                .expect("a line of the log");
            if line.contains(part) {
                return line;
            }
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn address(&self) -> &str {
        self.url.split("://").nth(1).unwrap_or_default()
    }

    /// Asks it to stop, and waits until it has.
    fn terminate(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let printed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(printed.expect("kill runs").success());
        let status = self.child.wait().expect("it ends");
        (status.code(), began.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All examples of docs/server.md, in order; together they call every route of the server successfully.
#[test]
fn the_documentation_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        "log.audit=all",
        "databases_folder=databases",
        "backups_folder=backups",
    ];
    let flags: Vec<&str> = settings
        .iter()
        .flat_map(|setting| ["--set", setting])
        .collect();
    // Its backups are those of this engine.
    let server = Server::start(folder.path(), &flags, &[("ISOMER_ENGINE", "lsm")]);
    let link = server.line_with("/#setup=");
    let token = link.split('=').nth(1).unwrap_or_default().trim().to_owned();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md"))
            .expect("the document");
    let mut script = String::from("set -eu\n");
    for part in text.split("```sh run\n").skip(1) {
        script += part.split("```").next().unwrap_or_default();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_isomer"))
        .parent()
        .expect("the folder of the program");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("URL", &server.url)
        .env("SETUP_TOKEN", token)
        .output()
        .expect("bash and curl run");
    let printed = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{printed}");
    let log = std::fs::read_to_string(folder.path().join("isomer-system/audit.jsonl"))
        .expect("the audit log");
    let called: BTreeSet<String> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["status"].as_u64().is_some_and(|status| status < 400))
        .map(|line| line["action"].as_str().unwrap_or_default().to_owned())
        .collect();
    for route in ROUTES
        .iter()
        .filter(|route| !route.path.ends_with("/queries/{id}"))
    {
        let action = format!("{} {}", route.method, route.path);
        assert!(
            called.contains(&action),
            "{action} has no example that works\n{printed}"
        );
    }
}

/// Sends a complete request and returns the connection, from which any part of the response can be read.
fn send(address: &str, method: &str, path: &str, more: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("set");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .expect("sent");
    stream
}

fn all_of(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

const QUERY: &str = "/v1/databases/people/query";
const AS_JSON: &str = "Content-Type: application/json\r\n";
const AS_LINES: &str = "Content-Type: application/json\r\nAccept: application/jsonl\r\n";

fn field<'l>(line: &'l serde_json::Value, name: &str) -> &'l str {
    line[name]
        .as_str()
        .unwrap_or_else(|| panic!("`{name}` in {line}"))
}

/// A query that takes longer than the minimum threshold on any machine.
const LONG: &str = "UNWIND range(1, 300000) AS i WITH count(i) AS c";

/// Queries that take longer than `log.slow_query` are logged with their plan, for any interface and any outcome, and
/// without data from the query's text.
#[test]
fn slow_queries_are_logged_with_their_plans() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--without-authentication", "--set", "log.slow_query=1ms"];
    let server = Server::start(folder.path(), &flags, &[]);
    let slow = || -> serde_json::Value {
        let line = server.line_with("slow query");
        assert!(!line.contains("secret"), "{line}");
        serde_json::from_str(&line).expect("JSON")
    };
    let ask = |more: &str, query: &str| {
        let query = format!("{LONG} {query}");
        let body = serde_json::json!({"query": query, "parameters": {"p": "secret three"}});
        all_of(send(
            server.address(),
            "POST",
            QUERY,
            more,
            &body.to_string(),
        ))
    };
    ask(AS_JSON, "CREATE (:Person {name: 'secret one', n: $p})");
    let line = slow();
    assert_eq!(field(&line, "level"), "WARN");
    assert_eq!(field(&line, "user"), "anybody");
    assert_eq!(field(&line, "database"), "people");
    assert!(
        line["took_ms"].is_u64() && line.get("error").is_none(),
        "{line}"
    );
    assert!(field(&line, "query").ends_with("CREATE (:Person {name: ?, n: $p})"));
    assert!(field(&line, "plan").contains("Create"), "{line}");
    for more in [AS_JSON, AS_LINES] {
        ask(
            more,
            "MATCH (p:Person) WHERE p.name = 'it\\'s secret two' AND p.n <> 7654321 RETURN p.n",
        );
        let line = slow();
        assert!(field(&line, "query").contains("WHERE p.name = "), "{line}");
        assert!(field(&line, "plan").contains("Person"), "{line}");
        assert!(!line.to_string().contains("7654321"), "{line}");
        // Queries that fail after a while are slow, too.
        ask(more, "RETURN 1 / (c - 300000) AS x");
        let line = slow();
        assert_eq!(field(&line, "error"), "Invalid");
        assert!(field(&line, "plan").contains("Unwind"), "{line}");
    }
    // Invalid texts are not logged: a name in them may be a value.
    ask(AS_JSON, "CREATE (p {name: secret four'})");
    ask(AS_JSON, "RETURN c AS last");
    assert!(field(&slow(), "query").ends_with("RETURN c AS last"));
    let figures = all_of(send(server.address(), "GET", "/metrics", "", ""));
    assert!(figures.contains("isomer_slow_queries_total 6"), "{figures}");
}

/// A Bolt client, as far as needed here: the tag of a response identifies its kind.
struct Bolt(TcpStream);

impl Bolt {
    const RESET: u8 = 0x0f;
    const RUN: u8 = 0x10;
    const BEGIN: u8 = 0x11;
    const COMMIT: u8 = 0x12;
    const PULL: u8 = 0x3f;
    const SUCCESS: u8 = 0x70;
    const IGNORED: u8 = 0x7e;
    const FAILURE: u8 = 0x7f;

    fn connect(server: &Server) -> Self {
        let mut stream = TcpStream::connect(&server.bolt).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        let mut versions = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 4, 4];
        versions.resize(20, 0);
        stream.write_all(&versions).expect("sent");
        stream.read_exact(&mut [0; 4]).expect("a version");
        let mut bolt = Self(stream);
        let hello = params! { "user_agent" => "test/1.0", "scheme" => "none" };
        assert_eq!(bolt.ask(0x01, &[hello.into()]), Self::SUCCESS);
        bolt
    }

    fn send(&mut self, tag: u8, fields: &[Value]) {
        let mut bytes = vec![0, 0];
        let forms = Forms {
            element_ids: false,
            utc: false,
        };
        let mut writer = Writer::new(&mut bytes, forms);
        writer.structure(tag, fields.len() as u8);
        fields.iter().for_each(|field| writer.value(field));
        let size = (bytes.len() - 2) as u16;
        bytes[..2].copy_from_slice(&size.to_be_bytes());
        bytes.extend([0, 0]);
        self.0.write_all(&bytes).expect("sent");
    }

    /// The tag after the rows.
    fn answer(&mut self) -> u8 {
        loop {
            let mut message = Vec::new();
            loop {
                let mut size = [0; 2];
                self.0.read_exact(&mut size).expect("an answer");
                let start = message.len();
                message.resize(start + usize::from(u16::from_be_bytes(size)), 0);
                if message.len() == start {
                    break;
                }
                self.0
                    .read_exact(&mut message[start..])
                    .expect("the rest of an answer");
            }
            if message[1] != 0x71 {
                return message[1];
            }
        }
    }

    fn ask(&mut self, tag: u8, fields: &[Value]) -> u8 {
        self.send(tag, fields);
        self.answer()
    }

    /// Opens a result.
    fn open(&mut self, query: &str) -> u8 {
        let none = || Value::from(params! {});
        self.ask(Self::RUN, &[query.into(), none(), none()])
    }

    /// Requests this number of its rows.
    fn pull(&mut self, rows: i64) {
        self.send(Self::PULL, &[params! { "n" => rows }.into()]);
    }

    fn run(&mut self, query: &str) -> [u8; 2] {
        let opened = self.open(query);
        self.pull(-1);
        [opened, self.answer()]
    }

    fn begin(&mut self, most_ms: Option<i64>) {
        let extra = most_ms.map_or(params! {}, |most| params! { "tx_timeout" => most });
        assert_eq!(self.ask(Self::BEGIN, &[extra.into()]), Self::SUCCESS);
    }

    fn reset(&mut self) {
        assert_eq!(self.ask(Self::RESET, &[]), Self::SUCCESS);
    }
}

/// Over Bolt a query may end in more ways; each is logged once.
#[test]
fn slow_queries_of_drivers_are_logged_however_they_end() {
    const ENDLESS: &str = "UNWIND range(1, 1000000000000) AS n WITH n WHERE n % 7 = 8";
    const HALF: &str =
        "UNWIND range(1, 300000) AS i WITH collect(i) AS all UNWIND all AS half RETURN half";
    let folder = tempfile::tempdir().expect("a folder");
    let flags = [
        "--without-authentication",
        "--bolt",
        "127.0.0.1:0",
        "--set",
        "log.slow_query=1ms",
    ];
    let server = Server::start(folder.path(), &flags, &[]);
    let logged = |error: Option<&str>, part: &str| {
        let line = server.line_with("slow query");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["error"].as_str(), error, "{line}");
        assert!(field(&line, "query").contains(part), "{line}");
        assert!(field(&line, "plan").contains("Unwind"), "{line}");
    };
    let mut bolt = Bolt::connect(&server);
    // In its own transaction.
    let query = format!("{LONG} RETURN c AS whole");
    assert_eq!(bolt.run(&query), [Bolt::SUCCESS; 2]);
    logged(None, "whole");
    for (rest, part) in [
        ("RETURN 1 / (c - 300000) AS read", "AS read"),
        ("CREATE (:Alone {n: 1 / (c - 300000)})", "Alone"),
    ] {
        let query = format!("{LONG} {rest}");
        assert_eq!(bolt.run(&query), [Bolt::SUCCESS, Bolt::FAILURE]);
        logged(Some("Invalid"), part);
        bolt.reset();
    }
    // In one of several statements: writing statements run when they are sent, and earlier results are read to their
    // end first.
    bolt.begin(None);
    assert_eq!(
        bolt.run(&format!("{LONG} CREATE (:Kept)")),
        [Bolt::SUCCESS; 2]
    );
    logged(None, "Kept");
    assert_eq!(bolt.ask(Bolt::COMMIT, &[]), Bolt::SUCCESS);
    bolt.begin(None);
    let query = format!("{LONG} CREATE (:Shared {{n: 1 / (c - 300000)}})");
    assert_eq!(bolt.run(&query), [Bolt::FAILURE, Bolt::IGNORED]);
    logged(Some("Invalid"), "Shared");
    bolt.reset();
    bolt.begin(None);
    let query = format!("{LONG} RETURN 1 / (c - 300000) AS unread");
    assert_eq!(bolt.open(&query), Bolt::SUCCESS);
    assert_eq!(bolt.open("CREATE (:Never)"), Bolt::FAILURE);
    logged(Some("Invalid"), "unread");
    bolt.reset();
    // It exceeds its timeout.
    bolt.begin(Some(300));
    let query = format!("{ENDLESS} CREATE (:Late)");
    assert_eq!(bolt.run(&query), [Bolt::FAILURE, Bolt::IGNORED]);
    logged(Some("Limit"), "Late");
    bolt.reset();
    // It is cancelled, while running and between two batches of its rows.
    // The list of running queries is not a query, so it is not logged.
    let await_run = |part: &str| {
        poll::until(part, || {
            let path = "/v1/databases/people/queries";
            all_of(send(server.address(), "GET", path, "", "")).contains(part)
        });
    };
    let query = format!("{ENDLESS} RETURN n AS stopped");
    assert_eq!(bolt.open(&query), Bolt::SUCCESS);
    bolt.pull(-1);
    await_run("AS stopped");
    assert_eq!(bolt.ask(Bolt::RESET, &[]), Bolt::IGNORED);
    assert_eq!(bolt.answer(), Bolt::SUCCESS);
    logged(Some("Cancelled"), "stopped");
    let half_read = |bolt: &mut Bolt| {
        assert_eq!(bolt.open(HALF), Bolt::SUCCESS);
        bolt.pull(10);
        assert_eq!(bolt.answer(), Bolt::SUCCESS);
    };
    half_read(&mut bolt);
    bolt.reset();
    logged(Some("Cancelled"), "half");
    // Its client disconnects.
    half_read(&mut bolt);
    drop(bolt);
    logged(Some("client gone"), "half");
    let mut bolt = Bolt::connect(&server);
    let query = format!("{ENDLESS} RETURN n AS gone");
    assert_eq!(bolt.open(&query), Bolt::SUCCESS);
    bolt.pull(-1);
    await_run("AS gone");
    drop(bolt);
    logged(Some("client gone"), "gone");
    let figures = all_of(send(server.address(), "GET", "/metrics", "", ""));
    let count = "isomer_slow_queries_total 11";
    assert!(figures.lines().any(|line| line == count), "{figures}");
}

/// A streamed response is logged when it has ended, with its outcome; a complete one when it is ready.
#[test]
fn answers_are_logged_to_their_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--without-authentication", "--set", "log.level=debug"];
    let server = Server::start(folder.path(), &flags, &[]);
    let ended = || -> serde_json::Value {
        let line = server.line_with("an answer has ended");
        serde_json::from_str(&line).expect("JSON")
    };
    let ask = |query: &str| {
        let body = serde_json::json!({ "query": query }).to_string();
        send(server.address(), "POST", QUERY, AS_LINES, &body)
    };
    let answer = all_of(ask("UNWIND range(1, 50000) AS n RETURN n"));
    assert!(answer.contains("\"rows\":50000"), "{}", answer.len());
    let line = ended();
    assert_eq!(field(&line, "level"), "DEBUG");
    assert_eq!(field(&line, "route"), "/v1/databases/{db}/query");
    assert_eq!(field(&line, "method"), "POST");
    assert_eq!(field(&line, "outcome"), "complete");
    assert_eq!(line["status"], 200);
    // Rows of one to five digits in brackets, each with the end of its line.
    let rows: usize = (1..=50_000).map(|n: usize| n.to_string().len() + 3).sum();
    assert!(line["bytes"].as_u64() > Some(rows as u64), "{line}");
    assert!(line["took_ms"].as_f64() > Some(0.0), "{line}");
    // The header said 200; the body reports the error.
    let answer = all_of(ask("UNWIND range(1, 10) AS n RETURN 1 / (10 - n) AS x"));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"error\""));
    assert_eq!(field(&ended(), "outcome"), "Invalid");
    // A disconnecting client ends it: a stream that is too long to read, and an endless feed.
    let mut stream = ask("UNWIND range(1, 1000000000) AS n RETURN n");
    stream.read_exact(&mut [0; 4096]).expect("the begin");
    drop(stream);
    assert_eq!(field(&ended(), "outcome"), "client gone");
    let path = "/v1/databases/people/changes";
    let mut stream = send(server.address(), "GET", path, "", "");
    let mut begin = Vec::new();
    while !String::from_utf8_lossy(&begin).contains("event: start") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an event");
        begin.push(byte[0]);
    }
    drop(stream);
    let line = ended();
    assert_eq!(field(&line, "route"), "/v1/databases/{db}/changes");
    assert_eq!(field(&line, "outcome"), "client gone");
    // A complete response is logged with the status of its header.
    all_of(send(server.address(), "GET", "/health", "", ""));
    let line = server.line_with("\"/health\"");
    assert!(line.contains("\"answered\""), "{line}");
}

/// `log.format=text` writes the same as words, without colours if the output is not a terminal.
#[test]
fn the_log_is_text_or_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--without-authentication", "--set", "log.slow_query=1ms"];
    let json = Server::start(folder.path(), &flags, &[]);
    let query = format!("{LONG} RETURN c, 'secret' AS said");
    let body = serde_json::json!({ "query": query }).to_string();
    all_of(send(json.address(), "POST", QUERY, AS_JSON, &body));
    let line = json.line_with("slow query");
    let printed: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(field(&printed, "message"), "slow query");
    assert!(field(&printed, "timestamp").ends_with('Z'), "{line}");
    drop(json);
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command
        .args(["--memory", "256MiB", "serve", "people.isomer"])
        .args(["--listen", "127.0.0.1:0", "--set", "log.format=text"])
        .args(flags)
        .current_dir(folder.path());
    let mut text = Server::spawn(&mut command);
    let line = text.line_with("the server is ready");
    assert!(line.contains(" INFO ") && !line.starts_with('{'), "{line}");
    let from = line.find("url=\"").expect("a URL") + 5;
    text.url = line[from..]
        .split('"')
        .next()
        .unwrap_or_default()
        .to_owned();
    all_of(send(text.address(), "POST", QUERY, AS_JSON, &body));
    let line = text.line_with("slow query");
    for part in [" WARN ", "user=\"anybody\"", "database=\"people\"", "plan="] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(
        !line.contains('\u{1b}') && !line.contains("secret"),
        "{line}"
    );
}

/// Idle connections must leave file descriptors for opening databases.
#[cfg(target_os = "linux")]
#[test]
fn connections_leave_files_to_the_databases() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = "ulimit -n 300; exec \"$0\" --memory 256MiB serve people.isomer --create --listen 127.0.0.1:0 \
        --without-authentication --set log.format=json";
    let mut command = Command::new("sh");
    command
        .args(["-c", serve, env!("CARGO_BIN_EXE_isomer")])
        .current_dir(folder.path());
    let mut server = Server::spawn(&mut command);
    let warning = server.line_with("raise it (`ulimit -n`)");
    assert!(warning.contains("\"connections\":150"), "{warning}");
    server.find_url();
    let strangers: Vec<TcpStream> = (0..400)
        .map_while(|_| TcpStream::connect(server.address()).ok())
        .collect();
    // A client that comes after all of them: the server closes idle connections to admit it.
    let mut client = TcpStream::connect(server.address()).expect("a place");
    let limit = Some(Duration::from_secs(30));
    client.set_read_timeout(limit).expect("a limit");
    let body = serde_json::json!({ "query": "CREATE (:Kept)" }).to_string();
    let request = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\n{AS_JSON}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("an answer");
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.child.id()))
        .expect("its files")
        .count();
    assert!((150..250).contains(&open), "{open} files are open");
    drop(strangers);
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn a_server_with_a_key_serves_encrypted_databases() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = "0f".repeat(32);
    let more = ["--without-authentication", "--engine", "lsm"];
    for _ in 0..2 {
        let mut server = Server::start(folder.path(), &more, &[("ISOMER_KEY", &key)]);
        let path = folder.path().join("people.isomer");
        assert!(isomer_db::Database::is_encrypted(path).expect("read"));
        assert_eq!(server.terminate().0, Some(0));
    }
}

/// The limit on file descriptors is raised before databases are opened.
#[cfg(target_os = "linux")]
#[test]
fn more_databases_are_served_than_the_first_limit_of_files_has_room_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: String = (0..20).map(|at| format!("db{at}.isomer ")).collect();
    let serve = format!(
        "ulimit -Sn 40; exec \"$0\" --memory 1GiB serve {names} --create --listen 127.0.0.1:0 --without-authentication --set log.format=json"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &serve, env!("CARGO_BIN_EXE_isomer")])
        .current_dir(folder.path());
    let mut server = Server::spawn(&mut command);
    server.find_url();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.child.id()));
    let open = open.expect("its files").count();
    assert!(open > 40, "{open} files are open: they say nothing");
}

/// Writes keys until the server is gone; returns those that were acknowledged, and counts them as they are.
fn write_until_gone(address: &str, writer: usize, acknowledged: &AtomicUsize) -> Vec<String> {
    let mut keys = Vec::new();
    for number in 0..1_000_000 {
        let key = format!("{writer}-{number}");
        let Ok(mut stream) = TcpStream::connect(address) else {
            return keys;
        };
        let request = format!(
            "PUT /v1/databases/people/buckets/b/keys/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: 1\r\nConnection: close\r\n\r\n1"
        );
        let mut answer = Vec::new();
        if stream.write_all(request.as_bytes()).is_err() || stream.read_to_end(&mut answer).is_err()
        {
            return keys;
        }
        if !answer.starts_with(b"HTTP/1.1 204") {
            return keys;
        }
        keys.push(key);
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    keys
}

/// Four writers while the server stops: all acknowledged writes are kept.
fn nothing_acknowledged_is_lost(end: impl FnOnce(&mut Server)) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path(), &["--without-authentication"], &[]);
    let address = server.address().to_owned();
    let acknowledged = AtomicUsize::new(0);
    let keys: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let (address, acknowledged) = (&address, &acknowledged);
                    move || write_until_gone(address, writer, acknowledged)
                })
            })
            .collect();
        poll::until("200 writes are acknowledged", || {
            acknowledged.load(Ordering::Relaxed) >= 200
        });
        end(&mut server);
        writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"))
            .collect()
    });
    assert!(keys.len() >= 200, "only {} were written", keys.len());
    let db = isomer_db::Database::open(folder.path().join("people.isomer")).expect("opened");
    let tx = db.begin_read().expect("begun");
    for key in &keys {
        assert!(
            tx.bucket("b").get(key).expect("read").is_some(),
            "{key} was acknowledged"
        );
    }
}

#[test]
fn a_stopping_server_loses_nothing_and_stops_in_time() {
    nothing_acknowledged_is_lost(|server| {
        let (code, took) = server.terminate();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    nothing_acknowledged_is_lost(|server| {
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
    });
}

/// Runs a write with this idempotency key; returns the status of its response, whether it was a repetition, and its
/// body, unless the server is gone.
fn write_once(address: &str, key: &str) -> Option<(String, bool, String)> {
    let query = "MERGE (c:Count) SET c.n = coalesce(c.n, 0) + 1 CREATE (o:Once {key: $key}) RETURN c.n, o.key";
    let body = serde_json::json!({ "query": query, "parameters": { "key": key } }).to_string();
    let request = format!(
        "POST {QUERY} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{AS_JSON}Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let again = head.to_lowercase().contains("idempotent-replay: true");
    Some((head.split(' ').nth(1)?.to_owned(), again, body.to_owned()))
}

/// A write with an idempotency key that was answered gets the same answer after a crash; one that was not answered runs
/// exactly once, whether or not it ran before.
#[test]
fn writes_with_a_key_are_done_once_across_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || Server::start(folder.path(), &["--without-authentication"], &[]);
    let mut server = start();
    let address = server.address().to_owned();
    let answered = AtomicUsize::new(0);
    let sent = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut sent = Vec::new();
            loop {
                let key = format!("key-{}", sent.len());
                let answer = write_once(&address, &key);
                let gone = answer.is_none();
                sent.push((key, answer));
                if gone {
                    return sent;
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        poll::until("50 requests are answered", || {
            answered.load(Ordering::Relaxed) >= 50
        });
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
        writer.join().expect("the writer")
    });
    assert!(sent.len() > 5, "only {} were sent", sent.len());
    let server = start();
    for (key, before) in &sent {
        let (status, again, body) = write_once(server.address(), key).expect("an answer");
        assert_eq!(status, "200", "{body}");
        if let Some((status, first, answered)) = before {
            assert_eq!((status.as_str(), *first), ("200", false), "{answered}");
            assert!(again, "{key} was answered before: {body}");
            assert_eq!(body, *answered, "{key}");
        }
    }
    let query = "MATCH (c:Count) MATCH (o:Once) RETURN c.n, count(o), count(DISTINCT o.key)";
    let body = serde_json::json!({ "query": query }).to_string();
    let counted = all_of(send(server.address(), "POST", QUERY, AS_JSON, &body));
    let count = sent.len();
    let rows = format!("\"rows\":[[{count},{count},{count}]]");
    assert!(counted.contains(&rows), "{rows} {counted}");
}

/// Sends a request without a token; returns the status of its response, unless the server is gone.
fn ask(address: &str, method: &str, path: &str, content_type: &str, body: &[u8]) -> Option<u16> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).ok()?;
    let mut answer = Vec::new();
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    stream.read_to_end(&mut answer).ok()?;
    let line = String::from_utf8_lossy(&answer).into_owned();
    line.split(' ').nth(1)?.parse().ok()
}

/// A stop in the middle of a restore: it stops in time, restores that were answered exist, others exist completely or
/// not at all, and nothing else is left.
#[test]
fn a_stop_cuts_a_restore_off_and_leaves_nothing_of_it() {
    const JSON: &str = "application/json";
    let folder = tempfile::tempdir().expect("a folder");
    let databases = folder.path().join("databases");
    let flags = [
        "--without-authentication",
        "--set",
        "databases_folder=databases",
        "--set",
        "backups_folder=backups",
    ];
    let start = || Server::start(folder.path(), &flags, &[("ISOMER_ENGINE", "lsm")]);
    let hidden = || {
        let entries = std::fs::read_dir(&databases).expect("the folder of databases");
        let mut names = entries.map(|entry| entry.expect("an entry").file_name());
        names.any(|name| name.to_string_lossy().starts_with('.'))
    };
    let mut server = start();
    let address = server.address().to_owned();
    let post = |path: &str, body: &str| ask(&address, "POST", path, JSON, body.as_bytes());
    assert_eq!(post("/v1/databases", "{\"database\":\"shop\"}"), Some(201));
    let mut noise = 1_u64;
    for key in 0..8 {
        let bytes: Vec<u8> = (0..4 << 20)
            .map(|_| {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        let path = format!("/v1/databases/shop/buckets/large/keys/{key}");
        let put = ask(&address, "PUT", &path, "application/octet-stream", &bytes);
        assert_eq!(put, Some(204));
    }
    assert_eq!(
        post("/v1/databases/shop/backups", "{\"backup\":\"nightly\"}"),
        Some(201)
    );
    let restore =
        "{\"database\":\"again\",\"restore\":{\"database\":\"shop\",\"backup\":\"nightly\"}}";
    let answer = std::thread::scope(|scope| {
        let restoring = scope.spawn(|| post("/v1/databases", restore));
        let began = Instant::now();
        while !hidden() && !databases.join("again").exists() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "no restore begins"
            );
            std::thread::yield_now();
        }
        let (code, took) = server.terminate();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(10), "{took:?}");
        restoring.join().expect("an answer or none")
    });
    let is_there = databases.join("again").exists();
    assert!(
        is_there || answer != Some(201),
        "it was acknowledged: {answer:?}"
    );
    let server = start();
    let address = server.address().to_owned();
    assert!(!hidden(), "what was cut short is gone");
    let again = || {
        ask(
            &address,
            "GET",
            "/v1/databases/again/buckets/large/keys/7",
            JSON,
            b"",
        )
    };
    assert_eq!(again(), Some(if is_there { 200 } else { 404 }));
    if !is_there {
        let restored = ask(&address, "POST", "/v1/databases", JSON, restore.as_bytes());
        assert_eq!((restored, again()), (Some(201), Some(200)));
    }
}

fn refused(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_does_not_listen_to_others_without_users_and_tls() {
    let printed = refused(&["serve", "x.isomer", "--create", "--listen", "0.0.0.0:0"]);
    assert!(
        printed.contains("unencrypted") && printed.lines().count() == 1,
        "{printed}"
    );
    let printed = refused(&[
        "serve",
        "x.isomer",
        "--create",
        "--listen",
        "[::]:0",
        "--without-authentication",
    ]);
    assert!(
        printed.contains("reachable from other machines without a login"),
        "{printed}"
    );
    let printed = refused(&["serve", "x.isomer", "--set", "limits.bodi=1"]);
    assert!(
        printed.contains("unknown setting `limits.bodi`"),
        "{printed}"
    );
    let printed = refused(&["serve"]);
    assert!(printed.contains("nothing to serve"), "{printed}");
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let printed = refused(&["serve", "x.isomer", "--create", "--listen", &address]);
    assert!(
        printed.contains(&address) && printed.contains("in use") && printed.lines().count() == 1,
        "{printed}"
    );
}

#[test]
fn settings_show_their_source() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("s.toml"),
        "[limits]\nbody = \"1MiB\"\nrequests = 7\n",
    )
    .expect("written");
    let print = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(["config", "print"])
            .args(arguments)
            .env("ISOMER_LIMITS_BODY", "2MiB")
            .env("ISOMER_ADMIN_PASSWORD", "analytical engine")
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let printed = print(&["--origin", "--config", "s.toml", "--listen", "127.0.0.1:9"]);
    for line in [
        "listen = \"127.0.0.1:9\"  # command line",
        "body = \"2MiB\"  # ISOMER_LIMITS_BODY",
        "requests = \"7\"  # s.toml",
        "head = \"16KiB\"  # default",
    ] {
        assert!(printed.lines().any(|has| has == line), "{line}\n{printed}");
    }
    assert!(!printed.contains("analytical"), "secrets are no settings");
    // The output can be read again.
    std::fs::write(folder.path().join("s.toml"), print(&["--config", "s.toml"])).expect("written");
    assert!(print(&["--config", "s.toml"]).contains("requests = \"7\""));
}

/// Settings that the server would refuse are not a configuration: printing them shows the source of the value, and
/// fails.
#[test]
fn settings_that_no_server_starts_with_are_refused_when_they_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, variable, printed) in [
        ("[limits]\nbody = -1\n", None, "limits.body"),
        ("listen = \"foo\"\n", None, "listen"),
        ("threads = 0\n", None, "threads"),
        ("threads = 100000000\n", None, "threads"),
        ("", Some(("ISOMER_LIMITS_BODY", "abc")), "limits.body"),
        (
            "",
            Some(("ISOMER_LIMITS_BODI", "1MiB")),
            "ISOMER_LIMITS_BODI",
        ),
    ] {
        std::fs::write(folder.path().join("s.toml"), file).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(["config", "print", "--origin", "--config", "s.toml"])
            .envs(variable)
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{file} {variable:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(printed), "{errors}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args([
            "serve",
            "people.isomer",
            "--create",
            "--listen",
            "127.0.0.1:0",
        ])
        .args(["--set", "default_database=nosuch"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("`default_database` is `nosuch`"),
        "{errors}"
    );
}

/// A certificate, and curl's opinion of it.
#[test]
fn tls_is_spoken_where_a_certificate_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("cert.pem"), made.cert.pem()).expect("written");
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let flags = ["--tls-certificate", "cert.pem", "--tls-key", "key.pem"];
    let server = Server::start(
        folder.path(),
        &flags,
        &[("ISOMER_ADMIN_PASSWORD", "analytical engine")],
    );
    let port = server
        .address()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl")
            .args(["-sS"])
            .args(arguments)
            .output()
            .expect("curl runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let url = format!("https://localhost:{port}/health");
    assert_eq!(
        curl(&["--cacert", &path("cert.pem"), &url]),
        (true, "{\"databases\":1,\"status\":\"ok\"}".into())
    );
    assert!(!curl(&[&url]).0, "its issuer is unknown");
    assert!(
        !curl(&[&format!("http://localhost:{port}/health")]).0,
        "nothing is said in the clear"
    );
    let login = format!("https://localhost:{port}/v1/login");
    let body = "{\"user\": \"admin\", \"password\": \"analytical engine\"}";
    let (good, printed) = curl(&[
        "--cacert",
        &path("cert.pem"),
        &login,
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
    ]);
    assert!(good && printed.contains("\"token\""), "{printed}");
}
