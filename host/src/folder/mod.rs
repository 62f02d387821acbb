//! Directories that were granted to a plugin, used by its `files` import and by its WASI preopens.
//!
//! This module resolves paths, decides whether they may be read or written, and enforces the quota
//! of the plugin's `data` directory. Every path is resolved relative to open handles, without
//! leaving the granted directory. The module must not know how a plugin is implemented, nor which
//! interface the plugin calls. All functions block.
//!
//! Start from [`GrantedFolders`].

mod append;
mod changes;
mod error;
mod open;
mod quota;
mod resolved;
mod whole;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::beneath::{MissingParentFolderHandling, real_path, walk_path_beneath};
use crate::disk::create_private_folder;
use crate::git::is_protected_git_path;
use crate::grant::{FolderAccess, GrantableFolder, GrantedCapabilities, RootFolderKind};
use crate::paths::PROJECT_FOLDER;

pub use error::FolderError;
pub use open::{FolderOpenOptions, OpenedFileOrFolder};
pub use quota::{DataFolderUsage, FolderQuota};
pub use resolved::ResolvedPath;
pub use whole::{
    FolderEntry, FolderEntryKind, MAX_LISTED_FOLDER_ENTRIES, MAX_READ_OR_WRITE_BYTES, count_entries,
};

/// Paths of the directories on this machine that one plugin may be granted.
#[derive(Clone, Debug)]
pub struct PluginFolderLocations {
    /// Working directory of the agent.
    pub workspace: PathBuf,
    /// Data directory of the plugin, created on first use.
    pub data: PathBuf,
    /// Directory that stays empty, created on first use. See [`PathBaseFolder::Nowhere`].
    pub empty: PathBuf,
    /// Rind's own directories. A granted directory of the workspace must neither contain one nor be
    /// inside one.
    pub protected: Vec<PathBuf>,
    /// Limits on the size and number of files in `data`.
    pub quota: FolderQuota,
}

/// Directories that were granted to one plugin, opened on first use.
///
/// Paths are resolved with [`GrantedFolders::resolve_path_from_base`], which also decides the
/// access; operations on the result follow no symlink. The methods block, so call them off the
/// async threads.
#[derive(Debug)]
pub struct GrantedFolders {
    grants: Vec<FolderGrant>,
    places: PluginFolderLocations,
    usage: Arc<DataFolderUsage>,
    empty: OnceLock<Arc<File>>,
}

#[derive(Debug)]
struct FolderGrant {
    access: FolderAccess,
    folder: GrantableFolder,
    opened: OnceLock<OpenGrantedFolder>,
}

impl FolderGrant {
    /// Returns the number of path components from the root to the directory.
    fn folder_depth(&self) -> usize {
        let opened = self.opened.get();
        opened.map_or(self.folder.below.len(), |opened| opened.names.len())
    }
}

#[derive(Clone, Debug)]
struct OpenGrantedFolder {
    file: Arc<File>,
    /// Path components from the root to the actual location; they differ from the granted path if
    /// it contains a symlink.
    names: Vec<String>,
}

/// Directory from which a relative path is resolved.
#[derive(Clone, Debug)]
pub enum PathBaseFolder {
    /// A granted directory, by its index in [`GrantedFolders::grants`].
    Granted(usize),
    /// Directory that was opened below a granted one.
    Below {
        grant: usize,
        /// Path components from the root of the granted directory to this one.
        names: Vec<String>,
        folder: Arc<File>,
    },
    /// An empty directory, mounted in place of a granted directory that cannot be opened, and at
    /// `/` if no granted directory is mounted at `.`.
    Nowhere,
}

impl GrantedFolders {
    /// Creates the set of granted directories at these locations. Nothing is opened yet.
    #[must_use]
    pub fn new(granted: &GrantedCapabilities, places: PluginFolderLocations) -> Self {
        let folders = granted.folders();
        // Skip a grant inside a wider one with the same access: it permits nothing more, and would
        // prevent moving files from one granted directory to the other.
        let is_needed = |(access, folder): &&(FolderAccess, GrantableFolder)| {
            let wider = folders
                .iter()
                .filter(|(_, other)| other != folder && other.contains(folder));
            let closest = wider.max_by_key(|(_, other)| other.below.len());
            closest.is_none_or(|(other, _)| other != access)
        };
        let grants = folders
            .iter()
            .filter(is_needed)
            .map(|(access, folder)| FolderGrant {
                access: *access,
                folder: folder.clone(),
                opened: OnceLock::new(),
            });
        Self {
            grants: grants.collect(),
            usage: DataFolderUsage::shared_usage_of_folder(places.data.clone(), places.quota),
            places,
            empty: OnceLock::new(),
        }
    }

