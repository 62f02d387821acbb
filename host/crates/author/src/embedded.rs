//! Files that the program carries: the contract, the SDKs, and the templates of plugins.

use include_dir::{Dir, DirEntry, File, include_dir};

use rind_lib::plugin::contract::WIT;

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../templates");

static RUST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/rust/src");
static RUST_MACROS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/rust/macros/src");

static JAVASCRIPT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/js");
static PYTHON: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../sdk/python");

/// `Cargo.toml` of the Rust SDK, its macros and the workspace that they inherit versions from.
pub(super) const RUST_MANIFESTS: [&str; 3] = [
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

/// Returns the sources of the Rust SDK and its macros, each with the directory of its crate.
pub(super) fn rust_sdk() -> impl Iterator<Item = (String, &'static [u8])> {
    let place = |folder: &'static str, dir: &'static Dir<'static>| {
        let files = embedded_files(dir).into_iter();
        files.map(move |(name, bytes)| (format!("{folder}/{name}"), bytes))
    };
    place("src", &RUST).chain(place("macros/src", &RUST_MACROS))
}

/// Returns the files of the JavaScript SDK, a package.
pub(super) fn javascript_sdk() -> impl Iterator<Item = Embedded> {
    let mut files = embedded_files(&JAVASCRIPT);
    files.retain(|(name, _)| !name.starts_with("examples/"));
    files.into_iter()
}

/// Returns the files of the Python SDK: the package, and the type stubs for editors.
pub(super) fn python_sdk() -> impl Iterator<Item = Embedded> {
    let mut files = embedded_files(&PYTHON);
    let is_sdk = |name: &str| name.starts_with("rind_sdk/") || name.starts_with("stubs/");
    files.retain(|(name, _)| is_sdk(name) && !name.contains("__pycache__"));
    files.into_iter()
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
