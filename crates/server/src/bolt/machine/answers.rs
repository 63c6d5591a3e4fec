//! Answers, and what metrics and the audit log record of them.

use super::*;

impl Machine {
    pub(super) fn success(&self, out: &mut Outbox, entries: &[(&str, Value)]) {
        out.message(|bytes| {
            let mut writer = Writer::new(bytes, self.forms);
            writer.structure(0x70, 1);
            writer.dictionary(entries.len());
            for (name, value) in entries {
                writer.text(name);
                writer.value(value);
            }
        });
    }

    /// Success of a message that begins a transaction: from 5.8 on it contains the database, so that drivers know
    /// which one is the default.
    pub(super) fn success_on(
        &self,
        out: &mut Outbox,
        entries: &[(&str, Value)],
        database: &Arc<str>,
    ) {
        if self.version < Version::new(5, 8) {
            return self.success(out, entries);
        }
        let mut entries = entries.to_vec();
        entries.push(("db", Value::String(database.clone())));
        self.success(out, &entries);
    }

    pub(super) fn ignore(&self, out: &mut Outbox) -> Step {
        out.message(|bytes| bytes.extend_from_slice(&[0xb0, 0x7e]));
        Step::Done
    }

    pub(super) fn fail(
        &mut self,
        message: Option<usize>,
        took: Duration,
        failure: &Failure,
        out: &mut Outbox,
    ) -> Step {
        self.abandon();
        self.failed = true;
        self.busy_since = None;
        out.message(|bytes| {
            failure.write(&mut Writer::new(bytes, self.forms), self.version);
        });
        if failure.status >= 500 {
            tracing::error!(
                code = failure.code,
                error = failure.message,
                "a message of a driver failed"
            );
        }
        self.count(message, failure.status, took);
        self.record(message, failure.status, Some(failure.kind), took);
        Step::Done
    }

    pub(super) fn succeeded(&self, message: Option<usize>, took: Duration) {
        self.count(message, 200, took);
        self.record(message, 200, None, took);
    }

    pub(super) fn count(&self, message: Option<usize>, status: u16, took: Duration) {
        if let Some(number) = message {
            self.core.metrics.message(number, status, took);
        }
    }

    /// Writes a line of the audit log.
    pub(super) fn record(
        &self,
        message: Option<usize>,
        status: u16,
        error: Option<&str>,
        took: Duration,
    ) {
        let name = message.map_or("?", |number| MESSAGES[number].name);
        let class = match (self.audit_details.class, name) {
            (Some(class), _) => class,
            (None, "HELLO" | "LOGON" | "LOGOFF" | "?") => "session",
            (None, _) => "read",
        };
        let who = self.client.as_ref().map(|who| &who.principal);
        self.core.audit.record(&Event {
            user: who
                .map(|principal| &*principal.name)
                .or(self.audit_details.user.as_deref()),
            token: who.and_then(|principal| principal.token.as_deref()),
            from: self.from,
            action: &format!("BOLT {name}"),
            database: self.audit_details.database.as_deref(),
            target: None,
            class,
            status,
            error,
            took_ms: took.as_secs_f64() * 1e3,
        });
    }
}
