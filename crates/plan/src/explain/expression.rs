//! Bound expressions as text, close to the source.

use std::sync::Arc;

use isomer_value::Value;

use crate::expr::{
    Arithmetic, BoundExpr, Comparison, LabelRef, LocalId, MapItem, PathSegment, QuantifierKind,
    RegisteredRef, SlotId, StringTest, SubqueryResult, TypeRef,
};
use crate::physical::Plan;

/// Longer texts are truncated for readability.
const MAX_CHARS: usize = 160;

/// Prints expressions of one plan.
pub struct ExprPrinter<'p> {
    pub(super) plan: &'p Plan,
    hides_values: bool,
}

impl<'p> ExprPrinter<'p> {
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

    /// Several slots.
    pub(super) fn slots(&self, slots: &[SlotId]) -> String {
        let names: Vec<String> = slots.iter().map(|slot| self.slot(*slot)).collect();
        names.join(", ")
    }

    /// An expression, truncated to a readable length.
    pub fn expr(&self, expr: &BoundExpr) -> String {
        let mut out = String::new();
        self.write(expr, &mut out);
        if let Some((cut, _)) = out.char_indices().nth(MAX_CHARS) {
            out.truncate(cut);
            out.push('…');
        }
        out
    }

    /// Several expressions between separators.
    pub fn list<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e BoundExpr>,
        separator: &str,
    ) -> String {
        let parts: Vec<String> = exprs
            .into_iter()
            .take(MAX_CHARS)
            .map(|one| self.expr(one))
            .collect();
        parts.join(separator)
    }

    fn many<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e BoundExpr>,
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

    fn infix(&self, left: &BoundExpr, operator: &str, right: &BoundExpr, out: &mut String) {
        self.operand(left, out);
        out.push(' ');
        out.push_str(operator);
        out.push(' ');
        self.operand(right, out);
    }

    fn operand(&self, expr: &BoundExpr, out: &mut String) {
        let expr = match expr {
            BoundExpr::At { inner, .. } => inner,
            other => other,
        };
        let bare = matches!(
            expr,
            BoundExpr::Const(_)
                | BoundExpr::Param(_)
                | BoundExpr::Slot(_)
                | BoundExpr::Local(_)
                | BoundExpr::Property { .. }
                | BoundExpr::Call { .. }
                | BoundExpr::CallRegistered { .. }
                | BoundExpr::Index { .. }
                | BoundExpr::List(_)
                | BoundExpr::Map(_)
                | BoundExpr::HasLabels { .. }
                | BoundExpr::HasType { .. }
                | BoundExpr::ListComprehension { .. }
                | BoundExpr::Quantifier { .. }
                | BoundExpr::Subquery(_)
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
        arguments: impl IntoIterator<Item = &'e BoundExpr>,
        out: &mut String,
    ) {
        out.push_str(name);
        out.push('(');
        self.many(arguments, ", ", out);
        out.push(')');
    }

    fn entries(&self, entries: &[(Arc<str>, BoundExpr)], out: &mut String) {
        out.push('{');
        for (at, (name, value)) in entries.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            out.push_str(name);
            out.push_str(": ");
            self.write(value, out);
        }
        out.push('}');
    }

    fn write(&self, expr: &BoundExpr, out: &mut String) {
        if out.len() > MAX_CHARS * 4 {
            return;
        }
        match expr {
            BoundExpr::Const(_) if self.hides_values => out.push('?'),
            BoundExpr::Const(value) => write_value(value, out),
            BoundExpr::Param(parameter) => {
                out.push('$');
                out.push_str(self.plan.parameter_name(*parameter));
            }
            BoundExpr::Slot(slot) => out.push_str(&self.slot(*slot)),
            BoundExpr::Local(local) => out.push_str(&local_name(*local)),
            BoundExpr::At { inner, .. } => self.write(inner, out),
            BoundExpr::Property { base, name, .. } => {
                self.suffix(base, &format!(".{}", self.plan.property_name(*name)), out);
            }
            BoundExpr::Index { base, index, .. } => {
                self.operand(base, out);
                out.push('[');
                self.write(index, out);
                out.push(']');
            }
            BoundExpr::Slice { base, from, to } => {
                self.slice(base, from.as_deref(), to.as_deref(), out);
            }
            BoundExpr::List(items) => {
                out.push('[');
                self.many(items, ", ", out);
                out.push(']');
            }
            BoundExpr::Map(entries) => self.entries(entries, out),
            BoundExpr::MapProjection { base, items } => self.projection(base, items, out),
            BoundExpr::And(terms) => self.terms(terms, " AND ", out),
            BoundExpr::Or(terms) => self.terms(terms, " OR ", out),
            BoundExpr::Xor(terms) => self.terms(terms, " XOR ", out),
            BoundExpr::Compare { op, left, right } => self.infix(left, comparison(*op), right, out),
            BoundExpr::Arith { op, left, right } => self.infix(left, arithmetic(*op), right, out),
            BoundExpr::ArithChain { operands, ops } => self.chain(operands, ops, out),
            BoundExpr::StringTest { op, left, right } => {
                self.infix(left, string_test(*op), right, out)
            }
            BoundExpr::In { item, list } => self.infix(item, "IN", list, out),
            BoundExpr::Not(inner) => self.prefix("NOT ", inner, out),
            BoundExpr::Early(inner) => self.call("early", [&**inner], out),
            BoundExpr::Negate(inner) => self.prefix("-", inner, out),
            BoundExpr::Plus(inner) => self.prefix("+", inner, out),
            BoundExpr::IsNull(inner) => self.suffix(inner, " IS NULL", out),
            BoundExpr::IsNotNull(inner) => self.suffix(inner, " IS NOT NULL", out),
            BoundExpr::IsTyped {
                operand,
                value_type,
            } => self.suffix(operand, &format!(" IS :: {value_type}"), out),
            BoundExpr::Cast { operand, kind } => {
                self.call(&format!("as {}", kind.describe()), [&**operand], out);
            }
            BoundExpr::HasLabels { entity, labels } => self.has_labels(entity, labels, out),
            BoundExpr::HasType { entity, types } => self.has_type(entity, types, out),
            BoundExpr::Case {
                subject,
                arms,
                otherwise,
            } => self.case(subject.as_deref(), arms, otherwise.as_deref(), out),
            BoundExpr::Call {
                function,
                arguments,
            } => self.call(function.name(), arguments, out),
            BoundExpr::CallRegistered {
                function,
                arguments,
                ..
            } => self.call(self.registered_name(*function), arguments, out),
            BoundExpr::ListComprehension {
                list,
                local,
                predicate,
                result,
            } => {
                out.push('[');
                self.binding(*local, list, out);
                self.clause(" WHERE ", predicate.as_deref(), out);
                self.clause(" | ", result.as_deref(), out);
                out.push(']');
            }
            BoundExpr::Quantifier {
                kind,
                list,
                local,
                predicate,
            } => {
                out.push_str(quantifier(*kind));
                out.push('(');
                self.binding(*local, list, out);
                self.clause(" WHERE ", Some(predicate), out);
                out.push(')');
            }
            BoundExpr::Reduce {
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
                self.clause(" | ", Some(step), out);
                out.push(')');
            }
            BoundExpr::Subquery(subquery) => out.push_str(match subquery.kind {
                SubqueryResult::Exists => "EXISTS {…}",
                SubqueryResult::Count => "COUNT {…}",
                SubqueryResult::Collect(_) => "COLLECT {…}",
            }),
            BoundExpr::BuildPath { start, steps } => self.path(*start, steps, out),
        }
    }

    fn registered_name(&self, function: RegisteredRef) -> &str {
        &self.plan.registered_functions[function.index()]
    }

    fn prefix(&self, operator: &str, operand: &BoundExpr, out: &mut String) {
        out.push_str(operator);
        self.operand(operand, out);
    }

    fn suffix(&self, operand: &BoundExpr, operator: &str, out: &mut String) {
        self.operand(operand, out);
        out.push_str(operator);
    }

    /// A keyword and its expression, if there is one.
    fn clause(&self, keyword: &str, expr: Option<&BoundExpr>, out: &mut String) {
        if let Some(expr) = expr {
            out.push_str(keyword);
            self.write(expr, out);
        }
    }

    fn slice(
        &self,
        base: &BoundExpr,
        from: Option<&BoundExpr>,
        to: Option<&BoundExpr>,
        out: &mut String,
    ) {
        self.operand(base, out);
        out.push('[');
        self.clause("", from, out);
        out.push_str("..");
        self.clause("", to, out);
        out.push(']');
    }

    fn chain(&self, operands: &[BoundExpr], ops: &[Arithmetic], out: &mut String) {
        for (at, operand) in operands.iter().enumerate() {
            if let Some(op) = at.checked_sub(1).and_then(|before| ops.get(before)) {
                out.push_str(&format!(" {} ", arithmetic(*op)));
            }
            out.push_str(&self.expr(operand));
        }
    }

    fn has_labels(&self, entity: &BoundExpr, labels: &[LabelRef], out: &mut String) {
        self.operand(entity, out);
        if labels.is_empty() {
            out.push_str(":%");
        }
        for label in labels {
            out.push(':');
            out.push_str(self.plan.label_name(*label));
        }
    }

    fn has_type(&self, entity: &BoundExpr, types: &[TypeRef], out: &mut String) {
        self.operand(entity, out);
        let names = types.iter().map(|one| &**self.plan.type_name(*one));
        let names: Vec<&str> = names.collect();
        out.push(':');
        out.push_str(&names.join("|"));
    }

    fn case(
        &self,
        subject: Option<&BoundExpr>,
        arms: &[(BoundExpr, BoundExpr)],
        otherwise: Option<&BoundExpr>,
        out: &mut String,
    ) {
        out.push_str("CASE");
        self.clause(" ", subject, out);
        for (when, then) in arms {
            self.clause(" WHEN ", Some(when), out);
            self.clause(" THEN ", Some(then), out);
        }
        self.clause(" ELSE ", otherwise, out);
        out.push_str(" END");
    }

    fn path(&self, start: SlotId, steps: &[PathSegment], out: &mut String) {
        out.push_str(&format!("path({}", self.slot(start)));
        for step in steps {
            let (relationship, node) = (self.slot(step.relationship), self.slot(step.node));
            out.push_str(&format!(", {relationship}, {node}"));
        }
        out.push(')');
    }

    fn terms(&self, terms: &[BoundExpr], separator: &str, out: &mut String) {
        for (at, term) in terms.iter().enumerate() {
            if out.len() > MAX_CHARS * 4 {
                out.push('…');
                return;
            }
            if at > 0 {
                out.push_str(separator);
            }
            match term {
                BoundExpr::And(_) | BoundExpr::Or(_) | BoundExpr::Xor(_) => self.operand(term, out),
                term => self.write(term, out),
            }
        }
    }

    fn binding(&self, local: LocalId, list: &BoundExpr, out: &mut String) {
        out.push_str(&local_name(local));
        out.push_str(" IN ");
        self.write(list, out);
    }

    fn projection(&self, base: &BoundExpr, items: &[MapItem], out: &mut String) {
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
        other => match isomer_value::temporal::to_text(other) {
            Some(text) => out.push_str(&format!("'{text}'")),
            None => out.push_str(other.type_name()),
        },
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

fn quantifier(kind: QuantifierKind) -> &'static str {
    match kind {
        QuantifierKind::All => "all",
        QuantifierKind::Any => "any",
        QuantifierKind::None => "none",
        QuantifierKind::Single => "single",
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
