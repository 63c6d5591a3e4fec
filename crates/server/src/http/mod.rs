//! HTTP/JSON: the table of routes and how a request passes through it.
//!
//! A request is admitted or refused in one place ([`answer`]): host, token, role on the database in the path,
//! parameters; then its handler runs with the access that was granted. Bodies are read only after that.

mod admin;
mod alive;
mod backups;
mod base64;
mod call;
mod changes;
mod columns;
mod console;
mod cookie;
mod credentials;
mod data;
mod ending;
mod fields;
mod files;
mod graph;
mod heads;
mod lines;
mod once;
pub mod openapi;
mod outcome;
mod page;
mod proxy;
mod query;
mod query_api;
mod replicate;
pub(crate) mod reply;
mod results;
mod riak;
pub mod route;
pub mod routes;
mod rows;
mod transaction_api;
mod transfer;
mod typed_json;
mod watching;

use std::{net::IpAddr, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Extension, RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{HeaderMap, Method, Response, StatusCode, Uri, header},
    response::IntoResponse,
    routing::{MethodFilter, MethodRouter, on},
};
use isomer_db::StatementClass;
use parking_lot::Mutex;

use self::{
    call::Call,
    credentials::bearer,
    proxy::Origin,
    reply::{Content, Reply},
    route::{Handler, Route, RouteNeeds},
    routes::ROUTES,
};
use crate::{
    Result, ServerError,
    access::Principal,
    audit::{AuditDetails, Event},
    connections::Slot,
    core::Core,
    hosts::{host_name, is_own_host},
    traces::Span,
};

/// Address that a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// A service for all routes.
pub fn router(core: &Arc<Core>) -> Router {
    let mut router = Router::new();
    for (number, route) in ROUTES.iter().enumerate() {
        let filter = match route.method {
            "GET" => MethodFilter::GET,
            "PUT" => MethodFilter::PUT,
            "POST" => MethodFilter::POST,
            "PATCH" => MethodFilter::PATCH,
            _ => MethodFilter::DELETE,
        };
        let core = core.clone();
        let handler: MethodRouter = on(
            filter,
            move |from: Extension<PeerAddress>, path_params: PathParams, request: Request| {
                answer(core.clone(), number, route, from.0, path_params, request)
            },
        );
        router = router.route(route.path, handler);
    }
    let (unmatched, unknown) = (core.clone(), core.clone());
    router
        .fallback(move |headers: HeaderMap| async move {
            unmatched.metrics.unmatched(404);
            let error = ServerError::NotFound("no such path: see /v1/docs".into());
            Reply::error(&error).into_response(&headers)
        })
        .method_not_allowed_fallback(move |headers: HeaderMap| async move {
            unknown.metrics.unmatched(405);
            let mut reply = Reply::error(&ServerError::Invalid(
                "method not allowed on this path: see /v1/docs".into(),
            ));
            reply.status = StatusCode::METHOD_NOT_ALLOWED;
            reply.into_response(&headers)
        })
}

/// Scraped frequently: not traced.
const METRICS_PATH: &str = "/metrics";

/// Answered over every connection.
const HEALTH_PATH: &str = "/health";

/// Path parameters, or why they are invalid.
type PathParams = std::result::Result<RawPathParams, RawPathParamsRejection>;

/// User, token and database for the audit log; and the request's span.
#[derive(Default)]
struct Identity {
    principal: Option<Arc<Principal>>,
    database: Option<String>,
    span: Option<Span>,
}

