//! Reads `.tar.gz` and `.tar` archives into memory; nothing is written to disk.
//!
//! An archive is refused if other tar programs could read it differently, so that the files that a
//! person reviewed are the ones that are installed. Refused are truncated archives, trailing data,
//! duplicate names, sparse files, and global pax headers that rename or resize entries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType, PaxExtensions};

use super::contents::{
    FileContentsByPath, MAX_PACKAGE_SOURCE_BYTES, MAX_PACKAGE_SOURCE_FILES, PluginContents,
    split_path_of_any_depth, split_relative_path,
};
use rind_lib::plugin::manifest::FILE_NAME;

/// Magic bytes at the beginning of a gzip file.
pub(super) const GZIP_MAGIC_BYTES: &[u8] = &[0x1f, 0x8b];

/// Magic bytes of a tar header, and their offset.
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_OFFSET: usize = 257;

/// Mode bits for setuid and setgid.
pub(super) const SETUID_SETGID_MODE_BITS: u32 = 0o6000;

/// Maximum decompressed size of an archive in bytes, including tar headers.
const MAX_DECOMPRESSED_BYTES: u64 =
    MAX_PACKAGE_SOURCE_BYTES + (MAX_PACKAGE_SOURCE_FILES as u64) * 2048;

/// Maximum size of a global pax header in bytes. `git archive` writes one of 52 bytes.
const MAX_GLOBAL_PAX_HEADER_BYTES: u64 = 64 << 10;

/// Prefix of the pax keys of sparse files.
const SPARSE_FILE_PAX_KEY_PREFIX: &[u8] = b"GNU.sparse.";

#[derive(Debug, Default)]
pub(super) struct ArchiveEntries {
    pub(super) files: FileContentsByPath,
    /// Entries that are not regular files, by path; the value is a predicate for messages, such as
    /// "is a symlink". Their content is not in `files`.
    pub(super) odd: BTreeMap<Vec<String>, &'static str>,
    /// Paths of directories that were skipped because of an [`ArchiveEntrySkipRule`].
    pub(super) hidden: BTreeSet<Vec<String>>,
}

/// Function that decides whether an entry is skipped. It gets the names of the directories on the
/// entry's path, and returns how many of these names form the path of the skipped directory, or
/// `None` if the entry is not skipped.
pub(super) type ArchiveEntrySkipRule = fn(&[String]) -> Option<usize>;

/// Whether the content of a file begins like a tar or gzip file.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(GZIP_MAGIC_BYTES) || is_tar(bytes)
}

fn is_tar(bytes: &[u8]) -> bool {
    let rest = bytes.get(TAR_MAGIC_OFFSET..);
    rest.is_some_and(|rest| rest.starts_with(TAR_MAGIC))
}

/// Directory that macOS adds to archives for the attributes of files.
const MACOS_METADATA_FOLDER_NAME: &str = "__MACOSX";

/// Reads the files of an archive. Refuses entries that are not regular files. `origin` is used only
/// in messages.
pub(super) fn read_archive_files(
    bytes: &[u8],
    origin: &Path,
) -> anyhow::Result<FileContentsByPath> {
    let of_mac = |folders: &[String]| (folders.first()? == MACOS_METADATA_FOLDER_NAME).then_some(1);
    let entries = read_archive_entries(bytes, of_mac).and_then(|entries| {
        match entries.odd.first_key_value() {
            Some((names, what)) => {
                let shown = names.join("/");
                bail!(
                    "`{}` {what}; plugins may contain only regular files",
                    shown.escape_debug()
                )
            }
            None => Ok(entries.files),
        }
    });
    entries.with_context(|| format!("cannot read {}", origin.display()))
}

/// Whether the files of an archive include the manifest of a plugin, in any directory.
pub(super) fn has_plugin_manifest(files: &FileContentsByPath) -> bool {
    files
        .keys()
        .any(|names| names.last().is_some_and(|name| name == FILE_NAME))
}

/// Selects the plugin from an archive that contains either its directory or the content of that
/// directory. `origin` is used only in messages.
pub(super) fn pick_plugin_from_archive(
    files: FileContentsByPath,
    origin: &Path,
) -> anyhow::Result<PluginContents> {
    PluginContents::from_source_files(select_plugin_files(files, origin)?, origin)
}

