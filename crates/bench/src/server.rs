//! `isomer bench server`: the throughput of a server over HTTP and Bolt, on this machine, the client
//! included.
//!
//! The server runs in this process (the caller starts it) and listens on the loopback address; the client is
//! a small number of threads with a connection each, which send a request after the response to the previous
//! one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    measure::{Timed, mib, resident_bytes},
    random::Random,
    report::{Case, Report},
};

/// Concurrent readers.
const READERS: usize = 16;
/// Duration of reading.
const READING: Duration = Duration::from_secs(5);
/// Documents at scale 1.
const DOCUMENTS: f64 = 1_000_000.0;
/// Idle connections, and the time before memory is measured.
const IDLE: usize = 10_000;
const IDLE_TIME: Duration = Duration::from_secs(2);
/// Connections over which a fixed number of documents is read, and written, as the client of the multi-model
/// benchmark does.
const CONNECTIONS: u64 = 25;
/// Number of those documents at scale 1.
const OPERATIONS: f64 = 100_000.0;

/// Loads documents into the database `bench` of the server at `address`, which is in this process, and reads
/// them one by one; before that `client`, another process that calls [`hold`], opens as many idle connections
/// as a process may have.
pub fn run(
    address: SocketAddr,
    bolt: SocketAddr,
    connections: usize,
    client: Command,
    scale: f64,
    report: &mut dyn Report,
) -> Result<()> {
    // Before there is any data, so that only the memory of connections is counted.
    let most = IDLE.min(connections);
    report.stage(&format!("{most} idle connections"));
    let (idle, resident) = idle(client, most)?;
    report.note("the memory is that of the server's process; the clients are in another process");
    report.case(Case::new(
        "server",
        "idle_connections_rss_mib",
        mib(resident),
        "MiB",
        idle,
    ));

    let documents = ((DOCUMENTS * scale) as u64).max(1_000);
    report.stage(&format!("loading {documents} documents over HTTP"));
    let began = Instant::now();
    load(address, documents)?;
    let rate = documents as f64 / began.elapsed().as_secs_f64();
    report.case(Case::new(
        "server",
        "http_import_per_s",
        rate,
        "1/s",
        documents,
    ));

    report.stage(&format!(
        "reading single documents over {READERS} connections"
    ));
    read_for(address, documents, Duration::from_secs(1))?;
    let reading = read_for(address, documents, READING)?;
    let rate = reading.count() as f64 / reading.wall.as_secs_f64();
    report.case(Case::new(
        "server",
        "http_reads_per_s",
        rate,
        "1/s",
        reading.count(),
    ));
    let p99 = reading.percentile(0.99).as_secs_f64() * 1e3;
    report.case(Case::new(
        "server",
        "http_read_p99_ms",
        p99,
        "ms",
        reading.count(),
    ));

    let each = ((OPERATIONS * scale) as u64 / CONNECTIONS).max(40);
    let all = each * CONNECTIONS;
    report.stage(&format!("reading {all} documents over HTTP"));
    let read = timed(address, each, |connection, number| {
        let key = Random::new(number).below(documents as usize);
        connection.request(read_of(key).as_bytes())
    })?;
    report.case(Case::new(
        "server",
        "http_reads_100k_s",
        read.as_secs_f64(),
        "s",
        all,
    ));
    report.stage(&format!("writing {all} documents over HTTP"));
    let written = timed(address, each, |connection, number| {
        connection.request(write_of(number).as_bytes())
    })?;
    report.case(Case::new(
        "server",
        "http_writes_100k_s",
        written.as_secs_f64(),
        "s",
        all,
    ));

    crate::bolt::run(bolt, scale, documents, report)
}

/// A keep-alive connection.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the server does not answer")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; 16 << 10],
        })
    }

    /// Sends a request and reads the response, whose status must be a success.
    fn request(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            let count = self.stream.read(&mut self.buffer[filled..])?;
            ensure!(count > 0, "the server closed the connection");
            filled += count;
            let text = &self.buffer[..filled];
            if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&text[..end])?;
                if !head.starts_with("HTTP/1.1 20") {
                    bail!(
                        "the answer is `{}`",
                        head.lines().next().unwrap_or_default()
                    );
                }
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .context("the answer has no length")?;
                if filled >= end + 4 + length.parse::<usize>()? {
                    return Ok(());
                }
            }
            ensure!(
                filled < self.buffer.len(),
                "the answer is longer than {} bytes",
                self.buffer.len()
            );
        }
    }
}

