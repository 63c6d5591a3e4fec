//! Users and tokens: kept in a database of their own, answered from memory.
//!
//! The system database holds documents of two labels. `User`: `_key` the name, `password` an Argon2id hash, `roles` by
//! database, `created`. `Token`: `_key` its public half, `hash` the SHA-256 of its secret half, `user`, `name`, `scope`
//! (roles by database; absent: all of the user's), `expires`, `created`, `login`. Times are milliseconds since 1970.
//!
//! A change is committed first and then shown to those who ask, under one lock: a token that was revoked works for
//! nobody who asks afterwards.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{Database, Map, MasterKey, Value, params};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use super::{Principal, Rights, now_ms, password};
use crate::{Result, ServerError};

/// A token begins with this, so that those who search for leaked secrets find it.
const TOKEN_START: &str = "isomer";
/// Most users, and most tokens of one user: all of them are kept in memory.
const MOST_USERS: usize = 100_000;
const MOST_TOKENS: usize = 1_000;
/// Logins of one user that are kept; the oldest end first.
const MOST_LOGINS: usize = 100;
/// For so long a password that was right is known without hashing it again.
const RECENT_TIME: Duration = Duration::from_secs(300);
/// Most characters of a name.
const MOST_NAME: usize = 64;

/// A user, as others see one.
#[derive(Clone, Debug)]
pub struct UserInfo {
    /// The name.
    pub name: Arc<str>,
    /// Roles by database.
    pub roles: Rights,
    /// When it was made.
    pub created_ms: u64,
}

/// A token, as others see one: without its secret, which nobody keeps.
#[derive(Clone, Debug)]
pub struct TokenInfo {
    /// The public half.
    pub id: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// What it is for.
    pub name: String,
    /// What it may do at most; all that the user may, where absent.
    pub scope: Option<Rights>,
    /// When it ends.
    pub expires_ms: Option<u64>,
    /// When it was made.
    pub created_ms: u64,
    /// Whether it comes from a login with a password.
    pub login: bool,
}

/// A token that was just made: the only time that its secret is told.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The token.
    pub token: String,
    /// What is known of it.
    pub info: TokenInfo,
}

/// What a login answers.
pub type Login = NewToken;

/// What a connection that stays open shows with each of its commands. Not to be printed: secrets are in it.
#[derive(Clone)]
pub enum Credential {
    /// Nothing: the server runs without authentication.
    Anybody,
    /// A token.
    Token(String),
    /// A name, with the hash that its password had at the login.
    Password {
        /// The name.
        name: Arc<str>,
        /// The hash.
        hash: String,
    },
}

impl Credential {
    fn of(user: &User) -> Self {
        Self::Password {
            name: user.info.name.clone(),
            hash: user.hash.clone(),
        }
    }
}

struct User {
    info: UserInfo,
    hash: String,
}

struct Token {
    info: TokenInfo,
    digest: [u8; 32],
}

#[derive(Default)]
struct Known {
    users: FxHashMap<Arc<str>, User>,
    tokens: FxHashMap<Arc<str>, Token>,
}

/// Users and tokens.
pub struct System {
    db: Database,
    known: RwLock<Known>,
    /// Held while something is changed.
    changing: Mutex<()>,
    /// The digest of the one-time token with which the first administrator is made.
    first: Mutex<Option<[u8; 32]>>,
    /// The hash of a password that nobody has: verified for names that are not there, so that these take as long.
    nobody: String,
    /// Passwords that were right: see [`Recent`].
    recent: Recent,
}

/// Passwords that were found to be right within [`RECENT_TIME`], so that the connections of a pool need not wait for a slow hash
/// each. Kept as a digest under a key that ends with the process, over the password and the stored hash: another password
/// makes it void. Wrong ones are always hashed slowly. Memory: about 100 bytes a user.
struct Recent {
    key: ring::hmac::Key,
    known: Mutex<FxHashMap<Arc<str>, Shown>>,
}

/// A digest, and since when it is known.
type Shown = ([u8; 32], Instant);

