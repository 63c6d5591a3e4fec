//! Expressions.

use super::{Printer, printed, quote_string};
use crate::ast::{
    BinaryOp, Expr, ExprKind, LabelExprKind, Literal, MapEntry, MapProjectionItem, QualifiedName,
    QuantifierKind, SubqueryKind, TypeExpr, UnaryOp,
};
use crate::lexer::Lexer;
use crate::token::{Keyword, TokenKind};

/// Binding strength of an expression, from loosest to tightest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Ends with an expression that a following `|` would extend.
    Bar,
    Or,
    Xor,
    And,
    /// `NOT`; and patterns, which a following minus or less-than sign would extend.
    Not,
    Comparison,
    Predicate,
    Sum,
    Product,
    Power,
    /// Signs, and expressions that must not precede `.key` and other postfix operators.
    Sign,
    Suffixed,
}

impl Level {
    fn tighter(self) -> Self {
        match self {
            Self::Bar => Self::Or,
            Self::Or => Self::Xor,
            Self::Xor => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Comparison,
            Self::Comparison => Self::Predicate,
            Self::Predicate => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product => Self::Power,
            Self::Power => Self::Sign,
            Self::Sign | Self::Suffixed => Self::Suffixed,
        }
    }
}

fn level(expr: &Expr) -> Level {
    match &expr.kind {
        ExprKind::Or(_) => Level::Or,
        ExprKind::Xor(_) => Level::Xor,
        ExprKind::And(_) => Level::And,
        ExprKind::PatternPredicate(_) => Level::Not,
        ExprKind::Unary {
            op: UnaryOp::Not, ..
        } => Level::Not,
        ExprKind::Unary { .. } => Level::Sign,
        ExprKind::Binary { op, .. } => binary_level(*op),
        ExprKind::ComparisonChain { .. } => Level::Comparison,
        ExprKind::ArithmeticChain { operators, .. } => {
            operators.first().map_or(Level::Sum, |op| binary_level(*op))
        }
        ExprKind::IsTyped {
            value_type: TypeExpr::Union(_),
            ..
        } => Level::Bar,
        ExprKind::IsNull { .. } | ExprKind::IsTyped { .. } => Level::Predicate,
        ExprKind::HasLabels { labels, .. } if matches!(labels.kind, LabelExprKind::Or(_)) => {
            Level::Bar
        }
        ExprKind::HasLabels { .. } => Level::Sign,
        ExprKind::Literal(Literal::Int(number)) if *number < 0 => Level::Sign,
        ExprKind::Literal(Literal::Float(number)) if number.is_sign_negative() => Level::Sign,
        _ => Level::Suffixed,
    }
}

fn binary_level(op: BinaryOp) -> Level {
    match op {
        op if op.is_comparison() => Level::Comparison,
        BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Concat => Level::Sum,
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => Level::Product,
        BinaryOp::Power => Level::Power,
        _ => Level::Predicate,
    }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => " + ",
        BinaryOp::Subtract => " - ",
        BinaryOp::Multiply => " * ",
        BinaryOp::Divide => " / ",
        BinaryOp::Modulo => " % ",
        BinaryOp::Power => " ^ ",
        BinaryOp::Concat => " || ",
        BinaryOp::Equal => " = ",
        BinaryOp::NotEqual => " <> ",
        BinaryOp::Less => " < ",
        BinaryOp::LessOrEqual => " <= ",
        BinaryOp::Greater => " > ",
        BinaryOp::GreaterOrEqual => " >= ",
        BinaryOp::In => " IN ",
        BinaryOp::StartsWith => " STARTS WITH ",
        BinaryOp::EndsWith => " ENDS WITH ",
        BinaryOp::Contains => " CONTAINS ",
        BinaryOp::RegexMatch => " =~ ",
    }
}

impl Printer {
    pub(super) fn expr(&mut self, expr: &Expr) {
        self.expr_at(expr, Level::Bar);
    }

