//! The ledger of GQL's optional features (ISO/IEC 39075:2024): the page `docs/gql.md`, and a statement for each.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use isomer_db::{Database, ErrorKind};
use isomer_testkit::tck::notation::Noted;

/// What is here of a feature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// As the standard spells it; the statement gives this single value, as text.
    Here(&'static str),
    /// By another spelling, which the statement shows.
    Otherwise(&'static str),
    /// Refused; the statement is an error.
    Refused,
}

use State::{Here, Otherwise, Refused};

/// A feature: its number, its name, what is here of it, and the statement that shows it.
type Feature = (&'static str, &'static str, State, &'static str);

/// Nodes and relationships that the statements find: a path of three people, and back.
const GRAPH: &str = "INSERT (a:Person {name: 'a'})-[:KNOWS]->(b:Person:Old {name: 'b'})-[:KNOWS]->(c {name: 'c'}), \
     (c)-[:KNOWS]->(a)";

const FEATURES: &[Feature] = &[
    (
        "G002",
        "Different-edges match mode",
        Here("3"),
        "MATCH ()-[r]->(), ()-[s]->() WHERE r.x IS NULL RETURN count(*) / 2 AS v",
    ),
    (
        "G003",
        "Explicit REPEATABLE ELEMENTS keyword",
        Here("9"),
        "MATCH REPEATABLE ELEMENTS ()-[]->(), ()-[]->() RETURN count(*) AS v",
    ),
    (
        "G004",
        "Path variables",
        Here("2"),
        "MATCH p = ({name: 'a'})-->()-->({name: 'c'}) RETURN length(p) AS v",
    ),
    (
        "G010",
        "Explicit WALK keyword",
        Here("5"),
        "MATCH REPEATABLE ELEMENTS WALK ({name: 'a'})-[:KNOWS]->{1,5}() RETURN count(*) AS v",
    ),
    (
        "G011",
        "Advanced path modes: TRAIL",
        Here("3"),
        "MATCH TRAIL ({name: 'a'})-[:KNOWS]->+() RETURN count(*) AS v",
    ),
    (
        "G012",
        "Advanced path modes: SIMPLE",
        Here("3"),
        "MATCH SIMPLE ({name: 'a'})-[:KNOWS]->+() RETURN count(*) AS v",
    ),
    (
        "G013",
        "Advanced path modes: ACYCLIC",
        Here("2"),
        "MATCH ACYCLIC ({name: 'a'})-[:KNOWS]->+() RETURN count(*) AS v",
    ),
    (
        "G014",
        "Explicit PATH/PATHS keywords",
        Here("2"),
        "MATCH ACYCLIC PATHS ({name: 'a'})-[:KNOWS]->+() RETURN count(*) AS v",
    ),
    (
        "G016",
        "Any path search",
        Here("3"),
        "MATCH ANY ({name: 'a'})-[:KNOWS]->+() RETURN count(*) AS v",
    ),
    (
        "G017",
        "All shortest path search",
        Here("2"),
        "MATCH p = ALL SHORTEST ({name: 'a'})-[:KNOWS]->+({name: 'c'}) RETURN length(p) AS v",
    ),
    (
        "G018",
        "Any shortest path search",
        Here("2"),
        "MATCH p = ANY SHORTEST ({name: 'a'})-[:KNOWS]->+({name: 'c'}) RETURN length(p) AS v",
    ),
    (
        "G019",
        "Counted shortest path search",
        Here("1"),
        "MATCH SHORTEST 2 ({name: 'a'})-[:KNOWS]->+({name: 'c'}) RETURN count(*) AS v",
    ),
    (
        "G020",
        "Counted shortest group search",
        Here("1"),
        "MATCH SHORTEST 2 GROUPS ({name: 'a'})-[:KNOWS]->+({name: 'c'}) RETURN count(*) AS v",
    ),
    (
        "G035",
        "Quantified paths",
        Here("3"),
        "MATCH ({name: 'a'})((x)-[:KNOWS]->(y)){1,3}(z) RETURN count(*) AS v",
    ),
    (
        "G036",
        "Quantified edges",
        Here("2"),
        "MATCH ({name: 'a'})-[:KNOWS]->{1,2}(z) RETURN count(*) AS v",
    ),
    (
        "G038",
        "Parenthesized path pattern expression",
        Here("2"),
        "MATCH ANY SHORTEST ((p)-[:KNOWS]->(q:Person)) RETURN count(*) AS v",
    ),
    (
        "G044",
        "Basic abbreviated edge patterns",
        Here("3"),
        "MATCH (a)-->(b) RETURN count(*) AS v",
    ),
    (
        "G050",
        "Parenthesized path pattern: WHERE clause",
        Here("1"),
        "MATCH ({name: 'a'})((x)-[:KNOWS]->(y) WHERE y:Person){1,3}(z) RETURN count(*) AS v",
    ),
    (
        "G060",
        "Bounded graph pattern quantifiers",
        Here("1"),
        "MATCH ({name: 'a'})-[:KNOWS]->{2}(z) RETURN count(*) AS v",
    ),
    (
        "G061",
        "Unbounded graph pattern quantifiers",
        Here("2"),
        "MATCH ({name: 'a'})-[:KNOWS]->{2,}(z) RETURN count(*) AS v",
    ),
    (
        "G074",
        "Label expression: wildcard label",
        Here("2"),
        "MATCH (n:%) RETURN count(*) AS v",
    ),
    (
        "G100",
        "ELEMENT_ID function",
        Otherwise("true"),
        "MATCH (n:Old) RETURN elementId(n) IS NOT NULL AS v",
    ),
    (
        "G111",
        "IS LABELED predicate",
        Otherwise("1"),
        "MATCH (n) WHERE n:Old RETURN count(*) AS v",
    ),
    (
        "GE07",
        "Boolean XOR",
        Here("true"),
        "RETURN true XOR false AS v",
    ),
    (
        "GF01",
        "Enhanced numeric functions",
        Here("3.0"),
        "RETURN abs(-1) + floor(2.5) AS v",
    ),
    (
        "GF02",
        "Trigonometric functions",
        Here("0.0"),
        "RETURN sin(0) AS v",
    ),
    (
        "GF03",
        "Logarithmic functions",
        Here("2.0"),
        "RETURN log10(100) AS v",
    ),
    (
        "GF06",
        "Explicit TRIM function",
        Here("'a'"),
        "RETURN trim(BOTH 'x' FROM 'xax') AS v",
    ),
    (
        "GF10",
        "Advanced aggregate functions: general set functions",
        Here("['a', 'b']"),
        "MATCH (n:Person) WITH n.name AS name ORDER BY name RETURN collect(name) AS v",
    ),
    (
        "GF11",
        "Advanced aggregate functions: binary set functions",
        Otherwise("2"),
        "UNWIND [1, 2, 3] AS x RETURN percentileDisc(x, 0.5) AS v",
    ),
    (
        "GL01",
        "Hexadecimal literals",
        Here("255"),
        "RETURN 0xff AS v",
    ),
    ("GL02", "Octal literals", Here("8"), "RETURN 0o10 AS v"),
    (
        "GP01",
        "Inline procedure",
        Here("2"),
        "CALL { MATCH (n:Person) RETURN count(*) AS n } RETURN n AS v",
    ),
    (
        "GP03",
        "Inline procedure with explicit nested variable scope",
        Here("3"),
        "LET x = 1 CALL (x) { RETURN x + 2 AS y } RETURN y AS v",
    ),
    (
        "GP04",
        "Named procedure calls",
        Here("2"),
        "CALL db.labels() YIELD label RETURN count(*) AS v",
    ),
    (
        "GQ02",
        "Composite query: OTHERWISE",
        Refused,
        "RETURN 1 AS v OTHERWISE RETURN 2 AS v",
    ),
    (
        "GQ03",
        "Composite query: UNION",
        Here("[1, 2]"),
        "RETURN 1 AS x UNION RETURN 2 AS x NEXT RETURN collect(x) AS v",
    ),
    (
        "GQ04",
        "Composite query: EXCEPT DISTINCT",
        Refused,
        "RETURN 1 AS v EXCEPT DISTINCT RETURN 2 AS v",
    ),
    (
        "GQ08",
        "FILTER statement",
        Here("1"),
        "MATCH (n:Person) FILTER n.name = 'a' RETURN count(*) AS v",
    ),
    (
        "GQ09",
        "LET statement",
        Here("3"),
        "LET x = 1, y = 2 RETURN x + y AS v",
    ),
    (
        "GQ10",
        "FOR statement: list value support",
        Here("6"),
        "FOR x IN [1, 2, 3] RETURN sum(x) AS v",
    ),
    (
        "GQ11",
        "FOR statement: WITH ORDINALITY",
        Here("[1, 2]"),
        "FOR x IN ['a', 'b'] WITH ORDINALITY i RETURN collect(i) AS v",
    ),
    (
        "GQ12",
        "ORDER BY and page statement: OFFSET clause",
        Here("2"),
        "FOR x IN [1, 2] RETURN x AS v ORDER BY x OFFSET 1",
    ),
    (
        "GQ13",
        "ORDER BY and page statement: LIMIT clause",
        Here("1"),
        "FOR x IN [1, 2] RETURN x AS v ORDER BY x LIMIT 1",
    ),
    (
        "GQ14",
        "Complex expressions in sort keys",
        Here("2"),
        "FOR x IN [1, 2] RETURN x AS v ORDER BY -x + 1 LIMIT 1",
    ),
    (
        "GQ15",
        "GROUP BY clause",
        Otherwise("3"),
        "FOR x IN [1, 2, 1] WITH x % 2 AS k, count(*) AS n RETURN sum(n) AS v",
    ),
    (
        "GQ16",
        "Pre-projection aliases in sort keys",
        Here("'b'"),
        "MATCH (n:Person) RETURN n.name AS v ORDER BY n.name DESC LIMIT 1",
    ),
    (
        "GQ18",
        "Scalar subqueries",
        Otherwise("2"),
        "RETURN COUNT { MATCH (n:Person) } AS v",
    ),
    (
        "GQ20",
        "Advanced linear composition with NEXT",
        Here("3"),
        "MATCH (n) RETURN n.name AS name NEXT RETURN count(name) AS v",
    ),
    (
        "GQ22",
        "EXISTS predicate: multiple MATCH statements",
        Here("true"),
        "RETURN EXISTS { MATCH (n:Person) MATCH (n)-->(m) RETURN m } AS v",
    ),
];

/// Every statement gives what its feature says, and the page shows the same.
pub fn hold() -> Result<usize> {
    let db = Database::open_in_memory()?;
    db.query(GRAPH)?;
    for (id, name, state, statement) in FEATURES {
        match state {
            Refused => {
                let error = db
                    .query(*statement)
                    .err()
                    .with_context(|| format!("{id} {name} is accepted"))?;
                ensure!(error.kind() == ErrorKind::Invalid, "{id}: {error}");
            }
            Here(expected) | Otherwise(expected) => {
                let found = db
                    .query(*statement)
                    .with_context(|| format!("{id} {name}"))?;
                let row = found
                    .single()
                    .with_context(|| format!("{id} {name}: {statement}"))?;
                let found = Noted::of(&row.values()[0]).to_string();
                ensure!(
                    found == *expected,
                    "{id} {name}: {found} instead of {expected}"
                );
            }
        }
    }
    let page = page()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gql.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page)?;
    }
    let written = std::fs::read_to_string(&path).context("docs/gql.md is missing")?;
    ensure!(
        written == page,
        "docs/gql.md is out of date: run this with UPDATE_GOLDEN=1"
    );
    Ok(FEATURES.len())
}

/// The page.
fn page() -> Result<String> {
    let mut page = String::from(
        "# GQL\n\n\
         Cypher and GQL (ISO/IEC 39075:2024) share most of their syntax. This page lists optional features of GQL:\n\
         what is here, and a statement for each, which a test runs. The [language](language.md#gql) describes them.\n\
         `cargo xtask test --suite language` checks the page, and writes it with `UPDATE_GOLDEN=1`.\n\n\
         | feature | name | here | for example |\n|---|---|---|---|\n",
    );
    for (id, name, state, statement) in FEATURES {
        let state = match state {
            Here(_) => "**+**",
            Otherwise(_) => "with another spelling",
            Refused => "refused",
        };
        let statement = statement.replace('|', "&#124;");
        writeln!(page, "| {id} | {name} | {state} | `{statement}` |")?;
    }
    Ok(page)
}
