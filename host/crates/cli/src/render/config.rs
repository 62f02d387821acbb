//! Shows settings with their origins.

use super::{BOLD, DIM, answer_line, style_text};
use crate::config::DisplayedSetting;
use rind_lib::provider::SelectedModel;
use rind_lib::text::one_line;

/// Maximum width of a key with its value, in characters, up to which the origins are aligned.
const WIDTH: usize = 52;

pub(in super::super) fn show_settings(values: &[DisplayedSetting]) {
    let mut section = "";
    for shown in values {
        let (name, key) = shown.key.split_once('.').unwrap_or(("", &shown.key));
        if name != section {
            section = name;
            answer_line(style_text(BOLD, format_args!("[{}]", one_line(section))));
        }
        let set = format!("{} = {}", one_line(key), one_line(&shown.value.to_string()));
        let source = one_line(&shown.source);
        if shown.source == "default" {
            answer_line(style_text(DIM, format_args!("  {set:<WIDTH$}  {source}")));
            continue;
        }
        let over = match shown.over.is_empty() {
            true => String::new(),
            false => format!(" over {}", one_line(&shown.over.join(", "))),
        };
        answer_line(format_args!(
            "  {set:<WIDTH$}  {source}{}",
            style_text(DIM, over)
        ));
    }
}

/// Shows the model that a run would use, and its server.
pub(in super::super) fn show_model(selected: &SelectedModel) {
    answer_line(style_text(BOLD, "in use"));
    let why = one_line(&selected.why);
    if selected.is_stand_in {
        answer_line(format_args!("  no model: {why}"));
        return;
    }
    let provider = format!("provider {}", one_line(selected.provider.name()));
    answer_line(format_args!("  {provider:<WIDTH$}  {why}"));
    answer_line(format_args!("  model {}", one_line(&selected.model)));
    if let Some(url) = selected.provider.base_url() {
        answer_line(format_args!("  base URL {}", one_line(&url)));
    }
}
