//! A Bolt client that sends exactly the messages that a test specifies.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use isomer_db::{Map, Value, params};
use isomer_server::bolt::{
    packstream::{Reader, Writer},
    structure::Forms,
};

use crate::support::{PASSWORD, Server};

pub const HELLO: u8 = 0x01;
pub const GOODBYE: u8 = 0x02;
pub const RESET: u8 = 0x0f;
pub const RUN: u8 = 0x10;
pub const BEGIN: u8 = 0x11;
pub const COMMIT: u8 = 0x12;
pub const ROLLBACK: u8 = 0x13;
pub const DISCARD: u8 = 0x2f;
pub const PULL: u8 = 0x3f;
pub const ROUTE: u8 = 0x66;
pub const LOGON: u8 = 0x6a;
pub const LOGOFF: u8 = 0x6b;

const RECORD: u8 = 0x71;

/// The answer to a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Success(Map),
    Failure { code: String, message: String },
    Ignored,
}

impl Answer {
    pub fn success(self) -> Map {
        match self {
            Self::Success(map) => map,
            other => panic!("{other:?} is not a success"),
        }
    }

    pub fn code(&self) -> &str {
        match self {
            Self::Failure { code, .. } => code,
            Self::Success(_) => "success",
            Self::Ignored => "ignored",
        }
    }
}

/// A connection.
pub struct Driver {
    pub stream: TcpStream,
}

impl Driver {
    /// After the handshake for this version.
    pub fn connect(address: SocketAddr, (major, minor): (u8, u8)) -> Self {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        stream.set_nodelay(true).expect("set");
        let mut bytes = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, minor, major];
        bytes.resize(20, 0);
        stream.write_all(&bytes).expect("written");
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).expect("a version");
        assert_eq!(answer, [0, 0, minor, major]);
        Self { stream }
    }

    /// After `HELLO`, not authenticated.
    pub fn greeted(server: &Server) -> Self {
        let mut driver = Self::connect(server.bolt_address(), (5, 8));
        let hello = params! { "user_agent" => "test/1.0" };
        driver.ask(HELLO, &[hello.into()]).success();
        driver
    }

    /// Authenticated with the password of all test users.
    pub fn of(server: &Server, user: &str) -> Self {
        let mut driver = Self::greeted(server);
        let logon = params! { "scheme" => "basic", "principal" => user, "credentials" => PASSWORD };
        driver.ask(LOGON, &[logon.into()]).success();
        driver
    }

    pub fn send(&mut self, tag: u8, fields: &[Value]) {
        let message = message(tag, fields);
        self.stream.write_all(&message).expect("written");
    }

    /// Rows, and the summary after them; `None` if the connection has ended.
    pub fn receive(&mut self) -> Option<(Vec<Vec<Value>>, Answer)> {
        let mut rows = Vec::new();
        loop {
            let message = self.message()?;
            if message.get(1) != Some(&RECORD) {
                return Some((rows, answer_of(&message)));
            }
            let (_, fields) = fields_of(&message);
            rows.push(fields[0].as_list().expect("a list").to_vec());
        }
    }

    /// The summary after rows of any values: records are not read as parameters.
    pub fn summary(&mut self) -> Option<Answer> {
        loop {
            let message = self.message()?;
            if message.get(1) != Some(&RECORD) {
                return Some(answer_of(&message));
            }
        }
    }

    fn message(&mut self) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let mut size = [0; 2];
            self.stream.read_exact(&mut size).ok()?;
            let size = usize::from(u16::from_be_bytes(size));
            if size == 0 {
                return Some(message);
            }
            let start = message.len();
            message.resize(start + size, 0);
            self.stream.read_exact(&mut message[start..]).ok()?;
        }
    }

    /// Sends a message and reads its answer.
    pub fn ask(&mut self, tag: u8, fields: &[Value]) -> Answer {
        self.send(tag, fields);
        self.receive().expect("an answer").1
    }

    pub fn send_run(&mut self, query: &str, parameters: Map, extra: Map) {
        self.send(RUN, &[query.into(), parameters.into(), extra.into()]);
    }

    /// Runs a query and reads the names of its columns.
    pub fn open(&mut self, query: &str, extra: Map) {
        self.send_run(query, Map::new(), extra);
        self.receive().expect("an answer").1.success();
    }

    pub fn send_pull(&mut self, count: i64) {
        self.send(PULL, &[params! { "n" => count }.into()]);
    }

    /// Runs a query and reads all of its rows; returns the first failure, if any.
    pub fn run(&mut self, query: &str, extra: Map) -> (Vec<Vec<Value>>, Answer) {
        self.run_with(query, Map::new(), extra)
    }

    pub fn run_with(
        &mut self,
        query: &str,
        parameters: Map,
        extra: Map,
    ) -> (Vec<Vec<Value>>, Answer) {
        self.send_run(query, parameters, extra);
        self.send_pull(-1);
        let (_, run) = self.receive().expect("an answer");
        let (rows, pull) = self.receive().expect("an answer");
        match run {
            Answer::Success(_) => (rows, pull),
            failed => {
                assert_eq!(pull, Answer::Ignored);
                (Vec::new(), failed)
            }
        }
    }

    pub fn reset(&mut self) {
        assert_eq!(self.ask(RESET, &[]), Answer::Success(Map::new()));
    }

    /// Whether the server closes the connection in time without sending anything.
    pub fn has_ended(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => !is_waiting(&error),
        }
    }
}

/// The tag and the fields of a message.
fn fields_of(message: &[u8]) -> (u8, Vec<Value>) {
    let mut reader = Reader::new(message, 200, usize::MAX);
    let (tag, count) = reader.head().expect("a structure");
    let fields = (0..count).map(|_| reader.value().expect("a value"));
    (tag, fields.collect())
}

fn answer_of(message: &[u8]) -> Answer {
    let (tag, fields) = fields_of(message);
    let map = || fields[0].as_map().expect("a dictionary").clone();
    let text = |name: &str| {
        let map = map();
        let text = map.get(name).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    match tag {
        0x70 => Answer::Success(map()),
        0x7e => Answer::Ignored,
        _ => Answer::Failure {
            code: text("code").or(text("neo4j_code")).expect("a code"),
            message: text("message").expect("a message"),
        },
    }
}

/// Whether a connection is closed before the handshake is answered.
pub fn is_refused(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).expect("connected");
    let mut bytes = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 8, 5];
    bytes.resize(20, 0);
    // It may be closed already.
    let _ = stream.write_all(&bytes);
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).is_err()
}

/// Whether nothing has arrived in time, and the connection is still open.
pub fn is_waiting(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A message in chunks.
pub fn message(tag: u8, fields: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let forms = Forms {
        element_ids: true,
        utc: true,
    };
    let mut writer = Writer::new(&mut bytes, forms);
    writer.structure(tag, fields.len() as u8);
    fields.iter().for_each(|field| writer.value(field));
    let mut message = Vec::new();
    for chunk in bytes.chunks(60_000) {
        message.extend((chunk.len() as u16).to_be_bytes());
        message.extend_from_slice(chunk);
    }
    message.extend([0, 0]);
    message
}
