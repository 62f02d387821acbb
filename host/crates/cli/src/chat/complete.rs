//! Completes the typed text: names and arguments of commands after `/`, files of the workspace and
//! resources of MCP servers after `@`.

use std::path::Path;

use ignore::WalkBuilder;

use super::super::command::{InputLineCompletion, SlashCommandSet};
use super::super::render::{BOLD_STYLE, DIM_STYLE, style_text, truncate_to_one_line};
use super::resources::ChatMcpResources;

/// Maximum number of files in the workspace that are offered for completion.
const MAX_COMPLETION_FILES: usize = 50_000;

/// Maximum depth of the workspace folders that are searched for files to complete.
const MAX_SEARCHED_FOLDER_DEPTH: usize = 16;

/// Maximum number of entries of one folder that are read to complete a shell command.
const MAX_FOLDER_ENTRIES_READ: usize = 5_000;

/// Maximum number of completions that the menu shows.
const MAX_SHOWN_COMPLETIONS: usize = 6;

/// Menu in which the person chooses a completion of the typed line.
#[derive(Debug, Default)]
pub(super) struct CompletionMenu {
    items: Vec<InputLineCompletion>,
    /// Index of the selected entry; `None` if no entry is selected, because the line is already
    /// complete.
    chosen: Option<usize>,
    /// Whether the person has moved the selection in the menu.
    is_moved: bool,
}

/// Lists the files of a workspace, without those that `.gitignore` excludes. Blocks while it reads
/// the disk.
pub(super) fn list_workspace_files(workspace: &Path) -> Vec<String> {
    let walk = WalkBuilder::new(workspace)
        .max_depth(Some(MAX_SEARCHED_FOLDER_DEPTH))
        .require_git(false)
        .build();
    // Skip files and folders that cannot be read.
    let entries = walk
        .filter_map(Result::ok)
        .skip(1)
        .take(MAX_COMPLETION_FILES);
    let names = entries.filter_map(|entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let path = entry.path().strip_prefix(workspace).ok()?;
        let name = path.to_str()?.to_owned();
        Some(if is_folder { name + "/" } else { name })
    });
    names.collect()
}

/// Returns the file name that is being typed at the end of a text, and its offset. The file name is
/// the rest of a word that begins with `@`.
pub(super) fn partial_file_mention(before: &str) -> Option<(usize, &str)> {
    let word = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let begun = before.get(word..)?.strip_prefix('@')?;
    Some((word + 1, begun))
}

impl CompletionMenu {
    /// Creates a menu of completions for the word before the cursor. `before` is all text before
    /// the cursor.
    pub(super) fn new(
        before: &str,
        commands: &SlashCommandSet,
        files: &[String],
        resources: &ChatMcpResources,
    ) -> Self {
        let items = if let Some((start, begun)) = partial_file_mention(before) {
            let found = rank_matching_files(files, begun).into_iter();
            let item = |text: &str| InputLineCompletion {
                start,
                text: text.to_owned(),
                help: String::new(),
            };
            let resources = resources
                .complete_resource_mention(begun, start)
                .into_iter();
            found.map(item).chain(resources).collect()
        } else if before.starts_with('/') && !before.contains('\n') {
            commands.complete_line(before)
        } else {
            Vec::new()
        };
        // Select no entry while the word to complete is empty, because a line such as `/model ` is
        // already a complete command.
        let begun = items.first().and_then(|item| before.get(item.start..));
        let is_open = begun.is_some_and(str::is_empty) && !before.ends_with(['/', '@']);
        Self {
            chosen: (!items.is_empty() && !is_open).then_some(0),
            items,
            is_moved: false,
        }
    }

    /// Creates a menu with files that complete the last word of a shell command. Used when the
    /// person presses Tab.
    pub(super) fn for_shell_word(before: &str, workspace: &Path) -> Self {
        let items = complete_shell_command_file_paths(before, workspace);
        Self {
            chosen: (!items.is_empty()).then_some(0),
            items,
            is_moved: false,
        }
    }

    /// Creates a menu with these completions, the first of which is selected.
    pub(super) fn with_completions(items: Vec<InputLineCompletion>) -> Self {
        Self {
            chosen: (!items.is_empty()).then_some(0),
            items,
            is_moved: false,
        }
    }

    /// Whether any entry differs from the text that it would replace.
    pub(super) fn can_change_line(&self, before: &str) -> bool {
        let is_other = |item: &InputLineCompletion| before.get(item.start..) != Some(&*item.text);
        self.items.iter().any(is_other)
    }

    /// Whether Enter inserts the selected entry. It does not if the line already equals an entry
    /// and the person did not move the selection.
    pub(super) fn should_enter_key_insert_completion(&self, before: &str) -> bool {
        let is_exact = |item: &InputLineCompletion| before.get(item.start..) == Some(&*item.text);
        self.chosen.is_some() && (self.is_moved || !self.items.iter().any(is_exact))
    }

