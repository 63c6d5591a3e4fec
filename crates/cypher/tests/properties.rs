//! Properties: the parser answers every text, and the printed text of every tree parses to the same tree.

use isomer_cypher::ast::*;
use isomer_cypher::{Span, parse, parse_expression, tokenize};
use proptest::prelude::*;
use std::sync::Arc;

const WORDS: &[&str] = &[
    "MATCH",
    "OPTIONAL",
    "WHERE",
    "RETURN",
    "WITH",
    "CREATE",
    "MERGE",
    "SET",
    "DELETE",
    "UNWIND",
    "CALL",
    "YIELD",
    "EXISTS",
    "COUNT",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "STARTS",
    "CONTAINS",
    "ALL",
    "ANY",
    "SHORTEST",
    "shortestPath",
    "reduce",
    "ORDER",
    "BY",
    "LIMIT",
    "UNION",
    "FOREACH",
    "n",
    "m",
    "r",
    "foo",
    "`a b`",
    "1",
    "2.5",
    "'s'",
    "\"t\"",
    "$p",
    "0x1F",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "::",
    ".",
    "..",
    "|",
    "||",
    "&",
    "!",
    "%",
    "+",
    "-",
    "*",
    "/",
    "^",
    "=",
    "<>",
    "<",
    ">",
    "<=",
    "=~",
    "->",
    "<-",
    "--",
    ";",
    "—",
    "é",
    "'",
    "`",
    "/*",
    "//",
    "\\",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        if let Err(error) = parse(&text) {
            prop_assert!(error.render(&text).contains('^'));
        }
        prop_assert!(!tokenize(&text).is_empty());
    }

    #[test]
    fn any_words_are_answered(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let text = words.join(" ");
        match parse(&text) {
            Err(error) => prop_assert!(error.render(&text).contains('^')),
            Ok(tree) => {
                let again = parse(&tree.to_string());
                prop_assert_eq!(again.as_ref(), Ok(&tree), "{}", tree);
            }
        }
    }

    #[test]
    fn printed_expressions_parse_to_the_same_tree(tree in expr()) {
        let text = tree.to_string();
        let again = parse_expression(&text);
        let other = again.as_ref().map_or_else(|error| error.render(&text), Expr::to_string);
        prop_assert!(again.as_ref() == Ok(&tree), "printed {text}\nread as {other}");
    }

    #[test]
    fn tokens_cover_the_text(text in "\\PC{0,60}") {
        let tokens = tokenize(&text);
        for pair in tokens.windows(2) {
            prop_assert!(pair[0].span.end <= pair[1].span.start);
        }
    }
}

fn make(kind: ExprKind) -> Expr {
    Expr::new(kind, Span::default())
}

fn ident() -> impl Strategy<Value = Ident> {
    prop::sample::select(vec![
        "a", "b", "match", "end", "count", "x y", "in", "tick`", "größe", "1st",
    ])
    .prop_map(|name| Ident::new(name, Span::default()))
}

fn variable(name: Ident) -> Expr {
    make(ExprKind::Variable(name.name))
}

fn labels() -> impl Strategy<Value = LabelExpr> {
    let make = |kind| LabelExpr {
        kind,
        span: Span::default(),
    };
    let leaf = prop_oneof![
        ident().prop_map(move |name| make(LabelExprKind::Name(name))),
        Just(make(LabelExprKind::Any)),
        (ident(), any::<bool>()).prop_map(move |(name, any)| {
            let names = Box::new(variable(name));
            make(LabelExprKind::Dynamic { names, any })
        })
    ];
    leaf.prop_recursive(3, 8, 3, move |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(move |inner| make(LabelExprKind::Not(Box::new(inner)))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(move |parts| make(LabelExprKind::And(parts))),
            prop::collection::vec(inner, 2..4)
                .prop_map(move |parts| make(LabelExprKind::Or(parts))),
        ]
    })
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        any::<i64>().prop_map(Literal::Int),
        (-3_i64..10).prop_map(Literal::Int),
        any::<f64>()
            .prop_filter("literals are finite", |number| number.is_finite())
            .prop_map(Literal::Float),
        any::<String>().prop_map(|text| Literal::String(Arc::from(text))),
    ]
}

fn node() -> impl Strategy<Value = NodePattern> {
    (prop::option::of(ident()), prop::option::of(labels())).prop_map(|(variable, labels)| {
        NodePattern {
            variable,
            labels,
            ..NodePattern::default()
        }
    })
}

