//! Reports the selected model, the reason for the selection, and whether its server answers.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::DoctorCheck;
use rind_lib::provider::{SelectedModel, scripted};
use rind_lib::text::one_line;
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;

/// Timeout for the server to list its models.
const PATIENCE: Duration = Duration::from_secs(10);

/// Advice for a machine without a model.
const TODO: &str = "start `rind run \"…\"` at a terminal and choose one, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL";

pub(super) async fn check_model(setup: &OperatorSetup) -> DoctorCheck {
    match model::select_model(setup, &ModelSelection::default(), None) {
        Ok(selected) if selected.is_stand_in => {
            DoctorCheck::missing_check(format!("none: {}", selected.why))
                .with_meaning("no turn can run; `--provider scripted` answers from a script")
                .with_advice(TODO)
        }
        Ok(selected) if selected.provider.name() == scripted::NAME => {
            DoctorCheck::weaker_protection_check(format!("scripted: {}", selected.why))
                .with_meaning(
                    "everything works, but the answers come from a script, not from a model",
                )
                .with_advice(TODO)
        }
        Ok(selected) => check_model_server(&selected).await,
        Err(error) => DoctorCheck::required_check(format!("{error:#}"))
            .with_meaning("no turn can run with these settings"),
    }
}

/// Requests the list of models from the server. Most servers require a valid key for the list.
async fn check_model_server(selected: &SelectedModel) -> DoctorCheck {
    let (provider, model) = (selected.provider.name(), one_line(&selected.model));
    let url = selected.provider.base_url();
    let at = url.map_or_else(String::new, |url| format!(" at {}", one_line(&url)));
    let found = format!("{provider} {model}{at} ({})", selected.why);
    let cancel = CancellationToken::new();
    let _ends = cancel.clone().drop_guard();
    let asked = tokio::time::timeout(PATIENCE, selected.provider.models(&cancel)).await;
    let why = match asked {
        Ok(Ok(names)) if names.is_empty() => {
            return DoctorCheck::ok_check(format!("{found}; the provider's server answers"));
        }
        Ok(Ok(names)) if names.contains(&selected.model) => {
            return DoctorCheck::ok_check(format!(
                "{found}; the provider's server answers and lists the model"
            ));
        }
        Ok(Ok(_)) => {
            return DoctorCheck::weaker_protection_check(format!("{found}; the provider's server does not list the model"))
                .with_meaning("a turn may fail")
                .with_advice("`rind models` lists the models of the server; choose one with --model or `model` in [provider]");
        }
        Ok(Err(error)) => format!("{:#}", anyhow::Error::new(error)),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    DoctorCheck::missing_check(format!(
        "{found}; the request for the provider's list of models failed: {}",
        one_line(&why)
    ))
    .with_meaning("a turn will probably fail")
    .with_advice("check the address, the key and the network")
}
