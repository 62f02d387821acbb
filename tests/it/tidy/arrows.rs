//! Checks the dependencies ("arrows") between the modules of the host. The layers are the groups of
//! modules in `host/src/lib.rs`, from the lowest to the highest.

use super::tree::Source;

/// Names of the modules in each layer, lowest layer first.
pub(super) struct Layers(Vec<Vec<String>>);

impl Layers {
    pub(super) fn parse(lib: &str) -> Self {
        let groups = lib.split("\n\n").map(|group| {
            let names = group.lines().filter_map(|line| {
                let line = line.trim();
                let inner = line.strip_prefix("pub mod ");
                let inner = inner.or_else(|| line.strip_prefix("pub(crate) mod "));
                inner?.strip_suffix(';')
            });
            names.map(str::to_owned).collect::<Vec<_>>()
        });
        Self(groups.filter(|group| !group.is_empty()).collect())
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    fn of(&self, module: &str) -> Option<usize> {
        self.0
            .iter()
            .position(|layer| layer.iter().any(|name| name == module))
    }
}

/// A mention of one module in another.
pub(super) struct Arrow {
    from: String,
    to: String,
    at: String,
}

/// Returns the top module of a file of the host, and `None` for `lib.rs` and `main.rs`.
pub(super) fn module_of(path: &str) -> Option<String> {
    let path = path.strip_prefix("host/src/")?;
    let module = path.split('/').next()?.trim_end_matches(".rs");
    (!matches!(module, "lib" | "main")).then(|| module.to_owned())
}

/// Returns the number of `super::` that lead from a file to the root of the crate.
fn depth_of(path: &str) -> usize {
    let path = path.trim_start_matches("host/src/");
    path.trim_end_matches("/mod.rs").split('/').count()
}

/// Finds the mentions of other top modules in a file: `crate::x`, `crate::{x, y}`, and as many
/// `super::` as lead to the root. Links in docs count: a module that must not depend on another
/// must not mention it either.
pub(super) fn of(source: &Source, layers: &Layers) -> Vec<Arrow> {
    let Some(from) = module_of(&source.path) else {
        return Vec::new();
    };
    let mut named: Vec<(usize, &str)> = Vec::new();
    for (at, _) in source.text.match_indices("crate::") {
        let rest = &source.text[at + "crate::".len()..];
        named.extend(first_names(rest).into_iter().map(|name| (at, name)));
    }
    for (at, _) in source.text.match_indices("super::") {
        if source.text[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &source.text[at..];
        let mut n_up = 0;
        while let Some(shorter) = rest.strip_prefix("super::") {
            (rest, n_up) = (shorter, n_up + 1);
        }
        if n_up >= depth_of(&source.path) {
            named.extend(first_names(rest).into_iter().map(|name| (at, name)));
        }
    }
    named
        .into_iter()
        .filter(|(_, to)| layers.of(to).is_some() && *to != from)
        .map(|(at, to)| Arrow {
            from: from.clone(),
            to: to.to_owned(),
            at: format!(
                "{}:{}",
                source.path,
                source.text[..at].lines().count().max(1)
            ),
        })
        .collect()
}

/// Returns the name at the start of `text`, or the first segment of each path if `text` starts with
/// a list in braces.
fn first_names(text: &str) -> Vec<&str> {
    let name = |text: &'_ str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        end.unwrap_or(text.len())
    };
    let Some(list) = text.strip_prefix('{') else {
        return vec![&text[..name(text)]];
    };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = list[start..at].trim_start();
                names.push(&item[..name(item)]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Reports mentions of a module that is not in a lower layer. Another module of the same layer
/// counts as a violation.
pub(super) fn check(arrows: &[Arrow], layers: &Layers) -> Vec<String> {
    let wrong = arrows
        .iter()
        .filter(|arrow| layers.of(&arrow.to) >= layers.of(&arrow.from));
    let findings = wrong.map(|Arrow { from, to, at }| {
        format!("{at}: `{from}` names `{to}`, which is not in a layer below it")
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! Docs.\n\n// Data.\npub mod clock;\npub mod message;\n\npub mod point;\n\npub mod agent;\npub mod plugin;\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let layers = Layers::parse(LIB);
        check(&of(&Source::new(path, text), &layers), &layers)
    }

    #[test]
    fn arrows_to_lower_layers_are_fine() {
        let text = "use crate::{clock, message::{Message, Role}};\nuse super::super::point::Point;";
        assert!(findings("host/src/plugin/load.rs", text).is_empty());
        assert!(findings("host/src/plugin/load.rs", "use super::agent::X;").is_empty());
        assert!(findings("host/src/main.rs", "use crate::plugin;").is_empty());
    }

    #[test]
    fn arrows_up_and_sideways_are_found_in_every_spelling() {
        let table = [
            (
                "host/src/point/mod.rs",
                "\n\nuse crate::plugin::X;",
                "host/src/point/mod.rs:3: `point` names `plugin`",
            ),
            (
                "host/src/point/a.rs",
                "use crate::{\n    clock,\n    message::{A, B},\n    agent,\n};",
                "`point` names `agent`",
            ),
            (
                "host/src/agent/a.rs",
                "let x = crate::plugin::load();",
                "`agent` names `plugin`",
            ),
            (
                "host/src/agent/a.rs",
                "use super::super::plugin::X;",
                "`agent` names `plugin`",
            ),
            (
                "host/src/agent/mod.rs",
                "use super::plugin::X;",
                "`agent` names `plugin`",
            ),
            (
                "host/src/plugin/a/b.rs",
                "use super::super::super::agent;",
                "`plugin` names `agent`",
            ),
            (
                "host/src/clock.rs",
                "/// See [`crate::message`].",
                "`clock` names `message`",
            ),
        ];
        for (path, text, expected) in table {
            let findings = findings(path, text);
            assert_eq!(findings.len(), 1, "{path}: {text}: {findings:?}");
            assert!(findings[0].contains(expected), "{findings:?}");
        }
    }
}
