//! Converts slash commands of Claude Code in a trusted project to templates.
//!
//! The files are read with the rest of the project, so that one approval covers them. Faults in the
//! files are reported once. Start from [`read_commands`].

use std::path::{Path, PathBuf};

use rind_import::{SlashCommandTemplate, convert_claude_command};
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::file_stem;
use rind_lib::plugin::prompts::{self, PromptTemplateFile};

/// Folder of a project with the slash commands of Claude Code.
pub const CLAUDE_SLASH_COMMANDS_FOLDER: &str = ".claude/commands";

/// Maximum depth of subfolders of [`CLAUDE_SLASH_COMMANDS_FOLDER`] that are searched for commands.
const MAX_COMMANDS_SUBFOLDER_DEPTH: usize = 4;

/// Slash commands of a project, converted to Rind's prompt templates.
#[derive(Debug, Default)]
pub struct ProjectSlashCommands {
    /// Templates. The file name of each is the name of its command, which begins with the
    /// subfolders of the file, joined by `-`.
    pub templates: Vec<PromptTemplateFile>,
    /// Messages about parts of the files that have no effect, each with the file and the reason.
    pub unused: Vec<String>,
}

/// Reads the slash commands of a project and converts them to templates.
#[must_use]
pub fn read_commands(workspace: &Path, held: &InMemoryFolder) -> ProjectSlashCommands {
    let mut found = ProjectSlashCommands::default();
    let root = workspace.join(CLAUDE_SLASH_COMMANDS_FOLDER);
    if held.is_path_inside(&root) {
        read_command_folder(
            &root,
            &root,
            "",
            held,
            MAX_COMMANDS_SUBFOLDER_DEPTH,
            &mut found,
        );
    }
    found
}

fn read_command_folder(
    root: &Path,
    folder: &Path,
    before: &str,
    held: &InMemoryFolder,
    depth: usize,
    found: &mut ProjectSlashCommands,
) {
    for file in prompts::read_prompt_files(folder, Some(held)).iter() {
        let name = format!("{before}{}", file_stem(&file.path)).to_ascii_lowercase();
        let name = name.replace(['_', ' ', '.'], "-");
        let path = command_template_path(root, &file.path, &name);
        let read = file.bytes.as_ref().map_err(Clone::clone);
        let bytes = read.map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            let SlashCommandTemplate { text, losses } =
                convert_claude_command(&name, &text, &file.path);
            let losses = losses.into_iter();
            found.unused.extend(losses.map(|loss| {
                let file = loss.path.display();
                format!("{file}: {}: {}", loss.what, loss.why)
            }));
            text.into_bytes()
        });
        found.templates.push(PromptTemplateFile { path, bytes });
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    for below in held.subfolders_in(folder) {
        let name = below.file_name().unwrap_or_default().to_string_lossy();
        read_command_folder(
            root,
            &below,
            &format!("{before}{name}-"),
            held,
            depth,
            found,
        );
    }
}

/// Returns the path of a template. It is the command's file if that file has the name of the
/// command, and otherwise a path in `root` with that name.
fn command_template_path(root: &Path, path: &Path, name: &str) -> PathBuf {
    match file_stem(path) == name {
        true => path.to_owned(),
        false => root.join(format!("{name}.md")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_templates_with_the_names_of_their_folders_and_losses_are_told() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().canonicalize().unwrap();
        let folder = workspace.join(CLAUDE_SLASH_COMMANDS_FOLDER);
        for (path, text) in [
            (
                "fix.md",
                "---\ndescription: Fixes\nallowed-tools: Bash(git:*)\n---\nFix $ARGUMENTS, $1.\n",
            ),
            ("Front_End/Test.md", "Test {{ it }}: !`git status`\n"),
            ("notes.txt", "no command"),
        ] {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (held, _) =
            InMemoryFolder::read_folder_following_symlinks(&folder, &workspace).unwrap();
        let found = read_commands(&workspace, &held);
        let names: Vec<String> = found
            .templates
            .iter()
            .map(|file| file_stem(&file.path))
            .collect();
        assert_eq!(names, ["fix", "front-end-test"]);
        let texts = found
            .templates
            .iter()
            .map(|file| file.bytes.clone().unwrap());
        let texts: Vec<String> = texts
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .collect();
        assert!(texts[0].starts_with("---\ndescription: \"Fixes\"\n---\nFix {{ arguments }}, "));
        assert!(
            texts[1].contains(r#"Test {{ "{{" }} it }}"#),
            "{}",
            texts[1]
        );
        assert_eq!(found.unused.len(), 2, "{:?}", found.unused);
        assert!(found.unused[0].contains("fix.md: /fix: allowed-tools: "));
        assert!(found.unused[1].contains("Test.md: /front-end-test: !`…`: "));
        // Not without the folder among the files that were read.
        let other = InMemoryFolder::empty(workspace.join(".rind"));
        assert!(read_commands(&workspace, &other).templates.is_empty());
    }
}
