//! The built-in functions and aggregations: one table with their names, parameters, result kinds and descriptions.
//!
//! The code of a function is in `isomer-exec`, below `function`.

use crate::expr::StaticType;

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

/// Generates [`Function`] from one row per function: its variant, its name, its parameters, the kind of its result, its
/// purity, and its description.
///
/// Parameters in brackets are optional. If the last one is `…`, the function accepts any number of arguments.
/// Only the planner calls the functions in braces: they are pure, and users do not see a description of them.
macro_rules! functions {
    (
        $($variant:ident $name:literal ($($parameter:literal),*) -> $kind:expr, $purity:ident, $description:literal;)*
        { $($inner:ident $inner_name:literal ($($inner_parameter:literal),*) -> $inner_kind:expr;)* }
    ) => {
        /// A built-in function of the language, or one that the binder puts into a plan.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $(#[doc = concat!("`", $name, "()`: ", $description)] $variant,)*
            $(#[doc = concat!("`", $inner_name, "()`, for internal use by the planner")] $inner,)*
        }

        impl Function {
            /// Every function that a statement can call.
            pub const ALL: &'static [Function] = &[$(Function::$variant,)*];
            /// Every function that only the planner uses.
            pub const INTERNAL: &'static [Function] = &[$(Function::$inner,)*];

            /// The name as users write it, or as plans show it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* $(Self::$inner => $inner_name,)* }
            }

            /// Names of its parameters. Those in brackets are optional; `…` accepts any number of arguments.
            pub fn parameters(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($parameter),*],)*
                    $(Self::$inner => &[$($inner_parameter),*],)*
                }
            }

            /// Its result kind, if that does not depend on the arguments.
            pub fn kind(self) -> StaticType {
                match self { $(Self::$variant => $kind,)* $(Self::$inner => $inner_kind,)* }
            }

            /// Whether calls may be repeated, moved or folded.
            pub fn purity(self) -> Purity {
                match self { $(Self::$variant => Purity::$purity,)* $(Self::$inner => Purity::Pure,)* }
            }

            /// What it gives, in one line; nothing for functions that only the planner uses.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* $(Self::$inner => "",)* }
            }
        }
    };
}

/// Minimum and maximum number of arguments.
fn arity(parameters: &[&str]) -> (usize, usize) {
    let is_variadic = parameters.last() == Some(&"…");
    let named = parameters.len() - usize::from(is_variadic);
    let required = parameters[..named]
        .iter()
        .take_while(|parameter| !parameter.starts_with('['))
        .count();
    (required, if is_variadic { usize::MAX } else { named })
}

fn signature(name: &str, parameters: &[&str]) -> String {
    format!("{name}({})", parameters.join(", "))
}

fn list(of: StaticType) -> StaticType {
    StaticType::List(Box::new(of))
}

