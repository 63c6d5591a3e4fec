//! Patterns.

use super::{PResult, Parser};
use crate::Span;
use crate::ast::{
    Direction, Expr, LabelExpr, LabelExprKind, Link, NodePattern, PathLength, PathPattern,
    PathSelector, PathStep, Pattern, QuantifiedPath, RelationshipPattern,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The clause that a pattern belongs to, which restricts its syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternUse {
    /// `MATCH`: the pattern is matched.
    Match,
    /// `CREATE`: the pattern is created.
    Create,
    /// `MERGE`: the pattern is matched, or else created.
    Merge,
}

/// An element of a path.
enum Element {
    Node(Box<NodePattern>),
    Link(Link),
    /// A path in parentheses without a quantifier.
    Group(Box<PathPattern>),
}

impl Parser<'_> {
    pub(super) fn pattern(&mut self, usage: PatternUse) -> PResult<Pattern> {
        let start = self.span();
        let paths = self.comma_separated(|parser| parser.path_pattern(usage))?;
        Ok(Pattern {
            paths,
            span: self.since(start),
        })
    }

    /// `[variable =] [selector] path`
    pub(super) fn path_pattern(&mut self, usage: PatternUse) -> PResult<PathPattern> {
        let start = self.span();
        let variable = match self.is_variable_at(0) && self.is_at(1, Symbol::Equal) {
            true => {
                let variable = self.variable()?;
                self.advance();
                Some(variable)
            }
            false => None,
        };
        let mut path = match self.peek() {
            TokenKind::Keyword(Keyword::ShortestPath | Keyword::AllShortestPaths)
                if self.is_at(1, Symbol::LeftParen) =>
            {
                self.shortest_path_function()?
            }
            _ => {
                let selector = self.path_selector()?;
                let mut path = self.path_elements(usage)?;
                path.selector = selector;
                path
            }
        };
        path.variable = variable;
        path.span = self.since(start);
        check_usage(&path, usage)?;
        Ok(path)
    }

    fn path_selector(&mut self) -> PResult<Option<PathSelector>> {
        let selector = match (self.peek(), self.peek_at(1)) {
            (TokenKind::Keyword(Keyword::All), TokenKind::Keyword(Keyword::Shortest)) => {
                self.advance();
                self.advance();
                PathSelector::AllShortest
            }
            (TokenKind::Keyword(Keyword::Any), TokenKind::Keyword(Keyword::Shortest)) => {
                self.advance();
                self.advance();
                PathSelector::Shortest(1)
            }
            (TokenKind::Keyword(Keyword::Any), _) => {
                self.advance();
                PathSelector::Any(self.selector_count()?)
            }
            (TokenKind::Keyword(Keyword::Shortest), _) => {
                self.advance();
                let count = self.selector_count()?;
                self.eat_path_word();
                match self.eat_keyword(Keyword::Groups) || self.eat_word("GROUP") {
                    true => PathSelector::ShortestGroups(count),
                    false => PathSelector::Shortest(count),
                }
            }
            _ => return Ok(None),
        };
        self.eat_path_word();
        Ok(Some(selector))
    }

    /// The optional noise words `PATH` or `PATHS` of a selector.
    fn eat_path_word(&mut self) {
        let _said = self.eat_word("PATH") || self.eat_word("PATHS");
    }

    /// The `k` of a selector, 1 if absent.
    fn selector_count(&mut self) -> PResult<u64> {
        if self.peek() != TokenKind::Integer {
            return Ok(1);
        }
        let span = self.span();
        match self.bound()? {
            0 => Err(ParseError::new(
                Detail::UnexpectedSyntax,
                span,
                "the number of paths must not be 0",
            )
            .with_hint("use 1 or more")),
            count => Ok(count),
        }
    }

    /// `shortestPath(…)` or `allShortestPaths(…)`
    pub(super) fn shortest_path_function(&mut self) -> PResult<PathPattern> {
        let start = self.span();
        let selector = match self.is_keyword(Keyword::ShortestPath) {
            true => PathSelector::ShortestPathFunction,
            false => PathSelector::AllShortestPathsFunction,
        };
        self.advance();
        self.expect(Symbol::LeftParen)?;
        let mut path = self.nested(|parser| parser.path_elements(PatternUse::Match))?;
        self.expect(Symbol::RightParen)?;
        let span = self.since(start);
        if !matches!(
            path.steps.as_slice(),
            [PathStep {
                link: Link::Relationship(_),
                ..
            }]
        ) {
            let message = "a shortest path takes two nodes joined by one relationship pattern";
            return Err(ParseError::new(Detail::UnexpectedSyntax, span, message)
                .with_hint("for example shortestPath((a)-[:T*]-(b))"));
        }
        path.selector = Some(selector);
        path.span = span;
        Ok(path)
    }

    /// Alternating nodes and links.
    fn path_elements(&mut self, usage: PatternUse) -> PResult<PathPattern> {
        let start = self.span();
        let mut path = PathBuilder::default();
        loop {
            match self.peek() {
                TokenKind::Symbol(Symbol::LeftParen)
                    if path.takes_node() || self.is_path_group() =>
                {
                    let element = self.node_or_group(usage)?;
                    if let Some(group) = path.push(element, self.since(start))? {
                        return Ok(group);
                    }
                }
                _ if path.takes_link() && self.is_relationship_start() => {
                    let relationship = self.relationship(usage)?;
                    path.push(
                        Element::Link(Link::Relationship(Box::new(relationship))),
                        self.since(start),
                    )?;
                }
                _ => break,
            }
        }
        if path.is_open() {
            return Err(self.unexpected_word(
                "a node in parentheses, such as `(n:Label)`",
                &[Keyword::Shortest, Keyword::ShortestPath],
            ));
        }
        path.finish(self.since(start))
            .ok_or_else(|| self.unexpected("a node in parentheses, such as `(n:Label)`"))
    }

    /// Whether the current parenthesis encloses a path rather than a node.
    fn is_path_group(&self) -> bool {
        self.is(Symbol::LeftParen)
            && (self.is_at(1, Symbol::LeftParen)
                || (self.is_at(2, Symbol::Equal) && self.is_at(3, Symbol::LeftParen)))
    }

    fn node_or_group(&mut self, usage: PatternUse) -> PResult<Element> {
        if !self.is_path_group() {
            return self.node(usage).map(|node| Element::Node(Box::new(node)));
        }
        let start = self.advance();
        if self.is_at(1, Symbol::Equal) {
            return Err(ParseError::new(
                Detail::UnexpectedSyntax,
                self.span(),
                "a path inside parentheses has no variable",
            )
            .with_hint("name the whole path: `p = …`"));
        }
        let mut path = self.nested(|parser| parser.path_elements(usage))?;
        if path.predicate.is_none() && self.eat_keyword(Keyword::Where) {
            path.predicate = Some(self.predicate()?);
        }
        self.expect(Symbol::RightParen)?;
        path.span = self.since(start);
        match self.quantifier()? {
            None => Ok(Element::Group(Box::new(path))),
            Some(length) => Ok(Element::Link(Link::Quantified(Box::new(QuantifiedPath {
                path,
                length,
                span: self.since(start),
            })))),
        }
    }

    /// A quantifier `{2}`, `{1,3}`, `{,3}`, `{1,}`, `+`, `*` after a path or relationship.
    fn quantifier(&mut self) -> PResult<Option<PathLength>> {
        let start = self.span();
        let (min, max) = match self.peek() {
            TokenKind::Symbol(Symbol::Plus) => (1, None),
            TokenKind::Symbol(Symbol::Star) => (0, None),
            TokenKind::Symbol(Symbol::LeftBrace) => {
                self.advance();
                let min = self.optional_bound()?;
                let max = match self.eat(Symbol::Comma) {
                    true => self.optional_bound()?,
                    false if min.is_none() => {
                        return Err(self.unexpected("a number of repetitions"));
                    }
                    false => min,
                };
                if !self.is(Symbol::RightBrace) {
                    return Err(self.unexpected("`}`"));
                }
                (min.unwrap_or(0), max)
            }
            _ => return Ok(None),
        };
        self.advance();
        self.path_length(min, max, start).map(Some)
    }

    fn path_length(&self, min: u64, max: Option<u64>, start: Span) -> PResult<PathLength> {
        // Reversed bounds (`*3..1`) match nothing; openCypher does not treat them as an error.
        Ok(PathLength {
            min,
            max,
            span: self.since(start),
        })
    }

    fn optional_bound(&mut self) -> PResult<Option<u64>> {
        match self.peek() {
            TokenKind::Integer => self.bound().map(Some),
            _ => Ok(None),
        }
    }

    fn bound(&mut self) -> PResult<u64> {
        let span = self.span();
        let number = self.unsigned_integer()?;
        match i64::try_from(number) {
            Ok(_) => Ok(number),
            Err(_) => Err(ParseError::new(
                Detail::IntegerOverflow,
                span,
                "this number does not fit into 64 bits",
            )),
        }
    }

    pub(super) fn node(&mut self, usage: PatternUse) -> PResult<NodePattern> {
        let start = self.expect(Symbol::LeftParen)?;
        let variable = match self.is_variable_at(0) {
            true => Some(self.variable()?),
            false => None,
        };
        let labels = self.optional_labels()?;
        let properties = self.pattern_properties(usage)?;
        let predicate = self.pattern_predicate()?;
        if !self.is(Symbol::RightParen) {
            return Err(
                self.unexpected_word("`)`, `:Label`, `{properties}` or WHERE", &[Keyword::Where])
            );
        }
        self.advance();
        Ok(NodePattern {
            variable,
            labels,
            properties,
            predicate,
            span: self.since(start),
        })
    }

    /// Labels inside a node's parentheses or a relationship's brackets, where a `|` always joins labels.
    fn optional_labels(&mut self) -> PResult<Option<LabelExpr>> {
        if !self.is(Symbol::Colon) {
            return Ok(None);
        }
        let context = super::Context {
            bar_ends: false,
            ..self.context
        };
        self.within(context, Self::label_expression).map(Some)
    }

    fn pattern_properties(&mut self, usage: PatternUse) -> PResult<Option<Expr>> {
        match self.peek() {
            TokenKind::Symbol(Symbol::LeftBrace) => self.nested(Self::map_literal).map(Some),
            TokenKind::Parameter if usage != PatternUse::Create => Err(ParseError::new(
                Detail::InvalidParameterUse,
                self.span(),
                "a parameter cannot replace the properties of a matched pattern",
            )
            .with_hint("write the properties out: `{name: $parameter.name}`")),
            TokenKind::Parameter => self.parameter().map(Some),
            _ => Ok(None),
        }
    }

    fn pattern_predicate(&mut self) -> PResult<Option<Expr>> {
        match self.eat_keyword(Keyword::Where) {
            true => self.predicate().map(Some),
            false => Ok(None),
        }
    }

    /// Whether `-[`, `--`, `<-[` or `<--` starts `distance` tokens ahead.
    pub(super) fn is_relationship_start_at(&self, distance: usize) -> bool {
        let is_dash = |at| {
            matches!(
                self.peek_at(at),
                TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash)
            )
        };
        let is_less = matches!(
            self.peek_at(distance),
            TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
        );
        let dash = distance + usize::from(is_less);
        is_dash(dash) && (is_dash(dash + 1) || self.is_at(dash + 1, Symbol::LeftBracket))
    }

    fn is_relationship_start(&self) -> bool {
        let is_dash = |at| {
            matches!(
                self.peek_at(at),
                TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash)
            )
        };
        is_dash(0)
            || (matches!(
                self.peek(),
                TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
            ) && is_dash(1))
    }

    fn dash(&mut self) -> PResult<()> {
        match self.peek() {
            TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash) => {
                self.advance();
                Ok(())
            }
            _ => Err(self.unexpected("`-`")),
        }
    }

    fn relationship(&mut self, usage: PatternUse) -> PResult<RelationshipPattern> {
        let start = self.span();
        let points_left = matches!(
            self.peek(),
            TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
        );
        if points_left {
            self.advance();
        }
        self.dash()?;
        let mut relationship = RelationshipPattern {
            variable: None,
            types: None,
            direction: Direction::Both,
            length: None,
            properties: None,
            predicate: None,
            span: start,
        };
        if self.eat(Symbol::LeftBracket) {
            self.relationship_detail(&mut relationship, usage)?;
            self.expect(Symbol::RightBracket)?;
        }
        self.dash()?;
        let points_right = matches!(
            self.peek(),
            TokenKind::Symbol(Symbol::Greater | Symbol::OtherGreater)
        );
        if points_right {
            self.advance();
        }
        relationship.direction = match (points_left, points_right) {
            (false, true) => Direction::Outgoing,
            (true, false) => Direction::Incoming,
            _ => Direction::Both,
        };
        let quantifier_at = self.span();
        if let Some(length) = self.quantifier()? {
            if relationship.length.is_some() {
                return Err(invalid_length(
                    quantifier_at,
                    "this relationship has two length specifications",
                ));
            }
            relationship.length = Some(length);
        }
        relationship.span = self.since(start);
        Ok(relationship)
    }

    fn relationship_detail(
        &mut self,
        relationship: &mut RelationshipPattern,
        usage: PatternUse,
    ) -> PResult<()> {
        if self.is_variable_at(0) {
            relationship.variable = Some(self.variable()?);
        }
        relationship.types = self.optional_labels()?;
        match self.peek() {
            TokenKind::Symbol(Symbol::Star) => relationship.length = Some(self.star_length()?),
            TokenKind::Symbol(Symbol::DotDot) | TokenKind::Integer => {
                return Err(invalid_length(self.span(), "a length without its `*`"));
            }
            _ => {}
        }
        relationship.properties = self.pattern_properties(usage)?;
        relationship.predicate = self.pattern_predicate()?;
        match self.is(Symbol::RightBracket) {
            true => Ok(()),
            false => Err(self.unexpected_word(
                "`]`, `:TYPE`, `*`, `{properties}` or WHERE",
                &[Keyword::Where],
            )),
        }
    }

    /// `*`, `*2`, `*2..`, `*..3`, `*2..3`
    fn star_length(&mut self) -> PResult<PathLength> {
        let start = self.advance();
        let min = self.optional_bound()?;
        let max = match self.eat(Symbol::DotDot) {
            true => self.optional_bound()?,
            false => min,
        };
        match self.peek() {
            TokenKind::Symbol(Symbol::Minus) => {
                Err(invalid_length(self.span(), "a length must not be negative"))
            }
            TokenKind::Symbol(Symbol::DotDot | Symbol::Dot | Symbol::Star)
            | TokenKind::Integer
            | TokenKind::Float => Err(invalid_length(self.span(), "invalid length")),
            TokenKind::Parameter => Err(invalid_length(
                self.span(),
                "a length cannot be a parameter",
            ))
            .map_err(|error| error.with_hint("write the length as a number")),
            _ => self.path_length(min.unwrap_or(1), max, start),
        }
    }

    // ---- labels ----

    /// Parses from the first colon on.
    pub(super) fn label_expression(&mut self) -> PResult<LabelExpr> {
        self.expect(Symbol::Colon)?;
        self.label_alternatives()
    }

    fn label_alternatives(&mut self) -> PResult<LabelExpr> {
        let start = self.span();
        let mut parts = vec![self.label_conjunction()?];
        while !self.context.bar_ends && self.is(Symbol::Bar) {
            self.advance();
            self.eat(Symbol::Colon);
            parts.push(self.label_conjunction()?);
        }
        Ok(joined(parts, LabelExprKind::Or, self.since(start)))
    }

    fn label_conjunction(&mut self) -> PResult<LabelExpr> {
        let start = self.span();
        let mut parts = vec![self.label_term()?];
        while self.is(Symbol::Ampersand) || self.is(Symbol::Colon) {
            self.advance();
            parts.push(self.label_term()?);
        }
        Ok(joined(parts, LabelExprKind::And, self.since(start)))
    }

    fn label_term(&mut self) -> PResult<LabelExpr> {
        let start = self.span();
        let kind = match self.peek() {
            TokenKind::Symbol(Symbol::Bang) => {
                self.advance();
                let inner = self.nested(Self::label_term)?;
                LabelExprKind::Not(Box::new(inner))
            }
            TokenKind::Symbol(Symbol::Percent) => {
                self.advance();
                LabelExprKind::Any
            }
            TokenKind::Symbol(Symbol::LeftParen) => {
                self.advance();
                let context = super::Context {
                    bar_ends: false,
                    ..self.context
                };
                let inner =
                    self.nested(|parser| parser.within(context, Self::label_alternatives))?;
                self.expect(Symbol::RightParen)?;
                return Ok(inner);
            }
            _ => LabelExprKind::Name(self.name("a label or type")?),
        };
        Ok(LabelExpr {
            kind,
            span: self.since(start),
        })
    }
}

