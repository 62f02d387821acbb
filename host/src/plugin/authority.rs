//! Checks that a component's imports and exports are covered by its manifest.
//!
//! The check only compares names and runs before anything is linked: an import that is not covered
//! is refused, never stubbed. The table of imports contains the requirement of each import.

use super::contract;
use super::exports::NON_HOOK_EXPORT_FUNCTIONS;
use super::imports::FILES_ACCESS_DESCRIPTION;
pub use super::imports::{
    IMPORTABLE_INTERFACES, ImportableInterface, InterfaceImportRequirement, InterfaceUsageLimit,
};
use super::manifest::Manifest;
use super::{Error, foreign};
use crate::grant::decide::{GrantDecision, GrantStatus};
use crate::grant::{Capability, GrantedCapabilities, SideEffect};
use crate::point::catalog;
use crate::point::dispatch::ExtensionPointKind;

/// Returns the row of an interface in the table of imports. Every import that passes
/// [`check_import_declared`] has a row.
#[must_use]
pub fn find_importable_interface(interface: &str) -> Option<&'static ImportableInterface> {
    let own = contract::split_interface_name(interface).map(|(name, _)| name);
    IMPORTABLE_INTERFACES.iter().find(|row| match own {
        Some(name) => row.name == name,
        None => !row.is_contract_interface() && interface.starts_with(row.name),
    })
}

/// Returns a short description of the access that an import gives to a plugin.
#[must_use]
pub fn describe_access_through_import(interface: &str, has_folders: bool) -> &'static str {
    match find_importable_interface(interface).map(|row| row.gives) {
        Some(FILES_ACCESS_DESCRIPTION) if !has_folders => "no folder at all",
        Some(gives) => gives,
        None => "unknown to this version of Rind",
    }
}

fn refused_interface_error(interface: &str, why: String) -> Result<(), Error> {
    Err(Error::Import {
        import: interface.to_owned(),
        why,
    })
}

/// Checks that a component with this manifest may import an interface.
pub fn check_import_declared(manifest: &Manifest, interface: &str) -> Result<(), Error> {
    if let Some(why) = foreign::unsupported_wasi_reason(interface) {
        return refused_interface_error(interface, why);
    }
    let own = contract::split_interface_name(interface);
    let Some(row) = find_importable_interface(interface) else {
        let why = match own {
            Some(_) => "which is not an interface of the contract",
            None if interface.starts_with("wasi:http/") => {
                "which this host does not offer; there is `wasi:http/outgoing-handler`"
            }
            None => "which this host does not know",
        };
        return refused_interface_error(interface, why.to_owned());
    };
    match row.needs.describe_missing_manifest_entry(manifest) {
        Some(why) => refused_interface_error(interface, why),
        None => Ok(()),
    }
}

/// Checks one import against the granted (or requested) permissions. The caller has already checked
/// that the manifest's side effects cover the import. An import without a matching grant is not
/// linked, and linking would fail; this check fails first, with an error that names the import.
pub fn check_import_granted(granted: &GrantedCapabilities, interface: &str) -> Result<(), Error> {
    match find_importable_interface(interface).and_then(|row| row.needs.refusal_reason(granted)) {
        Some(why) => refused_interface_error(interface, format!("but {why}")),
        None => Ok(()),
    }
}

/// Checks one import against a decision about the plugin's permissions. The caller has already
/// checked that the requested permissions cover the import. If the policy denies the permission,
/// the error names the policy line, because changing the manifest would not help.
pub fn check_import_against_grant_decision(
    decision: &GrantDecision,
    interface: &str,
) -> Result<(), Error> {
    check_import_granted(&decision.granted_capabilities(), interface).or_else(|error| {
        let needs = find_importable_interface(interface)
            .map_or(InterfaceImportRequirement::Nothing, |row| row.needs);
        match describe_denied_capabilities(decision, |capability| needs.is_satisfied_by(capability))
        {
            None => Err(error),
            Some(why) => {
                let why = format!("for which the policy denies the permission: {why}");
                refused_interface_error(interface, why)
            }
        }
    })
}

/// Checks that the decision about a plugin's permissions lets its component have this export; see
/// [`check_import_against_grant_decision`].
pub fn check_export_against_grant_decision(
    decision: &GrantDecision,
    export: &str,
) -> Result<(), Error> {
    check_export_granted(&decision.granted_capabilities(), export).map_err(|error| {
        match describe_denied_capabilities(decision, |capability| {
            *capability == Capability::Session
        }) {
            None => error,
            Some(why) => Error::Export {
                export: export.to_owned(),
                why: format!("for which the policy denies the permission: {why}"),
            },
        }
    })
}

