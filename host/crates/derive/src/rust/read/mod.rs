//! Reads the public items of a crate from its sources. Nothing is built or executed, and macros are
//! not expanded.
//!
//! Files are found by following `mod`. An item is public if it is reachable through public modules
//! or `pub use`. The input is plain text, because this code runs in a separate process: a parser of
//! untrusted text cannot be interrupted, and deep nesting overflows its stack.

mod attach;
mod files;
mod made;
mod names;
mod public;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proc_macro2::TokenTree;
use syn::spanned::Spanned;
use syn::{Item, ItemMacro, ItemMod, Visibility};

use super::attributes::{
    cfg_conditions, doc_comment_text, is_doc_hidden, is_test_only, path_attribute_value,
};
use super::impls::{self, ImplBlock};
use super::items::{self, ItemWithVisibility};
use super::{CrateFiles, CrateOutline, RustItemOutline};
use files::{SubmoduleSearchDirectories, join_path};
use names::UseDeclarationImport;

/// Maximum nesting depth of a crate's modules.
const MAX_MODULE_DEPTH: usize = 24;

/// Maximum number of modules in a crate.
const MAX_MODULES_PER_CRATE: usize = 4_000;

/// Maximum number of public items and methods that are read.
const MAX_PUBLIC_ITEMS: usize = 20_000;

/// Maximum size of a macro's source that is kept, in bytes.
const MAX_MACRO_SOURCE_BYTES: usize = 8 << 10;

/// Module with all of its items, including those that are not public.
#[derive(Default)]
struct RustModule {
    parent: Option<usize>,
    path: String,
    docs: String,
    is_public: bool,
    /// Conditions under which the module is compiled, including those of its parents.
    conditions: Vec<String>,
    /// Indexes of the submodules by name.
    children: BTreeMap<String, usize>,
    items: Vec<RustItemOutline>,
    /// Indexes in `items` by name. A name may have several, because a type and a function may share
    /// a name.
    places: HashMap<String, Vec<usize>>,
    /// Names of types and traits that other crates cannot use.
    private: HashSet<String>,
    uses: Vec<UseDeclarationImport>,
    /// Macro calls in places where an item of the module can be, which may expand to items.
    calls: Vec<MacroCall>,
}

/// Macro call in a place where an item can be, so that the macro may expand to items. `words` are
/// the identifiers in the call.
struct MacroCall {
    name: String,
    words: BTreeSet<String>,
    source: String,
}

struct MacroRulesDefinition {
    docs: String,
    source: String,
    /// Whether the macro expands to public items.
    makes_public: bool,
}

/// Reads the public items of a crate.
///
/// # Errors
/// A file cannot be parsed or is missing, or the crate is too large.
pub(crate) fn outline_crate(files: &CrateFiles) -> Result<CrateOutline, String> {
    let mut reader = RustCrateParser {
        files,
        modules: vec![RustModule {
            is_public: true,
            ..RustModule::default()
        }],
        notes: Vec::new(),
        impls: Vec::new(),
        rules: BTreeMap::new(),
        n_items: 0,
    };
    let place = SubmoduleSearchDirectories::for_crate_root(&files.root);
    reader.read_file(0, &files.root, &place, 0)?;
    let made = attach::attach_impls(&mut reader.modules, reader.impls);
    let crate_name = files.name.replace('-', "_");
    let public = public::PublicItemCollector::new(&reader.modules, &crate_name, reader.rules, made);
    let (modules, notes) = public.into_outlines();
    reader.notes.extend(notes);
    Ok(CrateOutline {
        name: crate_name,
        modules,
        notes: reader.notes,
    })
}

struct RustCrateParser<'a> {
    files: &'a CrateFiles,
    modules: Vec<RustModule>,
    notes: Vec<String>,
    /// `impl` blocks, each with the index of its module and its `cfg` conditions.
    impls: Vec<(usize, Vec<String>, ImplBlock)>,
    /// Macros that the crate defines, by name, whether public or not.
    rules: BTreeMap<String, MacroRulesDefinition>,
    n_items: usize,
}

