//! Random patterns.

use super::graph::{LABELS, TYPES};
use super::{Kind, Maker};

impl Maker<'_> {
    /// A pattern of one or two paths. The variables that it names are in scope afterwards.
    pub(super) fn pattern(&mut self) -> String {
        let mut used = Vec::new();
        let first = self.path(true, &mut used);
        match self.once_in(4) {
            true => format!("{first}, {}", self.path(true, &mut used)),
            false => first,
        }
    }

    /// A path. `names`: whether it may declare variables. `used`: relationships named in the clause so far.
    pub(super) fn path(&mut self, names: bool, used: &mut Vec<String>) -> String {
        if names && self.once_in(24) {
            return self.shortest();
        }
        let mut text = self.node(names);
        let steps = match self.random.below(10) {
            0 => 0,
            1..=6 => 1,
            7 | 8 => 2,
            _ => 3,
        };
        let mut added = Vec::new();
        for _ in 0..steps {
            let step = match self.once_in(24) {
                true => self.quantified(names, &mut added),
                false => self.relationship(names, used, &mut added),
            };
            let node = self.node(names);
            text = format!("{text}{step}{node}");
        }
        for (name, kind) in added {
            self.add(&name, kind);
        }
        if names && steps > 0 && self.once_in(8) {
            let path = self.fresh("p");
            self.add(&path, Kind::Path);
            return format!("{path} = {text}");
        }
        text
    }

    fn shortest(&mut self) -> String {
        let (from, to) = (self.node(true), self.node(true));
        let path = self.fresh("p");
        let types = self.types();
        let (left, right) = self.arrow();
        let text = match self.random.below(6) {
            0 => format!("{path} = ALL SHORTEST {from}{left}[{types}]{right}+{to}"),
            1 => format!("{path} = ANY {from}{left}[{types}]{right}{{1,3}}{to}"),
            2 => format!("{path} = SHORTEST 1 {from}{left}[{types}]{right}+{to}"),
            3 => format!("{path} = SHORTEST 2 {from}{left}[{types}]{right}{{1,4}}{to}"),
            4 => format!("{path} = SHORTEST 2 GROUPS {from}{left}[{types}]{right}{{1,4}}{to}"),
            _ => format!("{path} = ALL SHORTEST {from}{left}[{types}]{right}{{0,3}}{to}"),
        };
        self.add(&path, Kind::Path);
        text
    }

    fn arrow(&mut self) -> (&'static str, &'static str) {
        *self
            .random
            .pick(&[("-", "->"), ("-", "->"), ("<-", "-"), ("-", "-")])
    }

    fn types(&mut self) -> String {
        let names: Vec<&str> = TYPES
            .iter()
            .filter(|_| self.random.once_in(6))
            .copied()
            .collect();
        match names.is_empty() {
            true => String::new(),
            false if self.once_in(12) => format!(":!{}", names[0]),
            false => format!(":{}", names.join("|")),
        }
    }

    pub(super) fn label(&mut self) -> String {
        let one = *self.random.pick(&LABELS);
        let other = *self.random.pick(&LABELS);
        match self.random.below(9) {
            0 => format!(":!{one}"),
            1 => format!(":{one}|{other}"),
            2 => format!(":{one}&!{other}"),
            3 => ":%".into(),
            4 => format!(":{one}:{other}"),
            _ => format!(":{one}"),
        }
    }

    fn node(&mut self, names: bool) -> String {
        let known = self.known(Kind::Node);
        let name = match (names, known) {
            (true, Some(known)) if self.once_in(3) => Some(known),
            (false, Some(known)) if !self.once_in(3) => Some(known),
            (true, _) if !self.once_in(5) => Some(self.fresh("n")),
            _ => None,
        };
        let label = if self.once_in(5) {
            self.label()
        } else {
            String::new()
        };
        let properties = match self.random.below(45) {
            0 => " {v: 1}".to_owned(),
            1 => format!(" {{v: {}}}", self.expression(Kind::Int, 1)),
            2 => " {s: 'a'}".to_owned(),
            3 => format!(" {{_key: 'k{}'}}", self.random.below(5)),
            4 => format!(" {{i: {}}}", self.random.below(5)),
            _ => String::new(),
        };
        let condition = match &name {
            Some(name) if self.once_in(25) => format!(" WHERE {name}.v > {}", self.random.below(3)),
            _ => String::new(),
        };
        let text = format!(
            "({}{label}{properties}{condition})",
            name.as_deref().unwrap_or_default()
        );
        if let Some(name) = name {
            self.add(&name, Kind::Node);
        }
        text
    }

    fn relationship(
        &mut self,
        names: bool,
        used: &mut Vec<String>,
        added: &mut Vec<(String, Kind)>,
    ) -> String {
        let (left, right) = self.arrow();
        let types = self.types();
        let length = self.once_in(5).then(|| {
            let least = self.random.below(3);
            match self.random.below(5) {
                0 => "*".to_owned(),
                1 => format!("*{least}"),
                2 => format!("*..{}", 1 + self.random.below(3)),
                _ => format!("*{least}..{}", least + self.random.below(3)),
            }
        });
        let known = self
            .known(Kind::Relationship)
            .filter(|name| !used.contains(name));
        let name = match (names, &length, known) {
            (true, None, Some(known)) if self.once_in(4) => Some(known),
            (true, _, _) if self.once_in(2) => Some(self.fresh("r")),
            _ => None,
        };
        let properties = match self.random.below(36) {
            0 => " {w: 1}".to_owned(),
            1 if length.is_none() => format!(" {{w: {}}}", self.expression(Kind::Int, 1)),
            _ => String::new(),
        };
        let condition = match &name {
            Some(name) if self.once_in(20) => format!(" WHERE {name}.w > 0"),
            _ => String::new(),
        };
        if let Some(name) = &name {
            used.push(name.clone());
            let kind = if length.is_some() {
                Kind::Relationships
            } else {
                Kind::Relationship
            };
            added.push((name.clone(), kind));
        }
        format!(
            "{left}[{}{types}{}{properties}{condition}]{right}",
            name.unwrap_or_default(),
            length.unwrap_or_default()
        )
    }

    /// A path repeated; its variables are lists outside.
    fn quantified(&mut self, names: bool, added: &mut Vec<(String, Kind)>) -> String {
        let (left, right) = self.arrow();
        let types = self.types();
        let least = self.random.below(3);
        let most = (least + self.random.below(2)).max(1);
        if self.once_in(2) {
            return format!("{left}[{types}]{right}{{{least},{most}}}");
        }
        let (a, r, b) = match names {
            true => (self.fresh("g"), self.fresh("h"), self.fresh("g")),
            false => (String::new(), String::new(), String::new()),
        };
        let condition = match names && self.once_in(2) {
            true => format!(" WHERE {a}.v <= {b}.v OR {r}.w > 0"),
            false => String::new(),
        };
        if names {
            added.push((a.clone(), Kind::Nodes));
            added.push((r.clone(), Kind::Relationships));
            added.push((b.clone(), Kind::Nodes));
        }
        let further = match self.once_in(4) {
            true => format!("-[:{}]->()", self.random.pick(&TYPES)),
            false => String::new(),
        };
        format!("(({a}){left}[{r}{types}]{right}({b}){further}{condition}){{{least},{most}}}")
    }
}
