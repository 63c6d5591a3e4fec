//! Files: folders page by page; contents whole or in part, streamed in both directions.

use std::io::{Read, Seek, SeekFrom, Write};

use axum::http::{StatusCode, header};
use isomer_db::{FileMetadata, FileReader, PathKind, Value, params};
use tokio::sync::mpsc;

use super::{
    call::Call,
    credentials::RequestCredentials,
    lines::{self, Source},
    once::Answer,
    reply::{Conditions, Reply, etag_of},
    transfer::{Limited, Pieces, body_error, pump},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
    sending::Reserved,
};

/// Size of a read and of a piece of an answer.
const PIECE_BYTES: usize = 256 << 10;

/// The path of a file, from the root.
fn path(call: &Call) -> String {
    call.param("path").unwrap_or_default().to_owned()
}

fn metadata_value(name: &str, metadata: &FileMetadata) -> Value {
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let kind = match metadata.kind {
        PathKind::File => "file",
        PathKind::Folder => "folder",
    };
    params! {
        "name" => name,
        "kind" => kind,
        "bytes" => number(metadata.bytes),
        "created_ms" => number(metadata.created_ms),
        "modified_ms" => number(metadata.modified_ms),
    }
    .into()
}

/// `GET …/files`
pub async fn list(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let folder = call.param("path").unwrap_or("/").to_owned();
    let (limit, cursor) = (call.page()?, call.param("cursor").map(str::to_owned));
    call.core
        .blocking(move || {
            let found =
                access.read(|tx| Ok(tx.files().list_page(&folder, cursor.as_deref(), limit)?))?;
            let next = found.last().filter(|_| found.len() == limit);
            let next = next.map(|(name, _)| Value::from(name.as_str()));
            let entries: Vec<Value> = found
                .iter()
                .map(|(name, metadata)| metadata_value(name, metadata))
                .collect();
            let mut page = params! { "entries" => entries };
            if let Some(next) = next {
                page.insert("next", next);
            }
            Reply::object(page)
        })
        .await
}

/// `PUT …/files`
pub async fn make_folder(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let path = path(&call);
    let answer = call
        .core
        .blocking(move || access.write(Role::Editor, |tx| Ok(tx.files().create_folders(&path)?)))
        .await;
    answer.map(|()| Answer::of(StatusCode::CREATED).into_reply(false))
}

/// The ETag of a content: file, size, time of its last change, and concurrent writes of replicas.
fn tag(metadata: &FileMetadata) -> String {
    let parts = (
        metadata.file,
        metadata.bytes,
        (metadata.modified_ms, metadata.created_ms),
        metadata.merge_mark,
    );
    etag_of(format!("{parts:?}").as_bytes())
}

/// `GET …/file`
pub async fn get(call: Call, access: DatabaseAccess) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "files are read at the last committed version: omit Isomer-Transaction".into(),
        ));
    }
    let path = path(&call);
    let (reader, access) = call
        .core
        .blocking(move || Ok((access.open_file(&path)?, access)))
        .await?;
    let metadata = reader.metadata();
    let tag = tag(&metadata);
    if Conditions::of(&call.headers)?.is_known(&tag) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).with_etag(&tag));
    }
    // A range is useful only to a client that has the rest of the same content (`If-Range`).
    let same = call
        .header(header::IF_RANGE)?
        .is_none_or(|known| known == tag);
    let asked = call.header(header::RANGE)?.filter(|_| same);
    let part = match asked.map_or(Part::All, |text| Part::of(text, metadata.bytes)) {
        Part::None => {
            let reply = Reply::error(&ServerError::Invalid(format!(
                "the file has {} bytes: the requested range is outside of it",
                metadata.bytes
            )));
            return Ok(reply
                .with_status(StatusCode::RANGE_NOT_SATISFIABLE)
                .with(header::CONTENT_RANGE, format!("bytes */{}", metadata.bytes)));
        }
        part => part,
    };
    let (from, count) = match part {
        Part::Some { from, count } => (from, count),
        _ => (0, metadata.bytes),
    };
    let credentials = RequestCredentials::of(&call, &access)?;
    let content = Content {
        reader,
        left: count,
        from: Some(from),
        _access: access,
    };
    let body = lines::body(&call.core, credentials, content, false);
    let mut reply = Reply::stream("application/octet-stream", body)
        .with_etag(&tag)
        .with(header::ACCEPT_RANGES, "bytes")
        .with(header::CONTENT_LENGTH, count.to_string());
    if let Part::Some { from, count } = part {
        let range = format!("bytes {from}-{}/{}", from + count - 1, metadata.bytes);
        reply = reply
            .with_status(StatusCode::PARTIAL_CONTENT)
            .with(header::CONTENT_RANGE, range);
    }
    Ok(reply)
}

/// Which part of a file is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All: no range was requested, or one that may be ignored (several parts, other units).
    All,
    Some {
        from: u64,
        count: u64,
    },
    /// A range outside of the file.
    None,
}

