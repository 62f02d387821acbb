//! Searches the history for typed letters (Ctrl-R), and shows the newest text that contains them.

use super::super::render::{DIM_STYLE, WARNING_STYLE, style_text, truncate_to_one_line};
use super::editor::ChatInputEditor;
use super::keys::{KeyCode, TerminalInputEvent, TypedKeyWithModifiers};
use super::live::LiveChat;

/// Maximum number of typed search letters that are shown.
const MAX_SHOWN_SEARCH_CHARS: usize = 60;

/// Open search in the history of inputs.
pub(super) struct ChatInputHistorySearch {
    letters: String,
    /// Index of the text that is shown, counted back from the newest; `None` if no text is shown.
    at: Option<usize>,
    /// Text and cursor of the editor before the search, restored when the search is cancelled.
    before: ChatInputEditor,
    is_failed: bool,
}

/// Opens the search of the history. If it is already open, shows the next older match.
pub(super) fn open_or_advance_history_search(chat: &mut LiveChat) {
    if let Some(search) = &chat.search {
        let (letters, at) = (search.letters.clone(), search.at);
        return update_history_search_match(chat, letters, at);
    }
    chat.search = Some(ChatInputHistorySearch {
        letters: String::new(),
        at: None,
        before: chat.editor.clone(),
        is_failed: false,
    });
}

/// Handles a key in an open search. Returns false if no search is open, or if the key must then be
/// handled as usual.
pub(super) fn handle_search_key(chat: &mut LiveChat, input: &TerminalInputEvent) -> bool {
    let Some(search) = &chat.search else {
        return false;
    };
    let mut letters = search.letters.clone();
    match input {
        TerminalInputEvent::Paste(text) => {
            let typed = text.chars().filter(|letter| !letter.is_control());
            letters.extend(typed.take(MAX_SHOWN_SEARCH_CHARS));
            update_history_search_match(chat, letters, None);
            return true;
        }
        TerminalInputEvent::Key(TypedKeyWithModifiers {
            code, ctrl, alt, ..
        }) => match (code, ctrl, alt) {
            (KeyCode::Char('r'), true, false) => open_or_advance_history_search(chat),
            (KeyCode::Esc, ..) | (KeyCode::Char('c' | 'g'), true, false) => {
                if let Some(search) = chat.search.take() {
                    chat.editor = search.before;
                }
            }
            (KeyCode::Char(letter), false, false) => {
                letters.push(*letter);
                update_history_search_match(chat, letters, None);
            }
            (KeyCode::Backspace, ..) => {
                letters.pop();
                update_history_search_match(chat, letters, None);
            }
            // Enter only copies the found text into the editor, so that the user can read it
            // before sending. Any other key copies it and is then handled as usual.
            (KeyCode::Enter, ..) => chat.search = None,
            _ => {
                chat.search = None;
                return false;
            }
        },
        _ => return false,
    }
    true
}

fn update_history_search_match(chat: &mut LiveChat, letters: String, before: Option<usize>) {
    let found = match letters.is_empty() {
        true => None,
        false => chat.history.find_newest_text_containing(&letters, before),
    };
    let Some(search) = &mut chat.search else {
        return;
    };
    search.is_failed = found.is_none() && !letters.is_empty();
    search.letters = letters;
    match found {
        Some((at, pieces)) => {
            search.at = Some(at);
            chat.editor.set_text_pieces(&pieces);
        }
        // Keep showing the oldest match if no older text matches.
        None if before.is_some() => {}
        None => {
            search.at = None;
            chat.editor = search.before.clone();
        }
    }
}

/// Returns the row that shows the letters of the open search; `None` without a search.
pub(super) fn render_history_search_row(chat: &LiveChat) -> Option<String> {
    let search = chat.search.as_ref()?;
    let letters = truncate_to_one_line(&search.letters, MAX_SHOWN_SEARCH_CHARS);
    let words =
        format!("  history: {letters}▏ Ctrl-R finds an older one, Enter uses it, Esc leaves");
    Some(match search.is_failed {
        true => style_text(WARNING_STYLE, format_args!("{words} · no older match")),
        false => style_text(DIM_STYLE, words),
    })
}
