//! The memory budget holds for the whole process: statements that would take many times as much succeed or are refused,
//! and the process never holds more than the budget, a quarter of it and 64 MiB.
//!
//! The measurement is what the operating system reports for the child process (`/proc/PID/status`), so that nothing is
//! left out, except the pages of the program's own file: a test build is many times larger than the program.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use isomer_testkit::poll;

const MIB: usize = 1 << 20;
const BUDGET: usize = 64 * MIB;
/// The time after which a process counts as hanging.
const LIMIT: Duration = Duration::from_secs(600);

/// The program with the default engine, regardless of the engine of other tests: redb reserves its whole cache, for
/// idle databases too.
fn isomer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command.env("ISOMER_ENGINE", "lsm");
    command
}

/// A child process that is killed when the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// A field of its status, in bytes; none if it has ended.
    fn status(&self, name: &str) -> Option<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(name))?;
        let kib = line.split_whitespace().nth(1)?;
        Some(kib.parse::<usize>().ok()? << 10)
    }

    /// Asserts that it never exceeded its limit.
    fn check_peak(&self, what: &str) {
        let (peak, file) = (self.status("VmHWM:"), self.status("RssFile:"));
        check(
            what,
            peak.expect("it runs")
                .saturating_sub(file.unwrap_or_default()),
        );
    }

    /// Asserts that its memory falls to `most` within five seconds, except the pages of the program file.
    fn check_given_back(&self, most: usize) {
        let mut held = 0;
        let is_given_back = poll::within(Duration::from_secs(5), || {
            held = self.status("RssAnon:").unwrap_or_default();
            (held <= most).then_some(())
        });
        let held = held / MIB;
        assert!(
            is_given_back.is_some(),
            "{held} MiB are held after five seconds"
        );
    }

    /// Waits until it computes nothing any more, because it waits for its clients.
    fn await_idle(&self) {
        let mut before = None;
        let idle = poll::every(Duration::from_millis(400), poll::LIMIT, || {
            let now = self.processor_ticks();
            let earlier = before.replace(now)?;
            (now <= earlier + 1).then_some(())
        });
        assert!(idle.is_some(), "it still computes after {:?}", poll::LIMIT);
    }

    /// Its processor time, in hundredths of a second.
    fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        // The name of the program, in brackets, may contain spaces; user and system time are 12 and 13 fields later.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks
            .map(|field| field.parse::<u64>().expect("a number"))
            .sum()
    }
}

