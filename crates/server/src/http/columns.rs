//! Results as Arrow: column types are inferred from the first rows, or given by the client.

use std::collections::VecDeque;

use isomer_db::{Map, Row};

use super::{lines::Source, rows::RowSource};
use crate::{
    Result, ServerError,
    arrow::{self, Column, DoesNotFit, Kind},
    sending::Reserved,
    weight,
};

/// Rows from which types are inferred, and approximate bytes of them.
const FIRST_ROWS: usize = 65_536;
const FIRST_BYTES: usize = 4 << 20;
/// Maximum rows and approximate bytes of a batch.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// Column types that the client gives, by name.
pub(super) fn kinds_said(types: &Map) -> Result<Vec<(String, Kind)>> {
    let kind = |name: &str, said: Option<&str>| {
        said.and_then(Kind::of_name).ok_or_else(|| {
            ServerError::Invalid(format!(
                "invalid type in `types.{name}`: expected bool, int, float, string, bytes, date, time, datetime, localdatetime, \
                 duration, json or, in brackets, a list of one of them"
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
    source: RowSource,
    said: Vec<(String, Kind)>,
    /// Types of the columns, once inferred.
    kinds: Option<Vec<Kind>>,
    /// Rows that were read for inference and are not sent yet.
    waiting: VecDeque<Row>,
    /// What these have of the memory budget.
    reserved: Reserved,
}

impl Batches {
    pub(super) fn new(
        source: RowSource,
        said: Vec<(String, Kind)>,
        reserved: Reserved,
    ) -> Result<Self> {
        let unknown = said
            .iter()
            .find(|(name, _)| !source.columns().iter().any(|column| **column == **name));
        match unknown {
            Some((name, _)) => Err(ServerError::Invalid(format!(
                "`types` names a column `{name}` that is not in the result"
            ))),
            None => Ok(Self {
                source,
                said,
                kinds: None,
                waiting: VecDeque::new(),
                reserved,
            }),
        }
    }

    fn next(&mut self) -> Result<Option<Row>> {
        match self.waiting.pop_front() {
            Some(row) => Ok(Some(row)),
            None => {
                drop(self.reserved.take());
                self.source.next()
            }
        }
    }

    /// Reads the first rows, as many as there is room for, and infers the types.
    fn infer_kinds(&mut self) -> Result<Vec<Kind>> {
        let mut kinds = vec![Kind::Null; self.source.columns().len()];
        let mut bytes = 0;
        while self.waiting.len() < FIRST_ROWS && bytes < FIRST_BYTES {
            let Some(row) = self.source.next()? else {
                break;
            };
            for (kind, value) in kinds.iter_mut().zip(row.values()) {
                let before = std::mem::replace(kind, Kind::Null);
                *kind = before.or(Kind::of(value));
            }
            bytes += weight::of_row(&row);
            self.waiting.push_back(row);
            if self.reserved.resize(bytes).is_err() {
                break;
            }
        }
        for (kind, name) in kinds.iter_mut().zip(self.source.columns()) {
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
            assert_eq!(
                row.values().len(),
                columns.len(),
                "a row has one value per column"
            );
            for (at, (column, value)) in columns.iter_mut().zip(row.values()).enumerate() {
                column
                    .push(value)
                    .map_err(|wrong| self.column_mismatch(at, wrong))?;
            }
            rows += 1;
        }
        if rows > 0 {
            out.extend(arrow::batch(rows, &columns));
        }
        if !more {
            out.extend(arrow::END);
            self.source.end();
        }
        Ok(more)
    }

    fn column_mismatch(&self, at: usize, wrong: DoesNotFit) -> ServerError {
        let name = self.source.columns().get(at).map_or("", |name| &**name);
        ServerError::Invalid(format!(
            "the column `{name}` began as {}, which a {} does not fit: request \"types\": {{\"{name}\": \"json\"}}",
            wrong.column, wrong.value
        ))
    }
}

impl Source for Batches {
    fn piece(&mut self, _: &mut Reserved) -> Result<(Vec<u8>, bool)> {
        let mut out = Vec::new();
        let kinds = match self.kinds.take() {
            Some(kinds) => kinds,
            None => {
                let kinds = self.infer_kinds()?;
                let names = self.source.columns().iter().map(|name| &**name);
                out = arrow::schema(names.zip(&kinds));
                kinds
            }
        };
        let more = self.batch(&kinds, &mut out)?;
        self.kinds = Some(kinds);
        Ok((out, more))
    }

    fn limit(&mut self) -> super::lines::Limit {
        self.source.limit()
    }

    fn record_time(&mut self, time: std::time::Duration) {
        self.source.record_time(time);
    }

    fn end(&self) -> Option<std::time::Instant> {
        self.source.deadline()
    }

    fn expire(self) -> Result<Vec<u8>> {
        Err(self.source.expire())
    }
}
