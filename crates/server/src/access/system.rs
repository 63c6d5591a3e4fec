//! Users and tokens: stored in the *system database*, cached in memory.
//!
//! The system database holds documents of two labels. `User`: `_key` the name, `password` an Argon2id hash, `roles`
//! by database, `created`. `Token`: `_key` its public part, `hash` the SHA-256 of its secret part, `user`, `name`,
//! `scope` (roles by database; absent: all of the user's), `expires`, `created`, `login`. Times are milliseconds
//! since 1970.
//!
//! Several servers may share the system database. Each reads it again when another one has changed it, and changes it
//! while it holds the lock of a file next to it.
//!
//! A change is committed first and then published to the cache, under one lock: no request that begins after a token
//! was revoked is authenticated by it.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use isomer_db::{Database, Map, MasterKey, Sharing, Value, Version, params};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use rustc_hash::FxHashMap;

use super::{Principal, Rights, password};
use crate::clock::now_ms;
use crate::{Result, ServerError};

/// Prefix of tokens, by which secret scanners recognise leaked ones.
const TOKEN_START: &str = "isomer";
/// Most users, and most tokens of one user: all of them are cached in memory.
const MAX_USERS: usize = 100_000;
const MAX_TOKENS: usize = 1_000;
/// Most logins kept per user; those that expire first are removed first.
const MAX_LOGINS: usize = 100;
/// How long a correct password is accepted without hashing it again.
const RECENT_TIME: Duration = Duration::from_secs(300);
/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Public data of a user.
#[derive(Clone, Debug)]
pub struct UserInfo {
    /// The name.
    pub name: Arc<str>,
    /// Roles by database.
    pub roles: Rights,
    /// Creation time.
    pub created_ms: u64,
}

/// Public data of a token: without its secret, which is not stored.
#[derive(Clone, Debug)]
pub struct TokenInfo {
    /// The public part.
    pub id: Arc<str>,
    /// The user it belongs to.
    pub user: Arc<str>,
    /// Its purpose, for people.
    pub name: String,
    /// Limit on its rights; absent: all rights of the user.
    pub scope: Option<Rights>,
    /// Expiry time.
    pub expires_ms: Option<u64>,
    /// Creation time.
    pub created_ms: u64,
    /// Whether it comes from a password login.
    pub login: bool,
}

/// A token that was just created. Its secret is available only here.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The token.
    pub token: String,
    /// Its public data.
    pub info: TokenInfo,
}

/// Result of a login.
pub type Login = NewToken;

/// What a long-lived connection authenticates each command with. Must not be logged: it contains secrets.
#[derive(Clone)]
pub enum Credential {
    /// Nothing: the server runs without authentication.
    Anybody,
    /// A token.
    Token(String),
    /// A name, with the password's hash at the time of the login.
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
struct Cache {
    /// The version that it was read at; nothing if another server shares the database and it has to be read again.
    version: Option<Version>,
    users: FxHashMap<Arc<str>, User>,
    tokens: FxHashMap<Arc<str>, Token>,
}

impl Cache {
    /// Reads all of them.
    fn read(db: &Database) -> Result<Self> {
        let mut known = Self {
            // What is committed from here on is read again.
            version: Some(db.version()?),
            ..Self::default()
        };
        for row in &db.query("MATCH (u:User) RETURN u._key AS name, u.password AS password, u.roles AS roles, u.created AS created")? {
            let user = User::read(row)?;
            known.users.insert(user.info.name.clone(), user);
        }
        for row in &db.query("MATCH (t:Token) RETURN t._key AS id, t.hash AS hash, t.user AS user, t.name AS name, t.scope AS scope, \
             t.expires AS expires, t.created AS created, t.login AS login")? {
            let token = Token::read(row)?;
            known.tokens.insert(token.info.id.clone(), token);
        }
        Ok(known)
    }
}

/// The right to change users and tokens: held by one thread of one server.
struct Changing<'a> {
    _own: MutexGuard<'a, ()>,
    /// Its lock ends when it is closed, and with the process.
    _file: Option<File>,
}

