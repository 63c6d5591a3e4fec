//! Loads a generated network into a database.

use std::io;

use anyhow::Result;
use isomer_db::{
    Database, Value,
    internals::{
        DatabaseInternals as _, LayerResult as _,
        bulk::{
            BulkEnds, BulkNode, BulkOptions, BulkRelationship, BulkWatch, load_nodes,
            load_relationships,
        },
        data::DataError,
    },
};

use crate::{Network, profile::to_map};

/// The label of people.
pub const PERSON: &str = "Person";
/// The type of their relationships.
pub const FRIEND: &str = "FRIEND";

/// Loads all profiles as nodes `:Person`, with keys in `_key`.
pub fn load_people(db: &Database, network: &Network, watch: &mut dyn BulkWatch) -> Result<u64> {
    let mut rows = (0..network.people()).map(|person| {
        Ok::<_, DataError>(BulkNode {
            row: u64::from(person) + 1,
            properties: to_map(&network.profile(person)),
        })
    });
    let outcome = load_nodes(
        &db.store()?,
        PERSON,
        &BulkOptions::default(),
        &mut rows,
        watch,
    )
    .lift()?;
    Ok(outcome.loaded)
}

/// Loads all relationships as `(:Person)-[:FRIEND]->(:Person)`.
pub fn load_friendships(
    db: &Database,
    network: &Network,
    watch: &mut dyn BulkWatch,
) -> Result<u64> {
    load_edges(db, network.edges().iter().map(|&edge| Ok(edge)), watch)
}

/// Loads these relationships, from person to person.
pub fn load_edges(
    db: &Database,
    edges: impl Iterator<Item = io::Result<(u32, u32)>>,
    watch: &mut dyn BulkWatch,
) -> Result<u64> {
    let key = |person| Value::String(Network::key(person).into());
    let mut rows = edges.enumerate().map(|(at, edge)| {
        let (source, target) = edge.map_err(|error| {
            DataError::Invalid(format!("the relationships cannot be read: {error}"))
        })?;
        Ok(BulkRelationship {
            row: at as u64 + 1,
            source: key(source),
            target: key(target),
            properties: isomer_db::Map::new(),
        })
    });
    let ends = BulkEnds {
        rel_type: FRIEND,
        from: PERSON,
        to: PERSON,
    };
    let outcome = load_relationships(
        &db.store()?,
        ends,
        &BulkOptions::default(),
        &mut rows,
        watch,
    )
    .lift()?;
    Ok(outcome.loaded)
}