impl Recent {
    fn new() -> Result<Self> {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &password::random::<32>()?);
        Ok(Self {
            key,
            known: Mutex::default(),
        })
    }

    fn digest(&self, password: &str, hash: &str) -> [u8; 32] {
        let mut context = ring::hmac::Context::with_key(&self.key);
        context.update(hash.as_bytes());
        context.update(&[0]);
        context.update(password.as_bytes());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    fn knows(&self, name: &str, password: &str, hash: &str) -> bool {
        let digest = self.digest(password, hash);
        let mut known = self.known.lock();
        match known.get(name) {
            Some((_, since)) if since.elapsed() >= RECENT_TIME => {
                known.remove(name);
                false
            }
            Some((held, _)) => password::equal(held, &digest),
            None => false,
        }
    }

    fn remember(&self, name: &Arc<str>, password: &str, hash: &str) {
        let digest = self.digest(password, hash);
        let since = Instant::now();
        self.known.lock().insert(name.clone(), (digest, since));
    }
}

impl System {
    /// Opens the system database, or makes it.
    ///
    /// With a key it is encrypted, if it is made now; one that was made without stays as it is, and says so in the log.
    pub fn open(folder: &Path, key: Option<&MasterKey>) -> Result<Self> {
        let mut builder = Database::builder().memory(32 << 20);
        if let Some(key) = key {
            let is_made = folder
                .read_dir()
                .is_ok_and(|mut files| files.next().is_some());
            if is_made && !Database::is_encrypted(folder)? {
                tracing::warn!(
                    folder = %folder.display(),
                    "users and tokens were stored before there was a key, and are not encrypted: to change that, stop the server, move the folder away, and make the users anew"
                );
            } else {
                builder = builder.key(key.clone());
            }
        }
        Self::with(builder.open(folder)?)
    }

    /// A system database in memory, for tests.
    pub fn in_memory() -> Result<Self> {
        Self::with(Database::builder().memory(32 << 20).open_in_memory()?)
    }

    fn with(db: Database) -> Result<Self> {
        let mut known = Known::default();
        for row in &db.query("MATCH (u:User) RETURN u._key AS name, u.password AS password, u.roles AS roles, u.created AS created", ())? {
            let user = User::read(row)?;
            known.users.insert(user.info.name.clone(), user);
        }
        for row in &db.query(
            "MATCH (t:Token) RETURN t._key AS id, t.hash AS hash, t.user AS user, t.name AS name, t.scope AS scope, \
             t.expires AS expires, t.created AS created, t.login AS login",
            (),
        )? {
            let token = Token::read(row)?;
            known.tokens.insert(token.info.id.clone(), token);
        }
        Ok(Self {
            db,
            known: RwLock::new(known),
            changing: Mutex::new(()),
            first: Mutex::new(None),
            nobody: password::hash(&password::hex(&password::random::<16>()?))?,
            recent: Recent::new()?,
        })
    }

    /// Whether there is a user.
    pub fn has_users(&self) -> bool {
        !self.known.read().users.is_empty()
    }

    /// A new one-time token with which the first administrator can be made. The one before is void.
    pub fn begin_setup(&self) -> Result<String> {
        let token = format!(
            "{TOKEN_START}_setup_{}",
            password::hex(&password::random::<32>()?)
        );
        *self.first.lock() = Some(password::digest_of(&token));
        Ok(token)
    }

    /// Makes the first administrator, once.
    pub fn setup(&self, token: &str, name: &str, password: &str) -> Result<()> {
        let mut first = self.first.lock();
        let known =
            first.is_some_and(|digest| password::equal(&digest, &password::digest_of(token)));
        if !known || self.has_users() {
            return Err(ServerError::Unauthenticated(
                "the token for the first login is wrong, or was used already".into(),
            ));
        }
        self.add_user(name, password, &Rights::all())?;
        *first = None;
        Ok(())
    }

    /// Who has this name and password. Takes as long for names that are not there. Slow on purpose: call it on a thread
    /// that may wait.
    pub fn log_in(&self, name: &str, password: &str, lasts_ms: u64) -> Result<Login> {
        let hash = self
            .known
            .read()
            .users
            .get(name)
            .map(|user| user.hash.clone());
        let right = password::verify(password, hash.as_deref().unwrap_or(&self.nobody));
        if !right || hash.is_none() {
            return Err(ServerError::Unauthenticated(
                "the name or the password is wrong".into(),
            ));
        }
        let expires = now_ms().saturating_add(lasts_ms);
        self.add_token(name, "login", None, Some(expires), true)
    }

