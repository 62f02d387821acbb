//! Compares the types that a component was built with with those of the contract here, and names where they differ.
//!
//! A component names a version of the contract in its interfaces. With an edited copy of it, or an SDK between two versions, the
//! names fit and the types do not, and the engine then speaks of "3 fields, found 4 fields" without saying of what. Asked only about
//! a component that failed, or that was just built: both sides are read again for it. Start from [`find`].

mod guest;
mod own;

use std::collections::BTreeMap;

use super::{CURRENT, stamp};
use crate::plugin::Error;

/// A type with names of its own: a record, a variant, an enum or flags.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedType {
    /// Kind of the type: `record`, `variant`, `enum`, `flags`, or `type` for any other.
    kind: &'static str,
    /// Names of its parts in order.
    parts: Vec<String>,
    /// The whole of it with everything within spelled out, the same for the same type on both sides.
    text: String,
}

/// An interface: its functions, each with everything within spelled out, and its named types.
#[derive(Clone, Debug, Default)]
struct Interface {
    functions: BTreeMap<String, String>,
    types: BTreeMap<String, NamedType>,
}

/// Interfaces by their names without package and version.
type Interfaces = BTreeMap<String, Interface>;

/// Finds the interface of the contract that a component was built with other types for, as an error; `None` where all of them are
/// those of this host, and for what is no valid component.
#[must_use]
pub fn find(component: &[u8]) -> Option<Error> {
    let theirs = guest::read(component)?;
    let ours = own::read();
    let (name, difference) = theirs.interfaces.iter().find_map(|(name, interface)| {
        Some((name, differing_function(interface, ours.get(name)?)?))
    })?;
    // What the function is made of says more than that it differs.
    let part = differing_type(&theirs.interfaces, &ours);
    let stamp = stamp::read(component).ok().flatten();
    let theirs_built = theirs.names.get(name).cloned().unwrap_or_default();
    let version = theirs_built.rsplit('@').next().unwrap_or_default();
    Some(Error::Skew {
        interface: theirs_built.clone(),
        difference: part.unwrap_or(difference),
        built_with: match stamp {
            Some(stamp) => format!("{} for contract {}", stamp.sdk, stamp.contract),
            None => format!("contract {version}"),
        },
        own: CURRENT,
    })
}

/// Describes the first function that differs from the one here, or that is not here.
fn differing_function(theirs: &Interface, own: &Interface) -> Option<String> {
    let mut functions = theirs.functions.iter();
    functions.find_map(|(name, text)| match own.functions.get(name) {
        None => Some(format!(
            "it has the function `{name}`, which this host does not have"
        )),
        Some(own) if own != text => Some(format!("its function `{name}` has other types")),
        Some(_) => None,
    })
}

/// Describes the first named type that has other parts, or else other types of them.
fn differing_type(theirs: &Interfaces, ours: &Interfaces) -> Option<String> {
    let pairs = || {
        theirs.iter().flat_map(|(interface, types)| {
            let own = ours.get(interface);
            types
                .types
                .iter()
                .filter_map(move |(name, theirs)| Some((name, theirs, own?.types.get(name)?)))
        })
    };
    let by_parts = pairs().find_map(|(name, theirs, own)| {
        let kind = theirs.kind;
        let only = |of: &NamedType, other: &NamedType| {
            let only = of.parts.iter().filter(|part| !other.parts.contains(part));
            let only: Vec<String> = only.map(|part| format!("`{part}`")).collect();
            (!only.is_empty()).then(|| only.join(", "))
        };
        if kind != own.kind {
            return Some(format!("`{name}` is a {kind}, and here a {}", own.kind));
        }
        match (only(theirs, own), only(own, theirs)) {
            (Some(more), None) => Some(format!(
                "the {kind} `{name}` has {more}, which it does not have here"
            )),
            (None, Some(less)) => Some(format!(
                "the {kind} `{name}` lacks {less}, which it has here"
            )),
            (Some(more), Some(less)) => {
                Some(format!("the {kind} `{name}` has {more} in place of {less}"))
            }
            (None, None) if theirs.parts != own.parts => Some(format!(
                "the {kind} `{name}` has its parts in another order"
            )),
            (None, None) => None,
        }
    });
    by_parts.or_else(|| {
        let mut differing = pairs().filter(|(_, theirs, own)| theirs.text != own.text);
        let (name, theirs, _) = differing.next()?;
        Some(format!(
            "the {} `{name}` has parts of other types",
            theirs.kind
        ))
    })
}
