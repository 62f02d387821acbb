//! Files in `.tar.gz` and `.tar` archives. Nothing is written while one is read.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::contents::{Contents, Files, MAX_BYTES, MAX_FILES, names};
use crate::plugin::manifest::FILE_NAME;

/// First bytes of a gzip file.
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

/// Name of the format in an archive that is not compressed, and where it stands.
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_AT: usize = 257;

/// Bits of a mode that let a file run as somebody else.
pub(super) const SET_ID: u32 = 0o6000;

/// Most bytes that an archive is decompressed to: its files, and their headers.
const MAX_DECOMPRESSED_BYTES: u64 = MAX_BYTES + (MAX_FILES as u64) * 2048;

/// Entries of an archive.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) files: Files,
    /// Entries that are no plain files, each with what it is. Nothing of them is in `files`.
    pub(super) odd: BTreeMap<Vec<String>, &'static str>,
}

/// Whether a file begins as an archive does.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || is_tar(bytes)
}

fn is_tar(bytes: &[u8]) -> bool {
    let rest = bytes.get(TAR_MAGIC_AT..);
    rest.is_some_and(|rest| rest.starts_with(TAR_MAGIC))
}

/// Reads the plugin in an archive of its folder, or of what is in its folder. `origin` is for messages.
pub(super) fn read(bytes: &[u8], origin: &Path) -> anyhow::Result<Contents> {
    let entries = entries(bytes).and_then(|entries| match entries.odd.first_key_value() {
        Some((names, what)) => {
            let shown = names.join("/");
            bail!(
                "`{}` {what}; plugins are made of plain files",
                shown.escape_debug()
            )
        }
        None => Ok(entries.files),
    });
    let files = entries.with_context(|| format!("cannot read {}", origin.display()))?;
    Contents::pick(without_top_folder(files), origin)
}

/// Reads everything in an archive. One that is too large, torn, or that has a path that leads out of it is refused.
pub(super) fn entries(bytes: &[u8]) -> anyhow::Result<Entries> {
    if is_tar(bytes) {
        return Ok(unpacked(bytes)?.0);
    }
    let (entries, mut rest) = unpacked(GzDecoder::new(bytes))?;
    // The checksum comes last; without it nobody knows whether the file is whole.
    io::copy(&mut rest, &mut io::sink()).context("it is torn")?;
    ensure!(
        rest.limit() > 0,
        "it decompresses to more than {} MiB",
        MAX_DECOMPRESSED_BYTES >> 20
    );
    Ok(entries)
}

fn unpacked<R: Read>(reader: R) -> anyhow::Result<(Entries, io::Take<R>)> {
    let mut archive = Archive::new(reader.take(MAX_DECOMPRESSED_BYTES));
    let Entries { mut files, mut odd } = Entries::default();
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
            kind => {
                let what = match kind {
                    EntryType::Link | EntryType::Symlink => "is a link",
                    _ => "is neither a file nor a folder",
                };
                odd.insert(names(&path)?, what);
                continue;
            }
        }
        if entry.header().mode().is_ok_and(|mode| mode & SET_ID != 0) {
            odd.insert(
                names(&path)?,
                "is a file that runs as somebody else (setuid)",
            );
            continue;
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
    Ok((Entries { files, odd }, archive.into_inner()))
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