async fn answer(
    core: Arc<Core>,
    number: usize,
    route: &'static Route,
    from: PeerAddress,
    path_params: PathParams,
    request: Request,
) -> Response<Body> {
    let began = Instant::now();
    let (mut parts, body) = request.into_parts();
    let slot = parts.extensions.remove::<Arc<Slot>>();
    let is_head = parts.method == Method::HEAD;
    let headers = Arc::new(parts.headers);
    let from = Origin::of(from.0, &headers, &core.config.trusted_proxies);
    let mut identity = Identity::default();
    let details = Arc::<Mutex<AuditDetails>>::default();
    let call = Call {
        core: core.clone(),
        span: Span::none(),
        route,
        path_params: None,
        query: Vec::new(),
        target: parts
            .uri
            .path_and_query()
            .map(|target| target.as_str().to_owned())
            .unwrap_or_default(),
        headers: headers.clone(),
        body: Mutex::new(body),
        from: from.address,
        over_tls: from.over_tls || core.config.tls.is_some(),
        csrf: None,
        sent: None,
        audit_details: details.clone(),
    };
    let outcome = match &slot {
        Some(slot) if slot.only_health() && route.path != HEALTH_PATH => Err(full()),
        slot => {
            admit(
                call,
                &parts.uri,
                path_params,
                &mut identity,
                slot.as_deref(),
            )
            .await
        }
    };
    // What was asked for with another method may have been done.
    let outcome = outcome.and_then(|reply| reply.reserve(&core, route.method != "GET"));
    let (reply, error) = match outcome {
        Ok(reply) => (reply, None),
        Err(error) => {
            let mut reply = Reply::error(&error);
            if matches!(error, ServerError::Unauthenticated(_)) && cookie::token(&headers).is_some()
            {
                // An expired login: have the browser delete the cookie.
                reply = reply.with(header::SET_COOKIE, cookie::delete_header(&headers));
            }
            (reply, Some(error))
        }
    };
    let took = began.elapsed();
    let status = reply.status().as_u16();
    core.metrics.answered(number, status, took);
    if let Some(span) = &identity.span {
        span.answered(status);
        if let Some(error) = &error {
            span.failed(error.kind());
        }
    }
    if let Some(error) = error.as_ref().filter(|_| status >= 500) {
        tracing::error!(route = route.path, kind = error.kind(), %error, "a request failed");
    }
    tracing::debug!(
        method = route.method,
        route = route.path,
        status,
        took_ms = took.as_secs_f64() * 1e3,
        "answered"
    );
    let details = std::mem::take(&mut *details.lock());
    let principal = identity.principal.as_ref();
    let token = principal.and_then(|principal| principal.token.as_deref());
    core.audit.record(&Event {
        user: principal
            .map(|principal| &*principal.name)
            .or(details.user.as_deref()),
        token: token.or(details.token.as_deref()),
        from: from.address,
        action: route.action(),
        database: identity.database.as_deref(),
        target: details.target.as_deref(),
        class: details
            .class
            .map_or_else(|| route.needs.class(), StatementClass::name),
        status,
        error: error.as_ref().map(ServerError::kind),
        took_ms: took.as_secs_f64() * 1e3,
    });
    let is_stream = matches!(reply.content, Content::Stream(..));
    let outcome = reply.outcome.clone();
    let response = reply.into_response(&headers);
    if !is_stream || is_head {
        return response;
    }
    let request = ending::Request {
        route,
        began,
        status,
        span: identity.span,
    };
    request.follow(response, outcome)
}

/// The answer when the limit of connections is reached.
fn full() -> ServerError {
    ServerError::Unavailable(
        "the limit of open connections is reached, and all of them are in use: retry later (limits.connections)".into(),
    )
}

/// Checks a request and runs its handler.
async fn admit(
    mut call: Call,
    uri: &Uri,
    path_params: PathParams,
    identity: &mut Identity,
    slot: Option<&Slot>,
) -> Result<Reply> {
    check_host(&call, uri)?;
    check_coding(&call)?;
    let needs = call.route.needs;
    let session = match needs {
        RouteNeeds::Public => None,
        RouteNeeds::Server(_) | RouteNeeds::Database(_) => {
            let bearer = bearer(&call.headers)?;
            let token = match bearer {
                Some(token) => Some(token),
                None => cookie::token(&call.headers),
            };
            let session = call.core.session(token, call.from)?;
            identity.principal = Some(session.principal().clone());
            call.sent = Some(session.body().clone());
            if let (None, Some(token)) = (bearer, token) {
                call.csrf = Some(cookie::check(&call, token)?);
            }
            if let Some(slot) = slot {
                slot.set_known(true);
            }
            Some(session)
        }
    };
    if session.is_some() && call.route.path != METRICS_PATH {
        // Spans begin only after admission: unauthenticated clients cannot cause traces.
        let (route, traces) = (call.route, &call.core.traces);
        call.span = traces.request(route.method, route.path, &call.headers);
        identity.span = Some(call.span.clone());
    }
    call.path_params = Some(checked(path_params)?);
    if let Some(name) = call.path_text("db") {
        identity.database = Some(name);
    }
    if matches!(call.route.tag, "access" | "databases") {
        let target = ["user", "id", "backup"].iter();
        let target = target.filter_map(|place| call.path_text(place)).next();
        call.audit(|details| details.target = target);
    }
    call.query = call::parse_query(uri.query().unwrap_or_default())?;
    let known: Vec<_> = call.route.params().collect();
    for (name, _) in &call.query {
        if !known.iter().any(|(param, _)| param == name) {
            return Err(ServerError::Invalid(format!(
                "unknown parameter `{name}`: see /v1/docs"
            )));
        }
    }
    for (name, needed) in known {
        let given = call.query.iter().filter(|(param, _)| param == name).count();
        if given > 1 || (needed && call.param(name).is_none_or(str::is_empty)) {
            return Err(ServerError::Invalid(format!(
                "the parameter `{name}` is required once"
            )));
        }
    }
    match (call.route.handler, session, needs) {
        (Handler::Public(handler), None, _) => handler(call).await,
        (Handler::Server(handler), Some(session), RouteNeeds::Server(role)) => {
            let access = session.server(role)?;
            check_key(&call, false)?;
            handler(call, access).await
        }
        (Handler::Database(handler), Some(session), RouteNeeds::Database(role)) => {
            let name = call.path_param("db").to_owned();
            let transaction = match call.path_param("transaction") {
                "" => call.header("isomer-transaction")?,
                id => Some(id),
            };
            // Rights are checked before anything is revealed about the transaction.
            let open = transaction.map(|id| call.core.open.get(id));
            let allowed = session.principal().rights.on(&name) >= Some(role);
            let open = if allowed { open.transpose()? } else { None };
            let access = session.database(&name, role, open)?;
            check_key(&call, access.open().is_some())?;
            handler(call, access).await
        }
        _ => Err(ServerError::Internal(
            "the route's handler does not match its `needs`".into(),
        )),
    }
}