fn joined(
    mut parts: Vec<LabelExpr>,
    join: fn(Vec<LabelExpr>) -> LabelExprKind,
    span: Span,
) -> LabelExpr {
    match parts.len() {
        1 => parts.remove(0),
        _ => LabelExpr {
            kind: join(parts),
            span,
        },
    }
}

fn invalid_length(span: Span, message: &str) -> ParseError {
    ParseError::new(Detail::InvalidRelationshipPattern, span, message)
        .with_hint("lengths are written `*`, `*2`, `*1..3`, `*2..` or `*..3`")
}

/// Builds a path of alternating nodes and links: inserts anonymous nodes between neighbouring quantified
/// paths and at the ends.
#[derive(Default)]
struct PathBuilder {
    start: Option<NodePattern>,
    steps: Vec<PathStep>,
    /// The link whose target node has not been added yet.
    open: Option<Link>,
}

impl PathBuilder {
    /// Whether a node, or a path in parentheses, may come next.
    fn takes_node(&self) -> bool {
        self.start.is_none() || self.open.is_some()
    }

    fn takes_link(&self) -> bool {
        self.start.is_some() && !self.is_open()
    }

    /// Whether a node must come next.
    fn is_open(&self) -> bool {
        matches!(self.open, Some(Link::Relationship(_)))
    }

