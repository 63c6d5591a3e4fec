//! HTTP/JSON: the table of routes and how a request passes through it.
//!
//! A request is let in or refused in one place ([`answer`]): host, token, role on the database that the path names,
//! parameters; then its handler runs with the right that it was given. Bodies are read only after that.

mod admin;
mod alive;
mod backups;
mod base64;
mod call;
mod changes;
mod columns;
mod console;
mod cookie;
mod data;
mod ending;
mod fields;
mod files;
mod graph;
mod heads;
mod lines;
mod once;
pub mod openapi;
mod page;
mod proxy;
mod query;
mod replicate;
pub(crate) mod reply;
mod results;
mod riak;
pub mod route;
mod shown;
mod transfer;
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
    proxy::Origin,
    reply::{Content, Reply},
    route::{Handler, Needs, ROUTES, Route},
};
use crate::{
    Result, ServerError,
    access::Principal,
    audit::{Event, Told},
    core::Core,
    traces::Span,
};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct From(pub IpAddr);

/// The routes as a service.
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
            move |from: Extension<From>, places: Places, request: Request| {
                answer(core.clone(), number, route, from.0, places, request)
            },
        );
        router = router.route(route.path, handler);
    }
    let (lost, unknown) = (core.clone(), core.clone());
    router
        .fallback(move |headers: HeaderMap| async move {
            lost.metrics.lost(404);
            let error =
                ServerError::NotFound("there is nothing under this path: see /v1/docs".into());
            Reply::error(&error).into_response(&headers)
        })
        .method_not_allowed_fallback(move |headers: HeaderMap| async move {
            unknown.metrics.lost(405);
            let mut reply = Reply::error(&ServerError::Invalid(
                "this path does not know this method: see /v1/docs".into(),
            ));
            reply.status = StatusCode::METHOD_NOT_ALLOWED;
            reply.into_response(&headers)
        })
}

/// What collectors of figures ask for all day: it is not traced.
const FIGURES: &str = "/metrics";

/// What stands in the places of a path, or why that is no text.
type Places = std::result::Result<RawPathParams, RawPathParamsRejection>;

/// Who asked, and in which database, for the audit log; and the span of it.
#[derive(Default)]
struct Who {
    principal: Option<Arc<Principal>>,
    database: Option<String>,
    span: Option<Span>,
}

async fn answer(
    core: Arc<Core>,
    number: usize,
    route: &'static Route,
    from: From,
    places: Places,
    request: Request,
) -> Response<Body> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let is_head = parts.method == Method::HEAD;
    let headers = Arc::new(parts.headers);
    let from = Origin::of(from.0, &headers, &core.config.trusted_proxies);
    let mut who = Who::default();
    let told = Arc::<Mutex<Told>>::default();
    let call = Call {
        core: core.clone(),
        span: Span::none(),
        route,
        places: Vec::new(),
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
        told: told.clone(),
    };
    let outcome = let_in(call, &parts.uri, places, &mut who).await;
    let (reply, error) = match outcome {
        Ok(reply) => (reply, None),
        Err(error) => {
            let mut reply = Reply::error(&error);
            if matches!(error, ServerError::Unauthenticated(_)) && cookie::token(&headers).is_some()
            {
                // A login that has ended: the browser need not show it again.
                reply = reply.with(header::SET_COOKIE, cookie::ended(&headers));
            }
            (reply, Some(error))
        }
    };
    let took = began.elapsed();
    let status = reply.status().as_u16();
    core.metrics.answered(number, status, took);
    if let Some(span) = &who.span {
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
    let told = std::mem::take(&mut *told.lock());
    let principal = who.principal.as_ref();
    let token = principal.and_then(|principal| principal.token.as_deref());
    core.audit.record(&Event {
        user: principal
            .map(|principal| &*principal.name)
            .or(told.user.as_deref()),
        token: token.or(told.token.as_deref()),
        from: from.address,
        action: route.action(),
        database: who.database.as_deref(),
        target: told.target.as_deref(),
        class: told
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
        span: who.span,
    };
    request.follow(response, outcome)
}

/// Checks a request and runs its handler.
async fn let_in(mut call: Call, uri: &Uri, places: Places, who: &mut Who) -> Result<Reply> {
    check_host(&call, uri)?;
    check_coding(&call)?;
    let needs = call.route.needs;
    let session = match needs {
        Needs::Nobody => None,
        Needs::Server(_) | Needs::Database(_) => {
            let bearer = bearer(&call.headers)?;
            let token = match bearer {
                Some(token) => Some(token),
                None => cookie::token(&call.headers),
            };
            let session = call.core.session(token, call.from)?;
            who.principal = Some(session.principal().clone());
            call.sent = Some(session.body().clone());
            if let (None, Some(token)) = (bearer, token) {
                call.csrf = Some(cookie::check(&call, token)?);
            }
            Some(session)
        }
    };
    if session.is_some() && call.route.path != FIGURES {
        // Nobody that was not let in says what is traced.
        let (route, traces) = (call.route, &call.core.traces);
        call.span = traces.request(route.method, route.path, &call.headers);
        who.span = Some(call.span.clone());
    }
    call.places = texts_of(places)?;
    if let Some(name) = call.named("db") {
        who.database = Some(name);
    }
    if matches!(call.route.tag, "access" | "databases") {
        let target = ["user", "id", "backup"].iter();
        let target = target.filter_map(|place| call.named(place)).next();
        call.tell(|told| told.target = target);
    }
    call.query = call::parse_query(uri.query().unwrap_or_default())?;
    let known: Vec<_> = call.route.params().collect();
    for (name, _) in &call.query {
        if !known.iter().any(|(param, _)| param == name) {
            return Err(ServerError::Invalid(format!(
                "there is no parameter `{name}` here: see /v1/docs"
            )));
        }
    }
    for (name, needed) in known {
        let given = call.query.iter().filter(|(param, _)| param == name).count();
        if given > 1 || (needed && call.param(name).is_none_or(str::is_empty)) {
            return Err(ServerError::Invalid(format!(
                "the parameter `{name}` must be given once"
            )));
        }
    }
    match (call.route.handler, session, needs) {
        (Handler::Nobody(handler), None, _) => handler(call).await,
        (Handler::Server(handler), Some(session), Needs::Server(role)) => {
            let access = session.server(role)?;
            check_key(&call, false)?;
            handler(call, access).await
        }
        (Handler::Database(handler), Some(session), Needs::Database(role)) => {
            let name = call.place("db").to_owned();
            let transaction = match call.place("transaction") {
                "" => call.header("isomer-transaction")?,
                id => Some(id),
            };
            // The right is looked at before anything is said of the transaction.
            let open = transaction.map(|id| call.core.open.get(id));
            let allowed = session.principal().rights.on(&name) >= Some(role);
            let open = if allowed { open.transpose()? } else { None };
            let access = session.database(&name, role, open)?;
            check_key(&call, access.open().is_some())?;
            handler(call, access).await
        }
        _ => Err(ServerError::Internal(
            "the route's handler does not fit what it needs".into(),
        )),
    }
}

/// Refuses the key of a request whose answer is not kept: it would be done as often as it is sent.
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
        "an answer is not kept {why}: leave the Idempotency-Key away (queries, and writes of keys, documents, convergent fields and the graph have one)"
    )))
}

