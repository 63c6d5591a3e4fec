//! Files of other hosts for `LOAD CSV`: which addresses a query may read, and reading them within the limits of the
//! query.
//!
//! The program provides the HTTP client ([`UrlClient`]). This module decides what it may request: an address below one
//! of the allowed ones, and redirects only to such addresses. Each download has a thread, so that a query that waits
//! for a slow host still ends in time, or when it is cancelled. The thread ends with its next piece, or with the
//! timeout of the client.

use std::{
    fmt,
    io::{self, Read},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};

use crate::{
    error::{ExecError, Result},
    limits::Stop,
};

/// Bytes of one piece, and pieces that the thread reads ahead: 256 KiB together.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 4;

/// How often a waiting query checks its limits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Redirects that are followed for one file.
const MAX_REDIRECTS: usize = 5;

/// An HTTP client for `LOAD CSV`.
pub trait UrlClient: Send + Sync {
    /// Requests `url` (`GET`) and follows no redirect. The request and reading the answer take at most `time`; none for
    /// a query without a time limit, where the client bounds each read instead.
    ///
    /// # Errors
    ///
    /// Why the file cannot be read: `it answered HTTP 404`.
    fn get(&self, url: &str, time: Option<Duration>) -> std::result::Result<UrlAnswer, String>;
}

/// An answer to [`UrlClient::get`].
pub enum UrlAnswer {
    /// The content.
    Content(Box<dyn Read + Send>),
    /// The value of the header `Location`, which may be relative.
    Redirect(String),
}

/// The addresses that `LOAD CSV` may read, and the client that requests them.
#[derive(Clone)]
pub struct CsvUrls {
    allowed: Arc<[Address]>,
    client: Arc<dyn UrlClient>,
}

impl fmt::Debug for CsvUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.allowed.iter()).finish()
    }
}

impl CsvUrls {
    /// Allows the addresses below each of `allowed`: `https://data.example.org/` allows a host with this scheme and
    /// port, `https://data.example.org/public/` a folder of it.
    ///
    /// # Errors
    ///
    /// [`ExecError::Raised`] for an invalid address.
    pub fn new(
        allowed: impl IntoIterator<Item = impl AsRef<str>>,
        client: Arc<dyn UrlClient>,
    ) -> Result<Self> {
        let parse = |text: &str| match Address::parse(text) {
            Some(address) if !text.contains(['?', '#']) => Ok(address),
            _ => Err(ExecError::raised(
                crate::error::ErrorClass::ArgumentError,
                "InvalidArgumentValue",
                format!(
                    "invalid address `{text}` for LOAD CSV: write http://HOST[:PORT]/[FOLDER/] or https://…, \
                     without a user, `..` or a query"
                ),
            )),
        };
        let allowed: Result<_> = allowed
            .into_iter()
            .map(|text| parse(text.as_ref()))
            .collect();
        Ok(Self {
            allowed: allowed?,
            client,
        })
    }

    /// Refuses an address that is not below an allowed one.
    fn check(&self, url: &str) -> Result<()> {
        let address = Address::parse(url).ok_or_else(|| {
            ExecError::Denied(format!(
                "LOAD CSV may not read `{url}`: it is not a plain http or https URL; write it percent-encoded, without \
                 a user and without `..`"
            ))
        })?;
        if self.allowed.iter().any(|one| one.covers(&address)) {
            return Ok(());
        }
        Err(ExecError::Denied(format!(
            "LOAD CSV may not read `{url}`: it is below none of the allowed addresses; add it to them (`--csv-url`)"
        )))
    }

    /// Requests a file. Its first bytes are awaited by the first read.
    pub(crate) fn open(&self, url: &str, stop: Stop) -> Result<Download> {
        self.check(url)?;
        let (sender, pieces) = sync_channel(PIECES_AHEAD);
        let (urls, url, time) = (self.clone(), url.to_owned(), stop.time_left());
        std::thread::Builder::new()
            .name("isomer-download".into())
            .spawn(move || urls.transfer(&url, time, &sender))
            .map_err(|error| ExecError::Internal(format!("no thread for a download: {error}")))?;
        Ok(Download {
            pieces,
            stop,
            piece: Vec::new(),
            position: 0,
        })
    }

