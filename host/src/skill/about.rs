//! Finds the skills that apply to a file of the workspace, by the patterns in their `paths`.
//!
//! Patterns follow the rules of Claude Code: `*` stays within a directory, a pattern without `/`
//! matches in any directory, and a pattern that names a directory matches everything in it. A
//! pattern is compiled to a single automaton, including its braces, so that nested braces cannot
//! multiply into many patterns.

use std::sync::Arc;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::catalogue::describe_skill;
use super::model::Skill;
use super::snapshot::SessionSkills;

/// A skill, and the compiled patterns of the files to which it applies (`paths`).
#[derive(Clone, Debug)]
pub(super) struct SkillWithPathPatterns {
    skill: Arc<Skill>,
    files: GlobSet,
}

impl SkillWithPathPatterns {
    /// Compiles the `paths` patterns of a skill; `None` if the skill has no patterns or the
    /// compilation fails.
    pub(super) fn new(skill: &Arc<Skill>) -> Option<Self> {
        if skill.paths.is_empty() {
            return None;
        }
        let mut files = GlobSetBuilder::new();
        // Invalid patterns are skipped, because the parser already reported them.
        for glob in skill
            .paths
            .iter()
            .flat_map(|pattern| path_pattern_to_globs(pattern))
        {
            files.add(glob);
        }
        Some(Self {
            skill: skill.clone(),
            files: files.build().ok()?,
        })
    }
}

/// Returns the globs for a pattern in `paths`: one that matches the files that the pattern names,
/// and one that matches all files in a directory that the pattern names.
fn path_pattern_to_globs(pattern: &str) -> Vec<Glob> {
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

impl SessionSkills {
    /// Returns the skills whose `paths` match a file and that the model may start. `path` is
    /// relative to the workspace.
    pub fn skills_for_path<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<Skill>> {
        let matching = self.skills_with_paths().iter();
        let matching = matching.filter(move |about| about.files.is_match(path));
        matching.map(|about| &about.skill)
    }

    /// Returns the description of a skill for the model, in the format of the catalogue: `NAME:
    /// DESCRIPTION`.
    #[must_use]
    pub fn catalogue_line(skill: &Skill) -> String {
        format!("{}: {}", skill.id, describe_skill(skill).text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let mut set = GlobSetBuilder::new();
        path_pattern_to_globs(pattern).into_iter().for_each(|glob| {
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
