//! Postpones questions that arise before a session is open, for a client without forms. They are
//! asked as permission requests with the first prompt. If the user answers one of them with yes,
//! the session is closed and opened again.

use std::path::PathBuf;
use std::sync::Arc;

use rind_lib::tool::approval::Approver;
use rind_lib::tool::policy::ApprovalMode;

use crate::ask::PostponedYesNoQuestions;
use crate::backend::{
    AcpSessionOpener, ClientMcpServer, OpenSessionRequest, OpenedSessionWithCommands,
};
use crate::calls::{fence_text, text_content};
use crate::client::AcpClientHandle;
use crate::sessions::session_open_error_to_wire;
use crate::wire::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionUpdate, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind, WireError,
};

/// Id of the option "yes" in a permission request.
const ACCEPT_OPTION_ID: &str = "use";

/// Id of the option "no" in a permission request.
const DECLINE_OPTION_ID: &str = "leave-out";

/// Postponed questions of a session, and the parameters for opening the session again.
pub(crate) struct SessionReopener {
    pub(crate) backend: Arc<dyn AcpSessionOpener>,
    pub(crate) workspace: PathBuf,
    pub(crate) servers: Vec<ClientMcpServer>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) questions: Vec<String>,
}

impl SessionReopener {
    /// Asks the postponed questions one after another. Returns those that the user answered with
    /// yes.
    pub(crate) async fn ask_postponed_questions(
        &self,
        link: &AcpClientHandle,
        session: &str,
        next_id: impl Fn() -> String,
    ) -> Vec<String> {
        let mut yes = Vec::new();
        for text in &self.questions {
            if ask_yes_no_question(link, session, next_id(), text).await {
                yes.push(text.clone());
            }
        }
        yes
    }

    /// Opens the session again that was closed because the user answered a postponed question with
    /// yes. `yes` contains all questions that the user has answered with yes.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub(crate) async fn reopen_with_yes_answers(
        &self,
        session: &str,
        yes: Vec<String>,
        mode: ApprovalMode,
    ) -> Result<OpenedSessionWithCommands, WireError> {
        let order = OpenSessionRequest {
            workspace: self.workspace.clone(),
            resume: Some(session.to_owned()),
            servers: self.servers.clone(),
            approver: self.approver.clone(),
            confirm: Arc::new(PostponedYesNoQuestions::new_answering_yes_to(yes)),
            mode: Some(mode),
        };
        self.backend
            .open(order)
            .await
            .map_err(session_open_error_to_wire)
    }
}

async fn ask_yes_no_question(
    link: &AcpClientHandle,
    session: &str,
    id: String,
    text: &str,
) -> bool {
    let title = text.lines().next().unwrap_or_default();
    let fields = ToolCallUpdateFields::new()
        .title(title.to_owned())
        .kind(ToolKind::Other)
        .status(ToolCallStatus::Pending)
        .content(vec![text_content(&fence_text(text))]);
    let options = vec![
        PermissionOption::new(
            ACCEPT_OPTION_ID,
            "Use its tools",
            PermissionOptionKind::AllowAlways,
        ),
        PermissionOption::new(
            DECLINE_OPTION_ID,
            "Leave it out",
            PermissionOptionKind::RejectOnce,
        ),
    ];
    let call = ToolCallUpdate::new(id.clone(), fields);
    let request = RequestPermissionRequest::new(session.to_owned(), call, options);
    let asked: Result<RequestPermissionResponse, String> = link
        .send_request("session/request_permission", &request)
        .await;
    let is_yes = match asked.map(|response| response.outcome) {
        Ok(RequestPermissionOutcome::Selected(chosen)) => &*chosen.option_id.0 == ACCEPT_OPTION_ID,
        _ => false,
    };
    let status = match is_yes {
        true => ToolCallStatus::Completed,
        false => ToolCallStatus::Failed,
    };
    let ended = ToolCallUpdate::new(id, ToolCallUpdateFields::new().status(status));
    link.send_update(session, SessionUpdate::ToolCallUpdate(ended));
    is_yes
}
