//! Roles, and the databases on which a user has them.

use std::collections::BTreeMap;

use isomer_db::{Map, StatementClass, Value};

use crate::{Result, ServerError};

/// What a user may do in a database; each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads data.
    Reader,
    /// Changes records, keys and documents.
    Editor,
    /// Creates and drops indexes, constraints and buckets.
    Schema,
    /// Exchanges transactions with other databases.
    Replica,
    /// Lists and cancels queries, makes backups; on all databases: users, roles, tokens, databases.
    Admin,
}

impl Role {
    /// All roles, the lowest first.
    pub const ALL: [Self; 5] = [
        Self::Reader,
        Self::Editor,
        Self::Schema,
        Self::Replica,
        Self::Admin,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Editor => "editor",
            Self::Schema => "schema",
            Self::Replica => "replica",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The highest class of statements that it may run.
    pub fn class(self) -> StatementClass {
        match self {
            Self::Reader => StatementClass::Read,
            Self::Editor => StatementClass::Write,
            Self::Schema | Self::Replica => StatementClass::Schema,
            Self::Admin => StatementClass::Admin,
        }
    }
}

/// Names all databases, including future ones.
pub const ALL_DATABASES: &str = "*";

/// Roles by database; no entry means no right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights(BTreeMap<String, Role>);

impl Rights {
    /// No rights.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every right on everything.
    pub fn all() -> Self {
        Self(BTreeMap::from([(ALL_DATABASES.to_owned(), Role::Admin)]))
    }

    /// Adds a role on a database.
    pub fn with(mut self, database: &str, role: Role) -> Self {
        self.0.insert(database.to_owned(), role);
        self
    }

    /// The role on a database, including the one on all databases; `None` means denied.
    pub fn on(&self, database: &str) -> Option<Role> {
        let own = self.0.get(database).copied();
        own.max(self.0.get(ALL_DATABASES).copied())
    }

    /// The role on all databases.
    pub fn on_all(&self) -> Option<Role> {
        self.0.get(ALL_DATABASES).copied()
    }

    /// Databases and roles.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Role)> {
        self.0.iter().map(|(name, role)| (name.as_str(), *role))
    }

    /// Whether these rights are all contained in `other`.
    pub fn within(&self, other: &Self) -> bool {
        self.iter().all(|(database, role)| {
            let held = if database == ALL_DATABASES {
                other.on_all()
            } else {
                other.on(database)
            };
            held >= Some(role)
        })
    }

    /// Converts to a map: `{"people": "reader"}`.
    pub fn to_map(&self) -> Map {
        self.iter()
            .map(|(name, role)| (name, Value::from(role.name())))
            .collect()
    }

    /// Parses a map of database names to role names.
    pub fn from_map(map: &Map) -> Result<Self> {
        let mut rights = Self::none();
        for (database, role) in map.iter() {
            let known = role.as_str().and_then(Role::of_name);
            let Some(role) = known else {
                return Err(ServerError::Invalid(format!(
                    "the role on `{database}` is unknown: use reader, editor, schema, replica or admin"
                )));
            };
            if &**database != ALL_DATABASES {
                super::databases::check_name(database)?;
            }
            rights.0.insert(database.to_string(), role);
        }
        Ok(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_denied_unless_granted() {
        assert_eq!(Rights::none().on("people"), None);
        let rights = Rights::none().with("people", Role::Editor);
        assert_eq!(rights.on("people"), Some(Role::Editor));
        assert_eq!(rights.on("peopl"), None);
        assert_eq!(rights.on("People"), None);
        assert_eq!(rights.on_all(), None);
        let rights = rights.with(ALL_DATABASES, Role::Reader);
        assert_eq!(rights.on("people"), Some(Role::Editor));
        assert_eq!(rights.on("other"), Some(Role::Reader));
    }

    #[test]
    fn a_scope_never_exceeds_the_rights_of_its_user() {
        let own = Rights::none()
            .with("a", Role::Editor)
            .with("b", Role::Reader);
        assert!(Rights::none().with("a", Role::Reader).within(&own));
        assert!(!Rights::none().with("b", Role::Editor).within(&own));
        assert!(!Rights::none().with("c", Role::Reader).within(&own));
        assert!(
            !Rights::none()
                .with(ALL_DATABASES, Role::Reader)
                .within(&own)
        );
        assert!(
            Rights::none()
                .with("c", Role::Schema)
                .within(&Rights::all())
        );
    }

    #[test]
    fn roles_round_trip_through_their_names() {
        let rights = Rights::none()
            .with("a", Role::Schema)
            .with(ALL_DATABASES, Role::Reader);
        assert_eq!(Rights::from_map(&rights.to_map()).unwrap(), rights);
        let wrong = [("a", Value::from("root"))].into_iter().collect();
        assert!(Rights::from_map(&wrong).is_err());
        let wrong = [("../a", Value::from("reader"))].into_iter().collect();
        assert!(Rights::from_map(&wrong).is_err());
    }
}
