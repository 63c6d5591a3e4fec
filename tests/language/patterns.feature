Feature: Patterns of variable length, bound variables and conditions on matches

  Scenario: A fixed length is a list of one
    Given an empty graph
    And having executed:
      """
      CREATE ()-[:T]->()
      """
    When executing query:
      """
      MATCH (a)-[r*1..1]->(b) RETURN r
      """
    Then the result should be, in any order:
      | r      |
      | [[:T]] |
    And no side effects

  Scenario: Any length from a start
    Given an empty graph
    And having executed:
      """
      CREATE (a {name: 'A'}), (b {name: 'B'}), (c {name: 'C'}) CREATE (a)-[:X]->(b), (b)-[:X]->(c)
      """
    When executing query:
      """
      MATCH (a {name: 'A'})-[*]->(x) RETURN x
      """
    Then the result should be, in any order:
      | x             |
      | ({name: 'B'}) |
      | ({name: 'C'}) |
    And no side effects

  Scenario: Lengths of zero in the middle
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b:B), (c:C), ()-[:CONTAINS]->(), (a)-[:CONTAINS]->(b), (b)-[:FRIEND]->(c)
      """
    When executing query:
      """
      MATCH (a:A)-[:CONTAINS*0..1]->(b)-[:FRIEND*0..1]->(c) RETURN a, b, c
      """
    Then the result should be, in any order:
      | a    | b    | c    |
      | (:A) | (:A) | (:A) |
      | (:A) | (:B) | (:B) |
      | (:A) | (:B) | (:C) |
    And no side effects

  Scenario: A long chain
    Given an empty graph
    And having executed:
      """
      CREATE (a {var: 'start'}), (b {var: 'end'})
      WITH *
      UNWIND range(1, 20) AS i
      CREATE (n {var: i})
      WITH a, b, [a] + collect(n) + [b] AS nodeList
      UNWIND range(0, size(nodeList) - 2) AS i
      WITH nodeList[i] AS n1, nodeList[i + 1] AS n2
      CREATE (n1)-[:T]->(n2)
      """
    When executing query:
      """
      MATCH (n {var: 'start'})-[:T*]->(m {var: 'end'}) RETURN m
      """
    Then the result should be, in any order:
      | m              |
      | ({var: 'end'}) |
    And no side effects

  Scenario: Properties hold for each relationship of a walk
    Given an empty graph
    And having executed:
      """
      CREATE (a:Artist:A), (b:Artist:B), (c:Artist:C)
      CREATE (a)-[:WORKED_WITH {year: 1987}]->(b), (b)-[:WORKED_WITH {year: 1988}]->(c)
      """
    When executing query:
      """
      MATCH (a:Artist)-[:WORKED_WITH* {year: 1988}]->(b:Artist) RETURN *
      """
    Then the result should be, in any order:
      | a             | b             |
      | (:Artist:B)   | (:Artist:C)   |
    And no side effects

  Scenario: A walk from a bound node
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b), (c) CREATE (a)-[:X]->(b), (b)-[:Y]->(c)
      """
    When executing query:
      """
      MATCH (a:A) MATCH (a)-[r*2]->() RETURN r
      """
    Then the result should be, in any order:
      | r            |
      | [[:X], [:Y]] |
    And no side effects

  Scenario: A walk around a bound relationship
    Given an empty graph
    And having executed:
      """
      CREATE (n0:Node), (n1:Node), (n2:Node), (n3:Node), (n0)-[:EDGE]->(n1), (n1)-[:EDGE]->(n2), (n2)-[:EDGE]->(n3)
      """
    When executing query:
      """
      MATCH ()-[r:EDGE]-()
      MATCH p = (n)-[*0..1]-()-[r]-()-[*0..1]-(m)
      RETURN count(p) AS c
      """
    Then the result should be, in any order:
      | c  |
      | 32 |
    And no side effects

  Scenario: A bound list of relationships is followed
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b:B), (c:C) CREATE (a)-[:Y]->(b), (b)-[:Y]->(c)
      """
    When executing query:
      """
      MATCH ()-[r1]->()-[r2]->()
      WITH [r1, r2] AS rs LIMIT 1
      MATCH (first)-[rs*]->(second)
      RETURN first, second
      """
    Then the result should be, in any order:
      | first | second |
      | (:A)  | (:C)   |
    And no side effects

  Scenario Outline: Lengths are written with an asterisk and are not negative
    Given any graph
    When executing query:
      """
      MATCH (a:A) MATCH (a)-[:LIKES<length>]->(c) RETURN c.name
      """
    Then a SyntaxError should be raised at compile time: InvalidRelationshipPattern

    Examples:
      | length |
      | ..     |
      | *-2    |
      | ..3    |

  Scenario: Turned-round lengths match nothing
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->()-[:T]->()
      """
    When executing query:
      """
      MATCH (a:A)-[:T*2..1]->(c) RETURN c
      """
    Then the result should be, in any order:
      | c |
    And no side effects

  Scenario: Relationships are used once per MATCH, and again in the next
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T {times: 3}]->(:B)<-[:T {times: 4}]-(:C)
      """
    When executing query:
      """
      MATCH ()-->() WITH 1 AS x MATCH ()-[r1]->()<--() RETURN sum(r1.times)
      """
    Then the result should be, in any order:
      | sum(r1.times) |
      | 14            |
    And no side effects

  Scenario: Rows after MATCH, MERGE and OPTIONAL MATCH
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b:B) CREATE (a)-[:T1]->(b), (b)-[:T2]->(a)
      """
    When executing query:
      """
      MATCH (a) MERGE (b) WITH * OPTIONAL MATCH (a)--(b) RETURN count(*)
      """
    Then the result should be, in any order:
      | count(*) |
      | 6        |
    And no side effects

  Scenario: Conditions on the type and properties of a relationship, by a parameter
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b:B {name: 'me'})-[:T {name: 'bar'}]->(a), (b)-[:U {name: 'baz'}]->(a)
      """
    And parameters are:
      | param | 'bar' |
    When executing query:
      """
      MATCH (a)-[r]->(b) WHERE r.name = $param OR type(r) = 'U' RETURN r
      """
    Then the result should be, in any order:
      | r                  |
      | [:T {name: 'bar'}] |
      | [:U {name: 'baz'}] |
    And no side effects

  Scenario: Conditions on the length of a path
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'A'})-[:KNOWS]->(b:B {name: 'B'})
      """
    When executing query:
      """
      MATCH p = (n)-->(x) WHERE length(p) = 1 RETURN x, length(p) AS l
      """
    Then the result should be, in any order:
      | x                | l |
      | (:B {name: 'B'}) | 1 |
    And no side effects

  Scenario: A path has no properties
    Given any graph
    When executing query:
      """
      MATCH (n) MATCH r = (n)-[*]->() WHERE r.name = 'apa' RETURN r
      """
    Then a SyntaxError should be raised at compile time: InvalidArgumentType

  Scenario: Aggregates are no conditions
    Given any graph
    When executing query:
      """
      MATCH (a) WHERE count(a) > 10 RETURN a
      """
    Then a SyntaxError should be raised at compile time: InvalidAggregation

  Scenario: Undefined variables in a condition
    Given any graph
    When executing query:
      """
      MATCH (s) WHERE s.name = undefinedVariable AND s.age = 10 RETURN s
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: Equal and unequal nodes
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'}), (b:B {name: 'b'}), (a)-[:T]->(b), (b)-[:T]->(a), (a)-[:L]->(a)
      """
    When executing query:
      """
      MATCH (x)-[r]->(y) WHERE x <> y RETURN x.name, y.name
      """
    Then the result should be, in any order:
      | x.name | y.name |
      | 'a'    | 'b'    |
      | 'b'    | 'a'    |
    And no side effects

  Scenario: Joins of properties
    Given an empty graph
    And having executed:
      """
      CREATE (:A {id: 1}), (:A {id: 2}), (:B {id: 2}), (:B {id: 3}), (:A), (:B)
      """
    When executing query:
      """
      MATCH (a:A), (b:B) WHERE a.id = b.id RETURN a, b
      """
    Then the result should be, in any order:
      | a            | b            |
      | (:A {id: 2}) | (:B {id: 2}) |
    And no side effects

  Scenario: A condition of an optional match keeps its row
    Given an empty graph
    And having executed:
      """
      CREATE (s:Single), (a:A {num: 42}), (b:B {num: 46}), (s)-[:REL]->(a), (s)-[:REL]->(b)
      """
    When executing query:
      """
      MATCH (n:Single) OPTIONAL MATCH (n)-[r]-(m) WHERE m:NonExistent OR m.num > 100 RETURN r
      """
    Then the result should be, in any order:
      | r    |
      | null |
    And no side effects

  Scenario: A condition of an optional match on what is optional
    Given an empty graph
    And having executed:
      """
      CREATE (x:X), (x)-[:E1]->(:Y), (y1:Y {val: 0})-[:E2]->(:Z {val: 1}), (x)-[:E1]->(y1), (x)-[:E1]->(:Y {val: 2})-[:E2]->(:Z)
      """
    When executing query:
      """
      MATCH (x:X) OPTIONAL MATCH (x)-[:E1]->(y:Y) WHERE x.val < y.val RETURN x, y
      """
    Then the result should be, in any order:
      | x    | y    |
      | (:X) | null |
    And no side effects

  Scenario: Conditions between two optional parts
    Given an empty graph
    And having executed:
      """
      CREATE (:X {val: 1})-[:E1]->(:Y {val: 2})-[:E2]->(:Z {val: 3}),
             (:X {val: 4})-[:E1]->(:Y {val: 5}),
             (:X {val: 6})
      """
    When executing query:
      """
      MATCH (x:X) OPTIONAL MATCH (x)-[:E1]->(y:Y)-[:E2]->(z:Z) WHERE x.val < z.val RETURN x, y, z
      """
    Then the result should be, in any order:
      | x             | y             | z             |
      | (:X {val: 1}) | (:Y {val: 2}) | (:Z {val: 3}) |
      | (:X {val: 4}) | null          | null          |
      | (:X {val: 6}) | null          | null          |
    And no side effects

  Scenario: Counting the subgraph
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:LOOP]->(a), (:A)-[:T]->(:B)
      """
    When executing query:
      """
      MATCH (n)-[r]-(n) RETURN count(r), count(DISTINCT r)
      """
    Then the result should be, in any order:
      | count(r) | count(DISTINCT r) |
      | 1        | 1                 |
    And no side effects

  Scenario: A self loop is met once in either direction
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (a)-[:LOOP]->(a)
      """
    When executing query:
      """
      MATCH (a)-[r]-(b) RETURN count(*) AS undirected
      """
    Then the result should be, in any order:
      | undirected |
      | 1          |
    And no side effects

  Scenario: Undirected relationships are met from both ends
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T1]->(:B)-[:T2]->(:C)
      """
    When executing query:
      """
      MATCH ()-[r]-() RETURN type(r) AS t, count(*) AS c
      """
    Then the result should be, in any order:
      | t    | c |
      | 'T1' | 2 |
      | 'T2' | 2 |
    And no side effects

  Scenario: Length of paths
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)-[:T]->(:C)
      """
    When executing query:
      """
      MATCH p = (:A)-[*0..2]->() RETURN length(p) AS l, [n IN nodes(p) | labels(n)[0]] AS names, size(relationships(p)) AS s
      """
    Then the result should be, in any order:
      | l | names           | s |
      | 0 | ['A']           | 0 |
      | 1 | ['A', 'B']      | 1 |
      | 2 | ['A', 'B', 'C'] | 2 |
    And no side effects

  Scenario Outline: length() is for paths
    Given any graph
    When executing query:
      """
      MATCH (n)-[r]->() RETURN length(<value>)
      """
    Then a SyntaxError should be raised at compile time: InvalidArgumentType

    Examples:
      | value |
      | n     |
      | r     |

  Scenario: Null is no node
    Given an empty graph
    And having executed:
      """
      CREATE (:A)
      """
    When executing query:
      """
      MATCH (a:A) OPTIONAL MATCH (a)-->(b) WITH a, b, EXISTS { (b) } AS e MATCH (b) RETURN e
      """
    Then the result should be, in any order:
      | e |
    And no side effects

  Scenario Outline: Types that no relationship has
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)
      """
    When executing query:
      """
      MATCH (a:A), (b:B) <clause>
      """
    Then the result should be, in any order:
      | c   |
      | <c> |
    And no side effects

    Examples:
      | clause                                                            | c |
      | MATCH p = shortestPath((a)-[:NONE*]->(b)) RETURN count(p) AS c     | 0 |
      | MATCH p = allShortestPaths((a)-[:NONE*0..]-(b)) RETURN count(p) AS c | 0 |
      | MATCH (a)-[:NONE*]->(x) RETURN count(DISTINCT x) AS c              | 0 |
      | MATCH (a)-[:NONE*0..]->(x) RETURN count(DISTINCT x) AS c           | 1 |
      | MATCH (a)-[:NONE*1..3]-(b) RETURN count(*) AS c                    | 0 |
      | MATCH (a) WHERE EXISTS { (a)-[:NONE*]->(b) } RETURN count(*) AS c  | 0 |
      | RETURN COUNT { (a)-[:NONE]->() } AS c                              | 0 |
      | RETURN size([(a)-[:NONE*]->(x) \| x]) AS c                        | 0 |
