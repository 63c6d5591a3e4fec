//! The front without a store: one worker, many connections, pending answers.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use isomer_chat::{
    front::{self, Answer, Handler, Reply, Request},
    later,
};

/// More than the socket buffers of both sides.
const LARGE: usize = 16 << 20;

/// Answers according to its path.
struct Paths;

fn text(text: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status: 200,
        content_type: "text/plain",
        fields: Vec::new(),
        body: text.into(),
    }
}

/// Answers from another thread.
fn after(time: Duration, answer: impl FnOnce() -> Answer + Send + 'static) -> Reply {
    let answer = later::on_thread(move || {
        // Computing the answer takes this long.
        thread::sleep(time);
        answer()
    });
    Reply::Later(Box::pin(async {
        answer.unwrap().await.unwrap_or_else(|_| Answer::failed())
    }))
}

impl Handler for Paths {
    fn answer(&self, request: &Request<'_>) -> Reply {
        let own = request.path.to_owned();
        match request.path {
            "/large" => Reply::Whole(text(vec![b'a'; LARGE])),
            "/shares" => Reply::Whole(text(request.shares_worker.to_string())),
            "/at-once" => Reply::Later(Box::pin(async { text(own) })),
            "/later" => after(Duration::from_millis(200), move || text(own)),
            "/dropped" => after(Duration::ZERO, || panic!("a bug of another thread")),
            "/bug" => panic!("a bug of the handler"),
            "/later-bug" => Reply::Later(Box::pin(async { panic!("a bug of what comes later") })),
            "/events" => Reply::Events(Box::new(|out| {
                for _ in 0..3 {
                    out.write_all(b"data: a\n\n")?;
                    // Events come one by one.
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            })),
            "/echo" => Reply::Whole(text(request.body)),
            _ => Reply::Whole(text(own)),
        }
    }

    fn workers(&self) -> usize {
        1
    }
}

fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || front::serve(&listener, &Arc::new(Paths)));
    address
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    fn ask(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }

    /// The next answer: status and body.
    fn answer(&mut self) -> (u16, String) {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "it is closed");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let length = |line: &String| line.strip_prefix("Content-Length: ")?.parse().ok();
        let length: usize = lines.iter().find_map(length).unwrap_or(0);
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    fn get(&mut self, path: &str) -> (u16, String) {
        self.ask(path);
        self.answer()
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0))
    }
}

fn ok(path: &str) -> (u16, String) {
    (200, path.to_owned())
}

#[test]
fn a_slow_reader_of_a_large_answer_delays_no_other_client_and_gets_all_of_it() {
    let address = start();
    let (mut slow, mut quick) = (Client::new(address), Client::new(address));
    slow.ask("/large");
    slow.ask("/after");
    // The server fills the socket and waits for room; a client cannot see when it does.
    thread::sleep(Duration::from_millis(100));
    for _ in 0..100 {
        assert_eq!(quick.get("/quick"), ok("/quick"));
    }
    let (status, body) = slow.answer();
    assert_eq!((status, body.len()), (200, LARGE));
    assert_eq!(slow.answer(), ok("/after"));
}

#[test]
fn requests_of_a_connection_are_answered_in_order_although_one_is_pending() {
    let mut client = Client::new(start());
    let paths = ["/a", "/later", "/b", "/at-once", "/dropped", "/c"];
    let asked = paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.send(&asked.concat());
    for path in paths {
        let (status, body) = client.answer();
        match path {
            "/dropped" => assert_eq!(status, 500),
            _ => assert_eq!((status, &*body), (200, path)),
        }
    }
    // The client closed its sending side, not the one that it reads from.
    client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n");
    client
        .0
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    assert_eq!(client.answer(), ok("/later"));
    assert_eq!(client.answer(), ok("/d"));
    assert!(client.is_closed());
}

#[test]
fn a_worker_answers_other_requests_while_one_is_pending() {
    let address = start();
    let (mut later, mut other) = (Client::new(address), Client::new(address));
    assert_eq!(other.get("/first"), ok("/first"));
    later.ask("/later");
    later.0.get_ref().set_nonblocking(true).unwrap();
    assert_eq!(other.get("/other"), ok("/other"));
    let early = later.0.fill_buf().unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    later.0.get_ref().set_nonblocking(false).unwrap();
    assert_eq!(later.answer(), ok("/later"));
    // A client that has disconnected affects no other client.
    later.ask("/later");
    drop(later);
    // The worker drops what the answer shared when it is computed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while other.get("/shares") != ok("false") {
        assert!(Instant::now() < deadline, "the lost answer is still there");
    }
}

#[test]
fn a_panic_of_the_handler_ends_only_its_request() {
    let address = start();
    let (mut met, mut other) = (Client::new(address), Client::new(address));
    assert_eq!(met.get("/later-bug").0, 500);
    assert_eq!(met.get("/bug").0, 500);
    assert!(met.is_closed());
    assert_eq!(other.get("/other"), ok("/other"));
}

#[test]
fn hundreds_of_idle_connections_and_a_busy_one() {
    let address = start();
    let mut busy = Client::new(address);
    assert_eq!(busy.get("/shares"), ok("false"));
    let mut idle: Vec<Client> = (0..300).map(|_| Client::new(address)).collect();
    for client in &mut idle {
        // Some have sent a request before, and some have begun one.
        client.send("GET /idle HTTP/1.1\r\nHost: a\r\n\r\nGET /i");
    }
    for _ in 0..1_000 {
        assert_eq!(busy.get("/busy"), ok("/busy"));
    }
    assert_eq!(busy.get("/shares"), ok("true"));
    for client in &mut idle {
        assert_eq!(client.answer(), ok("/idle"));
        client.send("dle HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer(), ok("/idle"));
        assert!(client.is_closed());
    }
    assert_eq!(busy.get("/busy"), ok("/busy"));
}

#[test]
fn expect_continue_is_answered_and_the_pieces_of_a_body_are_joined() {
    let mut client = Client::new(start());
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 50000\r\n\r\n",
    );
    assert_eq!(client.answer(), (100, String::new()));
    for _ in 0..50 {
        client.send(&"b".repeat(1_000));
    }
    assert_eq!(client.answer(), (200, "b".repeat(50_000)));
    assert_eq!(client.get("/after"), ok("/after"));
}

#[test]
fn events_leave_the_worker() {
    let address = start();
    let (mut events, mut other) = (Client::new(address), Client::new(address));
    events.ask("/events");
    assert_eq!(events.answer(), (200, String::new()));
    assert_eq!(other.get("/shares"), ok("false"));
    let mut received = String::new();
    events.0.read_to_string(&mut received).unwrap();
    assert_eq!(received, "data: a\n\n".repeat(3));
}