    /// What a connection shows from now on in place of a name and a password, where they were right a few minutes ago: answers at
    /// once. Nothing otherwise: see [`System::credential`]. It can be asked fast: only whoever may log in now may ask.
    pub fn recent_credential(&self, name: &str, password: &str) -> Option<Credential> {
        let known = self.known.read();
        let user = known.users.get(name)?;
        let right = self.recent.knows(name, password, &user.hash);
        right.then(|| Credential::of(user))
    }

    /// What a connection shows from now on in place of a name and a password. As slow as [`System::log_in`].
    pub fn credential(&self, name: &str, password: &str) -> Result<Credential> {
        if !self.knows_password(name, password) {
            return Err(ServerError::Unauthenticated(
                "the name or the password is wrong".into(),
            ));
        }
        let known = self.known.read();
        let user = known.users.get(name).ok_or_else(|| no_user(name))?;
        self.recent.remember(&user.info.name, password, &user.hash);
        Ok(Credential::of(user))
    }

    /// Who shows this, with the rights of now: a password that was changed and a user who was removed are refused.
    pub fn principal_of(&self, credential: &Credential) -> Result<Principal> {
        let (name, hash) = match credential {
            Credential::Anybody => return Ok(Principal::anybody()),
            Credential::Token(token) => return self.principal(token),
            Credential::Password { name, hash } => (name, hash),
        };
        let known = self.known.read();
        match known.users.get(name) {
            Some(user) if user.hash == *hash => Ok(Principal::of_user(
                user.info.name.clone(),
                user.info.roles.clone(),
            )),
            _ => Err(ServerError::Unauthenticated(
                "the password was changed, or the user was removed: log in again".into(),
            )),
        }
    }

    /// Whether this is the password of a user.
    pub fn knows_password(&self, name: &str, password: &str) -> bool {
        let hash = self
            .known
            .read()
            .users
            .get(name)
            .map(|user| user.hash.clone());
        let right = password::verify(password, hash.as_deref().unwrap_or(&self.nobody));
        right && hash.is_some()
    }

