//! Shows settings with their origins.

use super::{BOLD_STYLE, DIM_STYLE, print_stdout_line, style_text};
use crate::config::DisplayedSetting;
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::text::escape_to_one_line;

/// Maximum width of a key with its value, in characters, up to which the origins are aligned.
const MAX_ALIGNED_SETTING_CHARS: usize = 52;

pub(in super::super) fn show_settings(values: &[DisplayedSetting]) {
    let mut section = "";
    for shown in values {
        let (name, key) = shown.key.split_once('.').unwrap_or(("", &shown.key));
        if name != section {
            section = name;
            print_stdout_line(style_text(
                BOLD_STYLE,
                format_args!("[{}]", escape_to_one_line(section)),
            ));
        }
        let set = format!(
            "{} = {}",
            escape_to_one_line(key),
            escape_to_one_line(&shown.value.to_string())
        );
        let source = escape_to_one_line(&shown.source);
        if shown.source == "default" {
            print_stdout_line(style_text(
                DIM_STYLE,
                format_args!("  {set:<MAX_ALIGNED_SETTING_CHARS$}  {source}"),
            ));
            continue;
        }
        let over = match shown.over.is_empty() {
            true => String::new(),
            false => format!(" over {}", escape_to_one_line(&shown.over.join(", "))),
        };
        print_stdout_line(format_args!(
            "  {set:<MAX_ALIGNED_SETTING_CHARS$}  {source}{}",
            style_text(DIM_STYLE, over)
        ));
    }
}

/// Shows the model that a run would use, and its server.
pub(in super::super) fn show_model(selected: &SelectedProviderAndModel) {
    print_stdout_line(style_text(BOLD_STYLE, "in use"));
    let why = escape_to_one_line(&selected.why);
    if selected.is_stand_in {
        print_stdout_line(format_args!("  no model: {why}"));
        return;
    }
    let provider = format!("provider {}", escape_to_one_line(selected.provider.name()));
    print_stdout_line(format_args!(
        "  {provider:<MAX_ALIGNED_SETTING_CHARS$}  {why}"
    ));
    print_stdout_line(format_args!(
        "  model {}",
        escape_to_one_line(&selected.model)
    ));
    if let Some(url) = selected.provider.base_url() {
        print_stdout_line(format_args!("  base URL {}", escape_to_one_line(&url)));
    }
}