    pub(super) fn expr_before_bar(&mut self, expr: &Expr) {
        self.expr_at(expr, Level::Or);
    }

    /// Prints in parentheses if the expression binds less tightly than `least`.
    fn expr_at(&mut self, expr: &Expr, least: Level) {
        if level(expr) >= least {
            return self.bare(expr);
        }
        self.parenthesized(expr);
    }

    fn parenthesized(&mut self, expr: &Expr) {
        self.text("(");
        self.bare(expr);
        self.text(")");
    }

    fn bare(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(literal) => self.literal(literal),
            ExprKind::Parameter(name) => self.parameter(name),
            ExprKind::Variable(name) => self.variable(name),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => {
                self.text("{");
                self.separated(entries, ", ", Self::map_entry);
                self.text("}");
            }
            ExprKind::Property { base, key } => {
                self.expr_at(base, Level::Suffixed);
                self.text(".");
                self.name(&key.name);
            }
            ExprKind::Index { base, index } => {
                self.expr_at(base, Level::Suffixed);
                self.text("[");
                self.expr(index);
                self.text("]");
            }
            ExprKind::Slice { base, from, to } => self.slice(base, from.as_deref(), to.as_deref()),
            ExprKind::Unary { op, operand } => self.unary(*op, operand),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right),
            ExprKind::ComparisonChain {
                operands,
                operators,
            } => self.chain(operands, operators, Level::Predicate),
            ExprKind::ArithmeticChain {
                operands,
                operators,
            } => {
                let level = operators.first().map_or(Level::Sum, |op| binary_level(*op));
                let tighter = match level {
                    Level::Product => Level::Power,
                    _ => Level::Product,
                };
                self.chain(operands, operators, tighter);
            }
            ExprKind::And(operands) => self.separated(operands, " AND ", |printer, operand| {
                printer.expr_at(operand, Level::Not)
            }),
            ExprKind::Or(operands) => self.separated(operands, " OR ", |printer, operand| {
                printer.expr_at(operand, Level::Xor)
            }),
            ExprKind::Xor(operands) => self.separated(operands, " XOR ", |printer, operand| {
                printer.expr_at(operand, Level::And)
            }),
            ExprKind::IsNull { operand, negated } => {
                self.expr_at(operand, Level::Predicate);
                self.text(if *negated { " IS NOT NULL" } else { " IS NULL" });
            }
            ExprKind::IsTyped {
                operand,
                value_type,
                negated,
            } => {
                self.expr_at(operand, Level::Predicate);
                self.text(if *negated { " IS NOT :: " } else { " IS :: " });
                self.value_type(value_type);
            }
            ExprKind::HasLabels { operand, labels } => {
                self.expr_at(operand, Level::Suffixed);
                self.text(":");
                self.labels(labels);
            }
            ExprKind::Case { .. } => self.case(expr),
            ExprKind::CountStar => self.text("count(*)"),
            ExprKind::Function {
                name,
                distinct,
                arguments,
            } => self.function(name, *distinct, arguments),
            ExprKind::ListComprehension { .. }
            | ExprKind::PatternComprehension { .. }
            | ExprKind::Quantifier { .. }
            | ExprKind::Reduce { .. } => self.iteration(&expr.kind),
            ExprKind::MapProjection { variable, items } => {
                self.variable(&variable.name);
                self.text(" {");
                self.separated(items, ", ", Self::map_projection_item);
                self.text("}");
            }
            ExprKind::PatternPredicate(path) | ExprKind::ShortestPath(path) => self.path(path),
            ExprKind::Subquery { kind, query } => {
                self.text(match kind {
                    SubqueryKind::Exists => "EXISTS { ",
                    SubqueryKind::Count => "COUNT { ",
                    SubqueryKind::Collect => "COLLECT { ",
                });
                self.query(query);
                self.text(" }");
            }
        }
    }

    pub(super) fn parameter(&mut self, name: &str) {
        self.text("$");
        if !name.is_empty() && name.chars().all(crate::lexer::is_name_part) {
            self.text(name)
        } else {
            self.text(&format!("`{}`", name.replace('`', "``")))
        }
    }

    /// Operands with operators between them; each operand binds at least as tightly as `least`.
    fn chain(&mut self, operands: &[Expr], operators: &[BinaryOp], least: Level) {
        for (at, operand) in operands.iter().enumerate() {
            match at.checked_sub(1).and_then(|before| operators.get(before)) {
                Some(op) => self.right_operand(*op, operand, least),
                None => self.expr_at(operand, least),
            }
        }
    }

    /// What goes through a list or through matches: comprehensions, quantifiers, `reduce`.
    fn iteration(&mut self, kind: &ExprKind) {
        match kind {
            ExprKind::ListComprehension {
                variable,
                list,
                predicate,
                projection,
            } => {
                self.text("[");
                self.variable(&variable.name);
                self.text(" IN ");
                self.expr_before_bar(list);
                self.comprehension_tail(predicate.as_deref(), projection.as_deref());
            }
            ExprKind::PatternComprehension {
                path,
                predicate,
                projection,
            } => {
                self.text("[");
                self.path(path);
                self.comprehension_tail(predicate.as_deref(), Some(projection));
            }
            ExprKind::Quantifier {
                kind,
                variable,
                list,
                predicate,
            } => {
                self.text(match kind {
                    QuantifierKind::All => "all(",
                    QuantifierKind::Any => "any(",
                    QuantifierKind::None => "none(",
                    QuantifierKind::Single => "single(",
                });
                self.variable(&variable.name);
                self.text(" IN ");
                self.expr(list);
                self.optional_where(predicate.as_deref());
                self.text(")");
            }
            ExprKind::Reduce {
                accumulator,
                initial,
                variable,
                list,
                step,
            } => {
                self.text("reduce(");
                self.variable(&accumulator.name);
                self.text(" = ");
                self.expr(initial);
                self.text(", ");
                self.variable(&variable.name);
                self.text(" IN ");
                self.expr_before_bar(list);
                self.text(" | ");
                self.expr(step);
                self.text(")");
            }
            _ => unreachable!("the caller passes these kinds alone"),
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.text("null"),
            Literal::Bool(true) => self.text("true"),
            Literal::Bool(false) => self.text("false"),
            Literal::Int(number) => self.text(&number.to_string()),
            Literal::Float(number) => self.text(&format!("{number:?}")),
            Literal::String(text) => self.text(&quote_string(text)),
        }
    }

    fn list(&mut self, elements: &[Expr]) {
        self.text("[");
        for (at, element) in elements.iter().enumerate() {
            match at {
                // `[x IN xs]` would be read as a comprehension.
                0 => self.unless_starting(element, Keyword::In),
                _ => {
                    self.text(", ");
                    self.expr(element);
                }
            }
        }
        self.text("]");
    }

    /// Prints in parentheses if the expression starts with a variable followed by this word.
    fn unless_starting(&mut self, expr: &Expr, word: Keyword) {
        let text = printed(|printer| printer.expr(expr));
        let mut lexer = Lexer::new(&text);
        let first = lexer.next_token().kind;
        let is_name = matches!(
            first,
            TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_)
        );
        if is_name && lexer.next_token().kind == TokenKind::Keyword(word) {
            self.text(&format!("({text})"))
        } else {
            self.text(&text)
        }
    }

    fn slice(&mut self, base: &Expr, from: Option<&Expr>, to: Option<&Expr>) {
        self.expr_at(base, Level::Suffixed);
        self.text("[");
        if let Some(from) = from {
            self.expr(from);
        }
        self.text("..");
        if let Some(to) = to {
            self.expr(to);
        }
        self.text("]");
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr) {
        let (text, least) = match op {
            UnaryOp::Not => ("NOT ", Level::Not),
            UnaryOp::Minus => ("-", Level::Sign),
            UnaryOp::Plus => ("+", Level::Sign),
        };
        self.text(text);
        let start = self.out.len();
        self.expr_at(operand, least);
        // A minus directly before a number would become part of the literal.
        if op == UnaryOp::Minus && self.out[start..].starts_with(|c: char| c.is_ascii_digit()) {
            self.wrap(start);
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) {
        let level = binary_level(op);
        self.expr_at(
            left,
            if level == Level::Comparison {
                level.tighter()
            } else {
                level
            },
        );
        self.right_operand(op, right, level.tighter());
    }

    fn right_operand(&mut self, op: BinaryOp, right: &Expr, least: Level) {
        self.text(operator(op));
        let start = self.out.len();
        self.expr_at(right, least);
        // `(a)-[b]-(c)`, `(a)--(b)` and `(a)<-[b]-(c)` would be read as patterns.
        let mut characters = self.out[start..].chars();
        let looks_like_pattern = match characters.next() {
            Some('[') => op == BinaryOp::Subtract,
            Some('-') => {
                matches!(op, BinaryOp::Subtract | BinaryOp::Less)
                    && !characters.next().is_some_and(|c| c.is_ascii_digit())
            }
            _ => false,
        };
        if looks_like_pattern {
            self.wrap(start);
        }
    }

    /// Encloses everything printed since `start` in parentheses.
    fn wrap(&mut self, start: usize) {
        self.out.insert(start, '(');
        self.out.push(')');
    }

    fn case(&mut self, expr: &Expr) {
        let ExprKind::Case {
            subject,
            branches,
            otherwise,
        } = &expr.kind
        else {
            return;
        };
        self.text("CASE");
        if let Some(subject) = subject {
            self.text(" ");
            self.expr(subject);
        }
        for branch in branches {
            self.text(" WHEN ");
            self.expr(&branch.when);
            self.text(" THEN ");
            self.expr(&branch.then);
        }
        if let Some(otherwise) = otherwise {
            self.text(" ELSE ");
            self.expr(otherwise);
        }
        self.text(" END");
    }

    fn function(&mut self, name: &QualifiedName, distinct: bool, arguments: &[Expr]) {
        self.separated(&name.parts, ".", |printer, part| {
            match Keyword::of(&part.name) {
                Some(keyword)
                    if keyword.is_reserved()
                        || matches!(keyword, Keyword::ShortestPath | Keyword::AllShortestPaths) =>
                {
                    printer.variable(&part.name);
                }
                _ => printer.name(&part.name),
            }
        });
        self.text(if distinct { "(DISTINCT " } else { "(" });
        // `any(x IN xs)` would be read as a quantifier.
        match arguments.split_first() {
            Some((first, rest)) if !distinct => {
                self.unless_starting(first, Keyword::In);
                rest.iter().for_each(|argument| {
                    self.text(", ");
                    self.expr(argument);
                });
            }
            _ => self.separated(arguments, ", ", Self::expr),
        }
        self.text(")");
    }

    fn comprehension_tail(&mut self, predicate: Option<&Expr>, projection: Option<&Expr>) {
        if let Some(predicate) = predicate {
            self.text(" WHERE ");
            self.expr_before_bar(predicate);
        }
        if let Some(projection) = projection {
            self.text(" | ");
            self.expr(projection);
        }
        self.text("]");
    }

    fn map_entry(&mut self, entry: &MapEntry) {
        self.name(&entry.key.name);
        self.text(": ");
        self.expr(&entry.value);
    }

    fn map_projection_item(&mut self, item: &MapProjectionItem) {
        match item {
            MapProjectionItem::Property(key) => {
                self.text(".");
                self.name(&key.name);
            }
            MapProjectionItem::AllProperties => self.text(".*"),
            MapProjectionItem::Entry(entry) => self.map_entry(entry),
            MapProjectionItem::Variable(name) => self.variable(&name.name),
        }
    }
}
