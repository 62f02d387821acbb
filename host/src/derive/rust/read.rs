//! Reads the public items of a crate from its sources, without building anything: no macro is expanded and nothing is run.
//!
//! Files are followed along `mod`, and what is public is what a path of public modules or `pub use` leads to. It works on texts
//! alone, and runs in a process of its own: a parser that is handed a stranger's text cannot be stopped, and deep nesting ends it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use super::items::{self, docs_of, is_hidden, is_test};
use super::{CrateFiles, CrateOutline, ItemOutline, ModuleOutline};

/// Deepest module.
const MAX_DEPTH: usize = 24;

/// Most modules of a crate.
const MAX_MODULES: usize = 4_000;

/// Longest chain of `pub use` that is followed.
const MAX_CHAIN: usize = 16;

/// Most items that are described.
const MAX_ITEMS: usize = 20_000;

/// A module with everything in it, public or not.
#[derive(Default)]
struct Module {
    parent: Option<usize>,
    docs: String,
    is_public: bool,
    /// Modules in it, by name.
    children: BTreeMap<String, usize>,
    items: Vec<ItemOutline>,
    uses: Vec<Use>,
    /// Macros that are called where items stand.
    makers: BTreeSet<String>,
}

/// One name that `pub use` gives, or all names of a module.
struct Use {
    path: Vec<String>,
    /// Name that it has here; `None` for `*`.
    name: Option<String>,
    docs: String,
}

/// Reads a crate.
///
/// # Errors
/// A file cannot be parsed, or is not there.
pub(crate) fn outline(files: &CrateFiles) -> Result<CrateOutline, String> {
    let mut reader = Reader {
        files,
        modules: vec![Module {
            is_public: true,
            ..Module::default()
        }],
        notes: Vec::new(),
        impls: Vec::new(),
    };
    let place = Place::of_root(&files.root);
    reader.file(0, &files.root, &place, 0)?;
    reader.attach_impls();
    let crate_name = files.name.replace('-', "_");
    let modules = Public {
        modules: &reader.modules,
        crate_name: &crate_name,
        shown: BTreeMap::new(),
    }
    .all();
    Ok(CrateOutline {
        modules,
        notes: reader.notes,
    })
}

/// Folder in which the files of a module's modules are.
#[derive(Clone)]
struct Place {
    /// Folder of the file itself, for `#[path]`.
    of_file: String,
    /// Folder of the modules.
    of_modules: String,
}

impl Place {
    fn of_root(path: &str) -> Self {
        let folder = folder_of(path);
        Self {
            of_file: folder.clone(),
            of_modules: folder,
        }
    }

    fn of_file(path: &str) -> Self {
        let folder = folder_of(path);
        let stem = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        let of_modules = if stem == "mod" {
            folder.clone()
        } else {
            joined(&folder, stem)
        };
        Self {
            of_file: folder,
            of_modules,
        }
    }

    fn within(&self, name: &str) -> Self {
        let of_modules = joined(&self.of_modules, name);
        Self {
            of_file: of_modules.clone(),
            of_modules,
        }
    }
}

fn folder_of(path: &str) -> String {
    path.rsplit_once('/')
        .map_or_else(String::new, |(folder, _)| folder.to_owned())
}

fn joined(folder: &str, name: &str) -> String {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in name.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

struct Reader<'a> {
    files: &'a CrateFiles,
    modules: Vec<Module>,
    notes: Vec<String>,
    /// Methods, with the module of their `impl` and the name of its type.
    impls: Vec<(usize, String, Vec<ItemOutline>)>,
}

