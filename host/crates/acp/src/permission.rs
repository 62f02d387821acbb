//! Asks the user during a turn: to approve tool calls, and to answer questions of plugins.
//!
//! The user is never asked about calls that the policy denies, and the host, not the client,
//! decides which calls an approval covers. A response with an unknown option counts as a no.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::text::{escape_and_truncate_line, escape_to_one_line, printable_text};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};

use crate::ask::{FormAnswer, request_form_answer};
use crate::calls::{fence_text, file_diff, text_content};
use crate::client::AcpClientHandle;
use crate::view::SessionEventConverter;
use crate::wire::{
    ElicitationScope, ElicitationSessionScope, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};

/// Ids of the answers that a permission request for a tool call offers.
const ALLOW_OPTION_ID: &str = "allow";
const ALLOW_ALWAYS_OPTION_ID: &str = "allow-always";
const REJECT_OPTION_ID: &str = "reject";

/// Maximum length of the title of a permission request, in bytes.
const MAX_QUESTION_TITLE_BYTES: usize = 200;

/// Asks the client's user about the tool calls and the plugins of one session.
pub(crate) struct AcpClientApprover {
    pub(crate) link: Arc<AcpClientHandle>,
    /// Id of the session, and the converter of its events for the client; unset until the
    /// session is open.
    pub(crate) session: Arc<OnceLock<SessionIdAndEventConverter>>,
    pub(crate) workspace: PathBuf,
}

/// Session to which the permission questions belong, and the converter of its events.
pub(crate) struct SessionIdAndEventConverter {
    pub(crate) id: Arc<str>,
    pub(crate) view: Arc<Mutex<SessionEventConverter>>,
}

impl Approver for AcpClientApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        self.request_approval(question).boxed()
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        async move {
            let session = self.session.get().filter(|_| !question.is_muted)?;
            let has_forms = self
                .link
                .client_abilities()
                .is_some_and(|own| own.has_forms);
            match has_forms {
                true => self.ask_with_form(session, question).await,
                false => self.ask_with_options(session, question).await,
            }
        }
        .boxed()
    }
}