/// Longest wait for a change by another server.
const MAX_CHANGE_WAIT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const CHANGE_PAUSE: Duration = Duration::from_millis(5);

/// Waits for the lock that servers hold while they change users and tokens.
fn lock_of_servers(path: &Path) -> Result<File> {
    let lock_error = |error: std::io::Error| {
        ServerError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
    };
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let file = options.open(path).map_err(lock_error)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(lock_error(error)),
            Err(TryLockError::WouldBlock) if began.elapsed() < MAX_CHANGE_WAIT => {
                thread::sleep(CHANGE_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::Unavailable(format!(
                    "another server has been changing users and tokens for {} s: try again, and look whether it is stopped",
                    MAX_CHANGE_WAIT.as_secs()
                )));
            }
        }
    }
}

/// Users and tokens.
pub struct System {
    db: Database,
    cache: RwLock<Cache>,
    /// Locked during a change.
    changing: Mutex<()>,
    /// Locked during a change, if several servers share the system database.
    lock_file: Option<PathBuf>,
    /// Digest of the one-time token for creating the first administrator.
    first: Mutex<Option<[u8; 32]>>,
    /// Hash of a random password: verified for unknown names, so that they take as long as known ones.
    decoy_hash: String,
    /// Recently verified passwords: see [`Recent`].
    recent: Recent,
}

/// Passwords that were verified within [`RECENT_TIME`], so that the connections of a pool do not pay for a slow hash
/// each. Stored as a digest of the password and its stored hash, under a key that lives as long as the process:
/// changing the password invalidates it. Wrong passwords always take the slow path. Memory: about 100 bytes a user.
struct Recent {
    key: ring::hmac::Key,
    known: Mutex<FxHashMap<Arc<str>, Verified>>,
}

