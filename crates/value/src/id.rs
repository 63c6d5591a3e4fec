//! Ids of one database. They are internal to the database: clients and replicas use keys.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A node id: dense, allocated in extents per first label, never reused.
    NodeId(u64)
}
id! {
    /// A relationship id: dense, allocated in extents per type, never reused.
    RelId(u64)
}
id! {
    /// A label's number in the catalog.
    LabelId(u32)
}
id! {
    /// A relationship type's number in the catalog.
    TypeId(u32)
}
id! {
    /// A property name's number in the catalog: names are interned once per database.
    PropId(u32)
}
id! {
    /// An index's number in the catalog.
    IndexId(u32)
}
