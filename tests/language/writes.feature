Feature: Writes and their effects

  Scenario: MATCH and CREATE
    Given an empty graph
    And having executed:
      """
      CREATE (), ()
      """
    When executing query:
      """
      MATCH () CREATE ()
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes | 2 |

  Scenario: Creation sees only the rows before it
    Given an empty graph
    And having executed:
      """
      CREATE (), ()
      """
    When executing query:
      """
      MATCH () CREATE () WITH * CREATE ()
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes | 4 |

  Scenario: UNWIND, WITH, MERGE and CREATE
    Given an empty graph
    When executing query:
      """
      UNWIND [0] AS i CREATE (n {id: i}) WITH n MERGE (m {id: n.id + 1}) CREATE (n)-[:T]->(m) WITH count(*) AS c CREATE (:C {c: c})
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes         | 3 |
      | +relationships | 1 |
      | +labels        | 1 |
      | +properties    | 3 |

  Scenario: Deleting a relationship twice, and nothing
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)
      """
    When executing query:
      """
      MATCH (a)-[r]-(b) OPTIONAL MATCH (a)-[nothing:NONE]->() DELETE r, nothing RETURN count(*) AS c
      """
    Then the result should be, in any order:
      | c |
      | 2 |
    And the side effects should be:
      | -relationships | 1 |

  Scenario: Deleting from lists and maps
    Given an empty graph
    And having executed:
      """
      CREATE (u:User), (u)-[:FRIEND]->(), (u)-[:FRIEND]->(), (u)-[:FRIEND]->()
      """
    And parameters are:
      | friendIndex | 1 |
    When executing query:
      """
      MATCH (:User)-[:FRIEND]->(n) WITH collect(n) AS friends DETACH DELETE friends[$friendIndex]
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes         | 1 |
      | -relationships | 1 |

  Scenario: Deleting from nested maps
    Given an empty graph
    And having executed:
      """
      CREATE (u:User), (u)-[:FRIEND]->()
      """
    When executing query:
      """
      MATCH (:User)-[r]->(u) WITH {key: {key: collect({id: r, n: u})}} AS m DELETE m.key.key[0].id, m.key.key[0].n
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes         | 1 |
      | -relationships | 1 |

  Scenario: Deleting a path
    Given an empty graph
    And having executed:
      """
      CREATE (x:X), (n1), (n2), (n3) CREATE (x)-[:R]->(n1)-[:R]->(n2)-[:R]->(n3)
      """
    When executing query:
      """
      MATCH p = (:X)-->()-->()-->() DETACH DELETE p
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes         | 4 |
      | -relationships | 3 |
      | -labels        | 1 |

  Scenario Outline: Values that cannot be deleted
    Given any graph
    When executing query:
      """
      MATCH () DELETE <what>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | what  | detail              |
      | 1 + 1 | InvalidArgumentType |
      | x     | UndefinedVariable   |

  Scenario: Nodes with relationships stay
    Given an empty graph
    And having executed:
      """
      CREATE (x:X), (x)-[:R]->(), (x)-[:R]->()
      """
    When executing query:
      """
      MATCH (n:X) DELETE n
      """
    Then a ConstraintVerificationFailed should be raised at runtime: DeleteConnectedNode

  Scenario Outline: Deletion is done whatever is returned
    Given an empty graph
    And having executed:
      """
      CREATE (:N {num: 1}), (:N {num: 2}), (:N {num: 3}), (:N {num: 4}), (:N {num: 5})
      """
    When executing query:
      """
      MATCH (n:N) WITH n, n.num AS num DELETE n <rest>
      """
    Then the result should be, in any order:
      | num |
    And the side effects should be:
      | -nodes      | 5 |
      | -labels     | 1 |
      | -properties | 5 |

    Examples:
      | rest |
      | RETURN 42 AS num LIMIT 0 |
      | RETURN 42 AS num SKIP 5 |
      | WITH num WHERE num > 9 RETURN num |

  Scenario: Properties of a deleted entity cannot be read
    Given an empty graph
    And having executed:
      """
      CREATE ({num: 0})
      """
    When executing query:
      """
      MATCH (n) DELETE n RETURN n.num
      """
    Then a EntityNotFound should be raised at runtime: DeletedEntityAccess

  Scenario: Labels of a deleted node cannot be read
    Given an empty graph
    And having executed:
      """
      CREATE (:A)
      """
    When executing query:
      """
      MATCH (n) DELETE n RETURN labels(n)
      """
    Then a EntityNotFound should be raised at runtime: DeletedEntityAccess

  Scenario: A deleted relationship still has its type
    Given an empty graph
    And having executed:
      """
      CREATE ()-[:T]->()
      """
    When executing query:
      """
      MATCH ()-[r]->() DELETE r RETURN type(r)
      """
    Then the result should be, in any order:
      | type(r) |
      | 'T'     |
    And the side effects should be:
      | -relationships | 1 |

  Scenario: A deleted relationship has no properties any more
    Given an empty graph
    And having executed:
      """
      CREATE ()-[:T {num: 0}]->()
      """
    When executing query:
      """
      MATCH ()-[r]->() DELETE r RETURN r.num
      """
    Then a EntityNotFound should be raised at runtime: DeletedEntityAccess

  Scenario: MERGE of a relationship, created here and matched there
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {id: 1}), (b:B {id: 2}) CREATE (a)-[:TYPE]->(b) CREATE (:A {id: 3}), (:B {id: 4})
      """
    When executing query:
      """
      MATCH (a:A), (b:B)
      MERGE (a)-[r:TYPE]->(b)
        ON CREATE SET r.name = 'Lola'
        ON MATCH SET r.name = 'RUN'
      RETURN count(r) AS c
      """
    Then the result should be, in any order:
      | c |
      | 4 |
    And the side effects should be:
      | +relationships | 3 |
      | +properties    | 4 |

  Scenario: ON MATCH copies properties of a node
    Given an empty graph
    And having executed:
      """
      CREATE (:A {name: 'A'}), (:B {name: 'B', prop: 1})
      """
    When executing query:
      """
      MATCH (a:A), (b:B) MERGE (a)-[r:T]->(b) ON CREATE SET r += b, a = b RETURN r, a
      """
    Then the result should be, in any order:
      | r                           | a                           |
      | [:T {name: 'B', prop: 1}]   | (:A {name: 'B', prop: 1})   |
    And the side effects should be:
      | +relationships | 1 |
      | +properties    | 4 |
      | -properties    | 1 |

  Scenario: MERGE does not match a relationship of the opposite direction
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)
      """
    When executing query:
      """
      MATCH (a:A), (b:B) MERGE (b)-[r:T]->(a) RETURN startNode(r) = b AS s
      """
    Then the result should be, in any order:
      | s    |
      | true |
    And the side effects should be:
      | +relationships | 1 |

  Scenario: MERGE of null is an error
    Given an empty graph
    When executing query:
      """
      MERGE ({num: null})
      """
    Then a SemanticError should be raised at runtime: MergeReadOwnWrites

  Scenario: Subqueries may not write
    Given any graph
    When executing query:
      """
      MATCH (n) WHERE COUNT { CREATE (m) } > 0 RETURN n
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: FOREACH writes once per element
    Given an empty graph
    When executing query:
      """
      FOREACH (x IN [1, 2, null] | CREATE (n:N {x: x}) FOREACH (y IN [x] | SET n.y = y))
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes      | 3 |
      | +labels     | 1 |
      | +properties | 4 |
