//! Asks the user whether to carry out a plan, after a turn in plan mode.

use rind_lib::tool::policy::ApprovalMode;

use crate::calls::text_content;
use crate::client::AcpClientHandle;
use crate::wire::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind,
};

/// Id of the answer that continues planning instead of carrying out the plan.
const KEEP_PLANNING_OPTION_ID: &str = "keep-planning";

/// Asks the user whether to carry out the plan. Returns the mode of approval in which to carry it
/// out, or `None` to continue planning.
pub(crate) async fn ask_to_run_plan(
    link: &AcpClientHandle,
    session: &str,
    id: String,
) -> Option<ApprovalMode> {
    let fields = ToolCallUpdateFields::new()
        .title("Carry out this plan?".to_owned())
        .kind(ToolKind::SwitchMode)
        .status(ToolCallStatus::Pending)
        .content(vec![text_content(
            "Choose the mode in which the plan above is carried out.",
        )]);
    let option = |id: &'static str, name: &str, kind| PermissionOption::new(id, name, kind);
    let options = vec![
        option(
            ApprovalMode::Ask.name(),
            "Yes, and ask about each change",
            PermissionOptionKind::AllowOnce,
        ),
        option(
            ApprovalMode::AcceptEdits.name(),
            "Yes, and edit files without a question",
            PermissionOptionKind::AllowAlways,
        ),
        option(
            KEEP_PLANNING_OPTION_ID,
            "No, go on planning",
            PermissionOptionKind::RejectOnce,
        ),
    ];
    let call = ToolCallUpdate::new(id.clone(), fields);
    let request = RequestPermissionRequest::new(session.to_owned(), call, options);
    let asked: Result<RequestPermissionResponse, String> = link
        .send_request("session/request_permission", &request)
        .await;
    let chosen = match asked.map(|response| response.outcome) {
        Ok(RequestPermissionOutcome::Selected(chosen)) => Some(chosen.option_id.0),
        _ => None,
    };
    let modes = [ApprovalMode::Ask, ApprovalMode::AcceptEdits];
    let mode = modes
        .into_iter()
        .find(|mode| chosen.as_deref() == Some(mode.name()));
    let status = match mode {
        Some(_) => ToolCallStatus::Completed,
        None => ToolCallStatus::Failed,
    };
    let ended = ToolCallUpdate::new(id, ToolCallUpdateFields::new().status(status));
    link.send_update(session, SessionUpdate::ToolCallUpdate(ended));
    mode
}
