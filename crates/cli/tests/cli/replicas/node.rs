//! A server in a separate process, queried over HTTP and killed.

use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use isomer_testkit::poll;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs the binary to its end.
pub fn isomer(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(arguments)
        .output()
        .expect("the binary runs");
    assert!(
        output.status.success(),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a function within a network namespace, which a file names: on a separate thread, which ends there. Processes
/// that it starts stay within.
pub fn within<T: Send>(network: Option<&PathBuf>, what: impl FnOnce() -> T + Send) -> T {
    let Some(network) = network else {
        return what();
    };
    let entered = || {
        let file = File::open(network).expect("the namespace is there");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a thread enters it");
        what()
    };
    std::thread::scope(|scope| scope.spawn(entered).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A server in a separate process.
pub struct Node {
    pub folder: PathBuf,
    /// Its address since the last start: another port each time, unless its arguments give one. A port that was free a
    /// moment ago may have been taken.
    pub port: Arc<AtomicU16>,
    /// The network namespace of the server and its clients; none: this machine's.
    pub network: Option<PathBuf>,
    /// More arguments, and variables of its environment.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    child: Option<Child>,
}

impl Node {
    /// One that listens on this machine only.
    pub fn here(folder: PathBuf) -> Self {
        Self {
            folder,
            port: Arc::default(),
            network: None,
            arguments: vec!["--listen".into(), "127.0.0.1:0".into()],
            environment: Vec::new(),
            child: None,
        }
    }

    /// Starts it and waits until it answers. Its output goes to a file next to its folder.
    pub fn start(&mut self) {
        let said = self.folder.with_extension("log");
        let log = File::create(&said).expect("its log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args(["serve", &format!("db={}", self.folder.display())])
            .args(["--without-authentication", "--create"])
            .args(["--set", "log.format=json"])
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .stdout(Stdio::null())
            .stderr(log);
        let child = within(self.network.as_ref(), || command.spawn());
        self.child = Some(child.expect("the server starts"));
        let mut ended = None;
        poll::within(poll::LIMIT, || {
            ended = self.child.as_mut().and_then(|child| child.try_wait().ok()?);
            (ended.is_some() || self.is_ready(&said)).then_some(())
        });
        assert!(
            ended.is_none() && self.is_ready(&said),
            "the server does not answer ({}), it says: {}",
            ended.map_or("it runs".to_owned(), |status| status.to_string()),
            std::fs::read_to_string(&said).unwrap_or_default()
        );
    }

    /// Whether its log has the address, and it answers there.
    fn is_ready(&self, said: &Path) -> bool {
        let log = std::fs::read_to_string(said).unwrap_or_default();
        let url = log.split_once("\"url\":\"").map(|(_, rest)| rest);
        let url = url.and_then(|rest| Some(rest.split_once('"')?.0));
        let Some(port) = url.and_then(|url| url.rsplit_once(':')?.1.parse().ok()) else {
            return false;
        };
        self.port.store(port, Ordering::Release);
        let answer = self.ask("GET", "/ready", "");
        answer.is_some_and(|(status, _)| status == 200)
    }

    /// Like `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is killed");
            child.wait().expect("it ended");
        }
    }

    /// Whether a query was acknowledged. Any other response is printed.
    pub fn run(&self, query: &str) -> bool {
        match self.query(query) {
            Some((200, _)) => true,
            answer => {
                println!("{}: {query}: {answer:?}", self.folder.display());
                false
            }
        }
    }

    /// The rows of a query that succeeded.
    pub fn rows(&self, query: &str) -> Option<String> {
        let (status, body) = self.query(query)?;
        (status == 200).then_some(body)
    }

    /// The status and the rows or the error of a query; none: no response.
    fn query(&self, query: &str) -> Option<(u16, String)> {
        let body = format!("{{\"query\": \"{query}\"}}");
        self.ask("POST", "/v1/databases/db/query", &body)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let port = self.port.load(Ordering::Acquire);
        let connect = || TcpStream::connect(("127.0.0.1", port));
        let mut stream = within(self.network.as_ref(), connect).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.get(9..12)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        // The database's own timestamps are not compared.
        let rows = body.split_once("\"rows\"").map_or(body, |(_, rows)| rows);
        let rows = rows.split("]]").next().unwrap_or(rows);
        Some((status, rows.to_owned()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
