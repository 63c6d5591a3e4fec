//! A peer behind HTTP or HTTPS: one frame per request.
//!
//! A minimal HTTP/1.1 client over a blocking connection, which is kept alive; certificates are checked against those
//! in the options.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use crate::{Result, SyncError, answer::MAX_FRAME_BYTES, certificates, exchange::Peer};

/// Limits on the length and the number of lines of an answer's head.
const MAX_LINE: u64 = 16 << 10;
const MAX_LINES: usize = 100;

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// Bearer token; `None` if the server requires none.
    pub token: Option<String>,
    /// Trusted certificates, PEM.
    pub certificates: Option<PathBuf>,
    /// Time limit per answer.
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
    port: u16,
    database: String,
    tls: Option<Arc<ClientConfig>>,
    options: RemoteOptions,
    connection: Option<BufReader<Connection>>,
}

enum Connection {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
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
        let tls = match scheme {
            "http" => None,
            "https" => Some(tls_config(&options)?),
            _ => return Err(wrong()),
        };
        let (authority, database) = rest.split_once('/').ok_or_else(wrong)?;
        let database = database.trim_end_matches('/');
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"@?#/\\".contains(&byte))
        };
        if !plain(authority) || !plain(database) {
            return Err(wrong());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (authority, if tls.is_some() { 443 } else { 80 }),
        };
        if tls.is_none() && options.token.is_some() && !is_loopback(host) {
            return Err(SyncError::Invalid(format!(
                "a token would be sent to {host} unencrypted: use https"
            )));
        }
        Ok(Self {
            name: url.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            database: database.to_owned(),
            tls,
            options,
            connection: None,
        })
    }

    fn unreachable(&self, reason: impl std::fmt::Display) -> SyncError {
        SyncError::Unreachable {
            peer: self.name.clone(),
            reason: reason.to_string(),
        }
    }

    fn connect(&self) -> Result<BufReader<Connection>> {
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| self.unreachable(error))?;
        let mut failed = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
                Ok(stream) => return self.greet(stream),
                Err(error) => failed = Some(error),
            }
        }
        Err(match failed {
            Some(error) => self.unreachable(error),
            None => self.unreachable("its name has no address"),
        })
    }

    fn greet(&self, stream: TcpStream) -> Result<BufReader<Connection>> {
        let timeout = Some(self.options.timeout);
        stream
            .set_read_timeout(timeout)
            .and_then(|()| stream.set_write_timeout(timeout))
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|error| self.unreachable(error))?;
        let Some(config) = &self.tls else {
            return Ok(BufReader::new(Connection::Plain(stream)));
        };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| SyncError::Invalid(format!("`{}` is not a valid host name", self.host)))?;
        let tls =
            ClientConnection::new(config.clone(), name).map_err(|error| self.unreachable(error))?;
        Ok(BufReader::new(Connection::Tls(Box::new(StreamOwned::new(
            tls, stream,
        )))))
    }

    fn send(&self, connection: &mut BufReader<Connection>, frame: &[u8]) -> std::io::Result<()> {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let mut head = format!(
            "POST /v1/databases/{}/replication HTTP/1.1\r\nHost: {host}:{}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n",
            self.database,
            self.port,
            frame.len()
        );
        if let Some(token) = &self.options.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        head += "\r\n";
        let stream = connection.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(frame)?;
        stream.flush()
    }

    fn receive(&self, connection: &mut BufReader<Connection>) -> std::io::Result<Answer> {
        let status = line(connection)?;
        let status: u16 = status
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| invalid("it does not speak HTTP/1.1"))?;
        let (mut length, mut chunked, mut close) = (None, false, false);
        for _ in 0..MAX_LINES {
            let line = line(connection)?;
            if line.is_empty() {
                let body = match (chunked, length) {
                    (true, _) => chunks(connection)?,
                    (false, Some(length)) => exactly(connection, length)?,
                    (false, None) => return Err(invalid("its answer has no length")),
                };
                return Ok(Answer {
                    status,
                    body,
                    close,
                });
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(invalid("its answer's head is malformed"));
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    length = Some(
                        value
                            .parse()
                            .map_err(|_| invalid("its length is not a number"))?,
                    );
                }
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => close = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Err(invalid("its answer's head is too long"))
    }

    fn try_ask(&mut self, frame: &[u8]) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let answer = self
            .send(&mut connection, frame)
            .and_then(|()| self.receive(&mut connection))
            .map_err(|error| match certificates::advice(&error, &self.host) {
                Some(advice) => self.unreachable(advice),
                None => self.unreachable(error),
            })?;
        if !answer.close {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

struct Answer {
    status: u16,
    body: Vec<u8>,
    close: bool,
}

impl Peer for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        let was_open = self.connection.is_some();
        let answer = match self.try_ask(frame) {
            // The server may have closed the idle connection; requests are idempotent.
            Err(SyncError::Unreachable { .. }) if was_open => self.try_ask(frame)?,
            answer => answer?,
        };
        if answer.status == 200 {
            return Ok(answer.body);
        }
        let message = String::from_utf8_lossy(&answer.body);
        let message: String = message.chars().take(500).collect();
        Err(match answer.status {
            401 | 403 => SyncError::There {
                peer: self.name.clone(),
                kind: "Denied".into(),
                message: format!("{message}: give a token with the role replica on the database"),
            },
            429 | 502..=504 => self.unreachable(format!("HTTP {}: {message}", answer.status)),
            status => SyncError::There {
                peer: self.name.clone(),
                kind: format!("HTTP {status}"),
                message,
            },
        })
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let address: Option<std::net::IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

fn tls_config(options: &RemoteOptions) -> Result<Arc<ClientConfig>> {
    let Some(path) = &options.certificates else {
        return Err(SyncError::Invalid(
            "https requires trusted certificates: name a PEM file, such as the server's own certificate or /etc/ssl/certs/ca-certificates.crt".into(),
        ));
    };
    certificates::config(path)
}

fn invalid(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}

fn line(connection: &mut BufReader<Connection>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    connection.take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the connection broke off",
        ));
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| invalid("its answer's head is not text"))
}

fn exactly(connection: &mut BufReader<Connection>, length: usize) -> std::io::Result<Vec<u8>> {
    if length > MAX_FRAME_BYTES {
        return Err(invalid("its answer is too long"));
    }
    let mut body = Vec::new();
    connection.take(length as u64).read_to_end(&mut body)?;
    match body.len() == length {
        true => Ok(body),
        false => Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the answer broke off",
        )),
    }
}

fn chunks(connection: &mut BufReader<Connection>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let head = line(connection)?;
        let size = head.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| invalid("the size of a chunk is not a number"))?;
        if size > MAX_FRAME_BYTES - body.len() {
            return Err(invalid("its answer is too long"));
        }
        if size == 0 {
            while !line(connection)?.is_empty() {}
            return Ok(body);
        }
        body.extend(exactly(connection, size)?);
        line(connection)?;
    }
}
