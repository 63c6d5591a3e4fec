//! Who is at the other end, and what he may do: asked anew with each message, for rights can be taken away while a connection lasts.

use super::{transactions::check_bookmarks, *};

/// Drivers look for the name in front; who reads it shall know better.
const SERVER: &str = concat!(
    "Neo4j/5.26.0 compatible; IsomerDB/",
    env!("CARGO_PKG_VERSION")
);

impl Machine {
    /// Takes the first message; what it says is heeded, and answered by [`Machine::greet`].
    pub fn hello(&mut self, message: &[u8]) -> Result<Map, Failure> {
        let request = Request::read(message, self.version, false, 0);
        let Ok(Request::Hello(extra)) = request else {
            return Err(unreadable(request.err()));
        };
        if self.greeted {
            return Err(Failure::protocol("HELLO was said already"));
        }
        self.wanted = Wanted::of(&extra)
            .map_err(|why| unreadable(Some(why)))?
            .unwrap_or_default();
        let patches = extra.get("patch_bolt").and_then(Value::as_list);
        if patches.is_some_and(|patches| patches.contains(&"utc".into())) {
            self.forms.utc = true;
        }
        Ok(extra)
    }

    /// Answers the first message.
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

    /// What a `LOGON` shows.
    pub fn shown(&self, message: &[u8]) -> Result<Map, Failure> {
        match Request::read(message, self.version, false, 0) {
            Ok(Request::Logon(extra)) if self.greeted && !self.is_known() => Ok(extra),
            Ok(_) => Err(Failure::protocol(
                "LOGON has no place in the state of the connection",
            )),
            Err(why) => Err(unreadable(Some(why))),
        }
    }

    /// Somebody has logged in.
    pub fn log_in(&mut self, credential: Credential) -> Result<(), Failure> {
        let principal = self
            .core
            .principal(&credential)
            .map_err(|error| Failure::of(&error))?;
        self.who = Some(Who {
            credential,
            principal,
        });
        Ok(())
    }

    /// Answers a login.
    pub fn welcome(&mut self, out: &mut Outbox, took: Duration) {
        self.success(out, &[]);
        self.told = Told::default();
        self.succeeded(number_of(0x6a), took);
    }

    /// Answers a login that failed: the connection ends. `shown`: by what.
    pub fn turn_away(
        &mut self,
        failure: &Failure,
        shown: Option<&Map>,
        out: &mut Outbox,
        took: Duration,
    ) {
        self.told = Told {
            user: shown.and_then(asked),
            ..Told::default()
        };
        self.fail(number_of(0x6a), took, failure, out);
    }

    /// Who it is, with the rights of now.
    pub(super) fn principal(&mut self) -> Answered<Arc<Principal>> {
        let who = self
            .who
            .as_mut()
            .ok_or_else(|| Stop::Protocol("log in first".into()))?;
        who.principal = self.core.principal(&who.credential).map_err(|error| {
            // Drivers log in again, over another connection.
            Failure::of(&error).with_code(EXPIRED)
        })?;
        Ok(who.principal.clone())
    }

    /// Refuses to go on with what was opened under a right that was taken away since.
    pub(super) fn check_right(&mut self, database: &str, class: StatementClass) -> Answered {
        let principal = self.principal()?;
        let role = principal.rights.on(database);
        if role.is_some_and(|role| role.class() >= class) {
            return Ok(());
        }
        let error = ServerError::Denied(format!(
            "`{}` does not have the right on the database `{database}` any more with which this was begun",
            principal.name
        ));
        Err(Failure::of(&error).with_code(EXPIRED).into())
    }

    /// The right to do something in a database, as it is now.
    pub(super) fn access(
        &mut self,
        database: Option<&str>,
        open: Option<Arc<Open>>,
    ) -> Answered<Access> {
        let principal = self.principal()?;
        let home = database.is_none().then(|| self.core.home_of(&principal));
        let name = match (database, home.flatten()) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) => name.to_string(),
            (None, None) => {
                return Err(ServerError::Denied(format!(
                    "`{}` has no right on any database",
                    principal.name
                ))
                .into());
            }
        };
        self.told.database = Some(name.chars().take(64).collect::<String>().into());
        let session = match self.core.admit(principal, self.from) {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(Stop::Busy),
            session => session?,
        };
        session
            .database(&name, Role::Reader, open)
            .map_err(|error| {
                let failure = Failure::of(&error);
                Stop::Failed(match error {
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

    /// As [`Machine::access`], for what begins a transaction.
    pub(super) fn access_on(&mut self, on: &On) -> Answered<Access> {
        if let Some(user) = &on.impersonated {
            let message = format!(
                "acting as `{}` is not possible here: log in as that user",
                user.chars().take(64).collect::<String>()
            );
            return Err(ServerError::Denied(message).into());
        }
        let access = self.access(on.database.as_deref(), None)?;
        check_bookmarks(&access, &on.bookmarks)?;
        Ok(access)
    }
}

/// Who wants to log in with a password, where that may be a name: somebody may have written his password there.
fn asked(shown: &Map) -> Option<String> {
    let entry = |name: &str| shown.get(name).and_then(Value::as_str);
    let name = entry("principal").filter(|_| entry("scheme") == Some("basic"));
    name.filter(|name| is_user_name(name)).map(str::to_owned)
}

fn unreadable(why: Option<Unreadable>) -> Failure {
    Failure::protocol(match why {
        Some(Unreadable::Malformed(what) | Unreadable::Refused(what)) => what,
        None => "the message has no place in the state of the connection".into(),
    })
}
