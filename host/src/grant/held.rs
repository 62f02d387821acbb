//! A directory in memory. It is read once, and its content is then shown, digested and loaded from
//! memory, never read again by path. It can also hold files embedded in the program.
//!
//! A process that can write to the directory may swap a file at any moment, even between an
//! approval question and its answer. Holding the content ensures that the operator approves exactly
//! the bytes that are used.
//!
//! Start from [`HeldFolder::read`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::project::{ProjectError, refuse_project};
use crate::beneath::{self, MissingParents};

/// Maximum number of files.
const MAX_FILES: usize = 10_000;

/// Maximum total size in bytes. Enough for ten Python components.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum depth of subdirectories.
const MAX_DEPTH: usize = 16;

/// Content of a directory at the time it was read, or embedded content.
///
/// Load files through [`HeldFolder::file`] for every path that [`HeldFolder::covers`]; reading such
/// a path from disk instead would defeat the purpose. Two held directories are equal if root and
/// digest are.
#[derive(Clone)]
pub struct HeldFolder {
    root: PathBuf,
    /// Content by path components.
    files: BTreeMap<Vec<String>, Cow<'static, [u8]>>,
    /// Digest, computed on first use: that of embedded files is never needed.
    digest: OnceLock<String>,
    /// Next directory in a chain, at another path.
    beside: Option<Arc<HeldFolder>>,
}

impl PartialEq for HeldFolder {
    fn eq(&self, other: &Self) -> bool {
        (&self.root, self.digest()) == (&other.root, other.digest())
    }
}

debug_some!(HeldFolder, self, root = self.root, digest = self.digest());

impl HeldFolder {
    /// Reads a directory recursively. Refuses symlinks and anything else that is neither a file nor
    /// a directory, even if it replaces a file during the read.
    ///
    /// # Errors
    /// The directory cannot be read, contains a symlink, or is too large.
    pub fn read(root: &Path) -> Result<Self, ProjectError> {
        let own = rustix::fs::open(
            root,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let own = own.map_err(|errno| match errno {
            // Opening a symlink fails with one of these errors; which one depends on the system.
            Errno::LOOP | Errno::NOTDIR | Errno::MLINK => refuse_project(
                root,
                "is a link or not a folder; files outside the project cannot be trusted",
            ),
            other => unreadable_project(root, other),
        })?;
        let mut walk = HeldWalk::new(root, None);
        walk.walk_folder(own.as_fd(), &mut Vec::new())?;
        Ok(walk.into_held())
    }

    /// Reads a directory of a project like [`read`](Self::read), but follows symlinks within the
    /// project; their targets are held under the name of the symlink. Any other entry that cannot
    /// be held becomes an empty file, so that it does not look absent, and is returned with the
    /// reason.
    ///
    /// # Errors
    /// The directory itself cannot be read, is outside the project, or is too large.
    pub fn read_linked(
        root: &Path,
        project: &Path,
    ) -> Result<(Self, Vec<ProjectError>), ProjectError> {
        let failed = |errno| unreadable_project(root, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let project_fd = rustix::fs::open(project, flags, Mode::empty()).map_err(failed)?;
        let links = ProjectLinks {
            project,
            project_fd,
            refused: Vec::new(),
            is_inside: false,
        };
        let own = links.open_path(root)?;
        let mut walk = HeldWalk::new(root, Some(links));
        walk.walk_folder(own.as_fd(), &mut Vec::new())?;
        let refused = walk.links.take().map(|links| links.refused);
        Ok((walk.into_held(), refused.unwrap_or_default()))
    }

    /// Reads one file of a project like [`read_linked`](Self::read_linked). The root is the path of
    /// the file.
    ///
    /// # Errors
    /// The file cannot be read, is outside the project, or is not a regular file.
    pub fn read_linked_file(path: &Path, project: &Path) -> Result<Self, ProjectError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let project_fd = rustix::fs::open(project, flags, Mode::empty());
        let links = ProjectLinks {
            project,
            project_fd: project_fd.map_err(|errno| unreadable_project(path, errno))?,
            refused: Vec::new(),
            is_inside: false,
        };
        let opened = links.open_path(path)?;
        let about = rustix::fs::fstat(&opened).map_err(|errno| unreadable_project(path, errno))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(other_kind(path));
        }
        let mut walk = HeldWalk::new(path, None);
        walk.walk_file(opened, path, &[])?;
        Ok(walk.into_held())
    }

