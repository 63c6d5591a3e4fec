Feature: What users of Neo4j and GQL write

  Background:
    Given an empty graph

  Scenario: Nodes are created with computed labels
    When executing query:
      """
      UNWIND [['A', 'B'], 'C', []] AS names
      CREATE (n:K:$(names)) RETURN labels(n) AS labels
      """
    Then the result should be, in any order:
      | labels          |
      | ['A', 'B', 'K'] |
      | ['C', 'K']      |
      | ['K']           |
    And the side effects should be:
      | +nodes  | 3 |
      | +labels | 4 |

  Scenario: Nodes are matched by computed labels
    Given having executed:
      """
      CREATE (:A {x: 1}), (:A:B {x: 2}), (:B {x: 3}), (:C {x: 4}), ({x: 5})
      """
    When executing query:
      """
      UNWIND [['A'], ['A', 'B'], []] AS names
      RETURN names,
             COLLECT { MATCH (n:$(names)) RETURN n.x ORDER BY n.x } AS all,
             COLLECT { MATCH (n:$any(names)) RETURN n.x ORDER BY n.x } AS any,
             COLLECT { MATCH (n:!$all(names)) RETURN n.x ORDER BY n.x } AS others,
             COLLECT { MATCH (n) WHERE n:C|$any(names) RETURN n.x ORDER BY n.x } AS either
      """
    Then the result should be, in any order:
      | names      | all             | any       | others          | either       |
      | ['A']      | [1, 2]          | [1, 2]    | [3, 4, 5]       | [1, 2, 4]    |
      | ['A', 'B'] | [2]             | [1, 2, 3] | [1, 3, 4, 5]    | [1, 2, 3, 4] |
      | []         | [1, 2, 3, 4, 5] | []        | []              | [4]          |
    And no side effects

  Scenario: A computed label may come from a node of the same pattern
    Given having executed:
      """
      CREATE (:Kind {name: 'A'}), (:Kind {name: 'B'}), (:A {x: 1}), (:B {x: 2}), (:B {x: 3})
      """
    When executing query:
      """
      MATCH (n:$(k.name)), (k:Kind) RETURN k.name AS kind, n.x AS x
      """
    Then the result should be, in any order:
      | kind | x |
      | 'A'  | 1 |
      | 'B'  | 2 |
      | 'B'  | 3 |
    And no side effects

  Scenario: MERGE finds and creates computed labels and types
    Given having executed:
      """
      CREATE (:A {x: 1})
      """
    When executing query:
      """
      UNWIND [['A', 1], ['A', 2], ['B', 1], ['B', 1]] AS pair
      MERGE (n:$(pair[0]) {x: pair[1]})
      MERGE (n)-[r:$('T' + pair[0])]->(n)
      RETURN labels(n) AS labels, n.x AS x, type(r) AS type
      """
    Then the result should be, in any order:
      | labels | x | type |
      | ['A']  | 1 | 'TA' |
      | ['A']  | 2 | 'TA' |
      | ['B']  | 1 | 'TB' |
      | ['B']  | 1 | 'TB' |
    And the side effects should be:
      | +nodes         | 2 |
      | +relationships | 3 |
      | +labels        | 1 |
      | +properties    | 2 |

  Scenario: Computed labels are set and removed
    Given having executed:
      """
      CREATE (:A {x: 1}), (:A {x: 2})
      """
    When executing query:
      """
      MATCH (n:A)
      SET n:$('L' + n.x):M
      REMOVE n:$(['A', 'None'])
      RETURN labels(n) AS labels
      """
    Then the result should be, in any order:
      | labels      |
      | ['L1', 'M'] |
      | ['L2', 'M'] |
    And the side effects should be:
      | +labels | 3 |
      | -labels | 1 |

  Scenario: Relationships are matched by computed types
    Given having executed:
      """
      CREATE (a:A)-[:R {x: 1}]->(b:B)-[:S {x: 2}]->(c:C), (a)-[:T {x: 3}]->(c)
      """
    When executing query:
      """
      MATCH ()-[r:$any(['R', 'S'])]->() WITH collect(r.x) AS any
      MATCH ()-[r:$('T')]->() WITH any, collect(r.x) AS one
      MATCH (:A)-[r:$('R')|$('S')*2]->(:C) WITH any, one, [s IN r | s.x] AS walk
      MATCH ()-[r]->() WHERE r:$('S') RETURN any, one, walk, collect(r.x) AS tested
      """
    Then the result should be (ignoring element order for lists):
      | any    | one | walk   | tested |
      | [1, 2] | [3] | [1, 2] | [2]    |
    And no side effects

  Scenario: Properties are named by expressions
    Given having executed:
      """
      CREATE (:A {x: 1, y: 2})
      """
    When executing query:
      """
      MATCH (n:A) WITH n, 'x' AS name
      SET n[name] = 5, n[name + '2'] = n[name] + 1
      REMOVE n['y']
      RETURN properties(n) AS p
      """
    Then the result should be, in any order:
      | p              |
      | {x: 5, x2: 6}  |
    And the side effects should be:
      | +properties | 2 |
      | -properties | 2 |

  Scenario Outline: Computed names are texts
    When executing query:
      """
      <query>
      """
    Then a <class> should be raised at runtime: InvalidArgumentValue

    Examples:
      | query                                   | class         |
      | CREATE (n:$(null))                      | TypeError     |
      | CREATE (n:$(1))                         | TypeError     |
      | CREATE (n:$(['A', null]))               | TypeError     |
      | CREATE (n:$(''))                        | ArgumentError |
      | CREATE ()-[:$(['A', 'B'])]->()          | ArgumentError |
      | CREATE ()-[:$([])]->()                  | ArgumentError |
      | CREATE (n) SET n:$(true)                | TypeError     |
      | CREATE (n) WITH n REMOVE n:$({})        | TypeError     |

  Scenario Outline: A choice of names cannot be created
    When executing query:
      """
      <query>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | query                            | detail                     |
      | CREATE (n:$any(['A']))           | UnexpectedSyntax           |
      | CREATE ()-[:$any(['A'])]->()     | NoSingleRelationshipType   |
      | CREATE ()-[:$('A')\|$('B')]->()  | NoSingleRelationshipType   |
      | MATCH (n) SET n:$any(['A'])      | UnexpectedSyntax           |
      | MATCH (n:$label) RETURN n        | UnexpectedSyntax           |

  Scenario: OPTIONAL CALL keeps rows without a result
    When executing query:
      """
      UNWIND [1, 2, 3] AS x
      OPTIONAL CALL (x) { WITH * WHERE x <> 2 UNWIND range(1, x) AS y RETURN y }
      RETURN x, y
      """
    Then the result should be, in any order:
      | x | y    |
      | 1 | 1    |
      | 2 | null |
      | 3 | 1    |
      | 3 | 2    |
      | 3 | 3    |
    And no side effects

  Scenario: OPTIONAL CALL of a procedure
    When executing query:
      """
      UNWIND ['A', 'B'] AS x
      OPTIONAL CALL db.labels() YIELD label WHERE label = x
      RETURN x, label
      """
    Then the result should be, in any order:
      | x   | label |
      | 'A' | null  |
      | 'B' | null  |
    And no side effects

  Scenario: Patterns are values below boolean operators
    Given having executed:
      """
      CREATE (a:A {x: 1})-[:T]->(b:A {x: 2})
      """
    When executing query:
      """
      MATCH (n:A)
      RETURN n.x AS x, NOT (n)-->() AS none, (n)-->() AND n.x = 1 AS both, n.x = 2 OR (n)-[:T]->() AS either
      """
    Then the result should be, in any order:
      | x | none  | both  | either |
      | 1 | false | true  | true   |
      | 2 | true  | false | true   |
    And no side effects

  Scenario: Hints change no answer, and those for indexes that do not exist are ignored
    Given having executed:
      """
      CREATE (:A {x: 1})-[:T]->(:B {x: 2})<-[:T]-(:C)
      """
    When executing query:
      """
      MATCH (a:A)-[r:T]->(b:B)<-[:T]-(c:C)
      USING INDEX a:A(x) USING TEXT INDEX SEEK b:B(x, y) USING SCAN c:C USING JOIN ON b
      WHERE a.x = 1
      RETURN b.x AS x
      """
    Then the result should be, in any order:
      | x |
      | 2 |
    And no side effects

  Scenario: A hint about an unknown variable
    When executing query:
      """
      MATCH (a:A) USING SCAN b:A RETURN a
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: Reserved words name variables
    When executing query:
      """
      WITH 1 AS order, 2 AS set, [3, 4] AS match, {x: 5} AS with
      UNWIND match AS delete
      WITH order, set + 1 AS limit, delete, with.x AS skip WHERE delete > 3
      RETURN order, limit, delete AS return, skip AS where ORDER BY order
      """
    Then the result should be, in any order:
      | order | limit | return | where |
      | 1     | 3     | 4      | 5     |
    And no side effects

  Scenario: Reserved words in patterns
    When executing query:
      """
      CREATE (set:A {x: 1})-[on:T]->(match:B {x: 2})
      SET set.y = 3
      RETURN set.x AS as, match.x + set.y AS optional, type(on) AS on
      """
    Then the result should be, in any order:
      | as | optional | on  |
      | 1  | 5        | 'T' |
    And the side effects should be:
      | +nodes         | 2 |
      | +relationships | 1 |
      | +labels        | 2 |
      | +properties    | 3 |

  Scenario: The column of a map projection is its variable
    Given having executed:
      """
      CREATE (:A {x: 1, y: 2})
      """
    When executing query:
      """
      MATCH (n:A) RETURN n {.x, z: 3} ORDER BY n.y
      """
    Then the result should be, in any order:
      | n            |
      | {x: 1, z: 3} |
    And no side effects

  Scenario Outline: Texts and numbers
    When executing query:
      """
      RETURN <expr> AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | expr                                             | v         |
      | 1_000 + 0xff_ff + 1_0.5                          | 66545.5   |
      | normalize('A\u030A') = '\u00C5'                  | true      |
      | size(normalize('\u00C5', NFD))                   | 2         |
      | normalize('\uFB01', NFKC)                        | 'fi'      |
      | normalize(null)                                  | null      |
      | 'A\u030A' IS NORMALIZED                          | false     |
      | 'A\u030A' IS NFD NORMALIZED                      | true      |
      | '\uFB01' IS NOT NFKC NORMALIZED                  | true      |
      | null IS NORMALIZED                               | null      |
      | trim(BOTH 'x' FROM 'xax')                        | 'a'       |
      | char_length('äb') + character_length('c')        | 3         |
      | date('2024-02-03').YEAR                          | 2024      |
      | datetime('1970-01-01T00:00:01Z').epochmillis     | 1000      |
      | duration('P1M').MONTHSOFYEAR                     | 1         |

  Scenario: FILTER, LET and FOR
    When executing query:
      """
      FOR x IN [1, 2, 3, 4]
      LET y = x * 2, z = 'z' + x
      FILTER y > 2
      FILTER WHERE x <> 3
      RETURN x, y, z
      """
    Then the result should be, in any order:
      | x | y | z    |
      | 2 | 4 | 'z2' |
      | 4 | 8 | 'z4' |
    And no side effects

  Scenario: NEXT begins with the rows of the query before
    When executing query:
      """
      UNWIND [1, 2, 3] AS x RETURN x, x * x
      NEXT
      RETURN sum(x) AS sum, sum(`x * x`) AS squares
      NEXT
      RETURN sum + squares AS total
      """
    Then the result should be, in any order:
      | total |
      | 20    |
    And no side effects

  Scenario: NEXT after a UNION
    When executing query:
      """
      RETURN 1 AS x UNION RETURN 2 AS x
      NEXT
      RETURN count(*) AS n, sum(x) AS sum
      """
    Then the result should be, in any order:
      | n | sum |
      | 2 | 3   |
    And no side effects

  Scenario: Each branch of a UNION after NEXT takes all rows
    When executing query:
      """
      UNWIND [1, 2] AS x RETURN x, x * 10 AS y
      NEXT
      RETURN sum(x) AS n UNION ALL UNWIND [0, 1] AS z RETURN y + z AS n
      NEXT
      RETURN count(*) AS rows, sum(n) AS sum
      """
    Then the result should be, in any order:
      | rows | sum |
      | 5    | 65  |
    And no side effects

  Scenario: A UNION after NEXT removes duplicates, and takes no row where there is none
    When executing query:
      """
      UNWIND [] AS x RETURN x
      NEXT
      RETURN count(x) AS n UNION RETURN sum(x) AS n UNION RETURN x AS n
      """
    Then the result should be, in any order:
      | n |
      | 0 |
    And no side effects

  Scenario: What is before a NEXT with a UNION is written once
    When executing query:
      """
      CREATE (a:N {x: 1}) RETURN a
      NEXT
      MATCH (b:N) RETURN b.x AS n UNION ALL RETURN a.x + 1 AS n
      """
    Then the result should be, in any order:
      | n |
      | 1 |
      | 2 |
    And the side effects should be:
      | +nodes      | 1 |
      | +labels     | 1 |
      | +properties | 1 |

  Scenario: A UNION after NEXT needs the names of the columns
    When executing query:
      """
      WITH 1 AS x RETURN * NEXT RETURN x AS n UNION RETURN x + 1 AS n
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: FOR counts from one with ORDINALITY and from zero with OFFSET
    When executing query:
      """
      FOR x IN ['a', 'b', 'a'] WITH ORDINALITY i
      FOR y IN [x, i] WITH OFFSET j
      RETURN i, j, y
      """
    Then the result should be, in order:
      | i | j | y   |
      | 1 | 0 | 'a' |
      | 1 | 1 | 1   |
      | 2 | 0 | 'b' |
      | 2 | 1 | 2   |
      | 3 | 0 | 'a' |
      | 3 | 1 | 3   |
    And no side effects

  Scenario: FOR over null has no position, over another value one
    When executing query:
      """
      FOR list IN [null, [], 'x', range(5, 7)] FOR x IN list WITH ORDINALITY i RETURN x, i
      """
    Then the result should be, in order:
      | x   | i |
      | 'x' | 1 |
      | 5   | 1 |
      | 6   | 2 |
      | 7   | 3 |
    And no side effects

  Scenario: WITH after FOR, of variables that are named as its words
    When executing query:
      """
      FOR ordinality IN [1, 2] WITH ordinality AS offset
      FOR x IN [3] WITH offset, x
      RETURN offset + x AS n
      """
    Then the result should be, in order:
      | n |
      | 4 |
      | 5 |
    And no side effects

  Scenario: WHEN without ELSE gives nothing
    When executing query:
      """
      WHEN false THEN RETURN 1 AS x WHEN null THEN RETURN 2 AS x
      """
    Then the result should be, in any order:
      | x |
    And no side effects

  Scenario: The first WHEN that is true
    When executing query:
      """
      WHEN 1 > 2 THEN RETURN 1 AS x, 0 AS n
      WHEN true THEN { UNWIND [2, 3] AS x RETURN x, count(*) AS n }
      ELSE RETURN 4 AS x, 1 AS n
      """
    Then the result should be, in any order:
      | x | n |
      | 2 | 1 |
      | 3 | 1 |
    And no side effects

  Scenario: WHEN sees the variables around it
    When executing query:
      """
      UNWIND [1, 2, 3] AS x
      CALL (x) { WHEN x = 1 THEN RETURN 'one' AS name WHEN x = 2 THEN RETURN 'two' AS name }
      RETURN x, name
      NEXT
      WHEN x = 1 THEN RETURN name AS n ELSE RETURN name + x AS n
      """
    Then the result should be, in any order:
      | n      |
      | 'one'  |
      | 'two2' |
    And no side effects

  Scenario: All variables of all queries around are imported
    When executing query:
      """
      WITH 1 AS a CALL (*) { WITH 2 AS b CALL (*) { RETURN a + b AS c } RETURN c }
      RETURN c
      """
    Then the result should be, in any order:
      | c |
      | 3 |
    And no side effects

  Scenario: ELSE of a query that writes
    When executing query:
      """
      WHEN EXISTS { (:A) } THEN { MATCH (a:A) DETACH DELETE a }
      ELSE { CREATE (:A {x: 1}) }
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes      | 1 |
      | +labels     | 1 |
      | +properties | 1 |

  Scenario: INSERT and NODETACH DELETE
    Given having executed:
      """
      INSERT (:A {x: 1}), (:A {x: 2})
      """
    When executing query:
      """
      MATCH (a:A) WHERE a.x = 1 NODETACH DELETE a
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes      | 1 |
      | -properties | 1 |

  Scenario: Trails are the patterns of MATCH
    Given having executed:
      """
      CREATE (a:A)-[:T]->(b:B)-[:T]->(a)
      """
    When executing query:
      """
      MATCH p = TRAIL PATHS (:A)-[:T]->+() RETURN length(p) AS n
      """
    Then the result should be, in any order:
      | n |
      | 1 |
      | 2 |
    And no side effects

  Scenario: ACYCLIC repeats no node
    Given having executed:
      """
      CREATE (a:N {x: 'a'})-[:T]->(b:N {x: 'b'})-[:T]->(c:N {x: 'c'})-[:T]->(a), (b)-[:T]->(b), (c)-[:T]->(b)
      """
    When executing query:
      """
      MATCH p = ACYCLIC PATHS ({x: 'a'})-[:T]->+(n) RETURN [m IN nodes(p) | m.x] AS path
      """
    Then the result should be, in any order:
      | path            |
      | ['a', 'b']      |
      | ['a', 'b', 'c'] |
    And no side effects

  Scenario: SIMPLE may end where it begins
    Given having executed:
      """
      CREATE (a:N {x: 'a'})-[:T]->(b:N {x: 'b'})-[:T]->(c:N {x: 'c'})-[:T]->(a), (b)-[:T]->(b), (c)-[:T]->(b)
      """
    When executing query:
      """
      MATCH SIMPLE ({x: 'a'})((l)-[:T]->(m))+(n) RETURN [k IN m | k.x] AS path, n.x AS end
      """
    Then the result should be, in any order:
      | path            | end |
      | ['b']           | 'b' |
      | ['b', 'c']      | 'c' |
      | ['b', 'c', 'a'] | 'a' |
    And no side effects

  Scenario: Without REPEATABLE ELEMENTS a WALK repeats no relationship
    Given having executed:
      """
      CREATE (a:N {x: 'a'})-[:T]->(b:N {x: 'b'})-[:T]->(a)
      """
    When executing query:
      """
      MATCH p = WALK ({x: 'a'})-[:T]->+() RETURN length(p) AS n
      """
    Then the result should be, in any order:
      | n |
      | 1 |
      | 2 |
    And no side effects

  Scenario: With REPEATABLE ELEMENTS relationships repeat within and between paths
    Given having executed:
      """
      CREATE (a:N {x: 'a'})-[:T {y: 1}]->(b:N {x: 'b'})-[:T {y: 2}]->(a)
      """
    When executing query:
      """
      MATCH REPEATABLE ELEMENTS p = ({x: 'a'})-[r:T]->{2,5}(n), ()-[s]->()
      RETURN length(p) AS n, [one IN r | one.y] AS r, count(s) AS s
      """
    Then the result should be, in any order:
      | n | r               | s |
      | 2 | [1, 2]          | 2 |
      | 3 | [1, 2, 1]       | 2 |
      | 4 | [1, 2, 1, 2]    | 2 |
      | 5 | [1, 2, 1, 2, 1] | 2 |
    And no side effects

  Scenario: With REPEATABLE ELEMENTS single relationships repeat
    Given having executed:
      """
      CREATE (:N)-[:T]->(:N)
      """
    When executing query:
      """
      MATCH REPEATABLE ELEMENTS (a)-[r]-(b)-[s]-(c) RETURN r = s AS same, a = c AS closed, count(*) AS n
      """
    Then the result should be, in any order:
      | same | closed | n |
      | true | true   | 2 |
    And no side effects

  Scenario: With REPEATABLE ELEMENTS a TRAIL repeats no relationship of its own
    Given having executed:
      """
      CREATE (a:N {x: 'a'})-[:T]->(b:N {x: 'b'})-[:T]->(a)
      """
    When executing query:
      """
      MATCH REPEATABLE ELEMENTS TRAIL ({x: 'a'})-[r:T]->+(n), TRAIL ({x: 'b'})-[s:T]->()
      RETURN size(r) AS n, s IN r AS same
      """
    Then the result should be, in any order:
      | n | same  |
      | 1 | false |
      | 2 | true  |
    And no side effects

  Scenario: With REPEATABLE ELEMENTS conditions within a group hold in each repetition
    Given having executed:
      """
      CREATE (a:N {x: 1})-[:T]->(b:N {x: 2})-[:T]->(a), (b)-[:T]->(:N {x: 3})
      """
    When executing query:
      """
      MATCH REPEATABLE ELEMENTS ({x: 1})((l)-[:T]->(m) WHERE m.x < 3){4}(n) RETURN [k IN m | k.x] AS path
      """
    Then the result should be, in any order:
      | path         |
      | [2, 1, 2, 1] |
    And no side effects

  Scenario: With REPEATABLE ELEMENTS a walk needs an upper bound
    When executing query:
      """
      MATCH REPEATABLE ELEMENTS (:A)-[:T]->+() RETURN 1 AS x
      """
    Then a SyntaxError should be raised at compile time: InvalidRelationshipPattern

  Scenario: DIFFERENT RELATIONSHIPS is what every MATCH is
    Given having executed:
      """
      CREATE (:N)-[:T]->(:N)
      """
    When executing query:
      """
      MATCH DIFFERENT RELATIONSHIPS (a)-[r]->(b), (c)-[s]->(d) RETURN count(*) AS n
      """
    Then the result should be, in any order:
      | n |
      | 0 |
    And no side effects

  Scenario: A difference of negated terms is no pattern
    When executing query:
      """
      WITH 5 AS u, 3 AS v
      RETURN (-(u) - -(v)) AS a, (u) - -(v) AS b, 1 - (u) - -(v) AS c, -(u) --(v) AS d
      """
    Then the result should be, in any order:
      | a  | b | c  | d  |
      | -2 | 8 | -1 | -2 |
    And no side effects
