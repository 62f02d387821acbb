//! Collects the names that other crates can use, page by page.
//!
//! Each public item is described on exactly one page, under its own path if that is public and
//! otherwise under the first `pub use` that reaches it. Other pages refer to that page.

use std::collections::{BTreeMap, BTreeSet};

use super::attach::MacroGeneratedTypesByPath;
use super::names::{RustPathResolution, RustPathResolver};
use super::{MacroRulesDefinition, RustModule, extend_without_duplicates};
use crate::rust::{ModuleOutline, ReexportOutline, RustItemOutline};

/// Public module or item, which is described on exactly one page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PublicModuleOrItem {
    Module(usize),
    /// Item: the index of the module that defines the item, and the item's index in that module's
    /// `items`.
    Item(usize, usize),
}

/// Path of a generated item: the index of the module with the macro call, and the path relative to
/// that module.
type MacroGeneratedItemPath = (usize, Vec<String>);

pub(super) struct PublicItemCollector<'a> {
    pub(super) modules: &'a [RustModule],
    pub(super) names: RustPathResolver<'a>,
    crate_name: &'a str,
    pub(super) rules: BTreeMap<String, MacroRulesDefinition>,
    pub(super) made: MacroGeneratedTypesByPath,
    /// Public path under which a page describes the module or item.
    pub(super) shown: BTreeMap<PublicModuleOrItem, String>,
    /// Page that reexports a generated item by name, and the name of the item on that page.
    pub(super) named: BTreeMap<MacroGeneratedItemPath, (String, String)>,
    /// Page that reexports all items of a generated module with a glob.
    pub(super) spread: BTreeMap<MacroGeneratedItemPath, String>,
}

impl<'a> PublicItemCollector<'a> {
    pub(super) fn new(
        modules: &'a [RustModule],
        crate_name: &'a str,
        rules: BTreeMap<String, MacroRulesDefinition>,
        made: MacroGeneratedTypesByPath,
    ) -> Self {
        Self {
            modules,
            names: RustPathResolver::new(modules),
            crate_name,
            rules,
            made,
            shown: BTreeMap::new(),
            named: BTreeMap::new(),
            spread: BTreeMap::new(),
        }
    }

    /// Returns the public modules that are not empty, and notes about generated types without a
    /// page.
    pub(super) fn into_outlines(mut self) -> (Vec<ModuleOutline>, Vec<String>) {
        let mut public = self.collect_public_modules();
        let mut pages: BTreeMap<String, ModuleOutline> = BTreeMap::new();
        let mut at = 0;
        while let Some((module, path)) = public.get(at).cloned() {
            at += 1;
            let outline = self.add_module_page(module, &path, &mut public);
            pages.insert(path, outline);
        }
        let notes = self.add_generated_types_to_pages(&mut pages);
        self.add_macro_sources_to_pages(&mut pages);
        let pages = pages.into_values().filter(|page| !page.is_empty());
        (pages.collect(), notes)
    }

    /// Collects the modules that are public by their own path. They come before modules that are
    /// public only through `pub use`.
    fn collect_public_modules(&mut self) -> Vec<(usize, String)> {
        let mut public: Vec<(usize, String)> = vec![(0, self.crate_name.to_owned())];
        self.shown
            .insert(PublicModuleOrItem::Module(0), self.crate_name.to_owned());
        let mut at = 0;
        while let Some((module, path)) = public.get(at).cloned() {
            at += 1;
            let Some(own) = self.modules.get(module) else {
                continue;
            };
            for (n, item) in own.items.iter().enumerate() {
                self.shown.insert(
                    PublicModuleOrItem::Item(module, n),
                    format!("{path}::{}", item.name),
                );
            }
            for (name, child) in &own.children {
                let is_public = self.modules.get(*child).is_some_and(|own| own.is_public);
                if is_public {
                    let path = format!("{path}::{name}");
                    self.shown
                        .insert(PublicModuleOrItem::Module(*child), path.clone());
                    public.push((*child, path));
                }
            }
        }
        public
    }

    fn add_module_page(
        &mut self,
        module: usize,
        path: &str,
        public: &mut Vec<(usize, String)>,
    ) -> ModuleOutline {
        let mut outline = ModuleOutline {
            path: path.to_owned(),
            ..ModuleOutline::default()
        };
        let Some(own) = self.modules.get(module) else {
            return outline;
        };
        outline.docs.clone_from(&own.docs);
        outline.conditions.clone_from(&own.conditions);
        let items = own.items.iter();
        outline
            .items
            .extend(items.map(|item| self.item_with_cfg_conditions(module, item, own, &[])));
        for one in own.uses.iter().filter(|one| one.is_public) {
            let found = self.names.resolve_module_path(module, &one.path);
            match (&one.name, found) {
                (None, RustPathResolution::Module(from)) => {
                    for (name, found, mut conditions) in self.names.public_names_in_module(from) {
                        extend_without_duplicates(&mut conditions, one.conditions.clone());
                        if name == "*" {
                            self.record_glob_reexport_page(found, path);
                            continue;
                        }
                        let origin = self.path_for_other_crates(&one.path);
                        let named = PubUseExport {
                            name: &name,
                            own: &name,
                            origin: &origin,
                            docs: "",
                            conditions: &conditions,
                        };
                        self.add_reexported_name(&mut outline, own, &named, found, public);
                    }
                }
                (None, found) => {
                    let made_by = self.names_of_macros_generating_item(&found);
                    self.record_glob_reexport_page(found, path);
                    outline.add_external_reexport_name(
                        &self.path_for_other_crates(&one.path),
                        "*",
                        made_by,
                        &one.conditions,
                    );
                }
                (Some(name), found) => {
                    let (last, from) = one.path.split_last().unzip();
                    let origin = self.path_for_other_crates(from.unwrap_or_default());
                    let named = PubUseExport {
                        name,
                        own: last.map_or("", String::as_str),
                        origin: &origin,
                        docs: &one.docs,
                        conditions: &one.conditions,
                    };
                    self.add_reexported_name(&mut outline, own, &named, found, public);
                }
            }
        }
        outline
    }

