//! Reports the selected model and the reason for the selection.

use super::super::args::ModelArgs;
use super::super::setup;
use super::Check;
use crate::config::Config;
use crate::provider::scripted;

pub(super) fn check(config: &Config) -> Check {
    match setup::provider(config, &ModelArgs::default(), None) {
        Ok(selected) if selected.provider.name() == scripted::NAME => {
            Check::weaker(format!("scripted: {}", selected.why))
                .means("everything works, but a script answers in place of a model")
                .todo("set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or start Ollama")
        }
        Ok(selected) => {
            let (provider, model) = (selected.provider.name(), &selected.model);
            Check::ok(format!("{provider} {model}: {}", selected.why))
        }
        Err(error) => {
            Check::required(format!("{error:#}")).means("no turn can be run with these settings")
        }
    }
}
