//! Holds the files of one plugin in memory.
//!
//! A source is read once into [`PluginContents`]. The digest, the signature, packing and
//! installation all use these bytes, so a later change of the source has no effect on them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

use rind_lib::grant::held::{self, InMemoryFolder};
use rind_lib::plugin::contract::sources::describe_stale_build;
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};

/// Path in the plugin's directory, and the content of the file.
type FilePathWithContent<'a> = (String, &'a [u8]);

/// Maximum size of a source in bytes, also after decompression. Several components written in
/// Python fit.
pub(super) const MAX_PACKAGE_SOURCE_BYTES: u64 = 256 << 20;

/// Maximum number of files in the directory or archive of a plugin.
pub(super) const MAX_PACKAGE_SOURCE_FILES: usize = 10_000;

/// Maximum depth of directories in the directory or archive of a plugin.
const MAX_SOURCE_DIRECTORY_DEPTH: usize = 16;

/// Name of the file with the plugin's description for users.
const README_FILE_NAME: &str = "README.md";

/// Directories of a plugin from which all files are included.
const INCLUDED_PLUGIN_FOLDERS: [&str; 3] = ["agents", "prompts", "skills"];

/// Content of files by path. A path is a list of names.
pub(crate) type FileContentsByPath = BTreeMap<Vec<String>, Vec<u8>>;

/// Files of one plugin: manifest, component, README, presets of subagents, prompts and skills.
#[derive(Debug)]
pub struct PluginContents {
    pub manifest: Manifest,
    files: FileContentsByPath,
}

impl PluginContents {
    /// Reads a plugin's directory. Files that do not belong to the plugin, for example its sources,
    /// are not read.
    pub fn read_folder(folder: &Path) -> anyhow::Result<Self> {
        let mut files = FileContentsByPath::new();
        let mut read = |path: &str| -> anyhow::Result<()> {
            let names = split_relative_path(path)?;
            let bytes = read_regular_file(&folder.join(path), MAX_PACKAGE_SOURCE_BYTES)?;
            files.insert(names, bytes);
            Ok(())
        };
        read(FILE_NAME)?;
        if folder.join(README_FILE_NAME).symlink_metadata().is_ok() {
            read(README_FILE_NAME)?;
        }
        // Reading the manifest does not check that the component exists. A missing component is
        // reported by the check that follows and by the loader.
        let manifest = Manifest::read(folder, None)?;
        if let Some(path) = manifest.component.as_deref() {
            let is_there = folder.join(path).symlink_metadata().is_ok();
            ensure!(
                is_there,
                "{}: the component is missing; build it with `rind plugin build {}`",
                folder.join(path).display(),
                folder.display()
            );
            read(path)?;
            let bytes = files.get(&split_relative_path(path)?);
            let stale = bytes.and_then(|bytes| describe_stale_build(folder, bytes));
            if let Some(why) = stale {
                bail!("{}: {why}", folder.join(path).display());
            }
        }
        for name in INCLUDED_PLUGIN_FOLDERS {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            let is_folder = path.symlink_metadata()?.is_dir();
            ensure!(is_folder, "{} is not a folder", path.display());
            let held = InMemoryFolder::read(&path)?;
            let inner = held.into_files().into_iter();
            files.extend(inner.map(|(names, bytes)| {
                let above = std::iter::once(name.to_owned());
                (above.chain(names).collect::<Vec<_>>(), bytes)
            }));
        }
        Self::from_source_files(files, folder)
    }

    /// Selects those of `files` that belong to a plugin. `origin` is the location of the files, for
    /// messages.
    pub(super) fn from_source_files(
        mut files: FileContentsByPath,
        origin: &Path,
    ) -> anyhow::Result<Self> {
        let path = origin.join(FILE_NAME);
        let Some(text) = files.get(&vec![FILE_NAME.to_owned()]) else {
            bail!("{} has no {FILE_NAME}", origin.display());
        };
        let text = std::str::from_utf8(text)
            .with_context(|| format!("{} is not UTF-8", path.display()))?;
        let manifest = Manifest::parse(text, &path)?;
        let component = manifest
            .component
            .as_deref()
            .map(split_relative_path)
            .transpose()?;
        if let Some(component) = &component {
            ensure!(
                files.contains_key(component),
                "{}: there is no `{}`, which {FILE_NAME} names as the component",
                origin.display(),
                component.join("/").escape_debug()
            );
        }
        if let Some(bytes) = component.as_ref().and_then(|names| files.get_mut(names)) {
            super::pack::remove_manifest_section(bytes);
        }
        files.retain(|names, _| {
            let first = names.first().map(String::as_str).unwrap_or_default();
            Some(names) == component.as_ref()
                || (names.len() == 1 && [FILE_NAME, README_FILE_NAME].contains(&first))
                || (names.len() > 1 && INCLUDED_PLUGIN_FOLDERS.contains(&first))
        });
        let n_bytes: usize = files.values().map(Vec::len).sum();
        ensure!(
            n_bytes as u64 <= MAX_PACKAGE_SOURCE_BYTES && files.len() <= MAX_PACKAGE_SOURCE_FILES,
            "{} has more than {} MiB or {MAX_PACKAGE_SOURCE_FILES} files",
            origin.display(),
            MAX_PACKAGE_SOURCE_BYTES >> 20
        );
        Ok(Self { manifest, files })
    }

