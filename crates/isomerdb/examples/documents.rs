//! Documents by key, as Rust types: `cargo run --example documents`.

use isomerdb::{Database, ErrorKind, Result, params};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct User {
    _key: String,
    city: String,
    languages: Vec<String>,
}

fn user(key: &str, city: &str) -> User {
    User {
        _key: key.to_owned(),
        city: city.to_owned(),
        languages: vec!["en".to_owned()],
    }
}

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    db.query("CREATE INDEX FOR (u:User) ON (u.city)")?;
    db.transact(|tx| {
        let users = tx.collection("User");
        users.insert(&user("ada", "London"))?;
        users.insert(&user("luigi", "Turin"))?;
        users.patch("luigi", &params! { "city" => "London" })
    })?;

    // A key is unique in its collection.
    let again = db.transact(|tx| tx.collection("User").insert(&user("ada", "Rome")));
    let is_taken = again.is_err_and(|error| error.kind() == ErrorKind::Exists);
    println!("the key is taken: {is_taken}");

    // The query language sees documents as nodes, and finds them by the index.
    let text = "MATCH (u:User) WHERE u.city = $city RETURN u ORDER BY u._key";
    let found = db.query((text, params! { "city" => "London" }))?;
    for user in found.deserialize::<User>()? {
        println!("{} lives in {}", user._key, user.city);
    }

    let tx = db.begin_read()?;
    let users = tx.collection("User");
    let keys: Result<Vec<_>> = users.scan("b"..).map(|user| Ok(user?.0)).collect();
    println!("after b: {:?}", keys?);
    Ok(())
}

// Prints:
//
// the key is taken: true
// ada lives in London
// luigi lives in London
// after b: [String("luigi")]
