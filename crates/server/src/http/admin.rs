//! Logins, users, tokens, databases, running queries.

use std::{sync::Arc, time::Duration};

use axum::http::{StatusCode, header};
use isomer_db::{
    Value,
    internals::{LayerResult as _, TransactionInternals as _, data::GraphRead},
    params,
};

use super::{
    call::{Call, StopOnDrop},
    cookie,
    reply::Reply,
};
use crate::{
    Result, ServerError,
    access::{
        DatabaseAccess, NewToken, Rights, Role, ServerAccess, TokenInfo, UserInfo, check_name,
        is_user_name,
    },
};

fn token_value(info: &TokenInfo) -> Value {
    let mut map = params! {
        "id" => &*info.id,
        "user" => &*info.user,
        "name" => info.name.as_str(),
        "login" => info.login,
        "created_ms" => info.created_ms as i64,
    };
    if let Some(scope) = &info.scope {
        map.insert("scope", scope.to_map().into());
    }
    if let Some(end) = info.expires_ms {
        map.insert("expires_ms", i64::try_from(end).unwrap_or(i64::MAX).into());
    }
    map.into()
}

fn new_token(status: StatusCode, new: &NewToken) -> Result<Reply> {
    let body = params! { "token" => new.token.as_str(), "about" => token_value(&new.info) };
    Reply::value_with(status, &body.into())
}

/// Answer to a login: the token itself, or a cookie that scripts cannot read, with the CSRF token.
fn logged_in(call: &Call, status: StatusCode, new: &NewToken, in_cookie: bool) -> Result<Reply> {
    call.audit(|details| {
        details.user = Some(new.info.user.to_string());
        details.token = Some(new.info.id.to_string());
    });
    if !in_cookie {
        return new_token(status, new);
    }
    let body = params! { "csrf" => cookie::csrf(&new.token), "about" => token_value(&new.info) };
    // If a page was loaded over TLS, its `Origin` says so as well.
    let page = call.header(header::ORIGIN)?.unwrap_or_default();
    let secure = call.over_tls || page.starts_with("https://");
    Ok(Reply::value_with(status, &body.into())?.with(
        header::SET_COOKIE,
        cookie::set_header(&call.headers, &new.token, secure),
    ))
}

/// Records the user name for the audit log if it is valid; users sometimes type their password there.
fn audit_user(call: &Call, user: &str) {
    let asked = Some(user).filter(|user| is_user_name(user));
    call.audit(|details| details.user = asked.map(str::to_owned));
}

fn user_value(user: &UserInfo) -> Value {
    params! { "user" => &*user.name, "roles" => user.roles.to_map(), "created_ms" => user.created_ms as i64 }.into()
}

