//! Finds and removes audit logs of sessions that were removed. A log is kept when its session is
//! removed, so that nobody can hide actions by removing a session. The operator may remove old
//! logs.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rind_lib::paths::RindPaths;

/// Audit logs of sessions that no longer exist.
#[derive(Debug, Default)]
pub(in super::super) struct OrphanedAuditLogs {
    folders: Vec<PathBuf>,
    /// Total size of the logs, in bytes.
    pub(in super::super) bytes: u64,
}

impl OrphanedAuditLogs {
    /// Finds the logs that belong to none of the sessions `kept` and were last written before the
    /// time `before`, in milliseconds since 1970.
    ///
    /// # Errors
    /// The folder of logs cannot be read, or there is no folder of sessions.
    pub(in super::super) fn find_orphaned_logs(
        paths: &RindPaths,
        kept: &HashSet<String>,
        before: i64,
    ) -> anyhow::Result<Self> {
        let folder = super::all_audit_logs_folder(paths);
        let reading = || format!("cannot read the audit logs in {}", folder.display());
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(reading),
        };
        // Without this check, all logs would be removed if, for example, the disk with the sessions
        // is not mounted.
        if !paths.sessions().is_dir() {
            bail!(
                "there is no folder of sessions at {}, so no audit log is removed",
                paths.sessions().display()
            );
        }
        let since = Duration::from_millis(u64::try_from(before).unwrap_or(0));
        let before = SystemTime::UNIX_EPOCH + since;
        let mut left = Self::default();
        for entry in entries {
            let entry = entry.with_context(reading)?;
            let is_kept = entry
                .file_name()
                .to_str()
                .is_none_or(|id| kept.contains(id));
            // Skip symlinks, because a log is always a real directory.
            if is_kept || !entry.file_type().with_context(reading)?.is_dir() {
                continue;
            }
            let files = read_audit_log_metadata(&entry.path()).with_context(reading)?;
            let is_old = |file: &Metadata| file.modified().is_ok_and(|time| time < before);
            if files.iter().all(is_old) {
                left.bytes += files.iter().map(Metadata::len).sum::<u64>();
                left.folders.push(entry.path());
            }
        }
        Ok(left)
    }

    /// Returns the number of orphaned audit logs.
    pub(in super::super) fn len(&self) -> usize {
        self.folders.len()
    }

    /// Removes the audit logs that were found, except those of the sessions in `kept`. Returns how
    /// many logs were removed.
    ///
    /// # Errors
    /// A log cannot be removed. Earlier logs may have been removed already.
    pub(in super::super) fn remove_logs(&self, kept: &HashSet<String>) -> anyhow::Result<u64> {
        let mut n_removed = 0;
        for folder in &self.folders {
            let id = folder.file_name().and_then(|name| name.to_str());
            if id.is_none_or(|id| kept.contains(id)) {
                continue;
            }
            let removed = fs::remove_dir_all(folder);
            removed.with_context(|| format!("cannot remove the audit log {}", folder.display()))?;
            n_removed += 1;
        }
        Ok(n_removed)
    }
}

/// Returns the metadata of the files of a log, or of its folder if it has no files.
fn read_audit_log_metadata(folder: &Path) -> io::Result<Vec<Metadata>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.metadata()?);
    }
    if files.is_empty() {
        files.push(fs::metadata(folder)?);
    }
    Ok(files)
}
