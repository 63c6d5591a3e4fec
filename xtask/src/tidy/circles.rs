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
    /// The names of `exports` that are `pub` without a restriction, and so are the modules and types it declares.
    public_exports: BTreeSet<String>,
    public_modules: BTreeSet<String>,
    public_types: BTreeSet<String>,
}

/// The modules of a crate; each is one file.
#[derive(Debug, Default)]
struct Modules(BTreeMap<ModulePath, Module>);

/// A circle: its crate, and its files as modules.
pub struct Circle {
    /// Name of the crate's folder.
    pub part: String,
    /// Names of the modules, ascending; the root of the crate is `crate`.
    pub files: Vec<String>,
}

/// Circles of more than one file in each crate, the longest first.
pub fn all() -> Result<Vec<Circle>> {
    let crates = crates()?;
    let mut circles: Vec<Circle> = Vec::new();
    for (part, modules) in &crates {
        circles.extend(modules.circles().into_iter().map(|circle| Circle {
            part: part.clone(),
            files: circle.iter().map(name_of).collect(),
        }));
    }
    circles.sort_by_key(|circle| (Reverse(circle.files.len()), circle.to_string()));
    Ok(circles)
}

/// The types that other crates can name, by crate: the module that declares a type, and its name. What is `pub` in a
/// private module and not exported from it is none.
pub fn public_types() -> Result<Vec<(String, String, String)>> {
    let mut all = Vec::new();
    for (part, modules) in crates()? {
        let types = modules.public_types().into_iter();
        all.extend(types.map(|(module, name)| (part.clone(), name_of(&module), name)));
    }
    Ok(all)
}

/// The modules of each crate, without tests.
fn crates() -> Result<BTreeMap<String, Modules>> {
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
    Ok(crates)
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

fn name_of(module: &ModulePath) -> String {
    if module.is_empty() {
        "crate".to_owned()
    } else {
        module.join("::")
    }
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
    /// Reads the imports of a file, whose comments and literals are blank: those at its top level, and the paths in
    /// its code that begin at a module.
    fn parse(code: &str) -> Self {
        let mut module = Self::default();
        let mut rest = String::new();
        let mut is_inline = false;
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            is_inline = if is_inline {
                line != "}"
            } else {
                opens_module(line)
            };
            if is_inline {
                rest.push_str(&from_parent(line));
                rest.push('\n');
                continue;
            }
            let is_exported = line.starts_with("pub");
            let is_public = line.starts_with("pub ");
            if is_public {
                module.declare(line);
            }
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
                    module.public_exports.insert(name.clone());
                }
                if is_exported {
                    module.exports.insert(name, path.clone());
                }
                module.imports.push(path);
            }
        }
        module.imports.extend(paths_in_code(&rest));
        module
    }

    /// Notes the module or type that a line of the top level declares as `pub`.
    fn declare(&mut self, line: &str) {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let kind = words.find(|word| !["pub", "unsafe", ""].contains(word));
        let names = match kind {
            Some("mod") => &mut self.public_modules,
            Some("struct" | "enum" | "union" | "trait" | "type") => &mut self.public_types,
            _ => return,
        };
        names.extend(words.next().map(str::to_owned));
    }
}

/// The paths in code that begin with a module (`crate`, `super`, `self` or one in scope), such as those of functions
/// that it calls.
fn paths_in_code(code: &str) -> impl Iterator<Item = ModulePath> + '_ {
    let paths = code.split(|c: char| !(c.is_alphanumeric() || "_:$".contains(c)));
    // A macro names its own crate `$crate`; types and numbers are no modules.
    let begins = |path: &&str| path.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let paths = paths.filter(begins).filter(|path| path.contains("::"));
    paths.map(|path| {
        let names = path.split("::").filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    })
}

/// Whether a line begins a module within its file.
fn opens_module(line: &str) -> bool {
    line.ends_with('{') && item_behind_visibility(line).starts_with("mod ")
}

/// A line of a module within a file, with its paths as the file itself would write them.
fn from_parent(line: &str) -> String {
    let marked = line.replace("super::super::", "super\0");
    marked.replace("super::", "").replace('\0', "::")
}

/// What follows `use` in a line that begins an import.
fn import_of(line: &str) -> Option<&str> {
    item_behind_visibility(line).strip_prefix("use ")
}

