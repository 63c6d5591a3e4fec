//! How fast views are made of a large network in redb, how many bytes they take, and how fast they answer.
//!
//! `cargo run --release -p isomer-views --example build_speed [NODES [RELATIONSHIPS]]` prints one JSON object a line.

use std::{sync::Arc, time::Instant};

use isomer_bulk::{
    BulkEnds, BulkNode, BulkOptions, BulkRelationship, load_nodes, load_relationships,
};
use isomer_data::{Access, DataStore, DataStoreOptions};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use isomer_value::{Map, Value};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, Views};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn say(case: &str, value: f64, unit: &str) {
    println!(
        r#"{{"bench": "build_speed", "case": "{case}", "value": {value:.3}, "unit": "{unit}", "n": 1}}"#
    );
}

/// A number that looks random, the same for the same input.
fn mixed(n: u64) -> u64 {
    let z = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(node: u64) -> Value {
    format!("P{}", node + 1).as_str().into()
}

fn load(store: &DataStore, nodes: u64, relationships: u64) -> Fallible<()> {
    let mut people = (0..nodes).map(|row| {
        let properties: Map = [
            ("_key", key(row)),
            ("AGE", Value::Int((mixed(row) % 90) as i64)),
        ]
        .into_iter()
        .collect();
        Ok(BulkNode { row, properties })
    });
    let options = BulkOptions::default();
    load_nodes(store, "Person", &options, &mut people, &mut ())?;
    let mut friends = (0..relationships).map(|row| {
        Ok(BulkRelationship {
            row,
            source: key(row * nodes / relationships),
            target: key(mixed(row) % nodes),
            properties: Map::new(),
        })
    });
    let ends = BulkEnds {
        rel_type: "FRIEND",
        from: "Person",
        to: "Person",
    };
    load_relationships(store, ends, &options, &mut friends, &mut ())?;
    Ok(())
}

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |n| n.parse());
    let (nodes, relationships) = (number(163_280)?, number(3_062_250)?);
    let folder = tempfile::tempdir()?;
    let engine = RedbEngine::open(folder.path().join("db"), RedbOptions::default())?;
    let store = DataStore::open(Arc::new(engine), DataStoreOptions::default())?;
    let begun = Instant::now();
    load(&store, nodes, relationships)?;
    say("load_s", begun.elapsed().as_secs_f64(), "s");

    let views = Views::open(&store, ViewOptions::default())?;
    let catalog = store.catalog();
    let named = "the load has entered it";
    let friend = catalog.type_id("FRIEND").ok_or(named)?;
    let person = catalog.label_id("Person").ok_or(named)?;
    let (key, age) = (
        catalog.prop_id("_key").ok_or(named)?,
        catalog.prop_id("AGE").ok_or(named)?,
    );
    let (out, into) = (
        ViewKind::Adjacency(friend, AdjacencySide::Out),
        ViewKind::Adjacency(friend, AdjacencySide::In),
    );
    let time = |case: &str, kind: &ViewKind, plain: bool| -> Fallible<()> {
        let begun = Instant::now();
        if plain {
            views.make_plain(kind)?;
        } else {
            views.make(kind)?;
        }
        say(&format!("{case}_s"), begun.elapsed().as_secs_f64(), "s");
        let all = views.status();
        let one = all.iter().find(|one| one.kind == *kind).ok_or(named)?;
        let each = one.bytes as f64 / one.count as f64;
        say(&format!("{case}_bytes_each"), each, "bytes");
        Ok(())
    };
    time("out_from_rows", &out, true)?;
    time("in_from_out", &into, true)?;
    time("members", &ViewKind::Members(Some(person)), true)?;
    time("column_age", &ViewKind::Column(person, [age].into()), true)?;
    time("column_key", &ViewKind::Column(person, [key].into()), true)?;

    let tx = store.begin(Access::Read)?;
    let at = views.at(&tx);
    let adjacency = at
        .adjacency(Some(friend), AdjacencySide::Out)
        .ok_or("no adjacency")?;
    let keys = at.column(person, &[key]).ok_or("no column")?;
    let mut marks = vec![0_u32; adjacency.id_bound() as usize];
    let (mut near, mut far) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    let (mut ids, mut texts) = (Vec::new(), Vec::new());
    const STARTS: u32 = 500;
    let mut total = 0;
    for round in 1..=STARTS {
        let start = (mixed(round.into()) % nodes) as u32;
        let begun = Instant::now();
        found.clear();
        marks[start as usize] = round;
        for &one in adjacency.neighbours(start, &mut near) {
            for &two in adjacency.neighbours(one, &mut far) {
                if marks[two as usize] != round {
                    marks[two as usize] = round;
                    found.push(two);
                }
            }
        }
        ids.push(begun.elapsed().as_secs_f64());
        total += found.len();
        let begun = Instant::now();
        let mut read = Vec::with_capacity(found.len());
        for group in found.chunks(64) {
            keys.fetch(group.iter().copied());
            read.extend(group.iter().filter_map(|id| keys.value(*id)));
        }
        texts.push(begun.elapsed().as_secs_f64());
        assert_eq!(read.len(), found.len());
    }
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2] * 1e6
    };
    say("two_hops_us", median(ids), "us");
    say("keys_of_two_hops_us", median(texts), "us");
    say("found", total as f64 / f64::from(STARTS), "nodes");

    views.clear();
    time("out_with_ids", &out, false)?;
    time("in_with_ids", &into, false)?;
    Ok(())
}
