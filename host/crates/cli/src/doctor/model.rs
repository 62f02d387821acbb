//! Reports the selected model, the reason for the selection, and whether its server answers.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::DoctorCheck;
use rind_lib::provider::{SelectedProviderAndModel, scripted};
use rind_lib::text::escape_to_one_line;
use rind_operator::model;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Maximum time for the provider's server to list its models.
const MODEL_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Advice for a user who has not configured a model.
const NO_MODEL_ADVICE: &str = "start `rind run \"…\"` at a terminal and choose one, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL";

pub(super) async fn check_selected_model(setup: &OperatorWorkspaceSetup) -> DoctorCheck {
    match model::select_model(setup, &ModelSelection::default(), None) {
        Ok(selected) if selected.is_stand_in => {
            DoctorCheck::new_for_missing_part(format!("none: {}", selected.why))
                .with_consequence_text(
                    "no turn can run; `--provider scripted` answers from a script",
                )
                .with_advice(NO_MODEL_ADVICE)
        }
        Ok(selected) if selected.provider.name() == scripted::SCRIPTED_PROVIDER_NAME => {
            DoctorCheck::new_for_weaker_protection(format!("scripted: {}", selected.why))
                .with_consequence_text(
                    "everything works, but the answers come from a script, not from a model",
                )
                .with_advice(NO_MODEL_ADVICE)
        }
        Ok(selected) => check_model_server(&selected).await,
        Err(error) => DoctorCheck::new_missing_required_part(format!("{error:#}"))
            .with_consequence_text("no turn can run with these settings"),
    }
}

/// Requests the list of models from the server. Most servers require a valid key for the list.
async fn check_model_server(selected: &SelectedProviderAndModel) -> DoctorCheck {
    let (provider, model) = (
        selected.provider.name(),
        escape_to_one_line(&selected.model),
    );
    let url = selected.provider.base_url();
    let at = url.map_or_else(String::new, |url| {
        format!(" at {}", escape_to_one_line(&url))
    });
    let found = format!("{provider} {model}{at} ({})", selected.why);
    let cancel = CancellationToken::new();
    let _ends = cancel.clone().drop_guard();
    let asked = tokio::time::timeout(MODEL_LIST_TIMEOUT, selected.provider.models(&cancel)).await;
    let why = match asked {
        Ok(Ok(names)) if names.is_empty() => {
            return DoctorCheck::new_passed(format!("{found}; the provider's server answers"));
        }
        Ok(Ok(names)) if names.contains(&selected.model) => {
            return DoctorCheck::new_passed(format!(
                "{found}; the provider's server answers and lists the model"
            ));
        }
        Ok(Ok(_)) => {
            return DoctorCheck::new_for_weaker_protection(format!("{found}; the provider's server does not list the model"))
                .with_consequence_text("a turn may fail")
                .with_advice("`rind models` lists the models of the server; choose one with --model or `model` in [provider]");
        }
        Ok(Err(error)) => format!("{:#}", anyhow::Error::new(error)),
        Err(_) => format!("no answer within {} s", MODEL_LIST_TIMEOUT.as_secs()),
    };
    DoctorCheck::new_for_missing_part(format!(
        "{found}; the request for the provider's list of models failed: {}",
        escape_to_one_line(&why)
    ))
    .with_consequence_text("a turn will probably fail")
    .with_advice("check the address, the key and the network")
}
