//! Reports the selected model and the reason for the selection.

use super::Check;
use rind_lib::provider::scripted;
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

pub(super) fn check(setup: &OperatorSetup) -> Check {
    match model::select(setup, &ModelSelection::default(), None) {
        Ok(selected) if selected.provider.name() == scripted::NAME => {
            Check::weaker(format!("scripted: {}", selected.why))
                .means("everything works, but a script answers in place of a model")
                .todo("start `rind run \"…\"` at a terminal and choose one, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL")
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
