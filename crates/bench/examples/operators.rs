//! Micro-benchmarks of single operators and of point reads:
//! `cargo run --release -p isomer-bench --example operators -- CASE… [--scale F]`.

use std::time::{Duration, Instant};

use anyhow::Result;
use isomer_bench::{
    Network,
    guanciale::graph::RECOMMEND,
    load::{load_friendships, load_people},
    pokec::graph,
    random::Random,
};
use isomer_db::{Database, Durability, internals::DatabaseInternals as _, params};

fn main() -> Result<()> {
    let mut cases: Vec<String> = std::env::args().skip(1).collect();
    let mut scale = 0.02;
    if let Some(at) = cases.iter().position(|word| word == "--scale") {
        scale = cases[at + 1].parse()?;
        cases.drain(at..at + 2);
    }
    let folder = tempfile::tempdir()?;
    for case in &cases {
        match case.as_str() {
            "point" => {
                point("memory", &Database::open_in_memory()?)?;
                point("redb", &Database::open(folder.path().join("point"))?)?;
            }
            "pointmem" => point("memory", &Database::open_in_memory()?)?,
            "writes" => {
                let buffered = || Database::builder().durability(Durability::Buffered);
                writes("memory", &buffered().open_in_memory()?)?;
                writes("redb", &buffered().open(folder.path().join("writes"))?)?;
            }
            "recommend" => {
                for items in [200, 2_000] {
                    for (likes, people) in [(10, 1_000), (10, 10_000), (100, 1_000), (100, 10_000)]
                    {
                        recommend(items, likes, people)?;
                    }
                }
            }
            "network" => network(scale)?,
            other => anyhow::bail!("there is no case `{other}`"),
        }
    }
    Ok(())
}

