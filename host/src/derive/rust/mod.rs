//! The skill of a Rust crate: its modules with public items and docs, its features and examples.

mod attributes;
mod impls;
mod items;
mod pages;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bundle::Draft;
use super::markdown::{Kind, first_example, first_line, first_paragraph, prose, sentence_line};
use super::text::{as_sentence, code, fenced, line, page_name, slug};
use super::wit::{Interfaces, WitFiles};
use super::{MAX_LISTED, MAX_README_BYTES};
pub(crate) use read::outline;

/// Longest line about an item or module, in bytes.
const MAX_LINE_BYTES: usize = 240;

/// Longest docs of a crate or module, and of one item, in bytes.
const MAX_DOCS_BYTES: usize = 12 << 10;

/// Longest example in `SKILL.md`, in lines.
const MAX_EXAMPLE_LINES: usize = 40;

/// Most names that stand in one line.
const MAX_NAMES: usize = 10;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CrateFiles {
    pub(crate) name: String,
    /// Path of the file that the crate begins with.
    pub(crate) root: String,
    /// Texts by path, with `/`.
    pub(crate) texts: BTreeMap<String, String>,
    /// WIT of the package, from which a macro may make modules.
    pub(crate) wit: Option<WitFiles>,
}

/// A crate as a reader of its docs sees it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CrateOutline {
    name: String,
    /// Public modules, the root first.
    modules: Vec<ModuleOutline>,
    /// Things that could not be followed.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
struct ModuleOutline {
    path: String,
    docs: String,
    /// Conditions under which it is compiled.
    conditions: Vec<String>,
    items: Vec<ItemOutline>,
    /// Names of items that are described elsewhere, or not in this crate, by the path of where they are from.
    reexports: BTreeMap<String, Reexports>,
    /// Macros that make the whole module.
    made_by: Option<String>,
    /// Path of a module that macros make, below the module in which they do.
    made_path: Vec<String>,
    /// The interface of WIT that they make it from, as Markdown.
    wit: Option<String>,
    /// Types that macros make, with what the source gives them.
    made: BTreeMap<String, TypeOutline>,
    /// Macros that make public items, and calls of them.
    sources: Vec<SourceOutline>,
    /// Macros that make items here and are not shown.
    makers: BTreeSet<String>,
}

/// Names from one place.
#[derive(Debug, Default, PartialEq)]
struct Reexports {
    /// Macros that make that place.
    made_by: Option<String>,
    /// Names with their conditions; `*` is all names.
    names: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ItemOutline {
    kind: String,
    name: String,
    docs: String,
    /// Conditions under which it is compiled, as they are written.
    conditions: Vec<String>,
    signature: String,
    implements: BTreeSet<String>,
    impls: Vec<ImplOutline>,
}

/// Facts about a type that a macro makes.
#[derive(Clone, Debug, Default, PartialEq)]
struct TypeOutline {
    implements: BTreeSet<String>,
    impls: Vec<ImplOutline>,
}

/// Methods and constants of one `impl`.
#[derive(Clone, Debug, Default, PartialEq)]
struct ImplOutline {
    /// First line, if that says more than the name of the type.
    header: Option<String>,
    conditions: Vec<String>,
    items: Vec<ItemOutline>,
}

/// A macro or its call, as the source has it.
#[derive(Clone, Debug, Default, PartialEq)]
struct SourceOutline {
    docs: String,
    text: String,
}

impl ModuleOutline {
    fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.reexports.is_empty()
            && self.docs.is_empty()
            && self.made.is_empty()
            && self.sources.is_empty()
            && self.makers.is_empty()
    }
}

impl CrateOutline {
    /// Describes modules that macros make from WIT by the interfaces of that: `wasi::http::types` by `wasi:http/types`.
    pub(crate) fn describe_made(&mut self, interfaces: &Interfaces) {
        for module in &mut self.modules {
            if let [namespace, package, name] = module.made_path.as_slice() {
                module.wit = interfaces.text(namespace, package, name);
            }
        }
    }
}

/// The package of a crate, from its manifest and folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CratePackage {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) documentation: Option<String>,
    /// Whether it has a library, and not programs alone.
    pub(crate) is_library: bool,
    /// Features, each with what it turns on.
    pub(crate) features: Vec<(String, Vec<String>)>,
    /// Names of examples with the first line of their docs.
    pub(crate) examples: Vec<(String, String)>,
    pub(crate) readme: Option<String>,
}

