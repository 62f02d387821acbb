//! Questions of a server to the user (elicitation), asked over the same channel as questions of
//! plugins.
//!
//! A server may ask only while one of its tools runs. The user is first asked whether to answer at
//! all. If no user can be asked, the host declines. It refuses questions for passwords or keys, and
//! never opens a URL. Start from [`ServerElicitationHandler::answer_elicitation`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::form::{
    ElicitationFormField, ElicitationFormRefusalReason, MAX_INDIVIDUALLY_ASKED_FIELDS,
    parse_elicitation_form,
};
use super::names::mcp_tool_source_name;
use super::proposal::ProposedElicitationFormValues;
use super::secret_words::label_asks_for_secret;
use rind_lib::host::ToolSourceSessionHandle;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::caller::Caller;
use rind_lib::point::handle::{
    HostFunctionError, PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin,
};
use rind_lib::text::escape_and_truncate_line;

/// Maximum number of forms and URLs that a server may send during one tool call.
const MAX_ELICITATIONS_PER_TOOL_CALL: u32 = 3;

/// Maximum number of warnings about refused questions, per server and session.
const MAX_REFUSED_QUESTION_WARNINGS: u32 = 5;

/// Maximum number of times that the user is asked for one field.
const MAX_ATTEMPTS_PER_FIELD: u32 = 2;

/// Maximum length of the server's message that a question shows to the user, in bytes.
const MAX_SHOWN_SERVER_MESSAGE_BYTES: usize = 400;

/// Options of a question about a form for which the server proposes values.
const SEND_PROPOSED_VALUES_OPTION: &str = "send these values";
const FILL_IN_FIELDS_OPTION: &str = "fill in each field";
const REFUSE_ANSWER_OPTION: &str = "do not answer";

/// Maximum length of a URL that is shown, in bytes. A longer one is refused, because the user could
/// not read its end.
const MAX_SHOWN_URL_BYTES: usize = 300;

/// Handler of the questions that one server asks in one session.
pub(crate) struct ServerElicitationHandler {
    server: String,
    origin: Arc<str>,
    session: ToolSourceSessionHandle,
    calls: Mutex<RunningToolCalls>,
    clock: Mutex<UserAnswerWaitClock>,
    /// Number of questions of the server that were refused in this session.
    n_refused: AtomicU32,
    /// Locked while the user answers a form, so that the questions of two forms do not mix.
    alone: tokio::sync::Mutex<()>,
}

/// Calls of the server's tools that are running, in the order in which they began.
#[derive(Default)]
struct RunningToolCalls {
    next: u64,
    all: Vec<RunningToolCall>,
}

struct RunningToolCall {
    number: u64,
    caller: Caller,
    n_forms: u32,
    over: CancellationToken,
}

/// Clock of the time spent waiting for the user's answers, which does not count towards the timeout
/// of a tool call.
#[derive(Default)]
struct UserAnswerWaitClock {
    since: Option<Instant>,
    total: Duration,
}

/// Guard that keeps the clock running while the user is asked. Dropping the guard stops the clock,
/// also when the future of a question is dropped; a clock that never stops would prevent the
/// timeout of the tool call.
struct RunningWaitClockGuard<'a>(&'a Mutex<UserAnswerWaitClock>);

impl<'a> RunningWaitClockGuard<'a> {
    fn start(clock: &'a Mutex<UserAnswerWaitClock>) -> Self {
        lock_ignoring_poison(clock).since = Some(Instant::now());
        Self(clock)
    }
}

impl Drop for RunningWaitClockGuard<'_> {
    fn drop(&mut self) {
        let mut clock = lock_ignoring_poison(self.0);
        let since = clock.since.take();
        clock.total += since.map(|since| since.elapsed()).unwrap_or_default();
    }
}

/// Guard that marks a tool call as running. Dropping the guard cancels the questions of the call.
pub(crate) struct RunningToolCallGuard<'a> {
    questions: &'a ServerElicitationHandler,
    number: u64,
}

impl Drop for RunningToolCallGuard<'_> {
    fn drop(&mut self) {
        let mut calls = lock_ignoring_poison(&self.questions.calls);
        calls.all.retain(|call| {
            if call.number == self.number {
                call.over.cancel();
            }
            call.number != self.number
        });
    }
}

