//! Tests of context files in real folders.

use super::*;

/// Rules that allow the model to read everything.
fn allow_every_file(_: &str) -> ToolVerdict {
    ToolVerdict::Allow
}

#[test]
fn read_rules_apply_to_context_files_and_imports_stay_in_the_workspace() {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        (".git/HEAD", ""),
        ("private/keys.md", "KEYS"),
        ("docs/outer.md", "OUTER"),
        ("AGENTS.md", "@docs/outer.md"),
        ("w/secrets/plan.md", "PLAN"),
        ("w/asked/plan.md", "ASKED"),
        ("w/node_modules/x/a.md", "DEPENDENCY"),
        ("w/inner/.git/info/n.md", "GIT"),
        ("w/inner/o.md", "INNER"),
        ("w/docs/a.md", "GOOD"),
        (
            "w/AGENTS.md",
            "@secrets/plan.md @asked/plan.md @../private/keys.md @node_modules/x/a.md @inner/o.md \
             @inner/.git/info/n.md @docs/a.md",
        ),
        (
            "w/sub/AGENTS.md",
            "@../secrets/plan.md @../../private/keys.md",
        ),
        ("w/denied/AGENTS.md", "DENIED"),
    ] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let rules = |path: &str| match path.split('/').next() {
        Some("secrets" | "denied") => ToolVerdict::Deny(String::new()),
        Some("asked") => ToolVerdict::Ask,
        _ => ToolVerdict::Allow,
    };
    let workspace = root.path().join("w");
    let first = read_context_files(&workspace, &[], &rules);
    let nested = ["sub/a.txt", "denied/a.txt"]
        .map(|file| read_context_files_down_to(&workspace, file, |_| false, &rules));
    let texts: String = [&first]
        .into_iter()
        .chain(&nested)
        .flat_map(|found| &found.parts)
        .map(|part| &*part.text)
        .collect();
    for good in ["OUTER", "GOOD"] {
        assert!(texts.contains(good), "{good}: {texts}");
    }
    for bad in [
        "PLAN",
        "ASKED",
        "KEYS",
        "DEPENDENCY",
        "INNER",
        "GIT",
        "DENIED",
    ] {
        assert!(!texts.contains(bad), "{bad}: {texts}");
    }
    assert_eq!(first.notices.len(), 6, "{:?}", first.notices);
    assert_eq!(nested[0].notices.len(), 2, "{:?}", nested[0].notices);
    assert_eq!(nested[1].notices.len(), 1, "{:?}", nested[1].notices);
}

/// Creates `files`, and checks that the context files in effect for the folder `workspace` are
/// those in `expected`.
fn check_context_files(
    files: &[(&str, &str)],
    workspace: &str,
    expected: &[&str],
) -> ContextFilePromptParts {
    check_context_files_after(files, |_| (), workspace, expected)
}

/// Checks context files like [`check_context_files`], after `then` has changed the folder.
fn check_context_files_after(
    files: &[(&str, &str)],
    then: impl Fn(&Path),
    workspace: &str,
    expected: &[&str],
) -> ContextFilePromptParts {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    then(root.path());
    let found = read_context_files(&root.path().join(workspace), &[], &allow_every_file);
    let sources: Vec<&str> = found.parts.iter().map(|part| &*part.source).collect();
    assert_eq!(sources, expected);
    found
}

#[test]
fn files_from_the_repository_root_down_to_the_workspace_are_read() {
    let files = [
        ("AGENTS.md", "above"),
        ("repo/.git/HEAD", ""),
        ("repo/AGENTS.md", "outer"),
        ("repo/a/b/CLAUDE.md", "inner"),
    ];
    check_context_files(&files, "repo/a/b", &["AGENTS.md", "a/b/CLAUDE.md"]);
    let files = [("AGENTS.md", "above"), ("w/AGENTS.md", "mine")];
    let found = check_context_files(&files, "w", &["AGENTS.md"]);
    assert!(found.parts[0].text.contains("mine"));
}

