//! Finds the skills in all directories, with their origin.
//!
//! A directory with a `SKILL.md` is a bundle and owns everything in it: a nested `SKILL.md` is a
//! template or an example. Directories on disk belong to the user, and symlinks to bundles are
//! followed there; a project's directories are held in memory, without symlinks. `.gitignore` files
//! have no effect. Start from [`discover`].

mod read;
mod walk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{Available, Diagnostic, Severity, Source, Unusable};
use super::name::key;
use super::origin::Installed;
use super::snapshot::Skills;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
pub use read::read_content;
use walk::SkillWalk;
pub use walk::is_skipped;

/// Name of the directory of skills, in a plugin, in the user's settings directory and in `.rind`.
pub const FOLDER: &str = "skills";

/// Name of a skill's file.
pub const FILE: &str = "SKILL.md";

/// Name of the side file, used by the format without a version.
pub const SIDE_FILE: &str = "SKILL.json";

/// Directory of skills.
#[derive(Clone, Debug)]
pub struct Root {
    /// Kind of location.
    pub source: Source,
    /// Trust in the location.
    pub trust: Trust,
    /// Path of the directory. With [`Source::Local`], it may be a bundle itself.
    pub path: PathBuf,
    /// Content of the directory in memory, if only this content may be used and not the files on
    /// disk.
    pub held: Option<Arc<HeldFolder>>,
    /// Installed skills in this folder.
    pub installed: Vec<Installed>,
    /// Whether flat files in subdirectories are skills too; set for presets of subagents.
    pub is_nested: bool,
}

impl Root {
    /// Creates the root for a user's directory on disk.
    #[must_use]
    pub fn new(source: Source, path: PathBuf) -> Self {
        Self {
            trust: source.trust(Trust::Local),
            source,
            path,
            held: None,
            installed: Vec::new(),
            is_nested: false,
        }
    }

    /// Creates the root for a user's directory on disk whose flat files may be in subdirectories.
    #[must_use]
    pub fn nested(source: Source, path: PathBuf) -> Self {
        Self {
            is_nested: true,
            ..Self::new(source, path)
        }
    }
}

/// Returns the user's directories: the one in the settings directory, and those in the home
/// directory that other programs also read.
#[must_use]
pub fn user_roots(config: &Path, home: Option<&Path>) -> Vec<Root> {
    let mut roots = vec![Root::new(Source::User, config.join(FOLDER))];
    if let Some(home) = home {
        roots.push(Root::new(
            Source::ClaudeUser,
            home.join(".claude").join(FOLDER),
        ));
        roots.push(Root::new(
            Source::AgentsUser,
            home.join(".agents").join(FOLDER),
        ));
    }
    roots
}

/// Returns the directories of a trusted project that are held in memory.
#[must_use]
pub fn project_roots(workspace: &Path, held: &Arc<HeldFolder>) -> Vec<Root> {
    let folders = [
        (Source::Project, ".rind"),
        (Source::ClaudeProject, ".claude"),
        (Source::AgentsProject, ".agents"),
    ];
    let roots = folders.into_iter().map(|(source, folder)| Root {
        held: Some(held.clone()),
        ..Root::new(source, workspace.join(folder).join(FOLDER))
    });
    roots.filter(|root| held.covers(&root.path)).collect()
}

/// File of a skill that was found and is not yet read.
struct FoundFile<'a> {
    root: &'a Root,
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
pub fn discover(roots: &[Root], reserved: &[&str], available: &dyn Available) -> Skills {
    let mut order: Vec<&Root> = roots.iter().collect();
    order.sort_by(|a, b| (&a.source, &a.path).cmp(&(&b.source, &b.path)));
    let mut unusable = Vec::new();
    let mut found = Vec::new();
    for root in order {
        SkillWalk::new(root, &mut found, &mut unusable).walk_root();
    }
    let reserved: BTreeSet<String> = reserved.iter().map(|name| key(name)).collect();
    let (mut seen, mut seen_unusable) = (BTreeSet::new(), BTreeSet::new());
    let mut skills = Vec::with_capacity(found.len());
    for (found, read) in found.iter().zip(read::read_all(&found)) {
        let read = read.and_then(|skill| match reserved.contains(&key(&skill.id)) {
            false => Ok(skill),
            true => {
                let text = format!("`{}` is a command of rind", skill.id);
                Err(found
                    .root
                    .refuse_file(&skill.id, &skill.file, text, found.rename()))
            }
        });
        match read {
            // A file that is reachable under two names is one skill.
            Ok(mut skill) if seen.insert(&found.real_file) => {
                skill.missing = skill.requires.missing(available);
                skills.push(skill);
            }
            Err(fault) if seen_unusable.insert(&found.real_file) => unusable.push(fault),
            _ => {}
        }
    }
    Skills::new(skills, unusable)
}

impl Root {
    /// Returns the error for a file or directory of this root that is not a usable skill.
    fn refuse_file(&self, id: &str, file: &Path, text: String, hint: &str) -> Unusable {
        let (severity, hint) = (Severity::Error, hint.to_owned());
        Unusable {
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

impl FoundFile<'_> {
    /// Returns the remedy for an invalid name.
    fn rename(&self) -> &'static str {
        match self.is_flat {
            true => "rename the file",
            false => "rename the folder",
        }
    }
}

#[cfg(test)]
mod tests;
