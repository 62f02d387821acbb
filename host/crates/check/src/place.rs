//! Finds the lines of keys in `plugin.toml` and of functions in source files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use regex::Regex;
use toml_edit::{Document, Item, TableLike};

/// Directories with dependencies or generated files, which are not searched.
const UNSEARCHED_FOLDER_NAMES: [&str; 5] =
    ["target", "node_modules", "dist", "build", "__pycache__"];

/// Extensions of source files in which the line of a function is searched.
const SOURCE_EXTENSIONS: [&str; 6] = ["rs", "py", "js", "ts", "mjs", "mts"];

/// Maximum depth of the directories that are searched for source files.
const MAX_SEARCH_FOLDER_DEPTH: usize = 5;

/// Maximum size of a searched source file, in bytes.
const MAX_SOURCE_FILE_BYTES: u64 = 1 << 20;

/// Line numbers of the keys in a TOML file.
pub(super) struct TomlKeyLineNumbers {
    text: String,
    document: Option<Document<String>>,
}

impl TomlKeyLineNumbers {
    pub(super) fn from_text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            document: Document::parse(text.to_owned()).ok(),
        }
    }

    /// Returns the line of a key. If the file does not contain the key, returns the line of the
    /// innermost enclosing key or table.
    pub(super) fn line_of_key(&self, keys: &[&str]) -> Option<usize> {
        let mut table: &dyn TableLike = self.document.as_ref()?.as_table();
        let mut last = None;
        for name in keys {
            let Some((key, item)) = table.get_key_value(name) else {
                break;
            };
            last = key.span().or_else(|| toml_item_span(item)).or(last);
            match item.as_table_like() {
                Some(inner) => table = inner,
                None => break,
            }
        }
        Some(line_number_at_offset(&self.text, last?.start))
    }
}

fn toml_item_span(item: &Item) -> Option<Range<usize>> {
    item.span()
}

/// Returns the line number of a byte offset, from 1.
pub(super) fn line_number_at_offset(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// Finds the function of a tool in the sources of a plugin. If there is none, finds the tool's name
/// in quotes. Returns the path relative to `folder`, and the line.
pub(super) fn find_tool_function(folder: &Path, name: &str) -> Option<(PathBuf, usize)> {
    let snake = name.replace('-', "_");
    let escaped = regex::escape(&snake);
    let defined = Regex::new(&format!(r"\b(fn|def|function)\s+{escaped}\b")).ok()?;
    let quoted = Regex::new(&format!(r#"["']{}["']"#, regex::escape(name))).ok()?;
    let mut sources = Vec::new();
    collect_source_files(folder, 0, &mut sources);
    let texts: Vec<(PathBuf, String)> = sources
        .into_iter()
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    [defined, quoted].iter().find_map(|pattern| {
        texts.iter().find_map(|(path, text)| {
            let at = pattern.find(text)?.start();
            let path = path.strip_prefix(folder).ok()?;
            Some((path.to_owned(), line_number_at_offset(text, at)))
        })
    })
}

fn collect_source_files(folder: &Path, depth: usize, sources: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Do not follow symlinks: they may lead out of the directory or form a loop.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() && depth < MAX_SEARCH_FOLDER_DEPTH {
            if !UNSEARCHED_FOLDER_NAMES.contains(&&*name) && !name.starts_with('.') {
                collect_source_files(&path, depth + 1, sources);
            }
        } else if metadata.is_file()
            && metadata.len() <= MAX_SOURCE_FILE_BYTES
            && path
                .extension()
                .is_some_and(|end| SOURCE_EXTENSIONS.iter().any(|own| end == *own))
        {
            sources.push(path);
        }
    }
}
