//! Sessions, and what they give access to.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use isomer_db::{
    Backup, BucketOptions, Database, FileReader, FileWriter, Limits, Map, QueryOptions,
    QueryResult, RestoreOptions, Restored, Row, RowCursor, RowStream, StatementClass, Transaction,
    data::{BulkEnds, BulkNode, BulkOptions, BulkOutcome, BulkRelationship, DataError, Version},
};

use super::{Body, Gates, Rights, Role, databases::Databases, gate::Entry};
use crate::{
    Result, ServerError,
    feed::Feed,
    open::{Open, OpenTransactions, no_transaction},
    weight,
};

/// Who asks, and what he may do.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name of the user.
    pub name: Arc<str>,
    /// What this one may do: the user's roles, as far as the token's scope lets them through.
    pub rights: Effective,
    /// The public half of the token that was shown.
    pub token: Option<Arc<str>>,
    /// Whether the token comes from a login with a password: only such a one makes further tokens.
    pub login: bool,
}

/// Rights under a scope.
#[derive(Clone, Debug)]
pub struct Effective {
    user: Rights,
    scope: Option<Rights>,
}

impl Effective {
    /// The role on a database; nothing means deny.
    pub fn on(&self, database: &str) -> Option<Role> {
        let own = self.user.on(database)?;
        match &self.scope {
            Some(scope) => scope.on(database).map(|most| own.min(most)),
            None => Some(own),
        }
    }

    /// The role on all databases.
    pub fn on_all(&self) -> Option<Role> {
        let own = self.user.on_all()?;
        match &self.scope {
            Some(scope) => scope.on_all().map(|most| own.min(most)),
            None => Some(own),
        }
    }

    /// Whether all of `asked` is held.
    pub fn contain(&self, asked: &Rights) -> bool {
        asked.within(&self.user) && self.scope.as_ref().is_none_or(|scope| asked.within(scope))
    }

    /// The scope, where there is one.
    pub fn scope(&self) -> Option<&Rights> {
        self.scope.as_ref()
    }
}

impl Principal {
    pub(super) fn of_token(
        name: Arc<str>,
        user: Rights,
        scope: Option<Rights>,
        token: Arc<str>,
        login: bool,
    ) -> Self {
        Self {
            name,
            rights: Effective { user, scope },
            token: Some(token),
            login,
        }
    }

    pub(super) fn of_user(name: Arc<str>, user: Rights) -> Self {
        Self {
            name,
            rights: Effective { user, scope: None },
            token: None,
            login: true,
        }
    }

    /// Everybody, where the server runs without authentication.
    pub(crate) fn anybody() -> Self {
        Self {
            name: "anybody".into(),
            rights: Effective {
                user: Rights::all(),
                scope: None,
            },
            token: None,
            login: true,
        }
    }
}

/// A principal at the door: the only way to databases and to the server itself.
pub struct Session {
    principal: Arc<Principal>,
    from: IpAddr,
    databases: Arc<Databases>,
    entry: Entry,
    limits: Limits,
}

impl Session {
    /// Lets a principal in, unless it has too much at work.
    pub(crate) fn new(
        principal: Arc<Principal>,
        from: IpAddr,
        databases: Arc<Databases>,
        gates: &Arc<Gates>,
        limits: Limits,
    ) -> Result<Self> {
        let entry = gates.enter(&principal.name)?;
        Ok(Self {
            principal,
            from,
            databases,
            entry,
            limits,
        })
    }

    /// Who it is.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// What was sent with the request.
    pub(crate) fn body(&self) -> &Arc<Body> {
        self.entry.body()
    }

    /// Where the request comes from.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// Access to a database for those who have `need` there. Whoever has no right on it learns nothing of it, not even
    /// whether it exists.
    pub fn database(self, name: &str, need: Role, open: Option<Arc<Open>>) -> Result<Access> {
        let role = self.principal.rights.on(name);
        let Some(role) = role.filter(|role| *role >= need) else {
            return Err(ServerError::Denied(format!(
                "`{}` does not have the role {} on the database `{name}`",
                self.principal.name,
                need.name()
            )));
        };
        let served = self.databases.get(name)?;
        if let Some(open) = &open {
            open.check(&self.principal.name, name)?;
        }
        Ok(Access {
            name: served.name.clone(),
            db: served.db.clone(),
            feed: served.feed.clone(),
            role,
            open,
            session: self,
        })
    }

