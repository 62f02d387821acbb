//! The skill of a Rust crate: its modules with public items and docs, its features and examples.

mod items;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bundle::{Draft, SourceHash};
use super::markdown::{Kind, first_example, first_line, first_paragraph, prose, sentence_line};
use super::text::{code, fenced, line, slug};
pub(crate) use read::outline;

/// Longest line about an item or module, in bytes.
const MAX_LINE_BYTES: usize = 240;

/// Longest docs of a crate or module, and of one item, in bytes.
const MAX_DOCS_BYTES: usize = 12 << 10;

/// Longest part of a README that is kept, in bytes.
const MAX_README_BYTES: usize = 12 << 10;

/// Longest example in `SKILL.md`, in lines.
const MAX_EXAMPLE_LINES: usize = 40;

/// Most modules and examples that are listed.
const MAX_LISTED: usize = 120;

/// Most names that stand in one line.
const MAX_NAMES: usize = 10;

/// Sources of a crate.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CrateFiles {
    /// Name of the crate.
    pub(crate) name: String,
    /// Path of the file that the crate begins with.
    pub(crate) root: String,
    /// Texts by path, with `/`.
    pub(crate) texts: BTreeMap<String, String>,
}

/// A crate as a reader of its docs sees it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CrateOutline {
    /// Public modules, the root first.
    modules: Vec<ModuleOutline>,
    /// Things that could not be followed.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct ModuleOutline {
    path: String,
    docs: String,
    items: Vec<ItemOutline>,
    /// Names of items that are described elsewhere, or not in this crate, by the path of where they are from; `*` is all names.
    reexports: BTreeMap<String, BTreeSet<String>>,
    /// Macros that make items here, which are not expanded.
    makers: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ItemOutline {
    kind: String,
    name: String,
    docs: String,
    /// Cargo feature without which it is not there.
    feature: Option<String>,
    signature: String,
    methods: Vec<ItemOutline>,
}

impl ItemOutline {
    fn is_type(&self) -> bool {
        matches!(self.kind.as_str(), "struct" | "enum" | "union")
    }
}

impl ModuleOutline {
    fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.reexports.is_empty()
            && self.docs.is_empty()
            && self.makers.is_empty()
    }
}

/// The package of a crate, from its manifest and folder.
#[derive(Debug, Default)]
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

/// Derives the skill of a crate.
pub(crate) fn draft(package: &CratePackage, outline: &CrateOutline, hash: &SourceHash) -> Draft {
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
        facts(package)
    ));
    if let Some(example) = root.and_then(|root| first_example(&root.docs, MAX_EXAMPLE_LINES)) {
        body.push_str(&format!("## Example\n\n{}\n", fenced("rust", &example)));
    }
    modules(outline, &mut body, &mut references);
    more(package, readme, &mut body, &mut references);
    Draft {
        name: slug(&package.name).unwrap_or_else(|| "crate".to_owned()),
        package: package.name.clone(),
        version: package.version.clone(),
        source_hash: hash.text(),
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
    let stop = if what.is_empty() || what.ends_with(['.', '!', '?', '…']) {
        ""
    } else {
        "."
    };
    let name = &package.name;
    let when = match package.is_library {
        true => format!("Use when writing or reading Rust code that uses the crate {name}."),
        false => format!("Use when working with the program {name} or its source."),
    };
    crate::text::clean(format!("{what}{stop} {when}").trim(), 1000)
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

fn facts(package: &CratePackage) -> String {
    let mut facts = String::new();
    if package.is_library {
        let name = package.name.replace('-', "_");
        if name != package.name {
            facts.push_str(&format!("- In Rust it is called {}.\n", code(&name, 120)));
        }
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

fn modules(outline: &CrateOutline, body: &mut String, references: &mut BTreeMap<String, String>) {
    if outline.modules.is_empty() {
        return;
    }
    body.push_str("## Modules\n\nSignatures and docs are in the file of each.\n\n");
    for (at, module) in outline.modules.iter().enumerate() {
        let file = file_of(&module.path, references);
        let docs = prose(&module.docs, Kind::Rust, MAX_DOCS_BYTES);
        if at < MAX_LISTED {
            body.push_str(&module_line(module, &docs, &file));
        }
        references.insert(file, page(module, &docs));
    }
    if let Some(n) = outline
        .modules
        .len()
        .checked_sub(MAX_LISTED)
        .filter(|n| *n > 0)
    {
        body.push_str(&format!(
            "- {n} more, whose files are in the folder `references`\n"
        ));
    }
    body.push('\n');
}

fn module_line(module: &ModuleOutline, docs: &str, file: &str) -> String {
    let about = match module.path.contains("::") {
        // The introduction has said it.
        false => "the root of the crate".to_owned(),
        true => sentence_line(docs, MAX_LINE_BYTES)
            .trim_end_matches('.')
            .to_owned(),
    };
    let mut parts = Vec::new();
    let names: Vec<&str> = module.items.iter().map(|item| item.name.as_str()).collect();
    parts.extend(Some(shortened(&names)).filter(|names| !names.is_empty()));
    let n_other: usize = module.reexports.values().map(BTreeSet::len).sum();
    match module.path.contains("::") {
        false => parts.extend(module.reexports.iter().map(|(from, names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match names.as_slice() {
                ["*"] => format!("everything of {}", origin(from)),
                names => format!("from {}: {}", origin(from), shortened(names)),
            }
        })),
        // What is named in passing is for the page.
        true if parts.is_empty() && n_other > 0 => {
            parts.push(format!("{} from elsewhere", super::count(n_other, "name")));
        }
        true => {}
    }
    let n_more = parts.len().saturating_sub(MAX_NAMES);
    parts.truncate(MAX_NAMES);
    if n_more > 0 {
        parts.push(format!("and {n_more} more"));
    }
    let names = match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join("; ")),
    };
    let colon = if about.is_empty() { "" } else { ": " };
    format!(
        "- [{}](references/{file}){colon}{about}{names}\n",
        module.path
    )
}

/// Path that names are from; those without one are crates themselves.
fn origin(path: &str) -> String {
    match path {
        "" => "other crates".to_owned(),
        path => code(path, 200),
    }
}

fn shortened(names: &[&str]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| code(name, 120))
        .collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        n => format!("{} and {n} more", shown.join(", ")),
    }
}

