//! Whole databases against one another.

mod dump;
mod small;
