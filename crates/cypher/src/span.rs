//! Source positions in a query text.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A half-open range of bytes of the query text.
///
/// All spans compare equal: two trees are equal if they mean the same, wherever they were written. Passes
/// rely on this for `==` on trees, for instance to find a grouping key again in `ORDER BY`.
#[derive(Clone, Copy, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self {
            start: clamp(start),
            end: clamp(end),
        }
    }

    /// From the start of `self` to the end of `last`.
    pub fn to(self, last: Span) -> Self {
        Self {
            start: self.start,
            end: last.end.max(self.start),
        }
    }

    /// As a range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text of this span; empty if the span does not fit `text`.
    pub fn slice(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or("")
    }
}

fn clamp(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Span {}

impl std::hash::Hash for Span {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// How something was written. As with spans, all values compare equal.
#[derive(Clone, Default)]
pub struct SourceText(pub Arc<str>);

impl PartialEq for SourceText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SourceText {}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
