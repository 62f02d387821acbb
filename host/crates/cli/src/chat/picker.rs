//! Shows a list above the editor, from which a person chooses one entry: a model, a session, a tool
//! call.
//!
//! Typed letters filter the list. The module must not know the meaning of an entry. In most lists,
//! an entry is the argument of a slash command. Start from [`SearchableListPicker`].

use super::super::render::{BOLD_STYLE, DIM_STYLE, style_text, truncate_to_one_line};
use super::editor::ChatInputEditor;
use super::keys::{KeyCode, TerminalInputEvent, TypedKeyWithModifiers};

/// Maximum number of entries of the list that are shown at once.
const MAX_SHOWN_PICKER_ENTRIES: usize = 10;

/// Number of rows of the screen that the list does not use.
const ROWS_RESERVED_BESIDE_PICKER: usize = 6;

/// Maximum length of each text of an entry, in characters. The rest is cut off.
const MAX_ENTRY_TEXT_CHARS: usize = 200;

/// Entry of a list in which a person chooses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChatPickerEntry {
    /// Argument of the command that runs when the person chooses this entry, or the number of a
    /// tool call.
    pub(super) value: String,
    /// Short description of the entry.
    pub(super) about: String,
}

pub(super) struct SearchableListPicker {
    title: &'static str,
    /// Name of the slash command that runs with the chosen entry.
    pub(super) command: &'static str,
    /// Entries of the list; `None` until they were found.
    entries: Option<Vec<ChatPickerEntry>>,
    /// Text that the list shows if it has no entries.
    why_empty: String,
    pub(super) query: ChatInputEditor,
    chosen: usize,
}

/// Effect of a key press on the open list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PickerKeyPressEffect {
    Stays,
    Closed,
    /// Choice of the entry with this value.
    Chosen(String),
}

impl SearchableListPicker {
    pub(super) fn new(title: &'static str, command: &'static str) -> Self {
        Self {
            title,
            command,
            entries: None,
            why_empty: String::new(),
            query: ChatInputEditor::default(),
            chosen: 0,
        }
    }

    /// Sets the entries; `why_empty` is shown if there are none.
    pub(super) fn set_entries(
        &mut self,
        entries: Vec<ChatPickerEntry>,
        why_empty: impl Into<String>,
    ) {
        self.entries = Some(entries);
        self.why_empty = why_empty.into();
        self.chosen = 0;
    }

    /// Selects the entry with this value, or the first entry if no entry has the value.
    pub(super) fn select_entry_with_value(&mut self, value: &str) {
        let at = self
            .filter_matching_entries()
            .iter()
            .position(|entry| entry.value == value);
        self.chosen = at.unwrap_or(0);
    }

