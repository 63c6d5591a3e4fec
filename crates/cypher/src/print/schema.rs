//! Schema commands and types.

use super::Printer;
use crate::ast::{
    ConstraintRequirement, CreateConstraint, CreateIndex, DropSchema, FieldReference, FieldStep,
    Ident, SchemaPattern, ShowKind, TypeExpr,
};

impl Printer {
    pub(super) fn create_index(&mut self, index: &CreateIndex) {
        self.text(if index.unique {
            "CREATE UNIQUE INDEX"
        } else {
            "CREATE INDEX"
        });
        self.schema_name(index.name.as_ref(), index.if_not_exists);
        let variable = self.schema_target(&index.target);
        self.text(" ON ");
        self.fields(&variable, &index.fields);
    }

    fn schema_name(&mut self, name: Option<&Ident>, if_not_exists: bool) {
        if let Some(name) = name {
            self.text(" ");
            self.variable(&name.name);
        }
        self.text(if if_not_exists {
            " IF NOT EXISTS FOR "
        } else {
            " FOR "
        });
    }

    fn schema_target(&mut self, target: &SchemaPattern) -> String {
        let (open, close, variable, name) = match target {
            SchemaPattern::Node { variable, label } => ("(", ")", variable, label),
            SchemaPattern::Relationship { variable, rel_type } => {
                ("()-[", "]-()", variable, rel_type)
            }
        };
        self.text(open);
        self.variable(&variable.name);
        self.text(":");
        self.name(&name.name);
        self.text(close);
        variable.name.to_string()
    }

    fn fields(&mut self, variable: &str, fields: &[FieldReference]) {
        self.text("(");
        self.separated(fields, ", ", |printer, field| {
            printer.field(variable, field)
        });
        self.text(")");
    }

    fn field(&mut self, variable: &str, field: &FieldReference) {
        self.variable(variable);
        for step in &field.steps {
            match step {
                FieldStep::Name(name) => {
                    self.text(".");
                    self.name(&name.name);
                }
                FieldStep::Elements => self.text("[]"),
            }
        }
    }

    pub(super) fn create_constraint(&mut self, constraint: &CreateConstraint) {
        self.text("CREATE CONSTRAINT");
        self.schema_name(constraint.name.as_ref(), constraint.if_not_exists);
        let variable = self.schema_target(&constraint.target);
        self.text(" REQUIRE ");
        match &constraint.kind {
            ConstraintRequirement::Unique(fields) => {
                self.fields(&variable, fields);
                self.text(" IS UNIQUE");
            }
            ConstraintRequirement::Key(fields) => {
                self.fields(&variable, fields);
                self.text(" IS KEY");
            }
            ConstraintRequirement::NotNull(field) => {
                self.field(&variable, field);
                self.text(" IS NOT NULL");
            }
            ConstraintRequirement::Typed(field, value_type) => {
                self.field(&variable, field);
                self.text(" IS :: ");
                self.value_type(value_type);
            }
            ConstraintRequirement::Convergent(field, kind) => {
                self.field(&variable, field);
                self.text(" IS CONVERGENT ");
                self.text(kind);
            }
            ConstraintRequirement::KeepEndpoints => self.text("KEEP ENDPOINTS"),
            ConstraintRequirement::Check(predicate) => self.expr(predicate),
        }
    }

    pub(super) fn drop_schema(&mut self, what: &str, drop: &DropSchema) {
        self.text("DROP ");
        self.text(what);
        self.text(" ");
        self.variable(&drop.name.name);
        self.text(if drop.if_exists { " IF EXISTS" } else { "" });
    }

    pub(super) fn show(&mut self, kind: ShowKind) {
        self.text(match kind {
            ShowKind::Indexes => "SHOW INDEXES",
            ShowKind::Constraints => "SHOW CONSTRAINTS",
            ShowKind::Labels => "SHOW LABELS",
            ShowKind::Types => "SHOW TYPES",
            ShowKind::Properties => "SHOW PROPERTIES",
            ShowKind::Buckets => "SHOW BUCKETS",
            ShowKind::Conflicts => "SHOW CONFLICTS",
            ShowKind::Queries => "SHOW QUERIES",
            ShowKind::Functions => "SHOW FUNCTIONS",
            ShowKind::Procedures => "SHOW PROCEDURES",
        });
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
