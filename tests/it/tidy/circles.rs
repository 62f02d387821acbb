//! Finds circular imports among the files of one module, and types whose `impl` blocks are
//! scattered over many of its files.
//!
//! A file imports another if it names that file or an item in it. The `mod.rs` of a folder counts
//! as a file: `super::x::Y` names the `mod.rs` of `x`, unless `Y` is a file of the folder `x`.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Source;

/// Files of a module by their path in it, such as `["skill", "scope"]`.
type Files<'a> = BTreeMap<Vec<String>, &'a Source>;

/// Finds files of the module in `folder` that import each other in a circle.
pub(super) fn check(folder: &str, sources: &[Source]) -> Vec<String> {
    let files = files(folder, sources);
    let module = folder.rsplit('/').next().unwrap_or(folder);
    let mut left: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = files
        .iter()
        .map(|(path, source)| (path, imports(module, path, source, &files)))
        .collect();
    // Removes files that import no other file, or that no other file imports, until only circles
    // and the paths between them are left.
    loop {
        let n_before = left.len();
        let present: BTreeSet<Vec<String>> = left.keys().map(|path| (*path).clone()).collect();
        for imported in left.values_mut() {
            imported.retain(|path| present.contains(path));
        }
        let wanted: BTreeSet<Vec<String>> = left.values().flatten().cloned().collect();
        left.retain(|path, imported| !imported.is_empty() && wanted.contains(*path));
        if left.len() == n_before {
            break;
        }
    }
    let name = |path: &Vec<String>| files.get(path).map_or("", |source| &source.path);
    left.iter()
        .map(|(path, imported)| {
            let imported: Vec<&str> = imported.iter().map(name).collect();
            format!(
                "{} is in a circle of imports: it imports {}",
                name(path),
                imported.join(", ")
            )
        })
        .collect()
}

/// Finds types that have inherent `impl` blocks in more than `most` files of `folder`.
pub(super) fn scattered(folder: &str, sources: &[Source], most: usize) -> Vec<String> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in files(folder, sources).into_values() {
        for line in source.text.lines() {
            let Some(rest) = line.strip_prefix("impl").filter(|r| !r.contains(" for ")) else {
                continue;
            };
            let rest = match rest.strip_prefix('<') {
                Some(rest) => rest.split_once('>').map_or(rest, |(_, rest)| rest),
                None => rest,
            };
            let of_type = found.entry(take_name(&mut rest.trim_start())).or_default();
            of_type.insert(&source.path);
        }
    }
    found.retain(|_, files| files.len() > most);
    found
        .into_iter()
        .map(|(name, files)| format!("`{name}` has `impl` blocks in {} files", files.len()))
        .collect()
}

fn files<'a>(folder: &str, sources: &'a [Source]) -> Files<'a> {
    let of_folder = sources.iter().filter_map(|source| {
        let path = source.path.strip_prefix(folder)?.strip_prefix('/')?;
        let mut path: Vec<String> = path
            .strip_suffix(".rs")?
            .split('/')
            .map(str::to_owned)
            .collect();
        path.pop_if(|last| last == "mod");
        Some((path, source))
    });
    of_folder.collect()
}

fn imports(
    module: &str,
    own: &[String],
    source: &Source,
    files: &Files<'_>,
) -> BTreeSet<Vec<String>> {
    let lines = source.code().map(|(_, line)| line);
    let text: Vec<&str> = lines.take_while(|line| *line != "#[cfg(test)]").collect();
    let text = text.join("\n");
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::", "use "] {
        for (at, _) in text.match_indices(start) {
            let before = &text[..at];
            let is_within = before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            // The path in `pub(in crate::x)` is no import.
            if is_within || before.ends_with("(in ") {
                continue;
            }
            let mut rest = text[at..].trim_start_matches("use ");
            read_paths(&mut rest, &[], &mut paths);
        }
    }
    let found = paths
        .iter()
        .filter_map(|path| file_of(module, own, path, files));
    found.filter(|path| path != own).collect()
}

