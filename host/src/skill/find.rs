//! Finds skills in folders, with where each is from.
//!
//! A folder with a `SKILL.md` is a bundle, and what is in it is its own: a `SKILL.md` further in is a template or an example.
//! Folders on the disk are the user's own, and links to bundles are followed there; a project's are held in memory, where there
//! are no links. No `.gitignore` counts. Start from [`discover`].

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{Available, Diagnostic, Severity, Skill, Source, Unusable};
use super::name::key;
use super::origin::Installed;
use super::parse::{MAX_FILE_BYTES, SkillFile};
use super::snapshot::Skills;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;

/// Name of the folder of skills, in a plugin, beside the user's settings and in `.rind`.
pub const FOLDER: &str = "skills";

/// Name of a skill's file.
pub const FILE: &str = "SKILL.md";

/// Name of the file beside it in the form without a version.
const SIDE_FILE: &str = "SKILL.json";

/// Deepest folder in which a bundle is looked for.
const MAX_DEPTH: usize = 5;

/// Most folders of one root that are looked into.
const MAX_FOLDERS: usize = 2_000;

/// Number of files from which on several threads read them.
const MANY: usize = 64;

/// Folders that hold no skills of the folder that they are in.
const SKIPPED: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// Beginnings of names of files beside skills that are documents.
const DOCUMENTS: [&str; 6] = [
    "readme",
    "license",
    "changelog",
    "contributing",
    "agents",
    "claude",
];

/// A folder of skills.
#[derive(Clone, Debug)]
pub struct Root {
    /// Place that it is.
    pub source: Source,
    /// Trust in it.
    pub trust: Trust,
    /// Path of the folder. Of [`Source::Local`] it may be a bundle itself.
    pub path: PathBuf,
    /// Content, if it was read once and is only used as it was then.
    pub held: Option<Arc<HeldFolder>>,
    /// Skills in it that were installed.
    pub installed: Vec<Installed>,
}

impl Root {
    /// A folder of the user's on the disk.
    #[must_use]
    pub fn new(source: Source, path: PathBuf) -> Self {
        Self {
            trust: source.trust(Trust::Local),
            source,
            path,
            held: None,
            installed: Vec::new(),
        }
    }
}

/// Returns the user's folders: beside the settings, and those in the home folder that other programs read too.
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

/// Returns the folders of a trusted project that are held.
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

/// A file that was found and not yet read.
struct Found<'a> {
    root: &'a Root,
    folder: String,
    dir: PathBuf,
    file: PathBuf,
    is_flat: bool,
}

/// Finds and reads the skills of all roots. Names in `reserved` are commands of the program, which no skill may take.
#[must_use]
pub fn discover(roots: &[Root], reserved: &[&str], available: &dyn Available) -> Skills {
    let mut order: Vec<&Root> = roots.iter().collect();
    order.sort_by(|a, b| (&a.source, &a.path).cmp(&(&b.source, &b.path)));
    let mut unusable = Vec::new();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for root in order {
        let mut walk = Walk {
            root,
            found: Vec::new(),
            unusable: &mut unusable,
            n_folders: 0,
        };
        match &root.held {
            Some(held) => walk.held(held, &root.path, 0),
            None => walk.root(),
        }
        // The same file under two names is one skill.
        let new = walk
            .found
            .into_iter()
            .filter(|(_, real)| seen.insert(real.clone()));
        found.extend(new.map(|(found, _)| found));
    }
    let n_threads = match found.len() {
        ..MANY => 1,
        _ => std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
    };
    let chunk = found.len().div_ceil(n_threads).max(1);
    let read: Vec<Result<Skill, Unusable>> = if n_threads == 1 {
        found.iter().map(Found::read).collect()
    } else {
        std::thread::scope(|scope| {
            let parts = found.chunks(chunk);
            let threads: Vec<_> = parts
                .map(|part| scope.spawn(|| part.iter().map(Found::read).collect::<Vec<_>>()))
                .collect();
            // A thread that ends early is seen as files that cannot be read, which nothing here does.
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_default())
                .collect()
        })
    };
    let reserved: BTreeSet<String> = reserved.iter().map(|name| key(name)).collect();
    let mut skills = Vec::with_capacity(read.len());
    for one in read {
        match one {
            Ok(skill) if reserved.contains(&key(&skill.id)) => {
                let text = format!("`{}` is a command of rind", skill.id);
                unusable.push(refused(
                    &skill.id,
                    &skill.file,
                    &skill.source,
                    text,
                    "rename the folder",
                ));
            }
            Ok(mut skill) => {
                skill.missing = skill.requires.missing(available);
                skills.push(skill);
            }
            Err(fault) => unusable.push(fault),
        }
    }
    Skills::new(skills, unusable)
}