    /// Access to the server itself: to all who are known (`need` absent), or to those who have a role on all databases.
    pub fn server(self, need: Option<Role>) -> Result<ServerAccess> {
        if let Some(need) = need
            && self.principal.rights.on_all() < Some(need)
        {
            return Err(ServerError::Denied(format!(
                "`{}` does not have the role {} on all databases",
                self.principal.name,
                need.name()
            )));
        }
        Ok(ServerAccess { session: self })
    }
}

/// The right to use the server itself.
pub struct ServerAccess {
    session: Session,
}

impl ServerAccess {
    /// Who has it.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.session.principal
    }

    /// Whether it is an administrator's.
    pub fn is_admin(&self) -> bool {
        self.session.principal.rights.on_all() == Some(Role::Admin)
    }

    /// Refuses all who are not administrators of the server.
    pub fn require_admin(&self) -> Result<()> {
        if self.is_admin() {
            return Ok(());
        }
        Err(ServerError::Denied(format!(
            "`{}` does not have the role admin on all databases",
            self.session.principal.name
        )))
    }

    /// The databases that its principal has any right on, with the role.
    pub fn databases(&self) -> Vec<(Arc<str>, Role)> {
        let all = self.session.databases.names();
        let role = |name: &Arc<str>| self.session.principal.rights.on(name);
        all.into_iter()
            .filter_map(|name| role(&name).map(|role| (name, role)))
            .collect()
    }

    /// Why a database does not open, or does not answer any more: told to its administrators.
    pub(crate) fn trouble(&self, name: &str) -> Option<String> {
        self.session.databases.trouble(name)
    }

    /// Opens a database anew that does not open, or does not answer any more; false where it answers.
    pub fn open_database(&self, name: &str) -> Result<bool> {
        self.require_admin()?;
        self.session.databases.open_again(name)
    }

    /// Makes a database.
    pub fn create_database(&self, name: &str) -> Result<()> {
        self.require_admin()?;
        self.session.databases.create(name)
    }

    /// Makes a database out of a backup.
    pub(crate) fn restore_database(
        &self,
        name: &str,
        source: &std::path::Path,
        options: &RestoreOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Restored> {
        self.require_admin()?;
        let databases = &self.session.databases;
        databases.restore(name, source, options, progress)
    }

    /// Drops a database with all that is in it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.require_admin()?;
        self.session.databases.remove(name)
    }
}

/// Plans queries of one database as whoever had access to it, and runs none.
pub(crate) struct Outlines {
    db: Database,
    pub database: Arc<str>,
    pub principal: Arc<Principal>,
}

impl Outlines {
    /// The plan of a query as text, without the literals in it.
    pub fn of(&self, text: &str) -> Option<String> {
        let prepared = self.db.prepare(text).ok()?;
        Some(prepared.outline())
    }
}

/// The right to run commands in one database, up to a role.
pub struct Access {
    name: Arc<str>,
    db: Database,
    feed: Arc<Feed>,
    role: Role,
    open: Option<Arc<Open>>,
    session: Session,
}

impl Access {
    /// The database's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Who has it.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.session.principal
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The transaction between requests that its commands run in.
    pub fn open(&self) -> Option<&Arc<Open>> {
        self.open.as_ref()
    }

    /// What is told of commits.
    pub(crate) fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    fn require(&self, need: Role) -> Result<()> {
        if self.role >= need {
            return Ok(());
        }
        Err(ServerError::Denied(format!(
            "`{}` does not have the role {} on the database `{}`",
            self.session.principal.name,
            need.name(),
            self.name
        )))
    }

