//! Parses the file of a skill: `corteza.skill/v1`, the open Agent Skills format, and the keys that
//! Claude Code adds.
//!
//! Lenient parsing never loosens a restriction: anything that a faulty value may have been meant to
//! forbid is forbidden. A skill with a fault can be started by the user only and skips no approval
//! questions; a file whose text or format cannot be determined is not loaded at all. Start from
//! [`SkillFile`].

mod describe;
mod diagnose;
mod fields;
mod front;
mod keys;
mod limits;
mod parts;
mod requires;
mod tools;
mod values;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icu_normalizer::ComposingNormalizerBorrowed;

use super::model::{Diagnostic, Severity, Skill, Source, UnusableSkill};
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;
use crate::text::is_deceptive_character;
use diagnose::SkillFileDiagnostics;
use front::FrontMatterSearchResult;
pub use keys::list_known_keys;
pub(super) use parts::ParsedSkillFileParts;
pub(super) use tools::{claude_tool_names, is_claude_tool};

/// Identifier of the format with its version, the value of `skill_format`.
pub const FORMAT: &str = "corteza.skill/v1";

/// Maximum size of a skill's file, in bytes; the largest seen in the wild has 293 KB.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Maximum length of the name of a skill's directory or flat file, in characters.
const MAX_ID_CHARS: usize = 64;

/// File of a skill, not yet parsed, and the location of the file.
#[derive(Clone, Debug)]
pub struct SkillFile<'a> {
    /// Name of the skill's directory, or of a flat file without its extension.
    pub folder: &'a str,
    /// Directory that contains the file, as it was found; the path may contain symlinks.
    pub dir: &'a Path,
    /// Canonical path of the directory that contains the file.
    pub real_dir: &'a Path,
    /// In-memory copy of the bundle; if set, files of the bundle are read only from it, never from
    /// disk.
    pub held: Option<&'a Arc<InMemoryFolder>>,
    /// Path of the skill's file.
    pub file: &'a Path,
    /// Whether the skill is a single Markdown file, without a folder of its own.
    pub is_flat: bool,
    /// Location where the file was found.
    pub source: &'a Source,
    /// Trust level of the location.
    pub trust: Trust,
    /// Content of the file.
    pub bytes: &'a [u8],
    /// Content of `SKILL.json` next to the file; this side file is used by the format that preceded
    /// `corteza.skill/v1`.
    pub side: Option<&'a [u8]>,
}

impl SkillFile<'_> {
    /// Parses the skill.
    ///
    /// # Errors
    /// The file cannot be used; the last diagnostic is the reason.
    pub fn parse(&self) -> Result<Skill, UnusableSkill> {
        let mut reader = SkillFileDiagnostics::default();
        self.read(&mut reader).map_err(|fault| {
            reader.diagnostics.push(fault);
            UnusableSkill {
                id: self.id(),
                file: self.file.to_owned(),
                source: self.source.clone(),
                trust: self.trust,
                diagnostics: reader.diagnostics,
            }
        })
    }

    /// Returns the id of the skill: the name of the directory or flat file, after `PLUGIN:` if the
    /// skill belongs to a plugin.
    #[must_use]
    pub fn id(&self) -> String {
        match self.source.plugin_name() {
            None => self.folder.to_owned(),
            Some(plugin) => format!("{plugin}:{}", self.folder),
        }
    }

    fn read(&self, reader: &mut SkillFileDiagnostics) -> Result<Skill, Diagnostic> {
        check_folder_name(self.folder, self.is_flat)?;
        let text = front::decode_text(self.bytes)?;
        let side = self.side.map(front::parse_skill_json_file).transpose()?;
        let (mut document, body) = match (front::find_front_matter(text), &side) {
            (FrontMatterSearchResult::Found(found), _) => {
                reader.n_before = found.n_before;
                if found.n_before > 0 {
                    reader.add_error(
                        (1, 1),
                        "the front matter does not stand at the top of the file",
                        "remove the empty lines before the first `---`",
                    );
                }
                (front::parse_front_matter(&found, reader)?, found.body)
            }
            (FrontMatterSearchResult::Missing(_), Some(_))
                if !front::has_misplaced_front_matter(text) =>
            {
                (Default::default(), text)
            }
            (FrontMatterSearchResult::Missing(fault), _)
            | (FrontMatterSearchResult::Unclosed(fault), _) => {
                return Err(fault);
            }
        };
        if let Some(side) = side {
            reader.add_note(
                (1, 1),
                "`SKILL.json` beside it is of a form without a version",
                "move its keys into the front matter of SKILL.md",
            );
            let missing = side.entries.into_iter();
            let missing: Vec<_> = missing.filter(|e| document.get(&e.key).is_none()).collect();
            document.entries.extend(missing);
        }
        let mut hasher = blake3::Hasher::new();
        for bytes in [Some(self.bytes), self.side].into_iter().flatten() {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        let hash = format!("blake3:{}", hasher.finalize().to_hex());
        fields::read_skill(self, &document, body, hash, reader)
    }
}

/// Checks the name of a skill's directory or flat file, which the user types and the model reads.
fn check_folder_name(folder: &str, is_flat: bool) -> Result<(), Diagnostic> {
    // Compose the name first (NFC): in file names from some systems, a letter and its accent are
    // separate characters.
    let folder = &*ComposingNormalizerBorrowed::new_nfc().normalize(folder);
    let is_plain =
        |c: char| (c.is_alphanumeric() || "-_. ".contains(c)) && !is_deceptive_character(c);
    let what = if is_flat { "file" } else { "folder" };
    let fault = if folder.is_empty() || folder.starts_with(['.', ' ']) || folder.ends_with(' ') {
        "does not begin and end with a letter or a digit".to_owned()
    } else if let Some(other) = folder.chars().find(|c| !is_plain(*c)) {
        format!("has the character `{}`", other.escape_debug())
    } else if folder.chars().count() > MAX_ID_CHARS {
        format!("has more than {MAX_ID_CHARS} characters")
    } else {
        return Ok(());
    };
    Err(Diagnostic {
        line: 1,
        column: 1,
        severity: Severity::Error,
        text: format!("the {what}'s name, which is the skill's, {fault}"),
        hint: format!("rename the {what}; a name is made of letters, digits, `-`, `_` and `.`"),
    })
}

/// Parses the text of a skill that has no bundle on disk. The skill gets the trust of the user's
/// own skills.
pub fn parse_text(folder: &str, text: &str) -> Result<Skill, UnusableSkill> {
    let dir = PathBuf::from(folder);
    let file = SkillFile {
        folder,
        dir: &dir,
        real_dir: &dir,
        held: None,
        file: &dir.join("SKILL.md"),
        is_flat: false,
        source: &Source::User,
        trust: Trust::User,
        bytes: text.as_bytes(),
        side: None,
    };
    file.parse()
}
