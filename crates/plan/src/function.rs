//! The built-in functions and aggregations: names, argument counts, result kinds.

use crate::expr::Kind;

/// Whether calls may be repeated, moved or folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purity {
    /// The same arguments give the same result: calls with constant arguments may be folded.
    Pure,
    /// Reads the graph: constant within one statement as long as nothing is written.
    Reads,
    /// Differs from call to call (random numbers, identifiers) or with the clock.
    Volatile,
}

macro_rules! functions {
    (
        $($variant:ident $name:literal ($min:literal, $max:expr) $kind:expr, $purity:ident;)*
        { $($inner:ident $inner_name:literal ($inner_count:literal) $inner_kind:expr;)* }
    ) => {
        /// A built-in function of the language, or one that the binder puts into a plan.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $(#[doc = concat!("`", $name, "()`")] $variant,)*
            $(#[doc = concat!("`", $inner_name, "()`, for internal use by the planner")] $inner,)*
        }

        impl Function {
            /// Every function that a statement can call.
            pub const ALL: &'static [Function] = &[$(Function::$variant,)*];

            /// The name as users write it, or as plans show it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* $(Self::$inner => $inner_name,)* }
            }

            /// Minimum and maximum number of arguments.
            pub fn arity(self) -> (usize, usize) {
                match self {
                    $(Self::$variant => ($min, $max),)*
                    $(Self::$inner => ($inner_count, $inner_count),)*
                }
            }

            /// Its result kind, if that does not depend on the arguments.
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => $kind,)* $(Self::$inner => $inner_kind,)* }
            }

            /// Whether calls may be repeated, moved or folded.
            pub fn purity(self) -> Purity {
                match self { $(Self::$variant => Purity::$purity,)* $(Self::$inner => Purity::Pure,)* }
            }

            /// The function of this name, in any case.
            pub fn by_name(name: &str) -> Option<Self> {
                let lower = name.to_ascii_lowercase();
                Self::by_lower_name(&lower)
            }
        }

        const NAMES: &[(&str, Function)] = &[$(($name, Function::$variant),)*];
    };
}

const MANY: usize = usize::MAX;

fn list(of: Kind) -> Kind {
    Kind::List(Box::new(of))
}

