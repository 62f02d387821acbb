//! Plans the file system that a confined program sees (its view), as a list of mounts. The module
//! `namespaces` or the program `bwrap` makes the mounts.
//!
//! A path that is not in the list does not exist for the program. This module must not depend on
//! which of the two makes the mounts. Start from [`FileViewMountPlan`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::protect;
use super::system::{SAFE_DEVICE_PATHS, system_secret_paths};
use super::{CACHE_FOLDER_NAME, GIT_CONFIG_FILE_NAME};

/// Maximum size of named shared memory (`/dev/shm`), in bytes.
pub(super) const MAX_DEV_SHM_BYTES: u64 = 256 << 20;

/// Maximum size in bytes of the empty directory that replaces a hidden one; 0 would mean no limit.
const MAX_MASKING_TMPFS_BYTES: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileViewMount {
    pub(super) at: PathBuf,
    pub(super) what: MountSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MountSource {
    /// Directory or file at this path, readable and executable.
    ReadOnly(PathBuf),
    /// Directory or file at this path, readable, executable and writable.
    Writable(PathBuf),
    Device(PathBuf),
    /// Empty in-memory directory of at most this many bytes, whose content is lost with the view.
    Memory(u64),
    /// Empty read-only directory. If it is in a writable directory, it serves as a mount point.
    Folder,
    /// Symlink whose target is this path.
    Link(PathBuf),
    Processes,
}

/// Symlinks to the descriptors of the program that opens them.
const DEV_DESCRIPTOR_SYMLINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Directories that every view keeps in memory. The directory that the program's variable `TMPDIR`
/// names is added to them.
pub(super) const IN_MEMORY_FOLDERS: &[&str] = &["/tmp", "/dev/shm"];

pub(super) struct FileViewMountPlan<'a> {
    pub(super) write: &'a [PathBuf],
    pub(super) read: &'a [PathBuf],
    /// Directories inside those in `write` whose contents the program must not see: it sees empty
    /// directories instead.
    pub(super) hidden: &'a [PathBuf],
    pub(super) temporary: &'a Path,
    pub(super) temporary_bytes: u64,
    /// Home directory. It exists in the view, and contains only what is mounted in it.
    pub(super) home: Option<&'a Path>,
}

impl FileViewMountPlan<'_> {
    /// Returns the mounts in the order in which they are made. Outer mounts come before inner ones,
    /// so that no mount covers another.
    pub(super) fn plan_mounts(&self) -> Vec<FileViewMount> {
        let mut mounts = vec![
            new_mount("/proc", MountSource::Processes),
            new_mount("/dev", MountSource::Folder),
            new_mount("/dev/shm", MountSource::Memory(MAX_DEV_SHM_BYTES)),
        ];
        let device = |path: &&str| new_mount(path, MountSource::Device(PathBuf::from(path)));
        mounts.extend(SAFE_DEVICE_PATHS.iter().map(device));
        let link = |(at, to): &(&str, &str)| new_mount(at, MountSource::Link(PathBuf::from(to)));
        mounts.extend(DEV_DESCRIPTOR_SYMLINKS.iter().map(link));
        mounts.extend(self.home.map(|home| new_mount(home, MountSource::Folder)));
        self.add_temporary_folder_mounts(&mut mounts);
        for path in self.read.iter().filter(|path| !path.starts_with("/proc")) {
            // Skip a path inside a writable directory: a read-only mount would make that part of
            // the directory read-only.
            if !self.is_writable(path) {
                add_path_mount(&mut mounts, path, MountSource::ReadOnly);
            }
        }
        // Hide a secret file only if a readable directory contains it, and not if the settings
        // allow the path of the file itself.
        let is_shown = |path: &&PathBuf| {
            let mut read = self.read.iter();
            !self.read.contains(path) && read.any(|folder| path.starts_with(folder))
        };
        for path in system_secret_paths().iter().filter(is_shown) {
            let what = if path.is_dir() {
                MountSource::Memory(MAX_MASKING_TMPFS_BYTES)
            } else {
                MountSource::Device(PathBuf::from("/dev/null"))
            };
            mounts.push(new_mount(path, what));
        }
        for path in self.write {
            add_path_mount(&mut mounts, path, MountSource::Writable);
        }
        for path in self.write {
            for (path, is_fixed) in protect::repository_paths_to_protect(path) {
                let what = if is_fixed {
                    MountSource::ReadOnly
                } else {
                    MountSource::Writable
                };
                add_path_mount(&mut mounts, &path, what);
            }
        }
        self.mount_empty_over_hidden_folders(&mut mounts);
        sort_mounts(mounts)
    }

    /// Mounts an empty directory over each hidden one. The directories between the writable
    /// directory and the hidden one become mount points, which cannot be renamed: otherwise a
    /// command could replace the hidden directory by renaming one of its parents.
    fn mount_empty_over_hidden_folders(&self, mounts: &mut Vec<FileViewMount>) {
        for hidden in self.hidden {
            for folder in self.write {
                let root = folder.canonicalize().unwrap_or_else(|_| folder.clone());
                let above = hidden.ancestors().skip(1);
                let between = above.take_while(|path| path.starts_with(&root) && *path != root);
                let mount = |path: &Path| new_mount(path, MountSource::Writable(path.to_owned()));
                mounts.extend(between.map(mount));
            }
        }
        let hidden = self.hidden.iter();
        mounts.extend(
            hidden.map(|path| new_mount(path, MountSource::Memory(MAX_MASKING_TMPFS_BYTES))),
        );
    }

    /// Mounts the temporary directory. A private directory is also mounted at `/tmp`, because many
    /// programs use this path directly.
    fn add_temporary_folder_mounts(&self, mounts: &mut Vec<FileViewMount>) {
        let usual = Path::new("/tmp");
        let memory = || MountSource::Memory(self.temporary_bytes);
        let mut at_temporary = memory();
        if !self.is_writable(usual) {
            mounts.push(new_mount(usual, memory()));
            if self.temporary.starts_with(usual) {
                at_temporary = MountSource::Folder;
            }
        }
        mounts.push(new_mount(self.temporary, at_temporary));
        mounts.push(new_mount(
            self.temporary.join(CACHE_FOLDER_NAME),
            MountSource::Folder,
        ));
        let git_settings = self.temporary.join(GIT_CONFIG_FILE_NAME);
        mounts.push(new_mount(
            &git_settings,
            MountSource::ReadOnly(git_settings.clone()),
        ));
    }

    fn is_writable(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut write = self.write.iter();
        write.any(|folder| path.starts_with(folder) || real.starts_with(folder))
    }
}

