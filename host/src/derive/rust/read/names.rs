//! Resolves names and paths in a crate.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use syn::{ItemUse, UseTree};

use super::Module;
use crate::derive::rust::attributes::{conditions, docs_of};

/// Maximum length of a path, and of a chain of `use`.
const MAX_CHAIN: usize = 64;

/// Maximum number of name lookups for all paths of a crate.
const MAX_STEPS: usize = 2_000_000;

/// A single name imported by `use`, or all names of a module.
pub(super) struct Use {
    pub(super) path: Vec<String>,
    /// Local name; `None` for `*`.
    pub(super) name: Option<String>,
    pub(super) docs: String,
    pub(super) is_public: bool,
    pub(super) conditions: Vec<String>,
}

/// Result of resolving a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Module(usize),
    /// Item, by its module and its index there.
    Item(usize, usize),
    /// Type or trait that other crates cannot use.
    Private,
    /// Path inside a module of the crate that is not in its source, because a macro generates it.
    Made(usize, Vec<String>),
    /// Path in another crate, or a name from the prelude.
    Elsewhere(Vec<String>),
}

impl Use {
    pub(super) fn all(item: &ItemUse, is_public: bool) -> Vec<Self> {
        let mut uses = Vec::new();
        let (docs, conditions) = (docs_of(&item.attrs), conditions(&item.attrs));
        let mut push = |path: &[String], name: Option<String>| {
            uses.push(Self {
                path: path.to_vec(),
                name,
                docs: docs.clone(),
                is_public,
                conditions: conditions.clone(),
            });
        };
        flatten(&item.tree, &mut Vec::new(), &mut push);
        uses
    }
}

fn flatten(
    tree: &UseTree,
    path: &mut Vec<String>,
    push: &mut impl FnMut(&[String], Option<String>),
) {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            flatten(&inner.tree, path, push);
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
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, path, push);
            }
        }
    }
}

/// Resolves paths. Ignores visibility, because the crate compiles.
pub(super) struct Names<'a> {
    modules: &'a [Module],
    known: RefCell<HashMap<(usize, String), Option<Found>>>,
    n_steps: Cell<usize>,
}

/// Names that are currently being resolved, to detect cycles.
#[derive(Default)]
struct Open {
    names: HashSet<(usize, String)>,
    /// Whether a cycle prevented a lookup.
    is_cut: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(modules: &'a [Module]) -> Self {
        Self {
            modules,
            known: RefCell::default(),
            n_steps: Cell::default(),
        }
    }

    /// Resolves a path relative to a module.
    pub(super) fn find(&self, from: usize, path: &[String]) -> Found {
        self.follow(from, path, &mut Open::default())
    }

    pub(super) fn public(&self, module: usize) -> Vec<(String, Found, Vec<String>)> {
        let mut names = Vec::new();
        let mut open = vec![(module, Vec::new())];
        let mut seen = HashSet::from([module]);
        while let Some((at, conditions)) = open.pop() {
            let Some(own) = self.modules.get(at) else {
                continue;
            };
            let items = own.items.iter().enumerate();
            names.extend(
                items.map(|(n, item)| (item.name.clone(), Found::Item(at, n), conditions.clone())),
            );
            let is_public = |child: &usize| self.modules.get(*child).is_some_and(|m| m.is_public);
            let children = own.children.iter().filter(|(_, child)| is_public(child));
            names
                .extend(children.map(|(name, child)| {
                    (name.clone(), Found::Module(*child), conditions.clone())
                }));
            for one in own.uses.iter().filter(|one| one.is_public) {
                let mut conditions = conditions.clone();
                super::add_new(&mut conditions, one.conditions.clone());
                match (&one.name, self.find(at, &one.path)) {
                    (Some(name), found) => names.push((name.clone(), found, conditions)),
                    (None, Found::Module(from)) if seen.insert(from) => {
                        open.push((from, conditions));
                    }
                    (None, Found::Made(at, path)) => {
                        names.push(("*".to_owned(), Found::Made(at, path), conditions));
                    }
                    (None, _) => {}
                }
            }
            if names.len() > super::MAX_ITEMS {
                break;
            }
        }
        names
    }

