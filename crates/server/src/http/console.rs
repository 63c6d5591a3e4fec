//! The console: its built files, embedded in the binary, and the policy under which browsers run them.
//!
//! `build.rs` lists the files of `console-dist`. All except the page have a hash of their content in their names.

use std::sync::OnceLock;

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
};

use super::{
    call::Call,
    reply::{Reply, pack_well, takes_gzip},
};
use crate::{Result, ServerError};

/// A file of the console.
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    packed: OnceLock<Bytes>,
}

impl File {
    const fn new(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self {
            name,
            content_type,
            bytes,
            packed: OnceLock::new(),
        }
    }

    /// The file as an answer; compressed once for all requests.
    fn reply(&'static self, call: &Call) -> Reply {
        let packs = !matches!(self.content_type, "font/woff2" | "image/png");
        if !packs || !takes_gzip(&call.headers) {
            return Reply::stream(
                self.content_type,
                Body::from(Bytes::from_static(self.bytes)),
            );
        }
        let packed = self.packed.get_or_init(|| pack_well(self.bytes).into());
        Reply::stream(self.content_type, Body::from(packed.clone()))
            .with(header::CONTENT_ENCODING, "gzip")
            .with(header::VARY, "accept-encoding")
    }
}

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// Scripts, styles and images come from this server as files only; markup is created only by the framework's
/// templates.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

fn find(name: &str) -> Result<&'static File> {
    FILES
        .iter()
        .find(|file| file.name == name)
        .ok_or_else(|| ServerError::NotFound("no such file of the console: reload the page".into()))
}

/// `GET /`
pub async fn page(call: Call) -> Result<Reply> {
    let mut reply = find("index.html")?
        .reply(&call)
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        );
    reply.status = StatusCode::OK;
    Ok(reply)
}

/// `GET /console/{file}`
pub async fn file(call: Call) -> Result<Reply> {
    Ok(find(call.path_param("file"))?
        .reply(&call)
        .with(header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_exists_and_is_small() {
        let page = find("index.html").unwrap();
        let text = std::str::from_utf8(page.bytes).unwrap();
        assert!(text.contains("/console/") && !text.contains("://"));
        assert!(!text.contains("<style") && !text.contains(" style="));
        for file in &FILES {
            assert!(!text.contains("<script>"), "the page has no inline scripts");
            assert!(!file.name.contains('/') && !file.bytes.is_empty());
        }
        let all: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!(all <= 2 << 20, "{all} bytes");
        let at_first = FILES
            .iter()
            .filter(|file| !file.name.starts_with("GraphView"));
        let packed: usize = at_first.map(|file| pack_well(file.bytes).len()).sum();
        assert!(packed < 500_000, "{packed} bytes, packed");
        assert!(find("../Cargo.toml").is_err() && find("").is_err());
    }
}
