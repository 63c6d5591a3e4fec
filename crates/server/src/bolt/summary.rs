//! The summary after the last row: counters, plan, notifications.

use isomer_db::{Counters, Map, Notice, StatementClass, Value, params};

use super::message::NotificationFilter;

/// The statement type that drivers expect.
pub fn kind(class: StatementClass, has_columns: bool) -> &'static str {
    match class {
        StatementClass::Write if has_columns => "rw",
        StatementClass::Write => "w",
        StatementClass::Schema => "s",
        // `Read` and `Admin`.
        _ => "r",
    }
}

/// Counters in the terms of drivers; `None` without changes. They have no counters for buckets: `contains-updates`
/// says that something changed.
pub fn stats(counters: &Counters) -> Option<Value> {
    if counters.is_empty() {
        return None;
    }
    let counts = [
        ("nodes-created", counters.nodes_created),
        ("nodes-deleted", counters.nodes_deleted),
        ("relationships-created", counters.relationships_created),
        ("relationships-deleted", counters.relationships_deleted),
        ("properties-set", counters.properties_set),
        ("labels-added", counters.labels_added),
        ("labels-removed", counters.labels_removed),
        ("indexes-added", counters.indexes_added),
        ("indexes-removed", counters.indexes_removed),
        ("constraints-added", counters.constraints_added),
        ("constraints-removed", counters.constraints_removed),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let number = |count| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    let mut stats: Map = counts.map(|(name, count)| (name, number(count))).collect();
    stats.insert("contains-updates", true.into());
    Some(stats.into())
}

/// What the JSON form of a plan says of an operator, and its name in `args`.
const ARGUMENTS: [(&str, &str); 11] = [
    ("details", "Details"),
    ("role", "Role"),
    ("rows", "EstimatedRows"),
    ("memory_bytes", "Memory"),
    ("spilled_bytes", "SpilledBytes"),
    ("from_view", "FromView"),
    ("calls", "Calls"),
    ("own_time_ms", "OwnTimeMs"),
    ("ran", "Ran"),
    ("fell_back", "FellBack"),
    ("threads", "Threads"),
];

/// Nesting limit of plans.
const MAX_PLAN_DEPTH: usize = 60;

/// The plan of `EXPLAIN` or `PROFILE` as drivers expect it: `{operatorType, identifiers, args, children}`, with
/// `rows`, `time` (in nanoseconds) and `dbHits` (not counted, 0) after `PROFILE`. All else that the JSON form of a plan
/// says of an operator is in `args`. `None` for a plan nested too deeply.
pub fn plan(value: &Value, profiled: bool) -> Option<Value> {
    let root = value.as_map()?.get("plan")?;
    let mut plan = operator(root, profiled, 0)?;
    let columns = value.as_map()?.get("columns").cloned();
    plan.insert("identifiers", columns.unwrap_or_else(Value::empty_list));
    Some(plan.into())
}

/// Recursion is bounded by [`MAX_PLAN_DEPTH`].
fn operator(value: &Value, profiled: bool, depth: usize) -> Option<Map> {
    if depth > MAX_PLAN_DEPTH {
        return None;
    }
    let entries = value.as_map()?;
    let get = |name: &str| entries.get(name).cloned().unwrap_or_default();
    let mut args = Map::new();
    for (name, under) in ARGUMENTS {
        if let Some(value) = entries.get(name) {
            args.insert(under, value.clone());
        }
    }
    let mut children: Vec<Value> = Vec::new();
    for input in entries
        .get("inputs")
        .and_then(Value::as_list)
        .unwrap_or_default()
    {
        children.push(operator(input, profiled, depth + 1)?.into());
    }
    let mut plan = params! {
        "operatorType" => get("operator"),
        "identifiers" => Value::empty_list(),
        "args" => args,
        "children" => children,
    };
    if profiled {
        let time_ms = get("time_ms").to_f64().unwrap_or_default();
        plan.insert(
            "rows",
            get("actual_rows").as_int().unwrap_or_default().into(),
        );
        plan.insert("time", Value::Int((time_ms * 1e6) as i64));
        plan.insert("dbHits", 0.into());
    }
    Some(plan)
}

/// A notice in the terms of drivers.
struct Notification {
    code: &'static str,
    title: &'static str,
    severity: &'static str,
    category: &'static str,
    status: &'static str,
}

fn notification(notice: &Notice) -> Notification {
    let (code, title, status) = match notice.code {
        "UnknownLabel" => (
            "Neo.ClientNotification.Statement.UnknownLabelWarning",
            "The provided label is not in the database.",
            "01N50",
        ),
        "UnknownType" => (
            "Neo.ClientNotification.Statement.UnknownRelationshipTypeWarning",
            "The provided relationship type is not in the database.",
            "01N51",
        ),
        "UnknownProperty" | "UnknownPropertyKey" => (
            "Neo.ClientNotification.Statement.UnknownPropertyKeyWarning",
            "The provided property key is not in the database.",
            "01N52",
        ),
        "CartesianProduct" => {
            return Notification {
                code: "Neo.ClientNotification.Statement.CartesianProduct",
                title: "This query builds a cartesian product between disconnected patterns.",
                severity: "INFORMATION",
                category: "PERFORMANCE",
                status: "03N90",
            };
        }
        _ => {
            return Notification {
                code: "Neo.ClientNotification.Statement.Notice",
                title: "Something worth knowing.",
                severity: "INFORMATION",
                category: "GENERIC",
                status: "03N42",
            };
        }
    };
    Notification {
        code,
        title,
        severity: "WARNING",
        category: "UNRECOGNIZED",
        status,
    }
}

impl NotificationFilter {
    fn takes(&self, notification: &Notification) -> bool {
        let severe_enough = match self.least.as_deref() {
            Some("OFF") => false,
            Some("WARNING") => notification.severity == "WARNING",
            _ => true,
        };
        let category = notification.category;
        severe_enough
            && !self
                .without
                .iter()
                .any(|one| one.eq_ignore_ascii_case(category))
    }
}

/// Position in a text: byte offset, line, column.
fn position(text: &str, offset: usize) -> Value {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    let number = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    params! {
        "offset" => number(before.chars().count()),
        "line" => number(line),
        "column" => number(column),
    }
    .into()
}

/// The notices that pass the client's filter, in the form of versions before 5.6.
pub fn notifications(notices: &[Notice], text: &str, wanted: &NotificationFilter) -> Option<Value> {
    let all: Vec<Value> = notices
        .iter()
        .map(|notice| (notice, notification(notice)))
        .filter(|(_, known)| wanted.takes(known))
        .map(|(notice, known)| {
            let mut notification = params! {
                "code" => known.code,
                "title" => known.title,
                "description" => notice.message.as_str(),
                "severity" => known.severity,
                "category" => known.category,
            };
            if let Some((start, _)) = notice.span {
                notification.insert("position", position(text, start));
            }
            notification.into()
        })
        .collect();
    (!all.is_empty()).then(|| all.into())
}

/// All notices, in the form of versions before 5.6.
pub fn all_notifications(notices: &[Notice], text: &str) -> Option<Value> {
    notifications(notices, text, &NotificationFilter::default())
}

/// The status of a result and the notices that pass the client's filter, in the form of versions from 5.6 on, in the
/// order no data, warnings, success, information.
pub fn statuses(
    notices: &[Notice],
    text: &str,
    wanted: &NotificationFilter,
    columns: bool,
    rows: bool,
) -> Value {
    let (own, description, rank) = match (columns, rows) {
        (_, true) => ("00000", "note: successful completion", 2),
        (true, false) => ("02000", "note: no data", 0),
        (false, false) => ("00001", "note: successful completion - omitted result", 2),
    };
    let own = params! { "gql_status" => own, "status_description" => description };
    let mut all = vec![(rank, Value::from(own))];
    for notice in notices {
        let known = notification(notice);
        if !wanted.takes(&known) {
            continue;
        }
        let mut record = params! {
            "_severity" => known.severity,
            "_classification" => known.category,
        };
        if let Some((start, _)) = notice.span {
            record.insert("_position", position(text, start));
        }
        let prefix = if known.severity == "WARNING" {
            "warn"
        } else {
            "info"
        };
        let status = params! {
            "gql_status" => known.status,
            "status_description" => format!("{prefix}: {}", notice.message),
            "neo4j_code" => known.code,
            "title" => known.title,
            "description" => notice.message.as_str(),
            "diagnostic_record" => record,
        };
        all.push((if prefix == "warn" { 1 } else { 3 }, status.into()));
    }
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, status)| status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices() -> Vec<Notice> {
        let notice = |code, span| Notice::new(code, format!("message of {code}"), span);
        vec![
            notice("CartesianProduct", None),
            notice("UnknownLabel", Some((12, 15))),
        ]
    }

    /// Everything that the JSON form says of an operator reaches drivers.
    #[test]
    fn a_plan_has_the_entries_of_its_json_form() {
        let db = isomer_db::Database::open_in_memory().unwrap();
        db.query("UNWIND range(1, 10) AS i CREATE (:N {i: i % 3})")
            .unwrap();
        let result = db
            .query("PROFILE MATCH (n:N) RETURN DISTINCT n.i ORDER BY n.i")
            .unwrap();
        let tree = isomer_db::json::parse(result.plan_json().unwrap()).unwrap();
        let shown = plan(&tree, true).unwrap();
        let of_bolt = |name: &str| match name {
            "operator" => Some("operatorType"),
            "inputs" => Some("children"),
            "actual_rows" => Some("rows"),
            "time_ms" => Some("time"),
            _ => None,
        };
        let root = tree.as_map().unwrap().get("plan").unwrap().clone();
        let (mut open, mut operators, mut exchanges) = (vec![(root, shown)], 0, 0);
        while let Some((wanted, shown)) = open.pop() {
            let (wanted, shown) = (wanted.as_map().unwrap(), shown.as_map().unwrap());
            let arguments = shown.get("args").unwrap().as_map().unwrap();
            for (name, value) in wanted.iter() {
                let argument = ARGUMENTS.iter().find(|(from, _)| *from == &**name);
                match (of_bolt(name), argument) {
                    (Some(entry), _) => assert!(shown.get(entry).is_some(), "{name}"),
                    (None, Some((_, to))) => assert_eq!(arguments.get(to), Some(value), "{name}"),
                    (None, None) => panic!("drivers do not receive `{name}`"),
                }
            }
            operators += 1;
            exchanges += usize::from(arguments.get("Threads").is_some());
            let inputs = wanted.get("inputs").unwrap().as_list().unwrap().to_vec();
            let children = shown.get("children").unwrap().as_list().unwrap().to_vec();
            assert_eq!(inputs.len(), children.len());
            open.extend(inputs.into_iter().zip(children));
        }
        assert!(operators > 3 && exchanges > 0, "{operators} {exchanges}");
    }

    #[test]
    fn notices_pass_the_clients_filter() {
        let text = "MATCH (a)\n, (b:Bee) RETURN *";
        let count = |wanted: &NotificationFilter| {
            let shown = notifications(&notices(), text, wanted);
            shown.map_or(0, |shown| shown.as_list().unwrap().len())
        };
        let all = NotificationFilter::default();
        assert_eq!(count(&all), 2);
        let wanted = |least: Option<&str>, without: &[&str]| NotificationFilter {
            least: least.map(str::to_owned),
            without: without.iter().map(|one| (*one).to_owned()).collect(),
        };
        assert_eq!(count(&wanted(Some("WARNING"), &[])), 1);
        assert_eq!(count(&wanted(Some("OFF"), &[])), 0);
        assert_eq!(count(&wanted(None, &["PERFORMANCE", "UNRECOGNIZED"])), 0);
        let shown = notifications(&notices(), text, &all).unwrap();
        let place = shown.as_list().unwrap()[1]
            .as_map()
            .unwrap()
            .get("position");
        let place = place.unwrap().as_map().unwrap().clone();
        assert_eq!(place.get("line"), Some(&Value::Int(2)));
        assert_eq!(place.get("column"), Some(&Value::Int(3)));
        let statuses = statuses(&notices(), text, &all, true, true);
        let order: Vec<_> = statuses
            .as_list()
            .unwrap()
            .iter()
            .map(|one| one.as_map().unwrap().get("gql_status").unwrap().clone())
            .collect();
        assert_eq!(order, ["01N50", "00000", "03N90"].map(Value::from));
    }
}