    /// Returns the entries that contain every typed word, ignoring case.
    fn filter_matching_entries(&self) -> Vec<&ChatPickerEntry> {
        let query = self.query.full_text().to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let fits = |entry: &&ChatPickerEntry| {
            let text = format!("{} {}", entry.value, entry.about).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.entries.iter().flatten().filter(fits).collect()
    }

    pub(super) fn handle_key_input(&mut self, input: &TerminalInputEvent) -> PickerKeyPressEffect {
        let key = match input {
            TerminalInputEvent::Paste(text) => {
                let letters = text.chars().filter(|letter| !letter.is_control());
                letters
                    .take(MAX_ENTRY_TEXT_CHARS)
                    .for_each(|letter| self.query.insert_typed_character(letter));
                self.chosen = 0;
                return PickerKeyPressEffect::Stays;
            }
            TerminalInputEvent::Key(key) => *key,
            _ => return PickerKeyPressEffect::Stays,
        };
        let n = self.filter_matching_entries().len();
        match (key.code, key.ctrl, key.alt) {
            (KeyCode::Esc, ..) | (KeyCode::Char('c' | 'd'), true, _) => {
                return PickerKeyPressEffect::Closed;
            }
            (KeyCode::Enter, ..) | (KeyCode::Char('o'), true, _) => {
                let found = self.filter_matching_entries();
                let chosen = found.get(self.chosen).map(|entry| entry.value.clone());
                return chosen.map_or(PickerKeyPressEffect::Stays, PickerKeyPressEffect::Chosen);
            }
            (KeyCode::Up, ..) | (KeyCode::Char('p'), true, _) => {
                self.chosen = (self.chosen + n.max(1) - 1) % n.max(1);
            }
            (KeyCode::Down | KeyCode::Tab, ..) | (KeyCode::Char('n'), true, _) => {
                self.chosen = (self.chosen + 1) % n.max(1);
            }
            _ => self.edit_query(key),
        }
        PickerKeyPressEffect::Stays
    }

    fn edit_query(&mut self, key: TypedKeyWithModifiers) {
        // Ignore line breaks, because the query has only one row.
        let is_break = key.code == KeyCode::Char('j') && key.ctrl;
        if !is_break && super::press::apply_editing_key(&mut self.query, key) {
            self.chosen = 0;
        }
    }

    /// Returns the rows of the list on a screen with `n_rows` rows.
    pub(super) fn render_rows(&self, n_rows: usize) -> Vec<String> {
        let found = self.filter_matching_entries();
        let mut rows = vec![style_text(BOLD_STYLE, self.title)];
        match &self.entries {
            None => rows.push(style_text(DIM_STYLE, "  one moment …")),
            Some(all) if all.is_empty() => {
                rows.push(style_text(
                    DIM_STYLE,
                    format_args!(
                        "  {}",
                        truncate_to_one_line(&self.why_empty, MAX_ENTRY_TEXT_CHARS)
                    ),
                ));
            }
            Some(_) if found.is_empty() => rows.push(style_text(DIM_STYLE, "  nothing fits")),
            Some(_) => {}
        }
        let n_shown = n_rows
            .saturating_sub(ROWS_RESERVED_BESIDE_PICKER)
            .clamp(1, MAX_SHOWN_PICKER_ENTRIES);
        let first = (self.chosen + 1).saturating_sub(n_shown);
        let shown = found.iter().enumerate().skip(first).take(n_shown);
        rows.extend(shown.map(|(at, entry)| {
            let value = truncate_to_one_line(&entry.value, MAX_ENTRY_TEXT_CHARS);
            let about = style_text(
                DIM_STYLE,
                truncate_to_one_line(&entry.about, MAX_ENTRY_TEXT_CHARS),
            );
            match at == self.chosen {
                true => format!(
                    "  {}  {about}",
                    style_text(BOLD_STYLE, format_args!("▸ {value}"))
                ),
                false => format!("    {value}  {about}"),
            }
        }));
        if found.len() > n_shown {
            let words = format!("    {} of {}", self.chosen + 1, found.len());
            rows.push(style_text(DIM_STYLE, words));
        }
        rows.push(style_text(
            DIM_STYLE,
            "  type to search · Enter takes it · Esc closes",
        ));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::render::strip_styles;
    use super::*;

    fn key(code: KeyCode) -> TerminalInputEvent {
        TerminalInputEvent::Key(TypedKeyWithModifiers::without_modifiers(code))
    }

    fn picker() -> SearchableListPicker {
        let mut picker = SearchableListPicker::new("models", "model");
        let entry = |n: usize| ChatPickerEntry {
            value: format!("model-{n}"),
            about: "small\u{1b}[2J".to_owned(),
        };
        picker.set_entries((0..30).map(entry).collect(), "none");
        picker
    }

    #[test]
    fn letters_narrow_the_list_and_enter_takes_what_is_marked() {
        let mut picker = picker();
        assert_eq!(
            picker.handle_key_input(&key(KeyCode::Up)),
            PickerKeyPressEffect::Stays
        );
        let last = PickerKeyPressEffect::Chosen("model-29".to_owned());
        assert_eq!(picker.handle_key_input(&key(KeyCode::Enter)), last);
        for letter in "SMALL el-1".chars() {
            picker.handle_key_input(&key(KeyCode::Char(letter)));
        }
        picker.handle_key_input(&key(KeyCode::Down));
        let second = PickerKeyPressEffect::Chosen("model-10".to_owned());
        assert_eq!(picker.handle_key_input(&key(KeyCode::Enter)), second);
        picker.handle_key_input(&TerminalInputEvent::Paste("zzz\n".to_owned()));
        assert_eq!(
            picker.handle_key_input(&key(KeyCode::Enter)),
            PickerKeyPressEffect::Stays
        );
        assert!(picker.render_rows(30).join("\n").contains("nothing fits"));
        assert_eq!(
            picker.handle_key_input(&key(KeyCode::Esc)),
            PickerKeyPressEffect::Closed
        );
    }

    #[test]
    fn the_marked_entry_is_always_shown_and_no_text_reaches_the_terminal_as_it_is() {
        let mut picker = picker();
        picker.select_entry_with_value("model-20");
        for n_rows in [0, 7, 12, 100] {
            let rows = strip_styles(&picker.render_rows(n_rows).join("\n"));
            assert!(rows.contains("▸ model-20"), "{n_rows}: {rows}");
            assert!(!rows.contains('\u{1b}'), "{rows}");
        }
        let empty = SearchableListPicker::new("models", "model");
        assert!(empty.render_rows(30).join("\n").contains("one moment"));
    }
}
