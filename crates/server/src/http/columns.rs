//! Results as Arrow: what kinds the columns are is taken from the first rows, or said by the client.

use std::collections::VecDeque;

use isomer_db::{Map, Row};

use super::{lines::Source, query::Found};
use crate::{
    Result, ServerError,
    arrow::{self, Column, DoesNotFit, Kind},
    weight,
};

/// Rows that are looked at before the kinds of columns are settled, and about how many bytes of them.
const FIRST_ROWS: usize = 65_536;
const FIRST_BYTES: usize = 4 << 20;
/// Rows and bytes of a batch, at most and about.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// What the client says of columns, by their names.
pub(super) fn kinds_said(types: &Map) -> Result<Vec<(String, Kind)>> {
    let kind = |name: &str, said: Option<&str>| {
        said.and_then(Kind::of_name).ok_or_else(|| {
            ServerError::Invalid(format!(
                "`types.{name}` is no type: bool, int, float, string, bytes, date, time, datetime, localdatetime, duration, json \
                 and, in brackets, lists of them are known"
            ))
        })
    };
    types
        .iter()
        .map(|(name, said)| Ok((name.to_string(), kind(name, said.as_str())?)))
        .collect()
}

/// A result as a stream of batches.
pub(super) struct Batches {
    found: Found,
    said: Vec<(String, Kind)>,
    /// The kinds of the columns, once they are settled.
    kinds: Option<Vec<Kind>>,
    /// Rows that were found to settle them, and are not sent yet.
    waiting: VecDeque<Row>,
}

impl Batches {
    pub(super) fn new(found: Found, said: Vec<(String, Kind)>) -> Result<Self> {
        let unknown = said
            .iter()
            .find(|(name, _)| !found.columns().iter().any(|column| **column == **name));
        match unknown {
            Some((name, _)) => Err(ServerError::Invalid(format!(
                "`types` names a column `{name}` that the result does not have"
            ))),
            None => Ok(Self {
                found,
                said,
                kinds: None,
                waiting: VecDeque::new(),
            }),
        }
    }

    fn next(&mut self) -> Result<Option<Row>> {
        match self.waiting.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.found.next(),
        }
    }

    /// Finds the first rows, and with them the kinds.
    fn settle(&mut self) -> Result<Vec<Kind>> {
        let mut kinds = vec![Kind::Null; self.found.columns().len()];
        let mut bytes = 0;
        while self.waiting.len() < FIRST_ROWS && bytes < FIRST_BYTES {
            let Some(row) = self.found.next()? else { break };
            for (kind, value) in kinds.iter_mut().zip(row.values()) {
                let before = std::mem::replace(kind, Kind::Null);
                *kind = before.or(Kind::of(value));
            }
            bytes += weight::of_row(&row);
            self.waiting.push_back(row);
        }
        for (kind, name) in kinds.iter_mut().zip(self.found.columns()) {
            if let Some((_, said)) = self.said.iter().find(|(known, _)| **known == **name) {
                *kind = said.clone();
            }
        }
        Ok(kinds)
    }

    fn batch(&mut self, kinds: &[Kind], out: &mut Vec<u8>) -> Result<bool> {
        let mut columns: Vec<Column> = kinds.iter().map(Column::new).collect();
        let (mut rows, mut more) = (0, true);
        while rows < BATCH_ROWS && columns.iter().map(Column::bytes).sum::<usize>() < BATCH_BYTES {
            let Some(row) = self.next()? else {
                more = false;
                break;
            };
            for (at, (column, value)) in columns.iter_mut().zip(row.values()).enumerate() {
                column.push(value).map_err(|wrong| self.misfit(at, wrong))?;
            }
            rows += 1;
        }
        if rows > 0 {
            out.extend(arrow::batch(rows, &columns));
        }
        if !more {
            out.extend(arrow::END);
            self.found.end();
        }
        Ok(more)
    }

    fn misfit(&self, at: usize, wrong: DoesNotFit) -> ServerError {
        let name = self.found.columns().get(at).map_or("", |name| &**name);
        ServerError::Invalid(format!(
            "the column `{name}` has begun as {} and a {} does not fit into it: say \"types\": {{\"{name}\": \"json\"}}",
            wrong.column, wrong.value
        ))
    }
}

impl Source for Batches {
    fn piece(&mut self) -> Result<(Vec<u8>, bool)> {
        let mut out = Vec::new();
        let kinds = match self.kinds.take() {
            Some(kinds) => kinds,
            None => {
                let kinds = self.settle()?;
                let names = self.found.columns().iter().map(|name| &**name);
                out = arrow::schema(names.zip(&kinds));
                kinds
            }
        };
        let more = self.batch(&kinds, &mut out)?;
        self.kinds = Some(kinds);
        Ok((out, more))
    }

    fn limit(&mut self) -> super::lines::Limit {
        self.found.limit()
    }

    fn worked(&mut self, time: std::time::Duration) {
        self.found.worked(time);
    }
}
