//! The parts of temporal values.

use std::sync::Arc;

use crate::Datum;
use crate::calendar::{Clock, Date, Offset};

/// The date, the time of day and the clock of a value, as far as it has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) date: Option<Date>,
    pub(super) clock: Option<Clock>,
    pub(super) offset: Option<Offset>,
    pub(super) zone: Option<Arc<str>>,
}

impl Parts {
    pub(super) fn of(value: &Datum) -> Option<Self> {
        let (date, clock, offset) = match value {
            Datum::Date(date) => (Some(*date), None, None),
            Datum::LocalTime(clock) => (None, Some(*clock), None),
            Datum::Time(clock, offset) => (None, Some(*clock), Some(*offset)),
            Datum::LocalDateTime(date, clock) => (Some(*date), Some(*clock), None),
            Datum::DateTime(moment) => {
                return Some(Self {
                    date: Some(moment.date),
                    clock: Some(moment.clock),
                    offset: Some(moment.offset),
                    zone: moment.zone.clone(),
                });
            }
            _ => return None,
        };
        Some(Self {
            date,
            clock,
            offset,
            zone: None,
        })
    }
}
