//! The front over HTTP: sessions, rights, ranges, the feed, and misbehaving clients.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use isomer_chat::{
    fill, front, http,
    store::{ChatStore, Id},
};
use serde_json::{Value, json};

/// Serves the store until the process ends.
fn start(store: Arc<dyn ChatStore>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let app = Arc::new(http::App::new(store).unwrap());
    std::thread::spawn(move || front::serve(&listener, &app));
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// A client: returns status, head and body of answers.
struct Client {
    address: SocketAddr,
    session: String,
}

impl Client {
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let text = body.map(|body| body.to_string()).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nCookie: other=1; chat_session={}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            self.session,
            text.len()
        );
        let (status, _, body) = raw(self.address, request.as_bytes());
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }
}

fn raw(address: SocketAddr, request: &[u8]) -> (u16, String, String) {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    let mut received = String::new();
    // The server may close before it has read everything: only its answer counts.
    let _ = stream.read_to_string(&mut received);
    let (head, body) = received.split_once("\r\n\r\n").unwrap_or((&received, ""));
    let status = head.get(9..12).and_then(|digits| digits.parse().ok());
    (status.unwrap_or(0), head.to_owned(), body.to_owned())
}

/// A store filled by `fill`, with a chat of one of its readers.
pub fn over_http(store: Arc<dyn ChatStore>, filled: Id) {
    let address = start(store);
    let reader = Client {
        address,
        session: fill::session(0),
    };
    let (status, list) = reader.ask("GET", "/api/chats", None);
    assert_eq!((status, list["chats"].as_array().unwrap().len()), (200, 20));
    let path = format!("/api/chats/{filled}/messages?from=2&to=9&n=2");
    let (_, some) = reader.ask("GET", &path, None);
    let ids: Vec<_> = some["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(ids, [2, 3]);

    let people = people(address);
    rights(&people, filled);
    feed(&people);
    bad_clients(address);
}

/// Signs up and logs in.
fn people(address: SocketAddr) -> [Client; 2] {
    let anonymous = Client {
        address,
        session: "guessed".into(),
    };
    assert_eq!(anonymous.ask("GET", "/api/session", None).0, 401);
    assert_eq!(anonymous.ask("GET", "/api/chats", None).0, 401);
    ["ada", "bob"].map(|name| {
        let right = json!({ "username": name, "password": "correct horse" });
        assert_eq!(anonymous.ask("POST", "/api/users", Some(right.clone())).0, 201);
        assert_eq!(anonymous.ask("POST", "/api/users", Some(right.clone())).0, 409);
        let wrong = json!({ "username": name, "password": "wrong horse" });
        assert_eq!(anonymous.ask("POST", "/api/session", Some(wrong)).0, 401);
        let body = right.to_string();
        let request = format!(
            "POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let (status, head, _) = raw(address, request.as_bytes());
        assert_eq!(status, 200);
        let cookie = head.lines().find_map(|line| line.strip_prefix("Set-Cookie: chat_session="));
        let (session, attributes) = cookie.unwrap().split_once(';').unwrap();
        assert!(attributes.contains("HttpOnly") && attributes.contains("SameSite=Strict"));
        Client {
            address,
            session: session.to_owned(),
        }
    })
}

fn rights([ada, bob]: &[Client; 2], foreign: Id) {
    let new = |name: &str, members: &[&str]| Some(json!({ "name": name, "members": members }));
    assert_eq!(
        ada.ask("POST", "/api/chats", new("us", &["missing"])).0,
        404
    );
    assert_eq!(ada.ask("POST", "/api/chats", new("", &["bob"])).0, 400);
    let (status, made) = ada.ask("POST", "/api/chats", new("us", &["bob"]));
    assert_eq!(status, 201);
    assert_eq!(bob.ask("POST", "/api/chats", new("we", &["ada"])).0, 409);
    // A repeated member counts once, and the chat is private.
    assert_eq!(
        ada.ask("POST", "/api/chats", new("us", &["bob", "bob"])).0,
        409
    );
    // U+0000 is refused for all stores.
    assert_eq!(ada.ask("POST", "/api/chats", new("a\0", &["bob"])).0, 400);
    assert_eq!(ada.ask("POST", "/api/chats", new("a", &["bob\0"])).0, 400);
    let chat = format!("/api/chats/{}", made["id"]);
    let other = format!("/api/chats/{foreign}");
    for path in [
        &other,
        &format!("{other}/messages"),
        &format!("{other}/members"),
        &format!("{other}/feed"),
    ] {
        assert_eq!(ada.ask("GET", path, None).0, 403, "{path}");
    }
    let text = |text: &str| Some(json!({ "text": text }));
    assert_eq!(
        ada.ask("POST", &format!("{other}/messages"), text("hello"))
            .0,
        403
    );
    assert_eq!(
        ada.ask("POST", &format!("{chat}/messages"), text("")).0,
        400
    );
    assert_eq!(
        ada.ask(
            "POST",
            &format!("{chat}/messages"),
            text(&"a".repeat(4_001))
        )
        .0,
        400
    );
    assert_eq!(
        bob.ask("DELETE", &chat, None).0,
        403,
        "he is not the creator"
    );
    let (_, members) = bob.ask("GET", &format!("{chat}/members"), None);
    let names: Vec<_> = members["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["username"].clone())
        .collect();
    assert_eq!(names, ["ada", "bob"]);
    let bob_id = &members["members"][1]["id"];
    let ada_id = &members["members"][0]["id"];
    let leave = format!("{chat}/members/{ada_id}");
    assert_eq!(ada.ask("DELETE", &leave, None).0, 409, "the creator stays");
    assert_eq!(
        ada.ask("DELETE", &format!("{chat}/members/{bob_id}"), None)
            .0,
        204
    );
    assert_eq!(bob.ask("GET", &chat, None).0, 403);
    let back = Some(json!({ "username": "bob" }));
    assert_eq!(
        ada.ask("POST", &format!("{chat}/members"), back.clone()).0,
        201
    );
    assert_eq!(ada.ask("POST", &format!("{chat}/members"), back).0, 409);
    for path in [
        "/api/chats/x",
        "/api/chats/99999999999999999999",
        "/api/nothing",
        "//",
    ] {
        assert_eq!(ada.ask("GET", path, None).0, 404, "{path}");
    }
    assert_eq!(
        ada.ask("GET", &format!("{chat}/messages?n=-1"), None).0,
        400
    );
    assert_eq!(ada.ask("PATCH", &chat, None).0, 405);
    assert_eq!(ada.ask("DELETE", &chat, None).0, 204);
    assert_eq!(ada.ask("GET", &chat, None).0, 403);
}

/// An event stream.
struct Feed(BufReader<TcpStream>);

impl Feed {
    fn open(client: &Client, path: &str, last: Option<u64>) -> Self {
        let mut stream = connect(client.address);
        let resumed = last
            .map(|last| format!("Last-Event-ID: {last}\r\n"))
            .unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nSession: {}\r\n{resumed}\r\n",
            client.session
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut feed = Self(BufReader::new(stream));
        assert!(feed.line().unwrap().starts_with("HTTP/1.1 200"));
        while !feed.line().unwrap().is_empty() {}
        feed
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.0.read_line(&mut line).unwrap();
        (count > 0).then(|| line.trim_end().to_owned())
    }

    fn next(&mut self) -> Option<(u64, String)> {
        loop {
            let line = self.line()?;
            if let Some(data) = line.strip_prefix("data: ") {
                let message: Value = serde_json::from_str(data).unwrap();
                return Some((
                    message["id"].as_u64().unwrap(),
                    message["text"].as_str().unwrap().to_owned(),
                ));
            }
        }
    }
}

fn feed([ada, bob]: &[Client; 2]) {
    let new = json!({ "name": "live", "members": ["bob"] });
    let chat = format!(
        "/api/chats/{}",
        ada.ask("POST", "/api/chats", Some(new)).1["id"]
    );
    let say = |client: &Client, text: &str| {
        let said = client.ask(
            "POST",
            &format!("{chat}/messages"),
            Some(json!({ "text": text })),
        );
        assert_eq!(said.0, 201);
    };
    say(ada, "before");
    let mut heard = Feed::open(bob, &format!("{chat}/feed"), None);
    let mut all = Feed::open(bob, &format!("{chat}/feed?after=0"), None);
    assert_eq!(all.next(), Some((1, "before".into())));
    for at in 2..=20 {
        say(if at % 2 == 0 { ada } else { bob }, &format!("text\n{at}"));
    }
    for feed in [&mut heard, &mut all] {
        for at in 2..=20 {
            assert_eq!(feed.next(), Some((at, format!("text\n{at}"))));
        }
    }
    // A reconnecting browser sends the last number that it has.
    let mut resumed = Feed::open(bob, &format!("{chat}/feed?after=0"), Some(18));
    assert_eq!(resumed.next().map(|(id, _)| id), Some(19));
    // A removed member receives nothing more.
    let members = ada.ask("GET", &format!("{chat}/members"), None).1;
    let bob_id = &members["members"][1]["id"];
    let ada_id = &members["members"][0]["id"];
    let leave = format!("{chat}/members/{ada_id}");
    assert_eq!(ada.ask("DELETE", &leave, None).0, 409, "the creator stays");
    assert_eq!(
        ada.ask("DELETE", &format!("{chat}/members/{bob_id}"), None)
            .0,
        204
    );
    say(ada, "alone");
    assert_eq!(heard.next(), None);
}

fn bad_clients(address: SocketAddr) {
    let status = |request: &str| raw(address, request.as_bytes()).0;
    assert_eq!(status("hello\r\n\r\n"), 400);
    assert_eq!(
        status("POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n"),
        413
    );
    assert_eq!(
        status(
            "POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
        ),
        400
    );
    assert_eq!(
        status(
            "POST /api/session HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        501
    );
    assert_eq!(
        status(&format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "a".repeat(20_000)
        )),
        431
    );
    let form = "username=ada&password=correct";
    let posted = format!(
        "POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
        form.len()
    );
    assert_eq!(status(&posted), 415, "another site's form can send this");
    let deep = format!("{{\"username\":{}", "[".repeat(30_000));
    let posted = format!(
        "POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{deep}",
        deep.len()
    );
    assert_eq!(status(&posted), 400);
    // Pipelined requests, and one request in many pieces.
    let mut stream = connect(address);
    stream
        .write_all(
            b"GET /page.css HTTP/1.1\r\nHost: a\r\n\r\nGET /page.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 2);
    let mut stream = connect(address);
    for piece in [
        "GET /page.c",
        "ss HTTP/1.1\r\nHost: a\r\nConnec",
        "tion: close\r\n",
        "\r\n",
    ] {
        stream.write_all(piece.as_bytes()).unwrap();
        // The server reads each piece alone; a client cannot see when it has.
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    assert!(received.starts_with("HTTP/1.1 200 OK"));
}