impl Reader<'_> {
    fn file(
        &mut self,
        module: usize,
        path: &str,
        place: &Place,
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
        if let Some(module) = self.modules.get_mut(module) {
            let own = docs_of(&file.attrs);
            let before = std::mem::take(&mut module.docs);
            module.docs = [before, own].join("\n\n").trim().to_owned();
        }
        self.items(module, file.items, place, depth)
    }

    fn items(
        &mut self,
        module: usize,
        items: Vec<Item>,
        place: &Place,
        depth: usize,
    ) -> Result<(), String> {
        for item in items {
            match item {
                Item::Mod(inner) => self.module(module, inner, place, depth)?,
                Item::Use(one)
                    if matches!(one.vis, Visibility::Public(_)) && !is_hidden(&one.attrs) =>
                {
                    let docs = docs_of(&one.attrs);
                    let mut uses = Vec::new();
                    flatten(&one.tree, &mut Vec::new(), &docs, &mut uses);
                    self.at(module).uses.extend(uses);
                }
                Item::Impl(one) => {
                    if let Some((name, methods)) = items::methods(one) {
                        self.impls.push((module, name, methods));
                    }
                }
                // One with a name defines a macro; the others make items.
                Item::Macro(one)
                    if one.ident.is_none() && !one.mac.path.is_ident("thread_local") =>
                {
                    let name = one
                        .mac
                        .path
                        .segments
                        .last()
                        .map(|last| last.ident.to_string());
                    self.at(module)
                        .makers
                        .extend(name.map(|name| format!("{name}!")));
                }
                item => {
                    if let Some(item) = items::outline(item) {
                        // Macros are at the root, wherever they stand.
                        let module = if item.kind == "macro" { 0 } else { module };
                        let items = &mut self.at(module).items;
                        // One of several for different targets is enough.
                        let is_there =
                            |own: &ItemOutline| own.name == item.name && own.kind == item.kind;
                        if !items.iter().any(is_there) {
                            items.push(item);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Modules are only added, and every number of one comes from there.
    fn at(&mut self, module: usize) -> &mut Module {
        &mut self.modules[module]
    }

    fn module(
        &mut self,
        parent: usize,
        item: ItemMod,
        place: &Place,
        depth: usize,
    ) -> Result<(), String> {
        let name = item.ident.to_string();
        let is_known = self.at(parent).children.contains_key(&name);
        if is_test(&item.attrs) || is_hidden(&item.attrs) || is_known {
            return Ok(());
        }
        if depth >= MAX_DEPTH || self.modules.len() >= MAX_MODULES {
            return Err(format!(
                "there are more than {MAX_MODULES} modules, or more than {MAX_DEPTH} in one another"
            ));
        }
        let number = self.modules.len();
        self.modules.push(Module {
            parent: Some(parent),
            docs: docs_of(&item.attrs),
            is_public: matches!(item.vis, Visibility::Public(_)),
            ..Module::default()
        });
        self.at(parent).children.insert(name.clone(), number);
        if let Some((_, items)) = item.content {
            return self.items(number, items, &place.within(&name), depth + 1);
        }
        let named = path_attribute(&item.attrs).map(|path| joined(&place.of_file, &path));
        let is_named = named.is_some();
        let own = [format!("{name}.rs"), format!("{name}/mod.rs")];
        let own = own.iter().map(|file| joined(&place.of_modules, file));
        let mut candidates = named.into_iter().chain(own.filter(|_| !is_named));
        match candidates.find(|path| self.files.texts.contains_key(path)) {
            Some(path) => {
                let inner = if is_named {
                    Place::of_root(&path)
                } else {
                    Place::of_file(&path)
                };
                self.file(number, &path, &inner, depth + 1)
            }
            None => {
                self.notes
                    .push(format!("the file of the module `{name}` was not read"));
                Ok(())
            }
        }
    }

    /// Gives methods to their types: in the same module, or else where only one type of the crate has the name.
    fn attach_impls(&mut self) {
        for (module, name, methods) in std::mem::take(&mut self.impls) {
            let has = |module: &Module| {
                module
                    .items
                    .iter()
                    .any(|item| item.is_type() && item.name == name)
            };
            let here = self.modules.get(module).is_some_and(has).then_some(module);
            let mut all = self
                .modules
                .iter()
                .enumerate()
                .filter(|(_, module)| has(module))
                .map(|(n, _)| n);
            let only = all.next().filter(|_| all.next().is_none());
            let Some(owner) = here.or(only) else { continue };
            let items = &mut self.at(owner).items;
            if let Some(item) = items
                .iter_mut()
                .find(|item| item.is_type() && item.name == name)
            {
                item.methods.extend(methods);
            }
        }
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let value = &attribute
            .meta
            .require_name_value()
            .ok()
            .filter(|meta| meta.path.is_ident("path"))?
            .value;
        items::literal(value)
    })
}

/// The names of `pub use`.
fn flatten(tree: &UseTree, path: &mut Vec<String>, docs: &str, uses: &mut Vec<Use>) {
    let mut push = |path: &[String], name: Option<String>| {
        uses.push(Use {
            path: path.to_vec(),
            name,
            docs: docs.to_owned(),
        });
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            flatten(&inner.tree, path, docs, uses);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => push(path, path.last().cloned()),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            path.push(name.clone());
            push(path, Some(name));
            path.pop();
        }
        UseTree::Rename(rename) if rename.rename != "_" => {
            let is_self = rename.ident == "self";
            if !is_self {
                path.push(rename.ident.to_string());
            }
            push(path, Some(rename.rename.to_string()));
            if !is_self {
                path.pop();
            }
        }
        UseTree::Rename(_) => {}
        UseTree::Glob(_) => push(path, None),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, path, docs, uses)),
    }
}

/// End of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    /// An item, by its module and its place there.
    Item(usize, usize),
}

