//! Codec micro-benchmarks: `cargo bench -p isomer-value` prints one JSON object per line, in nanoseconds per
//! operation.

use std::{hint::black_box, time::Instant};

use isomer_value::{
    GroupKey, Interner, LabelId, Map, NameTable, Value, json, key,
    order::cmp_order,
    record::{RecordBuilder, RecordRef},
};

const ROUNDS: u32 = 100;

/// Prints the best of many short rounds: the cost without interference from other processes.
fn measure(case: &str, count: u32, mut work: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..count / ROUNDS {
            work();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(count / ROUNDS));
    }
    println!(
        "{{\"bench\":\"value\",\"case\":\"{case}\",\"value\":{best:.1},\"unit\":\"ns\",\"n\":{count}}}"
    );
}

fn profile() -> Map {
    let mut map = Map::new();
    for index in 0..20 {
        map.insert(
            format!("field_{index:02}"),
            Value::from(format!("some text of field {index}")),
        );
    }
    map.insert("AGE", Value::Int(37));
    map.insert("completion", Value::Int(1_000_000));
    map.insert(
        "address",
        Value::from(Map::from_iter([
            ("city", Value::from("Rome")),
            ("zip", Value::Int(118)),
        ])),
    );
    map.insert(
        "tags",
        Value::from(vec![Value::from("a"), "b".into(), "c".into()]),
    );
    map
}

fn main() {
    let mut names = NameTable::new();
    let properties = profile();
    let build = |names: &mut NameTable| {
        let mut builder = RecordBuilder::node(&[LabelId(1)]);
        builder
            .put_all(&properties, names)
            .expect("it can be stored");
        builder.finish().expect("it is small")
    };
    let bytes = build(&mut names);
    let [age, city, text] =
        ["AGE", "city", "field_10"].map(|name| names.intern(name).expect("there is room"));
    let address = names.intern("address").expect("there is room");
    measure("record_get_int", 1_000_000, || {
        let record = RecordRef::new(black_box(&bytes)).expect("it is a record");
        black_box(record.get(age, &names).expect("it is whole"));
    });
    measure("record_get_string", 1_000_000, || {
        let record = RecordRef::new(black_box(&bytes)).expect("it is a record");
        black_box(record.get(text, &names).expect("it is whole"));
    });
    measure("record_get_nested", 1_000_000, || {
        let record = RecordRef::new(black_box(&bytes)).expect("it is a record");
        black_box(
            record
                .get_path(&[address, city], &names)
                .expect("it is whole"),
        );
    });
    measure("record_decode_all", 100_000, || {
        let record = RecordRef::new(black_box(&bytes)).expect("it is a record");
        black_box(record.properties(&names).expect("it is whole"));
    });
    measure("record_build", 100_000, || {
        black_box(build(&mut names));
    });

    let json_text = json::to_string(&Value::from(properties)).expect("it is not deep");
    let mut reader = json::JsonReader::new();
    measure("json_read", 100_000, || {
        black_box(reader.read(black_box(&json_text)).expect("it is JSON"));
    });
    let document = json::parse(&json_text).expect("it is JSON");
    let mut out = String::new();
    measure("json_write", 100_000, || {
        out.clear();
        json::write(black_box(&document), &mut out).expect("it is not deep");
    });
    println!(
        "{{\"bench\":\"value\",\"case\":\"json_document\",\"value\":{},\"unit\":\"bytes\",\"n\":1}}",
        json_text.len()
    );
    println!(
        "{{\"bench\":\"value\",\"case\":\"record\",\"value\":{},\"unit\":\"bytes\",\"n\":1}}",
        bytes.len()
    );

    let uuid = Value::from("0189a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b");
    let mut key_bytes = Vec::new();
    for (case, value) in [
        ("key_encode_int", &Value::Int(1_234_567)),
        ("key_encode_uuid", &uuid),
    ] {
        measure(case, 1_000_000, || {
            key_bytes.clear();
            key::encode_into(black_box(value), &mut key_bytes).expect("it is a key");
        });
    }
    measure("key_decode_uuid", 1_000_000, || {
        black_box(key::decode(black_box(&key_bytes)).expect("it is a key"));
    });
    let (one, two) = (Value::Int(1), Value::Float(1.5));
    measure("cmp_int_float", 1_000_000, || {
        black_box(cmp_order(black_box(&one), black_box(&two)));
    });
    let mut groups = std::collections::HashMap::new();
    groups.insert(GroupKey(one.clone()), 0_u64);
    let group = GroupKey(one);
    measure("group_lookup", 1_000_000, || {
        *groups.get_mut(black_box(&group)).expect("it is there") += 1;
    });
}
