Feature: Temporal selection and truncation, with independently computed results

  Scenario Outline: Cut off below a unit, with fields set again
    Given any graph
    When executing query:
      """
      RETURN toString(<value>) AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | value | v |
      | date.truncate('day', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2017-10-11' |
      | date.truncate('year', date({year: 1984, month: 1, day: 1}), {day: 2}) | '1984-01-02' |
      | localtime.truncate('minute', time({hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '12:31:00.000000002' |
      | datetime.truncate('weekYear', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1999-01-04T00:00:00.000000002+01:00' |
      | datetime.truncate('millisecond', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1984-01-01T12:31:14.645000002+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('hour', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1984-01-01T12:00:00.000000002' |
      | datetime.truncate('microsecond', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '2015-01-01T12:31:14.645876Z' |
      | localdatetime.truncate('minute', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1900-03-01T12:31' |
      | localdatetime.truncate('day', date({year: 2000, month: 1, day: 1}), {nanosecond: 2}) | '2000-01-01T00:00:00.000000002' |
      | datetime.truncate('month', date({year: 1900, month: 3, day: 1}), {day: 2}) | '1900-03-02T00:00Z' |
      | localdatetime.truncate('millennium', date({year: 1984, month: 1, day: 1}), {nanosecond: 2}) | '1000-01-01T00:00:00.000000002' |
      | localdatetime.truncate('microsecond', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2015-01-01T12:31:14.645876' |
      | datetime.truncate('month', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1003-12-01T00:00Z' |
      | time.truncate('second', time({hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {timezone: '+05:00'}) | '12:31:14+05:00' |
      | datetime.truncate('year', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1984-01-01T00:00+01:00' |
      | localdatetime.truncate('day', localdatetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1983-12-31T00:00' |
      | localdatetime.truncate('millennium', localdatetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '2000-01-01T00:00' |
      | date.truncate('decade', date({year: 2017, month: 10, day: 11}), {}) | '2010-01-01' |
      | localdatetime.truncate('century', date({year: 1983, month: 12, day: 31}), {nanosecond: 2}) | '1900-01-01T00:00:00.000000002' |
      | datetime.truncate('weekYear', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '2014-12-02T00:00Z' |
      | datetime.truncate('month', date({year: 2017, month: 10, day: 11}), {day: 2, timezone: 'Europe/Stockholm'}) | '2017-10-02T00:00+02:00[Europe/Stockholm]' |
      | datetime.truncate('year', date({year: 1984, month: 10, day: 11}), {day: 2, timezone: 'Europe/Stockholm'}) | '1984-01-02T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('weekYear', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1900-01-01T00:00' |
      | datetime.truncate('week', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1003-12-26T00:00:00.000000002Z' |
      | datetime.truncate('century', date({year: 1984, month: 1, day: 1}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1900-01-01T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('week', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {dayOfWeek: 2}) | '1983-12-27T00:00Z' |
      | datetime.truncate('year', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {timezone: 'Europe/Stockholm'}) | '1984-01-01T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('millennium', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '2000-01-02T00:00+01:00' |
      | localdatetime.truncate('minute', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2000-01-01T12:31' |
      | datetime.truncate('decade', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2, timezone: 'Europe/Stockholm'}) | '2010-01-02T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('quarter', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {timezone: 'Europe/Stockholm'}) | '1984-10-01T00:00+01:00[Europe/Stockholm]' |
      | date.truncate('year', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '2000-01-02' |
      | datetime.truncate('decade', datetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {timezone: 'Europe/Stockholm'}) | '1980-01-01T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('second', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '2000-01-01T12:31:14.000000002+01:00' |
      | localdatetime.truncate('quarter', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1003-10-01T00:00:00.000000002' |
      | localdatetime.truncate('decade', date({year: 2017, month: 10, day: 11})) | '2010-01-01T00:00' |
      | datetime.truncate('second', datetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1983-12-31T12:31:14.000000002+01:00' |
      | datetime.truncate('millisecond', datetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1983-12-31T12:31:14.645000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('century', date({year: 1003, month: 12, day: 29}), {}) | '1000-01-01T00:00Z' |
      | datetime.truncate('century', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '2000-01-02T00:00Z' |
      | localdatetime.truncate('day', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1003-12-29T00:00' |
      | datetime.truncate('day', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1003-12-29T00:00:00.000000002+01:00' |
      | date.truncate('quarter', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '2015-01-02' |
      | localdatetime.truncate('century', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '2000-01-02T00:00' |
      | datetime.truncate('century', date({year: 2015, month: 1, day: 1}), {day: 2, timezone: 'Europe/Stockholm'}) | '2000-01-02T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('millennium', date({year: 1003, month: 12, day: 29}), {}) | '1000-01-01T00:00' |
      | localdatetime.truncate('millennium', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1000-01-01T00:00:00.000000002' |
      | datetime.truncate('decade', date({year: 2015, month: 1, day: 1}), {timezone: 'Europe/Stockholm'}) | '2010-01-01T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('second', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1900-03-01T12:31:14' |
      | date.truncate('decade', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '2010-01-02' |
      | datetime.truncate('decade', localdatetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '2010-01-01T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('decade', localdatetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '2010-01-01T00:00' |
      | date.truncate('year', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2015-01-01' |
      | datetime.truncate('weekYear', date({year: 2017, month: 10, day: 11}), {day: 2}) | '2017-01-02T00:00Z' |
      | datetime.truncate('decade', date({year: 2000, month: 1, day: 1})) | '2000-01-01T00:00Z' |
      | localdatetime.truncate('week', date({year: 1003, month: 12, day: 29}), {dayOfWeek: 2}) | '1003-12-27T00:00' |
      | datetime.truncate('hour', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1003-12-29T12:00Z' |
      | date.truncate('day', localdatetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '2017-10-11' |
      | date.truncate('decade', localdatetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '2000-01-01' |
      | datetime.truncate('decade', datetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1980-01-01T00:00+01:00' |
      | localdatetime.truncate('decade', localdatetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1980-01-01T00:00' |
      | datetime.truncate('quarter', date({year: 1003, month: 12, day: 29}), {nanosecond: 2}) | '1003-10-01T00:00:00.000000002Z' |
      | date.truncate('year', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1900-01-01' |
      | date.truncate('millennium', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '1000-01-02' |
      | datetime.truncate('weekYear', localdatetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {timezone: 'Europe/Stockholm'}) | '1999-01-04T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('quarter', datetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {timezone: 'Europe/Stockholm'}) | '1984-01-01T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('century', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '1900-01-02T00:00' |
      | datetime.truncate('year', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1984-01-01T00:00:00.000000002Z' |
      | localdatetime.truncate('millennium', date({year: 1900, month: 3, day: 1})) | '1000-01-01T00:00' |
      | localdatetime.truncate('weekYear', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1984-01-02T00:00' |
      | date.truncate('year', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1900-01-01' |
      | localdatetime.truncate('microsecond', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1003-12-29T12:31:14.645876' |
      | date.truncate('week', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '2014-12-29' |
      | date.truncate('week', date({year: 2000, month: 1, day: 1}), {}) | '1999-12-27' |
      | date.truncate('millennium', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '1000-01-02' |
      | localdatetime.truncate('week', localdatetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1999-12-27T00:00:00.000000002' |
      | time.truncate('hour', localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: '+05:00'}) | '12:00:00.000000002+05:00' |
      | datetime.truncate('weekYear', datetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1983-01-03T00:00:00.000000002+01:00' |
      | date.truncate('millennium', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1000-01-01' |
      | date.truncate('weekYear', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1003-01-02' |
      | datetime.truncate('weekYear', date({year: 2000, month: 1, day: 1}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1999-01-04T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('microsecond', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1003-12-29T12:31:14.645876Z' |
      | localdatetime.truncate('weekYear', date({year: 1003, month: 12, day: 29})) | '1003-01-03T00:00' |
      | localdatetime.truncate('month', date({year: 1984, month: 10, day: 11}), {nanosecond: 2}) | '1984-10-01T00:00:00.000000002' |
      | localdatetime.truncate('hour', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '2000-01-01T12:00:00.000000002' |
      | date.truncate('weekYear', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '2017-01-02' |
      | date.truncate('decade', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1980-01-02' |
      | date.truncate('month', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1984-10-01' |
      | datetime.truncate('month', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2, timezone: 'Europe/Stockholm'}) | '2017-10-02T00:00+02:00[Europe/Stockholm]' |
      | localdatetime.truncate('hour', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '1900-03-01T12:00' |
      | datetime.truncate('decade', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1980-01-01T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('millennium', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2000-01-01T00:00+01:00' |
      | datetime.truncate('year', date({year: 1984, month: 1, day: 1}), {timezone: 'Europe/Stockholm'}) | '1984-01-01T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('millennium', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1000-01-01T00:00' |
      | datetime.truncate('second', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {timezone: 'Europe/Stockholm'}) | '2017-10-11T12:31:14+02:00[Europe/Stockholm]' |
      | datetime.truncate('weekYear', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1999-01-04T00:00+01:00' |
      | datetime.truncate('microsecond', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1900-03-01T12:31:14.645876Z' |
      | datetime.truncate('quarter', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1984-10-01T00:00+01:00' |
      | localdatetime.truncate('millennium', localdatetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '2000-01-01T00:00:00.000000002' |
      | date.truncate('week', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {dayOfWeek: 2}) | '2017-10-10' |
      | localdatetime.truncate('millisecond', localdatetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '2017-10-11T12:31:14.645' |
      | datetime.truncate('quarter', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2, timezone: 'Europe/Stockholm'}) | '1984-01-02T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('weekYear', date({year: 2015, month: 1, day: 1})) | '2014-12-29T00:00' |
      | date.truncate('weekYear', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1900-01-01' |
      | localdatetime.truncate('week', date({year: 1983, month: 12, day: 31})) | '1983-12-26T00:00' |
      | datetime.truncate('microsecond', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {}) | '2015-01-01T12:31:14.645876Z' |
      | datetime.truncate('millennium', date({year: 2017, month: 10, day: 11})) | '2000-01-01T00:00Z' |
      | datetime.truncate('quarter', date({year: 1900, month: 3, day: 1}), {nanosecond: 2}) | '1900-01-01T00:00:00.000000002Z' |
      | datetime.truncate('millennium', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2000-01-01T00:00+01:00' |
      | date.truncate('decade', datetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1980-01-01' |
      | datetime.truncate('day', datetime({year: 2017, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '2017-10-11T00:00+01:00' |
      | datetime.truncate('decade', localdatetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1980-01-01T00:00:00.000000002Z' |
      | datetime.truncate('century', localdatetime({year: 1983, month: 12, day: 31, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '1900-01-01T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('second', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {timezone: 'Europe/Stockholm'}) | '1984-10-11T12:31:14+01:00[Europe/Stockholm]' |
      | datetime.truncate('year', date({year: 1984, month: 10, day: 11}), {timezone: 'Europe/Stockholm'}) | '1984-01-01T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('microsecond', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1003-12-29T12:31:14.645876002' |
      | date.truncate('month', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1003-12-01' |
      | datetime.truncate('weekYear', date({year: 1983, month: 12, day: 31}), {day: 2}) | '1983-01-02T00:00Z' |
      | datetime.truncate('month', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '2000-01-01T00:00+01:00' |
      | datetime.truncate('weekYear', date({year: 2000, month: 1, day: 1}), {day: 2, timezone: 'Europe/Stockholm'}) | '1999-01-02T00:00+01:00[Europe/Stockholm]' |
      | localdatetime.truncate('month', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '2015-01-01T00:00' |
      | localdatetime.truncate('year', datetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1984-01-01T00:00' |
      | localdatetime.truncate('second', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1900-03-01T12:31:14.000000002' |
      | datetime.truncate('month', datetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {}) | '1003-12-01T00:00+01:00' |
      | datetime.truncate('century', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1900-01-02T00:00Z' |
      | date.truncate('week', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '1999-12-27' |
      | datetime.truncate('second', localdatetime({year: 1003, month: 12, day: 29, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '1003-12-29T12:31:14.000000002Z' |
      | time.truncate('second', localdatetime({year: 1984, month: 10, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2, timezone: '+05:00'}) | '12:31:14.000000002+05:00' |
      | date.truncate('weekYear', datetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {day: 2}) | '2014-12-02' |
      | localdatetime.truncate('year', localdatetime({year: 2015, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {nanosecond: 2}) | '2015-01-01T00:00:00.000000002' |
      | localdatetime.truncate('millennium', date({year: 1983, month: 12, day: 31}), {day: 2}) | '1000-01-02T00:00' |
      | datetime.truncate('quarter', date({year: 2000, month: 1, day: 1}), {nanosecond: 2, timezone: 'Europe/Stockholm'}) | '2000-01-01T00:00:00.000000002+01:00[Europe/Stockholm]' |
      | datetime.truncate('century', date({year: 1984, month: 10, day: 11}), {day: 2, timezone: 'Europe/Stockholm'}) | '1900-01-02T00:00+01:00[Europe/Stockholm]' |
      | date.truncate('decade', date({year: 2015, month: 1, day: 1})) | '2010-01-01' |
      | datetime.truncate('weekYear', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {timezone: 'Europe/Stockholm'}) | '1983-01-03T00:00+01:00[Europe/Stockholm]' |
      | datetime.truncate('month', datetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'})) | '2000-01-01T00:00+01:00' |
      | datetime.truncate('week', datetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123, timezone: '+01:00'}), {nanosecond: 2}) | '1900-02-26T00:00:00.000000002+01:00' |
      | localdatetime.truncate('weekYear', localdatetime({year: 2000, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123})) | '1999-01-04T00:00' |
      | localdatetime.truncate('century', localdatetime({year: 1900, month: 3, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1900-01-02T00:00' |
      | date.truncate('weekYear', localdatetime({year: 1984, month: 1, day: 1, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), {day: 2}) | '1983-01-02' |

  Scenario Outline: Selected from other temporal values, with fields replaced
    Given any graph
    When executing query:
      """
      RETURN toString(<value>) AS v
      """
    Then the result should be, in any order:
      | v   |
      | <v> |
    And no side effects

    Examples:
      | value | v |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, timezone: '+05:00'}) | '1984-01-03T16:03+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-07-11T01:31:14.645876-10:00[Pacific/Honolulu]' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28, second: 42}) | '1984-10-28T12:31:42.645876123' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42}) | '1984-11-11T12:00:42+01:00' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 3, second: 42}) | '1984-08-11T12:31:42.645876+01:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:31:14.645876123Z' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: '+05:00'}) | '1984-01-03T16:31:42.645876+05:00' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876+01:00' |
      | localdatetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), week: 10, dayOfWeek: 2, second: 42}) | '1984-03-06T12:31:42.645876' |
      | datetime({datetime: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), timezone: '+05:00'}) | '1984-10-11T16:00+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876123Z' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123})}) | '1984-11-11T12:31:14.645876123Z' |
      | datetime({year: 1984, month: 10, day: 11, time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'})}) | '1984-10-11T12:00+01:00' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'})}) | '1984-07-11T12:31:14.645876' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), week: 10, dayOfWeek: 2, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-03-06T01:31:42.645876-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42, timezone: '+05:00'}) | '1984-10-11T16:00:42+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-08-11T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | datetime({year: 1984, quarter: 3, dayOfQuarter: 45, time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42, timezone: '+05:00'}) | '1984-08-14T12:31:42.645876123+05:00' |
      | time({time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '12:31:42.645876123Z' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, second: 42, timezone: '+05:00'}) | '1984-03-06T12:31:42.645876123+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, timezone: 'Pacific/Honolulu'}) | '1984-03-06T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42}) | '1984-07-11T12:03:42' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, timezone: '+05:00'}) | '1984-01-03T16:03+05:00' |
      | localtime({time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42}) | '12:00:42' |
      | localdatetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:00:42' |
      | datetime({year: 1984, week: 10, dayOfWeek: 3, time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), second: 42, timezone: '+05:00'}) | '1984-03-07T16:00:42+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-07-11T12:31:42.645876123Z' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-08-11T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), week: 10, dayOfWeek: 2, second: 42, timezone: '+05:00'}) | '1984-03-06T16:00:42+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), ordinalDay: 28, hour: 10, minute: 10, second: 10}) | '1984-01-28T10:10:10Z' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), timezone: '+05:00'}) | '1984-07-11T15:03+05:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, timezone: '+05:00'}) | '1984-08-11T12:31:14.645876123+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-01-03T01:03-10:00[Pacific/Honolulu]' |
      | time({time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), hour: 1, minute: 2, timezone: '+05:00'}) | '05:02:14.645876+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:00' |
      | time({time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42, timezone: '+05:00'}) | '16:00:42+05:00' |
      | localdatetime({datetime: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), day: 28}) | '1984-10-28T12:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 3, timezone: '+05:00'}) | '1984-07-11T16:00+05:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42, timezone: 'Pacific/Honolulu'}) | '1984-11-11T12:31:42.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28, second: 42, timezone: '+05:00'}) | '1984-11-28T12:31:42.645876123+05:00' |
      | localdatetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), second: 42}) | '1984-11-11T12:03:42' |
      | datetime({year: 1984, quarter: 3, dayOfQuarter: 45, time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42, timezone: '+05:00'}) | '1984-08-14T16:00:42+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28, timezone: 'Pacific/Honolulu'}) | '1984-10-28T01:31:14.645876-10:00[Pacific/Honolulu]' |
      | localdatetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), day: 28}) | '1984-11-28T12:03' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'})}) | '1984-07-11T12:00' |
      | localdatetime(datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'})) | '1984-11-11T12:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28, timezone: '+05:00'}) | '1984-11-28T12:31:14.645876123+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-01-03T01:00-10:00[Pacific/Honolulu]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), timezone: '+05:00'}) | '1984-11-11T16:31:14.645876+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28, second: 42}) | '1984-11-28T12:31:42.645876' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), second: 42, timezone: '+05:00'}) | '1984-11-11T16:00:42+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), timezone: '+05:00'}) | '1984-11-11T12:31:14.645876123+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), year: 28, hour: 10, minute: 10, second: 10}) | '0028-11-11T10:10:10Z' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3}) | '1984-08-11T12:31:14.645876123' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:31:14.645876123Z' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, timezone: '+05:00'}) | '1984-08-11T15:03+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), week: 1, hour: 10, minute: 10, second: 10, timezone: '+05:00'}) | '1984-01-05T10:10:10+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), week: 10, dayOfWeek: 2, timezone: 'Pacific/Honolulu'}) | '1984-03-06T01:00-10:00[Pacific/Honolulu]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), timezone: 'Pacific/Honolulu'}) | '1984-11-11T01:31:14.645876-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), second: 42}) | '1984-10-11T12:03:42+01:00[Europe/Stockholm]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-10-28T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-01-03T12:31:42.645876123-10:00[Pacific/Honolulu]' |
      | datetime({year: 1984, ordinalDay: 202, time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42}) | '1984-07-20T12:00:42+01:00' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), hour: 10, minute: 10, second: 10}) | '1984-11-11T10:10:10' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:31:42.645876123Z' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-08-11T00:03:42-10:00[Pacific/Honolulu]' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, timezone: '+05:00'}) | '1984-08-11T12:31:14.645876123+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, timezone: '+05:00'}) | '1984-03-06T12:31:14.645876123+05:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42}) | '1984-08-11T12:03:42+02:00[Europe/Stockholm]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:03:42+01:00[Europe/Stockholm]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), second: 42, timezone: 'Pacific/Honolulu'}) | '1984-11-11T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), day: 28, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-11-28T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3}) | '1984-07-11T12:03+02:00[Europe/Stockholm]' |
      | localdatetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 3}) | '1984-08-11T12:31:14.645876' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:00+01:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: '+05:00'}) | '1984-01-03T16:00:42+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876123' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 3}) | '1984-08-11T12:31:14.645876+01:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-01-03T12:31:42.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), week: 10, dayOfWeek: 2, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-03-06T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-08-11T00:03-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-07-11T00:00:42-10:00[Pacific/Honolulu]' |
      | localdatetime({datetime: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-11-11T12:31:42.645876123' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, timezone: '+05:00'}) | '1984-03-06T12:31:14.645876123+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), second: 42}) | '1984-10-11T12:00:42+01:00[Europe/Stockholm]' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), week: 10, dayOfWeek: 2, second: 42, timezone: '+05:00'}) | '1984-03-06T16:00:42+05:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), week: 10, dayOfWeek: 2, hour: 10, minute: 10, second: 10}) | '1984-03-06T10:10:10Z' |
      | localdatetime({datetime: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28, second: 42}) | '1984-11-28T12:31:42.645876123' |
      | datetime({datetime: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, second: 42}) | '1984-11-28T12:00:42+01:00' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), second: 42}) | '1984-03-07T12:31:42.645876' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, timezone: 'Pacific/Honolulu'}) | '1984-11-28T01:00-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28, timezone: 'Pacific/Honolulu'}) | '1984-07-28T01:31:14.645876-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, hour: 10, minute: 10, second: 10}) | '1984-07-11T10:10:10Z' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42}) | '1984-07-11T12:03:42' |
      | time({time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), hour: 1, minute: 2, timezone: '+05:00'}) | '05:02+05:00' |
      | datetime({year: 1984, ordinalDay: 202, time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), timezone: '+05:00'}) | '1984-07-20T12:31:14.645876123+05:00' |
      | localdatetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-08-11T01:00-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'})}) | '1984-10-11T12:31:14.645876+01:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), quarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-07-11T01:31:42.645876-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:03:42+01:00[Europe/Stockholm]' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-11-11T12:31:42.645876123Z' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, timezone: '+05:00'}) | '1984-10-28T16:00+05:00' |
      | localdatetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), day: 28, second: 42}) | '1984-11-28T12:03:42' |
      | datetime({year: 1984, week: 10, dayOfWeek: 3, time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), timezone: '+05:00'}) | '1984-03-07T16:31:14.645876+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), timezone: 'Pacific/Honolulu'}) | '1984-07-11T01:31:14.645876-10:00[Pacific/Honolulu]' |
      | localdatetime({year: 1984, week: 10, dayOfWeek: 3, time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-03-07T12:31:42.645876123' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-08-11T12:31:42.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, timezone: 'Pacific/Honolulu'}) | '1984-03-06T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-01-03T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), week: 10, dayOfWeek: 2, second: 42, timezone: '+05:00'}) | '1984-03-06T16:31:42.645876+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), year: 28, hour: 10, minute: 10, second: 10, timezone: '+05:00'}) | '0028-07-11T10:10:10+05:00' |
      | date({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), week: 1}) | '1984-01-08' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-07-11T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876123' |
      | datetime({year: 1984, month: 10, day: 11, time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), second: 42}) | '1984-10-11T12:31:42.645876+01:00' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), week: 10, dayOfWeek: 2, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-03-06T01:00:42-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), ordinalDay: 28, hour: 10, minute: 10, second: 10, timezone: '+05:00'}) | '1984-01-28T10:10:10+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-07-11T12:31:42.645876123' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42, timezone: '+05:00'}) | '1984-08-11T15:03:42+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-10-11T12:31:42.645876123' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, second: 42}) | '1984-03-06T12:31:42.645876123Z' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'})}) | '1984-10-11T12:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, timezone: '+05:00'}) | '1984-01-03T16:00+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28}) | '1984-07-28T12:31:14.645876123' |
      | localdatetime({datetime: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'})}) | '1984-10-11T12:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, second: 42}) | '1984-11-28T12:00:42+01:00' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-01-03T12:31:14.645876123-10:00[Pacific/Honolulu]' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 3, second: 42}) | '1984-07-11T12:00:42' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, second: 42, timezone: '+05:00'}) | '1984-08-11T12:31:42.645876123+05:00' |
      | localdatetime({year: 1984, month: 10, day: 11, time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), second: 42}) | '1984-10-11T12:00:42' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-01-03T01:03:42-10:00[Pacific/Honolulu]' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: 'Pacific/Honolulu'}) | '1984-01-03T12:31:42.645876123-10:00[Pacific/Honolulu]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28, timezone: '+05:00'}) | '1984-11-28T16:31:14.645876+05:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42, timezone: '+05:00'}) | '1984-01-03T12:31:42.645876123+05:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), year: 28, hour: 10, minute: 10, second: 10}) | '0028-10-11T10:10:10Z' |
      | datetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 3, second: 42}) | '1984-08-11T12:00:42+01:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:00:42+01:00[Europe/Stockholm]' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 3, timezone: 'Pacific/Honolulu'}) | '1984-08-11T00:03-10:00[Pacific/Honolulu]' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), week: 10, dayOfWeek: 2, second: 42}) | '1984-03-06T12:03:42' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3, second: 42}) | '1984-01-03T12:31:42.645876123Z' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), dayOfQuarter: 3, hour: 10, minute: 10, second: 10, timezone: '+05:00'}) | '1984-10-03T10:10:10+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 3}) | '1984-08-11T12:00' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:31:14.645876123Z' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), day: 28}) | '1984-11-28T12:31:14.645876123Z' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), second: 42}) | '1984-07-11T12:31:42.645876+01:00' |
      | datetime({date: date({year: 1984, month: 11, day: 11}), time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2, timezone: '+05:00'}) | '1984-03-06T12:31:14.645876123+05:00' |
      | datetime({year: 1984, quarter: 3, dayOfQuarter: 45, time: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), second: 42}) | '1984-08-14T12:31:42.645876123Z' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), timezone: '+05:00'}) | '1984-07-11T12:31:14.645876123+05:00' |
      | datetime({year: 1984, ordinalDay: 202, time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), second: 42, timezone: '+05:00'}) | '1984-07-20T16:00:42+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), week: 10, dayOfWeek: 2}) | '1984-03-06T12:31:14.645876123' |
      | localdatetime({date: date({year: 1984, month: 11, day: 11}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28}) | '1984-11-28T12:31:14.645876' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), day: 28, second: 42}) | '1984-07-28T12:00:42' |
      | datetime({datetime: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123})}) | '1984-11-11T12:31:14.645876123Z' |
      | datetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:00+01:00[Europe/Stockholm]' |
      | localdatetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), quarter: 1, dayOfQuarter: 3}) | '1984-01-03T12:03' |
      | datetime({date: localdatetime({year: 1984, month: 11, day: 11, hour: 12, minute: 31, second: 14, nanosecond: 645876123}), time: time({hour: 12, minute: 31, second: 14, microsecond: 645876, timezone: '+01:00'}), day: 28}) | '1984-11-28T12:31:14.645876+01:00' |
      | datetime({date: datetime({year: 1984, month: 7, day: 11, hour: 12, minute: 3, timezone: 'Europe/Stockholm'}), time: datetime({year: 1984, month: 11, day: 11, hour: 12, timezone: '+01:00'}), quarter: 3, timezone: '+05:00'}) | '1984-07-11T16:00+05:00' |
      | localdatetime({date: datetime({year: 1984, month: 10, day: 11, hour: 12, timezone: 'Europe/Stockholm'}), time: localtime({hour: 12, minute: 31, second: 14, nanosecond: 645876123}), quarter: 3, second: 42}) | '1984-07-11T12:31:42.645876123' |
