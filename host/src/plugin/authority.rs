//! Whether what a component imports and exports is covered by what its manifest declares.
//!
//! Decided from names alone, before anything is linked: an import that is not covered is refused, never stubbed. WASI that
//! a language's standard library pulls in is linked to an empty context; what could reach files or the network is not.

use super::Error;
use super::manifest::Manifest;
use crate::grant::{Capability, Granted, SideEffect};
use crate::point::catalog;
use crate::point::dispatch::Kind;

/// Prefix of our own interfaces.
const OWN: &str = "rind:plugin/";

/// Version of the contract that this host speaks.
pub const CONTRACT: &str = "0.1.0";

/// A host interface and what it takes to import it.
#[derive(Clone, Copy, Debug)]
pub struct ImportRow {
    /// Name within `rind:plugin`.
    pub name: &'static str,
    /// Side effect that must be declared; `None` is free for all.
    pub needs: Option<SideEffect>,
    /// Whether this host offers it.
    pub is_offered: bool,
}

/// Every host interface of `wit/`.
pub const IMPORTS: &[ImportRow] = &[
    ImportRow {
        name: "types",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "payloads",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "outcomes",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "log",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "state",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "store",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "config",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "points",
        needs: None,
        is_offered: true,
    },
    ImportRow {
        name: "session",
        needs: Some(SideEffect::Session),
        is_offered: true,
    },
    ImportRow {
        name: "model",
        needs: Some(SideEffect::External),
        is_offered: true,
    },
    ImportRow {
        name: "agents",
        needs: Some(SideEffect::External),
        is_offered: true,
    },
    ImportRow {
        name: "tools-host",
        needs: Some(SideEffect::External),
        is_offered: true,
    },
    ImportRow {
        name: "files",
        needs: Some(SideEffect::Filesystem),
        is_offered: true,
    },
    ImportRow {
        name: "http",
        needs: Some(SideEffect::Network),
        is_offered: false,
    },
];

/// WASI packages that are linked to a context with nothing in it.
const INERT_WASI: &[&str] = &[
    "wasi:io/",
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:random/",
    "wasi:filesystem/",
];

/// Splits `rind:plugin/pre-tool@0.1.0` into name and version.
fn own_name(interface: &str) -> Option<(&str, &str)> {
    interface
        .strip_prefix(OWN)
        .map(|rest| rest.split_once('@').unwrap_or((rest, "")))
}

/// Whether a version speaks our contract: for `0.x` versions that is the same `0.x`.
fn is_our_version(version: &str) -> bool {
    let minor = |v: &str| v.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    minor(version) == minor(CONTRACT)
}

/// Checks one import.
pub fn check_import(manifest: &Manifest, interface: &str) -> Result<(), Error> {
    let refuse = |why: String| {
        Err(Error::Import {
            import: interface.to_owned(),
            why,
        })
    };
    let Some((name, version)) = own_name(interface) else {
        if INERT_WASI
            .iter()
            .any(|package| interface.starts_with(package))
        {
            return Ok(());
        }
        if interface.starts_with("wasi:sockets/") && manifest.compat.sockets.is_some() {
            return Ok(());
        }
        return refuse(match interface.split('/').next() {
            Some("wasi:sockets") => {
                "which no plugin may have: use `rind:plugin/http` and declare `network`, or write `[compat] sockets = \"inert\"` if it only imports and never uses them".to_owned()
            }
            Some("wasi:http") => "which this host does not offer".to_owned(),
            _ => "which this host does not know".to_owned(),
        });
    };
    let Some(row) = IMPORTS.iter().find(|row| row.name == name) else {
        return refuse("which is no interface of the contract".to_owned());
    };
    if !is_our_version(version) {
        return refuse(format!(
            "but this host speaks version {CONTRACT} of the contract; build the plugin against that"
        ));
    }
    if let Some(effect) = row.needs
        && !manifest.has(effect)
    {
        return refuse(format!(
            "which needs `side_effects = [\"{effect}\"]` in plugin.toml"
        ));
    }
    if let Some(line) = missing_key(manifest, name) {
        return refuse(format!(
            "which needs `{line}` under `[external]` in plugin.toml"
        ));
    }
    if !row.is_offered {
        return refuse("which this version of the host does not grant to any plugin".to_owned());
    }
    Ok(())
}

/// Checks one import against what was granted; it was covered by what the manifest declares.
pub fn check_granted_import(granted: &Granted, interface: &str) -> Result<(), Error> {
    let (needs, is_granted) = match own_name(interface).map(|(name, _)| name) {
        Some("session") => ("session", granted.has(&Capability::Session)),
        Some("model") => ("model", granted.has(&Capability::Model)),
        Some("agents") => ("agents", granted.has(&Capability::Agents)),
        Some("tools-host") => ("tool", granted.tools().next().is_some()),
        Some("files") => ("read or write", !granted.folders().is_empty()),
        Some("http") => ("network", granted.has_network()),
        None if interface.starts_with("wasi:http/") => ("network", granted.has_network()),
        _ => return Ok(()),
    };
    if is_granted {
        return Ok(());
    }
    Err(Error::Import {
        import: interface.to_owned(),
        why: format!("which needs the capability `{needs}`, and none of that kind was granted"),
    })
}

/// Checks one export against what was granted; it was covered by what the manifest declares.
pub fn check_granted_export(granted: &Granted, export: &str) -> Result<(), Error> {
    let row = catalog::CATALOG.iter().find(|row| row.name == export);
    match row {
        Some(row)
            if matches!(row.kind, Kind::Mutate | Kind::Collect)
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

/// What one exported interface is to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// A hook on a built-in point.
    Hook(&'static catalog::PointRow),
    /// `tools`, `implement`, `loop` or `commands`.
    Other(&'static str),
    /// Not one of ours; ignored.
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
    let Some((name, version)) = own_name(interface) else {
        return Ok(Export::Foreign);
    };
    if !is_our_version(version) {
        return refuse(format!(
            "but this host speaks version {CONTRACT} of the contract; build the plugin against that"
        ));
    }
    if let Some(other) = ["tools", "implement", "loop", "commands"]
        .into_iter()
        .find(|other| *other == name)
    {
        return Ok(Export::Other(other));
    }
    let Some(row) = catalog::CATALOG.iter().find(|row| row.name == name) else {
        return refuse("which is no interface of the contract".to_owned());
    };
    if matches!(row.kind, Kind::Mutate | Kind::Collect) && !manifest.has(SideEffect::Session) {
        return refuse(format!(
            "a {} point, which needs `side_effects = [\"session\"]` in plugin.toml",
            row.kind
        ));
    }
    Ok(Export::Hook(row))
}
