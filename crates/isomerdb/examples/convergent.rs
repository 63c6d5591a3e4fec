//! Two replicas that are changed independently and agree later:
//! `cargo run --example convergent --features replication`.

use isomerdb::{Database, Result, Update, params, replication::exchange};

fn tags(add: &[&str], remove: &[&str]) -> Update {
    let values = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    Update::Set {
        add: values(add),
        remove: values(remove),
    }
}

fn show(name: &str, db: &Database) -> Result<()> {
    let row = db.query("MATCH (p:Post {_key: 'p'}) RETURN p.likes, p.tags")?;
    let (likes, tags): (i64, Vec<String>) = row.single()?.deserialize()?;
    println!("{name}: {likes} likes, {}", tags.join(" "));
    Ok(())
}

fn main() -> Result<()> {
    let (phone, laptop) = (Database::open_in_memory()?, Database::open_in_memory()?);
    phone.transact(|tx| {
        let posts = tx.collection("Post");
        posts.insert(&params! { "_key" => "p" })?;
        posts.field("p", &["likes"])?.update(&Update::Counter(1))?;
        posts
            .field("p", &["tags"])?
            .update(&tags(&["draft", "rust"], &[]))
    })?;
    exchange(&phone, &laptop)?;

    // Both count, and both change the set: no lock, no coordination.
    phone.transact(|tx| {
        let posts = tx.collection("Post");
        posts.field("p", &["likes"])?.update(&Update::Counter(10))?;
        posts
            .field("p", &["tags"])?
            .update(&tags(&["phone"], &["draft"]))
    })?;
    laptop.query("MATCH (p:Post {_key: 'p'}) SET p.likes = counter.add(p.likes, 5), p.tags = set.add(p.tags, 'laptop')")?;
    show("phone ", &phone)?;
    show("laptop", &laptop)?;

    exchange(&laptop, &phone)?;
    show("phone ", &phone)?;
    show("laptop", &laptop)?;
    Ok(())
}

// Prints:
//
// phone : 11 likes, phone rust
// laptop: 6 likes, draft laptop rust
// phone : 16 likes, laptop phone rust
// laptop: 16 likes, laptop phone rust
