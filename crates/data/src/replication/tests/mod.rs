//! Whole databases against one another.

mod dump;
mod history;
mod naive;
mod small;
mod world;
