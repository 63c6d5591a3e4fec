//! A shared log in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::faults::{Connection, Delivery, Failure, Faults, Hook};
use crate::{Append, LogError, LogId, Position, SharedLog, log::is_stopped};

const MAX_RECORD_BYTES: usize = 64 << 20;
/// A reservation lasts for that many calls of all handles: a log in memory has no clock.
const RESERVED_CALLS: u64 = 64;

/// A log in memory; clones share it. [`MemoryLog::with_faults`] gives a handle whose calls fail.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    /// Tells the handles apart; clones have the same.
    handle: u64,
    max_record_bytes: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    grown: Condvar,
    id: LogId,
    grace: Duration,
    /// Whether a trimmed position can be filled again, as in a store of objects.
    forgets: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Every record that was appended in order, trimmed ones too.
    records: Vec<Vec<u8>>,
    /// The number of trimmed records.
    trimmed: u64,
    /// Records at positions that were trimmed before: no node may rely on them.
    orphans: BTreeMap<Position, Vec<u8>>,
    /// Appends that take effect at a later call.
    delayed: Vec<(u64, Position, Vec<u8>)>,
    calls: u64,
    /// The handle with the reservation, and the call up to which it lasts.
    reserved: Option<(u64, u64)>,
    /// Handles with connections of their own.
    handles: u64,
}

impl State {
    /// Refuses an append of `handle` while another one has the next position reserved.
    fn check_reserved(&self, handle: u64) -> Result<(), LogError> {
        match self.reserved {
            Some((holder, upto)) if holder != handle && self.calls <= upto => {
                let what = "another node has reserved the next position".to_owned();
                Err(LogError::Unavailable(what))
            }
            _ => Ok(()),
        }
    }

    fn end(&self) -> Position {
        self.records.len() as u64 + 1
    }

    fn append(&mut self, at: Position, record: &[u8], forgets: bool) -> Result<Append, LogError> {
        if at <= self.trimmed {
            if !forgets || at == 0 {
                return Err(LogError::Trimmed {
                    first: self.trimmed + 1,
                });
            }
            return Ok(match self.orphans.contains_key(&at) {
                true => Append::Taken,
                false => {
                    self.orphans.insert(at, record.to_vec());
                    Append::Appended
                }
            });
        }
        let end = self.end();
        if at > end {
            return Err(LogError::Gap { at, end });
        }
        if at < end {
            return Ok(Append::Taken);
        }
        self.records.push(record.to_vec());
        Ok(Append::Appended)
    }

    /// Counts a call, and lets the delayed appends that are due take effect.
    fn advance(&mut self, forgets: bool) {
        self.calls += 1;
        let calls = self.calls;
        let (due, rest) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition::<Vec<_>, _>(|(when, ..)| *when <= calls);
        self.delayed = rest;
        for (_, at, record) in due {
            // No caller waits for the answer.
            let _ = self.append(at, &record, forgets);
        }
    }
}

impl From<Failure> for LogError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => Self::Unavailable("an injected fault".into()),
            Failure::Crashed => Self::Refused("the node has crashed".into()),
        }
    }
}

impl MemoryLog {
    /// An empty log that refuses to fill trimmed positions.
    pub fn new(id: LogId, grace: Duration) -> Self {
        Self::with_shared(id, grace, false)
    }

    /// An empty log that forgets trimmed positions, as a store of objects does.
    pub fn forgetful(id: LogId, grace: Duration) -> Self {
        Self::with_shared(id, grace, true)
    }