functions! {
    // scalar
    Coalesce "coalesce" ("value", "…") -> StaticType::Any, Pure, "the first value that is not null";
    NullIf "nullIf" ("a", "b") -> StaticType::Any, Pure, "null if the two are equal, otherwise the first";
    Id "id" ("entity") -> StaticType::Integer, Pure, "the number of a node or relationship in this database";
    ElementId "elementId" ("entity") -> StaticType::String, Pure,
        "its identifier for clients, `4:database:number` of a node and `5:database:number` of a relationship; when \
         compared with a text, the number alone is accepted as well";
    Type "type" ("relationship") -> StaticType::String, Reads, "the name of its type";
    StartNode "startNode" ("relationship") -> StaticType::Node, Reads, "the node where it starts";
    EndNode "endNode" ("relationship") -> StaticType::Node, Reads, "the node where it ends";
    Labels "labels" ("node") -> list(StaticType::String), Reads, "its labels, sorted";
    Keys "keys" ("entity or map") -> list(StaticType::String), Reads, "the names of its properties";
    Properties "properties" ("entity or map") -> StaticType::Map, Reads, "its properties as a map";
    Exists "exists" ("property") -> StaticType::Boolean, Reads, "whether it is not null";
    Degree "degree" ("node", "[type]", "[direction]") -> StaticType::Integer, Reads, "how many relationships a node has";
    ValueType "valueType" ("value") -> StaticType::String, Pure, "the name of a value's type";
    Timestamp "timestamp" () -> StaticType::Integer, Volatile,
        "milliseconds since 1970-01-01, at the start of the statement";
    RandomUuid "randomUUID" () -> StaticType::String, Volatile, "a random identifier";
    LineNumber "linenumber" () -> StaticType::Integer, Pure,
        "the line at which the row of the last LOAD CSV begins, from 1 on; null without one";
    CsvFile "file" () -> StaticType::String, Pure,
        "the file of the last LOAD CSV: its path in the folder of such files, or its address; null without one";
    // conversions
    ToInteger "toInteger" ("value") -> StaticType::Integer, Pure,
        "an integer from a number, boolean or text; null if the text is not a number";
    ToFloat "toFloat" ("value") -> StaticType::Float, Pure,
        "a float from a number or text; null if the text is not a number";
    ToBoolean "toBoolean" ("value") -> StaticType::Boolean, Pure,
        "a boolean from text, an integer or a boolean; null if the text is neither true nor false";
    ToString "toString" ("value") -> StaticType::String, Pure, "text from a number, boolean, text or temporal value";
    ToIntegerOrNull "toIntegerOrNull" ("value") -> StaticType::Integer, Pure,
        "like toInteger, but null instead of an error";
    ToFloatOrNull "toFloatOrNull" ("value") -> StaticType::Float, Pure, "like toFloat, but null instead of an error";
    ToBooleanOrNull "toBooleanOrNull" ("value") -> StaticType::Boolean, Pure,
        "like toBoolean, but null instead of an error";
    ToStringOrNull "toStringOrNull" ("value") -> StaticType::String, Pure, "like toString, but null instead of an error";
    ToIntegerList "toIntegerList" ("list") -> list(StaticType::Integer), Pure, "toIntegerOrNull of each element";
    ToFloatList "toFloatList" ("list") -> list(StaticType::Float), Pure, "toFloatOrNull of each element";
    ToBooleanList "toBooleanList" ("list") -> list(StaticType::Boolean), Pure, "toBooleanOrNull of each element";
    ToStringList "toStringList" ("list") -> list(StaticType::String), Pure, "toStringOrNull of each element";
    // lists and paths
    Head "head" ("list") -> StaticType::Any, Pure, "the first element";
    Last "last" ("list") -> StaticType::Any, Pure, "the last element";
    Tail "tail" ("list") -> list(StaticType::Any), Pure, "all elements but the first";
    Range "range" ("start", "end", "[step]") -> list(StaticType::Integer), Pure,
        "the integers from start to end, both included";
    Reverse "reverse" ("list or text") -> StaticType::Any, Pure, "the elements or characters in reverse order";
    Size "size" ("list or text") -> StaticType::Integer, Pure, "the number of elements or characters";
    Length "length" ("path") -> StaticType::Integer, Pure, "the number of its relationships";
    Nodes "nodes" ("path") -> list(StaticType::Node), Pure, "its nodes";
    Relationships "relationships" ("path") -> list(StaticType::Relationship), Pure, "its relationships";
    IsEmpty "isEmpty" ("list, map or text") -> StaticType::Boolean, Pure, "whether it is empty";
    // numbers
    Abs "abs" ("number") -> StaticType::Number, Pure, "its absolute value";
    Ceil "ceil" ("number") -> StaticType::Float, Pure, "the smallest integer that is not less than it";
    Floor "floor" ("number") -> StaticType::Float, Pure, "the greatest integer that is not greater than it";
    Round "round" ("number", "[precision]", "[mode]") -> StaticType::Float, Pure,
        "rounded to this number of decimal places";
    Sign "sign" ("number") -> StaticType::Integer, Pure, "-1, 0 or 1";
    Rand "rand" () -> StaticType::Float, Volatile, "a random float from 0 to below 1";
    IsNaN "isNaN" ("number") -> StaticType::Boolean, Pure, "whether it is NaN (not a number)";
    E "e" () -> StaticType::Float, Pure, "the base of natural logarithms";
    Pi "pi" () -> StaticType::Float, Pure, "the ratio of a circle's circumference to its diameter";
    Exp "exp" ("number") -> StaticType::Float, Pure, "e raised to this power";
    Log "log" ("number") -> StaticType::Float, Pure, "its natural logarithm";
    Log10 "log10" ("number") -> StaticType::Float, Pure, "its logarithm to base 10";
    Sqrt "sqrt" ("number") -> StaticType::Float, Pure, "its square root";
    Sin "sin" ("radians") -> StaticType::Float, Pure, "sine";
    Cos "cos" ("radians") -> StaticType::Float, Pure, "cosine";
    Tan "tan" ("radians") -> StaticType::Float, Pure, "tangent";
    Cot "cot" ("radians") -> StaticType::Float, Pure, "cotangent";
    Asin "asin" ("number") -> StaticType::Float, Pure, "the angle with this sine";
    Acos "acos" ("number") -> StaticType::Float, Pure, "the angle with this cosine";
    Atan "atan" ("number") -> StaticType::Float, Pure, "the angle with this tangent";
    Atan2 "atan2" ("y", "x") -> StaticType::Float, Pure, "the angle of a point";
    Degrees "degrees" ("radians") -> StaticType::Float, Pure, "an angle in degrees";
    Radians "radians" ("degrees") -> StaticType::Float, Pure, "an angle in radians";
    Haversin "haversin" ("radians") -> StaticType::Float, Pure, "half of the versine";
    // strings
    ToLower "toLower" ("text") -> StaticType::String, Pure, "in lower case";
    ToUpper "toUpper" ("text") -> StaticType::String, Pure, "in upper case";
    Lower "lower" ("text") -> StaticType::String, Pure, "in lower case";
    Upper "upper" ("text") -> StaticType::String, Pure, "in upper case";
    Trim "trim" ("text") -> StaticType::String, Pure, "without whitespace at both ends";
    LTrim "lTrim" ("text") -> StaticType::String, Pure, "without whitespace at its start";
    RTrim "rTrim" ("text") -> StaticType::String, Pure, "without whitespace at its end";
    BTrim "bTrim" ("text", "[characters]") -> StaticType::String, Pure, "without these characters at both ends";
    Left "left" ("text", "length") -> StaticType::String, Pure, "its first characters";
    Right "right" ("text", "length") -> StaticType::String, Pure, "its last characters";
    Substring "substring" ("text", "start", "[length]") -> StaticType::String, Pure, "a part of it, counted from 0";
    Replace "replace" ("text", "search", "replacement") -> StaticType::String, Pure, "with every occurrence replaced";
    Split "split" ("text", "delimiter") -> list(StaticType::String), Pure, "its parts between the delimiters";
    CharLength "char_length" ("text") -> StaticType::Integer, Pure, "the number of characters";
    Normalize "normalize" ("text", "[form]") -> StaticType::String, Pure,
        "in a normal form of Unicode: NFC, NFD, NFKC or NFKD";
    IsNormalized "isNormalized" ("text", "[form]") -> StaticType::Boolean, Pure,
        "whether it is in a normal form of Unicode, as `IS NORMALIZED` tests";
    // points
    Point "point" ("map") -> StaticType::Point, Pure, "a point from its coordinates";
    PointDistance "point.distance" ("a", "b") -> StaticType::Float, Pure, "the distance between two points";
    Distance "distance" ("a", "b") -> StaticType::Float, Pure, "the distance between two points";
    // dates and times
    Date "date" ("[value]") -> StaticType::Temporal, Volatile,
        "a date: now, from text, from a map or from another temporal value";
    Time "time" ("[value]") -> StaticType::Temporal, Volatile, "a time with an offset";
    LocalTime "localtime" ("[value]") -> StaticType::Temporal, Volatile, "a time without an offset";
    DateTime "datetime" ("[value]") -> StaticType::Temporal, Volatile, "a date and time with a zone";
    LocalDateTime "localdatetime" ("[value]") -> StaticType::Temporal, Volatile, "a date and time without a zone";
    Duration "duration" ("value") -> StaticType::Temporal, Pure, "a duration from text or a map";
    DateTruncate "date.truncate" ("unit", "[value]", "[fields]") -> StaticType::Temporal, Volatile,
        "truncated to a unit, then with these fields set";
    TimeTruncate "time.truncate" ("unit", "[value]", "[fields]") -> StaticType::Temporal, Volatile,
        "truncated to a unit, then with these fields set";
    LocalTimeTruncate "localtime.truncate" ("unit", "[value]", "[fields]") -> StaticType::Temporal, Volatile,
        "truncated to a unit, then with these fields set";
    DateTimeTruncate "datetime.truncate" ("unit", "[value]", "[fields]") -> StaticType::Temporal, Volatile,
        "truncated to a unit, then with these fields set";
    LocalDateTimeTruncate "localdatetime.truncate" ("unit", "[value]", "[fields]") -> StaticType::Temporal, Volatile,
        "truncated to a unit, then with these fields set";
    DateTransaction "date.transaction" ("[zone]") -> StaticType::Temporal, Volatile, "when the transaction began";
    DateStatement "date.statement" ("[zone]") -> StaticType::Temporal, Volatile, "when the statement began";
    DateRealtime "date.realtime" ("[zone]") -> StaticType::Temporal, Volatile, "at this moment";
    TimeTransaction "time.transaction" ("[zone]") -> StaticType::Temporal, Volatile, "when the transaction began";
    TimeStatement "time.statement" ("[zone]") -> StaticType::Temporal, Volatile, "when the statement began";
    TimeRealtime "time.realtime" ("[zone]") -> StaticType::Temporal, Volatile, "at this moment";
    LocalTimeTransaction "localtime.transaction" ("[zone]") -> StaticType::Temporal, Volatile, "when the transaction began";
    LocalTimeStatement "localtime.statement" ("[zone]") -> StaticType::Temporal, Volatile, "when the statement began";
    LocalTimeRealtime "localtime.realtime" ("[zone]") -> StaticType::Temporal, Volatile, "at this moment";
    DateTimeTransaction "datetime.transaction" ("[zone]") -> StaticType::Temporal, Volatile, "when the transaction began";
    DateTimeStatement "datetime.statement" ("[zone]") -> StaticType::Temporal, Volatile, "when the statement began";
    DateTimeRealtime "datetime.realtime" ("[zone]") -> StaticType::Temporal, Volatile, "at this moment";
    LocalDateTimeTransaction "localdatetime.transaction" ("[zone]") -> StaticType::Temporal, Volatile,
        "when the transaction began";
    LocalDateTimeStatement "localdatetime.statement" ("[zone]") -> StaticType::Temporal, Volatile,
        "when the statement began";
    LocalDateTimeRealtime "localdatetime.realtime" ("[zone]") -> StaticType::Temporal, Volatile, "at this moment";
    DateTimeFromEpoch "datetime.fromepoch" ("seconds", "nanoseconds") -> StaticType::Temporal, Pure,
        "an instant counted from 1970-01-01";
    DateTimeFromEpochMillis "datetime.fromepochmillis" ("milliseconds") -> StaticType::Temporal, Pure,
        "an instant counted from 1970-01-01";
    DurationBetween "duration.between" ("a", "b") -> StaticType::Temporal, Pure,
        "from one to the other, in months, days and seconds";
    DurationInMonths "duration.inMonths" ("a", "b") -> StaticType::Temporal, Pure, "from one to the other, in whole months";
    DurationInDays "duration.inDays" ("a", "b") -> StaticType::Temporal, Pure, "from one to the other, in whole days";
    DurationInSeconds "duration.inSeconds" ("a", "b") -> StaticType::Temporal, Pure, "from one to the other, in seconds";
    // key-values: reads see the transaction's own writes
    KvGet "kv.get" ("bucket", "key") -> StaticType::Any, Reads, "the value under a key of a bucket; null if there is none";
    KvExists "kv.exists" ("bucket", "key") -> StaticType::Boolean, Reads, "whether a bucket has a key";
    KvKey "kv.key" ("parts") -> StaticType::Bytes, Pure, "bytes that sort as the parts do: a key of a bucket";
    KvKeyParts "kv.keyParts" ("key") -> list(StaticType::Any), Pure, "the parts of such a key, as a list";
    // files: null if the path does not exist
    FileExists "file.exists" ("path") -> StaticType::Boolean, Reads, "whether a file or folder exists at a path";
    FileSize "file.size" ("path") -> StaticType::Integer, Reads, "the size of a file in bytes; null if it does not exist";
    FileText "file.text" ("path") -> StaticType::String, Reads, "the content of a file as text; null if it does not exist";
    FileBytes "file.bytes" ("path", "[offset]", "[length]") -> StaticType::Bytes, Reads,
        "bytes of a file; null if it does not exist";
    // convergent fields, without loading them: null if there is no such field at the path
    ConvergentKind "convergent.kind" ("entity", "path") -> StaticType::String, Reads,
        "the kind of the convergent field at a path; null if there is none";
    ConvergentValue "convergent.value" ("entity", "path") -> StaticType::Any, Reads,
        "the value of the convergent field at a path; null if there is none";
    ConvergentContains "convergent.contains" ("entity", "path", "value") -> StaticType::Boolean, Reads,
        "whether the convergent set at a path has an element, without loading the set";
    ConvergentSize "convergent.size" ("entity", "path") -> StaticType::Integer, Reads,
        "the number of elements of the convergent set, or fields of the map, at a path";
    ConvergentPage "convergent.page" ("entity", "path", "after", "limit") -> list(StaticType::Any), Reads,
        "elements of the convergent set at a path after `after` (null: from the first), in order";

    // Functions that only the planner uses, with the number of arguments.
    {
    // `elementId(n) = id` is `id(n) = nodeIdOf(id)`, and `elementId(n) IN ids` is `id(n) IN nodeIdsOf(ids)`: see
    // `bind::element_id`
    NodeIdOf "nodeIdOf" ("id") -> StaticType::Any;
    NodeIdsOf "nodeIdsOf" ("ids") -> list(StaticType::Any);
    RelationshipIdOf "relationshipIdOf" ("id") -> StaticType::Any;
    RelationshipIdsOf "relationshipIdsOf" ("ids") -> list(StaticType::Any);
    ElementIdLike "elementIdLike" ("entity", "id") -> StaticType::Any;
    ElementIdsLike "elementIdsLike" ("entity", "ids") -> list(StaticType::Any);
    // `n:$(names)` is `hasAllNames(labels(n), names)`, `r:$any(names)` is `hasAnyName(type(r), names)`
    HasAllNames "hasAllNames" ("carried", "names") -> StaticType::Boolean;
    HasAnyName "hasAnyName" ("carried", "names") -> StaticType::Boolean;
    // the path modes `ACYCLIC` and `SIMPLE`
    IsAcyclic "isAcyclic" ("path") -> StaticType::Boolean;
    IsSimple "isSimple" ("path") -> StaticType::Boolean;
    }
}

