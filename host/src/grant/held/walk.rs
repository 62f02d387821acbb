//! Reads a directory into memory, without following a symlink out of the directory or project.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::project::{ProjectTrustError, project_trust_error};
use super::{FolderReadLimits, InMemoryFolder, InMemoryFolderContent};
use crate::beneath::{self, MissingParentFolderHandling};

/// Maximum depth of the subdirectories that are read into memory.
const MAX_SUBFOLDER_DEPTH: usize = 16;

pub(super) struct InMemoryFolderReader<'a> {
    root: &'a Path,
    files: BTreeMap<Vec<String>, Cow<'static, [u8]>>,
    bounds: FolderReadLimits,
    bytes_left: u64,
    /// Project within which symlinks are followed; `None` if every symlink is refused.
    pub(super) links: Option<ProjectSymlinkResolver<'a>>,
}

/// Resolver of symlinks, which follows only those whose targets are in the project.
pub(super) struct ProjectSymlinkResolver<'a> {
    pub(super) project: &'a Path,
    pub(super) project_fd: OwnedFd,
    /// Files and directories that could not be read, each as an error with the reason.
    pub(super) refused: Vec<ProjectTrustError>,
    /// Whether the target of a symlink is being read. Further symlinks inside the target are not
    /// followed, because they could form a cycle.
    pub(super) is_inside: bool,
}

impl ProjectSymlinkResolver<'_> {
    /// Opens the target of a path without leaving the project.
    pub(super) fn open_target_within_project(
        &self,
        path: &Path,
    ) -> Result<OwnedFd, ProjectTrustError> {
        const ELSEWHERE: &str = "is a link out of the project, or a dangling link; files outside the project cannot be trusted";
        let below = path.strip_prefix(self.project).ok().and_then(Path::to_str);
        let below = below.ok_or_else(|| project_trust_error(path, ELSEWHERE))?;
        let walked = beneath::walk_path_beneath(
            &self.project_fd,
            below,
            true,
            MissingParentFolderHandling::Refused,
        );
        let walked = walked.map_err(|_| project_trust_error(path, ELSEWHERE))?;
        // Refuse a symlink to a directory that contains the symlink, because the directory would be
        // read into itself.
        let place = self.project.join(walked.names.iter().collect::<PathBuf>());
        if path != place && path.starts_with(&place) {
            return Err(project_trust_error(
                path,
                "is a link to one of its parent folders",
            ));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&walked.folder, walked.name.as_str(), flags, Mode::empty())
            .map_err(|errno| file_read_error(path, errno))
    }
}

impl<'a> InMemoryFolderReader<'a> {
    pub(super) fn new(
        root: &'a Path,
        links: Option<ProjectSymlinkResolver<'a>>,
        bounds: FolderReadLimits,
    ) -> Self {
        Self {
            root,
            files: BTreeMap::new(),
            bounds,
            bytes_left: bounds.bytes,
            links,
        }
    }

    /// Returns the contents of the directory that was read.
    pub(super) fn into_in_memory_folder(self) -> InMemoryFolder {
        InMemoryFolder {
            root: self.root.to_owned(),
            digest: OnceLock::new(),
            files: InMemoryFolderContent::Read(self.files),
            beside: None,
        }
    }

    /// Handles an entry that cannot be read. If this walk follows symlinks (`links` is set), stores
    /// the entry as an empty file and records the reason; otherwise returns the reason as an error.
    fn record_unreadable_entry(
        &mut self,
        fault: ProjectTrustError,
        names: &[String],
    ) -> Result<(), ProjectTrustError> {
        let Some(links) = &mut self.links else {
            return Err(fault);
        };
        links.refused.push(fault);
        self.files.insert(names.to_vec(), Cow::Borrowed(&[]));
        Ok(())
    }

