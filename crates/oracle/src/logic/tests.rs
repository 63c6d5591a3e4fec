use super::*;
use crate::calendar::{Clock, Date, Offset, SECOND};
use crate::temporal::Span;

fn number(value: i64) -> Datum {
    Datum::Int(value)
}

fn map(entries: &[(&str, Datum)]) -> Datum {
    let entries = entries.iter().cloned();
    Datum::from(
        entries
            .map(|(name, value)| (name.into(), value))
            .collect::<Map>(),
    )
}

fn time(hour: i64, offset: i64) -> Datum {
    Datum::Time(Clock(hour * 3600 * SECOND), Offset(offset * 3600))
}

/// The types in the order of the openCypher TCK (`ReturnOrderBy1`, `WithOrderBy1`), and values of each in theirs.
#[test]
fn values_of_all_types_have_their_places() {
    let two_53 = 9_007_199_254_740_992_i64;
    let ladder = [
        map(&[]),
        map(&[("b", number(1))]),
        map(&[("c", number(0))]),
        map(&[("a", number(0)), ("b", number(0))]),
        Datum::node(1),
        Datum::node(2),
        vec![].into(),
        vec!["a".into(), number(1)].into(),
        vec![number(1)].into(),
        vec![number(1), Datum::Null].into(),
        Datum::LocalDateTime(Date(0), Clock(5)),
        Datum::Date(Date(-1)),
        Datum::Date(Date(0)),
        // 12:00 two hours ahead of UTC is before 11:00 in UTC.
        time(12, 2),
        time(11, 0),
        Datum::LocalTime(Clock(0)),
        Span {
            days: 30,
            ..Span::default()
        }
        .into(),
        Span {
            months: 1,
            ..Span::default()
        }
        .into(),
        Span {
            days: 31,
            ..Span::default()
        }
        .into(),
        "".into(),
        "a".into(),
        "\u{ffff}".into(),
        "\u{10000}".into(),
        false.into(),
        true.into(),
        f64::NEG_INFINITY.into(),
        i64::MIN.into(),
        (-1.5).into(),
        number(-1),
        number(0),
        (two_53 as f64).into(),
        (two_53 + 1).into(),
        i64::MAX.into(),
        9_223_372_036_854_775_808.0.into(),
        f64::INFINITY.into(),
        f64::NAN.into(),
        Datum::Null,
    ];
    for (at, a) in ladder.iter().enumerate() {
        for (than, b) in ladder.iter().enumerate() {
            assert_eq!(order(a, b), at.cmp(&than), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn equality_has_three_values() {
    let nan = Datum::Float(f64::NAN);
    let list = |items: &[Datum]| Datum::from(items.to_vec());
    for (a, b, expected) in [
        (number(1), Datum::Float(1.0), Some(true)),
        (Datum::Float(0.0), Datum::Float(-0.0), Some(true)),
        (
            number(i64::MAX),
            Datum::Float(9_223_372_036_854_775_808.0),
            Some(false),
        ),
        (nan.clone(), nan.clone(), Some(false)),
        (number(1), "1".into(), Some(false)),
        (number(1), true.into(), Some(false)),
        (Datum::Null, Datum::Null, None),
        (
            list(&[number(1), Datum::Null]),
            list(&[number(1), number(2)]),
            None,
        ),
        (
            list(&[number(1), Datum::Null]),
            list(&[number(2), number(2)]),
            Some(false),
        ),
        (list(&[Datum::Null]), list(&[]), Some(false)),
        (
            map(&[("a", Datum::Null)]),
            map(&[("b", Datum::Null)]),
            Some(false),
        ),
        (map(&[("a", Datum::Null)]), map(&[("a", number(1))]), None),
        // The same instant on two clocks, and as much time in two forms.
        (time(12, 1), time(11, 0), Some(false)),
        (
            Span {
                days: 1,
                ..Span::default()
            }
            .into(),
            Span {
                nanos: i128::from(crate::calendar::DAY),
                ..Span::default()
            }
            .into(),
            Some(false),
        ),
        (
            Datum::Date(Date(0)),
            Datum::LocalDateTime(Date(0), Clock(0)),
            Some(false),
        ),
    ] {
        assert_eq!(equal(&a, &b), expected, "{a:?} and {b:?}");
        assert_eq!(equal(&b, &a), expected, "{b:?} and {a:?}");
    }
}

#[test]
fn comparison_is_unknown_between_types_and_false_with_nan() {
    let less = |a: &Datum, b: &Datum| compare(Comparison::Less, a, b);
    assert_eq!(less(&number(1), &"a".into()), None);
    assert_eq!(less(&number(1), &Datum::Float(f64::NAN)), Some(false));
    assert_eq!(
        less(&Datum::Date(Date(0)), &Datum::Date(Date(1))),
        Some(true)
    );
    assert_eq!(
        less(&Datum::Date(Date(0)), &Datum::LocalTime(Clock(1))),
        None
    );
    let span = |days| {
        Datum::from(Span {
            days,
            ..Span::default()
        })
    };
    assert_eq!(less(&span(1), &span(2)), None);
    assert_eq!(
        less(&vec![number(1)].into(), &vec![number(1), number(0)].into()),
        Some(true)
    );
}

/// `DISTINCT` and groups: NaN is one group, null is one group.
#[test]
fn groups_join_what_the_order_does_not_tell_apart() {
    let nan = Datum::Float(f64::NAN);
    assert!(same_group(&[nan.clone(), Datum::Null], &[nan, Datum::Null]));
    assert!(same_group(&[number(1)], &[Datum::Float(1.0)]));
    assert!(!same_group(&[number(1)], &["1".into()]));
}
