use super::*;
use crate::{Interner, LabelId, Map, NameTable, NodeId, PropId, TypeId, Value, ValueError};

fn document() -> (NameTable, Map) {
    let mut names = NameTable::new();
    names.intern("zip").unwrap(); // so that the order of ids differs from the order of names
    let address: Map = [("city", Value::from("Rome")), ("zip", Value::Int(118))]
        .into_iter()
        .collect();
    let properties = [
        ("age", Value::Int(37)),
        ("name", "Ada".into()),
        ("address", address.into()),
        ("tags", vec![Value::from("a"), Value::Null].into()),
        ("score", 0.5.into()),
    ];
    (names, properties.into_iter().collect())
}

#[test]
fn one_field_is_read_without_the_rest() {
    let (mut names, properties) = document();
    let mut builder = RecordBuilder::node(&[LabelId(7), LabelId(3), LabelId(7)]);
    builder.put_all(&properties, &mut names).unwrap();
    let bytes = builder.finish().unwrap();
    let record = RecordRef::new(&bytes).unwrap();
    let prop = |name: &str| names.find(name).unwrap();
    assert_eq!(
        record.labels().collect::<Vec<_>>(),
        [LabelId(3), LabelId(7)]
    );
    assert_eq!(record.get(prop("age"), &names), Ok(Some(Value::Int(37))));
    assert_eq!(record.get(PropId(99), &names), Ok(None));
    assert_eq!(record.get(PropId(99_999), &names), Ok(None));
    let path = |steps: &[&str]| {
        let steps: Vec<_> = steps.iter().map(|step| prop(step)).collect();
        record.get_path(&steps, &names).unwrap()
    };
    assert_eq!(path(&["address", "zip"]), Some(Value::Int(118)));
    assert_eq!(path(&["address", "age"]), None);
    assert_eq!(path(&["age", "zip"]), None);
    assert_eq!(path(&[]), None);
    assert_eq!(record.properties(&names).unwrap(), properties);
    assert_eq!(record.len(), 5);
    record.check(&names).unwrap();
}

#[test]
fn a_relationship_carries_its_endpoints() {
    let bytes = RecordBuilder::relationship(TypeId(2), NodeId(u64::MAX), NodeId(0))
        .finish()
        .unwrap();
    let record = RecordRef::new(&bytes).unwrap();
    assert_eq!(
        record.endpoints(),
        Some((TypeId(2), NodeId(u64::MAX), NodeId(0)))
    );
    assert!(record.is_empty());
    assert_eq!(record.labels().count(), 0);
}

#[test]
fn a_record_is_changed_field_by_field() {
    let (mut names, properties) = document();
    let mut builder = RecordBuilder::node(&[LabelId(1)]);
    builder.put_all(&properties, &mut names).unwrap();
    let bytes = builder.finish().unwrap();
    let age = names.find("age").unwrap();

    let mut builder = RecordBuilder::from_record(&RecordRef::new(&bytes).unwrap()).unwrap();
    assert!(builder.contains(age));
    builder.put(age, &Value::Int(38), &mut names).unwrap();
    assert!(builder.remove(names.find("tags").unwrap()));
    builder.set_labels(&[LabelId(2)]);
    let changed = builder.finish().unwrap();
    let record = RecordRef::new(&changed).unwrap();
    assert_eq!(record.get(age, &names), Ok(Some(Value::Int(38))));
    assert_eq!(record.len(), 4);
    assert!(record.has_label(LabelId(2)) && !record.has_label(LabelId(1)));

    let mut back = RecordBuilder::from_record(&record).unwrap();
    back.set_labels(&[LabelId(1)]);
    back.put_all(&properties, &mut names).unwrap();
    assert_eq!(
        back.finish().unwrap(),
        bytes,
        "equal contents give equal bytes"
    );
}

#[test]
fn wide_ids_and_long_values_widen_the_directory() {
    let names = NameTable::new();
    for (id, len) in [(0, 0), (255, 255), (256, 256), (65_536, 70_000)] {
        let text = Value::from("x".repeat(len));
        let mut builder = RecordBuilder::node(&[]);
        builder
            .put(PropId(id), &text, &mut NameTable::new())
            .unwrap();
        builder
            .put(PropId(1), &Value::Int(1), &mut NameTable::new())
            .unwrap();
        let bytes = builder.finish().unwrap();
        let record = RecordRef::new(&bytes).unwrap();
        assert_eq!(record.get(PropId(id), &names), Ok(Some(text)));
        assert_eq!(record.get(PropId(1), &names), Ok(Some(Value::Int(1))));
    }
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let mut names = NameTable::new();
    let mut out = vec![1];
    let node = Value::from(vec![Value::from(crate::Node::new(NodeId(1)))]);
    let error = encode_value(&node, &mut names, &mut out).unwrap_err();
    assert_eq!(error, ValueError::NotStorable { type_name: "NODE" });
    assert_eq!(out, [1]);
    let nest = |depth| (0..depth).fold(Value::Null, |inner, _| Value::from(vec![inner]));
    assert!(encode_value(&nest(128), &mut names, &mut out).is_ok());
    assert_eq!(
        encode_value(&nest(129), &mut names, &mut out),
        Err(ValueError::TooDeep { max: 128 })
    );
}

#[test]
fn a_small_profile_is_small() {
    let (mut names, properties) = document();
    let mut builder = RecordBuilder::node(&[LabelId(1)]);
    builder.put_all(&properties, &mut names).unwrap();
    assert!(builder.finish().unwrap().len() <= 56);
}
