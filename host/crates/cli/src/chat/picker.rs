//! Shows a list above the editor, from which a person chooses one entry: a model, a session, a tool
//! call.
//!
//! Typed letters filter the list. The module must not know the meaning of an entry. In most lists,
//! an entry is the argument of a slash command. Start from [`ChatPicker`].

use super::super::render::{BOLD, DIM, one_line, style_text};
use super::editor::LineEditor;
use super::keys::{KeyCode, KeyInput, TypedKey};

/// Maximum number of entries of the list that are shown at once.
const MAX_SHOWN: usize = 10;

/// Number of rows of the screen that the list does not use.
const SPARE_ROWS: usize = 6;

/// Maximum length of each text of an entry, in characters. The rest is cut off.
const MAX_ENTRY_CHARS: usize = 200;

/// Entry of a list from which a person chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PickerEntry {
    /// Argument of the command that runs when the person chooses this entry, or the number of a
    /// tool call.
    pub(super) value: String,
    /// Short description.
    pub(super) about: String,
}

pub(super) struct ChatPicker {
    title: &'static str,
    /// Name of the command that the choice runs.
    pub(super) command: &'static str,
    /// Entries of the list; `None` until they were found.
    entries: Option<Vec<PickerEntry>>,
    /// Text that is shown if there are no entries.
    why_empty: String,
    pub(super) query: LineEditor,
    chosen: usize,
}

/// Effect of a key press on the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PickerKeyEffect {
    Stays,
    Closed,
    /// The entry with this value was chosen.
    Chosen(String),
}

impl ChatPicker {
    pub(super) fn new(title: &'static str, command: &'static str) -> Self {
        Self {
            title,
            command,
            entries: None,
            why_empty: String::new(),
            query: LineEditor::default(),
            chosen: 0,
        }
    }

