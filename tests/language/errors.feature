Feature: Errors of scopes, types and aggregates, and similar valid queries
  Scenario Outline: Refused before running
    Given any graph
    When executing query:
      """
      <q>
      """
    Then a SyntaxError should be raised at compile time: <detail>
    Examples:
      | q | detail |
      | MATCH (me: Person)--(you: Person) RETURN count(you.age) AS agg ORDER BY me.age + count(you.age) | AmbiguousAggregationExpression |
      | MATCH (me: Person)--(you: Person) RETURN me.age + you.age, count(*) AS cnt ORDER BY me.age + you.age + count(*) | AmbiguousAggregationExpression |
      | MATCH (me: Person)--(you: Person) WITH count(you.age) AS agg ORDER BY me.age + count(you.age) RETURN * | AmbiguousAggregationExpression |
      | MATCH (me: Person)--(you: Person) WITH me.age + you.age AS add, count(*) AS cnt ORDER BY me.age + you.age + count(*) RETURN * | AmbiguousAggregationExpression |
      | MATCH (a:A) WITH a.num2 % 3 AS mod, min(a.num + a.num2) AS min ORDER BY sum(a.num + a.num2) LIMIT 2 RETURN mod, min | UndefinedVariable |
      | MATCH (a:A) WITH a.num2 % 3 AS mod, min(a.num + a.num2) AS min ORDER BY sum(a.num) LIMIT 2 RETURN mod, min | UndefinedVariable |
      | MATCH (a) WITH a.num AS x ORDER BY count(a) RETURN x | InvalidAggregation |
      | MATCH (n) WITH n ORDER BY count(n.x) RETURN n | InvalidAggregation |
      | MATCH (n) RETURN n.x SKIP n.count | NonConstantExpression |
      | MATCH (n) RETURN n.x LIMIT 1.7 | InvalidArgumentType |
      | MATCH (n) RETURN n.x LIMIT 'a' | InvalidArgumentType |
      | MATCH (n) WITH n, 5 AS s RETURN n LIMIT s | NonConstantExpression |
      | WITH 1 AS a, 2 AS a RETURN a | ColumnNameConflict |
      | RETURN 1 AS a, 2 AS a | ColumnNameConflict |
      | MATCH (a), (a)-[a]->() RETURN a | VariableTypeConflict |
      | MATCH (a)-[r]->()-[r]->() RETURN r | RelationshipUniquenessViolation |
      | CREATE (a), (a:X) | VariableAlreadyBound |
      | MATCH (a) CREATE (a:X) | VariableAlreadyBound |
      | MATCH (a) CREATE (a {x: 1}) | VariableAlreadyBound |
      | CREATE (a)-[r:T]->(), (a)-[r:T]->() | VariableAlreadyBound |
      | MATCH (a) MERGE (a:X) | VariableAlreadyBound |
      | UNWIND [1] AS i UNWIND [2] AS i RETURN i | VariableAlreadyBound |
      | MATCH p = (a) MATCH p = (b) RETURN p | VariableAlreadyBound |
      | MATCH (n) RETURN n.name, count(*) AS c UNION MATCH (n) RETURN n.name | DifferentColumnsInUnion |
      | RETURN 1 AS a UNION RETURN 2 AS b | DifferentColumnsInUnion |
      | MERGE (a)-[:T*2]->(b) | CreatingVarLength |
      | MATCH (n) SET n.x = count(n) | InvalidAggregation |
      | MATCH (n) WHERE n.x = 1 AND count(*) > 1 RETURN n | InvalidAggregation |
      | RETURN size(1) | InvalidArgumentType |
      | MATCH (n) RETURN size(n) | InvalidArgumentType |
      | MATCH (n) RETURN type(n) | InvalidArgumentType |
      | MATCH ()-[r]->() RETURN labels(r) | InvalidArgumentType |
      | MATCH (n) RETURN nodes(n) | InvalidArgumentType |
      | MATCH p = (a)-[*]->(b) RETURN size(p) | InvalidArgumentType |
      | WITH [1] AS list, [2] AS r MATCH (a)-[r]->(b) RETURN a | VariableTypeConflict |
      | CALL (1 + 2) | UnexpectedSyntax |
      | CREATE (n {x: m.y}) | UndefinedVariable |
      | MATCH (a) WITH count(*) AS c RETURN a | UndefinedVariable |
      | MATCH (n) WITH n.name RETURN n | NoExpressionAlias |
      | MERGE (n {num: 1}) ON CREATE SET x.num = 1 | UndefinedVariable |
      | MATCH (a) DELETE x | UndefinedVariable |
      | RETURN percentileCont(1, 2, 3) | InvalidNumberOfArguments |
      | RETURN exists((a)-->()) | UndefinedVariable |
      | MATCH (a) WHERE (a)-->(b) RETURN a | UndefinedVariable |
      | MATCH (a) RETURN [(a)-[r]->(b) WHERE count(r) > 1 \| b] | InvalidAggregation |
      | MATCH (a) WHERE a.name RETURN a AS b ORDER BY c | UndefinedVariable |
  Scenario Outline: Sorting by aggregates and grouping keys
    Given an empty graph
    And having executed:
      """
      CREATE (:Person {age: 20, name: 'x'})-[:T]->(:Person {age: 30, name: 'y'}), (:Person {age: 40, name: 'x'})
      """
    When executing query:
      """
      <q>
      """
    Then the result should be, in order:
      | r |
      | 3 |
    Examples:
      | q |
      | MATCH (a:Person) RETURN count(a) AS r ORDER BY count(a) |
      | MATCH (a:Person) WITH a.name AS n, count(*) AS c ORDER BY a.name, count(*) RETURN sum(c) AS r |
      | MATCH (a:Person) WITH a.age AS age, count(a.age) AS cnt ORDER BY a.age + count(a.age) RETURN sum(cnt) AS r |
      | MATCH (a:Person) WITH avg(a.age) AS x, count(*) AS r ORDER BY 38 + avg(a.age) - 1000 RETURN r |
      | MATCH (a:Person) WITH a ORDER BY a.age * -1 LIMIT 3 RETURN count(a) AS r |
      | MATCH (a:Person) WITH a.name AS name, sum(a.age) AS s ORDER BY s WITH collect(s) AS l RETURN size(l) + 1 AS r |
