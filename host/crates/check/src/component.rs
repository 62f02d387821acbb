//! Checks a plugin's component: that it exists, its size, its contract version, and that it exports
//! something that the host calls.
//!
//! The loader's own functions check whether the manifest declares all imports and exports, so that
//! this check and the loader refuse the same plugins.

use super::PluginFaultCollector;
use rind_lib::plugin::cache::ComponentBytes;
use rind_lib::plugin::contract;
use rind_lib::plugin::contract::sources::describe_stale_build;
use rind_lib::plugin::manifest::Manifest;
use rind_lib::plugin::surface::ComponentImportsAndExports;
use rind_lib::plugin::{Error, authority, foreign};

/// Reads the names of the component's imports and exports, and adds faults such as a missing
/// version stamp to `found`. Returns `None` if the component is missing or cannot be read.
pub(super) fn read_imports_and_exports(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
) -> Option<ComponentImportsAndExports> {
    let path = manifest.component_path(found.folder)?;
    if !path.is_file() {
        let file = manifest.component.as_deref().unwrap_or_default();
        let message = format!(
            "`{file}` is missing: build it with `rind plugin build {}`",
            found.folder.display()
        );
        found
            .add_fault_at_key("component", &["component"], message)
            .mark_as_load_blocking();
        return None;
    }
    let file = path.file_name().unwrap_or_default().to_owned();
    let mut stale = None;
    let read = ComponentBytes::read_component(&path, None);
    let surface = read.and_then(|read| {
        stale = describe_stale_build(found.folder, &read.bytes);
        let surface = ComponentImportsAndExports::read_component_surface(&path, &read.bytes)?;
        match foreign::describe_disabled_wasm_proposals(&read.bytes) {
            Some(message) => Err(read.incompatible_host_error(message)),
            None => Ok(surface),
        }
    });
    let surface = match surface {
        Ok(surface) => surface,
        Err(error) => {
            let rule = if matches!(error, Error::Contract { .. }) {
                "contract"
            } else {
                "component"
            };
            found
                .add_fault(rule, &file, None, error.to_string())
                .mark_as_load_blocking();
            return None;
        }
    };
    if let Some(why) = stale {
        found.add_fault("component", &file, None, why);
    }
    if surface.debug_bytes > 0 {
        let message = format!(
            "{} of its {} bytes are unused debug information: build it with `rind plugin build`, which strips it",
            surface.debug_bytes, surface.bytes
        );
        found.add_fault("size", &file, None, message);
    }
    let is_older = |built_for: &str| {
        let [own, newest] =
            [built_for, contract::CURRENT_CONTRACT_VERSION].map(semver::Version::parse);
        own.is_ok_and(|own| newest.is_ok_and(|newest| own < newest))
    };
    match &surface.stamp {
        None => {
            let message = format!(
                "it has no version stamp of an SDK, so a host with another version of the contract cannot tell for which version the component was built: build it with an SDK, or add the section `{}`",
                contract::stamp::CONTRACT_STAMP_SECTION_NAME
            );
            found.add_fault("contract", &file, None, message);
        }
        Some(stamp) if is_older(&stamp.contract) => {
            let message = format!(
                "it was built for version {} of the contract; build it again for {}",
                stamp.contract,
                contract::CURRENT_CONTRACT_VERSION
            );
            found.add_fault("contract", &file, None, message);
        }
        Some(_) => {}
    }
    if surface.contract_exports().next().is_none() {
        let message = "nothing calls it, because it exports nothing of the contract: export a hook, `tools`, `commands` or `loop`";
        found.add_fault("component", &file, None, message);
    }
    check_options_match_exports(found, manifest, &surface);
    check_manifest_covers_component(found, manifest, &surface);
    Some(surface)
}

/// Checks that the manifest covers the component's imports and exports. Adds one fault per line
/// that the manifest lacks.
fn check_manifest_covers_component(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: &ComponentImportsAndExports,
) {
    let imports = surface
        .imports
        .iter()
        .map(|import| (import, authority::check_import_declared(manifest, import)));
    let exports = surface.exports.iter().map(|export| {
        (
            export,
            authority::check_export_declared(manifest, export).map(drop),
        )
    });
    let mut told: Vec<String> = Vec::new();
    for (name, checked) in imports.chain(exports) {
        let (message, why) = match checked {
            Ok(()) => continue,
            Err(Error::Import { why, .. }) => {
                (format!("the component imports `{name}`, {why}"), why)
            }
            Err(Error::Export { why, .. }) => {
                (format!("the component exports `{name}`, {why}"), why)
            }
            Err(error) => (error.to_string(), error.to_string()),
        };
        // Report a missing line of the manifest only once: several parts of one interface, or two
        // hooks of the same kind, need the same line.
        let reason = why.split("needs `").nth(1).unwrap_or(&why).to_owned();
        if told.contains(&reason) {
            continue;
        }
        told.push(reason);
        let is_external = why.contains("`[external]`") && manifest.external.is_some();
        let key = if is_external {
            "external"
        } else {
            "side_effects"
        };
        found
            .add_fault_at_key("missing-permission", &[key], message)
            .mark_as_load_blocking();
    }
    if surface.has_import("http") || surface.has_import("wasi:http") {
        let has_hosts = manifest
            .network
            .as_ref()
            .is_some_and(|n| !n.hosts.is_empty() || !n.private.is_empty());
        if manifest.has_side_effect(rind_lib::grant::SideEffect::Network) && !has_hosts {
            let message = "the component imports requests, but `[network] hosts` lists no host";
            let key = if manifest.network.is_some() {
                "network"
            } else {
                "side_effects"
            };
            found
                .add_fault_at_key("missing-permission", &[key], message)
                .mark_as_load_blocking();
        }
    }
}

/// Reports options in the manifest for interfaces that the component does not export, and exported
/// interfaces that have no effect without options in the manifest.
fn check_options_match_exports(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: &ComponentImportsAndExports,
) {
    let exports: Vec<&str> = surface.contract_exports().collect();
    for point in manifest.hooks.keys().map(toml::Spanned::get_ref) {
        if !exports.contains(&point.as_str()) {
            let line = found.places.line_of_key(&["hooks", point]);
            let message = format!(
                "the manifest has options for a hook on `{point}`, which the component does not export: write the hook, or remove the section"
            );
            // Use the line of `[hooks]` if the key is not found, because the file names the point
            // by an alias.
            let line = line.or_else(|| found.places.line_of_key(&["hooks"]));
            found
                .add_fault(
                    "missing-export",
                    rind_lib::plugin::manifest::FILE_NAME,
                    line,
                    message,
                )
                .mark_as_load_blocking();
        }
    }
    let is_implementing = exports.contains(&"implement");
    if let Some(point) = manifest
        .implements
        .keys()
        .next()
        .filter(|_| !is_implementing)
    {
        let message =
            format!("implements `{point}`, but the component does not export `implement`");
        found
            .add_fault_at_key("missing-export", &["implements", point], message)
            .mark_as_load_blocking();
    }
    if is_implementing && manifest.implements.is_empty() {
        let message = "the component exports `implement`, and `[implements]` names no point, so nothing ever calls it";
        found.add_fault_at_key("unused-export", &["component"], message);
    }
}