    /// Whom a token belongs to.
    pub fn principal(&self, token: &str) -> Result<Principal> {
        let refused = || {
            ServerError::Unauthenticated(
                "the token is not known, or it has ended: log in again".into(),
            )
        };
        let (id, secret) = token
            .strip_prefix(TOKEN_START)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|rest| rest.split_once('_'))
            .ok_or_else(refused)?;
        let digest = password::digest_of(secret);
        let known = self.known.read();
        let token = known.tokens.get(id).ok_or_else(refused)?;
        let ended = token.info.expires_ms.is_some_and(|end| end <= now_ms());
        if !password::equal(&token.digest, &digest) || ended {
            return Err(refused());
        }
        let user = known.users.get(&token.info.user).ok_or_else(refused)?;
        Ok(Principal::of_token(
            user.info.name.clone(),
            user.info.roles.clone(),
            token.info.scope.clone(),
            token.info.id.clone(),
            token.info.login,
        ))
    }

    /// All users, by name.
    pub fn users(&self) -> Vec<UserInfo> {
        let mut users: Vec<_> = self
            .known
            .read()
            .users
            .values()
            .map(|user| user.info.clone())
            .collect();
        users.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        users
    }

    /// A user.
    pub fn user(&self, name: &str) -> Result<UserInfo> {
        let known = self.known.read();
        known
            .users
            .get(name)
            .map(|user| user.info.clone())
            .ok_or_else(|| no_user(name))
    }

    /// Makes a user.
    pub fn add_user(&self, name: &str, password: &str, roles: &Rights) -> Result<UserInfo> {
        check_name(name)?;
        let hash = password::hash(password)?;
        let _changing = self.changing.lock();
        if self.known.read().users.contains_key(name) {
            return Err(ServerError::Exists(format!(
                "there is a user `{name}` already"
            )));
        }
        if self.known.read().users.len() >= MOST_USERS {
            return Err(ServerError::TooLarge(format!(
                "there are {MOST_USERS} users, which is the limit"
            )));
        }
        let user = User {
            info: UserInfo {
                name: name.into(),
                roles: roles.clone(),
                created_ms: now_ms(),
            },
            hash,
        };
        self.store_user(&user)?;
        let info = user.info.clone();
        self.known.write().users.insert(info.name.clone(), user);
        Ok(info)
    }

    /// Gives a user these roles in place of those before.
    pub fn set_roles(&self, name: &str, roles: &Rights) -> Result<UserInfo> {
        let _changing = self.changing.lock();
        self.keep_an_administrator(name, Some(roles))?;
        let changed = {
            let known = self.known.read();
            let user = known.users.get(name).ok_or_else(|| no_user(name))?;
            User {
                info: UserInfo {
                    roles: roles.clone(),
                    ..user.info.clone()
                },
                hash: user.hash.clone(),
            }
        };
        self.store_user(&changed)?;
        let info = changed.info.clone();
        self.known.write().users.insert(info.name.clone(), changed);
        Ok(info)
    }

    /// Gives a user another password and ends the logins with the one before.
    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let hash = password::hash(password)?;
        let _changing = self.changing.lock();
        let changed = User {
            info: self.user(name)?,
            hash,
        };
        let logins: Vec<Arc<str>> = self.tokens_where(|info| &*info.user == name && info.login);
        self.db.transact(|tx| {
            tx.collection("User")
                .patch(name, &params! { "password" => changed.hash.as_str() })?;
            for id in &logins {
                tx.collection("Token").remove(&**id)?;
            }
            Ok::<_, isomer_db::Error>(())
        })?;
        let mut known = self.known.write();
        known.tokens.retain(|id, _| !logins.contains(id));
        known.users.insert(changed.info.name.clone(), changed);
        Ok(())
    }

    /// Removes a user, its tokens and its logins.
    pub fn remove_user(&self, name: &str) -> Result<()> {
        let _changing = self.changing.lock();
        self.user(name)?;
        self.keep_an_administrator(name, None)?;
        let tokens = self.tokens_where(|info| &*info.user == name);
        self.db.transact(|tx| {
            tx.collection("User").remove(name)?;
            for id in &tokens {
                tx.collection("Token").remove(&**id)?;
            }
            Ok::<_, isomer_db::Error>(())
        })?;
        let mut known = self.known.write();
        known.users.remove(name);
        known.tokens.retain(|id, _| !tokens.contains(id));
        Ok(())
    }

    /// Tokens and logins of a user, or of all, the oldest first.
    pub fn tokens(&self, user: Option<&str>) -> Vec<TokenInfo> {
        let known = self.known.read();
        let of_user = |info: &&TokenInfo| user.is_none_or(|user| &*info.user == user);
        let mut tokens: Vec<_> = known
            .tokens
            .values()
            .map(|token| &token.info)
            .filter(of_user)
            .cloned()
            .collect();
        tokens
            .sort_unstable_by(|one, two| (one.created_ms, &one.id).cmp(&(two.created_ms, &two.id)));
        tokens
    }

    /// Makes a token of a user.
    pub fn add_token(
        &self,
        user: &str,
        name: &str,
        scope: Option<Rights>,
        expires_ms: Option<u64>,
        login: bool,
    ) -> Result<NewToken> {
        if name.len() > 200 {
            return Err(ServerError::Invalid(
                "the name of a token has at most 200 bytes".into(),
            ));
        }
        let _changing = self.changing.lock();
        let user = self.user(user)?.name;
        let (id, secret) = (
            password::hex(&password::random::<8>()?),
            password::hex(&password::random::<32>()?),
        );
        let token = Token {
            info: TokenInfo {
                id: id.as_str().into(),
                user: user.clone(),
                name: name.to_owned(),
                scope,
                expires_ms,
                created_ms: now_ms(),
                login,
            },
            digest: password::digest_of(&secret),
        };
        // Ended ones go when others come; of logins only so many are kept.
        let now = now_ms();
        let mut gone = self.tokens_where(|info| {
            info.user == user && info.expires_ms.is_some_and(|end| end <= now)
        });
        if login {
            let mut logins: Vec<_> = self
                .tokens(Some(&user))
                .into_iter()
                .filter(|info| info.login)
                .collect();
            let surplus = (logins.len() + 1).saturating_sub(MOST_LOGINS);
            gone.extend(logins.drain(..surplus).map(|info| info.id));
        } else if self
            .tokens(Some(&user))
            .iter()
            .filter(|info| !info.login)
            .count()
            >= MOST_TOKENS
        {
            return Err(ServerError::TooLarge(format!(
                "`{user}` has {MOST_TOKENS} tokens, which is the limit: revoke some"
            )));
        }
        self.db.transact(|tx| {
            let mut tokens = tx.collection("Token");
            for id in &gone {
                tokens.remove(&**id)?;
            }
            tokens.insert(&token.document())
        })?;
        let info = token.info.clone();
        let mut known = self.known.write();
        known.tokens.retain(|id, _| !gone.contains(id));
        known.tokens.insert(info.id.clone(), token);
        Ok(NewToken {
            token: format!("{TOKEN_START}_{id}_{secret}"),
            info,
        })
    }

    /// Ends a token; false where it is not there, or not of the user given.
    pub fn remove_token(&self, id: &str, of: Option<&str>) -> Result<bool> {
        let _changing = self.changing.lock();
        let there = {
            let known = self.known.read();
            let token = known.tokens.get(id);
            token.is_some_and(|token| of.is_none_or(|user| &*token.info.user == user))
        };
        if there {
            self.db.transact(|tx| tx.collection("Token").remove(id))?;
            self.known.write().tokens.remove(id);
        }
        Ok(there)
    }

    /// Closes the database.
    pub fn close(&self) -> Result<()> {
        Ok(self.db.close()?)
    }

    /// Refuses what would leave nobody who may administer the server.
    fn keep_an_administrator(&self, name: &str, roles: Option<&Rights>) -> Result<()> {
        let admin = |rights: &Rights| rights.on_all() == Some(super::Role::Admin);
        if roles.is_some_and(admin) {
            return Ok(());
        }
        let known = self.known.read();
        let others = known
            .users
            .values()
            .any(|user| &*user.info.name != name && admin(&user.info.roles));
        if others || !known.users.contains_key(name) {
            return Ok(());
        }
        Err(ServerError::Invalid(format!(
            "`{name}` is the last administrator: make another one first"
        )))
    }

    fn tokens_where(&self, keep: impl Fn(&TokenInfo) -> bool) -> Vec<Arc<str>> {
        let known = self.known.read();
        let found = known.tokens.values().filter(|token| keep(&token.info));
        found.map(|token| token.info.id.clone()).collect()
    }

    fn store_user(&self, user: &User) -> Result<()> {
        let document = user.document();
        let name = user.info.name.to_string();
        self.db.transact(|tx| {
            let mut users = tx.collection("User");
            match users.get(name.as_str())? {
                Some(_) => users.replace(name.as_str(), &document),
                None => users.insert(&document).map(drop),
            }
        })?;
        Ok(())
    }
}

