//! Reads the settings files of other agents. Limits the size and nesting depth of a file, and the
//! number and depth of files in a folder.

use std::path::{Path, PathBuf};

use rind_lib::disk::read_if_present;
use rind_lib::json::measure_nesting_depth;
use serde_json::Value;

use super::plan::ImportPlan;

/// Maximum size of a file, in bytes. The file in which Claude Code stores its MCP servers also
/// contains its history, and grows to megabytes.
const MAX_IMPORTED_FILE_BYTES: u64 = 32 << 20;

/// Maximum nesting depth of the values in a settings file.
const MAX_SETTINGS_NESTING_DEPTH: usize = 64;

/// Maximum number of files in a folder of commands or agents.
const MAX_COMMAND_OR_AGENT_FILES: usize = 500;

/// Maximum depth of subfolders in a folder of commands or agents.
const MAX_SUBFOLDER_DEPTH: usize = 4;

/// Error while reading a file or folder of another agent.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct ImportFileReadError {
    path: PathBuf,
    why: String,
}

impl ImportFileReadError {
    pub(crate) fn new(path: &Path, why: impl ToString) -> Self {
        Self {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

/// Reads a text file and records it in the plan; `None` if the file does not exist.
pub(crate) fn read_text_and_record_file(
    path: &Path,
    plan: &mut ImportPlan,
) -> Result<Option<String>, ImportFileReadError> {
    let text = read_if_present(path, MAX_IMPORTED_FILE_BYTES)
        .map_err(|error| ImportFileReadError::new(path, error))?;
    if text.is_some() {
        plan.read.push(path.to_owned());
    }
    Ok(text)
}

/// Reads a JSON file, which may have comments and trailing commas; `None` if the file does not
/// exist.
pub(crate) fn read_json_and_record_file(
    path: &Path,
    plan: &mut ImportPlan,
) -> Result<Option<Value>, ImportFileReadError> {
    let Some(text) = read_text_and_record_file(path, plan)? else {
        return Ok(None);
    };
    parse_json_with_comments(path, &text).map(Some)
}

/// Parses JSON that may have comments and trailing commas. `path` is used in errors.
pub(crate) fn parse_json_with_comments(
    path: &Path,
    text: &str,
) -> Result<Value, ImportFileReadError> {
    let parsed =
        jsonc_parser::parse_to_serde_value::<Value>(text, &jsonc_parser::ParseOptions::default());
    let value = parsed.map_err(|error| ImportFileReadError::new(path, error))?;
    if measure_nesting_depth(&value) > MAX_SETTINGS_NESTING_DEPTH {
        let why = format!("the JSON is nested deeper than {MAX_SETTINGS_NESTING_DEPTH} levels");
        return Err(ImportFileReadError::new(path, why));
    }
    Ok(value)
}

/// Finds the Markdown files below a folder. Pairs each path with a name, such as `a-b` for
/// `a/b.md`. Does not follow symlinks.
pub(crate) fn find_markdown_files(
    folder: &Path,
) -> Result<Vec<(String, PathBuf)>, ImportFileReadError> {
    let mut found = Vec::new();
    collect_markdown_files(folder, "", MAX_SUBFOLDER_DEPTH, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect_markdown_files(
    folder: &Path,
    before: &str,
    depth: usize,
    found: &mut Vec<(String, PathBuf)>,
) -> Result<(), ImportFileReadError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImportFileReadError::new(folder, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| ImportFileReadError::new(folder, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        if kind.is_dir() && depth > 0 {
            collect_markdown_files(&path, &format!("{before}{name}-"), depth - 1, found)?;
        } else if kind.is_file()
            && let Some(stem) = name.strip_suffix(".md")
        {
            found.push((format!("{before}{stem}"), path));
        }
        if found.len() > MAX_COMMAND_OR_AGENT_FILES {
            let why = format!("it contains more than {MAX_COMMAND_OR_AGENT_FILES} files");
            return Err(ImportFileReadError::new(folder, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_end_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        for text in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 20)] {
            std::fs::write(&path, text).unwrap();
            assert!(read_json_and_record_file(&path, &mut ImportPlan::default()).is_err());
        }
        let deep = format!(
            "{}{}",
            "[".repeat(MAX_SETTINGS_NESTING_DEPTH + 1),
            "]".repeat(MAX_SETTINGS_NESTING_DEPTH + 1)
        );
        std::fs::write(&path, deep).unwrap();
        assert!(read_json_and_record_file(&path, &mut ImportPlan::default()).is_err());
    }
}
