Feature: Weighted shortest paths, and SHOW commands

  Background:
    Given an empty graph
    And having executed:
      """
      CREATE (a:S {n: 'a'}), (b:S {n: 'b'}), (c:S {n: 'c'}), (d:S {n: 'd'}), (e:S {n: 'e'}),
             (a)-[:R {w: 1}]->(b), (b)-[:R {w: 1}]->(c), (c)-[:R {w: 1}]->(d), (a)-[:R {w: 4}]->(c), (b)-[:R {w: 5}]->(d),
             (a)-[:X {w: 0.5}]->(d), (d)-[:R]->(e), (a)-[:N {w: -1}]->(e), (b)-[:R {w: 2}]->(c)
      """

  Scenario Outline: Paths of least weight
    When executing query:
      """
      MATCH (a {n: 'a'}), (d {n: 'd'}), (e {n: 'e'}) CALL <call> AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | call | v |
      | algo.shortestPath(a, d, {types: 'R', weight: 'w'}) YIELD path, weight RETURN [[n IN nodes(path) \| n.n], weight] | [['a', 'b', 'c', 'd'], 3.0] |
      | algo.shortestPath(a, d, {types: ['R', 'X'], weight: 'w'}) YIELD path, weight RETURN [length(path), weight] | [1, 0.5] |
      | algo.shortestPath(a, d, {types: 'R'}) YIELD path, weight RETURN [length(path), weight] | [2, 2.0] |
      | algo.shortestPath(a, d) YIELD weight RETURN weight | 1.0 |
      | algo.shortestPath(d, a, {types: 'R', direction: 'incoming', weight: 'w'}) YIELD path, weight RETURN [[n IN nodes(path) \| n.n], weight] | [['d', 'c', 'b', 'a'], 3.0] |
      | algo.shortestPath(d, a, {types: 'R', direction: 'both', weight: 'w', defaultWeight: 0}) YIELD weight RETURN weight | 3.0 |
      | algo.shortestPath(a, e, {types: 'R', weight: 'w', defaultWeight: 2}) YIELD weight RETURN weight | 5.0 |
      | algo.shortestPath(e, a, {types: 'R'}) YIELD weight RETURN count(*) | 0 |
      | algo.shortestPath(a, a, {types: 'R'}) YIELD path, weight RETURN [length(path), weight] | [0, 0.0] |
      | algo.shortestPath(a, d, {types: 'Nope'}) YIELD weight RETURN count(*) | 0 |
      | algo.shortestPaths(a, d, 9, {types: 'R', weight: 'w'}) YIELD weight RETURN collect(weight) | [3.0, 4.0, 5.0, 6.0] |
      | algo.shortestPaths(a, d, 2, {types: 'R', weight: 'w'}) YIELD rank, path RETURN collect([rank, [r IN relationships(path) \| r.w]]) | [[1, [1, 1, 1]], [2, [1, 2, 1]]] |
      | algo.shortestPaths(a, d, 3, {direction: 'both', types: 'R', weight: 'w', defaultWeight: 1}) YIELD weight RETURN collect(weight) | [3.0, 4.0, 5.0] |

  Scenario Outline: Invalid weights
    When executing query:
      """
      MATCH (a {n: 'a'}), (e {n: 'e'}) CALL <call> YIELD weight RETURN weight
      """
    Then a ProcedureError should be raised at runtime: InvalidArgumentValue

    Examples:
      | call |
      | algo.shortestPath(a, e, {weight: 'w', types: 'N'}) |
      | algo.shortestPath(a, e, {weight: 'w', types: 'R'}) |
      | algo.shortestPath(a, e, {defaultWeight: 1}) |
      | algo.shortestPath(a, e, {direction: 'up'}) |
      | algo.shortestPath(a, e, {nope: 1}) |
      | algo.shortestPaths(a, e, 0) |

  Scenario Outline: Shown
    When executing query:
      """
      <q>
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | q | v |
      | SHOW LABELS YIELD label AS v | 'S' |
      | SHOW PROPERTIES YIELD property AS v WHERE v STARTS WITH 'w' | 'w' |
      | SHOW FUNCTIONS YIELD name AS v WHERE v = 'toUpper' | 'toUpper' |
      | SHOW FUNCTIONS YIELD signature AS v WHERE v STARTS WITH 'substring' | 'substring(text, start, [length]) :: STRING' |
      | SHOW PROCEDURES YIELD description AS v WHERE v STARTS WITH 'deletes a key' | 'deletes a key from a bucket' |

  Scenario Outline: Not shown
    When executing query:
      """
      <q>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | q | detail |
      | SHOW LABELS YIELD name | UndefinedVariable |
      | SHOW LABELS WHERE name = 1 | UndefinedVariable |
      | SHOW NOTHING | UnexpectedSyntax |
      | UNWIND [1] AS x CALL { WITH x CREATE (:T) } IN TRANSACTIONS OF 0 ROWS | InvalidArgumentType |
      | USING PERIODIC COMMIT 500 LOAD CSV FROM 'a.csv' AS row CREATE (:T) | UnexpectedSyntax |
