//! Route for the costs of all sessions.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rind_lib::session::SessionSummary;
use schemars::JsonSchema;
use serde::Serialize;

use super::run_blocking;
use crate::ApiState;
use crate::error::ApiError;

/// Costs of all sessions. Subagents count in the sessions that started them.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CostList {
    /// Costs of all sessions together.
    pub(crate) all: CostSum,
    /// Sums by the day (UTC) on which a session was last written, such as `2026-01-31`.
    pub(crate) days: BTreeMap<String, CostSum>,
    /// Costs by model, each session counted under the model with which it started.
    pub(crate) models: BTreeMap<String, CostSum>,
    /// Costs by the folder in which a session works.
    pub(crate) workspaces: BTreeMap<String, CostSum>,
}

/// Total costs of a group of sessions.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CostSum {
    /// Number of sessions in the group.
    pub(crate) sessions: u64,
    /// Number of turns of these sessions.
    pub(crate) turns: u64,
    /// Cost in US dollars of the requests with a known price.
    pub(crate) cost_usd: f64,
}

impl CostSum {
    fn add_session(&mut self, head: &SessionSummary) {
        self.sessions += 1;
        self.turns = self.turns.saturating_add(head.turns);
        self.cost_usd += head.cost_usd;
    }
}

pub(crate) async fn get_costs(State(state): State<ApiState>) -> Result<Json<CostList>, ApiError> {
    Ok(Json(sum_session_costs(&state).await?))
}

/// Returns the costs of all sessions in the store, in total and by day, model and folder.
pub(crate) async fn sum_session_costs(state: &ApiState) -> Result<CostList, ApiError> {
    let store = state.sessions.session_store().clone();
    let heads = run_blocking(move || Ok(store.list_session_summaries()?.rows)).await?;
    let mut costs = CostList::default();
    for head in &heads {
        let written = Timestamp::from_millisecond(head.updated).unwrap_or_default();
        let day = written.to_zoned(TimeZone::UTC).date().to_string();
        for sum in [
            &mut costs.all,
            costs.days.entry(day).or_default(),
            costs.models.entry(head.model.clone()).or_default(),
            costs.workspaces.entry(head.workspace.clone()).or_default(),
        ] {
            sum.add_session(head);
        }
    }
    Ok(costs)
}
