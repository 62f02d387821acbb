//! Sends the commands, modes and models of an open session to the client, and applies the client's
//! choices.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rind_lib::lock::lock_ignoring_poison;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::policy::ApprovalMode;
use tokio_util::sync::CancellationToken;

use super::OpenAcpSession;
use crate::options::{MODE_OPTION_ID, MODEL_OPTION_ID, build_session_mode_state, config_options};
use crate::wire::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ConfigOptionUpdate,
    CurrentModeUpdate, NoticeSeverity, SessionConfigOption, SessionModeState, SessionUpdate,
    UnstructuredCommandInput, WireError,
};

/// Maximum time for a provider to list its models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(15);

impl OpenAcpSession {
    pub(crate) fn modes(&self) -> SessionModeState {
        build_session_mode_state(self.approval_mode_handle().mode())
    }

    pub(crate) fn config_options(&self) -> Vec<SessionConfigOption> {
        config_options(
            self.approval_mode_handle().mode(),
            &lock_ignoring_poison(&self.models),
        )
    }

    /// Sends the commands and the notices to the client. Then waits until the provider has listed
    /// its models, and sends them.
    pub(crate) async fn announce_session(self: Arc<Self>) {
        self.send_available_commands();
        let notes = std::mem::take(&mut *lock_ignoring_poison(&self.notes));
        let unshown = notes.into_iter().filter(|note| {
            let severity = NoticeSeverity::Warning;
            !self.link.send_notice(&self.id, severity, note.clone())
        });
        // Keep the notices for a client that shows no notices: they are sent as thoughts at the
        // next prompt.
        *lock_ignoring_poison(&self.notes) = unshown.collect();
        self.refresh_listed_models().await;
    }

    async fn refresh_listed_models(&self) {
        let cancel = CancellationToken::new();
        let provider = lock_ignoring_poison(&self.provider).clone();
        let listing = provider.models(&cancel);
        match tokio::time::timeout(MODEL_LIST_TIMEOUT, listing).await {
            Ok(Ok(names)) if !names.is_empty() => {
                // Another provider may have been selected in the meantime.
                let current = lock_ignoring_poison(&self.provider);
                if current.name() != provider.name() {
                    return;
                }
                lock_ignoring_poison(&self.models).set_listed_models(names);
                drop(current);
                self.send_config_options();
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the models cannot be listed"),
            Err(_) => tracing::debug!("the models cannot be listed: it takes too long"),
        }
    }

    fn send_available_commands(&self) {
        let commands = self.command_runner().list_commands().into_iter();
        let commands: Vec<AvailableCommand> = commands
            .map(|own| {
                let input = (!own.arguments.is_empty()).then(|| {
                    let hint = UnstructuredCommandInput::new(own.arguments.clone());
                    AvailableCommandInput::Unstructured(hint)
                });
                AvailableCommand::new(own.name, own.description).input(input)
            })
            .collect();
        let update = AvailableCommandsUpdate::new(commands);
        self.send_update(SessionUpdate::AvailableCommandsUpdate(update));
    }

    pub(super) fn send_config_options(&self) {
        let update = ConfigOptionUpdate::new(self.config_options());
        self.send_update(SessionUpdate::ConfigOptionUpdate(update));
    }

    /// Sends the approval mode to the client, if the mode has changed since it was last sent.
    pub(super) fn send_mode_update(&self) {
        let mode = self.approval_mode_handle().mode();
        let before = std::mem::replace(&mut *lock_ignoring_poison(&self.told_mode), mode);
        if before != mode {
            let update = CurrentModeUpdate::new(mode.name());
            self.send_update(SessionUpdate::CurrentModeUpdate(update));
            self.send_config_options();
        }
    }

    /// Switches the mode of approval, which applies from the next tool call on.
    ///
    /// # Errors
    /// There is no such mode.
    pub(crate) fn set_mode(&self, name: &str) -> Result<(), WireError> {
        let mode = name.parse::<ApprovalMode>();
        let mode = mode.map_err(|why| WireError::new(-32602, why))?;
        self.approval_mode_handle().set_mode(mode);
        self.send_mode_update();
        Ok(())
    }

    /// Sets a session option, which is the mode or the model.
    ///
    /// # Errors
    /// There is no such option, or the value is not valid for the option.
    pub(crate) fn set_option(&self, id: &str, value: &str) -> Result<(), WireError> {
        match id {
            MODE_OPTION_ID => self.set_mode(value),
            MODEL_OPTION_ID if lock_ignoring_poison(&self.models).has_model(value) => {
                let chosen = self.choose_model(value, true);
                chosen.map_err(|why| WireError::new(-32602, why)).map(drop)
            }
            MODEL_OPTION_ID => Err(WireError::new(
                -32602,
                format!(
                    "`{}` is not among the models; `/model NAME` selects a model that is not listed",
                    escape_and_truncate_line(value, 100)
                ),
            )),
            _ => Err(WireError::new(
                -32602,
                format!(
                    "there is no option `{}`; the options are `{MODE_OPTION_ID}` and `{MODEL_OPTION_ID}`",
                    escape_and_truncate_line(id, 100)
                ),
            )),
        }
    }

    /// Whether another provider was selected since the last call, so that its models must be
    /// listed.
    pub(crate) fn take_model_list_outdated_flag(&self) -> bool {
        self.is_list_outdated.swap(false, Ordering::Relaxed)
    }

    /// Selects the model for the next prompt and later ones. Returns the name of the model.
    pub(super) fn choose_model(&self, name: &str, is_listed: bool) -> Result<String, String> {
        let selected = self.command_runner().select_model(name, is_listed)?;
        let name = selected.model.clone();
        let mut provider = lock_ignoring_poison(&self.provider);
        let mut models = lock_ignoring_poison(&self.models);
        models.set_current(&name);
        if provider.name() != selected.provider.name() {
            provider.clone_from(&selected.provider);
            // A listed name would be requested from a provider that has not listed it.
            models.set_listed_models(Vec::new());
            self.is_list_outdated.store(true, Ordering::Relaxed);
        }
        drop((models, provider));
        lock_ignoring_poison(&self.view).window = selected.provider.profile(&name).window_tokens;
        *lock_ignoring_poison(&self.wanted) = Some(selected);
        Ok(name)
    }
}
