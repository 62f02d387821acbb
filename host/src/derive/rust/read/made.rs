//! Types and items that macros make: the pages for those that are not in the source, and for the macros themselves.

use std::collections::BTreeMap;

use super::names::Found;
use super::public::{Public, Target};
use super::{Call, Rules};
use crate::derive::rust::{ModuleOutline, SourceOutline};
use crate::derive::text::shortened;

/// Most bytes of macros that one page shows.
const MAX_SOURCE_BYTES: usize = 24 << 10;

/// Place of something that a macro makes.
struct MadePlace {
    page: String,
    /// Path of the page below its module, where a macro makes that page.
    made_path: Vec<String>,
    name: String,
}

impl Public<'_> {
    /// Finds the page for something that a macro makes: one that names it or its module before one that names a module above, and
    /// of those the one nearest to the root.
    fn made_place(&self, module: usize, path: &[String]) -> Option<MadePlace> {
        let mut found: Option<((usize, usize), MadePlace)> = None;
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
                true => MadePlace {
                    page: page.clone(),
                    made_path: Vec::new(),
                    name: own.clone(),
                },
                false => MadePlace {
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
        // All names of a module, or those that stand on its own page.
        let mut spread = (0..path.len()).rev().filter_map(|n| {
            let (known, rest) = path.split_at_checked(n)?;
            let page = self.spread.get(&(module, known.to_vec()))?;
            Some((page, rest.join("::")))
        });
        let own = self.shown.get(&Target::Module(module));
        let (page, name) = own
            .map(|page| (page, path.join("::")))
            .or_else(|| spread.next())?;
        Some(MadePlace {
            page: page.clone(),
            made_path: Vec::new(),
            name,
        })
    }

    /// Puts methods of types that macros make on pages. Returns what is told of those that have none.
    pub(super) fn place_made(
        &mut self,
        pages: &mut BTreeMap<String, ModuleOutline>,
    ) -> Vec<String> {
        let mut lost = Vec::new();
        for ((module, path), outline) in std::mem::take(&mut self.made) {
            let Some(place) = self.made_place(module, &path) else {
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
                page.made_by = self.made_by(&Found::Made(module, Vec::new()));
            }
            // For another target it may stand in the source.
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
                "methods of types that macros make are left out, as no public name leads to the types: {}",
                shortened(names, 8)
            )],
        }
    }

    /// Puts the source of macros that make public items on the pages of what they are about, and names the others.
    pub(super) fn place_macros(&self, pages: &mut BTreeMap<String, ModuleOutline>) {
        for (n, module) in self.modules.iter().enumerate() {
            let own_page = self.shown.get(&Target::Module(n));
            let mut found: Vec<(&Call, Vec<&String>, Option<String>)> = Vec::new();
            let mut hits: BTreeMap<String, usize> = BTreeMap::new();
            for call in &module.calls {
                let rules = self.rules_of(call);
                if rules.is_empty() {
                    if let Some(page) = own_page.and_then(|path| pages.get_mut(path)) {
                        page.makers.insert(format!("{}!", call.name));
                    }
                    continue;
                }
                let page = own_page.cloned().or_else(|| self.page_of(n, call));
                if let Some(page) = &page {
                    *hits.entry(page.clone()).or_default() += 1;
                }
                found.push((call, rules, page));
            }
            // One that names no type is about those of its neighbours.
            let most = hits.into_iter().max_by_key(|(_, n)| *n);
            let most = most.map(|(page, _)| page).or_else(|| own_page.cloned());
            for (call, rules, page) in found {
                let Some(page) = page.or_else(|| most.clone()) else {
                    continue;
                };
                if let Some(page) = pages.get_mut(&page) {
                    let rules = rules.into_iter().filter_map(|name| self.rules.get(name));
                    show(page, call, rules);
                }
            }
        }
    }

    /// Macros of the crate that a call expands to something public: its own, or one that it is given.
    fn rules_of(&self, call: &Call) -> Vec<&String> {
        let names = std::iter::once(&call.name).chain(&call.words);
        let known = names.filter_map(|name| self.rules.get_key_value(name));
        known
            .filter(|(_, rules)| rules.makes_public)
            .map(|(name, _)| name)
            .collect()
    }

    /// The page with most of the types that a call names.
    fn page_of(&self, module: usize, call: &Call) -> Option<String> {
        let mut hits: BTreeMap<String, usize> = BTreeMap::new();
        let is_type = |word: &&String| word.starts_with(|c: char| c.is_ascii_uppercase());
        for word in call.words.iter().filter(is_type) {
            let page = match self.names.find(module, std::slice::from_ref(word)) {
                Found::Item(from, n) => self
                    .shown
                    .get(&Target::Item(from, n))
                    .and_then(|path| Some(path.rsplit_once("::")?.0.to_owned())),
                Found::Made(from, path) => self.made_place(from, &path).map(|place| place.page),
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

/// Adds a call of a macro to a page, below the macro.
fn show<'a>(page: &mut ModuleOutline, call: &Call, rules: impl Iterator<Item = &'a Rules>) {
    let n_bytes: usize = page.sources.iter().map(|one| one.text.len()).sum();
    let is_full = n_bytes > MAX_SOURCE_BYTES;
    let mut all: Vec<SourceOutline> = rules
        .map(|rules| SourceOutline {
            docs: rules.docs.clone(),
            text: rules.source.clone(),
        })
        .collect();
    if all.iter().any(|one| one.text.is_empty()) || call.source.is_empty() || is_full {
        page.makers.insert(format!("{}!", call.name));
        return;
    }
    all.push(SourceOutline {
        docs: String::new(),
        text: call.source.clone(),
    });
    for one in all {
        if !page.sources.contains(&one) {
            page.sources.push(one);
        }
    }
}
