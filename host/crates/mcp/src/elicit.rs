//! Questions of a server to the user (elicitation), asked over the same channel as questions of
//! plugins.
//!
//! A question is asked only while one of the server's tools runs, and the first question is whether
//! the user wants to answer at all. Without a user to ask, the answer is no. Questions for
//! passwords or keys are refused, and no URL is opened. Start from [`ServerQuestions::answer`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::form::{FormFault, FormField, MAX_ASKED_FIELDS, read_form};
use super::names::origin_of;
use super::proposal::Proposal;
use super::secret_words::asks_for_secret;
use rind_lib::host::SourceSession;
use rind_lib::lock::lock;
use rind_lib::point::caller::Caller;
use rind_lib::point::handle::{HandleError, PersonAnswer, PersonQuestion, QuestionKind};
use rind_lib::text::clean_line;

/// Maximum number of forms and URLs in one call.
const MAX_FORMS: u32 = 3;

/// Maximum number of refused questions per server and session about which the user is warned.
const MAX_TOLD: u32 = 5;

/// Maximum number of times that the user is asked for one field.
const MAX_TRIES: u32 = 2;

/// Maximum length of a server's message in a question, in bytes.
const MAX_MESSAGE_BYTES: usize = 400;

/// Options of a question about a form for which the server proposes values.
const SEND: &str = "send these values";
const FILL_IN: &str = "fill in each field";
const REFUSE: &str = "do not answer";

/// Maximum length of a URL that is shown, in bytes. A longer one is refused, because the user could
/// not read its end.
const MAX_URL_BYTES: usize = 300;

/// Questions that one server asks in one session.
pub(crate) struct ServerQuestions {
    server: String,
    origin: Arc<str>,
    session: SourceSession,
    calls: Mutex<RunningCalls>,
    clock: Mutex<AskClock>,
    /// Number of refused questions in the session.
    n_refused: AtomicU32,
    /// Held while one form is asked, so that the questions of two forms do not mix.
    alone: tokio::sync::Mutex<()>,
}

/// Running calls of the server's tools, in the order in which they began.
#[derive(Default)]
struct RunningCalls {
    next: u64,
    all: Vec<RunningCall>,
}

struct RunningCall {
    number: u64,
    caller: Caller,
    n_forms: u32,
    over: CancellationToken,
}

/// Time for which the user was asked, which does not count towards the call's timeout.
#[derive(Default)]
struct AskClock {
    since: Option<Instant>,
    total: Duration,
}

/// Keeps the clock running while the user is asked. Dropping it stops the clock, also when a
/// question is dropped; otherwise the rest of the call would count as asking, and the call would
/// never time out.
struct RunningClock<'a>(&'a Mutex<AskClock>);

impl<'a> RunningClock<'a> {
    fn start(clock: &'a Mutex<AskClock>) -> Self {
        lock(clock).since = Some(Instant::now());
        Self(clock)
    }
}

impl Drop for RunningClock<'_> {
    fn drop(&mut self) {
        let mut clock = lock(self.0);
        let since = clock.since.take();
        clock.total += since.map(|since| since.elapsed()).unwrap_or_default();
    }
}

/// Marks a call as running until it is dropped, which cancels the questions of the call.
pub(crate) struct CallGuard<'a> {
    questions: &'a ServerQuestions,
    number: u64,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.questions.calls);
        calls.all.retain(|call| {
            if call.number == self.number {
                call.over.cancel();
            }
            call.number != self.number
        });
    }
}

/// Reason why a question was not answered.
enum NoAnswer {
    /// The user declined, or no user can be asked.
    Declined,
    /// The question was cancelled, or no valid answer was given.
    Cancelled,
}

impl ServerQuestions {
    pub(crate) fn new(server: &str, session: SourceSession) -> Self {
        Self {
            server: server.to_owned(),
            origin: origin_of(server).into(),
            session,
            calls: Mutex::default(),
            clock: Mutex::default(),
            n_refused: AtomicU32::new(0),
            alone: tokio::sync::Mutex::default(),
        }
    }

