//! Which of the planted faults is active in this process: at most one.

use std::sync::OnceLock;

static ACTIVE: OnceLock<Option<String>> = OnceLock::new();

/// Whether the fault `name` is active.
pub(crate) fn is_active(name: &str) -> bool {
    let active = ACTIVE.get_or_init(|| std::env::var("ISOMER_FAULT").ok());
    active.as_deref() == Some(name)
}