functions! {
    // scalar
    Coalesce "coalesce" (1, MANY) Kind::Any, Pure;
    NullIf "nullIf" (2, 2) Kind::Any, Pure;
    Id "id" (1, 1) Kind::Integer, Pure;
    ElementId "elementId" (1, 1) Kind::String, Pure;
    Type "type" (1, 1) Kind::String, Reads;
    StartNode "startNode" (1, 1) Kind::Node, Reads;
    EndNode "endNode" (1, 1) Kind::Node, Reads;
    Labels "labels" (1, 1) list(Kind::String), Reads;
    Keys "keys" (1, 1) list(Kind::String), Reads;
    Properties "properties" (1, 1) Kind::Map, Reads;
    Exists "exists" (1, 1) Kind::Boolean, Reads;
    Degree "degree" (1, 3) Kind::Integer, Reads;
    ValueType "valueType" (1, 1) Kind::String, Pure;
    Timestamp "timestamp" (0, 0) Kind::Integer, Volatile;
    RandomUuid "randomUUID" (0, 0) Kind::String, Volatile;
    // conversions
    ToInteger "toInteger" (1, 1) Kind::Integer, Pure;
    ToFloat "toFloat" (1, 1) Kind::Float, Pure;
    ToBoolean "toBoolean" (1, 1) Kind::Boolean, Pure;
    ToString "toString" (1, 1) Kind::String, Pure;
    ToIntegerOrNull "toIntegerOrNull" (1, 1) Kind::Integer, Pure;
    ToFloatOrNull "toFloatOrNull" (1, 1) Kind::Float, Pure;
    ToBooleanOrNull "toBooleanOrNull" (1, 1) Kind::Boolean, Pure;
    ToStringOrNull "toStringOrNull" (1, 1) Kind::String, Pure;
    ToIntegerList "toIntegerList" (1, 1) list(Kind::Integer), Pure;
    ToFloatList "toFloatList" (1, 1) list(Kind::Float), Pure;
    ToBooleanList "toBooleanList" (1, 1) list(Kind::Boolean), Pure;
    ToStringList "toStringList" (1, 1) list(Kind::String), Pure;
    // lists and paths
    Head "head" (1, 1) Kind::Any, Pure;
    Last "last" (1, 1) Kind::Any, Pure;
    Tail "tail" (1, 1) list(Kind::Any), Pure;
    Range "range" (2, 3) list(Kind::Integer), Pure;
    Reverse "reverse" (1, 1) Kind::Any, Pure;
    Size "size" (1, 1) Kind::Integer, Pure;
    Length "length" (1, 1) Kind::Integer, Pure;
    Nodes "nodes" (1, 1) list(Kind::Node), Pure;
    Relationships "relationships" (1, 1) list(Kind::Relationship), Pure;
    IsEmpty "isEmpty" (1, 1) Kind::Boolean, Pure;
    // numbers
    Abs "abs" (1, 1) Kind::Number, Pure;
    Ceil "ceil" (1, 1) Kind::Float, Pure;
    Floor "floor" (1, 1) Kind::Float, Pure;
    Round "round" (1, 3) Kind::Float, Pure;
    Sign "sign" (1, 1) Kind::Integer, Pure;
    Rand "rand" (0, 0) Kind::Float, Volatile;
    IsNaN "isNaN" (1, 1) Kind::Boolean, Pure;
    E "e" (0, 0) Kind::Float, Pure;
    Pi "pi" (0, 0) Kind::Float, Pure;
    Exp "exp" (1, 1) Kind::Float, Pure;
    Log "log" (1, 1) Kind::Float, Pure;
    Log10 "log10" (1, 1) Kind::Float, Pure;
    Sqrt "sqrt" (1, 1) Kind::Float, Pure;
    Sin "sin" (1, 1) Kind::Float, Pure;
    Cos "cos" (1, 1) Kind::Float, Pure;
    Tan "tan" (1, 1) Kind::Float, Pure;
    Cot "cot" (1, 1) Kind::Float, Pure;
    Asin "asin" (1, 1) Kind::Float, Pure;
    Acos "acos" (1, 1) Kind::Float, Pure;
    Atan "atan" (1, 1) Kind::Float, Pure;
    Atan2 "atan2" (2, 2) Kind::Float, Pure;
    Degrees "degrees" (1, 1) Kind::Float, Pure;
    Radians "radians" (1, 1) Kind::Float, Pure;
    Haversin "haversin" (1, 1) Kind::Float, Pure;
    // strings
    ToLower "toLower" (1, 1) Kind::String, Pure;
    ToUpper "toUpper" (1, 1) Kind::String, Pure;
    Lower "lower" (1, 1) Kind::String, Pure;
    Upper "upper" (1, 1) Kind::String, Pure;
    Trim "trim" (1, 1) Kind::String, Pure;
    LTrim "lTrim" (1, 1) Kind::String, Pure;
    RTrim "rTrim" (1, 1) Kind::String, Pure;
    BTrim "bTrim" (1, 2) Kind::String, Pure;
    Left "left" (2, 2) Kind::String, Pure;
    Right "right" (2, 2) Kind::String, Pure;
    Substring "substring" (2, 3) Kind::String, Pure;
    Replace "replace" (3, 3) Kind::String, Pure;
    Split "split" (2, 2) list(Kind::String), Pure;
    CharLength "char_length" (1, 1) Kind::Integer, Pure;
    // points
    Point "point" (1, 1) Kind::Point, Pure;
    PointDistance "point.distance" (2, 2) Kind::Float, Pure;
    Distance "distance" (2, 2) Kind::Float, Pure;
    // dates and times
    Date "date" (0, 1) Kind::Temporal, Volatile;
    Time "time" (0, 1) Kind::Temporal, Volatile;
    LocalTime "localtime" (0, 1) Kind::Temporal, Volatile;
    DateTime "datetime" (0, 1) Kind::Temporal, Volatile;
    LocalDateTime "localdatetime" (0, 1) Kind::Temporal, Volatile;
    Duration "duration" (1, 1) Kind::Temporal, Pure;
    DateTruncate "date.truncate" (1, 3) Kind::Temporal, Volatile;
    TimeTruncate "time.truncate" (1, 3) Kind::Temporal, Volatile;
    LocalTimeTruncate "localtime.truncate" (1, 3) Kind::Temporal, Volatile;
    DateTimeTruncate "datetime.truncate" (1, 3) Kind::Temporal, Volatile;
    LocalDateTimeTruncate "localdatetime.truncate" (1, 3) Kind::Temporal, Volatile;
    DateTransaction "date.transaction" (0, 1) Kind::Temporal, Volatile;
    DateStatement "date.statement" (0, 1) Kind::Temporal, Volatile;
    DateRealtime "date.realtime" (0, 1) Kind::Temporal, Volatile;
    TimeTransaction "time.transaction" (0, 1) Kind::Temporal, Volatile;
    TimeStatement "time.statement" (0, 1) Kind::Temporal, Volatile;
    TimeRealtime "time.realtime" (0, 1) Kind::Temporal, Volatile;
    LocalTimeTransaction "localtime.transaction" (0, 1) Kind::Temporal, Volatile;
    LocalTimeStatement "localtime.statement" (0, 1) Kind::Temporal, Volatile;
    LocalTimeRealtime "localtime.realtime" (0, 1) Kind::Temporal, Volatile;
    DateTimeTransaction "datetime.transaction" (0, 1) Kind::Temporal, Volatile;
    DateTimeStatement "datetime.statement" (0, 1) Kind::Temporal, Volatile;
    DateTimeRealtime "datetime.realtime" (0, 1) Kind::Temporal, Volatile;
    LocalDateTimeTransaction "localdatetime.transaction" (0, 1) Kind::Temporal, Volatile;
    LocalDateTimeStatement "localdatetime.statement" (0, 1) Kind::Temporal, Volatile;
    LocalDateTimeRealtime "localdatetime.realtime" (0, 1) Kind::Temporal, Volatile;
    DateTimeFromEpoch "datetime.fromepoch" (2, 2) Kind::Temporal, Pure;
    DateTimeFromEpochMillis "datetime.fromepochmillis" (1, 1) Kind::Temporal, Pure;
    DurationBetween "duration.between" (2, 2) Kind::Temporal, Pure;
    DurationInMonths "duration.inMonths" (2, 2) Kind::Temporal, Pure;
    DurationInDays "duration.inDays" (2, 2) Kind::Temporal, Pure;
    DurationInSeconds "duration.inSeconds" (2, 2) Kind::Temporal, Pure;
    // key-values: reads see the transaction's own writes
    KvGet "kv.get" (2, 2) Kind::Any, Reads;
    KvExists "kv.exists" (2, 2) Kind::Boolean, Reads;
    KvKey "kv.key" (1, 1) Kind::Bytes, Pure;
    KvKeyParts "kv.keyParts" (1, 1) list(Kind::Any), Pure;
    // files: null if the path does not exist
    FileExists "file.exists" (1, 1) Kind::Boolean, Reads;
    FileSize "file.size" (1, 1) Kind::Integer, Reads;
    FileText "file.text" (1, 1) Kind::String, Reads;
    FileBytes "file.bytes" (1, 3) Kind::Bytes, Reads;
    // convergent fields, without loading them: null if there is no such field at the path
    ConvergentKind "convergent.kind" (2, 2) Kind::String, Reads;
    ConvergentValue "convergent.value" (2, 2) Kind::Any, Reads;
    ConvergentContains "convergent.contains" (3, 3) Kind::Boolean, Reads;
    ConvergentSize "convergent.size" (2, 2) Kind::Integer, Reads;
    ConvergentPage "convergent.page" (4, 4) list(Kind::Any), Reads;

    // Functions that only the planner uses, with the number of arguments.
    {
    // `elementId(n) = id` is `id(n) = nodeIdOf(id)`, and `elementId(n) IN ids` is `id(n) IN nodeIdsOf(ids)`: see
    // `bind::element_id`
    NodeIdOf "nodeIdOf" (1) Kind::Any;
    NodeIdsOf "nodeIdsOf" (1) list(Kind::Any);
    RelationshipIdOf "relationshipIdOf" (1) Kind::Any;
    RelationshipIdsOf "relationshipIdsOf" (1) list(Kind::Any);
    ElementIdLike "elementIdLike" (2) Kind::Any;
    ElementIdsLike "elementIdsLike" (2) list(Kind::Any);
    }
}

