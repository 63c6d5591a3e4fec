//! The bytes of operations, in logs and between replicas.

use std::collections::BTreeSet;

use isomer_data::{BucketKind, Dot, ReplicaNo};
use isomer_layout::replicated::identity::Identity;
use isomer_value::{LabelId, PropId, TypeId};

use crate::entry::{LogEntry, Op, Owner, Reserved};

/// Each operation, some with several values of a part.
fn operations() -> Vec<Op> {
    let made = |id| Identity::Made {
        replica: ReplicaNo(2),
        id,
    };
    let keyed = Identity::Keyed {
        label: LabelId(7),
        key: b"key".to_vec(),
    };
    let dot = |op| Dot {
        replica: ReplicaNo(3),
        number: 400,
        op,
    };
    let set = vec![(PropId(4), b"x".to_vec()), (PropId(900), Vec::new())];
    vec![
        Op::NodeCreated {
            node: keyed.clone(),
            labels: vec![LabelId(1), LabelId(300)],
            set: set.clone(),
        },
        Op::NodeChanged {
            node: made(70_000),
            added: vec![LabelId(1)],
            removed: vec![],
            set: set.clone(),
            unset: vec![PropId(5)],
        },
        Op::NodeDeleted {
            node: keyed.clone(),
        },
        Op::RelCreated {
            rel: made(1),
            type_id: TypeId(9),
            source: made(2),
            target: keyed.clone(),
            source_creations: vec![dot(0), dot(1)],
            target_creations: vec![],
            keeps_ends: true,
            set: set.clone(),
        },
        Op::RelChanged {
            rel: made(1),
            set,
            unset: vec![PropId(5), PropId(6)],
        },
        Op::RelDeleted { rel: made(1) },
        Op::Field {
            owner: Owner::Node(keyed.clone()),
            op: 3,
            place: b"place".to_vec(),
            action: b"action".to_vec(),
        },
        Op::Field {
            owner: Owner::Relationship(made(5)),
            op: 0,
            place: vec![],
            action: vec![],
        },
        Op::BucketCreated {
            bucket: 3,
            options: 5,
        },
        Op::BucketDropped { bucket: 3 },
        Op::Put {
            bucket: 300,
            reserved: Reserved,
            key: b"a".to_vec(),
            entry: b"entry".to_vec(),
        },
        Op::Taken {
            bucket: 3,
            key: b"a".to_vec(),
        },
        Op::RangeTaken {
            bucket: 3,
            start: b"a".to_vec(),
            end: None,
        },
        Op::RangeTaken {
            bucket: 3,
            start: vec![],
            end: Some(b"b".to_vec()),
        },
        Op::ValueAdded {
            bucket: 3,
            key: b"a".to_vec(),
            value: b"b".to_vec(),
        },
        Op::ValueRemoved {
            bucket: 3,
            key: b"a".to_vec(),
            value: b"b".to_vec(),
        },
        Op::Sequence {
            bucket: 3,
            name: b"orders".to_vec(),
            last: 1 << 40,
        },
        Op::KindDropped {
            bucket: 3,
            kind: BucketKind::Map,
        },
        Op::KindDropped {
            bucket: 3,
            kind: BucketKind::Multi,
        },
        Op::NodeCreationAdded {
            node: keyed,
            replaced: vec![dot(2)],
            labels: vec![LabelId(1)],
            carried: vec![(PropId(4), vec![(1 << 50, b"x".to_vec()), (0, Vec::new())])],
        },
        Op::FileCreated {
            file: made(16),
            created_ms: 1 << 40,
        },
        Op::FileDeleted { file: made(16) },
        Op::FileRenamed {
            file: made(16),
            path: "/é.txt".into(),
        },
        Op::FileResized {
            file: made(16),
            bytes: 1 << 43,
            modified_ms: u64::MAX,
        },
        Op::ChunkPut {
            file: made(16),
            chunk: 1,
            bytes: b"content".to_vec(),
        },
        Op::ChunksDeleted {
            file: made(16),
            from: 2,
        },
        Op::FolderCreated {
            path: "/d".into(),
            created_ms: 5,
        },
        Op::FolderDeleted { path: "/d".into() },
    ]
}

/// Logs hold these bytes, and replicas of other versions send them. An operation that is added gets a line; no line
/// changes.
#[test]
fn operations_keep_their_bytes() {
    let ops = operations();
    let lines = ops.iter().map(|op| {
        let mut bytes = Vec::new();
        op.push(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    });
    let lines: Vec<String> = lines.collect();
    let expected: Vec<&str> = include_str!("operations.hex").lines().collect();
    assert_eq!(lines, expected);
    let tags: BTreeSet<&str> = lines.iter().map(|line| &line[..2]).collect();
    let mut all = Op::TAGS.iter().map(|tag| format!("{tag:02x}"));
    assert!(all.all(|tag| tags.contains(&*tag)), "{tags:?}");
}

#[test]
fn operations_come_back() {
    let entry = LogEntry {
        origin: ReplicaNo(2),
        number: 9,
        time: 10,
        seen: isomer_data::Vector::new(),
        ops: operations(),
    };
    assert_eq!(LogEntry::decode(&entry.encode()).unwrap(), entry);
}
