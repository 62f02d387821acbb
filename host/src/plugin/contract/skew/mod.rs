//! Compares the types that a component was built with to the contract of this host, and reports the
//! differences.
//!
//! A component names a contract version in its interfaces. If it was built with an edited copy of
//! the contract, or with an SDK from between two versions, the names match but the types do not,
//! and the engine reports only "3 fields, found 4 fields" without naming the type. The comparison
//! runs only for components that failed to link or were just built, because it parses the component
//! and the contract again. Start from [`find_type_mismatch`].

mod guest;
mod own;

use std::collections::BTreeMap;

use super::{CURRENT_CONTRACT_VERSION, stamp};
use crate::plugin::Error;

/// Named type: a record, a variant, an enum or flags.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedWitType {
    /// Kind of the type: `record`, `variant`, `enum`, `flags`, or `type` for any other.
    kind: &'static str,
    /// Names of the type's fields or cases, in the order of their declaration.
    parts: Vec<String>,
    /// Complete type as text, with nested types written out. If the texts of component and host are
    /// equal, the types are equal.
    text: String,
}

/// Interface of the contract: its functions, each with all types spelled out, and its named types.
#[derive(Clone, Debug, Default)]
struct ContractInterface {
    functions: BTreeMap<String, String>,
    types: BTreeMap<String, NamedWitType>,
}

/// Interfaces of the plugin contract, by their names without package and version.
type ContractInterfaces = BTreeMap<String, ContractInterface>;

/// Finds an interface of the contract for which the component was built with other types, and
/// returns it as an error. Returns `None` if all types match or if the bytes are not a valid
/// component.
#[must_use]
pub fn find_type_mismatch(component: &[u8]) -> Option<Error> {
    let theirs = guest::read_guest_interfaces(component)?;
    let ours = own::read_host_interfaces();
    let (name, difference) = theirs.interfaces.iter().find_map(|(name, interface)| {
        Some((
            name,
            describe_differing_function(interface, ours.get(name)?)?,
        ))
    })?;
    // An error about the differing type is more helpful than one about a function that uses it.
    let part = describe_differing_type(&theirs.interfaces, &ours);
    let stamp = stamp::check_component_contract_versions(component)
        .ok()
        .flatten();
    let theirs_built = theirs.names.get(name).cloned().unwrap_or_default();
    let version = theirs_built.rsplit('@').next().unwrap_or_default();
    Some(Error::Skew {
        interface: theirs_built.clone(),
        difference: part.unwrap_or(difference),
        built_with: match stamp {
            Some(stamp) => format!("{} for contract {}", stamp.sdk, stamp.contract),
            None => format!("contract {version}"),
        },
        own: CURRENT_CONTRACT_VERSION,
    })
}

/// Describes the first function that differs from this host's or that this host lacks.
fn describe_differing_function(
    theirs: &ContractInterface,
    own: &ContractInterface,
) -> Option<String> {
    let mut functions = theirs.functions.iter();
    functions.find_map(|(name, text)| match own.functions.get(name) {
        None => Some(format!(
            "it has the function `{name}`, which this host does not have"
        )),
        Some(own) if own != text => Some(format!("its function `{name}` has different types")),
        Some(_) => None,
    })
}

/// Describes the first named type whose parts have other names, or other types, in the component
/// than in this host.
fn describe_differing_type(
    theirs: &ContractInterfaces,
    ours: &ContractInterfaces,
) -> Option<String> {
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
        let only = |of: &NamedWitType, other: &NamedWitType| {
            let only = of.parts.iter().filter(|part| !other.parts.contains(part));
            let only: Vec<String> = only.map(|part| format!("`{part}`")).collect();
            (!only.is_empty()).then(|| only.join(", "))
        };
        if kind != own.kind {
            return Some(format!(
                "`{name}` is a {kind} in the component, but a {} in this host",
                own.kind
            ));
        }
        match (only(theirs, own), only(own, theirs)) {
            (Some(more), None) => Some(format!(
                "the {kind} `{name}` has {more}, which this host's version of it does not have"
            )),
            (None, Some(less)) => Some(format!(
                "the {kind} `{name}` lacks {less}, which this host's version of it has"
            )),
            (Some(more), Some(less)) => {
                Some(format!("the {kind} `{name}` has {more} in place of {less}"))
            }
            (None, None) if theirs.parts != own.parts => Some(format!(
                "the parts of the {kind} `{name}` are in a different order"
            )),
            (None, None) => None,
        }
    });
    by_parts.or_else(|| {
        let mut differing = pairs().filter(|(_, theirs, own)| theirs.text != own.text);
        let (name, theirs, _) = differing.next()?;
        Some(format!(
            "the types of the parts of the {} `{name}` differ",
            theirs.kind
        ))
    })
}