fn path(inner: impl Strategy<Value = Expr> + Clone) -> impl Strategy<Value = PathPattern> {
    let direction = prop::sample::select(vec![
        Direction::Outgoing,
        Direction::Incoming,
        Direction::Both,
    ]);
    let length = prop::option::of(
        (0_u64..3, prop::option::of(0_u64..4)).prop_map(|(min, max)| PathLength {
            min,
            max,
            span: Span::default(),
        }),
    );
    let relationship = (
        prop::option::of(ident()),
        prop::option::of(labels()),
        direction,
        length,
        prop::option::of(inner),
    )
        .prop_map(
            |(variable, types, direction, length, predicate)| RelationshipPattern {
                variable,
                types,
                direction,
                length,
                properties: None,
                predicate,
                span: Span::default(),
            },
        );
    let step = (relationship, node()).prop_map(|(relationship, node)| PathStep {
        link: PatternLink::Relationship(Box::new(relationship)),
        node,
    });
    (node(), prop::collection::vec(step, 1..3)).prop_map(|(start, steps)| PathPattern {
        mode: None,
        variable: None,
        selector: None,
        start,
        steps,
        predicate: None,
        span: Span::default(),
    })
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        3 => literal().prop_map(|literal| make(ExprKind::Literal(literal))),
        3 => ident().prop_map(|name| make(ExprKind::Variable(name.name))),
        1 => prop::sample::select(vec!["p", "0", "a b"]).prop_map(|name| make(ExprKind::Parameter(Arc::from(name)))),
        1 => Just(make(ExprKind::CountStar)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![2 => operators(inner.clone()), 1 => suffixes(inner.clone()), 2 => constructs(inner)]
    })
}

fn operators(inner: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let several = prop::collection::vec(inner.clone(), 2..4);
    let boxed = inner.clone().prop_map(Box::new);
    let comparisons = vec![
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
    ];
    let mut binary = comparisons.clone();
    binary.extend([
        BinaryOp::Add,
        BinaryOp::Subtract,
        BinaryOp::Multiply,
        BinaryOp::Divide,
        BinaryOp::Modulo,
        BinaryOp::Power,
        BinaryOp::Concat,
        BinaryOp::In,
        BinaryOp::StartsWith,
        BinaryOp::EndsWith,
        BinaryOp::Contains,
        BinaryOp::RegexMatch,
    ]);
    prop_oneof![
        several
            .clone()
            .prop_map(|operands| make(ExprKind::And(operands))),
        several
            .clone()
            .prop_map(|operands| make(ExprKind::Or(operands))),
        several.prop_map(|operands| make(ExprKind::Xor(operands))),
        (
            prop::sample::select(vec![UnaryOp::Not, UnaryOp::Minus, UnaryOp::Plus]),
            boxed.clone()
        )
            .prop_map(|(op, operand)| make(ExprKind::Unary { op, operand })),
        (prop::sample::select(binary), boxed.clone(), boxed)
            .prop_map(|(op, left, right)| make(ExprKind::Binary { op, left, right })),
        prop::collection::vec((prop::sample::select(comparisons), inner.clone()), 3..5).prop_map(
            |parts| {
                let (mut operators, operands): (Vec<BinaryOp>, Vec<Expr>) =
                    parts.into_iter().unzip();
                operators.pop();
                make(ExprKind::ComparisonChain {
                    operands,
                    operators,
                })
            }
        ),
    ]
    .boxed()
}

fn suffixes(inner: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let boxed = inner.prop_map(Box::new);
    let maybe = prop::option::of(boxed.clone());
    let types = prop::sample::select(vec![
        TypeExpr::Integer,
        TypeExpr::List(Box::new(TypeExpr::NotNull(Box::new(TypeExpr::String)))),
        TypeExpr::Union(vec![TypeExpr::LocalTime, TypeExpr::ZonedDateTime]),
    ]);
    prop_oneof![
        (boxed.clone(), ident()).prop_map(|(base, key)| make(ExprKind::Property { base, key })),
        (boxed.clone(), boxed.clone())
            .prop_map(|(base, index)| make(ExprKind::Index { base, index })),
        (boxed.clone(), maybe.clone(), maybe).prop_map(|(base, from, to)| make(ExprKind::Slice {
            base,
            from,
            to
        })),
        (boxed.clone(), any::<bool>())
            .prop_map(|(operand, negated)| make(ExprKind::IsNull { operand, negated })),
        (boxed.clone(), types, any::<bool>()).prop_map(|(operand, value_type, negated)| make(
            ExprKind::IsTyped {
                operand,
                value_type,
                negated
            }
        )),
        (boxed, labels())
            .prop_map(|(operand, labels)| make(ExprKind::HasLabels { operand, labels })),
    ]
    .prop_filter(
        "a second label predicate would join the first",
        |tree| match &tree.kind {
            ExprKind::HasLabels { operand, .. } => {
                !matches!(operand.kind, ExprKind::HasLabels { .. })
            }
            _ => true,
        },
    )
    .boxed()
}