    /// Adds an element; `so_far` is the span of the path up to here. Returns the group if a parenthesised
    /// path is the whole path.
    fn push(&mut self, element: Element, so_far: Span) -> PResult<Option<PathPattern>> {
        let unwritten = || NodePattern {
            span: Span {
                start: so_far.end,
                end: so_far.end,
            },
            ..NodePattern::default()
        };
        match element {
            Element::Node(node) => match self.open.take() {
                Some(link) => self.steps.push(PathStep { link, node: *node }),
                None => self.start = Some(*node),
            },
            Element::Link(link) => {
                // Two links in a row (quantified paths): an anonymous node separates them.
                if let Some(before) = self.open.take() {
                    self.steps.push(PathStep {
                        link: before,
                        node: unwritten(),
                    });
                }
                // A path that starts with a quantified part gets an anonymous start node.
                self.start.get_or_insert_with(unwritten);
                self.open = Some(link);
            }
            Element::Group(group) if self.start.is_none() => return Ok(Some(*group)),
            Element::Group(group) => {
                return Err(ParseError::new(
                    Detail::UnexpectedSyntax,
                    group.span,
                    "a parenthesised path next to other elements needs a quantifier",
                )
                .with_hint(
                    "write `{1}`, `{1,3}`, `+` or `*` after it, or remove the parentheses",
                ));
            }
        }
        Ok(None)
    }

