//! A worker: a thread, its connections, and the letters that other threads leave for it.

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
    Answer, Handler, Place,
    connection::{Connection, Turn},
    polling::Polling,
};
use crate::later::Later;

/// The waker's token; connections have the numbers after it.
const WOKEN: Token = Token(0);
/// Connections that are told of at once; the others are told of next.
const TOLD_AT_ONCE: usize = 256;
/// Bytes that are read at once.
const PIECE: usize = 16 << 10;

/// What other threads leave for a worker.
pub(super) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    waker: Waker,
    /// Whether the worker sleeps, or is about to: who leaves a letter wakes it, one for all.
    asleep: AtomicBool,
    connections: AtomicUsize,
}

enum Letter {
    Connection(TcpStream, Place),
    /// The answer to this connection's request may be there.
    Ready(usize),
}

impl Mailbox {
    /// How many connections the worker has.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Gives the worker one more connection.
    pub(super) fn give(&self, stream: TcpStream, place: Place) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.leave(Letter::Connection(stream, place));
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

/// Has a worker ask an answer again whether it is there, from whatever thread.
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
    /// By their numbers, which are not used twice.
    connections: HashMap<usize, Connection>,
    last_number: usize,
    /// Answers that are not there yet, by connection. They come to their end even where that is gone.
    later: HashMap<usize, (Later<Answer>, task::Waker)>,
    /// Answers that are there: they are written together, since whoever gets one may take the processor.
    answers: Vec<(usize, Answer)>,
    /// Connections that had their turn and may have another request.
    again: Vec<usize>,
    /// No connection is given up before.
    next_deadline: Option<Instant>,
    /// When the worker was told last what there is to do.
    now: Instant,
    piece: Vec<u8>,
}

impl<H: Handler> Worker<H> {
    /// A worker, and where to leave it letters.
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

    /// Works until the process ends.
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
                    connection.told(event);
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

    /// Waits until there is something to do.
    fn wait(&mut self, events: &mut mio::Events) -> io::Result<()> {
        let told =
            |poll: &mut mio::Poll, events: &mut mio::Events, time| match poll.poll(events, time) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                told => told,
            };
        let (poll, mailbox) = (&mut self.poll, &self.mailbox);
        let mut looked = Ok(());
        let outcome = if !self.again.is_empty() || !self.answers.is_empty() {
            told(poll, events, Some(Duration::ZERO))
        } else if self.polling.look(|| {
            looked = told(poll, events, Some(Duration::ZERO));
            looked.is_err() || !events.is_empty() || !mailbox.letters().is_empty()
        }) {
            looked
        } else {
            let began = Instant::now();
            mailbox.asleep.store(true, Ordering::SeqCst);
            let time = match self.next_deadline {
                // Looked at after it is known to sleep: whoever leaves a letter from now on wakes it.
                _ if !mailbox.letters().is_empty() => Some(Duration::ZERO),
                deadline => deadline.map(|at| at.saturating_duration_since(began)),
            };
            let outcome = told(poll, events, time);
            mailbox.asleep.store(false, Ordering::SeqCst);
            self.polling.slept(began.elapsed());
            outcome
        };
        self.now = Instant::now();
        outcome
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Connection(stream, place) => {
                // It is gone already, or not to be served: it is closed.
                if self.welcome(stream, place).is_err() {
                    self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
            Letter::Ready(number) => self.ask(number),
        }
    }

    fn welcome(&mut self, stream: TcpStream, place: Place) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let stream = mio::net::TcpStream::from_std(stream);
        let mut connection = Connection::new(stream, place, self.now)?;
        let number = self.last_number + 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(connection.stream(), Token(number), both)?;
        self.last_number = number;
        self.connections.insert(number, connection);
        self.turn(number);
        Ok(())
    }

    /// Lets a connection go on with one request.
    fn turn(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let shares_worker = self.mailbox.connections() > 1;
        let turn = connection.turn(&*self.handler, shares_worker, &mut self.piece, self.now);
        let deadline = connection.deadline;
        self.next_deadline = self.next_deadline.into_iter().chain(deadline).min();
        // The client is gone, or did not do what it must: nobody is left to tell.
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

    /// Asks an answer whether it is there; if so, the connection goes on.
    fn ask(&mut self, number: usize) {
        let Some((answer, waker)) = self.later.get_mut(&number) else {
            return;
        };
        let mut context = task::Context::from_waker(waker);
        // A bug that one request meets is not the others' end.
        let asked = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut context)));
        let answer = match asked {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(answer)) => answer,
            Err(_) => Answer::failed(),
        };
        self.later.remove(&number);
        self.answers.push((number, answer));
    }

    /// Closes what is over time.
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
        // Closing would take it out of the poll, too; one that goes on elsewhere must not be told of here.
        let _ = self.poll.registry().deregister(connection.stream());
        self.mailbox.connections.fetch_sub(1, Ordering::Relaxed);
        Some(connection)
    }
}