    /// Sets the entries; `why_empty` is shown if there are none.
    pub(super) fn set_entries(&mut self, entries: Vec<PickerEntry>, why_empty: impl Into<String>) {
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
    fn filter_matching_entries(&self) -> Vec<&PickerEntry> {
        let query = self.query.full_text().to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let fits = |entry: &&PickerEntry| {
            let text = format!("{} {}", entry.value, entry.about).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.entries.iter().flatten().filter(fits).collect()
    }

    pub(super) fn press_key(&mut self, input: &KeyInput) -> PickerKeyEffect {
        let key = match input {
            KeyInput::Paste(text) => {
                let letters = text.chars().filter(|letter| !letter.is_control());
                letters
                    .take(MAX_ENTRY_CHARS)
                    .for_each(|letter| self.query.insert_typed_letter(letter));
                self.chosen = 0;
                return PickerKeyEffect::Stays;
            }
            KeyInput::Key(key) => *key,
            _ => return PickerKeyEffect::Stays,
        };
        let n = self.filter_matching_entries().len();
        match (key.code, key.ctrl, key.alt) {
            (KeyCode::Esc, ..) | (KeyCode::Char('c' | 'd'), true, _) => {
                return PickerKeyEffect::Closed;
            }
            (KeyCode::Enter, ..) | (KeyCode::Char('o'), true, _) => {
                let found = self.filter_matching_entries();
                let chosen = found.get(self.chosen).map(|entry| entry.value.clone());
                return chosen.map_or(PickerKeyEffect::Stays, PickerKeyEffect::Chosen);
            }
            (KeyCode::Up, ..) | (KeyCode::Char('p'), true, _) => {
                self.chosen = (self.chosen + n.max(1) - 1) % n.max(1);
            }
            (KeyCode::Down | KeyCode::Tab, ..) | (KeyCode::Char('n'), true, _) => {
                self.chosen = (self.chosen + 1) % n.max(1);
            }
            _ => self.edit_query(key),
        }
        PickerKeyEffect::Stays
    }

    fn edit_query(&mut self, key: TypedKey) {
        // Ignore line breaks, because the query has only one row.
        let is_break = key.code == KeyCode::Char('j') && key.ctrl;
        if !is_break && super::press::apply_editing_key(&mut self.query, key) {
            self.chosen = 0;
        }
    }

    /// Returns the rows of the list on a screen with `n_rows` rows.
    pub(super) fn rows(&self, n_rows: usize) -> Vec<String> {
        let found = self.filter_matching_entries();
        let mut rows = vec![style_text(BOLD, self.title)];
        match &self.entries {
            None => rows.push(style_text(DIM, "  one moment …")),
            Some(all) if all.is_empty() => {
                rows.push(style_text(
                    DIM,
                    format_args!("  {}", one_line(&self.why_empty, MAX_ENTRY_CHARS)),
                ));
            }
            Some(_) if found.is_empty() => rows.push(style_text(DIM, "  nothing fits")),
            Some(_) => {}
        }
        let n_shown = n_rows.saturating_sub(SPARE_ROWS).clamp(1, MAX_SHOWN);
        let first = (self.chosen + 1).saturating_sub(n_shown);
        let shown = found.iter().enumerate().skip(first).take(n_shown);
        rows.extend(shown.map(|(at, entry)| {
            let value = one_line(&entry.value, MAX_ENTRY_CHARS);
            let about = style_text(DIM, one_line(&entry.about, MAX_ENTRY_CHARS));
            match at == self.chosen {
                true => format!("  {}  {about}", style_text(BOLD, format_args!("▸ {value}"))),
                false => format!("    {value}  {about}"),
            }
        }));
        if found.len() > n_shown {
            let words = format!("    {} of {}", self.chosen + 1, found.len());
            rows.push(style_text(DIM, words));
        }
        rows.push(style_text(
            DIM,
            "  type to search · Enter takes it · Esc closes",
        ));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::render::bare_text;
    use super::*;

    fn key(code: KeyCode) -> KeyInput {
        KeyInput::Key(TypedKey::plain_key(code))
    }

    fn picker() -> ChatPicker {
        let mut picker = ChatPicker::new("models", "model");
        let entry = |n: usize| PickerEntry {
            value: format!("model-{n}"),
            about: "small\u{1b}[2J".to_owned(),
        };
        picker.set_entries((0..30).map(entry).collect(), "none");
        picker
    }

    #[test]
    fn letters_narrow_the_list_and_enter_takes_what_is_marked() {
        let mut picker = picker();
        assert_eq!(picker.press_key(&key(KeyCode::Up)), PickerKeyEffect::Stays);
        let last = PickerKeyEffect::Chosen("model-29".to_owned());
        assert_eq!(picker.press_key(&key(KeyCode::Enter)), last);
        for letter in "SMALL el-1".chars() {
            picker.press_key(&key(KeyCode::Char(letter)));
        }
        picker.press_key(&key(KeyCode::Down));
        let second = PickerKeyEffect::Chosen("model-10".to_owned());
        assert_eq!(picker.press_key(&key(KeyCode::Enter)), second);
        picker.press_key(&KeyInput::Paste("zzz\n".to_owned()));
        assert_eq!(
            picker.press_key(&key(KeyCode::Enter)),
            PickerKeyEffect::Stays
        );
        assert!(picker.rows(30).join("\n").contains("nothing fits"));
        assert_eq!(
            picker.press_key(&key(KeyCode::Esc)),
            PickerKeyEffect::Closed
        );
    }

    #[test]
    fn the_marked_entry_is_always_shown_and_no_text_reaches_the_terminal_as_it_is() {
        let mut picker = picker();
        picker.select_entry_with_value("model-20");
        for n_rows in [0, 7, 12, 100] {
            let rows = bare_text(&picker.rows(n_rows).join("\n"));
            assert!(rows.contains("▸ model-20"), "{n_rows}: {rows}");
            assert!(!rows.contains('\u{1b}'), "{rows}");
        }
        let empty = ChatPicker::new("models", "model");
        assert!(empty.rows(30).join("\n").contains("one moment"));
    }
}
