//! Asks the person at the terminal a question of a plugin or an MCP server.
//!
//! The question names its author, and shows each text of the author as one escaped line. Input
//! typed for another question, such as one about a tool call, cannot answer it.

use super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::render::{BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE};
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};

pub(super) fn plugin_user_question_screen(question: &PluginUserQuestion) -> QuestionScreenContent {
    // The author is `mcp:NAME` for an MCP server, and the bare name for a plugin.
    let (what, name) = match question.plugin.split_once(':') {
        Some((_, server)) => ("MCP server ", server),
        None => ("plugin ", question.plugin.as_str()),
    };
    let warning = match question.plugin.contains(':') {
        true => MCP_SERVER_QUESTION_WARNING,
        false => PLUGIN_QUESTION_WARNING,
    };
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text(what)
        .with_escaped_text(PLUGIN_NAME_STYLE, name)
        .with_text(" asks: ")
        .with_escaped_text(BOLD_STYLE, &question.text);
    let options = match &question.kind {
        PluginUserQuestionKind::Choose { options, .. } => options.as_slice(),
        _ => &[],
    };
    let options = options.iter().enumerate().map(|(at, option)| {
        let number = format!("[{}] ", at + 1);
        TerminalQuestionLine::new("  ")
            .with_text(&number)
            .with_escaped_text(BOLD_STYLE, option)
    });
    let (hint, keys) = match &question.kind {
        PluginUserQuestionKind::Confirm { .. } => ("", "[y]es or [n]o".to_owned()),
        PluginUserQuestionKind::Choose { options, .. } => {
            ("", format!("a number from [1] to [{}]", options.len()))
        }
        PluginUserQuestionKind::Text { default } if default.is_empty() => {
            (warning, "a line of text, or an empty line".to_owned())
        }
        PluginUserQuestionKind::Text { .. } => (
            warning,
            "a line of text; Enter alone takes the default above".to_owned(),
        ),
    };
    let default = match &question.kind {
        PluginUserQuestionKind::Text { default } if !default.is_empty() => Some(
            TerminalQuestionLine::new("  ")
                .with_text("without one: ")
                .with_escaped_text(BOLD_STYLE, default),
        ),
        _ => None,
    };
    let hint = (!hint.is_empty())
        .then(|| TerminalQuestionLine::new("  ").with_styled_text(DIM_STYLE, hint));
    QuestionScreenContent {
        parts: vec![vec![head], options.collect()],
        covers: default.into_iter().chain(hint).collect(),
        keys,
        takes_text: matches!(question.kind, PluginUserQuestionKind::Text { .. }),
        ..QuestionScreenContent::default()
    }
}

/// Warning that is shown below each question of a plugin that expects a text as the answer.
const PLUGIN_QUESTION_WARNING: &str =
    "this plugin gets the answer, and the screen shows it: type no password and no key";

/// Warning below each question of an MCP server that expects text.
const MCP_SERVER_QUESTION_WARNING: &str =
    "this server gets the answer, and the screen shows it: type no password and no key";

/// Parses a line as an answer; `None` if it is not a valid one.
pub(super) fn parse_plugin_user_answer(
    line: &str,
    kind: &PluginUserQuestionKind,
) -> Option<UserAnswerToPlugin> {
    match kind {
        // Reject an empty line: its meaning would depend on the plugin's default and not on the
        // person.
        PluginUserQuestionKind::Confirm { .. } => {
            parse_yes_or_no(line).map(UserAnswerToPlugin::Yes)
        }
        PluginUserQuestionKind::Choose { options, .. } => {
            let at = line.parse::<usize>().ok()?.checked_sub(1)?;
            let is_there = at < options.len();
            is_there.then(|| UserAnswerToPlugin::Choice(u32::try_from(at).unwrap_or_default()))
        }
        PluginUserQuestionKind::Text { default } if line.is_empty() => {
            Some(UserAnswerToPlugin::Text(default.clone()))
        }
        PluginUserQuestionKind::Text { .. } => Some(UserAnswerToPlugin::Text(line.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_the_question_is_one() {
        let confirm = PluginUserQuestionKind::Confirm { default: true };
        let options = vec!["a".to_owned(), "b".to_owned()];
        let choose = PluginUserQuestionKind::Choose {
            options,
            default: 0,
        };
        let text = PluginUserQuestionKind::Text {
            default: "x".to_owned(),
        };
        for (line, kind, expected) in [
            ("y", &confirm, Some(UserAnswerToPlugin::Yes(true))),
            ("No", &confirm, Some(UserAnswerToPlugin::Yes(false))),
            ("", &confirm, None),
            ("always", &confirm, None),
            ("2", &choose, Some(UserAnswerToPlugin::Choice(1))),
            ("0", &choose, None),
            ("3", &choose, None),
            ("", &choose, None),
            ("", &text, Some(UserAnswerToPlugin::Text("x".to_owned()))),
            ("n", &text, Some(UserAnswerToPlugin::Text("n".to_owned()))),
        ] {
            assert_eq!(parse_plugin_user_answer(line, kind), expected, "{line}");
        }
    }
}
