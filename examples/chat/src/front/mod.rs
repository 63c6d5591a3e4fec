//! HTTP/1.1 transport over a few threads, each of which serves many connections.
//!
//! A worker polls the kernel for readable connections, has their requests answered by the handler on its own thread,
//! one after the other, and writes the answers. Slow answers are completed later by other threads; an event stream
//! has its own thread. Everything that a client sends is limited in size and time.

mod connection;
mod head;
mod polling;
mod worker;

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use worker::Worker;

use crate::later::Later;

/// Maximum size of a request's line and fields.
const MOST_HEAD: usize = 16 << 10;
/// Maximum size of a request's body.
const MOST_BODY: usize = 64 << 10;
/// Maximum number of a request's fields.
const MOST_FIELDS: usize = 64;
/// Maximum number of connections.
const MOST_CONNECTIONS: usize = 1_000;
/// Time limit for idle connections between two requests.
const IDLE: Duration = Duration::from_secs(60);
/// Time limit for a request to arrive once it has begun.
const ARRIVAL: Duration = Duration::from_secs(10);
/// Time for which a client may read nothing of its answer.
const TAKING: Duration = Duration::from_secs(20);
/// Additional time in total, per this number of bytes.
const TAKING_MORE: (Duration, usize) = (Duration::from_secs(1), 64 << 10);
/// Maximum bytes of large unsent answers ...
const MOST_UNTAKEN: usize = 128 << 20;
/// ... and of those for one address.
const MOST_OF_ONE: usize = 16 << 20;
/// Open files reserved for the store and everything else.
const OTHER_FILES: usize = 500;
/// Interval of keep-alive comments of a silent event stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// A request.
pub struct Request<'b> {
    /// `GET`, `POST`, …
    pub method: &'b str,
    /// Up to the question mark.
    pub path: &'b str,
    /// What comes after it.
    pub query: &'b str,
    /// The body.
    pub body: &'b [u8],
    /// Client address; for IPv6 its /64 network.
    pub from: IpAddr,
    /// Whether other connections wait while this thread blocks.
    pub shares_worker: bool,
    fields: &'b [httparse::Header<'b>],
}

impl<'b> Request<'b> {
    /// A header field; the name is case-insensitive.
    pub fn field(&self, name: &str) -> Option<&'b str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    }

    /// A raw query parameter: for numbers and words.
    pub fn parameter(&self, name: &str) -> Option<&'b str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A complete answer.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Content type.
    pub content_type: &'static str,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The answer after a bug.
    pub fn failed() -> Self {
        Self::error(500, "the server failed: see its log")
    }

    /// An error answer.
    pub fn error(status: u16, text: &str) -> Self {
        Self {
            status,
            content_type: "application/json",
            fields: Vec::new(),
            body: serde_json::json!({ "error": text })
                .to_string()
                .into_bytes(),
        }
    }
}

/// Writes an event stream, on the connection's own thread; an error ends the connection.
pub type Events = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Reply to a request.
pub enum Reply {
    /// An answer.
    Whole(Answer),
    /// A pending answer; the connection's next request waits for it.
    Later(Later<Answer>),
    /// Server-sent events until either side ends it.
    Events(Events),
}

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: &Request<'_>) -> Reply;
    /// How many threads it can use.
    fn workers(&self) -> usize;
}

/// Serves connections until accepting fails permanently.
pub fn serve(listener: &TcpListener, handler: &Arc<impl Handler>) -> io::Result<()> {
    let room = Arc::new(Room::new());
    let mut workers = Vec::new();
    for number in 0..handler.workers().max(1) {
        let (worker, mailbox) = Worker::new(handler.clone())?;
        thread::Builder::new()
            .name(format!("front-{number}"))
            .spawn(move || worker.run())?;
        workers.push(mailbox);
    }
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) if is_passing(&error) => {
                thread::sleep(Duration::from_millis(50));
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(slot) = Slot::take(&room) else {
            refuse(stream);
            continue;
        };
        let fewest = workers.iter().min_by_key(|mailbox| mailbox.connections());
        fewest
            .expect("there is at least one worker")
            .give(stream, slot);
    }
    Ok(())
}

