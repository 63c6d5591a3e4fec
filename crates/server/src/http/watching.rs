//! Health, readiness, metrics, and the page that shows the description of the interface.

use axum::http::{StatusCode, header};
use isomer_db::{ProcessMemory, params};

use super::{call::Call, reply::Reply};
use crate::{Result, ServerError, access::ServerAccess, metrics};

/// `GET /health`
pub async fn health(call: Call) -> Result<Reply> {
    let (open, failed) = call.core.databases.counts();
    let mut body = params! { "status" => "ok", "databases" => open as i64 };
    if failed > 0 {
        body.insert("failed", (failed as i64).into());
    }
    Reply::object(body)
}

/// `GET /ready`
pub async fn ready(call: Call) -> Result<Reply> {
    if call.core.is_stopping() {
        return Err(ServerError::Unavailable(
            "the server is shutting down".into(),
        ));
    }
    let some = call.switch("some")?;
    let core = call.core.clone();
    let (silent, all) = call
        .core
        .blocking(move || Ok(core.databases.check()))
        .await?;
    if silent == 0 || (some && silent < all) {
        return Reply::object(params! { "status" => "ready" });
    }
    // No names: the caller need not be authenticated.
    Err(ServerError::Unavailable(format!(
        "{silent} of {all} databases do not respond: GET /v1/databases lists them with the reason, for administrators"
    )))
}

/// `GET /metrics`
pub async fn prometheus(call: Call, _access: ServerAccess) -> Result<Reply> {
    let core = call.core.clone();
    call.core
        .blocking(move || {
            let mut text = core.metrics.text();
            metrics::of_connections(&mut text, &core.connections);
            for (name, help, value) in [
                (
                    "isomer_requests_at_work",
                    "Requests in progress",
                    core.in_progress(),
                ),
                (
                    "isomer_open_transactions",
                    "Open transactions",
                    core.open.count(),
                ),
                (
                    "isomer_backups_at_work",
                    "Backups and restores in progress",
                    core.operations.count(),
                ),
                ("isomer_change_feeds", "Open change feeds", core.feeds()),
            ] {
                metrics::sample(&mut text, name, "gauge", help, value as f64);
            }
            let (open, failed) = core.databases.counts();
            for (name, help, value) in [
                ("isomer_databases_open", "Open databases", open),
                (
                    "isomer_databases_failed",
                    "Databases that could not be opened",
                    failed,
                ),
            ] {
                metrics::sample(&mut text, name, "gauge", help, value as f64);
            }
            if let (Some(process), Some(memory)) = (ProcessMemory::now(), core.databases.memory()) {
                metrics::of_memory(&mut text, &process, &memory);
            }
            metrics::of_databases(&mut text, &core.databases.metrics());
            Ok(Reply::whole(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                text,
            ))
        })
        .await
}

const PAGE: &str = include_str!("docs/page.html");
const SCRIPT: &str = include_str!("docs/page.js");
const STYLE: &str = include_str!("docs/page.css");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn page_part(content_type: &'static str, text: &'static str) -> Reply {
    Reply::whole(StatusCode::OK, content_type, text).with(header::CONTENT_SECURITY_POLICY, POLICY)
}

/// `GET /v1/docs`
pub async fn page(_call: Call) -> Result<Reply> {
    Ok(page_part("text/html; charset=utf-8", PAGE))
}

/// `GET /v1/docs/page.js`
pub async fn script(_call: Call) -> Result<Reply> {
    Ok(page_part("text/javascript; charset=utf-8", SCRIPT))
}

/// `GET /v1/docs/page.css`
pub async fn style(_call: Call) -> Result<Reply> {
    Ok(page_part("text/css; charset=utf-8", STYLE))
}
