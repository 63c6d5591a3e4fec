//! A shared log in memory, with injected faults.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{Append, LogError, Position, SharedLog};

const MAX_RECORD_BYTES: usize = 64 << 20;

/// Faults of one node's connection, each as a number of calls in a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// An append does nothing, and the node gets no answer.
    pub lost_requests: u32,
    /// An append takes effect, and the node gets no answer.
    pub lost_answers: u32,
    /// An append takes effect some calls later, and the node gets no answer.
    pub late: u32,
    /// An append takes effect at once, and once more some calls later.
    pub duplicated: u32,
    /// A call other than `sync` and `wait` fails, without effect.
    pub unavailable: u32,
}

/// A log in memory; clones share it. [`MemoryLog::with_faults`] gives a handle whose calls fail.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    faults: Faults,
    random: Arc<Mutex<u64>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    grown: Condvar,
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
}

impl State {
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

impl Default for MemoryLog {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLog {
    /// An empty log that refuses to fill trimmed positions.
    pub fn new() -> Self {
        Self::with_shared(Shared::default())
    }

    /// An empty log that forgets trimmed positions, as a store of objects does.
    pub fn forgetful() -> Self {
        Self::with_shared(Shared {
            forgets: true,
            ..Shared::default()
        })
    }

    fn with_shared(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            faults: Faults::default(),
            random: Arc::new(Mutex::new(0)),
        }
    }

    /// A handle whose calls have faults, in a sequence that `seed` determines.
    pub fn with_faults(&self, faults: Faults, seed: u64) -> Self {
        Self {
            shared: self.shared.clone(),
            faults,
            random: Arc::new(Mutex::new(seed)),
        }
    }

    /// All records that were ever appended, trimmed ones too, in order.
    pub fn history(&self) -> Vec<Vec<u8>> {
        self.shared.state.lock().records.clone()
    }

    /// The next random number (SplitMix64).
    fn random(&self) -> u64 {
        let mut state = self.random.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = *state;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn happens(&self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.random() % 1000 < u64::from(of_thousand)
    }

    /// Runs a call that only reads, or fails instead.
    fn call<T>(&self, run: impl FnOnce(&mut State) -> Result<T, LogError>) -> Result<T, LogError> {
        if self.happens(self.faults.unavailable) {
            return Err(LogError::Unavailable("an injected fault".into()));
        }
        let mut state = self.shared.state.lock();
        state.advance(self.shared.forgets);
        // A delayed append may have taken effect.
        self.shared.grown.notify_all();
        run(&mut state)
    }
}

impl SharedLog for MemoryLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        if record.len() > MAX_RECORD_BYTES {
            return Err(LogError::TooLarge {
                bytes: record.len(),
                max: MAX_RECORD_BYTES,
            });
        }
        let forgets = self.shared.forgets;
        let no_answer = || Ok(Append::Unknown("an injected fault".into()));
        let appended = self.call(|state| {
            if self.happens(self.faults.lost_requests) {
                return no_answer();
            }
            let delay = state.calls + 1 + self.random() % 16;
            if self.happens(self.faults.late) {
                state.delayed.push((delay, at, record.to_vec()));
                return no_answer();
            }
            if self.happens(self.faults.duplicated) {
                state.delayed.push((delay, at, record.to_vec()));
            }
            let outcome = state.append(at, record, forgets);
            match self.happens(self.faults.lost_answers) {
                true => no_answer(),
                false => outcome,
            }
        });
        self.shared.grown.notify_all();
        appended
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        self.call(|state| {
            if from <= state.trimmed {
                return Err(LogError::Trimmed {
                    first: state.trimmed + 1,
                });
            }
            let mut bytes = 0;
            let rest = state.records.get(from as usize - 1..).unwrap_or_default();
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

    fn wait(&self, seen: Position, time: Duration) -> Result<Position, LogError> {
        let until = Instant::now().checked_add(time);
        let mut state = self.shared.state.lock();
        while state.end() <= seen {
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

    fn max_record_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }
}