    /// The body of a download's thread.
    fn transfer(&self, url: &str, time: Option<Duration>, pieces: &SyncSender<Piece>) {
        let mut content = match self.request(url, time) {
            Ok(content) => content,
            Err(error) => {
                let _ = pieces.send(Err(error)); // the query may be gone
                return;
            }
        };
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = content.read(&mut piece);
            let is_last = !matches!(read, Ok(1..));
            let message = match read {
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) => Err(unreadable(url, error)),
            };
            if pieces.send(message).is_err() || is_last {
                return;
            }
        }
    }

    /// Follows redirects to the content. Each address is checked.
    fn request(&self, url: &str, time: Option<Duration>) -> Result<Box<dyn Read + Send>> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url)?;
            let answer = self.client.get(&url, time);
            match answer.map_err(|why| unreadable(&url, why))? {
                UrlAnswer::Content(content) => return Ok(content),
                UrlAnswer::Redirect(location) => url = resolve(&url, &location),
            }
        }
        let why = format!("it is redirected more than {MAX_REDIRECTS} times");
        Err(unreadable(&url, why))
    }
}

fn unreadable(url: &str, why: impl fmt::Display) -> ExecError {
    ExecError::raised(
        crate::error::ErrorClass::ArgumentError,
        "InvalidArgumentValue",
        format!("{url} cannot be read: {why}"),
    )
}

/// An empty piece is the end.
type Piece = Result<Vec<u8>>;

/// The content of a file while it arrives.
pub(crate) struct Download {
    pieces: Receiver<Piece>,
    stop: Stop,
    piece: Vec<u8>,
    position: usize,
}

impl Download {
    /// Fails with the error of the query inside: see [`query_error`].
    fn next_piece(&self) -> io::Result<Vec<u8>> {
        loop {
            match self.pieces.recv_timeout(POLL_INTERVAL) {
                Ok(piece) => return piece.map_err(io::Error::other),
                Err(RecvTimeoutError::Timeout) => self.stop.check().map_err(io::Error::other)?,
                // The end was received before.
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
            }
        }
    }
}

impl Read for Download {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.position == self.piece.len() {
            self.piece = self.next_piece()?;
            self.position = 0;
        }
        let count = into.len().min(self.piece.len() - self.position);
        into[..count].copy_from_slice(&self.piece[self.position..][..count]);
        self.position += count;
        Ok(count)
    }
}

/// The error of the query that a failed read of a [`Download`] has inside.
pub(crate) fn query_error(error: io::Error) -> std::result::Result<ExecError, io::Error> {
    error.downcast::<ExecError>()
}

/// A URL in the parts that are compared.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    is_https: bool,
    /// In lower case.
    host: String,
    port: u16,
    /// Percent-decoded, from the first `/` on.
    path: Vec<u8>,
}

impl Address {
    /// Parses a URL; none if it is not `http` or `https`, names a user, or has a `..` that a server may resolve.
    fn parse(url: &str) -> Option<Self> {
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains(['@', '\\', '%']) {
            return None;
        }
        let host_end = match authority.strip_prefix('[') {
            Some(inside) => inside.find(']')? + 2,
            None => authority.find(':').unwrap_or(authority.len()),
        };
        let (host, port) = authority.split_at(host_end);
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if !port.is_empty() => return None,
            None if is_https => 443,
            None => 80,
        };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let path = percent_decoded(match &rest[..end] {
            "" => "/",
            path => path,
        })?;
        let mut steps = path.split(|byte| matches!(byte, b'/' | b'\\'));
        if host.is_empty() || steps.any(|step| matches!(step, b"." | b"..")) {
            return None;
        }
        Some(Self {
            is_https,
            host: host.to_ascii_lowercase(),
            port,
            path,
        })
    }

    /// Whether `other` is this address, or below it.
    fn covers(&self, other: &Self) -> bool {
        let is_below = || match other.path.strip_prefix(self.path.as_slice()) {
            Some(rest) => rest.is_empty() || self.path.ends_with(b"/") || rest.starts_with(b"/"),
            None => false,
        };
        self.is_https == other.is_https
            && self.host == other.host
            && self.port == other.port
            && is_below()
    }
}

