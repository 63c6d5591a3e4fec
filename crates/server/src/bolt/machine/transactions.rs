//! Explicit transactions, and bookmarks.

use super::*;

impl Machine {
    pub(super) fn begin(&mut self, on: &TransactionParameters, out: &mut Outbox) -> Answered {
        let access = self.access_on(on)?;
        let transaction = access.begin(on.reads_only)?;
        let opened = self.core.open.add_of_connection(
            &access.principal().name,
            access.name(),
            transaction,
            on.time,
        );
        let open = match opened {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(MessageError::Busy),
            opened => opened?,
        };
        if let Some(metadata) = &on.metadata {
            *open.metadata().lock() = metadata.clone();
        }
        let database = access.name().clone();
        self.success_on(out, &[], &database);
        self.transaction = Some(ExplicitTransaction {
            open,
            database,
            reads_only: on.reads_only,
            end: on.time.and_then(|time| Instant::now().checked_add(time)),
            wanted: on.notifications.clone().unwrap_or(self.wanted.clone()),
            class: StatementClass::Read,
            results: Vec::new(),
            next: 0,
            replay: None,
        });
        Ok(())
    }

    pub(super) fn commit(&mut self, out: &mut Outbox) -> Answered {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        let (database, class) = (transaction.database.clone(), transaction.class);
        self.audit_details.database = Some(database.clone());
        self.audit_details.class = Some(if transaction.reads_only {
            "read"
        } else {
            "write"
        });
        self.check_right(&database, class)?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(());
        };
        self.taking = None;
        if transaction.end.is_some_and(|end| end <= Instant::now()) {
            transaction.results.clear();
            // The sweep may have rolled it back already.
            let _ = self.core.open.rollback(&transaction.open);
            return Err(ServerError::TooSlow(
                "the transaction exceeded the timeout of its client and was rolled back".into(),
            )
            .into());
        }
        // Writing statements have written when they ran, so their remaining rows can be dropped.
        let results = std::mem::take(&mut transaction.results);
        let committed = self.core.open.commit(&transaction.open);
        let committed = match (committed, transaction.replay.take()) {
            (Err(lost), Some(replay)) if lost.kind() == ErrorKind::Retry.name() => {
                self.run_again(&transaction, &replay)?.ok_or(lost)
            }
            (committed, _) => committed,
        };
        let version = committed.map_err(|error| in_transaction(&error))?;
        for (_, mut result) in results {
            result.leave();
        }
        let bookmark = bookmark(&transaction.database, version);
        self.success(out, &[("bookmark", bookmark.into())]);
        Ok(())
    }
}

impl Machine {
    /// Runs the only statement of a transaction again, until it commits; none if its counters differ from what the
    /// client knows, or it loses every race.
    fn run_again(
        &mut self,
        transaction: &ExplicitTransaction,
        replay: &Replay,
    ) -> Answered<Option<u64>> {
        let Ok(mut access) = self.access(Some(&transaction.database), None) else {
            // At the concurrency limit: the client tries again.
            return Ok(None);
        };
        access.set_metadata(&transaction.open.metadata().lock());
        let mut options = access
            .query_options()
            .map_err(|error| Failure::of(&error))?;
        if let Some(end) = transaction.end {
            let left = end.saturating_duration_since(Instant::now());
            if let Some(limits) = &mut options.limits {
                limits.time = Some(limits.time.map_or(left, |time| time.min(left)));
            }
        }
        let again = access.run_again(&replay.text, &replay.parameters, &options, &replay.counters);
        match again {
            Err(error) if error.kind() == ErrorKind::Retry.name() => Ok(None),
            again => Ok(again.map_err(|error| in_transaction(&error))?),
        }
    }
}

/// Failure of a statement in an explicit transaction: a missing transaction has timed out.
pub(super) fn in_transaction(error: &ServerError) -> Failure {
    let failure = Failure::of(error);
    match error {
        ServerError::NotFound(_) => expired(failure),
        _ => failure,
    }
}

pub(super) fn expired(failure: Failure) -> Failure {
    if failure.kind == "NotFound" && failure.code == "Neo.ClientError.Statement.EntityNotFound" {
        return failure.with_code("Neo.ClientError.Transaction.TransactionTimedOut");
    }
    failure
}

/// `isomer:DATABASE:VERSION`.
pub(crate) fn bookmark(database: &str, version: u64) -> String {
    format!("isomer:{database}:{version}")
}

/// Fails for invalid bookmarks and for versions that do not exist yet. Bookmarks of other databases are ignored.
pub(super) fn check_bookmarks(access: &DatabaseAccess, bookmarks: &[String]) -> Answered {
    for bookmark in bookmarks {
        let parsed = bookmark
            .strip_prefix("isomer:")
            .and_then(|rest| rest.rsplit_once(':'))
            .and_then(|(database, version)| Some((database, version.parse::<u64>().ok()?)));
        let Some((database, version)) = parsed else {
            let message = format!(
                "`{}` is not a bookmark of this server",
                bookmark.chars().take(60).collect::<String>()
            );
            return Err(
                Failure::of_code("Neo.ClientError.Transaction.InvalidBookmark", message).into(),
            );
        };
        if *database == **access.name() && version > access.version()? {
            let message = format!(
                "the bookmark is of version {version}, the database is at {}: retry later",
                access.version()?
            );
            return Err(Failure::of_code(
                "Neo.TransientError.Transaction.BookmarkTimeout",
                message,
            )
            .into());
        }
    }
    Ok(())
}