    /// Adds a name from `pub use` to a page: with the item's description if no page describes the
    /// item yet, otherwise with a reference to the page that describes the item.
    fn add_reexported_name(
        &mut self,
        outline: &mut ModuleOutline,
        page: &RustModule,
        named: &PubUseExport<'_>,
        found: RustPathResolution,
        public: &mut Vec<(usize, String)>,
    ) {
        let here = format!("{}::{}", outline.path, named.name);
        let target = match &found {
            RustPathResolution::Private => return,
            RustPathResolution::Module(module) => PublicModuleOrItem::Module(*module),
            RustPathResolution::Item(module, n) => PublicModuleOrItem::Item(*module, *n),
            RustPathResolution::MacroTypes(..) | RustPathResolution::Elsewhere(_) => {
                let made_by = self.names_of_macros_generating_item(&found);
                if let RustPathResolution::MacroTypes(module, path) = found {
                    self.named
                        .entry((module, path))
                        .or_insert_with(|| (outline.path.clone(), named.name.to_owned()));
                }
                let name = match named.name == named.own {
                    true => named.name.to_owned(),
                    false => format!("{} as {}", named.own, named.name),
                };
                outline.add_external_reexport_name(named.origin, &name, made_by, named.conditions);
                return;
            }
        };
        if let Some(shown) = self.shown.get(&target) {
            if let Some((from, name)) = shown
                .rsplit_once("::")
                .filter(|(from, _)| *from != outline.path)
            {
                outline.add_external_reexport_name(from, name, None, named.conditions);
            }
            return;
        }
        self.shown.insert(target, here.clone());
        match target {
            PublicModuleOrItem::Module(inner) => public.push((inner, here)),
            PublicModuleOrItem::Item(from, n) => {
                let Some(own) = self.modules.get(from) else {
                    return;
                };
                outline.items.extend(own.items.get(n).map(|item| {
                    let mut item =
                        self.item_with_cfg_conditions(from, item, page, named.conditions);
                    named.name.clone_into(&mut item.name);
                    if !named.docs.is_empty() {
                        named.docs.clone_into(&mut item.docs);
                    }
                    item
                }));
            }
        }
    }

    /// Returns a copy of an item with the conditions of its module, of the `use` and of the item
    /// itself, except for those that its page already states.
    fn item_with_cfg_conditions(
        &self,
        module: usize,
        item: &RustItemOutline,
        page: &RustModule,
        of_use: &[String],
    ) -> RustItemOutline {
        let mut item = item.clone();
        let of_module = self.modules.get(module);
        let mut all = of_module
            .map(|own| own.conditions.clone())
            .unwrap_or_default();
        extend_without_duplicates(&mut all, of_use.to_vec());
        extend_without_duplicates(&mut all, std::mem::take(&mut item.conditions));
        all.retain(|one| !page.conditions.contains(one));
        item.conditions = all;
        item
    }

    /// Returns the path in the form that another crate would write: `crate` at its beginning is
    /// replaced by the crate's name.
    fn path_for_other_crates(&self, path: &[String]) -> String {
        match path.split_first() {
            Some((first, rest)) if first == "crate" => {
                let rest = rest.iter().map(String::as_str);
                let names: Vec<&str> = std::iter::once(self.crate_name).chain(rest).collect();
                names.join("::")
            }
            _ => path.join("::"),
        }
    }

    pub(super) fn names_of_macros_generating_item(
        &self,
        found: &RustPathResolution,
    ) -> Option<String> {
        let RustPathResolution::MacroTypes(module, _) = found else {
            return None;
        };
        let calls = &self.modules.get(*module)?.calls;
        let names: BTreeSet<String> = calls.iter().map(|call| format!("{}!", call.name)).collect();
        let names: Vec<String> = names.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn record_glob_reexport_page(&mut self, found: RustPathResolution, page: &str) {
        if let RustPathResolution::MacroTypes(module, path) = found {
            self.spread
                .entry((module, path))
                .or_insert_with(|| page.to_owned());
        }
    }
}

/// Name that a module exports with `pub use`.
struct PubUseExport<'a> {
    name: &'a str,
    /// Name of the item in the module from which `pub use` exports it; differs from `name` if the
    /// export renames the item.
    own: &'a str,
    origin: &'a str,
    docs: &'a str,
    conditions: &'a [String],
}

impl ModuleOutline {
    /// Adds to a page the name of an item that is described on another page or belongs to another
    /// crate.
    fn add_external_reexport_name(
        &mut self,
        origin: &str,
        name: &str,
        made_by: Option<String>,
        conditions: &[String],
    ) {
        let from: &mut ReexportOutline = self.reexports.entry(origin.to_owned()).or_default();
        from.made_by = from.made_by.take().or(made_by);
        let mut conditions = conditions.to_vec();
        conditions.retain(|one| !self.conditions.contains(one));
        from.names.insert(name.to_owned(), conditions);
    }
}
