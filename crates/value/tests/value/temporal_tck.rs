//! The temporal scenarios of the openCypher Technology Compatibility Kit, run on the functions of this crate
//! alone: a small evaluator interprets the queries, which use little else. The kit is outside of the
//! repository (`../shared/tck`); without it the test prints a note and passes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    iter::Peekable,
    path::{Path, PathBuf},
    str::Chars,
};

use isomer_value::{
    Map, Value,
    equality::{compare, equal},
    jiff::Timestamp,
    temporal::{Now, accessor, add, divide, function, multiply, subtract, to_text},
};

/// Scenarios that need years beyond 9999, the documented range.
const OUT_OF_RANGE: [&str; 2] = [
    "[9] Should handle large durations",
    "[10] Should handle large durations in seconds",
];

type Variables = BTreeMap<String, Value>;

#[test]
fn the_temporal_scenarios_of_the_kit_pass() {
    let Some(folder) = kit() else {
        // Read by `cargo xtask test`, as `Verdict::report` of the testkit, which this crate is below of, prints it.
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let line = format!(
            "\nskipped test {name}: needs data: there is no ../shared/tck/features/expressions/temporal\n"
        );
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    };
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let (mut passed, mut failures) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for scenario in scenarios(&text) {
            match run(&scenario) {
                Ok(()) => passed += 1,
                Err(_) if OUT_OF_RANGE.iter().any(|name| scenario.name.contains(name)) => {}
                Err(error) => {
                    failures.push(format!("{} {}: {error}", file.display(), scenario.name))
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{passed} passed, {} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(passed > 400, "{passed} passed");
}

fn kit() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .map(|folder| folder.join("shared/tck/features/expressions/temporal"))
        .find(|folder| folder.is_dir())
}

struct Scenario {
    name: String,
    queries: Vec<String>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The scenarios of a feature, outlines expanded.
fn scenarios(text: &str) -> Vec<Scenario> {
    let mut all = Vec::new();
    for block in text.split("Scenario").skip(1) {
        let name = block
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches([':', ' '])
            .to_owned();
        let name = name.trim_start_matches("Outline: ").to_owned();
        let (body, examples) = block.split_once("Examples:").unwrap_or((block, ""));
        let mut queries = Vec::new();
        let mut parts = body.split("\"\"\"");
        parts.next();
        while let Some(query) = parts.next() {
            queries.push(query.trim().to_owned());
            parts.next();
        }
        let table = body
            .rsplit_once("the result should be, in any order:")
            .map_or("", |(_, table)| table);
        let mut table = rows(table).into_iter();
        let columns = table.next().unwrap_or_default();
        let scenario = Scenario {
            name,
            queries,
            columns,
            rows: table.collect(),
        };
        let mut examples = rows(examples).into_iter();
        match examples.next() {
            None => all.push(scenario),
            Some(names) => all.extend(examples.map(|example| expand(&scenario, &names, &example))),
        }
    }
    all
}

fn rows(table: &str) -> Vec<Vec<String>> {
    let lines = table
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('|'));
    lines
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

fn expand(scenario: &Scenario, names: &[String], example: &[String]) -> Scenario {
    let fill = |text: &String| {
        names
            .iter()
            .zip(example)
            .fold(text.clone(), |text, (name, value)| {
                text.replace(&format!("<{name}>"), value)
            })
    };
    Scenario {
        name: format!("{} {example:?}", scenario.name),
        queries: scenario.queries.iter().map(fill).collect(),
        columns: scenario.columns.iter().map(fill).collect(),
        rows: scenario
            .rows
            .iter()
            .map(|row| row.iter().map(fill).collect())
            .collect(),
    }
}

fn run(scenario: &Scenario) -> Result<(), String> {
    let mut nodes = Vec::new();
    let mut row = Vec::new();
    for query in &scenario.queries {
        row = run_query(query, &mut nodes)?;
    }
    let expected = scenario.rows.first().ok_or("no row is expected")?;
    for ((column, value), expected) in scenario.columns.iter().zip(&row).zip(expected) {
        let value = show(value);
        if value != *expected {
            return Err(format!("{column}: {value} instead of {expected}"));
        }
    }
    if row.len() == expected.len() {
        Ok(())
    } else {
        Err(format!("{} columns", row.len()))
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(value) => format!("'{value}'"),
        Value::List(items) => format!(
            "[{}]",
            items.iter().map(show).collect::<Vec<_>>().join(", ")
        ),
        value => to_text(value).map_or_else(|| format!("{value:?}"), |text| format!("'{text}'")),
    }
}

/// Runs `CREATE (…)`s, or `MATCH … WITH … RETURN …` on one row. Nodes are their labels and properties.
fn run_query(query: &str, nodes: &mut Vec<(String, Value)>) -> Result<Vec<Value>, String> {
    let mut variables = Variables::new();
    let mut parser = Parser {
        rest: query.chars().peekable(),
        variables: &mut variables,
    };
    let mut answer = Vec::new();
    loop {
        parser.space();
        let word = parser.word();
        match &*word {
            "" => return Ok(answer),
            "CREATE" | "MATCH" => loop {
                parser.expect('(')?;
                let variable = parser.word();
                let label = if parser.eat(':') {
                    parser.word()
                } else {
                    String::new()
                };
                if word == "CREATE" {
                    let properties = parser.value(0)?;
                    nodes.push((label, properties));
                } else {
                    let node = nodes
                        .iter()
                        .find(|(own, _)| *own == label)
                        .ok_or("no such node")?;
                    parser.variables.insert(variable, node.1.clone());
                }
                parser.expect(')')?;
                if !parser.eat(',') {
                    break;
                }
            },
            "WITH" | "RETURN" => loop {
                let start = parser.source();
                let value = parser.value(0)?;
                let name = if parser.keyword("AS") {
                    parser.word()
                } else {
                    start
                };
                if word == "RETURN" {
                    answer.push(value);
                } else {
                    parser.variables.insert(name, value);
                }
                if !parser.eat(',') {
                    break;
                }
            },
            other => return Err(format!("`{other}` is not a clause")),
        }
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    variables: &'a mut Variables,
}

impl Parser<'_> {
    fn source(&self) -> String {
        self.rest.clone().collect()
    }

    fn space(&mut self) {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.space();
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(format!("`{wanted}` before {}", self.source()))
        }
    }

    fn word(&mut self) -> String {
        self.space();
        let mut word = String::new();
        while let Some(next) = self
            .rest
            .next_if(|next| next.is_alphanumeric() || *next == '_')
        {
            word.push(next);
        }
        word
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.space();
        let mut ahead = self.rest.clone();
        let found = word.chars().all(|wanted| ahead.next() == Some(wanted));
        if found {
            self.rest = ahead;
        }
        found
    }

    fn value(&mut self, power: u8) -> Result<Value, String> {
        let mut left = self.operand()?;
        loop {
            self.space();
            let Some(sign) = self.rest.peek().copied() else {
                return Ok(left);
            };
            let own = match sign {
                '<' | '>' | '=' => 1,
                '+' | '-' => 2,
                '*' | '/' => 3,
                _ => return Ok(left),
            };
            if own <= power {
                return Ok(left);
            }
            self.rest.next();
            let or_equal = sign != '=' && self.rest.next_if_eq(&'=').is_some();
            let right = self.value(own)?;
            left = binary(sign, or_equal, &left, &right)?;
        }
    }

    fn operand(&mut self) -> Result<Value, String> {
        self.space();
        let mut value = match self.rest.peek() {
            Some('\'') => self.text(),
            Some('{') => self.map()?,
            Some('[') => self.list()?,
            Some('-' | '0'..='9') => self.number()?,
            _ => return self.name(),
        };
        while self.eat('.') {
            value = self.field(&value)?;
        }
        Ok(value)
    }

    fn field(&mut self, value: &Value) -> Result<Value, String> {
        let name = self.word();
        match value {
            Value::Map(map) => map.get(&name).cloned().ok_or(name),
            value => accessor(value, &name).map_err(|error| error.to_string()),
        }
    }

    /// A variable with fields, a function call or `null`.
    fn name(&mut self) -> Result<Value, String> {
        let mut name = self.word();
        if let Some(mut value) = self.variables.get(&name).cloned() {
            while self.eat('.') {
                value = self.field(&value)?;
            }
            return Ok(value);
        }
        if name == "null" {
            return Ok(Value::Null);
        }
        while self.eat('.') {
            name = format!("{name}.{}", self.word());
        }
        self.expect('(')?;
        let args = self.items(')')?;
        if name == "toString" {
            return Ok(args.first().and_then(to_text).into());
        }
        let function = function(&name).ok_or_else(|| format!("no function `{name}`"))?;
        let now = Now::utc(Timestamp::UNIX_EPOCH);
        function
            .call(&args, &now)
            .map_err(|error| error.to_string())
    }

    fn items(&mut self, end: char) -> Result<Vec<Value>, String> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.value(0)?);
            self.eat(',');
        }
        Ok(items)
    }

    fn list(&mut self) -> Result<Value, String> {
        self.expect('[')?;
        self.items(']').map(Value::from)
    }

    fn map(&mut self) -> Result<Value, String> {
        self.expect('{')?;
        let mut map = Map::new();
        while !self.eat('}') {
            let name = self.word();
            self.expect(':')?;
            map.insert(name, self.value(0)?);
            self.eat(',');
        }
        Ok(map.into())
    }

    fn text(&mut self) -> Value {
        self.rest.next();
        let mut text = String::new();
        while let Some(next) = self.rest.next_if(|next| *next != '\'') {
            text.push(next);
        }
        self.rest.next();
        text.into()
    }

    fn number(&mut self) -> Result<Value, String> {
        let mut text = String::new();
        while let Some(next) = self
            .rest
            .next_if(|next| next.is_ascii_digit() || matches!(next, '.' | '-'))
        {
            text.push(next);
        }
        let int = text.parse::<i64>().map(Value::Int);
        int.or_else(|_| text.parse::<f64>().map(Value::Float))
            .map_err(|_| text)
    }
}

fn binary(sign: char, or_equal: bool, a: &Value, b: &Value) -> Result<Value, String> {
    let result = match (sign, or_equal) {
        ('+', _) => add(a, b),
        ('-', _) => subtract(a, b),
        ('*', _) => multiply(a, b),
        ('/', _) => divide(a, b),
        ('=', _) => Ok(equal(a, b).into()),
        ('<', false) => Ok(compare(a, b).less().into()),
        ('<', true) => Ok(compare(a, b).less_or_equal().into()),
        (_, false) => Ok(compare(a, b).greater().into()),
        (_, true) => Ok(compare(a, b).greater_or_equal().into()),
    };
    result.map_err(|error| error.to_string())
}
