//! Checks the manifest against the component: unused requests, and limits without effect.
//!
//! The component's imports and exports show which capabilities the plugin can use. A request for
//! another capability only makes the permission question longer.

use std::time::Duration;

use super::PluginFaultCollector;
use super::fix::ManifestFix;
use super::place::line_number_at_offset;
use rind_lib::egress::MAX_REQUESTS_PER_SESSION_SETTING;
use rind_lib::folder::FolderQuota;
use rind_lib::grant::{ExternalCall, RootFolderKind, SideEffect};
use rind_lib::plugin::Error;
use rind_lib::plugin::limits::MAX_REQUESTABLE_MEMORY_BYTES;
use rind_lib::plugin::manifest::{FILE_NAME, HookOptions, Manifest};
use rind_lib::plugin::open::max_hook_deadline;
use rind_lib::plugin::surface::ComponentImportsAndExports;
use rind_lib::plugin::tools::MAX_TOOL_DEADLINE;
use rind_lib::point::catalog;
use rind_lib::point::dispatch::ExtensionPointKind;

/// Reports a manifest that cannot be read, at the line in the error.
pub(super) fn report_unreadable_manifest(
    found: &mut PluginFaultCollector<'_>,
    text: &str,
    error: &Error,
) {
    let Error::Manifest { message, .. } = error else {
        found
            .add_fault("manifest", FILE_NAME, None, error.to_string())
            .mark_as_load_blocking();
        return;
    };
    let line = parse_error_line_number(message)
        .or_else(|| find_manifest_line_for_message(found, text, message));
    // Drop the source line that the parser prints: the fault has its own line number.
    let is_picture = |line: &&str| !line.contains('|') && !line.starts_with("TOML parse error");
    let words: Vec<&str> = message.lines().filter(is_picture).map(str::trim).collect();
    let words = words.join(" ");
    let words = words
        .trim()
        .split_once("]: ")
        .filter(|_| message.starts_with("line "))
        .map_or_else(
            || words.trim().to_owned(),
            |(place, rest)| {
                format!(
                    "{}]: {rest}",
                    place.split_once(", ").map_or(place, |(_, place)| place)
                )
            },
        );
    found
        .add_fault("manifest", FILE_NAME, line, words)
        .mark_as_load_blocking();
}

