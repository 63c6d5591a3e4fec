//! Exchanging transactions with other databases: one frame in, one frame out.

use axum::http::StatusCode;

use super::{call::Call, reply::Reply};
use crate::{Result, ServerError, access::Access};

/// `POST …/replication`
pub async fn exchange(mut call: Call, access: Access) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "replicas exchange whole transactions: leave Isomer-Transaction away".into(),
        ));
    }
    let content_type = call.content_type();
    if content_type != "application/octet-stream" {
        return Err(ServerError::MediaType(format!(
            "the body is `{content_type}`: send a frame with `Content-Type: application/octet-stream`"
        )));
    }
    access.check_replica()?;
    // A transaction that was written in one piece, however large, comes in one piece.
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
