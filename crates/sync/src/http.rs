//! A peer behind HTTP or HTTPS: one frame per request, over a connection that is kept alive. Certificates are checked
//! against those in the options.

use std::{path::PathBuf, time::Duration};

use ureq::{
    Agent,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::DefaultResolver,
        transport::{Connector, TcpConnector},
    },
};

use crate::{
    Result, SyncError, answer::MAX_FRAME_BYTES, certificates, exchange::PeerConnection,
    tls::TlsConnector,
};

/// Limit on the length of an answer's head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Time limit for a connection, with the handshake of TLS.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// For how long an unused connection is kept; servers close theirs after five minutes.
const KEPT_TIME: Duration = Duration::from_secs(4 * 60);

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// Bearer token; `None` if the server requires none.
    pub token: Option<String>,
    /// Trusted certificates, PEM.
    pub certificates: Option<PathBuf>,
    /// Time limit for each read and write on the connection.
    pub timeout: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            token: None,
            certificates: None,
            timeout: Duration::from_secs(30),
        }
    }
}

/// A database on a server: `http://HOST:PORT/DATABASE`, or `https://…`.
pub struct Remote {
    name: String,
    host: String,
    /// Where frames are posted to.
    route: Uri,
    token: Option<String>,
    agent: Agent,
    /// Whether an answer arrived: the agent may have kept its connection, which the server may have closed since.
    was_answered: bool,
}

impl Remote {
    /// The database at `url`; does not connect yet.
    ///
    /// # Errors
    ///
    /// [`SyncError::Invalid`] for an invalid address, and for certificates that cannot be read.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self> {
        let wrong = || {
            SyncError::Invalid(format!(
                "invalid address of a database `{url}`: write http://HOST:PORT/DATABASE or https://HOST:PORT/DATABASE"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (authority, database) = rest.split_once('/').ok_or_else(wrong)?;
        let database = database.trim_end_matches('/');
        let is_plain = |text: &str| {
            let mut bytes = text.bytes();
            !text.is_empty()
                && bytes.all(|byte| byte.is_ascii_graphic() && !b"@?#/\\".contains(&byte))
        };
        if !is_plain(authority) || !is_plain(database) {
            return Err(wrong());
        }
        let route = format!("{scheme}://{authority}/v1/databases/{database}/replication");
        let route: Uri = route.parse().map_err(|_| wrong())?;
        let host = route.host().ok_or_else(wrong)?.trim_matches(['[', ']']);
        let host = host.to_owned();
        let tls = match scheme {
            "http" => None,
            "https" => Some(tls_connector(&options, &host)?),
            _ => return Err(wrong()),
        };
        if tls.is_none() && options.token.is_some() && !is_loopback(&host) {
            return Err(SyncError::Invalid(format!(
                "a token would be sent to {host} unencrypted: use https"
            )));
        }
        Ok(Self {
            name: url.to_owned(),
            host,
            route,
            token: options.token,
            agent: agent_for_one_host(options.timeout, None, tls),
            was_answered: false,
        })
    }

    fn unreachable(&self, reason: impl std::fmt::Display) -> SyncError {
        SyncError::Unreachable {
            peer: self.name.clone(),
            reason: reason.to_string(),
        }
    }

    /// Sends a frame; returns the status and the body of the answer.
    fn send(&self, frame: &[u8]) -> Result<(u16, Vec<u8>), ureq::Error> {
        let mut request = self.agent.post(&self.route);
        request = request.content_type("application/octet-stream");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.send(frame)?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config();
        Ok((status, body.limit(MAX_FRAME_BYTES as u64).read_to_vec()?))
    }
}

/// Why a host did not answer a request.
pub(crate) fn describe(error: &ureq::Error, host: &str) -> String {
    match error {
        ureq::Error::Io(error) => {
            certificates::advice(error, host).unwrap_or_else(|| error.to_string())
        }
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "its name has no address".to_owned(),
        ureq::Error::BodyExceedsLimit(_) => "its answer is too long".to_owned(),
        error => format!("its answer is not valid ({error})"),
    }
}

impl PeerConnection for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        let answer = match self.send(frame) {
            // Requests are idempotent.
            Err(_) if self.was_answered => self.send(frame),
            answer => answer,
        };
        let (status, body) =
            answer.map_err(|error| self.unreachable(describe(&error, &self.host)))?;
        self.was_answered = true;
        if status == 200 {
            return Ok(body);
        }
        let message = String::from_utf8_lossy(&body);
        let message: String = message.chars().take(500).collect();
        Err(match status {
            401 | 403 => SyncError::There {
                peer: self.name.clone(),
                kind: "Denied".into(),
                message: format!("{message}: give a token with the role replica on the database"),
            },
            429 | 502..=504 => self.unreachable(format!("HTTP {status}: {message}")),
            status => SyncError::There {
                peer: self.name.clone(),
                kind: format!("HTTP {status}"),
                message,
            },
        })
    }
}

/// An agent that sends what it is given to the given address: no proxies, no redirects. `timeout` is for each read and
/// write, `time` for a whole request with its answer.
pub(crate) fn agent_for_one_host(
    timeout: Duration,
    time: Option<Duration>,
    tls: Option<TlsConnector>,
) -> Agent {
    let config: Config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .max_response_header_size(MAX_HEAD_BYTES)
        .max_idle_age(KEPT_TIME)
        .timeout_connect(Some(CONNECT_TIME))
        .timeout_per_read(Some(timeout))
        .timeout_per_write(Some(timeout))
        .timeout_global(time)
        .build();
    let (tcp, resolver) = (TcpConnector::default(), DefaultResolver::default());
    match tls {
        Some(tls) => Agent::with_parts(config, ().chain(tcp).chain(tls), resolver),
        None => Agent::with_parts(config, ().chain(tcp), resolver),
    }
}

fn is_loopback(host: &str) -> bool {
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

fn tls_connector(options: &RemoteOptions, host: &str) -> Result<TlsConnector> {
    let Some(path) = &options.certificates else {
        return Err(SyncError::Invalid(
            "https requires trusted certificates: name a PEM file, such as the server's own certificate or \
             /etc/ssl/certs/ca-certificates.crt"
                .into(),
        ));
    };
    TlsConnector::new(certificates::config(path)?, host)
}
