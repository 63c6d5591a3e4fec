//! The next release of neo4rs.

#[path = "../../../harness/harness.rs"]
mod harness;
#[path = "../../program.rs"]
mod program;

use harness::{bolt, password, run, USER};
use neo4rs::{ConfigBuilder, Graph};
use program::*;

/// Connects to the server.
pub async fn graph() -> Result<Graph, neo4rs::Error> {
    let config = ConfigBuilder::default()
        .uri(bolt())
        .user(USER)
        .password(password())
        .db("people")
        .fetch_size(100)
        .max_connections(4)
        .build()?;
    Graph::connect(config)
}

#[tokio::main]
async fn main() {
    run!(
        "neo4rs-next",
        nodes_are_created_and_read,
        relationships_and_paths_are_read,
        results_are_streamed,
        values_round_trip,
        transactions_commit_and_roll_back,
        errors_are_reported,
        connections_are_shared,
    );
}
