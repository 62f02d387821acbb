//! Settings with their places.

use super::{BOLD, DIM, answer_line, note, say, styled};
use crate::config::Shown;
use rind_lib::text::one_line;

/// Columns of a key with its value before the place follows on the same line.
const WIDTH: usize = 52;

pub(in super::super) fn show(values: &[Shown]) {
    let mut section = "";
    for shown in values {
        let (name, key) = shown.key.split_once('.').unwrap_or(("", &shown.key));
        if name != section {
            section = name;
            answer_line(styled(BOLD, format_args!("[{}]", one_line(section))));
        }
        let set = format!("{} = {}", one_line(key), one_line(&shown.value.to_string()));
        let source = one_line(&shown.source);
        if shown.source == "default" {
            answer_line(styled(DIM, format_args!("  {set:<WIDTH$}  {source}")));
            continue;
        }
        let over = match shown.over.is_empty() {
            true => String::new(),
            false => format!(" over {}", one_line(&shown.over.join(", "))),
        };
        answer_line(format_args!(
            "  {set:<WIDTH$}  {source}{}",
            styled(DIM, over)
        ));
    }
}

pub(in super::super) fn model(provider: &str, model: &str, why: &str) {
    say("");
    note(&format!("model: {provider} {model} ({why})"));
}
