//! Faults of the connection between a node and what the nodes share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

/// Faults of one node's connection, each as a number of calls in a thousand. Those of writes are about appends, and
/// about objects that are created or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A write does nothing, and the node gets no answer.
    pub lost_requests: u32,
    /// A write takes effect, and the node gets no answer.
    pub lost_answers: u32,
    /// A write takes effect some calls later, and the node gets no answer.
    pub late: u32,
    /// A write takes effect at once, and once more some calls later.
    pub duplicated: u32,
    /// A call other than `sync` and `wait` fails, without effect.
    pub unavailable: u32,
    /// A list of objects lacks those of the last calls.
    pub stale_lists: u32,
}

/// A moment within a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call has begun, and has had no effect.
    BeforeEffect,
    /// It has had its effect, and the node has no answer yet.
    AfterEffect,
}

/// How a call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// As usual.
    Continue,
    /// The node crashes: this call, and every later one on its connection, is refused. The test must not believe what
    /// the node says from then on.
    Crash,
}

/// Decides at each moment of each call how the call continues. It may let time pass, or let other nodes work: the
/// shared state is not locked.
pub type Hook = Arc<dyn Fn(Moment) -> Fate + Send + Sync>;

/// Why a call on a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Unavailable,
    Crashed,
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It never arrives.
    Lost,
    /// It arrives that many calls later.
    Late(u64),
    /// It arrives now, and perhaps again that many calls later.
    Now {
        again_after: Option<u64>,
        is_answered: bool,
    },
}

/// One node's connection. Its faults are a sequence that its seed determines.
#[derive(Default)]
pub(super) struct Connection {
    faults: Faults,
    random: Mutex<u64>,
    hook: Option<Hook>,
    is_crashed: AtomicBool,
}

impl Connection {
    pub(super) fn new(faults: Faults, seed: u64, hook: Option<Hook>) -> Self {
        Self {
            faults,
            random: Mutex::new(seed),
            hook,
            is_crashed: AtomicBool::new(false),
        }
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.is_crashed.load(Ordering::Relaxed)
    }

    /// Runs a call: the hook, faults, `effect`, and the hook again.
    pub(super) fn call<T, E: From<Failure>>(
        &self,
        effect: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.pass(Moment::BeforeEffect)?;
        if self.happens(self.faults.unavailable) {
            return Err(Failure::Unavailable.into());
        }
        let outcome = effect();
        self.pass(Moment::AfterEffect)?;
        outcome
    }

    fn pass(&self, moment: Moment) -> Result<(), Failure> {
        if !self.is_crashed()
            && let Some(hook) = &self.hook
            && hook(moment) == Fate::Crash
        {
            self.is_crashed.store(true, Ordering::Relaxed);
        }
        match self.is_crashed() {
            true => Err(Failure::Crashed),
            false => Ok(()),
        }
    }

    /// What happens to the next write.
    pub(super) fn delivery(&self) -> Delivery {
        if self.happens(self.faults.lost_requests) {
            return Delivery::Lost;
        }
        let delay = 1 + self.random() % 16;
        if self.happens(self.faults.late) {
            return Delivery::Late(delay);
        }
        Delivery::Now {
            again_after: self.happens(self.faults.duplicated).then_some(delay),
            is_answered: !self.happens(self.faults.lost_answers),
        }
    }

    /// Whether the next list is stale.
    pub(super) fn is_list_stale(&self) -> bool {
        self.happens(self.faults.stale_lists)
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
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("faults", &self.faults)
            .field("is_crashed", &self.is_crashed)
            .finish_non_exhaustive()
    }
}
