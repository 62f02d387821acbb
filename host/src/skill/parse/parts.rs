//! Parts of a skill's file as they were written, for code that rewrites the file.

use std::borrow::Cow;

use super::super::model::Diagnostic;
use super::SkillFile;
use super::diagnose::Reader;
use super::front::{self, Front};
use crate::front_matter::{self, Document, Entry};

#[derive(Debug)]
pub(in crate::skill) struct Parts<'a> {
    /// Front matter with its opening line, with missing quotes added; `None` if there is none.
    pub(in crate::skill) front: Option<Cow<'a, str>>,
    /// Keys of the front matter.
    pub(in crate::skill) document: Document,
    /// Closing line of the front matter.
    pub(in crate::skill) fence: &'a str,
    pub(in crate::skill) body: &'a str,
    /// Keys of `SKILL.json` that take effect, because the front matter has no key of the same name.
    pub(in crate::skill) side: Vec<Entry>,
}

impl<'a> SkillFile<'a> {
    /// Splits the file into its parts.
    ///
    /// # Errors
    /// The text or the front matter cannot be read.
    pub(in crate::skill) fn parts(&self) -> Result<Parts<'a>, Diagnostic> {
        let text = front::decode(self.bytes)?;
        let side = self.side.map(front::side_file).transpose()?;
        let mut parts = match (front::split(text), &side) {
            (Front::Found(found), _) => {
                let document = front::document(&found, &mut Reader::default())?;
                let front = match front_matter::read(found.front) {
                    Ok(_) => Cow::Borrowed(found.front),
                    Err(_) => Cow::Owned(front::quote(found.front).0),
                };
                let head = text.get(..text.len() - found.body.len());
                let mut lines = head.unwrap_or_default().split_inclusive('\n');
                Parts {
                    front: Some(front),
                    document,
                    fence: lines.next_back().unwrap_or_default(),
                    body: found.body,
                    side: Vec::new(),
                }
            }
            (Front::Missing(_), Some(_)) if !front::has_misplaced(text) => Parts {
                front: None,
                document: Document::default(),
                fence: "",
                body: text,
                side: Vec::new(),
            },
            (Front::Missing(fault), _) | (Front::Unclosed(fault), _) => return Err(fault),
        };
        let side = side.unwrap_or_default().entries.into_iter();
        parts.side = side
            .filter(|entry| parts.document.get(&entry.key).is_none())
            .collect();
        Ok(parts)
    }
}
