//! Selects the model of a run, in this order: the explicit choice for the run, the resumed session,
//! the settings, the environment.

use super::keys::{self, OperatorApiKeyLookup};
use super::settings::ModelSelection;
use super::setup::OperatorWorkspaceSetup;
use rind_lib::provider::{
    ProviderConfig, ProviderSelectionSettings, ProvidersConfig, SelectedProviderAndModel, scripted,
};
use rind_lib::session::SessionWorkspaceAndModel;

/// Selects another model for an open session. Reads the secrets again, which may have been added
/// since the start of the run.
///
/// # Errors
/// See [`select_model`].
pub fn select_model_in_session(
    setup: &OperatorWorkspaceSetup,
    model: &ModelSelection,
) -> anyhow::Result<SelectedProviderAndModel> {
    select_model(&setup.clone().without_cached_secrets(), model, None)
}

/// Selects the model that `model`, the resumed session, the settings or the environment name, in
/// this order of precedence. Ignores the model of a session that was run with the scripted
/// provider.
///
/// # Errors
/// The named provider or model is unknown, or a key or a model is missing.
pub fn select_model(
    setup: &OperatorWorkspaceSetup,
    model: &ModelSelection,
    resumed: Option<&SessionWorkspaceAndModel>,
) -> anyhow::Result<SelectedProviderAndModel> {
    let (environment, paths, config) = (&setup.environment, &setup.paths, &setup.config);
    let mut section: ProviderConfig = config.section()?;
    let is_chosen = model.provider.is_some() || model.script.is_some();
    let resumed = resumed
        .filter(|session| !is_chosen && session.provider != scripted::SCRIPTED_PROVIDER_NAME);
    if let Some(session) = resumed {
        // Ignore the address and key in the settings if they are for another provider.
        if section
            .name
            .as_ref()
            .is_some_and(|name| *name != session.provider)
        {
            (section.base_url, section.api_key_env) = (None, None);
        }
        section.name = Some(session.provider.clone());
        section.model = Some(session.model.clone());
    }
    if let (Some(typed), Some(named)) = (&model.provider, &section.name)
        && typed != named
    {
        (section.base_url, section.api_key_env) = (None, None);
    }
    section.name = model.provider.clone().or(section.name);
    section.model = model.model.clone().or(section.model);
    section.script = model.script.clone().or(section.script);
    let mut providers: ProvidersConfig = config.section()?;
    let https = providers.0.values_mut().filter_map(|own| own.http.as_mut());
    for http in std::iter::once(&mut section.http).chain(https) {
        http.ca_file = http
            .ca_file
            .take()
            .map(|path| keys::resolve_config_relative_path(environment, paths, &path));
    }
    let choice = ProviderSelectionSettings {
        provider: section,
        providers,
        models: config.section()?,
        is_exact: resumed.is_some() && model.model.is_none(),
        is_pinned: model.provider.is_some(),
    };
    let mut selected = choice.select(&OperatorApiKeyLookup::new(setup)?)?;
    if resumed.is_some() && model.model.is_none() {
        selected.why = "the model of this session; --model selects another".to_owned();
    }
    Ok(selected)
}
