Feature: Extensions of openCypher

  Background:
    Given an empty graph
    And having executed:
      """
      CREATE (a:P:X {n: 'a'}), (b:P {n: 'b'}), (c:P:Y {n: 'c'}), (d:P {n: 'd'}), (e:Q {n: 'e'}),
             (a)-[:K {w: 1}]->(b), (b)-[:K {w: 2}]->(c), (c)-[:K {w: 3}]->(d), (a)-[:L {w: 9}]->(d), (d)-[:K {w: 4}]->(a)
      """

  Scenario Outline: Label expressions
    When executing query:
      """
      MATCH (n<labels>) RETURN collect(n.n) AS l
      """
    Then the result should be (ignoring element order for lists):
      | l        |
      | <result> |
    And no side effects

    Examples:
      | labels       | result               |
      | :P&X         | ['a']                |
      | :X\|Y        | ['a', 'c']           |
      | :P&!X        | ['b', 'c', 'd']      |
      | :!P          | ['e']                |
      | :P&(X\|Y)    | ['a', 'c']           |
      | :%           | ['a', 'b', 'c', 'd', 'e'] |
      | :P:X         | ['a']                |
      | :X\|Q WHERE n.n <> 'a' | ['e']      |

  Scenario Outline: Type expressions
    When executing query:
      """
      MATCH (a {n: 'a'})-[r <types>]-() RETURN count(r) AS c
      """
    Then the result should be, in any order:
      | c   |
      | <c> |
    And no side effects

    Examples:
      | types   | c |
      | :K      | 2 |
      | :K\|L   | 3 |
      | :!K     | 1 |
      | :%      | 3 |
      | WHERE r.w > 3 | 2 |

  Scenario Outline: Conditions on labels as values
    When executing query:
      """
      MATCH (n {n: 'a'}) RETURN <expr> AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | expr        | v     |
      | n:P\|Q      | true  |
      | n:!X        | false |
      | n:P&Y       | false |
      | n:%         | true  |

  Scenario Outline: Quantified paths
    When executing query:
      """
      MATCH <pattern> RETURN count(*) AS c
      """
    Then the result should be, in any order:
      | c   |
      | <c> |
    And no side effects

    Examples:
      | pattern                                                    | c |
      | (a {n: 'a'})-[:K]->{1,3}(x)                                | 3 |
      | (a {n: 'a'})-[:K]->+(x)                                    | 4 |
      | (a {n: 'a'})-[:K]->*(x)                                    | 5 |

  Scenario Outline: Shortest paths
    When executing query:
      """
      MATCH <pattern> RETURN [n IN nodes(p) | n.n] AS l
      """
    Then the result should be, in any order:
      | l   |
      | <l> |
    And no side effects

    Examples:
      | pattern                                                                      | l               |
      | p = SHORTEST 1 (a {n: 'a'})-[:K]->+(d {n: 'd'})                              | ['a', 'b', 'c', 'd'] |
      | p = ALL SHORTEST (a {n: 'a'})-->+(d {n: 'd'})                                | ['a', 'd']      |
      | p = shortestPath((a {n: 'b'})-[:K*]->(d {n: 'a'}))                           | ['b', 'c', 'd', 'a'] |
      | p = allShortestPaths((a {n: 'a'})-[*]->(d {n: 'd'}))                         | ['a', 'd']      |

  Scenario: There is no path
    When executing query:
      """
      MATCH (a {n: 'a'}), (e:Q) OPTIONAL MATCH p = shortestPath((a)-[*]-(e)) RETURN p IS NULL AS none
      """
    Then the result should be, in any order:
      | none |
      | true |
    And no side effects

  Scenario: Subqueries per row
    When executing query:
      """
      MATCH (n:P) CALL { WITH n MATCH (n)-[:K]->(m) RETURN m.n AS out } RETURN n.n AS n, out ORDER BY n
      """
    Then the result should be, in order:
      | n   | out |
      | 'a' | 'b' |
      | 'b' | 'c' |
      | 'c' | 'd' |
      | 'd' | 'a' |
    And no side effects

  Scenario: Subqueries with imports, aggregates and unions
    When executing query:
      """
      MATCH (n:P) WHERE n:X OR n:Y CALL (n) { MATCH (n)-->(m) RETURN count(m) AS c UNION ALL MATCH (n)<--(m) RETURN -count(m) AS c } RETURN n.n AS n, c ORDER BY n, c
      """
    Then the result should be, in order:
      | n   | c  |
      | 'a' | -1 |
      | 'a' | 2  |
      | 'c' | -1 |
      | 'c' | 1  |
    And no side effects

  Scenario: Subqueries that write
    When executing query:
      """
      UNWIND [1, 2] AS i CALL { WITH i CREATE (:New {i: i}) } RETURN sum(i) AS s
      """
    Then the result should be, in any order:
      | s |
      | 3 |
    And the side effects should be:
      | +nodes      | 2 |
      | +labels     | 1 |
      | +properties | 2 |

  Scenario: Counting, collecting, testing
    When executing query:
      """
      MATCH (n:P)
      RETURN n.n AS n, COUNT { (n)-[:K]->() } AS c, EXISTS { (n)-[:L]->() } AS e, COLLECT { MATCH (n)-->(m) RETURN m.n ORDER BY m.n } AS l,
             [(n)-->(m) WHERE m.n > 'b' | m.n] AS pc
      ORDER BY n LIMIT 1
      """
    Then the result should be, in any order:
      | n   | c | e    | l          | pc    |
      | 'a' | 1 | true | ['b', 'd'] | ['d'] |
    And no side effects

  Scenario: Counting with a condition on the outer row
    When executing query:
      """
      MATCH (n:P) WHERE COUNT { MATCH (n)-[r]->(m) WHERE r.w > 1 AND m.n <> n.n } > 0 RETURN collect(n.n) AS l
      """
    Then the result should be (ignoring element order for lists):
      | l                    |
      | ['a', 'b', 'c', 'd'] |
    And no side effects

  Scenario: Map projections
    When executing query:
      """
      MATCH (n {n: 'a'})-[r:K]->(m) WITH n, r, m, 1 AS one RETURN n {.n, .missing, one, x: r.w + 1} AS a, m {.*, y: 2} AS b, r {.*} AS c
      """
    Then the result should be, in any order:
      | a                                       | b              | c      |
      | {n: 'a', missing: null, one: 1, x: 2}   | {n: 'b', y: 2} | {w: 1} |
    And no side effects

  Scenario: Documents nest
    When executing query:
      """
      CREATE (u:U {address: {city: 'Lucca', tags: ['x', {deep: [1, {z: 2}]}]}})
      SET u.address.zip = '55100', u.address.tags = u.address.tags + ['new']
      RETURN u.address.city AS c, u.address.zip AS z, u.address.tags[1].deep[1].z AS d, size(u.address.tags) AS s
      """
    Then the result should be, in any order:
      | c       | z       | d | s |
      | 'Lucca' | '55100' | 2 | 3 |
    And the side effects should be:
      | +nodes      | 1 |
      | +labels     | 1 |
      | +properties | 1 |

  Scenario: Nested properties are removed
    When executing query:
      """
      CREATE (u:U {a: {b: 1, c: {d: 2, e: 3}}}) REMOVE u.a.b, u.a.c.d RETURN u
      """
    Then the result should be, in any order:
      | u                    |
      | (:U {a: {c: {e: 3}}}) |
    And the side effects should be:
      | +nodes      | 1 |
      | +labels     | 1 |
      | +properties | 1 |

  Scenario Outline: Types are tested
    When executing query:
      """
      RETURN <expr> AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | expr                                     | v     |
      | 1 IS :: INTEGER                          | true  |
      | 1.0 IS :: INTEGER                        | false |
      | null IS :: INTEGER                       | true  |
      | null IS :: INTEGER NOT NULL              | false |
      | [1, null] IS :: LIST<INTEGER>            | true  |
      | [1, null] IS :: LIST<INTEGER NOT NULL>   | false |
      | 'a' IS NOT :: STRING                     | false |
      | date('2020-01-01') IS :: DATE            | true  |
      | 'a' \|\| 'b'                             | 'ab'  |
      | [1] \|\| [2]                             | [1, 2] |

  Scenario: Kept key-values in a query
    When executing query:
      """
      RETURN kv.get('sessions', 's-2') AS missing
      """
    Then the result should be, in any order:
      | missing |
      | null    |
    And no side effects
