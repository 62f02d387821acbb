//! Reads the files of a folder for a snapshot. Omits files that `.gitignore` excludes, and does not
//! follow links. Start from [`scan_snapshot_files`].

use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rind_lib::beneath::open_regular_file;

use super::SnapshotSizeLimits;
use super::manifest::{
    FolderManifest, ManifestFileEntry, ManifestFolderEntry, ManifestSymlinkEntry,
    WORKER_PRIVATE_FOLDER_NAME, is_link_target_inside,
};

/// Maximum depth of the folders that a snapshot contains.
const MAX_FOLDER_DEPTH: usize = 64;

/// Maximum number of bytes that are read from a `.gitignore` file.
const MAX_GITIGNORE_FILE_BYTES: u64 = 1 << 20;

/// Folder of the git repository. Patterns in `.gitignore` do not apply to it.
const GIT_FOLDER_NAME: &str = ".git";

/// Bits of a file's mode that a snapshot stores.
pub(super) const SNAPSHOT_FILE_MODE_MASK: u32 = 0o777;

/// Lists all files of a folder in a manifest. `keep` stores the content of a file and returns its
/// hash.
pub(super) fn scan_snapshot_files(
    folder: &Dir,
    limits: SnapshotSizeLimits,
    keep: &mut dyn FnMut(&[u8]) -> Result<String, String>,
) -> Result<FolderManifest, String> {
    let mut scan = SnapshotFolderScan {
        limits,
        n_bytes: 0,
        keep,
        manifest: FolderManifest::default(),
        ignores: Vec::new(),
    };
    scan.scan_folder(folder, Path::new(""), 0, false)?;
    Ok(scan.manifest)
}

struct SnapshotFolderScan<'a> {
    limits: SnapshotSizeLimits,
    n_bytes: u64,
    keep: &'a mut dyn FnMut(&[u8]) -> Result<String, String>,
    manifest: FolderManifest,
    /// Patterns of the scanned folder and of its parent folders, those of the outermost folder
    /// first.
    ignores: Vec<Gitignore>,
}

impl SnapshotFolderScan<'_> {
    fn scan_folder(
        &mut self,
        folder: &Dir,
        path: &Path,
        depth: usize,
        is_repository: bool,
    ) -> Result<(), String> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(format!(
                "the folder {} is nested more than {MAX_FOLDER_DEPTH} folders deep",
                path.display()
            ));
        }
        self.ignores.push(read_ignore_patterns(folder, path));
        let failed = |error: std::io::Error| format!("{}: {error}", path.join(".").display());
        let entries = folder.entries().map_err(failed)?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        for name in names {
            let is_own = depth == 0 && name == WORKER_PRIVATE_FOLDER_NAME;
            let full = path.join(&name);
            let metadata = match folder.symlink_metadata(&name) {
                Ok(metadata) => metadata,
                // Skip an entry that was removed since the folder was listed.
                Err(_) => continue,
            };
            let is_repository = is_repository || name == GIT_FOLDER_NAME;
            if is_own || (!is_repository && self.is_ignored(&full, metadata.is_dir())) {
                continue;
            }
            self.scan_entry(
                folder,
                Path::new(&name),
                &full,
                &metadata,
                (depth, is_repository),
            )?;
        }
        self.ignores.pop();
        Ok(())
    }

    fn scan_entry(
        &mut self,
        folder: &Dir,
        name: &Path,
        full: &Path,
        metadata: &Metadata,
        (depth, is_repository): (usize, bool),
    ) -> Result<(), String> {
        let Some(path) = full.to_str().map(str::to_owned) else {
            return Err(format!("the path {} is not UTF-8", full.display()));
        };
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let mode = metadata.mode() & SNAPSHOT_FILE_MODE_MASK;
        if metadata.is_symlink() {
            let target = folder.read_link_contents(name).map_err(failed)?;
            match target.to_str() {
                Some(target) if is_link_target_inside(&path, target) => {
                    let target = target.to_owned();
                    self.manifest
                        .links
                        .push(ManifestSymlinkEntry { path, target });
                }
                _ => tracing::warn!(path, "a link that leaves the folder is not stored"),
            }
        } else if metadata.is_dir() {
            let below = folder.open_dir(name).map_err(failed)?;
            self.manifest
                .folders
                .push(ManifestFolderEntry { path, mode });
            self.scan_folder(&below, full, depth + 1, is_repository)?;
        } else if metadata.is_file() {
            // Skip the file if something other than a regular file has replaced it since.
            let Some((file, _)) = open_regular_file(folder, name).map_err(failed)? else {
                return Ok(());
            };
            let left = self.limits.max_bytes.saturating_sub(self.n_bytes);
            let mut bytes = Vec::new();
            let taken = file
                .take(left + 1)
                .read_to_end(&mut bytes)
                .map_err(failed)?;
            self.n_bytes += taken as u64;
            if taken as u64 > left {
                return Err(format!(
                    "the files have more than {} bytes; exclude some in .gitignore, or start the workers with a higher limit",
                    self.limits.max_bytes
                ));
            }
            let hash = (self.keep)(&bytes)?;
            self.manifest
                .files
                .push(ManifestFileEntry { path, mode, hash });
        }
        if self.manifest.n_entries() > self.limits.max_files {
            return Err(format!(
                "there are more than {} files, folders and links; exclude some in .gitignore",
                self.limits.max_files
            ));
        }
        Ok(())
    }

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        for patterns in self.ignores.iter().rev() {
            match patterns.matched(to_absolute_gitignore_path(path), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Converts a path relative to the scanned folder to an absolute path, which the patterns expect.
fn to_absolute_gitignore_path(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

/// Reads the patterns in a folder's `.gitignore`. Skips invalid patterns, as git does.
fn read_ignore_patterns(folder: &Dir, path: &Path) -> Gitignore {
    const GITIGNORE_FILE_NAME: &str = ".gitignore";
    let mut builder = GitignoreBuilder::new(to_absolute_gitignore_path(path));
    let is_file = folder
        .symlink_metadata(GITIGNORE_FILE_NAME)
        .is_ok_and(|metadata| metadata.is_file());
    let mut content = Vec::new();
    if is_file
        && let Ok(Some((file, _))) = open_regular_file(folder, Path::new(GITIGNORE_FILE_NAME))
        && file
            .take(MAX_GITIGNORE_FILE_BYTES)
            .read_to_end(&mut content)
            .is_ok()
    {
        for line in String::from_utf8_lossy(&content).lines() {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