    /// Whether the menu has only one entry, so that Tab inserts it at once.
    pub(super) fn has_single_entry(&self) -> bool {
        self.items.len() == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Moves the selection up or down. From one end of the menu, it moves to the other end.
    pub(super) fn move_selection(&mut self, is_up: bool) {
        let n = self.items.len().max(1);
        self.is_moved = true;
        self.chosen = Some(match (self.chosen, is_up) {
            (None, true) => n - 1,
            (None, false) => 0,
            (Some(at), true) => (at + n - 1) % n,
            (Some(at), false) => (at + 1) % n,
        });
    }

    /// Returns the entry that Tab inserts: the selected one, or the first if none is selected.
    pub(super) fn selected_entry(&self) -> Option<&InputLineCompletion> {
        self.items.get(self.chosen.unwrap_or(0))
    }

    pub(super) fn render_rows(&self) -> Vec<String> {
        let first = self
            .chosen
            .map_or(0, |at| (at + 1).saturating_sub(MAX_SHOWN_COMPLETIONS));
        let items = self
            .items
            .iter()
            .enumerate()
            .skip(first)
            .take(MAX_SHOWN_COMPLETIONS);
        let rows = items.map(|(at, item)| {
            let text = truncate_to_one_line(&item.text, 60);
            let help = style_text(DIM_STYLE, truncate_to_one_line(&item.help, 100));
            match Some(at) == self.chosen {
                true => format!(
                    "  {} {help}",
                    style_text(BOLD_STYLE, format_args!("▸ {text}"))
                ),
                false => format!("    {text} {help}"),
            }
        });
        rows.collect()
    }
}

/// Returns the files whose path begins with the last word of a shell command, relative to the
/// workspace.
fn complete_shell_command_file_paths(before: &str, workspace: &Path) -> Vec<InputLineCompletion> {
    let start = before.rfind([' ', '\t', '!', '=', '>', '<', '|', ';', '&']);
    let start = start.map_or(0, |at| at + 1);
    let word = before.get(start..).unwrap_or_default();
    let (folder, begun) = word
        .rsplit_once('/')
        .map_or(("", word), |(folder, begun)| (folder, begun));
    // Propose no files for words that need shell quoting, and for paths that lead out of the
    // workspace.
    if word.starts_with(['/', '~', '-']) || folder.split('/').any(|name| name == "..") {
        return Vec::new();
    }
    let entries = std::fs::read_dir(workspace.join(folder))
        .into_iter()
        .flatten();
    let entries = entries.filter_map(Result::ok).take(MAX_FOLDER_ENTRIES_READ);
    let mut found: Vec<InputLineCompletion> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_plain = |c: char| c.is_alphanumeric() || "._-+@%,:".contains(c);
            let is_hidden = name.starts_with('.') && !begun.starts_with('.');
            if !name.starts_with(begun) || is_hidden || !name.chars().all(is_plain) {
                return None;
            }
            let slash = if entry.path().is_dir() { "/" } else { "" };
            let folder = if folder.is_empty() {
                String::new()
            } else {
                format!("{folder}/")
            };
            Some(InputLineCompletion {
                start,
                text: format!("{folder}{name}{slash}"),
                help: String::new(),
            })
        })
        .collect();
    found.sort_by(|one, other| one.text.cmp(&other.text));
    found
}

/// Returns the files that match the typed text: first the files whose path begins with the text,
/// then those whose name begins with it, then those whose path contains it.
fn rank_matching_files<'a>(files: &'a [String], begun: &str) -> Vec<&'a str> {
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
        let files = list_workspace_files(folder.path());
        assert_eq!(
            rank_matching_files(&files, "ma"),
            ["src/main.rs", "src/deep/domain.rs"]
        );
        assert_eq!(
            rank_matching_files(&files, "SRC/d"),
            ["src/deep/", "src/deep/domain.rs"]
        );
        assert!(rank_matching_files(&files, "target").is_empty());
    }

    #[test]
    fn enter_takes_the_marked_entry_unless_the_line_is_one_already() {
        let item = |start, text: &str| InputLineCompletion {
            start,
            text: text.to_owned(),
            help: String::new(),
        };
        let menu = |items: Vec<InputLineCompletion>, chosen| CompletionMenu {
            items,
            chosen,
            is_moved: false,
        };
        let names = || vec![item(1, "cost"), item(1, "context")];
        assert!(menu(names(), Some(0)).should_enter_key_insert_completion("/co"));
        assert!(!menu(names(), Some(0)).should_enter_key_insert_completion("/context"));
        assert!(!menu(names(), None).should_enter_key_insert_completion("/x "));
        let mut moved = menu(names(), None);
        moved.move_selection(true);
        assert_eq!(
            moved.selected_entry().map(|item| &*item.text),
            Some("context")
        );
        assert!(moved.should_enter_key_insert_completion("/cost"));
        moved.move_selection(false);
        assert_eq!(moved.selected_entry().map(|item| &*item.text), Some("cost"));
        assert!(!CompletionMenu::default().should_enter_key_insert_completion("/"));
    }

    #[test]
    fn files_of_a_command_are_those_of_its_last_word() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src")).unwrap();
        for name in ["src/main.rs", "setup.py", ".hidden", "two words"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |before: &str| {
            let found = complete_shell_command_file_paths(before, folder.path()).into_iter();
            found.map(|item| item.text).collect::<Vec<_>>()
        };
        assert_eq!(found("!cat s"), ["setup.py", "src/"]);
        assert_eq!(found("!cat src/m"), ["src/main.rs"]);
        assert_eq!(found("!cat .h"), [".hidden"]);
        for before in ["!cat ../", "!cat /etc/pass", "!cat t", "!ls -"] {
            assert!(found(before).is_empty(), "{before}");
        }
    }

    #[test]
    fn a_file_is_begun_by_an_at_sign_at_the_start_of_a_word() {
        assert_eq!(partial_file_mention("see @src/m"), Some((5, "src/m")));
        assert_eq!(partial_file_mention("@"), Some((1, "")));
        assert_eq!(partial_file_mention("me@example"), None);
        assert_eq!(partial_file_mention("@a b"), None);
    }
}
