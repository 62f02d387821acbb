//! Renders the pages of a crate: one per module, with its items.

use std::collections::BTreeMap;

use super::super::format_number_with_noun;
use super::super::markdown::{
    MarkdownBlockKind, first_sentence_within_limit, sanitize_docs_markdown,
};
use super::super::text::{
    code_span, fence_code, join_names_with_limit, to_markdown_line, unused_page_name,
};
use super::attributes::CFG_CONDITION_PREFIX;
use super::{
    CrateOutline, ImplBlockOutline, MAX_ITEM_DOCS_BYTES, MAX_ITEM_LINE_BYTES, MAX_NAMES_PER_LINE,
    MacroGeneratedTypeOutline, ModuleOutline, ReexportOutline, RustItemOutline,
};
use crate::{MAX_ENTRIES_PER_LIST, count_unlisted_items};

/// Maximum number of traits that are listed for one type.
const MAX_LISTED_TRAITS_PER_TYPE: usize = 60;

/// Lists the modules in `SKILL.md`, and writes the page of each.
pub(super) fn write_module_pages(
    outline: &CrateOutline,
    body: &mut String,
    references: &mut BTreeMap<String, String>,
) {
    if outline.modules.is_empty() {
        return;
    }
    body.push_str("## Modules\n\nSignatures and docs are in the file of each.\n\n");
    for (at, module) in outline.modules.iter().enumerate() {
        let inner = module.path.split_once("::");
        let file = unused_page_name(inner.map_or("crate", |(_, inner)| inner), references);
        let docs =
            sanitize_docs_markdown(&module.docs, MarkdownBlockKind::Rust, MAX_ITEM_DOCS_BYTES);
        if at < MAX_ENTRIES_PER_LIST {
            body.push_str(&format_module_line(module, &docs, &file));
        }
        references.insert(file, render_module_page(module, &docs));
    }
    if let Some(n) = count_unlisted_items(outline.modules.len()) {
        body.push_str(&format!(
            "- {n} more, whose files are in the folder `references`\n"
        ));
    }
    body.push('\n');
}

fn format_module_line(module: &ModuleOutline, docs: &str, file: &str) -> String {
    let is_root = !module.path.contains("::");
    let about = match (is_root, &module.made_by) {
        // Do not repeat the docs of the root module, which the introduction of the skill shows.
        (true, _) => "the root of the crate".to_owned(),
        (false, Some(made_by)) => match &module.wit {
            Some(wit) => first_sentence_within_limit(wit, MAX_ITEM_LINE_BYTES)
                .trim_end_matches('.')
                .to_owned(),
            None => format!(
                "made by the macro {}",
                code_span(made_by.trim_end_matches('!'), 120)
            ),
        },
        (false, None) => first_sentence_within_limit(docs, MAX_ITEM_LINE_BYTES)
            .trim_end_matches('.')
            .to_owned(),
    };
    let mut parts = Vec::new();
    let items = module.items.iter().map(|item| code_span(&item.name, 120));
    let made = module.made.keys().map(|name| code_span(name, 120));
    let names: Vec<String> = items.chain(made).collect();
    parts.extend(
        Some(join_names_with_limit(&names, MAX_NAMES_PER_LINE)).filter(|names| !names.is_empty()),
    );
    let n_other: usize = module.reexports.values().map(|from| from.names.len()).sum();
    if is_root {
        let from = module.reexports.iter();
        parts.extend(from.map(
            |(origin, from)| match format_reexported_names(from, false) {
                names if names == ["everything"] => {
                    format!("everything of {}", format_reexport_origin(origin))
                }
                names => format!(
                    "from {}: {}",
                    format_reexport_origin(origin),
                    join_names_with_limit(&names, MAX_NAMES_PER_LINE)
                ),
            },
        ));
    } else if parts.is_empty() && n_other > 0 {
        // Only count the names from other modules and crates; the module's page lists them.
        parts.push(format!(
            "{} from elsewhere",
            format_number_with_noun(n_other, "name")
        ));
    }
    let n_more = parts.len().saturating_sub(MAX_NAMES_PER_LINE);
    parts.truncate(MAX_NAMES_PER_LINE);
    if n_more > 0 {
        parts.push(format!("and {n_more} more"));
    }
    let names = match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join("; ")),
    };
    let colon = if about.is_empty() { "" } else { ": " };
    let path = to_markdown_line(&module.path, 200);
    format!("- [{path}](references/{file}){colon}{about}{names}\n")
}

/// Formats the path of the module from which names are reexported; an empty path means other
/// crates.
fn format_reexport_origin(path: &str) -> String {
    match path {
        "" => "other crates".to_owned(),
        path => code_span(path, 200),
    }
}

fn format_reexported_names(from: &ReexportOutline, with_conditions: bool) -> Vec<String> {
    let names = from.names.iter().map(|(name, conditions)| {
        let name = match name.as_str() {
            "*" => "everything".to_owned(),
            name => code_span(name, 120),
        };
        match conditions.is_empty() || !with_conditions {
            true => name,
            false => format!("{name} ({})", describe_cfg_conditions(conditions)),
        }
    });
    names.collect()
}

/// Describes in words the conditions under which an item is compiled.
fn describe_cfg_conditions(conditions: &[String]) -> String {
    let each = conditions.iter().map(|one| {
        let feature = one
            .strip_prefix("feature = \"")
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|name| !name.contains('"'));
        match feature {
            Some(name) => format!("the feature {}", code_span(name, 120)),
            None => code_span(&format!("cfg({one})"), 400),
        }
    });
    format!("with {} only", each.collect::<Vec<_>>().join(" and "))
}