/// Name of the file of a module; no two have one.
fn file_of(path: &str, taken: &BTreeMap<String, String>) -> String {
    let inner = path.split_once("::").map_or("crate", |(_, inner)| inner);
    let stem = slug(inner).unwrap_or_else(|| "module".to_owned());
    let mut names =
        std::iter::once(format!("{stem}.md")).chain((2..).map(|n| format!("{stem}-{n}.md")));
    names.find(|name| !taken.contains_key(name)).unwrap_or(stem)
}

fn page(module: &ModuleOutline, docs: &str) -> String {
    let mut page = format!("# {}\n\n", code(&module.path, 200));
    if !docs.is_empty() {
        page.push_str(&format!("{docs}\n\n"));
    }
    const KINDS: [(&str, &str); 12] = [
        ("function", "Functions"),
        ("attribute macro", "Attribute macros"),
        ("derive macro", "Derive macros"),
        ("function-like macro", "Function-like macros"),
        ("macro", "Macros"),
        ("struct", "Structs"),
        ("enum", "Enums"),
        ("union", "Unions"),
        ("trait", "Traits"),
        ("type", "Type aliases"),
        ("constant", "Constants"),
        ("static", "Statics"),
    ];
    for (kind, heading) in KINDS {
        let items: Vec<&ItemOutline> = module
            .items
            .iter()
            .filter(|item| item.kind == kind)
            .collect();
        if items.is_empty() {
            continue;
        }
        page.push_str(&format!("## {heading}\n\n"));
        for item in items {
            item_part(item, "###", &mut page);
            for method in &item.methods {
                item_part(method, "####", &mut page);
            }
        }
    }
    if !module.reexports.is_empty() {
        page.push_str("## Also named here\n\n");
        for (from, names) in &module.reexports {
            let all: Vec<String> = names
                .iter()
                .map(|name| match name.as_str() {
                    "*" => "everything".to_owned(),
                    name => code(name, 120),
                })
                .collect();
            page.push_str(&format!("- From {}: {}\n", origin(from), all.join(", ")));
        }
        page.push('\n');
    }
    if !module.makers.is_empty() {
        let names: Vec<String> = module.makers.iter().map(|name| code(name, 120)).collect();
        page.push_str(&format!(
            "Items that macros make are not listed here: {}.\n",
            names.join(", ")
        ));
    }
    page
}

fn item_part(item: &ItemOutline, level: &str, page: &mut String) {
    page.push_str(&format!(
        "{level} {}\n\n{}\n",
        code(&item.name, 200),
        fenced("rust", &item.signature)
    ));
    if let Some(feature) = &item.feature {
        page.push_str(&format!(
            "With the feature {} only.\n\n",
            code(feature, 120)
        ));
    }
    let docs = prose(&item.docs, Kind::Rust, MAX_DOCS_BYTES);
    if !docs.is_empty() {
        page.push_str(&format!("{docs}\n\n"));
    }
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
        let file = file_of("x::readme", references);
        body.push_str(&format!(
            "## More\n\n- [references/{file}](references/{file}): the beginning of its README\n"
        ));
        references.insert(
            file,
            format!("# README of the crate {}\n\n{readme}", shown(&package.name)),
        );
    }
}