/// Lists the denied capabilities among those that `is_needed` selects, each with the policy line
/// that denies it; `None` if none is denied.
fn describe_denied_capabilities(
    decision: &GrantDecision,
    is_needed: impl Fn(&Capability) -> bool,
) -> Option<String> {
    let denied = decision
        .rows
        .iter()
        .filter(|row| row.standing == GrantStatus::Denied && is_needed(&row.capability));
    let said: Vec<String> = denied
        .map(|row| format!("`{}` is {}", row.capability, row.why))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Checks one export against the granted permissions. The caller has already checked that the
/// manifest covers the export.
fn check_export_granted(granted: &GrantedCapabilities, export: &str) -> Result<(), Error> {
    let mut rows = catalog::CATALOG.iter();
    let changes = rows.any(|row| row.name == export && can_change_conversation(row));
    if changes && !granted.has_capability(&Capability::Session) {
        return Err(Error::Export {
            export: export.to_owned(),
            why: "which needs the capability `session`, and that was not granted".to_owned(),
        });
    }
    Ok(())
}

/// Whether hooks at this extension point can change the conversation.
fn can_change_conversation(row: &catalog::BuiltinExtensionPoint) -> bool {
    matches!(
        row.kind,
        ExtensionPointKind::Mutate | ExtensionPointKind::Collect
    )
}

/// Whether hooks of the point `export` see parts of the conversation. Hooks that only observe need
/// no capability for that.
pub fn can_see_conversation(export: &str) -> bool {
    !matches!(export, "session-start" | "session-end")
        && catalog::CATALOG.iter().any(|row| row.name == export)
}

/// Kind of an interface that a component exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedInterfaceKind {
    Hook(&'static catalog::BuiltinExtensionPoint),
    /// Interface that is not a point: `tools`, `implement`, `loop`, `agent-loop` or `commands`.
    Other(&'static str),
    /// Interface of a package other than `rind:plugin`, which the host ignores.
    Foreign,
}

/// Checks one export: a point that changes the conversation needs the side effect `session`. A gate
/// needs none, because it may always refuse; each call checks that a gate without `session` changes
/// no arguments.
pub fn check_export_declared(
    manifest: &Manifest,
    interface: &str,
) -> Result<ExportedInterfaceKind, Error> {
    let refuse = |why: String| {
        Err(Error::Export {
            export: interface.to_owned(),
            why,
        })
    };
    let Some((name, version)) = contract::split_interface_name(interface) else {
        return Ok(ExportedInterfaceKind::Foreign);
    };
    if let Some((other, _)) = NON_HOOK_EXPORT_FUNCTIONS
        .iter()
        .find(|(other, _)| *other == name)
    {
        return Ok(ExportedInterfaceKind::Other(other));
    }
    let point = contract::find_hook_binder(name, version).map_or(name, |(point, _)| point);
    let Some(row) = catalog::CATALOG.iter().find(|row| row.name == point) else {
        return refuse("which is not an interface of the contract".to_owned());
    };
    if can_change_conversation(row) && !manifest.has_side_effect(SideEffect::Session) {
        return refuse(format!(
            "a {} point, which needs `side_effects = [\"session\"]` in plugin.toml",
            row.kind
        ));
    }
    Ok(ExportedInterfaceKind::Hook(row))
}

/// Refuses an export that has the name of a contract interface but is not an interface: the host
/// would never call it, although its author meant it as a hook.
pub fn check_export_is_interface(export: &str) -> Result<(), Error> {
    if contract::split_interface_name(export).is_none() {
        return Ok(());
    }
    Err(Error::Export {
        export: export.to_owned(),
        why: "which is not an interface there; hooks and tools are interfaces with functions: build it with an SDK, or export the \
              world of the contract"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_import_that_is_let_through_says_what_it_gives() {
        let manifest = Manifest::parse(
            "name = \"all\"\nversion = \"0.1.0\"\ndescription = \"x\"\n\
             side_effects = [\"session\", \"network\", \"filesystem\", \"external\"]\n\
             [external]\nmodel = true\nagents = true\nturns = true\nagent_loop = true\ntools = [\"bash\"]\n[compat]\nsockets = \"inert\"\n",
            Path::new("plugin.toml"),
        )
        .unwrap();
        let own = IMPORTABLE_INTERFACES
            .iter()
            .filter(|row| row.is_contract_interface());
        let own = own.map(|row| {
            format!(
                "rind:plugin/{}@{}",
                row.name,
                contract::CURRENT_CONTRACT_VERSION
            )
        });
        let wasi = "io/poll io/streams cli/environment cli/exit cli/stdin cli/stderr cli/terminal-output \
                    clocks/monotonic-clock random/random filesystem/types filesystem/preopens http/types \
                    http/outgoing-handler sockets/tcp";
        let wasi = wasi.split_whitespace();
        let all = own.chain(wasi.map(|name| format!("wasi:{name}@0.2.6")));
        for import in all {
            assert!(
                check_import_declared(&manifest, &import).is_ok(),
                "{import}"
            );
            let gives = describe_access_through_import(&import, true);
            assert!(!gives.contains("unknown"), "{import}: {gives}");
        }
        assert_eq!(
            describe_access_through_import("rind:plugin/tools-host@0.1.0", true),
            "calling the tools that it was granted"
        );
        assert_eq!(
            describe_access_through_import("wasi:filesystem/types@0.2.6", false),
            "no folder at all"
        );
        // A refused import is described as unknown, so that no access is claimed for it.
        for import in ["wasi:tls/client@0.2.0", "rind:plugin/elsewhere@0.1.0"] {
            assert!(check_import_declared(&manifest, import).is_err());
            assert!(describe_access_through_import(import, true).contains("unknown"));
        }
    }
}