/// Names of users: what can be written in a log and a path without quotes.
/// Whether a user may have this name.
pub(crate) fn is_user_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
    (1..=MOST_NAME).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('.')
}

fn check_name(name: &str) -> Result<()> {
    if !is_user_name(name) {
        return Err(ServerError::Invalid(format!(
            "the name of a user has 1 to {MOST_NAME} letters, digits, `_`, `-`, `.` or `@`, and begins with no dot"
        )));
    }
    Ok(())
}

fn no_user(name: &str) -> ServerError {
    ServerError::NotFound(format!("there is no user `{name}`"))
}

fn millis(value: Option<i64>) -> Option<u64> {
    value.and_then(|ms| u64::try_from(ms).ok())
}

fn stored_ms(ms: u64) -> Value {
    Value::Int(i64::try_from(ms).unwrap_or(i64::MAX))
}

impl User {
    fn read(row: &isomer_db::Row) -> Result<Self> {
        Ok(Self {
            info: UserInfo {
                name: row.get::<String>("name")?.into(),
                roles: Rights::from_map(row.value("roles")?.as_map().unwrap_or(&Map::new()))?,
                created_ms: millis(row.get("created")?).unwrap_or_default(),
            },
            hash: row.get("password")?,
        })
    }

    fn document(&self) -> Map {
        params! {
            "_key" => &*self.info.name,
            "password" => self.hash.as_str(),
            "roles" => self.info.roles.to_map(),
            "created" => stored_ms(self.info.created_ms),
        }
    }
}

