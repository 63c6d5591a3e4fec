//! Bolt over WebSocket (RFC 6455), for drivers in browsers: the same bytes as over TCP, in binary messages.
//!
//! A client that begins with `GET ` sends an HTTP request to upgrade the connection. After the answer 101 the bytes of
//! its binary messages, joined, are the stream of Bolt; messages need not match Bolt's. The server answers pings, and
//! closes with a status: 1002 for a frame that violates the protocol, 1003 for a message of text.
//!
//! A frame is `FIN RSV*3 OPCODE*4`, `MASK LENGTH*7`, a length of 2 or 8 bytes if LENGTH is 126 or 127, four bytes of
//! mask from clients, and the data.
//!
//! Pages of any site may connect, as they must know a password. A server without authentication refuses pages of other
//! hosts: it would be open to every page that its user visits.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{core::Core, hosts};

/// The first bytes of a request to upgrade.
pub const GET: [u8; 4] = *b"GET ";
/// Appended to the client's key (RFC 6455, 1.3).
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Most data in a frame that the server sends. It bounds what a slow client makes the server hold.
const MAX_SENT_BYTES: usize = 32 << 10;
/// Bytes read at once.
const READ_BYTES: usize = 8 << 10;
/// Most bytes of replies to pings that wait to be sent.
const MAX_REPLY_BYTES: usize = 4 << 10;
/// Most data in a ping, pong or close (RFC 6455, 5.5).
const MAX_CONTROL_BYTES: u64 = 125;

const BINARY: u8 = 0x2;
const TEXT: u8 = 0x1;
const CONTINUATION: u8 = 0x0;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED_DATA: u16 = 1003;
const NORMAL: u16 = 1000;

// ---- upgrade --------------------------------------------------------------------------------------------------------

/// Answers a request that begins with [`GET`]. `None` if it is refused; the client was told why.
///
/// # Errors
/// Those of the connection, and `InvalidData` for a head that is too long.
pub async fn upgrade<S>(core: &Core, mut stream: S) -> io::Result<Option<WebSocket<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let most = core.config.limits.head_bytes;
    let mut head = GET.to_vec();
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if head.len() >= most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the head is too long",
            ));
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let answer = answer(core, &head[..end]);
    let text = match &answer {
        Ok(key) => format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            accept_key(key)
        ),
        Err(refusal) => refusal.text(),
    };
    stream.write_all(text.as_bytes()).await?;
    stream.flush().await?;
    if answer.is_err() {
        stream.shutdown().await?;
        return Ok(None);
    }
    Ok(Some(WebSocket::new(stream, &head[end + 4..])))
}

/// Why a connection is not upgraded.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: &'static str,
    message: String,
}

impl Refusal {
    fn text(&self) -> String {
        let Self { status, message } = self;
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Sec-WebSocket-Version: 13\r\nConnection: close\r\n\r\n{message}\n",
            message.len() + 1
        )
    }
}

