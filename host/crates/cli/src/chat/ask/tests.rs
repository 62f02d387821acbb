//! Tests when a question accepts an answer: after it could be read, and, unless the answer is a no,
//! after the complete question was on the screen.

use serde_json::json;
use tokio::sync::oneshot::{self, Receiver};

use super::*;
use crate::render::bare_text;
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::point::handle::{PersonAnswer, PersonQuestion, QuestionKind};
use rind_lib::tool::approval::Question;
use rind_lib::tool::subject::{Subject, WorkspacePath};

fn room(columns: usize, rows: usize) -> TerminalRoom {
    TerminalRoom {
        size: TerminalSize { columns, rows },
        n_typed: 1,
    }
}

/// Returns a question that is open but not drawn yet, and the receiver of its answer.
fn open(question: AskedQuestion) -> (OpenQuestion, Receiver<AskedAnswer>) {
    let (answer, answered) = oneshot::channel();
    (
        OpenQuestion::new(TerminalQuestion { question, answer }),
        answered,
    )
}

/// Returns a question about a call that writes a file with this many lines.
fn call(n_lines: usize) -> (OpenQuestion, Receiver<AskedAnswer>) {
    let spec = ToolSpec::bare_spec("write_file", EffectClass::Write);
    let arguments = json!({ "path": "docs/a.txt", "content": "line\n".repeat(n_lines) });
    let subject = Subject::File(WorkspacePath::Known("docs/a.txt".to_owned()));
    let question = Question::new(&spec, &arguments, &subject, &[]);
    open(AskedQuestion::Call(question))
}

fn person(kind: QuestionKind, text: &str) -> (OpenQuestion, Receiver<AskedAnswer>) {
    open(AskedQuestion::Person(PersonQuestion {
        plugin: "asker".to_owned(),
        text: text.to_owned(),
        kind,
        is_muted: false,
    }))
}

/// Draws the question and lets the wait pass, so that keys are accepted.
fn opened(mut open: OpenQuestion) -> OpenQuestion {
    let now = Instant::now();
    open.note_drawn(now);
    open.draws_at(now + QUIET);
    open
}

fn shown(open: &OpenQuestion, room: TerminalRoom) -> String {
    bare_text(&open.render_rows(room).join("\n"))
}

#[test]
fn keys_that_were_typed_before_it_could_be_read_do_not_answer_it() {
    let (mut open, _answered) = call(3);
    let (begin, room) = (Instant::now(), room(72, 24));
    assert!(!open.takes_key(begin), "it is not on the screen");
    open.draws_at(begin);
    open.note_drawn(begin);
    assert_eq!(open.opens(), Some(begin + QUIET));
    let rows = open.render_rows(room);
    assert!(!shown(&open, room).contains("[y]es"));
    // A key that comes too early restarts the wait.
    assert!(!open.takes_key(begin + QUIET / 2));
    open.draws_at(begin + QUIET);
    assert!(!shown(&open, room).contains("[y]es"));
    open.draws_at(begin + QUIET * 3 / 2);
    assert!(shown(&open, room).contains("[y]es"));
    assert_eq!(open.render_rows(room).len(), rows.len(), "nothing moves");
    assert!(open.takes_key(begin + QUIET * 3 / 2));
    assert_eq!(open.opens(), None);
}

#[test]
fn only_a_no_counts_until_all_of_what_is_asked_was_on_the_screen() {
    for n_rows in 1..30 {
        let room = room(60, n_rows);
        let (open, mut answered) = call(200);
        let mut open = opened(open);
        let text = shown(&open, room);
        let is_fitting = text.lines().count() + 1 < n_rows;
        assert!(is_fitting || n_rows < 5, "{n_rows}:\n{text}");
        assert_eq!(open.answer_line("y", room, |_| {}), LineEffect::Invalid);
        assert_eq!(open.answer_line("a", room, |_| {}), LineEffect::Invalid);
        // Viewing the first page does not count as reading the rest.
        assert_eq!(open.answer_line("v", room, |_| {}), LineEffect::NotYet);
        assert_eq!(open.answer_line("q", room, |_| {}), LineEffect::NotYet);
        assert_eq!(open.answer_line("y", room, |_| {}), LineEffect::Invalid);
        assert!(answered.try_recv().is_err());
        let mut seen = String::new();
        assert_eq!(open.answer_line("v", room, |_| {}), LineEffect::NotYet);
        while open.page.is_some() {
            let page = shown(&open, room);
            assert!(page.lines().count() + 1 < n_rows || n_rows < 5, "{page}");
            seen.push_str(&page);
            assert_eq!(open.answer_line("", room, |_| {}), LineEffect::NotYet);
        }
        assert_eq!(seen.contains("always covers"), n_rows >= 5, "{seen}");
        let is_answered = n_rows >= 5;
        let expected = match is_answered {
            true => LineEffect::Answered("yes".to_owned()),
            false => LineEffect::Invalid,
        };
        assert_eq!(open.answer_line("y", room, |_| {}), expected, "{n_rows}");
        assert_eq!(answered.try_recv().is_ok(), is_answered);
    }
}

#[test]
fn a_no_counts_on_any_screen_and_its_reason_is_there_first() {
    let (open, mut answered) = call(200);
    let mut open = opened(open);
    let mut why = String::new();
    let effect = open.answer_line("n use docs/", room(20, 2), |said| why = said.to_owned());
    assert_eq!(effect, LineEffect::Answered("no: use docs/".to_owned()));
    assert_eq!(why, "use docs/");
    assert_eq!(
        answered.try_recv().unwrap(),
        AskedAnswer::Call(ApprovalAnswer::No("use docs/".to_owned()))
    );
}

#[test]
fn v_answers_a_question_for_text_that_is_on_the_screen_whole() {
    let text = || QuestionKind::Text {
        default: "x".to_owned(),
    };
    let room = room(60, 20);
    let (open, mut answered) = person(text(), "Which letter?");
    let mut open = opened(open);
    assert!(matches!(
        open.answer_line("v", room, |_| {}),
        LineEffect::Answered(_)
    ));
    let answer = answered.try_recv().unwrap();
    let v = PersonAnswer::Text("v".to_owned());
    assert_eq!(answer, AskedAnswer::Person(Some(v)));
    let (open, mut answered) = person(text(), &"long ".repeat(200));
    let mut open = opened(open);
    // Even a free text is no answer until the complete question was read.
    assert_eq!(
        open.answer_line("a text", room, |_| {}),
        LineEffect::Invalid
    );
    assert_eq!(open.answer_line("v", room, |_| {}), LineEffect::NotYet);
    assert!(answered.try_recv().is_err());
}
