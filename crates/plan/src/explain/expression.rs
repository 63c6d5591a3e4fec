//! Bound expressions as text, close to the source.

use std::sync::Arc;

use isomer_value::Value;

use crate::expr::{
    Arithmetic, Comparison, Expr, LocalId, MapItem, QuantifierKind, SlotId, StringTest,
    SubqueryKind,
};
use crate::physical::Plan;

/// Longer texts are truncated for readability.
const MAX_CHARS: usize = 160;

/// Prints expressions of one plan.
pub struct Printer<'p> {
    pub(super) plan: &'p Plan,
    hides_values: bool,
}

impl<'p> Printer<'p> {
    /// For expressions of this plan.
    pub fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            hides_values: false,
        }
    }

    /// For expressions of this plan, with `?` in place of their constants.
    pub(super) fn without_values(plan: &'p Plan) -> Self {
        Self {
            plan,
            hides_values: true,
        }
    }

    /// A slot by its variable's name, or by its number.
    pub fn slot(&self, slot: SlotId) -> String {
        match &*self.plan.slots[slot.index()].name {
            "" => format!("#{}", slot.0),
            // A column is named after its text.
            name if self.hides_values => isomer_cypher::redact(name),
            name => name.to_owned(),
        }
    }

    /// An expression, truncated to a readable length.
    pub fn expr(&self, expr: &Expr) -> String {
        let mut out = String::new();
        self.write(expr, &mut out);
        if let Some((cut, _)) = out.char_indices().nth(MAX_CHARS) {
            out.truncate(cut);
            out.push('…');
        }
        out
    }

    /// Several expressions between separators.
    pub fn list<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>, separator: &str) -> String {
        let parts: Vec<String> = exprs
            .into_iter()
            .take(MAX_CHARS)
            .map(|one| self.expr(one))
            .collect();
        parts.join(separator)
    }

    fn many<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        separator: &str,
        out: &mut String,
    ) {
        for (at, one) in exprs.into_iter().enumerate() {
            if out.len() > MAX_CHARS * 4 {
                out.push('…');
                return;
            }
            if at > 0 {
                out.push_str(separator);
            }
            self.write(one, out);
        }
    }

    fn infix(&self, left: &Expr, operator: &str, right: &Expr, out: &mut String) {
        self.operand(left, out);
        out.push(' ');
        out.push_str(operator);
        out.push(' ');
        self.operand(right, out);
    }

    fn operand(&self, expr: &Expr, out: &mut String) {
        let expr = match expr {
            Expr::At { inner, .. } => inner,
            other => other,
        };
        let bare = matches!(
            expr,
            Expr::Const(_)
                | Expr::Param(_)
                | Expr::Slot(_)
                | Expr::Local(_)
                | Expr::Property { .. }
                | Expr::Call { .. }
                | Expr::CallRegistered { .. }
                | Expr::Index { .. }
                | Expr::List(_)
                | Expr::Map(_)
                | Expr::HasLabels { .. }
                | Expr::HasType { .. }
                | Expr::ListComprehension { .. }
                | Expr::Quantifier { .. }
                | Expr::Subquery(_)
        );
        if bare {
            return self.write(expr, out);
        }
        out.push('(');
        self.write(expr, out);
        out.push(')');
    }

    fn call<'e>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = &'e Expr>,
        out: &mut String,
    ) {
        out.push_str(name);
        out.push('(');
        self.many(arguments, ", ", out);
        out.push(')');
    }

    fn entries(&self, entries: &[(Arc<str>, Expr)], out: &mut String) {
        out.push('{');
        for (at, (name, value)) in entries.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            out.push_str(name);
            out.push_str(": ");
            self.write(value, out);
        }
        out.push('}');
    }

    fn write(&self, expr: &Expr, out: &mut String) {
        if out.len() > MAX_CHARS * 4 {
            return;
        }
        match expr {
            Expr::Const(_) if self.hides_values => out.push('?'),
            Expr::Const(value) => write_value(value, out),
            Expr::Param(parameter) => {
                out.push('$');
                out.push_str(self.plan.parameter_name(*parameter));
            }
            Expr::Slot(slot) => out.push_str(&self.slot(*slot)),
            Expr::Local(local) => out.push_str(&local_name(*local)),
            Expr::Property { base, name, .. } => {
                self.operand(base, out);
                out.push('.');
                out.push_str(self.plan.property_name(*name));
            }
            Expr::Index { base, index, .. } => {
                self.operand(base, out);
                out.push('[');
                self.write(index, out);
                out.push(']');
            }
            Expr::Slice { base, from, to } => {
                self.operand(base, out);
                out.push('[');
                from.iter().for_each(|bound| self.write(bound, out));
                out.push_str("..");
                to.iter().for_each(|bound| self.write(bound, out));
                out.push(']');
            }
            Expr::List(items) => {
                out.push('[');
                self.many(items, ", ", out);
                out.push(']');
            }
            Expr::Map(entries) => self.entries(entries, out),
            Expr::MapProjection { base, items } => self.projection(base, items, out),
            Expr::Not(inner) => {
                out.push_str("NOT ");
                self.operand(inner, out);
            }
            Expr::And(terms) => self.terms(terms, " AND ", out),
            Expr::Or(terms) => self.terms(terms, " OR ", out),
            Expr::Xor(terms) => self.terms(terms, " XOR ", out),
            Expr::Compare { op, left, right } => self.infix(left, comparison(*op), right, out),
            Expr::Arith { op, left, right } => self.infix(left, arithmetic(*op), right, out),
            Expr::At { inner, .. } => self.write(inner, out),
            Expr::ArithChain { operands, ops } => {
                for (at, operand) in operands.iter().enumerate() {
                    if let Some(op) = at.checked_sub(1).and_then(|before| ops.get(before)) {
                        out.push_str(&format!(" {} ", arithmetic(*op)));
                    }
                    out.push_str(&self.expr(operand));
                }
            }
            Expr::StringTest { op, left, right } => self.infix(left, string_test(*op), right, out),
            Expr::In { item, list } => self.infix(item, "IN", list, out),
            Expr::Negate(inner) => {
                out.push('-');
                self.operand(inner, out);
            }
            Expr::Plus(inner) => {
                out.push('+');
                self.operand(inner, out);
            }
            Expr::IsNull(inner) => {
                self.operand(inner, out);
                out.push_str(" IS NULL");
            }
            Expr::IsNotNull(inner) => {
                self.operand(inner, out);
                out.push_str(" IS NOT NULL");
            }
            Expr::IsTyped {
                operand,
                value_type,
            } => {
                self.operand(operand, out);
                out.push_str(&format!(" IS :: {value_type:?}"));
            }
            Expr::Cast { operand, kind } => {
                self.call(&format!("as {}", kind.describe()), [&**operand], out)
            }
            Expr::HasLabels { entity, labels } => {
                self.operand(entity, out);
                if labels.is_empty() {
                    out.push_str(":%");
                }
                for label in labels {
                    out.push(':');
                    out.push_str(self.plan.label_name(*label));
                }
            }
            Expr::HasType { entity, types } => {
                self.operand(entity, out);
                let names: Vec<&str> = types
                    .iter()
                    .map(|one| &**self.plan.type_name(*one))
                    .collect();
                out.push(':');
                out.push_str(&names.join("|"));
            }
            Expr::Case {
                subject,
                arms,
                otherwise,
            } => {
                out.push_str("CASE");
                if let Some(subject) = subject {
                    out.push(' ');
                    self.write(subject, out);
                }
                for (when, then) in arms {
                    out.push_str(" WHEN ");
                    self.write(when, out);
                    out.push_str(" THEN ");
                    self.write(then, out);
                }
                if let Some(otherwise) = otherwise {
                    out.push_str(" ELSE ");
                    self.write(otherwise, out);
                }
                out.push_str(" END");
            }
            Expr::Call {
                function,
                arguments,
            } => self.call(function.name(), arguments, out),
            Expr::CallRegistered {
                function,
                arguments,
            } => {
                self.call(
                    &self.plan.registered_functions[function.index()],
                    arguments,
                    out,
                );
            }
            Expr::ListComprehension {
                list,
                local,
                predicate,
                result,
            } => {
                out.push('[');
                self.binding(*local, list, out);
                if let Some(predicate) = predicate {
                    out.push_str(" WHERE ");
                    self.write(predicate, out);
                }
                if let Some(result) = result {
                    out.push_str(" | ");
                    self.write(result, out);
                }
                out.push(']');
            }
            Expr::Quantifier {
                kind,
                list,
                local,
                predicate,
            } => {
                out.push_str(match kind {
                    QuantifierKind::All => "all(",
                    QuantifierKind::Any => "any(",
                    QuantifierKind::None => "none(",
                    QuantifierKind::Single => "single(",
                });
                self.binding(*local, list, out);
                out.push_str(" WHERE ");
                self.write(predicate, out);
                out.push(')');
            }
            Expr::Reduce {
                accumulator,
                init,
                element,
                list,
                step,
            } => {
                out.push_str(&format!("reduce({} = ", local_name(*accumulator)));
                self.write(init, out);
                out.push_str(", ");
                self.binding(*element, list, out);
                out.push_str(" | ");
                self.write(step, out);
                out.push(')');
            }
            Expr::Subquery(subquery) => out.push_str(match subquery.kind {
                SubqueryKind::Exists => "EXISTS {…}",
                SubqueryKind::Count => "COUNT {…}",
                SubqueryKind::Collect(_) => "COLLECT {…}",
            }),
            Expr::BuildPath { start, steps } => {
                out.push_str(&format!("path({}", self.slot(*start)));
                for step in steps {
                    out.push_str(&format!(
                        ", {}, {}",
                        self.slot(step.relationship),
                        self.slot(step.node)
                    ));
                }
                out.push(')');
            }
        }
    }

    fn terms(&self, terms: &[Expr], separator: &str, out: &mut String) {
        for (at, term) in terms.iter().enumerate() {
            if out.len() > MAX_CHARS * 4 {
                out.push('…');
                return;
            }
            if at > 0 {
                out.push_str(separator);
            }
            match term {
                Expr::And(_) | Expr::Or(_) | Expr::Xor(_) => self.operand(term, out),
                term => self.write(term, out),
            }
        }
    }

    fn binding(&self, local: LocalId, list: &Expr, out: &mut String) {
        out.push_str(&local_name(local));
        out.push_str(" IN ");
        self.write(list, out);
    }

    fn projection(&self, base: &Expr, items: &[MapItem], out: &mut String) {
        self.operand(base, out);
        out.push_str(" {");
        for (at, item) in items.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            match item {
                MapItem::All => out.push_str(".*"),
                MapItem::Entry(name, value) => {
                    out.push_str(name);
                    out.push_str(": ");
                    self.write(value, out);
                }
            }
        }
        out.push('}');
    }
}

fn local_name(local: LocalId) -> String {
    format!("_{}", local.0)
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Float(value) => out.push_str(&format!("{value:?}")),
        Value::String(text) => out.push_str(&format!("'{}'", text.escape_debug())),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if out.len() > MAX_CHARS * 4 {
                    out.push('…');
                    break;
                }
                out.push_str(if at > 0 { ", " } else { "" });
                write_value(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&format!("{other:?}")),
    }
}

pub(super) fn comparison(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn arithmetic(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::Modulo => "%",
        Arithmetic::Power => "^",
        Arithmetic::Concat => "||",
    }
}

fn string_test(op: StringTest) -> &'static str {
    match op {
        StringTest::StartsWith => "STARTS WITH",
        StringTest::EndsWith => "ENDS WITH",
        StringTest::Contains => "CONTAINS",
        StringTest::Matches => "=~",
    }
}
