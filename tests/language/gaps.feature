Feature: Refused statements that other files do not cover

  Scenario Outline: Refused before running
    Given any graph
    When executing query:
      """
      <q>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | q | detail |
      | RETURN count(rand()) | NonConstantExpression |
      | RETURN count(count(*)) | NestedAggregation |
      | RETURN sum(1 + max(2)) | NestedAggregation |
      | MATCH (a) RETURN a.x + count(*) | AmbiguousAggregationExpression |
      | MATCH (a)--(b) RETURN a.x + b.x + count(*) | AmbiguousAggregationExpression |
      | MATCH (a) WITH a.x AS x, a RETURN x + a.y + count(*) | AmbiguousAggregationExpression |
      | MATCH (a) RETURN a.x + a.y, a.x + a.y + count(*) | AmbiguousAggregationExpression |
      | MATCH (n) DELETE n:Person | InvalidDelete |
      | MATCH (n) DELETE 1 + 1 | InvalidArgumentType |
      | MATCH (n) MATCH r = (n)-[*]-() WHERE r.name = 'x' RETURN r | InvalidArgumentType |
      | MATCH (n) WHERE count(n) > 1 RETURN n | InvalidAggregation |
      | RETURN 1 IN 'foo' | InvalidArgumentType |
      | RETURN 1 IN {x: []} | InvalidArgumentType |
      | MATCH (n) RETURN [x IN [1, 2] \| count(x)] | InvalidAggregation |
      | RETURN 9223372036854775808 | IntegerOverflow |
      | RETURN -9223372036854775809 | IntegerOverflow |
      | RETURN 9223372h54775808 | InvalidNumberLiteral |
      | RETURN 9223372#54775808 | UnexpectedSyntax |
      | MATCH (a)-[:LIKES..]->(c) RETURN c | InvalidRelationshipPattern |
      | MATCH (a)-[:LIKES*-2]->(c) RETURN c | InvalidRelationshipPattern |
      | MATCH (a)-[r]->(b), (b)-[r]->(c) RETURN r | RelationshipUniquenessViolation |
      | CREATE (a)-[:X]->(b), (a)-->(b) | NoSingleRelationshipType |
      | CREATE (a)-[:A\|B]->(b) | NoSingleRelationshipType |
      | CREATE (a)-[:A*2]->(b) | CreatingVarLength |
      | CREATE (a)-[:FOO]-(b) | RequiresDirectedRelationship |
      | CREATE (a)<-[:FOO]->(b) | RequiresDirectedRelationship |
      | CREATE (b {name: missing}) RETURN b | UndefinedVariable |
      | MATCH (a) CREATE (a)-[a:T]->() | VariableAlreadyBound |
      | MERGE (a)-[:A\|B]->(b) | NoSingleRelationshipType |
      | MERGE (a)-->(b) | NoSingleRelationshipType |
      | MERGE (a)-[r:FOO {x: 1}]->(b) ON CREATE SET zz.y = 1 | UndefinedVariable |
      | MATCH (a) MERGE (a) | VariableAlreadyBound |
      | MATCH (a)-[r]->(b) MERGE (a)-[r]->(b) | VariableAlreadyBound |
      | MATCH (a)-[r]->(b) MERGE (a)-[r:T]->(b) | VariableAlreadyBound |
      | MATCH (n) RETURN n LIMIT -1 | NegativeIntegerArgument |
      | MATCH (n) RETURN n SKIP -1 | NegativeIntegerArgument |
      | MATCH (n) RETURN n SKIP 1.5 | InvalidArgumentType |
      | MATCH (n) WITH n LIMIT n.x RETURN n | NonConstantExpression |
      | MATCH () RETURN * | NoVariablesInScope |
      | MATCH (n) WITH count(*) RETURN 1 | NoExpressionAlias |
      | RETURN foo(1) | UnknownFunction |
      | RETURN substring('a') | InvalidNumberOfArguments |
      | MATCH (a) WITH a ORDER BY count(*) RETURN a | InvalidAggregation |
      | MATCH (n) RETURN n.a AS a ORDER BY n.b, count(*) | InvalidAggregation |
      | RETURN DISTINCT 1 AS a ORDER BY b | UndefinedVariable |
      | MATCH (n) RETURN DISTINCT n.a AS a ORDER BY n.b | UndefinedVariable |
      | UNWIND [1] AS x RETURN x UNION RETURN 1 AS y | DifferentColumnsInUnion |
      | RETURN 1 AS x UNION RETURN 1 AS x UNION ALL RETURN 1 AS x | InvalidClauseComposition |
      | MATCH (a) WHERE exists((a)-->(b)) RETURN a | UndefinedVariable |
      | MATCH (n) SET n.name = m.x | UndefinedVariable |
      | MATCH (n) REMOVE m.x | UndefinedVariable |
      | MATCH (a:A) RETURN (a)-->() | UnexpectedSyntax |
      | MATCH (a) SET a.x = (a)-->() | UnexpectedSyntax |
      | RETURN single(x IN [1] WHERE y = 1) | UndefinedVariable |
      | RETURN none(x IN ['a'] WHERE x % 2 = 0) | InvalidArgumentType |
      | RETURN any(x IN [{a: 2}] WHERE x % 2 = 0) | InvalidArgumentType |
      | RETURN NOT 1 | InvalidArgumentType |
      | RETURN 'a' AND true | InvalidArgumentType |
      | RETURN true OR 1.5 | InvalidArgumentType |
      | RETURN [] XOR true | InvalidArgumentType |
      | RETURN length(1) | InvalidArgumentType |
      | MATCH (n) RETURN length(n) | InvalidArgumentType |
      | MATCH ()-[r]->() RETURN length(r) | InvalidArgumentType |
      | MATCH (n) RETURN type(n) | InvalidArgumentType |
      | RETURN properties(1) | InvalidArgumentType |
      | RETURN labels(1) | InvalidArgumentType |
      | MATCH p = (a) RETURN labels(p) | InvalidArgumentType |
      | MATCH (a {x: $p})-[:T $m]->() RETURN a | InvalidParameterUse |
      | MATCH (a $m) RETURN a | InvalidParameterUse |
      | MERGE (a $m) RETURN a | InvalidParameterUse |
      | MATCH (a), (b) WHERE a = b AND c RETURN a | UndefinedVariable |
      | MATCH (a) RETURN a.x AS a, a.y AS a | ColumnNameConflict |
      | WITH 1 AS a MATCH (a) RETURN a | VariableTypeConflict |
      | WITH {x: 1} AS a MATCH ()-[a]->() RETURN a | VariableTypeConflict |
      | MATCH p = (a)-->() MATCH (p) RETURN p | VariableTypeConflict |
      | MATCH (a)-[r]->() MATCH (r) RETURN r | VariableTypeConflict |
      | MATCH (a) MATCH ()-[a]->() RETURN a | VariableTypeConflict |
      | MATCH (a) MATCH a = ()-->() RETURN a | VariableAlreadyBound |
      | MATCH ()-[r*]->() MATCH (r) RETURN r | VariableTypeConflict |
      | MATCH (n) WITH n.x AS x, n AS y RETURN n | UndefinedVariable |
      | MATCH (n) RETURN reduce(s = 0, x IN [1] \| s + count(n)) | InvalidAggregation |
      | RETURN {a: 1}.b.c[d] | UndefinedVariable |
      | MATCH (n) WHERE n.x = 1 SET n = count(n) | InvalidAggregation |
      | MATCH (n) DELETE foo.x | UndefinedVariable |
      | MATCH (n) UNWIND count(n) AS x RETURN x | InvalidAggregation |

  Scenario Outline: Refused while running
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1, s: 'a', l: [1], n: 0})-[:T {x: 2}]->(:B {x: 3})
      """
    When executing query:
      """
      <q>
      """
    Then a <class> should be raised at runtime: <detail>

    Examples:
      | q | class | detail |
      | MATCH (n:A) DETACH DELETE n RETURN n.x | EntityNotFound | DeletedEntityAccess |
      | MATCH (n:A) DETACH DELETE n RETURN labels(n) | EntityNotFound | DeletedEntityAccess |
      | MATCH ()-[r]->() DELETE r RETURN r.x | EntityNotFound | DeletedEntityAccess |
      | MATCH (n:A) DELETE n | ConstraintVerificationFailed | DeleteConnectedNode |
      | MATCH (a:A)-[r]->(b:B) DELETE a DELETE b | ConstraintVerificationFailed | DeleteConnectedNode |
      | MATCH (a:A)-[r]->(b:B) DELETE a DELETE b RETURN 1 AS x | ConstraintVerificationFailed | DeleteConnectedNode |
      | MATCH (a:A) WITH a.s AS s RETURN toInteger([s]) | TypeError | InvalidArgumentValue |
      | RETURN range(1, 5, 0) | ArgumentError | NumberOutOfRange |
      | WITH {a: 1} AS m, 2 AS i RETURN m[i] | TypeError | MapElementAccessByNonString |
      | WITH [1] AS l, 'x' AS i RETURN l[i] | TypeError | InvalidArgumentType |
      | MATCH (a:A) WITH a.n AS i RETURN percentileCont(i, 1.5) | ArgumentError | NumberOutOfRange |
      | MATCH (a:A) WITH a.s AS s RETURN s.x | TypeError | InvalidArgumentType |
      | MATCH (a:A) RETURN 1 / a.n | ArithmeticError | DivisionByZero |
      | MATCH (a:A) RETURN 1 % a.n | ArithmeticError | DivisionByZero |
      | MATCH (a:A) SET a.p = a | TypeError | InvalidPropertyType |
      | MERGE (a:M {x: null}) | SemanticError | MergeReadOwnWrites |
      | MATCH (a:A), (b:B) MERGE (a)-[:N {x: null}]->(b) | SemanticError | MergeReadOwnWrites |

  Scenario Outline: Answered all the same
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1, s: 'a', l: [1], n: 0})-[:T {x: 2}]->(:B {x: 3})
      """
    When executing query:
      """
      <q>
      """
    Then the result should be, in any order:
      | v   |
      | <v> |

    Examples:
      | q | v |
      | MATCH ()-[r]->() DELETE r RETURN type(r) AS v | 'T' |
      | MATCH (a:A) DETACH DELETE a RETURN count(a) AS v | 1 |
      | MATCH (a:A)-[r]->(b) DELETE a, r, b RETURN count(*) AS v | 1 |
      | MATCH p = (a:A)-[r]->(b) DELETE p RETURN 1 AS v | 1 |
      | MATCH (a:A)-[r]->() DELETE a DELETE r RETURN 1 AS v | 1 |
      | MATCH (a:A)-[r]->() DELETE r WITH a DELETE a RETURN 1 AS v | 1 |
      | MATCH (a:A)-[r]->(b) WITH {k: [r]} AS m, a, b DELETE m.k[0], a RETURN b.x AS v | 3 |
      | OPTIONAL MATCH (z:Z) DELETE z RETURN z AS v | null |
      | OPTIONAL MATCH (z:Z) DETACH DELETE z, null RETURN z AS v | null |
      | MATCH (a:A) REMOVE a.x, a:A RETURN a.x AS v | null |
      | MATCH (a:A) SET a.x = null RETURN keys(a) AS v | ['l', 'n', 's'] |
      | MATCH (a:A) RETURN a['l'][0] AS v | 1 |
      | WITH {a: {b: [1, 2]}} AS m RETURN m['a'].b[-1] AS v | 2 |
      | MATCH (a:A)-[:T*0..]->(b) RETURN count(b) AS v | 2 |
      | MATCH (a:A)-[:T*0]->(b) RETURN b.x AS v | 1 |
      | MATCH (a:A)-[*1..1]->(b) RETURN b.x AS v | 3 |
      | MATCH (a:A)-[*2]->(b) RETURN count(*) AS v | 0 |
      | MATCH (a:A)-[r*]-(b) RETURN r[0].x AS v | 2 |
      | MATCH (a:A) WITH a, a.x AS sum WITH a, a.n AS mod ORDER BY sum RETURN mod AS v | 0 |
      | MATCH (a:A) WITH a.x AS a ORDER BY a RETURN a AS v | 1 |
      | WITH 1 AS a, 2 AS b WITH b AS a, a AS b RETURN a * 10 + b AS v | 21 |
      | WITH [1, 2, 3] AS l UNWIND l AS x WITH DISTINCT x % 2 AS m ORDER BY m DESC RETURN collect(m) AS v | [1, 0] |
      | UNWIND [null, 1, 'a', true, 2.5, [1]] AS x WITH x ORDER BY x RETURN collect(x) AS v | [[1], 'a', true, 1, 2.5] |
      | UNWIND [1, 2, 3] AS x RETURN x AS v ORDER BY x DESC SKIP 1 LIMIT 1 | 2 |
      | MATCH (n) RETURN sum(n.x) + count(*) AS v | 6 |
      | MATCH (n) WITH count(n) AS c, collect(n.x) AS l RETURN {c: c, l: size(l)} AS v | {c: 2, l: 2} |
      | MATCH (n:Nope) RETURN count(*) + sum(n.x) AS v | 0 |
      | MATCH (n:Nope) RETURN [max(n.x), min(n.x), avg(n.x), collect(n)] AS v | [null, null, null, []] |
      | UNWIND [10, 20, 30] AS x RETURN percentileCont(x, 0.25) AS v | 15.0 |
      | UNWIND [10, 20, 30] AS x RETURN percentileDisc(x, 0.5) AS v | 20 |
      | UNWIND [2, 4, 4, 4, 5, 5, 7, 9] AS x RETURN stDevP(x) AS v | 2.0 |
      | UNWIND [1, 'a', null, [2], 0.5] AS x RETURN max(x) AS v | 1 |
      | UNWIND [1, 'a', null, [2], 0.5] AS x RETURN min(x) AS v | [2] |
      | UNWIND [[1, 2], [1], [1, null]] AS x RETURN max(x) AS v | [1, null] |
      | MATCH (a:A) OPTIONAL MATCH (a)-->(b:Nope) WHERE b.x = a.x RETURN b AS v | null |
      | MATCH (a:A) OPTIONAL MATCH (a)-->(b) WHERE a.x > 5 RETURN b AS v | null |
      | MATCH (a:A), (b:B) OPTIONAL MATCH p = (a)<--(b) RETURN p AS v | null |
      | MATCH (a:A)-->(b), (c)-->(b) RETURN count(*) AS v | 0 |
      | MATCH (a:A)-->(b) MATCH (c)-->(b) RETURN count(*) AS v | 1 |
      | MATCH (a) WHERE (a)-[:T]->() AND NOT (a)<--() RETURN a.x AS v | 1 |
      | MATCH (a:A) RETURN size([(a)-->(b) WHERE b:B \| b.x]) AS v | 1 |
      | MATCH p = (a:A)-->() RETURN [x IN nodes(p) \| x.x] + length(p) AS v | [1, 3, 1] |
      | MATCH (n) RETURN DISTINCT n:A OR n:B AS v | true |
      | MATCH (a:A) MERGE (a)-[r:T]->(b:B) ON MATCH SET r.seen = true ON CREATE SET r.seen = false RETURN r.seen AS v | true |
      | MATCH (a:A), (b:B) MERGE (b)-[r:T]->(a) ON MATCH SET r.seen = true ON CREATE SET r.seen = false RETURN r.seen AS v | false |
      | MATCH (a:A), (b:B) MERGE (b)-[r:T]-(a) RETURN r.x AS v | 2 |
      | UNWIND [1, 1, 2] AS i MERGE (m:M {i: i}) ON CREATE SET m.c = 1 ON MATCH SET m.c = m.c + 1 WITH DISTINCT m RETURN sum(m.c) AS v | 3 |
      | RETURN [1, 2] + 3 + [[4]] AS v | [1, 2, 3, [4]] |
      | RETURN 1 + [2] AS v | [1, 2] |
      | RETURN 'a' + 1 + true AS v | 'a1true' |
      | RETURN [x IN range(1, 9) WHERE x % 3 = 0 \| x ^ 2] AS v | [9.0, 36.0, 81.0] |
      | RETURN [null, 1] IN [[null, 1]] AS v | null |
      | RETURN null IN [] AS v | false |
      | RETURN 3 IN [1, null, 3] AS v | true |
      | RETURN 3 IN [1, null] AS v | null |
      | RETURN [1, 2] = [1, 2.0] AS v | true |
      | RETURN [1] < [1, null] AS v | true |
      | RETURN [1, 'a'] < [1, null] AS v | null |
      | RETURN 'a' < 'b' < 'c' AS v | true |
      | RETURN all(x IN [] WHERE false) AND none(x IN [] WHERE true) AND NOT any(x IN [] WHERE true) AND NOT single(x IN [] WHERE true) AS v | true |
      | RETURN any(x IN [1, null] WHERE x = 2) AS v | null |
      | RETURN single(x IN [1, null] WHERE x = 1) AS v | null |
      | RETURN single(x IN [1, 1, null] WHERE x = 1) AS v | false |
      | RETURN none(x IN [1, null] WHERE x = 1) AS v | false |
      | RETURN CASE null WHEN null THEN 1 ELSE 2 END AS v | 2 |
      | RETURN CASE WHEN null THEN 1 END AS v | null |
      | RETURN coalesce(null, {a: null}.a, 'x') AS v | 'x' |
      | RETURN {a: 1, b: null} = {b: null, a: 1} AS v | null |
      | RETURN keys({a: 1, b: null}) AS v | ['a', 'b'] |
      | RETURN keys(null) AS v | null |
      | RETURN properties(null) AS v | null |
      | RETURN id(null) IS NULL AND type(null) IS NULL AND labels(null) IS NULL AS v | true |
      | RETURN duration('P1Y2M') + duration('P1D') AS v | 'P1Y2M1D' |
      | RETURN [date('2020-01-31') + duration('P1M')] AS v | ['2020-02-29'] |
      | RETURN datetime('2020-03-29T01:30[Europe/Berlin]') + duration('PT1H') AS v | '2020-03-29T03:30+02:00[Europe/Berlin]' |
      | RETURN duration.inSeconds(datetime('2017-10-28T23:00[Europe/Stockholm]'), datetime('2017-10-29T04:00[Europe/Stockholm]')) AS v | 'PT6H' |
      | RETURN duration.between(date('1984-10-11'), localdatetime('2016-07-21T21:45:22.142')) AS v | 'P31Y9M10DT21H45M22.142S' |
      | RETURN duration.inMonths(date('2018-01-31'), date('2018-02-28')) AS v | 'PT0S' |
      | RETURN duration.inDays(localdatetime('2018-01-01T12:00'), localdatetime('2018-01-02T11:00')) AS v | 'PT0S' |
      | RETURN duration({months: 0.5, days: 0.5, seconds: -1.5}) AS v | 'P15DT17H14M31.5S' |
      | RETURN duration('P1M') < duration('P31D') AS v | null |
      | RETURN duration('P14D') = duration('P2W') AS v | true |
      | RETURN time('10:00+01:00') < time('09:30Z') AS v | true |
      | RETURN time('10:00+01:00') = time('09:00Z') AS v | false |
      | RETURN datetime('2000-01-01T00:00+01:00') = datetime('1999-12-31T23:00Z') AS v | false |
      | RETURN date('2015-W30-2').ordinalDay AS v | 202 |
      | RETURN datetime({epochSeconds: 416779, nanosecond: 23}) AS v | '1970-01-05T19:46:19.000000023Z' |
      | RETURN toString(duration('P1.5M')) AS v | 'P1M15DT5H14M33S' |
