//! Hides folders below a root from file access by tools and plugins: Rind's own folders, if they
//! are inside the workspace.
//!
//! A folder is recognized by its resolved name and by its device and inode number, because a bind
//! mount or a file system that ignores case can give the folder another name. The module must not
//! know what the folders contain. Start from [`HiddenFolders::from_folders_inside_root`].

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt as _};
use rustix::fs::{Mode, OFlags, openat};

use super::{FOLDER_TRAVERSAL_OPEN_FLAGS, PathWalkResult};

/// Maximum number of parent folders that are checked. Longer chains of parents do not occur.
const MAX_CHECKED_PARENT_FOLDERS: usize = 4096;

/// Folders below a root folder that a walk of the file tree must not enter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenFolders {
    folders: Vec<HiddenFolder>,
    root: Option<FolderDeviceAndInode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HiddenFolder {
    /// Components of the folder's resolved path, relative to the root.
    names: Vec<String>,
    /// Device and inode number; `None` if the folder does not exist.
    id: Option<FolderDeviceAndInode>,
}

/// Device and inode number, which identify a folder independently of its path.
type FolderDeviceAndInode = (u64, u64);

impl HiddenFolders {
    /// Hides those of `folders` that are strictly inside `root`, which must be canonical. A folder
    /// that does not exist yet is recognized only by its name.
    pub fn from_folders_inside_root(root: &Path, folders: &[PathBuf]) -> io::Result<Self> {
        let hidden = select_folders_below_root(root, folders)
            .into_iter()
            .map(|folder| {
                let below = folder.strip_prefix(root).unwrap_or(&folder);
                HiddenFolder {
                    names: path_components(below),
                    id: read_folder_id(&folder).ok(),
                }
            });
        Ok(Self {
            folders: hidden.collect(),
            root: Some(read_folder_id(root)?),
        })
    }

    /// Whether the set hides no folder.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Whether a walk from the root led to a hidden folder or into one. If the system returns an
    /// error for the check, the answer is yes.
    pub fn hides_walked_path(&self, walked: &PathWalkResult) -> bool {
        !self.is_empty()
            && (self.hides_path_by_name(walked.names.iter().map(String::as_str))
                || self.hides_entry(&walked.folder, walked.name.as_ref())
                || self.is_inside_hidden_folder(&walked.folder))
    }

    /// Whether an entry of a listing is a hidden folder or inside one. `folder` is the open folder
    /// that contains the entry, and `path` the path of the entry relative to the root.
    pub fn hides_listed_entry(&self, folder: &Dir, path: &Path) -> bool {
        if self.is_empty() {
            return false;
        }
        let names = path_components(path);
        let name = path.file_name().map(Path::new).unwrap_or(path);
        self.hides_path_by_name(names.iter().map(String::as_str)) || self.hides_entry(folder, name)
    }

    fn hides_path_by_name<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> bool {
        self.folders.iter().any(|hidden| {
            let mut names = names.clone();
            let mut own = hidden.names.iter();
            own.all(|own| {
                names
                    .next()
                    .is_some_and(|name| is_same_name_ignoring_case(name, own))
            })
        })
    }

    fn hides_entry(&self, folder: &Dir, name: &Path) -> bool {
        let metadata = folder.symlink_metadata(name);
        metadata.is_ok_and(|metadata| self.is_hidden_folder_id((metadata.dev(), metadata.ino())))
    }

    /// Whether an open folder is a hidden folder or inside one.
    fn is_inside_hidden_folder(&self, folder: &Dir) -> bool {
        let Ok(mut here) = folder.try_clone().map(Dir::into_std_file) else {
            return true;
        };
        let mut last = None;
        for _ in 0..MAX_CHECKED_PARENT_FOLDERS {
            let Ok(metadata) = here.metadata() else {
                return true;
            };
            let id = (metadata.dev(), metadata.ino());
            if self.is_hidden_folder_id(id) {
                return true;
            }
            // Stop at the root of the file system, whose parent is itself.
            if Some(id) == self.root || Some(id) == last {
                return false;
            }
            last = Some(id);
            let flags = FOLDER_TRAVERSAL_OPEN_FLAGS
                | OFlags::DIRECTORY
                | OFlags::NOFOLLOW
                | OFlags::CLOEXEC;
            match openat(&here, "..", flags, Mode::empty()) {
                Ok(parent) => here = File::from(parent),
                Err(_) => return true,
            }
        }
        true
    }

    fn is_hidden_folder_id(&self, id: FolderDeviceAndInode) -> bool {
        self.folders.iter().any(|hidden| hidden.id == Some(id))
    }
}

/// Resolves symlinks in `folders`, and returns those folders that are strictly below `root`, which
/// must be canonical.
#[must_use]
pub fn select_folders_below_root(root: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
    let real = folders.iter().map(|folder| real_path(folder));
    real.filter(|folder| folder != root && folder.starts_with(root))
        .collect()
}

/// Resolves the symlinks in a path. The last components of the path do not need to exist.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
            real_path(parent).join(name)
        }
        _ => path.to_owned(),
    }
}

fn path_components(path: &Path) -> Vec<String> {
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    names.collect()
}

/// Whether two names are equal, or would be on a file system that ignores case.
fn is_same_name_ignoring_case(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

fn read_folder_id(path: &Path) -> io::Result<FolderDeviceAndInode> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;

    use super::super::{MissingParentFolderHandling, walk_path_beneath};
    use super::*;

    #[test]
    fn no_path_leads_into_a_hidden_folder_and_its_neighbours_stay_visible() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let own = root.join(".config/rind");
        fs::create_dir_all(own.join("sessions")).unwrap();
        let missing = root.join(".cache/rind");
        let all = [own.clone(), missing, root.clone(), "/etc".into()];
        let hidden = HiddenFolders::from_folders_inside_root(&root, &all).unwrap();
        fs::create_dir(root.join(".config/git")).unwrap();
        symlink(".config/rind", root.join("link")).unwrap();
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).unwrap();
        let hides = |path: &str| {
            let walked =
                walk_path_beneath(&dir, path, true, MissingParentFolderHandling::Named).unwrap();
            hidden.hides_walked_path(&walked)
        };
        for path in [
            ".config/rind",
            ".config/rind/secrets.toml",
            ".config/rind/sessions/x",
            ".cache/rind/x",
            "link",
            "link/sessions/x",
            "link/../rind/x",
        ] {
            assert!(hides(path), "{path}");
        }
        for path in [".config", ".config/git/config", ".config/rind2", "x", "."] {
            assert!(!hides(path), "{path}");
        }
        // Hides a renamed folder too, because its inode number is still the same.
        fs::rename(&own, root.join("moved")).unwrap();
        assert!(hides("moved") && hides("moved/sessions/x"));
        assert!(hidden.hides_listed_entry(&dir, Path::new("moved")));
        assert!(!hidden.hides_listed_entry(&dir, Path::new(".config")));
    }

    #[test]
    fn folders_elsewhere_hide_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let own = [
            root.clone(),
            root.join("../other"),
            PathBuf::from("/etc/rind"),
        ];
        assert!(
            HiddenFolders::from_folders_inside_root(&root, &own)
                .unwrap()
                .is_empty()
        );
    }
}