/// Names that other crates can use.
struct Public<'a> {
    modules: &'a [Module],
    crate_name: &'a str,
    /// Path under which an item is described.
    shown: BTreeMap<Target, String>,
}

impl Public<'_> {
    /// Describes all public modules that have something in them, the root first.
    fn all(mut self) -> Vec<ModuleOutline> {
        let mut public: Vec<(usize, String)> = vec![(0, self.crate_name.to_owned())];
        self.shown
            .insert(Target::Module(0), self.crate_name.to_owned());
        let mut at = 0;
        // Modules under their own paths come before those that `pub use` makes public.
        while let Some((module, path)) = public.get(at).cloned() {
            at += 1;
            let Some(own) = self.modules.get(module) else {
                continue;
            };
            for (n, item) in own.items.iter().enumerate() {
                self.shown
                    .insert(Target::Item(module, n), format!("{path}::{}", item.name));
            }
            for (name, child) in &own.children {
                if self
                    .modules
                    .get(*child)
                    .is_some_and(|child| child.is_public)
                {
                    let path = format!("{path}::{name}");
                    self.shown.insert(Target::Module(*child), path.clone());
                    public.push((*child, path));
                }
            }
        }
        let mut outlines = Vec::new();
        let mut at = 0;
        let mut n_items = 0;
        while let Some((module, path)) = public.get(at).cloned() {
            at += 1;
            let outline = self.module(module, &path, &mut public);
            n_items += outline.items.len();
            if !outline.is_empty() && n_items <= MAX_ITEMS {
                outlines.push(outline);
            }
        }
        outlines.sort_by(|a, b| a.path.cmp(&b.path));
        outlines
    }

    fn module(
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
        outline.items.extend(own.items.iter().cloned());
        outline.makers.clone_from(&own.makers);
        let mut uses: Vec<(&Use, Option<(String, Target)>)> = Vec::new();
        for one in &own.uses {
            match &one.name {
                Some(name) => {
                    let found = self.resolve(module, &one.path, 0);
                    uses.push((one, found.map(|target| (name.clone(), target))));
                }
                None => match self.resolve(module, &one.path, 0) {
                    Some(Target::Module(from)) => {
                        let names = self.names_in(from, 0);
                        uses.extend(names.into_iter().map(|named| (one, Some(named))));
                    }
                    // The variants of an enum, or a crate that is elsewhere.
                    _ => uses.push((one, None)),
                },
            }
        }
        for (one, found) in uses {
            let Some((name, target)) = found else {
                let (last, from) = one.path.split_last().unzip();
                let (from, name) = match (&one.name, last) {
                    (Some(name), Some(last)) => {
                        let name = match name == last {
                            true => name.clone(),
                            false => format!("{last} as {name}"),
                        };
                        (from.unwrap_or_default(), name)
                    }
                    _ => (one.path.as_slice(), "*".to_owned()),
                };
                let from = match from.split_first() {
                    Some((first, rest)) if first == "crate" => {
                        let rest = rest.iter().map(String::as_str);
                        let names: Vec<&str> =
                            std::iter::once(self.crate_name).chain(rest).collect();
                        names.join("::")
                    }
                    _ => from.join("::"),
                };
                let names = outline.reexports.entry(from).or_default();
                names.insert(name);
                continue;
            };
            if let Some(shown) = self.shown.get(&target) {
                if let Some((from, name)) =
                    shown.rsplit_once("::").filter(|(from, _)| *from != path)
                {
                    let names = outline.reexports.entry(from.to_owned()).or_default();
                    names.insert(name.to_owned());
                }
                continue;
            }
            let here = format!("{path}::{name}");
            self.shown.insert(target, here.clone());
            match target {
                Target::Module(inner) => public.push((inner, here)),
                Target::Item(from, n) => {
                    let item = self
                        .modules
                        .get(from)
                        .and_then(|module| module.items.get(n));
                    outline.items.extend(item.map(|item| {
                        let docs = if one.docs.is_empty() {
                            item.docs.clone()
                        } else {
                            one.docs.clone()
                        };
                        ItemOutline {
                            name,
                            docs,
                            ..item.clone()
                        }
                    }));
                }
            }
        }
        outline
    }

    /// The public names of a module.
    fn names_in(&self, module: usize, depth: usize) -> Vec<(String, Target)> {
        let Some(own) = self.modules.get(module).filter(|_| depth < MAX_CHAIN) else {
            return Vec::new();
        };
        let items = own.items.iter().enumerate();
        let items = items.map(|(n, item)| (item.name.clone(), Target::Item(module, n)));
        let children = own.children.iter().filter(|(_, child)| {
            self.modules
                .get(**child)
                .is_some_and(|child| child.is_public)
        });
        let children = children.map(|(name, child)| (name.clone(), Target::Module(*child)));
        let mut names: Vec<(String, Target)> = items.chain(children).collect();
        for one in &own.uses {
            match (&one.name, self.resolve(module, &one.path, depth + 1)) {
                (Some(name), Some(target)) => names.push((name.clone(), target)),
                (None, Some(Target::Module(from))) => names.extend(self.names_in(from, depth + 1)),
                _ => {}
            }
            if names.len() > MAX_ITEMS {
                break;
            }
        }
        names
    }

    /// Follows a path from a module, through names that `pub use` gives.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        if depth > MAX_CHAIN {
            return None;
        }
        let mut names = path.iter();
        let mut at = from;
        let mut rest = names.as_slice();
        while let Some(name) = names.next() {
            match name.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules.get(at)?.parent?,
                _ => break,
            }
            rest = names.as_slice();
        }
        let mut target = Target::Module(at);
        for name in rest {
            let Target::Module(module) = target else {
                return None;
            };
            target = self.named(module, name, depth + 1)?;
        }
        Some(target)
    }

    fn named(&self, module: usize, name: &str, depth: usize) -> Option<Target> {
        let own = self.modules.get(module).filter(|_| depth <= MAX_CHAIN)?;
        if let Some(child) = own.children.get(name) {
            return Some(Target::Module(*child));
        }
        if let Some(n) = own.items.iter().position(|item| item.name == name) {
            return Some(Target::Item(module, n));
        }
        own.uses.iter().find_map(|one| match &one.name {
            Some(own) if own == name => self.resolve(module, &one.path, depth + 1),
            Some(_) => None,
            None => match self.resolve(module, &one.path, depth + 1)? {
                Target::Module(from) if from != module => self.named(from, name, depth + 1),
                _ => None,
            },
        })
    }
}