    fn finish(mut self, span: Span) -> Option<PathPattern> {
        if let Some(link) = self.open.take() {
            let node = NodePattern {
                span: Span {
                    start: span.end,
                    end: span.end,
                },
                ..NodePattern::default()
            };
            self.steps.push(PathStep { link, node });
        }
        Some(PathPattern {
            variable: None,
            selector: None,
            start: self.start?,
            steps: self.steps,
            predicate: None,
            span,
        })
    }
}

/// A pattern to create must be fully specified.
fn check_usage(path: &PathPattern, usage: PatternUse) -> PResult<()> {
    let verb = match usage {
        PatternUse::Match => return Ok(()),
        PatternUse::Create => "CREATE",
        PatternUse::Merge => "MERGE",
    };
    let error = |detail, span, message: String| Err(ParseError::new(detail, span, message));
    if path.selector.is_some() || path.predicate.is_some() {
        return error(
            Detail::UnexpectedSyntax,
            path.span,
            format!("{verb} makes paths, it does not select them"),
        );
    }
    for node in path.nodes() {
        if let Some(predicate) = &node.predicate {
            return error(
                Detail::UnexpectedSyntax,
                predicate.span,
                format!("{verb} takes no condition inside a pattern"),
            );
        }
        if let Some(labels) = node
            .labels
            .as_ref()
            .filter(|labels| labels.as_conjunction().is_none())
        {
            return error(
                Detail::UnexpectedSyntax,
                labels.span,
                format!("{verb} takes plain labels, `:A:B`"),
            );
        }
    }
    for step in &path.steps {
        let relationship = match &step.link {
            Link::Relationship(relationship) => relationship,
            Link::Quantified(quantified) => {
                return error(
                    Detail::CreatingVarLength,
                    quantified.span,
                    format!("{verb} cannot make a path of variable length"),
                );
            }
        };
        if let Some(predicate) = &relationship.predicate {
            return error(
                Detail::UnexpectedSyntax,
                predicate.span,
                format!("{verb} takes no condition inside a pattern"),
            );
        }
        if relationship.length.is_some() {
            return error(
                Detail::CreatingVarLength,
                relationship.span,
                format!("{verb} cannot make a relationship of variable length"),
            );
        }
        // `-[r]->` may refer to a bound variable, which is a different error that the binder reports.
        let is_untyped_variable = relationship.types.is_none() && relationship.variable.is_some();
        if !is_untyped_variable
            && relationship
                .types
                .as_ref()
                .and_then(LabelExpr::as_name)
                .is_none()
        {
            return error(
                Detail::NoSingleRelationshipType,
                relationship.span,
                format!("{verb} needs exactly one type for a relationship"),
            );
        }
        if usage == PatternUse::Create && relationship.direction == Direction::Both {
            return error(
                Detail::RequiresDirectedRelationship,
                relationship.span,
                "CREATE needs a direction for a relationship".into(),
            );
        }
    }
    Ok(())
}
