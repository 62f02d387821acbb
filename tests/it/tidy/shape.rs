//! Checks the sizes of files, and that each plugin's folder has the required files.

use std::path::Path;

use super::tree::Source;

/// Most lines of a source file. A file of more than 400 lines probably has more than one purpose.
const MAX_LINES: usize = 600;

/// Most lines of a plugin's README: what it does, its settings, its limits.
const MAX_README_LINES: usize = 15;

/// Most lines of the front page: reference belongs in the READMEs of `host`, `wit`, `sdk/rust` and
/// `plugins`.
const MAX_FRONT_PAGE_LINES: usize = 150;

/// Most lines of the index of the manual.
const MAX_INDEX_LINES: usize = 60;

/// Most lines of a page of the manual, generated ones excepted.
const MAX_PAGE_LINES: usize = 200;

/// Most words of a paragraph of the manual.
const MAX_PARAGRAPH_WORDS: usize = 120;

const INDEX: &str = "host/README.md";
const PAGES: &str = "host/docs/";

/// Reports pages of the manual that are too long, have a paragraph that is too long, or are missing
/// from the index.
pub(super) fn check_manual(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let index = sources.iter().find(|source| source.path == INDEX);
    let index = index.map_or("", |source| &source.text);
    if index.lines().count() > MAX_INDEX_LINES {
        findings.push(format!("{INDEX}: at most {MAX_INDEX_LINES} lines"));
    }
    for Source { path, text } in sources {
        let Some(name) = path.strip_prefix(PAGES) else {
            continue;
        };
        if !index.contains(&format!("(docs/{name})")) {
            findings.push(format!("{path}: {INDEX} does not list it"));
        }
        if name.starts_with("reference/") {
            continue;
        }
        let n_lines = text.lines().count();
        if n_lines > MAX_PAGE_LINES {
            findings.push(format!("{path}: {n_lines} lines, at most {MAX_PAGE_LINES}"));
        }
        let paragraphs = text
            .split("\n\n")
            .filter(|part| !part.starts_with(['|', '-', '`', '1', '<']));
        let is_long = |part: &&str| part.split_whitespace().count() > MAX_PARAGRAPH_WORDS;
        findings.extend(paragraphs.filter(is_long).map(|part| {
            let start: String = part.chars().take(40).collect();
            format!("{path}: the paragraph `{start}…` has more than {MAX_PARAGRAPH_WORDS} words")
        }));
    }
    findings
}

/// Reports a front page that is too long.
pub(super) fn check_front_page(text: &str) -> Option<String> {
    let n_lines = text.lines().count();
    (n_lines > MAX_FRONT_PAGE_LINES)
        .then(|| format!("README.md: {n_lines} lines, at most {MAX_FRONT_PAGE_LINES}"))
}

/// Reports a source file that is too long, unless it contains tests.
pub(super) fn check_size(source: &Source) -> Option<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let is_test = source.path.contains("/tests/")
        || name.trim_end_matches(".rs").ends_with("tests")
        || name.starts_with("test_");
    let n_lines = source.text.lines().count();
    (n_lines > MAX_LINES && !is_test)
        .then(|| format!("{}: {n_lines} lines, at most {MAX_LINES}", source.path))
}

/// Reports files that a plugin's folder lacks.
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

#[test]
fn long_and_unlisted_pages_of_the_manual_are_found() {
    let index = |text: &str| Source::new(INDEX, text);
    let page = |text: &str| Source::new("host/docs/a.md", text);
    let good = [index("[a](docs/a.md)"), page("# A\n\nText.\n")];
    assert_eq!(check_manual(&good), Vec::<String>::new());
    for bad in [
        [index(""), page("# A\n")],
        [index("[a](docs/a.md)"), page(&"x\n".repeat(201))],
        [index("[a](docs/a.md)"), page(&"word ".repeat(121))],
        [index(&"[a](docs/a.md)\n".repeat(61)), page("# A\n")],
    ] {
        assert!(!check_manual(&bad).is_empty());
    }
}
