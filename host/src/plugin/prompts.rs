//! Reads folders of prompt templates, those that plugins carry and others.
//!
//! Owns the limits of what is read. A template says what it does elsewhere: here it is bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files;
use crate::grant::held::HeldFolder;

/// Name of the folder, in a plugin, beside the user's settings and in `.rind`.
pub const FOLDER: &str = "prompts";

/// Most templates of one folder.
pub const MAX_FILES: usize = 100;

/// Largest template that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 10;

/// A file in a folder of prompts.
#[derive(Clone, Debug)]
pub struct PromptFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Content, or why there is none.
    pub bytes: Result<Vec<u8>, String>,
}

/// Reads the Markdown files of a folder, in the order of their names; of one file more than [`MAX_FILES`] only the name, for each.
#[must_use]
pub fn read(folder: &Path, held: Option<&HeldFolder>) -> Arc<[PromptFile]> {
    let names = files::file_names_in(folder, held).into_iter();
    let names = names.filter(|name| name.ends_with(".md"));
    let file = |(at, name): (usize, String)| {
        let path = folder.join(name);
        let bytes = match at {
            ..MAX_FILES => read_one(&path, held),
            _ => Err("not read".to_owned()),
        };
        PromptFile { path, bytes }
    };
    names.enumerate().map(file).collect()
}

fn read_one(path: &Path, held: Option<&HeldFolder>) -> Result<Vec<u8>, String> {
    let bytes = files::read(path, held, MAX_BYTES).map_err(|error| error.to_string())?;
    match bytes.len() as u64 {
        ..=MAX_BYTES => Ok(bytes),
        _ => Err(format!("it has more than {} KiB", MAX_BYTES >> 10)),
    }
}
