//! Schema commands and types.

use super::Printer;
use crate::ast::{
    Clause, ConstraintRequirement, CreateConstraint, CreateIndex, CreateLookupIndex, DropSchema,
    FieldReference, FieldStep, SchemaName, SchemaPattern, Show, ShowKind, ShowOnly, ShownRule,
    TypeExpr,
};

/// The commands on indexes and constraints.
pub(super) struct SchemaPrinter<'p> {
    out: &'p mut Printer,
}

impl<'p> SchemaPrinter<'p> {
    pub(super) fn new(out: &'p mut Printer) -> Self {
        Self { out }
    }

    pub(super) fn create_index(&mut self, index: &CreateIndex) {
        self.out.text(if index.unique {
            "CREATE UNIQUE INDEX"
        } else {
            "CREATE INDEX"
        });
        self.schema_name(index.name.as_ref(), index.if_not_exists);
        let variable = self.schema_target(&index.target);
        self.out.text(" ON ");
        self.fields(&variable, &index.fields);
    }

    fn schema_name(&mut self, name: Option<&SchemaName>, if_not_exists: bool) {
        if let Some(name) = name {
            self.out.text(" ");
            self.given_name(name);
        }
        self.out.text(if if_not_exists {
            " IF NOT EXISTS FOR "
        } else {
            " FOR "
        });
    }

    fn given_name(&mut self, name: &SchemaName) {
        match name {
            SchemaName::Fixed(name) => self.out.variable(&name.name),
            SchemaName::Parameter(name) => {
                self.out.parameter(&name.name);
            }
        }
    }

    fn schema_target(&mut self, target: &SchemaPattern) -> String {
        let (open, close, variable, name) = match target {
            SchemaPattern::Node { variable, label } => ("(", ")", variable, label),
            SchemaPattern::Relationship { variable, rel_type } => {
                ("()-[", "]-()", variable, rel_type)
            }
        };
        self.out.text(open);
        self.out.variable(&variable.name);
        self.out.text(":");
        self.out.name(&name.name);
        self.out.text(close);
        variable.name.to_string()
    }

    fn fields(&mut self, variable: &str, fields: &[FieldReference]) {
        self.out.text("(");
        for (at, field) in fields.iter().enumerate() {
            self.out.text(if at > 0 { ", " } else { "" });
            self.field(variable, field);
        }
        self.out.text(")");
    }

    fn field(&mut self, variable: &str, field: &FieldReference) {
        self.out.variable(variable);
        for step in &field.steps {
            match step {
                FieldStep::Name(name) => {
                    self.out.text(".");
                    self.out.name(&name.name);
                }
                FieldStep::Elements => self.out.text("[]"),
            }
        }
    }

    pub(super) fn create_constraint(&mut self, constraint: &CreateConstraint) {
        self.out.text("CREATE CONSTRAINT");
        self.schema_name(constraint.name.as_ref(), constraint.if_not_exists);
        let variable = self.schema_target(&constraint.target);
        self.out.text(" REQUIRE ");
        match &constraint.kind {
            ConstraintRequirement::Unique(fields) => {
                self.fields(&variable, fields);
                self.out.text(" IS UNIQUE");
            }
            ConstraintRequirement::Key(fields) => {
                self.fields(&variable, fields);
                self.out.text(" IS KEY");
            }
            ConstraintRequirement::NotNull(field) => {
                self.field(&variable, field);
                self.out.text(" IS NOT NULL");
            }
            ConstraintRequirement::Typed(field, value_type) => {
                self.field(&variable, field);
                self.out.text(" IS :: ");
                self.out.value_type(value_type);
            }
            ConstraintRequirement::Convergent(field, kind) => {
                self.field(&variable, field);
                self.out.text(" IS CONVERGENT ");
                self.out.text(kind);
            }
            ConstraintRequirement::KeepEndpoints => self.out.text("KEEP ENDPOINTS"),
            ConstraintRequirement::Check(predicate) => self.out.expr(predicate),
        }
    }

    pub(super) fn drop(&mut self, what: &str, drop: &DropSchema) {
        self.out.text("DROP ");
        self.out.text(what);
        self.out.text(" ");
        self.given_name(&drop.name);
        self.out
            .text(if drop.if_exists { " IF EXISTS" } else { "" });
    }

