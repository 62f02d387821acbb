//! Converts questions of a turn that another program runs into the form that the terminal shows,
//! and answers into requests to the holder of the session.

use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Question};
use rind_lib::tool::preview::FileChangePreviewLine;
use rind_lib::tool::subject::Subject;
use rind_serve::questions::{ArgumentLine, QuestionKind};
use serde_json::{Value, json};

use super::super::approve::{TerminalAnswer, TerminalQuestionKind};

/// Prefixes that may stand before a line of a tool call's arguments. With any other prefix, such as
/// blanks, the line could look like a part of the question.
const ALLOWED_CALL_PREVIEW_LINE_PREFIXES: [&str; 11] = [
    "$ ",
    "> ",
    "+ ",
    "- ",
    "| ",
    "file: ",
    "size: ",
    "in: ",
    "runs: ",
    "at most: ",
    "now: ",
];

/// Prefix that replaces any prefix that is not in [`ALLOWED_CALL_PREVIEW_LINE_PREFIXES`].
const FALLBACK_CALL_PREVIEW_LINE_PREFIX: &str = "| ";

/// Converts a question into the form in which the terminal asks it.
pub(crate) fn to_terminal_question_kind(about: QuestionKind) -> TerminalQuestionKind {
    match about {
        QuestionKind::Approval {
            tool,
            effect_class,
            plugin,
            by,
            may,
            arguments,
            reasons,
            always,
            no_always,
        } => {
            let spec = ToolSpec {
                plugin,
                ..ToolSpec::from_name_and_effect(&tool, parse_tool_effect_class(&effect_class))
            };
            let mut question = Question::new(&spec, &Value::Null, &Subject::Any, &[])
                .with_plugin_permissions(&may);
            question.by = by.as_deref().map(rind_lib::text::escape_to_one_line);
            question.arguments = arguments.into_iter().map(to_call_preview_line).collect();
            let reasons = reasons.iter();
            let reasons = reasons.map(|own| {
                (
                    escape_text_to_one_line(&own.plugin),
                    escape_text_to_one_line(&own.reason),
                )
            });
            question.reasons = reasons.collect();
            question.covers = match always {
                Some(covers) => Ok(escape_text_to_one_line(&covers)),
                None => Err(escape_text_to_one_line(&no_always.unwrap_or_default())),
            };
            TerminalQuestionKind::Call(question)
        }
        QuestionKind::Plugin {
            plugin,
            text,
            form,
            options,
            default,
        } => TerminalQuestionKind::Person(PluginUserQuestion {
            plugin: escape_text_to_one_line(&plugin),
            text: escape_text_to_one_line(&text),
            kind: match form.as_str() {
                "confirm" => PluginUserQuestionKind::Confirm {
                    default: default == "yes",
                },
                "choose" => PluginUserQuestionKind::Choose {
                    default: find_default_option_index(&options, &default),
                    options,
                },
                _ => PluginUserQuestionKind::Text { default },
            },
            is_muted: false,
        }),
    }
}

/// Returns the index of the default among the options; 0 if none is the default.
fn find_default_option_index(options: &[String], default: &str) -> u32 {
    let at = options.iter().position(|option| option == default);
    at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
}

/// Returns the body of the request that answers a question. If the person gives no answer, a call
/// is refused and a plugin gets its default answer, as in a turn that runs here.
pub(super) fn build_answer_request_body(about: &QuestionKind, answer: &TerminalAnswer) -> Value {
    let answer = match answer {
        TerminalAnswer::Call(ApprovalAnswer::Yes) => "yes".to_owned(),
        TerminalAnswer::Call(ApprovalAnswer::Always) => "always".to_owned(),
        TerminalAnswer::Call(ApprovalAnswer::No(why)) if !why.is_empty() => {
            return json!({ "answer": "no", "reason": why });
        }
        TerminalAnswer::Call(ApprovalAnswer::No(_)) => "no".to_owned(),
        TerminalAnswer::Person(None) => match about {
            QuestionKind::Plugin {
                form,
                options,
                default,
                ..
            } => match form.as_str() {
                "choose" => find_default_option_index(options, default).to_string(),
                _ => default.clone(),
            },
            QuestionKind::Approval { .. } => "no".to_owned(),
        },
        TerminalAnswer::Person(Some(UserAnswerToPlugin::Yes(is_yes))) => {
            if *is_yes { "yes" } else { "no" }.to_owned()
        }
        TerminalAnswer::Person(Some(UserAnswerToPlugin::Choice(at))) => at.to_string(),
        TerminalAnswer::Person(Some(UserAnswerToPlugin::Text(text))) => text.clone(),
        TerminalAnswer::Command(word) => (*word).to_owned(),
    };
    json!({ "answer": answer })
}

