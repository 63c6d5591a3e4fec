//! Tests of all models through the database, that need the test kit and no order of cases.

mod corpus;
mod model;
mod round_trip;
