//! Builds an npm package: a `.tgz` with a `package/package.json`.

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::tarball::write_tarball;
use super::{BundleParts, KEYWORD, PackageBundle, README};

/// Folder that contains all files of an npm package.
const FOLDER: &str = "package";

pub(super) fn make_tarball(parts: BundleParts<'_>) -> anyhow::Result<PackageBundle> {
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
    set("keywords", json!([KEYWORD]));
    if let Some(license) = parts.license {
        set("license", json!(license));
    }
    set("files", json!(listed));
    let mut text = serde_json::to_string_pretty(&package).context("write package.json")?;
    text.push('\n');
    let mut files = vec![("package.json".to_owned(), text.into_bytes())];
    let readme = parts.readme.map(|text| (README.to_owned(), text.to_vec()));
    files.extend(readme);
    files.extend(parts.plugin_files);
    // `npm pack` names the file of a scoped package this way: `@team/hello` becomes `team-hello`.
    let stem = parts.name.trim_start_matches('@').replace('/', "-");
    Ok(PackageBundle {
        file_name: format!("{stem}-{}.tgz", parts.version),
        bytes: write_tarball(FOLDER, &files)?,
    })
}