/// Returns the line number that a message contains after the word `line`, if any.
fn parse_error_line_number(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("line ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns the line of the text that `message` quotes. If it quotes none, or the manifest does not
/// contain the quoted text, returns the line of the section or key at the message's beginning.
fn find_manifest_line_for_message(
    found: &PluginFaultCollector<'_>,
    text: &str,
    message: &str,
) -> Option<usize> {
    let quoted = message.split('`').nth(1).filter(|quoted| quoted.len() > 1);
    let of_quoted = quoted.and_then(|quoted| text.find(&format!("\"{quoted}")));
    let section = message
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let section = section.map(|(section, _)| section.trim_start_matches('['));
    of_quoted
        .map(|at| line_number_at_offset(text, at))
        .or_else(|| match section {
            Some(section) => found
                .places
                .line_of_key(&section.split('.').collect::<Vec<_>>()),
            None => found
                .places
                .line_of_key(&[message.split([':', ' ']).next()?]),
        })
}

/// Checks whether the component needs what the manifest requests.
pub(super) fn check_manifest(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: Option<&ComponentImportsAndExports>,
) {
    check_manifest_limits(found, manifest);
    check_broad_permissions(found, manifest);
    check_defined_extension_points(found, manifest, surface);
    let Some(surface) = surface else {
        return;
    };
    check_declared_side_effects(found, manifest, surface);
    check_external_table_imports(found, manifest, surface);
    if manifest.compat.sockets.is_some() && !surface.has_import("wasi:sockets") {
        let message = "the component does not import `wasi:sockets`: remove the line";
        let keys = ["compat", "sockets"];
        found
            .add_fault_at_key("unused-permission", &keys, message)
            .attach_fix(ManifestFix::key_removal(&keys));
    }
}

/// Name of the contract interface with which a component calls tools of other plugins and of the
/// host.
const TOOLS_HOST_INTERFACE: &str = "tools-host";

/// Returns the names of the imports that need the side effect `external`.
fn external_side_effect_imports() -> impl Iterator<Item = &'static str> {
    let calls = ExternalCall::ALL
        .iter()
        .map(|call| call.imported_interface_name());
    calls.chain([TOOLS_HOST_INTERFACE])
}

/// Reports declared side effects that the component does not need, or that `side_effects` is
/// missing.
fn check_declared_side_effects(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: &ComponentImportsAndExports,
) {
    let is_missing = |fault: &super::PluginFault| fault.rule == "missing-permission";
    if manifest.side_effects.is_empty() && found.faults.iter().any(is_missing) {
        return;
    }
    if manifest.side_effects.is_empty() {
        let message = "`side_effects` is not declared; write `side_effects = [\"none\"]`";
        found
            .add_fault_at_key("manifest", &["name"], message)
            .attach_fix(ManifestFix::Insert {
                key: "side_effects",
                value: "none",
            });
        return;
    }
    let files = surface.has_import("files") || surface.has_import("wasi:filesystem");
    let http = surface.has_import("http") || surface.has_import("wasi:http");
    let calls = external_side_effect_imports().any(|import| surface.has_import(import));
    let changes = surface.contract_exports().any(|export| {
        let row = catalog::CATALOG.iter().find(|row| row.name == export);
        row.is_some_and(|row| row.kind != ExtensionPointKind::Observe)
    });
    let session = surface.has_import("session") || changes;
    let names: Vec<String> = external_side_effect_imports()
        .map(|name| format!("`{name}`"))
        .collect();
    let no_calls = format!("imports none of {}", names.join(", "));
    let table = [
        (
            SideEffect::Filesystem,
            files,
            "filesystem",
            "imports neither `files` nor `wasi:filesystem`",
        ),
        (
            SideEffect::Network,
            http,
            "network",
            "imports neither `http` nor `wasi:http`",
        ),
        (SideEffect::External, calls, "external", no_calls.as_str()),
        (
            SideEffect::Session,
            session,
            "session",
            "does not import `session`, and has no hook that could change anything",
        ),
    ];
    for (effect, is_used, name, why) in table {
        if manifest.has_side_effect(effect) && !is_used {
            let message = format!("asks for `{name}`, but the component {why}: remove `{name}`");
            found
                .add_fault_at_key("unused-permission", &["side_effects"], message)
                .attach_fix(ManifestFix::SideEffect(name));
        }
    }
    let filesystem = manifest.filesystem.as_ref();
    let is_empty = filesystem.is_none_or(|f| f.read.is_empty() && f.write.is_empty());
    if files && manifest.has_side_effect(SideEffect::Filesystem) && is_empty {
        let message = "asks for `filesystem`, and `[filesystem]` names no folder: every access will be denied";
        found.add_fault_at_key("missing-permission", &["side_effects"], message);
    }
    for read in filesystem.iter().flat_map(|f| &f.read) {
        let write = filesystem
            .into_iter()
            .flat_map(|f| &f.write)
            .find(|write| write.contains(read));
        if let Some(write) = write {
            let message = format!(
                "`{read}` is redundant, because `write` has `{write}`, which includes reading: remove it here"
            );
            let keys = ["filesystem", "read"];
            found
                .add_fault_at_key("unused-permission", &keys, message)
                .attach_fix(ManifestFix::Item {
                    keys: keys.map(str::to_owned).to_vec(),
                    item: read.to_string(),
                });
        }
    }
}

/// Reports entries of the manifest's `[external]` for which the component lacks the import.
fn check_external_table_imports(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: &ComponentImportsAndExports,
) {
    let (Some(external), true) = (
        &manifest.external,
        manifest.has_side_effect(SideEffect::External),
    ) else {
        return;
    };
    let calls = external
        .calls()
        .map(|call| (call.name(), call.imported_interface_name()));
    let tools = (!external.tools.is_empty()).then_some(("tools", TOOLS_HOST_INTERFACE));
    if !external_side_effect_imports().any(|import| surface.has_import(import)) {
        // Report nothing here: no import needs the side effect `external`, so
        // `check_declared_side_effects` reports the whole section.
        return;
    }
    for (key, import) in calls.chain(tools) {
        if !surface.has_import(import) {
            let message = format!(
                "asks for `{key}`, but the component does not import `{import}`: remove the line"
            );
            let keys = ["external", key];
            found
                .add_fault_at_key("unused-permission", &keys, message)
                .attach_fix(ManifestFix::key_removal(&keys));
        }
    }
}

/// Reports permissions that are too broad to review.
fn check_broad_permissions(found: &mut PluginFaultCollector<'_>, manifest: &Manifest) {
    if manifest
        .network
        .iter()
        .flat_map(|n| &n.hosts)
        .any(rind_lib::grant::HostPattern::matches_every_host)
    {
        let message = "requests every host: list the hosts that it uses, or allow this rule if the person chooses the hosts";
        found.add_fault_at_key("broad-permission", &["network", "hosts"], message);
    }
}

/// Reports extension points of the plugin that have no description or that nothing can call, and a
/// dependency of the plugin on itself.
fn check_defined_extension_points(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: Option<&ComponentImportsAndExports>,
) {
    for (name, point) in &manifest.points {
        let keys = ["points", name.as_str()];
        if point.description.trim().is_empty() {
            let message = format!(
                "the point `{name}` has no `description`, so authors do not know what to implement"
            );
            found.add_fault_at_key("description", &keys, message);
        }
        let is_called = surface.is_none_or(|surface| surface.has_import("points"));
        if !is_called && point.callers.is_empty() {
            let message = format!(
                "nothing can call the point `{name}`: the component does not import `points`, and the point lists no `callers`"
            );
            found.add_fault_at_key("unused-export", &keys, message);
        }
    }
    if manifest.dependencies.contains_key(&manifest.name) {
        let keys = ["dependencies", manifest.name.as_str()];
        found
            .add_fault_at_key("manifest", &keys, "the plugin depends on itself")
            .mark_as_load_blocking();
    }
}

/// Reports limits above the host's maximum, which the host would lower silently, and limits of
/// features that the plugin does not have.
fn check_manifest_limits(found: &mut PluginFaultCollector<'_>, manifest: &Manifest) {
    let limits = &manifest.limits;
    let mut above = |key: &str, is_above: bool, most: &str| {
        if is_above {
            let keys = ["limits", key];
            let message =
                format!("`{key}` is above the host's maximum of {most}, which is used instead");
            let fault = found.add_fault_at_key("limits", &keys, message);
            fault.attach_fix(ManifestFix::Set {
                keys: keys.map(str::to_owned).to_vec(),
                value: most.to_owned(),
            });
        }
    };
    let mib = |bytes: u64| format!("{}MiB", bytes >> 20);
    above(
        "memory",
        limits
            .memory
            .is_some_and(|n| n > MAX_REQUESTABLE_MEMORY_BYTES),
        &mib(MAX_REQUESTABLE_MEMORY_BYTES),
    );
    let seconds = format!("{}s", MAX_TOOL_DEADLINE.as_secs());
    above(
        "timeout",
        limits.timeout.is_some_and(|n| n > MAX_TOOL_DEADLINE),
        &seconds,
    );
    above(
        "data",
        limits
            .data
            .is_some_and(|n| n > FolderQuota::MAX_REQUESTABLE_BYTES),
        &mib(FolderQuota::MAX_REQUESTABLE_BYTES),
    );
    above(
        "files",
        limits
            .files
            .is_some_and(|n| n > FolderQuota::MAX_REQUESTABLE_FILES),
        &FolderQuota::MAX_REQUESTABLE_FILES.to_string(),
    );
    above(
        "requests",
        limits
            .requests
            .is_some_and(|n| n > MAX_REQUESTS_PER_SESSION_SETTING),
        &MAX_REQUESTS_PER_SESSION_SETTING.to_string(),
    );
    let waits = manifest
        .external
        .as_ref()
        .is_some_and(|external| external.calls().next().is_some());
    for (point, options) in &manifest.hooks {
        let most = max_hook_deadline(options, waits);
        if options.timeout.is_some_and(|own| own > most) {
            check_hook_timeout(found, point.get_ref(), options, most);
        }
    }
    let has_data = manifest
        .filesystem
        .iter()
        .flat_map(|f| &f.write)
        .any(|folder| folder.root == RootFolderKind::Data);
    let unused = [
        (
            "data",
            limits.data.is_some(),
            has_data,
            "`[filesystem] write = [\"data\"]`",
        ),
        (
            "files",
            limits.files.is_some(),
            has_data,
            "`[filesystem] write = [\"data\"]`",
        ),
        (
            "requests",
            limits.requests.is_some(),
            manifest.network.is_some(),
            "`[network]`",
        ),
    ];
    for (key, is_set, is_used, needs) in unused {
        if is_set && !is_used {
            let keys = ["limits", key];
            let message = format!("`{key}` limits nothing without {needs}: remove it");
            found
                .add_fault_at_key("limits", &keys, message)
                .attach_fix(ManifestFix::key_removal(&keys));
        }
    }
}

fn check_hook_timeout(
    found: &mut PluginFaultCollector<'_>,
    point: &str,
    options: &HookOptions,
    most: Duration,
) {
    let kind = if options.is_async {
        "an `async` hook"
    } else {
        "a hook"
    };
    let message = format!(
        "`timeout` is above the maximum of {} s for {kind} of this plugin, which is used instead",
        most.as_secs()
    );
    let keys = ["hooks", point, "timeout"];
    found
        .add_fault_at_key("limits", &keys, message)
        .attach_fix(ManifestFix::Set {
            keys: keys.map(str::to_owned).to_vec(),
            value: format!("{}s", most.as_secs()),
        });
}