/// Reason why a server's question to the user was not answered.
enum UnansweredQuestionReason {
    /// The user declined to answer, or there is no user who can be asked.
    Declined,
    /// The question was cancelled, or no valid answer was given.
    Cancelled,
}

impl ServerElicitationHandler {
    pub(crate) fn new(server: &str, session: ToolSourceSessionHandle) -> Self {
        Self {
            server: server.to_owned(),
            origin: mcp_tool_source_name(server).into(),
            session,
            calls: Mutex::default(),
            clock: Mutex::default(),
            n_refused: AtomicU32::new(0),
            alone: tokio::sync::Mutex::default(),
        }
    }

    /// Records that a tool call runs, during which the server may ask questions.
    pub(crate) fn register_running_tool_call(&self, caller: &Caller) -> RunningToolCallGuard<'_> {
        let mut calls = lock_ignoring_poison(&self.calls);
        let number = calls.next;
        calls.next += 1;
        calls.all.push(RunningToolCall {
            number,
            caller: caller.clone(),
            n_forms: 0,
            over: CancellationToken::new(),
        });
        RunningToolCallGuard {
            questions: self,
            number,
        }
    }

    /// Returns the total time for which the user has been asked in this session.
    pub(crate) fn total_user_wait_time(&self) -> Duration {
        let clock = lock_ignoring_poison(&self.clock);
        let running = clock.since.map(|since| since.elapsed()).unwrap_or_default();
        clock.total + running
    }

    /// Answers a question of the server by asking the user.
    pub(crate) async fn answer_elicitation(&self, request: ElicitRequestParams) -> ElicitResult {
        let _alone = self.alone.lock().await;
        let (caller, over) = match self.count_form_toward_running_call() {
            Ok(admitted) => admitted,
            Err(why) => {
                self.warn_refused_question(why);
                return ElicitResult::new(ElicitationAction::Decline);
            }
        };
        let running = RunningWaitClockGuard::start(&self.clock);
        let asked = tokio::select! {
            biased;
            () = over.cancelled() => Err(UnansweredQuestionReason::Cancelled),
            asked = self.ask_user_elicitation(request, &caller) => asked,
        };
        drop(running);
        match asked {
            Ok(None) => ElicitResult::new(ElicitationAction::Accept),
            Ok(Some(content)) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            Err(UnansweredQuestionReason::Declined) => {
                ElicitResult::new(ElicitationAction::Decline)
            }
            Err(UnansweredQuestionReason::Cancelled) => {
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }

    /// Counts a form towards the latest running call, and returns that call's caller and
    /// cancellation token. Fails with the reason if the form is refused.
    fn count_form_toward_running_call(&self) -> Result<(Caller, CancellationToken), &'static str> {
        let mut calls = lock_ignoring_poison(&self.calls);
        let call = calls
            .all
            .last_mut()
            .ok_or("no call of the server's tools runs")?;
        call.n_forms += 1;
        if call.n_forms > MAX_ELICITATIONS_PER_TOOL_CALL {
            return Err("the server has asked three times in this call already");
        }
        Ok((call.caller.clone(), call.over.clone()))
    }

    /// Warns the user that a question of the server was refused without being shown. Warns at most
    /// [`MAX_REFUSED_QUESTION_WARNINGS`] times per session, so that a server cannot flood the
    /// screen.
    fn warn_refused_question(&self, why: &str) {
        let n_before = self.n_refused.fetch_add(1, Ordering::Relaxed);
        if n_before >= MAX_REFUSED_QUESTION_WARNINGS {
            return;
        }
        let more = match n_before + 1 == MAX_REFUSED_QUESTION_WARNINGS {
            true => "; you are not told of its further refused questions in this session",
            false => "",
        };
        self.session.show_notice(format!(
            "MCP server `{}` asked you a question, which was refused: {why}{more}",
            self.server
        ));
    }

    async fn ask_user_elicitation(
        &self,
        request: ElicitRequestParams,
        caller: &Caller,
    ) -> Result<Option<Map<String, Value>>, UnansweredQuestionReason> {
        match request {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
                let form = parse_elicitation_form(&message, &schema);
                let fields = form.map_err(|fault| self.reject_server_form(&fault))?;
                self.ask_user_to_fill_form(&message, &fields, caller)
                    .await
                    .map(Some)
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                self.confirm_url_opened(&message, &url, caller).await?;
                Ok(None)
            }
            _ => {
                self.warn_refused_question("its question has an unknown type");
                Err(UnansweredQuestionReason::Declined)
            }
        }
    }

    fn reject_server_form(&self, fault: &ElicitationFormRefusalReason) -> UnansweredQuestionReason {
        self.warn_refused_question(&fault.to_string());
        UnansweredQuestionReason::Declined
    }

    /// Asks the user whether to answer the server. If the form proposes values, also offers to send
    /// these unchanged. If the user wants to fill in the form, asks for the value of each field.
    async fn ask_user_to_fill_form(
        &self,
        message: &str,
        fields: &[ElicitationFormField],
        caller: &Caller,
    ) -> Result<Map<String, Value>, UnansweredQuestionReason> {
        let names: Vec<String> = fields.iter().map(ElicitationFormField::label).collect();
        let message = escape_and_truncate_line(message, MAX_SHOWN_SERVER_MESSAGE_BYTES);
        let text = format!(
            "{message} (requested: {}) Do you want to answer?",
            names.join(", ")
        );
        let is_askable = fields.len() <= MAX_INDIVIDUALLY_ASKED_FIELDS;
        match ProposedElicitationFormValues::from_form(fields) {
            None if !is_askable => {
                let why = format!(
                    "its form has more than {MAX_INDIVIDUALLY_ASKED_FIELDS} fields, too many to ask about one by one, and its proposed values are incomplete, invalid or too long to show"
                );
                return Err(self.reject_server_form(&ElicitationFormRefusalReason::Shape(why)));
            }
            None => self.require_url_confirmation(text, caller).await?,
            Some(proposal) => {
                let text = format!("{message} (proposed values: {})", proposal.shown);
                if self
                    .confirm_proposed_form_values(text, is_askable, caller)
                    .await?
                {
                    return Ok(proposal.content);
                }
            }
        }
        let mut content = Map::new();
        for field in fields {
            if let Some(value) = self.ask_user_for_field_value(field, caller).await? {
                content.insert(field.name.clone(), value);
            }
        }
        Ok(content)
    }

    /// Asks whether to send the proposed values unchanged. Returns `false` if the user prefers to
    /// fill in each field.
    async fn confirm_proposed_form_values(
        &self,
        text: String,
        is_askable: bool,
        caller: &Caller,
    ) -> Result<bool, UnansweredQuestionReason> {
        let ways = [
            SEND_PROPOSED_VALUES_OPTION,
            FILL_IN_FIELDS_OPTION,
            REFUSE_ANSWER_OPTION,
        ];
        let ways = ways
            .into_iter()
            .filter(|way| is_askable || *way != FILL_IN_FIELDS_OPTION);
        let options: Vec<String> = ways.map(str::to_owned).collect();
        let kind = PluginUserQuestionKind::Choose {
            default: u32::try_from(options.len() - 1).unwrap_or_default(),
            options: options.clone(),
        };
        let UserAnswerToPlugin::Choice(at) = self.ask_user_question(text, kind, caller).await?
        else {
            return Err(UnansweredQuestionReason::Declined);
        };
        let chosen = usize::try_from(at).ok().and_then(|at| options.get(at));
        match chosen.map(String::as_str) {
            Some(SEND_PROPOSED_VALUES_OPTION) => Ok(true),
            Some(FILL_IN_FIELDS_OPTION) => Ok(false),
            _ => Err(UnansweredQuestionReason::Declined),
        }
    }

    async fn ask_user_for_field_value(
        &self,
        field: &ElicitationFormField,
        caller: &Caller,
    ) -> Result<Option<Value>, UnansweredQuestionReason> {
        let mut why = None;
        for _ in 0..MAX_ATTEMPTS_PER_FIELD {
            let text = match &why {
                None => field.question_text(),
                Some(why) => format!("{} ({why})", field.question_text()),
            };
            let answer = self
                .ask_user_question(text, field.user_question_kind(), caller)
                .await?;
            match field.parse_answer(&answer) {
                Ok(value) => return Ok(value),
                Err(fault) => why = Some(fault),
            }
        }
        self.warn_refused_question("the answers did not fit what it asks for");
        Err(UnansweredQuestionReason::Cancelled)
    }

    /// Asks the user whether a URL that the server names was opened. The host never opens it.
    async fn confirm_url_opened(
        &self,
        message: &str,
        url: &str,
        caller: &Caller,
    ) -> Result<(), UnansweredQuestionReason> {
        if let Err(why) = check_displayable_url(url) {
            self.warn_refused_question(&format!("it names a URL that {why}"));
            return Err(UnansweredQuestionReason::Declined);
        }
        if label_asks_for_secret(message) {
            return Err(
                self.reject_server_form(&ElicitationFormRefusalReason::Secret(
                    "its message".to_owned(),
                )),
            );
        }
        let text = format!(
            "{} It asks you to open {url} in a browser; Rind does not open it. Have you done what it asks?",
            escape_and_truncate_line(message, MAX_SHOWN_SERVER_MESSAGE_BYTES)
        );
        self.require_url_confirmation(text, caller).await
    }

    async fn require_url_confirmation(
        &self,
        text: String,
        caller: &Caller,
    ) -> Result<(), UnansweredQuestionReason> {
        let kind = PluginUserQuestionKind::Confirm { default: false };
        match self.ask_user_question(text, kind, caller).await? {
            UserAnswerToPlugin::Yes(true) => Ok(()),
            _ => Err(UnansweredQuestionReason::Declined),
        }
    }

    async fn ask_user_question(
        &self,
        text: String,
        kind: PluginUserQuestionKind,
        caller: &Caller,
    ) -> Result<UserAnswerToPlugin, UnansweredQuestionReason> {
        let question = PluginUserQuestion {
            plugin: self.origin.to_string(),
            text,
            kind,
            is_muted: false,
        };
        let handle = self.session.agent_handle();
        let asked = handle.ask_person(&self.origin, question, caller.clone());
        asked.await.map_err(|error| {
            if let HostFunctionError::Denied(why) | HostFunctionError::Limit(why) = &error {
                self.warn_refused_question(why);
            }
            UnansweredQuestionReason::Cancelled
        })
    }
}

