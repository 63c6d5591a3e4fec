//! Whole databases against one another.

mod away;
mod copied;
mod dump;
mod files;
mod history;
mod hostile;
mod naive;
mod paged;
mod races;
mod small;
mod space;
mod volatile;
mod world;
