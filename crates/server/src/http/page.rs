//! Pages: ordered items as one JSON object, which ends early if they are large, with a cursor for the next page.

use axum::http::StatusCode;
use isomer_db::{Value, json};

use super::reply::{JSON, Reply};
use crate::{Result, ServerError};

/// Bytes after which a page ends, whatever its limit on items.
const PAGE_BYTES: usize = 8 << 20;
/// Stored bytes that are read per lookup.
pub(super) const READ_BYTES: usize = 1 << 20;

/// A page under construction.
pub(super) struct Page {
    text: String,
    /// Items that still fit.
    room: usize,
    most: usize,
    is_empty: bool,
}

impl Page {
    /// A page of at most `limit` items under a name, and at most `most` bytes.
    pub(super) fn new(name: &str, limit: usize, most: usize) -> Self {
        Self {
            text: format!("{{\"{name}\":["),
            room: limit,
            most,
            is_empty: true,
        }
    }

    /// Number of items that still fit; 0 if the page is large enough.
    pub(super) fn room(&self) -> usize {
        match self.text.len() < PAGE_BYTES {
            true => self.room,
            false => 0,
        }
    }

    /// Appends an item; returns false if it belongs to the next page.
    ///
    /// # Errors
    ///
    /// [`ServerError::TooLarge`] if an item exceeds the size of a page.
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
                    "one item exceeds {} bytes as JSON: request it individually (limits.result)",
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

    /// The answer, with the cursor of the next page.
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
