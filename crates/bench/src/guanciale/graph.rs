//! The recommendation on this database, through its query language.

use std::{fmt, path::PathBuf};

use anyhow::{Context, Result, bail};
use isomer_db::{
    Database, Map, Prepared, Value,
    internals::{
        DatabaseInternals as _, LayerResult as _,
        bulk::{BulkEnds, BulkNode, BulkOptions, BulkRelationship, load_nodes, load_relationships},
        data::DataError,
    },
    params, to_value,
};

use crate::{
    guanciale::likes::{Likes, item_key, line, person_key},
    random::Random,
};

/// What the people who like the same items like most. One pattern per clause, so that a relationship may be
/// traversed twice, as in the original: within one pattern it may not.
pub const RECOMMEND: &str = "\
MATCH (me:Person {_key: $key})-[:LIKES]->(liked)
MATCH (liked)<-[:LIKES]-(other)
MATCH (other)-[:LIKES]->(item)
RETURN item._key AS item, count(*) AS likes ORDER BY likes DESC, item LIMIT 10";
/// Nodes with these keys.
pub const CREATE_NODES: &str = "UNWIND $keys AS key CREATE (:User {_key: key})";
/// The same, with relationships between them: a pair holds two indexes into the list of keys.
pub const CREATE_BOTH: &str = "\
UNWIND $keys AS key CREATE (user:User {_key: key})
WITH collect(user) AS users
UNWIND $pairs AS pair
WITH users[pair[0]] AS one, users[pair[1]] AS other
CREATE (one)-[:FRIENDS]->(other)";

/// A graph of likes in an in-memory database.
#[derive(Debug)]
pub struct Graph {
    _db: Database,
    recommend: Prepared,
}

impl Graph {
    /// Loads `likes`.
    pub fn load(likes: &Likes) -> Result<Self> {
        let db = Database::open_in_memory()?;
        let shape = likes.shape();
        nodes(&db, "Person", (0..shape.people).map(person_key))?;
        nodes(&db, "Item", (0..shape.items).map(item_key))?;
        let mut rows = (1..).zip(likes.pairs()).map(|(row, (person, item))| {
            Ok::<_, DataError>(BulkRelationship {
                row,
                source: Value::String(person_key(person).into()),
                target: Value::String(item_key(item).into()),
                properties: Map::new(),
            })
        });
        let ends = BulkEnds {
            rel_type: "LIKES",
            from: "Person",
            to: "Item",
        };
        load_relationships(
            &db.store()?,
            ends,
            &BulkOptions::default(),
            &mut rows,
            &mut (),
        )
        .lift()?;
        Ok(Self {
            recommend: db.prepare(RECOMMEND)?,
            _db: db,
        })
    }

    /// The result as a line of text.
    pub fn recommend(&self, person: u32) -> Result<String> {
        let found = self.recommend.query([("key", person_key(person))])?;
        let rows: Vec<(String, u64)> = found.deserialize()?;
        Ok(line(person, rows))
    }

    /// The result, not inspected.
    pub fn recommend_only(&self, person: u32) -> Result<()> {
        std::hint::black_box(self.recommend.query([("key", person_key(person))])?);
        Ok(())
    }
}

fn nodes(db: &Database, label: &str, keys: impl Iterator<Item = String>) -> Result<()> {
    let mut rows = (1..).zip(keys).map(|(row, key)| {
        Ok::<_, DataError>(BulkNode {
            row,
            properties: params! { "_key" => key },
        })
    });
    load_nodes(
        &db.store()?,
        label,
        &BulkOptions::default(),
        &mut rows,
        &mut (),
    )
    .lift()?;
    Ok(())
}

/// Location of a database.
#[derive(Clone, Debug)]
pub enum Location {
    /// In memory.
    Memory,
    /// In this folder; each commit is durable when it returns.
    Folder(PathBuf),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "in memory",
            Self::Folder(_) => "on disk, each transaction synced",
        })
    }
}

/// Creates nodes, and relationships between them, one transaction per operation.
#[derive(Debug)]
pub struct Creator {
    db: Database,
    create: Prepared,
    people: u32,
    per_person: u32,
    pairs: Value,
    operations: u64,
}

/// Nodes per operation.
const PEOPLE: f64 = 1_000.0;

impl Creator {
    /// An empty database; each node gets `per_person` relationships to other nodes of the same operation.
    pub fn open(location: &Location, per_person: u32, scale: f64) -> Result<Self> {
        let db = match location {
            Location::Memory => Database::open_in_memory()?,
            Location::Folder(folder) => {
                std::fs::remove_dir_all(folder).ok(); // missing on the first run
                Database::open(folder)?
            }
        };
        let people = (PEOPLE * scale.min(1.0)).round().max(10.0) as u32;
        let mut random = Random::new(u64::from(per_person));
        let mut pairs = Vec::with_capacity((people * per_person) as usize);
        for one in 0..people {
            for _ in 0..per_person {
                pairs.push([one, random.below(people as usize) as u32]);
            }
        }
        let text = if per_person > 0 {
            CREATE_BOTH
        } else {
            CREATE_NODES
        };
        Ok(Self {
            create: db.prepare(text)?,
            db,
            people,
            per_person,
            pairs: to_value(&pairs)?,
            operations: 0,
        })
    }

    /// Runs one operation.
    pub fn create(&mut self) -> Result<()> {
        let batch = self.operations;
        let keys: Vec<String> = (0..self.people)
            .map(|person| format!("user{batch}-{person}"))
            .collect();
        let mut parameters = params! { "keys" => to_value(&keys)? };
        if self.per_person > 0 {
            parameters.insert("pairs", self.pairs.clone());
        }
        self.create.query(parameters)?;
        self.operations += 1;
        Ok(())
    }

    /// Checks that everything was created.
    pub fn check(&self) -> Result<()> {
        let count = |text: &str| -> Result<u64> { Ok(self.db.query(text)?.single()?.get("n")?) };
        let nodes = count("MATCH (u:User) RETURN count(u) AS n")?;
        let relationships = count("MATCH (:User)-[f:FRIENDS]->(:User) RETURN count(f) AS n")?;
        let people = self.operations * u64::from(self.people);
        let right = (people, people * u64::from(self.per_person));
        if (nodes, relationships) != right {
            bail!(
                "{nodes} nodes and {relationships} relationships were created, right are {right:?}"
            );
        }
        self.db.close().context("the database cannot be closed")
    }
}
