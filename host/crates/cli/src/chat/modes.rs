//! Switches between approval modes in a chat, and asks whether to carry out a plan.

use tokio::sync::oneshot;

use super::super::approve::{
    BuiltInCommandQuestion, DECLINE_ANSWER, TerminalAnswer, TerminalQuestion, TerminalQuestionKind,
};
use super::super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::super::render::{DIM_STYLE, WARNING_STYLE, style_text};
use super::live::LiveChat;
use super::worker::ChatTurnInput;
use rind_lib::tool::policy::{ApprovalMode, CARRY_OUT_PLAN_PROMPT};

/// Words that approve a plan: `yes` with questions about edits, `accept` without them.
const APPROVE_PLAN_ANSWER: &str = "yes";
const APPROVE_PLAN_AND_EDITS_ANSWER: &str = "accept";

/// Switches to the next approval mode in the order in which a key cycles through them.
pub(super) fn switch_to_next_approval_mode(chat: &mut LiveChat) {
    let next = chat.switch.mode().next_in_cycle(chat.has_full_mode);
    chat.switch.set_mode(next);
    let words = format!("mode {next}: {}", next.description());
    chat.view
        .add_finished_output_line(style_text(DIM_STYLE, words));
}

/// Asks whether to carry out the plan of the turn that has just ended.
pub(super) fn ask_whether_to_carry_out_plan(chat: &mut LiveChat) {
    let (answer, answered) = oneshot::channel();
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text("carry out this plan");
    let about = TerminalQuestionLine::new("  ").with_styled_text(
        DIM_STYLE,
        "yes carries the plan out and asks about each change, accept carries it out and edits files without asking, no continues planning",
    )
    .allow_row_breaks_at_spaces();
    let screen = QuestionScreenContent {
        parts: vec![vec![head], vec![about]],
        keys: "[y]es, [a]ccept edits, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    };
    let question = TerminalQuestionKind::Command(BuiltInCommandQuestion {
        screen,
        words: vec![
            APPROVE_PLAN_ANSWER,
            APPROVE_PLAN_AND_EDITS_ANSWER,
            DECLINE_ANSWER,
        ],
    });
    chat.asked.push_back(TerminalQuestion { question, answer });
    chat.plan = Some(answered);
}

/// Carries out the plan, in the chosen approval mode, if the person approved it.
pub(super) fn carry_out_plan_if_approved(chat: &mut LiveChat, answer: Option<TerminalAnswer>) {
    chat.plan = None;
    let mode = match answer {
        Some(TerminalAnswer::Command(APPROVE_PLAN_ANSWER)) => ApprovalMode::Ask,
        Some(TerminalAnswer::Command(APPROVE_PLAN_AND_EDITS_ANSWER)) => ApprovalMode::AcceptEdits,
        _ => return,
    };
    if chat.worker.is_job_running() || chat.leaving.is_some() {
        return;
    }
    chat.switch.set_mode(mode);
    let words = format!("mode {mode}: {}", mode.description());
    chat.view
        .add_finished_output_line(style_text(DIM_STYLE, words));
    chat.view.show_user_text(CARRY_OUT_PLAN_PROMPT);
    chat.worker.start_turn(ChatTurnInput {
        text: CARRY_OUT_PLAN_PROMPT.to_owned(),
        ..ChatTurnInput::default()
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