/// A line without `pub` or `pub(…)` at its beginning.
fn item_behind_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    let rest = match rest.strip_prefix('(') {
        Some(restricted) => restricted.split_once(')').map_or("", |(_, item)| item),
        None => rest,
    };
    rest.trim_start()
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
        self.definition(path, from, hops).map(|(module, _)| module)
    }

    /// The module that defines what `path` names in the module `from`, and its name there; no name where the path is
    /// that module itself.
    fn definition<'a>(
        &'a self,
        path: &'a [String],
        from: &[String],
        hops: usize,
    ) -> Option<(ModulePath, Option<&'a str>)> {
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
            && let Some(definition) = self.definition(exported, &module, hops + 1)
        {
            return Some(definition);
        }
        Some((module, names.first().map(String::as_str)))
    }

    /// Types that the root of the crate, a public module, or an export of one of them names.
    fn public_types(&self) -> BTreeSet<(ModulePath, String)> {
        let mut types = BTreeSet::new();
        let mut seen: BTreeSet<ModulePath> = BTreeSet::new();
        let mut open: Vec<ModulePath> = vec![Vec::new()];
        while let Some(path) = open.pop() {
            let Some(module) = self.0.get(&path) else {
                continue;
            };
            if !seen.insert(path.clone()) {
                continue;
            }
            let declared = module.public_types.iter();
            types.extend(declared.map(|name| (path.clone(), name.clone())));
            let children = module.public_modules.iter();
            open.extend(children.filter_map(|name| self.child(&path, name)));
            for name in &module.public_exports {
                match self.definition(&module.exports[name], &path, 0) {
                    None => {}
                    // A module under another name, or all that it has.
                    Some((definer, None | Some("*"))) => open.push(definer),
                    Some((definer, Some(name))) => {
                        let is_type = |module: &Module| module.public_types.contains(name);
                        if self.0.get(&definer).is_some_and(is_type) {
                            types.insert((definer, name.to_owned()));
                        }
                    }
                }
            }
        }
        types
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
    fn paths_in_function_bodies_are_imports() {
        let modules = modules(&[
            ("src/a/mod.rs", "mod b;\nfn f() { b::g(Kind::One) }\n"),
            ("src/a/b.rs", "fn g() { super::super::c::h(super::f) }\n"),
            ("src/c.rs", "fn h() { $crate::a::f(); other::a::f() }\n"),
        ]);
        let named = |name: &str| name.split("::").map(str::to_owned).collect::<ModulePath>();
        assert_eq!(modules.circles(), [vec![named("a"), named("a::b")]]);
        assert_eq!(
            modules.0[&named("a::b")].imports,
            [named("super::super::c::h"), named("super::f")]
        );
    }

    #[test]
    fn a_module_within_a_file_belongs_to_it() {
        let modules = modules(&[
            ("src/a/mod.rs", "mod b;\nfn f() { b::g() }\n"),
            (
                "src/a/b.rs",
                "pub(crate) mod inner {\n    use super::T;\n    fn g() -> T { super::super::c::h() }\n}\n",
            ),
            ("src/a/c.rs", "fn h() { super::f() }\n"),
        ]);
        let circles = modules.circles();
        let names: Vec<_> = circles[0].iter().map(|path| path.join("::")).collect();
        assert_eq!(names, ["a", "a::b", "a::c"]);
        assert_eq!(circles.len(), 1);
    }

    #[test]
    fn other_crates_can_name_what_public_modules_declare_or_export() {
        let modules = modules(&[
            (
                "src/lib.rs",
                "mod a;\npub mod b;\npub use a::{One, c::Two as Three};\npub(crate) use a::Four;\n",
            ),
            (
                "src/a/mod.rs",
                "pub mod c;\npub struct One;\npub struct Four;\npub fn five() {}\n",
            ),
            ("src/a/c.rs", "pub enum Two {\n}\npub enum Private {\n}\n"),
            (
                "src/b.rs",
                "pub use crate::d;\npub type Six = u8;\nmod e {\n    pub struct Inner;\n}\npub(super) struct Seven;\n",
            ),
            ("src/d.rs", "pub unsafe trait Eight {\n}\n"),
        ]);
        let types = modules.public_types().into_iter();
        let names: Vec<_> = types
            .map(|(module, name)| format!("{} {name}", name_of(&module)))
            .collect();
        assert_eq!(names, ["a One", "a::c Two", "b Six", "d Eight"]);
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
