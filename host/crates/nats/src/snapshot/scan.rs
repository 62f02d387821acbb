//! Reads the files of a folder for a snapshot. Files that `.gitignore` excludes are left out, and
//! links are not followed. Start from [`scan`].

use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rind_lib::beneath::open_regular;

use super::SnapshotLimits;
use super::manifest::{FolderManifest, OWN, StoredFile, StoredFolder, StoredLink, stays_inside};

/// Maximum depth of folders.
const MAX_DEPTH: usize = 64;

/// Maximum number of bytes that are read from a `.gitignore` file.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// Folder of the git repository, to which no pattern applies.
const REPOSITORY: &str = ".git";

/// Bits of the mode that a snapshot stores.
pub(super) const MODE: u32 = 0o777;

/// Reads all files of a folder. `keep` stores the content of a file and returns its hash.
pub(super) fn scan(
    folder: &Dir,
    limits: SnapshotLimits,
    keep: &mut dyn FnMut(&[u8]) -> Result<String, String>,
) -> Result<FolderManifest, String> {
    let mut scan = Scan {
        limits,
        n_bytes: 0,
        keep,
        manifest: FolderManifest::default(),
        ignores: Vec::new(),
    };
    scan.folder(folder, Path::new(""), 0, false)?;
    Ok(scan.manifest)
}

struct Scan<'a> {
    limits: SnapshotLimits,
    n_bytes: u64,
    keep: &'a mut dyn FnMut(&[u8]) -> Result<String, String>,
    manifest: FolderManifest,
    /// Patterns of the folders on the path to the present one, the outermost first.
    ignores: Vec<Gitignore>,
}

impl Scan<'_> {
    fn folder(
        &mut self,
        folder: &Dir,
        path: &Path,
        depth: usize,
        is_repository: bool,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "{} is more than {MAX_DEPTH} folders deep",
                path.display()
            ));
        }
        self.ignores.push(patterns_of(folder, path));
        let failed = |error: std::io::Error| format!("{}: {error}", path.join(".").display());
        let entries = folder.entries().map_err(failed)?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        for name in names {
            let is_own = depth == 0 && name == OWN;
            let full = path.join(&name);
            let metadata = match folder.symlink_metadata(&name) {
                Ok(metadata) => metadata,
                // A command has removed the entry since the folder was listed.
                Err(_) => continue,
            };
            let is_repository = is_repository || name == REPOSITORY;
            if is_own || (!is_repository && self.is_ignored(&full, metadata.is_dir())) {
                continue;
            }
            self.entry(
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

    fn entry(
        &mut self,
        folder: &Dir,
        name: &Path,
        full: &Path,
        metadata: &Metadata,
        (depth, is_repository): (usize, bool),
    ) -> Result<(), String> {
        let Some(path) = full.to_str().map(str::to_owned) else {
            return Err(format!("the name {} is not UTF-8", full.display()));
        };
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let mode = metadata.mode() & MODE;
        if metadata.is_symlink() {
            let target = folder.read_link_contents(name).map_err(failed)?;
            match target.to_str() {
                Some(target) if stays_inside(&path, target) => {
                    let target = target.to_owned();
                    self.manifest.links.push(StoredLink { path, target });
                }
                _ => tracing::warn!(path, "a link that leaves the folder is not stored"),
            }
        } else if metadata.is_dir() {
            let below = folder.open_dir(name).map_err(failed)?;
            self.manifest.folders.push(StoredFolder { path, mode });
            self.folder(&below, full, depth + 1, is_repository)?;
        } else if metadata.is_file() {
            // Skip it if another kind of entry has taken its place since.
            let Some((file, _)) = open_regular(folder, name).map_err(failed)? else {
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
                    "they have more than {} bytes; exclude some in .gitignore, or start the workers with a higher limit",
                    self.limits.max_bytes
                ));
            }
            let hash = (self.keep)(&bytes)?;
            self.manifest.files.push(StoredFile { path, mode, hash });
        }
        if self.manifest.n_entries() > self.limits.max_files {
            return Err(format!(
                "there are more than {} of them; exclude some in .gitignore",
                self.limits.max_files
            ));
        }
        Ok(())
    }

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        for patterns in self.ignores.iter().rev() {
            match patterns.matched(rooted(path), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Returns a path as absolute from the root of the scan, as the patterns expect it.
fn rooted(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

/// Reads the patterns of a folder. Invalid ones are skipped, as in git.
fn patterns_of(folder: &Dir, path: &Path) -> Gitignore {
    const NAME: &str = ".gitignore";
    let mut builder = GitignoreBuilder::new(rooted(path));
    let is_file = folder
        .symlink_metadata(NAME)
        .is_ok_and(|metadata| metadata.is_file());
    let mut content = Vec::new();
    if is_file
        && let Ok(Some((file, _))) = open_regular(folder, Path::new(NAME))
        && file
            .take(MAX_IGNORE_BYTES)
            .read_to_end(&mut content)
            .is_ok()
    {
        for line in String::from_utf8_lossy(&content).lines() {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
