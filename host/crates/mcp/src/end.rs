//! The host's end of a connection: answers to requests of a server, and its notifications.
//!
//! The host declares that questions to the user can be put, and nothing else: a server gets no model
//! and no directories.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProtocolVersion, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use tokio::sync::mpsc::Sender;

use super::elicit::ServerQuestions;

/// Shows one line about the progress of a call.
pub(crate) type ShowProgress = Arc<dyn Fn(&str) + Send + Sync>;

/// The host's end of a connection.
#[derive(Clone)]
pub(crate) struct ClientEnd {
    /// Receives a message when the server reports that its tools have changed. Its capacity is one,
    /// so that several changes count as one.
    pub(crate) changed: Sender<()>,
    /// Whether a change was announced and the tools were not compared since.
    pub(crate) is_changed: Arc<AtomicBool>,
    pub(crate) progress: ShowProgress,
    /// The way to the person; `None` outside of a session.
    pub(crate) questions: Option<Arc<ServerQuestions>>,
}

impl ClientEnd {
    pub(crate) fn tell_change(&self) {
        self.is_changed.store(true, Ordering::Release);
        // Ignore the error: a full channel already holds a change notice, and a closed one has no
        // receiver.
        let _ = self.changed.try_send(());
    }
}

impl ClientHandler for ClientEnd {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell_change();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell_change();
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        (self.progress)(&progress_words(
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
            answer = questions.answer(request) => answer,
        })
    }

    /// Declares the same abilities in a session and outside: servers may offer other tools to a
    /// client that cannot ask.
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

fn progress_words(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
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
    fn progress_has_its_total_and_its_message() {
        assert_eq!(
            progress_words(3.0, Some(10.0), Some("reading")),
            "3 of 10: reading"
        );
        assert_eq!(progress_words(0.5, None, None), "0.5");
        assert_eq!(progress_words(1.0, Some(0.0), None), "1");
    }
}