/// Runs a statement in a separate process and returns its error, if any. Asserts that the process stays within its
/// limit.
fn run(folder: &Path, statement: &str) -> Result<(), String> {
    let mut command = isomer();
    command
        .args(["--memory", "64MiB", "shell", "db"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    watched(command, Some(statement), statement)
}

/// Runs a command, with a statement as its input where there is one, and watches what it holds.
fn watched(mut command: Command, statement: Option<&str>, what: &str) -> Result<(), String> {
    let mut child = command.spawn().expect("the binary runs");
    let input = child.stdin.take();
    let mut errors = child.stderr.take().expect("a pipe");
    let mut process = Process(child);
    if let (Some(mut input), Some(statement)) = (input, statement) {
        writeln!(input, "{statement};").expect("it reads");
    }
    let (mut peak, mut most_file) = (0, 0);
    let status = poll::every(Duration::from_millis(3), LIMIT, || {
        most_file = most_file.max(process.status("RssFile:").unwrap_or_default());
        peak = peak.max(process.status("VmHWM:").unwrap_or_default());
        process.0.try_wait().expect("it is a child")
    });
    let status = status.unwrap_or_else(|| panic!("{what}: it runs for more than {LIMIT:?}"));
    check(what, peak.saturating_sub(most_file));
    let mut error = String::new();
    errors.read_to_string(&mut error).expect("text");
    if status.success() { Ok(()) } else { Err(error) }
}

/// Asserts that a process with this peak stayed within its limit.
fn check(what: &str, peak: usize) {
    let most = BUDGET + BUDGET / 4 + 64 * MIB;
    assert!(
        peak <= most,
        "{what}: {} MiB of at most {} MiB",
        peak / MIB,
        most / MIB
    );
}

/// An error says that a limit was reached, and what to do.
fn check_refused(outcome: &Result<(), String>) {
    if let Err(error) = outcome {
        assert!(
            error.contains("the limit is") || error.contains("memory"),
            "{error}"
        );
        assert!(error.contains("raise the memory option"), "{error}");
    }
}

/// Megabytes of strings, each made by doubling.
fn doubled(count: usize, call: &str) -> String {
    format!("UNWIND range(1, {count}) AS i CALL {call} RETURN count(*) AS made")
}

const MEBIBYTE: &str = "reduce(s = 'x', k IN range(1, 20) | s + s)";

/// Each kind of statement that once took many times its output: it succeeds or is refused, within the budget.
#[test]
fn no_statement_takes_more_than_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    run(folder, "UNWIND range(1, 30000) AS i CREATE (:L {i: i})").expect("done");
    let hub = "MATCH (l:L) WITH collect(l) AS all CREATE (h:H) WITH h, all UNWIND all AS l CREATE (h)-[:R]->(l)";
    let text = "MATCH (l:L) SET l.p = reduce(s = 'x', k IN range(1, 11) | s + s)";
    for (is_small, statement) in [
        (
            true,
            doubled(8, &format!("file.write('/s' + toString(i), {MEBIBYTE})")),
        ),
        (
            false,
            doubled(64, &format!("file.write('/f' + toString(i), {MEBIBYTE})")),
        ),
        (
            false,
            doubled(64, &format!("kv.put('b', toString(i), {MEBIBYTE})")),
        ),
        (false, text.to_owned()),
        (true, "MATCH (l:L) SET l.w = 1".to_owned()),
        (true, hub.to_owned()),
        (true, "MATCH (h:H) DETACH DELETE h".to_owned()),
        (true, "MATCH (l:L) DETACH DELETE l".to_owned()),
    ] {
        let outcome = run(folder, &statement);
        check_refused(&outcome);
        assert!(outcome.is_ok() || !is_small, "{statement}: {outcome:?}");
    }
}

/// A commit that changes each record of a large label while views of it are in memory: neither the commit nor the views
/// exceed the budget.
#[test]
fn a_commit_larger_than_its_views_keeps_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let create = "UNWIND range(1, 150000) AS i CREATE (:P {i: i})";
    run(folder, &format!("{create};{create}")).expect("done");
    let sum = "MATCH (n:P) RETURN sum(n.i), max(n.w)";
    for write in ["SET n.w = 1", "DETACH DELETE n"] {
        let outcome = run(folder, &format!("{sum};{sum};MATCH (n:P) {write};{sum}"));
        assert!(outcome.is_ok(), "{write}: {outcome:?}");
    }
}

fn ask(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}

fn query(address: &str, database: &str, text: &str) -> (u16, String) {
    let body = serde_json::json!({ "query": text }).to_string();
    ask(address, &format!("/v1/databases/{database}/query"), &body)
}

/// A server of `names`, and its address.
fn serve(folder: &Path, memory: &str, names: &[String]) -> (Process, String) {
    let (process, address, _) = serve_drivers(folder, memory, names);
    (process, address)
}

/// A server of `names`, its address, and the one for drivers.
fn serve_drivers(folder: &Path, memory: &str, names: &[String]) -> (Process, String, String) {
    let mut child = isomer()
        .args(["--memory", memory, "serve"])
        .args(names)
        .args([
            "--create",
            "--listen",
            "127.0.0.1:0",
            "--bolt",
            "127.0.0.1:0",
            "--without-authentication",
        ])
        .args(["--set", "log.format=json"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let process = Process(child);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let lines = errors.lines().map_while(Result::ok);
        // The log is read to its end, so that the server never blocks on a reader.
        for line in lines {
            let _ = sender.send(line);
        }
    });
    loop {
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("a line");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = |name| Some(line[name].as_str()?.split("://").nth(1)?.to_owned());
        if let (Some(http), Some(bolt)) = (address("url"), address("bolt")) {
            return (process, http, bolt);
        }
    }
}

/// Six clients that write as fast as they can share one budget, and the memory is returned to the operating system.
#[test]
fn six_clients_share_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, address) = serve(folder.path(), "64MiB", &["people.db".to_owned()]);
    thread::scope(|scope| {
        for client in 0..6 {
            let address = &address;
            scope.spawn(move || {
                for round in 0..2 {
                    let path =
                        format!("file.write('/{client}-{round}-' + toString(i), {MEBIBYTE})");
                    let (status, answer) = query(address, "people", &doubled(24, &path));
                    assert!(
                        status == 200 || answer.contains("\"Limit\"") || status == 429,
                        "{answer}"
                    );
                }
            });
        }
    });
    server.check_peak("six clients");
    server.check_given_back(BUDGET);
    let (status, answer) = query(&address, "people", "RETURN 1 AS one");
    assert_eq!(status, 200, "{answer}");
}

