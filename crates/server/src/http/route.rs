//! What a route is: method, path, right, parameters, bodies and handler. `routes` has the table of all.

use std::{future::Future, pin::Pin};

use super::{call::Call, reply::Reply};
use crate::{
    Result,
    access::{DatabaseAccess, Role, ServerAccess},
};

/// What a route requires of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteNeeds {
    /// Nothing: it reveals nothing about users and data, or checks by itself.
    Public,
    /// Authentication, or a role on all databases.
    Server(Option<Role>),
    /// A role on the database in the path.
    Database(Role),
}

impl RouteNeeds {
    /// The class of a request, for the audit log.
    pub fn class(self) -> &'static str {
        match self {
            Self::Public | Self::Server(None) => "session",
            Self::Server(Some(role)) | Self::Database(role) => role.class().name(),
        }
    }
}

/// The body of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOf {
    /// No body.
    Nothing,
    /// JSON with a schema in `openapi`.
    Schema(&'static str),
    /// Optional JSON with a schema in `openapi`.
    Optional(&'static str),
}

type Answering = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// A handler. Those for a database or the server get an access as an argument, which they cannot obtain in any other
/// way.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    Public(fn(Call) -> Answering),
    Server(fn(Call, ServerAccess) -> Answering),
    Database(fn(Call, DatabaseAccess) -> Answering),
}

/// A route.
pub struct Route {
    /// `GET`, `PUT`, …
    pub method: &'static str,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// What it requires.
    pub needs: RouteNeeds,
    /// Its section in the description.
    pub tag: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its query parameters, separated by commas; required ones with `!`.
    pub params: &'static str,
    /// Its body.
    pub body: BodyOf,
    /// Its answers on success: status and schema in `openapi`; an empty schema means no content.
    pub answers: &'static [(u16, &'static str)],
    pub(super) handler: Handler,
}

impl Route {
    /// The names of its query parameters, and whether each is required.
    pub fn params(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let names = self.params.split(',').filter(|name| !name.is_empty());
        names.map(|name| match name.strip_suffix('!') {
            Some(name) => (name, true),
            None => (name, false),
        })
    }

    /// Whether a request with an `Idempotency-Key` is executed once: its answer is stored in the transaction that
    /// executes it.
    pub fn keeps_answers(&self) -> bool {
        let writes = self.method != "GET"
            && matches!(
                self.tag,
                "buckets" | "documents" | "graph" | "queries" | "convergent"
            );
        // A bucket is created in its own transaction.
        let makes_bucket = self.method == "PUT" && self.path.ends_with("{bucket}");
        writes && !makes_bucket && !self.path.contains("/tx")
    }

    /// The names of its path parameters.
    pub fn path_params(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}
