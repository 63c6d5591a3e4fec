//! What keeping views costs those who write: the same commits with and without them.
//!
//! `cargo run --release -p isomer-views --example write_cost [ROUNDS]` prints one JSON object a line.

use std::{sync::Arc, time::Instant};

use isomer_data::{Access, DataStore, DataStoreOptions, Durability};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, Views};

const NODES: u64 = 20_000;
const COMMITS: u64 = 20_000;

struct Kept {
    store: DataStore,
    views: Option<Arc<Views>>,
}

fn open(keep: bool) -> Result<Kept, Box<dyn std::error::Error>> {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())?;
    let mut tx = store.begin(Access::Write)?;
    let label = tx.name_ids().intern_label("Person")?;
    let knows = tx.name_ids().intern_type("KNOWS")?;
    for key in 0..NODES {
        tx.graph_mut().create_node(&[label], &properties(key))?;
    }
    for node in 0..NODES {
        let other = NodeId(node * 7919 % NODES);
        tx.graph_mut()
            .create_relationship(knows, NodeId(node), other, &Map::new())?;
    }
    let age = tx.name_ids().intern_prop("age")?;
    let name = tx.name_ids().intern_prop("name")?;
    tx.commit()?;
    if !keep {
        return Ok(Kept { store, views: None });
    }
    let views = Views::open(&store, ViewOptions::default())?;
    for kind in [
        ViewKind::Adjacency(knows, AdjacencySide::Out),
        ViewKind::Adjacency(knows, AdjacencySide::In),
        ViewKind::Members(Some(label)),
        ViewKind::Column(label, [age].into()),
        ViewKind::Column(label, [name].into()),
    ] {
        views.make(&kind)?;
    }
    Ok(Kept {
        store,
        views: Some(views),
    })
}

fn properties(key: u64) -> Map {
    let name = format!("person number {key}");
    [
        ("age", Value::Int((key % 90) as i64)),
        ("name", name.as_str().into()),
    ]
    .into_iter()
    .collect()
}

/// Commits of `size` writes each, half of them nodes, half relationships; microseconds a write.
fn write(kept: &Kept, commits: u64, size: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let tx = kept.store.begin(Access::Write)?;
    let (label, knows) = (
        tx.name_ids().intern_label("Person")?,
        tx.name_ids().intern_type("KNOWS")?,
    );
    drop(tx);
    let begun = Instant::now();
    for commit in 0..commits {
        let mut tx = kept.store.begin(Access::Write)?;
        for one in 0..size {
            let number = commit * size + one;
            if number.is_multiple_of(2) {
                tx.graph_mut().create_node(&[label], &properties(number))?;
            } else {
                let (from, to) = (number * 31 % NODES, number * 17 % NODES);
                tx.graph_mut()
                    .create_relationship(knows, NodeId(from), NodeId(to), &Map::new())?;
            }
        }
        tx.commit_with(Durability::Buffered)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / (commits * size) as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(Ok(5), |rounds| rounds.parse())?;
    for (case, commits, size) in [("single", COMMITS, 1), ("thousands", COMMITS / 1000, 1000)] {
        let mut best = [f64::MAX; 2];
        for _ in 0..rounds {
            // AdjacencySide by side, so that what else the machine does is the same for both.
            for keep in [false, true] {
                let kept = open(keep)?;
                let cost = write(&kept, commits, size)?;
                best[usize::from(keep)] = best[usize::from(keep)].min(cost);
                if let Some(views) = kept.views {
                    views.close();
                }
            }
        }
        let [without, with] = best;
        let share = (with / without - 1.0) * 100.0;
        println!(
            r#"{{"bench": "write_cost", "case": "{case}_percent", "value": {share:.1}, "unit": "% slower with views", "n": {rounds}}}"#
        );
        println!(
            r#"{{"bench": "write_cost", "case": "{case}_without_us", "value": {without:.2}, "unit": "us", "n": {rounds}}}"#
        );
    }
    Ok(())
}
