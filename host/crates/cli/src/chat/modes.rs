//! Switches between approval modes in a chat, and asks whether to carry out a plan.

use tokio::sync::oneshot;

use super::super::approve::{AskedAnswer, AskedQuestion, CommandQuestion, NO, TerminalQuestion};
use super::super::question::{QuestionLine, QuestionScreen};
use super::super::render::{DIM, WARN, style_text};
use super::live::LiveChat;
use super::worker::ChatPrompt;
use rind_lib::tool::policy::{ApprovalMode, CARRY_OUT_PLAN};

/// Answers that approve a plan.
const YES: &str = "yes";
const ACCEPT: &str = "accept";

/// Switches to the next approval mode.
pub(super) fn switch_mode(chat: &mut LiveChat) {
    let next = chat.switch.mode().next(chat.has_full_mode);
    chat.switch.set(next);
    let words = format!("mode {next}: {}", next.about());
    chat.view.say_line(style_text(DIM, words));
}

/// Asks whether to carry out the plan of the turn that has just ended.
pub(super) fn ask_about_plan(chat: &mut LiveChat) {
    let (answer, answered) = oneshot::channel();
    let head = QuestionLine::new("")
        .styled_words(WARN.bold(), "? ")
        .own_words("carry out this plan");
    let about = QuestionLine::new("  ").styled_words(
        DIM,
        "yes carries the plan out and asks about each change, accept carries it out and edits files without asking, no continues planning",
    )
    .in_prose();
    let screen = QuestionScreen {
        parts: vec![vec![head], vec![about]],
        keys: "[y]es, [a]ccept edits, or [n]o".to_owned(),
        ..QuestionScreen::default()
    };
    let question = AskedQuestion::Command(CommandQuestion {
        screen,
        words: vec![YES, ACCEPT, NO],
    });
    chat.asked.push_back(TerminalQuestion { question, answer });
    chat.plan = Some(answered);
}

/// Carries out the plan, in the chosen approval mode, if the person approved it.
pub(super) fn plan_answered(chat: &mut LiveChat, answer: Option<AskedAnswer>) {
    chat.plan = None;
    let mode = match answer {
        Some(AskedAnswer::Command(YES)) => ApprovalMode::Ask,
        Some(AskedAnswer::Command(ACCEPT)) => ApprovalMode::AcceptEdits,
        _ => return,
    };
    if chat.worker.is_running() || chat.leaving.is_some() {
        return;
    }
    chat.switch.set(mode);
    let words = format!("mode {mode}: {}", mode.about());
    chat.view.say_line(style_text(DIM, words));
    chat.view.show_user_text(CARRY_OUT_PLAN);
    chat.worker.start_turn(ChatPrompt {
        text: CARRY_OUT_PLAN.to_owned(),
        ..ChatPrompt::default()
    });
}

/// Waits for the answer to the question about a plan; never returns if there is no such question.
pub(super) async fn wait_plan(
    plan: &mut Option<oneshot::Receiver<AskedAnswer>>,
) -> Option<AskedAnswer> {
    match plan {
        Some(answered) => answered.await.ok(),
        None => std::future::pending().await,
    }
}
