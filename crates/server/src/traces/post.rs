//! Sends batches of spans: a minimal HTTP/1.1 client over a blocking connection, used only by the batch thread.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Limits on an answer: length and number of lines of its head; length of its body.
const MAX_LINE: u64 = 8 << 10;
const MAX_LINES: usize = 100;
const MAX_BODY: u64 = 64 << 10;

/// A collector.
#[derive(Debug)]
pub(super) struct Post {
    /// Host and port.
    authority: String,
    has_path: bool,
    time: Duration,
    /// Whether the last batch failed.
    is_down: AtomicBool,
}

impl Post {
    /// Parses an address.
    pub(super) fn new(endpoint: &str, time: Duration) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid address of a collector `{endpoint}`: write http://HOST:PORT (for TLS, use a local collector that forwards)"
            )
        };
        let rest = endpoint.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"@?#\\".contains(&byte))
        };
        let port = authority
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        if authority.is_empty() || !is_plain(rest) || !matches!(port, Some(Ok(_))) {
            return Err(wrong());
        }
        Ok(Self {
            authority: authority.to_owned(),
            has_path: !path.is_empty(),
            time,
            is_down: AtomicBool::new(false),
        })
    }

    pub(super) fn has_path(&self) -> bool {
        self.has_path
    }

    /// Connects to the first of its addresses that accepts.
    fn connect(&self, end: Instant) -> std::io::Result<Timed> {
        let mut outcome = Err(std::io::Error::other("its name has no address"));
        for address in self.authority.to_socket_addrs()? {
            outcome = TcpStream::connect_timeout(&address, time_left(end)?);
            if outcome.is_ok() {
                break;
            }
        }
        let stream = outcome?;
        Ok(Timed { stream, end })
    }

    fn send(&self, request: &Request<Bytes>) -> std::io::Result<u16> {
        let mut stream = self.connect(Instant::now() + self.time)?;
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            request.uri().path(),
            self.authority,
            request.body().len()
        );
        for (name, value) in request.headers() {
            let own = matches!(name.as_str(), "host" | "connection" | "content-length");
            if let (false, Ok(value)) = (own, value.to_str()) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        stream.write_all(request.body())?;
        stream.flush()?;
        let mut answer = BufReader::new(stream);
        let status = line(&mut answer)?;
        let status = status
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5)?.parse().ok())
            .ok_or_else(|| std::io::Error::other("it does not speak HTTP/1"))?;
        for _ in 0..MAX_LINES {
            if line(&mut answer)?.is_empty() {
                break;
            }
        }
        // The body about rejected spans is not needed: the status is sufficient.
        let _ = answer.take(MAX_BODY).read_to_end(&mut Vec::new());
        Ok(status)
    }
}

/// Remaining time of an exchange.
fn time_left(end: Instant) -> std::io::Result<Duration> {
    match end.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(std::io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// A connection with a fixed deadline, even if data trickles in.
struct Timed {
    stream: TcpStream,
    end: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(time_left(self.end)?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(time_left(self.end)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn line(answer: &mut BufReader<Timed>) -> std::io::Result<String> {
    let mut line = String::new();
    answer.by_ref().take(MAX_LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(&request);
        let taken = matches!(sent, Ok(200..300));
        // Logged on changes only, not with each batch.
        if self.is_down.swap(!taken, Ordering::Relaxed) == taken {
            match &sent {
                Ok(_) if taken => tracing::info!("the collector accepts traces again"),
                Ok(status) => tracing::warn!(status, "the collector rejects traces"),
                Err(error) => {
                    tracing::warn!(%error, "the collector cannot be reached: traces are lost")
                }
            }
        }
        Ok(Response::builder().status(sent?).body(Bytes::new())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(endpoint: &str, time: Duration) -> std::io::Result<u16> {
        let request = Request::post("/v1/traces").body(Bytes::from_static(b"x"));
        let post = Post::new(endpoint, time).map_err(std::io::Error::other)?;
        post.send(&request.map_err(std::io::Error::other)?)
    }

    #[test]
    fn every_address_of_a_collector_is_tried_and_http_1_0_is_understood() {
        // Not on `::1`, which many machines try first for `localhost`.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
        });
        let endpoint = format!("http://localhost:{port}");
        assert_eq!(sent(&endpoint, Duration::from_secs(10)).unwrap(), 200);
        answering.join().unwrap();
        // Nothing listens there any more.
        assert!(sent(&endpoint, Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_collector_that_answers_too_slowly_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        assert!(sent(&endpoint, Duration::from_millis(300)).is_err());
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn addresses_are_parsed_or_refused() {
        let has_path =
            |text: &str| Post::new(text, Duration::from_secs(1)).map(|post| post.has_path());
        assert_eq!(has_path("http://127.0.0.1:4318"), Ok(false));
        assert_eq!(has_path("http://[::1]:4318/"), Ok(false));
        assert_eq!(has_path("http://collector:4318/v1/traces"), Ok(true));
        for wrong in [
            "",
            "collector:4318",
            "https://c:4318",
            "http://",
            "http://c",
            "http://a@c:1",
            "http://c:1/?x",
            "http://c:99999",
        ] {
            assert!(has_path(wrong).is_err(), "{wrong}");
        }
    }
}
