//! `db.awaitIndexes([timeoutSeconds])` and `db.awaitIndex(name[, timeoutSeconds])`: scripts that create indexes call
//! them.
//!
//! `CREATE INDEX` returns when its index is complete, so these only wait while another session builds one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_data::IndexState;
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::Value;

use super::{CallContext, Procedure, Registry, settings::refused};
use crate::error::Result;

/// Default timeout.
const DEFAULT_SECONDS: i64 = 300;
/// Polling interval of the catalog.
const PAUSE: Duration = Duration::from_millis(10);

/// Registers the procedures.
pub(super) fn register(registry: &mut Registry) {
    registry.add_procedure(Arc::new(AwaitIndexes::new("db.awaitIndexes", false)));
    registry.add_procedure(Arc::new(AwaitIndexes::new("db.awaitIndex", true)));
}

struct AwaitIndexes {
    signature: Arc<ProcedureSignature>,
    takes_name: bool,
}

impl AwaitIndexes {
    fn new(name: &str, takes_name: bool) -> Self {
        let timeout = ProcedureField {
            name: "timeoutSeconds".into(),
            kind: StaticType::Integer,
            nullable: false,
            default: Some(Value::Int(DEFAULT_SECONDS)),
        };
        let index = ProcedureField {
            name: "indexName".into(),
            kind: StaticType::String,
            nullable: false,
            default: None,
        };
        let mut parameters = if takes_name { vec![index] } else { Vec::new() };
        parameters.push(timeout);
        let signature = ProcedureSignature {
            name: name.into(),
            parameters,
            results: Vec::new(),
            mode: ProcedureMode::Read,
        };
        Self {
            signature: Arc::new(signature),
            takes_name,
        }
    }
}

impl Procedure for AwaitIndexes {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let (name, timeout) = match (self.takes_name, arguments) {
            (true, [name, timeout]) => (name.as_str(), timeout),
            (_, [.., timeout]) => (None, timeout),
            _ => (None, &Value::Null),
        };
        let seconds = timeout.as_int().unwrap_or(DEFAULT_SECONDS);
        let end = Instant::now() + Duration::from_secs(seconds.clamp(0, 1 << 20) as u64);
        loop {
            let catalog = call.transaction.store().catalog();
            let mut wanted = catalog
                .indexes()
                .iter()
                .filter(|index| name.is_none_or(|name| *index.name == *name))
                .peekable();
            if let (Some(name), None) = (name, wanted.peek()) {
                return Err(refused(
                    &self.signature.name,
                    format!("there is no index `{name}`: see SHOW INDEXES"),
                ));
            }
            let Some(building) = wanted.find(|index| index.state == IndexState::Building) else {
                return Ok(());
            };
            if Instant::now() >= end {
                return Err(refused(
                    &self.signature.name,
                    format!(
                        "the index `{}` is not complete after {seconds} s: wait longer",
                        building.name
                    ),
                ));
            }
            call.watch.check()?;
            std::thread::sleep(PAUSE);
        }
    }
}
