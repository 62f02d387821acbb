//! Files that the program carries: the contract, the SDKs, and the templates of plugins.

use std::borrow::Cow;

use include_dir::{Dir, DirEntry, File, include_dir};

use rind_lib::plugin::contract::WIT;

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../templates");

static RUST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/rust/src");
static RUST_MACROS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/rust/macros/src");
static RUST_EXAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/rust/examples");
const RUST_README: &str = include_str!("../../../../sdk/rust/README.md");

static JAVASCRIPT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/js");
static PYTHON: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/python");

/// `Cargo.toml` of the Rust SDK, its macros and the workspace that they inherit versions from.
const RUST_MANIFESTS: [&str; 3] = [
    include_str!("../../../../sdk/rust/Cargo.toml"),
    include_str!("../../../../sdk/rust/macros/Cargo.toml"),
    include_str!("../../../../Cargo.toml"),
];

/// File: its path and its content.
pub(super) type Embedded = (&'static str, &'static [u8]);

/// Returns the files of the contract: one interface each, and the table of points.
pub(super) fn contract_files() -> impl Iterator<Item = Embedded> {
    let files = WIT.files().filter_map(name_embedded);
    files.filter(|(name, _)| !name.ends_with(".md"))
}

/// Returns the docs of an interface of the contract. The docs of a point begin with the moment at
/// which it is called.
pub fn interface_docs(name: &str) -> Option<String> {
    let text = WIT.get_file(format!("{name}.wit"))?.contents_utf8()?;
    let interface = format!("interface {name} {{");
    let lines = text.lines().take_while(|line| *line != interface);
    let docs = lines.filter_map(|line| line.strip_prefix("///"));
    let docs: Vec<&str> = docs.map(str::trim).collect();
    (!docs.is_empty()).then(|| docs.join("\n"))
}

/// Returns every file of the SDK, with its path: `rust`, `js` and `python` are directories of it.
pub(super) fn sdk_files() -> Vec<(String, Cow<'static, [u8]>)> {
    let mut files = Vec::new();
    let mut put = |folder: &str, all: Vec<Embedded>| {
        let all = all.into_iter();
        let named = all.map(|(name, bytes)| (format!("{folder}/{name}"), Cow::Borrowed(bytes)));
        files.extend(named.filter(|(name, _)| !name.contains("__pycache__")));
    };
    put("rust/src", embedded_files(&RUST));
    put("rust/macros/src", embedded_files(&RUST_MACROS));
    put("rust/examples", embedded_files(&RUST_EXAMPLES));
    put("rust/wit", contract_files().collect());
    put("rust", vec![("README.md", RUST_README.as_bytes())]);
    put("js", embedded_files(&JAVASCRIPT));
    put("python", embedded_files(&PYTHON));
    let [sdk, macros, workspace] = RUST_MANIFESTS;
    for (path, manifest) in [("rust/Cargo.toml", sdk), ("rust/macros/Cargo.toml", macros)] {
        // The program does not carry manifests that are no TOML: a test builds with them.
        let text = standalone_manifest(manifest, workspace).unwrap_or_default();
        files.push((path.to_owned(), Cow::Owned(text.into_bytes())));
    }
    files
}

/// Replaces the values that a crate's manifest inherits from its workspace by the values
/// themselves.
fn standalone_manifest(manifest: &str, workspace: &str) -> Option<String> {
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
    // The lints are for developers of the SDK, and its examples are there to be read: as members of
    // the plugin's workspace they would be compiled with its tests.
    manifest.remove("lints");
    manifest.remove("example");
    toml::to_string(&manifest).ok()
}

/// Returns the text of a template; empty if there is none of this name, which a test over all kinds
/// and languages would detect.
pub(super) fn find_template(name: &str) -> &'static str {
    let file = TEMPLATES.get_file(name);
    file.and_then(File::contents_utf8).unwrap_or_default()
}

/// Returns every file in a directory, recursively.
fn embedded_files(dir: &'static Dir<'static>) -> Vec<Embedded> {
    let entries = dir.entries().iter().flat_map(|entry| match entry {
        DirEntry::Dir(dir) => embedded_files(dir),
        DirEntry::File(file) => name_embedded(file).into_iter().collect(),
    });
    entries.collect()
}

fn name_embedded(file: &'static File<'static>) -> Option<Embedded> {
    Some((file.path().to_str()?, file.contents()))
}
