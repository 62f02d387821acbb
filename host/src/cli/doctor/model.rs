//! Reports the selected model and the reason for the selection.

use super::super::args::ModelArgs;
use super::super::setup;
use super::{Check, State};
use crate::config::Config;
use crate::provider::scripted;

pub(super) fn check(config: &Config) -> Check {
    const NAME: &str = "model";
    match setup::provider(config, &ModelArgs::default(), None) {
        Ok(selected) if selected.provider.name() == scripted::NAME => {
            Check::new(NAME, State::Weaker, format!("scripted: {}", selected.why))
                .means("everything works, but a script answers in place of a model")
                .todo("set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or start Ollama")
        }
        Ok(selected) => Check::new(
            NAME,
            State::Ok,
            format!(
                "{} {}: {}",
                selected.provider.name(),
                selected.model,
                selected.why
            ),
        ),
        Err(error) => Check::new(NAME, State::Missing, format!("{error:#}"))
            .required()
            .means("no turn can be run with these settings"),
    }
}
