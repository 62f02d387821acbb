//! Checks that a component's imports and exports are covered by its manifest.
//!
//! Decided from names alone, before anything is linked: an import that is not covered is refused, never stubbed. WASI that
//! a language's standard library pulls in is linked to an empty context; what could reach files or the network is not.

use super::Error;
use super::contract;
use super::manifest::Manifest;
use crate::grant::decide::{Decision, Standing};
use crate::grant::{Capability, Granted, SideEffect};
use crate::point::catalog;
use crate::point::dispatch::PointKind;

/// A host interface and what it takes to import it.
#[derive(Clone, Copy, Debug)]
pub struct ImportRow {
    /// Name within `rind:plugin`.
    pub name: &'static str,
    /// Side effect that must be declared; `None` is free for all.
    pub needs: Option<SideEffect>,
    /// The access it gives, in a few words.
    pub gives: &'static str,
}

/// Every host interface of `wit/`.
pub const IMPORTS: &[ImportRow] = &[
    ImportRow {
        name: "types",
        needs: None,
        gives: "data types, no access",
    },
    ImportRow {
        name: "payloads",
        needs: None,
        gives: "data types, no access",
    },
    ImportRow {
        name: "handles",
        needs: None,
        gives: "parts of what its hooks are shown",
    },
    ImportRow {
        name: "outcomes",
        needs: None,
        gives: "data types, no access",
    },
    ImportRow {
        name: "caller",
        needs: None,
        gives: "who calls it, and what the turn has used",
    },
    ImportRow {
        name: "log",
        needs: None,
        gives: "its own lines in the log",
    },
    ImportRow {
        name: "state",
        needs: None,
        gives: "its own values in the session",
    },
    ImportRow {
        name: "store",
        needs: None,
        gives: "its own values across sessions",
    },
    ImportRow {
        name: "config",
        needs: None,
        gives: "its own settings",
    },
    ImportRow {
        name: "points",
        needs: None,
        gives: "calling its own points, and those that let it",
    },
    ImportRow {
        name: "session",
        needs: Some(SideEffect::Session),
        gives: "reading the conversation",
    },
    ImportRow {
        name: "model",
        needs: Some(SideEffect::External),
        gives: "asking a model, which costs tokens",
    },
    ImportRow {
        name: "agents",
        needs: Some(SideEffect::External),
        gives: "running subagents",
    },
    ImportRow {
        name: "tools-host",
        needs: Some(SideEffect::External),
        gives: "calling the tools that it was granted",
    },
    ImportRow {
        name: "files",
        needs: Some(SideEffect::Filesystem),
        gives: FILES,
    },
    ImportRow {
        name: "http",
        needs: Some(SideEffect::Network),
        gives: HTTP,
    },
];

/// WASI packages that are linked to a context with nothing in it, and the access that each gives.
const INERT_WASI: &[(&str, &str)] = &[
    ("wasi:io/", "streams, no access by themselves"),
    ("wasi:cli/environment@", "an empty environment"),
    ("wasi:cli/stdin@", "a stream that leads nowhere"),
    ("wasi:cli/stdout@", "a stream that leads nowhere"),
    (
        "wasi:cli/stderr@",
        "a buffer that only shows in its error messages",
    ),
    ("wasi:cli/", "no access"),
    ("wasi:clocks/", "reading the clock"),
    ("wasi:random/", "random numbers"),
    ("wasi:filesystem/", FILES),
];

/// The access of `files` and of `wasi:filesystem`.
const FILES: &str = "files in the granted folders";

/// WASI interfaces that are the same power as our `http`. Its types come with them; the rest of the package is for servers.
const WASI_HTTP: &[(&str, &str)] = &[
    (
        "wasi:http/types@",
        "data types of requests, no access by itself",
    ),
    ("wasi:http/outgoing-handler@", HTTP),
];

/// The access of `http` and of `wasi:http`.
const HTTP: &str = "requests to the granted hosts";

/// Linked for standard libraries that always import it, when the manifest says so.
const WASI_SOCKETS: (&str, &str) = ("wasi:sockets/", "linked, and denied at every use");

/// Whether an interface sends requests.
fn is_http(interface: &str) -> bool {
    contract::split(interface).is_some_and(|(name, _)| name == "http")
        || WASI_HTTP
            .iter()
            .any(|(name, _)| interface.starts_with(name))
}