/// Reads all entries of an archive, except those in directories that the rule `hides` skips.
/// Refuses archives that are too large or truncated, that have a path outside the archive's root,
/// or that other programs would read differently.
pub(super) fn read_archive_entries(
    bytes: &[u8],
    hides: ArchiveEntrySkipRule,
) -> anyhow::Result<ArchiveEntries> {
    match is_tar(bytes) {
        true => unpack_tar_entries(bytes, hides),
        // A gzip file may have several members, and gzip tools read all of them.
        false => unpack_tar_entries(MultiGzDecoder::new(bytes), hides),
    }
}

/// Reader that records whether the underlying input has ended or was cut at its limit.
struct EndOfInputTrackingReader<R> {
    inner: io::Take<R>,
    is_ended: bool,
}

impl<R: Read> Read for EndOfInputTrackingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self.inner.read(buffer)?;
        self.is_ended |= n_read == 0 && !buffer.is_empty();
        Ok(n_read)
    }
}

impl<R: Read> EndOfInputTrackingReader<R> {
    /// Checks that the archive ends with its end-of-archive blocks and that no data follows. A
    /// truncated archive might lack files that restrict the plugin, and other programs do not show
    /// trailing data.
    fn check_nothing_follows_archive(mut self) -> anyhow::Result<()> {
        let is_torn = self.is_ended && self.inner.limit() > 0;
        ensure!(
            !is_torn,
            "the archive is truncated: its end-of-archive blocks are missing"
        );
        let mut buffer = [0; 8192];
        loop {
            // Read to the end, so that the gzip checksum is verified too.
            let n_read = self.read(&mut buffer).context("the archive is truncated")?;
            if n_read == 0 {
                break;
            }
            let mut rest = buffer.iter().take(n_read);
            ensure!(
                rest.all(|byte| *byte == 0),
                "it has data after its end, which other programs do not show; pack it again"
            );
        }
        ensure!(
            self.inner.limit() > 0,
            "it decompresses to more than {} MiB",
            MAX_DECOMPRESSED_BYTES >> 20
        );
        Ok(())
    }
}

fn unpack_tar_entries<R: Read>(
    reader: R,
    hides: ArchiveEntrySkipRule,
) -> anyhow::Result<ArchiveEntries> {
    let mut archive = Archive::new(EndOfInputTrackingReader {
        inner: reader.take(MAX_DECOMPRESSED_BYTES),
        is_ended: false,
    });
    let mut read = ArchiveEntries::default();
    let mut bytes_left = MAX_PACKAGE_SOURCE_BYTES;
    let mut number = 0;
    for entry in archive.entries()? {
        let mut entry = entry.context("the archive is truncated, or the file is not an archive")?;
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            check_global_pax_header(&mut entry)?;
            continue;
        }
        let path = entry.path_bytes().into_owned();
        let path = String::from_utf8(path)
            .context("the archive contains an entry whose name is not UTF-8")?;
        let shown = path.escape_debug();
        let kind = entry.header().entry_type();
        let is_folder = kind == EntryType::Directory;
        // An archive of a directory's content begins with an entry for the directory itself, `./`.
        if is_folder && path.trim_matches(['.', '/']).is_empty() && !path.contains("..") {
            continue;
        }
        let mut all_names = split_path_of_any_depth(&path)?;
        let n_folders = all_names.len() - usize::from(!is_folder);
        let hidden = all_names.get(..n_folders).and_then(hides);
        if let Some(n_names) = hidden {
            all_names.truncate(n_names);
            read.hidden.insert(all_names);
            continue;
        }
        number += 1;
        ensure!(
            number <= MAX_PACKAGE_SOURCE_FILES,
            "it has more than {MAX_PACKAGE_SOURCE_FILES} entries"
        );
        let names = split_relative_path(&path)?;
        for extension in entry.pax_extensions()?.into_iter().flatten() {
            let key = extension.context("the archive has a pax header that cannot be parsed")?;
            ensure!(
                !key.key_bytes().starts_with(SPARSE_FILE_PAX_KEY_PREFIX),
                "`{shown}` is a sparse file (GNU.sparse), which is not supported; pack it without --sparse"
            );
        }
        let what = match kind {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous if path.ends_with('/') => {
                Some("is ambiguous: some programs read it as a folder, others as a file")
            }
            EntryType::Regular | EntryType::Continuous => None,
            EntryType::Link | EntryType::Symlink => Some("is a link"),
            _ => Some("is neither a file nor a folder"),
        };
        let is_set_id = entry
            .header()
            .mode()
            .is_ok_and(|mode| mode & SETUID_SETGID_MODE_BITS != 0);
        let set_id = is_set_id.then_some("is a setuid or setgid file");
        if let Some(what) = what.or(set_id) {
            read.odd.insert(names, what);
            continue;
        }
        let mut content = Vec::new();
        let n_read = entry
            .by_ref()
            .take(bytes_left + 1)
            .read_to_end(&mut content)
            .with_context(|| format!("the archive is truncated at `{shown}`"))?;
        let too_large = || format!("it has more than {} MiB", MAX_PACKAGE_SOURCE_BYTES >> 20);
        bytes_left = bytes_left
            .checked_sub(n_read as u64)
            .with_context(too_large)?;
        ensure!(
            n_read as u64 == entry.size(),
            "the archive is truncated at `{shown}`"
        );
        let earlier = read.files.insert(names, content);
        ensure!(earlier.is_none(), "it has `{shown}` twice");
    }
    archive.into_inner().check_nothing_follows_archive()?;
    Ok(read)
}

