//! Keeps the content of a directory in memory. The directory is read once; its content is then
//! shown, digested and loaded from memory, and never read again from disk. Files that are embedded
//! in the program are kept in the same form.
//!
//! A process that can write to the directory may replace a file at any moment, even between an
//! approval question and its answer. Because the content is in memory, the operator approves
//! exactly the bytes that are used.
//!
//! Start from [`InMemoryFolder::read`].

mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::project::{ProjectTrustError, project_trust_error};
use walk::{
    InMemoryFolderReader, ProjectSymlinkResolver, file_read_error, unsupported_file_type_error,
};

/// Limits on the files that are read from a directory.
#[derive(Clone, Copy, Debug)]
pub struct FolderReadLimits {
    /// Maximum number of files that are read.
    pub files: usize,
    /// Maximum total size of the files that are read, in bytes.
    pub bytes: u64,
    /// Function that returns true for the name of a file or directory to skip.
    pub leaves_out: fn(&str) -> bool,
}

impl Default for FolderReadLimits {
    /// Returns limits that skip no file and suffice for ten components that are built with Python.
    fn default() -> Self {
        Self {
            files: 10_000,
            bytes: 256 << 20,
            leaves_out: |_| false,
        }
    }
}

/// Content of a directory at the time it was read, or embedded content.
///
/// Load files with [`InMemoryFolder::file_content`] for every path for which
/// [`InMemoryFolder::is_path_inside`] returns true, because a file on disk may have changed since.
/// Two values are equal if their roots and digests are.
#[derive(Clone)]
pub struct InMemoryFolder {
    root: PathBuf,
    files: InMemoryFolderContent,
    /// Digest, computed on first use, because the digest of embedded files is rarely needed.
    digest: OnceLock<String>,
    /// Another directory in memory, with a different root. It may refer to a further one, so that
    /// they form a chain.
    beside: Option<Arc<InMemoryFolder>>,
}

/// Contents of files by the components of their paths.
pub type InMemoryFiles = BTreeMap<Vec<String>, Cow<'static, [u8]>>;

#[derive(Clone)]
enum InMemoryFolderContent {
    Read(InMemoryFiles),
    /// Function that returns embedded files. They are unpacked at its first call, when a file is
    /// needed.
    Embedded(fn() -> &'static InMemoryFiles),
}

impl InMemoryFolderContent {
    fn files(&self) -> &InMemoryFiles {
        match self {
            Self::Read(files) => files,
            Self::Embedded(files) => files(),
        }
    }
}

impl PartialEq for InMemoryFolder {
    fn eq(&self, other: &Self) -> bool {
        (&self.root, self.digest()) == (&other.root, other.digest())
    }
}

impl_partial_debug!(
    InMemoryFolder,
    self,
    root = self.root,
    digest = self.digest()
);

impl InMemoryFolder {
    /// Reads a directory recursively. Refuses symlinks and anything else that is neither a file nor
    /// a directory, even if it replaces a file during the read.
    ///
    /// # Errors
    /// The directory cannot be read, contains a symlink, or is too large.
    pub fn read(root: &Path) -> Result<Self, ProjectTrustError> {
        Self::read_folder_within(root, FolderReadLimits::default())
    }

    /// Reads a directory like [`read`](Self::read), within these bounds.
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    pub fn read_folder_within(
        root: &Path,
        bounds: FolderReadLimits,
    ) -> Result<Self, ProjectTrustError> {
        let own = rustix::fs::open(
            root,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let own = own.map_err(|errno| match errno {
            // Opening a symlink fails with one of these errors, depending on the operating system.
            Errno::LOOP | Errno::NOTDIR | Errno::MLINK => project_trust_error(
                root,
                "is a link or not a folder; files outside the project cannot be trusted",
            ),
            other => file_read_error(root, other),
        })?;
        let mut walk = InMemoryFolderReader::new(root, None, bounds);
        walk.walk_folder(own.as_fd(), &mut Vec::new())?;
        Ok(walk.into_in_memory_folder())
    }

    /// Reads a directory of a project like [`read`](Self::read), but follows symlinks within the
    /// project and stores the content of the target under the name of the symlink. An entry that
    /// cannot be read is stored as an empty file, so that it does not look absent, and is returned
    /// with the reason.
    ///
    /// # Errors
    /// The directory itself cannot be read, is outside the project, or is too large.
    pub fn read_folder_following_symlinks(
        root: &Path,
        project: &Path,
    ) -> Result<(Self, Vec<ProjectTrustError>), ProjectTrustError> {
        let failed = |errno| file_read_error(root, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let project_fd = rustix::fs::open(project, flags, Mode::empty()).map_err(failed)?;
        let links = ProjectSymlinkResolver {
            project,
            project_fd,
            refused: Vec::new(),
            is_inside: false,
        };
        let own = links.open_target_within_project(root)?;
        let mut walk = InMemoryFolderReader::new(root, Some(links), FolderReadLimits::default());
        walk.walk_folder(own.as_fd(), &mut Vec::new())?;
        let refused = walk.links.take().map(|links| links.refused);
        Ok((walk.into_in_memory_folder(), refused.unwrap_or_default()))
    }

    /// Reads one file of a project like [`Self::read_folder_following_symlinks`]. The root of the
    /// result is the path of the file.
    ///
    /// # Errors
    /// The file cannot be read, is outside the project, or is not a regular file.
    pub fn read_file_following_symlinks(
        path: &Path,
        project: &Path,
    ) -> Result<Self, ProjectTrustError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let project_fd = rustix::fs::open(project, flags, Mode::empty());
        let links = ProjectSymlinkResolver {
            project,
            project_fd: project_fd.map_err(|errno| file_read_error(path, errno))?,
            refused: Vec::new(),
            is_inside: false,
        };
        let opened = links.open_target_within_project(path)?;
        let about = rustix::fs::fstat(&opened).map_err(|errno| file_read_error(path, errno))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(unsupported_file_type_error(path));
        }
        let mut walk = InMemoryFolderReader::new(path, None, FolderReadLimits::default());
        walk.store_file_content(opened, path, &[])?;
        Ok(walk.into_in_memory_folder())
    }

