//! Finds the skills in the directories of the user, the project and the plugins.
//!
//! A directory with a `SKILL.md` is a bundle and owns everything in it: a nested `SKILL.md` is a
//! template or an example. Directories on disk belong to the user, and symlinks to bundles are
//! followed there; a project's directories are held in memory, without symlinks. `.gitignore` files
//! have no effect. Start from [`discover_skills`].

mod read;
mod walk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{Diagnostic, ProgramAndVariableLookup, Severity, Source, UnusableSkill};
use super::name::normalize_skill_name;
use super::origin::InstalledSkillRecord;
use super::snapshot::SessionSkills;
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;
pub use read::read_skill_content;
use walk::SkillDirectoryWalk;
pub use walk::is_skipped_folder_name;

/// Name of the directory of skills, in a plugin, in the user's settings directory and in `.rind`.
pub const SKILLS_FOLDER_NAME: &str = "skills";

/// Name of a skill's file.
pub const SKILL_FILE_NAME: &str = "SKILL.md";

/// Name of the JSON file next to `SKILL.md`, in which an older format without a version stores
/// keys.
pub const SKILL_JSON_FILE_NAME: &str = "SKILL.json";

/// Directory in which skills are searched, with the trust in them.
#[derive(Clone, Debug)]
pub struct SkillSearchDirectory {
    /// Kind of location that the directory is, such as the user's or a plugin's.
    pub source: Source,
    /// Trust in the skills of this directory.
    pub trust: Trust,
    /// Path of the directory. With [`Source::Local`], it may be a bundle itself.
    pub path: PathBuf,
    /// Copy of the directory's files in memory. If it is set, the files on disk are not used.
    pub held: Option<Arc<InMemoryFolder>>,
    /// Records of the installed skills in this directory.
    pub installed: Vec<InstalledSkillRecord>,
    /// Whether single Markdown files in subdirectories are skills too; set for presets of
    /// subagents.
    pub is_nested: bool,
}

impl SkillSearchDirectory {
    /// Creates the entry for a directory on disk in which the user keeps skills.
    #[must_use]
    pub fn new(source: Source, path: PathBuf) -> Self {
        Self {
            trust: source.trust_level(Trust::Local),
            source,
            path,
            held: None,
            installed: Vec::new(),
            is_nested: false,
        }
    }

    /// Creates the entry for a user's directory on disk, in whose subdirectories single Markdown
    /// files are skills too.
    #[must_use]
    pub fn with_nested_folders(source: Source, path: PathBuf) -> Self {
        Self {
            is_nested: true,
            ..Self::new(source, path)
        }
    }
}

/// Returns the user's directories: the one in the settings directory, and those in the home
/// directory that other programs also read.
#[must_use]
pub fn user_skill_roots(config: &Path, home: Option<&Path>) -> Vec<SkillSearchDirectory> {
    let mut roots = vec![SkillSearchDirectory::new(
        Source::User,
        config.join(SKILLS_FOLDER_NAME),
    )];
    if let Some(home) = home {
        roots.push(SkillSearchDirectory::new(
            Source::ClaudeUser,
            home.join(".claude").join(SKILLS_FOLDER_NAME),
        ));
        roots.push(SkillSearchDirectory::new(
            Source::AgentsUser,
            home.join(".agents").join(SKILLS_FOLDER_NAME),
        ));
    }
    roots
}

/// Returns the directories of a trusted project that are held in memory.
#[must_use]
pub fn project_skill_roots(
    workspace: &Path,
    held: &Arc<InMemoryFolder>,
) -> Vec<SkillSearchDirectory> {
    let folders = [
        (Source::Project, ".rind"),
        (Source::ClaudeProject, ".claude"),
        (Source::AgentsProject, ".agents"),
    ];
    let roots = folders
        .into_iter()
        .map(|(source, folder)| SkillSearchDirectory {
            held: Some(held.clone()),
            ..SkillSearchDirectory::new(source, workspace.join(folder).join(SKILLS_FOLDER_NAME))
        });
    roots
        .filter(|root| held.is_path_inside(&root.path))
        .collect()
}

/// File of a skill that the search has found. Its content has not been read yet.
struct FoundSkillFile<'a> {
    root: &'a SkillSearchDirectory,
    folder: String,
    dir: PathBuf,
    /// Canonical path of `dir`; `real_file` is that of `file`.
    real_dir: PathBuf,
    file: PathBuf,
    real_file: PathBuf,
    is_flat: bool,
}

/// Finds and reads the skills of all roots. `reserved` lists the names of the program's commands,
/// which no skill may have.
#[must_use]
pub fn discover_skills(
    roots: &[SkillSearchDirectory],
    reserved: &[&str],
    available: &dyn ProgramAndVariableLookup,
) -> SessionSkills {
    let mut order: Vec<&SkillSearchDirectory> = roots.iter().collect();
    order.sort_by(|a, b| (&a.source, &a.path).cmp(&(&b.source, &b.path)));
    let mut unusable = Vec::new();
    let mut found = Vec::new();
    for root in order {
        SkillDirectoryWalk::new(root, &mut found, &mut unusable).walk_root();
    }
    let reserved: BTreeSet<String> = reserved
        .iter()
        .map(|name| normalize_skill_name(name))
        .collect();
    let (mut seen, mut seen_unusable) = (BTreeSet::new(), BTreeSet::new());
    let mut skills = Vec::with_capacity(found.len());
    for (found, read) in found.iter().zip(read::read_skill_files(&found)) {
        let read =
            read.and_then(
                |skill| match reserved.contains(&normalize_skill_name(&skill.id)) {
                    false => Ok(skill),
                    true => {
                        let text = format!("`{}` is a command of rind", skill.id);
                        Err(found.root.create_unusable_skill(
                            &skill.id,
                            &skill.file,
                            text,
                            found.rename_hint(),
                        ))
                    }
                },
            );
        match read {
            // A file that was found under two paths, through symlinks, is only one skill.
            Ok(mut skill) if seen.insert(&found.real_file) => {
                skill.missing = skill.requires.missing_requirements(available);
                skills.push(skill);
            }
            Err(fault) if seen_unusable.insert(&found.real_file) => unusable.push(fault),
            _ => {}
        }
    }
    SessionSkills::new(skills, unusable)
}

impl SkillSearchDirectory {
    /// Creates the record of a file or directory in this search directory that cannot be used as a
    /// skill.
    fn create_unusable_skill(
        &self,
        id: &str,
        file: &Path,
        text: String,
        hint: &str,
    ) -> UnusableSkill {
        let (severity, hint) = (Severity::Error, hint.to_owned());
        UnusableSkill {
            id: id.to_owned(),
            file: file.to_owned(),
            source: self.source.clone(),
            trust: self.trust,
            diagnostics: vec![Diagnostic {
                line: 1,
                column: 1,
                severity,
                text,
                hint,
            }],
        }
    }
}

impl FoundSkillFile<'_> {
    /// Returns the hint for a skill with an invalid name: which file or folder to rename.
    fn rename_hint(&self) -> &'static str {
        match self.is_flat {
            true => "rename the file",
            false => "rename the folder",
        }
    }
}

#[cfg(test)]
mod tests;