/// The access that an import gives, in a few words; every import that passes [`check_import`] has some.
#[must_use]
pub fn gives(interface: &str, has_folders: bool) -> &'static str {
    let own = contract::split(interface)
        .and_then(|(name, _)| IMPORTS.iter().find(|row| row.name == name));
    let wasi = || {
        let all = INERT_WASI.iter().chain(WASI_HTTP).chain([&WASI_SOCKETS]);
        let mut matching = all.filter(|(name, _)| interface.starts_with(name));
        matching.next().map(|(_, gives)| *gives)
    };
    match own.map(|row| row.gives).or_else(wasi) {
        Some(FILES) if !has_folders => "no folder at all",
        Some(gives) => gives,
        None => "unknown to this version of Rind",
    }
}

fn needs(effect: SideEffect) -> String {
    format!("which needs `side_effects = [\"{effect}\"]` in plugin.toml")
}

/// Checks one import against the manifest.
pub fn check_import(manifest: &Manifest, interface: &str) -> Result<(), Error> {
    let refuse = |why: String| {
        Err(Error::Import {
            import: interface.to_owned(),
            why,
        })
    };
    let Some((name, _)) = contract::split(interface) else {
        if INERT_WASI
            .iter()
            .any(|(package, _)| interface.starts_with(package))
        {
            return Ok(());
        }
        if interface.starts_with(WASI_SOCKETS.0) && manifest.compat.sockets.is_some() {
            return Ok(());
        }
        if is_http(interface) {
            if manifest.has(SideEffect::Network) {
                return Ok(());
            }
            return refuse(needs(SideEffect::Network));
        }
        return refuse(match interface.split('/').next() {
            Some("wasi:sockets") => {
                "which no plugin may have: use `rind:plugin/http` and declare `network`, or write `[compat] sockets = \
                 \"inert\"` if it only imports and never uses them".to_owned()
            }
            Some("wasi:http") => "which this host does not offer; there is `wasi:http/outgoing-handler`".to_owned(),
            _ => "which this host does not know".to_owned(),
        });
    };
    let Some(row) = IMPORTS.iter().find(|row| row.name == name) else {
        return refuse("which is no interface of the contract".to_owned());
    };
    if let Some(effect) = row.needs
        && !manifest.has(effect)
    {
        return refuse(needs(effect));
    }
    if let Some(line) = missing_key(manifest, name) {
        return refuse(format!(
            "which needs `{line}` under `[external]` in plugin.toml"
        ));
    }
    Ok(())
}

/// Checks one import against what was granted, or asked for; it is covered by the side effects. What nothing of its kind was
/// granted for is not linked, and is refused by name here rather than by the linker.
pub fn check_granted(granted: &Granted, interface: &str) -> Result<(), Error> {
    let (is_granted, why) = match contract::split(interface).map(|(name, _)| name) {
        Some("session") => (
            granted.has(&Capability::Session),
            "`session` was not granted",
        ),
        Some("model") => (granted.has(&Capability::Model), "`model` was not granted"),
        Some("agents") => (granted.has(&Capability::Agents), "`agents` was not granted"),
        Some("tools-host") => (granted.tools().next().is_some(), "no tool was granted"),
        _ if is_http(interface) => (
            granted.has_network(),
            "no host was granted: list those that it talks to under `[network] hosts` in plugin.toml",
        ),
        // `files` says no at every call where no folder was granted, as a standard library does.
        _ => return Ok(()),
    };
    if is_granted {
        return Ok(());
    }
    Err(Error::Import {
        import: interface.to_owned(),
        why: format!("but {why}"),
    })
}

/// Checks one import against what was decided; it was covered by what was asked for. What the policy denies is named with the
/// line that denies it: the manifest is right then, and asking differently would not help.
pub fn check_decided(decision: &Decision, interface: &str) -> Result<(), Error> {
    check_granted(&decision.granted(), interface).map_err(|error| {
        let own = contract::split(interface).map(|(name, _)| name);
        let is_needed = |capability: &Capability| match (own, capability) {
            (Some("session"), Capability::Session)
            | (Some("model"), Capability::Model)
            | (Some("agents"), Capability::Agents)
            | (Some("tools-host"), Capability::Tool(_)) => true,
            (_, Capability::Network(_) | Capability::PrivateNetwork(_)) => is_http(interface),
            _ => false,
        };
        match denials(decision, is_needed) {
            None => error,
            Some(why) => Error::Import {
                import: interface.to_owned(),
                why: format!("which the policy keeps from it: {why}"),
            },
        }
    })
}

/// Checks one export against what was decided; see [`check_decided`].
pub fn check_decided_export(decision: &Decision, export: &str) -> Result<(), Error> {
    check_granted_export(&decision.granted(), export).map_err(|error| {
        match denials(decision, |capability| *capability == Capability::Session) {
            None => error,
            Some(why) => Error::Export {
                export: export.to_owned(),
                why: format!("which the policy keeps from it: {why}"),
            },
        }
    })
}

