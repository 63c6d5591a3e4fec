//! Ordered keys and values: `cargo run --example key_value`.

use isomerdb::{BucketOptions, Database, Expiry, Result, Value};

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    db.transact(|tx| {
        let (stock, prices) = (tx.bucket("stock"), tx.bucket("prices"));
        for (fruit, count, cents) in [("apple", 12, 40), ("banana", 7, 25), ("cherry", 90, 5)] {
            stock.put(fruit, count)?;
            prices.put(fruit, cents)?;
        }
        stock.put_until("melon", 1, Expiry::After(60_000)) // for a minute
    })?;

    // Each attempt of a conflicting transaction starts anew.
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
        println!(
            "{}: {}",
            String::from_utf8_lossy(&fruit),
            count.as_int().unwrap_or(0)
        );
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

    // Several values under a key.
    let tags = db.transact(|tx| {
        let tags = tx.bucket("tags");
        tags.create(BucketOptions::multi_value())?;
        ["rust", "database", "rust"]
            .iter()
            .try_for_each(|tag| tags.add("post-1", tag))?;
        tags.count("post-1")
    })?;
    println!("tags: {tags}");
    assert_eq!(
        db.read(|tx| tx.bucket("prices").get("cherry"))?,
        Some(Value::from(5))
    );
    Ok(())
}

// Prints:
//
// apples left: 10
// cherry: 90
// banana: 7
// ada's orders: 12.75
// tags: 2
