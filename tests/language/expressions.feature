Feature: Expressions

  Scenario Outline: Precedence and grouping
    Given any graph
    When executing query:
      """
      RETURN <expr> AS a
      """
    Then the result should be, in any order:
      | a        |
      | <result> |
    And no side effects

    Examples:
      | expr                                      | result |
      | true OR true XOR true                     | true   |
      | (true OR true) XOR true                   | false  |
      | true XOR false AND false                  | true   |
      | (true XOR false) AND false                | false  |
      | true OR false AND false                   | true   |
      | NOT true OR true                          | true   |
      | NOT (true OR true)                        | false  |
      | NOT false >= false                        | false  |
      | (NOT false) >= false                      | true   |
      | true OR false = false                     | true   |
      | (true OR false) = false                   | false  |
      | 4 * 2 + 3 * 2                             | 14     |
      | 4 * (2 + 3) * 2                           | 40     |
      | 12 / 4 * 3 - 2 * 4                        | 1      |
      | 12 / 4 * (3 - 2 * 4)                      | -15    |
      | 12 / (4 * 3) - 2                          | -1     |
      | 4 ^ 3 * 2 ^ 3                             | 512.0  |
      | 4 ^ (3 * 2) ^ 3                           | 68719476736.0 |
      | 4 ^ 3 ^ 2                                 | 4096.0 |
      | -3 ^ 2                                    | 9.0    |
      | -(3 ^ 2)                                  | -9.0   |
      | 2 - -1                                    | 3      |
      | 7 % 4 * 2                                 | 6      |
      | -7 % 4                                    | -3     |
      | -7 / 2                                    | -3     |
      | 7 / 2.0                                   | 3.5    |
      | 1 + 2 = 3 AND 4 > 3                       | true   |
      | [1] + [2] = [1, 2]                        | true   |
      | 1 IN [1, 2] = true                        | true   |
      | 1 IN ([1, 2] + [3])                       | true   |
      | [1] IN [[1]] AND NOT 1 IN [2]             | true   |
      | 'a' + 'b' STARTS WITH 'ab'                | true   |
      | NOT 'abc' CONTAINS 'd'                    | true   |
      | null IS NULL = true                       | true   |
      | NOT null IS NULL                          | false  |
      | 1 < 2 < 3                                 | true   |
      | 1 < 3 < 2                                 | false  |
      | 3 > 2 >= 2 > 1                            | true   |
      | 1 < null < 0                              | null   |
      | 3 < 1 < null                              | false  |
      | 1 = 1.0                                   | true   |
      | [1, null] = [1, null]                     | null   |
      | [1, null] = [2, null]                     | false  |
      | [1] = [1, null]                           | false  |
      | {a: 1} = {a: 1.0}                         | true   |
      | {a: null} = {a: null}                     | null   |
      | {a: 1, b: null} = {a: 2, b: null}         | false  |
      | {a: 1} = {b: 1}                           | false  |
      | 1 = '1'                                   | false  |
      | 1 < 'a'                                   | null   |
      | 0.0 / 0.0 = 0.0 / 0.0                     | false  |
      | 0.0 / 0.0 <> 0.0 / 0.0                    | true   |
      | 0.0 / 0.0 > 1                             | false  |
      | 0.0 / 0.0 < 'a'                           | null   |
      | null AND false                            | false  |
      | null OR true                              | true   |
      | null XOR true                             | null   |
      | NOT null                                  | null   |
      | [1, 2] < [1, 3]                           | true   |
      | [1] < [1, 0]                              | true   |
      | [1, 'a'] < [1, null]                      | null   |
      | [1, null] >= [1]                          | true   |
      | true > false                              | true   |

  Scenario Outline: Lists
    Given any graph
    When executing query:
      """
      RETURN <expr> AS a
      """
    Then the result should be, in any order:
      | a        |
      | <result> |
    And no side effects

    Examples:
      | expr                                      | result          |
      | [1, 2, 3][0]                              | 1               |
      | [1, 2, 3][-1]                             | 3               |
      | [1, 2, 3][5]                              | null            |
      | [1, 2, 3][null]                           | null            |
      | null[1]                                   | null            |
      | [[1]][0][0]                               | 1               |
      | [1, 2, 3, 4, 5][1..3]                     | [2, 3]          |
      | [1, 2, 3][1..]                            | [2, 3]          |
      | [1, 2, 3][..2]                            | [1, 2]          |
      | [1, 2, 3][0..1]                           | [1]             |
      | [1, 2, 3][-3..-1]                         | [1, 2]          |
      | [1, 2, 3][0..-1]                          | [1, 2]          |
      | [1, 2, 3][3..1]                           | []              |
      | [1, 2, 3][-5..5]                          | [1, 2, 3]       |
      | [1, 2, 3][null..2]                        | null            |
      | [1, 2, 3][1..null]                        | null            |
      | size([1, [2, 3], null])                   | 3               |
      | size([])                                  | 0               |
      | size(null)                                | null            |
      | range(0, 3)                               | [0, 1, 2, 3]    |
      | range(3, 0)                               | []              |
      | range(3, 0, -2)                           | [3, 1]          |
      | range(0, 10, 3)                           | [0, 3, 6, 9]    |
      | range(-5, -6, -1)                         | [-5, -6]        |
      | range(2, 2)                               | [2]             |
      | 3 IN [1, 2, 3]                            | true            |
      | 3 IN [[1, 2, 3]]                          | false           |
      | null IN [1]                               | null            |
      | null IN []                                | false           |
      | 1 IN [1, null]                            | true            |
      | 2 IN [1, null]                            | null            |
      | [1, 2] IN [[1, null]]                     | null            |
      | [1, 2] IN [[null, 'foo'], [1, 2]]         | true            |
      | [1, 2] IN [1, [1, 2, null]]               | false           |
      | [null] IN [[null]]                        | null            |
      | [] IN [[]]                                | true            |
      | [1, 2] + 3                                | [1, 2, 3]       |
      | 3 + [1, 2]                                | [3, 1, 2]       |
      | [1] + null                                | null            |
      | [x IN range(1, 4) WHERE x % 2 = 0]        | [2, 4]          |
      | [x IN range(1, 3) \| x * x]               | [1, 4, 9]       |
      | [x IN null \| x]                          | null            |
      | head([1, 2])                              | 1               |
      | head([])                                  | null            |
      | last([1, 2])                              | 2               |
      | tail([1, 2, 3])                           | [2, 3]          |
      | reverse([1, 2, 3])                        | [3, 2, 1]       |
      | reverse('raksO')                          | 'Oskar'         |
      | reduce(s = 0, x IN [1, 2, 3] \| s + x)    | 6               |
      | keys({b: 1, a: null})                     | ['a', 'b']      |
      | {a: {b: [1, {c: 'x'}]}}.a.b[1].c          | 'x'             |
      | {a: 1}['a']                               | 1               |
      | {a: 1}.b                                  | null            |
      | {a: 1}[null]                              | null            |
      | all(x IN [] WHERE x > 1)                  | true            |
      | any(x IN [] WHERE x > 1)                  | false           |
      | none(x IN [1, null] WHERE x > 1)          | null            |
      | none(x IN [2, null] WHERE x > 1)          | false           |
      | single(x IN [2, null] WHERE x > 1)        | null            |
      | single(x IN [2, 3, null] WHERE x > 1)     | false           |
      | all(x IN [0, null] WHERE x > 1)           | false           |
      | all(x IN [2, null] WHERE x > 1)           | null            |
      | any(x IN [2, null] WHERE x > 1)           | true            |
      | any(x IN null WHERE x > 1)                | null            |

  Scenario Outline: Strings, numbers and conversions
    Given any graph
    When executing query:
      """
      RETURN <expr> AS a
      """
    Then the result should be, in any order:
      | a        |
      | <result> |
    And no side effects

    Examples:
      | expr                                   | result          |
      | substring('0123456789', 1)             | '123456789'     |
      | substring('0123456789', 1, 3)          | '123'           |
      | left('hello', 2)                       | 'he'            |
      | right('hello', 2)                      | 'lo'            |
      | replace('hello', 'l', 'w')             | 'hewwo'         |
      | split('one,two', ',')                  | ['one', 'two']  |
      | toUpper('aß')                          | 'ASS'           |
      | toLower('ÄB')                          | 'äb'            |
      | trim('  a ')                           | 'a'             |
      | lTrim('  a ')                          | 'a '            |
      | rTrim('  a ')                          | '  a'           |
      | size('größe')                          | 5               |
      | 'a' < 'B'                              | false           |
      | 'a' =~ '[a-c]'                         | true            |
      | 'ab' =~ 'a'                            | false           |
      | 'abc' STARTS WITH ''                   | true            |
      | 'abc' ENDS WITH null                   | null            |
      | 1 STARTS WITH '1'                      | null            |
      | toString(1.0)                          | '1.0'           |
      | toString(true)                         | 'true'          |
      | toInteger('82.9')                      | 82              |
      | toInteger('foo')                       | null            |
      | toInteger(-2.9)                        | -2              |
      | toFloat('5.5')                         | 5.5             |
      | toFloat('5foo')                        | null            |
      | toBoolean('TRUE')                      | true            |
      | toBoolean('x')                         | null            |
      | abs(-1)                                | 1               |
      | sign(-2.5)                             | -1              |
      | sqrt(16)                               | 4.0             |
      | round(2.5)                             | 3.0             |
      | round(-2.5)                            | -2.0            |
      | floor(-1.5)                            | -2.0            |
      | ceil(1.2)                              | 2.0             |
      | coalesce(null, 1, 2)                   | 1               |
      | exp(0)                                 | 1.0             |
      | log10(100)                             | 2.0             |
      | 1 / 0.0                                | Infinity        |
      | -0x1F                                  | -31             |
      | 0o17                                   | 15              |
      | 1.5e3                                  | 1500.0          |
      | .5                                     | 0.5             |
      | 9223372036854775807                    | 9223372036854775807 |
      | CASE 1 WHEN 1.0 THEN 'a' ELSE 'b' END  | 'a'             |
      | CASE null WHEN null THEN 1 ELSE 2 END  | 2               |
      | CASE WHEN null THEN 1 END              | null            |

  Scenario Outline: Errors at run time
    Given any graph
    When executing query:
      """
      WITH <values> AS v RETURN <expr> AS a
      """
    Then a <class> should be raised at runtime: <detail>

    Examples:
      | values              | expr                | class           | detail                       |
      | [1]                 | v['a']              | TypeError       | *                            |
      | [[1], 'a']          | v[0][v[1]]          | TypeError       | *                            |
      | [{a: 1}, 0]         | (v[0])[v[1]]        | TypeError       | MapElementAccessByNonString  |
      | [0]                 | range(1, 2, v[0])   | ArgumentError   | NumberOutOfRange             |
      | [[1]]               | toInteger(v[0])     | TypeError       | InvalidArgumentValue         |
      | [{}]                | toString(v[0])      | TypeError       | InvalidArgumentValue         |

  Scenario Outline: Errors at compile time
    Given any graph
    When executing query:
      """
      RETURN <expr> AS a
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | expr                          | detail                   |
      | NOT 1                         | InvalidArgumentType      |
      | 1 AND true                    | InvalidArgumentType      |
      | 'a' OR true                   | InvalidArgumentType      |
      | [] XOR true                   | InvalidArgumentType      |
      | 1 IN 'a'                      | InvalidArgumentType      |
      | any(x IN ['a'] WHERE x % 2 = 0) | InvalidArgumentType    |
      | 9223372h54775808              | InvalidNumberLiteral     |
      | 9223372#54775808              | UnexpectedSyntax         |
      | 9223372036854775808           | IntegerOverflow          |
      | 0x1FFFFFFFFFFFFFFFF           | IntegerOverflow          |
      | 1.0e400                       | FloatingPointOverflow    |
      | substring('a')                | InvalidNumberOfArguments |
      | [x IN [1] WHERE count(*) > 0] | InvalidAggregation       |

  Scenario Outline: Null tests
    Given an empty graph
    And having executed:
      """
      CREATE ({exists: 42, x: null})
      """
    When executing query:
      """
      MATCH (n) OPTIONAL MATCH (n)-[:NONE]->(m) RETURN <expr> AS a
      """
    Then the result should be, in any order:
      | a        |
      | <result> |
    And no side effects

    Examples:
      | expr                     | result |
      | n.exists IS NULL         | false  |
      | n.missing IS NULL        | true   |
      | n.missing IS NOT NULL    | false  |
      | m IS NULL                | true   |
      | m.x IS NULL              | true   |
      | n.x IS NULL              | true   |
      | {a: null}.a IS NULL      | true   |
      | null IS NOT NULL         | false  |
      | n['exists'] IS NOT NULL  | true   |
      | exists(n.exists)         | true   |
      | properties(n)            | {exists: 42} |
      | keys(n)                  | ['exists'] |
      | labels(m)                | null   |
      | type(null)               | null   |

  Scenario: Dynamic access to properties
    Given an empty graph
    And having executed:
      """
      CREATE ({name: 'Apa', n: {x: [1, {y: 2}]}})
      """
    And parameters are:
      | idx | 'name' |
    When executing query:
      """
      MATCH (n {name: 'Apa'}) RETURN n['nam' + 'e'] AS a, n[$idx] AS b, n.n.x[1].y AS c, n['n']['x'][0] AS d
      """
    Then the result should be, in any order:
      | a     | b     | c | d |
      | 'Apa' | 'Apa' | 2 | 1 |
    And no side effects