fn load(address: SocketAddr, documents: u64) -> Result<()> {
    let mut body = String::new();
    for number in 0..documents {
        body += &format!(
            "{{\"_key\":\"P{number}\",\"age\":{},\"name\":\"person number {number}\"}}\n",
            number % 90
        );
    }
    let head = format!(
        "POST /v1/databases/bench/import/nodes?label=Person HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonl\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    Connection::open(address)?.request(&[head.as_bytes(), body.as_bytes()].concat())
}

/// A request for a document.
fn read_of(key: usize) -> String {
    format!("GET /v1/databases/bench/collections/Person/P{key} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A request that creates a document.
fn write_of(number: u64) -> String {
    let body =
        format!("{{\"_key\":\"W{number}\",\"age\":36,\"name\":\"a person written over HTTP\"}}");
    format!(
        "POST /v1/databases/bench/collections/WrittenHttp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Time until all connections have run `each` operations, which are numbered consecutively.
fn timed(
    address: SocketAddr,
    each: u64,
    operation: impl Fn(&mut Connection, u64) -> Result<()> + Sync,
) -> Result<Duration> {
    let connections: Result<Vec<Connection>> = (0..CONNECTIONS)
        .map(|_| Connection::open(address))
        .collect();
    let operation = &operation;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = connections?
            .into_iter()
            .zip(0..)
            .map(|(mut connection, worker)| {
                scope.spawn(move || {
                    let mut own = worker * each..(worker + 1) * each;
                    own.try_for_each(|number| operation(&mut connection, number))
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(began.elapsed())
}

/// Reads random documents until the time is over.
fn read_for(address: SocketAddr, documents: u64, time: Duration) -> Result<Timed> {
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let read = |reader: u64| -> Result<Vec<Duration>> {
        let mut connection = Connection::open(address)?;
        let mut random = Random::new(reader);
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let key = random.below(documents as usize);
            let request = read_of(key);
            let sent = Instant::now();
            connection.request(request.as_bytes())?;
            times.push(sent.elapsed());
        }
        Ok(times)
    };
    let read = &read;
    let times: Result<Vec<Vec<Duration>>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS as u64)
            .map(|reader| scope.spawn(move || read(reader)))
            .collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader does not panic"))
            .collect()
    });
    Ok(Timed {
        times: times?.concat(),
        wall: began.elapsed(),
        cpu: Duration::ZERO,
    })
}

/// Lets a client open this many connections; returns how many are open and the memory of this process at that
/// time.
fn idle(mut client: Command, count: usize) -> Result<(u64, u64)> {
    let mut client = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the client does not start")?;
    let mut asked = client.stdin.take().context("a pipe")?;
    let answered = client.stdout.take().context("a pipe")?;
    let measured = (|| {
        writeln!(asked, "{count}")?;
        let mut line = String::new();
        BufReader::new(answered).read_line(&mut line)?;
        let open = line
            .trim()
            .parse()
            .context("the client did not open its connections")?;
        std::thread::sleep(IDLE_TIME);
        let resident = resident_bytes().context("the memory of this process cannot be read")?;
        Ok((open, resident))
    })();
    // The client ends when its standard input is closed.
    drop(asked);
    client.wait()?;
    measured
}

/// The client with idle connections: opens as many as the first line of `asked` says, each with one request,
/// reports their number, and holds them until its input is closed.
pub fn hold(address: SocketAddr, asked: &mut dyn BufRead, answers: &mut dyn Write) -> Result<()> {
    let mut line = String::new();
    asked.read_line(&mut line)?;
    let count: usize = line.trim().parse().context("how many connections?")?;
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = Connection::open(address)?;
        connection.request(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        connection.buffer = Vec::new();
        idle.push(connection);
    }
    writeln!(answers, "{}", idle.len())?;
    answers.flush()?;
    asked.read_line(&mut line)?;
    Ok(())
}