    /// Reads the target of a symlink within the project, and stores it under the name of the
    /// symlink.
    fn walk_symlink(
        &mut self,
        path: &Path,
        names: &mut Vec<String>,
    ) -> Result<(), ProjectTrustError> {
        let opened = match &self.links {
            Some(links) if !links.is_inside => links.open_target_within_project(path),
            _ => Err(unsupported_file_type_error(path)),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(fault) => return self.record_unreadable_entry(fault, names),
        };
        let mode = rustix::fs::fstat(&opened).map_err(|errno| file_read_error(path, errno))?;
        match FileType::from_raw_mode(mode.st_mode) {
            FileType::Directory => {
                self.set_inside_symlink_flag(true);
                let read = self.walk_folder(opened.as_fd(), names);
                self.set_inside_symlink_flag(false);
                read
            }
            FileType::RegularFile => self.store_file_content(opened, path, names),
            _ => self.record_unreadable_entry(unsupported_file_type_error(path), names),
        }
    }

    fn set_inside_symlink_flag(&mut self, is_inside: bool) {
        if let Some(links) = &mut self.links {
            links.is_inside = is_inside;
        }
    }

    /// Reads the entries of an open directory. Each entry is opened relative to the directory,
    /// without following symlinks.
    pub(super) fn walk_folder(
        &mut self,
        own: BorrowedFd<'_>,
        above: &mut Vec<String>,
    ) -> Result<(), ProjectTrustError> {
        let place = self.entry_path(above);
        if above.len() >= MAX_SUBFOLDER_DEPTH {
            let why = format!("is deeper than {MAX_SUBFOLDER_DEPTH} folders");
            return Err(project_trust_error(&place, why));
        }
        for entry in Dir::read_from(own).map_err(|e| file_read_error(&place, e))? {
            let entry = entry.map_err(|e| file_read_error(&place, e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(text) = name.to_str() else {
                let shown = name.to_string_lossy();
                let fault = project_trust_error(
                    &place.join(shown.as_ref()),
                    "has a name that is not UTF-8",
                );
                above.push(shown.into_owned());
                self.record_unreadable_entry(fault, above)?;
                above.pop();
                continue;
            };
            if (self.bounds.leaves_out)(text) {
                continue;
            }
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
    ) -> Result<(), ProjectTrustError> {
        let path = self.entry_path(names);
        let failed = |errno| match errno {
            Errno::LOOP | Errno::MLINK => unsupported_file_type_error(&path),
            errno => file_read_error(&path, errno),
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
            return self.walk_symlink(&path, names);
        }
        if !is_plain(found.st_mode) {
            return self.record_unreadable_entry(unsupported_file_type_error(&path), names);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(errno) => return self.record_unreadable_entry(failed(errno), names),
        };
        // fstat the opened descriptor, not the path: the file may have been swapped.
        let mode = rustix::fs::fstat(&opened).map_err(failed)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => self.walk_folder(opened.as_fd(), names),
            FileType::RegularFile => self.store_file_content(opened, &path, names),
            _ => self.record_unreadable_entry(unsupported_file_type_error(&path), names),
        }
    }

    pub(super) fn store_file_content(
        &mut self,
        opened: OwnedFd,
        path: &Path,
        names: &[String],
    ) -> Result<(), ProjectTrustError> {
        if self.files.len() >= self.bounds.files {
            let why = format!("has more than {} files", self.bounds.files);
            return Err(project_trust_error(self.root, why));
        }
        let mut content = Vec::new();
        let n_read = File::from(opened)
            .take(self.bytes_left + 1)
            .read_to_end(&mut content)
            .map_err(|e| project_trust_error(path, format!("cannot be read: {e}")))?;
        self.bytes_left = self.bytes_left.checked_sub(n_read as u64).ok_or_else(|| {
            let why = format!("has more than {} MiB", self.bounds.bytes >> 20);
            project_trust_error(self.root, why)
        })?;
        self.files.insert(names.to_vec(), content.into());
        Ok(())
    }

    fn entry_path(&self, names: &[String]) -> PathBuf {
        self.root.join(names.iter().collect::<PathBuf>())
    }
}

pub(super) fn file_read_error(path: &Path, errno: Errno) -> ProjectTrustError {
    project_trust_error(path, format!("cannot be read: {errno}"))
}

pub(super) fn unsupported_file_type_error(path: &Path) -> ProjectTrustError {
    project_trust_error(
        path,
        "is neither a file nor a folder; links and devices are refused here",
    )
}
