//! What statements may ask about the server: its databases, users and settings, as the client may see them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Instant,
};

use isomer_db::{
    Map, Value,
    internals::{Administration, Host, HostError, Listing},
};

use parking_lot::Mutex;

use super::{Databases, Guesses, Principal, Rights, Role, System, password};
use crate::{
    ServerError,
    audit::{Audit, Event},
    config::ShownSetting,
};

/// The name that Neo4j gives to its default database: an alias here.
pub(crate) const NEO4J: &str = "neo4j";
/// The database of administration, in which clients ask for routes and run `SHOW`.
pub(crate) const SYSTEM: &str = "system";

/// The parts of the server that statements ask about.
pub(crate) struct ServerFacts {
    pub databases: Arc<Databases>,
    pub system: Option<Arc<System>>,
    pub settings: Vec<ShownSetting>,
    /// Default database of clients.
    pub home: Option<Arc<str>>,
    pub bolt_address: Arc<OnceLock<SocketAddr>>,
    pub guesses: Arc<Guesses>,
    pub audit: Arc<Audit>,
}

impl ServerFacts {
    /// The database of a principal that names none: the configured one, or the first on the command line, if the
    /// principal has a right there; otherwise the first by name that it has a right on.
    pub fn home_of(&self, principal: &Principal) -> Option<Arc<str>> {
        let allowed = |name: &Arc<str>| principal.rights.on(name).is_some();
        let home = self.home.clone().filter(allowed);
        home.or_else(|| self.databases.names().into_iter().find(allowed))
    }

    /// The database of this name: that of a principal that names none for `neo4j`, unless there is one of that name.
    pub fn resolve(&self, name: &str, principal: &Principal) -> Arc<str> {
        if name.eq_ignore_ascii_case(NEO4J) && !self.is_name(NEO4J) {
            return self.home_of(principal).unwrap_or_else(|| name.into());
        }
        name.into()
    }

    /// Whether this is the database of administration: `system`, unless there is a database of that name.
    pub fn is_system(&self, name: &str) -> bool {
        name == SYSTEM && !self.is_name(SYSTEM)
    }

    fn is_name(&self, name: &str) -> bool {
        self.databases.has(name)
    }
}

/// The server as the host of one statement.
pub(super) struct StatementHost {
    facts: Arc<ServerFacts>,
    principal: Arc<Principal>,
    from: IpAddr,
    database: Arc<str>,
    metadata: Arc<Mutex<Map>>,
}

impl StatementHost {
    pub fn new(
        facts: Arc<ServerFacts>,
        (principal, from): (Arc<Principal>, IpAddr),
        database: Arc<str>,
        metadata: Arc<Mutex<Map>>,
    ) -> Self {
        Self {
            facts,
            principal,
            from,
            database,
            metadata,
        }
    }

    /// The columns of a database that all listings of databases have in common.
    fn database(&self, name: &Arc<str>) -> Vec<Value> {
        let home = self.facts.home_of(&self.principal);
        let error = self.facts.databases.open_error(name);
        let is_admin = self.principal.rights.on(name) == Some(Role::Admin);
        let aliases: Value = match home.as_ref() == Some(name) && !self.facts.is_name(NEO4J) {
            true => vec![Value::from(NEO4J)].into(),
            false => Value::empty_list(),
        };
        let address = self.facts.bolt_address.get().map(ToString::to_string);
        let status = if error.is_none() { "online" } else { "offline" };
        vec![
            Value::String(name.clone()),
            (if **name == *SYSTEM {
                SYSTEM
            } else {
                "standard"
            })
            .into(),
            aliases,
            "read-write".into(),
            address.into(),
            "primary".into(),
            true.into(),
            "online".into(),
            status.into(),
            error.filter(|_| is_admin).unwrap_or_default().into(),
        ]
    }

