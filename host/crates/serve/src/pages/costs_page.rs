//! The page of costs: sums over all sessions, by day, model and folder.

use std::collections::BTreeMap;

use axum::extract::State;
use maud::{Markup, html};
use rind_lib::text::printable_text;

use super::layout::{HtmlPageError, format_usd, render_page, render_table};
use crate::ApiState;
use crate::routes::costs::{CostSum, sum_session_costs};

pub(super) async fn show_costs_page(
    State(state): State<ApiState>,
) -> Result<Markup, HtmlPageError> {
    let costs = sum_session_costs(&state).await?;
    let all = &costs.all;
    let content = html! {
        h1 { "Costs" }
        p { "Sessions: " (all.sessions) ", turns: " (all.turns) ", cost: " strong { (format!("${:.4}", all.cost_usd)) } " where prices are known" }
        h2 { "By the day of the last entry (UTC)" }
        (render_cost_table("Day", &costs.days))
        h2 { "By model" }
        (render_cost_table("Model", &costs.models))
        h2 { "By folder" }
        (render_cost_table("Folder", &costs.workspaces))
    };
    Ok(render_page(&state, "Costs", &content))
}

/// Renders a table of sums in descending order of names, so that the newest day comes first.
fn render_cost_table(head: &str, sums: &BTreeMap<String, CostSum>) -> Markup {
    let rows = html! {
        @for (name, sum) in sums.iter().rev() {
            tr {
                td { (printable_text(name)) }
                td.number { (sum.sessions) }
                td.number { (sum.turns) }
                td.number { (format_usd(sum.cost_usd)) }
            }
        }
    };
    render_table(
        &format!("Costs by {}", head.to_lowercase()),
        &[head, "Sessions", "Turns", "Cost"],
        &rows,
    )
}