/// Reads a path, or a tree of paths in braces, from the start of `text`.
fn read_paths(text: &mut &str, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    loop {
        *text = text.trim_start();
        if let Some(mut list) = text.strip_prefix('{') {
            while !list.is_empty() && !list.starts_with('}') {
                let n_before = list.len();
                list = list.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
                if !list.is_empty() && !list.starts_with('}') {
                    read_paths(&mut list, &path, paths);
                }
                if list.len() == n_before {
                    break;
                }
            }
            *text = list.strip_prefix('}').unwrap_or(list);
            return;
        }
        let name = take_name(text);
        if name.is_empty() {
            *text = text.strip_prefix('*').unwrap_or(text);
            paths.push(path);
            return;
        }
        path.push(name);
        match text.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
    }
    if let Some(mut renamed) = text.strip_prefix(" as ") {
        take_name(&mut renamed);
        *text = renamed;
    }
    paths.push(path);
}

fn take_name(text: &mut &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    name.to_owned()
}

/// Returns the file of the module that a path names, or `None` if the path leads elsewhere.
fn file_of(
    module: &str,
    own: &[String],
    path: &[String],
    files: &Files<'_>,
) -> Option<Vec<String>> {
    let mut file = own.to_vec();
    let mut rest = path;
    match path {
        [first, second, ..] if first == "crate" && second == module => {
            file.clear();
            rest = &path[2..];
        }
        [first, ..] if first == "super" => {
            while let [first, tail @ ..] = rest
                && first == "super"
            {
                file.pop()?;
                rest = tail;
            }
        }
        [first, ..] if first == "self" => rest = &path[1..],
        [first, ..] => {
            // Other paths must begin with a child file; else they lead out of the module.
            let mut child = own.to_vec();
            child.push(first.clone());
            files.get(&child)?;
        }
        [] => return None,
    }
    for name in rest {
        file.push(name.clone());
        if !files.contains_key(&file) {
            file.pop();
            break;
        }
    }
    files.contains_key(&file).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(texts: &[(&str, &str)]) -> Vec<Source> {
        let sources = texts.iter();
        sources
            .map(|(path, text)| Source::new(&format!("host/src/agent/{path}"), text))
            .collect()
    }

    fn circle(texts: &[(&str, &str)]) -> Vec<String> {
        check("host/src/agent", &sources(texts))
    }

    #[test]
    fn files_that_import_each_other_are_found_in_every_spelling() {
        let back = ("b.rs", "use super::a::A;");
        for text in [
            "use super::b::B;",
            "use crate::agent::b::B;",
            "use crate::{agent::b::B, event::Event};",
            "use super::{\n    b::{B, C as D},\n};",
            "pub(super) use super::b::*;",
            "fn f() -> super::b::B {}",
        ] {
            assert_eq!(circle(&[("a.rs", text), back]).len(), 2, "{text}");
        }
        let through_three = [
            ("a.rs", "use super::c::x::X;"),
            ("c/mod.rs", "mod x;"),
            ("c/x.rs", "use super::super::b::B;"),
            back,
        ];
        assert_eq!(circle(&through_three).len(), 3);
        let with_folder = [
            ("c/mod.rs", "pub use x::X;"),
            ("c/x.rs", "use crate::agent::c::Y;"),
        ];
        assert_eq!(circle(&with_folder).len(), 2);
    }

    #[test]
    fn imports_in_one_direction_and_those_of_tests_are_no_circle() {
        let fine = [
            ("mod.rs", "mod a;\nmod b;\npub use a::A;"),
            ("a.rs", "use super::b::B;\npub(in crate::agent) fn f() {}"),
            (
                "b.rs",
                "// use super::a::A;\n\n#[cfg(test)]\nmod tests { use super::a::A; }",
            ),
            ("c/mod.rs", "mod x;"),
            ("c/x.rs", "use crate::agent::c::y::Y;"),
            ("c/y.rs", "use crate::event::a::A;"),
        ];
        assert_eq!(circle(&fine), Vec::<String>::new());
    }

    #[test]
    fn a_type_in_too_many_files_is_found() {
        let texts = [
            ("a.rs", "impl<'a> Turn<'a> {"),
            ("b.rs", "impl Turn<'_> {"),
            ("c.rs", "impl Drop for Turn<'_> {"),
        ];
        let sources = sources(&texts);
        assert!(scattered("host/src/agent", &sources, 2).is_empty());
        assert_eq!(
            scattered("host/src/agent", &sources, 1),
            ["`Turn` has `impl` blocks in 2 files"]
        );
    }
}