pub(crate) fn draft(package: &CratePackage, outline: &CrateOutline) -> Draft {
    let mut references = BTreeMap::new();
    let mut body = String::new();
    let root = outline
        .modules
        .iter()
        .find(|module| !module.path.contains("::"));
    let docs = root
        .map(|root| prose(&root.docs, Kind::Rust, MAX_DOCS_BYTES))
        .unwrap_or_default();
    let readme = package
        .readme
        .as_deref()
        .map(|text| prose(text, Kind::Document, MAX_README_BYTES));
    let readme = readme.filter(|text| !text.is_empty());
    body.push_str(&format!(
        "{}\n\n{}",
        introduction(package, &docs, readme.as_deref()),
        facts(package, outline)
    ));
    if let Some(example) = root.and_then(|root| first_example(&root.docs, MAX_EXAMPLE_LINES)) {
        body.push_str(&format!("## Example\n\n{}\n", fenced("rust", &example)));
    }
    pages::modules(outline, &mut body, &mut references);
    more(package, readme, &mut body, &mut references);
    Draft {
        name: slug(&package.name).unwrap_or_else(|| "crate".to_owned()),
        package: package.name.clone(),
        version: package.version.clone(),
        license: package.license.clone(),
        description: description(package, &docs),
        title: match &package.version {
            Some(version) => format!("Crate {} {}", shown(&package.name), shown(version)),
            None => format!("Crate {}", shown(&package.name)),
        },
        body,
        references,
        ..Draft::default()
    }
}

fn shown(text: &str) -> String {
    line(text, 120)
}

fn description(package: &CratePackage, docs: &str) -> String {
    let what = package
        .description
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let what = what.map_or_else(|| sentence_line(docs, 600), str::to_owned);
    let what = crate::text::clean(&what.split_whitespace().collect::<Vec<_>>().join(" "), 600);
    let name = &package.name;
    let when = match package.is_library {
        true => format!("Use when writing or reading Rust code that uses the crate {name}."),
        false => format!("Use when working with the program {name} or its source."),
    };
    crate::text::clean(format!("{} {when}", as_sentence(&what)).trim(), 1000)
}

/// The first paragraph of the docs, or else of the README, or else the description.
fn introduction(package: &CratePackage, docs: &str, readme: Option<&str>) -> String {
    let found = first_paragraph(docs).or_else(|| readme.and_then(first_paragraph));
    found.map_or_else(
        || {
            let description = package.description.as_deref().unwrap_or_default();
            line(description, MAX_LINE_BYTES * 2)
        },
        str::to_owned,
    )
}

fn facts(package: &CratePackage, outline: &CrateOutline) -> String {
    let mut facts = String::new();
    if package.is_library && outline.name != package.name {
        let name = code(&outline.name, 120);
        facts.push_str(&format!("- In Rust it is called {name}.\n"));
    }
    if let Some(version) = &package.rust_version {
        facts.push_str(&format!("- It needs Rust {} or later.\n", shown(version)));
    }
    let is_address =
        |text: &&String| text.starts_with("https://") && !text.contains(char::is_whitespace);
    if let Some(url) = package.documentation.as_ref().filter(is_address) {
        facts.push_str(&format!("- Documentation: {}\n", shown(url)));
    }
    if let Some(url) = package.repository.as_ref().filter(is_address) {
        facts.push_str(&format!("- Source: {}\n", shown(url)));
    }
    if !facts.is_empty() {
        facts.push('\n');
    }
    if !package.features.is_empty() {
        facts.push_str("## Features\n\n");
        for (name, enables) in package.features.iter().take(MAX_LISTED) {
            let all: Vec<String> = enables
                .iter()
                .take(MAX_NAMES)
                .map(|name| code(name, 120))
                .collect();
            let turns_on = match (name.as_str(), all.as_slice()) {
                (_, []) => String::new(),
                ("default", _) => format!(": on unless turned off, {}", all.join(", ")),
                _ => format!(": turns on {}", all.join(", ")),
            };
            facts.push_str(&format!("- {}{turns_on}\n", code(name, 120)));
        }
        facts.push('\n');
    }
    facts
}

fn more(
    package: &CratePackage,
    readme: Option<String>,
    body: &mut String,
    references: &mut BTreeMap<String, String>,
) {
    if !package.examples.is_empty() {
        body.push_str("## Examples in its source\n\nIn its folder `examples`:\n\n");
        for (name, about) in package.examples.iter().take(MAX_LISTED) {
            let about = first_line(about, Kind::Plain, MAX_LINE_BYTES);
            let colon = if about.is_empty() { "" } else { ": " };
            body.push_str(&format!("- {}{colon}{about}\n", code(name, 120)));
        }
        body.push('\n');
    }
    if let Some(readme) = readme {
        let file = page_name("readme", references);
        body.push_str(&format!(
            "## More\n\n- [references/{file}](references/{file}): the beginning of its README\n"
        ));
        references.insert(
            file,
            format!("# README of the crate {}\n\n{readme}", shown(&package.name)),
        );
    }
}