    /// Returns the granted directories, in the order of their indexes.
    pub fn folders_with_access(&self) -> impl Iterator<Item = (FolderAccess, &GrantableFolder)> {
        self.grants
            .iter()
            .map(|grant| (grant.access, &grant.folder))
    }

    /// Opens all granted directories that can be opened, so that later calls need not open them.
    /// May block.
    pub fn open_all_granted_folders(&self) {
        // Errors are ignored here: opening is tried again on use, and reports its error then.
        (0..self.grants.len()).for_each(|number| drop(self.open_granted_folder(number)));
    }

    /// Whether every directory that was granted to the plugin is open.
    #[must_use]
    pub fn are_all_granted_folders_open(&self) -> bool {
        self.grants.iter().all(|grant| grant.opened.get().is_some())
    }

    /// Returns the directory that paths from `base` are relative to, opening a granted directory if
    /// needed. A missing directory is created only if it is the plugin's data directory.
    ///
    /// # Errors
    /// The directory does not exist, a symlink in its path leads out of the workspace, or it
    /// overlaps Rind's own directories.
    pub fn open_base_folder(&self, base: &PathBaseFolder) -> Result<Arc<File>, FolderError> {
        match base {
            PathBaseFolder::Granted(number) => Ok(self.open_granted_folder(*number)?.file.clone()),
            PathBaseFolder::Below { folder, .. } => Ok(folder.clone()),
            PathBaseFolder::Nowhere => self.open_empty_placeholder_folder(),
        }
    }

    /// Resolves `path` from `base`. If the last component is a symlink, it is followed only with
    /// `follow`. The last component need not exist.
    ///
    /// # Errors
    /// The path leads out of the granted directory, or a directory in it does not exist.
    pub fn resolve_path_from_base(
        &self,
        base: &PathBaseFolder,
        path: &str,
        follow: bool,
    ) -> Result<ResolvedPath, FolderError> {
        if path.contains('\0') {
            return Err(FolderError::Invalid("a path cannot contain NUL"));
        }
        let start = self.open_base_folder(base)?;
        let (number, mut names) = match base {
            PathBaseFolder::Granted(number) => (
                Some(*number),
                self.open_granted_folder(*number)?.names.clone(),
            ),
            PathBaseFolder::Below { grant, names, .. } => (Some(*grant), names.clone()),
            PathBaseFolder::Nowhere => (None, Vec::new()),
        };
        let walked =
            walk_path_beneath(&*start, path, follow, MissingParentFolderHandling::Refused)?;
        names.extend(walked.names);
        let grant = number.map(|number| &self.grants[number]);
        let root = grant.map(|grant| grant.folder.root);
        let reserved = root == Some(RootFolderKind::Workspace)
            && (names
                .first()
                .is_some_and(|name| name.eq_ignore_ascii_case(PROJECT_FOLDER))
                // Git runs programs that the hooks and settings in `.git` name, when the user next
                // calls it. Only a grant for a directory inside `.git` allows writing there.
                || (grant.is_some_and(|grant| grant.access != FolderAccess::Read)
                    && is_protected_git_path(&self.places.workspace, &names, grant.map_or(0, FolderGrant::folder_depth))));
        let access = grant.map_or(FolderAccess::Read, |grant| {
            self.allowed_access_at_path(grant, &names)
        });
        Ok(ResolvedPath {
            folder: walked.folder,
            name: walked.name,
            names,
            root,
            is_folder_wanted: walked.is_folder_wanted,
            access,
            is_reserved: reserved,
            grant: number,
            n_above: grant.map_or(0, FolderGrant::folder_depth),
            usage: (root == Some(RootFolderKind::Data)).then(|| self.usage.clone()),
            before: None,
        })
    }

    /// Whether another granted directory is inside `place`. Moving `place` would then change which
    /// files the plugin may write.
    #[must_use]
    pub fn has_granted_folder_inside(&self, place: &ResolvedPath) -> bool {
        self.grants.iter().any(|grant| {
            Some(grant.folder.root) == place.root
                && grant.folder.below.len() > place.names.len()
                && grant.folder.below.starts_with(&place.names)
        })
    }

    /// Returns the index of the most specific grant for a path, without resolving symlinks.
    fn find_grant(&self, root: RootFolderKind, names: &[String]) -> Option<usize> {
        let holds = |grant: &FolderGrant| {
            grant.folder.root == root && names.starts_with(&grant.folder.below)
        };
        let all = self.grants.iter().enumerate();
        all.filter(|(_, grant)| holds(grant))
            .max_by_key(|(_, grant)| grant.folder.below.len())
            .map(|(number, _)| number)
    }

