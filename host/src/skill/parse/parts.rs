//! Splits a skill's file into its parts, for code that rewrites the file.

use std::borrow::Cow;

use super::super::model::Diagnostic;
use super::SkillFile;
use super::diagnose::SkillFileDiagnostics;
use super::front::{self, FrontMatterSearchResult};
use crate::front_matter::{self, YamlDocument, YamlMappingEntry};

#[derive(Debug)]
pub(in crate::skill) struct ParsedSkillFileParts<'a> {
    /// Front matter with its opening line, with missing quotes added; `None` if there is none.
    pub(in crate::skill) front: Option<Cow<'a, str>>,
    /// Keys of the front matter.
    pub(in crate::skill) document: YamlDocument,
    /// Closing line of the front matter.
    pub(in crate::skill) fence: &'a str,
    pub(in crate::skill) body: &'a str,
    /// Keys and values of `SKILL.json`, without the keys that the front matter has as well.
    pub(in crate::skill) side: Vec<YamlMappingEntry>,
}

impl<'a> SkillFile<'a> {
    /// Splits the file into its parts.
    ///
    /// # Errors
    /// The text or the front matter cannot be read.
    pub(in crate::skill) fn split_into_parts(
        &self,
    ) -> Result<ParsedSkillFileParts<'a>, Diagnostic> {
        let text = front::decode_text(self.bytes)?;
        let side = self.side.map(front::parse_skill_json_file).transpose()?;
        let mut parts = match (front::find_front_matter(text), &side) {
            (FrontMatterSearchResult::Found(found), _) => {
                let document =
                    front::parse_front_matter(&found, &mut SkillFileDiagnostics::default())?;
                let front = match front_matter::parse_yaml_document(found.front) {
                    Ok(_) => Cow::Borrowed(found.front),
                    Err(_) => Cow::Owned(front::quote_invalid_scalars(found.front).0),
                };
                let head = text.get(..text.len() - found.body.len());
                let mut lines = head.unwrap_or_default().split_inclusive('\n');
                ParsedSkillFileParts {
                    front: Some(front),
                    document,
                    fence: lines.next_back().unwrap_or_default(),
                    body: found.body,
                    side: Vec::new(),
                }
            }
            (FrontMatterSearchResult::Missing(_), Some(_))
                if !front::has_misplaced_front_matter(text) =>
            {
                ParsedSkillFileParts {
                    front: None,
                    document: YamlDocument::default(),
                    fence: "",
                    body: text,
                    side: Vec::new(),
                }
            }
            (FrontMatterSearchResult::Missing(fault), _)
            | (FrontMatterSearchResult::Unclosed(fault), _) => {
                return Err(fault);
            }
        };
        let side = side.unwrap_or_default().entries.into_iter();
        parts.side = side
            .filter(|entry| parts.document.get(&entry.key).is_none())
            .collect();
        Ok(parts)
    }
}
