//! Plugins from `.tar.gz` archives. Nothing is written while one is read.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::contents::{Contents, Files, MAX_BYTES, MAX_FILES, names};
use crate::plugin::manifest::FILE_NAME;

/// First bytes of a gzip file.
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

/// Most bytes that an archive is decompressed to: its files, and their headers.
const MAX_DECOMPRESSED_BYTES: u64 = MAX_BYTES + (MAX_FILES as u64) * 2048;

/// Reads the plugin in an archive of its folder, or of what is in its folder. `origin` is for messages.
pub(super) fn read(bytes: &[u8], origin: &Path) -> anyhow::Result<Contents> {
    let files = files(bytes).with_context(|| format!("cannot read {}", origin.display()))?;
    Contents::pick(without_top_folder(files), origin)
}

fn files(bytes: &[u8]) -> anyhow::Result<Files> {
    let mut archive = Archive::new(GzDecoder::new(bytes).take(MAX_DECOMPRESSED_BYTES));
    let mut files = Files::new();
    let mut bytes_left = MAX_BYTES;
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry.context("it is torn, or no archive")?;
        ensure!(number < MAX_FILES, "it has more than {MAX_FILES} entries");
        let path = entry.path_bytes().into_owned();
        let path = String::from_utf8(path).context("it has a name that is not UTF-8")?;
        let shown = path.escape_debug();
        match entry.header().entry_type() {
            // Settings for what comes after; they name nothing.
            EntryType::XGlobalHeader => continue,
            EntryType::Directory => {
                // The archive of a folder's content begins with `./`.
                if path.trim_matches(['.', '/']).is_empty() && !path.contains("..") {
                    continue;
                }
                names(&path)?;
                continue;
            }
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Link | EntryType::Symlink => {
                bail!("`{shown}` is a link; plugins are made of plain files")
            }
            _ => bail!("`{shown}` is neither a file nor a folder"),
        }
        let names = names(&path)?;
        let mut content = Vec::new();
        let n_read = entry
            .by_ref()
            .take(bytes_left + 1)
            .read_to_end(&mut content)
            .with_context(|| format!("it is torn at `{shown}`"))?;
        let too_large = || format!("it has more than {} MiB", MAX_BYTES >> 20);
        bytes_left = bytes_left
            .checked_sub(n_read as u64)
            .with_context(too_large)?;
        ensure!(n_read as u64 == entry.size(), "it is torn at `{shown}`");
        let earlier = files.insert(names, content);
        ensure!(earlier.is_none(), "it has `{shown}` twice");
    }
    // The checksum comes last; without it nobody knows whether the file is whole.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).context("it is torn")?;
    ensure!(
        rest.limit() > 0,
        "it decompresses to more than {} MiB",
        MAX_DECOMPRESSED_BYTES >> 20
    );
    Ok(files)
}

/// Takes away the folder that everything is in, where there is one.
fn without_top_folder(files: Files) -> Files {
    let is_plugin = files.contains_key(&vec![FILE_NAME.to_owned()]);
    let top = files.keys().next().and_then(|names| names.first()).cloned();
    let is_in_top = |names: &Vec<String>| names.len() > 1 && names.first() == top.as_ref();
    if is_plugin || !files.keys().all(is_in_top) {
        return files;
    }
    let inner = files.into_iter();
    inner
        .map(|(mut names, bytes)| (names.split_off(1), bytes))
        .collect()
}