impl Function {
    /// The function of this name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|function| function.name().eq_ignore_ascii_case(name))
    }

    /// Minimum and maximum number of arguments.
    pub fn arity(self) -> (usize, usize) {
        arity(self.parameters())
    }

    /// Its name and parameters: `substring(text, start, [length])`.
    pub fn signature(self) -> String {
        signature(self.name(), self.parameters())
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

/// Generates [`Aggregation`] from rows as those of [`functions`], without purity.
macro_rules! aggregations {
    ($($variant:ident $name:literal ($($parameter:literal),*) -> $kind:expr, $description:literal;)*) => {
        /// An aggregate function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Aggregation {
            $(#[doc = concat!("`", $name, "`: ", $description)] $variant,)*
        }

        impl Aggregation {
            /// Every aggregation.
            pub const ALL: &'static [Aggregation] = &[$(Aggregation::$variant,)*];

            /// The name as users write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its parameters.
            pub fn parameters(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($parameter),*],)* }
            }

            /// Its result kind, if that does not depend on the arguments.
            pub fn kind(self) -> StaticType {
                match self { $(Self::$variant => $kind,)* }
            }

            /// What it gives, in one line.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }
        }
    };
}

aggregations! {
    CountRows "count(*)" () -> StaticType::Integer, "the number of rows";
    Count "count" ("value") -> StaticType::Integer, "the number of values that are not null";
    Sum "sum" ("number or duration") -> StaticType::Any, "the sum; 0 if there are no values";
    Avg "avg" ("number or duration") -> StaticType::Any, "the mean; null if there are no values";
    Min "min" ("value") -> StaticType::Any, "the smallest value";
    Max "max" ("value") -> StaticType::Any, "the greatest value";
    Collect "collect" ("value") -> list(StaticType::Any), "the values that are not null, as a list";
    StDev "stDev" ("number") -> StaticType::Float, "the standard deviation of a sample";
    StDevP "stDevP" ("number") -> StaticType::Float, "the standard deviation of a population";
    PercentileCont "percentileCont" ("number", "share") -> StaticType::Float, "a percentile, interpolated";
    PercentileDisc "percentileDisc" ("number", "share") -> StaticType::Any, "a percentile, the nearest value that occurs";
    ProjectGraph "gds.graph.project" ("graphName", "sourceNode", "[targetNode]", "[dataConfig]", "[configuration]")
        -> StaticType::Map, "a graph in memory of a relationship per row, described by a map";
}

impl Aggregation {
    /// The aggregation of this name (case-insensitive). `count(*)` has its own syntax.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|one| *one != Self::CountRows && one.name().eq_ignore_ascii_case(name))
    }

    /// Minimum and maximum number of arguments.
    pub fn arity(self) -> (usize, usize) {
        arity(self.parameters())
    }

    /// Its name and parameters, as in [`Function::signature`]; that of `count(*)` is its name.
    pub fn signature(self) -> String {
        match self {
            Self::CountRows => self.name().to_owned(),
            _ => signature(self.name(), self.parameters()),
        }
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

    #[test]
    fn the_number_of_arguments_follows_from_the_parameters() {
        assert_eq!(Function::Pi.arity(), (0, 0));
        assert_eq!(Function::Date.arity(), (0, 1));
        assert_eq!(Function::Substring.arity(), (2, 3));
        assert_eq!(Function::Coalesce.arity(), (1, usize::MAX));
        let signature = Function::Substring.signature();
        assert_eq!(signature, "substring(text, start, [length])");
        assert_eq!(Aggregation::CountRows.signature(), "count(*)");
    }
}