/// A digest, and when it was verified.
type Verified = ([u8; 32], Instant);

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

    fn matches(&self, name: &str, password: &str, hash: &str) -> bool {
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
    /// Opens or creates the system database.
    ///
    /// With a key, a new database is encrypted; an existing unencrypted one stays so, and a warning is logged.
    ///
    /// Other servers may open it, too, if `sharing` says so: [`Sharing::Exclusive`], [`Sharing::Shared`], or as it is
    /// stored.
    pub fn open(folder: &Path, key: Option<&MasterKey>, sharing: Sharing) -> Result<Self> {
        let mut builder = Database::builder()
            .memory(32 << 20)
            .sharing(sharing)
            .process_kind("server");
        if let Some(key) = key {
            let is_made = folder
                .read_dir()
                .is_ok_and(|mut files| files.next().is_some());
            if is_made && !Database::is_encrypted(folder)? {
                tracing::warn!(
                    folder = %folder.display(),
                    "users and tokens were stored without a key, and are not encrypted: to encrypt them, stop the server, move the folder away, and create the users again"
                );
            } else {
                builder = builder.key(key.clone());
            }
        }
        let db = builder.open(folder)?;
        let is_shared = match sharing {
            Sharing::Exclusive => false,
            Sharing::Shared => true,
            _ => Sharing::at(folder) == Some(Sharing::Shared),
        };
        let lock_file = is_shared.then(|| folder.with_extension("lock"));
        Self::with(db, lock_file)
    }

    /// An in-memory system database, for tests.
    pub fn in_memory() -> Result<Self> {
        let db = Database::builder().memory(32 << 20).open_in_memory()?;
        Self::with(db, None)
    }

    fn with(db: Database, lock_file: Option<PathBuf>) -> Result<Self> {
        Ok(Self {
            cache: RwLock::new(Cache::read(&db)?),
            db,
            changing: Mutex::new(()),
            lock_file,
            first: Mutex::new(None),
            decoy_hash: password::hash(&password::hex(&password::random::<16>()?))?,
            recent: Recent::new()?,
        })
    }

    /// Users and tokens as they are now, with the changes of other servers.
    fn current_cache(&self) -> RwLockReadGuard<'_, Cache> {
        let known = self.cache.read();
        if self.lock_file.is_none() {
            return known;
        }
        // Unlike `Database::version`, this fails if the changes of other servers cannot be read.
        let version = self.db.begin_read().map(|read| read.version()).ok();
        if version.is_some() && known.version == version {
            return known;
        }
        drop(known);
        let mut known = self.cache.write();
        // Another thread may have read them by now.
        if version.is_none() || known.version < version {
            // If they cannot be read, no user or token is known: one of them may have been removed.
            *known = Cache::read(&self.db).unwrap_or_else(|error| {
                tracing::error!(%error, "users and tokens cannot be read");
                Cache::default()
            });
        }
        parking_lot::RwLockWriteGuard::downgrade(known)
    }

    /// The right to change users and tokens.
    fn change(&self) -> Result<Changing<'_>> {
        let own = self.changing.lock();
        let file = match &self.lock_file {
            Some(path) => Some(lock_of_servers(path)?),
            None => None,
        };
        Ok(Changing {
            _own: own,
            _file: file,
        })
    }

    /// Whether any user exists.
    pub fn has_users(&self) -> bool {
        !self.current_cache().users.is_empty()
    }

    /// Creates a one-time token for creating the first administrator; invalidates the previous one.
    pub fn begin_setup(&self) -> Result<String> {
        let token = format!(
            "{TOKEN_START}_setup_{}",
            password::hex(&password::random::<32>()?)
        );
        *self.first.lock() = Some(password::digest_of(&token));
        Ok(token)
    }

    /// Creates the first administrator, once.
    pub fn setup(&self, token: &str, name: &str, password: &str) -> Result<()> {
        let mut first = self.first.lock();
        let known =
            first.is_some_and(|digest| password::equal(&digest, &password::digest_of(token)));
        if !known || self.has_users() {
            return Err(ServerError::Unauthenticated(
                "the token for the first login is wrong, or was already used".into(),
            ));
        }
        self.add_user(name, password, &Rights::all())?;
        *first = None;
        Ok(())
    }

    /// Logs in with a name and a password. Takes as long for unknown names. Slow on purpose: call it on a blocking
    /// thread.
    pub fn log_in(&self, name: &str, password: &str, lasts_ms: u64) -> Result<Login> {
        let hash = self
            .current_cache()
            .users
            .get(name)
            .map(|user| user.hash.clone());
        let right = password::verify(password, hash.as_deref().unwrap_or(&self.decoy_hash));
        if !right || hash.is_none() {
            return Err(ServerError::Unauthenticated(
                "the name or the password is wrong".into(),
            ));
        }
        let expires = now_ms().saturating_add(lasts_ms);
        self.add_token(name, "login", None, Some(expires), true)
    }

    /// The credential that replaces a name and a password on a connection, if they were verified within
    /// [`RECENT_TIME`]; does not block. Otherwise `None`: see [`System::credential`]. It answers fast, so it must
    /// only be called after the check for too many failed logins.
    pub fn recent_credential(&self, name: &str, password: &str) -> Option<Credential> {
        let known = self.current_cache();
        let user = known.users.get(name)?;
        let right = self.recent.matches(name, password, &user.hash);
        right.then(|| Credential::of(user))
    }

    /// The credential that replaces a name and a password on a connection. As slow as [`System::log_in`].
    pub fn credential(&self, name: &str, password: &str) -> Result<Credential> {
        if !self.knows_password(name, password) {
            return Err(ServerError::Unauthenticated(
                "the name or the password is wrong".into(),
            ));
        }
        let known = self.current_cache();
        let user = known.users.get(name).ok_or_else(|| no_user(name))?;
        self.recent.remember(&user.info.name, password, &user.hash);
        Ok(Credential::of(user))
    }

    /// The principal of a credential, with its current rights; fails if the password was changed or the user was
    /// removed.
    pub fn principal_of(&self, credential: &Credential) -> Result<Principal> {
        let (name, hash) = match credential {
            Credential::Anybody => return Ok(Principal::anybody()),
            Credential::Token(token) => return self.principal(token),
            Credential::Password { name, hash } => (name, hash),
        };
        let known = self.current_cache();
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

    /// Whether this is the user's password.
    pub fn knows_password(&self, name: &str, password: &str) -> bool {
        let hash = self
            .current_cache()
            .users
            .get(name)
            .map(|user| user.hash.clone());
        let right = password::verify(password, hash.as_deref().unwrap_or(&self.decoy_hash));
        right && hash.is_some()
    }

    /// The principal of a token.
    pub fn principal(&self, token: &str) -> Result<Principal> {
        let refused = || {
            ServerError::Unauthenticated("the token is unknown or has expired: log in again".into())
        };
        let (id, secret) = token
            .strip_prefix(TOKEN_START)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|rest| rest.split_once('_'))
            .ok_or_else(refused)?;
        let digest = password::digest_of(secret);
        let known = self.current_cache();
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
            .current_cache()
            .users
            .values()
            .map(|user| user.info.clone())
            .collect();
        users.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        users
    }

    /// A user.
    pub fn user(&self, name: &str) -> Result<UserInfo> {
        let known = self.current_cache();
        known
            .users
            .get(name)
            .map(|user| user.info.clone())
            .ok_or_else(|| no_user(name))
    }

    /// Creates a user.
    pub fn add_user(&self, name: &str, password: &str, roles: &Rights) -> Result<UserInfo> {
        check_name(name)?;
        let hash = password::hash(password)?;
        let _changing = self.change()?;
        if self.current_cache().users.contains_key(name) {
            return Err(ServerError::Exists(format!(
                "the user `{name}` already exists"
            )));
        }
        if self.current_cache().users.len() >= MAX_USERS {
            return Err(ServerError::TooLarge(format!(
                "the limit of {MAX_USERS} users is reached"
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
        self.cache.write().users.insert(info.name.clone(), user);
        Ok(info)
    }

    /// Replaces the roles of a user.
    pub fn set_roles(&self, name: &str, roles: &Rights) -> Result<UserInfo> {
        let _changing = self.change()?;
        self.keep_an_administrator(name, Some(roles))?;
        let changed = {
            let known = self.current_cache();
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
        self.cache.write().users.insert(info.name.clone(), changed);
        Ok(info)
    }

    /// Changes a user's password and ends the user's logins; with `end_tokens`, revokes the user's other tokens as
    /// well.
    pub fn set_password(&self, name: &str, password: &str, end_tokens: bool) -> Result<()> {
        let hash = password::hash(password)?;
        let _changing = self.change()?;
        let changed = User {
            info: self.user(name)?,
            hash,
        };
        let ended: Vec<Arc<str>> =
            self.tokens_where(|info| &*info.user == name && (info.login || end_tokens));
        self.db.transact(|tx| {
            tx.collection("User")
                .patch(name, &params! { "password" => changed.hash.as_str() })?;
            for id in &ended {
                tx.collection("Token").remove(&**id)?;
            }
            Ok(())
        })?;
        let mut known = self.cache.write();
        known.tokens.retain(|id, _| !ended.contains(id));
        known.users.insert(changed.info.name.clone(), changed);
        Ok(())
    }

    /// Removes a user with its tokens and logins.
    pub fn remove_user(&self, name: &str) -> Result<()> {
        let _changing = self.change()?;
        self.user(name)?;
        self.keep_an_administrator(name, None)?;
        let tokens = self.tokens_where(|info| &*info.user == name);
        self.db.transact(|tx| {
            tx.collection("User").remove(name)?;
            for id in &tokens {
                tx.collection("Token").remove(&**id)?;
            }
            Ok(())
        })?;
        let mut known = self.cache.write();
        known.users.remove(name);
        known.tokens.retain(|id, _| !tokens.contains(id));
        Ok(())
    }

    /// Tokens and logins of a user, or of all users, oldest first.
    pub fn tokens(&self, user: Option<&str>) -> Vec<TokenInfo> {
        let known = self.current_cache();
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

    /// Creates a token of a user.
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
        let _changing = self.change()?;
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
        // Expired tokens are removed when new ones are created; the number of logins per user is limited.
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
            let surplus = (logins.len() + 1).saturating_sub(MAX_LOGINS);
            gone.extend(logins.drain(..surplus).map(|info| info.id));
        } else if self
            .tokens(Some(&user))
            .iter()
            .filter(|info| !info.login)
            .count()
            >= MAX_TOKENS
        {
            return Err(ServerError::TooLarge(format!(
                "`{user}` has {MAX_TOKENS} tokens, which is the limit: revoke some"
            )));
        }
        self.db.transact(|tx| {
            let tokens = tx.collection("Token");
            for id in &gone {
                tokens.remove(&**id)?;
            }
            tokens.insert(&token.document())
        })?;
        let info = token.info.clone();
        let mut known = self.cache.write();
        known.tokens.retain(|id, _| !gone.contains(id));
        known.tokens.insert(info.id.clone(), token);
        Ok(NewToken {
            token: format!("{TOKEN_START}_{id}_{secret}"),
            info,
        })
    }

    /// Revokes a token; false if it does not exist or does not belong to the given user.
    pub fn remove_token(&self, id: &str, of: Option<&str>) -> Result<bool> {
        let _changing = self.change()?;
        let there = {
            let known = self.current_cache();
            let token = known.tokens.get(id);
            token.is_some_and(|token| of.is_none_or(|user| &*token.info.user == user))
        };
        if there {
            self.db.transact(|tx| tx.collection("Token").remove(id))?;
            self.cache.write().tokens.remove(id);
        }
        Ok(there)
    }

    /// Closes the database.
    pub fn close(&self) -> Result<()> {
        Ok(self.db.close()?)
    }

    /// Fails if no administrator of the server would remain.
    fn keep_an_administrator(&self, name: &str, roles: Option<&Rights>) -> Result<()> {
        let admin = |rights: &Rights| rights.on_all() == Some(super::Role::Admin);
        if roles.is_some_and(admin) {
            return Ok(());
        }
        let known = self.current_cache();
        let others = known
            .users
            .values()
            .any(|user| &*user.info.name != name && admin(&user.info.roles));
        if others || !known.users.contains_key(name) {
            return Ok(());
        }
        Err(ServerError::Invalid(format!(
            "`{name}` is the last administrator: create another one first"
        )))
    }

    fn tokens_where(&self, keep: impl Fn(&TokenInfo) -> bool) -> Vec<Arc<str>> {
        let known = self.current_cache();
        let found = known.tokens.values().filter(|token| keep(&token.info));
        found.map(|token| token.info.id.clone()).collect()
    }

    fn store_user(&self, user: &User) -> Result<()> {
        let document = user.document();
        let name = user.info.name.to_string();
        self.db.transact(|tx| {
            let users = tx.collection("User");
            match users.get(name.as_str())? {
                Some(_) => users.replace(name.as_str(), &document),
                None => users.insert(&document).map(drop),
            }
        })?;
        Ok(())
    }
}

/// Whether `name` is a valid user name: it can be written to a log and a path without quotes.
pub(crate) fn is_user_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('.')
}

fn check_name(name: &str) -> Result<()> {
    if !is_user_name(name) {
        return Err(ServerError::Invalid(format!(
            "the name of a user must be 1 to {MAX_NAME_CHARS} letters, digits, `_`, `-`, `.` or `@`, and must not begin with a dot"
        )));
    }
    Ok(())
}

fn no_user(name: &str) -> ServerError {
    ServerError::NotFound(format!("no user `{name}`"))
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
    fn users_and_tokens_survive_a_restart_and_secrets_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("system");
        let system = System::open(&path, None, Sharing::Exclusive).unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        system.add_user("bob", "correct horse", &reader()).unwrap();
        let token = system
            .add_token("bob", "script", Some(reader()), None, false)
            .unwrap();
        system.close().unwrap();
        drop(system);

        let system = System::open(&path, None, Sharing::Exclusive).unwrap();
        let principal = system.principal(&token.token).unwrap();
        assert_eq!(
            (&*principal.name, principal.rights.on("people")),
            ("bob", Some(Role::Reader))
        );
        assert!(system.log_in("bob", "correct horse", 1000).is_ok());
        assert!(system.log_in("bob", "correct house", 1000).is_err());
        let stored = system.db.query("MATCH (n) RETURN n").unwrap();
        let secret = token.token.rsplit('_').next().unwrap();
        let shown = stored
            .iter()
            .map(|row| isomer_db::json::to_string(&row.values()[0]).unwrap())
            .collect::<String>();
        assert!(!shown.contains(secret) && !shown.contains("correct horse"));
    }

    #[test]
    fn expired_revoked_and_foreign_tokens_are_refused_at_once() {
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
    fn a_password_change_ends_the_logins_with_the_old_one() {
        let system = System::in_memory().unwrap();
        system
            .add_user("ada", "analytical engine", &Rights::all())
            .unwrap();
        let login = system.log_in("ada", "analytical engine", 60_000).unwrap();
        let token = system
            .add_token("ada", "script", None, None, false)
            .unwrap();
        system
            .set_password("ada", "difference engine", false)
            .unwrap();
        assert!(system.principal(&login.token).is_err());
        assert!(
            system.principal(&token.token).is_ok(),
            "tokens are revoked one by one"
        );
        assert!(system.log_in("ada", "analytical engine", 1000).is_err());
        let login = system.log_in("ada", "difference engine", 60_000).unwrap();
        system
            .add_user("eve", "analytical engine", &Rights::all())
            .unwrap();
        let of_eve = system
            .add_token("eve", "script", None, None, false)
            .unwrap();
        system.set_password("ada", "third engine", true).unwrap();
        for ended in [&login.token, &token.token] {
            assert!(system.principal(ended).is_err(), "all of them end at once");
        }
        assert!(system.principal(&of_eve.token).is_ok());
        assert!(system.tokens(Some("ada")).is_empty());
    }

    #[test]
    fn a_verified_password_is_remembered_for_a_while() {
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
        system
            .set_password("ada", "difference engine", false)
            .unwrap();
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
    fn servers_share_users_and_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let open = || System::open(&path, None, Sharing::Shared).unwrap();
        let (one, other) = (open(), open());
        one.add_user("ada", "a long password", &Rights::all())
            .unwrap();
        assert!(other.has_users() && other.knows_password("ada", "a long password"));
        let again = other.add_user("ada", "a long password", &Rights::all());
        assert!(matches!(again, Err(ServerError::Exists(_))));
        let login = other.log_in("ada", "a long password", 60_000).unwrap();
        assert_eq!(&*one.principal(&login.token).unwrap().name, "ada");
        assert!(one.remove_token(&login.info.id, None).unwrap());
        assert!(other.principal(&login.token).is_err());

        // Each removes another administrator at the same time: one remains.
        other
            .add_user("bob", "a long password", &Rights::all())
            .unwrap();
        let removed = std::thread::scope(|scope| {
            let threads = [
                scope.spawn(|| one.remove_user("ada")),
                scope.spawn(|| other.remove_user("bob")),
            ];
            threads.map(|thread| thread.join().unwrap().is_ok())
        });
        assert_eq!(removed.iter().filter(|removed| **removed).count(), 1);
        assert_eq!((one.users().len(), other.users().len()), (1, 1));
    }

    #[test]
    fn the_last_administrator_cannot_be_removed() {
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
        assert!(system.remove_user("missing").is_err());
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
            let system = System::open(path, key, Sharing::Exclusive).unwrap();
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
        assert!(System::open(&keyed, None, Sharing::Exclusive).is_err());
        assert!(
            System::open(
                &keyed,
                Some(&MasterKey::generate().unwrap()),
                Sharing::Exclusive
            )
            .is_err()
        );
        let again = System::open(&keyed, Some(&key), Sharing::Exclusive).unwrap();
        assert!(again.knows_password("grace-hopper", "nanoseconds"));
        // A database from before the key stays usable.
        let again = System::open(&plain, Some(&key), Sharing::Exclusive).unwrap();
        assert!(again.knows_password("grace-hopper", "nanoseconds"));
    }

    #[test]
    fn user_names_are_plain_words() {
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