impl Function {
    fn by_lower_name(lower: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(lower))
            .map(|(_, function)| *function)
    }
}

/// An operation on a convergent field: `SET n.x = counter.add(n.x, 1)`. Only allowed on the right side of `SET`, and
/// its first argument is the field that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the operation of its name
pub enum Convergence {
    CounterAdd,
    CounterSubtract,
    SetAdd,
    SetAddAll,
    SetRemove,
    SetRemoveAll,
    GrowSetAdd,
    GrowSetAddAll,
    RegisterSet,
    MultiSet,
    FlagEnable,
    FlagDisable,
    HllAdd,
    HllAddAll,
}

impl Convergence {
    /// All operations: name, minimum and maximum number of arguments after the field.
    pub const ALL: [(Self, &'static str, usize, usize); 14] = [
        (Self::CounterAdd, "counter.add", 1, 1),
        (Self::CounterSubtract, "counter.subtract", 1, 1),
        (Self::SetAdd, "set.add", 1, 1),
        (Self::SetAddAll, "set.addAll", 1, 1),
        (Self::SetRemove, "set.remove", 1, 1),
        (Self::SetRemoveAll, "set.removeAll", 1, 1),
        (Self::GrowSetAdd, "growset.add", 1, 1),
        (Self::GrowSetAddAll, "growset.addAll", 1, 1),
        (Self::RegisterSet, "register.set", 1, 1),
        (Self::MultiSet, "multi.set", 1, 1),
        (Self::FlagEnable, "flag.enable", 0, 0),
        (Self::FlagDisable, "flag.disable", 0, 0),
        (Self::HllAdd, "hll.add", 1, 2),
        (Self::HllAddAll, "hll.addAll", 1, 2),
    ];

    /// The operation of that name (case-insensitive), with the minimum and maximum number of arguments after the field.
    pub fn by_name(name: &str) -> Option<(Self, usize, usize)> {
        let found = Self::ALL
            .iter()
            .find(|(_, own, ..)| own.eq_ignore_ascii_case(name))?;
        Some((found.0, found.2, found.3))
    }

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(own, ..)| *own == self);
        found.map_or("", |(_, name, ..)| name)
    }
}