fn shown(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    println!(
        "{what}: mean {mean:.2?}, median {:.2?}, 99% {:.2?}, worst {:.2?}, n {}",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

fn timed<T>(what: &str, n: usize, mut work: impl FnMut(usize) -> Result<T>) -> Result<()> {
    let mut times = Vec::with_capacity(n);
    for at in 0..n {
        let start = Instant::now();
        work(at)?;
        times.push(start.elapsed());
    }
    shown(what, &mut times);
    Ok(())
}

fn point(engine: &str, db: &Database) -> Result<()> {
    const PEOPLE: u32 = 100_000;
    let network = Network::of_people(PEOPLE, 1);
    load_people(db, &network, &mut ())?;
    let mut random = Random::new(1);
    let keys: Vec<String> = (0..PEOPLE)
        .map(|_| Network::key(random.below(PEOPLE as usize) as u32))
        .collect();
    let n = keys.len();
    // The storage work behind it: begin, look up the node by key, read its record.
    let store = db.store()?;
    let label = store
        .begin(isomer_db::internals::data::Access::Read)?
        .name_ids()
        .find_label("Person");
    let label = label.expect("people were loaded");
    timed(&format!("{engine}: data: begin, key, record"), n, |at| {
        use isomer_db::internals::data::GraphRead;
        let tx = store.begin(isomer_db::internals::data::Access::Read)?;
        let key = isomer_db::Value::from(keys[at].as_str());
        let node = tx.node_by_key(label, &key)?.expect("it was loaded");
        let mut found = Vec::new();
        tx.node_contents(&[node], &mut found)?;
        Ok(found)
    })?;
    timed(&format!("{engine}: data: begin"), n, |_| {
        Ok(store.begin(isomer_db::internals::data::Access::Read)?)
    })?;
    let tx = store.begin(isomer_db::internals::data::Access::Read)?;
    timed(&format!("{engine}: data: key, record"), n, |at| {
        use isomer_db::internals::data::GraphRead;
        let key = isomer_db::Value::from(keys[at].as_str());
        let node = tx.node_by_key(label, &key)?.expect("it was loaded");
        let mut found = Vec::new();
        tx.node_contents(&[node], &mut found)?;
        Ok(found)
    })?;
    let read = db.prepare("MATCH (p:Person {_key: $k}) RETURN p")?;
    timed(&format!("{engine}: prepared, whole"), n, |at| {
        Ok(read.query([("k", keys[at].as_str())])?)
    })?;
    let start = Instant::now();
    for key in &keys {
        read.query([("k", key.as_str())])?;
    }
    println!("{engine}: {n} prepared reads in {:.3?}", start.elapsed());
    let one = db.prepare("MATCH (p:Person {_key: $k}) RETURN p.AGE")?;
    timed(&format!("{engine}: prepared, one property"), n, |at| {
        Ok(one.query([("k", keys[at].as_str())])?)
    })?;
    let session = db.begin_read()?;
    timed(
        &format!("{engine}: prepared, in one transaction"),
        n,
        |at| Ok(session.query_prepared(&read, [("k", keys[at].as_str())])?),
    )?;
    timed(&format!("{engine}: text with a parameter"), n, |at| {
        Ok(db.query((
            "MATCH (p:Person {_key: $k}) RETURN p",
            [("k", keys[at].as_str())],
        ))?)
    })?;
    let texts: Vec<String> = keys
        .iter()
        .map(|key| format!("MATCH (p:Person {{_key: '{key}'}}) RETURN p"))
        .collect();
    timed(&format!("{engine}: text with a literal"), n, |at| {
        Ok(db.query(&texts[at])?)
    })
}

fn writes(engine: &str, db: &Database) -> Result<()> {
    let create = db.prepare("CREATE (:Event {_key: $k, number: $n})")?;
    create.query(params! { "k" => -1, "n" => 0 })?;
    let start = Instant::now();
    timed(&format!("{engine}: buffered write"), 100_000, |at| {
        Ok(create.query(params! { "k" => at as i64, "n" => at as i64 })?)
    })?;
    println!(
        "{engine}: 100000 buffered writes in {:.3?}",
        start.elapsed()
    );
    Ok(())
}

fn recommend(items: i64, likes: i64, people: i64) -> Result<()> {
    let db = Database::open_in_memory()?;
    db.query((
        "UNWIND range(0, $items - 1) AS i CREATE (:Item {_key: 'item' + toString(i)})",
        params! { "items" => items },
    ))?;
    db.query((
        "UNWIND range(0, $people - 1) AS i CREATE (:Person {_key: 'person' + toString(i)})",
        params! { "people" => people },
    ))?;
    let mut random = Random::new(7);
    for person in 0..people {
        let liked: Vec<isomer_db::Value> = (0..likes)
            .map(|_| format!("item{}", random.below(items as usize)).into())
            .collect();
        db.query(("MATCH (p:Person {_key: $k}) UNWIND $liked AS item MATCH (i:Item {_key: item}) CREATE (p)-[:LIKES]->(i)", params! { "k" => format!("person{person}"), "liked" => liked }))?;
    }
    let name = format!("recommend {items} x {likes} x {people}");
    for _ in 0..50 {
        db.query((RECOMMEND, params! {"key" => "person0"}))?;
    }
    db.views().wait_ready();
    let query = db.prepare(RECOMMEND)?;
    println!(
        "{}",
        db.query((
            &format!("PROFILE {RECOMMEND}"),
            params! {"key" => "person0"}
        ))?
        .plan()
        .unwrap_or_default()
    );
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) || times.len() < 3 {
        let key = format!("person{}", random.below(people as usize));
        let begin = Instant::now();
        query.query(params! { "key" => key })?;
        times.push(begin.elapsed());
    }
    println!(
        "{name}: {:.1} ops/s",
        times.len() as f64 / start.elapsed().as_secs_f64()
    );
    shown(&name, &mut times);
    Ok(())
}

fn network(scale: f64) -> Result<()> {
    let db = Database::open_in_memory()?;
    let network = Network::at_scale(scale, 1);
    let start = Instant::now();
    load_people(&db, &network, &mut ())?;
    load_friendships(&db, &network, &mut ())?;
    println!(
        "{} people, {} relationships in {:.2?}",
        network.people(),
        network.edges().len(),
        start.elapsed()
    );
    let mut random = Random::new(2);
    let keys: Vec<String> = (0..500)
        .map(|_| Network::key(random.below(network.people() as usize) as u32))
        .collect();
    for text in [
        graph::NEIGHBOURS,
        "MATCH (p:Person {_key: $key})-[:FRIEND]->()-[:FRIEND]->(n) RETURN DISTINCT id(n) AS id",
        "MATCH (p:Person {_key: $key})-[:FRIEND]->(a) MATCH (a)-[:FRIEND]->(n) RETURN n.AGE, count(*)",
        graph::NEIGHBOUR_KEYS,
        graph::NEIGHBOUR_PROFILES,
    ] {
        for key in keys.iter().take(30) {
            db.query((text, params! {"key" => key.as_str()}))?;
        }
        db.views().wait_ready();
        let query = db.prepare(text)?;
        println!(
            "{}",
            db.query((
                &format!("PROFILE {text}"),
                params! {"key" => keys[0].as_str()}
            ))?
            .plan()
            .unwrap_or_default()
        );
        let mut rows = 0;
        timed(text, keys.len(), |at| {
            rows += query.query([("key", keys[at].as_str())])?.len();
            Ok(())
        })?;
        println!("  {rows} rows");
    }
    let path = graph::SHORTEST;
    let query = db.prepare(path)?;
    println!(
        "{}",
        db.query((
            &format!("PROFILE {path}"),
            params! {"from" => keys[0].as_str(), "to" => keys[1].as_str()}
        ))?
        .plan()
        .unwrap_or_default()
    );
    timed(path, keys.len() - 1, |at| {
        Ok(query
            .query(params! { "from" => keys[at].as_str(), "to" => keys[at + 1].as_str() })?
            .len())
    })?;
    for text in [
        graph::AGES,
        graph::PATHS,
        "MATCH (p:Person)-[:FRIEND]->(q:Person) RETURN q.AGE AS age, count(*) AS people",
    ] {
        db.query(text)?;
        db.views().wait_ready();
        let query = db.prepare(text)?;
        println!(
            "{}",
            db.query(&format!("PROFILE {text}"))?
                .plan()
                .unwrap_or_default()
        );
        timed(text, 5, |_| Ok(query.query(())?))?;
    }
    Ok(())
}
