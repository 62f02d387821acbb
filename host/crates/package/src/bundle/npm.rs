//! Builds an npm package: a `.tgz` with a `package/package.json`.

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::tarball::write_tarball;
use super::{BundledPackageFile, PLUGIN_PACKAGE_KEYWORD, PackageBuildInput, README_FILE_NAME};

/// Folder that contains all files of an npm package.
const NPM_TARBALL_ROOT_FOLDER: &str = "package";

pub(super) fn make_npm_package(parts: PackageBuildInput<'_>) -> anyhow::Result<BundledPackageFile> {
    let listed: Vec<&str> = parts
        .plugin_files
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    let mut package = Map::new();
    let mut set = |key: &str, value: Value| package.insert(key.to_owned(), value);
    set("name", json!(parts.name));
    set("version", json!(parts.version.to_string()));
    set("description", json!(parts.description));
    set("keywords", json!([PLUGIN_PACKAGE_KEYWORD]));
    if let Some(license) = parts.license {
        set("license", json!(license));
    }
    set("files", json!(listed));
    let mut text = serde_json::to_string_pretty(&package).context("write package.json")?;
    text.push('\n');
    let mut files = vec![("package.json".to_owned(), text.into_bytes())];
    let readme = parts
        .readme
        .map(|text| (README_FILE_NAME.to_owned(), text.to_vec()));
    files.extend(readme);
    files.extend(parts.plugin_files);
    // `npm pack` names the file of a scoped package this way: `@team/hello` becomes `team-hello`.
    let stem = parts.name.trim_start_matches('@').replace('/', "-");
    Ok(BundledPackageFile {
        file_name: format!("{stem}-{}.tgz", parts.version),
        bytes: write_tarball(NPM_TARBALL_ROOT_FOLDER, &files)?,
    })
}
