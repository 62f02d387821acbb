//! Context files of real folders.

use super::*;

/// Makes these files, and checks which context files count in the folder `workspace` below.
fn check(files: &[(&str, &str)], workspace: &str, expected: &[&str]) -> ContextFiles {
    check_after(files, |_| (), workspace, expected)
}

/// Checks context files, with something else done after they were made.
fn check_after(
    files: &[(&str, &str)],
    then: impl Fn(&Path),
    workspace: &str,
    expected: &[&str],
) -> ContextFiles {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    then(root.path());
    let found = context_files(&root.path().join(workspace), &[]);
    let sources: Vec<&str> = found.parts.iter().map(|part| &*part.source).collect();
    assert_eq!(sources, expected);
    found
}

#[test]
fn files_from_the_repository_root_down_to_the_workspace_are_taken() {
    let files = [
        ("AGENTS.md", "above"),
        ("repo/.git/HEAD", ""),
        ("repo/AGENTS.md", "outer"),
        ("repo/a/b/CLAUDE.md", "inner"),
    ];
    check(&files, "repo/a/b", &["AGENTS.md", "a/b/CLAUDE.md"]);
    let files = [("AGENTS.md", "above"), ("w/AGENTS.md", "mine")];
    let found = check(&files, "w", &["AGENTS.md"]);
    assert!(found.parts[0].text.contains("mine"));
}

#[test]
fn the_same_text_under_both_names_is_taken_once() {
    let files = [("AGENTS.md", "same"), ("CLAUDE.md", "same\n")];
    check(&files, "", &["AGENTS.md"]);
}

#[test]
fn a_long_file_is_cut_between_characters_with_a_notice() {
    let found = check(
        &[("AGENTS.md", &"x".repeat(MAX_FILE_BYTES + 5))],
        "",
        &["AGENTS.md"],
    );
    assert!(found.parts[0].text.contains("[cut here]"));
    assert_eq!(found.notices.len(), 1);
    for shift in 0..4 {
        let text = "x".repeat(shift) + &"\u{1f30a}".repeat(MAX_FILE_BYTES);
        let found = check(&[("AGENTS.md", &text)], "", &["AGENTS.md"]);
        assert_eq!(found.notices.len(), 1, "{:?}", found.notices);
        assert!(!found.parts[0].text.contains('\u{fffd}'));
    }
}

#[cfg(unix)]
#[test]
fn a_link_counts_where_it_leads_to_a_markdown_file_of_the_project_only() {
    use std::os::unix::fs::symlink;
    let out = |root: &Path| symlink("../secret", root.join("w/AGENTS.md")).unwrap();
    let found = check_after(&[("secret", "key"), ("w/a", "")], out, "w", &[]);
    assert!(found.notices[0].contains("outside the project"));
    let within = |root: &Path| {
        symlink(".env", root.join("AGENTS.md")).unwrap();
        symlink("docs/agents.md", root.join("CLAUDE.md")).unwrap();
    };
    let files = [(".env", "KEY=1"), ("docs/agents.md", "guide")];
    let found = check_after(&files, within, "", &["CLAUDE.md"]);
    assert!(found.notices[0].contains("only links to Markdown files"));
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_a_binary_file_is_left_out() {
    let binary = |root: &Path| {
        fs::write(root.join("AGENTS.md"), b"caf\xe9 rules").unwrap();
        fs::write(root.join("CLAUDE.md"), b"\xff\xfeh\0i\0").unwrap();
    };
    let found = check_after(&[], binary, "", &["AGENTS.md"]);
    assert!(found.parts[0].text.contains("caf\u{fffd} rules"));
    assert!(found.notices[0].contains("not all UTF-8"));
    assert!(found.notices[1].contains("not text"));
    let long = |root: &Path| fs::write(root.join("AGENTS.md"), [0xff; MAX_FILE_BYTES]).unwrap();
    let found = check_after(&[], long, "", &["AGENTS.md"]);
    assert!(found.parts[0].text.len() < MAX_FILE_BYTES + 100);
}

#[test]
fn the_nearest_files_count_when_all_together_are_too_long() {
    let [outer, middle, inner] = ["o", "m", "i"].map(|it| it.repeat(MAX_FILE_BYTES - 100));
    let files = [
        (".git/HEAD", ""),
        ("AGENTS.md", &*outer),
        ("a/AGENTS.md", &middle),
        ("a/b/AGENTS.md", &inner),
    ];
    let found = check(&files, "a/b", &["a/AGENTS.md", "a/b/AGENTS.md"]);
    assert!(found.notices[0].starts_with("AGENTS.md is left out"));
}

#[cfg(unix)]
#[test]
fn a_repository_of_somebody_else_around_the_workspace_does_not_count() {
    // Only root may give files away; for everybody else there is nothing to see here.
    let nobody = tempfile::NamedTempFile::new().unwrap();
    let theirs = Some(4321);
    if std::os::unix::fs::chown(nobody.path(), theirs, theirs).is_err() {
        return;
    }
    let give = |root: &Path| {
        std::os::unix::fs::chown(root.join(".git"), theirs, theirs).unwrap();
    };
    let files = [
        (".git/HEAD", ""),
        ("AGENTS.md", "theirs"),
        ("w/AGENTS.md", "mine"),
    ];
    check_after(&files, give, "w", &["AGENTS.md"]);
}