impl Part {
    /// `bytes=FROM-TO`, `bytes=FROM-` or `bytes=-LAST`.
    fn of(text: &str, size: u64) -> Self {
        let Some((from, to)) = text
            .strip_prefix("bytes=")
            .and_then(|range| range.trim().split_once('-'))
        else {
            return Self::All;
        };
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Some(digits.parse::<u64>().unwrap_or(u64::MAX)))
            }
            _ => Err(()),
        };
        let (first, end) = match (number(from), number(to)) {
            (Ok(None), Ok(Some(last))) => (size.saturating_sub(last), size),
            (Ok(Some(from)), Ok(None)) => (from, size),
            (Ok(Some(from)), Ok(Some(to))) if from <= to => (from, to.saturating_add(1).min(size)),
            _ => return Self::All,
        };
        if first >= end {
            return Self::None;
        }
        Self::Some {
            from: first,
            count: end - first,
        }
    }
}

/// A file as the body of an answer: a piece is read when the connection is ready for it.
struct Content {
    reader: FileReader,
    left: u64,
    /// Where to begin; `None` once begun.
    from: Option<u64>,
    _access: DatabaseAccess,
}

impl Source for Content {
    fn piece(&mut self, _: &mut Reserved) -> Result<(Vec<u8>, bool)> {
        let bytes = self
            .read()
            .map_err(|error| ServerError::Unavailable(error.to_string()))?;
        Ok((bytes, self.left > 0))
    }
}

impl Content {
    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        if let Some(from) = self.from.take() {
            self.reader.seek(SeekFrom::Start(from))?;
        }
        let count = usize::try_from(self.left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes)?;
        self.left -= count as u64;
        Ok(bytes)
    }
}

/// `PUT …/file`
pub async fn put(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "a file is written as a whole, in separate transactions: omit Isomer-Transaction"
                .into(),
        ));
    }
    let (path, folders) = (path(&call), call.switch("folders")?);
    let conditions = Conditions::of(&call.headers)?;
    let coding = super::call::Coding::of(&call.headers)?;
    let limits = &call.core.config.limits;
    let (most, pause) = (limits.import_bytes, limits.body_time);
    let (sender, receiver) = mpsc::channel(4);
    let body = std::mem::take(call.body.get_mut());
    let writing = call.core.blocking(move || {
        // Checks preconditions before the body is read.
        let now = access.read(|tx| Ok(tx.files().metadata(&path)?))?;
        conditions.check(now.as_ref().map(tag).as_deref())?;
        let parent = path.trim_end_matches('/').rsplit_once('/');
        if let Some((parent, _)) = parent.filter(|(parent, _)| folders && !parent.is_empty()) {
            access.write(Role::Editor, |tx| -> Result<()> {
                tx.files().create_folders(parent)?;
                Ok(())
            })?;
        }
        let mut writer = access.create_file(&path)?;
        let mut content = Limited::new(coding.reader(Box::new(Pieces::new(receiver)))?, most);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = content.read(&mut piece).map_err(body_error)?;
            if count == 0 {
                break;
            }
            // On errors such as a full disk or a path that is too long, dropping the writer removes what was written.
            writer.write_all(&piece[..count]).map_err(|error| {
                match error.downcast::<isomer_db::Error>() {
                    Ok(error) => ServerError::from(error),
                    Err(error) => ServerError::Unavailable(error.to_string()),
                }
            })?;
        }
        // The check is repeated in the committing transaction: another client may have been faster.
        let mut replaced = false;
        let metadata = writer.finish_if(|now| {
            replaced = now.is_some();
            conditions.check(now.map(tag).as_deref())
        })?;
        let status = match replaced {
            true => StatusCode::NO_CONTENT,
            false => StatusCode::CREATED,
        };
        Ok(Answer::of(status).with_etag(tag(&metadata)))
    });
    let (outcome, ()) = tokio::join!(writing, pump(body, sender, pause));
    outcome.map(|answer| answer.into_reply(false))
}

/// `DELETE …/file`
pub async fn delete(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (path, all) = (path(&call), call.switch("all")?);
    let conditions = Conditions::of(&call.headers)?;
    call.core
        .blocking(move || {
            access.write(Role::Editor, |tx| {
                let files = tx.files();
                let now = files
                    .metadata(&path)?
                    .ok_or_else(|| ServerError::NotFound(format!("no file or folder `{path}`")))?;
                conditions.check(Some(&tag(&now)))?;
                if all {
                    files.remove_all(&path)?;
                } else {
                    files.remove(&path)?;
                }
                Ok(Reply::done())
            })
        })
        .await
}

/// `POST …/file/move`
pub async fn rename(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (from, to) = (path(&call), call.param("to").unwrap_or_default().to_owned());
    let conditions = Conditions::of(&call.headers)?;
    call.core
        .blocking(move || {
            access.write(Role::Editor, |tx| {
                let files = tx.files();
                let now = files.metadata(&from)?;
                // Preconditions refer to the source.
                conditions.check(now.as_ref().map(tag).as_deref())?;
                files.rename(&from, &to)?;
                Ok(Reply::done())
            })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_to_the_content() {
        let part = |from, count| Part::Some { from, count };
        for (text, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 4)),
            ("bytes=7-", part(7, 3)),
            ("bytes=7-99999999999999999999999", part(7, 3)),
            ("bytes=-4", part(6, 4)),
            ("bytes=-40", part(0, 10)),
            ("bytes=10-", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=5-2", Part::All),
            ("bytes=1-2,4-5", Part::All),
            ("lines=1-2", Part::All),
            ("bytes=a-", Part::All),
            ("bytes=--1", Part::All),
            ("", Part::All),
        ] {
            assert_eq!(Part::of(text, 10), expected, "{text}");
        }
        assert_eq!(Part::of("bytes=0-", 0), Part::None);
    }
}
