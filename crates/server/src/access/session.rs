//! Sessions, and the access that they give.

use std::{collections::VecDeque, net::IpAddr, path::Path, sync::Arc};

use isomer_db::{
    Backup, BucketOptions, Counters, Database, ErrorKind, FileReader, FileWriter, Limits, Map,
    Query, QueryOptions, QueryResult, ReadTransaction, RestoreTask, Restored, Row, RowCursor,
    RowStream, StatementClass, WriteTransaction,
    internals::{
        DatabaseInternals as _, QueryOptionsInternals as _,
        bulk::{
            BulkEnds, BulkNode, BulkOptions, BulkOutcome, BulkRelationship, load_nodes,
            load_relationships,
        },
        data::{Access as Mode, DataError, Version},
    },
};
use isomer_value::DatabaseId;
use parking_lot::Mutex;

use super::{
    AdmissionControl, Body, Rights, Role, SYSTEM, ServerFacts, admission::Admission,
    databases::Databases, host::StatementHost,
};
use crate::{
    Result, ServerError,
    feed::Feed,
    open::{OpenTransaction, OpenTransactions, no_transaction},
    sending::Reserved,
    weight,
};

/// An authenticated user and their rights.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name of the user.
    pub name: Arc<str>,
    /// Effective rights: the user's roles, limited by the token's scope.
    pub rights: Effective,
    /// Public part of the token that was presented.
    pub token: Option<Arc<str>>,
    /// Whether the token comes from a password login: only such a token may create further tokens.
    pub login: bool,
}

/// Rights limited by a scope.
#[derive(Clone, Debug)]
pub struct Effective {
    user: Rights,
    scope: Option<Rights>,
}

impl Effective {
    /// The role on a database; `None` means denied.
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

    /// The rights of the user, without the scope.
    pub fn of_its_user(&self) -> &Rights {
        &self.user
    }

    /// Whether it includes all of `asked`.
    pub fn contain(&self, asked: &Rights) -> bool {
        asked.within(&self.user) && self.scope.as_ref().is_none_or(|scope| asked.within(scope))
    }

    /// The scope, if any.
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

    /// The principal of all clients of a server without authentication.
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

/// An admitted principal: the only way to databases and to the server's own functions.
pub struct Session {
    principal: Arc<Principal>,
    from: IpAddr,
    databases: Arc<Databases>,
    admission: Admission,
    limits: Limits,
    facts: Arc<ServerFacts>,
}

impl Session {
    /// Admits a principal, unless it has too many requests in progress.
    pub(crate) fn new(
        principal: Arc<Principal>,
        from: IpAddr,
        facts: Arc<ServerFacts>,
        admission_control: &Arc<AdmissionControl>,
        limits: Limits,
    ) -> Result<Self> {
        let entry = admission_control.admit(&principal.name)?;
        Ok(Self {
            principal,
            from,
            databases: facts.databases.clone(),
            admission: entry,
            limits,
            facts,
        })
    }

    /// The principal.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The request's body.
    pub(crate) fn body(&self) -> &Arc<Body> {
        self.admission.body()
    }

    /// Address that the request comes from.
    pub fn from(&self) -> IpAddr {
        self.from
    }

    /// Grants access to a database if the principal has the role `need` there. A principal without any right on it
    /// cannot tell whether it exists.
    pub fn database(
        self,
        name: &str,
        need: Role,
        open: Option<Arc<OpenTransaction>>,
    ) -> Result<DatabaseAccess> {
        if self.facts.is_system(name) {
            return self.administration(need, open);
        }
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
        Ok(DatabaseAccess {
            name: served.name.clone(),
            db: served.db.clone(),
            feed: served.feed.clone(),
            role,
            metadata: metadata_of(open.as_ref()),
            open,
            session: self,
        })
    }

    /// Grants access to the database of administration, which every authenticated client has for reading: it has no
    /// data, and nothing is written there.
    fn administration(
        self,
        need: Role,
        open: Option<Arc<OpenTransaction>>,
    ) -> Result<DatabaseAccess> {
        if need > Role::Reader {
            return Err(ServerError::Denied(NO_DATA.into()));
        }
        let served = self.databases.administration(SYSTEM)?;
        if let Some(open) = &open {
            open.check(&self.principal.name, SYSTEM)?;
        }
        let is_admin = self.principal.rights.on_all() == Some(Role::Admin);
        Ok(DatabaseAccess {
            name: served.name.clone(),
            db: served.db.clone(),
            feed: served.feed.clone(),
            role: if is_admin { Role::Admin } else { Role::Reader },
            metadata: metadata_of(open.as_ref()),
            open,
            session: self,
        })
    }

