//! Key-values, documents and the graph in one transaction: `cargo run --example one_transaction`.

use isomerdb::{Database, Error, ReadTransaction, Result, params};

/// Functions that only read take a `ReadTransaction`; a `WriteTransaction` dereferences to it.
fn balance(tx: &ReadTransaction, account: &str) -> Result<i64> {
    let found = tx.collection("Account").get(account)?;
    let cents = found.and_then(|found| found.get("cents")?.as_int());
    cents.ok_or_else(|| Error::invalid(format!("there is no account `{account}`")))
}

/// Moves money between two documents, links them in the graph, and numbers the receipt in a bucket: all or nothing.
fn pay(db: &Database, from: &str, to: &str, cents: i64) -> Result<u64> {
    db.transact(|tx| {
        let (accounts, receipts) = (tx.collection("Account"), tx.bucket("receipts"));
        let left = balance(tx, from)? - cents;
        if left < 0 {
            return Err(Error::invalid("not enough money"));
        }
        accounts.patch(from, &params! { "cents" => left })?;
        accounts.patch(to, &params! { "cents" => balance(tx, to)? + cents })?;
        tx.query((
            "MATCH (a:Account {_key: $from}), (b:Account {_key: $to})
             CREATE (a)-[:PAID {cents: $cents}]->(b)",
            params! { "from" => from, "to" => to, "cents" => cents },
        ))?;
        let number = receipts.next_number("receipt")?;
        receipts.put(number.to_be_bytes(), format!("{from} paid {to} {cents}"))?;
        Ok(number)
    })
}

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    db.query("CREATE (:Account {_key: 'ada', cents: 1000}), (:Account {_key: 'bob', cents: 0})")?;
    println!("receipt {}", pay(&db, "ada", "bob", 300)?);
    println!("receipt {}", pay(&db, "bob", "ada", 100)?);
    let refused = pay(&db, "bob", "ada", 900).unwrap_err();
    println!("refused: {}", refused.message());

    // A read transaction sees one version of everything.
    let tx = db.begin_read()?;
    let paid = tx.query("MATCH ()-[p:PAID]->() RETURN count(p), sum(p.cents)")?;
    let (count, cents): (i64, i64) = paid.single()?.deserialize()?;
    let (ada, bob) = (balance(&tx, "ada")?, balance(&tx, "bob")?);
    println!("{count} payments of {cents} in all; {ada} and {bob}");
    Ok(())
}

// Prints:
//
// receipt 1
// receipt 2
// refused: not enough money
// 2 payments of 400 in all; 800 and 200
