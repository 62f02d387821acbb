//! Derives the skill of a Rust crate: its modules with public items and docs, its features and
//! examples.
//!
//! `read` builds an outline of the crate from its sources without expanding macros, and `pages`
//! renders it. `SKILL.md` has the introduction, features and a list of modules; each module has a
//! page in `references`.

mod attributes;
mod impls;
mod items;
mod pages;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bundle::SkillDraft;
use super::markdown::{
    MarkdownBlockKind, first_paragraph, first_rust_code_block, first_sentence_within_limit,
    sanitize_docs_markdown, sanitized_first_sentence,
};
use super::text::{
    code_span, end_with_full_stop, fence_code, skill_slug, to_markdown_line, unused_page_name,
};
use super::wit::{WitFiles, WitInterfacesForBindings};
use super::{MAX_ENTRIES_PER_LIST, MAX_README_EXCERPT_BYTES};
pub(crate) use read::outline_crate;

/// Maximum length of a line about an item or module, in bytes.
const MAX_ITEM_LINE_BYTES: usize = 240;

/// Maximum size of the docs of a crate, a module or an item, in bytes.
const MAX_ITEM_DOCS_BYTES: usize = 12 << 10;

/// Maximum length of a code example in `SKILL.md`, in lines.
const MAX_SKILL_EXAMPLE_LINES: usize = 40;

/// Maximum number of item names in one line of the skill.
const MAX_NAMES_PER_LINE: usize = 10;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CrateFiles {
    pub(crate) name: String,
    /// Path of the crate's root file, such as `src/lib.rs`.
    pub(crate) root: String,
    /// Texts of the source files, by path. The components of a path are separated by `/`.
    pub(crate) texts: BTreeMap<String, String>,
    /// WIT files of the package, from which a macro may generate modules.
    pub(crate) wit: Option<WitFiles>,
}

/// Public modules and items of a crate, for readers of its docs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CrateOutline {
    name: String,
    /// Public modules of the crate; the root module is first.
    modules: Vec<ModuleOutline>,
    /// Notes for the user about parts of the crate that could not be resolved.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
struct ModuleOutline {
    path: String,
    docs: String,
    /// `cfg` conditions under which the module is compiled.
    conditions: Vec<String>,
    items: Vec<RustItemOutline>,
    /// Names that the module reexports, but whose items are described on another page or defined in
    /// another crate; keyed by the path that they come from.
    reexports: BTreeMap<String, ReexportOutline>,
    /// Names of the macros that generate the whole module; `None` if it is written in the source.
    made_by: Option<String>,
    /// Path of a generated module, relative to the module that contains the macro call.
    made_path: Vec<String>,
    /// WIT interface from which the module is generated, as Markdown.
    wit: Option<String>,
    /// Types that macros generate, by name. Their outlines contain only the traits and methods that
    /// the source adds outside the macros.
    made: BTreeMap<String, MacroGeneratedTypeOutline>,
    /// Source texts of the macros that generate public items, and of the calls of these macros.
    sources: Vec<MacroSourceAndDocs>,
    /// Names of macros that generate items here but whose source is not shown.
    makers: BTreeSet<String>,
}

/// Names that a module reexports from one path.
#[derive(Debug, Default, PartialEq)]
struct ReexportOutline {
    /// Names of the macros that generate the items at the path.
    made_by: Option<String>,
    /// Reexported names, each with the conditions (`cfg`) of its reexport; `*` stands for all
    /// names.
    names: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct RustItemOutline {
    kind: String,
    name: String,
    docs: String,
    /// `cfg` conditions under which the item is compiled, as written in the source.
    conditions: Vec<String>,
    signature: String,
    implements: BTreeSet<String>,
    impls: Vec<ImplBlockOutline>,
}

/// Traits and methods that the source adds to a type that a macro generates.
#[derive(Clone, Debug, Default, PartialEq)]
struct MacroGeneratedTypeOutline {
    implements: BTreeSet<String>,
    impls: Vec<ImplBlockOutline>,
}

/// Methods and constants of one `impl` block.
#[derive(Clone, Debug, Default, PartialEq)]
struct ImplBlockOutline {
    /// Beginning of the `impl` block with its generic parameters and the trait, if it contains more
    /// than the name of the type.
    header: Option<String>,
    conditions: Vec<String>,
    items: Vec<RustItemOutline>,
}

/// Source text of a macro or of a macro call, with its docs.
#[derive(Clone, Debug, Default, PartialEq)]
struct MacroSourceAndDocs {
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
    /// Adds the WIT interfaces to modules that macros generate from them: `wasi::http::types` is
    /// described by `wasi:http/types`.
    pub(crate) fn add_wit_module_docs(&mut self, interfaces: &WitInterfacesForBindings) {
        for module in &mut self.modules {
            if let [namespace, package, name] = module.made_path.as_slice() {
                module.wit = interfaces.render_interface_text(namespace, package, name);
            }
        }
    }
}

/// Facts about a crate's package, from its manifest and directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CratePackage {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) documentation: Option<String>,
    /// Whether the package has a library, not only programs.
    pub(crate) is_library: bool,
    /// Features, each with the features and dependencies that it enables.
    pub(crate) features: Vec<(String, Vec<String>)>,
    /// Names of the crate's examples, each with the first line of its docs.
    pub(crate) examples: Vec<(String, String)>,
    pub(crate) readme: Option<String>,
}