    /// Grants access to the server itself: to every authenticated principal (`need` absent), or to those with a role
    /// on all databases.
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
    /// The principal.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.session.principal
    }

    /// Whether the principal is an administrator.
    pub fn is_admin(&self) -> bool {
        self.session.principal.rights.on_all() == Some(Role::Admin)
    }

    /// Fails unless the principal is an administrator of the server.
    pub fn require_admin(&self) -> Result<()> {
        if self.is_admin() {
            return Ok(());
        }
        Err(ServerError::Denied(format!(
            "`{}` does not have the role admin on all databases",
            self.session.principal.name
        )))
    }

    /// The databases that the principal has any right on, with its role.
    pub fn databases(&self) -> Vec<(Arc<str>, Role)> {
        let all = self.session.databases.names();
        let role = |name: &Arc<str>| self.session.principal.rights.on(name);
        all.into_iter()
            .filter_map(|name| role(&name).map(|role| (name, role)))
            .collect()
    }

    /// The error of a database that cannot be opened or has failed; only for its administrators.
    pub(crate) fn open_error(&self, name: &str) -> Option<String> {
        self.session.databases.open_error(name)
    }

    /// Reopens a database that could not be opened or has failed; returns false if it is healthy.
    pub fn open_database(&self, name: &str) -> Result<bool> {
        self.require_admin()?;
        self.session.databases.open_again(name)
    }

    /// Creates a database.
    pub fn create_database(&self, name: &str) -> Result<()> {
        self.require_admin()?;
        self.session.databases.create(name)
    }

    /// Creates a database from a backup, with the task that restores it into a folder.
    pub(crate) fn restore_database<'a>(
        &self,
        name: &str,
        restore_into: impl FnOnce(&Path) -> RestoreTask<'a>,
    ) -> Result<Restored> {
        self.require_admin()?;
        self.session.databases.restore(name, restore_into)
    }

    /// Drops a database with all that is in it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.require_admin()?;
        self.session.databases.remove(name)
    }
}

/// Why nothing is written in the database of administration.
const NO_DATA: &str = "the database `system` has no data: name another database";

fn metadata_of(open: Option<&Arc<OpenTransaction>>) -> Arc<Mutex<Map>> {
    open.map_or_else(Arc::default, |open| open.metadata().clone())
}

/// Plans queries of one database with an access's rights, without running them.
pub(crate) struct Outlines {
    db: Database,
    pub database: Arc<str>,
    pub principal: Arc<Principal>,
}

impl Outlines {
    /// The plan of a query as text, with literals removed.
    pub fn of(&self, text: &str) -> Option<String> {
        let prepared = self.db.prepare(text).ok()?;
        Some(prepared.outline())
    }
}

/// The right to run commands in one database, up to a role.
pub struct DatabaseAccess {
    name: Arc<str>,
    db: Database,
    feed: Arc<Feed>,
    role: Role,
    open: Option<Arc<OpenTransaction>>,
    /// What the client says about its transaction.
    metadata: Arc<Mutex<Map>>,
    session: Session,
}

impl DatabaseAccess {
    /// Name of the database.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The principal.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.session.principal
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The open transaction that its commands run in.
    pub fn open(&self) -> Option<&Arc<OpenTransaction>> {
        self.open.as_ref()
    }

    /// Whether this is the database of administration, which has no data.
    fn is_administration(&self) -> bool {
        self.session.facts.is_system(&self.name)
    }

    /// The same access, in a transaction of its principal and database.
    pub(crate) fn within(self, open: Arc<OpenTransaction>) -> Self {
        Self {
            metadata: open.metadata().clone(),
            open: Some(open),
            ..self
        }
    }

    /// The same access, outside of a transaction.
    pub(crate) fn outside(self) -> Self {
        Self { open: None, ..self }
    }

    /// Repeats `attempt` while it loses races, with pauses, as single statements are repeated.
    pub(crate) fn repeat<T>(self, mut attempt: impl FnMut(Self) -> (Self, Result<T>)) -> Result<T> {
        let db = self.db.clone();
        let mut access = Some(self);
        let outcome = db.retrying(|| {
            let own = access.take().expect("each attempt returns the access");
            let (own, outcome) = attempt(own);
            access = Some(own);
            match outcome {
                Err(ServerError::Database(lost)) if lost.kind() == ErrorKind::Retry => Err(lost),
                outcome => Ok(outcome),
            }
        });
        outcome?
    }

