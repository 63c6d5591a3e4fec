//! Holding the change stream for its readers, and reading it. What is in an entry is in [`isomer_layout::stream`].

mod hold;
pub(crate) mod holds;
pub(crate) mod shared_holds;

pub use hold::{ChangeStream, StreamHold};

pub(crate) use crate::stream::holds::Holds;
