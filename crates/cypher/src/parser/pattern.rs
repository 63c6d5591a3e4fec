//! Patterns.

use super::cursor::{Context, PResult, Parser};
use super::expr::{expression, map_literal, optional_where, predicate};
use super::label::label_expression;
use super::literal::{parameter, unsigned_integer};
use crate::Span;
use crate::ast::{
    Direction, Expr, LabelExpr, MatchMode, NodePattern, PathLength, PathMode, PathPattern,
    PathSelector, PathStep, Pattern, PatternLink, QuantifiedPath, RelationshipPattern,
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
    Link(PatternLink),
    /// A path in parentheses without a quantifier.
    Group(Box<PathPattern>),
}

pub(super) fn pattern(p: &mut Parser<'_>, usage: PatternUse) -> PResult<Pattern> {
    let start = p.span();
    let paths = p.comma_separated(|p| path_pattern(p, usage))?;
    Ok(Pattern {
        paths,
        span: p.since(start),
    })
}

/// `[variable =] [selector] path`
pub(super) fn path_pattern(p: &mut Parser<'_>, usage: PatternUse) -> PResult<PathPattern> {
    let start = p.span();
    let variable = if p.is_variable_at(0) && p.is_at(1, Symbol::Equal) {
        let variable = p.variable()?;
        p.advance();
        Some(variable)
    } else {
        None
    };
    let mut path = match p.peek() {
        TokenKind::Keyword(Keyword::ShortestPath | Keyword::AllShortestPaths)
            if p.is_at(1, Symbol::LeftParen) =>
        {
            shortest_path_function(p)?
        }
        _ => {
            let selector = path_selector(p)?;
            let mode = path_mode(p, selector)?;
            let mut path = path_elements(p, usage)?;
            path.selector = selector;
            path.mode = mode;
            path
        }
    };
    path.variable = variable;
    path.span = p.since(start);
    check_usage(&path, usage)?;
    Ok(path)
}

fn path_selector(p: &mut Parser<'_>) -> PResult<Option<PathSelector>> {
    let selector = match (p.peek(), p.peek_at(1)) {
        (TokenKind::Keyword(Keyword::All), TokenKind::Keyword(Keyword::Shortest)) => {
            p.advance();
            p.advance();
            PathSelector::AllShortest
        }
        (TokenKind::Keyword(Keyword::Any), TokenKind::Keyword(Keyword::Shortest)) => {
            p.advance();
            p.advance();
            PathSelector::Shortest(1)
        }
        (TokenKind::Keyword(Keyword::Any), _) => {
            p.advance();
            PathSelector::Any(selector_count(p)?)
        }
        (TokenKind::Keyword(Keyword::Shortest), _) => {
            p.advance();
            let count = selector_count(p)?;
            eat_path_word(p);
            if p.eat_keyword(Keyword::Groups) || p.eat_word("GROUP") {
                PathSelector::ShortestGroups(count)
            } else {
                PathSelector::Shortest(count)
            }
        }
        _ => return Ok(None),
    };
    eat_path_word(p);
    Ok(Some(selector))
}

/// The path mode of GQL.
fn path_mode(p: &mut Parser<'_>, selector: Option<PathSelector>) -> PResult<Option<PathMode>> {
    if p.peek() != TokenKind::Name {
        return Ok(None);
    }
    let start = p.span();
    let mode = if p.eat_word("WALK") {
        PathMode::Walk
    } else if p.eat_word("TRAIL") {
        PathMode::Trail
    } else if p.eat_word("ACYCLIC") {
        PathMode::Acyclic
    } else if p.eat_word("SIMPLE") {
        PathMode::Simple
    } else {
        return Ok(None);
    };
    eat_path_word(p);
    if matches!(mode, PathMode::Acyclic | PathMode::Simple) && selector.is_some() {
        let message = "the path modes ACYCLIC and SIMPLE together with a selector";
        return Err(ParseError::new(Detail::UnexpectedSyntax, start, message)
            .with_hint("test the nodes of the path in WHERE"));
    }
    Ok(Some(mode))
}