/// The places of a path, decoded.
fn texts_of(places: Places) -> Result<Vec<(String, String)>> {
    let places = places.map_err(|error| {
        ServerError::Invalid(format!(
            "{error}: write UTF-8 with percent signs, or a bucket's key with `key_encoding=base64`"
        ))
    })?;
    let texts = places.iter();
    Ok(texts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// The token that a request shows.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(shown) = all.next() else {
        return Ok(None);
    };
    let wrong = || ServerError::Unauthenticated("send one `Authorization: Bearer TOKEN`".into());
    if all.next().is_some() {
        return Err(wrong());
    }
    let text = shown.to_str().map_err(|_| wrong())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(wrong());
    }
    Ok(Some(token.trim()))
}

/// Refuses a browser that was led here under another name (DNS rebinding), or by another site's page.
fn check_host(call: &Call, uri: &Uri) -> Result<()> {
    let config = &call.core.config;
    let host = asked_host(call, uri)?;
    let name = host_name(host).to_ascii_lowercase();
    let own = matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]")
        || name == address_name(config.listen.ip());
    let known = own || config.hosts.contains(&name);
    if !known && (config.listen.ip().is_loopback() || !config.hosts.is_empty()) {
        return Err(ServerError::Misdirected(format!(
            "the server is not known as `{name}`: add the name to `hosts`, or call it as localhost"
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
        "a page of `{origin}` asks in somebody's name: pages of other sites are not answered"
    )))
}

/// Refuses a body that is coded for the way otherwise than in chunks: it would be taken for what is behind its coding.
fn check_coding(call: &Call) -> Result<()> {
    match heads::list(&call.headers, header::TRANSFER_ENCODING.as_str())? {
        Some(coding) if !coding.trim().eq_ignore_ascii_case("chunked") => {
            Err(ServerError::Invalid(format!(
                "`Transfer-Encoding: {coding}` is not understood: send chunks, and what is compressed with `Content-Encoding`"
            )))
        }
        _ => Ok(()),
    }
}

/// The host that a request names. Several would let a proxy and the server each believe another one (RFC 9112, 3.2).
fn asked_host<'a>(call: &'a Call, uri: &Uri) -> Result<&'a str> {
    let host = call.header(header::HOST)?.unwrap_or_default();
    if uri.authority().is_none_or(|target| target == host) {
        return Ok(host);
    }
    Err(ServerError::Invalid(
        "the request names several hosts: send no other one in its target than in the field `Host`"
            .into(),
    ))
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    if host.starts_with('[') {
        return host.find(']').map_or(host, |end| &host[..=end]);
    }
    host.split(':').next().unwrap_or_default()
}

fn address_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl Route {
    /// Method and path, for the audit log.
    fn action(&self) -> &'static str {
        // One text a route, made once.
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
