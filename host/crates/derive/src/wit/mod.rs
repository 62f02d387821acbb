//! Derives the skill of a WIT package or of a component: its worlds, and its interfaces with
//! functions, types and docs.
//!
//! `read` parses the package or component into an outline; this module renders the outline.

mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bundle::SkillDraft;
use super::markdown::{
    MarkdownBlockKind, first_paragraph, first_sentence_within_limit, sanitize_docs_markdown,
};
use super::text::{
    code_span, fence_code, join_names_with_limit, skill_slug, to_markdown_line, unused_page_name,
};
use super::{
    MAX_ENTRIES_PER_LIST, MAX_README_EXCERPT_BYTES, count_unlisted_items, format_number_with_noun,
};
pub(crate) use read::{outline_component_world, read_package};

/// Maximum length of a line about an interface or world, in bytes.
const MAX_ITEM_LINE_BYTES: usize = 300;

/// Maximum size of the documentation of one WIT item, in bytes.
const MAX_ITEM_DOCS_BYTES: usize = 8 << 10;

/// Maximum number of item names in one line of the skill.
const MAX_NAMES_PER_LINE: usize = 12;

/// WIT files of a package and of each of its dependencies. Each file is a pair of path and text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct WitFiles {
    pub main: Vec<(String, String)>,
    pub(crate) dependencies: Vec<Vec<(String, String)>>,
}

impl WitFiles {
    /// Returns the path and text of each WIT file, including those of dependencies.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &(String, String)> {
        self.main.iter().chain(self.dependencies.iter().flatten())
    }
}

/// Worlds and interfaces of a WIT package with their docs, from which the skill is rendered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WitPackageOutline {
    /// Name with namespace, for example `wasi:http`; the file name for a component.
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Whether this is a component, whose interfaces are its exports.
    pub(crate) is_component: bool,
    docs: String,
    worlds: Vec<WitWorldOutline>,
    interfaces: Vec<WitInterfaceOutline>,
}

#[derive(Debug, Default, PartialEq)]
struct WitWorldOutline {
    name: String,
    docs: String,
    imports: Vec<String>,
    exports: Vec<String>,
}

#[derive(Debug, Default, PartialEq)]
struct WitInterfaceOutline {
    name: String,
    docs: String,
    /// Names imported with `use`, by the interface that they come from.
    uses: BTreeMap<String, Vec<String>>,
    types: Vec<WitItemOutline>,
    functions: Vec<WitItemOutline>,
}

#[derive(Debug, Default, PartialEq)]
struct WitItemOutline {
    name: String,
    docs: String,
    text: String,
}

/// Interfaces of the WIT package from which the macro `generate!` generates modules of a crate.
pub(crate) struct WitInterfacesForBindings(WitPackageOutline);

impl WitInterfacesForBindings {
    /// Parses a package.
    ///
    /// # Errors
    /// The files are not valid WIT.
    pub(crate) fn from_wit_files(files: &WitFiles) -> Result<Self, String> {
        read_package(files).map(Self)
    }

    /// Describes an interface, with its names in Rust form; `None` if the package does not have it.
    /// The arguments are the three names in the path of the generated module.
    pub(crate) fn render_interface_text(
        &self,
        namespace: &str,
        package: &str,
        name: &str,
    ) -> Option<String> {
        let outline = &self.0;
        let in_rust = |name: &str| name.replace('-', "_");
        if in_rust(&outline.name) != format!("{namespace}:{package}") {
            return None;
        }
        let mut all = outline.interfaces.iter();
        let interface = all.find(|one| in_rust(&one.name) == name)?;
        let docs = sanitize_docs_markdown(
            &interface.docs,
            MarkdownBlockKind::Plain,
            MAX_ITEM_DOCS_BYTES,
        );
        Some(render_interface_sections(interface, &docs))
    }
}

