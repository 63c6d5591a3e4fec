//! Results that are read as they are computed, in bounded memory: `cargo run --example streaming`.

use isomerdb::{Database, Query, Result};

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("db");
    let db = Database::builder().memory(64 << 20).open(path)?;
    db.query(
        "UNWIND range(1, 20000) AS n CREATE (:Reading {_key: n, sensor: n % 7, value: n * 1.5})",
    )?;

    // A stream has its own transaction and holds a batch of rows at a time.
    let (mut rows, mut most) = (0, 0.0_f64);
    for row in db.stream("MATCH (r:Reading) RETURN r.sensor AS sensor, r.value AS value")? {
        let (_, value): (i64, f64) = row?.deserialize()?;
        rows += 1;
        most = most.max(value);
    }
    println!("{rows} rows, at most {most}");

    // In a transaction, a stream and writes can be interleaved.
    let written = db.transact(|tx| {
        let sums = tx.bucket("sums");
        let text = "MATCH (r:Reading) WHERE r.sensor < $below RETURN r.sensor, sum(r.value)";
        let mut written = 0;
        for row in tx.stream(Query::new(text).param("below", 3))? {
            let (sensor, sum): (i64, f64) = row?.deserialize()?;
            sums.put(sensor.to_be_bytes(), sum)?;
            written += 1;
        }
        Ok(written)
    })?;
    println!("{written} sums");

    // Documents and pairs are iterated page by page.
    let tx = db.begin_read()?;
    let readings = tx.collection("Reading").scan(10_000..).step_by(5_000);
    let keys: Result<Vec<_>> = readings.map(|reading| Ok(reading?.0)).collect();
    println!("{:?}", keys?);
    for pair in tx.bucket("sums").range(..).rev().take(1) {
        println!("the last sum is {:?}", pair?.1);
    }

    // Dropping a stream stops its query and rolls it back.
    let mut numbers = db.stream("UNWIND range(1, 1000000000) AS n RETURN n")?;
    let first = numbers.next().transpose()?;
    let first: Option<i64> = first.map(|row| row.get("n")).transpose()?;
    println!("the first of many: {first:?}");
    Ok(())
}

// Prints:
//
// 20000 rows, at most 30000
// 3 sums
// [Int(10000), Int(15000), Int(20000)]
// the last sum is Float(42846429.0)
// the first of many: Some(1)
