//! A worker: a thread, its connections, and the mailbox in which other threads leave messages for it.

use std::{
    collections::HashMap,
    io, mem,
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{self, Poll, Wake},
    thread,
    time::{Duration, Instant},
};

use mio::{Interest, Token, Waker};

use super::{
    Answer, Handler, Slot,
    connection::{Connection, Turn},
    polling::Polling,
};
use crate::later::Later;

/// The waker's token; connections have the numbers after it.
const WOKEN: Token = Token(0);
/// Events per poll; further ones come with the next poll.
const TOLD_AT_ONCE: usize = 256;
/// Size of the read buffer.
const PIECE: usize = 16 << 10;

/// Messages of other threads for a worker.
pub(super) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    waker: Waker,
    /// Whether the worker sleeps or is about to: the first sender then wakes it.
    asleep: AtomicBool,
    connections: AtomicUsize,
}

enum Letter {
    Connection(TcpStream, Slot),
    /// The answer to this connection's request may be ready.
    Ready(usize),
}

impl Mailbox {
    /// Number of the worker's connections.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Gives the worker another connection.
    pub(super) fn give(&self, stream: TcpStream, slot: Slot) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.leave(Letter::Connection(stream, slot));
    }

    fn leave(&self, letter: Letter) {
        self.letters().push(letter);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            eprintln!("a worker of the front cannot be woken: {error}");
        }
    }

    fn letters(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a pending answer: has the worker poll its future again, from any thread.
struct Reminder {
    mailbox: Arc<Mailbox>,
    connection: usize,
}

impl Wake for Reminder {
    fn wake(self: Arc<Self>) {
        self.mailbox.leave(Letter::Ready(self.connection));
    }
}

pub(super) struct Worker<H> {
    poll: mio::Poll,
    polling: Polling,
    mailbox: Arc<Mailbox>,
    handler: Arc<H>,
    /// By number; numbers are not reused.
    connections: HashMap<usize, Connection>,
    last_number: usize,
    /// Pending answers by connection. They are completed even if the connection is closed.
    later: HashMap<usize, (Later<Answer>, task::Waker)>,
    /// Ready answers: they are written together, as the receiving client may take the processor.
    answers: Vec<(usize, Answer)>,
    /// Connections that may have another request after their turn.
    again: Vec<usize>,
    /// Lower bound of all deadlines.
    next_deadline: Option<Instant>,
    /// Time of the last poll.
    now: Instant,
    piece: Vec<u8>,
}

impl<H: Handler> Worker<H> {
    /// Creates a worker and its mailbox.
    pub(super) fn new(handler: Arc<H>) -> io::Result<(Self, Arc<Mailbox>)> {
        let poll = mio::Poll::new()?;
        let mailbox = Arc::new(Mailbox {
            letters: Mutex::default(),
            waker: Waker::new(poll.registry(), WOKEN)?,
            asleep: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let worker = Self {
            poll,
            polling: Polling::new(),
            mailbox: mailbox.clone(),
            handler,
            connections: HashMap::new(),
            last_number: WOKEN.0,
            later: HashMap::new(),
            answers: Vec::new(),
            again: Vec::new(),
            next_deadline: None,
            now: Instant::now(),
            piece: vec![0; PIECE],
        };
        Ok((worker, mailbox))
    }

    /// Runs until the process ends.
    pub(super) fn run(mut self) {
        let mut events = mio::Events::with_capacity(TOLD_AT_ONCE);
        loop {
            if let Err(error) = self.wait(&mut events) {
                eprintln!("a worker of the front cannot wait: {error}");
                thread::sleep(Duration::from_millis(50));
            }
            for event in &events {
                let number = event.token().0;
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.ready(event);
                    self.turn(number);
                }
            }
            for number in mem::take(&mut self.again) {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.again = false;
                }
                self.turn(number);
            }
            let letters = mem::take(&mut *self.mailbox.letters());
            for letter in letters {
                self.read(letter);
            }
            for (number, answer) in mem::take(&mut self.answers) {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.answered(&answer, self.now);
                    self.turn(number);
                }
            }
            if self.next_deadline.is_some_and(|at| at <= self.now) {
                self.give_up();
            }
        }
    }

    /// Waits for events or messages.
    fn wait(&mut self, events: &mut mio::Events) -> io::Result<()> {
        let poll_events =
            |poll: &mut mio::Poll, events: &mut mio::Events, time| match poll.poll(events, time) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                result => result,
            };
        let (poll, mailbox) = (&mut self.poll, &self.mailbox);
        let mut looked = Ok(());
        let outcome = if !self.again.is_empty() || !self.answers.is_empty() {
            poll_events(poll, events, Some(Duration::ZERO))
        } else if self.polling.look(|| {
            looked = poll_events(poll, events, Some(Duration::ZERO));
            looked.is_err() || !events.is_empty() || !mailbox.letters().is_empty()
        }) {
            looked
        } else {
            let began = Instant::now();
            mailbox.asleep.store(true, Ordering::SeqCst);
            let time = match self.next_deadline {
                // Checked after `asleep` was set: a message sent from now on wakes it.
                _ if !mailbox.letters().is_empty() => Some(Duration::ZERO),
                deadline => deadline.map(|at| at.saturating_duration_since(began)),
            };
            let outcome = poll_events(poll, events, time);
            mailbox.asleep.store(false, Ordering::SeqCst);
            self.polling.slept(began.elapsed());
            outcome
        };
        self.now = Instant::now();
        outcome
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Connection(stream, slot) => {
                // The client has disconnected, or cannot be served: it is closed.
                if self.welcome(stream, slot).is_err() {
                    self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Letter::Ready(number) => self.ask(number),
        }
    }

    fn welcome(&mut self, stream: TcpStream, slot: Slot) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let stream = mio::net::TcpStream::from_std(stream);
        let mut connection = Connection::new(stream, slot, self.now)?;
        let number = self.last_number + 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(connection.stream(), Token(number), both)?;
        self.last_number = number;
        self.connections.insert(number, connection);
        self.turn(number);
        Ok(())
    }

    /// Gives a connection one turn.
    fn turn(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let shares_worker = self.mailbox.connections() > 1;
        let turn = connection.turn(&*self.handler, shares_worker, &mut self.piece, self.now);
        let deadline = connection.deadline;
        self.next_deadline = self.next_deadline.into_iter().chain(deadline).min();
        // The client has disconnected or exceeded a limit: no one is left to notify.
        match turn.unwrap_or(Turn::Ends) {
            Turn::Waits => {}
            Turn::Again => {
                if !mem::replace(&mut connection.again, true) {
                    self.again.push(number);
                }
            }
            Turn::Later(answer) => {
                let reminder = Reminder {
                    mailbox: self.mailbox.clone(),
                    connection: number,
                };
                let waker = task::Waker::from(Arc::new(reminder));
                self.later.insert(number, (answer, waker));
                self.ask(number);
            }
            Turn::Events(run) => {
                if let Some(connection) = self.remove(number) {
                    connection.stream_events(run);
                }
            }
            Turn::Ends => {
                self.remove(number);
            }
        }
    }

    /// Polls a pending answer; if it is ready, the connection continues.
    fn ask(&mut self, number: usize) {
        let Some((answer, waker)) = self.later.get_mut(&number) else {
            return;
        };
        let mut context = task::Context::from_waker(waker);
        // A panic must not affect the worker's other connections.
        let asked = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut context)));
        let answer = match asked {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(answer)) => answer,
            Err(_) => Answer::failed(),
        };
        self.later.remove(&number);
        self.answers.push((number, answer));
    }

    /// Closes connections whose deadline has passed.
    fn give_up(&mut self) {
        let is_over =
            |connection: &Connection| connection.deadline.is_some_and(|at| at <= self.now);
        let over = self.connections.iter().filter(|(_, one)| is_over(one));
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.remove(number);
        }
        let left = self.connections.values();
        self.next_deadline = left.filter_map(|connection| connection.deadline).min();
    }

    fn remove(&mut self, number: usize) -> Option<Connection> {
        let mut connection = self.connections.remove(&number)?;
        // Closing would deregister it as well; but one that moves to another thread must not be reported here.
        let _ = self.poll.registry().deregister(connection.stream());
        self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
        Some(connection)
    }
}
