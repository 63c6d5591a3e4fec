//! What a client has shown stays good for an answer that is made as it is sent only as long as it would let the client in anew.

use std::sync::Arc;

use super::{bearer, call::Call, cookie};
use crate::{
    Result, ServerError,
    access::{Access, Credential, Role},
    core::Core,
};

/// The token that an answer was asked for with, and the database that it is of.
#[derive(Clone)]
pub(super) struct Shown {
    credential: Credential,
    database: Arc<str>,
}

impl Shown {
    /// The one of a request that was let in.
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

    /// Refuses what was revoked or has ended since, and whoever may not read any more.
    pub(super) fn check(&self, core: &Core) -> Result<()> {
        let principal = core.principal(&self.credential)?;
        if principal.rights.on(&self.database) >= Some(Role::Reader) {
            return Ok(());
        }
        Err(ServerError::Denied(format!(
            "`{}` does not have the role reader on the database `{}` any more",
            principal.name, self.database
        )))
    }
}
