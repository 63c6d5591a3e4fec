//! How a streamed answer ended.

use std::sync::{Arc, OnceLock};

/// The error that ended a streamed answer, recorded by its source; the first one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome(Arc<OnceLock<&'static str>>);

impl Outcome {
    /// Records the kind of an error.
    pub(super) fn failed(&self, kind: &'static str) {
        // Later errors are consequences.
        let _ = self.0.set(kind);
    }

    /// The kind of the error; `None` if there was none.
    pub(super) fn kind(&self) -> Option<&'static str> {
        self.0.get().copied()
    }
}
