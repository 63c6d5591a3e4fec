//! Pages: things in their order as one JSON object, which ends early, with where the next one begins, where they are large.

use axum::http::StatusCode;
use isomer_db::{Value, json};

use super::reply::{JSON, Reply};
use crate::{Result, ServerError};

/// Bytes after which a page ends, whatever is left of its number of things.
const PAGE_BYTES: usize = 8 << 20;
/// Stored bytes that are read for a page at once.
pub(super) const READ_BYTES: usize = 1 << 20;

/// A page on its way.
pub(super) struct Page {
    text: String,
    /// Things that it may still take.
    room: usize,
    most: usize,
    is_empty: bool,
}

impl Page {
    /// A page with at most `limit` things under a name, and at most `most` bytes.
    pub(super) fn new(name: &str, limit: usize, most: usize) -> Self {
        Self {
            text: format!("{{\"{name}\":["),
            room: limit,
            most,
            is_empty: true,
        }
    }

    /// How many things it may still take; none where it is large enough.
    pub(super) fn room(&self) -> usize {
        match self.text.len() < PAGE_BYTES {
            true => self.room,
            false => 0,
        }
    }

    /// Puts a thing on it; false where that is for the next one.
    ///
    /// # Errors
    /// [`ServerError::TooLarge`] for a thing that no page has room for.
    pub(super) fn push(&mut self, thing: &Value) -> Result<bool> {
        if self.room() == 0 {
            return Ok(false);
        }
        let before = self.text.len();
        if !self.is_empty {
            self.text.push(',');
        }
        json::write(thing, &mut self.text)?;
        if self.text.len() > self.most {
            if self.is_empty {
                return Err(ServerError::TooLarge(format!(
                    "one thing alone is larger than {} bytes as JSON: ask for it by itself (limits.result)",
                    self.most
                )));
            }
            self.text.truncate(before);
            self.room = 0;
            return Ok(false);
        }
        self.is_empty = false;
        self.room -= 1;
        Ok(true)
    }

    /// The answer, with where the next page begins.
    pub(super) fn finish(mut self, next: Option<String>) -> Result<Reply> {
        self.text.push(']');
        if let Some(next) = next {
            self.text.push_str(",\"next\":");
            json::write(&next.into(), &mut self.text)?;
        }
        self.text.push('}');
        Ok(Reply::whole(StatusCode::OK, JSON, self.text))
    }
}
