//! A page of 4,096 values of a column, in the narrowest encoding that fits.

use std::sync::Arc;

use isomer_value::Value;
use rustc_hash::FxHashMap;

/// Node ids per page.
pub const PAGE_ROWS: usize = 4096;

/// One bit per row.
pub type PageBits = [u64; PAGE_ROWS / 64];

/// The values of nodes `4096 p .. 4096 (p + 1)` at a column's path.
#[derive(Clone, Debug)]
pub struct ColumnPage {
    members: PageBits,
    valid: PageBits,
    values: PageValues,
    /// Rows whose path leads through a value that is not a map: only the query language defines the result.
    odd: Vec<u16>,
    bytes: usize,
}

/// Values by row; undefined for a row that is not [valid](ColumnPage::valid).
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each variant's doc line describes its fields
pub enum PageValues {
    /// No row has a value.
    Nothing,
    /// Integers `base + offset`, wrapping.
    Int8 { base: i64, offsets: Vec<u8> },
    /// Integers `base + offset`, wrapping.
    Int16 { base: i64, offsets: Vec<u16> },
    /// Integers `base + offset`, wrapping.
    Int32 { base: i64, offsets: Vec<u32> },
    /// Integers.
    Int64(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Booleans, a bit each.
    Bool(Box<PageBits>),
    /// Repeated strings: indexes into a dictionary of distinct words.
    Words {
        codes: Vec<u16>,
        words: Vec<Arc<str>>,
    },
    /// Mostly distinct strings.
    Text(Vec<Arc<str>>),
    /// Values of any type.
    Mixed(Vec<Value>),
}

/// The cell of a node at a column's path.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The node does not have the label.
    Absent,
    /// This value; null if the property is missing.
    Value(Value),
    /// The view does not know the value: read the rows.
    Rows,
}

#[inline]
pub(super) fn bit(bits: &PageBits, row: usize) -> bool {
    bits[row / 64] & 1 << (row % 64) != 0
}

#[inline]
fn set_bit(bits: &mut PageBits, row: usize) {
    bits[row / 64] |= 1 << (row % 64);
}

impl ColumnPage {
    /// Whether a row's node has the label.
    #[inline]
    pub fn is_member(&self, row: usize) -> bool {
        bit(&self.members, row)
    }

    /// Rows whose nodes have the label.
    pub fn members(&self) -> &PageBits {
        &self.members
    }

    /// Rows that have a value other than null.
    pub fn valid(&self) -> &PageBits {
        &self.valid
    }

    /// The values by row.
    pub fn values(&self) -> &PageValues {
        &self.values
    }

    /// Rows, ascending, whose values must be read from the database's rows.
    pub fn odd(&self) -> &[u16] {
        &self.odd
    }