    /// Creates an in-memory directory without files.
    #[must_use]
    pub fn empty(root: PathBuf) -> Self {
        Self {
            root,
            digest: OnceLock::new(),
            files: InMemoryFolderContent::Read(InMemoryFiles::new()),
            beside: None,
        }
    }

    /// Creates a directory of embedded files, at a path that does not exist on disk. `files` is
    /// called when a file is first needed.
    #[must_use]
    pub fn from_embedded(root: PathBuf, files: fn() -> &'static InMemoryFiles) -> Self {
        Self {
            root,
            digest: OnceLock::new(),
            files: InMemoryFolderContent::Embedded(files),
            beside: None,
        }
    }

    /// Sets the next directory of the chain, which is searched for paths outside this directory.
    /// The digest does not include it.
    #[must_use]
    pub fn with_fallback_folder(mut self, other: Option<Arc<Self>>) -> Self {
        self.beside = other;
        self
    }

    /// Adds other directories, which are searched for paths outside this one, and includes them in
    /// the digest.
    #[must_use]
    pub fn with_fallback_folders_in_digest(mut self, others: Vec<Self>) -> Self {
        if others.is_empty() {
            return self;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.digest().as_bytes());
        for other in &others {
            let root = other.root.as_os_str().as_encoded_bytes();
            hasher.update(&(root.len() as u64).to_le_bytes());
            hasher.update(root);
            hasher.update(other.digest().as_bytes());
        }
        self.digest = format!("blake3:{}", hasher.finalize().to_hex()).into();
        let mut beside = self.beside.take();
        for other in others.into_iter().rev() {
            beside = Some(Arc::new(other.with_fallback_folder(beside)));
        }
        self.beside = beside;
        self
    }

    /// Returns the digest of all file names and contents.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest_files(self.files.files()))
    }

    /// Returns the contents of the files by the components of their paths.
    pub fn into_files(self) -> BTreeMap<Vec<String>, Vec<u8>> {
        let files = match self.files {
            InMemoryFolderContent::Read(files) => files,
            InMemoryFolderContent::Embedded(files) => files().clone(),
        };
        files
            .into_iter()
            .map(|(names, content)| (names, content.into_owned()))
            .collect()
    }

    /// Whether a path is inside a directory whose content this value or one chained to it
    /// (`beside`) has in memory. Such a path must not be read from disk.
    #[must_use]
    pub fn is_path_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
            || self
                .beside
                .as_ref()
                .is_some_and(|other| other.is_path_inside(path))
    }

    /// Returns the content of a file by its absolute path; `None` if neither this directory nor one
    /// chained to it (`beside`) has the file.
    #[must_use]
    pub fn file_content(&self, path: &Path) -> Option<&[u8]> {
        let (holder, names) = self.find_folder_containing_path(path)?;
        holder.files.files().get(&names).map(|content| &**content)
    }

    /// Returns the paths of the direct subdirectories of this directory.
    #[must_use]
    pub fn subfolders_in(&self, path: &Path) -> Vec<PathBuf> {
        let Some((holder, above)) = self.find_folder_containing_path(path) else {
            return Vec::new();
        };
        let mut names: Vec<&String> = holder
            .file_paths_below(&above)
            .filter(|rest| rest.len() > 1)
            .filter_map(<[String]>::first)
            .collect();
        names.dedup();
        names.into_iter().map(|name| path.join(name)).collect()
    }

    /// Returns the names of the files directly in this directory.
    #[must_use]
    pub fn file_names_in(&self, path: &Path) -> Vec<String> {
        let Some((holder, above)) = self.find_folder_containing_path(path) else {
            return Vec::new();
        };
        let own = holder
            .file_paths_below(&above)
            .filter_map(|rest| match rest {
                [name] => Some(name.clone()),
                _ => None,
            });
        own.collect()
    }

    /// Returns the path of each file below the directory `above`, relative to that directory,
    /// sorted.
    fn file_paths_below<'a>(&'a self, above: &'a [String]) -> impl Iterator<Item = &'a [String]> {
        // Paths with the same prefix are adjacent in the map.
        let from = (Bound::Included(above), Bound::Unbounded);
        let files = self.files.files().range::<[String], _>(from);
        files.map_while(move |(names, _)| names.strip_prefix(above))
    }

    /// Returns the directory in the chain that contains a path, and the path components below it.
    fn find_folder_containing_path(&self, path: &Path) -> Option<(&Self, Vec<String>)> {
        let Ok(rest) = path.strip_prefix(&self.root) else {
            return self.beside.as_ref()?.find_folder_containing_path(path);
        };
        let names = rest.iter().map(|name| name.to_str().map(str::to_owned));
        Some((self, names.collect::<Option<_>>()?))
    }
}