/// `POST /v1/setup`
pub async fn setup(mut call: Call) -> Result<Reply> {
    let mut fields = call
        .fields(&["token", "user", "password", "cookie"])
        .await?;
    let (token, user, password) = (
        fields.needed_text("token")?,
        fields.needed_text("user")?,
        fields.needed_text("password")?,
    );
    let in_cookie = fields.switch("cookie")?;
    audit_user(&call, &user);
    let turn = call.core.login_turn(call.from).await?;
    let lasts = millis(call.core.config.limits.login_time);
    let outcome = call
        .core
        .hashing(move |core| {
            core.system()?.setup(&token, &user, &password)?;
            core.system()?.log_in(&user, &password, lasts)
        })
        .await;
    if matches!(outcome, Err(ServerError::Unauthenticated(_))) {
        turn.failed();
    }
    logged_in(&call, StatusCode::CREATED, &outcome?, in_cookie)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `POST /v1/login`
pub async fn login(mut call: Call) -> Result<Reply> {
    let mut fields = call.fields(&["user", "password", "cookie"]).await?;
    let (user, password) = (fields.needed_text("user")?, fields.needed_text("password")?);
    let in_cookie = fields.switch("cookie")?;
    audit_user(&call, &user);
    // Limited by address, and by name within one network: other clients must not be able to lock a name.
    let turn = call.core.login_turn(call.from).await?;
    let lasts = millis(call.core.config.limits.login_time);
    let outcome = call
        .core
        .hashing(move |core| core.system()?.log_in(&user, &password, lasts))
        .await;
    if matches!(outcome, Err(ServerError::Unauthenticated(_))) {
        turn.failed();
        call.core
            .metrics
            .logins_failed
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    logged_in(&call, StatusCode::OK, &outcome?, in_cookie)
}

/// `POST /v1/logout`
pub async fn logout(call: Call, access: ServerAccess) -> Result<Reply> {
    let Some(token) = access.principal().token.clone() else {
        return Ok(Reply::done());
    };
    let ended = cookie::delete_header(&call.headers);
    call.core
        .clone()
        .blocking(move || {
            call.core.system()?.remove_token(&token, None)?;
            Ok(match call.csrf {
                Some(_) => Reply::done().with(header::SET_COOKIE, ended),
                None => Reply::done(),
            })
        })
        .await
}

/// `GET /v1/me`
pub async fn me(call: Call, access: ServerAccess) -> Result<Reply> {
    let databases = database_values(&access);
    let mut body = params! {
        "user" => &*access.principal().name,
        "admin" => access.is_admin(),
        "databases" => databases,
        "version" => env!("CARGO_PKG_VERSION"),
    };
    if let Some(csrf) = call.csrf {
        body.insert("csrf", csrf.into());
    }
    Reply::object(body)
}

/// `GET /v1/databases`
pub async fn databases(_call: Call, access: ServerAccess) -> Result<Reply> {
    Reply::object(params! { "databases" => database_values(&access) })
}

/// The databases that the principal has a right on. Administrators also get the reason of those that do not respond.
fn database_values(access: &ServerAccess) -> Vec<Value> {
    let one = |(name, role): (Arc<str>, Role)| {
        let trouble = access.open_error(&name);
        let mut body = params! {
            "database" => Value::String(name), "role" => role.name(), "open" => trouble.is_none()
        };
        if let Some(why) = trouble.filter(|_| role == Role::Admin) {
            body.insert("error", why.into());
        }
        body.into()
    };
    access.databases().into_iter().map(one).collect()
}

/// `POST /v1/databases/{db}/open`
pub async fn open_database(call: Call, access: ServerAccess) -> Result<Reply> {
    let name = call.path_param("db").to_owned();
    call.core
        .blocking(move || {
            let opened = access.open_database(&name)?;
            Reply::object(params! { "database" => name, "opened" => opened })
        })
        .await
}

/// `POST /v1/databases`
pub async fn create_database(mut call: Call, access: ServerAccess) -> Result<Reply> {
    let mut fields = call.fields(&["database", "restore"]).await?;
    let name = fields.needed_text("database")?;
    check_name(&name)?;
    call.audit(|details| details.target = Some(name.clone()));
    if let Some(said) = fields.map("restore")? {
        let source = super::backups::Source::of(&call.core, said)?;
        return source.restore(call.core, access, name).await;
    }
    let location = format!("/v1/databases/{name}");
    call.core
        .blocking(move || {
            access.create_database(&name)?;
            let made = params! { "database" => name };
            Ok(Reply::value_with(StatusCode::CREATED, &made.into())?
                .with(header::LOCATION, location))
        })
        .await
}

/// `DELETE /v1/databases/{db}`
pub async fn drop_database(call: Call, access: ServerAccess) -> Result<Reply> {
    let name = call.path_param("db").to_owned();
    call.core
        .blocking(move || access.drop_database(&name).map(|()| Reply::done()))
        .await
}

/// `GET /v1/databases/{db}`
pub async fn database(call: Call, access: DatabaseAccess) -> Result<Reply> {
    call.core
        .blocking(move || {
            let store = access.store()?;
            let statistics = store.engine().statistics().lift()?;
            let views = access.views();
            access.read(|tx| {
                let data = tx.data_ref();
                Reply::object(params! {
                    "database" => &**access.name(),
                    "role" => access.role().name(),
                    "engine" => store.engine().capabilities().name,
                    "version" => tx.version() as i64,
                    "nodes" => data.node_count(None)? as i64,
                    "relationships" => data.relationship_count(None)? as i64,
                    "keys" => statistics.key_count as i64,
                    "stored_bytes" => statistics.stored_bytes as i64,
                    "views" => views.iter().map(|view| Value::from(view.as_str())).collect::<Vec<_>>(),
                })
            })
        })
        .await
}

/// `GET …/queries`
pub async fn queries(call: Call, mut access: DatabaseAccess) -> Result<Reply> {
    let options = access.query_options()?;
    let stop = StopOnDrop::new(&options.cancel);
    let operations = call.core.operations.of(access.name());
    let reply = call
        .core
        .blocking(move || {
            let result = access.query("SHOW QUERIES", &isomer_db::Map::new(), &options)?;
            let columns = result.columns().to_vec();
            let rows: Vec<Value> = result
                .iter()
                .map(|row| {
                    let pairs = columns.iter().cloned().zip(row.values().iter().cloned());
                    Value::from(pairs.collect::<isomer_db::Map>())
                })
                .collect();
            Reply::object(params! { "queries" => rows, "operations" => operations })
        })
        .await;
    drop(stop);
    reply
}

/// `DELETE …/queries/{id}`
pub async fn kill_query(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let id = call.path_number("id")?;
    if access.cancel_query(id)? {
        return Ok(Reply::done());
    }
    Err(ServerError::NotFound(format!("no running query {id}")))
}

/// `GET /v1/users`
pub async fn users(call: Call, _access: ServerAccess) -> Result<Reply> {
    let users: Vec<Value> = call.core.system()?.users().iter().map(user_value).collect();
    Reply::object(params! { "users" => users })
}

/// `POST /v1/users`
pub async fn create_user(mut call: Call, _access: ServerAccess) -> Result<Reply> {
    let mut fields = call.fields(&["user", "password", "roles"]).await?;
    let (name, password) = (fields.needed_text("user")?, fields.needed_text("password")?);
    let roles = Rights::from_map(&fields.map("roles")?.unwrap_or_default())?;
    let target = Some(&name).filter(|name| is_user_name(name)).cloned();
    call.audit(|details| details.target = target);
    let user = call
        .core
        .hashing(move |core| core.system()?.add_user(&name, &password, &roles))
        .await?;
    let location = format!("/v1/users/{}", user.name);
    Ok(
        Reply::value_with(StatusCode::CREATED, &user_value(&user))?
            .with(header::LOCATION, location),
    )
}

/// Only the user and administrators may use a user's resources.
fn own_or_admin(call: &Call, access: &ServerAccess) -> Result<String> {
    let name = call.path_param("user").to_owned();
    if *access.principal().name != *name {
        access.require_admin()?;
    }
    Ok(name)
}

/// `GET /v1/users/{user}`
pub async fn user(call: Call, access: ServerAccess) -> Result<Reply> {
    let name = own_or_admin(&call, &access)?;
    Reply::value(&user_value(&call.core.system()?.user(&name)?))
}

/// `DELETE /v1/users/{user}`
pub async fn remove_user(call: Call, _access: ServerAccess) -> Result<Reply> {
    let name = call.path_param("user").to_owned();
    let core = call.core.clone();
    core.clone()
        .blocking(move || core.system()?.remove_user(&name).map(|()| Reply::done()))
        .await
}

/// `PUT /v1/users/{user}/roles`
pub async fn set_roles(mut call: Call, _access: ServerAccess) -> Result<Reply> {
    let roles = Rights::from_map(&call.object().await?)?;
    let name = call.path_param("user").to_owned();
    let core = call.core.clone();
    core.clone()
        .blocking(move || Reply::value(&user_value(&core.system()?.set_roles(&name, &roles)?)))
        .await
}

/// `PUT /v1/users/{user}/password`
pub async fn set_password(mut call: Call, access: ServerAccess) -> Result<Reply> {
    let name = own_or_admin(&call, &access)?;
    let mut fields = call.fields(&["password", "current", "end_tokens"]).await?;
    let (password, current) = (fields.needed_text("password")?, fields.text("current")?);
    let end_tokens = fields.switch("end_tokens")?;
    let turn = call.core.login_turn(call.from).await?;
    let own = *access.principal().name == *name;
    let outcome = call
        .core
        .hashing(move |core| {
            // Requires the current password, so that a stranger at an open console cannot lock its owner out.
            if own
                && !current.is_some_and(|current| {
                    core.system
                        .as_ref()
                        .is_some_and(|system| system.knows_password(&name, &current))
                })
            {
                return Err(ServerError::Denied(
                    "`current` is not the current password".into(),
                ));
            }
            core.system()?.set_password(&name, &password, end_tokens)
        })
        .await;
    if matches!(outcome, Err(ServerError::Denied(_))) {
        turn.failed();
    }
    outcome.map(|()| Reply::done())
}

/// `GET /v1/tokens`
pub async fn tokens(call: Call, access: ServerAccess) -> Result<Reply> {
    let own = access.principal().name.clone();
    let all = call.switch("all")?;
    if all {
        access.require_admin()?;
    }
    let tokens = call.core.system()?.tokens((!all).then_some(&*own));
    Reply::object(params! { "tokens" => tokens.iter().map(token_value).collect::<Vec<_>>() })
}

/// `POST /v1/tokens`
pub async fn create_token(mut call: Call, access: ServerAccess) -> Result<Reply> {
    let mut fields = call
        .fields(&["name", "user", "scope", "expires_in_ms"])
        .await?;
    let principal = access.principal().clone();
    let user = fields
        .text("user")?
        .unwrap_or_else(|| principal.name.to_string());
    if *user != *principal.name {
        access.require_admin()?;
    } else if !principal.login && !access.is_admin() {
        // A token that expires must not be able to create a successor.
        return Err(ServerError::Denied(
            "only a login with a password may create tokens".into(),
        ));
    }
    let scope = fields
        .map("scope")?
        .map(|map| Rights::from_map(&map))
        .transpose()?;
    if let Some(scope) = &scope
        && *user == *principal.name
        && !principal.rights.contain(scope)
    {
        return Err(ServerError::Denied(
            "the scope exceeds your own rights".into(),
        ));
    }
    // A scoped principal cannot grant more than its scope.
    let scope = match (scope, principal.rights.scope()) {
        (Some(scope), Some(own)) if !scope.within(own) => {
            return Err(ServerError::Denied(
                "the scope exceeds the one of your token".into(),
            ));
        }
        (None, Some(own)) => Some(own.clone()),
        (scope, _) => scope,
    };
    let expires = fields
        .number("expires_in_ms")?
        .map(|ms| crate::clock::now_ms().saturating_add(ms));
    let name = fields.text("name")?.unwrap_or_default();
    let core = call.core.clone();
    let new = core
        .clone()
        .blocking(move || {
            core.system()?
                .add_token(&user, &name, scope, expires, false)
        })
        .await?;
    call.audit(|details| details.target = Some(new.info.id.to_string()));
    new_token(StatusCode::CREATED, &new)
}

/// `DELETE /v1/tokens/{id}`
pub async fn remove_token(call: Call, access: ServerAccess) -> Result<Reply> {
    let id = call.path_param("id").to_owned();
    let own = (!access.is_admin()).then(|| access.principal().name.clone());
    let core = call.core.clone();
    core.clone()
        .blocking(move || {
            if core.system()?.remove_token(&id, own.as_deref())? {
                return Ok(Reply::done());
            }
            Err(ServerError::NotFound("no such token".into()))
        })
        .await
}