/// Answers a connection beyond the limit, if that does not block.
fn refuse(mut stream: TcpStream) {
    let mut out = Vec::new();
    let answer = Answer::error(503, "too many connections: retry later");
    head::write_answer(&mut out, &answer, false, true);
    // On an error the client finds the connection closed.
    let _ = stream
        .set_nonblocking(true)
        .and_then(|()| stream.write_all(&out));
}

/// Whether accepting may succeed later: the client or its network has failed, or memory or open files are exhausted.
/// It does not if the socket is not listening.
fn is_passing(error: &io::Error) -> bool {
    const NO_SUCH_FILE: i32 = 9;
    error.kind() != io::ErrorKind::InvalidInput && error.raw_os_error() != Some(NO_SUCH_FILE)
}

/// State shared by all connections.
struct Room {
    connections: AtomicUsize,
    most_connections: usize,
    untaken: Mutex<Untaken>,
}

/// Memory of large unsent answers.
#[derive(Default)]
struct Untaken {
    all: usize,
    /// By client; clients without any are absent.
    of_one: HashMap<IpAddr, usize>,
}

impl Room {
    /// As many as the limit on open files allows: a store that cannot open files cannot commit.
    fn new() -> Self {
        let files = open_files(MOST_CONNECTIONS + OTHER_FILES);
        Self {
            connections: AtomicUsize::new(0),
            most_connections: MOST_CONNECTIONS
                .min(files.saturating_sub(OTHER_FILES).max(files / 2)),
            untaken: Mutex::default(),
        }
    }

    fn untaken(&self) -> MutexGuard<'_, Untaken> {
        self.untaken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit on open files; raises it if it is below `wanted`.
#[cfg(unix)]
fn open_files(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = wanted as u64;
    let raised = maximum.map_or(wanted, |most| wanted.min(most));
    if current.is_some_and(|current| current < raised) {
        let more = Rlimit {
            current: Some(raised),
            maximum,
        };
        // If this is refused, the limit stays as it is.
        let _ = setrlimit(Resource::Nofile, more);
    }
    let allowed = getrlimit(Resource::Nofile).current;
    allowed.map_or(usize::MAX, |allowed| {
        usize::try_from(allowed).unwrap_or(usize::MAX)
    })
}

/// The limit on open files.
#[cfg(not(unix))]
fn open_files(_: usize) -> usize {
    usize::MAX
}

/// A connection's slot, with the memory that it holds for answers; released when dropped.
struct Slot {
    room: Arc<Room>,
    /// Client and bytes.
    untaken: Option<(IpAddr, usize)>,
}

impl Slot {
    fn take(room: &Arc<Room>) -> Option<Self> {
        let slot = Self {
            room: room.clone(),
            untaken: None,
        };
        (room.connections.fetch_add(1, Ordering::Relaxed) < room.most_connections).then_some(slot)
    }

    /// Reserves memory for a client's answer, unless the limits are reached; this slot must hold none. A client
    /// without another answer may always have one, even a large one.
    fn hold(&mut self, from: IpAddr, bytes: usize) -> bool {
        let mut untaken = self.room.untaken();
        let others = untaken.of_one.get(&from).copied().unwrap_or(0);
        let of_one = others + bytes;
        if others > 0 && of_one > MOST_OF_ONE || untaken.all + bytes > MOST_UNTAKEN {
            return false;
        }
        untaken.all += bytes;
        untaken.of_one.insert(from, of_one);
        drop(untaken);
        self.untaken = Some((from, bytes));
        true
    }

    /// Releases the memory for answers.
    fn let_go(&mut self) {
        let Some((from, bytes)) = self.untaken.take() else {
            return;
        };
        let mut untaken = self.room.untaken();
        untaken.all -= bytes;
        if let Entry::Occupied(mut of_one) = untaken.of_one.entry(from) {
            *of_one.get_mut() -= bytes;
            if *of_one.get() == 0 {
                of_one.remove();
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.let_go();
        self.room.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
