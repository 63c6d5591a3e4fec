//! Two servers behind one port of HTTP and one of Bolt, on one database: what belongs to one of them, and what both
//! know.

#![cfg(target_os = "linux")]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Duration,
};

use crate::{
    shared::{Server, ask, query},
    support::Folder,
};

const PASSWORD: &str = "a long password";
/// Connections until both servers have surely had some: the system chooses by the client's port.
const CONNECTIONS: usize = 40;

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("its address").port()
}

/// Two servers with the same ports: HTTP and Bolt.
fn two_servers(folder: &Folder) -> (Server, Server, u16) {
    folder.good(&["share", "db"]);
    let (http, bolt) = (free_port(), free_port());
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args(["--memory", "128MiB", "serve", "db", "--reuse-port"])
            .args(["--listen", &format!("127.0.0.1:{http}")])
            .args(["--set", &format!("bolt=127.0.0.1:{bolt}")])
            .args(["--set", "log.format=json"])
            .env("ISOMER_ADMIN_PASSWORD", PASSWORD)
            .current_dir(folder.root());
        Server::start(&mut command)
    };
    (start(), start(), bolt)
}

fn login(port: u16) -> String {
    let body = format!(r#"{{"user": "admin", "password": "{PASSWORD}"}}"#);
    let (status, body) = ask(port, "", "POST", "/v1/login", &body).expect("an answer");
    assert_eq!(status, 200, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    body["token"].as_str().expect("a token").to_owned()
}

/// A transaction over several requests belongs to the server that began it; the other one says what to do.
#[test]
fn a_transaction_of_another_server_is_explained() {
    let folder = Folder::new();
    let (first, _second, _) = two_servers(&folder);
    let token = login(first.port);
    let path = "/v1/databases/db/tx";
    let (status, body) = ask(first.port, &token, "POST", path, "{}").expect("an answer");
    assert_eq!(status, 201, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let transaction = body["transaction"].as_str().expect("its name");
    let path = format!("{path}/{transaction}/query");
    let (mut own, mut others) = (0, 0);
    for _ in 0..CONNECTIONS {
        let create = r#"{"query": "CREATE (:N)"}"#;
        match ask(first.port, &token, "POST", &path, create).expect("an answer") {
            (200, _) => own += 1,
            (404, body) => {
                assert!(
                    body.contains("belongs to another server of this database"),
                    "{body}"
                );
                others += 1;
            }
            (status, body) => panic!("{status}: {body}"),
        }
    }
    assert!(own > 0 && others > 0, "{own} and {others}");
    let path = format!("/v1/databases/db/tx/{transaction}/commit");
    let committed = (0..CONNECTIONS).any(|_| {
        let (status, _) = ask(first.port, &token, "POST", &path, "").expect("an answer");
        status == 200
    });
    assert!(committed);
    // Both know what was committed.
    for _ in 0..CONNECTIONS {
        let count = r#"{"query": "MATCH (n:N) RETURN count(n)"}"#;
        let (_, body) = query(first.port, &token, count).expect("an answer");
        assert!(body.contains(&format!("[{own}]")), "{body}");
    }
}

/// A connection of Bolt stays with its server, so that transactions and results over several messages work.
#[test]
fn transactions_over_bolt_work_on_each_connection() {
    let folder = Folder::new();
    let (first, mut second, bolt) = two_servers(&folder);
    let token = login(first.port);
    let mut connections: Vec<_> = (0..CONNECTIONS / 2).map(|_| Bolt::connect(bolt)).collect();
    for (at, connection) in connections.iter_mut().enumerate() {
        connection.begin();
        connection.run_within(&format!("CREATE (:B {{_key: '{at}'}})"));
        connection.run_within("UNWIND range(1, 100) AS n RETURN n");
        connection.commit();
    }
    let count = r#"{"query": "MATCH (n:B) RETURN count(n)"}"#;
    for connection in &mut connections {
        connection.run("MATCH (n:B) RETURN count(n)");
    }
    let (_, body) = query(first.port, &token, count).expect("an answer");
    assert!(body.contains(&format!("[{}]", connections.len())), "{body}");
    // The end of one server ends its connections, and new ones go to the other.
    second.kill();
    let mut connection = Bolt::connect(bolt);
    connection.run("CREATE (:B)");
    let (_, body) = query(first.port, &token, count).expect("an answer");
    let expected = format!("[{}]", connections.len() + 1);
    assert!(body.contains(&expected), "{body}");
}

/// A client of Bolt 5.4 that sends one message after the other.
struct Bolt(TcpStream);

impl Bolt {
    fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let timeout = Some(Duration::from_secs(20));
        stream.set_read_timeout(timeout).expect("no error");
        let mut hello = vec![0x60, 0x60, 0xB0, 0x17, 0, 0, 4, 5];
        hello.resize(20, 0);
        stream.write_all(&hello).expect("sent");
        let mut version = [0; 4];
        stream.read_exact(&mut version).expect("a version");
        assert_eq!(version, [0, 0, 4, 5]);
        let mut client = Self(stream);
        client.call(
            &[
                &[0xB1, 0x01, 0xA1],
                &string("user_agent")[..],
                &string("test/1"),
            ]
            .concat(),
        );
        let login = [
            &[0xB1, 0x6A, 0xA3][..],
            &string("scheme"),
            &string("basic"),
            &string("principal"),
            &string("admin"),
            &string("credentials"),
            &string(PASSWORD),
        ];
        client.call(&login.concat());
        client
    }

    fn begin(&mut self) {
        self.call(&[&[0xB1, 0x11, 0xA1][..], &string("db"), &string("db")].concat());
    }

    /// Runs a statement, and takes all its rows.
    fn run(&mut self, statement: &str) {
        let database = [&[0xA1][..], &string("db"), &string("db")].concat();
        self.statement(statement, &database);
    }

    /// The same in the transaction of the connection.
    fn run_within(&mut self, statement: &str) {
        self.statement(statement, &[0xA0]);
    }

    fn statement(&mut self, statement: &str, options: &[u8]) {
        self.call(&[&[0xB3, 0x10][..], &string(statement), &[0xA0], options].concat());
        self.call(&[&[0xB1, 0x3F, 0xA1][..], &string("n"), &[0xFF]].concat());
    }

    fn commit(&mut self) {
        self.call(&[0xB0, 0x12]);
    }

    /// Sends a message, and reads its answers up to the last one, which must be a success.
    fn call(&mut self, message: &[u8]) {
        let mut chunk = (message.len() as u16).to_be_bytes().to_vec();
        chunk.extend_from_slice(message);
        chunk.extend_from_slice(&[0, 0]);
        self.0.write_all(&chunk).expect("sent");
        loop {
            let answer = self.message();
            match answer.get(1) {
                Some(0x71) => {}
                Some(0x70) => return,
                _ => panic!("{}", String::from_utf8_lossy(&answer)),
            }
        }
    }

    fn message(&mut self) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            let mut length = [0; 2];
            self.0.read_exact(&mut length).expect("an answer");
            match usize::from(u16::from_be_bytes(length)) {
                0 if message.is_empty() => {}
                0 => return message,
                length => {
                    let begun = message.len();
                    message.resize(begun + length, 0);
                    self.0.read_exact(&mut message[begun..]).expect("an answer");
                }
            }
        }
    }
}

/// A text in PackStream, of less than 256 bytes.
fn string(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short text");
    let mut bytes = match length {
        0..16 => vec![0x80 + length],
        _ => vec![0xD0, length],
    };
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
