//! The transport of the front: HTTP/1.1 with a thread for each connection, because all four stores block.
//!
//! A thread reads a request, has it answered and goes on with the next one; nothing is handed to another thread, so what the
//! front costs is small and the same for every store. Everything that a client sends has a limit in size and in time.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Most bytes of a request's line and fields.
const MOST_HEAD: usize = 16 << 10;
/// Most bytes of a request's body.
const MOST_BODY: usize = 64 << 10;
/// Most fields of a request.
const MOST_FIELDS: usize = 64;
/// Most connections at once.
const MOST_CONNECTIONS: usize = 1_000;
/// How long a connection may be silent between two requests.
const IDLE: Duration = Duration::from_secs(60);
/// How long a request may take to arrive once it has begun.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How long a client may take nothing of its answer.
const TAKING: Duration = Duration::from_secs(20);
/// How often a silent stream of events says that it is there.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a client asks.
pub struct Request<'b> {
    /// `GET`, `POST`, …
    pub method: &'b str,
    /// Up to the question mark.
    pub path: &'b str,
    /// What comes after it.
    pub query: &'b str,
    /// All of it.
    pub body: &'b [u8],
    /// Where it comes from.
    pub from: IpAddr,
    fields: &'b [httparse::Header<'b>],
}

impl<'b> Request<'b> {
    /// A field of the head; its name in lower case or not.
    pub fn field(&self, name: &str) -> Option<&'b str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    }

    /// A parameter of the query, as it stands there: for numbers and words.
    pub fn parameter(&self, name: &str) -> Option<&'b str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// An answer that is complete.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// More fields.
    pub fields: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Answers, piece by piece, on the connection's own thread; an error ends the connection.
pub type Events = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// What a request leads to.
pub enum Reply {
    /// An answer.
    Whole(Answer),
    /// Server-sent events until one side ends it.
    Events(Events),
}

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, request: &Request<'_>) -> Reply;
}

/// Serves connections until accepting them fails for good.
pub fn serve(listener: &TcpListener, handler: &Arc<impl Handler>) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) if is_passing(&error) => {
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            Err(error) => return Err(error),
        };
        let place = Place::take(&open);
        let handler = handler.clone();
        let Ok(peer) = stream.peer_addr() else {
            continue; // it is gone already
        };
        let spawned = thread::Builder::new().spawn(move || {
            let mut connection = Connection {
                stream,
                from: peer.ip(),
                buffer: Vec::with_capacity(4 << 10),
                out: Vec::with_capacity(4 << 10),
            };
            let outcome = match place {
                Some(_) => connection.run(&*handler),
                None => connection.refuse(503, "too many connections: try again later"),
            };
            // The client is gone, or was told: nobody is left to tell.
            drop(outcome);
        });
        if let Err(error) = spawned {
            eprintln!("no thread for another connection: {error}");
        }
    }
    Ok(())
}

/// Whether accepting may succeed later: the client was gone already, or too many files are open.
fn is_passing(error: &io::Error) -> bool {
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    ) || error
        .raw_os_error()
        .is_some_and(|code| TOO_MANY_FILES.contains(&code))
}

