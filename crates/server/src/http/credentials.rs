//! The credentials of a request. Those of streamed answers are checked again: they continue only as long as the client
//! would be admitted.

use std::sync::Arc;

use axum::http::{HeaderMap, header};

use super::{call::Call, cookie};
use crate::{
    Result, ServerError,
    access::{Credential, DatabaseAccess, Role},
    core::Core,
};

/// The token of a request, and the database of its answer.
#[derive(Clone)]
pub(super) struct RequestCredentials {
    credential: Credential,
    database: Arc<str>,
}

impl RequestCredentials {
    /// The credentials of an admitted request.
    pub(super) fn of(call: &Call, access: &DatabaseAccess) -> Result<Self> {
        let token = match bearer(&call.headers)? {
            Some(token) => Some(token),
            None => cookie::token(&call.headers),
        };
        let credential = match token {
            Some(token) if !call.core.config.without_authentication => {
                Credential::Token(token.to_owned())
            }
            _ => Credential::Anybody,
        };
        Ok(Self {
            credential,
            database: access.name().clone(),
        })
    }

    /// Fails if the token was revoked or has expired, or the right was revoked.
    pub(super) fn check(&self, core: &Core) -> Result<()> {
        let principal = core.principal(&self.credential)?;
        if principal.rights.on(&self.database) >= Some(Role::Reader) {
            return Ok(());
        }
        Err(ServerError::Denied(format!(
            "`{}` no longer has the role reader on the database `{}`",
            principal.name, self.database
        )))
    }
}

/// The bearer token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(credentials) = all.next() else {
        return Ok(None);
    };
    let wrong = || ServerError::Unauthenticated("send one `Authorization: Bearer TOKEN`".into());
    if all.next().is_some() {
        return Err(wrong());
    }
    let text = credentials.to_str().map_err(|_| wrong())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(wrong());
    }
    Ok(Some(token.trim()))
}