impl RustCrateParser<'_> {
    fn read_file(
        &mut self,
        module: usize,
        path: &str,
        place: &SubmoduleSearchDirectories,
        depth: usize,
    ) -> Result<(), String> {
        let text = self
            .files
            .texts
            .get(path)
            .ok_or_else(|| format!("{path} is missing"))?;
        let file = syn::parse_file(text).map_err(|error| {
            let at = error.span().start();
            format!("{path}:{}:{}: {error}", at.line, at.column + 1)
        })?;
        if is_test_only(&file.attrs) {
            return Ok(());
        }
        if let Some(module) = self.modules.get_mut(module) {
            let own = doc_comment_text(&file.attrs);
            let before = std::mem::take(&mut module.docs);
            module.docs = [before, own].join("\n\n").trim().to_owned();
            extend_without_duplicates(&mut module.conditions, cfg_conditions(&file.attrs));
        }
        self.read_items(module, file.items, place, depth)
    }

    fn read_items(
        &mut self,
        module: usize,
        items: Vec<Item>,
        place: &SubmoduleSearchDirectories,
        depth: usize,
    ) -> Result<(), String> {
        for item in items {
            match item {
                Item::Mod(inner) => self.read_module(module, inner, place, depth)?,
                Item::Use(one) if !is_test_only(&one.attrs) => {
                    let is_public =
                        matches!(one.vis, Visibility::Public(_)) && !is_doc_hidden(&one.attrs);
                    let all = UseDeclarationImport::flatten_use_item(&one, is_public);
                    self.module_mut(module).uses.extend(all);
                }
                Item::Impl(one) => {
                    let conditions = cfg_conditions(&one.attrs);
                    if let Some(one) = impls::read_impl(one) {
                        self.count_items_within_limit(match &one.gives {
                            impls::ImplBlockMembers::Methods(block) => block.items.len(),
                            impls::ImplBlockMembers::Trait(..) => 1,
                        })?;
                        self.impls.push((module, conditions, one));
                    }
                }
                // A macro item with a name defines a macro; one without a name is a call that
                // generates items.
                Item::Macro(one) if one.ident.is_none() => self.record_macro_call(module, &one),
                item => {
                    if let Item::Macro(one) = &item {
                        self.record_macro(one);
                    }
                    match items::read_item(item) {
                        ItemWithVisibility::Public(item) => {
                            self.count_items_within_limit(1)?;
                            // Exported macros belong to the root module, wherever they are defined.
                            let module = if item.kind == "macro" { 0 } else { module };
                            self.module_mut(module).add_item(*item);
                        }
                        ItemWithVisibility::Private(name) => {
                            self.module_mut(module).private.insert(name);
                        }
                        ItemWithVisibility::Nothing => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn count_items_within_limit(&mut self, n: usize) -> Result<(), String> {
        self.n_items += n;
        match self.n_items > MAX_PUBLIC_ITEMS {
            true => Err(format!(
                "there are too many items: more than {MAX_PUBLIC_ITEMS} that are public"
            )),
            false => Ok(()),
        }
    }

    fn record_macro_call(&mut self, module: usize, item: &ItemMacro) {
        if is_test_only(&item.attrs) || item.mac.path.is_ident("thread_local") {
            return;
        }
        let Some(last) = item.mac.path.segments.last() else {
            return;
        };
        let name = last.ident.to_string();
        let mut words = BTreeSet::new();
        collect_token_identifiers(item.mac.tokens.clone(), &mut words);
        let source = macro_source_text(item);
        self.module_mut(module).calls.push(MacroCall {
            name,
            words,
            source,
        });
    }

    fn record_macro(&mut self, item: &ItemMacro) {
        let Some(name) = &item.ident else { return };
        let text = item.mac.tokens.to_string();
        let rules = MacroRulesDefinition {
            docs: doc_comment_text(&item.attrs),
            source: macro_source_text(item),
            makes_public: text.contains("pub ") || text.contains("impl From"),
        };
        self.rules.entry(name.to_string()).or_insert(rules);
    }

    /// Returns a module by its index, which is always valid: modules are added and never removed.
    fn module_mut(&mut self, module: usize) -> &mut RustModule {
        &mut self.modules[module]
    }

    fn read_module(
        &mut self,
        parent: usize,
        item: ItemMod,
        place: &SubmoduleSearchDirectories,
        depth: usize,
    ) -> Result<(), String> {
        let name = item.ident.to_string();
        if is_test_only(&item.attrs) {
            return Ok(());
        }
        let own = cfg_conditions(&item.attrs);
        if let Some(known) = self.module_mut(parent).children.get(&name).copied() {
            // The module is defined once per target: keep the first definition, and join the
            // conditions.
            let inherited = self.module_mut(parent).conditions.clone();
            let known = self.module_mut(known);
            let before = known.conditions.split_off(inherited.len());
            known.conditions.extend(join_cfg_alternatives(before, own));
            return Ok(());
        }
        if depth >= MAX_MODULE_DEPTH || self.modules.len() >= MAX_MODULES_PER_CRATE {
            return Err(format!(
                "the crate has more than {MAX_MODULES_PER_CRATE} modules, or modules nested more \
                 than {MAX_MODULE_DEPTH} deep"
            ));
        }
        let number = self.modules.len();
        let above = self.module_mut(parent);
        let mut all = above.conditions.clone();
        extend_without_duplicates(&mut all, own);
        let path = match above.path.as_str() {
            "" => name.clone(),
            above => format!("{above}::{name}"),
        };
        self.modules.push(RustModule {
            parent: Some(parent),
            path,
            docs: doc_comment_text(&item.attrs),
            is_public: matches!(item.vis, Visibility::Public(_)) && !is_doc_hidden(&item.attrs),
            conditions: all,
            ..RustModule::default()
        });
        self.module_mut(parent)
            .children
            .insert(name.clone(), number);
        if let Some((_, items)) = item.content {
            return self.read_items(
                number,
                items,
                &place.submodule_directories(&name),
                depth + 1,
            );
        }
        let named = path_attribute_value(&item.attrs).map(|path| join_path(&place.of_file, &path));
        let is_named = named.is_some();
        let own = [format!("{name}.rs"), format!("{name}/mod.rs")];
        let own = own.iter().map(|file| join_path(&place.of_modules, file));
        let mut candidates = named.into_iter().chain(own.filter(|_| !is_named));
        match candidates.find(|path| self.files.texts.contains_key(path)) {
            Some(path) => {
                let inner = if is_named {
                    SubmoduleSearchDirectories::for_crate_root(&path)
                } else {
                    SubmoduleSearchDirectories::for_source_file(&path)
                };
                self.read_file(number, &path, &inner, depth + 1)
            }
            None => {
                self.notes
                    .push(format!("the module `{name}` is left out: its file was not found in the crate's source folder"));
                Ok(())
            }
        }
    }
}

impl RustModule {
    /// Adds an item. Of several definitions for different targets, keeps the first one and joins
    /// their conditions.
    fn add_item(&mut self, item: RustItemOutline) {
        let places = self.places.entry(item.name.clone()).or_default();
        let same = places
            .iter()
            .copied()
            .find(|n| self.items[*n].kind == item.kind);
        match same {
            Some(n) => {
                let known = &mut self.items[n];
                let before = std::mem::take(&mut known.conditions);
                known.conditions = join_cfg_alternatives(before, item.conditions);
            }
            None => {
                places.push(self.items.len());
                self.items.push(item);
            }
        }
    }
}

/// Returns conditions that are met if all conditions of `one` or all of `other` are met; empty if
/// one of the lists is empty.
fn join_cfg_alternatives(one: Vec<String>, other: Vec<String>) -> Vec<String> {
    let all = |conditions: Vec<String>| match conditions.as_slice() {
        [one] => one.clone(),
        all => format!("all({})", all.join(", ")),
    };
    match one.is_empty() || other.is_empty() || one == other {
        true if one == other => one,
        true => Vec::new(),
        false => vec![format!("any({}, {})", all(one), all(other))],
    }
}

fn extend_without_duplicates(all: &mut Vec<String>, more: Vec<String>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// Adds all identifiers in a token stream to `words`, including those in nested groups.
fn collect_token_identifiers(tokens: proc_macro2::TokenStream, words: &mut BTreeSet<String>) {
    let mut open = vec![tokens.into_iter()];
    while let Some(last) = open.last_mut() {
        match last.next() {
            Some(TokenTree::Group(group)) => open.push(group.stream().into_iter()),
            Some(TokenTree::Ident(name)) => drop(words.insert(name.to_string())),
            Some(_) => {}
            None => drop(open.pop()),
        }
    }
}

/// Returns the source text of a macro definition or call, without its attributes; empty if it is
/// too long.
fn macro_source_text(item: &ItemMacro) -> String {
    let start = item.mac.path.span();
    let end = item.mac.delimiter.span().close();
    let text = start.join(end).and_then(|span| span.source_text());
    text.filter(|text| text.len() <= MAX_MACRO_SOURCE_BYTES)
        .unwrap_or_default()
}
