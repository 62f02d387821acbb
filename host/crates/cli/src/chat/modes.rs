//! Switches between approval modes in a chat, and asks whether to carry out a plan.

use tokio::sync::oneshot;

use super::super::approve::{
    CommandQuestion, DECLINED, TerminalAnswer, TerminalQuestion, TerminalQuestionKind,
};
use super::super::question::{QuestionLine, QuestionScreen};
use super::super::render::{DIM, WARN, style_text};
use super::live::LiveChat;
use super::worker::ChatPrompt;
use rind_lib::tool::policy::{ApprovalMode, CARRY_OUT_PLAN};

/// Words that approve a plan: `yes` with questions about edits, `accept` without them.
const APPROVE_PLAN: &str = "yes";
const APPROVE_PLAN_AND_EDITS: &str = "accept";

/// Switches to the next approval mode.
pub(super) fn switch_mode(chat: &mut LiveChat) {
    let next = chat.switch.mode().next(chat.has_full_mode);
    chat.switch.set_mode(next);
    let words = format!("mode {next}: {}", next.description());
    chat.view.say_line(style_text(DIM, words));
}

/// Asks whether to carry out the plan of the turn that has just ended.
pub(super) fn ask_about_plan(chat: &mut LiveChat) {
    let (answer, answered) = oneshot::channel();
    let head = QuestionLine::new("")
        .with_styled_text(WARN.bold(), "? ")
        .with_text("carry out this plan");
    let about = QuestionLine::new("  ").with_styled_text(
        DIM,
        "yes carries the plan out and asks about each change, accept carries it out and edits files without asking, no continues planning",
    )
    .into_prose();
    let screen = QuestionScreen {
        parts: vec![vec![head], vec![about]],
        keys: "[y]es, [a]ccept edits, or [n]o".to_owned(),
        ..QuestionScreen::default()
    };
    let question = TerminalQuestionKind::Command(CommandQuestion {
        screen,
        words: vec![APPROVE_PLAN, APPROVE_PLAN_AND_EDITS, DECLINED],
    });
    chat.asked.push_back(TerminalQuestion { question, answer });
    chat.plan = Some(answered);
}

/// Carries out the plan, in the chosen approval mode, if the person approved it.
pub(super) fn handle_plan_answer(chat: &mut LiveChat, answer: Option<TerminalAnswer>) {
    chat.plan = None;
    let mode = match answer {
        Some(TerminalAnswer::Command(APPROVE_PLAN)) => ApprovalMode::Ask,
        Some(TerminalAnswer::Command(APPROVE_PLAN_AND_EDITS)) => ApprovalMode::AcceptEdits,
        _ => return,
    };
    if chat.worker.is_running() || chat.leaving.is_some() {
        return;
    }
    chat.switch.set_mode(mode);
    let words = format!("mode {mode}: {}", mode.description());
    chat.view.say_line(style_text(DIM, words));
    chat.view.show_user_text(CARRY_OUT_PLAN);
    chat.worker.start_turn(ChatPrompt {
        text: CARRY_OUT_PLAN.to_owned(),
        ..ChatPrompt::default()
    });
}

/// Waits for the answer to the question whether to carry out a plan. Never returns if that question
/// is not open.
pub(super) async fn wait_for_plan_answer(
    plan: &mut Option<oneshot::Receiver<TerminalAnswer>>,
) -> Option<TerminalAnswer> {
    match plan {
        Some(answered) => answered.await.ok(),
        None => std::future::pending().await,
    }
}
