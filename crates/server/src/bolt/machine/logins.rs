//! Authentication and authorisation: rights are checked for each message, as they may be revoked during a connection.

use super::{transactions::check_bookmarks, *};

/// Drivers check for the prefix `Neo4j/`; the rest is for people.
const SERVER: &str = concat!(
    "Neo4j/5.26.0 compatible; IsomerDB/",
    env!("CARGO_PKG_VERSION")
);

impl Machine {
    /// Reads the `HELLO` message; [`Machine::greet`] answers it.
    pub fn hello(&mut self, message: &[u8]) -> Result<Map, Failure> {
        let request = Request::read(message, self.version, false, 0);
        let Ok(Request::Hello(extra)) = request else {
            return Err(unreadable(request.err()));
        };
        if self.greeted {
            return Err(Failure::protocol("HELLO was already sent"));
        }
        self.wanted = NotificationFilter::of(&extra)
            .map_err(|why| unreadable(Some(why)))?
            .unwrap_or_default();
        let patches = extra.get("patch_bolt").and_then(Value::as_list);
        if patches.is_some_and(|patches| patches.contains(&"utc".into())) {
            self.forms.utc = true;
        }
        Ok(extra)
    }

    /// Answers `HELLO`.
    pub fn greet(&mut self, connection: u64, out: &mut Outbox) {
        let is_patched = self.forms.utc && !self.version.forms().utc;
        self.greeted = true;
        let mut entries = vec![
            ("server", Value::from(SERVER)),
            ("connection_id", format!("bolt-{connection}").into()),
            ("hints", Map::new().into()),
        ];
        if is_patched {
            entries.push(("patch_bolt", vec![Value::from("utc")].into()));
        }
        self.success(out, &entries);
        self.count(number_of(0x01), 200, Duration::ZERO);
        if self.is_known() {
            self.record(number_of(0x6a), 200, None, Duration::ZERO);
        }
    }

    /// The credentials in a `LOGON`.
    pub fn shown(&self, message: &[u8]) -> Result<Map, Failure> {
        match Request::read(message, self.version, false, 0) {
            Ok(Request::Logon(extra)) if self.greeted && !self.is_known() => Ok(extra),
            Ok(_) => Err(Failure::protocol(
                "LOGON is not allowed in this state of the connection",
            )),
            Err(why) => Err(unreadable(Some(why))),
        }
    }

    /// Records the credential of an authenticated client.
    pub fn log_in(&mut self, credential: Credential) -> Result<(), Failure> {
        let principal = self
            .core
            .principal(&credential)
            .map_err(|error| Failure::of(&error))?;
        self.client = Some(Client {
            credential,
            principal,
        });
        Ok(())
    }

    /// Answers a login.
    pub fn answer_login(&mut self, out: &mut Outbox, took: Duration) {
        self.success(out, &[]);
        self.audit_details = AuditDetails::default();
        self.succeeded(number_of(0x6a), took);
    }

    /// Answers a failed login, after which the connection is closed. `shown`: the credentials.
    pub fn refuse_login(
        &mut self,
        failure: &Failure,
        shown: Option<&Map>,
        out: &mut Outbox,
        took: Duration,
    ) {
        self.audit_details = AuditDetails {
            user: shown.and_then(login_name),
            ..AuditDetails::default()
        };
        self.fail(number_of(0x6a), took, failure, out);
    }

    /// The principal, with its current rights.
    pub(super) fn principal(&mut self) -> Answered<Arc<Principal>> {
        let who = self
            .client
            .as_mut()
            .ok_or_else(|| MessageError::Protocol("log in first".into()))?;
        who.principal = self.core.principal(&who.credential).map_err(|error| {
            // Drivers authenticate again over a new connection.
            Failure::of(&error).with_code(EXPIRED)
        })?;
        Ok(who.principal.clone())
    }

    /// Fails if the right under which something was opened has been revoked.
    pub(super) fn check_right(&mut self, database: &str, class: StatementClass) -> Answered {
        let principal = self.principal()?;
        if self.core.is_system(database) {
            return Ok(());
        }
        let role = principal.rights.on(database);
        if role.is_some_and(|role| role.class() >= class) {
            return Ok(());
        }
        let error = ServerError::Denied(format!(
            "`{}` no longer has the right on the database `{database}` with which this began",
            principal.name
        ));
        Err(Failure::of(&error).with_code(EXPIRED).into())
    }

    /// Access to a database with the current rights.
    pub(super) fn access(
        &mut self,
        database: Option<&str>,
        open: Option<Arc<OpenTransaction>>,
    ) -> Answered<DatabaseAccess> {
        let principal = self.principal()?;
        let home = database.is_none().then(|| self.core.home_of(&principal));
        let name = match (database, home.flatten()) {
            (Some(name), _) => self.core.resolve(name, &principal).to_string(),
            (None, Some(name)) => name.to_string(),
            (None, None) => {
                return Err(ServerError::Denied(format!(
                    "`{}` has no right on any database",
                    principal.name
                ))
                .into());
            }
        };
        self.audit_details.database = Some(name.chars().take(64).collect::<String>().into());
        let session = match self.core.admit(principal, self.from) {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(MessageError::Busy),
            session => session?,
        };
        session
            .database(&name, Role::Reader, open)
            .map_err(|error| {
                let failure = Failure::of(&error);
                MessageError::Failed(match error {
                    ServerError::NotFound(_) if database.is_some() => {
                        failure.with_code("Neo.ClientError.Database.DatabaseNotFound")
                    }
                    _ => failure,
                })
            })
    }

    /// Whether a message may wait (longer) for other requests of its user.
    pub(super) fn may_wait(&self) -> bool {
        let longest = self.core.config.limits.head_time;
        self.busy_since
            .is_none_or(|since| since.elapsed() < longest)
    }

    /// Like [`Machine::access`], for a message that begins a transaction.
    pub(super) fn access_on(&mut self, on: &TransactionParameters) -> Answered<DatabaseAccess> {
        if let Some(user) = &on.impersonated {
            let message = format!(
                "impersonating `{}` is not supported: log in as that user",
                user.chars().take(64).collect::<String>()
            );
            return Err(ServerError::Denied(message).into());
        }
        let access = self.access(on.database.as_deref(), None)?;
        check_bookmarks(&access, &on.bookmarks)?;
        if let Some(metadata) = &on.metadata {
            access.set_metadata(metadata);
        }
        Ok(access)
    }
}

/// The user name of a password login, for the audit log; `None` unless it is a valid name, as users sometimes type
/// their password there.
fn login_name(shown: &Map) -> Option<String> {
    let entry = |name: &str| shown.get(name).and_then(Value::as_str);
    let name = entry("principal").filter(|_| entry("scheme") == Some("basic"));
    name.filter(|name| is_user_name(name)).map(str::to_owned)
}

fn unreadable(why: Option<Unreadable>) -> Failure {
    Failure::protocol(match why {
        Some(Unreadable::Malformed(what) | Unreadable::Refused(what)) => what,
        None => "the message is not allowed in this state of the connection".into(),
    })
}