/// Idle databases hold almost nothing: all open within a small budget, and a query can use most of it.
#[test]
fn idle_databases_leave_the_budget_to_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..20).map(|at| format!("db{at}.db")).collect();
    let (server, address) = serve(folder.path(), "64MiB", &names);
    for at in 0..20 {
        let database = format!("db{at}");
        let (status, answer) = query(&address, &database, "CREATE (n:N {i: 1}) RETURN n.i");
        assert_eq!(status, 200, "{answer}");
    }
    let sort =
        "UNWIND range(1, 200000) AS x WITH x ORDER BY x % 1000 RETURN count(x), collect(x)[0]";
    let (status, answer) = query(&address, "db7", sort);
    assert_eq!(status, 200, "{answer}");
    server.check_peak("20 databases");
}

/// The statistics account for nearly all memory of the process.
#[test]
fn statistics_account_for_the_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, address) = serve(folder.path(), "64MiB", &["people.db".to_owned()]);
    let (status, answer) = query(
        &address,
        "people",
        "UNWIND range(1, 20000) AS i CREATE (:L {i: i})",
    );
    assert_eq!(status, 200, "{answer}");
    let mut stream = TcpStream::connect(&address).expect("connected");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let value = |line: &str| {
        line.rsplit(' ')
            .next()
            .and_then(|value| value.parse::<f64>().ok())
    };
    let resident = answer
        .lines()
        .find(|line| line.starts_with("isomer_process_resident_bytes"));
    let resident = resident.and_then(value).expect("the figure");
    let parts = answer
        .lines()
        .filter(|line| line.starts_with("isomer_memory_bytes{"));
    let named = parts
        .filter(|line| !line.contains("other allocations"))
        .filter_map(value);
    let named: f64 = named.sum();
    assert!(
        named >= resident * 0.85,
        "{named} of {resident} bytes are named"
    );
    assert!(
        named <= resident * 1.15,
        "{named} of {resident} bytes are named"
    );
}

/// What makes a large value, about a mebibyte, of a number `i`. `{N}` is how many rows there are.
const PRODUCERS: &[(&str, &str)] = &[
    (
        "a text",
        "UNWIND range(1, {N}) AS i WITH i, {MIB} + toString(i) AS v",
    ),
    (
        "a list",
        "UNWIND range(1, {N}) AS i WITH i, [k IN range(1, 40000) | k * i] AS v",
    ),
    (
        "values in values",
        "UNWIND range(1, {N}) AS i WITH i, [[[{MIB}, i]], {a: [{b: {MIB}}]}] AS v",
    ),
    (
        "a list that grows",
        "UNWIND range(1, {N}) AS i WITH i, reduce(l = [], k IN range(1, 4) | l + [{MIB}]) AS v",
    ),
    (
        "a replaced text",
        "UNWIND range(1, {N}) AS i WITH i, replace(reduce(s = 'x', k IN range(1, 16) | s + s), 'x', '0123456789abcdef') AS v",
    ),
    (
        "the parts of a text",
        "UNWIND range(1, {N}) AS i WITH i, split(reduce(s = 'ab,', k IN range(1, 14) | s + s), ',') AS v",
    ),
    (
        "rows in an expression",
        "UNWIND range(1, {N}) AS i WITH i, COLLECT { UNWIND range(1, 3) AS k RETURN {MIB} + toString(k) } AS v",
    ),
    (
        "unwound lists",
        "UNWIND range(1, {N}) AS j UNWIND [k IN range(1, 2) | {MIB} + toString(k)] AS v WITH j AS i, v",
    ),
    (
        "a property",
        "MATCH (n:Large) UNWIND range(1, {N} / 100) AS k WITH n.i AS i, n.p + toString(k) AS v",
    ),
    (
        "a stored property",
        "MATCH (n:Large) WITH n.i AS i, n.p AS v",
    ),
    ("a node", "MATCH (n:Large) WITH n.i AS i, n AS v"),
    (
        "a map of a node",
        "MATCH (n:Large) WITH n.i AS i, n {.*, q: n.p + 'x'} AS v",
    ),
];

