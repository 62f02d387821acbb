//! The host's end of a connection: answers to requests of a server, and its notifications.
//!
//! The host declares no capabilities: a server gets no model, no directories and no questions to the
//! user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::mpsc::Sender;

/// Shows one line about the progress of a call.
pub(crate) type ShowProgress = Arc<dyn Fn(&str) + Send + Sync>;

/// The host's end of a connection.
#[derive(Clone)]
pub(crate) struct ClientEnd {
    /// Receives a message when the server says that its tools have changed. Has room for one, so
    /// that many changes at once are one.
    pub(crate) changed: Sender<()>,
    /// Whether a change was announced and the tools were not compared since.
    pub(crate) is_changed: Arc<AtomicBool>,
    pub(crate) progress: ShowProgress,
}

impl ClientEnd {
    pub(crate) fn tell_change(&self) {
        self.is_changed.store(true, Ordering::Release);
        // A change that waits already stands for this one, and nobody may listen any more.
        let _ = self.changed.try_send(());
    }
}

impl ClientHandler for ClientEnd {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
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

    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("rind", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
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
