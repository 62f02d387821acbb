//! The page of plugins: permissions, failures and slowest hooks of each plugin, the loops, and the
//! plugins that were found but do not run.

use axum::extract::State;
use maud::{Markup, html};
use rind_lib::clock::now_ms;
use rind_lib::text::printable_text;

use super::layout::{HtmlPageError, format_utc_time, render_page, render_table};
use super::render_workspace_field;
use crate::ApiState;
use crate::hook_sums::PluginHookCallStats;
use crate::loop_board::LoopRow;
use crate::routes::RequestQueryExtractor;
use crate::routes::plugins::{LeftOutRow, PluginQuery, PluginRow, ScriptRow, list_plugins};

/// Maximum number of hooks that are shown per plugin, the slowest first.
const MAX_SHOWN_HOOKS_PER_PLUGIN: usize = 3;

pub(super) async fn show_plugins_page(
    State(state): State<ApiState>,
    RequestQueryExtractor(query): RequestQueryExtractor<PluginQuery>,
) -> Result<Markup, HtmlPageError> {
    let workspaces = state.sessions.workspaces();
    let host = workspaces.get_workspace_host(query.workspace).await?;
    let list = list_plugins(&host);
    let folders = workspaces.folders();
    let content = html! {
        h1 { "Plugins" }
        @if folders.len() > 1 {
            p { "Of sessions in " (printable_text(&host.host.workspace().display().to_string())) }
            form method="get" action="/plugins" { (render_workspace_field(&folders)) button { "Show" } }
        }
        (render_plugin_table(&list.plugins))
        (render_script_table(&list.scripts))
        (render_plugins_not_loaded(&list.left_out))
        (render_loop_table(&state.loops.build_loop_rows()))
    };
    Ok(render_page(&state, "Plugins", &content))
}

fn render_plugin_table(plugins: &[PluginRow]) -> Markup {
    let rows = html! {
        @for plugin in plugins {
            tr {
                td { strong { (printable_text(&plugin.name)) } br; small { (plugin.digest.chars().take(16).collect::<String>()) } }
                td { (render_hook_failures(&plugin.sums)) }
                td { (render_slow_hooks(&plugin.sums)) }
                td { (plugin.version) }
                td { (plugin.trust) }
                td { @if plugin.granted.is_empty() { "none" } @else { (printable_text(&plugin.granted.join(", "))) } }
                td { (printable_text(&plugin.tools.join(", "))) }
                td { (plugin.exports.join(", ")) }
            }
        }
    };
    let heads = [
        "Plugin",
        "Failures",
        "Slowest hooks: the slowest call, calls × average",
        "Version",
        "Trust",
        "Permissions",
        "Tools",
        "Exports",
    ];
    render_table("Plugins", &heads, &rows)
}

fn render_script_table(scripts: &[ScriptRow]) -> Markup {
    let rows = html! {
        @for script in scripts {
            tr {
                td { strong { (printable_text(&script.name)) } }
                td { (render_hook_failures(&script.sums)) }
                td { (render_slow_hooks(&script.sums)) }
            }
        }
    };
    html! {
        @if !scripts.is_empty() {
            h2 { "Scripts" }
            (render_table("Scripts", &["Script", "Failures", "Slowest hooks: the slowest call, calls × average"], &rows))
        }
    }
}

fn render_hook_failures(sums: &PluginHookCallStats) -> Markup {
    html! {
        @if let Some(last) = &sums.last_failure {
            strong { (sums.failures) } ": "
            a href={ "/sessions/" (last.session) } { (last.point) ", " (format_utc_time(last.time)) }
            br; small { (printable_text(&last.reason)) }
        } @else {
            "none"
        }
    }
}

fn render_slow_hooks(sums: &PluginHookCallStats) -> Markup {
    html! {
        @for hook in sums.hooks.iter().take(MAX_SHOWN_HOOKS_PER_PLUGIN) {
            div.hook-time {
                a href={ "/sessions/" (hook.slowest_session) } { (hook.point) }
                (format!(" {:.1} ms ", hook.slowest_ms))
                small { (format!("{} × {:.1} ms", hook.calls, hook.average_ms)) }
            }
        }
    }
}

fn render_plugins_not_loaded(rows: &[LeftOutRow]) -> Markup {
    html! {
        @if !rows.is_empty() {
            h2 { "Found and not run" }
            ul { @for row in rows { li { strong { (printable_text(&row.name)) } ": " (printable_text(&row.reason)) } } }
        }
    }
}

fn render_loop_table(loops: &[LoopRow]) -> Markup {
    let rows = html! {
        @for row in loops {
            tr {
                td { a href={ "/sessions/" (row.session) } { (printable_text(&row.plugin)) } }
                td.number { (row.runs) }
                td { @match row.last_run_ms { Some(ms) => { (ms) " ms" }, None => { "none yet" } } }
                td {
                    @match row.next_run {
                        _ if row.has_ended => "ended",
                        Some(time) if time > now_ms() => (format_utc_time(time)),
                        _ => "runs",
                    }
                }
                td.number { (row.failures) }
                td { (printable_text(row.last_reason.as_deref().unwrap_or_default())) }
            }
        }
    };
    html! {
        @if !loops.is_empty() {
            h2 { "Loops" }
            (render_table("Loops", &["Loop", "Runs", "Last run", "Next run", "Failures in a row", "Reason"], &rows))
        }
    }
}
