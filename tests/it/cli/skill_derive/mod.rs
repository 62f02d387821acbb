//! `rind skill derive`: skills of plugins, components, WIT packages and crates.

mod hostile;
mod package;
mod place;
mod plugin;
mod sdk;
mod summary;
mod wit;

use std::fs;
use std::path::{Path, PathBuf};

use rind_tests::cli::Rind;
use rind_tests::guests;

/// A machine with its own cache instead of the one that all tests share.
fn fresh() -> Rind {
    let rind = Rind::default();
    fs::remove_file(rind.home().join("cache")).unwrap();
    rind
}

/// Every file of a bundle, each under its path. Digests are masked, since they differ between
/// machines.
fn shown(folder: &Path) -> String {
    let mut paths = vec![PathBuf::from("SKILL.md")];
    let mut references: Vec<PathBuf> = fs::read_dir(folder.join("references"))
        .map(|entries| {
            entries
                .map(|entry| Path::new("references").join(entry.unwrap().file_name()))
                .collect()
        })
        .unwrap_or_default();
    references.sort();
    paths.extend(references);
    let mut text = String::new();
    for path in paths {
        let content = fs::read_to_string(folder.join(&path)).unwrap();
        text.push_str(&format!("==> {}\n{content}\n", path.display()));
    }
    masked(&text)
}

fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("\"blake3:") {
        Some((before, _)) => format!("{before}[DIGEST]"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn repository(path: &str) -> String {
    let path = guests::workspace().join(path).canonicalize().unwrap();
    path.to_str().unwrap().to_owned()
}

fn derive(rind: &Rind, source: &str) -> PathBuf {
    let ran = rind
        .run(&["skill", "derive", source, "--into", "skills"])
        .exits(0);
    rind.workspace().join(ran.stdout.trim())
}

/// A small crate in the workspace; further files replace those of the same path.
fn crate_of(rind: &Rind, name: &str, files: &[(&str, &str)]) {
    rind.file(
        &format!("{name}/Cargo.toml"),
        &format!("[package]\nname = \"{name}\"\nversion = \"1.2.3\"\n"),
    );
    for (path, text) in files {
        rind.file(&format!("{name}/{path}"), text);
    }
}