    /// Touches the memory that cloning a row's value will write to.
    #[inline]
    pub(crate) fn touch(&self, row: usize) -> u8 {
        match &self.values {
            PageValues::Text(values) => values[row].as_bytes().first().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// The cell of a row.
    #[inline]
    pub fn cell(&self, row: usize) -> Cell {
        if bit(&self.valid, row) {
            return Cell::Value(self.valid_value(row));
        }
        if !bit(&self.members, row) {
            return Cell::Absent;
        }
        if !self.odd.is_empty() && self.odd.binary_search(&(row as u16)).is_ok() {
            return Cell::Rows;
        }
        Cell::Value(Value::Null)
    }

    #[inline]
    fn valid_value(&self, row: usize) -> Value {
        match &self.values {
            PageValues::Nothing => Value::Null,
            PageValues::Int8 { base, offsets } => {
                Value::Int(base.wrapping_add(i64::from(offsets[row])))
            }
            PageValues::Int16 { base, offsets } => {
                Value::Int(base.wrapping_add(i64::from(offsets[row])))
            }
            PageValues::Int32 { base, offsets } => {
                Value::Int(base.wrapping_add(i64::from(offsets[row])))
            }
            PageValues::Int64(values) => Value::Int(values[row]),
            PageValues::Float(values) => Value::Float(values[row]),
            PageValues::Bool(bits) => Value::Bool(bit(bits, row)),
            PageValues::Words { codes, words } => {
                Value::String(words[usize::from(codes[row])].clone())
            }
            PageValues::Text(values) => Value::String(values[row].clone()),
            PageValues::Mixed(values) => values[row].clone(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn value_count(&self) -> u64 {
        self.valid
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }
}

/// A page under construction: cells by row, in any order.
#[derive(Default)]
pub(crate) struct PageCells {
    cells: Vec<(u16, Cell)>,
}

impl PageCells {
    /// The cells of a page, for modification.
    pub(crate) fn of(page: &ColumnPage) -> Self {
        let rows = (0..PAGE_ROWS).filter(|row| page.is_member(*row));
        Self {
            cells: rows.map(|row| (row as u16, page.cell(row))).collect(),
        }
    }

    /// Appends a row, above all others.
    pub(crate) fn push(&mut self, row: usize, cell: Cell) {
        self.cells.push((row as u16, cell));
    }

    /// Replaces a row.
    pub(crate) fn put(&mut self, row: usize, cell: Cell) {
        let at = self
            .cells
            .binary_search_by_key(&(row as u16), |(row, _)| *row);
        match (at, cell) {
            (Ok(at), Cell::Absent) => {
                self.cells.remove(at);
            }
            (Err(_), Cell::Absent) => {}
            (Ok(at), cell) => self.cells[at].1 = cell,
            (Err(at), cell) => self.cells.insert(at, (row as u16, cell)),
        }
    }

    /// The page, or `None` if none of its nodes has the label.
    pub(crate) fn finish(self) -> Option<ColumnPage> {
        if self.cells.is_empty() {
            return None;
        }
        let mut members = [0; PAGE_ROWS / 64];
        let mut valid = [0; PAGE_ROWS / 64];
        let mut odd = Vec::new();
        let mut kept = Vec::with_capacity(self.cells.len());
        for (row, cell) in self.cells {
            set_bit(&mut members, usize::from(row));
            match cell {
                Cell::Absent | Cell::Value(Value::Null) => {}
                Cell::Rows => odd.push(row),
                Cell::Value(value) => {
                    set_bit(&mut valid, usize::from(row));
                    kept.push((row, value));
                }
            }
        }
        let values = PageValues::of(kept);
        let bytes = size_of::<ColumnPage>() + odd.len() * 2 + values.bytes();
        Some(ColumnPage {
            members,
            valid,
            values,
            odd,
            bytes,
        })
    }
}

impl PageValues {
    /// Chooses the narrowest encoding for these values, none of which is null.
    fn of(cells: Vec<(u16, Value)>) -> Self {
        let all = |fits: fn(&Value) -> bool| cells.iter().all(|(_, value)| fits(value));
        if cells.is_empty() {
            Self::Nothing
        } else if all(|value| matches!(value, Value::Int(_))) {
            Self::of_ints(cells.iter().map(|(row, value)| match value {
                Value::Int(int) => (*row, *int),
                _ => (*row, 0),
            }))
        } else if all(|value| matches!(value, Value::Float(_))) {
            let mut values = vec![0.0; PAGE_ROWS];
            for (row, value) in cells {
                if let Value::Float(float) = value {
                    values[usize::from(row)] = float;
                }
            }
            Self::Float(values)
        } else if all(|value| matches!(value, Value::Bool(_))) {
            let mut bits = Box::new([0; PAGE_ROWS / 64]);
            for (row, value) in cells {
                if matches!(value, Value::Bool(true)) {
                    set_bit(&mut bits, usize::from(row));
                }
            }
            Self::Bool(bits)
        } else if all(|value| matches!(value, Value::String(_))) {
            Self::of_strings(cells)
        } else {
            let mut values = vec![Value::Null; PAGE_ROWS];
            for (row, value) in cells {
                values[usize::from(row)] = value;
            }
            Self::Mixed(values)
        }
    }

    fn of_ints(cells: impl Iterator<Item = (u16, i64)> + Clone) -> Self {
        let ints = cells.clone().map(|(_, int)| int);
        let (low, high) = (ints.clone().min().unwrap_or(0), ints.max().unwrap_or(0));
        let widest = high.wrapping_sub(low) as u64;
        macro_rules! narrowed {
            ($form:ident, $type:ty) => {{
                let mut offsets = vec![0; PAGE_ROWS];
                for (row, int) in cells {
                    offsets[usize::from(row)] = int.wrapping_sub(low) as $type;
                }
                Self::$form { base: low, offsets }
            }};
        }
        if widest <= u64::from(u8::MAX) {
            narrowed!(Int8, u8)
        } else if widest <= u64::from(u16::MAX) {
            narrowed!(Int16, u16)
        } else if widest <= u64::from(u32::MAX) {
            narrowed!(Int32, u32)
        } else {
            let mut values = vec![0; PAGE_ROWS];
            for (row, int) in cells {
                values[usize::from(row)] = int;
            }
            Self::Int64(values)
        }
    }

    fn of_strings(cells: Vec<(u16, Value)>) -> Self {
        let count = cells.len();
        let strings = cells.into_iter().filter_map(|(row, value)| match value {
            Value::String(text) => Some((usize::from(row), text)),
            _ => None,
        });
        let strings: Vec<(usize, Arc<str>)> = strings.collect();
        let mut numbers: FxHashMap<&str, u16> = FxHashMap::default();
        let mut words: Vec<Arc<str>> = Vec::new();
        let mut codes = vec![0; PAGE_ROWS];
        for (row, text) in &strings {
            codes[*row] = *numbers.entry(text).or_insert_with(|| {
                words.push(text.clone());
                (words.len() - 1) as u16
            });
        }
        if words.len() <= count / 2 {
            words.shrink_to_fit();
            return Self::Words { codes, words };
        }
        let mut values: Vec<Arc<str>> = vec![Arc::from(""); PAGE_ROWS];
        for (row, text) in strings {
            values[row] = text;
        }
        Self::Text(values)
    }

    fn bytes(&self) -> usize {
        let text = |text: &Arc<str>| (text.len() + 16).next_multiple_of(16) + 16;
        match self {
            Self::Nothing => 0,
            Self::Int8 { .. } => PAGE_ROWS,
            Self::Int16 { .. } => PAGE_ROWS * 2,
            Self::Int32 { .. } => PAGE_ROWS * 4,
            Self::Int64(_) | Self::Float(_) => PAGE_ROWS * 8,
            Self::Bool(_) => PAGE_ROWS / 8,
            Self::Words { words, .. } => {
                PAGE_ROWS * 2 + words.iter().map(|word| text(word) + 16).sum::<usize>()
            }
            Self::Text(values) => {
                let own = values.iter().filter(|value| !value.is_empty());
                PAGE_ROWS * 16 + own.map(text).sum::<usize>()
            }
            Self::Mixed(values) => values.iter().map(|value| 24 + heap_bytes(value)).sum(),
        }
    }
}

/// Approximate heap bytes of a value. Recursion is bounded by the nesting limit of stored values.
pub(super) fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => 16 + text.len(),
        Value::Bytes(bytes) => 16 + bytes.len(),
        Value::List(items) => {
            let item = |item: &Value| size_of::<Value>() + heap_bytes(item);
            40 + items.iter().map(item).sum::<usize>()
        }
        Value::Map(map) => {
            let item = |item: &Value| size_of::<Value>() + 40 + heap_bytes(item);
            40 + map.values().map(item).sum::<usize>()
        }
        Value::ZonedDateTime(_) | Value::Duration(_) | Value::Point(_) => 64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(values: &[Value]) -> ColumnPage {
        let mut cells = PageCells::default();
        for (at, value) in values.iter().enumerate() {
            cells.push(at * 3, Cell::Value(value.clone()));
        }
        cells.finish().unwrap()
    }

    fn shape(page: &ColumnPage) -> &'static str {
        match page.values() {
            PageValues::Nothing => "nothing",
            PageValues::Int8 { .. } => "int8",
            PageValues::Int16 { .. } => "int16",
            PageValues::Int32 { .. } => "int32",
            PageValues::Int64(_) => "int64",
            PageValues::Float(_) => "float",
            PageValues::Bool(_) => "bool",
            PageValues::Words { .. } => "words",
            PageValues::Text(_) => "text",
            PageValues::Mixed(_) => "mixed",
        }
    }

    #[test]
    fn values_take_the_narrowest_form_and_come_back() {
        let ints = |ints: &[i64]| ints.iter().map(|int| Value::Int(*int)).collect::<Vec<_>>();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<_>>();
        let cases: Vec<(&str, Vec<Value>)> = vec![
            ("int8", ints(&[i64::MIN, i64::MIN + 255])),
            ("int16", ints(&[-3, 253])),
            ("int16", ints(&[0, 65_535])),
            ("int32", ints(&[0, 65_536])),
            ("int32", ints(&[-1, i64::from(u32::MAX) - 1])),
            ("int64", ints(&[0, 1 << 32])),
            ("int64", ints(&[i64::MIN, i64::MAX])),
            ("float", vec![Value::Float(-0.0), Value::Float(f64::NAN)]),
            (
                "bool",
                vec![Value::Bool(true), Value::Bool(false), Value::Bool(true)],
            ),
            ("words", texts(&["a", "b", "a", "b"])),
            ("text", texts(&["a", "b", "c", ""])),
            ("mixed", vec![Value::Int(1), Value::Float(1.0), "x".into()]),
            ("mixed", vec![Value::empty_list(), Value::Int(1)]),
            ("nothing", vec![Value::Null, Value::Null]),
        ];
        for (expected, values) in cases {
            let page = page(&values);
            assert_eq!(shape(&page), expected);
            assert!(page.bytes() >= 1024);
            for row in 0..PAGE_ROWS {
                let cell = page.cell(row);
                if row % 3 == 0 && row / 3 < values.len() {
                    let Cell::Value(value) = cell else {
                        panic!("{cell:?}")
                    };
                    assert_eq!(value, values[row / 3]);
                } else {
                    assert!(matches!(cell, Cell::Absent), "{row}");
                }
            }
        }
    }

    #[test]
    fn nested_values_are_counted_to_their_leaves() {
        let text: Value = "x".repeat(10_000).as_str().into();
        let list = Value::from(vec![Value::from(vec![text.clone()]), Value::Int(1)]);
        assert!(heap_bytes(&list) > 10_000);
        assert!(page(&[Value::Int(1), list]).bytes() > 10_000);
        let map: isomer_value::Map = [("a", Value::from(vec![text]))].into_iter().collect();
        assert!(heap_bytes(&Value::Map(std::sync::Arc::new(map))) > 10_000);
    }

    #[test]
    fn cells_are_changed_in_place() {
        let mut cells = PageCells::of(&page(&[Value::Int(1), Value::Null, Value::Int(3)]));
        cells.put(0, Cell::Absent);
        cells.put(3, Cell::Rows);
        cells.put(4, Cell::Value(Value::Int(9)));
        cells.put(9, Cell::Absent);
        let page = cells.finish().unwrap();
        assert!(matches!(page.cell(0), Cell::Absent));
        assert!(matches!(page.cell(3), Cell::Rows));
        assert!(matches!(page.cell(4), Cell::Value(Value::Int(9))));
        assert!(matches!(page.cell(6), Cell::Value(Value::Int(3))));
        assert_eq!((page.value_count(), page.odd()), (2, &[3][..]));
        assert!(PageCells::default().finish().is_none());
    }
}