/// The client's key, if the request asks for an upgrade and may have it.
fn answer<'a>(core: &Core, head: &'a [u8]) -> Result<&'a str, Refusal> {
    let invalid = |message: &str| Refusal {
        status: "400 Bad Request",
        message: message.to_owned(),
    };
    let head = std::str::from_utf8(head).map_err(|_| invalid("the head is not UTF-8"))?;
    let mut lines = head.split("\r\n");
    let is_http = lines.next().is_some_and(|line| line.ends_with(" HTTP/1.1"));
    let fields: Option<Vec<(&str, &str)>> = lines
        .map(|line| {
            line.split_once(':')
                .map(|(name, value)| (name, value.trim()))
        })
        .collect();
    let fields = fields
        .filter(|_| is_http)
        .ok_or_else(|| invalid("not an HTTP/1.1 request"))?;
    let field = |name: &str| {
        let mut found = fields
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let (_, value) = found.next()?;
        // A repeated field is not one value.
        found.next().is_none().then_some(*value)
    };
    let lists = |name: &str, token: &str| {
        field(name).is_some_and(|list| {
            let mut tokens = list.split(',');
            tokens.any(|one| one.trim().eq_ignore_ascii_case(token))
        })
    };
    if !lists("Upgrade", "websocket") || !lists("Connection", "Upgrade") {
        return Err(Refusal {
            status: "426 Upgrade Required",
            message: "this port speaks Bolt, also over WebSocket: use a driver, \
                      or the address of the server's HTTP interface"
                .to_owned(),
        });
    }
    if field("Sec-WebSocket-Version") != Some("13") {
        return Err(Refusal {
            status: "426 Upgrade Required",
            message: "unsupported version of WebSocket: expected 13".to_owned(),
        });
    }
    if core.system.is_none()
        && let Some(origin) = field("Origin")
    {
        let site = origin.split_once("://").map(|(_, site)| site);
        if !site.is_some_and(|site| hosts::is_own_host(&core.config, site)) {
            return Err(Refusal {
                status: "403 Forbidden",
                message: format!(
                    "a page of `{origin}` may not connect to a server without authentication: \
                     add its host to `hosts`"
                ),
            });
        }
    }
    let key = field("Sec-WebSocket-Key").filter(|key| {
        BASE64_STANDARD
            .decode(key)
            .is_ok_and(|bytes| bytes.len() == 16)
    });
    key.ok_or_else(|| invalid("`Sec-WebSocket-Key` must be the Base64 of 16 bytes"))
}

/// The proof that the server read the key.
fn accept_key(key: &str) -> String {
    let text = format!("{key}{KEY_SUFFIX}");
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    BASE64_STANDARD.encode(digest.as_ref())
}

// ---- frames ---------------------------------------------------------------------------------------------------------

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    is_last: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
}

impl Head {
    /// Reads a head, and its size; `Ok(None)` if bytes are missing.
    ///
    /// # Errors
    /// The status for closing.
    fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, u16> {
        let &[first, second, ref rest @ ..] = bytes else {
            return Ok(None);
        };
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
        // No extension was agreed on, and a client masks its frames.
        if first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(PROTOCOL_ERROR);
        }
        let short = u64::from(second & 0x7f);
        match opcode {
            CONTINUATION | BINARY => {}
            TEXT => return Err(UNSUPPORTED_DATA),
            CLOSE | PING | PONG if is_last && short <= MAX_CONTROL_BYTES => {}
            _ => return Err(PROTOCOL_ERROR),
        }
        let more = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some((length, rest)) = rest.split_at_checked(more) else {
            return Ok(None);
        };
        let Some(&mask) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = match more {
            0 => short,
            _ => length
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        if length >> 63 != 0 {
            return Err(PROTOCOL_ERROR);
        }
        let head = Self {
            is_last,
            opcode,
            length,
            mask,
        };
        Ok(Some((head, 2 + more + 4)))
    }
}