    pub(super) fn create_lookup_index(&mut self, index: &CreateLookupIndex) {
        self.out.text("CREATE LOOKUP INDEX");
        self.schema_name(index.name.as_ref(), index.if_not_exists);
        self.out.text(match index.of_types {
            true => "()-[r]-() ON EACH type(r)",
            false => "(n) ON EACH labels(n)",
        });
    }
}

impl Printer {
    pub(super) fn show(&mut self, show: &Show) {
        self.text("SHOW ");
        match show.only {
            None => {}
            Some(ShowOnly::Indexes(kind)) => {
                self.text(kind.word());
                self.text(" ");
            }
            Some(ShowOnly::Constraints(rule, of_nodes)) => {
                self.text(match of_nodes {
                    None => "",
                    Some(true) => "NODE ",
                    Some(false) => "RELATIONSHIP ",
                });
                self.text(match rule {
                    ShownRule::Unique => "UNIQUE ",
                    ShownRule::Key => "KEY ",
                    ShownRule::Existence => "PROPERTY EXISTENCE ",
                    ShownRule::PropertyType => "PROPERTY TYPE ",
                });
            }
            Some(ShowOnly::BuiltIn(true)) => self.text("BUILT IN "),
            Some(ShowOnly::BuiltIn(false)) => self.text("USER DEFINED "),
        }
        self.text(match show.kind {
            ShowKind::Indexes => "INDEXES",
            ShowKind::Constraints => "CONSTRAINTS",
            ShowKind::Labels => "LABELS",
            ShowKind::Types => "TYPES",
            ShowKind::Properties => "PROPERTIES",
            ShowKind::Buckets => "BUCKETS",
            ShowKind::Conflicts => "CONFLICTS",
            ShowKind::Queries => "QUERIES",
            ShowKind::Functions => "FUNCTIONS",
            ShowKind::Procedures => "PROCEDURES",
            ShowKind::Databases if show.names.is_empty() => "DATABASES",
            ShowKind::Databases => "DATABASE",
            ShowKind::DefaultDatabase => "DEFAULT DATABASE",
            ShowKind::HomeDatabase => "HOME DATABASE",
            ShowKind::Users => "USERS",
            ShowKind::CurrentUser => "CURRENT USER",
            ShowKind::Settings => "SETTINGS",
            ShowKind::Transactions => "TRANSACTIONS",
        });
        if !show.names.is_empty() {
            self.text(" ");
            self.separated(&show.names, ", ", Self::expr);
        }
        if let Some(yields) = &show.yields {
            self.yield_clause(yields);
        }
        for clause in &show.then {
            if let Clause::With(with) = clause {
                self.paging(&with.projection);
                self.optional_where(with.predicate.as_ref());
            } else {
                self.text(" ");
                self.clause(clause);
            }
        }
    }

    pub(super) fn value_type(&mut self, value_type: &TypeExpr) {
        let plain = match value_type {
            TypeExpr::Any => "ANY",
            TypeExpr::Null => "NULL",
            TypeExpr::Boolean => "BOOLEAN",
            TypeExpr::Integer => "INTEGER",
            TypeExpr::Float => "FLOAT",
            TypeExpr::Number => "NUMBER",
            TypeExpr::String => "STRING",
            TypeExpr::Bytes => "BYTES",
            TypeExpr::Date => "DATE",
            TypeExpr::LocalTime => "LOCAL TIME",
            TypeExpr::ZonedTime => "ZONED TIME",
            TypeExpr::LocalDateTime => "LOCAL DATETIME",
            TypeExpr::ZonedDateTime => "ZONED DATETIME",
            TypeExpr::Duration => "DURATION",
            TypeExpr::Point => "POINT",
            TypeExpr::Map => "MAP",
            TypeExpr::Node => "NODE",
            TypeExpr::Relationship => "RELATIONSHIP",
            TypeExpr::Path => "PATH",
            TypeExpr::List(element) => {
                self.text("LIST<");
                self.value_type(element);
                ">"
            }
            TypeExpr::NotNull(inner) => {
                self.value_type(inner);
                " NOT NULL"
            }
            TypeExpr::Union(types) => return self.separated(types, " | ", Self::value_type),
        };
        self.text(plain);
    }
}
