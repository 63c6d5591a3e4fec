//! Queries executed on small graphs: same rows in every mode, limits, and effects of clauses.

mod barriers;
mod bounds;
mod choices;
mod rules;
mod same_rows;
mod threads;