impl AcpClientApprover {
    async fn request_approval(&self, question: &Question) -> ApprovalAnswer {
        let Some(session) = self.session.get() else {
            return ApprovalAnswer::No("the session is not open yet".to_owned());
        };
        let id = {
            let mut view = lock_ignoring_poison(&session.view);
            let call = question.call.as_deref();
            let known = call.and_then(|call| view.client_call_id(call));
            known.unwrap_or_else(|| view.next_call_id("question"))
        };
        let fields = ToolCallUpdateFields::new()
            .title(build_question_title(question))
            .kind(acp_tool_kind_of_question(question))
            .status(ToolCallStatus::Pending)
            .content(build_question_content(question, &self.workspace));
        let mut options = vec![PermissionOption::new(
            ALLOW_OPTION_ID,
            "Allow once",
            PermissionOptionKind::AllowOnce,
        )];
        if let Ok(covers) = &question.covers {
            let name = format!(
                "Always allow in this session: {}",
                escape_to_one_line(covers)
            );
            let kind = PermissionOptionKind::AllowAlways;
            options.push(PermissionOption::new(ALLOW_ALWAYS_OPTION_ID, name, kind));
        }
        let kind = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new(REJECT_OPTION_ID, "Reject", kind));
        match self
            .send_permission_request(session, id, fields, options)
            .await
        {
            Err(why) => ApprovalAnswer::No(format!("the client did not ask the person: {why}")),
            Ok(None) => ApprovalAnswer::No("the person closed the question".to_owned()),
            Ok(Some(chosen)) => match chosen.as_str() {
                ALLOW_OPTION_ID => ApprovalAnswer::Yes,
                ALLOW_ALWAYS_OPTION_ID if question.covers.is_ok() => ApprovalAnswer::Always,
                REJECT_OPTION_ID => ApprovalAnswer::No("the person said no".to_owned()),
                other => ApprovalAnswer::No(format!(
                    "the client answered `{}`, which is not one of the offered options",
                    escape_and_truncate_line(other, 60)
                )),
            },
        }
    }

    /// Sends a permission request. Returns the id of the chosen option, or `None` if the user chose
    /// none.
    async fn send_permission_request(
        &self,
        session: &SessionIdAndEventConverter,
        id: String,
        fields: ToolCallUpdateFields,
        options: Vec<PermissionOption>,
    ) -> Result<Option<String>, String> {
        let call = ToolCallUpdate::new(id, fields);
        let request = RequestPermissionRequest::new(session.id.to_string(), call, options);
        let response: RequestPermissionResponse = self
            .link
            .send_request("session/request_permission", &request)
            .await?;
        Ok(match response.outcome {
            RequestPermissionOutcome::Selected(chosen) => Some(chosen.option_id.0.to_string()),
            _ => None,
        })
    }

    async fn ask_with_form(
        &self,
        session: &SessionIdAndEventConverter,
        question: &PluginUserQuestion,
    ) -> Option<UserAnswerToPlugin> {
        let scope = ElicitationSessionScope::new(session.id.to_string());
        let scope = ElicitationScope::Session(scope);
        let answer = request_form_answer(
            &self.link,
            scope,
            format_plugin_question(question),
            &question.kind,
        )
        .await?;
        match (&question.kind, answer) {
            (PluginUserQuestionKind::Confirm { .. }, FormAnswer::Yes(yes)) => {
                Some(UserAnswerToPlugin::Yes(yes))
            }
            (PluginUserQuestionKind::Choose { options, .. }, FormAnswer::Text(chosen)) => {
                let at = options.iter().position(|option| *option == chosen)?;
                Some(UserAnswerToPlugin::Choice(u32::try_from(at).ok()?))
            }
            (PluginUserQuestionKind::Text { .. }, FormAnswer::Text(text)) => {
                Some(UserAnswerToPlugin::Text(escape_to_one_line(&text)))
            }
            _ => None,
        }
    }

    /// Asks a question of a plugin as a permission request, for a client without forms. Returns
    /// `None` for a question that needs typed text as its answer.
    async fn ask_with_options(
        &self,
        session: &SessionIdAndEventConverter,
        question: &PluginUserQuestion,
    ) -> Option<UserAnswerToPlugin> {
        let option = |id: String, name: &str, kind| {
            PermissionOption::new(id, escape_to_one_line(name), kind)
        };
        let options = match &question.kind {
            PluginUserQuestionKind::Confirm { .. } => vec![
                option("yes".to_owned(), "Yes", PermissionOptionKind::AllowOnce),
                option("no".to_owned(), "No", PermissionOptionKind::RejectOnce),
            ],
            PluginUserQuestionKind::Choose { options, .. } => {
                let numbered = options.iter().enumerate();
                numbered
                    .map(|(at, name)| option(at.to_string(), name, PermissionOptionKind::AllowOnce))
                    .collect()
            }
            PluginUserQuestionKind::Text { .. } => return None,
        };
        let id = lock_ignoring_poison(&session.view).next_call_id("question");
        let text = format_plugin_question(question);
        let fields = ToolCallUpdateFields::new()
            .title(escape_and_truncate_line(&text, MAX_QUESTION_TITLE_BYTES))
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .content(vec![text_content(&text)]);
        let asked = self
            .send_permission_request(session, id.clone(), fields, options)
            .await;
        // The client shows the question as a tool call, and no tool result will complete that call:
        // complete it here.
        let status = match &asked {
            Ok(Some(_)) => ToolCallStatus::Completed,
            _ => ToolCallStatus::Failed,
        };
        let ended = ToolCallUpdate::new(id, ToolCallUpdateFields::new().status(status));
        let ended = crate::wire::SessionUpdate::ToolCallUpdate(ended);
        self.link.send_update(&session.id, ended);
        let chosen = asked.ok()??;
        match &question.kind {
            PluginUserQuestionKind::Confirm { .. } if chosen == "yes" => {
                Some(UserAnswerToPlugin::Yes(true))
            }
            PluginUserQuestionKind::Confirm { .. } if chosen == "no" => {
                Some(UserAnswerToPlugin::Yes(false))
            }
            PluginUserQuestionKind::Choose { options, .. } => {
                let at = chosen.parse::<u32>().ok();
                let at = at.filter(|at| usize::try_from(*at).is_ok_and(|at| at < options.len()));
                at.map(UserAnswerToPlugin::Choice)
            }
            _ => None,
        }
    }
}

