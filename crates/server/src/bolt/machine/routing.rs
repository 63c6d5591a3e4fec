//! The routing table, which contains only this server.

use super::*;

impl Machine {
    /// Answers `ROUTE`: this server, under the address that the client uses.
    pub(super) fn route(
        &mut self,
        routing: &Map,
        on: &TransactionParameters,
        out: &mut Outbox,
    ) -> Answered {
        let access = self.access_on(on)?;
        let known = text(routing, "address").ok().flatten();
        let known = known.filter(|address| is_address(address));
        let own = self.core.bolt_address.get().map(ToString::to_string);
        let Some(address) = known.or(own) else {
            return Err(ServerError::Internal("the server has no address".into()).into());
        };
        let server = |role: &str| -> Value {
            Map::from_iter([
                ("addresses", vec![Value::from(address.as_str())].into()),
                ("role", role.into()),
            ])
            .into()
        };
        let table = Map::from_iter([
            ("ttl", Value::Int(ROUTES_LAST_S)),
            ("db", Value::String(access.name().clone())),
            (
                "servers",
                vec![server("ROUTE"), server("READ"), server("WRITE")].into(),
            ),
        ]);
        self.success(out, &[("rt", table.into())]);
        Ok(())
    }
}

/// Whether a text can be an address: a host name or IP address, and a port.
fn is_address(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    text.len() <= 300 && text.chars().all(allowed) && matches!(port, Some(Ok(_)))
}
