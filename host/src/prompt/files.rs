//! Context files: what a project tells agents in `AGENTS.md` and `CLAUDE.md`.
//!
//! They are read from the workspace upwards to the root of its git repository and no further: what lies above is not the
//! project's. The text is sent to a provider, so a link counts only where it leads to another text of the same repository:
//! one to a key file would give that away. A repository around the workspace counts only when it has the same owner: on a
//! machine of several people, anybody may make one in a folder that all may write to.

use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::point::payload::{PromptPart, Tier};

/// Bytes of one file that are used: some thousand tokens, enough for a long guide.
pub(crate) const MAX_FILE_BYTES: usize = 32 << 10;

/// Bytes of all files together that are used; files nearest to the workspace come first.
pub(crate) const MAX_TOTAL_BYTES: usize = 64 << 10;

/// Names of context files, in the order they are taken within a folder.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContextFiles {
    /// One part for each file; the outermost folder comes first, so that what is nearest has the last word.
    pub parts: Vec<PromptPart>,
    /// Files that were left out or cut, in words for the user.
    pub notices: Vec<String>,
}

#[must_use]
pub(crate) fn context_files(workspace: &Path) -> ContextFiles {
    let mut found = ContextFiles::default();
    let Ok(workspace) = workspace.canonicalize() else {
        return found;
    };
    let folders = folders(&workspace);
    let Some(root) = folders.first() else {
        return found;
    };
    for (depth, folder) in folders.iter().enumerate() {
        for name in NAMES {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            match read(root, &path) {
                Ok(read) => {
                    let cut = format!("longer than {MAX_FILE_BYTES} bytes; the rest is left out");
                    let mended = "not all UTF-8; what is not is replaced by \u{fffd}".to_owned();
                    let faults = [read.is_cut.then_some(cut), read.is_mended.then_some(mended)];
                    let notice = |fault| format!("{} is {fault}", path.display());
                    found
                        .notices
                        .extend(faults.into_iter().flatten().map(notice));
                    add(&mut found.parts, depth, &path, root, &read);
                }
                Err(why) => {
                    let notice = format!("{} is left out: {why}", path.display());
                    found.notices.push(notice);
                }
            }
        }
    }
    limit(&mut found);
    found
}

/// Leaves the outermost files out once all that are nearer fill the prompt.
fn limit(found: &mut ContextFiles) {
    let mut n_bytes = 0;
    let nearest_first = found.parts.iter().rev();
    let n_kept = nearest_first
        .take_while(|part| {
            n_bytes += part.text.len();
            n_bytes <= MAX_TOTAL_BYTES
        })
        .count();
    for part in found.parts.drain(..found.parts.len() - n_kept) {
        found.notices.push(format!(
            "{} is left out: the context files nearer to the workspace fill the {MAX_TOTAL_BYTES} bytes there are",
            part.source
        ));
    }
}

/// The folders from the root of the repository down to the workspace; only the workspace when it is in no repository.
fn folders(workspace: &Path) -> Vec<PathBuf> {
    let has_git = |folder: &&Path| folder.join(".git").exists();
    let root = workspace.ancestors().find(has_git);
    let root = root.filter(|root| has_same_owner(root, workspace));
    let root = root.unwrap_or(workspace);
    let within = workspace.ancestors().take_while(|it| it.starts_with(root));
    let mut folders: Vec<PathBuf> = within.map(Path::to_owned).collect();
    folders.reverse();
    folders
}

/// Whether what stands in `root` is as trusted as what stands in `workspace`. Root may do everything anyway.
#[cfg(unix)]
fn has_same_owner(root: &Path, workspace: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| fs::metadata(path).map(|meta| meta.uid()).ok();
    match (owner(&root.join(".git")), owner(workspace)) {
        (Some(of_root), Some(of_workspace)) => of_root == 0 || of_root == of_workspace,
        _ => false,
    }
}

#[cfg(not(unix))]
fn has_same_owner(_: &Path, _: &Path) -> bool {
    true
}

struct ReadFile {
    text: String,
    /// Whether there is more in the file.
    is_cut: bool,
    /// Whether there were bytes that are no text.
    is_mended: bool,
}

fn read(root: &Path, path: &Path) -> Result<ReadFile, String> {
    let real = path.canonicalize().map_err(|e| e.to_string())?;
    if !real.starts_with(root) {
        return Err(format!(
            "it is a link to {}, outside the project",
            real.display()
        ));
    }
    if real.extension().is_none_or(|extension| extension != "md") {
        return Err(format!(
            "it is a link to {}, and only links to Markdown files are followed",
            real.display()
        ));
    }
    // A pipe or a device would block or never end.
    if !fs::metadata(&real).is_ok_and(|meta| meta.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(&real)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.contains(&0) {
        return Err("it is not text".to_owned());
    }
    let is_long = bytes.len() > MAX_FILE_BYTES;
    if is_long {
        // The cut may go through a character, which is no fault of the file's.
        let in_character = |byte: &u8| (0x80..0xc0).contains(byte);
        let mut end = MAX_FILE_BYTES;
        while end > MAX_FILE_BYTES - 4 && bytes.get(end).is_some_and(in_character) {
            end -= 1;
        }
        bytes.truncate(end);
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_mended = matches!(text, Cow::Owned(_));
    let mut text = text.trim_start_matches('\u{feff}').to_owned();
    // What stands in for a bad byte is longer than it.
    let is_cut = is_long || text.len() > MAX_FILE_BYTES;
    text.truncate(text.floor_char_boundary(MAX_FILE_BYTES));
    Ok(ReadFile {
        text,
        is_cut,
        is_mended,
    })
}

fn add(parts: &mut Vec<PromptPart>, depth: usize, path: &Path, root: &Path, read: &ReadFile) {
    let name = path
        .strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string();
    let more = if read.is_cut { "\n[cut here]" } else { "" };
    let text = format!(
        "<file path=\"{name}\">\n{}{more}\n</file>",
        read.text.trim()
    );
    // One of the two names is often a link to the other.
    let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_owned());
    if parts.iter().any(|part| body(&part.text) == body(&text)) {
        return;
    }
    parts.push(PromptPart {
        tier: Tier::Context,
        key: format!("files/{depth:02}/{name}"),
        source: name,
        text,
    });
}

#[cfg(test)]
mod tests {
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
        let found = context_files(&root.path().join(workspace));
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
}