    fn databases(&self) -> Vec<Vec<Value>> {
        let allowed = |name: &Arc<str>| self.principal.rights.on(name).is_some();
        let names = self.facts.databases.names().into_iter().filter(allowed);
        let home = self.facts.home_of(&self.principal);
        let system = Some(Arc::from(SYSTEM)).filter(|name: &Arc<str>| self.facts.is_system(name));
        let rows = names.chain(system).map(|name| {
            let mut row = self.database(&name);
            row.push((self.facts.home.as_ref() == Some(&name)).into());
            row.push((home.as_ref() == Some(&name)).into());
            row.push(Value::empty_list());
            row
        });
        rows.collect()
    }

    fn one_database(&self, name: Option<Arc<str>>) -> Vec<Vec<Value>> {
        let row = name.map(|name| {
            let mut row = self.database(&name);
            row.push(Value::empty_list());
            row
        });
        row.into_iter().collect()
    }

    fn require_admin(&self, listing: &str) -> Result<(), HostError> {
        match self.principal.rights.on_all() {
            Some(Role::Admin) => Ok(()),
            _ => Err(HostError {
                denied: true,
                message: format!(
                    "`{}` does not have the role admin on all databases, which {listing} needs",
                    self.principal.name
                ),
            }),
        }
    }

    fn user(&self, name: &Arc<str>, roles: Vec<Value>, home: Option<Arc<str>>) -> Vec<Value> {
        vec![
            Value::String(name.clone()),
            roles.into(),
            false.into(),
            false.into(),
            home.map_or(Value::Null, Value::String),
        ]
    }

    fn users(&self) -> Result<Vec<Vec<Value>>, HostError> {
        self.require_admin("SHOW USERS")?;
        let Some(system) = &self.facts.system else {
            return Ok(vec![self.current_user()]);
        };
        let users = system.users().into_iter().map(|user| {
            let roles = user.roles.iter().map(role).collect();
            self.user(&user.name, roles, None)
        });
        Ok(users.collect())
    }

    fn current_user(&self) -> Vec<Value> {
        let rights = self.principal.rights.of_its_user();
        let roles = rights.iter().map(role).collect();
        let home = self.facts.home_of(&self.principal);
        self.user(&self.principal.name, roles, home)
    }

    /// Drops another database than that of the statement, whose transaction is open.
    fn drop_database(&self, name: &str) -> crate::Result<()> {
        if *self.database == *name {
            return Err(ServerError::Invalid(format!(
                "a statement cannot drop `{name}`, the database that it runs on: run it on `{SYSTEM}`"
            )));
        }
        self.facts.databases.remove(name)
    }

    fn system(&self) -> crate::Result<&Arc<System>> {
        let none = "this server has no users: start it with its own folder";
        let system = self.facts.system.as_ref();
        system.ok_or_else(|| ServerError::Invalid(none.into()))
    }

    /// Changes the client's own password. Wrong current passwords count as failed logins.
    fn change_own_password(&self, current: &str, password: &str) -> crate::Result<()> {
        let system = self.system()?;
        let turn = self.facts.guesses.turn_now(self.from)?;
        let name = &*self.principal.name;
        if !system.knows_password(name, current) {
            turn.failed();
            return Err(ServerError::Denied(format!(
                "the password after FROM is not the current password of `{name}`"
            )));
        }
        if current == password {
            return Err(ServerError::Invalid(
                "the new password is the current one: choose another".into(),
            ));
        }
        system.set_password(name, password, false)
    }

    fn run(&self, command: Administration) -> crate::Result<()> {
        let system = || self.system();
        let databases = &self.facts.databases;
        match command {
            Administration::CreateUser {
                name,
                password,
                if_not_exists,
                replace,
            } => {
                let system = system()?;
                let exists = system.user(&name).is_ok();
                if exists && if_not_exists {
                    return Ok(());
                }
                if exists && replace {
                    // The old user stays if the new one would be refused.
                    password::hash(&password)?;
                    system.remove_user(&name)?;
                }
                system.add_user(&name, &password, &Rights::none()).map(drop)
            }
            Administration::SetPassword {
                name,
                password,
                if_exists,
            } => {
                let system = system()?;
                match system.user(&name) {
                    Err(_) if if_exists => Ok(()),
                    _ => system.set_password(&name, &password, false),
                }
            }
            Administration::DropUser { name, if_exists } => {
                let system = system()?;
                match system.user(&name) {
                    Err(_) if if_exists => Ok(()),
                    _ => system.remove_user(&name),
                }
            }
            Administration::CreateDatabase {
                name,
                if_not_exists,
                replace,
            } => {
                let exists = databases.has(&name);
                if exists && if_not_exists {
                    return Ok(());
                }
                if exists && replace {
                    self.drop_database(&name)?;
                }
                databases.create(&name)
            }
            Administration::DropDatabase { name, if_exists } => {
                if if_exists && !databases.has(&name) {
                    return Ok(());
                }
                self.drop_database(&name)
            }
            _ => Err(ServerError::Invalid(
                "the server does not know this command".into(),
            )),
        }
    }