    /// Holds embedded files under a path that does not exist on disk.
    #[must_use]
    pub fn from_embedded(
        root: PathBuf,
        files: impl IntoIterator<Item = (Vec<String>, &'static [u8])>,
    ) -> Self {
        let files = files.into_iter();
        let files = files
            .map(|(names, content)| (names, Cow::Borrowed(content)))
            .collect();
        Self {
            root,
            digest: OnceLock::new(),
            files,
            beside: None,
        }
    }

    /// Adds another directory, which is searched for paths inside it. The digest does not include
    /// it.
    #[must_use]
    pub fn with_other(mut self, other: Option<Arc<Self>>) -> Self {
        self.beside = other;
        self
    }

    /// Adds other directories, which are included in the digest.
    #[must_use]
    pub fn with_others(mut self, others: Vec<Self>) -> Self {
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
            beside = Some(Arc::new(other.with_other(beside)));
        }
        self.beside = beside;
        self
    }

    /// Returns the digest of all names and contents.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest_files(&self.files))
    }

    /// Returns the files by path components.
    pub fn into_files(self) -> BTreeMap<Vec<String>, Vec<u8>> {
        let files = self.files.into_iter();
        files
            .map(|(names, content)| (names, content.into_owned()))
            .collect()
    }

    /// Whether a path is inside the held directories, so that only held content may be used.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        path.starts_with(&self.root) || self.beside.as_ref().is_some_and(|other| other.covers(path))
    }

    /// Returns the content of a file by its absolute path; `None` if it did not exist.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&[u8]> {
        let (holder, names) = self.names_of(path)?;
        holder.files.get(&names).map(|content| &**content)
    }

    /// Returns the direct subdirectories.
    #[must_use]
    pub fn folders_in(&self, path: &Path) -> Vec<PathBuf> {
        let Some((holder, above)) = self.names_of(path) else {
            return Vec::new();
        };
        let mut names: Vec<&String> = holder
            .names_below(&above)
            .filter(|rest| rest.len() > 1)
            .filter_map(<[String]>::first)
            .collect();
        names.dedup();
        names.into_iter().map(|name| path.join(name)).collect()
    }

    /// Returns the names of the files directly in this directory.
    #[must_use]
    pub fn file_names_in(&self, path: &Path) -> Vec<String> {
        let Some((holder, above)) = self.names_of(path) else {
            return Vec::new();
        };
        let own = holder.names_below(&above).filter_map(|rest| match rest {
            [name] => Some(name.clone()),
            _ => None,
        });
        own.collect()
    }

    /// Returns the remaining path components of each file below a directory, sorted.
    fn names_below<'a>(&'a self, above: &'a [String]) -> impl Iterator<Item = &'a [String]> {
        // Paths with the same prefix are adjacent in the map.
        let from = (Bound::Included(above), Bound::Unbounded);
        let files = self.files.range::<[String], _>(from);
        files.map_while(move |(names, _)| names.strip_prefix(above))
    }

    /// Returns the directory in the chain that contains a path, and the path components below it.
    fn names_of(&self, path: &Path) -> Option<(&Self, Vec<String>)> {
        let Ok(rest) = path.strip_prefix(&self.root) else {
            return self.beside.as_ref()?.names_of(path);
        };
        let names = rest.iter().map(|name| name.to_str().map(str::to_owned));
        Some((self, names.collect::<Option<_>>()?))
    }
}

/// Returns the digest of files. Each text is preceded by its length, so that different directories
/// cannot produce the same bytes.
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

struct HeldWalk<'a> {
    root: &'a Path,
    files: BTreeMap<Vec<String>, Cow<'static, [u8]>>,
    bytes_left: u64,
    /// Project within which symlinks are followed; `None` if they are refused.
    links: Option<ProjectLinks<'a>>,
}

/// Project within which symlinks are followed.
struct ProjectLinks<'a> {
    project: &'a Path,
    project_fd: OwnedFd,
    /// Entries that are not held, with the reasons.
    refused: Vec<ProjectError>,
    /// Whether the walk is inside the target of a symlink, where further symlinks are not followed
    /// because they could form a cycle.
    is_inside: bool,
}

