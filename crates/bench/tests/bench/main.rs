//! The benchmarks: they run, they report what they promise, and their data has the shape it imitates.

mod figures;
mod language;
mod shape;
mod views;
