//! Circles between the files of a crate: files that reach one another by what they import.
//!
//! An import leads to the file that defines what is imported: re-exports (`pub use`) are followed, so `lib.rs`, which
//! only lists what the crate exports, is in no circle. Methods are not followed: who calls a method of a type needs the
//! type, not the file that has its `impl`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

use super::{
    figures::{product_part, without_tests},
    rust_text::RustText,
};
use crate::workspace;

/// Re-exports that are followed one after the other at most.
const MAX_HOPS: usize = 8;

/// A module by its names from the root of the crate.
type ModulePath = Vec<String>;

/// What a file imports, as paths from `crate`, `self`, `super` or a module in scope.
#[derive(Debug, Default)]
struct Module {
    imports: Vec<ModulePath>,
    /// What it exports from elsewhere: the name here, and the path.
    exports: BTreeMap<String, ModulePath>,
}

/// The modules of a crate; each is one file.
#[derive(Debug, Default)]
struct Modules(BTreeMap<ModulePath, Module>);

/// A circle: its crate, and its files as modules.
pub struct Circle {
    /// Name of the crate's folder.
    pub part: String,
    /// Names of the modules, ascending; the root of the crate is empty.
    pub files: Vec<String>,
}

/// Circles of more than one file in each crate, the longest first.
pub fn all() -> Result<Vec<Circle>> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in workspace::tracked_files()? {
        let Some(part) = product_part(&file) else {
            continue;
        };
        let Some(path) = module_of(&file) else {
            continue;
        };
        let text = fs::read_to_string(workspace::root().join(&file))?;
        let module = Module::parse(&without_tests(&RustText::split(&text).code));
        crates.entry(part).or_default().0.insert(path, module);
    }
    let mut circles: Vec<Circle> = Vec::new();
    for (part, modules) in &crates {
        circles.extend(modules.circles().into_iter().map(|circle| Circle {
            part: part.clone(),
            files: circle.iter().map(|path| path.join("::")).collect(),
        }));
    }
    circles.sort_by_key(|circle| (Reverse(circle.files.len()), circle.to_string()));
    Ok(circles)
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.part, self.files.join(" "))
    }
}

/// The circles as lines of text.
pub fn report() -> Result<Vec<String>> {
    let circles = all()?;
    let mut lines = vec![format!("circles of files: {}", circles.len())];
    lines.extend(circles.iter().map(|circle| {
        let mut line = format!("{:>7} {circle}", circle.files.len());
        if line.len() > 140 {
            let end = (0..=139).rev().find(|at| line.is_char_boundary(*at));
            line.truncate(end.unwrap_or(0));
            line.push('…');
        }
        line
    }));
    Ok(lines)
}

/// The module of a file below `src`.
fn module_of(file: &Path) -> Option<ModulePath> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let at = parts.iter().position(|part| *part == "src")?;
    let mut path: ModulePath = parts[at + 1..]
        .iter()
        .map(|part| part.trim_end_matches(".rs").to_owned())
        .collect();
    if path
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        path.pop();
    }
    Some(path)
}

impl Module {
    /// Reads the imports of a file, whose comments and literals are blank: those at its top level, and paths in its
    /// code that begin with `crate::`.
    fn parse(code: &str) -> Self {
        let mut module = Self::default();
        let mut rest = String::new();
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            let is_public = line.starts_with("pub");
            let Some(tree) = import_of(line) else {
                rest.push_str(line);
                rest.push('\n');
                continue;
            };
            let mut tree = tree.to_owned();
            while !tree.contains(';') {
                let Some(line) = lines.next() else { break };
                tree.push_str(line.trim());
            }
            let tree = tree.split(';').next().unwrap_or_default();
            for (path, name) in paths_of(tree) {
                if is_public {
                    module.exports.insert(name, path.clone());
                }
                module.imports.push(path);
            }
        }
        for (at, _) in rest.match_indices("crate::") {
            let is_root = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
            let path: String = rest[at..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_:".contains(*c))
                .collect();
            if is_root {
                let path = path.split("::").filter(|name| !name.is_empty());
                module.imports.push(path.map(str::to_owned).collect());
            }
        }
        module
    }
}

/// What follows `use` in a line that begins an import.
fn import_of(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        None => line,
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
    };
    line.strip_prefix("use ")
}