fn new_mount(at: impl AsRef<Path>, what: MountSource) -> FileViewMount {
    FileViewMount {
        at: at.as_ref().to_owned(),
        what,
    }
}

/// Mounts a path under its own name and, if it is a symlink, also under its target. A missing path
/// is ignored.
fn add_path_mount(mounts: &mut Vec<FileViewMount>, path: &Path, what: fn(PathBuf) -> MountSource) {
    let Ok(real) = path.canonicalize() else {
        return;
    };
    if real != path {
        mounts.push(new_mount(path, what(real.clone())));
    }
    mounts.push(new_mount(&real, what(real.clone())));
}

/// Sorts mounts so that outer directories come before inner ones. If two mounts have the same path,
/// the later one replaces the earlier one.
fn sort_mounts(mounts: Vec<FileViewMount>) -> Vec<FileViewMount> {
    let mut kept: Vec<FileViewMount> = Vec::with_capacity(mounts.len());
    for mount in mounts {
        kept.retain(|earlier| earlier.at != mount.at);
        kept.push(mount);
    }
    kept.sort_by_key(|mount| mount.at.components().count());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_folders_are_mounted_before_inner_ones_and_the_workspace_stays_writable() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (workspace, tools) = (root.join("w"), root.join("tools"));
        for made in [&workspace.join("bin"), &tools] {
            std::fs::create_dir_all(made).unwrap();
        }
        let plan = FileViewMountPlan {
            write: std::slice::from_ref(&workspace),
            read: &[workspace.join("bin"), tools.clone(), root.join("missing")],
            hidden: &[workspace.join(".config/rind")],
            temporary: Path::new("/tmp/rind-x"),
            temporary_bytes: 1,
            home: Some(&root),
        };
        let mounts = plan.plan_mounts();
        let at = |path: &Path| mounts.iter().position(|mount| mount.at == path);
        assert!(at(Path::new("/tmp")) < at(&root) && at(&root) < at(&workspace));
        let of = |path: &Path| at(path).map(|index| mounts[index].what.clone());
        assert_eq!(
            of(&workspace),
            Some(MountSource::Writable(workspace.clone()))
        );
        assert_eq!(of(&tools), Some(MountSource::ReadOnly(tools.clone())));
        assert_eq!(of(&workspace.join("bin")), None, "a part of the workspace");
        assert_eq!(of(&root.join("missing")), None);
        let config = workspace.join(".config");
        assert_eq!(of(&config), Some(MountSource::Writable(config.clone())));
        let hidden = of(&config.join("rind"));
        assert_eq!(hidden, Some(MountSource::Memory(MAX_MASKING_TMPFS_BYTES)));
        assert!(at(&workspace) < at(&config) && at(&config) < at(&config.join("rind")));
        assert_eq!(of(Path::new("/tmp/rind-x")), Some(MountSource::Folder));
    }
}