/// Appends a frame as the server sends it: whole and not masked.
fn write_frame(out: &mut Vec<u8>, opcode: u8, data: &[u8]) {
    out.push(0x80 | opcode);
    if data.len() < 126 {
        out.push(data.len() as u8);
    } else if let Ok(length) = u16::try_from(data.len()) {
        out.push(126);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(data.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(data);
}

// ---- stream ---------------------------------------------------------------------------------------------------------

/// The bytes of binary messages as one stream. Memory: 8 KiB received, and one frame of 32 KiB to send.
///
/// Both halves must be polled by the same task: a read also sends replies to pings.
pub struct WebSocket<S> {
    stream: S,
    /// Received bytes that are not parsed.
    received: Vec<u8>,
    /// The frame of data whose bytes come next, and how many of them were given out.
    data: Option<(Head, u64)>,
    /// Whether the last frame of data did not end its message.
    is_within: bool,
    /// Bytes of frames that are not sent yet.
    out: Vec<u8>,
    sent: usize,
    /// Whether a close was queued: nothing follows it, in both directions.
    is_closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// After the upgrade; `received` was read together with it.
    fn new(stream: S, received: &[u8]) -> Self {
        Self {
            stream,
            received: received.to_vec(),
            data: None,
            is_within: false,
            out: Vec::new(),
            sent: 0,
            is_closing: false,
        }
    }

    /// Gives out data of the current frame; whether there was any.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let Some((head, given)) = &mut self.data else {
            return false;
        };
        let rest = usize::try_from(head.length - *given).unwrap_or(usize::MAX);
        let count = rest.min(self.received.len()).min(buffer.remaining());
        for (at, byte) in self.received.drain(..count).enumerate() {
            let mask = head.mask[(*given as usize + at) % 4];
            buffer.put_slice(&[byte ^ mask]);
        }
        *given += count as u64;
        if *given == head.length {
            self.data = None;
        }
        count > 0
    }

    /// Parses the next head and handles a frame of control; whether more may be parsed.
    fn parse(&mut self) -> io::Result<bool> {
        let (head, size) = match Head::read(&self.received) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(false),
            Err(status) => {
                self.close(status);
                return Ok(true);
            }
        };
        if matches!(head.opcode, CONTINUATION | BINARY) {
            if self.is_within != (head.opcode == CONTINUATION) {
                self.close(PROTOCOL_ERROR);
                return Ok(true);
            }
            self.is_within = !head.is_last;
            self.received.drain(..size);
            self.data = (head.length > 0).then_some((head, 0));
            return Ok(true);
        }
        // At most 125 bytes.
        let end = size + head.length as usize;
        let Some(data) = self.received.get(size..end) else {
            return Ok(false);
        };
        let data: Vec<u8> = data
            .iter()
            .zip(head.mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask)
            .collect();
        self.received.drain(..end);
        match head.opcode {
            PING if self.out.len() > MAX_REPLY_BYTES + MAX_SENT_BYTES => {
                return Err(io::Error::other(
                    "the client sends pings and reads no answer",
                ));
            }
            PING => write_frame(&mut self.out, PONG, &data),
            CLOSE => self.close(NORMAL),
            _ => {}
        }
        Ok(true)
    }

    /// Queues a close.
    fn close(&mut self, status: u16) {
        if !self.is_closing {
            self.is_closing = true;
            write_frame(&mut self.out, CLOSE, &status.to_be_bytes());
        }
    }

    /// Sends what is queued.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let stream = Pin::new(&mut self.stream);
            let count = ready!(stream.poll_write(context, &self.out[self.sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.is_closing {
                // The end of the stream, once the close is sent.
                ready!(this.poll_send(context))?;
                return Pin::new(&mut this.stream).poll_flush(context);
            }
            if buffer.remaining() == 0 || this.give(buffer) {
                return Poll::Ready(Ok(()));
            }
            if this.data.is_none() && this.parse()? {
                if this.sent < this.out.len()
                    && let Poll::Ready(sent) = this.poll_send(context)
                {
                    sent?;
                    if let Poll::Ready(flushed) = Pin::new(&mut this.stream).poll_flush(context) {
                        flushed?;
                    }
                }
                continue;
            }
            let mut bytes = [0; READ_BYTES];
            let mut more = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut more))?;
            if more.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.received.extend_from_slice(more.filled());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        if this.is_closing {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(MAX_SENT_BYTES);
        write_frame(&mut this.out, BINARY, &bytes[..count]);
        if let Poll::Ready(sent) = this.poll_send(context) {
            sent?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.close(NORMAL);
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

// ---- fuzzing --------------------------------------------------------------------------------------------------------

/// For fuzzing: any bytes after an upgrade. The data that is given out and the frames that are sent do not depend on
/// how the bytes arrive, and are those of a parser that has all of them at once.
#[cfg(any(test, fuzzing))]
pub fn fuzzed(bytes: &[u8]) {
    let expected = of_whole(bytes);
    for step in [1, 7, bytes.len().max(1)] {
        let found = run(exchange(bytes, step));
        assert!(found == expected, "in parts of {step}: {bytes:?}");
    }
}

/// The data in `bytes`, and the frames that answer them.
#[cfg(any(test, fuzzing))]
fn of_whole(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut data, mut sent) = (Vec::new(), Vec::new());
    let (mut rest, mut is_within) = (bytes, false);
    let close = |sent: &mut Vec<u8>, status: u16| {
        write_frame(sent, CLOSE, &status.to_be_bytes());
    };
    loop {
        let (head, size) = match Head::read(rest) {
            Ok(Some(read)) => read,
            Ok(None) => break,
            Err(status) => {
                close(&mut sent, status);
                break;
            }
        };
        let is_control = head.opcode & 0x8 != 0;
        if !is_control && is_within != (head.opcode == CONTINUATION) {
            close(&mut sent, PROTOCOL_ERROR);
            break;
        }
        let there = rest.len() - size;
        let length = usize::try_from(head.length).map_or(there, |length| length.min(there));
        let is_whole = length as u64 == head.length;
        if is_control && !is_whole {
            break;
        }
        let masks = head.mask.iter().cycle();
        let content = rest[size..size + length].iter().zip(masks);
        let content: Vec<u8> = content.map(|(byte, mask)| byte ^ mask).collect();
        rest = &rest[size + length..];
        match head.opcode {
            PING => write_frame(&mut sent, PONG, &content),
            CLOSE => {
                close(&mut sent, NORMAL);
                break;
            }
            PONG => {}
            _ => {
                is_within = !head.is_last;
                data.extend(content);
            }
        }
        if !is_whole {
            break;
        }
    }
    (data, sent)
}

/// What is read of `bytes`, which arrive in parts of `step`, and what is sent.
#[cfg(any(test, fuzzing))]
async fn exchange(bytes: &[u8], step: usize) -> (Vec<u8>, Vec<u8>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    let mut socket = WebSocket::new(server, &[]);
    let (mut reading, mut writing) = tokio::io::split(client);
    let parts: Vec<Vec<u8>> = bytes.chunks(step).map(<[u8]>::to_vec).collect();
    let sending = async move {
        for part in parts {
            // The server may have closed the connection after an invalid frame.
            if writing.write_all(&part).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        writing.shutdown().await.expect("ended");
    };
    let mut read = Vec::new();
    let receiving = async {
        socket.read_to_end(&mut read).await.expect("read");
        drop(socket);
    };
    tokio::join!(sending, receiving);
    let mut sent = Vec::new();
    reading.read_to_end(&mut sent).await.expect("read");
    (read, sent)
}

#[cfg(any(test, fuzzing))]
fn run<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().expect("a runtime").block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as clients send it.
    fn masked(first: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        write_frame(&mut frame, 0, data);
        frame[0] = first;
        frame[1] |= 0x80;
        let at = frame.len() - data.len();
        let mask = [1, 2, 3, 4];
        for (byte, mask) in frame[at..].iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        frame.splice(at..at, mask);
        frame
    }

    #[test]
    fn data_is_joined_however_it_arrives() {
        let long: Vec<u8> = (0..70_000_u32).map(|at| at as u8).collect();
        let mut bytes = masked(0x80 | BINARY, b"one ");
        bytes.extend(masked(BINARY, b"two "));
        bytes.extend(masked(0x80 | PING, b"?"));
        bytes.extend(masked(0x80 | CONTINUATION, b"three "));
        bytes.extend(masked(0x80 | BINARY, b""));
        bytes.extend(masked(0x80 | BINARY, &long[..300]));
        bytes.extend(masked(0x80 | BINARY, &long));
        bytes.extend(masked(0x80 | PONG, b"unasked"));
        let expected = [b"one two three ".as_slice(), &long[..300], &long].concat();
        for step in [1, 3, 1_000, bytes.len()] {
            let (read, sent) = run(exchange(&bytes, step));
            assert!(read == expected, "in parts of {step}");
            assert_eq!(sent, [0x80 | PONG, 1, b'?'], "in parts of {step}");
        }
    }

    #[test]
    fn a_close_ends_the_stream_and_is_answered() {
        let mut bytes = masked(0x80 | BINARY, b"last");
        bytes.extend(masked(0x80 | CLOSE, &NORMAL.to_be_bytes()));
        bytes.extend(masked(0x80 | BINARY, b"ignored"));
        let (read, sent) = run(exchange(&bytes, bytes.len()));
        assert_eq!(read, b"last");
        assert_eq!(sent, [0x80 | CLOSE, 2, 0x03, 0xe8]);
    }

    #[test]
    fn invalid_frames_close_with_a_status() {
        let unmasked = [0x80 | BINARY, 1, b'x'];
        let of = |first: u8| masked(first, b"x");
        let cases: [(&[u8], u16); 8] = [
            (&unmasked, PROTOCOL_ERROR),
            (&of(0xc0 | BINARY), PROTOCOL_ERROR),
            (&of(0x80 | TEXT), UNSUPPORTED_DATA),
            (&of(0x80 | 0x3), PROTOCOL_ERROR),
            (&of(PING), PROTOCOL_ERROR),
            (&of(0x80 | CONTINUATION), PROTOCOL_ERROR),
            (&masked(0x80 | PING, &[0; 126]), PROTOCOL_ERROR),
            (
                &[0x80 | BINARY, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
                PROTOCOL_ERROR,
            ),
        ];
        for (bytes, status) in cases {
            let (read, sent) = run(exchange(bytes, bytes.len()));
            let [high, low] = status.to_be_bytes();
            assert!(read.is_empty(), "{bytes:?}");
            assert_eq!(sent, [0x80 | CLOSE, 2, high, low], "{bytes:?}");
        }
        let mut within = masked(BINARY, b"one");
        within.extend(masked(0x80 | BINARY, b"two"));
        assert_eq!(
            run(exchange(&within, 1)).1[2..],
            PROTOCOL_ERROR.to_be_bytes()
        );
    }

    #[test]
    fn sent_bytes_are_whole_frames() {
        run(async {
            let (client, server) = tokio::io::duplex(64);
            let data: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
            let written = data.clone();
            let sending = async move {
                let mut socket = WebSocket::new(server, &[]);
                socket.write_all(&written).await.expect("sent");
                socket.shutdown().await.expect("ended");
            };
            let receiving = async move {
                let mut client = client;
                let mut all = Vec::new();
                client.read_to_end(&mut all).await.expect("read");
                all
            };
            let ((), all) = tokio::join!(sending, receiving);
            let mut rest = all.as_slice();
            let mut joined = Vec::new();
            while rest[0] == 0x80 | BINARY {
                let (length, at) = match rest[1] {
                    126 => (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
                    short => (usize::from(short), 2),
                };
                joined.extend_from_slice(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
            assert!(joined == data);
            assert_eq!(rest, [0x80 | CLOSE, 2, 0x03, 0xe8]);
        });
    }

    /// Random frames, valid ones and ones with random bytes in them, and random bytes.
    #[test]
    fn any_bytes_are_read_the_same_however_they_arrive() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most
        };
        for _ in 0..2_000 {
            let mut bytes = Vec::new();
            for _ in 0..below(6) {
                let firsts = [0x82, 0x02, 0x80, 0x00, 0x89, 0x8a, 0x88, 0x81, 0xc2];
                let first = firsts[below(firsts.len() as u64) as usize];
                let length = [0, 1, below(126), 126 + below(300)][below(4) as usize];
                let data: Vec<u8> = (0..length).map(|_| below(256) as u8).collect();
                bytes.extend(masked(first, &data));
            }
            for _ in 0..below(3) {
                if let Some(at) = bytes.len().checked_sub(1) {
                    let at = below(at as u64 + 1) as usize;
                    bytes[at] = below(256) as u8;
                }
            }
            bytes.extend((0..below(20)).map(|_| below(256) as u8));
            fuzzed(&bytes);
        }
    }

    /// The inputs of the fuzz target `websocket`.
    #[test]
    fn the_inputs_of_the_fuzz_target_are_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/websocket");
        let inputs = std::fs::read_dir(folder).expect("the corpus");
        let mut count = 0;
        for input in inputs {
            let path = input.expect("an entry").path();
            fuzzed(&std::fs::read(path).expect("a file"));
            count += 1;
        }
        assert!(count > 0, "there are no inputs");
    }

    /// The example of RFC 6455, 1.3.
    #[test]
    fn the_key_is_accepted_as_the_standard_says() {
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
