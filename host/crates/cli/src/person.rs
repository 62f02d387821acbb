//! Asks the person at the terminal a question of a plugin or an MCP server.
//!
//! The question names its author, and shows each text of the author as one escaped line. Input
//! typed for another question, such as one about a tool call, cannot answer it.

use super::question::{QuestionLine, QuestionScreen, parse_yes_or_no};
use super::render::{BOLD, DIM, PLUGIN, WARN};
use rind_lib::point::handle::{PersonAnswer, PersonQuestion, QuestionKind};

pub(super) fn person_question_screen(question: &PersonQuestion) -> QuestionScreen {
    // The author is `mcp:NAME` for an MCP server, and the bare name for a plugin.
    let (what, name) = match question.plugin.split_once(':') {
        Some((_, server)) => ("MCP server ", server),
        None => ("plugin ", question.plugin.as_str()),
    };
    let warning = match question.plugin.contains(':') {
        true => SERVER_WARNING,
        false => WARNING,
    };
    let head = QuestionLine::new("")
        .with_styled_text(WARN.bold(), "? ")
        .with_text(what)
        .with_escaped_text(PLUGIN, name)
        .with_text(" asks: ")
        .with_escaped_text(BOLD, &question.text);
    let options = match &question.kind {
        QuestionKind::Choose { options, .. } => options.as_slice(),
        _ => &[],
    };
    let options = options.iter().enumerate().map(|(at, option)| {
        let number = format!("[{}] ", at + 1);
        QuestionLine::new("  ")
            .with_text(&number)
            .with_escaped_text(BOLD, option)
    });
    let (hint, keys) = match &question.kind {
        QuestionKind::Confirm { .. } => ("", "[y]es or [n]o".to_owned()),
        QuestionKind::Choose { options, .. } => {
            ("", format!("a number from [1] to [{}]", options.len()))
        }
        QuestionKind::Text { default } if default.is_empty() => {
            (warning, "a line of text, or an empty line".to_owned())
        }
        QuestionKind::Text { .. } => (
            warning,
            "a line of text; Enter alone takes the default above".to_owned(),
        ),
    };
    let default = match &question.kind {
        QuestionKind::Text { default } if !default.is_empty() => Some(
            QuestionLine::new("  ")
                .with_text("without one: ")
                .with_escaped_text(BOLD, default),
        ),
        _ => None,
    };
    let hint = (!hint.is_empty()).then(|| QuestionLine::new("  ").with_styled_text(DIM, hint));
    QuestionScreen {
        parts: vec![vec![head], options.collect()],
        covers: default.into_iter().chain(hint).collect(),
        keys,
        takes_text: matches!(question.kind, QuestionKind::Text { .. }),
        ..QuestionScreen::default()
    }
}

/// Warning that is shown below each question of a plugin that expects a text as the answer.
const WARNING: &str =
    "this plugin gets the answer, and the screen shows it: type no password and no key";

/// Warning below each question of an MCP server that expects text.
const SERVER_WARNING: &str =
    "this server gets the answer, and the screen shows it: type no password and no key";

/// Parses a line as an answer; `None` if it is not a valid one.
pub(super) fn parse_answer(line: &str, kind: &QuestionKind) -> Option<PersonAnswer> {
    match kind {
        // Reject an empty line: its meaning would depend on the plugin's default and not on the
        // person.
        QuestionKind::Confirm { .. } => parse_yes_or_no(line).map(PersonAnswer::Yes),
        QuestionKind::Choose { options, .. } => {
            let at = line.parse::<usize>().ok()?.checked_sub(1)?;
            let is_there = at < options.len();
            is_there.then(|| PersonAnswer::Choice(u32::try_from(at).unwrap_or_default()))
        }
        QuestionKind::Text { default } if line.is_empty() => {
            Some(PersonAnswer::Text(default.clone()))
        }
        QuestionKind::Text { .. } => Some(PersonAnswer::Text(line.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_the_question_is_one() {
        let confirm = QuestionKind::Confirm { default: true };
        let options = vec!["a".to_owned(), "b".to_owned()];
        let choose = QuestionKind::Choose {
            options,
            default: 0,
        };
        let text = QuestionKind::Text {
            default: "x".to_owned(),
        };
        for (line, kind, expected) in [
            ("y", &confirm, Some(PersonAnswer::Yes(true))),
            ("No", &confirm, Some(PersonAnswer::Yes(false))),
            ("", &confirm, None),
            ("always", &confirm, None),
            ("2", &choose, Some(PersonAnswer::Choice(1))),
            ("0", &choose, None),
            ("3", &choose, None),
            ("", &choose, None),
            ("", &text, Some(PersonAnswer::Text("x".to_owned()))),
            ("n", &text, Some(PersonAnswer::Text("n".to_owned()))),
        ] {
            assert_eq!(parse_answer(line, kind), expected, "{line}");
        }
    }
}