/// `REPEATABLE ELEMENTS` or `DIFFERENT RELATIONSHIPS` in front of the paths of a `MATCH`.
pub(super) fn match_mode(p: &mut Parser<'_>) -> PResult<MatchMode> {
    // A path may begin with a variable of these names, which `=` follows.
    let is_mode = p.peek() == TokenKind::Name && p.peek_at(1) == TokenKind::Name;
    let (mode, words, expected) = if is_mode && p.eat_word("REPEATABLE") {
        let words = ["ELEMENTS", "ELEMENT"].as_slice();
        (MatchMode::RepeatableElements, words, "ELEMENTS")
    } else if is_mode && p.eat_word("DIFFERENT") {
        let words = ["RELATIONSHIPS", "RELATIONSHIP", "EDGES", "EDGE"].as_slice();
        (MatchMode::DifferentRelationships, words, "RELATIONSHIPS")
    } else {
        return Ok(MatchMode::default());
    };
    if !words.iter().any(|word| p.eat_word(word)) {
        return Err(p.unexpected(expected));
    }
    p.eat_word("BINDINGS");
    Ok(mode)
}

/// The optional noise words `PATH` or `PATHS` of a selector.
fn eat_path_word(p: &mut Parser<'_>) {
    let _said = p.eat_word("PATH") || p.eat_word("PATHS");
}

