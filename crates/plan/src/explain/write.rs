//! Writes and schema commands as text.

use super::expression::ExprPrinter;
use crate::expr::{BoundExpr, LabelRef, PropRef};
use crate::physical::{
    CreateItem, CreatePattern, CreatedType, EntityChange, MatchOrCreate, Properties,
};
use crate::schema::{ObjectName, Requirement, SchemaCommand, SchemaTarget};

pub(super) fn create(p: &ExprPrinter<'_>, pattern: &CreatePattern) -> String {
    let item = |item: &CreateItem| match item {
        CreateItem::Node(node) => {
            let labels = labels_text(p, &node.labels, &node.dynamic_labels);
            format!(
                "({}{labels}{})",
                p.slot(node.node),
                properties_text(p, &node.properties)
            )
        }
        CreateItem::Relationship(one) => format!(
            "({})-[{}:{}{}]->({})",
            p.slot(one.source),
            p.slot(one.relationship),
            match &one.rel_type {
                CreatedType::Fixed(name) => p.plan.type_name(*name).to_string(),
                CreatedType::Dynamic(name) => format!("$({})", p.expr(name)),
            },
            properties_text(p, &one.properties),
            p.slot(one.target)
        ),
    };
    let mut items: Vec<String> = pattern.items.iter().take(20).map(item).collect();
    if pattern.items.len() > 20 {
        items.push(format!("and {} more", pattern.items.len() - 20));
    }
    items.join(", ")
}

pub(super) fn merge(p: &ExprPrinter<'_>, merge: &MatchOrCreate) -> String {
    let mut text = create(p, &merge.create);
    for (event, items) in [
        (" on create ", &merge.on_create),
        (" on match ", &merge.on_match),
    ] {
        if !items.is_empty() {
            text.push_str(event);
            text.push_str(&set(p, items));
        }
    }
    text
}

pub(super) fn set(p: &ExprPrinter<'_>, items: &[EntityChange]) -> String {
    let path = |names: &[PropRef]| {
        names
            .iter()
            .map(|name| p.plan.property_name(*name).to_string())
            .collect::<Vec<_>>()
            .join(".")
    };
    let item = |item: &EntityChange| match item {
        EntityChange::Property {
            entity,
            name,
            value,
        } => {
            format!(
                "{}.{} = {}",
                p.expr(entity),
                p.plan.property_name(*name),
                p.expr(value)
            )
        }
        EntityChange::NestedProperty {
            entity,
            path: names,
            value,
        } => {
            format!("{}.{} = {}", p.expr(entity), path(names), p.expr(value))
        }
        EntityChange::DynamicProperty {
            entity,
            name,
            value,
        } => {
            format!("{}[{}] = {}", p.expr(entity), p.expr(name), p.expr(value))
        }
        EntityChange::Converge {
            entity,
            path: names,
            operation,
            arguments,
        } => {
            let field = format!("{}.{}", p.expr(entity), path(names));
            let arguments: String = arguments
                .iter()
                .map(|argument| format!(", {}", p.expr(argument)))
                .collect();
            format!("{field} = {}({field}{arguments})", operation.name())
        }
        EntityChange::Replace { entity, value } => {
            format!("{} = {}", p.expr(entity), p.expr(value))
        }
        EntityChange::Merge { entity, value } => format!("{} += {}", p.expr(entity), p.expr(value)),
        EntityChange::AddLabels {
            entity,
            labels,
            dynamic,
        } => format!("{}{}", p.expr(entity), labels_text(p, labels, dynamic)),
        EntityChange::RemoveLabels {
            entity,
            labels,
            dynamic,
        } => format!(
            "remove {}{}",
            p.expr(entity),
            labels_text(p, labels, dynamic)
        ),
        EntityChange::RemoveProperty {
            entity,
            path: names,
        } => format!("remove {}.{}", p.expr(entity), path(names)),
    };
    items.iter().map(item).collect::<Vec<_>>().join(", ")
}

/// `:A:B:$(names)`
fn labels_text(p: &ExprPrinter<'_>, labels: &[LabelRef], dynamic: &[BoundExpr]) -> String {
    let fixed = labels
        .iter()
        .map(|label| format!(":{}", p.plan.label_name(*label)));
    let computed = dynamic.iter().map(|names| format!(":$({})", p.expr(names)));
    fixed.chain(computed).collect()
}

fn properties_text(p: &ExprPrinter<'_>, properties: &Properties) -> String {
    match properties {
        Properties::Entries(entries) if entries.is_empty() => String::new(),
        Properties::Entries(entries) => {
            let parts: Vec<String> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", p.plan.property_name(*name), p.expr(value)))
                .collect();
            format!(" {{{}}}", parts.join(", "))
        }
        Properties::Map(value) => format!(" {}", p.expr(value)),
    }
}

/// A schema command in one line.
pub(super) fn schema_command(command: &SchemaCommand) -> String {
    let target = |target: &SchemaTarget| match target {
        SchemaTarget::Label(label) => format!("(:{label})"),
        SchemaTarget::Type(name) => format!("-[:{name}]-"),
    };
    match command {
        SchemaCommand::CreateIndex {
            target: on,
            paths,
            unique,
            ..
        } => {
            let paths: Vec<String> = paths.iter().map(|path| path.names.join(".")).collect();
            format!(
                "create {}index {} ({})",
                if *unique { "unique " } else { "" },
                target(on),
                paths.join(", ")
            )
        }
        SchemaCommand::CreateConstraint {
            target: on,
            requirement,
            paths,
            ..
        } => {
            let paths: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
            format!(
                "create constraint {} ({}) {}",
                target(on),
                paths.join(", "),
                rule(requirement)
            )
        }
        SchemaCommand::CreateLookupIndex { of_types, .. } => match of_types {
            true => "create lookup index of types".to_owned(),
            false => "create lookup index of labels".to_owned(),
        },
        SchemaCommand::DropIndex { name, .. } => format!("drop index {}", object_name(name)),
        SchemaCommand::DropConstraint { name, .. } => {
            format!("drop constraint {}", object_name(name))
        }
    }
}

fn object_name(name: &ObjectName) -> &str {
    match name {
        ObjectName::Fixed(name) => name,
        ObjectName::Parameter(_) => "named by a parameter",
    }
}

/// The rule of a constraint, as after `REQUIRE`.
fn rule(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Unique => "is unique".to_owned(),
        Requirement::NotNull => "is not null".to_owned(),
        Requirement::Key => "is a key".to_owned(),
        Requirement::Type(value_type) => format!("is :: {value_type}"),
        Requirement::Convergent(kind) => format!("is convergent {kind}"),
        Requirement::KeepEndpoints => "keeps its endpoints".to_owned(),
        Requirement::Check { text, .. } => format!("holds {text}"),
    }
}
