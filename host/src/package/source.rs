//! Sources of plugins: a folder, a packed plugin, an archive.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::contents::{Contents, MAX_BYTES, read_open};
use super::{archive, pack};

/// A plugin that was read from its source, once.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) contents: Contents,
    /// The source, as an absolute path.
    pub(crate) source: PathBuf,
    /// Bytes of the source; `None` for a folder.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Reads the plugin in a source. What a file is, its first bytes say.
pub(crate) fn fetch(source: &Path) -> anyhow::Result<Fetched> {
    let shown = source.display();
    let source = std::path::absolute(source).with_context(|| format!("cannot find {shown}"))?;
    let found = source.metadata().with_context(|| {
        let is_address = source.to_string_lossy().contains(":/");
        let hint = if is_address {
            "; sources are folders and files on this machine: download it first"
        } else {
            ""
        };
        format!("cannot read {shown}{hint}")
    })?;
    if found.is_dir() {
        return Ok(Fetched {
            contents: Contents::of_folder(&source)?,
            source,
            bytes: None,
        });
    }
    if !found.is_file() {
        bail!("{shown} is neither a file nor a folder");
    }
    let file = File::open(&source).with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open(file, &source, MAX_BYTES)?;
    let contents = if bytes.starts_with(pack::MAGIC) {
        pack::unpack(&bytes, &source)?
    } else if bytes.starts_with(archive::MAGIC) {
        archive::read(&bytes, &source)?
    } else {
        bail!(
            "{shown} is not a plugin: a source is a folder with plugin.toml, a .wasm that `rind plugin pack` made, or a .tar.gz of \
             such a folder"
        );
    };
    Ok(Fetched {
        contents,
        source,
        bytes: Some(bytes),
    })
}