    /// How a query of this principal runs: no more than its role allows, within the limits.
    pub fn query_options(&mut self) -> Result<QueryOptions> {
        let mut limits = self.session.limits.clone();
        limits.memory_bytes = self.session.entry.query_bytes();
        Ok(QueryOptions::new().limits(limits).allow(self.role.class()))
    }

    /// The result of its query is open until this is dropped, unless its principal has too many.
    pub(crate) fn open_result(&mut self) -> Result<()> {
        self.session.entry.open_result()
    }

    /// Nothing is at work under it until it goes on; so many bytes of its query count meanwhile.
    pub(crate) fn rest(&mut self, query_holds: usize) {
        self.session.entry.rest(query_holds);
    }

    /// It is used again, unless its principal has too much at work.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.session.entry.go_on()
    }

    /// So many bytes more of what was found are kept, unless its principal has too much.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<()> {
        self.session.entry.keep(bytes)
    }

    /// Bytes of what is kept.
    pub(crate) fn kept(&self) -> usize {
        self.session.entry.kept()
    }

    /// Runs `work` on one version of the database, or in the open transaction.
    pub fn read<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        match &self.open {
            Some(open) => open.with(work),
            None => self.db.read(work),
        }
    }

    /// Runs `work` in a transaction and commits it, or in the open transaction. It may run several times.
    pub fn write<T>(
        &self,
        need: Role,
        work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let need = need.max(Role::Editor);
        self.require(need)?;
        match &self.open {
            Some(open) => {
                open.note(need.class());
                open.with(work)
            }
            None => self.db.transact(work),
        }
    }

    /// Runs a query and gathers its result.
    pub fn query(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        match &self.open {
            Some(open) => {
                let result = open.with(|tx| Ok(tx.query_with(text, parameters, options)?))?;
                open.note(result.class());
                Ok(result)
            }
            None => Ok(self.db.query_with(text, parameters, options)?),
        }
    }

    /// What a query may do; nothing where it has no plan.
    pub(crate) fn class_of(&self, text: &str) -> Option<StatementClass> {
        self.read(|tx| Ok(tx.class_of(text)?)).ok()
    }

    /// Commits the open transaction, for those who still have the right to all that was done in it.
    pub(crate) fn commit(&self, all: &OpenTransactions) -> Result<Version> {
        let open = self.open.as_ref().ok_or_else(no_transaction)?;
        if self.role.class() < open.class() {
            return Err(ServerError::Denied(format!(
                "`{}` does not have the right on the database `{}` any more with which this was written: roll it back",
                self.session.principal.name, self.name
            )));
        }
        all.commit(open)
    }

    /// Runs a query and gives its rows as they are found; not in an open transaction.
    pub fn stream(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<RowStream<'static>> {
        if self.open.is_some() {
            return Err(ServerError::Invalid(
                "the results of a transaction between requests are not streamed: ask for application/json".into(),
            ));
        }
        Ok(self.db.stream_with(text, parameters, options)?)
    }

    /// Opens a query in the open transaction: its rows are taken with [`Open::with`].
    pub fn open_query(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<RowCursor> {
        let open = self.open.as_ref().ok_or_else(|| {
            ServerError::Internal("a query is opened where no transaction is open".into())
        })?;
        open.with(|tx| Ok(tx.open_query(text, parameters, options)?))
    }

    /// Takes rows of a statement that writes, in a transaction of its own, until it has ended and is committed, or has given
    /// `most` of them or about `most_bytes`; says whether it has ended. Where it loses a race until then, it is run again, as another stream.
    pub fn settle(
        &self,
        stream: &mut RowStream<'static>,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
        most: usize,
        most_bytes: usize,
    ) -> Result<(bool, VecDeque<Row>)> {
        let mut is_fresh = true;
        Ok(self.db.retrying(|| {
            if !std::mem::take(&mut is_fresh) {
                *stream = self.db.stream_with(text, parameters, options)?;
            }
            let mut rows = VecDeque::new();
            let mut bytes = 0;
            while rows.len() < most && bytes < most_bytes {
                match stream.next().transpose()? {
                    Some(row) => {
                        bytes += weight::of_row(&row);
                        rows.push_back(row);
                    }
                    None => return Ok((true, rows)),
                }
            }
            Ok((false, rows))
        })?)
    }

    /// The last version that is committed.
    pub fn version(&self) -> Result<u64> {
        Ok(self.db.version()?)
    }

    /// The plans of its queries, for when it may be gone.
    pub(crate) fn outlines(&self) -> Outlines {
        Outlines {
            db: self.db.clone(),
            database: self.name.clone(),
            principal: self.session.principal.clone(),
        }
    }

    /// Begins a transaction that stays open between requests.
    pub fn begin(&self, read_only: bool) -> Result<Transaction> {
        if read_only || self.role < Role::Editor {
            return Ok(self.db.begin_read()?);
        }
        Ok(self.db.begin()?)
    }

    /// Makes a bucket.
    pub fn create_bucket(&self, name: &str, options: BucketOptions) -> Result<()> {
        self.write(Role::Schema, |tx| Ok(tx.bucket(name).create(options)?))
    }

    /// Loads nodes, all or none.
    pub fn load_nodes(
        &self,
        label: &str,
        rows: &mut dyn Iterator<Item = Result<BulkNode, DataError>>,
    ) -> Result<BulkOutcome> {
        self.require(Role::Editor)?;
        let store = self.db.store()?;
        Ok(store.bulk_nodes(label, &BulkOptions::default(), rows, &mut ())?)
    }

    /// Loads relationships, all or none.
    pub fn load_relationships(
        &self,
        ends: BulkEnds<'_>,
        rows: &mut dyn Iterator<Item = Result<BulkRelationship, DataError>>,
    ) -> Result<BulkOutcome> {
        self.require(Role::Editor)?;
        let store = self.db.store()?;
        Ok(store.bulk_relationships(ends, &BulkOptions::default(), rows, &mut ())?)
    }

    /// Opens a file as it was last committed.
    pub fn open_file(&self, path: &str) -> Result<FileReader> {
        Ok(self.db.open_file(path)?)
    }

    /// Makes a file, or writes one anew, in transactions of its own: it has its name when it is complete.
    pub fn create_file(&self, path: &str) -> Result<FileWriter> {
        self.require(Role::Editor)?;
        Ok(self.db.create_file(path)?)
    }

    /// Stops a running query; false where there is none of this number.
    pub fn cancel_query(&self, id: u64) -> Result<bool> {
        self.require(Role::Admin)?;
        Ok(self.db.cancel_query(id))
    }

    /// Puts a backup beside the earlier ones in a folder; `progress` is told how many bytes of how many are done.
    pub fn backup(
        &self,
        target: &std::path::Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        self.require(Role::Admin)?;
        Ok(self.db.backup_with(target, progress)?)
    }

    /// Writes a copy of the database to a folder, which opens as a database.
    pub fn checkpoint(&self, target: &std::path::Path) -> Result<()> {
        self.require(Role::Admin)?;
        Ok(self.db.checkpoint(target)?)
    }

    /// The read views that stand, in words.
    pub fn views(&self) -> Vec<String> {
        let Ok(store) = self.db.store() else {
            return Vec::new();
        };
        let catalog = store.catalog();
        let standing = self
            .db
            .views()
            .status()
            .into_iter()
            .filter(|view| view.bytes > 0);
        standing.map(|view| view.kind.describe(&catalog)).collect()
    }

    /// Refuses whoever may not replicate.
    pub(crate) fn check_replica(&self) -> Result<()> {
        self.require(Role::Replica)
    }

    /// Answers a frame of another replica.
    pub(crate) fn replicate(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.check_replica()?;
        let store = self.db.store()?;
        store.begin_replication().map_err(isomer_db::Error::from)?;
        Ok(isomer_sync::answer(&store, frame))
    }

    /// The layer below, to read what has no other way: the change stream.
    pub(crate) fn store(&self) -> Result<isomer_db::data::Store> {
        Ok(self.db.store()?)
    }
}
