Feature: Temporal values: selection, truncation, components, arithmetic

  Scenario Outline: Dates from other values
    Given any graph
    When executing query:
      """
      WITH <other> AS other RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | other | expr | result |
      | date({year: 1984, month: 11, day: 11}) | date(other) | '1984-11-11' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other}) | '1984-11-11' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other, year: 28}) | '0028-11-11' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other, day: 28}) | '1984-11-28' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other, week: 1}) | '1984-01-08' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other, ordinalDay: 28}) | '1984-01-28' |
      | date({year: 1984, month: 11, day: 11}) | date({date: other, quarter: 3}) | '1984-08-11' |
      | localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | date(other) | '1984-11-11' |
      | localdatetime({year: 1984, month: 11, day: 11, hour: 12}) | date({date: other, quarter: 3}) | '1984-08-11' |
      | datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}) | date({date: other, week: 1}) | '1984-01-08' |
      | datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}) | date(other) | '1984-11-11' |

  Scenario Outline: Local times from other values
    Given any graph
    When executing query:
      """
      WITH <other> AS other RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | other | expr | result |
      | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | localtime(other) | '12:31:14.645876123' |
      | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | localtime({time: other, second: 42}) | '12:31:42.645876123' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | localtime(other) | '12:31:14.645876' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | localtime({time: other, second: 42}) | '12:31:42.645876' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | localtime(other) | '12:31:14.645' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: '+01:00'}) | localtime({time: other, second: 42}) | '12:00:42' |
      | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | time(other) | '12:31:14.645876123Z' |
      | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | time({time: other, timezone: '+05:00'}) | '12:31:14.645876123+05:00' |
      | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | time({time: other, second: 42, timezone: '+05:00'}) | '12:31:42.645876123+05:00' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | time(other) | '12:31:14.645876+01:00' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | time({time: other, timezone: '+05:00'}) | '16:31:14.645876+05:00' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | time({time: other, second: 42}) | '12:31:42.645876+01:00' |
      | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | time({time: other, second: 42, timezone: '+05:00'}) | '16:31:42.645876+05:00' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | time({time: other, second: 42, timezone: '+05:00'}) | '12:31:42.645+05:00' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | time(other) | '12:00+01:00' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | time({time: other, timezone: '+05:00'}) | '16:00+05:00' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | time({time: other, second: 42}) | '12:00:42+01:00' |

  Scenario Outline: Date-times from other values
    Given any graph
    When executing query:
      """
      WITH <date> AS d, <time> AS t RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | date | time | expr | result |
      | date({year: 1984, month: 10, day: 11}) | null | localdatetime({date: d, hour: 10, minute: 10, second: 10}) | '1984-10-11T10:10:10' |
      | date({year: 1984, month: 10, day: 11}) | null | localdatetime({date: d, day: 28, hour: 10, minute: 10, second: 10}) | '1984-10-28T10:10:10' |
      | date({year: 1984, month: 10, day: 11}) | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | localdatetime({date: d, time: t}) | '1984-10-11T12:31:14.645876' |
      | date({year: 1984, month: 10, day: 11}) | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | localdatetime({date: d, time: t, day: 28, second: 42}) | '1984-10-28T12:31:42.645876' |
      | date({year: 1984, month: 10, day: 11}) | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | datetime({date: d, time: t}) | '1984-10-11T12:31:14.645876123Z' |
      | date({year: 1984, month: 10, day: 11}) | localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}) | datetime({date: d, time: t, timezone: '+05:00'}) | '1984-10-11T12:31:14.645876123+05:00' |
      | date({year: 1984, month: 10, day: 11}) | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | datetime({date: d, time: t}) | '1984-10-11T12:31:14.645876+01:00' |
      | date({year: 1984, month: 10, day: 11}) | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | datetime({date: d, time: t, timezone: '+05:00'}) | '1984-10-11T16:31:14.645876+05:00' |
      | date({year: 1984, month: 10, day: 11}) | time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}) | datetime({date: d, time: t, day: 28, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-10-28T01:31:42.645876-10:00[Pacific/Honolulu]' |
      | date({year: 1984, month: 10, day: 11}) | null | datetime({date: d, hour: 10, minute: 10, second: 10}) | '1984-10-11T10:10:10Z' |
      | date({year: 1984, month: 10, day: 11}) | null | datetime({date: d, hour: 10, minute: 10, second: 10, timezone: '+05:00'}) | '1984-10-11T10:10:10+05:00' |
      | date({year: 1984, month: 10, day: 11}) | null | datetime({date: d, day: 28, hour: 10, minute: 10, second: 10, timezone: 'Pacific/Honolulu'}) | '1984-10-28T10:10:10-10:00[Pacific/Honolulu]' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | null | datetime({datetime: d}) | '1984-03-07T12:31:14.645Z' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | null | datetime({datetime: d, timezone: '+05:00'}) | '1984-03-07T12:31:14.645+05:00' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | null | datetime({datetime: d, day: 28, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-03-28T12:31:42.645-10:00[Pacific/Honolulu]' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | null | datetime({datetime: d, timezone: '+05:00'}) | '1984-10-11T16:00+05:00' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | null | datetime({datetime: d, day: 28, second: 42}) | '1984-10-28T12:00:42+01:00[Europe/Stockholm]' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | null | datetime({datetime: d, day: 28, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-10-28T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: '+01:00'}) | null | localdatetime(d) | '1984-10-11T12:00' |
      | date({year: 1984, month: 10, day: 11}) | localdatetime({year: 1984, week: 10, dayOfWeek: 3, hour: 12, minute: 31, second: 14, millisecond: 645}) | datetime({date: d, time: t}) | '1984-10-11T12:31:14.645Z' |
      | date({year: 1984, month: 10, day: 11}) | datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}) | datetime({date: d, time: t}) | '1984-10-11T12:00+01:00[Europe/Stockholm]' |
      | 0 | null | datetime.fromepoch(416779, 999999999) | '1970-01-05T19:46:19.999999999Z' |
      | 0 | null | datetime.fromepochmillis(237821673987) | '1977-07-15T13:34:33.987Z' |

  Scenario Outline: Truncation
    Given any graph
    When executing query:
      """
      RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | expr | result |
      | date.truncate('millennium', date({year: 2017, month: 10, day: 11}), {day: 2}) | '2000-01-02' |
      | date.truncate('millennium', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2000-01-01' |
      | date.truncate('century', date({year: 1984, month: 10, day: 11}), {day: 2}) | '1900-01-02' |
      | date.truncate('decade', date({year: 1984, month: 10, day: 11}), {day: 2}) | '1980-01-02' |
      | date.truncate('year', date({year: 1984, month: 10, day: 11}), {}) | '1984-01-01' |
      | date.truncate('weekYear', date({year: 1984, month: 2, day: 1}), {day: 5}) | '1984-01-05' |
      | date.truncate('weekYear', date({year: 1984, month: 1, day: 1}), {dayOfWeek: 2}) | '1983-01-04' |
      | date.truncate('quarter', date({year: 1984, month: 11, day: 11}), {day: 2}) | '1984-10-02' |
      | date.truncate('month', date({year: 1984, month: 10, day: 11}), {day: 2}) | '1984-10-02' |
      | date.truncate('week', date({year: 1984, month: 10, day: 11}), {dayOfWeek: 2}) | '1984-10-09' |
      | date.truncate('day', date({year: 1984, month: 10, day: 11}), {}) | '1984-10-11' |
      | datetime.truncate('millennium', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+03:00'}), {timezone: 'Europe/Stockholm'}) | '2000-01-01T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('year', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1984-01-02T00:00Z' |
      | datetime.truncate('month', date({year: 1984, month: 10, day: 11}), {timezone: 'Europe/Stockholm'}) | '1984-10-01T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('hour', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '-01:00'}), {nanosecond: 2}) | '1984-10-11T12:00:00.000000002-01:00' |
      | datetime.truncate('millisecond', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1984-10-11T12:31:14.645000002+01:00' |
      | localdatetime.truncate('weekYear', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1983-01-03T00:00' |
      | localdatetime.truncate('microsecond', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '-01:00'}), {}) | '1984-10-11T12:31:14.645876' |
      | localtime.truncate('day', localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '00:00:00.000000002' |
      | localtime.truncate('minute', time({hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '-01:00'}), {}) | '12:31' |
      | time.truncate('day', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '-01:00'}), {}) | '00:00-01:00' |
      | time.truncate('second', localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {timezone: '+01:00'}) | '12:31:14+01:00' |
      | time.truncate('hour', time({hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '-01:00'}), {timezone: '+01:00'}) | '12:00+01:00' |

  Scenario Outline: Components
    Given any graph
    When executing query:
      """
      WITH <value> AS d RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | value | expr | result |
      | date('1984-10-11') | [d.year, d.quarter, d.month, d.week, d.weekYear, d.day, d.ordinalDay, d.weekDay, d.dayOfQuarter] | [1984, 4, 10, 41, 1984, 11, 285, 4, 11] |
      | date('1984-01-01') | [d.year, d.weekYear, d.week, d.weekDay] | [1984, 1983, 52, 7] |
      | localtime('12:31:14.645876123') | [d.hour, d.minute, d.second, d.millisecond, d.microsecond, d.nanosecond] | [12, 31, 14, 645, 645876, 645876123] |
      | time('12:31:14.645876123+01:00') | [d.timezone, d.offset, d.offsetMinutes, d.offsetSeconds] | ['+01:00', '+01:00', 60, 3600] |
      | datetime('1984-11-11T12:31:14.645876123[Europe/Stockholm]') | [d.timezone, d.offset, d.epochSeconds, d.epochMillis] | ['Europe/Stockholm', '+01:00', 469020674, 469020674645] |
      | duration({years: 1, months: 4, days: 10, hours: 1, minutes: 1, seconds: 1, nanoseconds: 111111111}) | [d.years, d.quarters, d.months, d.weeks, d.days, d.hours, d.minutes, d.seconds, d.milliseconds, d.microseconds, d.nanoseconds] | [1, 5, 16, 1, 10, 1, 61, 3661, 3661111, 3661111111, 3661111111111] |
      | duration({years: 1, months: 4, days: 10, hours: 1, minutes: 1, seconds: 1, nanoseconds: 111111111}) | [d.quartersOfYear, d.monthsOfQuarter, d.monthsOfYear, d.daysOfWeek, d.minutesOfHour, d.secondsOfMinute, d.millisecondsOfSecond, d.microsecondsOfSecond, d.nanosecondsOfSecond] | [1, 1, 4, 3, 1, 1, 111, 111111, 111111111] |

  Scenario Outline: Arithmetic and text
    Given any graph
    When executing query:
      """
      RETURN toString(<expr>) AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | expr | result |
      | date('1984-10-11') + duration('P1M20D') | '1984-12-01' |
      | date('2020-01-31') + duration('P1M') | '2020-02-29' |
      | date('1984-10-11') - duration({days: 14, hours: 25}) | '1984-09-26' |
      | localtime('12:31:14') + duration('PT13H') | '01:31:14' |
      | datetime('2017-03-26T00:00[Europe/Stockholm]') + duration('P1D') | '2017-03-27T00:00+02:00[Europe/Stockholm]' |
      | duration('P1Y2M3DT4H5M6.789S') | 'P1Y2M3DT4H5M6.789S' |
      | duration({months: 0.75}) | 'P22DT19H51M49.5S' |
      | duration({weeks: 2.5}) | 'P17DT12H' |
      | duration({seconds: -1, nanoseconds: 1}) | 'PT-0.999999999S' |
      | duration({minutes: 1.5, seconds: -61}) | 'PT29S' |
      | duration('P1D') * 2.5 | 'P2DT12H' |
      | duration('P3M') / 2 | 'P1M15DT5H14M33S' |
      | duration('PT1H') + duration('P1M') - duration('PT30M') | 'P1MT30M' |
      | duration.between(date('1984-10-11'), date('2015-06-24')) | 'P30Y8M13D' |
      | duration.between(localdatetime('2015-07-21T21:40:32.142'), date('2015-06-24')) | 'P-27DT-21H-40M-32.142S' |
      | duration.inMonths(date('1984-10-11'), localdatetime('2016-07-21T21:45:22.142')) | 'P31Y9M' |
      | duration.inDays(date('1984-10-11'), date('2015-06-24')) | 'P11213D' |
      | duration.inSeconds(localtime('14:30'), time('16:30+0100')) | 'PT2H' |
      | duration.inSeconds(datetime('2017-10-29T00:00+02:00[Europe/Stockholm]'), datetime('2017-10-29T04:00+01:00[Europe/Stockholm]')) | 'PT5H' |
      | duration.between(date('2018-01-01'), date('2018-01-01')) | 'PT0S' |
      | datetime('2015-07-21T21:40:32.142+0100') | '2015-07-21T21:40:32.142+01:00' |
      | datetime('2015-W30-2T21:40:32.142Z') | '2015-07-21T21:40:32.142Z' |
      | date('2015202') | '2015-07-21' |
      | date('2015-W30') | '2015-07-20' |
      | date('2015') | '2015-01-01' |
      | time('21:40-01:30') | '21:40-01:30' |
      | duration('P12Y5M14DT16H13M10.01S') | 'P12Y5M14DT16H13M10.01S' |
      | duration('P2012-02-02T14:37:21.545') | 'P2012Y2M2DT14H37M21.545S' |
      | duration('PT0.75M') | 'PT45S' |

  Scenario Outline: Comparison
    Given any graph
    When executing query:
      """
      RETURN <expr> AS result
      """
    Then the result should be, in any order:
      | result   |
      | <result> |
    And no side effects

    Examples:
      | expr | result |
      | date('1984-10-11') > date('1980-12-24') | true |
      | time('10:00+01:00') < time('09:35:14+00:00') | true |
      | datetime('1984-10-11T12:00+01:00') = datetime('1984-10-11T11:00Z') | false |
      | duration({days: 1}) = duration({hours: 24}) | false |
      | duration({days: 1}) < duration({hours: 25}) | null |
      | duration({hours: 24}) = duration({minutes: 1440}) | true |
      | date('1984-10-11') < localdatetime('1984-10-11T00:00') | null |
      | date('1984-10-11') = localdatetime('1984-10-11T00:00') | false |