/// Checks a URL before it is shown.
///
/// # Errors
/// Reason, phrased to follow "a URL that".
fn check_displayable_url(url: &str) -> Result<(), &'static str> {
    let is_plain = |c: char| c.is_ascii_graphic();
    let Some(rest) = url.strip_prefix("https://") else {
        return Err("is not a plain `https://` address");
    };
    if url.len() > MAX_SHOWN_URL_BYTES || !url.chars().all(is_plain) {
        return Err("is not a plain `https://` address");
    }
    // Browsers treat `\` as `/`, but other programs do not, so the host would be ambiguous.
    let authority = rest.split(['/', '?', '#', '\\']).next();
    let host = authority.unwrap_or_default();
    if host.is_empty() || host.contains('@') || url.contains('\\') {
        return Err("hides the host to which it leads");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_where_it_leads() {
        for url in ["https://a.example/login?x=1", "https://a.example:8443"] {
            assert_eq!(check_displayable_url(url), Ok(()), "{url}");
        }
        let long = format!("https://a.example/{}", "a".repeat(MAX_SHOWN_URL_BYTES));
        for url in [
            "http://a.example/",
            "javascript:alert(1)",
            "https://",
            "https://good.example@evil.example/",
            "https://good.example%20@evil.example",
            "https://evil.example\\@good.example/",
            "https://a.example/\u{202e}",
            &long,
        ] {
            assert!(check_displayable_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_clock_stands_after_a_question_that_was_dropped() {
        let clock = Mutex::default();
        drop(RunningWaitClockGuard::start(&clock));
        assert!(lock_ignoring_poison(&clock).since.is_none());
    }
}
