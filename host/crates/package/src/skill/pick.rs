//! Finds the skills in a source, and selects the files that belong to each skill.
//!
//! A directory that contains a `SKILL.md` is a skill. If it contains only the usual files of a
//! skill, the complete directory is installed. If it also contains other files, it counts as a
//! project that includes a skill. In this case, only the `SKILL.md`, the directories that the skill
//! format defines, and the files that the text of the `SKILL.md` mentions are installed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};

use super::super::contents::FileContentsByPath;
use super::tree::{SkillSourceEntryKind, SkillSourceTree, skipped_path_prefix_len};
use rind_lib::skill::{
    self, MAX_FILE_BYTES, SKILL_FILE_NAME, SKILL_JSON_FILE_NAME, is_skipped_folder_name,
    read_front_matter_name,
};

/// Maximum size of a skill in bytes. The largest skill seen so far contains fonts of 6 MB.
const MAX_SKILL_BYTES: u64 = 32 << 20;

/// Maximum number of files of a skill.
const MAX_FILES_PER_SKILL: usize = 2_000;

/// Maximum depth at which a skill's directory is searched for in a source.
const MAX_SKILL_FOLDER_DEPTH: usize = 8;

/// Maximum number of skills in a source.
const MAX_SKILLS_PER_SOURCE: usize = 1_000;

/// Directories that are usual in a skill, by the skill format or by convention.
const COMMON_SKILL_SUBFOLDERS: [&str; 7] = [
    "assets",
    "examples",
    "reference",
    "references",
    "resources",
    "scripts",
    "templates",
];

/// Directory with a skill's test cases, or with the tests of a project.
const TESTS_FOLDER_NAME: &str = "tests";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillCandidate {
    pub name: String,
    /// Path of the skill's directory in the source; empty if the source itself is the skill.
    pub at: Vec<String>,
    /// File name of the skill's `SKILL.md`, possibly in another case.
    file: String,
}

#[derive(Debug)]
pub struct SkillCandidateFiles {
    pub files: FileContentsByPath,
    pub file: String,
    /// Files and directories next to the `SKILL.md` that are not installed, each with the number of
    /// files in it.
    pub left_out: BTreeMap<String, usize>,
}

impl SkillCandidate {
    /// Whether the user's argument `word` selects this skill, by name or by directory in the
    /// source.
    pub fn is_selected_by_argument(&self, word: &str) -> bool {
        let folder = word.strip_prefix("./").unwrap_or(word);
        self.name == word || self.folder_path_in_source() == folder.trim_end_matches('/')
    }

    /// Whether a file or directory with this name is usual in a skill.
    fn is_conventional_entry_name(&self, name: &str) -> bool {
        name == self.file
            || [SKILL_JSON_FILE_NAME, TESTS_FOLDER_NAME].contains(&name)
            || COMMON_SKILL_SUBFOLDERS.contains(&name)
            || ["license", "readme"]
                .iter()
                .any(|kind| is_document_file_name(name, kind))
    }

    /// Returns the skill's directory in the source, to be shown to users.
    pub fn folder_path_in_source(&self) -> String {
        match self.at.is_empty() {
            true => ".".to_owned(),
            false => self.at.join("/"),
        }
    }
}

/// Skills in a source, and files that only look like skills.
#[derive(Debug)]
pub struct SkillCandidates {
    /// Skills that were found in the source, sorted by name.
    pub all: Vec<SkillCandidate>,
    /// Paths of `SKILL.md` files that lie directly in a directory of skills named `skills`. Such a
    /// file is a table of contents, not a skill.
    pub indexes: Vec<String>,
}

