//! Context files: what a project tells agents in `AGENTS.md` and `CLAUDE.md`.
//!
//! They are read from the workspace upwards to the root of its git repository and no further: what lies above is not the
//! project's. A link that leads out of the repository is not followed, because the text is sent to a provider.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::point::payload::{PromptPart, Tier};

/// How much of one file is taken, in bytes: some thousand tokens, enough for a long guide.
pub const MAX_FILE_BYTES: usize = 32 << 10;

/// Names of context files, in the order they are taken within a folder.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextFiles {
    /// One part for each file; the outermost folder comes first, so that what is nearest has the last word.
    pub parts: Vec<PromptPart>,
    /// Files that were left out or cut, in words for the user.
    pub notices: Vec<String>,
}

/// Reads the context files of a workspace.
#[must_use]
pub fn context_files(workspace: &Path) -> ContextFiles {
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
                Ok((text, is_cut)) => {
                    if is_cut {
                        found.notices.push(format!(
                            "{} is longer than {MAX_FILE_BYTES} bytes; the rest is left out",
                            path.display()
                        ));
                    }
                    add(&mut found.parts, depth, &path, root, &text, is_cut);
                }
                Err(why) => found
                    .notices
                    .push(format!("{} is left out: {why}", path.display())),
            }
        }
    }
    found
}

/// The folders from the root of the repository down to the workspace; only the workspace when it is in no repository.
fn folders(workspace: &Path) -> Vec<PathBuf> {
    let Some(up) = workspace
        .ancestors()
        .position(|folder| folder.join(".git").exists())
    else {
        return vec![workspace.to_owned()];
    };
    let mut folders: Vec<PathBuf> = workspace
        .ancestors()
        .take(up + 1)
        .map(Path::to_owned)
        .collect();
    folders.reverse();
    folders
}

fn read(root: &Path, path: &Path) -> Result<(String, bool), String> {
    let real = path.canonicalize().map_err(|e| e.to_string())?;
    if !real.starts_with(root) {
        return Err(format!(
            "it is a link to {}, outside the project",
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
    let is_cut = bytes.len() > MAX_FILE_BYTES;
    bytes.truncate(MAX_FILE_BYTES);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_cut))
}

fn add(
    parts: &mut Vec<PromptPart>,
    depth: usize,
    path: &Path,
    root: &Path,
    text: &str,
    is_cut: bool,
) {
    let name = path
        .strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string();
    let more = if is_cut { "\n[cut here]" } else { "" };
    let text = format!("<file path=\"{name}\">\n{}{more}\n</file>", text.trim());
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

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn check(root: &Path, workspace: &str, expected: &[&str]) -> ContextFiles {
        let found = context_files(&root.join(workspace));
        let sources: Vec<&str> = found
            .parts
            .iter()
            .map(|part| part.source.as_str())
            .collect();
        assert_eq!(sources, expected);
        found
    }

    #[test]
    fn files_from_the_repository_root_down_to_the_workspace_are_taken() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("AGENTS.md"), "above");
        write(&root.path().join("repo/.git/HEAD"), "");
        write(&root.path().join("repo/AGENTS.md"), "outer");
        write(&root.path().join("repo/a/b/CLAUDE.md"), "inner");
        check(root.path(), "repo/a/b", &["AGENTS.md", "a/b/CLAUDE.md"]);
    }

    #[test]
    fn outside_a_repository_only_the_workspace_counts() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("AGENTS.md"), "above");
        write(&root.path().join("w/AGENTS.md"), "mine");
        check(root.path(), "w", &["AGENTS.md"]);
    }

    #[test]
    fn the_same_text_under_both_names_is_taken_once() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("AGENTS.md"), "same");
        write(&root.path().join("CLAUDE.md"), "same\n");
        check(root.path(), "", &["AGENTS.md"]);
    }

    #[test]
    fn a_long_file_is_cut_with_a_notice() {
        let root = tempfile::tempdir().unwrap();
        write(
            &root.path().join("AGENTS.md"),
            &"x".repeat(MAX_FILE_BYTES + 5),
        );
        let found = check(root.path(), "", &["AGENTS.md"]);
        assert!(found.parts[0].text.contains("[cut here]"));
        assert_eq!(found.notices.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_project_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("secret"), "key");
        fs::create_dir(root.path().join("w")).unwrap();
        std::os::unix::fs::symlink("../secret", root.path().join("w/AGENTS.md")).unwrap();
        let found = check(root.path(), "w", &[]);
        assert!(found.notices[0].contains("outside the project"));
    }
}
