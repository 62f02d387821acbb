//! Options of a session that the client shows: the mode of approval, as a mode and as an option, and
//! the model.

use rind_lib::text::clean_line;
use rind_lib::tool::policy::ApprovalMode;

use crate::wire::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};

/// Ids of the options.
pub(crate) const MODE: &str = "mode";
pub(crate) const MODEL: &str = "model";

/// Largest number of models that are offered.
const MAX_MODELS: usize = 500;

/// Longest name of a model, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The model that is asked, and those that can be chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelChoice {
    current: String,
    listed: Vec<String>,
}

impl ModelChoice {
    pub(crate) fn new(current: &str) -> Self {
        Self {
            current: current.to_owned(),
            listed: Vec::new(),
        }
    }

    /// Stores the model that later turns ask.
    pub(crate) fn set_current(&mut self, name: &str) {
        name.clone_into(&mut self.current);
    }

    /// Records the models that the server listed.
    pub(crate) fn set_listed(&mut self, mut names: Vec<String>) {
        names.retain(|name| !name.is_empty() && clean_line(name, MAX_NAME_BYTES) == *name);
        names.truncate(MAX_MODELS);
        self.listed = names;
    }

    /// Whether a model is among those that can be chosen.
    pub(crate) fn has_model(&self, name: &str) -> bool {
        self.current == name || self.listed.iter().any(|own| own == name)
    }

    fn option(&self) -> SessionConfigOption {
        let others = self.listed.iter().filter(|name| **name != self.current);
        let names = std::iter::once(&self.current).chain(others);
        let options: Vec<SessionConfigSelectOption> = names
            .map(|name| SessionConfigSelectOption::new(name.clone(), name.clone()))
            .collect();
        SessionConfigOption::select(MODEL, "Model", self.current.clone(), options)
            .description("Takes effect in the next turn".to_owned())
            .category(SessionConfigOptionCategory::Model)
    }
}

/// Returns the name of a mode for people.
fn mode_label(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Ask => "Ask",
        ApprovalMode::AcceptEdits => "Accept edits",
        ApprovalMode::Plan => "Plan",
        ApprovalMode::Full => "Full",
    }
}

/// Lists the modes.
pub(crate) fn mode_state(current: ApprovalMode) -> SessionModeState {
    let modes = ApprovalMode::ALL.map(|mode| {
        SessionMode::new(mode.name(), mode_label(mode)).description(mode.about().to_owned())
    });
    SessionModeState::new(current.name(), modes.to_vec())
}

/// Lists the options.
pub(crate) fn config_options(mode: ApprovalMode, models: &ModelChoice) -> Vec<SessionConfigOption> {
    let modes = ApprovalMode::ALL.map(|mode| {
        SessionConfigSelectOption::new(mode.name(), mode_label(mode))
            .description(mode.about().to_owned())
    });
    let mode = SessionConfigOption::select(MODE, "Mode", mode.name(), modes.to_vec())
        .description("Decides about calls that no rule matches".to_owned())
        .category(SessionConfigOptionCategory::Mode);
    vec![mode, models.option()]
}