/// The paths of an import such as `a::{b, c::{self, d as e}}`, each with the name under which it is imported.
fn paths_of(tree: &str) -> Vec<(ModulePath, String)> {
    let tree = tree.trim();
    let (head, group) = match tree.find('{') {
        Some(at) => (&tree[..at], tree[at + 1..].strip_suffix('}')),
        None => (tree, None),
    };
    let names = head
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names: ModulePath = names.map(str::to_owned).collect();
    let Some(group) = group else {
        let Some((last, before)) = names.split_last() else {
            return Vec::new();
        };
        let (last, name) = last.split_once(" as ").unwrap_or((last, last));
        let mut path = before.to_vec();
        if last != "self" {
            path.push(last.to_owned());
        }
        let name = match name {
            "self" => before.last().cloned().unwrap_or_default(),
            name => name.to_owned(),
        };
        return vec![(path, name)];
    };
    let mut paths = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                for (path, name) in paths_of(&group[start..at]) {
                    // `self` in a group is imported under the name before the group.
                    let name = match names.last() {
                        Some(last) if name.is_empty() => last.clone(),
                        _ => name,
                    };
                    paths.push((names.iter().cloned().chain(path).collect(), name));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

impl Modules {
    /// The module that defines what `path` names in the module `from`; none for something of another crate.
    fn definer(&self, path: &[String], from: &[String], hops: usize) -> Option<ModulePath> {
        let (mut module, mut names) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.to_vec(), &path[1..]),
            "super" => (from.to_vec(), path),
            name if self.child(from, name).is_some() => (from.to_vec(), path),
            _ => return None,
        };
        while let Some((name, rest)) = names.split_first() {
            if name == "super" {
                module.pop()?;
            } else if let Some(child) = self.child(&module, name) {
                module = child;
            } else {
                break;
            }
            names = rest;
        }
        let own = self.0.get(&module)?;
        let exported = names.first().and_then(|name| own.exports.get(name));
        if let Some(exported) = exported
            && hops < MAX_HOPS
            && let Some(definer) = self.definer(exported, &module, hops + 1)
        {
            return Some(definer);
        }
        Some(module)
    }

    fn child(&self, module: &[String], name: &str) -> Option<ModulePath> {
        let mut child = module.to_vec();
        child.push(name.to_owned());
        self.0.contains_key(&child).then_some(child)
    }

    /// Sets of modules of which each reaches every other one, without those of one module.
    fn circles(&self) -> Vec<Vec<ModulePath>> {
        let mut edges: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let reached = module.imports.iter();
            let reached = reached.filter_map(|import| self.definer(import, path, 0));
            edges.insert(path, reached.filter(|other| other != path).collect());
        }
        let reach = |from: &ModulePath| {
            let mut seen: BTreeSet<ModulePath> = BTreeSet::new();
            let mut open: Vec<ModulePath> = edges[from].iter().cloned().collect();
            while let Some(next) = open.pop() {
                if seen.insert(next.clone()) {
                    open.extend(edges[&next].iter().cloned());
                }
            }
            seen
        };
        let reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> =
            self.0.keys().map(|path| (path, reach(path))).collect();
        let mut circles: BTreeSet<Vec<ModulePath>> = BTreeSet::new();
        for (path, seen) in &reached {
            if seen.contains(*path) {
                let back = seen.iter().filter(|other| reached[other].contains(*path));
                circles.insert(back.cloned().collect());
            }
        }
        circles.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let read = |(file, code): &(&str, &str)| {
            let path = module_of(Path::new(file)).unwrap();
            (path, Module::parse(code))
        };
        Modules(files.iter().map(read).collect())
    }

    #[test]
    fn imports_lead_to_the_file_that_defines_them() {
        let modules = modules(&[
            ("src/lib.rs", "mod a;\nmod b;\npub use b::Two;\n"),
            (
                "src/a.rs",
                "use std::fmt;\nuse crate::{\n    Two,\n    b::c::{self, Three as Four},\n};\n",
            ),
            (
                "src/b/mod.rs",
                "mod c;\npub(crate) use c::Three;\npub struct Two;\n",
            ),
            ("src/b/c.rs", "use super::Two;\nfn f() { crate::a::g() }\n"),
        ]);
        let named = |name: &str| name.split("::").map(str::to_owned).collect::<ModulePath>();
        assert_eq!(
            modules.definer(&named("crate::Two"), &named("a"), 0),
            Some(named("b"))
        );
        assert_eq!(
            modules.definer(&named("super::Three"), &named("b::c"), 0),
            Some(named("b::c"))
        );
        assert_eq!(modules.definer(&named("std::fmt"), &named("a"), 0), None);
        assert_eq!(
            modules.circles(),
            [vec![named("a"), named("b"), named("b::c")]]
        );
    }

    #[test]
    fn a_tree_of_imports_is_a_list_of_paths() {
        let paths = paths_of("a::{b, c::{self, d as e}, f::*}");
        let shown: Vec<_> = paths
            .iter()
            .map(|(path, name)| (path.join("::"), name.as_str()))
            .collect();
        let expected = [
            ("a::b", "b"),
            ("a::c", "c"),
            ("a::c::d", "e"),
            ("a::f::*", "*"),
        ];
        assert_eq!(shown, expected.map(|(path, name)| (path.to_owned(), name)));
    }
}
