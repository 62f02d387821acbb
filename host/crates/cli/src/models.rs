//! `rind models`: lists the models of the provider.

use anyhow::Context;
use clap::Args as ClapArgs;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::args::ModelArgs;
use super::environment::read_operator_workspace_setup;
use super::exit_code::ExitStatus;
use super::render;
use rind_lib::price::Prices;
use rind_operator::model;

#[derive(Debug, ClapArgs)]
pub(super) struct ModelsArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ModelListing {
    pub(super) provider: String,
    /// Name of the model that a session would use.
    pub(super) chosen: String,
    pub(super) models: Vec<ListedModel>,
}

#[derive(Debug, Serialize)]
pub(super) struct ListedModel {
    pub(super) name: String,
    /// US dollars for a million tokens of input and of output; `None` if the price is unknown.
    pub(super) price: Option<(f64, f64)>,
    /// Size of the context window in tokens; `None` if unknown.
    pub(super) window: Option<u64>,
}

pub(super) async fn run_models_command(args: ModelsArgs) -> anyhow::Result<ExitStatus> {
    let model = args.model.to_model_selection();
    let setup = read_operator_workspace_setup(None, &model, false).await?;
    let selected = model::select_model(&setup, &model, None)?;
    let names = selected.provider.models(&CancellationToken::new()).await;
    // Convert to plain text, because exit codes treat provider errors as wrong usage, which is
    // right only while a model is selected.
    let failed = |error| anyhow::anyhow!("{:#}", anyhow::Error::new(error));
    let names = names.map_err(failed).context("cannot list the models")?;
    let prices: Prices = setup.config.section()?;
    let found = ModelListing {
        provider: selected.provider.name().to_owned(),
        chosen: selected.model,
        models: names
            .into_iter()
            .map(|name| ListedModel {
                price: prices
                    .model_price(&name)
                    .map(|price| (price.input, price.output)),
                window: selected.provider.profile(&name).window_tokens,
                name,
            })
            .collect(),
    };
    match args.json {
        true => render::print_json(&found)?,
        false => render::models::print_models(&found, &selected.why),
    }
    Ok(ExitStatus::Done)
}
