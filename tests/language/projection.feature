Feature: RETURN, WITH, aggregates and order

  Scenario: Missing properties are null
    Given an empty graph
    And having executed:
      """
      CREATE ({num: 1})-[:T {w: 2}]->()
      """
    When executing query:
      """
      MATCH (n)-[r]->(m) RETURN n.num, n.name, r.w, r.x, m.num
      """
    Then the result should be, in any order:
      | n.num | n.name | r.w | r.x  | m.num |
      | 1     | null   | 2   | null | null  |
    And no side effects

  Scenario: Lists and arithmetic of properties
    Given an empty graph
    And having executed:
      """
      CREATE ({numbers: [1, 2, 3], num: 1})
      """
    When executing query:
      """
      MATCH (a) RETURN a.numbers + [4, 5] AS foo, [4] + a.numbers AS bar, a.num + 'x' AS x, a.numbers + 4 AS y
      """
    Then the result should be, in any order:
      | foo             | bar          | x    | y            |
      | [1, 2, 3, 4, 5] | [4, 1, 2, 3] | '1x' | [1, 2, 3, 4] |
    And no side effects

  Scenario: Conditions on labels are values
    Given an empty graph
    And having executed:
      """
      CREATE (:Foo:Bar), (), (:Foo)
      """
    When executing query:
      """
      MATCH (n) RETURN (n:Foo) AS foo, n:Foo:Bar AS both
      """
    Then the result should be, in any order:
      | foo   | both  |
      | true  | true  |
      | false | false |
      | true  | false |
    And no side effects

  Scenario: Returning nothing that is in scope
    Given any graph
    When executing query:
      """
      MATCH () RETURN *
      """
    Then a SyntaxError should be raised at compile time: NoVariablesInScope

  Scenario: Undefined variables
    Given any graph
    When executing query:
      """
      MATCH () RETURN foo
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: Distinct values, lists and nulls
    Given an empty graph
    And having executed:
      """
      CREATE ({list: ['A', 'B']}), ({list: ['A', 'B']}), (), ()
      """
    When executing query:
      """
      MATCH (n) RETURN count(DISTINCT {name: n.list}) AS c, count(DISTINCT n.list) AS d, count(n.list) AS e
      """
    Then the result should be, in any order:
      | c | d | e |
      | 2 | 1 | 2 |
    And no side effects

  Scenario: Arithmetic around an aggregate
    Given an empty graph
    And having executed:
      """
      CREATE ({id: 42})
      """
    When executing query:
      """
      MATCH (a) RETURN a, count(a) + 3 AS c, count(a) / 60.0 / 60 AS d, {kids: collect(a.id), s: size(collect(a))} AS m
      """
    Then the result should be, in any order:
      | a          | c | d                     | m                   |
      | ({id: 42}) | 4 | 0.0002777777777777778 | {kids: [42], s: 1}  |
    And no side effects

  Scenario: Constants and parameters next to an aggregate
    Given an empty graph
    And having executed:
      """
      CREATE (:Person {age: 20}), (:Person {age: 40})
      """
    And parameters are:
      | age | 38 |
    When executing query:
      """
      MATCH (person:Person) RETURN $age + avg(person.age) - 1000 AS x
      """
    Then the result should be, in any order:
      | x      |
      | -932.0 |
    And no side effects

  Scenario: Grouping keys may be used next to aggregates
    Given an empty graph
    And having executed:
      """
      CREATE (me:Person {age: 20}), (:Person {age: 30})
      """
    When executing query:
      """
      MATCH (me:Person)--(you:Person) WITH me.age AS age, you RETURN age, age + count(you.age) AS x
      """
    Then the result should be, in any order:
      | age | x |
    And no side effects

  Scenario Outline: Expressions that are not allowed next to an aggregate
    Given any graph
    When executing query:
      """
      MATCH (me: Person)--(you: Person) <projection>
      """
    Then a SyntaxError should be raised at compile time: AmbiguousAggregationExpression

    Examples:
      | projection                                                |
      | RETURN me.age + count(you.age)                            |
      | RETURN me.age + you.age, me.age + you.age + count(*)      |
      | WITH me.age + count(you.age) AS agg RETURN *              |

  Scenario: Aggregates in aggregates
    Given any graph
    When executing query:
      """
      RETURN count(count(*))
      """
    Then a SyntaxError should be raised at compile time: NestedAggregation

  Scenario: Random numbers in aggregates
    Given any graph
    When executing query:
      """
      RETURN count(rand())
      """
    Then a SyntaxError should be raised at compile time: NonConstantExpression

  Scenario: Unknown functions
    Given any graph
    When executing query:
      """
      RETURN foo(1)
      """
    Then a SyntaxError should be raised at compile time: UnknownFunction

  Scenario: Lengths of the shortest of paths
    Given an empty graph
    And having executed:
      """
      CREATE (a:T {name: 'a'})-[:R]->(b:X {name: 'b'})-[:R]->(c:X {name: 'c'}), (a)-[:R]->(c)
      """
    When executing query:
      """
      MATCH p = (a:T {name: 'a'})-[:R*]->(other:X) WHERE other <> a WITH a, other, min(length(p)) AS len RETURN a.name AS name, collect(other.name) AS others, len
      """
    Then the result should be (ignoring element order for lists):
      | name | others     | len |
      | 'a'  | ['c', 'b'] | 1   |
    And no side effects

  Scenario: Sums, averages and extremes with nulls
    Given an empty graph
    When executing query:
      """
      UNWIND [1, null, 2.5, 3] AS x RETURN sum(x) AS s, avg(x) AS a, min(x) AS lo, max(x) AS hi, count(x) AS c, count(*) AS n, collect(x) AS l
      """
    Then the result should be, in any order:
      | s   | a                  | lo | hi | c | n | l           |
      | 6.5 | 2.1666666666666665 | 1  | 3  | 3 | 4 | [1, 2.5, 3] |
    And no side effects

  Scenario: Aggregates of nothing
    Given an empty graph
    When executing query:
      """
      MATCH (n) RETURN count(n) AS c, sum(n.x) AS s, avg(n.x) AS a, min(n.x) AS lo, collect(n) AS l, stDev(n.x) AS d
      """
    Then the result should be, in any order:
      | c | s | a    | lo   | l  | d   |
      | 0 | 0 | null | null | [] | 0.0 |
    And no side effects

  Scenario: Extremes over mixed types
    Given any graph
    When executing query:
      """
      UNWIND [1, 'a', null, [1, 2], 0.2, 'b'] AS x RETURN min(x) AS lo, max(x) AS hi
      """
    Then the result should be, in any order:
      | lo     | hi |
      | [1, 2] | 1  |
    And no side effects

  Scenario: Order over all types
    Given an empty graph
    And having executed:
      """
      CREATE (:N)-[:REL]->()
      """
    When executing query:
      """
      MATCH p = (n:N)-[r:REL]->() UNWIND [n, r, p, 1.5, ['list'], 'text', null, false, 0.0 / 0.0, {a: 'map'}] AS types RETURN types ORDER BY types
      """
    Then the result should be, in order:
      | types             |
      | {a: 'map'}        |
      | (:N)              |
      | [:REL]            |
      | ['list']          |
      | <(:N)-[:REL]->()> |
      | 'text'            |
      | false             |
      | 1.5               |
      | NaN               |
      | null              |
    And no side effects

  Scenario: Order by an expression that is not returned
    Given an empty graph
    And having executed:
      """
      CREATE ({name: 'nisse', x: 3}), ({name: 'olle', x: 1}), ({name: 'pelle', x: 2})
      """
    When executing query:
      """
      MATCH (n) RETURN n.name AS name ORDER BY n.x DESC, name
      """
    Then the result should be, in order:
      | name    |
      | 'nisse' |
      | 'pelle' |
      | 'olle'  |
    And no side effects

  Scenario: Order by an aggregate
    Given an empty graph
    And having executed:
      """
      CREATE ({division: 'A', age: 22}), ({division: 'B', age: 33}), ({division: 'B', age: 44}), ({division: 'C', age: 55})
      """
    When executing query:
      """
      MATCH (n) RETURN n.division, max(n.age) ORDER BY max(n.age)
      """
    Then the result should be, in order:
      | n.division | max(n.age) |
      | 'A'        | 22         |
      | 'B'        | 44         |
      | 'C'        | 55         |
    And no side effects

  Scenario: Order by an expression of an aggregate that is not returned
    Given an empty graph
    And having executed:
      """
      CREATE ({name: 'a', age: 1}), ({name: 'b', age: 2}), ({name: 'b', age: 3})
      """
    When executing query:
      """
      MATCH (n) RETURN n.name AS name, count(*) AS c ORDER BY name + count(*)
      """
    Then the result should be, in order:
      | name | c |
      | 'a'  | 1 |
      | 'b'  | 2 |
    And no side effects

  Scenario: Aggregates in ORDER BY without any in the projection
    Given any graph
    When executing query:
      """
      MATCH (n) RETURN n.num1 ORDER BY max(n.num2)
      """
    Then a SyntaxError should be raised at compile time: InvalidAggregation

  Scenario: After DISTINCT only returned columns can be ordered by
    Given any graph
    When executing query:
      """
      MATCH (a) RETURN DISTINCT a.name ORDER BY a.age
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: A projected name hides the variable in ORDER BY
    Given an empty graph
    And having executed:
      """
      CREATE ({num: 1, x: 3}), ({num: 2, x: 2}), ({num: 3, x: 1})
      """
    When executing query:
      """
      MATCH (a) WITH a.num * -1 AS a, a.x AS x RETURN a, x ORDER BY a
      """
    Then the result should be, in order:
      | a  | x |
      | -3 | 1 |
      | -2 | 2 |
      | -1 | 3 |
    And no side effects

  Scenario: WITH orders, limits and then filters
    Given an empty graph
    When executing query:
      """
      UNWIND [3, 1, 5, 4, 2] AS x WITH x ORDER BY x DESC LIMIT 3 WHERE x < 5 RETURN collect(x) AS l
      """
    Then the result should be, in any order:
      | l      |
      | [4, 3] |
    And no side effects

  Scenario: LIMIT from an expression of parameters and functions
    Given an empty graph
    And parameters are:
      | l | 1 |
    When executing query:
      """
      UNWIND range(1, 5) AS x WITH x ORDER BY x SKIP $l + 1 LIMIT toInteger(ceil(1.7)) RETURN x
      """
    Then the result should be, in order:
      | x |
      | 3 |
      | 4 |
    And no side effects

  Scenario: LIMIT of zero does not stop updates
    Given an empty graph
    When executing query:
      """
      UNWIND [1, 2, 3] AS x CREATE (n:N {x: x}) RETURN n LIMIT 0
      """
    Then the result should be, in any order:
      | n |
    And the side effects should be:
      | +nodes      | 3 |
      | +labels     | 1 |
      | +properties | 3 |

  Scenario: LIMIT does not stop updates before it
    Given an empty graph
    When executing query:
      """
      UNWIND [1, 2, 3] AS x CREATE (n:N {x: x}) WITH n LIMIT 1 SET n.y = 1 RETURN n.x
      """
    Then the result should be, in any order:
      | n.x |
      | 1   |
    And the side effects should be:
      | +nodes      | 3 |
      | +labels     | 1 |
      | +properties | 4 |

  Scenario: Several WITHs with conditions and aggregates
    Given an empty graph
    And having executed:
      """
      CREATE (a {name: 'David'}), (b {name: 'Other'}), (c {name: 'NotOther'}), (d {name: 'NotOther2'}), (a)-[:REL]->(b), (a)-[:REL]->(c), (a)-[:REL]->(d), (b)-[:REL]->(), (b)-[:REL]->(), (c)-[:REL]->(), (c)-[:REL]->(), (d)-[:REL]->()
      """
    When executing query:
      """
      MATCH (david {name: 'David'})--(otherPerson)-->()
      WITH otherPerson, count(*) AS foaf
      WHERE foaf > 1
      WITH otherPerson
      WHERE otherPerson.name <> 'NotOther'
      RETURN count(*)
      """
    Then the result should be, in any order:
      | count(*) |
      | 1        |
    And no side effects

  Scenario: UNION of equal columns
    Given any graph
    When executing query:
      """
      UNWIND [1, 2] AS x RETURN x UNION UNWIND [2, 3] AS x RETURN x
      """
    Then the result should be, in any order:
      | x |
      | 1 |
      | 2 |
      | 3 |
    And no side effects

  Scenario: Columns are named as they are written
    Given any graph
    When executing query:
      """
      WITH 1 AS n RETURN   n+1 , {a :n}.a,   -n, [1 ,2], 'it\'s'
      """
    Then the result should be, in any order:
      | n+1 | {a :n}.a | -n | [1 ,2] | 'it\\'s' |
      | 2   | 1        | -1 | [1, 2] | 'it\'s'  |
    And no side effects