/// Derives the skill of a package or component. `readme` is the text of the package's README.
pub(crate) fn draft_wit_skill(outline: &WitPackageOutline, readme: Option<&str>) -> SkillDraft {
    let WitPackageOutline { name, version, .. } = outline;
    let kind = if outline.is_component {
        "Component"
    } else {
        "WIT package"
    };
    let mut title = format!("{kind} {}", to_markdown_line(name, 120));
    if let Some(version) = version {
        title.push_str(&format!(" {}", to_markdown_line(version, 120)));
    }
    let mut references = BTreeMap::new();
    let mut body = String::new();
    let docs = sanitize_docs_markdown(&outline.docs, MarkdownBlockKind::Plain, MAX_ITEM_DOCS_BYTES);
    let readme = readme.map(|text| {
        sanitize_docs_markdown(text, MarkdownBlockKind::Document, MAX_README_EXCERPT_BYTES)
    });
    let readme = readme.filter(|text| !text.is_empty());
    let introduction = match docs.is_empty() {
        false => docs,
        true => readme
            .as_deref()
            .and_then(first_paragraph)
            .unwrap_or_default()
            .to_owned(),
    };
    if !introduction.is_empty() {
        body.push_str(&format!("{introduction}\n\n"));
    }
    write_worlds(outline, &mut body, &mut references);
    write_interfaces(outline, &mut body, &mut references);
    if let Some(readme) = readme {
        let file = unused_page_name("readme", &references);
        body.push_str(&format!(
            "\n## More\n\n- [references/{file}](references/{file}): the beginning of its README\n"
        ));
        references.insert(
            file,
            format!("# README of {}\n\n{readme}", to_markdown_line(name, 120)),
        );
    }
    SkillDraft {
        name: skill_slug(name).unwrap_or_else(|| "wit".to_owned()),
        package: name.clone(),
        version: version.clone(),
        description: wit_skill_description(outline, &introduction),
        title,
        body,
        references,
        ..SkillDraft::default()
    }
}

fn wit_skill_description(outline: &WitPackageOutline, introduction: &str) -> String {
    let shown = rind_lib::text::escape_and_truncate_line(&outline.name, 120);
    let what = match first_sentence_within_limit(introduction, MAX_ITEM_LINE_BYTES).as_str() {
        "" if outline.is_component => format!("The component {shown}."),
        "" => {
            let worlds: Vec<&str> = outline.worlds.iter().map(|one| one.name.as_str()).collect();
            let n_interfaces = format_number_with_noun(outline.interfaces.len(), "interface");
            match join_names_with_limit(&worlds, MAX_NAMES_PER_LINE).as_str() {
                "" => format!("The WIT package {shown} with {n_interfaces}."),
                names => {
                    format!("The WIT package {shown} with {n_interfaces} and the worlds {names}.")
                }
            }
        }
        sentence => sentence.to_owned(),
    };
    let when = match outline.is_component {
        true => {
            format!("Use when calling the component {shown}, or when composing it with others.")
        }
        false => format!(
            "Use when writing a component or host that imports or exports {shown}, or when reading its types."
        ),
    };
    rind_lib::text::escape_and_truncate_line(&format!("{what} {when}"), 1000)
}

fn write_worlds(
    outline: &WitPackageOutline,
    body: &mut String,
    references: &mut BTreeMap<String, String>,
) {
    if outline.worlds.is_empty() {
        return;
    }
    body.push_str("## Worlds\n\n");
    let mut page = format!("# Worlds of {}\n", to_markdown_line(&outline.name, 120));
    for world in &outline.worlds {
        let docs =
            sanitize_docs_markdown(&world.docs, MarkdownBlockKind::Plain, MAX_ITEM_DOCS_BYTES);
        let about = first_sentence_within_limit(&docs, MAX_ITEM_LINE_BYTES);
        let counts = format!(
            "{}, {}",
            format_number_with_noun(world.imports.len(), "import"),
            format_number_with_noun(world.exports.len(), "export")
        );
        let colon = if about.is_empty() { "" } else { ": " };
        body.push_str(&format!(
            "- {} ({counts}){colon}{about}\n",
            code_span(&world.name, 120)
        ));
        page.push_str(&format!("\n## {}\n", code_span(&world.name, 120)));
        if !docs.is_empty() {
            page.push_str(&format!("\n{docs}\n"));
        }
        for (what, names) in [("Imports", &world.imports), ("Exports", &world.exports)] {
            if names.is_empty() {
                continue;
            }
            page.push_str(&format!("\n{what}:\n\n"));
            names
                .iter()
                .for_each(|name| page.push_str(&format!("- {}\n", code_span(name, 400))));
        }
    }
    references.insert("worlds.md".to_owned(), page);
    body.push_str(
        "\nWhat each imports and exports: [references/worlds.md](references/worlds.md).\n\n",
    );
}

