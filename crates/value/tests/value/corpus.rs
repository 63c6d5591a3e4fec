//! Replays the inputs of the fuzz targets (`fuzz/corpus`) without a fuzzing engine. `UPDATE_GOLDEN=1`
//! rewrites the seeds from one value of every type.

use std::{fs, path::PathBuf};

use isomer_value::{
    Crs, Duration, LabelId, Map, NameTable, NodeId, Point, PropId, TypeId, Value,
    equality::equivalent,
    jiff::Timestamp,
    json, key,
    record::{RecordBuilder, RecordRef, decode_value},
    temporal::{Now, function, to_text},
};

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = corpus(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let inputs: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert!(
        inputs.len() >= 5,
        "{} holds {} inputs",
        folder.display(),
        inputs.len()
    );
    inputs
}

fn write_seed(target: &str, name: &str, bytes: &[u8]) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(corpus(target)).unwrap();
        fs::write(corpus(target).join(name), bytes).unwrap();
    }
}

/// One or two values of every storable type.
fn samples() -> Vec<(&'static str, Value)> {
    let at = |name: &str, text: &str| {
        function(name)
            .unwrap()
            .call(&[text.into()], &Now::utc(Timestamp::UNIX_EPOCH))
            .unwrap()
    };
    let map = Map::from_iter([
        ("a", Value::Int(1)),
        ("b", vec![Value::Null, "x".into()].into()),
    ]);
    vec![
        ("null", Value::Null),
        ("bool", true.into()),
        ("int", 1_000_000_i64.into()),
        ("int_large", ((1_i64 << 60) + 1).into()),
        ("float", 1.5.into()),
        ("nan", f64::NAN.into()),
        ("string", "a\0\u{1}b".into()),
        ("bytes", vec![0_u8, 1, 2, 255].into()),
        (
            "list",
            vec![1_i64.into(), Value::empty_list(), Value::Null].into(),
        ),
        ("map", map.into()),
        ("date", at("date", "2024-02-29")),
        ("local_time", at("localtime", "12:31:14.645876123")),
        ("zoned_time", at("time", "12:31:14+01:00")),
        (
            "local_date_time",
            at("localdatetime", "2015-W30-2T214032.142"),
        ),
        (
            "zoned_date_time",
            at(
                "datetime",
                "2015-07-21T21:40:32.142+02:00[Europe/Stockholm]",
            ),
        ),
        (
            "duration",
            Duration {
                months: 1,
                days: -2,
                seconds: 3,
                nanos: 4,
            }
            .into(),
        ),
        (
            "point",
            Point {
                crs: Crs::Cartesian3d,
                x: 1.0,
                y: -2.5,
                z: 0.0,
            }
            .into(),
        ),
    ]
}

#[test]
fn keys_replay() {
    for (name, value) in samples() {
        write_seed("key_decode", name, &key::encode(&value).unwrap());
    }
    for (path, bytes) in inputs("key_decode") {
        if let Ok(value) = key::decode(&bytes) {
            let back = key::decode(&key::encode(&value).unwrap()).unwrap();
            assert!(equivalent(&value, &back), "{}", path.display());
        }
        let _ = key::decode_all(&bytes);
    }
}

#[test]
fn records_replay() {
    let mut names = NameTable::new();
    let mut whole = RecordBuilder::relationship(TypeId(1), NodeId(2), NodeId(300));
    for (index, (name, value)) in (0..).zip(samples()) {
        let mut builder = RecordBuilder::node(&[LabelId(0)]);
        builder.put(PropId(0), &value, &mut names).unwrap();
        write_seed("record_decode", name, &builder.finish().unwrap());
        whole.put(PropId(index), &value, &mut names).unwrap();
    }
    write_seed("record_decode", "relationship", &whole.finish().unwrap());
    for (path, bytes) in inputs("record_decode") {
        let _ = decode_value(&bytes, &names);
        let Ok(record) = RecordRef::new(&bytes) else {
            continue;
        };
        if record.check(&names).is_ok() {
            let copy = RecordBuilder::from_record(&record)
                .unwrap()
                .finish()
                .unwrap();
            let copy = RecordRef::new(&copy).unwrap().properties(&names);
            assert_eq!(copy, record.properties(&names), "{}", path.display());
        }
    }
}

#[test]
fn json_replays() {
    for (name, value) in samples() {
        write_seed(
            "json_parse",
            name,
            json::to_string(&value).unwrap().as_bytes(),
        );
    }
    for (path, bytes) in inputs("json_parse") {
        if let Ok(value) = json::parse_bytes(&bytes) {
            let back = json::parse(&json::to_string(&value).unwrap());
            assert_eq!(back, Ok(value), "{}", path.display());
        }
    }
}

#[test]
fn temporal_texts_replay() {
    for (name, value) in samples() {
        if let Some(text) = to_text(&value) {
            write_seed("temporal_parse", name, text.as_bytes());
        }
    }
    let now = Now::utc(Timestamp::UNIX_EPOCH);
    for (path, bytes) in inputs("temporal_parse") {
        let text = String::from_utf8_lossy(&bytes);
        for name in [
            "date",
            "localtime",
            "time",
            "localdatetime",
            "datetime",
            "duration",
        ] {
            let function = function(name).unwrap();
            if let Ok(value) = function.call(&[Value::from(&*text)], &now) {
                let text = to_text(&value).unwrap();
                assert_eq!(
                    function.call(&[text.into()], &now),
                    Ok(value),
                    "{}",
                    path.display()
                );
            }
        }
    }
}