    fn settings(&self) -> Result<Vec<Vec<Value>>, HostError> {
        self.require_admin("SHOW SETTINGS")?;
        let row = |shown: &ShownSetting| {
            vec![
                shown.setting.key.into(),
                shown.value.as_str().into(),
                false.into(),
                shown.setting.default.into(),
                shown.setting.help.into(),
                shown.is_set.into(),
                false.into(),
            ]
        };
        Ok(self.facts.settings.iter().map(row).collect())
    }
}

/// A right as a role: `admin` on all databases, `reader on people` on one.
fn role((database, role): (&str, Role)) -> Value {
    match database {
        super::ALL_DATABASES => role.name().into(),
        database => format!("{} on {database}", role.name()).into(),
    }
}

impl std::fmt::Debug for StatementHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementHost")
            .field("user", &self.principal.name)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Host for StatementHost {
    fn database_name(&self) -> Arc<str> {
        self.database.clone()
    }

    fn user_name(&self) -> Arc<str> {
        self.principal.name.clone()
    }

    fn addresses(&self) -> Vec<String> {
        let address = self.facts.bolt_address.get();
        address.iter().map(ToString::to_string).collect()
    }

    fn metadata(&self) -> Map {
        self.metadata.lock().clone()
    }

    fn set_metadata(&self, metadata: Map) {
        *self.metadata.lock() = metadata;
    }

    fn administer(&self, command: Administration) -> Result<(), HostError> {
        self.require_admin("this statement")?;
        self.run(command).map_err(|error| HostError {
            denied: false,
            message: error.to_string(),
        })
    }

    fn change_password(&self, current: &str, password: &str) -> Result<(), HostError> {
        let began = Instant::now();
        let changed = self.change_own_password(current, password);
        let error = changed.as_ref().err();
        // The statement itself is one that every user may run, and would not be recorded.
        self.facts.audit.record(&Event {
            user: Some(&self.principal.name),
            token: self.principal.token.as_deref(),
            from: self.from,
            action: "ALTER CURRENT USER",
            database: Some(&self.database),
            target: Some(&self.principal.name),
            class: Role::Admin.class().name(),
            status: match &changed {
                Ok(()) => 200,
                Err(ServerError::Denied(_)) => 403,
                Err(ServerError::TooMany { .. }) => 429,
                Err(_) => 400,
            },
            error: error.map(ServerError::kind),
            took_ms: began.elapsed().as_secs_f64() * 1e3,
        });
        changed.map_err(|error| HostError {
            denied: matches!(error, ServerError::Denied(_) | ServerError::TooMany { .. }),
            message: error.to_string(),
        })
    }

    fn listing(&self, listing: Listing) -> Result<Vec<Vec<Value>>, HostError> {
        match listing {
            Listing::Databases => Ok(self.databases()),
            Listing::DefaultDatabase => {
                let allowed = |name: &Arc<str>| self.principal.rights.on(name).is_some();
                Ok(self.one_database(self.facts.home.clone().filter(allowed)))
            }
            Listing::HomeDatabase => Ok(self.one_database(self.facts.home_of(&self.principal))),
            Listing::Users => self.users(),
            Listing::CurrentUser => Ok(vec![self.current_user()]),
            Listing::Settings => self.settings(),
            other => Err(HostError {
                denied: false,
                message: format!("the server does not list {}", other.title()),
            }),
        }
    }
}