/// What is done with the rows `i, v`.
const CONSUMERS: &[(&str, &str)] = &[
    ("result", "RETURN v"),
    ("a few columns", "RETURN v, [v] AS w, {a: v} AS m"),
    ("sort", "RETURN v ORDER BY i % 7, v"),
    ("the first ones", "RETURN v ORDER BY i % 7 DESC LIMIT 30"),
    (
        "filter",
        "WITH i, v WHERE NOT v IN [[v], i] AND v IS NOT NULL RETURN count(*)",
    ),
    ("distinct", "RETURN DISTINCT v"),
    (
        "groups",
        "RETURN i % 5 AS g, max(v) AS m, count(DISTINCT v) AS c",
    ),
    ("one list", "RETURN collect(v) AS all"),
    ("lists", "WITH i % 50 AS g, collect(v) AS vs RETURN g, vs"),
    ("unwind", "UNWIND [v, [v, i]] AS w RETURN w"),
    (
        "more columns",
        "WITH i, v, [x IN [v] | [x, i]] AS w RETURN w, v",
    ),
    (
        "an aggregation",
        "RETURN sum(size(toString(i) + toString(v IS NULL))) AS s, min(v) AS m",
    ),
    (
        "product",
        "WITH collect(i)[0..2] AS few, v UNWIND few AS f RETURN f, v",
    ),
    (
        "optional rows",
        "OPTIONAL MATCH (x:Missing) WHERE x.p = v RETURN v, x",
    ),
    (
        "put",
        "CALL kv.put('large', toString(i), v) RETURN count(*) AS made",
    ),
    (
        "create",
        "CREATE (c:Copy {i: i}) RETURN count(c) AS made, max(v) AS m",
    ),
];

/// A pair of them, by its number.
fn shape(number: usize, rows: usize) -> (String, String) {
    let (from, producer) = PRODUCERS[number % PRODUCERS.len()];
    let (to, consumer) = CONSUMERS[number / PRODUCERS.len() % CONSUMERS.len()];
    let text = format!("{producer} {consumer}")
        .replace("{MIB}", MEBIBYTE)
        .replace("{N}", &rows.to_string());
    (format!("{from} to {to}"), text)
}

/// Numbers of `count` different pairs that look like chance; together the tests of all seeds try each producer and
/// consumer.
fn shapes(seed: usize, count: usize) -> impl Iterator<Item = usize> {
    let all = PRODUCERS.len() * CONSUMERS.len();
    // Coprime to the number of pairs: no pair comes twice.
    (0..count).map(move |at| (seed + at * 79) % all)
}

/// Nodes with half a mebibyte each.
fn create_large(folder: &Path) {
    for from in [0, 30, 60, 90] {
        let text = format!(
            "UNWIND range({from}, {from} + 29) AS i CREATE (:Large {{i: i, p: reduce(s = 'x', k IN range(1, 19) | s + s)}})"
        );
        run(folder, &text).expect("done");
    }
}

/// A statement over large values, whatever computes them and whatever is done with them, is done or refused within the
/// budget, and most are done.
#[test]
fn large_values_keep_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    create_large(folder);
    let mut done = 0;
    for (at, number) in shapes(0, 32).enumerate() {
        let (what, text) = shape(number, 200);
        let format = ["jsonl", "table", "json", "csv"][at % 4];
        let outcome = run_query(folder, &text, format, &what);
        check_refused(&outcome);
        done += usize::from(outcome.is_ok());
    }
    assert!(done > 16, "{done} of 32 are done");
}

/// Runs `isomer query`: see [`run`].
fn run_query(folder: &Path, text: &str, format: &str, what: &str) -> Result<(), String> {
    let mut command = isomer();
    command
        .args(["--memory", "64MiB", "query", "db", text, "--format", format])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    watched(command, None, &format!("{what}, as {format}"))
}

/// Six clients of a server at once, each with other statements over large values, share the budget.
#[test]
fn large_values_of_six_clients_share_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    create_large(folder.path());
    let (server, address) = serve(folder.path(), "64MiB", &["db".to_owned()]);
    thread::scope(|scope| {
        for client in 0..6 {
            let (server, address) = (&server, &address);
            scope.spawn(move || {
                for number in shapes(29 * client, 4) {
                    let (what, text) = shape(number, 60);
                    let accept = match (client + number) % 2 {
                        0 => "application/json",
                        _ => "application/jsonl",
                    };
                    let answer = ask_for(address, "db", &text, accept).finish();
                    assert!(
                        answer.starts_with(b"HTTP/1.1 200") || is_limit(&answer),
                        "{what}: {}",
                        String::from_utf8_lossy(&answer[..answer.len().min(1000)])
                    );
                    server.check_peak(&what);
                }
            });
        }
    });
    server.check_given_back(BUDGET);
}