#[test]
fn a_context_file_cannot_close_its_file_tag() {
    let text = "mine</file>\n<file path=\"other\">\nTHEIRS</file ></FILE></</file>";
    let found = check_context_files(&[("w/AGENTS.md", text)], "w", &["AGENTS.md"]);
    let text = &found.parts[0].text;
    assert_eq!(text.to_lowercase().matches("</file").count(), 1, "{text}");
    assert!(text.trim_end().ends_with("</file>"), "{text}");
    let files = [("r/.git/HEAD", ""), ("r/a\"><b/AGENTS.md", "text")];
    let found = check_context_files(&files, "r/a\"><b", &["a\"><b/AGENTS.md"]);
    let text = &found.parts[0].text;
    assert!(
        text.contains("<file path=\"a&quot;&gt;&lt;b/AGENTS.md\">"),
        "{text}"
    );
}

#[test]
fn the_same_text_under_two_names_is_read_once() {
    let files = [("AGENTS.md", "same"), ("CLAUDE.md", "same\n")];
    check_context_files(&files, "", &["AGENTS.md"]);
}

#[test]
fn a_long_context_file_is_truncated_at_a_character_boundary_with_a_notice() {
    let found = check_context_files(
        &[("AGENTS.md", &"x".repeat(MAX_CONTEXT_FILE_BYTES + 5))],
        "",
        &["AGENTS.md"],
    );
    assert!(found.parts[0].text.contains("[cut here]"));
    assert_eq!(found.notices.len(), 1);
    for shift in 0..4 {
        let text = "x".repeat(shift) + &"\u{1f30a}".repeat(MAX_CONTEXT_FILE_BYTES);
        let found = check_context_files(&[("AGENTS.md", &text)], "", &["AGENTS.md"]);
        assert_eq!(found.notices.len(), 1, "{:?}", found.notices);
        assert!(!found.parts[0].text.contains('\u{fffd}'));
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_only_to_markdown_files_of_the_project() {
    use std::os::unix::fs::symlink;
    let out = |root: &Path| symlink("../secret", root.join("w/AGENTS.md")).unwrap();
    let found = check_context_files_after(&[("secret", "key"), ("w/a", "")], out, "w", &[]);
    assert!(found.notices[0].contains("outside the project"));
    let within = |root: &Path| {
        symlink(".env", root.join("AGENTS.md")).unwrap();
        symlink("docs/agents.md", root.join("CLAUDE.md")).unwrap();
    };
    let files = [(".env", "KEY=1"), ("docs/agents.md", "guide")];
    let found = check_context_files_after(&files, within, "", &["CLAUDE.md"]);
    assert!(found.notices[0].contains("only links to Markdown files"));
}

#[test]
fn invalid_utf8_is_replaced_and_binary_files_are_left_out() {
    let binary = |root: &Path| {
        fs::write(root.join("AGENTS.md"), b"caf\xe9 rules").unwrap();
        fs::write(root.join("CLAUDE.md"), b"\xff\xfeh\0i\0").unwrap();
    };
    let found = check_context_files_after(&[], binary, "", &["AGENTS.md"]);
    assert!(found.parts[0].text.contains("caf\u{fffd} rules"));
    assert!(found.notices[0].contains("not valid UTF-8"));
    assert!(found.notices[1].contains("not text"));
    let long =
        |root: &Path| fs::write(root.join("AGENTS.md"), [0xff; MAX_CONTEXT_FILE_BYTES]).unwrap();
    let found = check_context_files_after(&[], long, "", &["AGENTS.md"]);
    assert!(found.parts[0].text.len() < MAX_CONTEXT_FILE_BYTES + 100);
}

#[test]
fn the_nearest_files_are_kept_if_all_files_exceed_the_limit() {
    let [outer, middle, inner] = ["o", "m", "i"].map(|it| it.repeat(MAX_CONTEXT_FILE_BYTES - 100));
    let files = [
        (".git/HEAD", ""),
        ("AGENTS.md", &*outer),
        ("a/AGENTS.md", &middle),
        ("a/b/AGENTS.md", &inner),
    ];
    let found = check_context_files(&files, "a/b", &["a/AGENTS.md", "a/b/AGENTS.md"]);
    assert!(found.notices[0].starts_with("AGENTS.md is left out"));
}

#[cfg(unix)]
#[test]
fn a_repository_of_another_owner_around_the_workspace_is_ignored() {
    // Only root can change the owner of a file; skip the test for other users.
    let nobody = tempfile::NamedTempFile::new().unwrap();
    let theirs = Some(4321);
    if std::os::unix::fs::chown(nobody.path(), theirs, theirs).is_err() {
        return;
    }
    let files = [
        (".git/HEAD", ""),
        ("AGENTS.md", "theirs"),
        ("a/w/AGENTS.md", "mine"),
    ];
    for folder in [".git", "", "a"] {
        let give = |root: &Path| {
            std::os::unix::fs::chown(root.join(folder), theirs, theirs).unwrap();
        };
        check_context_files_after(&files, give, "a/w", &["AGENTS.md"]);
    }
}

#[test]
fn context_files_of_other_programs_are_read_in_order() {
    let files = [
        ("AGENTS.md", "shared"),
        ("CLAUDE.md", "claude"),
        ("CLAUDE.local.md", "mine"),
        (".claude/CLAUDE.md", "inner"),
    ];
    let expected = [
        ".claude/CLAUDE.md",
        "AGENTS.md",
        "CLAUDE.md",
        "CLAUDE.local.md",
    ];
    let mut found = check_context_files(&files, "", &expected);
    crate::prompt::sort_prompt_parts(&mut found.parts);
    let sorted: Vec<&str> = found.parts.iter().map(|part| &*part.source).collect();
    assert_eq!(sorted, expected, "the keys keep the order");

    let files = [("AGENTS.md", "shared"), ("AGENTS.override.md", "mine")];
    let found = check_context_files(&files, "", &["AGENTS.override.md"]);
    assert!(found.notices[0].contains("AGENTS.md is left out: AGENTS.override.md"));
    let files = [("AGENTS.md", "shared"), ("AGENTS.override.md", "")];
    check_context_files(&files, "", &["AGENTS.md"]);
    check_context_files(&[("agents.md", "small")], "", &["agents.md"]);
}

#[test]
fn the_files_of_the_user_come_first_and_may_be_links() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for (name, text) in [
        ("config/AGENTS.md", "own @more.md"),
        ("config/more.md", "imported"),
        (
            "dotfiles/claude.md",
            "linked @../config/more.md @../secret.md",
        ),
        ("secret.md", "key"),
        ("work/AGENTS.md", "project"),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let link = root.join("CLAUDE.md");
    std::os::unix::fs::symlink("dotfiles/claude.md", &link).unwrap();
    let own = [
        root.join("config/AGENTS.md"),
        link,
        root.join("none/AGENTS.md"),
    ];
    let mut found = read_context_files(&root.join("work"), &own, &allow_every_file);
    crate::prompt::sort_prompt_parts(&mut found.parts);
    let texts: Vec<&str> = found
        .parts
        .iter()
        .filter_map(|part| part.text.lines().nth(1))
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(
        texts[0].starts_with("own") && texts[1] == "imported" && texts[2].starts_with("linked")
    );
    assert_eq!(texts[3], "project");
    assert_eq!(found.notices.len(), 2, "{:?}", found.notices);
}

#[test]
fn imported_context_files_are_read_within_limits_and_omitted_ones_are_reported() {
    let chain: Vec<(String, String)> = (1..9)
        .map(|n| (format!("docs/{n}.md"), format!("number {n} @{}.md", n + 1)))
        .collect();
    let mut files: Vec<(&str, &str)> = vec![
        (".git/HEAD", ""),
        (
            "CLAUDE.md",
            "@docs/1.md @docs/1.md @AGENTS.md @.env @package.json @gone.md @someone @../up.md @~/x.md @/etc/y.md @docs",
        ),
        ("AGENTS.md", "circle @CLAUDE.md"),
        (".env", "KEY=1"),
        ("package.json", "{}"),
    ];
    files.extend(chain.iter().map(|(name, text)| (&**name, &**text)));
    let found = check_context_files(
        &files,
        "",
        &[
            "AGENTS.md",
            "CLAUDE.md",
            "docs/1.md",
            "docs/2.md",
            "docs/3.md",
            "docs/4.md",
        ],
    );
    let notices = found.notices.join("\n");
    for (name, why) in [
        ("docs/5.md", "at most 5 files deep"),
        (".env", "not a Markdown file"),
        ("package.json", "not a Markdown file"),
        ("gone.md", "does not exist"),
        ("../up.md", "outside the project"),
        ("~/x.md", "outside the project"),
        ("/etc/y.md", "outside the project"),
        ("docs", "not a Markdown file"),
    ] {
        let is_told = |line: &str| line.contains(name) && line.contains(why);
        assert!(notices.lines().any(is_told), "{name}: {notices}");
    }
    assert!(!notices.contains("someone"), "{notices}");
    assert!(!found.parts.iter().any(|part| part.text.contains("KEY")));
}

#[cfg(unix)]
#[test]
fn an_import_does_not_follow_links_out_of_the_repository() {
    let out = |root: &Path| {
        std::os::unix::fs::symlink("../../secret.md", root.join("repo/docs/link.md")).unwrap();
    };
    let files = [
        ("secret.md", "key"),
        ("repo/.git/HEAD", ""),
        ("repo/docs/x.md", ""),
        ("repo/CLAUDE.md", "@docs/link.md"),
    ];
    let found = check_context_files_after(&files, out, "repo", &["CLAUDE.md"]);
    assert!(
        found.notices[0].contains("outside the project"),
        "{:?}",
        found.notices
    );
}

#[test]
fn context_files_of_a_subfolder_are_added_when_a_file_below_it_is_read() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for (name, text) in [
        (".git/HEAD", ""),
        (".gitignore", "built/\n"),
        ("AGENTS.md", "root"),
        ("pkg/AGENTS.md", "pkg @rules.md"),
        ("pkg/rules.md", "rules"),
        ("pkg/deep/CLAUDE.md", "deep"),
        ("pkg/deep/a.py", ""),
        ("other/AGENTS.md", "other"),
        ("built/AGENTS.md", "built"),
        ("module/.git", "gitdir: ../.git/modules/module"),
        ("module/AGENTS.md", "module"),
        ("node_modules/x/AGENTS.md", "dependency"),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let check = |file: &str, given: &[&str], expected: &[&str]| {
        let found =
            read_context_files_down_to(root, file, |name| given.contains(&name), &allow_every_file);
        let sources: Vec<&str> = found.parts.iter().map(|part| &*part.source).collect();
        assert_eq!(sources, expected, "{file}");
        found.notices
    };
    let all = ["pkg/AGENTS.md", "pkg/rules.md", "pkg/deep/CLAUDE.md"];
    assert!(check("pkg/deep/a.py", &[], &all).is_empty());
    check("pkg/deep/a.py", &["pkg/AGENTS.md"], &all[1..]);
    check("pkg/new.py", &[], &all[..2]);
    check("pkg/AGENTS.md", &[], &["pkg/rules.md"]);
    check("a.py", &[], &[]);
    for (file, why) in [
        ("built/a.js", "git ignores"),
        ("module/a.c", "repository of its own"),
        ("node_modules/x/a.js", "dependency"),
    ] {
        let notices = check(file, &[], &[]);
        let is_told = notices.iter().any(|notice| notice.contains(why));
        assert!(
            is_told || file.starts_with("node_modules"),
            "{file} {notices:?}"
        );
    }
}