impl ProjectLinks<'_> {
    /// Opens the target of a path without leaving the project.
    fn open_path(&self, path: &Path) -> Result<OwnedFd, ProjectError> {
        const ELSEWHERE: &str = "is a link out of the project, or a dangling link; files outside the project cannot be trusted";
        let below = path.strip_prefix(self.project).ok().and_then(Path::to_str);
        let below = below.ok_or_else(|| refuse_project(path, ELSEWHERE))?;
        let walked = beneath::walk_beneath(&self.project_fd, below, true, MissingParents::Refused);
        let walked = walked.map_err(|_| refuse_project(path, ELSEWHERE))?;
        // A target that contains the symlink would be held within itself.
        let place = self.project.join(walked.names.iter().collect::<PathBuf>());
        if path != place && path.starts_with(&place) {
            return Err(refuse_project(
                path,
                "is a link to one of its parent folders",
            ));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&walked.folder, walked.name.as_str(), flags, Mode::empty())
            .map_err(|errno| unreadable_project(path, errno))
    }
}

impl<'a> HeldWalk<'a> {
    fn new(root: &'a Path, links: Option<ProjectLinks<'a>>) -> Self {
        Self {
            root,
            files: BTreeMap::new(),
            bytes_left: MAX_BYTES,
            links,
        }
    }

    /// Returns the held directory.
    fn into_held(self) -> HeldFolder {
        HeldFolder {
            root: self.root.to_owned(),
            digest: OnceLock::new(),
            files: self.files,
            beside: None,
        }
    }

    /// Skips an entry that cannot be held, if symlinks are followed; otherwise fails.
    fn pass_over(&mut self, fault: ProjectError, names: &[String]) -> Result<(), ProjectError> {
        let Some(links) = &mut self.links else {
            return Err(fault);
        };
        links.refused.push(fault);
        self.files.insert(names.to_vec(), Cow::Borrowed(&[]));
        Ok(())
    }

    /// Reads the target of a symlink within the project, under the name of the symlink.
    fn walk_link(&mut self, path: &Path, names: &mut Vec<String>) -> Result<(), ProjectError> {
        let opened = match &self.links {
            Some(links) if !links.is_inside => links.open_path(path),
            _ => Err(other_kind(path)),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(fault) => return self.pass_over(fault, names),
        };
        let mode = rustix::fs::fstat(&opened).map_err(|errno| unreadable_project(path, errno))?;
        match FileType::from_raw_mode(mode.st_mode) {
            FileType::Directory => {
                self.set_inside(true);
                let read = self.walk_folder(opened.as_fd(), names);
                self.set_inside(false);
                read
            }
            FileType::RegularFile => self.walk_file(opened, path, names),
            _ => self.pass_over(other_kind(path), names),
        }
    }

    fn set_inside(&mut self, is_inside: bool) {
        if let Some(links) = &mut self.links {
            links.is_inside = is_inside;
        }
    }

    /// Reads the entries of an open directory. Each entry is opened relative to it, without
    /// following symlinks.
    fn walk_folder(
        &mut self,
        own: BorrowedFd<'_>,
        above: &mut Vec<String>,
    ) -> Result<(), ProjectError> {
        let place = self.path_of(above);
        if above.len() >= MAX_DEPTH {
            let why = format!("is deeper than {MAX_DEPTH} folders");
            return Err(refuse_project(&place, why));
        }
        for entry in Dir::read_from(own).map_err(|e| unreadable_project(&place, e))? {
            let entry = entry.map_err(|e| unreadable_project(&place, e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(text) = name.to_str() else {
                let shown = name.to_string_lossy();
                let fault =
                    refuse_project(&place.join(shown.as_ref()), "has a name that is not UTF-8");
                above.push(shown.into_owned());
                self.pass_over(fault, above)?;
                above.pop();
                continue;
            };
            above.push(text.to_owned());
            self.walk_entry(own, name, above)?;
            above.pop();
        }
        Ok(())
    }

    fn walk_entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        names: &mut Vec<String>,
    ) -> Result<(), ProjectError> {
        let path = self.path_of(names);
        let failed = |errno| match errno {
            Errno::LOOP | Errno::MLINK => other_kind(&path),
            errno => unreadable_project(&path, errno),
        };
        // Check the type before opening: opening a device or a pipe can have side effects.
        let is_plain = |mode| {
            matches!(
                FileType::from_raw_mode(mode),
                FileType::Directory | FileType::RegularFile
            )
        };
        let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink && self.links.is_some() {
            return self.walk_link(&path, names);
        }
        if !is_plain(found.st_mode) {
            return self.pass_over(other_kind(&path), names);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(errno) => return self.pass_over(failed(errno), names),
        };
        // fstat the opened descriptor, not the path: the file may have been swapped.
        let mode = rustix::fs::fstat(&opened).map_err(failed)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => self.walk_folder(opened.as_fd(), names),
            FileType::RegularFile => self.walk_file(opened, &path, names),
            _ => self.pass_over(other_kind(&path), names),
        }
    }

