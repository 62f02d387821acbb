//! Notes of a project: their file, and the search for them.

use rind_sdk::files;
use rind_sdk::prelude::*;
use rind_sdk::serde_json;
use std::collections::BTreeSet;

/// Maximum number of notes of a project. More than that belong in a document in the project.
const MAX_NOTES: usize = 500;

/// Maximum number of projects whose folders have one name.
const MAX_NAMESAKES: usize = 50;

/// One note.
#[data]
pub(crate) struct Note {
    /// Text of the note.
    pub(crate) text: String,
    /// Day on which it was made, as in `2026-01-31`.
    pub(crate) since: String,
}

/// File of one project: its first line names the folder of the project, each further line is a note.
pub(crate) struct NoteFile {
    path: String,
    workspace: String,
    /// Notes, oldest first.
    pub(crate) notes: Vec<Note>,
    is_new: bool,
}

/// First line of a file.
#[data]
struct FileHead {
    workspace: String,
}

impl NoteFile {
    /// Reads the file of a project, which is named after its folder: `shop.jsonl`, or `shop-2.jsonl` if another project has that
    /// name. A line that was cut by a crash is passed over.
    pub(crate) fn read_file(workspace: &str) -> Result<Self, Error> {
        let name = workspace.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
        let name: String = name.chars().filter(is_plain).take(40).collect();
        let taken = files::list("data")?;
        for n in 1..=MAX_NAMESAKES {
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
            let head = lines.next().map(serde_json::from_str::<FileHead>);
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
            "{MAX_NAMESAKES} projects in folders named `{name}` have notes"
        )))
    }

    /// Writes the file anew.
    pub(crate) fn write_file(&self) -> Result<(), Error> {
        let mut text = self.head_line()?;
        for note in &self.notes {
            text += &serde_json::to_string(note)?;
            text.push('\n');
        }
        files::write(&self.path, text.as_bytes())
    }

    /// Adds a note. The inner error is the reason why it is not kept.
    pub(crate) fn add_note(&self, note: &Note) -> Result<Result<(), String>, Error> {
        if self.notes.iter().any(|known| known.text == note.text) {
            return Ok(Err("it is remembered already".to_owned()));
        }
        if self.notes.len() >= MAX_NOTES {
            return Ok(Err(format!(
                "there are {MAX_NOTES} notes of this project; the person can remove some with /notes forget"
            )));
        }
        let mut text = if self.is_new {
            self.head_line()?
        } else {
            String::new()
        };
        // The line feed in front keeps a line that a crash cut from swallowing this one.
        text += &format!("\n{}\n", serde_json::to_string(note)?);
        files::append(&self.path, text.as_bytes())?;
        Ok(Ok(()))
    }

    fn head_line(&self) -> Result<String, Error> {
        let head = FileHead {
            workspace: self.workspace.clone(),
        };
        Ok(format!("{}\n", serde_json::to_string(&head)?))
    }
}

/// Today's date, as in `2026-01-31`.
pub(crate) fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    let now = i64::try_from(seconds)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    now.map_or_else(String::new, |now| now.strftime("%Y-%m-%d").to_string())
}

/// Finds notes that contain words of the query; most matching words first, then newest first. An
/// empty query returns all notes.
pub(crate) fn find_notes<'a>(all: &'a [Note], query: &str) -> Vec<&'a Note> {
    let wanted = words_of(query);
    let score = |note: &Note| {
        let own = words_of(&note.text);
        // The beginning of a word is enough: `test` finds `tests`.
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

/// Words of a text in lower case; words of one or two letters are left out.
fn words_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() > 2);
    long.map(str::to_lowercase).collect()
}

/// Lists notes with their numbers.
pub(crate) fn list_notes(notes: &[Note]) -> String {
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
