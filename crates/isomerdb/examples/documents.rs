//! Documents by key, as Rust types: `cargo run --example documents`.

use isomerdb::{Database, ErrorKind, Result, params};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug)]
struct User {
    _key: String,
    name: String,
    address: Address,
}

#[derive(Serialize, Deserialize, Debug)]
struct Address {
    city: String,
}

fn user(key: &str, name: &str, city: &str) -> User {
    let (key, name, city) = (key.to_owned(), name.to_owned(), city.to_owned());
    let address = Address { city };
    User {
        _key: key,
        name,
        address,
    }
}

fn main() -> Result<()> {
    let db = Database::open_in_memory()?;
    db.query("CREATE INDEX FOR (u:User) ON (u.address.city)")?;
    db.transact(|tx| {
        let users = tx.collection("User");
        users.insert(&user("ada", "Ada", "London"))?;
        users.insert(&user("luigi", "Luigi", "Turin"))?;
        users.patch(
            "luigi",
            &params! { "address" => params! { "city" => "London" } },
        )
    })?;

    let taken = db.transact(|tx| {
        tx.collection("User")
            .insert(&user("ada", "Another", "Rome"))
    });
    println!(
        "again: {}",
        taken.is_err_and(|error| error.kind() == ErrorKind::Exists)
    );

    // The query language sees documents as nodes, with an index on the nested field.
    let rows = db.query((
        "MATCH (u:User) WHERE u.address.city = $city RETURN u ORDER BY u.name",
        params! { "city" => "London" },
    ))?;
    for user in rows.deserialize::<User>()? {
        println!("{} lives in {}", user.name, user.address.city);
    }

    let tx = db.begin_read()?;
    let keys = tx
        .collection("User")
        .scan("b"..)
        .map(|document| Ok(document?.0));
    println!("after b: {:?}", keys.collect::<Result<Vec<_>>>()?);
    Ok(())
}

// Prints:
//
// again: true
// Ada lives in London
// Luigi lives in London
// after b: [String("luigi")]
