//! Whole databases against one another.

mod dump;
mod history;
mod hostile;
mod naive;
mod races;
mod small;
mod world;
