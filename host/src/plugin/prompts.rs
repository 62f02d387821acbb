//! Reads directories of prompt templates, from plugins and from other locations.
//!
//! This module owns the limits on number and size. The module returns templates as bytes; other
//! modules parse them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files;
use crate::disk::is_dangling_symlink;
use crate::grant::held::InMemoryFolder;
use crate::paths::file_name;

/// Name of a directory with prompt templates, in a plugin, in the user's settings directory and in
/// `.rind`.
pub const PROMPT_TEMPLATES_FOLDER_NAME: &str = "prompts";

/// Maximum number of prompt templates that are read from one directory.
pub const MAX_TEMPLATES_PER_FOLDER: usize = 100;

/// Maximum size of a prompt template, in bytes.
pub const MAX_TEMPLATE_BYTES: u64 = 64 << 10;

/// File in a directory of prompt templates.
#[derive(Clone, Debug)]
pub struct PromptTemplateFile {
    /// Path of the file, or of the directory if the directory cannot be read.
    pub path: PathBuf,
    /// Content of the file, or the reason why it could not be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// Reads the Markdown files of a directory, sorted by name. Some results have an error instead of
/// content: files beyond [`MAX_TEMPLATES_PER_FOLDER`], directories and dangling symlinks with the
/// name of a Markdown file, and the directory itself if it exists but cannot be read.
#[must_use]
pub fn read_prompt_files(
    folder: &Path,
    held: Option<&InMemoryFolder>,
) -> Arc<[PromptTemplateFile]> {
    if let Some(error) = files::find_folder_read_error(folder, held) {
        let file = PromptTemplateFile {
            path: folder.to_owned(),
            bytes: Err(format!("cannot read prompts from this folder: {error}")),
        };
        return [file].into();
    }
    // Skip named pipes: opening a pipe would block until a process writes to it.
    let odd = files::list_subfolders(folder, held).into_iter();
    let odd = odd.filter(|path| path.is_dir() || is_dangling_symlink(path));
    let mut names = files::list_regular_file_names(folder, held);
    names.extend(odd.map(|path| file_name(&path)));
    names.sort();
    let names = names.into_iter().filter(|name| name.ends_with(".md"));
    let file = |(at, name): (usize, String)| {
        let path = folder.join(name);
        let bytes = match at {
            ..MAX_TEMPLATES_PER_FOLDER => read_prompt_file(&path, held),
            _ => Err("not read".to_owned()),
        };
        PromptTemplateFile { path, bytes }
    };
    names.enumerate().map(file).collect()
}

fn read_prompt_file(path: &Path, held: Option<&InMemoryFolder>) -> Result<Vec<u8>, String> {
    let bytes = files::read_plugin_file(path, held, MAX_TEMPLATE_BYTES)
        .map_err(|error| error.to_string())?;
    match bytes.len() as u64 {
        ..=MAX_TEMPLATE_BYTES => Ok(bytes),
        _ => Err(format!(
            "the prompt file has more than {} KiB",
            MAX_TEMPLATE_BYTES >> 10
        )),
    }
}
