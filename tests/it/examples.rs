//! The three example plugins, each in three languages with the same cases, and the part of the
//! contract that each SDK covers.

mod given;
mod misspelt;
mod reach;
mod wrong;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rind::cases::{self, CaseFile, CaseRunner, ObservedTurn};
use rind_tests::cli::Rind;
use rind_tests::guests::{self, Host};

/// Names of the example plugins and of their folders.
const EXAMPLES: [&str; 3] = ["redactor", "github", "steering-policy"];

/// Languages, each with the programs that a build needs besides cargo.
pub(crate) const LANGUAGES: [(&str, &[&str]); 3] = [
    ("rust", &[]),
    ("js", &["esbuild", "componentize-qjs"]),
    ("python", &["componentize-py", "python3"]),
];

fn examples() -> PathBuf {
    guests::workspace().join("sdk/examples")
}

/// Whether a tool is on the search path. Prints that the test is skipped if it is not.
#[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output();
    let is_there = found.is_ok();
    if !is_there {
        eprintln!("skipped: {tool} is not installed");
    }
    is_there
}

/// A copy of the folder `sdk`, in which examples can be built without changing the source tree.
pub(crate) fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sdk = guests::workspace().canonicalize().unwrap().join("sdk");
    for language in ["js", "python"] {
        symlink(sdk.join(language), folder.path().join(language)).unwrap();
    }
    let modules = folder.path().join("examples/node_modules");
    fs::create_dir_all(&modules).unwrap();
    symlink(sdk.join("js"), modules.join("rind-sdk")).unwrap();
    folder
}

/// Copies a folder without build outputs, and follows links.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_made = path.extension().is_some_and(|end| end == "wasm");
        if is_made || ["node_modules", ".venv", "__pycache__"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Builds plugins with `rind plugin build`, as their authors would.
pub(crate) fn build(folders: &[PathBuf]) {
    let rind = Rind::default();
    let mut args = vec!["plugin", "build"];
    args.extend(folders.iter().map(|folder| folder.to_str().unwrap()));
    let output = rind.command(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{folders:?}: {said}");
}

/// Builds the examples in a language and returns their folders; none if its compiler is missing.
fn built(tree: &Path, language: &str, tools: &[&str]) -> Vec<PathBuf> {
    if !tools.iter().all(|tool| has(tool)) {
        return Vec::new();
    }
    let folder = |name: &&str| tree.join("examples").join(name).join(language);
    let folders: Vec<PathBuf> = EXAMPLES.iter().map(folder).collect();
    if language == "rust" {
        // The Rust examples are built in their workspace first, which compiles their dependencies
        // once.
        let own: Vec<PathBuf> = EXAMPLES
            .iter()
            .map(|name| examples().join(name).join(language))
            .collect();
        build(&own);
    }
    for (name, folder) in EXAMPLES.iter().zip(&folders) {
        let from = examples().join(name).join(language);
        copy(&from, folder);
        if language == "rust" {
            let component = format!("{}.wasm", name.replace('-', "_"));
            fs::copy(from.join(&component), folder.join(&component)).unwrap();
        }
    }
    if language != "rust" {
        build(&folders);
    }
    folders
}

/// A runner of cases with the compile cache that all tests share.
fn runner() -> CaseRunner {
    let options = Host::default().options;
    CaseRunner {
        compiler: options.compiler,
        cache: options.cache,
        cache_key: options.cache_key,
    }
}

/// Runs the cases of a plugin. Returns the name of each and what its turn did.
async fn outcomes(name: &str, folder: &Path) -> Vec<(String, ObservedTurn)> {
    let runner = runner();
    let mut all = Vec::new();
    for file in CaseFile::read_all_in_folder(folder).unwrap() {
        for case in &file.cases {
            let ran = cases::run_case(&runner, folder, name, case).await;
            let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            assert!(
                ran.differences.is_empty(),
                "{}: {}: {}",
                folder.display(),
                case.name,
                ran.differences.join("\n")
            );
            all.push((case.name.clone(), ran.seen));
        }
    }
    assert!(all.len() > 3, "{}: {}", folder.display(), all.len());
    all
}

#[tokio::test]
async fn the_examples_have_identical_outcomes_on_the_same_cases_in_each_language() {
    let tree = tree();
    for (language, tools) in LANGUAGES {
        for (name, folder) in EXAMPLES.iter().zip(built(tree.path(), language, tools)) {
            let rust = tree.path().join("examples").join(name).join("rust");
            let expected = outcomes(name, &rust).await;
            let seen = outcomes(name, &folder).await;
            for ((case, expected), (_, seen)) in expected.iter().zip(&seen) {
                assert_eq!(seen, expected, "{name} in {language}: {case}");
            }
        }
    }
}

#[test]
fn the_languages_of_an_example_share_its_cases_and_have_one_manifest() {
    for name in EXAMPLES {
        let folder = examples().join(name);
        // Only Python has `compat`, which makes unused imports of its standard library inert.
        let manifest = |language: &str| {
            let text = fs::read_to_string(folder.join(language).join("plugin.toml")).unwrap();
            let mut manifest: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(manifest.remove("compat").is_some(), language == "python");
            manifest
        };
        for (language, _) in LANGUAGES {
            let cases = fs::read_link(folder.join(language).join("tests")).unwrap();
            assert_eq!(cases, Path::new("../tests"), "{name}/{language}");
            assert_eq!(manifest(language), manifest("rust"), "{name}/{language}");
        }
    }
}
