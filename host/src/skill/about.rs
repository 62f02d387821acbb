//! Skills about certain files: which of them a file of the workspace belongs to.
//!
//! Patterns are read as those of Claude Code are: `*` stays within a folder, a pattern without `/` is for files of any folder, one
//! that names a folder is for everything in it. A pattern becomes one automaton, braces included, so that none of them multiplies.

use std::sync::Arc;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::catalogue::described;
use super::model::Skill;
use super::snapshot::Skills;

/// Compiled patterns of one skill.
#[derive(Clone, Debug)]
pub(super) struct About {
    skill: Arc<Skill>,
    files: GlobSet,
}

impl About {
    /// Compiles the patterns of a skill; `None` when it has none.
    pub(super) fn new(skill: &Arc<Skill>) -> Option<Self> {
        if skill.paths.is_empty() {
            return None;
        }
        let mut files = GlobSetBuilder::new();
        // The reader has refused those that are no patterns.
        for glob in skill.paths.iter().flat_map(|pattern| globs(pattern)) {
            files.add(glob);
        }
        Some(Self {
            skill: skill.clone(),
            files: files.build().ok()?,
        })
    }
}

/// A pattern for the files that it names, and one for everything in the folders that it names.
fn globs(pattern: &str) -> Vec<Glob> {
    let plain = pattern.trim().trim_start_matches("./");
    let named = plain.trim_end_matches('/');
    let anchored = match named.strip_prefix('/') {
        Some(below) => below.to_owned(),
        None if named.contains('/') => named.to_owned(),
        None => format!("**/{named}"),
    };
    let glob = |text: &str| GlobBuilder::new(text).literal_separator(true).build().ok();
    let files = glob(&anchored).filter(|_| !plain.ends_with('/'));
    let below = glob(&format!("{anchored}/**"));
    files.into_iter().chain(below).collect()
}

impl Skills {
    /// Returns the skills that the model may start and that are about a file, by its path from the workspace.
    pub fn about<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<Skill>> {
        let matching = self.all_about().iter();
        let matching = matching.filter(move |about| about.files.is_match(path));
        matching.map(|about| &about.skill)
    }

    /// Returns the entry of a skill for the model, as the catalogue has it: `NAME: DESCRIPTION`.
    #[must_use]
    pub fn entry(skill: &Skill) -> String {
        format!("{}: {}", skill.id, described(skill).text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let mut set = GlobSetBuilder::new();
        globs(pattern).into_iter().for_each(|glob| {
            set.add(glob);
        });
        set.build().unwrap().is_match(path)
    }

    #[test]
    fn patterns_mean_what_they_mean_elsewhere() {
        for (pattern, yes, no) in [
            ("*.rs", "src/deep/a.rs", "a.rst"),
            ("src/*.rs", "src/a.rs", "src/deep/a.rs"),
            ("src/**/*.rs", "src/deep/a.rs", "tests/a.rs"),
            ("src/**", "src/a", "srcs/a"),
            ("src", "lib/src/a/b", "source/a"),
            ("/src", "src/a", "lib/src/a"),
            ("src/", "src/a", "src"),
            ("./docs/*.md", "docs/a.md", "docs/deep/a.md"),
            ("*.{ts,tsx}", "a/b.tsx", "a/b.js"),
            ("{src,lib}/**", "lib/a", "bin/a"),
            ("**", "a/b/c", ""),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(no.is_empty() || !matches(pattern, no), "{pattern} {no}");
        }
    }
}