    fn follow(&self, from: usize, path: &[String], open: &mut Open) -> Found {
        let elsewhere = || Found::Elsewhere(path.to_vec());
        let mut at = from;
        let mut rest = path;
        let mut is_first = true;
        while let Some((name, more)) = rest.split_first() {
            match name.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => match self.modules.get(at).and_then(|module| module.parent) {
                    Some(parent) => at = parent,
                    None => return elsewhere(),
                },
                _ => break,
            }
            is_first = false;
            rest = more;
        }
        while let Some((name, more)) = rest.split_first() {
            let found = self.named(at, name, open);
            // Through a glob import, a generated module could contain any name. Accept that only
            // for single names; the first name of a longer path is more likely a crate.
            let is_made = matches!(found, Some(Found::Made(..)));
            if is_first && !more.is_empty() && is_made && !self.names_itself(at, name) {
                return elsewhere();
            }
            match found {
                Some(Found::Module(module)) => at = module,
                Some(Found::Made(module, mut names)) => {
                    names.extend_from_slice(more);
                    return Found::Made(module, names);
                }
                Some(Found::Elsewhere(mut names)) => {
                    names.extend_from_slice(more);
                    return Found::Elsewhere(names);
                }
                Some(found) if more.is_empty() => return found,
                // The variant of an enum, or an associated item of a type.
                Some(_) => return elsewhere(),
                None if is_first => return elsewhere(),
                None => return Found::Made(at, rest.to_vec()),
            }
            is_first = false;
            rest = more;
        }
        Found::Module(at)
    }

    /// Whether a module has a `use` for exactly this name.
    fn names_itself(&self, module: usize, name: &str) -> bool {
        let own = self.modules.get(module).map(|module| &module.uses);
        let mut uses = own.into_iter().flatten();
        uses.any(|one| one.name.as_deref() == Some(name))
    }

    fn named(&self, module: usize, name: &str, open: &mut Open) -> Option<Found> {
        let own = self.modules.get(module)?;
        if let Some(child) = own.children.get(name) {
            return Some(Found::Module(*child));
        }
        if let Some(n) = own.places.get(name).and_then(|places| places.first()) {
            return Some(Found::Item(module, *n));
        }
        if own.private.contains(name) {
            return Some(Found::Private);
        }
        let key = (module, name.to_owned());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        self.n_steps.set(self.n_steps.get() + own.uses.len() + 1);
        if self.n_steps.get() > MAX_STEPS || open.names.len() > MAX_CHAIN {
            return None;
        }
        if !open.names.insert(key.clone()) {
            open.is_cut = true;
            return None;
        }
        let was_cut = std::mem::take(&mut open.is_cut);
        let found = self.used(module, own, name, open);
        open.names.remove(&key);
        if found.is_some() || !open.is_cut {
            self.known.borrow_mut().insert(key, found.clone());
        }
        open.is_cut |= was_cut;
        found
    }

    /// Resolves a name imported by `use`, directly or by a glob.
    fn used(&self, module: usize, own: &Module, name: &str, open: &mut Open) -> Option<Found> {
        let is_it = |one: &&Use| one.name.as_deref() == Some(name);
        let mut first: Option<Found> = None;
        // If several imports exist for different targets, prefer one that is in the source.
        for one in own.uses.iter().filter(is_it) {
            // An import whose path begins with its own name refers to a crate.
            let is_crate = one.path.first().is_some_and(|first| first == name);
            let found = match is_crate {
                true => Found::Elsewhere(one.path.clone()),
                false => self.follow(module, &one.path, open),
            };
            if matches!(found, Found::Module(_) | Found::Item(..)) {
                return Some(found);
            }
            first = first.or(Some(found));
        }
        if first.is_some() {
            return first;
        }
        let mut made: Option<Found> = None;
        for one in own.uses.iter().filter(|one| one.name.is_none()) {
            match self.follow(module, &one.path, open) {
                Found::Module(from) if from != module => {
                    if let Some(found) = self.named(from, name, open) {
                        return Some(found);
                    }
                }
                Found::Made(from, mut names) if made.is_none() => {
                    names.push(name.to_owned());
                    made = Some(Found::Made(from, names));
                }
                _ => {}
            }
        }
        made
    }
}