    /// Fails for a statement that would write in the database of administration.
    pub(crate) fn check_administration(&self, text: &str) -> Result<()> {
        if !self.is_administration() {
            return Ok(());
        }
        match self.class_of(text) {
            Some(StatementClass::Write | StatementClass::Schema) => {
                Err(ServerError::Denied(NO_DATA.into()))
            }
            _ => Ok(()),
        }
    }

    /// Sets what the client says about its transaction.
    pub(crate) fn set_metadata(&self, metadata: &Map) {
        *self.metadata.lock() = metadata.clone();
    }

    /// Notifications of commits.
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

    /// Options of this principal's queries: the statements that the role allows, within the limits.
    pub fn query_options(&mut self) -> Result<QueryOptions> {
        let mut limits = self.session.limits.clone();
        limits.memory_bytes = self.session.admission.query_bytes();
        let session = &self.session;
        let host = StatementHost::new(
            session.facts.clone(),
            (session.principal.clone(), session.from),
            self.name.clone(),
            self.metadata.clone(),
        );
        let options = QueryOptions::new().limits(limits).host(Arc::new(host));
        Ok(options.allow(self.role.class()))
    }

    /// Counts its query's result as open until this is dropped, unless the principal has too many.
    pub(crate) fn open_result(&mut self) -> Result<()> {
        self.session.admission.open_result()
    }

    /// Stops counting it as a request until [`DatabaseAccess::resume`]; of its query's memory only `query_holds` bytes
    /// count.
    pub(crate) fn pause(&mut self, query_holds: usize) {
        self.session.admission.pause(query_holds);
    }