fn refused(id: &str, file: &Path, source: &Source, text: String, hint: &str) -> Unusable {
    let (severity, hint) = (Severity::Error, hint.to_owned());
    Unusable {
        id: id.to_owned(),
        file: file.to_owned(),
        source: source.clone(),
        diagnostics: vec![Diagnostic {
            line: 1,
            column: 1,
            severity,
            text,
            hint,
        }],
    }
}

impl Found<'_> {
    fn read(&self) -> Result<Skill, Unusable> {
        let installed = self.installed();
        // What was verified is what is read.
        let verified = installed.and_then(|installed| installed.files.as_deref());
        let held = verified.or(self.root.held.as_deref());
        let bytes = content(&self.file, held).map_err(|why| {
            let id = self.root.source.plugin();
            let id = id.map_or_else(
                || self.folder.clone(),
                |plugin| format!("{plugin}:{}", self.folder),
            );
            refused(
                &id,
                &self.file,
                &self.root.source,
                why,
                "make it a file that you can read",
            )
        })?;
        let side = self.dir.join(SIDE_FILE);
        let side = if self.is_flat {
            None
        } else {
            content(&side, held).ok()
        };
        let mut skill = SkillFile {
            folder: &self.folder,
            dir: &self.dir,
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
        skill.installed = installed.map(Installed::origin);
        Ok(skill)
    }

    /// The record of its installation.
    fn installed(&self) -> Option<&Installed> {
        let mut installed = self.root.installed.iter();
        installed.find(|one| !self.is_flat && one.folder == self.dir)
    }
}

fn content(path: &Path, held: Option<&HeldFolder>) -> Result<Vec<u8>, String> {
    if let Some(held) = held {
        return held
            .file(path)
            .map(<[u8]>::to_vec)
            .ok_or_else(|| "there is no such file".to_owned());
    }
    let told = |error: std::io::Error| format!("the file cannot be read: {error}");
    // Opening a pipe would wait for its writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err("this is no file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(told)?;
    Ok(bytes)
}

struct Walk<'a, 'b> {
    root: &'a Root,
    /// With the real path of each file.
    found: Vec<(Found<'a>, PathBuf)>,
    unusable: &'b mut Vec<Unusable>,
    n_folders: usize,
}

impl<'a> Walk<'a, '_> {
    fn root(&mut self) {
        let path = &self.root.path;
        let Ok(real) = fs::canonicalize(path) else {
            return;
        };
        if self.root.source == Source::Local {
            if real.is_file() {
                return self.flat(path.clone(), real);
            }
            if let Some(name) = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                && self.bundle(&name, path, &real)
            {
                return;
            }
        }
        self.folder(path, &real, 0);
    }

    fn refuse(&mut self, path: &Path, text: String, hint: &str) {
        let id = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        self.unusable
            .push(refused(&id, path, &self.root.source, text, hint));
    }

    /// Counts a folder; there is an end to them.
    fn is_too_many(&mut self) -> bool {
        self.n_folders += 1;
        if self.n_folders == MAX_FOLDERS + 1 {
            let text = format!(
                "there are more than {MAX_FOLDERS} folders here; the rest was not looked into"
            );
            let root = self.root;
            self.refuse(&root.path, text, "move what is no skill out of this folder");
        }
        self.n_folders > MAX_FOLDERS
    }