/// Finds the skills in a source.
pub async fn find_skill_candidates(tree: &SkillSourceTree) -> anyhow::Result<SkillCandidates> {
    let mut found: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for (names, kind) in &tree.listed {
        let Some((file, folder)) = names.split_last() else {
            continue;
        };
        if *kind != SkillSourceEntryKind::File
            || !file.eq_ignore_ascii_case(SKILL_FILE_NAME)
            || folder.len() > MAX_SKILL_FOLDER_DEPTH
            || skipped_path_prefix_len(folder).is_some()
        {
            continue;
        }
        let known = found.entry(folder.to_vec()).or_insert_with(|| file.clone());
        if file == SKILL_FILE_NAME {
            known.clone_from(file);
        }
    }
    let is_index = |folder: &Vec<String>| {
        let is_around =
            |other: &Vec<String>| other.len() > folder.len() && other.starts_with(folder);
        folder
            .last()
            .is_some_and(|name| name == skill::SKILLS_FOLDER_NAME)
            && found.keys().any(is_around)
    };
    let indexes: Vec<Vec<String>> = found
        .keys()
        .filter(|folder| is_index(folder))
        .cloned()
        .collect();
    found.retain(|folder, _| !indexes.contains(folder));
    // A `SKILL.md` inside the directory of another skill is a template or an example.
    let folders: BTreeSet<Vec<String>> = found.keys().cloned().collect();
    found.retain(|folder, _| {
        let is_within =
            (1..folder.len()).any(|n| folder.get(..n).is_some_and(|above| folders.contains(above)));
        let is_of_root = folders.contains(&Vec::new())
            && folder
                .first()
                .is_some_and(|first| COMMON_SKILL_SUBFOLDERS.contains(&first.as_str()));
        !is_within && !is_of_root
    });
    ensure!(
        found.len() <= MAX_SKILLS_PER_SOURCE,
        "there are more than {MAX_SKILLS_PER_SOURCE} skills; name a folder with fewer"
    );
    let mut candidates = Vec::new();
    for (at, file) in found {
        let name = match at.last() {
            Some(name) => name.clone(),
            // A directory's name is the name of the skill. For a repository or archive, whose name
            // often differs from the skill's, the name in the front matter is used.
            None if tree.is_local_folder() => tree.name.clone(),
            None => {
                let names = vec![file.clone()];
                let files = tree
                    .read_files(std::slice::from_ref(&names), MAX_FILE_BYTES as u64)
                    .await?;
                let text = files
                    .get(&names)
                    .map(|bytes| String::from_utf8_lossy(bytes));
                text.and_then(|text| read_front_matter_name(&text))
                    .unwrap_or_else(|| tree.name.clone())
            }
        };
        candidates.push(SkillCandidate { name, at, file });
    }
    candidates.sort_by(|a, b| (&a.name, &a.at).cmp(&(&b.name, &b.at)));
    let indexes = indexes
        .iter()
        .map(|folder| format!("{}/{SKILL_FILE_NAME}", folder.join("/")));
    Ok(SkillCandidates {
        all: candidates,
        indexes: indexes.collect(),
    })
}

/// Reads the files of a skill: the complete directory if `is_whole`, otherwise only the files that
/// belong to the skill. Fails if a selected file is a symlink or another special file.
pub async fn read_skill_bundle(
    tree: &SkillSourceTree,
    candidate: &SkillCandidate,
    is_whole: bool,
) -> anyhow::Result<SkillCandidateFiles> {
    let within = |names: &Vec<String>| {
        names
            .strip_prefix(candidate.at.as_slice())
            .map(<[String]>::to_vec)
    };
    let inner: BTreeMap<Vec<String>, (&Vec<String>, &SkillSourceEntryKind)> = tree
        .listed
        .iter()
        .filter_map(|(names, kind)| Some((within(names)?, (names, kind))))
        .collect();
    let mut tops = inner.keys().filter_map(|names| names.first());
    let is_project = !is_whole
        && tops
            .any(|top| !is_skipped_folder_name(top) && !candidate.is_conventional_entry_name(top));
    let cited = match is_project {
        true => {
            let names = candidate.at.iter().chain([&candidate.file]);
            let names: Vec<String> = names.cloned().collect();
            let files = tree
                .read_files(std::slice::from_ref(&names), MAX_FILE_BYTES as u64)
                .await?;
            let text = files
                .get(&names)
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            find_path_like_words(&text.unwrap_or_default())
        }
        false => BTreeSet::new(),
    };
    let belongs = |names: &[String]| {
        let first = names.first().map(String::as_str).unwrap_or_default();
        let is_own = first == candidate.file
            || first == SKILL_JSON_FILE_NAME
            || is_document_file_name(first, "license");
        !names.iter().any(|name| is_skipped_folder_name(name))
            && (!is_project
                || (names.len() == 1 && is_own)
                || (names.len() > 1 && COMMON_SKILL_SUBFOLDERS.contains(&first))
                || skill_text_mentions_path(names, &cited))
    };
    let mut wanted = Vec::new();
    let mut left_out = BTreeMap::new();
    for (inner, (names, kind)) in &inner {
        if !belongs(inner) {
            let first = inner.first().cloned().unwrap_or_default();
            let is_folder = inner.len() > 1 || **kind == SkillSourceEntryKind::Hidden;
            let shown = if is_folder { first + "/" } else { first };
            *left_out.entry(shown).or_default() += 1;
            continue;
        }
        if let SkillSourceEntryKind::Odd(what) = kind {
            let shown = names.join("/");
            bail!(
                "`{}` {what}; skills may contain only regular files",
                shown.escape_debug()
            );
        }
        if let Some(bad) = inner.iter().find(|name| name.chars().any(char::is_control)) {
            bail!(
                "`{}` has control characters in its name",
                bad.escape_debug()
            );
        }
        wanted.push((*names).clone());
        ensure!(
            wanted.len() <= MAX_FILES_PER_SKILL,
            "it has more than {MAX_FILES_PER_SKILL} files"
        );
    }
    let files = tree.read_files(&wanted, MAX_SKILL_BYTES).await?;
    let inner = |mut names: Vec<String>| names.split_off(candidate.at.len());
    Ok(SkillCandidateFiles {
        files: files
            .into_iter()
            .map(|(names, bytes)| (inner(names), bytes))
            .collect(),
        file: candidate.file.clone(),
        left_out,
    })
}

