//! Gives `impl` blocks to their types.

use std::collections::BTreeMap;

use super::names::{Found, Names};
use super::{Module, add_new};
use crate::derive::rust::TypeOutline;
use crate::derive::rust::impls::{Gives, Impl};

/// Types that macros make, each by the module that it is in and the rest of its path.
pub(super) type Made = BTreeMap<(usize, Vec<String>), TypeOutline>;

enum Owner {
    Item(usize, usize),
    Made(usize, Vec<String>),
}

/// Gives each `impl` to the type that its path leads to, whether that stands in the source or a macro makes it. What is for a
/// type or of a trait that others cannot use is dropped.
pub(super) fn attach(modules: &mut [Module], impls: Vec<(usize, Vec<String>, Impl)>) -> Made {
    let names = Names::new(modules);
    let mut owned = Vec::new();
    for (module, conditions, one) in impls {
        let is_inherent = matches!(one.gives, Gives::Methods(_));
        let owner = match names.find(module, &one.path) {
            Found::Item(module, n) => match type_of(modules, module, n) {
                Some(n) => Owner::Item(module, n),
                None => continue,
            },
            Found::Made(module, path) => Owner::Made(module, path),
            // A type with methods of its own is of this crate: a macro has made it here.
            Found::Elsewhere(path) if is_inherent && path.len() == 1 => Owner::Made(module, path),
            Found::Module(_) | Found::Private | Found::Elsewhere(_) => continue,
        };
        if let Gives::Trait(path, _) = &one.gives
            && matches!(names.find(module, path), Found::Private)
        {
            continue;
        }
        owned.push((owner, module, conditions, one.gives));
    }
    let mut made = Made::new();
    for (owner, module, own, gives) in owned {
        let mut all = modules
            .get(module)
            .map(|module| module.conditions.clone())
            .unwrap_or_default();
        add_new(&mut all, own);
        let (of_type, implements, impls) = match owner {
            Owner::Item(at, n) => {
                let Some(at) = modules.get_mut(at) else {
                    continue;
                };
                let inherited = at.conditions.clone();
                let Some(item) = at.items.get_mut(n) else {
                    continue;
                };
                let mut of_type = inherited;
                add_new(&mut of_type, item.conditions.clone());
                (of_type, &mut item.implements, &mut item.impls)
            }
            Owner::Made(at, path) => {
                let of_type = made.entry((at, path)).or_default();
                (Vec::new(), &mut of_type.implements, &mut of_type.impls)
            }
        };
        match gives {
            Gives::Trait(_, shown) => drop(implements.insert(shown)),
            Gives::Methods(mut block) => {
                all.retain(|one| !of_type.contains(one));
                block.conditions = all;
                impls.push(block);
            }
        }
    }
    made.retain(|_, one| !one.impls.is_empty());
    made
}

/// The type of the name that an item has, which may be that of a function too.
fn type_of(modules: &[Module], module: usize, n: usize) -> Option<usize> {
    let module = modules.get(module)?;
    let places = module.places.get(&module.items.get(n)?.name)?;
    let is_type = |n: &&usize| {
        module.items.get(**n).is_some_and(|item| {
            matches!(
                item.kind.as_str(),
                "struct" | "enum" | "union" | "type" | "trait"
            )
        })
    };
    places.iter().find(is_type).copied()
}