macro_rules! aggregations {
    ($($variant:ident $name:literal ($min:literal, $max:literal) $kind:expr, $doc:literal;)*) => {
        /// An aggregate function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Aggregation {
            $(#[doc = $doc] $variant,)*
        }

        impl Aggregation {
            /// Every aggregation.
            pub const ALL: &'static [Aggregation] = &[$(Aggregation::$variant,)*];

            /// The name as users write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Minimum and maximum number of arguments.
            pub fn arity(self) -> (usize, usize) {
                match self { $(Self::$variant => ($min, $max),)* }
            }

            /// Its result kind, if that does not depend on the arguments.
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => $kind,)* }
            }
        }
    };
}

aggregations! {
    CountRows "count(*)" (0, 0) Kind::Integer, "`count(*)`: the number of rows.";
    Count "count" (1, 1) Kind::Integer, "The number of values that are not null.";
    Sum "sum" (1, 1) Kind::Any, "The sum; 0 of nothing.";
    Avg "avg" (1, 1) Kind::Any, "The mean; null if there are no values.";
    Min "min" (1, 1) Kind::Any, "The smallest value; null if there are no values.";
    Max "max" (1, 1) Kind::Any, "The greatest value; null if there are no values.";
    Collect "collect" (1, 1) list(Kind::Any), "The values that are not null, as a list.";
    StDev "stDev" (1, 1) Kind::Float, "Standard deviation of a sample.";
    StDevP "stDevP" (1, 1) Kind::Float, "Standard deviation of a population.";
    PercentileCont "percentileCont" (2, 2) Kind::Float, "Percentile, interpolated.";
    PercentileDisc "percentileDisc" (2, 2) Kind::Any, "Percentile, the nearest value that occurs.";
}

impl Aggregation {
    /// The aggregation of this name (case-insensitive). `count(*)` has its own syntax.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|one| *one != Self::CountRows && one.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_are_unique() {
        for function in Function::ALL {
            assert_eq!(
                Function::by_name(&function.name().to_uppercase()),
                Some(*function),
                "{}",
                function.name()
            );
        }
        assert_eq!(Aggregation::by_name("COLLECT"), Some(Aggregation::Collect));
        assert_eq!(Aggregation::by_name("count(*)"), None);
        assert_eq!(Function::by_name("nope"), None);
    }
}
