//! The HTTP client that reads files for `LOAD CSV`: one request per file, over HTTP or HTTPS.
//!
//! Which addresses it may request is decided by its caller, for each redirect too: this client follows none.

use std::{path::PathBuf, time::Duration};

use isomer_db::{UrlAnswer, UrlClient};
use ureq::http::Uri;

use crate::{
    SyncError, certificates,
    http::{agent_for_one_host, describe},
    tls::TlsConnector,
};

/// Time limit for each read of a query without a time limit.
const READ_TIME: Duration = Duration::from_secs(60);

/// Where systems keep the certificates of public authorities, PEM.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Reads files over HTTP and HTTPS.
#[derive(Clone, Debug, Default)]
pub struct FileDownloads {
    /// Trusted certificates, PEM; those of the system if absent.
    pub certificates: Option<PathBuf>,
}

impl FileDownloads {
    fn certificates(&self) -> Result<PathBuf, SyncError> {
        if let Some(path) = &self.certificates {
            return Ok(path.clone());
        }
        let mut known = SYSTEM_CERTIFICATES.iter().map(PathBuf::from);
        known.find(|path| path.exists()).ok_or_else(|| {
            SyncError::Invalid(format!(
                "there is no file with trusted certificates ({}): name one (`--csv-certificates`)",
                SYSTEM_CERTIFICATES.join(", ")
            ))
        })
    }

    fn tls(&self, host: &str) -> Result<TlsConnector, SyncError> {
        TlsConnector::new(certificates::config(&self.certificates()?)?, host)
    }
}

impl UrlClient for FileDownloads {
    fn get(&self, url: &str, time: Option<Duration>) -> Result<UrlAnswer, String> {
        let address = || "it is not a valid address".to_owned();
        let uri: Uri = url.parse().map_err(|_| address())?;
        let host = uri.host().ok_or_else(address)?.trim_matches(['[', ']']);
        let tls = match uri.scheme_str() {
            Some("https") => Some(self.tls(host).map_err(|error| error.to_string())?),
            _ => None,
        };
        let agent = agent_for_one_host(READ_TIME, time, tls);
        let answer = agent.get(&uri).call();
        let answer = answer.map_err(|error| describe(&error, host))?;
        let status = answer.status().as_u16();
        let location = answer.headers().get("location");
        match (status, location.and_then(|value| value.to_str().ok())) {
            (200, _) => Ok(UrlAnswer::Content(Box::new(
                answer.into_body().into_reader(),
            ))),
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                Ok(UrlAnswer::Redirect(location.to_owned()))
            }
            (status, _) => Err(format!("it answered HTTP {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::Arc,
        time::Instant,
    };

    use isomer_db::{Database, ErrorKind, Query, QueryOptions};

    use super::*;

    /// A server that answers by path, for as many requests as the test makes; returns its address.
    fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut head = [0; 4096];
                    let length = stream.read(&mut head).unwrap();
                    let head = String::from_utf8_lossy(&head[..length]).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    let redirect = |to: &str| {
                        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
                    };
                    let answer = match path {
                        "/open/people.csv" => {
                            "HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\nname\nAda\nCharles\n\n"
                                .to_owned()
                        }
                        "/open/moved.csv" => redirect("people.csv"),
                        "/open/out.csv" => redirect("/secret.csv"),
                        "/open/loop.csv" => redirect("/open/loop.csv"),
                        "/secret.csv" => {
                            "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nsecret\n".to_owned()
                        }
                        // A row, and then nothing more: the rest does not come.
                        "/open/slow.csv" => {
                            "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nname\nAda\n".to_owned()
                        }
                        _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
                    };
                    stream.write_all(answer.as_bytes()).unwrap();
                    let _ = stream.read(&mut [0]); // until the client closes
                });
            }
        });
        address
    }

    fn database(server: &str) -> Database {
        Database::builder()
            .csv_urls(
                [format!("{server}/open/")],
                Arc::new(FileDownloads::default()),
            )
            .unwrap()
            .open_in_memory()
            .unwrap()
    }

    const LOAD: &str = "LOAD CSV WITH HEADERS FROM $url AS row RETURN row.name AS name";

    #[test]
    fn files_at_allowed_addresses_are_read() {
        let server = server();
        let db = database(&server);
        for path in ["people.csv", "moved.csv"] {
            let url = format!("{server}/open/{path}");
            let names = db.query((LOAD, [("url", url)])).unwrap();
            assert_eq!(names.deserialize::<String>().unwrap(), ["Ada", "Charles"]);
        }
    }

    #[test]
    fn redirects_do_not_leave_the_allowed_addresses() {
        let server = server();
        let db = database(&server);
        for (path, kind, message) in [
            ("open/out.csv", ErrorKind::Denied, "secret.csv"),
            ("secret.csv", ErrorKind::Denied, "allowed"),
            ("open/loop.csv", ErrorKind::Invalid, "more than 5 times"),
            ("open/none.csv", ErrorKind::Invalid, "HTTP 404"),
        ] {
            let url = format!("{server}/{path}");
            let error = db.query((LOAD, [("url", url)])).unwrap_err();
            assert_eq!(error.kind(), kind, "{path}: {error}");
            assert!(error.to_string().contains(message), "{path}: {error}");
        }
    }

    #[test]
    fn a_slow_host_is_bounded_by_the_limits_of_the_query() {
        let server = server();
        let db = database(&server);
        let url = format!("{server}/open/slow.csv");
        let began = Instant::now();
        let options = QueryOptions::new().time_limit(Duration::from_millis(300));
        let query = Query::from((LOAD, [("url", url)])).options(&options);
        let error = db.query(query).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
