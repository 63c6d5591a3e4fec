//! Arbitrary bytes as a record: no access panics, and a valid record is copied exactly.
#![no_main]

use isomer_value::{
    Interner, NameTable, PropId,
    record::{RecordBuilder, RecordRef, decode_value},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut names = NameTable::new();
    for name in ["a", "b", "c", "d"] {
        names.intern(name).expect("there is room for four names");
    }
    let _ = decode_value(bytes, &names);
    let Ok(record) = RecordRef::new(bytes) else {
        return;
    };
    for id in 0..5 {
        let _ = record.get(PropId(id), &names);
        let _ = record.get_path(&[PropId(id), PropId(0), PropId(1)], &names);
    }
    if record.check(&names).is_ok() {
        let properties = record.properties(&names).expect("the record checked out");
        let copy = RecordBuilder::from_record(&record)
            .and_then(RecordBuilder::finish)
            .expect("it is whole");
        let copy = RecordRef::new(&copy).expect("a copy is a record");
        assert_eq!(
            copy.properties(&names).expect("the copy is whole"),
            properties
        );
    }
});