fn constructs(inner: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let boxed = inner.clone().prop_map(Box::new).boxed();
    let maybe = prop::option::of(boxed.clone()).boxed();
    let entry = (ident(), inner.clone())
        .prop_map(|(key, value)| MapEntry { key, value })
        .boxed();
    let quantifier = prop::sample::select(vec![
        QuantifierKind::All,
        QuantifierKind::Any,
        QuantifierKind::None,
        QuantifierKind::Single,
    ]);
    let item = prop_oneof![
        ident().prop_map(MapProjectionItem::Property),
        Just(MapProjectionItem::AllProperties),
        entry.clone().prop_map(MapProjectionItem::Entry),
        ident().prop_map(MapProjectionItem::Variable),
    ];
    prop_oneof![
        prop::collection::vec(inner.clone(), 0..4)
            .prop_map(|elements| make(ExprKind::List(elements))),
        prop::collection::vec(entry, 0..3).prop_map(|entries| make(ExprKind::Map(entries))),
        (
            prop::sample::select(vec!["f", "count", "toInteger", "case", "collect"]),
            any::<bool>(),
            prop::collection::vec(inner.clone(), 1..3)
        )
            .prop_map(|(name, distinct, arguments)| {
                let name = QualifiedName {
                    parts: vec![Ident::new(name, Span::default())],
                    span: Span::default(),
                };
                make(ExprKind::Function {
                    name,
                    distinct,
                    arguments,
                })
            }),
        (ident(), boxed.clone(), maybe.clone(), maybe.clone()).prop_map(
            |(variable, list, predicate, projection)| make(ExprKind::ListComprehension {
                variable,
                list,
                predicate,
                projection
            })
        ),
        (quantifier, ident(), boxed.clone(), maybe.clone()).prop_map(
            |(kind, variable, list, predicate)| make(ExprKind::Quantifier {
                kind,
                variable,
                list,
                predicate
            })
        ),
        (
            ident(),
            boxed.clone(),
            ident(),
            boxed.clone(),
            boxed.clone()
        )
            .prop_map(|(accumulator, initial, variable, list, step)| make(
                ExprKind::Reduce {
                    accumulator,
                    initial,
                    variable,
                    list,
                    step
                }
            )),
        (
            maybe.clone(),
            prop::collection::vec((inner.clone(), inner.clone()), 1..3),
            maybe.clone()
        )
            .prop_map(|(subject, branches, otherwise)| {
                let branches = branches
                    .into_iter()
                    .map(|(when, then)| CaseBranch { when, then })
                    .collect();
                make(ExprKind::Case {
                    subject,
                    branches,
                    otherwise,
                })
            }),
        (ident(), prop::collection::vec(item, 0..4))
            .prop_map(|(variable, items)| make(ExprKind::MapProjection { variable, items })),
        (path(inner.clone()), maybe, boxed).prop_map(|(path, predicate, projection)| make(
            ExprKind::PatternComprehension {
                path: Box::new(path),
                predicate,
                projection
            }
        )),
        (
            path(inner),
            prop::option::of(Just(make(ExprKind::Literal(Literal::Bool(true)))))
        )
            .prop_map(|(path, predicate)| {
                let pattern = Pattern {
                    paths: vec![path],
                    span: Span::default(),
                };
                let clause = Clause::Match(Match {
                    optional: false,
                    mode: MatchMode::default(),
                    hints: Vec::new(),
                    pattern,
                    predicate,
                    span: Span::default(),
                });
                let branches = vec![SingleQuery {
                    clauses: vec![clause],
                    span: Span::default(),
                }];
                let query = Box::new(RegularQuery {
                    branches,
                    union: UnionKind::Distinct,
                    span: Span::default(),
                });
                make(ExprKind::Subquery {
                    kind: SubqueryKind::Count,
                    query,
                })
            }),
    ]
    .boxed()
}
