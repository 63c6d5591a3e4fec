//! A server in this process, and a client that sends exactly the bytes that a test specifies.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use isomer_db::Database;
use isomer_server::{RunningServer, ServeOptions, config::Layers, http::route::Route, start};
use isomer_testkit::poll;
use serde_json::Value;

/// A server with the databases `people` and `other`, both in memory, and users of all roles.
pub struct Server {
    pub running: RunningServer,
    pub people: Database,
    pub admin: String,
    pub folder: tempfile::TempDir,
}

/// The password of every user here.
pub const PASSWORD: &str = "correct horse battery";

impl Server {
    /// With these settings in addition to those of every test.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(tempfile::tempdir().expect("a folder"), settings)
    }

    /// Stops it and starts another one on its folder; in-memory data is lost.
    pub fn again(self) -> Self {
        let Self {
            running, folder, ..
        } = self;
        running.stop().expect("stopped");
        Self::on(folder, &[])
    }

    /// On the folder of a stopped server.
    pub fn on(folder: tempfile::TempDir, settings: &[(&str, &str)]) -> Self {
        let mut layers = Layers::new();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for (key, value) in [
            ("listen", "127.0.0.1:0".to_owned()),
            ("bolt", "127.0.0.1:0".to_owned()),
            ("system", path("system")),
            ("databases_folder", path("databases")),
            ("backups_folder", path("backups")),
            ("log.level", "error".to_owned()),
        ] {
            layers.add_flag(key, value).expect("known");
        }
        for (key, value) in settings {
            layers.add_flag(key, *value).expect("known");
        }
        let (people, other) = (memory(), memory());
        let mut options = ServeOptions::new(layers.config().expect("understood"));
        options.open = vec![("people".into(), people.clone()), ("other".into(), other)];
        options.admin_password = Some(PASSWORD.into());
        let running = start(options).expect("started");
        let mut server = Self {
            running,
            people,
            admin: String::new(),
            folder,
        };
        if !settings.contains(&("without_authentication", "true")) {
            server.admin = server.login("admin");
        }
        server
    }

    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    pub fn bolt_address(&self) -> SocketAddr {
        self.running.bolt_address().expect("Bolt is enabled")
    }

    /// The token of a login.
    pub fn login(&self, user: &str) -> String {
        let body = format!("{{\"user\":\"{user}\",\"password\":\"{PASSWORD}\"}}");
        let answer = self.client("").json("POST", "/v1/login", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.value()["token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    /// A token of a new user with these roles.
    pub fn user(&self, name: &str, roles: &str) -> String {
        let body = format!("{{\"user\":\"{name}\",\"password\":\"{PASSWORD}\",\"roles\":{roles}}}");
        let answer = self.admin().json("POST", "/v1/users", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        self.login(name)
    }

    pub fn admin(&self) -> Client {
        self.client(&self.admin)
    }

    /// Waits until clients have this number of running queries.
    pub fn await_running_queries(&self, count: usize) {
        let event = format!("{count} queries run");
        poll::until(&event, || self.running_queries() == count);
    }

    /// Waits until a metric has this value. The request that reads the metrics counts, too.
    pub fn await_metric(&self, name: &str, value: u64) {
        let (admin, line) = (self.admin(), format!("{name} {value}"));
        poll::until(&line, || {
            let metrics = admin.get("/metrics");
            metrics.text().lines().any(|found| found == line)
        });
    }

    /// Waits until the server has ended all requests of other clients: also those whose clients disconnected.
    pub fn await_end_of_requests(&self) {
        self.await_metric("isomer_connections", 1);
        self.await_metric("isomer_requests_at_work", 1);
    }

    /// Running queries of clients.
    pub fn running_queries(&self) -> usize {
        let shown = self.people.query("SHOW QUERIES").expect("shown");
        let texts = shown.iter().map(|row| format!("{:?}", row.values()));
        texts.filter(|text| text.contains("UNWIND")).count()
    }

    pub fn client(&self, token: &str) -> Client {
        let mut client = Client::at(self.address());
        client.token = token.to_owned();
        client
    }
}

fn memory() -> Database {
    Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("in memory")
}

/// Sends each request over a new connection.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub token: String,
    headers: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The kind of the error.
    pub fn kind(&self) -> String {
        self.value()["error"]["kind"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Client {
    /// A client of the server at this address, without a token.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            token: String::new(),
            headers: Vec::new(),
        }
    }

    /// Adds a header field.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.into(), value.into()));
        client
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub fn post(&self, path: &str) -> Answer {
        self.send("POST", path, &[], b"")
    }

    pub fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(
            method,
            path,
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        )
    }

    /// Runs a query and returns its rows.
    pub fn rows(&self, database: &str, query: &str) -> Value {
        let body = serde_json::json!({ "query": query }).to_string();
        let answer = self.json("POST", &format!("/v1/databases/{database}/query"), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.value()["rows"].clone()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = self.head(method, path) + "Connection: close\r\n";
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let answer = self
            .raw(&[head.as_bytes(), body].concat())
            .unwrap_or_else(|what| panic!("{method} {path}: {what}"));
        check_described(method, path, &answer);
        answer
    }

    /// The beginning of a request's head; further fields may follow.
    pub fn head(&self, method: &str, path: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if !self.token.is_empty() {
            head += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    /// Sends bytes and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> Result<Answer, String> {
        let mut stream = self.connect();
        // A server that has answered already may have closed the connection.
        let _ = stream.write_all(bytes);
        read_answer(&mut stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        stream
    }
}

/// Checks that a successful answer matches the description of its route, in content and status.
fn check_described(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap_or_default();
    let Some(route) = Route::of(method, path).filter(|_| answer.status < 400) else {
        return;
    };
    let described = route
        .answers
        .iter()
        .find(|(status, _)| *status == answer.status);
    let (_, schema) = described
        .unwrap_or_else(|| panic!("{method} {path} is not described with {}", answer.status));
    if method != "HEAD" {
        let has_content = answer.header("content-type").is_some();
        assert_eq!(
            has_content,
            !schema.is_empty(),
            "{method} {path}: {answer:?}"
        );
    }
}

/// Reads an answer to its end.
pub fn read_answer(stream: &mut TcpStream) -> Result<Answer, String> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if fill(stream, &mut bytes)? == 0 {
            return Err(format!("the connection ended after {} bytes", bytes.len()));
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer {
        status: status.ok_or_else(|| format!("no status in {head:?}"))?,
        headers,
        body: Vec::new(),
    };
    let mut rest = bytes.split_off(head_end + 4);
    if answer
        .header("transfer-encoding")
        .is_some_and(|coding| coding.contains("chunked"))
    {
        loop {
            let line = loop {
                if let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                if fill(stream, &mut rest)? == 0 {
                    return Err("the connection ended in the middle of the chunks".into());
                }
            };
            let size = String::from_utf8_lossy(&rest[..line]).into_owned();
            let size =
                usize::from_str_radix(&size, 16).map_err(|_| format!("invalid size `{size}`"))?;
            rest.drain(..line + 2);
            while rest.len() < size + 2 {
                if fill(stream, &mut rest)? == 0 {
                    return Err("the connection ended in the middle of a chunk".into());
                }
            }
            answer.body.extend(rest.drain(..size));
            rest.drain(..2);
            if size == 0 {
                return Ok(answer);
            }
        }
    }
    let length = answer
        .header("content-length")
        .and_then(|length| length.parse::<usize>().ok())
        .unwrap_or(0);
    while rest.len() < length {
        if fill(stream, &mut rest)? == 0 {
            return Err("the connection ended in the middle of the body".into());
        }
    }
    rest.truncate(length);
    answer.body = rest;
    Ok(answer)
}

fn fill(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<usize, String> {
    let mut buffer = [0; 16 << 10];
    if bytes.len() > 64 && bytes.ends_with(b": still here\n\n\r\n") {
        return Err("a feed has no end".into());
    }
    let count = stream
        .read(&mut buffer)
        .map_err(|error| error.to_string())?;
    bytes.extend_from_slice(&buffer[..count]);
    Ok(count)
}
