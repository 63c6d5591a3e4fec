//! A graph, in openCypher: `cargo run --example graph`.

use isomerdb::{Database, Result, params};

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    let made = db.query(
        "CREATE (ada:Person {_key: 'ada'}), (bob:Person {_key: 'bob'}), (cleo:Person {_key: 'cleo'}), (dan:Person {_key: 'dan'})
         CREATE (ada)-[:KNOWS {since: 1833}]->(bob)-[:KNOWS {since: 1840}]->(cleo)-[:KNOWS {since: 1851}]->(dan)",
    )?;
    let counters = made.counters();
    println!(
        "{} nodes, {} relationships",
        counters.nodes_created, counters.relationships_created
    );

    // A query that runs many times is prepared once.
    let within = db.prepare(
        "MATCH (:Person {_key: $who})-[:KNOWS*1..2]-(p) RETURN p._key AS key ORDER BY key",
    )?;
    for who in ["ada", "cleo"] {
        let found = within
            .query(params! { "who" => who })?
            .deserialize::<String>()?;
        println!("within two steps of {who}: {}", found.join(", "));
    }

    let path = db.query((
        "MATCH (a:Person {_key: $from}), (b:Person {_key: $to}) MATCH p = shortestPath((a)-[:KNOWS*]-(b))
         RETURN [n IN nodes(p) | n._key] AS keys, reduce(t = 0, r IN relationships(p) | t + r.since) AS sum",
        params! { "from" => "ada", "to" => "dan" },
    ))?;
    let (keys, sum): (Vec<String>, i64) = path.single()?.deserialize()?;
    println!("{} ({sum})", keys.join(" - "));
    Ok(())
}

// Prints:
//
// 4 nodes, 3 relationships
// within two steps of ada: bob, cleo
// within two steps of cleo: ada, bob, dan
// ada - bob - cleo - dan (5524)