fn write_interfaces(
    outline: &WitPackageOutline,
    body: &mut String,
    references: &mut BTreeMap<String, String>,
) {
    if outline.interfaces.is_empty() {
        return;
    }
    let heading = if outline.is_component {
        "Exported interfaces"
    } else {
        "Interfaces"
    };
    body.push_str(&format!(
        "## {heading}\n\nThe functions and types of each interface, with their docs, are in its file.\n\n"
    ));
    for (at, interface) in outline.interfaces.iter().enumerate() {
        let file = unused_page_name(&interface.name, references);
        let docs = sanitize_docs_markdown(
            &interface.docs,
            MarkdownBlockKind::Plain,
            MAX_ITEM_DOCS_BYTES,
        );
        let about = first_sentence_within_limit(&docs, MAX_ITEM_LINE_BYTES);
        let functions: Vec<&str> = interface
            .functions
            .iter()
            .map(|f| f.name.as_str())
            .collect();
        let is_resource = |item: &&WitItemOutline| item.text.starts_with("resource ");
        let resources: Vec<&str> = interface
            .types
            .iter()
            .filter(is_resource)
            .map(|ty| ty.name.as_str())
            .collect();
        let parts = [("function", functions), ("resource", resources)];
        let parts = parts
            .into_iter()
            .filter_map(|(what, names)| match names.as_slice() {
                [] => None,
                [one] => Some(format!("{what} {one}")),
                names => Some(format!(
                    "{what}s {}",
                    join_names_with_limit(names, MAX_NAMES_PER_LINE)
                )),
            });
        let parts: Vec<String> = parts.collect();
        let has = match parts.is_empty() {
            true => format_number_with_noun(interface.types.len(), "type"),
            false => parts.join("; "),
        };
        if at < MAX_ENTRIES_PER_LIST {
            let colon = if about.is_empty() { "" } else { ": " };
            body.push_str(&format!(
                "- [{}](references/{file}){colon}{about} ({has})\n",
                to_markdown_line(&interface.name, 200).replace(['[', ']'], "")
            ));
        }
        references.insert(file, render_interface_page(interface, &docs));
    }
    if let Some(n) = count_unlisted_items(outline.interfaces.len()) {
        body.push_str(&format!(
            "- {n} more, whose files are in the folder `references`\n"
        ));
    }
}

fn render_interface_page(interface: &WitInterfaceOutline, docs: &str) -> String {
    format!(
        "# Interface {}\n\n{}",
        code_span(&interface.name, 120),
        render_interface_sections(interface, docs)
    )
}

fn render_interface_sections(interface: &WitInterfaceOutline, docs: &str) -> String {
    let mut page = String::new();
    if !docs.is_empty() {
        page.push_str(&format!("{docs}\n\n"));
    }
    for (from, names) in &interface.uses {
        let names: Vec<String> = names.iter().map(|name| code_span(name, 120)).collect();
        page.push_str(&format!(
            "From {}: {}.\n\n",
            code_span(from, 120),
            names.join(", ")
        ));
    }
    for (heading, items) in [
        ("Functions", &interface.functions),
        ("Types", &interface.types),
    ] {
        if items.is_empty() {
            continue;
        }
        page.push_str(&format!("## {heading}\n\n"));
        for item in items {
            page.push_str(&format!("### {}\n\n", code_span(&item.name, 120)));
            let docs =
                sanitize_docs_markdown(&item.docs, MarkdownBlockKind::Plain, MAX_ITEM_DOCS_BYTES);
            if !docs.is_empty() {
                page.push_str(&format!("{docs}\n\n"));
            }
            page.push_str(&format!("{}\n", fence_code("wit", &item.text)));
        }
    }
    page
}