pub(crate) fn draft_crate_skill(package: &CratePackage, outline: &CrateOutline) -> SkillDraft {
    let mut references = BTreeMap::new();
    let mut body = String::new();
    let root = outline
        .modules
        .iter()
        .find(|module| !module.path.contains("::"));
    let docs = root
        .map(|root| {
            sanitize_docs_markdown(&root.docs, MarkdownBlockKind::Rust, MAX_ITEM_DOCS_BYTES)
        })
        .unwrap_or_default();
    let readme = package.readme.as_deref().map(|text| {
        sanitize_docs_markdown(text, MarkdownBlockKind::Document, MAX_README_EXCERPT_BYTES)
    });
    let readme = readme.filter(|text| !text.is_empty());
    body.push_str(&format!(
        "{}\n\n{}",
        crate_introduction(package, &docs, readme.as_deref()),
        format_crate_facts(package, outline)
    ));
    if let Some(example) =
        root.and_then(|root| first_rust_code_block(&root.docs, MAX_SKILL_EXAMPLE_LINES))
    {
        body.push_str(&format!("## Example\n\n{}\n", fence_code("rust", &example)));
    }
    pages::write_module_pages(outline, &mut body, &mut references);
    write_examples_and_readme(package, readme, &mut body, &mut references);
    SkillDraft {
        name: skill_slug(&package.name).unwrap_or_else(|| "crate".to_owned()),
        package: package.name.clone(),
        version: package.version.clone(),
        license: package.license.clone(),
        description: describe_crate(package, &docs),
        title: match &package.version {
            Some(version) => format!(
                "Crate {} {}",
                truncate_to_one_line(&package.name),
                truncate_to_one_line(version)
            ),
            None => format!("Crate {}", truncate_to_one_line(&package.name)),
        },
        body,
        references,
        ..SkillDraft::default()
    }
}

fn truncate_to_one_line(text: &str) -> String {
    to_markdown_line(text, 120)
}

fn describe_crate(package: &CratePackage, docs: &str) -> String {
    let what = package
        .description
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let what = what.map_or_else(|| first_sentence_within_limit(docs, 600), str::to_owned);
    let what = rind_lib::text::escape_and_truncate_line(
        &what.split_whitespace().collect::<Vec<_>>().join(" "),
        600,
    );
    let name = &package.name;
    let when = match package.is_library {
        true => format!("Use when writing or reading Rust code that uses the crate {name}."),
        false => format!("Use when working with the program {name} or its source."),
    };
    rind_lib::text::escape_and_truncate_line(
        format!("{} {when}", end_with_full_stop(&what)).trim(),
        1000,
    )
}

/// Returns the first paragraph of the docs, otherwise of the README, otherwise the description.
fn crate_introduction(package: &CratePackage, docs: &str, readme: Option<&str>) -> String {
    let found = first_paragraph(docs).or_else(|| readme.and_then(first_paragraph));
    found.map_or_else(
        || {
            let description = package.description.as_deref().unwrap_or_default();
            to_markdown_line(description, MAX_ITEM_LINE_BYTES * 2)
        },
        str::to_owned,
    )
}

fn format_crate_facts(package: &CratePackage, outline: &CrateOutline) -> String {
    let mut facts = String::new();
    if package.is_library && outline.name != package.name {
        let name = code_span(&outline.name, 120);
        facts.push_str(&format!("- In Rust it is called {name}.\n"));
    }
    if let Some(version) = &package.rust_version {
        facts.push_str(&format!(
            "- It needs Rust {} or later.\n",
            truncate_to_one_line(version)
        ));
    }
    let is_address =
        |text: &&String| text.starts_with("https://") && !text.contains(char::is_whitespace);
    if let Some(url) = package.documentation.as_ref().filter(is_address) {
        facts.push_str(&format!("- Documentation: {}\n", truncate_to_one_line(url)));
    }
    if let Some(url) = package.repository.as_ref().filter(is_address) {
        facts.push_str(&format!("- Source: {}\n", truncate_to_one_line(url)));
    }
    if !facts.is_empty() {
        facts.push('\n');
    }
    if !package.features.is_empty() {
        facts.push_str("## Features\n\n");
        for (name, enables) in package.features.iter().take(MAX_ENTRIES_PER_LIST) {
            let all: Vec<String> = enables
                .iter()
                .take(MAX_NAMES_PER_LINE)
                .map(|name| code_span(name, 120))
                .collect();
            let turns_on = match (name.as_str(), all.as_slice()) {
                (_, []) => String::new(),
                ("default", _) => format!(": on by default; turns on {}", all.join(", ")),
                _ => format!(": turns on {}", all.join(", ")),
            };
            facts.push_str(&format!("- {}{turns_on}\n", code_span(name, 120)));
        }
        facts.push('\n');
    }
    facts
}

fn write_examples_and_readme(
    package: &CratePackage,
    readme: Option<String>,
    body: &mut String,
    references: &mut BTreeMap<String, String>,
) {
    if !package.examples.is_empty() {
        body.push_str("## Examples in its source\n\nIn its folder `examples`:\n\n");
        for (name, about) in package.examples.iter().take(MAX_ENTRIES_PER_LIST) {
            let about =
                sanitized_first_sentence(about, MarkdownBlockKind::Plain, MAX_ITEM_LINE_BYTES);
            let colon = if about.is_empty() { "" } else { ": " };
            body.push_str(&format!("- {}{colon}{about}\n", code_span(name, 120)));
        }
        body.push('\n');
    }
    if let Some(readme) = readme {
        let file = unused_page_name("readme", references);
        body.push_str(&format!(
            "## More\n\n- [references/{file}](references/{file}): the beginning of its README\n"
        ));
        references.insert(
            file,
            format!(
                "# README of the crate {}\n\n{readme}",
                truncate_to_one_line(&package.name)
            ),
        );
    }
}