impl Token {
    fn read(row: &isomer_db::Row) -> Result<Self> {
        let digest = row
            .value("hash")?
            .as_bytes()
            .and_then(|bytes| bytes.try_into().ok());
        Ok(Self {
            info: TokenInfo {
                id: row.get::<String>("id")?.into(),
                user: row.get::<String>("user")?.into(),
                name: row.get("name")?,
                scope: row
                    .value("scope")?
                    .as_map()
                    .map(Rights::from_map)
                    .transpose()?,
                expires_ms: millis(row.get("expires")?),
                created_ms: millis(row.get("created")?).unwrap_or_default(),
                login: row.get("login")?,
            },
            digest: digest.ok_or_else(|| {
                ServerError::Internal("a token of the system database has no digest".into())
            })?,
        })
    }

    fn document(&self) -> Map {
        let mut document = params! {
            "_key" => &*self.info.id,
            "hash" => Value::Bytes(self.digest.as_slice().into()),
            "user" => &*self.info.user,
            "name" => self.info.name.as_str(),
            "created" => stored_ms(self.info.created_ms),
            "login" => self.info.login,
        };
        if let Some(scope) = &self.info.scope {
            document.insert("scope", scope.to_map().into());
        }
        if let Some(end) = self.info.expires_ms {
            document.insert("expires", stored_ms(end));
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn reader() -> Rights {
        Rights::none().with("people", Role::Reader)
    }

    #[test]
    fn users_and_tokens_outlive_the_process_and_secrets_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("system");
        let system = System::open(&path, None).unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        system.add_user("bob", "correct horse", &reader()).unwrap();
        let token = system
            .add_token("bob", "script", Some(reader()), None, false)
            .unwrap();
        system.close().unwrap();
        drop(system);

        let system = System::open(&path, None).unwrap();
        let principal = system.principal(&token.token).unwrap();
        assert_eq!(
            (&*principal.name, principal.rights.on("people")),
            ("bob", Some(Role::Reader))
        );
        assert!(system.log_in("bob", "correct horse", 1000).is_ok());
        assert!(system.log_in("bob", "correct house", 1000).is_err());
        let stored = system.db.query("MATCH (n) RETURN n", ()).unwrap();
        let secret = token.token.rsplit('_').next().unwrap();
        let shown = stored
            .iter()
            .map(|row| isomer_db::json::to_string(&row.values()[0]).unwrap())
            .collect::<String>();
        assert!(!shown.contains(secret) && !shown.contains("correct horse"));
    }

    #[test]
    fn a_token_that_ended_was_revoked_or_belongs_to_nobody_is_refused_at_once() {
        let system = System::in_memory().unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        system.add_user("bob", "correct horse", &reader()).unwrap();
        let ended = system
            .add_token("bob", "", None, Some(now_ms() - 1), false)
            .unwrap();
        assert!(system.principal(&ended.token).is_err());
        let revoked = system.add_token("bob", "", None, None, false).unwrap();
        assert!(system.principal(&revoked.token).is_ok());
        assert!(
            !system.remove_token(&revoked.info.id, Some("ada")).unwrap(),
            "it is not hers"
        );
        assert!(system.remove_token(&revoked.info.id, Some("bob")).unwrap());
        assert!(system.principal(&revoked.token).is_err());
        let orphan = system.add_token("bob", "", None, None, false).unwrap();
        system.remove_user("bob").unwrap();
        assert!(system.principal(&orphan.token).is_err());
        for wrong in [
            "",
            "isomer",
            "isomer_",
            "isomer__",
            "eyJhbGciOiJub25lIn0.e30.",
            &orphan.token[..40],
        ] {
            assert!(system.principal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_new_password_ends_the_logins_with_the_old_one() {
        let system = System::in_memory().unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        let login = system.log_in("ada", "analytical engine", 60_000).unwrap();
        let token = system
            .add_token("ada", "script", None, None, false)
            .unwrap();
        system.set_password("ada", "difference engine").unwrap();
        assert!(system.principal(&login.token).is_err());
        assert!(
            system.principal(&token.token).is_ok(),
            "tokens are revoked one by one"
        );
        assert!(system.log_in("ada", "analytical engine", 1000).is_err());
        assert!(system.log_in("ada", "difference engine", 1000).is_ok());
    }

    #[test]
    fn a_password_that_was_right_is_known_for_a_while() {
        let system = System::in_memory().unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        let recent = |password| system.recent_credential("ada", password).is_some();
        assert!(!recent("analytical engine"));
        system.credential("ada", "analytical engine").unwrap();
        assert!(recent("analytical engine") && !recent("difference engine"));
        if let Some((_, since)) = system.recent.known.lock().get_mut("ada")
            && let Some(before) = since.checked_sub(RECENT_TIME)
        {
            *since = before;
        }
        assert!(!recent("analytical engine"), "it is hashed again");
        system.credential("ada", "analytical engine").unwrap();
        assert!(recent("analytical engine"));
        system.set_password("ada", "difference engine").unwrap();
        assert!(!recent("analytical engine") && !recent("difference engine"));
    }

    #[test]
    fn the_token_of_the_first_login_works_once() {
        let system = System::in_memory().unwrap();
        let void = system.begin_setup().unwrap();
        let token = system.begin_setup().unwrap();
        assert!(system.setup(&void, "ada", "analytical engine").is_err());
        assert!(system.setup("", "ada", "analytical engine").is_err());
        assert!(system.setup(&token, "ada", "short").is_err());
        system.setup(&token, "ada", "analytical engine").unwrap();
        assert!(system.setup(&token, "eve", "analytical engine").is_err());
        assert_eq!(system.users().len(), 1);
    }

    #[test]
    fn the_last_administrator_stays() {
        let system = System::in_memory().unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        assert!(system.remove_user("ada").is_err());
        assert!(system.set_roles("ada", &reader()).is_err());
        system
            .add_user("bob", "correct horse", &Rights::all())
            .unwrap();
        system.set_roles("ada", &reader()).unwrap();
        assert!(system.remove_user("bob").is_err());
        assert!(system.remove_user("nobody").is_err());
    }

    #[test]
    fn with_a_key_users_and_tokens_are_not_readable_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::generate().unwrap();
        let (keyed, plain) = (folder.path().join("keyed"), folder.path().join("plain"));
        let holds = |path: &Path, text: &str| {
            let mut left = vec![path.to_owned()];
            while let Some(path) = left.pop() {
                match path.is_dir() {
                    true => left.extend(path.read_dir().unwrap().map(|one| one.unwrap().path())),
                    false => {
                        let bytes = std::fs::read(&path).unwrap();
                        let mut parts = bytes.windows(text.len());
                        if parts.any(|part| part == text.as_bytes()) {
                            return true;
                        }
                    }
                }
            }
            false
        };
        for (path, key) in [(&keyed, Some(&key)), (&plain, None)] {
            let system = System::open(path, key).unwrap();
            system
                .add_user("grace-hopper", "nanoseconds", &Rights::all())
                .unwrap();
            system.close().unwrap();
        }
        assert!(
            holds(&plain, "grace-hopper"),
            "the search finds what is there"
        );
        assert!(!holds(&keyed, "grace-hopper"));
        assert!(System::open(&keyed, None).is_err());
        assert!(System::open(&keyed, Some(&MasterKey::generate().unwrap())).is_err());
        let again = System::open(&keyed, Some(&key)).unwrap();
        assert!(again.knows_password("grace-hopper", "nanoseconds"));
        // One that was there before the key stays usable.
        let again = System::open(&plain, Some(&key)).unwrap();
        assert!(again.knows_password("grace-hopper", "nanoseconds"));
    }

    #[test]
    fn names_are_plain() {
        let system = System::in_memory().unwrap();
        for name in ["", "a b", "../x", "a\nb", "ä", ".hidden", &"x".repeat(65)] {
            assert!(
                system
                    .add_user(name, "analytical engine", &Rights::none())
                    .is_err(),
                "{name}"
            );
        }
    }
}
