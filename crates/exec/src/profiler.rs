//! Measures the operators of an execution for `PROFILE`.

use std::time::{Duration, Instant};

use isomer_plan::physical::OpId;

use crate::{limits::LimitGuard, result::OperatorProfile};

/// The profiles of a plan's operators, measured by one thread.
///
/// Operators call their inputs, so that calls are nested. What a call uses is added up for the call around it, which
/// subtracts it from its own use. So each byte and each moment belongs to one operator, whichever states pull from
/// which: an operator and its fallback may have the same input, and expressions run sub-plans.
#[derive(Debug)]
pub(crate) struct Profiler {
    /// By [`OpId`].
    operators: Vec<OperatorProfile>,
    /// What calls within the current call have used.
    inner: Usage,
}

/// What calls have used.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    time: Duration,
    /// Bytes reserved less bytes released.
    held_bytes: i64,
}

/// A call in progress.
pub(crate) struct Call {
    started: Instant,
    held_bytes: usize,
    /// What the call around it had used before.
    before: Usage,
}

impl Profiler {
    /// For a plan with this many operators.
    pub(crate) fn new(operator_count: usize) -> Self {
        Self {
            operators: vec![OperatorProfile::default(); operator_count],
            inner: Usage::default(),
        }
    }

    /// The profiles, by [`OpId`].
    pub(crate) fn operators(&self) -> &[OperatorProfile] {
        &self.operators
    }

    /// The profile of one operator.
    pub(crate) fn operator(&mut self, id: OpId) -> &mut OperatorProfile {
        &mut self.operators[id.index()]
    }

    /// Begins a call of an operator.
    pub(crate) fn begin(&mut self, watch: &LimitGuard) -> Call {
        Call {
            before: std::mem::take(&mut self.inner),
            held_bytes: watch.held_bytes(),
            started: Instant::now(),
        }
    }

    /// Ends the latest call, and adds what it used to the operator's profile.
    pub(crate) fn end(&mut self, id: OpId, call: Call, watch: &LimitGuard) {
        let used = Usage {
            time: call.started.elapsed(),
            held_bytes: watch.held_bytes() as i64 - call.held_bytes as i64,
        };
        let inner = std::mem::replace(
            &mut self.inner,
            Usage {
                time: call.before.time + used.time,
                held_bytes: call.before.held_bytes + used.held_bytes,
            },
        );
        let profile = self.operator(id);
        profile.time += used.time;
        profile.own_time += used.time.saturating_sub(inner.time);
        profile.held_bytes += used.held_bytes - inner.held_bytes;
        let held_bytes = u64::try_from(profile.held_bytes).unwrap_or(0);
        profile.memory_bytes = profile.memory_bytes.max(held_bytes);
    }

    /// Adds the profiles of a thread of the exchange `exchange`, whose rows and time are measured where they arrive.
    pub(crate) fn add_thread(&mut self, exchange: OpId, thread: &Self) {
        for (at, (profile, more)) in self.operators.iter_mut().zip(&thread.operators).enumerate() {
            profile.from_view |= more.from_view;
            profile.fell_back |= more.fell_back;
            profile.memory_bytes += more.memory_bytes;
            profile.spilled_bytes += more.spilled_bytes;
            if at != exchange.index() {
                profile.rows += more.rows;
                profile.calls += more.calls;
                profile.time += more.time;
                profile.own_time += more.own_time;
            }
        }
    }
}
