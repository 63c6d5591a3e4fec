//! Replication over HTTP: one frame in, one frame out; and its status.

use axum::http::StatusCode;
use isomer_db::{Value, internals::LayerResult as _, jiff::Timestamp, params};
use isomer_sync::{NO_REPLICA, report};

use super::{call::Call, reply::Reply};
use crate::{Result, ServerError, access::DatabaseAccess};

/// `POST …/replication`
pub async fn exchange(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "replicas exchange whole transactions: omit Isomer-Transaction".into(),
        ));
    }
    let content_type = call.content_type();
    if content_type != "application/octet-stream" {
        return Err(ServerError::MediaType(format!(
            "unsupported content type `{content_type}`: send a frame with `Content-Type: application/octet-stream`"
        )));
    }
    access.check_replica()?;
    // A replicated transaction is sent in one frame, however large it is.
    let most = call.core.config.limits.body_bytes;
    let frame = call
        .bytes_up_to(most.max(isomer_sync::MAX_FRAME_BYTES))
        .await?;
    let answer = call.core.blocking(move || access.replicate(&frame)).await?;
    Ok(Reply::whole(
        StatusCode::OK,
        "application/octet-stream",
        answer,
    ))
}

/// `GET …/replication`
pub async fn status(call: Call, access: DatabaseAccess) -> Result<Reply> {
    call.core.blocking(move || reported(&access)).await
}

/// `PUT …/replication/clock`
pub async fn accept_clock(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut fields = call.fields(&["accept_until"]).await?;
    let until = fields.text("accept_until")?;
    let until = until.map(|text| {
        text.parse::<Timestamp>().map_err(|error| {
            ServerError::Invalid(format!(
                "invalid `accept_until` `{text}`, expected a time such as 2026-12-01T00:00:00Z: {error}"
            ))
        })
    });
    let until_ms = until.transpose()?.map_or(0, |time| time.as_millisecond());
    let accept = move || {
        let store = access.store()?;
        if !store.is_replicated() {
            return Err(ServerError::Invalid(NO_REPLICA.into()));
        }
        let until_ms = until_ms.max(0).unsigned_abs();
        isomer_replication::accept_clock(&store, until_ms).lift()?;
        reported(&access)
    };
    call.core.blocking(accept).await
}

fn reported(access: &DatabaseAccess) -> Result<Reply> {
    let found = report(&access.store()?).map_err(|error| match error {
        isomer_sync::SyncError::Here(error) => error.into(),
        error => ServerError::Internal(error.to_string()),
    })?;
    Reply::value(&match found {
        Some(report) => report.value(),
        None => {
            params! { "replica" => Value::Null, "text" => vec![Value::from(NO_REPLICA)] }.into()
        }
    })
}
