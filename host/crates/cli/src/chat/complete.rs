//! Completions of the typed text: names and arguments of commands after `/`, files of the workspace
//! after `@`.

use std::path::Path;

use ignore::WalkBuilder;

use super::super::command::{CommandSet, LineCompletion};
use super::super::render::{BOLD, DIM, one_line, style_text};

/// Maximum number of scanned files.
const MAX_FILES: usize = 50_000;

/// Deepest folder that is looked into.
const MAX_DEPTH: usize = 16;

/// Most ends that are shown.
const MAX_SHOWN: usize = 6;

/// Ends to choose from.
#[derive(Debug, Default)]
pub(super) struct CompletionMenu {
    items: Vec<LineCompletion>,
    chosen: usize,
}

/// The files of a workspace, without those that `.gitignore` leaves out. Reads the disk.
pub(super) fn list_files(workspace: &Path) -> Vec<String> {
    let walk = WalkBuilder::new(workspace)
        .max_depth(Some(MAX_DEPTH))
        .require_git(false)
        .build();
    // Skip entries that cannot be read.
    let entries = walk.filter_map(Result::ok).skip(1).take(MAX_FILES);
    let names = entries.filter_map(|entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let path = entry.path().strip_prefix(workspace).ok()?;
        let name = path.to_str()?.to_owned();
        Some(if is_folder { name + "/" } else { name })
    });
    names.collect()
}

/// Offset and prefix of the file name at the end of a text: the word after an `@` that begins a
/// word.
pub(super) fn file_begun(before: &str) -> Option<(usize, &str)> {
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let begun = before.get(word..)?.strip_prefix('@')?;
    Some((word + 1, begun))
}

impl CompletionMenu {
    /// Proposes ends for the text before the cursor.
    pub(super) fn new(before: &str, commands: &CommandSet, files: &[String]) -> Self {
        let items = if let Some((start, begun)) = file_begun(before) {
            let found = matching_files(files, begun).into_iter();
            let item = |text: &str| LineCompletion {
                start,
                text: text.to_owned(),
                help: String::new(),
            };
            found.map(item).collect()
        } else if before.starts_with('/') && !before.contains('\n') {
            commands.complete_line(before)
        } else {
            Vec::new()
        };
        Self { items, chosen: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Moves the choice, from the last to the first.
    pub(super) fn move_choice(&mut self, is_up: bool) {
        let n = self.items.len().max(1);
        let step = if is_up { n - 1 } else { 1 };
        self.chosen = (self.chosen + step) % n;
    }

    pub(super) fn chosen(&self) -> Option<&LineCompletion> {
        self.items.get(self.chosen)
    }

    pub(super) fn rows(&self) -> Vec<String> {
        let first = (self.chosen + 1).saturating_sub(MAX_SHOWN);
        let items = self.items.iter().enumerate().skip(first).take(MAX_SHOWN);
        let rows = items.map(|(at, item)| {
            let text = one_line(&item.text, 60);
            let help = style_text(DIM, one_line(&item.help, 100));
            match at == self.chosen {
                true => format!("  {} {help}", style_text(BOLD, format_args!("▸ {text}"))),
                false => format!("    {text} {help}"),
            }
        });
        rows.collect()
    }
}

/// Files that match the typed text: first those whose name begins with it, then those that contain
/// it.
fn matching_files<'a>(files: &'a [String], begun: &str) -> Vec<&'a str> {
    let begun = begun.to_lowercase();
    let rank = |file: &str| {
        let file = file.to_lowercase();
        let name = file.trim_end_matches('/').rsplit('/').next();
        match () {
            () if file.starts_with(&begun) => Some(0),
            () if name.is_some_and(|name| name.starts_with(&begun)) => Some(1),
            () if file.contains(&begun) => Some(2),
            () => None,
        }
    };
    let ranked = files.iter().filter_map(|file| Some((rank(file)?, file)));
    let mut ranked: Vec<(u32, &String)> = ranked.collect();
    ranked.sort_by_key(|(rank, file)| (*rank, file.matches('/').count(), file.len()));
    let first = ranked.into_iter().take(50);
    first.map(|(_, file)| file.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_offered_by_their_names_and_what_git_ignores_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for (name, text) in [
            (".gitignore", "target\n"),
            ("src/main.rs", ""),
            ("src/deep/domain.rs", ""),
            ("target", ""),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let files = list_files(folder.path());
        assert_eq!(
            matching_files(&files, "ma"),
            ["src/main.rs", "src/deep/domain.rs"]
        );
        assert_eq!(
            matching_files(&files, "SRC/d"),
            ["src/deep/", "src/deep/domain.rs"]
        );
        assert!(matching_files(&files, "target").is_empty());
    }

    #[test]
    fn a_file_is_begun_by_an_at_sign_at_the_start_of_a_word() {
        assert_eq!(file_begun("see @src/m"), Some((5, "src/m")));
        assert_eq!(file_begun("@"), Some((1, "")));
        assert_eq!(file_begun("me@example"), None);
        assert_eq!(file_begun("@a b"), None);
    }
}