/// Writes the conditions of an item as a sentence, if it has any.
fn write_cfg_conditions(all: &[String], page: &mut String) {
    if !all.is_empty() {
        let words = describe_cfg_conditions(all);
        page.push_str(&format!("W{}.\n\n", words.trim_start_matches('w')));
    }
}

fn render_module_page(module: &ModuleOutline, docs: &str) -> String {
    let mut page = format!("# {}\n\n", code_span(&module.path, 200));
    write_cfg_conditions(&module.conditions, &mut page);
    if let Some(made_by) = &module.made_by {
        let lists = match module.wit {
            Some(_) => {
                "Its types are listed in WIT, from which it makes them: `call-id` is `CallId` in Rust, a record a struct, a variant \
                        an enum."
            }
            None => "No macro is expanded, so that its types are not listed here.",
        };
        page.push_str(&format!(
            "The macro {} makes this module. {lists}\n\n",
            code_span(made_by, 120)
        ));
    }
    if !docs.is_empty() {
        page.push_str(&format!("{docs}\n\n"));
    }
    const ITEM_KIND_HEADINGS: [(&str, &str); 12] = [
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
    for (kind, heading) in ITEM_KIND_HEADINGS {
        let items: Vec<&RustItemOutline> = module
            .items
            .iter()
            .filter(|item| item.kind == kind)
            .collect();
        if items.is_empty() {
            continue;
        }
        page.push_str(&format!("## {heading}\n\n"));
        for item in items {
            write_item(item, "###", &mut page);
            write_traits(item.implements.iter(), &mut page);
            write_impls(&item.impls, &mut page);
        }
    }
    if let Some(wit) = &module.wit {
        page.push_str(wit);
    }
    if !module.made.is_empty() {
        page.push_str("## Methods of types that macros make\n\n");
        for (name, made) in &module.made {
            write_macro_generated_type_section(name, made, &mut page);
        }
    }
    if !module.sources.is_empty() {
        page.push_str(
            "## Macros that make public items\n\nThey are not expanded: read in them what the types that they are called for have.\n\n",
        );
        for one in &module.sources {
            let docs =
                sanitize_docs_markdown(&one.docs, MarkdownBlockKind::Rust, MAX_ITEM_DOCS_BYTES);
            if !docs.is_empty() {
                page.push_str(&format!("{docs}\n\n"));
            }
            page.push_str(&format!("{}\n", fence_code("rust", &one.text)));
        }
    }
    write_reexports(module, &mut page);
    page
}

fn write_reexports(module: &ModuleOutline, page: &mut String) {
    if !module.reexports.is_empty() {
        page.push_str("## Also named here\n\n");
        for (origin, from) in &module.reexports {
            let made_by = match &from.made_by {
                Some(names) => format!(", which the macro {} makes", code_span(names, 120)),
                None => String::new(),
            };
            let names = format_reexported_names(from, true).join(", ");
            page.push_str(&format!(
                "- From {}{made_by}: {names}\n",
                format_reexport_origin(origin)
            ));
        }
        page.push('\n');
    }
    if !module.makers.is_empty() {
        let names: Vec<String> = module
            .makers
            .iter()
            .map(|name| code_span(name, 120))
            .collect();
        page.push_str(&format!(
            "Items that macros make are not listed here: {}.\n",
            names.join(", ")
        ));
    }
}

fn write_macro_generated_type_section(
    name: &str,
    made: &MacroGeneratedTypeOutline,
    page: &mut String,
) {
    page.push_str(&format!("### {}\n\n", code_span(name, 200)));
    write_traits(made.implements.iter(), page);
    write_impls(&made.impls, page);
}

fn write_traits<'a>(traits: impl Iterator<Item = &'a String>, page: &mut String) {
    let names = traits.map(|name| match name.split_once(CFG_CONDITION_PREFIX) {
        Some((name, condition)) => format!(
            "{} (with {})",
            code_span(name, 200),
            code_span(&format!("cfg({condition}"), 400)
        ),
        None => code_span(name, 200),
    });
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        page.push_str(&format!(
            "Implements: {}.\n\n",
            join_names_with_limit(&names, MAX_LISTED_TRAITS_PER_TYPE)
        ));
    }
}

/// Writes methods, below the header of their `impl` if there is one.
fn write_impls(all: &[ImplBlockOutline], page: &mut String) {
    for block in all {
        if let Some(header) = &block.header {
            page.push_str(&format!("In {}:\n\n", code_span(header, 1000)));
        }
        for item in &block.items {
            let mut item = item.clone();
            let own = std::mem::take(&mut item.conditions);
            item.conditions.clone_from(&block.conditions);
            item.conditions.extend(own);
            write_item(&item, "####", page);
        }
    }
}

fn write_item(item: &RustItemOutline, level: &str, page: &mut String) {
    page.push_str(&format!(
        "{level} {}\n\n{}\n",
        code_span(&item.name, 200),
        fence_code("rust", &item.signature)
    ));
    write_cfg_conditions(&item.conditions, page);
    let docs = sanitize_docs_markdown(&item.docs, MarkdownBlockKind::Rust, MAX_ITEM_DOCS_BYTES);
    if !docs.is_empty() {
        page.push_str(&format!("{docs}\n\n"));
    }
}
