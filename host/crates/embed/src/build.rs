//! Packs files in the build script of a crate. Cargo passes the crate's folder and the output
//! folder in environment variables, and reads the lines that the script prints.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::{PackedFilePathAndContent, RELEASE_COMPRESSION_LEVEL, pack_files, read_folder_files};

/// Packs files and folders into `OUT_DIR/FILE`, for
/// [`EmbeddedPackedFolder::new`](super::EmbeddedPackedFolder::new). Each part is a path relative to
/// the crate's folder, and the path of that file or folder in the package. An empty package path
/// puts the files of a folder at the top level.
///
/// # Errors
/// A part cannot be read, or the packed file cannot be written.
#[expect(clippy::print_stdout, reason = "cargo reads it")]
pub fn pack_files_into_out_dir(file: &str, parts: &[(&str, &str)]) -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for (from, to) in parts {
        let from = own.join(from);
        println!("cargo::rerun-if-changed={}", from.display());
        files.extend(read_files_to_embed(&from, to).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", from.display()))
        })?);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(
        out.join(file),
        pack_files(&files, RELEASE_COMPRESSION_LEVEL)?,
    )
}

fn read_files_to_embed(from: &Path, to: &str) -> io::Result<Vec<PackedFilePathAndContent>> {
    if !from.is_dir() {
        return Ok(vec![(to.to_owned(), fs::read(from)?)]);
    }
    // Skip bytecode that Python wrote when someone tested the files.
    let files = read_folder_files(from)?.into_iter();
    let files = files.filter(|(path, _)| !path.contains("__pycache__"));
    Ok(files
        .map(|(path, content)| match to {
            "" => (path, content),
            to => (format!("{to}/{path}"), content),
        })
        .collect())
}