/// Returns the denied ones of these capabilities, and the place that denies them.
fn denials(decision: &Decision, is_needed: impl Fn(&Capability) -> bool) -> Option<String> {
    let denied = decision
        .rows
        .iter()
        .filter(|row| row.standing == Standing::Denied && is_needed(&row.capability));
    let said: Vec<String> = denied
        .map(|row| format!("`{}` is {}", row.capability, row.why))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Checks one export against what was granted; it was covered by what the manifest declares.
fn check_granted_export(granted: &Granted, export: &str) -> Result<(), Error> {
    let row = catalog::CATALOG.iter().find(|row| row.name == export);
    match row {
        Some(row)
            if matches!(row.kind, PointKind::Mutate | PointKind::Collect)
                && !granted.has(&Capability::Session) =>
        {
            Err(Error::Export {
                export: export.to_owned(),
                why: "which needs the capability `session`, and that was not granted".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Whether a hook on this point is shown parts of the conversation. Hooks that only watch need no capability for that.
pub fn shows_session(export: &str) -> bool {
    !matches!(export, "session-start" | "session-end")
        && catalog::CATALOG.iter().any(|row| row.name == export)
}

/// The line of `[external]` that an interface needs besides its side effect, when the manifest lacks it.
fn missing_key(manifest: &Manifest, name: &str) -> Option<&'static str> {
    let external = manifest.external.as_ref();
    let (line, is_there) = match name {
        "model" => ("model = true", external.is_some_and(|e| e.model)),
        "agents" => ("agents = true", external.is_some_and(|e| e.agents)),
        "tools-host" => (
            "tools = [\"NAME\"]",
            external.is_some_and(|e| !e.tools.is_empty()),
        ),
        _ => return None,
    };
    (!is_there).then_some(line)
}

/// Kind of an exported interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// A hook on a built-in point.
    Hook(&'static catalog::PointRow),
    /// `tools`, `implement`, `loop` or `commands`.
    Other(&'static str),
    /// Interface of another package; ignored.
    Foreign,
}

impl PartialEq for catalog::PointRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for catalog::PointRow {}

/// Checks one export: changing the conversation needs the side effect `session`. A gate may always refuse; that it changes
/// no arguments without `session` is checked at every call.
pub fn check_export(manifest: &Manifest, interface: &str) -> Result<Export, Error> {
    let refuse = |why: String| {
        Err(Error::Export {
            export: interface.to_owned(),
            why,
        })
    };
    let Some((name, _)) = contract::split(interface) else {
        return Ok(Export::Foreign);
    };
    if let Some(other) = ["tools", "implement", "loop", "commands"]
        .into_iter()
        .find(|other| *other == name)
    {
        return Ok(Export::Other(other));
    }
    let Some(row) = catalog::CATALOG.iter().find(|row| row.name == name) else {
        return refuse("which is no interface of the contract".to_owned());
    };
    if matches!(row.kind, PointKind::Mutate | PointKind::Collect)
        && !manifest.has(SideEffect::Session)
    {
        return refuse(format!(
            "a {} point, which needs `side_effects = [\"session\"]` in plugin.toml",
            row.kind
        ));
    }
    Ok(Export::Hook(row))
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
             [external]\nmodel = true\nagents = true\ntools = [\"bash\"]\n[compat]\nsockets = \"inert\"\n",
            Path::new("plugin.toml"),
        )
        .unwrap();
        let own = IMPORTS
            .iter()
            .map(|row| format!("rind:plugin/{}@{}", row.name, contract::CURRENT));
        let wasi = [
            "io/poll",
            "io/streams",
            "cli/environment",
            "cli/exit",
            "cli/stdin",
            "cli/stderr",
            "cli/terminal-output",
            "clocks/monotonic-clock",
            "random/random",
            "filesystem/types",
            "filesystem/preopens",
            "http/types",
            "http/outgoing-handler",
            "sockets/tcp",
        ];
        let all = own.chain(wasi.map(|name| format!("wasi:{name}@0.2.6")));
        for import in all {
            assert!(check_import(&manifest, &import).is_ok(), "{import}");
            let gives = gives(&import, true);
            assert!(!gives.contains("unknown"), "{import}: {gives}");
        }
        assert_eq!(
            gives("rind:plugin/tools-host@0.1.0", true),
            "calling the tools that it was granted"
        );
        assert_eq!(
            gives("wasi:filesystem/types@0.2.6", false),
            "no folder at all"
        );
        // What is refused has no words either, so that nothing is said of it that does not hold.
        for import in ["wasi:tls/client@0.2.0", "rind:plugin/elsewhere@0.1.0"] {
            assert!(check_import(&manifest, import).is_err());
            assert!(gives(import, true).contains("unknown"));
        }
    }
}
