//! Reads, writes and searches the notes of a project.

use rind_sdk::files;
use rind_sdk::prelude::*;
use rind_sdk::serde_json;
use std::collections::BTreeSet;

/// Maximum number of notes of a project. A larger collection belongs in a document of the project.
const MAX_NOTES_PER_PROJECT: usize = 500;

/// Maximum number of projects whose folders have the same name.
const MAX_PROJECTS_WITH_SAME_NAME: usize = 50;

/// Note about a project.
#[data]
pub(crate) struct Note {
    /// Text of the note.
    pub(crate) text: String,
    /// Day on which the note was added, such as `2026-01-31`.
    pub(crate) since: String,
}

/// Note file of one project, as JSON lines. The first line names the project's folder, each other
/// line is a note.
pub(crate) struct NoteFile {
    path: String,
    workspace: String,
    /// Notes, oldest first.
    pub(crate) notes: Vec<Note>,
    is_new: bool,
}

/// First line of a file with notes.
#[data]
struct NoteFileHeader {
    workspace: String,
}

impl NoteFile {
    /// Reads the note file of a project. The file has the name of the project's folder, such as
    /// `shop.jsonl`, or `shop-2.jsonl` if `shop.jsonl` belongs to another project whose folder has
    /// the same name. A line that a crash truncated is skipped.
    pub(crate) fn read_file(workspace: &str) -> Result<Self, Error> {
        let name = workspace.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let name: String = name.chars().filter(is_plain).take(40).collect();
        let taken = files::list("data")?;
        for n in 1..=MAX_PROJECTS_WITH_SAME_NAME {
            let end = if n == 1 {
                String::new()
            } else {
                format!("-{n}")
            };
            let file = format!("{name}{end}.jsonl");
            let path = format!("data/{file}");
            let is_new = !taken.iter().any(|entry| entry.name == file);
            let text = if is_new {
                String::new()
            } else {
                files::read_to_string(&path)?
            };
            let mut lines = text.lines().filter(|line| !line.is_empty());
            let head = lines.next().map(serde_json::from_str::<NoteFileHeader>);
            if is_new || head.is_some_and(|head| head.is_ok_and(|head| head.workspace == workspace))
            {
                let notes = lines.filter_map(|line| serde_json::from_str(line).ok());
                return Ok(Self {
                    path,
                    workspace: workspace.to_owned(),
                    notes: notes.collect(),
                    is_new,
                });
            }
        }
        Err(Error::Limit(format!(
            "no notes can be kept: {MAX_PROJECTS_WITH_SAME_NAME} other projects in folders named `{name}` have notes"
        )))
    }

    /// Rewrites the file of the notes with the current notes.
    pub(crate) fn write_file(&self) -> Result<(), Error> {
        let mut text = self.header_line()?;
        for note in &self.notes {
            text += &serde_json::to_string(note)?;
            text.push('\n');
        }
        files::write(&self.path, text.as_bytes())
    }

    /// Appends a note to the file. The inner error is the reason why the note is refused.
    pub(crate) fn add_note(&self, note: &Note) -> Result<Result<(), String>, Error> {
        if self.notes.iter().any(|known| known.text == note.text) {
            return Ok(Err("it is remembered already".to_owned()));
        }
        if self.notes.len() >= MAX_NOTES_PER_PROJECT {
            return Ok(Err(format!(
                "there are {MAX_NOTES_PER_PROJECT} notes of this project; the person can remove some with /notes forget"
            )));
        }
        let mut text = if self.is_new {
            self.header_line()?
        } else {
            String::new()
        };
        // The leading line feed separates the note from a line that a crash truncated.
        text += &format!("\n{}\n", serde_json::to_string(note)?);
        files::append(&self.path, text.as_bytes())?;
        Ok(Ok(()))
    }

    fn header_line(&self) -> Result<String, Error> {
        let head = NoteFileHeader {
            workspace: self.workspace.clone(),
        };
        Ok(format!("{}\n", serde_json::to_string(&head)?))
    }
}

/// Returns today's date in UTC, such as `2026-01-31`.
pub(crate) fn current_date() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let now = i64::try_from(seconds)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    now.map_or_else(String::new, |now| now.strftime("%Y-%m-%d").to_string())
}

/// Finds notes that contain words of the query. Those with the most matching words come first, then
/// the newest. An empty query returns all notes.
pub(crate) fn find_notes<'a>(all: &'a [Note], query: &str) -> Vec<&'a Note> {
    let wanted = extract_search_words(query);
    let score = |note: &Note| {
        let own = extract_search_words(&note.text);
        // A prefix of a word matches: `test` finds `tests`.
        let has = |word: &&String| own.iter().any(|own| own.starts_with(&**word));
        wanted.iter().filter(has).count()
    };
    let newest = all.iter().rev().map(|note| (score(note), note));
    let mut found: Vec<_> = newest
        .filter(|(score, _)| wanted.is_empty() || *score > 0)
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, note)| note).collect()
}

/// Returns the words of a text in lower case, except words of one or two letters.
fn extract_search_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() > 2);
    long.map(str::to_lowercase).collect()
}

/// Returns the notes as a list with their numbers.
pub(crate) fn format_note_list(notes: &[Note]) -> String {
    if notes.is_empty() {
        return "Nothing is remembered of this project.".to_owned();
    }
    let line = |(n, note): (usize, &Note)| format!("{}. {} ({})", n + 1, note.text, note.since);
    notes
        .iter()
        .enumerate()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}