/// Returns the digest of files. Each name and content is preceded by its length, so that different
/// directories cannot produce the same bytes.
pub fn digest_files(files: &BTreeMap<Vec<String>, impl AsRef<[u8]>>) -> String {
    let mut hasher = blake3::Hasher::new();
    for (names, content) in files {
        for part in names.iter().map(String::as_bytes).chain([content.as_ref()]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&[0xff; 8]);
    }
    format!("blake3:{}", hasher.finalize().to_hex())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::LazyLock;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn digest(root: &Path) -> String {
        InMemoryFolder::read(root).unwrap().digest().to_owned()
    }

    #[test]
    fn any_change_in_the_folder_changes_its_digest() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "plugins/a/plugin.toml", "name = \"a\"");
        write(root.path(), "config.toml", "x");
        let first = digest(root.path());
        assert_eq!(digest(root.path()), first);
        let changes: [&dyn Fn(); 4] = [
            &|| write(root.path(), "config.toml", "y"),
            &|| write(root.path(), "plugins/b", ""),
            &|| fs::rename(root.path().join("plugins/b"), root.path().join("plugins/c")).unwrap(),
            &|| write(root.path(), "plugins/a/plugin.toml", "name = \"b\""),
        ];
        let mut seen = vec![first];
        for change in changes {
            change();
            let now = digest(root.path());
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }

    #[test]
    fn what_is_held_stays_whatever_becomes_of_the_folder() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "plugins/a/plugin.toml", "one");
        let held = InMemoryFolder::read(root.path()).unwrap();
        write(root.path(), "plugins/a/plugin.toml", "two");
        write(root.path(), "plugins/b/plugin.toml", "two");
        let plugins = root.path().join("plugins");
        let manifest = plugins.join("a/plugin.toml");
        assert_eq!(held.file_content(&manifest), Some(&b"one"[..]));
        assert_eq!(held.subfolders_in(&plugins), [plugins.join("a")]);
        assert_eq!(held.file_content(&plugins.join("b/plugin.toml")), None);
        assert!(held.is_path_inside(&manifest));
        assert_eq!(held.file_content(&root.path().join("../x")), None);
    }

    #[test]
    fn of_two_folders_each_answers_for_its_own_paths() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/plugin.toml", "read");
        let read = InMemoryFolder::read(root.path()).unwrap();
        let digest = read.digest().to_owned();
        static CARRIED: LazyLock<InMemoryFiles> = LazyLock::new(|| {
            let file = |name: &str| vec![name.to_owned(), "plugin.toml".to_owned()];
            let carried = [(file("a"), &b"carried"[..]), (file("b"), b"too")];
            carried
                .map(|(names, content)| (names, content.into()))
                .into()
        });
        let program = PathBuf::from("/usr/bin/rind/plugins");
        let both = InMemoryFolder::from_embedded(program.clone(), || &CARRIED)
            .with_fallback_folder(Some(Arc::new(read)));
        assert_eq!(
            both.file_content(&program.join("a/plugin.toml")),
            Some(&b"carried"[..])
        );
        assert_eq!(
            both.file_content(&root.path().join("a/plugin.toml")),
            Some(&b"read"[..])
        );
        assert_eq!(both.file_content(&root.path().join("b/plugin.toml")), None);
        assert_eq!(
            both.subfolders_in(&program),
            [program.join("a"), program.join("b")]
        );
        assert_eq!(both.subfolders_in(root.path()), [root.path().join("a")]);
        assert_eq!(both.file_names_in(&root.path().join("a")), ["plugin.toml"]);
        assert!(!both.is_path_inside(Path::new("/usr/bin")));
        assert_ne!(both.digest(), digest);
    }

    #[test]
    fn links_pipes_and_sockets_are_refused_and_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let refusal = || InMemoryFolder::read(root.path()).unwrap_err().to_string();
        std::os::unix::fs::symlink("/etc", root.path().join("plugins")).unwrap();
        assert!(refusal().contains("neither a file nor a folder"));
        let error = InMemoryFolder::read(&root.path().join("plugins"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("files outside the project"), "{error}");
        fs::remove_file(root.path().join("plugins")).unwrap();

        let socket = std::os::unix::net::UnixListener::bind(root.path().join("s")).unwrap();
        assert!(refusal().contains("neither a file nor a folder"));
        drop(socket);
        fs::remove_file(root.path().join("s")).unwrap();

        let pipe = root.path().join("p");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(refusal().contains("neither a file nor a folder"));
    }
}
