//! Stores memories of each project in a file, and finds them by keyword.

mod notes;

#[rind_sdk::plugin]
mod project_notes {
    use crate::notes::{self, Note, NoteFile};
    use rind_sdk::prelude::*;

    /// Payload of the point `recall` of the plugin `memory`.
    #[data]
    struct Query {
        query: String,
        limit: u32,
    }

    #[data]
    struct RecallAnswer {
        memories: Vec<FoundNote>,
    }

    #[data]
    struct FoundNote {
        text: String,
        since: String,
    }

    /// Payload of the point `remember` that the plugin `memory` defines. Plugins that implement the
    /// point may refuse to remember the text.
    #[data]
    struct RememberPayload {
        phase: String,
        text: String,
        kept_by: Vec<String>,
    }

    #[implements("memory.recall")]
    fn recall_notes(query: Query) -> Result<RecallAnswer, Error> {
        let file = NoteFile::read_file(&caller::workspace())?;
        let best = notes::find_notes(&file.notes, &query.query).into_iter();
        let best = best.take(query.limit as usize).map(|note| FoundNote {
            text: note.text.clone(),
            since: note.since.clone(),
        });
        Ok(RecallAnswer {
            memories: best.collect(),
        })
    }

    #[implements("memory.remember")]
    fn store_note(mut memory: RememberPayload) -> Result<PointOutcome, Error> {
        if memory.phase != "keep" {
            return Ok(PointOutcome::pass());
        }
        let note = Note {
            text: memory.text.clone(),
            since: notes::current_date(),
        };
        if let Err(why) = NoteFile::read_file(&caller::workspace())?.add_note(&note)? {
            return Ok(PointOutcome::block(why));
        }
        memory.kept_by.push("project-notes".to_owned());
        PointOutcome::value(&memory)
    }

    /// Shows what is remembered of this project. `/notes forget 3` removes the third note, `/notes forget all` all of them.
    #[command]
    fn notes(arguments: String) -> Result<String, Error> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let mut file = NoteFile::read_file(&caller::workspace())?;
        let all = &mut file.notes;
        match *words {
            [] => {}
            ["forget", "all"] => all.clear(),
            ["forget", number] => {
                let index = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                let Some(index) = index.filter(|index| *index < all.len()) else {
                    return Err(
                        format!("there is no note `{number}`; /notes shows their numbers").into(),
                    );
                };
                all.remove(index);
            }
            _ => return Err("type /notes, /notes forget NUMBER or /notes forget all".into()),
        }
        if !words.is_empty() {
            file.write_file()?;
        }
        Ok(notes::format_note_list(&file.notes))
    }
}
