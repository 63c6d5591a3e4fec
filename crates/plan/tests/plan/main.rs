//! Plans of statements: golden files, public surface and limits.

mod golden;
mod limits;
mod surface;
