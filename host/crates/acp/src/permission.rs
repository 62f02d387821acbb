//! Asks the user during a turn: to approve tool calls, and to answer questions of plugins.
//!
//! The user is never asked about calls that the policy denies, and the host, not the client,
//! decides which calls an approval covers. A response with an unknown option counts as a no.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rind_lib::lock::lock;
use rind_lib::point::handle::{PersonAnswer, PersonQuestion, QuestionKind};
use rind_lib::text::{clean_line, one_line, printable_text};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};

use crate::ask::{FormAnswer, ask_form};
use crate::calls::{fence_text, file_diff, text_content};
use crate::client::ClientLink;
use crate::view::EventView;
use crate::wire::{
    ElicitationScope, ElicitationSessionScope, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};

/// Ids of the answers in a permission request.
const ALLOW_OPTION: &str = "allow";
const ALLOW_ALWAYS_OPTION: &str = "allow-always";
const REJECT_OPTION: &str = "reject";

/// Maximum length of a question's title, in bytes.
const MAX_TITLE_BYTES: usize = 200;

/// Asks the client's user about the tool calls and the plugins of one session.
pub(crate) struct AcpApprover {
    pub(crate) link: Arc<ClientLink>,
    /// Id of the session, and the view that converts its events for the client; unset until the
    /// session is open.
    pub(crate) session: Arc<OnceLock<PermissionSession>>,
    pub(crate) workspace: PathBuf,
}

/// Session to which the questions belong.
pub(crate) struct PermissionSession {
    pub(crate) id: Arc<str>,
    pub(crate) view: Arc<Mutex<EventView>>,
}

impl Approver for AcpApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        self.ask_call(question).boxed()
    }

    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
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

impl AcpApprover {
    async fn ask_call(&self, question: &Question) -> ApprovalAnswer {
        let Some(session) = self.session.get() else {
            return ApprovalAnswer::No("the session is not open yet".to_owned());
        };
        let id = {
            let mut view = lock(&session.view);
            let call = question.call.as_deref();
            let known = call.and_then(|call| view.client_call_id(call));
            known.unwrap_or_else(|| view.next_call_id("question"))
        };
        let fields = ToolCallUpdateFields::new()
            .title(build_question_title(question))
            .kind(question_tool_kind(question))
            .status(ToolCallStatus::Pending)
            .content(build_question_content(question, &self.workspace));
        let mut options = vec![PermissionOption::new(
            ALLOW_OPTION,
            "Allow once",
            PermissionOptionKind::AllowOnce,
        )];
        if let Ok(covers) = &question.covers {
            let name = format!("Always allow in this session: {}", one_line(covers));
            let kind = PermissionOptionKind::AllowAlways;
            options.push(PermissionOption::new(ALLOW_ALWAYS_OPTION, name, kind));
        }
        let kind = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new(REJECT_OPTION, "Reject", kind));
        match self.request_choice(session, id, fields, options).await {
            Err(why) => ApprovalAnswer::No(format!("the client did not ask the person: {why}")),
            Ok(None) => ApprovalAnswer::No("the person closed the question".to_owned()),
            Ok(Some(chosen)) => match chosen.as_str() {
                ALLOW_OPTION => ApprovalAnswer::Yes,
                ALLOW_ALWAYS_OPTION if question.covers.is_ok() => ApprovalAnswer::Always,
                REJECT_OPTION => ApprovalAnswer::No("the person said no".to_owned()),
                other => ApprovalAnswer::No(format!(
                    "the client answered `{}`, which is not one of the offered options",
                    clean_line(other, 60)
                )),
            },
        }
    }

    /// Sends a permission request. Returns the id of the chosen option, or `None` if the user chose
    /// none.
    async fn request_choice(
        &self,
        session: &PermissionSession,
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
        session: &PermissionSession,
        question: &PersonQuestion,
    ) -> Option<PersonAnswer> {
        let scope = ElicitationSessionScope::new(session.id.to_string());
        let scope = ElicitationScope::Session(scope);
        let answer = ask_form(
            &self.link,
            scope,
            format_plugin_question(question),
            &question.kind,
        )
        .await?;
        match (&question.kind, answer) {
            (QuestionKind::Confirm { .. }, FormAnswer::Yes(yes)) => Some(PersonAnswer::Yes(yes)),
            (QuestionKind::Choose { options, .. }, FormAnswer::Text(chosen)) => {
                let at = options.iter().position(|option| *option == chosen)?;
                Some(PersonAnswer::Choice(u32::try_from(at).ok()?))
            }
            (QuestionKind::Text { .. }, FormAnswer::Text(text)) => {
                Some(PersonAnswer::Text(one_line(&text)))
            }
            _ => None,
        }
    }

    /// Asks a question of a plugin as a permission request, for a client without forms. Returns
    /// `None` for a question that needs typed text as its answer.
    async fn ask_with_options(
        &self,
        session: &PermissionSession,
        question: &PersonQuestion,
    ) -> Option<PersonAnswer> {
        let option = |id: String, name: &str, kind| PermissionOption::new(id, one_line(name), kind);
        let options = match &question.kind {
            QuestionKind::Confirm { .. } => vec![
                option("yes".to_owned(), "Yes", PermissionOptionKind::AllowOnce),
                option("no".to_owned(), "No", PermissionOptionKind::RejectOnce),
            ],
            QuestionKind::Choose { options, .. } => {
                let numbered = options.iter().enumerate();
                numbered
                    .map(|(at, name)| option(at.to_string(), name, PermissionOptionKind::AllowOnce))
                    .collect()
            }
            QuestionKind::Text { .. } => return None,
        };
        let id = lock(&session.view).next_call_id("question");
        let text = format_plugin_question(question);
        let fields = ToolCallUpdateFields::new()
            .title(clean_line(&text, MAX_TITLE_BYTES))
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending)
            .content(vec![text_content(&text)]);
        let asked = self
            .request_choice(session, id.clone(), fields, options)
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
            QuestionKind::Confirm { .. } if chosen == "yes" => Some(PersonAnswer::Yes(true)),
            QuestionKind::Confirm { .. } if chosen == "no" => Some(PersonAnswer::Yes(false)),
            QuestionKind::Choose { options, .. } => {
                let at = chosen.parse::<u32>().ok();
                let at = at.filter(|at| usize::try_from(*at).is_ok_and(|at| at < options.len()));
                at.map(PersonAnswer::Choice)
            }
            _ => None,
        }
    }
}

fn format_plugin_question(question: &PersonQuestion) -> String {
    let text = printable_text(&question.text);
    // An MCP server is named `mcp:NAME` where a plugin would be named.
    match question.plugin.split_once(':') {
        Some((_, server)) => format!("The MCP server {} asks: {text}", one_line(server)),
        None => format!("The plugin {} asks: {text}", one_line(&question.plugin)),
    }
}

fn question_tool_kind(question: &Question) -> ToolKind {
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
    clean_line(&title, MAX_TITLE_BYTES)
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
    content.extend(build_question_diff(question, workspace));
    content
}

/// Returns the diff of a call that edits or writes a file. It is computed from the question and not
/// from the call, whose arguments hooks may have changed since.
fn build_question_diff(question: &Question, workspace: &std::path::Path) -> Vec<ToolCallContent> {
    match &question.written {
        Some(own) if question.skill.is_none() => {
            file_diff(workspace, &own.path, own.old.as_deref(), &own.new)
        }
        _ => Vec::new(),
    }
}