fn escape_text_to_one_line(text: &str) -> String {
    rind_lib::text::escape_to_one_line(text)
}

fn to_call_preview_line(line: ArgumentLine) -> FileChangePreviewLine {
    let known = ALLOWED_CALL_PREVIEW_LINE_PREFIXES
        .into_iter()
        .find(|mark| *mark == line.mark);
    FileChangePreviewLine {
        mark: known.unwrap_or(FALLBACK_CALL_PREVIEW_LINE_PREFIX),
        text: line.text,
    }
}

/// Returns the effect class of this name; [`EffectClass::External`], the widest, if the name is
/// unknown here.
fn parse_tool_effect_class(name: &str) -> EffectClass {
    serde_json::from_value(Value::from(name)).unwrap_or(EffectClass::External)
}

#[cfg(test)]
mod tests {
    use super::super::super::approve::{build_terminal_question_screen, parse_answer};
    use super::*;
    use crate::terminal::TerminalSize;
    use rind_serve::questions::HookReason;

    fn approval(mark: &str, always: Option<&str>) -> QuestionKind {
        QuestionKind::Approval {
            tool: "bash\u{1b}[2J".to_owned(),
            effect_class: "execute".to_owned(),
            plugin: None,
            by: None,
            may: Vec::new(),
            arguments: vec![ArgumentLine {
                mark: mark.to_owned(),
                text: "rm -rf x".to_owned(),
            }],
            reasons: vec![HookReason {
                plugin: "guard".to_owned(),
                reason: "it deletes".to_owned(),
            }],
            always: always.map(str::to_owned),
            no_always: None,
        }
    }

    fn plugin_question(form: &str, default: &str) -> QuestionKind {
        QuestionKind::Plugin {
            plugin: "deploy".to_owned(),
            text: "where to?".to_owned(),
            form: form.to_owned(),
            options: vec!["test".to_owned(), "live".to_owned()],
            default: default.to_owned(),
        }
    }

    fn rows(question: &TerminalQuestionKind) -> String {
        let size = TerminalSize {
            columns: 100,
            rows: 30,
        };
        let rows = build_terminal_question_screen(question)
            .build_all_rows(size)
            .join("\n");
        anstream::adapter::strip_str(&rows).to_string()
    }

    #[test]
    fn a_mark_that_would_imitate_the_question_is_replaced() {
        for (mark, shown) in [
            ("$ ", "  $ rm -rf x"),
            ("", "  | rm -rf x"),
            ("  ", "  | rm -rf x"),
            ("\u{1b}[2J", "  | rm -rf x"),
            ("yes: no", "  | rm -rf x"),
        ] {
            let rows = rows(&to_terminal_question_kind(approval(mark, None)));
            assert!(rows.contains(shown), "{mark:?}: {rows}");
            assert!(!rows.contains('\u{1b}'), "{rows:?}");
        }
    }

    #[test]
    fn a_call_elsewhere_is_asked_about_in_the_words_of_a_call_here_and_answered_with_its_reason() {
        let about = approval("$ ", Some("every call of bash"));
        let question = to_terminal_question_kind(about.clone());
        let shown = rows(&question);
        for words in [
            "wants to run a program (execute)",
            "guard asks: it deletes",
            "always covers every call of bash",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let body = |line: &str| {
            parse_answer(line, &question).map(|answer| build_answer_request_body(&about, &answer))
        };
        assert_eq!(body("a"), Some(json!({"answer": "always"})));
        assert_eq!(
            body("no: use trash"),
            Some(json!({"answer": "no", "reason": "use trash"}))
        );
        let question = to_terminal_question_kind(approval("$ ", None));
        assert!(parse_answer("always", &question).is_none());
    }

    #[test]
    fn a_choice_of_a_plugin_is_answered_by_its_number_from_0() {
        let about = plugin_question("choose", "test");
        let question = to_terminal_question_kind(about.clone());
        let answer = parse_answer("2", &question).unwrap();
        assert_eq!(
            build_answer_request_body(&about, &answer),
            json!({"answer": "1"})
        );
    }

    #[test]
    fn a_question_of_a_plugin_that_a_person_leaves_gets_its_default() {
        for (form, default, expected) in [
            ("choose", "live", "1"),
            ("text", "main", "main"),
            ("confirm", "no", "no"),
        ] {
            let about = plugin_question(form, default);
            let body = build_answer_request_body(&about, &TerminalAnswer::Person(None));
            assert_eq!(body, json!({ "answer": expected }), "{form}");
            if form == "choose" {
                let TerminalQuestionKind::Person(asked) = to_terminal_question_kind(about) else {
                    panic!("a question of a plugin");
                };
                assert_eq!(asked.kind.default_answer(), UserAnswerToPlugin::Choice(1));
            }
        }
    }
}
