//! A connection: received bytes that were not answered yet, and answers that were not sent yet.
//!
//! The kernel reports readiness edge-triggered, so a connection remembers it until a call would block. It answers one
//! request per turn, in the order of arrival; while an answer is pending or unsent, it reads no further.

use std::{
    io::{self, Read, Write},
    net::{self, IpAddr, Ipv6Addr},
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use mio::{event::Event, net::TcpStream};

use super::{
    ARRIVAL, Answer, Events, Handler, IDLE, MOST_FIELDS, MOST_HEAD, Reply, Request, Slot, TAKING,
    TAKING_MORE,
    head::{Stop, head, write_answer},
};
use crate::later::Later;

/// Capacity that a buffer keeps for the next request.
const KEPT: usize = 16 << 10;

/// Result of a connection's turn.
pub(super) enum Turn {
    /// Nothing to do until the kernel reports readiness or an answer arrives.
    Waits,
    /// There may be another request: other connections come first.
    Again,
    /// The answer is pending.
    Later(Later<Answer>),
    /// The connection moves to its own thread.
    Events(Events),
    /// The connection is closed.
    Ends,
}

pub(super) struct Connection {
    stream: TcpStream,
    /// The client address that limits count for.
    from: IpAddr,
    slot: Slot,
    /// Received bytes that were not answered.
    buffer: Vec<u8>,
    /// Length of the first request in the buffer, once its head is complete.
    awaited: usize,
    /// The answer, and how much of it was sent.
    out: Vec<u8>,
    taken: usize,
    /// Deadline for sending all of it.
    end: Option<Instant>,
    /// Whether there may be something to read.
    readable: bool,
    /// Whether the client has closed its sending side.
    half_closed: bool,
    /// Deadline for the arrival of a request that has begun.
    arrival: Option<Instant>,
    /// Whether an answer is pending.
    answering: bool,
    /// Whether it is queued for another turn.
    pub(super) again: bool,
    /// Whether more requests may follow.
    keep: bool,
    /// Whether the request is `HEAD`.
    head_alone: bool,
    /// When it is closed for a timeout.
    pub(super) deadline: Option<Instant>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, slot: Slot, now: Instant) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            from: customer(stream.peer_addr()?.ip()),
            stream,
            slot,
            buffer: Vec::new(),
            awaited: 0,
            out: Vec::new(),
            taken: 0,
            end: None,
            readable: true,
            half_closed: false,
            arrival: None,
            answering: false,
            again: false,
            keep: true,
            head_alone: false,
            deadline: Some(now + IDLE),
        })
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Records the readiness that the kernel has reported.
    pub(super) fn ready(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.half_closed |= event.is_read_closed();
    }

    /// Receives a pending answer.
    pub(super) fn answered(&mut self, answer: &Answer, now: Instant) {
        self.answering = false;
        self.send(answer, now);
    }

    /// Queues an answer for sending, with its time limit.
    fn send(&mut self, answer: &Answer, now: Instant) {
        let bytes = answer.body.len();
        if bytes > KEPT && !self.slot.hold(self.from, bytes) {
            self.keep = false;
            let full = Answer::error(503, "too many answers are unsent: retry later");
            return self.send(&full, now);
        }
        write_answer(&mut self.out, answer, self.keep, !self.head_alone);
        self.end = Some(now + time_for(self.out.len()));
        self.deadline = Some(now + TAKING);
    }

    /// Handles at most one request; `piece` is a buffer for reading.
    pub(super) fn turn(
        &mut self,
        handler: &dyn Handler,
        shares_worker: bool,
        piece: &mut [u8],
        now: Instant,
    ) -> io::Result<Turn> {
        if self.answering || !self.write(now)? {
            return Ok(Turn::Waits);
        }
        if !self.keep {
            return Ok(Turn::Ends);
        }
        loop {
            if let Some(reply) = self.request(handler, shares_worker) {
                self.arrival = None;
                return self.reply(reply, shares_worker, now);
            }
            if !self.write(now)? {
                return Ok(Turn::Waits);
            }
            self.expect(now);
            if !self.read(piece)? {
                return Ok(Turn::Waits);
            }
        }
    }

    /// Has the first request in the buffer answered, if it is complete.
    fn request(&mut self, handler: &dyn Handler, shares_worker: bool) -> Option<Reply> {
        if self.buffer.is_empty() || self.buffer.len() < self.awaited {
            return None;
        }
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        let refused = |status, text| Some(Reply::Whole(Answer::error(status, text)));
        let head = match head(&self.buffer, &mut parsed) {
            Ok(head) => head,
            Err(Stop::Partial) if self.buffer.len() < MOST_HEAD => return None,
            Err(stop) => {
                (self.keep, self.head_alone) = (false, false);
                let (status, text) = stop.reason();
                return refused(status, text);
            }
        };
        let end = head.bytes + head.body;
        if self.buffer.len() < end {
            if head.waits && self.awaited == 0 && self.buffer.len() == head.bytes {
                self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            self.awaited = end;
            return None;
        }
        let target = parsed.path.unwrap_or("/");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Request {
            from: self.from,
            method: parsed.method.unwrap_or_default(),
            path,
            query,
            body: &self.buffer[head.bytes..end],
            shares_worker,
            fields: parsed.headers,
        };
        (self.keep, self.head_alone) = (head.keep, head.head_alone);
        // A panic must not affect the worker's other connections.
        let reply = catch_unwind(AssertUnwindSafe(|| handler.answer(&request)));
        self.buffer.drain(..end);
        self.buffer.shrink_to(KEPT);
        self.awaited = 0;
        reply.map_or_else(
            |_| {
                self.keep = false;
                Some(Reply::Whole(Answer::failed()))
            },
            Some,
        )
    }

    fn reply(&mut self, reply: Reply, shares_worker: bool, now: Instant) -> io::Result<Turn> {
        match reply {
            Reply::Whole(answer) => {
                self.send(&answer, now);
                if shares_worker {
                    // Written after the others had their turns: the receiving client may take the processor.
                    return Ok(Turn::Again);
                }
                if !self.write(now)? {
                    return Ok(Turn::Waits);
                }
                self.deadline = Some(now + IDLE);
                Ok(match self.keep {
                    true if self.buffer.is_empty() && !self.readable => Turn::Waits,
                    true => Turn::Again,
                    false => Turn::Ends,
                })
            }
            Reply::Later(answer) => {
                self.answering = true;
                self.deadline = None;
                Ok(Turn::Later(answer))
            }
            Reply::Events(run) => Ok(Turn::Events(run)),
        }
    }

    /// Sets the deadline of the next bytes: a request that has begun has one deadline, however many pieces it arrives
    /// in.
    fn expect(&mut self, now: Instant) {
        self.deadline = Some(match self.buffer.is_empty() {
            true => now + IDLE,
            false => *self.arrival.get_or_insert(now + ARRIVAL),
        });
    }

    /// Sends; returns whether everything was sent. Progress extends the deadline.
    fn write(&mut self, now: Instant) -> io::Result<bool> {
        while self.taken < self.out.len() {
            match self.stream.write(&self.out[self.taken..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.taken += count;
                    self.deadline = self.end.map(|end| end.min(now + TAKING)).or(self.deadline);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.slot.let_go();
        self.end = None;
        self.out.clear();
        self.out.shrink_to(KEPT);
        self.taken = 0;
        Ok(true)
    }

    /// Reads a piece; returns whether there was one.
    fn read(&mut self, piece: &mut [u8]) -> io::Result<bool> {
        while self.readable {
            match self.stream.read(piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    // A short read means that the socket is empty: the kernel reports when more arrives. It has
                    // reported the end of the stream already.
                    self.readable = count == piece.len() || self.half_closed || !cfg!(unix);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Moves the connection from the worker to its own thread.
    pub(super) fn stream_events(self, run: Events) {
        let Self { stream, slot, .. } = self;
        let spawned = thread::Builder::new().spawn(move || {
            let _place = slot;
            // The client has disconnected, or the store failed and was reported: no one is left to notify.
            let _ = events(stream.into(), run);
        });
        if let Err(error) = spawned {
            eprintln!("no thread for a stream of events: {error}");
        }
    }
}

/// The client of an address: for IPv6 the network, as a customer can use any address in it.
fn customer(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(from) => Ipv6Addr::from_bits(from.to_bits() >> 64 << 64).into(),
        from => from,
    }
}

/// Time limit for sending: without it a client could hold an answer by reading single bytes.
fn time_for(bytes: usize) -> Duration {
    let (more, each) = TAKING_MORE;
    TAKING + more * u32::try_from(bytes / each).unwrap_or(u32::MAX)
}

/// A stream of pieces, each of which has a time limit by its length.
struct Pieces {
    stream: net::TcpStream,
    time_for: fn(usize) -> Duration,
}

impl Write for Pieces {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let end = Instant::now() + (self.time_for)(piece.len());
        let mut left = piece;
        while !left.is_empty() {
            let time = end.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(time))?;
            match self.stream.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn events(stream: net::TcpStream, run: Events) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut stream = Pieces { stream, time_for };
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
    )?;
    run(&mut stream)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        super::{MOST_OF_ONE, MOST_UNTAKEN, Room},
        *,
    };

    struct Large;

    impl Handler for Large {
        fn answer(&self, _: &Request<'_>) -> Reply {
            let mut answer = Answer::error(200, "");
            answer.body = vec![0; 8 << 20];
            Reply::Whole(answer)
        }

        fn workers(&self) -> usize {
            1
        }
    }

    /// Both ends of a connection.
    fn pair(room: &Arc<Room>, now: Instant) -> (net::TcpStream, Connection) {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let slot = Slot::take(room).unwrap();
        let stream = TcpStream::from_std(stream);
        (client, Connection::new(stream, slot, now).unwrap())
    }

    #[test]
    fn idle_arriving_and_unsent_states_have_separate_time_limits() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let (mut client, mut connection) = pair(&Arc::new(Room::new()), began);
        let turn = |connection: &mut Connection, now| {
            // Data sent over the loopback is available at once.
            connection.readable = true;
            let turn = connection.turn(&Large, false, &mut [0; 1024], now);
            assert!(matches!(turn, Ok(Turn::Waits)));
        };
        assert_eq!(connection.deadline, Some(began + IDLE));
        client.write_all(b"GET /large HT").unwrap();
        turn(&mut connection, at(1));
        assert_eq!(connection.deadline, Some(at(1) + ARRIVAL));
        // Single bytes do not prolong it.
        client
            .write_all(b"TP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n")
            .unwrap();
        turn(&mut connection, at(5));
        client.write_all(b"Content-Length: 2\r\n\r\n").unwrap();
        turn(&mut connection, at(9));
        assert_eq!(connection.deadline, Some(at(1) + ARRIVAL));
        client.write_all(b"ab").unwrap();
        turn(&mut connection, at(10));
        assert_eq!(connection.deadline, Some(at(10) + TAKING));
        turn(&mut connection, at(15));
        assert_eq!(connection.deadline, Some(at(10) + TAKING), "none is read");
        client.read_exact(&mut vec![0; 1 << 20]).unwrap();
        turn(&mut connection, at(20));
        assert_eq!(connection.deadline, Some(at(20) + TAKING));
        // One second per 64 KiB in total, however little is read at a time.
        let end = 10 + (8 << 20) / (64 << 10);
        client.read_exact(&mut vec![0; 1 << 20]).unwrap();
        turn(&mut connection, at(end + 5));
        assert_eq!(connection.deadline, Some(at(end) + TAKING));
        let reading =
            thread::spawn(move || client.read_exact(&mut vec![0; 6 << 20]).map(|()| client));
        while !connection.out.is_empty() {
            turn(&mut connection, at(end));
        }
        let _client = reading.join().unwrap().unwrap();
        assert_eq!(connection.deadline, Some(at(end) + IDLE));
    }

    /// Sends a request; returns what is available of the answer.
    fn asked(client: &mut net::TcpStream, connection: &mut Connection, method: &str) -> Vec<u8> {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        connection.readable = true;
        let turn = connection.turn(&Large, false, &mut [0; 1024], Instant::now());
        assert!(turn.is_ok());
        let mut received = vec![0; 1 << 10];
        let bytes = client.read(&mut received).unwrap();
        received.truncate(bytes);
        received
    }

    #[test]
    fn pieces_of_a_stream_have_time_limits() {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut pieces = Pieces {
            stream,
            time_for: |_| Duration::from_millis(300),
        };
        let taking = thread::spawn(move || {
            // Enough for the other side to continue each time, until it ends.
            let mut taken = vec![0; 256 << 10];
            while client.read(&mut taken).is_ok_and(|count| count > 0) {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        pieces.write_all(&[0; 1 << 10]).unwrap();
        let error = pieces.write_all(&vec![0; 256 << 20]).unwrap_err();
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(kinds.contains(&error.kind()), "{error}");
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(3));
        drop(pieces);
        taking.join().unwrap();
    }

    #[test]
    fn an_ipv6_network_is_one_customer() {
        let of = |text: &str| customer(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(of("10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn a_head_request_gets_no_body() {
        let (mut client, mut connection) = pair(&Arc::new(Room::new()), Instant::now());
        for _ in 0..2 {
            let received = String::from_utf8(asked(&mut client, &mut connection, "HEAD")).unwrap();
            assert!(
                received.contains("Content-Length: 8388608\r\n"),
                "{received}"
            );
            assert!(received.ends_with("\r\n\r\n"), "{received}");
        }
        assert!(connection.slot.untaken.is_none());
    }

    #[test]
    fn the_memory_of_unsent_answers_is_limited() {
        let room = Arc::new(Room::new());
        let mut pairs: Vec<_> = (0..4).map(|_| pair(&room, Instant::now())).collect();
        // Other clients have their own limit, and all together have one.
        let most = u8::try_from(MOST_UNTAKEN / MOST_OF_ONE).unwrap();
        let mut others: Vec<_> = (0..=most).map(|_| Slot::take(&room).unwrap()).collect();
        let address = |at: u8| IpAddr::from([10, 0, 0, at]);
        let mut hold = |at: u8| others[usize::from(at)].hold(address(at), MOST_OF_ONE);
        assert!((0..most).all(&mut hold) && !hold(most));
        assert!(!Slot::take(&room).unwrap().hold(address(0), 1));
        drop(others.remove(0));
        assert!(others.last_mut().unwrap().hold(address(most), MOST_OF_ONE));
        others.pop();
        let mut begins_with = |at: usize| {
            let (client, connection) = &mut pairs[at];
            asked(client, connection, "GET")[9..12].to_vec()
        };
        assert_eq!(begins_with(0), b"200");
        assert_eq!(begins_with(1), b"200");
        assert_eq!(begins_with(2), b"503", "two of 8 MiB are unsent");
        drop(pairs.remove(0));
        let (client, connection) = &mut pairs[2];
        assert_eq!(&asked(client, connection, "GET")[9..12], b"200");
    }
}
