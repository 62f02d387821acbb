//! Tests from when on a question accepts an answer: when the person had time to read it and, unless
//! the answer is a no, when the complete question was on the screen.

use serde_json::json;
use tokio::sync::oneshot::{self, Receiver};

use super::*;
use crate::render::strip_styles;
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::tool::approval::Question;
use rind_lib::tool::subject::{Subject, WorkspacePath};

fn available_terminal_space(columns: usize, rows: usize) -> QuestionScreenSize {
    QuestionScreenSize {
        size: TerminalSize { columns, rows },
        n_typed: 1,
    }
}

/// Returns a question that is open but not drawn yet, and the receiver of its answer.
fn new_question(question: TerminalQuestionKind) -> (OpenChatQuestion, Receiver<TerminalAnswer>) {
    let (answer, answered) = oneshot::channel();
    (
        OpenChatQuestion::new(TerminalQuestion { question, answer }),
        answered,
    )
}

/// Returns a question about a call that writes a file with this many lines.
fn call_question(n_lines: usize) -> (OpenChatQuestion, Receiver<TerminalAnswer>) {
    let spec = ToolSpec::from_name_and_effect("write_file", EffectClass::Write);
    let arguments = json!({ "path": "docs/a.txt", "content": "line\n".repeat(n_lines) });
    let subject = Subject::File(WorkspacePath::Known("docs/a.txt".to_owned()));
    let question = Question::new(&spec, &arguments, &subject, &[]);
    new_question(TerminalQuestionKind::Call(question))
}

fn plugin_question(
    kind: PluginUserQuestionKind,
    text: &str,
) -> (OpenChatQuestion, Receiver<TerminalAnswer>) {
    new_question(TerminalQuestionKind::Person(PluginUserQuestion {
        plugin: "asker".to_owned(),
        text: text.to_owned(),
        kind,
        is_muted: false,
    }))
}

/// Draws the question and advances the time, so that keys are accepted.
fn draw_and_wait(mut open: OpenChatQuestion) -> OpenChatQuestion {
    let now = Instant::now();
    open.record_question_drawn(now);
    open.enable_keys_if_visible_long_enough(now + INPUT_SILENCE_BEFORE_ANSWER);
    open
}

fn question_text_on_screen(open: &OpenChatQuestion, room: QuestionScreenSize) -> String {
    strip_styles(&open.render_rows(room).join("\n"))
}

#[test]
fn keys_typed_before_the_question_could_be_read_do_not_answer_it() {
    let (mut open, _answered) = call_question(3);
    let (begin, room) = (Instant::now(), available_terminal_space(72, 24));
    assert!(!open.should_accept_key(begin), "it is not on the screen");
    open.enable_keys_if_visible_long_enough(begin);
    open.record_question_drawn(begin);
    assert_eq!(
        open.next_redraw_time(),
        Some(begin + INPUT_SILENCE_BEFORE_ANSWER)
    );
    let rows = open.render_rows(room);
    assert!(!question_text_on_screen(&open, room).contains("[y]es"));
    // A key that comes too early restarts the wait.
    assert!(!open.should_accept_key(begin + INPUT_SILENCE_BEFORE_ANSWER / 2));
    open.enable_keys_if_visible_long_enough(begin + INPUT_SILENCE_BEFORE_ANSWER);
    assert!(!question_text_on_screen(&open, room).contains("[y]es"));
    open.enable_keys_if_visible_long_enough(begin + INPUT_SILENCE_BEFORE_ANSWER * 3 / 2);
    assert!(question_text_on_screen(&open, room).contains("[y]es"));
    assert_eq!(open.render_rows(room).len(), rows.len(), "nothing moves");
    assert!(open.should_accept_key(begin + INPUT_SILENCE_BEFORE_ANSWER * 3 / 2));
    assert_eq!(open.next_redraw_time(), None);
}