/// A place among the connections, given back at its end.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(open.clone());
        (open.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Connection {
    stream: TcpStream,
    from: IpAddr,
    /// What came and was not answered yet.
    buffer: Vec<u8>,
    /// The answer that is being made.
    out: Vec<u8>,
}

/// A head that has come whole.
struct Head {
    bytes: usize,
    body: usize,
    keep: bool,
    waits: bool,
}

/// Why a head cannot be read further.
enum Stop {
    /// It has not come whole.
    Partial,
    /// It is refused.
    Refused(u16, &'static str),
}

impl Connection {
    fn run(&mut self, handler: &dyn Handler) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_write_timeout(Some(TAKING))?;
        self.stream.set_read_timeout(Some(IDLE))?;
        loop {
            if self.buffer.is_empty() && self.read()? == 0 {
                return Ok(());
            }
            let mut arriving: Option<Instant> = None;
            let head = loop {
                match head(&self.buffer) {
                    Ok(head) => break head,
                    Err(Stop::Refused(status, text)) => return self.refuse(status, text),
                    Err(Stop::Partial) if self.buffer.len() >= MOST_HEAD => {
                        return self.refuse(431, "the head has more than 16 KiB");
                    }
                    Err(Stop::Partial) => self.read_in_time(&mut arriving)?,
                }
            };
            if head.waits && self.buffer.len() == head.bytes {
                self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let end = head.bytes + head.body;
            while self.buffer.len() < end {
                self.read_in_time(&mut arriving)?;
            }
            if arriving.is_some() {
                self.stream.set_read_timeout(Some(IDLE))?;
            }
            if !self.answer(handler, &head)? {
                return Ok(());
            }
            self.buffer.drain(..end);
        }
    }

    /// Answers the request at the front of the buffer; whether the connection goes on.
    fn answer(&mut self, handler: &dyn Handler, head: &Head) -> io::Result<bool> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        if parsed.parse(&self.buffer[..head.bytes]).is_err() {
            return Ok(false);
        }
        let target = parsed.path.unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let reply = handler.answer(&Request {
            from: self.from,
            method: parsed.method.unwrap_or_default(),
            path,
            query,
            body: &self.buffer[head.bytes..head.bytes + head.body],
            fields: parsed.headers,
        });
        match reply {
            Reply::Whole(answer) => {
                write_answer(&mut self.out, &answer, head.keep);
                self.stream.write_all(&self.out)?;
                Ok(head.keep)
            }
            Reply::Events(run) => {
                self.stream.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
                )?;
                run(&mut self.stream)?;
                Ok(false)
            }
        }
    }

    fn refuse(&mut self, status: u16, text: &str) -> io::Result<()> {
        let body = serde_json::json!({ "error": text })
            .to_string()
            .into_bytes();
        let answer = Answer {
            status,
            content_type: "application/json",
            fields: Vec::new(),
            body,
        };
        write_answer(&mut self.out, &answer, false);
        self.stream.set_write_timeout(Some(TAKING))?;
        self.stream.write_all(&self.out)
    }

    /// Reads what is there, or waits for it; the end of the stream is 0.
    fn read(&mut self) -> io::Result<usize> {
        let mut piece = [0; 8 << 10];
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Reads more of a request that has begun.
    fn read_in_time(&mut self, arriving: &mut Option<Instant>) -> io::Result<()> {
        let began = *arriving.get_or_insert_with(Instant::now);
        let left = ARRIVAL
            .checked_sub(began.elapsed())
            .filter(|left| !left.is_zero())
            .ok_or(io::ErrorKind::TimedOut)?;
        self.stream.set_read_timeout(Some(left))?;
        match self.read()? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Looks whether a head is whole, and how long its body is.
fn head(buffer: &[u8]) -> Result<Head, Stop> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let bytes = match request.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= MOST_HEAD => bytes,
        Ok(httparse::Status::Complete(_)) => {
            return Err(Stop::Refused(431, "the head has more than 16 KiB"));
        }
        Ok(httparse::Status::Partial) => return Err(Stop::Partial),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Stop::Refused(431, "the head has more than 64 fields"));
        }
        Err(_) => return Err(Stop::Refused(400, "this is no HTTP/1.1")),
    };
    let mut head = Head {
        bytes,
        body: 0,
        keep: request.version == Some(1),
        waits: false,
    };
    let mut length = None;
    for field in &*request.headers {
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = std::str::from_utf8(field.value).unwrap_or_default();
            // Two lengths are how requests are smuggled; `+1` and ` 1` are no lengths.
            if length.is_some() || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())
            {
                return Err(Stop::Refused(400, "the length of the body is unclear"));
            }
            length = Some(digits.parse::<usize>().unwrap_or(usize::MAX));
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Stop::Refused(501, "bodies come with a Content-Length here"));
        } else if field.name.eq_ignore_ascii_case("connection") {
            head.keep &= !field.value.eq_ignore_ascii_case(b"close");
        } else if field.name.eq_ignore_ascii_case("expect") {
            head.waits = field.value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    head.body = length.unwrap_or(0);
    if head.body > MOST_BODY {
        return Err(Stop::Refused(413, "the body has more than 64 KiB"));
    }
    Ok(head)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

fn write_answer(out: &mut Vec<u8>, answer: &Answer, keep: bool) {
    out.clear();
    // Writing into memory does not fail.
    let _ = write!(
        out,
        "HTTP/1.1 {} {}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
        answer.status,
        reason(answer.status)
    );
    for (name, value) in &answer.fields {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if answer.status != 204 {
        let _ = write!(
            out,
            "Content-Type: {}\r\nContent-Length: {}\r\n",
            answer.content_type,
            answer.body.len()
        );
    }
    out.extend_from_slice(if keep {
        b"\r\n"
    } else {
        b"Connection: close\r\n\r\n"
    });
    out.extend_from_slice(&answer.body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> u16 {
        match head(text.as_bytes()) {
            Err(Stop::Refused(status, _)) => status,
            Err(Stop::Partial) => 0,
            Ok(_) => 200,
        }
    }

    #[test]
    fn heads_are_whole_or_not_or_refused() {
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n"), 0);
        assert_eq!(refused("hello\0there\r\n\r\n"), 400);
        let with = |field: &str| format!("POST / HTTP/1.1\r\n{field}\r\n\r\n");
        assert_eq!(refused(&with("Content-Length: 65536")), 200);
        assert_eq!(refused(&with("Content-Length: 65537")), 413);
        assert_eq!(
            refused(&with("Content-Length: 99999999999999999999999")),
            413
        );
        assert_eq!(refused(&with("Content-Length: +1")), 400);
        assert_eq!(
            refused(&with("Content-Length: 1\r\nContent-Length: 2")),
            400
        );
        assert_eq!(refused(&with("Transfer-Encoding: chunked")), 501);
        let many: String = (0..65).map(|at| format!("a{at}: b\r\n")).collect();
        assert_eq!(refused(&with(many.trim_end())), 431);
        assert_eq!(
            refused(&with(&format!("a: {}", "b".repeat(MOST_HEAD)))),
            431
        );
    }

    #[test]
    fn a_head_says_how_long_its_body_is_and_whether_more_requests_follow() {
        let Ok(told) =
            head(b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello")
        else {
            panic!("the head is whole");
        };
        assert_eq!((told.body, told.keep, told.waits), (5, true, true));
        for closing in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: Close\r\n\r\n",
        ] {
            assert!(head(closing.as_bytes()).is_ok_and(|head| !head.keep));
        }
    }
}
