//! The answer to a progress report.

/// Whether a long operation continues or stops. Closed: there is no third answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Continue. After a rejected row of a load: leave it out.
    Continue,
    /// Stop. Nothing of a load is kept.
    Stop,
}