#[test]
fn until_the_whole_question_was_shown_only_a_refusal_is_accepted() {
    for n_rows in 1..30 {
        let room = available_terminal_space(60, n_rows);
        let (open, mut answered) = call_question(200);
        let mut open = draw_and_wait(open);
        let text = question_text_on_screen(&open, room);
        let is_fitting = text.lines().count() + 1 < n_rows;
        assert!(is_fitting || n_rows < 5, "{n_rows}:\n{text}");
        assert_eq!(
            open.handle_answer_line("y", room, |_| {}),
            AnswerLineOutcome::Invalid
        );
        assert_eq!(
            open.handle_answer_line("a", room, |_| {}),
            AnswerLineOutcome::Invalid
        );
        // Viewing the first page does not count as reading the other pages, so `y` is still
        // refused.
        assert_eq!(
            open.handle_answer_line("v", room, |_| {}),
            AnswerLineOutcome::NotYet
        );
        assert_eq!(
            open.handle_answer_line("q", room, |_| {}),
            AnswerLineOutcome::NotYet
        );
        assert_eq!(
            open.handle_answer_line("y", room, |_| {}),
            AnswerLineOutcome::Invalid
        );
        assert!(answered.try_recv().is_err());
        let mut seen = String::new();
        assert_eq!(
            open.handle_answer_line("v", room, |_| {}),
            AnswerLineOutcome::NotYet
        );
        while open.page.is_some() {
            let page = question_text_on_screen(&open, room);
            assert!(page.lines().count() + 1 < n_rows || n_rows < 5, "{page}");
            seen.push_str(&page);
            assert_eq!(
                open.handle_answer_line("", room, |_| {}),
                AnswerLineOutcome::NotYet
            );
        }
        assert_eq!(seen.contains("always covers"), n_rows >= 5, "{seen}");
        let is_answered = n_rows >= 5;
        let expected = match is_answered {
            true => AnswerLineOutcome::Answered("yes".to_owned()),
            false => AnswerLineOutcome::Invalid,
        };
        assert_eq!(
            open.handle_answer_line("y", room, |_| {}),
            expected,
            "{n_rows}"
        );
        assert_eq!(answered.try_recv().is_ok(), is_answered);
    }
}

#[test]
fn a_refusal_is_accepted_on_any_screen_and_its_reason_is_sent_first() {
    let (open, mut answered) = call_question(200);
    let mut open = draw_and_wait(open);
    let mut why = String::new();
    let effect = open.handle_answer_line("n use docs/", available_terminal_space(20, 2), |said| {
        why = said.to_owned()
    });
    assert_eq!(
        effect,
        AnswerLineOutcome::Answered("no: use docs/".to_owned())
    );
    assert_eq!(why, "use docs/");
    assert_eq!(
        answered.try_recv().unwrap(),
        TerminalAnswer::Call(ApprovalAnswer::No("use docs/".to_owned()))
    );
}

#[test]
fn the_key_v_is_typed_text_when_the_whole_question_is_visible() {
    let text = || PluginUserQuestionKind::Text {
        default: "x".to_owned(),
    };
    let room = available_terminal_space(60, 20);
    let (open, mut answered) = plugin_question(text(), "Which letter?");
    let mut open = draw_and_wait(open);
    assert!(matches!(
        open.handle_answer_line("v", room, |_| {}),
        AnswerLineOutcome::Answered(_)
    ));
    let answer = answered.try_recv().unwrap();
    let v = UserAnswerToPlugin::Text("v".to_owned());
    assert_eq!(answer, TerminalAnswer::Person(Some(v)));
    let (open, mut answered) = plugin_question(text(), &"long ".repeat(200));
    let mut open = draw_and_wait(open);
    // Even a free text is not accepted as an answer before the complete question was on the screen.
    assert_eq!(
        open.handle_answer_line("a text", room, |_| {}),
        AnswerLineOutcome::Invalid
    );
    assert_eq!(
        open.handle_answer_line("v", room, |_| {}),
        AnswerLineOutcome::NotYet
    );
    assert!(answered.try_recv().is_err());
}
