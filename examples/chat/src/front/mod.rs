//! The transport of the front: HTTP/1.1 over a few threads, each of which serves many connections.
//!
//! A worker asks the kernel which of its connections have something to read, has their requests answered by the handler on its own
//! thread, one after the other, and writes the answers. What takes long is answered later, from whatever thread; a stream of
//! events has a thread of its own. Everything that a client sends has a limit in size and in time.

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
/// How much longer it may take in all, for each so many bytes.
const TAKING_MORE: (Duration, usize) = (Duration::from_secs(1), 64 << 10);
/// Most bytes of large answers that are not taken ...
const MOST_UNTAKEN: usize = 128 << 20;
/// ... and of those that one address asked for.
const MOST_OF_ONE: usize = 16 << 20;
/// Files that are left to the store and all else.
const OTHER_FILES: usize = 500;
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
    /// Who asks: an address, of IPv6 its network of 64 bits.
    pub from: IpAddr,
    /// Whether other connections wait while this thread does.
    pub shares_worker: bool,
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

impl Answer {
    /// Says that there was a bug.
    pub fn failed() -> Self {
        Self::error(500, "the server failed: its log tells more")
    }

    /// Says why there is no other answer.
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

/// Answers, piece by piece, on a thread of the connection's own; an error ends the connection.
pub type Events = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// What a request leads to.
pub enum Reply {
    /// An answer.
    Whole(Answer),
    /// An answer that is not there yet; the connection's next request waits for it.
    Later(Later<Answer>),
    /// Server-sent events until one side ends it.
    Events(Events),
}

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, request: &Request<'_>) -> Reply;
    /// How many threads it can make use of.
    fn workers(&self) -> usize;
}

/// Serves connections until accepting them fails for good.
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
        let Some(place) = Place::take(&room) else {
            refuse(stream);
            continue;
        };
        let fewest = workers.iter().min_by_key(|mailbox| mailbox.connections());
        fewest.expect("there is a worker").give(stream, place);
    }
    Ok(())
}

/// One too many: it is told, if it can be told at once.
fn refuse(mut stream: TcpStream) {
    let mut out = Vec::new();
    let answer = Answer::error(503, "too many connections: try again later");
    head::write_answer(&mut out, &answer, false, true);
    // Whoever does not take it finds the connection closed.
    let _ = stream
        .set_nonblocking(true)
        .and_then(|()| stream.write_all(&out));
}

/// Whether accepting may succeed later: the client or its network is gone, or there is no memory or file left. It does not where
/// nothing listens.
fn is_passing(error: &io::Error) -> bool {
    const NO_SUCH_FILE: i32 = 9;
    error.kind() != io::ErrorKind::InvalidInput && error.raw_os_error() != Some(NO_SUCH_FILE)
}

/// What all connections share.
struct Room {
    connections: AtomicUsize,
    most_connections: usize,
    untaken: Mutex<Untaken>,
}

/// Bytes of large answers that were not taken.
#[derive(Default)]
struct Untaken {
    all: usize,
    /// By who asked for them; nobody who has none.
    of_one: HashMap<IpAddr, usize>,
}

impl Room {
    /// As much as the process's limit of open files allows: a store that can open none commits nothing.
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

/// How many files may be open; more are asked for if these are fewer than are wanted.
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
        // Where that is refused, it stays as it is.
        let _ = setrlimit(Resource::Nofile, more);
    }
    let allowed = getrlimit(Resource::Nofile).current;
    allowed.map_or(usize::MAX, |allowed| {
        usize::try_from(allowed).unwrap_or(usize::MAX)
    })
}

/// How many files may be open.
#[cfg(not(unix))]
fn open_files(_: usize) -> usize {
    usize::MAX
}

/// A place among the connections, and what it holds of the memory for answers; given back at its end.
struct Place {
    room: Arc<Room>,
    /// Who holds how many bytes.
    untaken: Option<(IpAddr, usize)>,
}

impl Place {
    fn take(room: &Arc<Room>) -> Option<Self> {
        let place = Self {
            room: room.clone(),
            untaken: None,
        };
        (room.connections.fetch_add(1, Ordering::Relaxed) < room.most_connections).then_some(place)
    }

    /// Takes so many bytes for the answer to who asks, if there is room for them; it holds none yet. Who has no other one gets even a
    /// large one.
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

    /// Gives back what it holds for answers.
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

impl Drop for Place {
    fn drop(&mut self) {
        self.let_go();
        self.room.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
