//! Handles the requests and notifications that a server sends to the host.
//!
//! The only capability that the host declares is elicitation (questions to the user): a server can
//! use neither the host's model (sampling) nor its directories (roots).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProtocolVersion, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use tokio::sync::mpsc::Sender;

use super::elicit::ServerElicitationHandler;
use rind_lib::lock::lock_ignoring_poison;

/// Function that shows one line about the progress of a tool call.
pub(crate) type ProgressLineCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Maximum number of progress lines that may arrive at once. Afterwards, the same number of lines
/// is allowed per second.
const MAX_PROGRESS_LINE_BURST: u32 = 10;

/// Token bucket that limits the number of progress lines, because each becomes an event.
#[derive(Debug)]
pub(crate) struct ProgressLineRateLimiter(Mutex<(Instant, f64)>);

impl Default for ProgressLineRateLimiter {
    fn default() -> Self {
        Self(Mutex::new((
            Instant::now(),
            f64::from(MAX_PROGRESS_LINE_BURST),
        )))
    }
}

impl ProgressLineRateLimiter {
    /// Takes one token from the bucket. Returns whether the line may be shown.
    pub(crate) fn take_progress_line_token(&self) -> bool {
        let mut gate = lock_ignoring_poison(&self.0);
        let (since, left) = *gate;
        let most = f64::from(MAX_PROGRESS_LINE_BURST);
        let now = Instant::now();
        let left = (left + since.elapsed().as_secs_f64() * most).min(most);
        *gate = (now, if left < 1.0 { left } else { left - 1.0 });
        left >= 1.0
    }
}

/// Handler of the requests and notifications of one connection to an MCP server. Clones share their
/// state.
#[derive(Clone)]
pub(crate) struct McpClientHandler {
    /// Channel to which a message is sent when the server announces a change of its tools or
    /// prompts. The channel has a capacity of one, so that several changes count as one.
    pub(crate) changed: Sender<()>,
    /// Whether a change was announced that
    /// [`take_list_changed_flag`](super::client::McpServerConnection::take_list_changed_flag) has
    /// not consumed yet.
    pub(crate) is_changed: Arc<AtomicBool>,
    pub(crate) progress: ProgressLineCallback,
    /// Asks the user the server's questions; `None` outside a session.
    pub(crate) questions: Option<Arc<ServerElicitationHandler>>,
}

impl McpClientHandler {
    pub(crate) fn signal_list_change(&self) {
        self.is_changed.store(true, Ordering::Release);
        // Ignore the error: a full channel already holds a change notice, and a closed one has no
        // receiver.
        let _ = self.changed.try_send(());
    }
}

impl ClientHandler for McpClientHandler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.signal_list_change();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.signal_list_change();
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        (self.progress)(&format_progress_line(
            told.progress,
            told.total,
            told.message.as_deref(),
        ));
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(questions) = &self.questions else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        Ok(tokio::select! {
            biased;
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
            answer = questions.answer_elicitation(request) => answer,
        })
    }

    /// Declares the same capabilities in a session and outside, because servers may offer other
    /// tools to a client that cannot ask the user.
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("rind", env!("CARGO_PKG_VERSION"));
        let form = FormElicitationCapability::new().with_schema_validation(true);
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(form)
                .with_url(UrlElicitationCapability::new()),
        );
        ClientConfig::new(capabilities, own).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

fn format_progress_line(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let number = match total {
        Some(total) if total > 0.0 => format!("{progress} of {total}"),
        _ => format!("{progress}"),
    };
    match message {
        Some(message) => format!("{number}: {message}"),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_progress_is_cut() {
        let gate = ProgressLineRateLimiter::default();
        let shown = (0..10_000)
            .filter(|_| gate.take_progress_line_token())
            .count();
        assert!((10..1000).contains(&shown), "{shown}");
    }

    #[test]
    fn progress_has_its_total_and_its_message() {
        assert_eq!(
            format_progress_line(3.0, Some(10.0), Some("reading")),
            "3 of 10: reading"
        );
        assert_eq!(format_progress_line(0.5, None, None), "0.5");
        assert_eq!(format_progress_line(1.0, Some(0.0), None), "1");
    }
}
