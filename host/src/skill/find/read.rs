//! Reads the files of found skills, in parallel if there are many.
//!
//! An installed skill is read from its verified bytes, a skill in a directory that is kept in
//! memory from memory, and any other from disk.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::super::model::{Skill, UnusableSkill};
use super::super::origin::InstalledSkillRecord;
use super::super::parse::{MAX_FILE_BYTES, SkillFile};
use super::{FoundSkillFile, SKILL_JSON_FILE_NAME};
use crate::grant::held::InMemoryFolder;

/// Minimum number of skill files for which several threads are used to read them.
const MIN_FILES_FOR_PARALLEL_READ: usize = 64;

/// Reads and parses the skill files that a search found. The returned list is in the order of
/// `found`.
pub(super) fn read_skill_files(found: &[FoundSkillFile<'_>]) -> Vec<Result<Skill, UnusableSkill>> {
    let n_threads = match found.len() {
        ..MIN_FILES_FOR_PARALLEL_READ => 1,
        _ => std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
    };
    if n_threads == 1 {
        return found.iter().map(FoundSkillFile::read).collect();
    }
    let chunk = found.len().div_ceil(n_threads).max(1);
    std::thread::scope(|scope| {
        let parts = found.chunks(chunk);
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().map(FoundSkillFile::read).collect::<Vec<_>>()))
            .collect();
        let each = threads.into_iter().flat_map(|thread| {
            // Propagate a panic of the thread: if a skill were silently lost, another skill of the
            // same name would be used instead.
            let read = thread.join();
            read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        each.collect()
    })
}

impl FoundSkillFile<'_> {
    fn read(&self) -> Result<Skill, UnusableSkill> {
        let installed = self.installed_skill_record();
        // Read the verified bytes of an installed skill instead of the file on disk.
        let verified = installed.and_then(|installed| installed.files.as_ref());
        let held = verified.or(self.root.held.as_ref());
        let refuse = |why: String| {
            let id = match self.root.source.plugin_name() {
                None => self.folder.clone(),
                Some(plugin) => format!("{plugin}:{}", self.folder),
            };
            let hint = "make it a file that you can read";
            self.root.create_unusable_skill(&id, &self.file, why, hint)
        };
        let bytes =
            read_skill_content(&self.file, true, held.map(|held| &**held)).map_err(refuse)?;
        let bytes = bytes.ok_or_else(|| refuse("there is no such file".to_owned()))?;
        let side = self.dir.join(SKILL_JSON_FILE_NAME);
        let side = match self.is_flat {
            true => None,
            false => read_skill_content(&side, false, held.map(|held| &**held)).map_err(|why| {
                refuse(format!(
                    "`{SKILL_JSON_FILE_NAME}` in its folder cannot be used: {why}"
                ))
            })?,
        };
        let mut skill = SkillFile {
            folder: &self.folder,
            dir: &self.dir,
            real_dir: &self.real_dir,
            held,
            file: &self.file,
            is_flat: self.is_flat,
            source: &self.root.source,
            trust: match (installed, verified) {
                (Some(installed), Some(_)) => installed.trust,
                _ => self.root.trust,
            },
            bytes: &bytes,
            side: side.as_deref(),
        }
        .parse()?;
        skill.installed = installed.map(InstalledSkillRecord::origin);
        Ok(skill)
    }

    /// Returns the record of the skill's installation; `None` if it was not installed.
    fn installed_skill_record(&self) -> Option<&InstalledSkillRecord> {
        let mut installed = self.root.installed.iter();
        installed.find(|one| !self.is_flat && one.folder == self.dir)
    }
}

/// Reads a file; `None` if there is none. Follows a symlink only if `follows`, and refuses it
/// otherwise. A file that exists but cannot be read is an error, because it may contain a
/// restriction.
pub fn read_skill_content<'a>(
    path: &Path,
    follows: bool,
    held: Option<&'a InMemoryFolder>,
) -> Result<Option<Cow<'a, [u8]>>, String> {
    if let Some(held) = held {
        return Ok(held.file_content(path).map(Cow::Borrowed));
    }
    let told = |error: std::io::Error| format!("the file cannot be read: {error}");
    // `O_NONBLOCK`, because opening a pipe would wait for a writer.
    let link = if follows {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    let flags = (OFlags::NONBLOCK | link).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = match file {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(told)?,
    };
    let meta = file.metadata().map_err(told)?;
    if !meta.is_file() {
        return Err("the path is not a file".to_owned());
    }
    let size = usize::try_from(meta.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(size.min(MAX_FILE_BYTES) + 1);
    file.take(MAX_FILE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(told)?;
    Ok(Some(Cow::Owned(bytes)))
}