    /// Returns the plugin's name and version, to be shown to users.
    pub fn name_and_version(&self) -> String {
        format!("{} {}", self.manifest.name, self.manifest.version)
    }

    /// Returns the component, if there is one, and the other files, sorted by path.
    pub(super) fn split_component_from_files(
        &self,
    ) -> anyhow::Result<(Option<&[u8]>, Vec<FilePathWithContent<'_>>)> {
        let component = self
            .manifest
            .component
            .as_deref()
            .map(split_relative_path)
            .transpose()?;
        let bytes = component.as_ref().and_then(|names| self.files.get(names));
        let others = self
            .files
            .iter()
            .filter(|(names, _)| Some(*names) != component.as_ref());
        let others = others.map(|(names, bytes)| (names.join("/"), bytes.as_slice()));
        Ok((bytes.map(Vec::as_slice), others.collect()))
    }

    /// Returns the digest over all names and contents, equal to the digest of a directory with
    /// exactly these files.
    pub fn digest(&self) -> String {
        held::digest_files(&self.files)
    }

    /// Returns the contents of the plugin's files by path.
    pub fn files(&self) -> &FileContentsByPath {
        &self.files
    }
}

/// Writes files into a new directory and syncs them to disk. Only the owner can read the files, and
/// none is executable.
pub(super) fn write_files_to_new_folder(
    files: &FileContentsByPath,
    folder: &Path,
) -> anyhow::Result<()> {
    for (names, bytes) in files {
        let path = names
            .iter()
            .fold(folder.to_owned(), |at, name| at.join(name));
        let above = path.parent().unwrap_or(folder);
        let write = || {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(above)?;
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Splits a relative path in a source into names. Refuses absolute paths, `..`, and paths that are
/// too deep.
pub(super) fn split_relative_path(path: &str) -> anyhow::Result<Vec<String>> {
    let names = split_path_of_any_depth(path)?;
    ensure!(
        names.len() <= MAX_SOURCE_DIRECTORY_DEPTH,
        "the path `{}` is refused: it is deeper than {MAX_SOURCE_DIRECTORY_DEPTH} folders",
        path.escape_debug()
    );
    Ok(names)
}

/// Splits a path like [`split_relative_path`], but without a limit on the depth, for archive
/// entries that may be skipped.
pub(super) fn split_path_of_any_depth(path: &str) -> anyhow::Result<Vec<String>> {
    let refuse = || format!("the path `{}` is refused", path.escape_debug());
    let mut names = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => bail!("{}: a path with `..` is not allowed", refuse()),
            Component::RootDir | Component::Prefix(_) => {
                bail!("{}: an absolute path is not allowed", refuse())
            }
        }
    }
    ensure!(!names.is_empty(), "{}: it is empty", refuse());
    ensure!(
        !path.chars().any(char::is_control),
        "{}: it has control characters",
        refuse()
    );
    Ok(names)
}

/// Reads a regular file of at most `limit` bytes. Refuses a symlink, because its target may be
/// another file on another machine.
fn read_regular_file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink());
    ensure!(
        !is_link,
        "{shown} is a link; plugins may contain only regular files"
    );
    let file = open_file_with_flags(path, OFlags::NOFOLLOW)
        .with_context(|| format!("cannot read {shown}"))?;
    read_open_file_with_limit(file, path, limit)
}

/// Opens a file for reading. With `O_NONBLOCK`, opening a named pipe returns immediately instead of
/// waiting for a writer.
pub(super) fn open_file_with_flags(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let flags = flags | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let options = options.read(true);
    let options = options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options.open(path)
}

/// Reads an open regular file of at most `limit` bytes.
pub(super) fn read_open_file_with_limit(
    file: File,
    path: &Path,
    limit: u64,
) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    ensure!(is_file, "{shown} is not a regular file");
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {shown}"))?;
    ensure!(
        bytes.len() as u64 <= limit,
        "{shown} has more than {limit} bytes"
    );
    Ok(bytes)
}