/// Refuses an `Idempotency-Key` on a route whose answers are not kept: retries would be executed again.
fn check_key(call: &Call, in_transaction: bool) -> Result<()> {
    let route = call.route;
    if route.method == "GET" || call.header(once::KEY)?.is_none() {
        return Ok(());
    }
    let why = match (route.keeps_answers(), in_transaction) {
        (true, false) => return Ok(()),
        (true, true) => "in a transaction between requests",
        (false, _) => "here",
    };
    Err(ServerError::Invalid(format!(
        "answers are not kept {why}: omit the Idempotency-Key (queries, and writes of keys, documents, convergent fields and the graph have one)"
    )))
}

/// Decoded path parameters.
fn checked(path_params: PathParams) -> Result<RawPathParams> {
    path_params.map_err(|error| {
        ServerError::Invalid(format!(
            "{error}: write UTF-8 with percent signs, or a bucket's key with `key_encoding=base64`"
        ))
    })
}

/// Refuses requests of browsers under another host name (DNS rebinding) or from pages of other sites.
fn check_host(call: &Call, uri: &Uri) -> Result<()> {
    let config = &call.core.config;
    let host = requested_host(call, uri)?;
    let name = host_name(host).to_ascii_lowercase();
    if !is_own_host(config, host) && (config.listen.ip().is_loopback() || !config.hosts.is_empty())
    {
        return Err(ServerError::Misdirected(format!(
            "unknown host name `{name}`: add it to `hosts`, or use localhost"
        )));
    }
    let Some(origin) = call.header(header::ORIGIN)? else {
        return Ok(());
    };
    let site = origin.split_once("://").map(|(_, site)| site);
    if site == Some(host) {
        return Ok(());
    }
    Err(ServerError::Denied(format!(
        "cross-origin request from `{origin}` refused"
    )))
}

/// Refuses other transfer codings than chunked: the coded bytes would be taken for the body.
fn check_coding(call: &Call) -> Result<()> {
    match heads::list(&call.headers, header::TRANSFER_ENCODING.as_str())? {
        Some(coding) if !coding.trim().eq_ignore_ascii_case("chunked") => {
            Err(ServerError::Invalid(format!(
                "unsupported Transfer-Encoding `{coding}`: use chunked, and Content-Encoding for compression"
            )))
        }
        _ => Ok(()),
    }
}

/// The host of a request. With several, a proxy and the server could each use another one (RFC 9112, 3.2).
fn requested_host<'a>(call: &'a Call, uri: &Uri) -> Result<&'a str> {
    let host = call.header(header::HOST)?.unwrap_or_default();
    if uri.authority().is_none_or(|target| target == host) {
        return Ok(host);
    }
    Err(ServerError::Invalid(
        "the request names several hosts: its target and the field `Host` must have the same"
            .into(),
    ))
}

impl Route {
    /// Method and path, for the audit log.
    fn action(&self) -> &'static str {
        // One text per route, created once.
        static ACTIONS: std::sync::OnceLock<Vec<(usize, String)>> = std::sync::OnceLock::new();
        let actions = ACTIONS.get_or_init(|| {
            let text = |route: &Route| format!("{} {}", route.method, route.path);
            ROUTES
                .iter()
                .map(|route| (std::ptr::from_ref(route) as usize, text(route)))
                .collect()
        });
        let own = std::ptr::from_ref(self) as usize;
        actions
            .iter()
            .find(|(address, _)| *address == own)
            .map_or("", |(_, text)| text)
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response<Body> {
        self.into_response(&HeaderMap::new())
    }
}
