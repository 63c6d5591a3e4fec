//! Results: opened by `RUN`, consumed in batches by `PULL` and `DISCARD`.

use super::{
    transactions::{bookmark, expired, in_transaction},
    *,
};
use crate::use_clause::UseClause;

impl Machine {
    pub(super) fn open_result(
        &mut self,
        text: String,
        parameters: Map,
        on: &TransactionParameters,
        out: &mut Outbox,
    ) -> Answered {
        let began = Instant::now();
        if let Some(why) = self.expired.take() {
            return Err(why.into());
        }
        let (database, text) = match UseClause::of(&text) {
            Some(clause) => (Some(clause.database), clause.rest),
            None => (None, text),
        };
        if let (Some(transaction), Some(name)) = (&self.transaction, &database) {
            let own = transaction.database.clone();
            self.check_database(&own, name)?;
        }
        let mut statement = match self.transaction.take() {
            None => {
                let access = match database {
                    None => self.access_on(on)?,
                    database => self.access_on(&TransactionParameters {
                        database,
                        ..on.clone()
                    })?,
                };
                let terms = RunParameters {
                    reads_only: on.reads_only,
                    end: on.time.and_then(|time| began.checked_add(time)),
                    notification_filter: on.notifications.clone().unwrap_or(self.wanted.clone()),
                };
                Statement::open(&self.core, &self.signal, access, text, parameters, terms)?
            }
            Some(mut transaction) => {
                let opened = self.open_in(&mut transaction, text, parameters);
                self.transaction = Some(transaction);
                opened?
            }
        };
        // Until its rows are requested.
        statement.pause();
        self.audit_details.class = Some(statement.class().name());
        let columns: Value = statement
            .columns()
            .iter()
            .map(|column| Value::String(column.clone()))
            .collect();
        let first_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let entries = [("fields", columns), ("t_first", first_ms.into())];
        match &mut self.transaction {
            None => {
                let database = statement.access().name().clone();
                self.success_on(out, &entries, &database);
                self.result = Some(statement);
            }
            Some(transaction) => {
                let number = transaction.next;
                transaction.next += 1;
                transaction.results.push((number, statement));
                let [fields, first] = entries;
                let number = Value::Int(number.cast_signed());
                self.success(out, &[fields, first, ("qid", number)]);
            }
        }
        Ok(())
    }

    /// Fails unless `USE name` names the database of the open transaction.
    fn check_database(&mut self, own: &str, name: &str) -> Answered {
        let principal = self.principal()?;
        if *self.core.resolve(name, &principal) == *own {
            return Ok(());
        }
        let message = format!(
            "the transaction is on the database `{own}`, and a transaction has one database: begin another one for `{name}`"
        );
        Err(Failure::of_code("Neo.ClientError.Statement.ArgumentError", message).into())
    }

    /// Opens a result in a transaction.
    pub(super) fn open_in(
        &mut self,
        transaction: &mut ExplicitTransaction,
        text: String,
        parameters: Map,
    ) -> Answered<Statement> {
        if transaction.results.len() >= MAX_RESULTS {
            return Err(ServerError::TooLarge(format!(
                "the transaction has {MAX_RESULTS} open results, which is the limit: consume or discard some"
            ))
            .into());
        }
        let open = |machine: &mut Self| -> Answered<Statement> {
            let database = transaction.database.clone();
            let access = machine.access(Some(&database), Some(transaction.open.clone()))?;
            let terms = RunParameters {
                reads_only: transaction.reads_only,
                end: transaction.end,
                notification_filter: transaction.wanted.clone(),
            };
            Statement::open(
                &machine.core,
                &machine.signal,
                access,
                text.clone(),
                parameters.clone(),
                terms,
            )
            .map_err(|failure| MessageError::Failed(expired(failure)))
        };
        let mut statement = open(self)?;
        transaction.class = transaction.class.max(statement.class());
        transaction.replay = None;
        if !statement.writes() {
            return Ok(statement);
        }
        let kept: usize = transaction
            .results
            .iter()
            .map(|(_, result)| result.kept_bytes())
            .sum();
        let mut left_to_keep = self.core.config.limits.result_bytes.saturating_sub(kept);
        let mut unread: Vec<_> = transaction
            .results
            .iter_mut()
            .filter(|(_, result)| !result.has_ended())
            .collect();
        if !unread.is_empty() {
            // Open results must not see this statement's writes.
            drop(statement);
            for (_, result) in &mut unread {
                result
                    .find_all(&mut left_to_keep)
                    .map_err(|error| match error {
                        // Nothing was written, so the message can be retried.
                        ServerError::TooMany { .. } if self.may_wait() => MessageError::Busy,
                        error => in_transaction(&error).into(),
                    })?;
            }
            statement = open(self)?;
        }
        statement
            .write_now()
            .map_err(|error| in_transaction(&error))?;
        let says_nothing = statement.columns().is_empty() && statement.plan().is_none();
        if transaction.next == 0 && says_nothing && statement.class() == StatementClass::Write {
            transaction.replay = Some(Replay {
                text,
                parameters,
                counters: statement.counters(),
            });
        }
        Ok(statement)
    }

    /// Begins a `PULL` or `DISCARD`; [`Machine::resume`] sends the rows.
    pub(super) fn take(&mut self, take: PullParameters, keep: bool, tag: u8) -> Answered<Step> {
        drop(self.expire_if_due());
        if let Some(why) = self.expired.take() {
            return Err(why.into());
        }
        let mut result = None;
        if let Some(transaction) = &self.transaction {
            let number = match take.result {
                Some(number) => Some(number),
                None => transaction.next.checked_sub(1),
            };
            let known = transaction.results.iter().map(|(number, _)| *number);
            result = known.into_iter().find(|known| Some(*known) == number);
            if result.is_none() {
                return Err(MessageError::Protocol("no such result is open".into()));
            }
        }
        self.taking = Some(Pull {
            message: number_of(tag).unwrap_or_default(),
            left: take.count,
            keep,
            result,
            worked: Duration::ZERO,
        });
        Ok(Step::More)
    }

