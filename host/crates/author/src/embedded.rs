//! Files that are embedded in the program: the plugin contract, the SDKs, and the templates for new
//! plugins.

use std::borrow::Cow;

use rind_embed::EmbeddedPackedFolder;
use rind_lib::plugin::contract::list_contract_files;

/// Files as packed by the build script: `templates`, `schemas`, `guest`, `rust`, `js`, `python`,
/// and `workspace.toml` with the versions that the manifests of the Rust SDK inherit.
static EMBEDDED_FILES: EmbeddedPackedFolder = EmbeddedPackedFolder::new(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/embedded.tar.zst"
)));

/// Directories of the SDKs in [`EMBEDDED_FILES`].
const SDK_FOLDER_PREFIXES: [&str; 3] = ["rust/", "js/", "python/"];
const TEMPLATES_FOLDER_PREFIX: &str = "templates/";
const SCHEMAS_FOLDER_PREFIX: &str = "schemas/";
const GUEST_FOLDER_PREFIX: &str = "guest/";
const WORKSPACE_MANIFEST_FILE: &str = "workspace.toml";

/// Returns the doc comment of an interface of the contract. The doc of an extension point begins
/// with when the host calls it.
pub fn contract_interface_docs(name: &str) -> Option<String> {
    let file = format!("{name}.wit");
    let (_, text) = list_contract_files().find(|(name, _)| *name == file)?;
    let interface = format!("interface {name} {{");
    let lines = text.lines().take_while(|line| *line != interface);
    let docs = lines.filter_map(|line| line.strip_prefix("///"));
    let docs: Vec<&str> = docs.map(str::trim).collect();
    (!docs.is_empty()).then(|| docs.join("\n"))
}

/// Returns every file of the SDK with its path, which begins with `rust`, `js` or `python`.
pub(super) fn embedded_sdk_files() -> Vec<(String, Cow<'static, [u8]>)> {
    let workspace = EMBEDDED_FILES.file_text(WORKSPACE_MANIFEST_FILE);
    let contract = list_contract_files()
        .map(|(name, text)| (format!("rust/wit/{name}"), Cow::Borrowed(text.as_bytes())));
    let sdk = EMBEDDED_FILES
        .files()
        .filter_map(|(path, content)| match path {
            // The fallback is unreachable: a test builds with these manifests, so they are valid
            // TOML.
            "rust/Cargo.toml" | "rust/macros/Cargo.toml" => {
                let text = make_manifest_standalone(EMBEDDED_FILES.file_text(path), workspace)
                    .unwrap_or_default();
                Some((path.to_owned(), Cow::Owned(text.into_bytes())))
            }
            path if SDK_FOLDER_PREFIXES.iter().any(|sdk| path.starts_with(sdk)) => {
                Some((path.to_owned(), Cow::Borrowed(content)))
            }
            _ => None,
        });
    contract.chain(sdk).collect()
}

/// Converts a crate's manifest so that it works outside its workspace: inherited values are
/// replaced by the workspace's values.
fn make_manifest_standalone(manifest: &str, workspace: &str) -> Option<String> {
    let mut manifest: toml::Table = manifest.parse().ok()?;
    let workspace: toml::Table = workspace.parse().ok()?;
    let from = |section: &str, key: &str| {
        let value = workspace.get("workspace")?.get(section)?.get(key)?;
        Some(value.clone())
    };
    for section in ["package", "dependencies"] {
        let table = manifest
            .get_mut(section)
            .and_then(toml::Value::as_table_mut);
        for (key, value) in table.into_iter().flatten() {
            if value.get("workspace").is_some()
                && let Some(own) = from(section, key)
            {
                *value = own;
            }
        }
    }
    if let Some(macros) = manifest
        .get_mut("dependencies")
        .and_then(|table| table.get_mut("rind-sdk-macros"))
        .and_then(toml::Value::as_table_mut)
    {
        macros.insert("path".to_owned(), "macros".into());
    }
    if let Some(package) = manifest
        .get_mut("package")
        .and_then(toml::Value::as_table_mut)
    {
        package.insert("publish".to_owned(), false.into());
        for key in ["repository", "readme", "exclude"] {
            package.remove(key);
        }
    }
    // The lints are for developers of the SDK. The examples are only for reading: as targets in the
    // plugin's workspace, they would be compiled with its tests.
    manifest.remove("lints");
    manifest.remove("example");
    toml::to_string(&manifest).ok()
}

/// Returns the text of a template; the text is empty if there is no such template, but a test
/// checks all names.
pub(super) fn find_embedded_template(name: &str) -> &'static str {
    EMBEDDED_FILES.file_text(&format!("{TEMPLATES_FOLDER_PREFIX}{name}"))
}

/// Returns a JSON Schema by its name: `plugin` for manifests, or `cases` for case files.
pub(super) fn find_embedded_schema(name: &str) -> &'static str {
    EMBEDDED_FILES.file_text(&format!("{SCHEMAS_FOLDER_PREFIX}{name}.json"))
}

/// Returns a file that is bundled into JavaScript or Python components.
pub(super) fn find_embedded_guest_file(name: &str) -> &'static str {
    EMBEDDED_FILES.file_text(&format!("{GUEST_FOLDER_PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_unpacked_sdk_has_a_folder_for_each_language_and_nothing_else() {
        let files = embedded_sdk_files();
        let folders: BTreeSet<&str> = files
            .iter()
            .filter_map(|(path, _)| path.split('/').next())
            .collect();
        assert_eq!(folders, BTreeSet::from(["js", "python", "rust"]));
    }
}
