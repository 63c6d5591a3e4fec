//! The Bolt part of `isomer bench server`: single documents read and written over 25 connections, as a driver
//! does it (`RUN` and `PULL` pipelined).
//!
//! The client implements only the subset of the protocol that this needs: it writes strings, small
//! dictionaries and integers, and looks at the tag of each response message.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    random::Random,
    report::{Case, Report},
};

/// Concurrent connections.
const CONNECTIONS: u64 = 25;
/// Operations at scale 1.
const OPERATIONS: f64 = 100_000.0;

/// Reads and writes documents of the database `bench` at `address`, which holds `documents` of them.
pub fn run(address: SocketAddr, scale: f64, documents: u64, report: &mut dyn Report) -> Result<()> {
    let each = ((OPERATIONS * scale) as u64 / CONNECTIONS).max(40);
    let all = each * CONNECTIONS;
    report.stage(&format!("reading {all} documents over Bolt"));
    let read = timed(address, each, |connection, worker, _| {
        let key = Random::new(worker).below(documents as usize);
        let query = "MATCH (p:Person {_key: $key}) RETURN p";
        connection.run(query, &format!("P{key}"))
    })?;
    report.case(Case::new(
        "server",
        "bolt_reads_100k_s",
        read.as_secs_f64(),
        "s",
        all,
    ));
    report.stage(&format!("writing {all} documents over Bolt"));
    let written = timed(address, each, |connection, worker, number| {
        let query = "CREATE (:Written {_key: $key, age: 36, name: 'a person written over Bolt'})";
        connection.run(query, &format!("W{worker}-{number}"))
    })?;
    report.case(Case::new(
        "server",
        "bolt_writes_100k_s",
        written.as_secs_f64(),
        "s",
        all,
    ));
    Ok(())
}

/// Time until all connections have run `each` operations.
fn timed(
    address: SocketAddr,
    each: u64,
    operation: impl Fn(&mut Connection, u64, u64) -> Result<()> + Sync,
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
                    (0..each).try_for_each(|number| {
                        operation(&mut connection, worker * each + number, number)
                    })
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a client does not panic"))
    })?;
    Ok(began.elapsed())
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    at: usize,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the server does not answer")?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            received: Vec::new(),
            at: 0,
        };
        let mut hello = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 4, 5];
        hello.resize(20, 0);
        connection.stream.write_all(&hello)?;
        let mut version = [0; 4];
        connection.stream.read_exact(&mut version)?;
        ensure!(
            version == [0, 0, 4, 5],
            "the server does not speak Bolt 5.4"
        );
        let mut messages = Vec::new();
        message(&mut messages, |bytes| {
            bytes.extend([0xb1, 0x01, 0xa1]);
            text(bytes, "user_agent");
            text(bytes, "isomer-bench/1");
        });
        message(&mut messages, |bytes| {
            bytes.extend([0xb1, 0x6a, 0xa1]);
            text(bytes, "scheme");
            text(bytes, "none");
        });
        connection.request(&messages, 2)?;
        Ok(connection)
    }

    /// Runs a query with one parameter and consumes all rows.
    fn run(&mut self, query: &str, key: &str) -> Result<()> {
        let mut messages = Vec::with_capacity(256);
        message(&mut messages, |bytes| {
            bytes.extend([0xb3, 0x10]);
            text(bytes, query);
            bytes.push(0xa1);
            text(bytes, "key");
            text(bytes, key);
            bytes.push(0xa0);
        });
        message(&mut messages, |bytes| {
            bytes.extend([0xb1, 0x3f, 0xa1]);
            text(bytes, "n");
            bytes.push(0xff);
        });
        self.request(&messages, 2)
    }

    /// Sends messages and waits for `count` success responses.
    fn request(&mut self, messages: &[u8], mut answers: usize) -> Result<()> {
        self.stream.write_all(messages)?;
        while answers > 0 {
            match self.tag()? {
                0x71 => {}
                0x70 => answers -= 1,
                other => bail!("the server answers {other:02X}"),
            }
        }
        Ok(())
    }

    /// The tag of the next response message.
    fn tag(&mut self) -> Result<u8> {
        let mut tag = None;
        loop {
            self.fill(2)?;
            let head = &self.received[self.at..self.at + 2];
            let size = usize::from(u16::from_be_bytes([head[0], head[1]]));
            self.at += 2;
            if size == 0 {
                if let Some(tag) = tag {
                    return Ok(tag);
                }
                continue;
            }
            self.fill(size)?;
            let first = self.received.get(self.at + 1).copied();
            tag = tag.or(first);
            self.at += size;
        }
    }

    /// Reads until `count` bytes are buffered.
    fn fill(&mut self, count: usize) -> Result<()> {
        while self.received.len() < self.at + count {
            if self.at > 16 << 10 {
                self.received.drain(..self.at);
                self.at = 0;
            }
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer)?;
            ensure!(read > 0, "the server closed the connection");
            self.received.extend_from_slice(&buffer[..read]);
        }
        Ok(())
    }
}

/// Appends a message of one chunk.
fn message(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend([0, 0]);
    write(to);
    let size = (to.len() - start - 2) as u16;
    to[start..start + 2].copy_from_slice(&size.to_be_bytes());
    to.extend([0, 0]);
}

/// Appends a string of less than 256 bytes.
fn text(to: &mut Vec<u8>, text: &str) {
    to.extend([0xd0, text.len() as u8]);
    to.extend_from_slice(text.as_bytes());
}