    /// Sends rows until the output buffer is full.
    pub(super) fn resume(&mut self, out: &mut Outbox) -> Step {
        let began = Instant::now();
        let Some(mut taking) = self.taking.take() else {
            return Step::Done;
        };
        if self.signal.is_interrupted() {
            return self.ignore(out);
        }
        // Its deadline may have passed while the client was reading earlier rows.
        if let Some(why) = self.expired.take() {
            return self.stop_taking(&taking, why.into(), out);
        }
        // Send the answers to earlier messages first, as the rows may take long.
        if taking.worked.is_zero() && out.len() > 0 {
            self.signal.hand_over(out.drain());
        }
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        let (database, class) = (statement.access().name().clone(), statement.class());
        self.audit_details = AuditDetails {
            database: Some(database.clone()),
            class: Some(class.name()),
            ..AuditDetails::default()
        };
        if let Err(stop) = self.check_right(&database, class) {
            return self.stop_taking(&taking, stop, out);
        }
        let (forms, may_wait) = (self.forms, self.may_wait());
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        match statement.resume() {
            Ok(()) => self.busy_since = None,
            Err(ServerError::TooMany { .. }) if may_wait => {
                self.busy_since.get_or_insert_with(Instant::now);
                self.taking = Some(taking);
                return Step::Busy;
            }
            Err(error) => return self.stop_taking(&taking, error.into(), out),
        }
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        let taken = statement.take(&mut taking.left, taking.keep, out, forms);
        statement.pause();
        taking.worked += began.elapsed();
        let (message, worked) = (taking.message, taking.worked);
        match taken {
            Ok(Consumed::Piece) => {
                self.taking = Some(taking);
                Step::More
            }
            Ok(Consumed::Enough) => {
                self.success(out, &[("has_more", true.into())]);
                self.count(Some(message), 200, worked);
                Step::Done
            }
            Ok(Consumed::All) => {
                let number = taking.result;
                let ended = match (number, &mut self.transaction) {
                    (Some(number), Some(transaction)) => {
                        let at = transaction
                            .results
                            .iter()
                            .position(|(known, _)| *known == number);
                        at.map(|at| transaction.results.remove(at).1)
                    }
                    _ => self.result.take(),
                };
                if let Some(mut statement) = ended {
                    self.end_result(&statement, out);
                    statement.log_if_slow();
                }
                self.succeeded(Some(message), worked);
                Step::Done
            }
            Err(error) => {
                let cancelled = error.kind() == ErrorKind::Cancelled.name();
                if cancelled && self.signal.is_interrupted() {
                    return self.ignore(out);
                }
                if let Some(statement) = self.result_of(&taking) {
                    statement.log_if_slow();
                }
                let failure = if taking.result.is_some() {
                    in_transaction(&error)
                } else {
                    Failure::of(&error)
                };
                self.fail(Some(message), worked, &failure, out)
            }
        }
    }

    /// The result of the `PULL` in progress.
    pub(super) fn result_of(&mut self, taking: &Pull) -> Option<&mut Statement> {
        match (taking.result, &mut self.transaction) {
            (Some(number), Some(transaction)) => transaction
                .results
                .iter_mut()
                .find(|(known, _)| *known == number)
                .map(|(_, statement)| statement),
            _ => self.result.as_mut(),
        }
    }

    /// Answers the `PULL` in progress with a failure.
    pub(super) fn stop_taking(
        &mut self,
        taking: &Pull,
        stop: MessageError,
        out: &mut Outbox,
    ) -> Step {
        let failure = match stop {
            MessageError::Failed(failure) => failure,
            MessageError::Protocol(what) => Failure::protocol(what),
            MessageError::Busy => return Step::Busy,
        };
        if let Some(statement) = self.result_of(taking) {
            statement.stopped_by(failure.kind);
        }
        self.fail(Some(taking.message), taking.worked, &failure, out)
    }

    /// Writes the summary after the last row.
    pub(super) fn end_result(&mut self, statement: &Statement, out: &mut Outbox) {
        let has_columns = !statement.columns().is_empty();
        let last_ms = statement.began().elapsed().as_millis();
        let database = statement.access().name().clone();
        let mut entries: Vec<(&str, Value)> = Vec::with_capacity(8);
        entries.push(("type", summary::kind(statement.class(), has_columns).into()));
        entries.push(("t_last", i64::try_from(last_ms).unwrap_or(i64::MAX).into()));
        entries.push(("db", Value::String(database.clone())));
        if let Some(version) = statement.version() {
            entries.push(("bookmark", bookmark(&database, version).into()));
        }
        if let Some(stats) = summary::stats(&statement.counters()) {
            entries.push(("stats", stats));
        }
        if let Some((plan, profiled)) = statement.plan()
            && let Some(plan) = summary::plan(&plan, profiled)
        {
            entries.push((if profiled { "profile" } else { "plan" }, plan));
        }
        let (notices, text, wanted) = (
            statement.notices(),
            statement.text(),
            statement.notification_filter(),
        );
        if self.version >= Version::new(5, 6) {
            let rows = statement.rows() > 0;
            let statuses = summary::statuses(&notices, text, wanted, has_columns, rows);
            entries.push(("statuses", statuses));
        } else if let Some(notifications) = summary::notifications(&notices, text, wanted) {
            entries.push(("notifications", notifications));
        }
        self.success(out, &entries);
    }
}
