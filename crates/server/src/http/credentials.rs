//! Re-checks the credentials of streamed answers: they continue only as long as the client would be admitted.

use std::sync::Arc;

use super::{bearer, call::Call, cookie};
use crate::{
    Result, ServerError,
    access::{Access, Credential, Role},
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
    pub(super) fn of(call: &Call, access: &Access) -> Result<Self> {
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
