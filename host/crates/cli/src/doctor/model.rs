//! Reports the selected model and the reason for the selection.

use super::DoctorCheck;
use rind_lib::provider::scripted;
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

pub(super) fn check_model(setup: &OperatorSetup) -> DoctorCheck {
    match model::select(setup, &ModelSelection::default(), None) {
        Ok(selected) if selected.provider.name() == scripted::NAME => {
            DoctorCheck::weaker_check(format!("scripted: {}", selected.why))
                .with_meaning("everything works, but a script answers in place of a model")
                .with_todo("start `rind run \"…\"` at a terminal and choose one, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL")
        }
        Ok(selected) => {
            let (provider, model) = (selected.provider.name(), &selected.model);
            DoctorCheck::ok_check(format!("{provider} {model}: {}", selected.why))
        }
        Err(error) => {
            DoctorCheck::required_check(format!("{error:#}")).with_meaning("no turn can be run with these settings")
        }
    }
}