    fn with_shared(id: LogId, grace: Duration, forgets: bool) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            grown: Condvar::new(),
            id,
            grace,
            forgets,
        };
        Self {
            shared: Arc::new(shared),
            connection: Arc::default(),
            handle: 0,
            max_record_bytes: MAX_RECORD_BYTES,
        }
    }

    /// A handle whose calls have faults, in a sequence that `seed` determines, and call `hook`.
    pub fn with_faults(&self, faults: Faults, seed: u64, hook: Option<Hook>) -> Self {
        let mut state = self.shared.state.lock();
        state.handles += 1;
        Self {
            shared: self.shared.clone(),
            connection: Arc::new(Connection::new(faults, seed, hook)),
            handle: state.handles,
            max_record_bytes: self.max_record_bytes,
        }
    }

    /// This handle, which takes records of at most `bytes`.
    pub fn with_max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// Whether the hook of this handle has let its node crash.
    pub fn is_crashed(&self) -> bool {
        self.connection.is_crashed()
    }

    /// All records that were ever appended, trimmed ones too, in order.
    pub fn history(&self) -> Vec<Vec<u8>> {
        self.shared.state.lock().records.clone()
    }

    /// Runs a call, or fails instead.
    fn call<T>(&self, run: impl FnOnce(&mut State) -> Result<T, LogError>) -> Result<T, LogError> {
        self.connection.call(|| {
            let mut state = self.shared.state.lock();
            state.advance(self.shared.forgets);
            let outcome = run(&mut state);
            // The call, or a delayed append, may have taken effect.
            self.shared.grown.notify_all();
            outcome
        })
    }
}

impl SharedLog for MemoryLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        let (bytes, max) = (record.len(), self.max_record_bytes);
        if bytes > max {
            return Err(LogError::TooLarge { bytes, max });
        }
        let no_answer = || Ok(Append::Unknown("an injected fault".into()));
        self.call(|state| {
            state.check_reserved(self.handle)?;
            let delayed = |delay, state: &State| (state.calls + delay, at, record.to_vec());
            match self.connection.delivery() {
                Delivery::Lost => no_answer(),
                Delivery::Late(delay) => {
                    let append = delayed(delay, state);
                    state.delayed.push(append);
                    no_answer()
                }
                Delivery::Now {
                    again_after,
                    is_answered,
                } => {
                    if let Some(delay) = again_after {
                        let append = delayed(delay, state);
                        state.delayed.push(append);
                    }
                    let outcome = state.append(at, record, self.shared.forgets);
                    if is_answered { outcome } else { no_answer() }
                }
            }
        })
    }

    fn reserve(&self, _time: Duration) -> Result<(), LogError> {
        self.call(|state| {
            state.check_reserved(self.handle)?;
            state.reserved = Some((self.handle, state.calls + RESERVED_CALLS));
            Ok(())
        })
    }

    fn release(&self) {
        let mut state = self.shared.state.lock();
        state.reserved = state.reserved.filter(|(holder, _)| *holder != self.handle);
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        self.call(|state| {
            if from <= state.trimmed {
                return Err(LogError::Trimmed {
                    first: state.trimmed + 1,
                });
            }
            let mut bytes = 0;
            let index = usize::try_from(from)
                .unwrap_or(usize::MAX)
                .saturating_sub(1);
            let rest = state.records.get(index..).unwrap_or_default();
            let page = rest.iter().take_while(|record| {
                let fits = bytes == 0 || bytes + record.len() <= max_bytes;
                bytes += record.len().max(1);
                fits
            });
            Ok(page.cloned().collect())
        })
    }

    fn end(&self) -> Result<Position, LogError> {
        self.call(|state| Ok(state.end()))
    }

    fn sync(&self, _upto: Position) -> Result<(), LogError> {
        Ok(())
    }

    fn durable(&self) -> Result<Position, LogError> {
        self.end()
    }

    fn first(&self) -> Result<Position, LogError> {
        self.call(|state| Ok(state.trimmed + 1))
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.call(|state| {
            let end = state.end();
            if below > end {
                return Err(LogError::Gap { at: below, end });
            }
            state.trimmed = state.trimmed.max(below.saturating_sub(1));
            Ok(())
        })
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        let until = Instant::now().checked_add(time);
        let mut state = self.shared.state.lock();
        while state.end() <= seen && !is_stopped(stop) {
            let grown = &self.shared.grown;
            let is_over = match until {
                Some(until) => grown.wait_until(&mut state, until).timed_out(),
                None => {
                    grown.wait(&mut state);
                    false
                }
            };
            if is_over {
                break;
            }
        }
        Ok(state.end())
    }

    fn wake(&self) {
        // A waiter that has looked at its flag waits by now: it held the lock in between.
        drop(self.shared.state.lock());
        self.shared.grown.notify_all();
    }

    fn max_record_bytes(&self) -> usize {
        self.max_record_bytes
    }

    fn id(&self) -> LogId {
        self.shared.id
    }

    fn grace(&self) -> Duration {
        self.shared.grace
    }
}