    fn walk_file(
        &mut self,
        opened: OwnedFd,
        path: &Path,
        names: &[String],
    ) -> Result<(), ProjectError> {
        if self.files.len() >= MAX_FILES {
            let why = format!("has more than {MAX_FILES} files");
            return Err(refuse_project(self.root, why));
        }
        let mut content = Vec::new();
        let n_read = File::from(opened)
            .take(self.bytes_left + 1)
            .read_to_end(&mut content)
            .map_err(|e| refuse_project(path, format!("cannot be read: {e}")))?;
        self.bytes_left = self.bytes_left.checked_sub(n_read as u64).ok_or_else(|| {
            refuse_project(self.root, format!("has more than {} MiB", MAX_BYTES >> 20))
        })?;
        self.files.insert(names.to_vec(), content.into());
        Ok(())
    }

    fn path_of(&self, names: &[String]) -> PathBuf {
        self.root.join(names.iter().collect::<PathBuf>())
    }
}

fn unreadable_project(path: &Path, errno: Errno) -> ProjectError {
    refuse_project(path, format!("cannot be read: {errno}"))
}

fn other_kind(path: &Path) -> ProjectError {
    refuse_project(
        path,
        "is neither a file nor a folder; links and devices are refused here",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn digest(root: &Path) -> String {
        HeldFolder::read(root).unwrap().digest().to_owned()
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
        let held = HeldFolder::read(root.path()).unwrap();
        write(root.path(), "plugins/a/plugin.toml", "two");
        write(root.path(), "plugins/b/plugin.toml", "two");
        let plugins = root.path().join("plugins");
        let manifest = plugins.join("a/plugin.toml");
        assert_eq!(held.file(&manifest), Some(&b"one"[..]));
        assert_eq!(held.folders_in(&plugins), [plugins.join("a")]);
        assert_eq!(held.file(&plugins.join("b/plugin.toml")), None);
        assert!(held.covers(&manifest));
        assert_eq!(held.file(&root.path().join("../x")), None);
    }

    #[test]
    fn of_two_folders_each_answers_for_its_own_paths() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/plugin.toml", "read");
        let read = HeldFolder::read(root.path()).unwrap();
        let digest = read.digest().to_owned();
        let file = |name: &str| vec![name.to_owned(), "plugin.toml".to_owned()];
        let carried = [(file("a"), &b"carried"[..]), (file("b"), b"too")];
        let program = PathBuf::from("/usr/bin/rind/plugins");
        let both =
            HeldFolder::from_embedded(program.clone(), carried).with_other(Some(Arc::new(read)));
        assert_eq!(
            both.file(&program.join("a/plugin.toml")),
            Some(&b"carried"[..])
        );
        assert_eq!(
            both.file(&root.path().join("a/plugin.toml")),
            Some(&b"read"[..])
        );
        assert_eq!(both.file(&root.path().join("b/plugin.toml")), None);
        assert_eq!(
            both.folders_in(&program),
            [program.join("a"), program.join("b")]
        );
        assert_eq!(both.folders_in(root.path()), [root.path().join("a")]);
        assert_eq!(both.file_names_in(&root.path().join("a")), ["plugin.toml"]);
        assert!(!both.covers(Path::new("/usr/bin")));
        assert_ne!(both.digest(), digest);
    }

    #[test]
    fn links_pipes_and_sockets_are_refused_and_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let refusal = || HeldFolder::read(root.path()).unwrap_err().to_string();
        std::os::unix::fs::symlink("/etc", root.path().join("plugins")).unwrap();
        assert!(refusal().contains("neither a file nor a folder"));
        let error = HeldFolder::read(&root.path().join("plugins"));
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