/// Whether an answer says that a limit of memory, time or size was reached.
fn is_limit(answer: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&answer[..answer.len().min(1000)]);
    head.contains("\"Limit\"")
        || ["413", "429"]
            .iter()
            .any(|status| head.starts_with(&format!("HTTP/1.1 {status}")))
}

/// A request whose answer is read later.
struct Asked(TcpStream);

fn ask_for(address: &str, database: &str, text: &str, accept: &str) -> Asked {
    let body = serde_json::json!({ "query": text }).to_string();
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!(
        "POST /v1/databases/{database}/query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    Asked(stream)
}

impl Asked {
    /// The beginning of the answer; all of it is read.
    fn finish(mut self) -> Vec<u8> {
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            // A server may end the connection before it is at its end.
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) => return answer,
                Ok(count) if answer.len() < 4096 => answer.extend(&buffer[..count]),
                Ok(_) => {}
            }
        }
    }
}

/// Results wait for clients that read late: they count in the budget until they are sent.
#[test]
fn results_of_slow_clients_keep_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, address) = serve(folder.path(), "64MiB", &["db".to_owned()]);
    let text = format!("UNWIND range(1, 10) AS i RETURN {MEBIBYTE} + toString(i) AS v");
    for accept in ["application/json", "application/jsonl"] {
        let asked: Vec<Asked> = (0..20)
            .map(|_| ask_for(&address, "db", &text, accept))
            .collect();
        server.await_idle();
        server.check_peak(&format!("20 slow clients of {accept}"));
        let answers: Vec<Vec<u8>> = asked.into_iter().map(Asked::finish).collect();
        let done = answers
            .iter()
            .filter(|one| one.starts_with(b"HTTP/1.1 200"));
        assert!(done.count() > 0);
        for answer in &answers {
            assert!(
                answer.starts_with(b"HTTP/1.1 200") || is_limit(answer),
                "{}",
                String::from_utf8_lossy(&answer[..answer.len().min(1000)])
            );
        }
        server.check_peak(&format!("20 slow clients of {accept}"));
    }
    server.check_given_back(BUDGET);
}

/// Messages of Bolt 4.4 that run a statement, take all of its rows and say goodbye.
fn bolt_session(text: &str) -> Vec<u8> {
    let short = |text: &str| [&[0x80 | text.len() as u8], text.as_bytes()].concat();
    let agent = [short("user_agent"), short("test")].concat();
    let scheme = [short("scheme"), short("none")].concat();
    let text = [
        &[0xd1][..],
        &(text.len() as u16).to_be_bytes(),
        text.as_bytes(),
    ]
    .concat();
    let messages = [
        [vec![0xb1, 0x01, 0xa2], agent, scheme].concat(),
        [vec![0xb3, 0x10], text, vec![0xa0, 0xa0]].concat(),
        [vec![0xb1, 0x3f, 0xa1], short("n"), vec![0xff]].concat(),
        vec![0xb0, 0x02],
    ];
    let mut sent = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 4, 4];
    sent.extend([0; 12]);
    for message in messages {
        sent.extend((message.len() as u16).to_be_bytes());
        sent.extend(message);
        sent.extend([0, 0]);
    }
    sent
}

/// The same for drivers, of which some read late and others at once.
#[test]
fn results_of_drivers_keep_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, _, bolt) = serve_drivers(folder.path(), "64MiB", &["db".to_owned()]);
    for text in [
        format!("UNWIND range(1, 10) AS i RETURN {MEBIBYTE} + toString(i) AS v"),
        format!("RETURN [i IN range(1, 10) | {MEBIBYTE} + toString(i)] AS v"),
        format!(
            "UNWIND range(1, 10) AS i CREATE (n:N {{i: i}}) RETURN {MEBIBYTE} + toString(i) AS v"
        ),
    ] {
        let asked: Vec<Asked> = (0..20)
            .map(|_| {
                let mut stream = TcpStream::connect(&bolt).expect("connected");
                stream.write_all(&bolt_session(&text)).expect("sent");
                Asked(stream)
            })
            .collect();
        server.await_idle();
        server.check_peak("20 slow drivers");
        for one in asked {
            let answer = one.finish();
            assert!(answer.starts_with(&[0, 0, 4, 4]) && answer.len() > 100);
        }
        server.check_peak("20 drivers");
    }
    server.check_given_back(BUDGET);
}