    /// Records a running call, during which the server may ask.
    pub(crate) fn begin_call(&self, caller: &Caller) -> CallGuard<'_> {
        let mut calls = lock(&self.calls);
        let number = calls.next;
        calls.next += 1;
        calls.all.push(RunningCall {
            number,
            caller: caller.clone(),
            n_forms: 0,
            over: CancellationToken::new(),
        });
        CallGuard {
            questions: self,
            number,
        }
    }

    /// Returns the total time for which the user has been asked in this session.
    pub(crate) fn asked_time(&self) -> Duration {
        let clock = lock(&self.clock);
        let running = clock.since.map(|since| since.elapsed()).unwrap_or_default();
        clock.total + running
    }

    /// Answers a question of the server by asking the user.
    pub(crate) async fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        let _alone = self.alone.lock().await;
        let (caller, over) = match self.admit_form() {
            Ok(admitted) => admitted,
            Err(why) => {
                self.refuse(why);
                return ElicitResult::new(ElicitationAction::Decline);
            }
        };
        let running = RunningClock::start(&self.clock);
        let asked = tokio::select! {
            biased;
            () = over.cancelled() => Err(NoAnswer::Cancelled),
            asked = self.ask_request(request, &caller) => asked,
        };
        drop(running);
        match asked {
            Ok(None) => ElicitResult::new(ElicitationAction::Accept),
            Ok(Some(content)) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            Err(NoAnswer::Declined) => ElicitResult::new(ElicitationAction::Decline),
            Err(NoAnswer::Cancelled) => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Counts a form towards the latest running call; returns that call's caller and cancellation.
    /// The error is the reason why the form is refused.
    fn admit_form(&self) -> Result<(Caller, CancellationToken), &'static str> {
        let mut calls = lock(&self.calls);
        let call = calls.all.last_mut().ok_or("no call of its tools runs")?;
        call.n_forms += 1;
        if call.n_forms > MAX_FORMS {
            return Err("it has asked three times in this call already");
        }
        Ok((call.caller.clone(), call.over.clone()))
    }

    /// Warns the user that a question of the server was refused without being shown; only
    /// [`MAX_TOLD`] times, so that a server cannot flood the screen.
    fn refuse(&self, why: &str) {
        let n_before = self.n_refused.fetch_add(1, Ordering::Relaxed);
        if n_before >= MAX_TOLD {
            return;
        }
        let more = match n_before + 1 == MAX_TOLD {
            true => "; you are not told of its further refused questions in this session",
            false => "",
        };
        self.session.warn(format!(
            "MCP server `{}` asked you a question, which was refused: {why}{more}",
            self.server
        ));
    }

    async fn ask_request(
        &self,
        request: ElicitRequestParams,
        caller: &Caller,
    ) -> Result<Option<Map<String, Value>>, NoAnswer> {
        match request {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
                let form = read_form(&message, &schema);
                let fields = form.map_err(|fault| self.decline_fault(&fault))?;
                self.ask_form(&message, &fields, caller).await.map(Some)
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                self.ask_address(&message, &url, caller).await?;
                Ok(None)
            }
            _ => {
                self.refuse("its question has an unknown type");
                Err(NoAnswer::Declined)
            }
        }
    }

    fn decline_fault(&self, fault: &FormFault) -> NoAnswer {
        self.refuse(&fault.to_string());
        NoAnswer::Declined
    }

    /// Asks whether the user wants to answer at all, or to send the proposed values; then asks for
    /// each field.
    async fn ask_form(
        &self,
        message: &str,
        fields: &[FormField],
        caller: &Caller,
    ) -> Result<Map<String, Value>, NoAnswer> {
        let names: Vec<String> = fields.iter().map(FormField::label).collect();
        let message = clean_line(message, MAX_MESSAGE_BYTES);
        let text = format!(
            "{message} (it wants: {}) Do you want to answer?",
            names.join(", ")
        );
        let is_askable = fields.len() <= MAX_ASKED_FIELDS;
        match Proposal::of_form(fields) {
            None if !is_askable => {
                let why = format!(
                    "its form has more than {MAX_ASKED_FIELDS} fields, and its proposed values cannot be sent as they are"
                );
                return Err(self.decline_fault(&FormFault::Shape(why)));
            }
            None => self.confirm(text, caller).await?,
            Some(proposal) => {
                let text = format!("{message} (it proposes: {})", proposal.shown);
                if self.takes_proposal(text, is_askable, caller).await? {
                    return Ok(proposal.content);
                }
            }
        }
        let mut content = Map::new();
        for field in fields {
            if let Some(value) = self.ask_field(field, caller).await? {
                content.insert(field.name.clone(), value);
            }
        }
        Ok(content)
    }

    /// Asks whether to send the proposed values unchanged. Returns `false` if the user prefers to
    /// fill in each field.
    async fn takes_proposal(
        &self,
        text: String,
        is_askable: bool,
        caller: &Caller,
    ) -> Result<bool, NoAnswer> {
        let ways = [SEND, FILL_IN, REFUSE];
        let ways = ways.into_iter().filter(|way| is_askable || *way != FILL_IN);
        let options: Vec<String> = ways.map(str::to_owned).collect();
        let kind = QuestionKind::Choose {
            default: u32::try_from(options.len() - 1).unwrap_or_default(),
            options: options.clone(),
        };
        let PersonAnswer::Choice(at) = self.ask(text, kind, caller).await? else {
            return Err(NoAnswer::Declined);
        };
        let chosen = usize::try_from(at).ok().and_then(|at| options.get(at));
        match chosen.map(String::as_str) {
            Some(SEND) => Ok(true),
            Some(FILL_IN) => Ok(false),
            _ => Err(NoAnswer::Declined),
        }
    }

    async fn ask_field(
        &self,
        field: &FormField,
        caller: &Caller,
    ) -> Result<Option<Value>, NoAnswer> {
        let mut why = None;
        for _ in 0..MAX_TRIES {
            let text = match &why {
                None => field.question(),
                Some(why) => format!("{} ({why})", field.question()),
            };
            let answer = self.ask(text, field.kind(), caller).await?;
            match field.value_of(&answer) {
                Ok(value) => return Ok(value),
                Err(fault) => why = Some(fault),
            }
        }
        self.refuse("the answers did not fit what it asks for");
        Err(NoAnswer::Cancelled)
    }

    /// Shows a URL that the server asks the user to open. The host never opens it.
    async fn ask_address(&self, message: &str, url: &str, caller: &Caller) -> Result<(), NoAnswer> {
        if let Err(why) = check_address(url) {
            self.refuse(&format!("it names an address that {why}"));
            return Err(NoAnswer::Declined);
        }
        if asks_for_secret(message) {
            return Err(self.decline_fault(&FormFault::Secret("its message".to_owned())));
        }
        let text = format!(
            "{} It asks you to open {url} in a browser; Rind does not open it. Have you done what it asks?",
            clean_line(message, MAX_MESSAGE_BYTES)
        );
        self.confirm(text, caller).await
    }

    async fn confirm(&self, text: String, caller: &Caller) -> Result<(), NoAnswer> {
        let kind = QuestionKind::Confirm { default: false };
        match self.ask(text, kind, caller).await? {
            PersonAnswer::Yes(true) => Ok(()),
            _ => Err(NoAnswer::Declined),
        }
    }

    async fn ask(
        &self,
        text: String,
        kind: QuestionKind,
        caller: &Caller,
    ) -> Result<PersonAnswer, NoAnswer> {
        let question = PersonQuestion {
            plugin: self.origin.to_string(),
            text,
            kind,
            is_muted: false,
        };
        let handle = self.session.handle();
        let asked = handle.ask_person(&self.origin, question, caller.clone());
        asked.await.map_err(|error| {
            if let HandleError::Denied(why) | HandleError::Limit(why) = &error {
                self.refuse(why);
            }
            NoAnswer::Cancelled
        })
    }
}

/// Checks a URL before it is shown.
///
/// # Errors
/// Reason, phrased to follow "an address that".
fn check_address(url: &str) -> Result<(), &'static str> {
    let is_plain = |c: char| c.is_ascii_graphic();
    let Some(rest) = url.strip_prefix("https://") else {
        return Err("is not a plain `https://` address");
    };
    if url.len() > MAX_URL_BYTES || !url.chars().all(is_plain) {
        return Err("is not a plain `https://` address");
    }
    // Browsers treat `\` as `/`, but other programs do not, so the host would be ambiguous.
    let authority = rest.split(['/', '?', '#', '\\']).next();
    let host = authority.unwrap_or_default();
    if host.is_empty() || host.contains('@') || url.contains('\\') {
        return Err("hides the host to which it redirects");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_where_it_leads() {
        for url in ["https://a.example/login?x=1", "https://a.example:8443"] {
            assert_eq!(check_address(url), Ok(()), "{url}");
        }
        let long = format!("https://a.example/{}", "a".repeat(MAX_URL_BYTES));
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
            assert!(check_address(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_clock_stands_after_a_question_that_was_dropped() {
        let clock = Mutex::default();
        drop(RunningClock::start(&clock));
        assert!(lock(&clock).since.is_none());
    }
}