    /// Counts it as a request again, unless the principal has too many.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.session.admission.resume()
    }

    /// Reserves memory for kept rows, unless the principal has too much in use.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<()> {
        self.session.admission.keep(bytes)
    }

    /// Bytes of kept rows.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.session.admission.kept_bytes()
    }

    /// Runs `work` on a snapshot of the database, or in the open transaction.
    pub fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T>) -> Result<T> {
        match &self.open {
            Some(open) => open.with(|tx| work(tx)),
            None => self.db.try_read(work),
        }
    }

    /// Runs `work` in a transaction and commits it, or in the open transaction. It may run several times.
    pub fn write<T>(
        &self,
        need: Role,
        work: impl FnMut(&WriteTransaction) -> Result<T>,
    ) -> Result<T> {
        let need = need.max(Role::Editor);
        self.require(need)?;
        match &self.open {
            Some(open) => {
                open.note(need.class());
                open.with(work)
            }
            None => self.db.try_transact(work),
        }
    }

    /// Runs a query and collects its result.
    pub fn query(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        self.check_administration(text)?;
        match &self.open {
            Some(open) => {
                let result = open.with(|tx| {
                    Ok(tx.query(Query::new(text).params(parameters).options(options))?)
                })?;
                open.note(result.class());
                Ok(result)
            }
            None => Ok(self
                .db
                .query(Query::new(text).params(parameters).options(options))?),
        }
    }

    /// The class of a statement; `None` if it cannot be planned.
    pub(crate) fn class_of(&self, text: &str) -> Option<StatementClass> {
        self.read(|tx| Ok(tx.class_of(text)?)).ok()
    }

    /// Commits the open transaction, if the principal still has the right to every statement that ran in it.
    pub(crate) fn commit(&self, all: &OpenTransactions) -> Result<Version> {
        let open = self.open.as_ref().ok_or_else(no_transaction)?;
        if self.role.class() < open.class() {
            return Err(ServerError::Denied(format!(
                "`{}` no longer has the right on the database `{}` to what this transaction wrote: roll it back",
                self.session.principal.name, self.name
            )));
        }
        all.commit(open)
    }

    /// Runs a query and returns its rows as a stream; not in an open transaction.
    pub fn stream(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<RowStream> {
        self.check_administration(text)?;
        if self.open.is_some() {
            return Err(ServerError::Invalid(
                "the results of a transaction between requests are not streamed: ask for application/json".into(),
            ));
        }
        Ok(self
            .db
            .stream(Query::new(text).params(parameters).options(options))?)
    }

    /// Opens a query in the open transaction: its rows are read with [`OpenTransaction::with`].
    pub fn open_query(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<RowCursor> {
        self.check_administration(text)?;
        let open = self.open.as_ref().ok_or_else(|| {
            ServerError::Internal("a query was opened without an open transaction".into())
        })?;
        open.with(|tx| Ok(tx.open_query(Query::new(text).params(parameters).options(options))?))
    }

    /// Reads rows of a writing statement in its own transaction until it has ended and is committed, or has produced
    /// `most` rows or about `most_bytes` bytes; returns whether it has ended. A statement that conflicts before that
    /// is retried as a new stream.
    pub(crate) fn run_buffered(
        &self,
        stream: &mut RowStream,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
        (most, most_bytes): (usize, usize),
        reserved: &mut Reserved,
    ) -> Result<(bool, VecDeque<Row>)> {
        let mut is_fresh = true;
        Ok(self.db.retrying(|| {
            if !std::mem::take(&mut is_fresh) {
                *stream = self
                    .db
                    .stream(Query::new(text).params(parameters).options(options))?;
            }
            let mut rows = VecDeque::new();
            let mut bytes = 0;
            while rows.len() < most && bytes < most_bytes {
                match stream.next().transpose()? {
                    Some(row) => {
                        bytes += weight::of_row(&row);
                        rows.push_back(row);
                        if reserved.resize(bytes).is_err() {
                            break;
                        }
                    }
                    None => return Ok((true, rows)),
                }
            }
            Ok((false, rows))
        })?)
    }

    /// Runs a writing statement in a separate transaction and commits it; retries on conflicts. None, without a
    /// commit, if its counters are not `expected`.
    pub(crate) fn run_again(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
        expected: &Counters,
    ) -> Result<Option<u64>> {
        let attempt = || {
            let tx = self.db.begin_with(Mode::Write)?;
            let result = tx.query(Query::new(text).params(parameters).options(options))?;
            if result.counters() != expected {
                return Ok(None);
            }
            drop(result);
            tx.commit().map(Some)
        };
        Ok(self.db.retrying(attempt)?)
    }

    /// The last committed version.
    pub fn version(&self) -> Result<u64> {
        Ok(self.db.version()?)
    }

    /// The identity of the database, which element ids contain.
    pub(crate) fn identity(&self) -> Result<DatabaseId> {
        Ok(self.db.store()?.identity())
    }

    /// Planner of its queries, for use after the access was dropped.
    pub(crate) fn outlines(&self) -> Outlines {
        Outlines {
            db: self.db.clone(),
            database: self.name.clone(),
            principal: self.session.principal.clone(),
        }
    }

    /// Begins a transaction that stays open between requests.
    pub fn begin(&self, read_only: bool) -> Result<WriteTransaction> {
        let reads = read_only || self.role < Role::Editor;
        let access = if reads { Mode::Read } else { Mode::Write };
        Ok(self.db.begin_with(access)?)
    }

    /// Creates a bucket.
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
        Ok(load_nodes(
            &store,
            label,
            &BulkOptions::default(),
            rows,
            &mut (),
        )?)
    }

    /// Loads relationships, all or none.
    pub fn load_relationships(
        &self,
        ends: BulkEnds<'_>,
        rows: &mut dyn Iterator<Item = Result<BulkRelationship, DataError>>,
    ) -> Result<BulkOutcome> {
        self.require(Role::Editor)?;
        let store = self.db.store()?;
        Ok(load_relationships(
            &store,
            ends,
            &BulkOptions::default(),
            rows,
            &mut (),
        )?)
    }

    /// Opens the last committed version of a file.
    pub fn open_file(&self, path: &str) -> Result<FileReader> {
        Ok(self.db.open_file(path)?)
    }

    /// Creates or replaces a file, in its own transactions; it becomes visible when complete.
    pub fn create_file(&self, path: &str) -> Result<FileWriter> {
        self.require(Role::Editor)?;
        Ok(self.db.create_file(path)?)
    }

    /// Cancels a running query; false if no query has this id.
    pub fn cancel_query(&self, id: u64) -> Result<bool> {
        self.require(Role::Admin)?;
        Ok(self.db.cancel_query(id))
    }

    /// Adds a backup to the earlier ones in a folder; calls `progress` with the bytes done and the bytes in total.
    pub fn backup(&self, target: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Backup> {
        self.require(Role::Admin)?;
        Ok(self.db.backup(target).progress(progress).run()?)
    }

    /// Writes a copy of the database to a folder, which opens as a database.
    pub fn checkpoint(&self, target: &Path) -> Result<()> {
        self.require(Role::Admin)?;
        Ok(self.db.checkpoint(target)?)
    }

    /// Descriptions of the read views in memory.
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

    /// Fails unless the principal may replicate.
    pub(crate) fn check_replica(&self) -> Result<()> {
        self.require(Role::Replica)
    }

    /// Answers a frame of another replica.
    pub(crate) fn replicate(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.check_replica()?;
        let store = self.db.store()?;
        Ok(isomer_sync::answer(&store, frame))
    }

    /// The store, for reading the change stream.
    pub(crate) fn store(&self) -> Result<isomer_db::internals::data::DataStore> {
        Ok(self.db.store()?)
    }
}