    fn folder(&mut self, path: &Path, real: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(path) else {
            if path.is_dir() {
                self.refuse(
                    path,
                    "the folder cannot be read".to_owned(),
                    "check its permissions",
                );
            }
            return;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (inner, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_skipped(&name) {
                continue;
            }
            let is_link = kind.is_symlink();
            // Links are followed for the bundles of a root; deeper ones could lead in circles.
            if is_link && depth > 0 {
                continue;
            }
            let Ok(real) = (if is_link {
                fs::canonicalize(&inner)
            } else {
                Ok(real.join(&name))
            }) else {
                self.refuse(
                    &inner,
                    "the link leads nowhere".to_owned(),
                    "remove the link",
                );
                continue;
            };
            let is_folder = if is_link {
                real.is_dir()
            } else {
                kind.is_dir()
            };
            if !is_folder {
                if depth == 0 && is_flat(&name) {
                    self.flat(inner, real);
                }
                continue;
            }
            if self.is_too_many() {
                return;
            }
            if !self.bundle(&name, &inner, &real) && depth + 1 < MAX_DEPTH {
                self.folder(&inner, &real, depth + 1);
            }
        }
    }

    /// Takes a folder as a bundle, if it is one.
    fn bundle(&mut self, name: &str, dir: &Path, real: &Path) -> bool {
        let mut file = dir.join(FILE);
        let mut meta = fs::symlink_metadata(&file);
        if meta.is_err() {
            let names = fs::read_dir(dir).into_iter().flatten().flatten();
            let mut names = names.map(|entry| entry.file_name());
            let other = names.find(|name| name.to_string_lossy().eq_ignore_ascii_case(FILE));
            let Some(other) = other else { return false };
            file = dir.join(other);
            meta = fs::symlink_metadata(&file);
        }
        let mut real_file = real.join(file.file_name().unwrap_or_default());
        if meta.is_ok_and(|meta| meta.is_symlink()) {
            match fs::canonicalize(&file) {
                Ok(target) if target.starts_with(real) => real_file = target,
                _ => {
                    let text = format!("`{FILE}` is a link that leads out of its folder");
                    self.refuse(
                        dir,
                        text,
                        "put the file itself into the folder, or link the whole folder",
                    );
                    return true;
                }
            }
        }
        let found = Found {
            root: self.root,
            folder: name.to_owned(),
            dir: dir.to_owned(),
            file,
            is_flat: false,
        };
        self.found.push((found, real_file));
        true
    }

    fn flat(&mut self, file: PathBuf, real: PathBuf) {
        let folder = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let dir = file.parent().unwrap_or(&self.root.path).to_owned();
        self.found.push((
            Found {
                root: self.root,
                folder,
                dir,
                file,
                is_flat: true,
            },
            real,
        ));
    }

    fn held(&mut self, held: &HeldFolder, path: &Path, depth: usize) {
        for name in held.file_names_in(path) {
            if depth == 0 && is_flat(&name) {
                let file = path.join(name);
                self.flat(file.clone(), file);
            }
        }
        for dir in held.folders_in(path) {
            let name = dir
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if is_skipped(&name) {
                continue;
            }
            if self.is_too_many() {
                return;
            }
            let names = held.file_names_in(&dir);
            let exact = names.iter().find(|name| *name == FILE);
            match exact.or_else(|| names.iter().find(|name| name.eq_ignore_ascii_case(FILE))) {
                Some(file) => {
                    let file = dir.join(file);
                    let found = Found {
                        root: self.root,
                        folder: name,
                        dir,
                        file: file.clone(),
                        is_flat: false,
                    };
                    self.found.push((found, file));
                }
                None if depth + 1 < MAX_DEPTH => self.held(held, &dir, depth + 1),
                None => {}
            }
        }
    }
}

fn is_skipped(name: &str) -> bool {
    name.starts_with('.') || SKIPPED.contains(&name)
}

/// Whether a file directly in a root is a skill by itself.
fn is_flat(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.ends_with(".md") && !DOCUMENTS.iter().any(|document| lower.starts_with(document))
}

#[cfg(test)]
mod tests;
