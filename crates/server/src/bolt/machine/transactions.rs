//! Transactions of several statements, and bookmarks.

use super::*;

impl Machine {
    pub(super) fn begin(&mut self, on: &On, out: &mut Outbox) -> Answered {
        let access = self.access_on(on)?;
        let transaction = access.begin(on.reads_only)?;
        let opened = self.core.open.add_of_connection(
            &access.principal().name,
            access.name(),
            transaction,
            on.time,
        );
        let open = match opened {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(Stop::Busy),
            opened => opened?,
        };
        let database = access.name().clone();
        self.success_on(out, &[], &database);
        self.transaction = Some(Explicit {
            open,
            database,
            reads_only: on.reads_only,
            end: on.time.map(|time| Instant::now() + time),
            wanted: on.notifications.clone().unwrap_or(self.wanted.clone()),
            class: StatementClass::Read,
            results: Vec::new(),
            next: 0,
        });
        Ok(())
    }

    pub(super) fn commit(&mut self, out: &mut Outbox) -> Answered {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        let (database, class) = (transaction.database.clone(), transaction.class);
        self.told.database = Some(database.clone());
        self.told.class = Some(if transaction.reads_only {
            "read"
        } else {
            "write"
        });
        self.check_right(&database, class)?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(());
        };
        self.taking = None;
        // What they write was written when they were run.
        let results = std::mem::take(&mut transaction.results);
        let committed = self.core.open.commit(&transaction.open);
        let version = committed.map_err(|error| in_transaction(&error))?;
        for (_, mut result) in results {
            result.leave();
        }
        let bookmark = bookmark(&transaction.database, version);
        self.success(out, &[("bookmark", bookmark.into())]);
        Ok(())
    }
}

/// What happens in a transaction of several statements: where that is not there any more, its time was over.
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
pub(super) fn bookmark(database: &str, version: u64) -> String {
    format!("isomer:{database}:{version}")
}

/// Refuses bookmarks that are none, and those of versions that are not there yet. Those of other databases say nothing here.
pub(super) fn check_bookmarks(access: &Access, bookmarks: &[String]) -> Answered {
    for bookmark in bookmarks {
        let parsed = bookmark
            .strip_prefix("isomer:")
            .and_then(|rest| rest.rsplit_once(':'))
            .and_then(|(database, version)| Some((database, version.parse::<u64>().ok()?)));
        let Some((database, version)) = parsed else {
            let message = format!(
                "`{}` is no bookmark of this server",
                bookmark.chars().take(60).collect::<String>()
            );
            return Err(
                Failure::of_code("Neo.ClientError.Transaction.InvalidBookmark", message).into(),
            );
        };
        if *database == **access.name() && version > access.version()? {
            let message = format!(
                "the bookmark is of version {version} and the database has {}: try again",
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