/// The `k` of a selector, 1 if absent.
fn selector_count(p: &mut Parser<'_>) -> PResult<u64> {
    if p.peek() != TokenKind::Integer {
        return Ok(1);
    }
    let span = p.span();
    match bound(p)? {
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
pub(super) fn shortest_path_function(p: &mut Parser<'_>) -> PResult<PathPattern> {
    let start = p.span();
    let selector = if p.is_keyword(Keyword::ShortestPath) {
        PathSelector::ShortestPathFunction
    } else {
        PathSelector::AllShortestPathsFunction
    };
    p.advance();
    p.expect(Symbol::LeftParen)?;
    let mut path = p.nested(|p| path_elements(p, PatternUse::Match))?;
    p.expect(Symbol::RightParen)?;
    let span = p.since(start);
    if !matches!(
        path.steps.as_slice(),
        [PathStep {
            link: PatternLink::Relationship(_),
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
fn path_elements(p: &mut Parser<'_>, usage: PatternUse) -> PResult<PathPattern> {
    let start = p.span();
    let mut path = PathBuilder::default();
    loop {
        match p.peek() {
            TokenKind::Symbol(Symbol::LeftParen) if path.takes_node() || is_path_group(p) => {
                let element = node_or_group(p, usage)?;
                if let Some(group) = path.push(element, p.since(start))? {
                    return Ok(group);
                }
            }
            _ if path.takes_link() && is_relationship_start(p) => {
                let relationship = relationship(p, usage)?;
                path.push(
                    Element::Link(PatternLink::Relationship(Box::new(relationship))),
                    p.since(start),
                )?;
            }
            _ => break,
        }
    }
    if path.is_open() {
        return Err(p.unexpected_word(
            "a node in parentheses, such as `(n:Label)`",
            &[Keyword::Shortest, Keyword::ShortestPath],
        ));
    }
    path.finish(p.since(start))
        .ok_or_else(|| p.unexpected("a node in parentheses, such as `(n:Label)`"))
}

/// Whether the current parenthesis encloses a path rather than a node.
fn is_path_group(p: &Parser<'_>) -> bool {
    p.is(Symbol::LeftParen)
        && (p.is_at(1, Symbol::LeftParen)
            || (p.is_at(2, Symbol::Equal) && p.is_at(3, Symbol::LeftParen)))
}

fn node_or_group(p: &mut Parser<'_>, usage: PatternUse) -> PResult<Element> {
    if !is_path_group(p) {
        return node(p, usage).map(|node| Element::Node(Box::new(node)));
    }
    let start = p.advance();
    if p.is_at(1, Symbol::Equal) {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            p.span(),
            "a path inside parentheses has no variable",
        )
        .with_hint("name the whole path: `p = …`"));
    }
    let mut path = p.nested(|p| path_elements(p, usage))?;
    if path.predicate.is_none() && p.eat_keyword(Keyword::Where) {
        path.predicate = Some(predicate(p)?);
    }
    p.expect(Symbol::RightParen)?;
    path.span = p.since(start);
    match quantifier(p)? {
        None => Ok(Element::Group(Box::new(path))),
        Some(length) => Ok(Element::Link(PatternLink::Quantified(Box::new(
            QuantifiedPath {
                path,
                length,
                span: p.since(start),
            },
        )))),
    }
}

/// A quantifier `{2}`, `{1,3}`, `{,3}`, `{1,}`, `+`, `*` after a path or relationship.
fn quantifier(p: &mut Parser<'_>) -> PResult<Option<PathLength>> {
    let start = p.span();
    let (min, max) = match p.peek() {
        TokenKind::Symbol(Symbol::Plus) => (1, None),
        TokenKind::Symbol(Symbol::Star) => (0, None),
        TokenKind::Symbol(Symbol::LeftBrace) => {
            p.advance();
            let min = optional_bound(p)?;
            let max = match p.eat(Symbol::Comma) {
                true => optional_bound(p)?,
                false if min.is_none() => {
                    return Err(p.unexpected("a number of repetitions"));
                }
                false => min,
            };
            if !p.is(Symbol::RightBrace) {
                return Err(p.unexpected("`}`"));
            }
            (min.unwrap_or(0), max)
        }
        _ => return Ok(None),
    };
    p.advance();
    path_length(p, min, max, start).map(Some)
}

fn path_length(p: &Parser<'_>, min: u64, max: Option<u64>, start: Span) -> PResult<PathLength> {
    // Reversed bounds (`*3..1`) match nothing; openCypher does not treat them as an error.
    Ok(PathLength {
        min,
        max,
        span: p.since(start),
    })
}

fn optional_bound(p: &mut Parser<'_>) -> PResult<Option<u64>> {
    match p.peek() {
        TokenKind::Integer => bound(p).map(Some),
        _ => Ok(None),
    }
}

fn bound(p: &mut Parser<'_>) -> PResult<u64> {
    let span = p.span();
    let number = unsigned_integer(p)?;
    match i64::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(ParseError::new(
            Detail::IntegerOverflow,
            span,
            "this number does not fit into 64 bits",
        )),
    }
}

fn node(p: &mut Parser<'_>, usage: PatternUse) -> PResult<NodePattern> {
    let start = p.expect(Symbol::LeftParen)?;
    let variable = if p.is_variable_at(0) || p.is_reserved_pattern_name() {
        Some(p.variable()?)
    } else {
        None
    };
    let labels = optional_labels(p)?;
    let properties = pattern_properties(p, usage)?;
    let predicate = optional_where(p)?;
    if !p.is(Symbol::RightParen) {
        return Err(p.unexpected_word("`)`, `:Label`, `{properties}` or WHERE", &[Keyword::Where]));
    }
    p.advance();
    Ok(NodePattern {
        variable,
        labels,
        properties,
        predicate,
        span: p.since(start),
    })
}

/// Labels inside a node's parentheses or a relationship's brackets, where a `|` always joins labels.
fn optional_labels(p: &mut Parser<'_>) -> PResult<Option<LabelExpr>> {
    if !p.is(Symbol::Colon) {
        return Ok(None);
    }
    let context = Context {
        bar_ends: false,
        ..p.context
    };
    p.within(context, |p| label_expression(p, expression))
        .map(Some)
}

fn pattern_properties(p: &mut Parser<'_>, usage: PatternUse) -> PResult<Option<Expr>> {
    match p.peek() {
        TokenKind::Symbol(Symbol::LeftBrace) => p.nested(map_literal).map(Some),
        TokenKind::Parameter if usage != PatternUse::Create => Err(ParseError::new(
            Detail::InvalidParameterUse,
            p.span(),
            "a parameter cannot replace the properties of a matched pattern",
        )
        .with_hint("write the properties out: `{name: $parameter.name}`")),
        TokenKind::Parameter => parameter(p).map(Some),
        _ => Ok(None),
    }
}

fn is_relationship_start(p: &Parser<'_>) -> bool {
    let is_dash = |at| {
        matches!(
            p.peek_at(at),
            TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash)
        )
    };
    is_dash(0)
        || (matches!(
            p.peek(),
            TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
        ) && is_dash(1))
}

pub(super) fn dash(p: &mut Parser<'_>) -> PResult<()> {
    match p.peek() {
        TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash) => {
            p.advance();
            Ok(())
        }
        _ => Err(p.unexpected("`-`")),
    }
}

fn relationship(p: &mut Parser<'_>, usage: PatternUse) -> PResult<RelationshipPattern> {
    let start = p.span();
    let points_left = matches!(
        p.peek(),
        TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
    );
    if points_left {
        p.advance();
    }
    dash(p)?;
    let mut relationship = RelationshipPattern {
        variable: None,
        types: None,
        direction: Direction::Both,
        length: None,
        properties: None,
        predicate: None,
        span: start,
    };
    if p.eat(Symbol::LeftBracket) {
        relationship_detail(p, &mut relationship, usage)?;
        p.expect(Symbol::RightBracket)?;
    }
    dash(p)?;
    let points_right = matches!(
        p.peek(),
        TokenKind::Symbol(Symbol::Greater | Symbol::OtherGreater)
    );
    if points_right {
        p.advance();
    }
    relationship.direction = match (points_left, points_right) {
        (false, true) => Direction::Outgoing,
        (true, false) => Direction::Incoming,
        _ => Direction::Both,
    };
    let quantifier_at = p.span();
    if let Some(length) = quantifier(p)? {
        if relationship.length.is_some() {
            return Err(invalid_length(
                quantifier_at,
                "this relationship has two length specifications",
            ));
        }
        relationship.length = Some(length);
    }
    relationship.span = p.since(start);
    Ok(relationship)
}

fn relationship_detail(
    p: &mut Parser<'_>,
    relationship: &mut RelationshipPattern,
    usage: PatternUse,
) -> PResult<()> {
    if p.is_variable_at(0) || p.is_reserved_pattern_name() {
        relationship.variable = Some(p.variable()?);
    }
    relationship.types = optional_labels(p)?;
    match p.peek() {
        TokenKind::Symbol(Symbol::Star) => relationship.length = Some(star_length(p)?),
        TokenKind::Symbol(Symbol::DotDot) | TokenKind::Integer => {
            return Err(invalid_length(p.span(), "a length without its `*`"));
        }
        _ => {}
    }
    relationship.properties = pattern_properties(p, usage)?;
    relationship.predicate = optional_where(p)?;
    if p.is(Symbol::RightBracket) {
        Ok(())
    } else {
        Err(p.unexpected_word(
            "`]`, `:TYPE`, `*`, `{properties}` or WHERE",
            &[Keyword::Where],
        ))
    }
}

/// `*`, `*2`, `*2..`, `*..3`, `*2..3`
fn star_length(p: &mut Parser<'_>) -> PResult<PathLength> {
    let start = p.advance();
    let min = optional_bound(p)?;
    let max = if p.eat(Symbol::DotDot) {
        optional_bound(p)?
    } else {
        min
    };
    match p.peek() {
        TokenKind::Symbol(Symbol::Minus) => {
            Err(invalid_length(p.span(), "a length must not be negative"))
        }
        TokenKind::Symbol(Symbol::DotDot | Symbol::Dot | Symbol::Star)
        | TokenKind::Integer
        | TokenKind::Float => Err(invalid_length(p.span(), "invalid length")),
        TokenKind::Parameter => Err(invalid_length(p.span(), "a length cannot be a parameter"))
            .map_err(|error| error.with_hint("write the length as a number")),
        _ => path_length(p, min.unwrap_or(1), max, start),
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
    open: Option<PatternLink>,
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
        matches!(self.open, Some(PatternLink::Relationship(_)))
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
            mode: None,
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
    if path.selector.is_some() || path.mode.is_some() || path.predicate.is_some() {
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
            .filter(|labels| labels.as_labels().is_none())
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
            PatternLink::Relationship(relationship) => relationship,
            PatternLink::Quantified(quantified) => {
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
        if !is_untyped_variable && !relationship.types.as_ref().is_some_and(LabelExpr::is_label) {
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
