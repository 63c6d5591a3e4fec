use super::*;
use crate::ast::*;

fn query(text: &str) -> RegularQuery {
    match parse(text)
        .unwrap_or_else(|error| panic!("{}", error.render(text)))
        .body
    {
        StatementBody::Query(query) => query,
        other => panic!("no query: {other:?}"),
    }
}

fn expr(text: &str) -> Expr {
    parse_expression(text).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

fn error(text: &str) -> ParseError {
    match parse(text) {
        Ok(statement) => panic!("{text} was parsed: {statement:?}"),
        Err(error) => error,
    }
}

/// The expression with every operator in parentheses.
fn grouped(expr: &Expr) -> String {
    let joined = |operands: &[Expr], word: &str| {
        format!(
            "({})",
            operands.iter().map(grouped).collect::<Vec<_>>().join(word)
        )
    };
    match &expr.kind {
        ExprKind::Literal(Literal::Int(number)) => number.to_string(),
        ExprKind::Variable(name) => name.to_string(),
        ExprKind::And(operands) => joined(operands, " AND "),
        ExprKind::Or(operands) => joined(operands, " OR "),
        ExprKind::Xor(operands) => joined(operands, " XOR "),
        ExprKind::Unary { op, operand } => format!("({op:?} {})", grouped(operand)),
        ExprKind::Binary { op, left, right } => {
            format!("({} {op:?} {})", grouped(left), grouped(right))
        }
        ExprKind::ComparisonChain {
            operands,
            operators,
        } => {
            let rest: Vec<String> = operators
                .iter()
                .zip(&operands[1..])
                .map(|(op, operand)| format!("{op:?} {}", grouped(operand)))
                .collect();
            format!("({} {})", grouped(&operands[0]), rest.join(" "))
        }
        ExprKind::IsNull { operand, negated } => format!("({} IsNull {negated})", grouped(operand)),
        ExprKind::Property { base, key } => format!("{}.{}", grouped(base), key.name),
        ExprKind::Index { base, index } => format!("{}[{}]", grouped(base), grouped(index)),
        ExprKind::HasLabels { operand, .. } => format!("({} HasLabels)", grouped(operand)),
        other => format!("{other:?}"),
    }
}

#[test]
fn operators_group_as_opencypher_has_it() {
    for (text, groups) in [
        ("a OR b XOR c AND NOT d", "(a OR (b XOR (c AND (Not d))))"),
        ("a AND b AND c OR d", "((a AND b AND c) OR d)"),
        ("(a AND b) AND c", "((a AND b) AND c)"),
        ("NOT a = b", "(Not (a Equal b))"),
        ("NOT NOT a", "(Not (Not a))"),
        ("a < b <= c", "(a Less b LessOrEqual c)"),
        ("a = b IN c", "(a Equal (b In c))"),
        ("a + b * c - d", "((a Add (b Multiply c)) Subtract d)"),
        ("a ^ b ^ c", "((a Power b) Power c)"),
        ("-a ^ b", "((Minus a) Power b)"),
        ("-2 ^ 2", "(-2 Power 2)"),
        ("1 - 1", "(1 Subtract 1)"),
        ("1 -1", "(1 Subtract 1)"),
        ("- -1", "(Minus -1)"),
        ("a % b / c", "((a Modulo b) Divide c)"),
        ("a + b IS NOT NULL", "((a Add b) IsNull true)"),
        ("a.b[1].c + 1", "(a.b[1].c Add 1)"),
        ("a:B AND c:D", "((a HasLabels) AND (c HasLabels))"),
        ("a STARTS WITH b + c", "(a StartsWith (b Add c))"),
        ("a IN b IN c", "((a In b) In c)"),
        ("a = NOT b", "(a Equal (Not b))"),
    ] {
        assert_eq!(grouped(&expr(text)), groups, "{text}");
    }
}

#[test]
fn numbers_reach_their_limits() {
    for (text, number) in [
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("-0x8000000000000000", i64::MIN),
        ("0o777777777777777777777", i64::MAX),
        ("0x7fFF", 0x7fff),
    ] {
        assert_eq!(
            expr(text).kind,
            ExprKind::Literal(Literal::Int(number)),
            "{text}"
        );
    }
    assert_eq!(
        expr("-1.5e-3").kind,
        ExprKind::Literal(Literal::Float(-0.0015))
    );
    for (text, detail) in [
        ("RETURN 9223372036854775808", Detail::IntegerOverflow),
        ("RETURN -9223372036854775809", Detail::IntegerOverflow),
        ("RETURN 0x8000000000000000", Detail::IntegerOverflow),
        ("RETURN 99999999999999999999999", Detail::IntegerOverflow),
        ("RETURN 1e999", Detail::FloatingPointOverflow),
        ("RETURN 0x", Detail::InvalidNumberLiteral),
        ("RETURN 12ab", Detail::InvalidNumberLiteral),
        ("RETURN {1a: 1}", Detail::UnexpectedSyntax),
        ("RETURN '\\uH'", Detail::InvalidUnicodeLiteral),
        ("RETURN 1 — 2", Detail::InvalidUnicodeCharacter),
    ] {
        assert_eq!(error(text).detail, detail, "{text}");
    }
}

#[test]
fn patterns_alternate_nodes_and_links() {
    let path = |text: &str| -> PathPattern {
        match query(&format!("MATCH {text} RETURN 1"))
            .branches
            .remove(0)
            .clauses
            .remove(0)
        {
            Clause::Match(mut clause) => clause.pattern.paths.remove(0),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        path("(a)--(b)<-[r:T|:U*2..3 {x: 1}]-(c)<-->(d)")
            .steps
            .len(),
        3
    );
    assert_eq!(path("((x)-->(y)){1,3}"), path("()((x)-->(y)){1,3}()"));
    assert_eq!(
        path("((x)-->(y))+((z)--(w))*"),
        path("()((x)-->(y)){1,}()((z)--(w)){0,}()")
    );
    assert_eq!(path("(a)-[:T]->+(b)"), path("(a)-[:T*]->(b)"));
    assert_eq!(path("(a)-->{2}(b)"), path("(a)-[*2]->(b)"));
    let selected = path("p = SHORTEST 2 ((a)-[:T]->+(b) WHERE a.x > 1)");
    assert_eq!(
        (selected.selector, selected.predicate.is_some()),
        (Some(PathSelector::Shortest(2)), true)
    );
    assert_eq!(
        path("ALL SHORTEST (a)-->*(b)").selector,
        Some(PathSelector::AllShortest)
    );
    assert_eq!(
        path("p = allShortestPaths((a)-[*]-(b))").selector,
        Some(PathSelector::AllShortestPathsFunction)
    );
    assert_eq!(path("(n:A:B)"), path("(n:A&B)"));
    assert!(matches!(
        path("(n:!A&(B|C)|%)").start.labels,
        Some(LabelExpr {
            kind: LabelExprKind::Or(_),
            ..
        })
    ));
}

#[test]
fn a_parenthesis_is_a_pattern_only_where_it_reads_as_one() {
    assert!(matches!(
        expr("(a)-->(b)").kind,
        ExprKind::PatternPredicate(_)
    ));
    assert!(matches!(
        expr("(a)<-[:T]-()").kind,
        ExprKind::PatternPredicate(_)
    ));
    assert!(matches!(
        expr("NOT (a:X)--({y: 1})").kind,
        ExprKind::Unary { .. }
    ));
    assert!(matches!(
        expr("(a) - (b)").kind,
        ExprKind::Binary {
            op: BinaryOp::Subtract,
            ..
        }
    ));
    assert!(matches!(
        expr("(a)--1").kind,
        ExprKind::Binary {
            op: BinaryOp::Subtract,
            ..
        }
    ));
    assert!(matches!(
        expr("(a) < -(b)").kind,
        ExprKind::Binary {
            op: BinaryOp::Less,
            ..
        }
    ));
    assert!(matches!(
        expr("[(a)-->(b) WHERE a.x | b.y]").kind,
        ExprKind::PatternComprehension { .. }
    ));
    assert!(matches!(
        expr("[p = (a)-->(b) | p]").kind,
        ExprKind::PatternComprehension { .. }
    ));
    assert!(matches!(expr("[(a) - b, c]").kind, ExprKind::List(_)));
    for text in [
        "RETURN (a)-->(b)",
        "RETURN ((a)-->(b))",
        "RETURN size(((a)-->()))",
        "RETURN size((a)-->())",
        "MATCH (n) SET n.x = [(n)-->()]",
        "WITH (a)--(b) AS x RETURN x",
    ] {
        assert_eq!(error(text).detail, Detail::UnexpectedSyntax, "{text}");
    }
    for text in [
        "RETURN not((a)-->(b)) AS x",
        "RETURN ((a)-->(b)) AND true AS x",
        "RETURN true XOR (((a)-->(b))) AS x",
    ] {
        query(text);
    }
    query(
        "MATCH (n) WHERE exists((n)-->()) AND EXISTS { (n)-->(m) WHERE m.x } OR COUNT { MATCH (n)--() } > 1 RETURN exists((n)-->())",
    );
}

#[test]
fn a_comma_makes_a_list_of_what_began_as_a_comprehension() {
    let two =
        |text: &str| matches!(expr(text).kind, ExprKind::List(elements) if elements.len() == 2);
    assert!(two("[x IN xs, true]"));
    assert!(two("[x IN xs AND NOT y, [z IN zs | z]]"));
    assert!(matches!(
        expr("[x IN [y IN ys, 1] WHERE x | x]").kind,
        ExprKind::ListComprehension { .. }
    ));
    // Without the memo of failed attempts, each level would be parsed again once per enclosing level.
    let deep = format!("{}1{}", "[x IN ".repeat(90), ", 2]".repeat(90));
    assert!(two(&deep));
}

#[test]
fn a_bar_ends_a_comprehension_before_it_joins_labels() {
    let comprehension = expr("[x IN xs WHERE x:A | x.name]");
    assert!(matches!(
        comprehension.kind,
        ExprKind::ListComprehension {
            predicate: Some(_),
            projection: Some(_),
            ..
        }
    ));
    assert!(matches!(
        expr("[x IN xs WHERE (x:A|B) | x]").kind,
        ExprKind::ListComprehension {
            projection: Some(_),
            ..
        }
    ));
    assert!(matches!(
        expr("x:A|B").kind,
        ExprKind::HasLabels {
            labels: LabelExpr {
                kind: LabelExprKind::Or(_),
                ..
            },
            ..
        }
    ));
}

#[test]
fn keywords_are_names_where_nothing_else_can_stand() {
    query(
        "MATCH (count:Match {return: 1})-[all:WITH]->(end) WHERE count.where = end.set RETURN count {.limit, x: 1}, all, end AS order_",
    );
    query("RETURN CASE WHEN true THEN 1 END AS shortest, collect([1]) AS exists");
    query("MATCH (where)-[order]->(set:A {x: 1}) RETURN where, set.y AS match ORDER BY order DESC");
    query("UNWIND [1] AS with WITH with AS limit WHERE limit > 0 RETURN limit AS return");
    query("MATCH ()-[WHERE -1 < 2]->(WHERE +1 = 1), (order WHERE true) RETURN order");
    for text in [
        "MATCH (n) RETURN n ORDER n.x",
        "MATCH (n) WHERE RETURN n",
        "RETURN 1 AS not",
        "OPTIONAL RETURN 1",
        "RETURN null(1)",
    ] {
        assert_eq!(error(text).detail, Detail::UnexpectedSyntax, "{text}");
    }
}

#[test]
fn clauses_come_in_order() {
    for text in [
        "RETURN 1 MATCH (n) RETURN n",
        "CREATE (n) MATCH (m) RETURN m",
        "MATCH (n)",
        "UNWIND [1] AS x",
        "RETURN 1 AS a UNION RETURN 2 AS a UNION ALL RETURN 3 AS a",
        "MATCH (n) WHERE EXISTS { MATCH (n) SET n.x = 1 } RETURN n",
        "MATCH (n) WHERE EXISTS { CALL { CREATE (m) RETURN m } RETURN m } RETURN n",
        "FOREACH (x IN [1] | MATCH (n))",
    ] {
        assert_eq!(
            error(text).detail,
            Detail::InvalidClauseComposition,
            "{text}"
        );
    }
    for text in [
        "CREATE (n) WITH * MATCH (m) RETURN m",
        "MATCH (n) CALL { WITH n CREATE (m) } RETURN n",
        "CALL (n, m) { RETURN 1 AS x } RETURN x",
        "CALL db.labels",
        "CALL db.labels() YIELD label AS l WHERE l > 'a' RETURN l",
        "FOREACH (x IN [1] | CREATE (n) SET n.x = x FOREACH (y IN [x] | MERGE (:Y {v: y})))",
        "LOAD CSV WITH HEADERS FROM 'a.csv' AS row FIELDTERMINATOR ';' CREATE (:N {a: row.a})",
        "EXPLAIN MATCH (n) RETURN n;",
        "PROFILE MATCH (n) RETURN DISTINCT *, n.x AS x ORDER BY x DESC, n.y SKIP 1 LIMIT $l",
        "MERGE (a)-[r:T]-(b) ON CREATE SET r.x = 1, a += {y: 2} ON MATCH SET a:L:M, b = $props",
        "MATCH (n) REMOVE n.a, n:B, n['c'] DETACH DELETE n",
    ] {
        query(text);
    }
}

#[test]
fn schema_commands() {
    let fields = |text: &str| match parse(text).expect(text).body {
        StatementBody::CreateIndex(index) => index
            .fields
            .iter()
            .map(|field| field.steps.len())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(fields("CREATE INDEX FOR (n:Person) ON (n.name)"), [1]);
    assert_eq!(
        fields(
            "CREATE UNIQUE INDEX by_all IF NOT EXISTS FOR (n:L) ON (n.a, n.b.c, n.tags[], n.items[].sku)"
        ),
        [1, 2, 2, 3]
    );
    assert_eq!(fields("CREATE INDEX i FOR ()-[r:KNOWS]-() ON r.since"), [1]);
    let constraint = |text: &str| match parse(text).expect(text).body {
        StatementBody::CreateConstraint(constraint) => constraint.kind,
        other => panic!("{other:?}"),
    };
    let unique = constraint("CREATE CONSTRAINT c FOR (n:L) REQUIRE (n.a, n.b) IS UNIQUE");
    assert!(matches!(unique, ConstraintRequirement::Unique(fields) if fields.len() == 2));
    assert!(matches!(
        constraint("CREATE CONSTRAINT FOR (n:L) REQUIRE n.a IS NOT NULL"),
        ConstraintRequirement::NotNull(_)
    ));
    assert!(matches!(
        constraint("CREATE CONSTRAINT FOR (n:L) REQUIRE n.a IS :: LIST<INTEGER NOT NULL>"),
        ConstraintRequirement::Typed(_, TypeExpr::List(_))
    ));
    assert!(matches!(
        constraint("CREATE CONSTRAINT FOR (n:L) REQUIRE (n.a) IS NODE KEY"),
        ConstraintRequirement::Key(_)
    ));
    assert!(matches!(
        constraint("CREATE CONSTRAINT FOR (n:L) REQUIRE n.a > 0 AND n.b IS NOT NULL"),
        ConstraintRequirement::Check(_)
    ));
    assert!(matches!(
        constraint("CREATE CONSTRAINT FOR (n:L) REQUIRE (n.a + n.b) > 0"),
        ConstraintRequirement::Check(_)
    ));
    for text in [
        "DROP INDEX i IF EXISTS",
        "DROP CONSTRAINT c",
        "SHOW INDEXES",
        "SHOW QUERIES;",
        "KILL QUERY 'q-1'",
        "KILL QUERY $id",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
    assert!(
        error("CREATE INDEX FOR (n:L) ON (m.a)")
            .message
            .contains("declared")
    );
}

#[test]
fn schema_commands_have_several_spellings() {
    for text in [
        "CREATE RANGE INDEX FOR (n:L) ON (n.a) OPTIONS {indexProvider: 'range-1.0', indexConfig: {}}",
        "CREATE TEXT INDEX $name IF NOT EXISTS FOR (n:L) ON n.a",
        "CREATE POINT INDEX i FOR (n:L) ON (n.a)",
        "CREATE LOOKUP INDEX i IF NOT EXISTS FOR (n) ON EACH labels(n)",
        "CREATE LOOKUP INDEX FOR ()-[r]-() ON type(r)",
        "CREATE CONSTRAINT c FOR (n:L) REQUIRE n.a IS NODE UNIQUE OPTIONS {indexProvider: 'range-1.0'}",
        "CREATE CONSTRAINT $c FOR (n:L) REQUIRE (n.a, n.b) IS NODE KEY",
        "CREATE text = (a)-[:R]->(b)",
        "CREATE (index)",
        "DROP INDEX $name IF EXISTS",
        "SHOW INDEX",
        "SHOW ALL INDEXES YIELD * WHERE name = 'a'",
        "SHOW VECTOR INDEXES YIELD name AS n ORDER BY n SKIP 1 LIMIT 2 WHERE n <> 'a' RETURN count(*) AS c",
        "SHOW INDEXES WHERE name = 'a'",
        "SHOW NODE UNIQUENESS CONSTRAINTS",
        "SHOW REL PROPERTY EXISTENCE CONSTRAINT YIELD name",
        "SHOW PROPERTY TYPE CONSTRAINTS",
        "SHOW KEY CONSTRAINTS",
        "SHOW CONSTRAINTS",
        "SHOW BUILT IN FUNCTIONS",
        "SHOW USER DEFINED FUNCTION EXECUTABLE BY CURRENT USER YIELD name RETURN name",
        "SHOW PROCEDURES EXECUTABLE YIELD name",
        "SHOW DATABASE people",
        "SHOW DATABASE $db YIELD name",
        "SHOW DATABASES YIELD name",
        "SHOW DEFAULT DATABASE",
        "SHOW HOME DATABASE",
        "SHOW CURRENT USER",
        "SHOW USERS",
        "SHOW SETTINGS 'a', 'b' YIELD name",
        "SHOW TRANSACTIONS",
        "SHOW TRANSACTION 'db-transaction-1'",
        "TERMINATE TRANSACTIONS 'a', $b YIELD message RETURN message",
        "TERMINATE TRANSACTION 'a'",
        "CYPHER 5 RETURN 1",
        "CYPHER 25 runtime=slotted planner=cost EXPLAIN RETURN 1",
        "PROFILE CYPHER runtime=pipelined SHOW INDEXES",
        "MATCH (n) FINISH",
        "CREATE (n) FINISH;",
        "MATCH (finish) RETURN finish",
        "INSERT (:A {x: 1})-[:R]->(:B) RETURN 1",
        "RETURN trim(BOTH 'x' FROM 'xax'), trim(LEADING FROM ' a'), trim(both), trim(' a')",
    ] {
        let parsed = parse(text);
        assert!(parsed.is_ok(), "{text}: {parsed:?}");
    }
    for (text, part) in [
        (
            "CREATE FULLTEXT INDEX i FOR (n:L) ON EACH [n.a]",
            "full-text",
        ),
        ("CREATE VECTOR INDEX i FOR (n:L) ON n.a", "vector"),
        ("CREATE WIDE INDEX i FOR (n:L) ON n.a", "RANGE INDEX"),
        ("CREATE INDEX FOR (n:L) ON (n.a) OPTIONS {x: 1}", "`x`"),
        ("CREATE INDEX FOR (n:L) ON (n.a) OPTIONS $o", "a map"),
        ("CYPHER 3 RETURN 1", "CYPHER 25"),
        ("SHOW NODE CONSTRAINTS", "expected"),
        ("FINISH RETURN 1", "expected"),
        ("RETURN 1 FINISH", "must be the last clause"),
        ("SHOW INDEXES RETURN 1", "the end of the statement"),
    ] {
        let message = error(text).message;
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn errors_say_what_was_found_and_meant() {
    for (text, place, hint) in [
        ("MTACH (n) RETURN n", "MTACH", "did you mean MATCH?"),
        ("MATCH (n) RETRUN n", "RETRUN", "did you mean RETURN?"),
        (
            "MATCH (n) WHRE n.x = 1 RETURN n",
            "WHRE",
            "did you mean WHERE?",
        ),
        (
            "MATCH (n) RETURN n ODER BY n.x",
            "ODER",
            "did you mean ORDER?",
        ),
        ("RETURN 1 == 2", "= 2", "equality is written `=`"),
        ("RETURN 1 != 2", "!", "inequality is written `<>`"),
        (
            "RETURN 'abc",
            "'abc",
            "end it with the quote that it starts with",
        ),
        ("RETURN [1, (2, 3]", ", 3", "disjunction"),
        (
            "RETURN (1 + 2",
            "",
            "`(` in line 1, column 8 of the statement is not closed",
        ),
        ("MATCH (n)-[:T]- RETURN n", "RETURN", ""),
        ("RETURN 1; RETURN 2", "RETURN 2", "one statement at a time"),
        (
            "MATCH (a)-[:T..3]->(b) RETURN a",
            "..3",
            "lengths are written",
        ),
    ] {
        let error = error(text);
        assert_eq!(
            error.span.start as usize,
            text.find(place)
                .filter(|_| !place.is_empty())
                .unwrap_or(text.len()),
            "{text}: {error}"
        );
        if hint != "disjunction" {
            assert!(
                error.hint.as_deref().unwrap_or("").contains(hint),
                "{text}: {error} {:?}",
                error.hint
            );
        }
        assert!(error.render(text).contains('^'));
    }
}

/// No input overflows the stack: 100,000 levels of every nestable construct end in an error.
#[test]
fn depth_is_limited() {
    const DEEP: usize = 100_000;
    let around = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(DEEP), close.repeat(DEEP))
    };
    let expressions = [
        around("(", "1", ")"),
        around("[", "", "]"),
        around("{a: ", "1", "}"),
        around("NOT ", "true", ""),
        around("-", "x", ""),
        around("- +", "1", ""),
        around("CASE WHEN true THEN ", "1", " END"),
        around("CASE ", "1", " WHEN 1 THEN 2 END"),
        around("f(", "1", ")"),
        around("x[", "1", "]"),
        around("[x IN ", "y", "]"),
        around("all(x IN ", "y", " WHERE true)"),
        around("reduce(a = 1, x IN ", "y", " | a)"),
        around("({a: ", "1", "})"),
        around("({a: ", "1", "})--(b)"),
        around("[(a {b: ", "1", "})-->() | 1]"),
        around("EXISTS { (a WHERE ", "true", ") }"),
        around("EXISTS { MATCH (a) WHERE ", "true", " }"),
        around("COUNT { RETURN ", "1", " AS x }"),
        around("a = NOT ", "b", ""),
        around("1 OR 1 XOR 1 AND NOT 1 = 1 IN 1 + 1 * 1 ^ (", "1", ")"),
        around("x {a: ", "1", "}"),
        format!("n:{}", around("!", "A", "")),
        around("x:$(", "'A'", ")"),
        format!("n:{}", around("(", "A", ")")),
        format!("1{}", " ^ 1".repeat(DEEP)),
        format!("x{}", ".a".repeat(DEEP)),
        format!("x{}", "[0]".repeat(DEEP)),
        format!("x{}", " IS NULL".repeat(DEEP)),
        format!("1{}", " IN x".repeat(DEEP)),
    ];
    let mut texts: Vec<String> = expressions
        .iter()
        .map(|text| format!("MATCH (n) WHERE {text} RETURN 1"))
        .collect();
    texts.push(format!("MATCH {} RETURN 1", around("(", "(a)", ")")));
    texts.push(format!(
        "MATCH {} RETURN 1",
        around("(", "(a)-->(b)", "){1,2}")
    ));
    texts.push(format!("MATCH (n:{}) RETURN 1", around("(", "A", ")")));
    texts.push(around("CALL { ", "RETURN 1 AS x", " }"));
    texts.push(around("WHEN true THEN { ", "RETURN 1 AS x", " }"));
    texts.push(around("WHEN true THEN ", "RETURN 1 AS x", ""));
    texts.push(around("FOREACH (x IN [1] | ", "CREATE (n)", ")"));
    texts.push(format!(
        "RETURN x IS :: {}",
        around("LIST<", "INTEGER", ">")
    ));
    for text in texts {
        let limits = ParseLimits {
            max_text_bytes: usize::MAX,
            ..ParseLimits::default()
        };
        match parse_within(&text, limits) {
            Err(error) => assert!(
                matches!(
                    error.detail,
                    Detail::LimitExceeded | Detail::UnexpectedSyntax
                ),
                "{text:.60}: {error}"
            ),
            Ok(_) => panic!("{text:.60} was parsed"),
        }
    }
}

#[test]
fn long_flat_chains_are_one_node() {
    const LONG: usize = 100_000;
    for (word, operator) in [("OR", "or"), ("AND", "and"), ("XOR", "xor")] {
        let text = vec!["x"; LONG].join(&format!(" {word} "));
        let chain = expr(&text);
        match &chain.kind {
            ExprKind::Or(operands) | ExprKind::And(operands) | ExprKind::Xor(operands) => {
                assert_eq!(operands.len(), LONG, "{operator}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        expr(&vec!["1"; LONG].join(" < ")).kind,
        ExprKind::ComparisonChain { .. }
    ));
    for operator in [" + ", " - ", " * ", " / "] {
        let chain = expr(&vec!["1"; LONG].join(operator));
        match &chain.kind {
            ExprKind::ArithmeticChain { operands, .. } => assert_eq!(operands.len(), LONG),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            expr(&chain.to_string()).kind.to_owned(),
            chain.kind,
            "{operator}"
        );
    }
    assert!(matches!(
        expr(&format!("[{}]", vec!["1"; LONG].join(","))).kind,
        ExprKind::List(_)
    ));
    assert!(matches!(
        expr(&format!("[{}]", vec!["1 + 1"; LONG].join(","))).kind,
        ExprKind::List(_)
    ));
}

/// Reasonable nesting fits, also on the small stack of a test thread.
#[test]
fn reasonable_depth_is_accepted() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{a: ", "}"),
        ("f(", ")"),
        ("NOT ", ""),
        ("CASE WHEN true THEN ", " END"),
        ("-", ""),
    ] {
        let text = format!("RETURN {}1{}", open.repeat(128), close.repeat(128));
        assert!(parse(&text).is_ok(), "{open}");
    }
    assert!(parse(&format!("RETURN 1{}", " + 1".repeat(300))).is_ok());
}

#[test]
fn texts_have_a_limit() {
    let text = format!("RETURN '{}'", "x".repeat(1 << 20));
    assert_eq!(error(&text).detail, Detail::LimitExceeded);
    let limits = ParseLimits {
        max_text_bytes: 1 << 21,
        ..ParseLimits::default()
    };
    assert!(parse_within(&text, limits).is_ok());
}

/// A long chain of queries takes time in proportion to its length.
#[test]
fn queries_are_chained() {
    let chain = format!("RETURN 1 AS x{}", " NEXT RETURN x + 1 AS x".repeat(20_000));
    assert_eq!(query(&chain).branches[0].clauses.len(), 20_001);
    let union = query("RETURN 1 AS x NEXT RETURN x UNION RETURN x");
    assert_eq!(union.branches.len(), 1);
    assert_eq!(
        error("RETURN * NEXT RETURN 1 AS x UNION RETURN 2 AS x").detail,
        Detail::UnexpectedSyntax
    );
    assert_eq!(
        error("CREATE (n) NEXT RETURN 1 AS x").detail,
        Detail::InvalidClauseComposition
    );
}