/// The bytes of a percent-encoded text (`a%20b` is `a b`); none if an escape is invalid.
pub(crate) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                bytes.push(u8::try_from(high << 4 | low).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(bytes)
}

/// The address to which `location` redirects from `base`, a URL.
fn resolve(base: &str, location: &str) -> String {
    let (scheme, rest) = base.split_once("://").unwrap_or_default();
    let path_start = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path_start);
    if location.contains("://") {
        return location.to_owned();
    }
    if location.starts_with("//") {
        return format!("{scheme}:{location}");
    }
    if location.starts_with('/') {
        return format!("{scheme}://{authority}{location}");
    }
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
    format!("{scheme}://{authority}{folder}{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl UrlClient for Nowhere {
        fn get(&self, url: &str, _: Option<Duration>) -> std::result::Result<UrlAnswer, String> {
            Err(format!("{url} is requested in no test"))
        }
    }

    #[test]
    fn only_what_is_below_an_allowed_address_is_covered() {
        let allowed = ["https://Data.example.org/pub/", "http://localhost:8080"];
        let urls = CsvUrls::new(allowed, Arc::new(Nowhere)).unwrap();
        for url in [
            "https://data.example.org/pub/a.csv",
            "HTTPS://DATA.EXAMPLE.ORG:443/pub/deep/a%20b.csv?x=../..#y",
            "https://data.example.org/%70ub/a.csv",
            "http://localhost:8080/a.csv",
            "http://localhost:8080",
        ] {
            assert!(urls.check(url).is_ok(), "{url}");
        }
        for url in [
            "http://data.example.org/pub/a.csv",
            "https://data.example.org/public.csv",
            "https://data.example.org/pub/../secret.csv",
            "https://data.example.org/pub/%2e%2e/secret.csv",
            "https://data.example.org/pub/..%2fsecret.csv",
            "https://data.example.org/pub/..\\secret.csv",
            "https://data.example.org:8443/pub/a.csv",
            "https://data.example.org.evil.example/pub/a.csv",
            "https://data.example.org@evil.example/pub/a.csv",
            "https://evil.example/https://data.example.org/pub/a.csv",
            "https://data.example.org\\@evil.example/pub/",
            "http://localhost/a.csv",
            "http://localhost:8080.evil.example/",
            "http://localhost:80800/a.csv",
            "ftp://localhost:8080/a.csv",
            "http://localhost:8080/a\nb",
            "http://localhost:8080/%zz",
            "http://[::1/a.csv",
            "http:///a.csv",
        ] {
            assert!(
                matches!(urls.check(url), Err(ExecError::Denied(_))),
                "{url}"
            );
        }
        for wrong in ["data.example.org", "https://h/?x", "https://u@h/", ""] {
            assert!(CsvUrls::new([wrong], Arc::new(Nowhere)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn redirects_are_resolved_against_the_address_that_sent_them() {
        let base = "https://h:1/a/b?c/d";
        for (location, resolved) in [
            ("http://other/x", "http://other/x"),
            ("//other/x", "https://other/x"),
            ("/x", "https://h:1/x"),
            ("x", "https://h:1/a/x"),
        ] {
            assert_eq!(resolve(base, location), resolved);
        }
        assert_eq!(resolve("https://h", "x"), "https://h/x");
    }
}
