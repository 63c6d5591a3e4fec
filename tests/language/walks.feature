Feature: Quantified paths and the k shortest

  Background:
    Given an empty graph
    And having executed:
      """
      CREATE (a:P:Start {n: 'a', v: 1}), (b:P {n: 'b', v: 2}), (c:P {n: 'c', v: 3}), (d:P {n: 'd', v: 4}), (e:Q {n: 'e', v: 5}),
             (a)-[:K {w: 1}]->(b), (b)-[:K {w: 2}]->(c), (c)-[:K {w: 3}]->(d), (a)-[:L {w: 9}]->(d), (d)-[:K {w: 4}]->(a),
             (b)-[:L {w: 5}]->(d), (e)-[:K {w: 6}]->(a), (e)-[:M {w: 7}]->(e)
      """

  Scenario Outline: Groups
    When executing query:
      """
      MATCH <q>
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | q | v |
      | (x {n: 'a'})((s)-[:K]->(t)){2}(y) RETURN y.n AS v | 'c' |
      | (x {n: 'a'})((s)-[k:K]->(t)){2}(y) RETURN [[n IN s \| n.n], [n IN t \| n.n], [r IN k \| r.w]] AS v | [['a', 'b'], ['b', 'c'], [1, 2]] |
      | (x {n: 'a'})((s)-[k:K]->(t)){0}(y) RETURN [x = y, s, k] AS v | [true, [], []] |
      | (x {n: 'a'})((s)-[:K]->()-[:L]->(t))+(y) RETURN collect([y.n, size(s)]) AS v | [['d', 1], ['d', 2]] |
      | (x {n: 'a'})((s)-[:K]->(m)-[:K]->(t)){1,2}(y) RETURN collect(y.n) AS v | ['c', 'a'] |
      | (x {n: 'c'})((s)-[k:K]->(t) WHERE s.v < t.v)+(y) RETURN collect(y.n) AS v | ['d'] |
      | (x {n: 'a'})((s)-[k:K\|L]->(t) WHERE s.v < t.v)*(y) RETURN count(*) AS v | 6 |
      | (x {n: 'a'})((s)-[k]->(t) WHERE k.w < 9){1,3}(y {n: 'd'}) RETURN collect(size(k)) AS v | [3, 2] |
      | (x {n: 'a'})((s)-[:K]->(t:P {v: 2})){1,3}(y) RETURN count(*) AS v | 1 |
      | (x {n: 'a'})((s)-[:K]->(t)){1,2}(m)((p)-[:L]->(q)){1}(y) RETURN [m.n, y.n, size(s), size(p)] AS v | ['b', 'd', 1, 1] |
      | (x {n: 'a'})-[f:K]->(m)((s)-[:K]->(t)){2}(y)-[g:K]->(z) RETURN [f.w, m.n, [n IN t \| n.n], g.w, z.n] AS v | [1, 'b', ['c', 'd'], 4, 'a'] |
      | (y)<-[g:K]-(m {n: 'd'}) MATCH (y)((s)<-[:K]-(t)){1}(z {n: 'e'}) RETURN [y.n, z.n] AS v | ['a', 'e'] |
      | (x)((s)-[:K]->(t)){3}(y {n: 'd'}) WHERE x:Start RETURN [n IN s + [y] \| n.n] AS v | ['a', 'b', 'c', 'd'] |
      | (x)((s)-[k:K]->(t)){3}(y {n: 'd'}) WHERE x.n = 'a' RETURN [r IN k \| r.w] AS v | [1, 2, 3] |
      | p = (x {n: 'a'})((s)-[:K]->(t)){2}(y) RETURN [[n IN nodes(p) \| n.n], length(p)] AS v | [['a', 'b', 'c'], 2] |
      | p = (y {n: 'c'})((t)<-[:K]-(s)){2}(x) RETURN [n IN nodes(p) \| n.n] AS v | ['c', 'b', 'a'] |
      | (x {n: 'a'})((s)-[:K]->(t)){4}(y) RETURN y.n AS v | 'a' |
      | (x {n: 'a'})((s)-[:K]->(t)){5}(y) RETURN count(*) AS v | 0 |
      | (x {n: 'a'})((s)-[:K]->(s)){1}(y) RETURN count(*) AS v | 0 |
      | ((s {n: 'e'})-[:M]->(s)){1} RETURN size(s) AS v | 1 |
      | (x {n: 'a'}) RETURN EXISTS { (x)((s)-[:K]->(t)){3}(y {n: 'd'}) } AS v | true |
      | (x {n: 'a'}) RETURN COUNT { (x)((s)-[:K]->(t))+(y) WHERE size(s) > 2 } AS v | 2 |
      | (x {n: 'e'}) OPTIONAL MATCH (x)((s)-[:L]->(t))+(y) RETURN [y, s, t] AS v | [null, null, null] |
      | (x {n: 'a'})-[r:K]->(b)((s)-[:K]->(t)){4}(z) RETURN count(*) AS v | 0 |
      | (x {n: 'a'})((s)-[:K]->(t) WHERE EXISTS { (t)-[:L]->() }){1,3}(y) RETURN collect(y.n) AS v | ['b'] |
      | (o {n: 'b'}) MATCH (x {n: 'a'})((s)-[:K]->(t) WHERE t.v >= o.v){1,3}(y) RETURN collect(y.n) AS v | ['b', 'c', 'd'] |
      | (x {n: 'a'})((s)-[:K]-(t)){1,2}(y) RETURN count(*) AS v | 5 |
      | (x {n: 'a'})((s)-[:!K]->(t)){1,2}(y) RETURN collect(y.n) AS v | ['d'] |

  Scenario Outline: Selectors
    When executing query:
      """
      MATCH <q>
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | q | v |
      | p = SHORTEST 1 (x {n: 'a'})-[:K]->+(y {n: 'd'}) RETURN length(p) AS v | 3 |
      | p = SHORTEST 2 (x {n: 'a'})-->+(y {n: 'd'}) RETURN collect(length(p)) AS v | [1, 2] |
      | p = SHORTEST 9 (x {n: 'a'})-->+(y {n: 'd'}) RETURN collect(length(p)) AS v | [1, 2, 3, 4, 4, 5, 5] |
      | p = SHORTEST 2 GROUPS (x {n: 'a'})-->+(y {n: 'd'}) RETURN collect(length(p)) AS v | [1, 2] |
      | p = SHORTEST 4 PATH GROUPS (x {n: 'a'})-->+(y {n: 'd'}) RETURN collect(length(p)) AS v | [1, 2, 3, 4, 4] |
      | p = ALL SHORTEST (x {n: 'a'})((s)-[]->(t) WHERE s.v + 1 = t.v)+(y {n: 'd'}) RETURN [n IN nodes(p) \| n.n] AS v | ['a', 'b', 'c', 'd'] |
      | p = ANY SHORTEST (x {n: 'a'})((s)-[]->(t)){2,}(y {n: 'd'}) RETURN [n IN nodes(p) \| n.n] AS v | ['a', 'b', 'd'] |
      | p = ANY 2 (x {n: 'a'})-[:K]->{1,5}(y {n: 'c'}) RETURN count(p) AS v | 1 |
      | p = ANY (x {n: 'a'})-[r]->+(y {n: 'c'}) RETURN [n IN r \| n.w] AS v | [1, 2] |
      | p = SHORTEST 1 (x {n: 'a'})-->+(y {n: 'd'}) WHERE length(p) > 1 RETURN count(*) AS v | 0 |
      | p = SHORTEST 1 ((x {n: 'a'})-[r]->+(y {n: 'd'}) WHERE all(k IN r WHERE k.w < 9)) RETURN [n IN nodes(p) \| n.n] AS v | ['a', 'b', 'd'] |
      | p = SHORTEST 1 ((x {n: 'a'})-[:K]->(m)-[:K]->+(y {n: 'd'}) WHERE m.n = 'b') RETURN [m.n, length(p)] AS v | ['b', 3] |
      | p = SHORTEST 1 (x {n: 'a'})-[f]->(m)-[g]->(y {n: 'd'}) RETURN [f.w, m.n, g.w] AS v | [1, 'b', 5] |
      | p = SHORTEST 1 (x {n: 'a'})-->+(m {n: 'c'})-->+(y {n: 'd'}) RETURN length(p) AS v | 3 |
      | p = SHORTEST 1 (x {n: 'a'})-->+(y {n: 'e'}) RETURN count(*) AS v | 0 |
      | p = SHORTEST 2 (x {n: 'a'})-->+(y {n: 'a'}) RETURN collect(length(p)) AS v | [2, 3] |
      | p = SHORTEST 1 (x {n: 'a'})-->*(y {n: 'a'}) RETURN length(p) AS v | 0 |
      | p = SHORTEST 3 (x:P)-[:K]->+(y {n: 'd'}) RETURN count(*) AS v | 4 |
      | p = SHORTEST 2 (x {n: 'a'})((s)-[:K]->(m)-[]->(t))+(y) WITH y, p ORDER BY y.n, length(p) RETURN collect([y.n, length(p)]) AS v | [['a', 4], ['c', 2], ['d', 2], ['d', 4]] |
      | (x {n: 'a'}), (y {n: 'd'}) MATCH p = SHORTEST 2 (x)-[r]->{1,3}(y) RETURN collect(size(r)) AS v | [1, 2] |
      | (x {n: 'e'}), (y {n: 'd'}) OPTIONAL MATCH p = SHORTEST 2 (y)-[:M]->+(x) RETURN p AS v | null |
      | p = SHORTEST 1 (x {n: 'a'})-[:K]-{2,}(y {n: 'b'}) RETURN length(p) AS v | 3 |
      | p = SHORTEST 1 (x) RETURN count(p) AS v | 5 |

  Scenario Outline: Refused
    When executing query:
      """
      <q>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | q | detail |
      | MATCH (x)((s)-[:K]->(t))+(s) RETURN x | VariableAlreadyBound |
      | MATCH (s) MATCH (x)((s)-[:K]->(t))+(y) RETURN x | VariableAlreadyBound |
      | MATCH (x)((s)-[r:K]->(t)-[r:K]->(u))+(y) RETURN x | RelationshipUniquenessViolation |
      | MATCH (x)((s)-[r:K]->(t)-->(r))+(y) RETURN x | VariableTypeConflict |
      | MATCH (x)((s)-->(t) WHERE q.v = 1)+(y) RETURN x | UndefinedVariable |
      | MATCH (x)((s)-->(t))(y) RETURN x | UnexpectedSyntax |
      | MATCH (x) WHERE (x)((s)-->(t))+() RETURN x | UndefinedVariable |
      | CREATE (x)((s)-[:K]->(t)){2}(y) | CreatingVarLength |
      | MATCH p = SHORTEST 0 (x)-->+(y) RETURN p | UnexpectedSyntax |

  Scenario: A selected path shares no relationship with the other paths of its clause
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {i: 1}), (b:B {i: 2}), (a)-[:T]->(b), (b)-[:T]->(a)
      """
    When executing query:
      """
      MATCH p = ALL SHORTEST (a:A)-[:T]->+(b:B), (c)-[r:T]->(d) RETURN c.i AS c, d.i AS d
      """
    Then the result should be, in any order:
      | c | d |
      | 2 | 1 |
    And no side effects

  Scenario: A shortest path of several shares no relationship with the other paths of its clause
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {i: 1}), (b:B {i: 2}), (a)-[:T]->(b), (b)-[:T]->(a)
      """
    When executing query:
      """
      MATCH p = SHORTEST 2 (a:A)-[:T]->+(b:B), (c)-[r:T]->(d) RETURN c.i AS c, d.i AS d
      """
    Then the result should be, in any order:
      | c | d |
      | 2 | 1 |
    And no side effects
