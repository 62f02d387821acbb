//! Places types and items that macros generate, and the macros themselves, on pages. A generated
//! item is not in the source, so its page is inferred from the names that reexport it.

use std::collections::BTreeMap;

use super::names::RustPathResolution;
use super::public::{PublicItemCollector, PublicModuleOrItem};
use super::{MacroCall, MacroRulesDefinition};
use crate::rust::{MacroSourceAndDocs, ModuleOutline};
use crate::text::join_names_with_limit;

/// Maximum total size of macro sources on one page, in bytes.
const MAX_MODULE_MACRO_SOURCE_BYTES: usize = 24 << 10;

/// Page of the skill that describes an item which a macro generates.
struct MacroGeneratedItemPage {
    page: String,
    /// Path of the page's module relative to the module that contains the macro call, if the page's
    /// module is generated too; otherwise empty.
    made_path: Vec<String>,
    name: String,
}

impl PublicItemCollector<'_> {
    /// Finds the page for a generated item. Prefers a page that names the item or its module over
    /// one that names a module further up; among equals, the page with the shortest path.
    fn page_of_generated_item(
        &self,
        module: usize,
        path: &[String],
    ) -> Option<MacroGeneratedItemPage> {
        let mut found: Option<((usize, usize), MacroGeneratedItemPage)> = None;
        for n in (1..=path.len()).rev() {
            let (known, rest) = path.split_at_checked(n)?;
            let Some((page, own)) = self.named.get(&(module, known.to_vec())) else {
                continue;
            };
            let distance = rest.len().saturating_sub(1);
            let rank = (distance, page.matches("::").count());
            if found.as_ref().is_some_and(|(least, _)| rank >= *least) {
                continue;
            }
            let place = match rest.is_empty() {
                true => MacroGeneratedItemPage {
                    page: page.clone(),
                    made_path: Vec::new(),
                    name: own.clone(),
                },
                false => MacroGeneratedItemPage {
                    page: format!("{page}::{own}"),
                    made_path: known.to_vec(),
                    name: rest.join("::"),
                },
            };
            found = Some((rank, place));
        }
        if let Some((_, place)) = found {
            return Some(place);
        }
        // Otherwise use the page of the module itself, or else a page that reexports all names of
        // the module.
        let mut spread = (0..path.len()).rev().filter_map(|n| {
            let (known, rest) = path.split_at_checked(n)?;
            let page = self.spread.get(&(module, known.to_vec()))?;
            Some((page, rest.join("::")))
        });
        let own = self.shown.get(&PublicModuleOrItem::Module(module));
        let (page, name) = own
            .map(|page| (page, path.join("::")))
            .or_else(|| spread.next())?;
        Some(MacroGeneratedItemPage {
            page: page.clone(),
            made_path: Vec::new(),
            name,
        })
    }

    /// Adds the methods of generated types to the types' pages. Returns notes about types without a
    /// page.
    pub(super) fn add_generated_types_to_pages(
        &mut self,
        pages: &mut BTreeMap<String, ModuleOutline>,
    ) -> Vec<String> {
        let mut lost = Vec::new();
        for ((module, path), outline) in std::mem::take(&mut self.made) {
            let Some(place) = self.page_of_generated_item(module, &path) else {
                lost.push(path.join("::"));
                continue;
            };
            let page = pages
                .entry(place.page.clone())
                .or_insert_with(|| ModuleOutline {
                    path: place.page,
                    ..ModuleOutline::default()
                });
            if !place.made_path.is_empty() {
                page.made_path = place.made_path;
                page.made_by = self.names_of_macros_generating_item(
                    &RustPathResolution::MacroTypes(module, Vec::new()),
                );
            }
            // The page may already have a type of this name, defined in the source for another
            // target.
            let mut same = page.items.iter_mut();
            match same.find(|item| item.name == place.name && item.kind == "struct") {
                Some(item) => {
                    item.implements.extend(outline.implements);
                    item.impls.extend(outline.impls);
                }
                None => drop(page.made.insert(place.name, outline)),
            }
        }
        match lost.as_slice() {
            [] => Vec::new(),
            names => vec![format!(
                "some types that macros make have no public name, so their methods are left out: {}",
                join_names_with_limit(names, 8)
            )],
        }
    }

    /// Adds the sources of macros that generate public items to the pages of these items. Other
    /// macros that are called are only named.
    pub(super) fn add_macro_sources_to_pages(&self, pages: &mut BTreeMap<String, ModuleOutline>) {
        for (n, module) in self.modules.iter().enumerate() {
            let own_page = self.shown.get(&PublicModuleOrItem::Module(n));
            let mut found: Vec<(&MacroCall, Vec<&String>, Option<String>)> = Vec::new();
            let mut hits: BTreeMap<String, usize> = BTreeMap::new();
            for call in &module.calls {
                let rules = self.macros_generating_public_items(call);
                if rules.is_empty() {
                    if let Some(page) = own_page.and_then(|path| pages.get_mut(path)) {
                        page.makers.insert(format!("{}!", call.name));
                    }
                    continue;
                }
                let page = own_page
                    .cloned()
                    .or_else(|| self.choose_macro_call_page(n, call));
                if let Some(page) = &page {
                    *hits.entry(page.clone()).or_default() += 1;
                }
                found.push((call, rules, page));
            }
            // A macro call that names no type probably belongs to the same page as most macro calls
            // around it.
            let most = hits.into_iter().max_by_key(|(_, n)| *n);
            let most = most.map(|(page, _)| page).or_else(|| own_page.cloned());
            for (call, rules, page) in found {
                let Some(page) = page.or_else(|| most.clone()) else {
                    continue;
                };
                if let Some(page) = pages.get_mut(&page) {
                    let rules = rules.into_iter().filter_map(|name| self.rules.get(name));
                    document_macro_call(page, call, rules);
                }
            }
        }
    }

    /// Returns those of the crate's macros in a call that expand to public items: the called macro,
    /// or macros passed as arguments.
    fn macros_generating_public_items(&self, call: &MacroCall) -> Vec<&String> {
        let names = std::iter::once(&call.name).chain(&call.words);
        let known = names.filter_map(|name| self.rules.get_key_value(name));
        known
            .filter(|(_, rules)| rules.makes_public)
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns the page that describes the most of the types that a macro call names.
    fn choose_macro_call_page(&self, module: usize, call: &MacroCall) -> Option<String> {
        let mut hits: BTreeMap<String, usize> = BTreeMap::new();
        let is_type = |word: &&String| word.starts_with(|c: char| c.is_ascii_uppercase());
        for word in call.words.iter().filter(is_type) {
            let page = match self
                .names
                .resolve_module_path(module, std::slice::from_ref(word))
            {
                RustPathResolution::Item(from, n) => self
                    .shown
                    .get(&PublicModuleOrItem::Item(from, n))
                    .and_then(|path| Some(path.rsplit_once("::")?.0.to_owned())),
                RustPathResolution::MacroTypes(from, path) => self
                    .page_of_generated_item(from, &path)
                    .map(|place| place.page),
                _ => None,
            };
            if let Some(page) = page {
                *hits.entry(page).or_default() += 1;
            }
        }
        hits.into_iter()
            .max_by_key(|(_, n)| *n)
            .map(|(page, _)| page)
    }
}

/// Adds a macro call to a page, after the source of the macro.
fn document_macro_call<'a>(
    page: &mut ModuleOutline,
    call: &MacroCall,
    rules: impl Iterator<Item = &'a MacroRulesDefinition>,
) {
    let n_bytes: usize = page.sources.iter().map(|one| one.text.len()).sum();
    let is_full = n_bytes > MAX_MODULE_MACRO_SOURCE_BYTES;
    let mut all: Vec<MacroSourceAndDocs> = rules
        .map(|rules| MacroSourceAndDocs {
            docs: rules.docs.clone(),
            text: rules.source.clone(),
        })
        .collect();
    if all.iter().any(|one| one.text.is_empty()) || call.source.is_empty() || is_full {
        page.makers.insert(format!("{}!", call.name));
        return;
    }
    all.push(MacroSourceAndDocs {
        docs: String::new(),
        text: call.source.clone(),
    });
    for one in all {
        if !page.sources.contains(&one) {
            page.sources.push(one);
        }
    }
}