/// Refuses a global pax header that changes paths, links or sizes of later entries: other programs
/// apply it, but this reader does not.
fn check_global_pax_header(entry: &mut impl Read) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    entry
        .take(MAX_GLOBAL_PAX_HEADER_BYTES)
        .read_to_end(&mut bytes)
        .context("the archive is truncated")?;
    for extension in PaxExtensions::new(&bytes) {
        let extension =
            extension.context("the archive has a global pax header that cannot be parsed")?;
        let key = extension.key_bytes();
        let is_followed = [&b"path"[..], b"linkpath", b"size"].contains(&key)
            || key.starts_with(SPARSE_FILE_PAX_KEY_PREFIX);
        ensure!(
            !is_followed,
            "it sets `{}` for all its entries, which programs interpret differently; pack it again",
            String::from_utf8_lossy(key).escape_debug()
        );
    }
    Ok(())
}

/// Selects the files of the plugin: all of them, or those in the only directory with a manifest.
/// Files outside that directory, for example a license or the metadata that macOS adds, do not
/// belong to the plugin.
fn select_plugin_files(
    mut files: FileContentsByPath,
    origin: &Path,
) -> anyhow::Result<FileContentsByPath> {
    files.retain(|names, _| {
        let name = names.last().map(String::as_str).unwrap_or_default();
        !name.starts_with("._") && name != ".DS_Store"
    });
    let is_manifest = |names: &&Vec<String>| names.last().is_some_and(|name| name == FILE_NAME);
    let manifests: Vec<&Vec<String>> = files.keys().filter(is_manifest).collect();
    let folder = match manifests.as_slice() {
        [] => bail!("{} has no {FILE_NAME}", origin.display()),
        all if all.iter().any(|names| names.len() == 1) => return Ok(files),
        all => {
            let mut direct = all.iter().filter(|names| names.len() == 2);
            match (direct.next(), direct.next()) {
                (Some(one), None) => one.first().cloned().unwrap_or_default(),
                _ => {
                    let places: Vec<String> = all.iter().map(|names| names.join("/")).collect();
                    bail!(
                        "{} has no {FILE_NAME} at its top, nor in one folder there; it has {}: unpack it, and install the folder that you \
                         mean",
                        origin.display(),
                        places.join(", ").escape_debug()
                    )
                }
            }
        }
    };
    files.retain(|names, _| names.len() > 1 && names.first() == Some(&folder));
    let inner = files.into_iter();
    Ok(inner
        .map(|(mut names, bytes)| (names.split_off(1), bytes))
        .collect())
}
