//! Ordered keys and values: `cargo run --example key_value`.

use isomerdb::{BucketOptions, Database, Expiry, Result};

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    db.transact(|tx| {
        let stock = tx.bucket("stock");
        for (fruit, count) in [("apple", 12), ("banana", 7), ("cherry", 90)] {
            stock.put(fruit, count)?;
        }
        stock.put_until("melon", 1, Expiry::After(60_000)) // for a minute
    })?;

    // After a conflict, `transact` runs the closure again.
    let left = db.transact(|tx| {
        let stock = tx.bucket("stock");
        let left = stock.get("apple")?.and_then(|n| n.as_int()).unwrap_or(0) - 2;
        stock.put("apple", left)?;
        Ok(left)
    })?;
    println!("apples left: {left}");

    // A range is an iterator from both ends; it reads page by page.
    let tx = db.begin_read()?;
    for pair in tx.bucket("stock").range("b".."d").rev() {
        let (fruit, count) = pair?;
        println!("{}: {count:?}", String::from_utf8_lossy(&fruit));
    }

    // Typed keys sort as their values do, so the first part of a tuple is a prefix.
    let total = db.transact(|tx| {
        let orders = tx.typed_bucket::<(String, u32), f64>("orders");
        orders.put(&("ada".into(), 1), &9.5)?;
        orders.put(&("ada".into(), 2), &3.25)?;
        orders.put(&("bob".into(), 1), &1.0)?;
        let amounts = orders.prefix(&"ada").map(|order| Ok(order?.1));
        amounts.sum::<Result<f64>>()
    })?;
    println!("ada's orders: {total}");

    // A multi-value bucket has several values under a key, each of them once.
    let tags = db.transact(|tx| {
        let tags = tx.bucket("tags");
        tags.create(BucketOptions::multi_value())?;
        tags.add("post-1", "rust")?;
        tags.add("post-1", "database")?;
        tags.count("post-1")
    })?;
    println!("tags: {tags}");
    Ok(())
}

// Prints:
//
// apples left: 10
// cherry: Int(90)
// banana: Int(7)
// ada's orders: 12.75
// tags: 2
