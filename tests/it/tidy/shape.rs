//! Sizes of files, and what a plugin's folder holds.

use std::path::Path;

use super::tree::Source;

/// Most lines of a source file. From 400 on, look hard whether it is still one thing.
const MAX_LINES: usize = 600;

/// Most lines of a plugin's README: what it does, its settings, its limits.
const MAX_README_LINES: usize = 15;

/// Most lines of the front page: reference belongs into the READMEs of `host`, `wit`, `sdk/rust` and `plugins`.
const MAX_FRONT_PAGE_LINES: usize = 150;

/// Reports a front page that is too long.
pub(super) fn check_front_page(text: &str) -> Option<String> {
    let n_lines = text.lines().count();
    (n_lines > MAX_FRONT_PAGE_LINES)
        .then(|| format!("README.md: {n_lines} lines, at most {MAX_FRONT_PAGE_LINES}"))
}

/// A source file that is too long. Tests may be.
pub(super) fn check_size(source: &Source) -> Option<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let is_test = source.path.contains("/tests/")
        || name.trim_end_matches(".rs").ends_with("tests")
        || name.starts_with("test_");
    let n_lines = source.text.lines().count();
    (n_lines > MAX_LINES && !is_test)
        .then(|| format!("{}: {n_lines} lines, at most {MAX_LINES}", source.path))
}

/// Reports what a plugin's folder lacks.
pub(super) fn check_plugin(folder: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    for file in ["plugin.toml", "README.md", "src/lib.rs"] {
        if !folder.join(file).is_file() {
            findings.push(format!("{}: there is no {file}", folder.display()));
        }
    }
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let n_lines = readme.lines().count();
    if n_lines > MAX_README_LINES {
        findings.push(format!(
            "{}: README.md has {n_lines} lines, at most {MAX_README_LINES}",
            folder.display()
        ));
    }
    findings
}

#[test]
fn a_file_of_601_lines_is_too_long_unless_it_is_a_test() {
    let is_found =
        |path: &str, n_lines| check_size(&Source::new(path, &"x\n".repeat(n_lines))).is_some();
    assert!(is_found("host/src/a.rs", 601));
    assert!(!is_found("host/src/a.rs", 600));
    for path in [
        "host/src/a/tests.rs",
        "plugins/a/tests/b.rs",
        "sdk/rust/macros/src/module_tests.rs",
    ] {
        assert!(!is_found(path, 601), "{path}");
    }
}

#[test]
fn a_front_page_of_151_lines_is_too_long() {
    assert!(check_front_page(&"x\n".repeat(151)).is_some());
    assert!(check_front_page(&"x\n".repeat(150)).is_none());
}

#[test]
fn a_plugin_without_its_files_or_with_a_long_readme_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("plugin.toml"), "").unwrap();
    std::fs::write(path.join("README.md"), "x\n".repeat(16)).unwrap();
    let findings = check_plugin(path);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].ends_with("there is no src/lib.rs"));
    assert!(findings[1].ends_with("README.md has 16 lines, at most 15"));
    std::fs::create_dir(path.join("src")).unwrap();
    std::fs::write(path.join("src/lib.rs"), "").unwrap();
    std::fs::write(path.join("README.md"), "x\n".repeat(15)).unwrap();
    assert_eq!(check_plugin(path), Vec::<String>::new());
}
