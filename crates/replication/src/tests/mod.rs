//! Tests of whole databases that replicate.

mod away;
mod broken;
mod bytes;
mod clocks;
mod copied;
mod dump;
mod files;
mod history;
mod hostile;
mod naive;
mod opened;
mod paged;
mod races;
mod small;
mod space;
mod volatile;
mod world;
