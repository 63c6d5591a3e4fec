//! The head of a request, and the encoding of answers.

use std::io::Write;

use super::{Answer, MOST_BODY, MOST_HEAD};

/// A complete head.
pub(super) struct Head {
    pub(super) bytes: usize,
    pub(super) body: usize,
    /// Whether more requests may follow.
    pub(super) keep: bool,
    /// Whether the client waits with the body for `100 Continue`.
    pub(super) waits: bool,
    /// Whether the request is `HEAD`: the client would take a body for the next answer.
    pub(super) head_alone: bool,
}

/// Why a head cannot be parsed.
pub(super) enum Stop {
    /// It is incomplete.
    Partial,
    /// It is refused.
    Refused(u16, &'static str),
}

impl Stop {
    /// Status and message for the client; an incomplete head is too long if this is called.
    pub(super) fn reason(&self) -> (u16, &'static str) {
        match self {
            Self::Partial => (431, "the head has more than 16 KiB"),
            Self::Refused(status, text) => (*status, text),
        }
    }
}

/// Parses a head, if it is complete, and the length of its body; `request` then has its fields.
pub(super) fn head<'b>(
    buffer: &'b [u8],
    request: &mut httparse::Request<'_, 'b>,
) -> Result<Head, Stop> {
    let bytes = match request.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= MOST_HEAD => bytes,
        Ok(httparse::Status::Complete(_)) => {
            return Err(Stop::Refused(431, "the head has more than 16 KiB"));
        }
        Ok(httparse::Status::Partial) => return Err(Stop::Partial),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Stop::Refused(431, "the head has more than 64 fields"));
        }
        Err(_) => return Err(Stop::Refused(400, "this is not HTTP/1.1")),
    };
    let mut head = Head {
        bytes,
        body: 0,
        keep: request.version == Some(1),
        waits: false,
        head_alone: request.method == Some("HEAD"),
    };
    let mut length = None;
    let mut hosts = 0;
    for field in &*request.headers {
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = std::str::from_utf8(field.value).unwrap_or_default();
            // Two lengths are used for request smuggling; `+1` and ` 1` are invalid.
            if length.is_some() || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())
            {
                return Err(Stop::Refused(400, "the length of the body is unclear"));
            }
            length = Some(digits.parse::<usize>().unwrap_or(usize::MAX));
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Stop::Refused(501, "bodies come with a Content-Length here"));
        } else if field.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if field.name.eq_ignore_ascii_case("connection") {
            let mut options = field.value.split(|byte| *byte == b',');
            head.keep &= !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else if field.name.eq_ignore_ascii_case("expect") {
            // An HTTP/1.0 client would take `100 Continue` for the answer.
            head.waits =
                request.version == Some(1) && field.value.eq_ignore_ascii_case(b"100-continue");
        }
    }
    // With two, a proxy in front may have used the other one (RFC 9112, 3.2).
    if hosts > 1 || hosts == 0 && request.version == Some(1) {
        return Err(Stop::Refused(400, "a request must have one Host"));
    }
    head.body = length.unwrap_or(0);
    if head.body > MOST_BODY {
        return Err(Stop::Refused(413, "the body has more than 64 KiB"));
    }
    Ok(head)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        500 => "Internal Server Error",
        _ => "",
    }
}

/// Appends an answer to `out`; `body_too`: not for `HEAD`.
pub(super) fn write_answer(out: &mut Vec<u8>, answer: &Answer, keep: bool, body_too: bool) {
    // Writing to memory cannot fail.
    let _ = write!(
        out,
        "HTTP/1.1 {} {}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
        answer.status,
        reason(answer.status)
    );
    for (name, value) in &answer.fields {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if answer.status != 204 {
        let _ = write!(
            out,
            "Content-Type: {}\r\nContent-Length: {}\r\n",
            answer.content_type,
            answer.body.len()
        );
    }
    out.extend_from_slice(if keep {
        b"\r\n"
    } else {
        b"Connection: close\r\n\r\n"
    });
    if body_too {
        out.extend_from_slice(&answer.body);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::MOST_FIELDS, *};

    fn head(buffer: &[u8]) -> Result<Head, Stop> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        super::head(buffer, &mut httparse::Request::new(&mut fields))
    }

    fn refused(text: &str) -> u16 {
        match head(text.as_bytes()) {
            Err(Stop::Refused(status, _)) => status,
            Err(Stop::Partial) => 0,
            Ok(_) => 200,
        }
    }

    #[test]
    fn heads_are_complete_incomplete_or_refused() {
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n"), 0);
        assert_eq!(refused("hello\0there\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.0\r\n\r\n"), 200);
        let with = |field: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        assert_eq!(refused(&with("host: a")), 400);
        assert_eq!(refused(&with("Content-Length: 65536")), 200);
        assert_eq!(refused(&with("Content-Length: 65537")), 413);
        assert_eq!(
            refused(&with("Content-Length: 99999999999999999999999")),
            413
        );
        assert_eq!(refused(&with("Content-Length: +1")), 400);
        assert_eq!(
            refused(&with("Content-Length: 1\r\nContent-Length: 2")),
            400
        );
        assert_eq!(refused(&with("Transfer-Encoding: chunked")), 501);
        let many: String = (0..64).map(|at| format!("a{at}: b\r\n")).collect();
        assert_eq!(refused(&with(many.trim_end())), 431);
        assert_eq!(
            refused(&with(&format!("a: {}", "b".repeat(MOST_HEAD)))),
            431
        );
    }

    #[test]
    fn a_head_determines_the_length_of_its_body_and_keep_alive() {
        let Ok(parsed) = head(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
        ) else {
            panic!("the head is whole");
        };
        assert_eq!((parsed.body, parsed.keep, parsed.waits), (5, true, true));
        let old = head(b"POST / HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        assert!(old.is_ok_and(|head| !head.waits));
        for closing in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, close\r\n\r\n",
        ] {
            assert!(head(closing.as_bytes()).is_ok_and(|head| !head.keep));
        }
    }
}
