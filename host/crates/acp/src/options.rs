//! Session options that the client shows: the mode of approval, both as an ACP mode and as an
//! option, and the model.

use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::policy::ApprovalMode;

use crate::wire::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};

/// Ids of the session options that a client can change: approval mode and model.
pub(crate) const MODE_OPTION_ID: &str = "mode";
pub(crate) const MODEL_OPTION_ID: &str = "model";

/// Maximum number of models that are offered to the client.
const MAX_OFFERED_MODELS: usize = 500;

/// Maximum length of a model's name, in bytes. Longer names are not offered.
const MAX_MODEL_NAME_BYTES: usize = 200;

/// The current model and the models that can be chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentAndAvailableModels {
    current: String,
    listed: Vec<String>,
}

impl CurrentAndAvailableModels {
    pub(crate) fn new(current: &str) -> Self {
        Self {
            current: current.to_owned(),
            listed: Vec::new(),
        }
    }

    /// Sets the name of the model that later turns use.
    pub(crate) fn set_current(&mut self, name: &str) {
        name.clone_into(&mut self.current);
    }

    /// Stores the models that the provider listed. Names that are too long or contain unprintable
    /// characters are left out.
    pub(crate) fn set_listed_models(&mut self, mut names: Vec<String>) {
        names.retain(|name| {
            !name.is_empty() && escape_and_truncate_line(name, MAX_MODEL_NAME_BYTES) == *name
        });
        names.truncate(MAX_OFFERED_MODELS);
        self.listed = names;
    }

    /// Whether `name` is the current model or one of the listed models.
    pub(crate) fn has_model(&self, name: &str) -> bool {
        self.current == name || self.listed.iter().any(|own| own == name)
    }

    fn to_config_option(&self) -> SessionConfigOption {
        let others = self.listed.iter().filter(|name| **name != self.current);
        let names = std::iter::once(&self.current).chain(others);
        let options: Vec<SessionConfigSelectOption> = names
            .map(|name| SessionConfigSelectOption::new(name.clone(), name.clone()))
            .collect();
        SessionConfigOption::select(MODEL_OPTION_ID, "Model", self.current.clone(), options)
            .description("Takes effect in the next turn".to_owned())
            .category(SessionConfigOptionCategory::Model)
    }
}

/// Returns the label of an approval mode for the user.
fn approval_mode_label(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Ask => "Ask",
        ApprovalMode::AcceptEdits => "Accept edits",
        ApprovalMode::Plan => "Plan",
        ApprovalMode::Full => "Full",
    }
}

/// Returns the ACP modes, one for each approval mode, and which of them is current.
pub(crate) fn build_session_mode_state(current: ApprovalMode) -> SessionModeState {
    let modes = ApprovalMode::ALL.map(|mode| {
        SessionMode::new(mode.name(), approval_mode_label(mode))
            .description(mode.description().to_owned())
    });
    SessionModeState::new(current.name(), modes.to_vec())
}

/// Lists the session options with their current values.
pub(crate) fn config_options(
    mode: ApprovalMode,
    models: &CurrentAndAvailableModels,
) -> Vec<SessionConfigOption> {
    let modes = ApprovalMode::ALL.map(|mode| {
        SessionConfigSelectOption::new(mode.name(), approval_mode_label(mode))
            .description(mode.description().to_owned())
    });
    let mode = SessionConfigOption::select(MODE_OPTION_ID, "Mode", mode.name(), modes.to_vec())
        .description("Decides about calls that no rule matches".to_owned())
        .category(SessionConfigOptionCategory::Mode);
    vec![mode, models.to_config_option()]
}