    /// Returns the access to the path `names`, which was resolved through `grant`. The most
    /// specific grant that contains the path decides.
    fn allowed_access_at_path(&self, grant: &FolderGrant, names: &[String]) -> FolderAccess {
        self.find_grant(grant.folder.root, names)
            .map_or(grant.access, |number| self.grants[number].access)
    }

    fn open_granted_folder(&self, number: usize) -> Result<&OpenGrantedFolder, FolderError> {
        let grant = &self.grants[number];
        if let Some(opened) = grant.opened.get() {
            return Ok(opened);
        }
        let opened = match grant.folder.root {
            RootFolderKind::Data => self.open_data_folder()?,
            RootFolderKind::Workspace => self.open_workspace_folder(&grant.folder)?,
        };
        Ok(grant.opened.get_or_init(|| opened))
    }

    fn open_data_folder(&self) -> Result<OpenGrantedFolder, FolderError> {
        create_private_folder(&self.places.data)?;
        Ok(OpenGrantedFolder {
            file: Arc::new(open_folder_path(&self.places.data)?),
            names: Vec::new(),
        })
    }

    /// Creates a granted directory of the workspace that does not exist, and its parents. A plugin
    /// that was granted only this directory could otherwise never write there. Returns whether the
    /// directory was created. Blocks.
    ///
    /// # Errors
    /// The directory is read-only or overlaps Rind's own directories, or a symlink or file has the
    /// same name.
    pub fn create_missing_granted_folder(
        &self,
        base: &PathBaseFolder,
    ) -> Result<bool, FolderError> {
        let PathBaseFolder::Granted(number) = base else {
            return Ok(false);
        };
        match self.open_granted_folder(*number) {
            Err(FolderError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(|_| false),
        }
        let grant = &self.grants[*number];
        if grant.access == FolderAccess::Read {
            return Err(FolderError::ReadOnly);
        }
        let root = self.places.workspace.canonicalize()?;
        let path = grant.folder.below.join("/");
        let start = open_folder_path(&root)?;
        // First walk the path without creating directories, to check that they may be created
        // there.
        let walked = walk_path_beneath(&start, &path, true, MissingParentFolderHandling::Named)?;
        self.reject_host_folder_overlap(&root, &walked.names, &grant.folder)?;
        let walked = walk_path_beneath(&start, &path, true, MissingParentFolderHandling::Made)?;
        match walked.folder.create_dir(&walked.name) {
            // Another process created the directory, or a symlink has this name; opening the path
            // below shows which.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.open_granted_folder(*number).map(|_| true)
    }

    /// Refuses a directory of the workspace that contains one of Rind's own directories or is
    /// inside one.
    fn reject_host_folder_overlap(
        &self,
        root: &Path,
        names: &[String],
        folder: &GrantableFolder,
    ) -> Result<(), FolderError> {
        let real = root.join(names.iter().collect::<PathBuf>());
        let is_protected = |own: &PathBuf| {
            // A symlink in the path of Rind's directory could be replaced, so both the path as
            // written and the resolved path are compared.
            let is_below = own.starts_with(&real);
            let own = real_path(own);
            is_below || own.starts_with(&real) || real.starts_with(&own)
        };
        if self.places.protected.iter().any(is_protected) {
            return Err(FolderError::Protected {
                folder: folder.to_string(),
            });
        }
        Ok(())
    }

    fn open_workspace_folder(
        &self,
        folder: &GrantableFolder,
    ) -> Result<OpenGrantedFolder, FolderError> {
        let root = self.places.workspace.canonicalize()?;
        let path = match folder.below.join("/") {
            path if path.is_empty() => ".".to_owned(),
            path => path + "/",
        };
        let walked = walk_path_beneath(
            &open_folder_path(&root)?,
            &path,
            true,
            MissingParentFolderHandling::Refused,
        )?;
        self.reject_host_folder_overlap(&root, &walked.names, folder)?;
        let opened = walked.folder.open_dir(&walked.name);
        let folder = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => FolderError::GrantedFile {
                folder: folder.to_string(),
            },
            _ => error.into(),
        })?;
        Ok(OpenGrantedFolder {
            file: Arc::new(folder.into_std_file()),
            names: walked.names,
        })
    }

    fn open_empty_placeholder_folder(&self) -> Result<Arc<File>, FolderError> {
        if let Some(folder) = self.empty.get() {
            return Ok(folder.clone());
        }
        create_private_folder(&self.places.empty)?;
        let folder = Arc::new(open_folder_path(&self.places.empty)?);
        Ok(self.empty.get_or_init(|| folder).clone())
    }
}

fn open_folder_path(path: &Path) -> io::Result<File> {
    Ok(Dir::open_ambient_dir(path, ambient_authority())?.into_std_file())
}
