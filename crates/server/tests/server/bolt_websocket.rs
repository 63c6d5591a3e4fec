//! Bolt over WebSocket, as drivers in browsers use it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use isomer_db::{Value, params};

use crate::{
    driver::{HELLO, LOGON, PULL, RUN, message},
    support::{PASSWORD, Server},
};

const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// Sends a request to upgrade with more fields; returns the connection and the head of the answer, which is empty if
/// the server closes without one.
fn ask(address: SocketAddr, fields: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        answer.push(byte[0]);
    }
    (stream, String::from_utf8(answer).expect("text"))
}

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn send(stream: &mut TcpStream, first: u8, data: &[u8]) {
    let mut frame = vec![first];
    match u8::try_from(data.len()) {
        Ok(short @ ..126) => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        }
    }
    let mask = [9, 8, 7, 6];
    frame.extend(mask);
    frame.extend(
        data.iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    stream.write_all(&frame).expect("sent");
}

fn receive(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame");
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes).expect("a length");
        length = usize::from(u16::from_be_bytes(bytes));
    }
    assert!(length < 126 << 10, "{length}");
    let mut data = vec![0; length];
    stream.read_exact(&mut data).expect("data");
    (head[0], data)
}

/// Reads frames of data until `bytes` end with the end of a message.
fn answer(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(&[0, 0]) {
        let (first, data) = receive(stream);
        assert_eq!(first, BINARY);
        bytes.extend(data);
    }
    bytes
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn a_driver_logs_in_and_runs_statements() {
    let server = Server::new();
    let (mut stream, head) = ask(server.bolt_address(), UPGRADE);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{head}"
    );
    let mut shake = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 8, 5];
    shake.resize(20, 0);
    // In two messages, the second one in two frames.
    send(&mut stream, BINARY, &shake[..3]);
    send(&mut stream, 0x02, &shake[3..7]);
    send(&mut stream, PING, b"there?");
    send(&mut stream, 0x80, &shake[7..]);
    assert_eq!(receive(&mut stream), (PONG, b"there?".to_vec()));
    assert_eq!(receive(&mut stream), (BINARY, vec![0, 0, 8, 5]));
    let hello = params! { "user_agent" => "test/1.0" };
    send(&mut stream, BINARY, &message(HELLO, &[hello.into()]));
    assert!(has(&answer(&mut stream), "connection_id"));
    let logon = params! { "scheme" => "basic", "principal" => "admin", "credentials" => PASSWORD };
    send(&mut stream, BINARY, &message(LOGON, &[logon.into()]));
    answer(&mut stream);
    let none: Value = params! {}.into();
    let run = message(
        RUN,
        &[
            "UNWIND range(1, 20000) AS n RETURN 'row ' + n AS text".into(),
            none.clone(),
            none,
        ],
    );
    send(&mut stream, BINARY, &run);
    send(
        &mut stream,
        BINARY,
        &message(PULL, &[params! { "n" => -1 }.into()]),
    );
    let mut all = Vec::new();
    while !has(&all, "t_last") {
        all.extend(answer(&mut stream));
    }
    assert!(has(&all, "row 1") && has(&all, "row 20000"));
    send(&mut stream, CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(
        receive(&mut stream),
        (CLOSE, 1000_u16.to_be_bytes().to_vec())
    );
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
}

#[test]
fn other_requests_are_refused() {
    let server = Server::new();
    for (fields, status) in [
        ("", "426"),
        ("Upgrade: h2c\r\nConnection: Upgrade\r\n", "426"),
        (&UPGRADE.replace("Version: 13", "Version: 8"), "426"),
        (
            &UPGRADE.replace("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
            "400",
        ),
        (&format!("{UPGRADE}no field\r\n"), "400"),
    ] {
        let (mut stream, head) = ask(server.bolt_address(), fields);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{fields}: {head}"
        );
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("the end");
        assert!(!rest.is_empty(), "{fields}");
    }
    let (mut stream, head) = ask(
        server.bolt_address(),
        &format!("X: {}\r\n", "x".repeat(1 << 20)),
    );
    assert!(head.is_empty(), "{head}");
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
}

/// With a password any page may connect, without one only pages of this machine.
#[test]
fn pages_of_other_hosts_are_refused_without_authentication() {
    let from = |origin: &str| format!("{UPGRADE}Origin: {origin}\r\n");
    let server = Server::new();
    let (_, head) = ask(server.bolt_address(), &from("https://example.org"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");

    let open = Server::with(&[("without_authentication", "true")]);
    for (origin, status) in [
        ("https://example.org", "403"),
        ("null", "403"),
        ("http://localhost.example.org", "403"),
        ("http://localhost:3000", "101"),
        ("http://127.0.0.1", "101"),
    ] {
        let (_, head) = ask(open.bolt_address(), &from(origin));
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{origin}: {head}"
        );
    }
    let (_, head) = ask(open.bolt_address(), UPGRADE);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}
