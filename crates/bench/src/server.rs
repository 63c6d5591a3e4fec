//! `isomer bench server`: what a server answers over HTTP and Bolt, on this machine, the client included.
//!
//! The server runs in this process (whoever calls starts it) and listens to the loopback address; the client is a few
//! threads with a connection each, which send the next request when the answer to the one before is there.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    measure::{Timed, mib, resident_bytes},
    random::Random,
    report::{Case, Report},
};

/// Connections that read at once.
const READERS: usize = 16;
/// How long they read.
const READING: Duration = Duration::from_secs(5);
/// Documents at scale 1.
const DOCUMENTS: f64 = 1_000_000.0;
/// Connections that do nothing.
const IDLE: usize = 9_000;

/// Loads documents into the database `bench` of the server at `address`, and reads them one by one.
pub fn run(
    address: SocketAddr,
    bolt: SocketAddr,
    scale: f64,
    report: &mut dyn Report,
) -> Result<()> {
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
    let timed = read_for(address, documents, READING)?;
    let rate = timed.count() as f64 / timed.wall.as_secs_f64();
    report.case(Case::new(
        "server",
        "http_reads_per_s",
        rate,
        "1/s",
        timed.count(),
    ));
    let p99 = timed.percentile(0.99).as_secs_f64() * 1e3;
    report.case(Case::new(
        "server",
        "http_read_p99_ms",
        p99,
        "ms",
        timed.count(),
    ));

    crate::bolt::run(bolt, scale, documents, report)?;

    report.stage(&format!("{IDLE} connections that do nothing"));
    let idle = idle(address)?;
    let resident = resident_bytes().context("the memory of this process cannot be read")?;
    report.note(
        "the whole process is counted: database, server and client, both ends of each connection",
    );
    report.case(Case::new(
        "server",
        "idle_connections_rss_mib",
        mib(resident),
        "MiB",
        idle.len() as u64,
    ));
    Ok(())
}

/// A connection that stays open.
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

    /// Sends a request and reads its answer, whose status must be 200.
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            let count = self.stream.read(&mut self.buffer[filled..])?;
            ensure!(count > 0, "the server closed the connection");
            filled += count;
            let text = &self.buffer[..filled];
            if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&text[..end])?;
                if !head.starts_with("HTTP/1.1 200") {
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
    Connection::open(address)?.ask(&[head.as_bytes(), body.as_bytes()].concat())
}

/// Reads documents at random until the time is over.
fn read_for(address: SocketAddr, documents: u64, time: Duration) -> Result<Timed> {
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let read = |reader: u64| -> Result<Vec<Duration>> {
        let mut connection = Connection::open(address)?;
        let mut random = Random::new(reader);
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let key = random.below(documents as usize);
            let request = format!(
                "GET /v1/databases/bench/collections/Person/P{key} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            );
            let sent = Instant::now();
            connection.ask(request.as_bytes())?;
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

/// Connections that have had a request each, as many as this process may open.
fn idle(address: SocketAddr) -> Result<Vec<Connection>> {
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        let Ok(mut connection) = Connection::open(address) else {
            break;
        };
        connection.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        connection.buffer = Vec::new();
        idle.push(connection);
    }
    Ok(idle)
}