fn format_plugin_question(question: &PluginUserQuestion) -> String {
    let text = printable_text(&question.text);
    // An MCP server is named `mcp:NAME` where a plugin would be named.
    match question.plugin.split_once(':') {
        Some((_, server)) => format!("The MCP server {} asks: {text}", escape_to_one_line(server)),
        None => format!(
            "The plugin {} asks: {text}",
            escape_to_one_line(&question.plugin)
        ),
    }
}

fn acp_tool_kind_of_question(question: &Question) -> ToolKind {
    use rind_lib::message::EffectClass;
    match question.effect_class {
        _ if question.skill.is_some() => ToolKind::Other,
        EffectClass::Read => ToolKind::Read,
        EffectClass::Write => ToolKind::Edit,
        EffectClass::Execute => ToolKind::Execute,
        EffectClass::External => ToolKind::Fetch,
    }
}

/// Returns the title of an approval question in one line: the tool, with the command or the file of
/// the call.
fn build_question_title(question: &Question) -> String {
    let name = question.skill.as_ref().unwrap_or(&question.tool);
    let of_mark = |mark: &str| {
        let lines = question.arguments.iter().filter(|line| line.mark == mark);
        lines.map(|line| line.text.as_str()).next()
    };
    let about = of_mark("$ ").map(|command| format!("$ {command}"));
    let about = about.or_else(|| of_mark("file: ").map(str::to_owned));
    let title = match about {
        Some(about) => format!("{name}: {about}"),
        None => name.clone(),
    };
    escape_and_truncate_line(&title, MAX_QUESTION_TITLE_BYTES)
}

/// Returns the details of the call: its final arguments, the plugins that are involved, what the
/// tool is allowed to do, and the diff.
fn build_question_content(
    question: &Question,
    workspace: &std::path::Path,
) -> Vec<ToolCallContent> {
    let lines = question.arguments.iter();
    let lines: Vec<String> = lines
        .map(|line| format!("{}{}", line.mark, printable_text(&line.text)))
        .collect();
    let mut text = fence_text(&lines.join("\n"));
    let mut add = |line: String| {
        text.push_str("\n\n");
        text.push_str(&printable_text(&line));
    };
    if let Some(plugin) = &question.plugin {
        add(format!("The tool belongs to the plugin {plugin}."));
    }
    if let Some(by) = &question.by {
        add(format!("The plugin {by} makes the call."));
    }
    if !question.may.is_empty() {
        add(format!("The tool may: {}.", question.may.join("; ")));
    }
    for (plugin, reason) in &question.reasons {
        add(format!("The plugin {plugin} asks because: {reason}"));
    }
    if let Err(why) = &question.covers {
        add(format!("It {why}."));
    }
    let mut content = vec![text_content(&text)];
    content.extend(build_proposed_file_diff(question, workspace));
    content
}

/// Returns the diff of a call that edits or writes a file. It is computed from the question and not
/// from the call, whose arguments hooks may have changed since.
fn build_proposed_file_diff(
    question: &Question,
    workspace: &std::path::Path,
) -> Vec<ToolCallContent> {
    match &question.written {
        Some(own) if question.skill.is_none() => {
            file_diff(workspace, &own.path, own.old.as_deref(), &own.new)
        }
        _ => Vec::new(),
    }
}