/// Returns the words of a text that may be paths, in lower case. A `/` at the end of a word, which
/// marks a directory, is kept.
fn find_path_like_words(text: &str) -> BTreeSet<String> {
    let is_in_path = |c: char| c.is_alphanumeric() || "-_./+".contains(c);
    let words = text.split(|c: char| !is_in_path(c));
    let paths = words.map(|word| {
        word.trim_start_matches("./")
            .trim_start_matches('/')
            .trim_end_matches('.')
    });
    paths
        .filter(|path| !path.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether `cited`, the lower-case paths that a skill mentions, contains the file with the path
/// components `names` or one of its parent directories.
fn skill_text_mentions_path(names: &[String], cited: &BTreeSet<String>) -> bool {
    let path = names.join("/").to_lowercase();
    let mut folders = path
        .match_indices('/')
        .filter_map(|(at, _)| path.get(..=at));
    cited.contains(&path) || folders.any(|folder| cited.contains(folder))
}

/// Whether `name` is the file name of a document such as `license`, with any extension.
fn is_document_file_name(name: &str, kind: &str) -> bool {
    name.to_lowercase().starts_with(kind)
}

#[cfg(test)]
mod tests {
    use super::super::super::archive::ArchiveEntries;
    use super::*;

    fn tree(paths: &[&str], root: &str) -> SkillSourceTree {
        let names = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let content = |path: &str| {
            if path == SKILL_FILE_NAME {
                root.as_bytes().to_vec()
            } else {
                b"x".to_vec()
            }
        };
        SkillSourceTree::from_archive_entries(
            ArchiveEntries {
                files: paths
                    .iter()
                    .map(|path| (names(path), content(path)))
                    .collect(),
                ..ArchiveEntries::default()
            },
            "source.tar.gz",
        )
    }

    async fn found(paths: &[&str], root: &str) -> Vec<String> {
        let found = find_skill_candidates(&tree(paths, root)).await.unwrap().all;
        found
            .iter()
            .map(|one| format!("{} {}", one.name, one.folder_path_in_source()))
            .collect()
    }

    #[tokio::test]
    async fn skills_are_found_where_people_keep_them_and_not_in_others() {
        let front = "---\nname: top-one\ndescription: d\n---\nx\n";
        let paths = [
            "SKILL.md",
            "README.md",
            "references/SKILL.md",
            "skills/a/SKILL.md",
            "skills/a/templates/b/SKILL.md",
            ".claude/skills/c/skill.md",
            "plugins/p/skills/d/SKILL.md",
            ".hidden/e/SKILL.md",
            "node_modules/f/SKILL.md",
        ];
        assert_eq!(
            found(&paths, front).await,
            [
                "a skills/a",
                "c .claude/skills/c",
                "d plugins/p/skills/d",
                "top-one ."
            ]
        );
        assert_eq!(
            found(&["SKILL.md", "x"], "no front matter").await,
            ["source ."]
        );
        assert_eq!(found(&["pdf/SKILL.md", "pdf/x"], "").await, ["pdf ."]);
        assert_eq!(
            found(&["a/SKILL.md", "b/SKILL.md"], "").await,
            ["a a", "b b"]
        );
    }

    #[tokio::test]
    async fn a_skill_at_the_top_of_a_project_does_not_drag_it_in() {
        let text = "---\nname: it\ndescription: d\n---\nRun {baseDir}/tools/run.py, see [docs](./docs/use.md).\n";
        let paths = [
            "SKILL.md",
            "Cargo.toml",
            "src/main.rs",
            "src/lib.rs",
            "scripts/a.sh",
            "references/r.md",
            "tools/run.py",
            "tools/x.py",
            "docs/use.md",
            "LICENSE",
            ".env",
        ];
        let tree = tree(&paths, text);
        let candidate = find_skill_candidates(&tree).await.unwrap().all.remove(0);
        let bundle = read_skill_bundle(&tree, &candidate, false).await.unwrap();
        let taken: Vec<String> = bundle.files.keys().map(|names| names.join("/")).collect();
        assert_eq!(
            taken,
            [
                "LICENSE",
                "SKILL.md",
                "docs/use.md",
                "references/r.md",
                "scripts/a.sh",
                "tools/run.py"
            ]
        );
        let left_out: Vec<_> = bundle
            .left_out
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        assert_eq!(left_out, [".env 1", "Cargo.toml 1", "src/ 2", "tools/ 1"]);
    }
}
