//! Prints plugins: lists, reports and the progress of builds.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_and_indent_continuation_lines, format_bytes, format_duration_ms, print_stderr_line,
    print_stdout_line, printable_text, style_text, truncate_to_one_line,
};
use rind_author::BuildError;
use rind_author::build::BuildReport;
use rind_lib::grant::decide::GrantStatus;
use rind_lib::plugin::inspect::{HookReport, PluginReport};
use rind_lib::plugin::load::{
    BeforeCompileCallback, FoundPluginSet, LoadedPlugin, PluginSkipReason, SkippedPlugin,
};
use rind_lib::plugin::relied::{
    MissingReliedOnPlugin, PLUGIN_NOT_FOUND_MESSAGE, PluginNeededReason,
};
use rind_lib::point::failure::OnFailure;
use rind_lib::script::HookScript;

/// Maximum length of a shown name, in characters. A plugin with an unreadable manifest is shown by
/// its folder name, which may be longer.
const MAX_PLUGIN_NAME_CHARS: usize = 64;

const MAX_SHOWN_SETTING_VALUE_CHARS: usize = 60;

/// Width of the name column: the longest name of the plugins that ship with Rind.
pub(super) const NAME_COLUMN_CHARS: usize = 24;

/// Width of the column of hooks and tools, chosen for lines of 100 columns.
const HOOKS_AND_TOOLS_COLUMN_CHARS: usize = 55;

/// Returns a callback that reports which plugin is being compiled.
pub(in super::super) fn plugin_compile_notice_callback() -> BeforeCompileCallback {
    BeforeCompileCallback(Arc::new(|name| {
        super::print_note(&format!("compiling plugin {name}, once for this version"));
    }))
}

/// Note on a component that exports nothing which this host calls.
pub(in super::super) const NO_USABLE_EXPORT_NOTE: &str = "nothing calls it, because it exports no hook, tool, command or loop of the contract `rind:plugin`; it may be for another host";

/// Prints the line about a plugin that is loaded.
pub(in super::super) fn print_plugin_row(report: &PluginReport) {
    let mut parts: Vec<String> = report.hooks.iter().map(format_plugin_hook_line).collect();
    parts.extend(report.tools.iter().map(|tool| format!("{}()", tool.name)));
    parts.extend(
        report
            .commands
            .iter()
            .map(|command| format!("/{}", command.name)),
    );
    parts.extend(report.loop_deadline_ms.map(|_| "loop".to_owned()));
    let name = style_text(
        BOLD_STYLE,
        format_args!("{:<NAME_COLUMN_CHARS$}", report.name),
    );
    let mark = match report.is_called {
        true => style_text(SUCCESS_STYLE, "✓"),
        false => {
            parts.push(NO_USABLE_EXPORT_NOTE.to_owned());
            style_text(WARNING_STYLE, "▲")
        }
    };
    let mut lines = join_list_parts_wrapped_to_column(&parts).into_iter();
    print_stdout_line(format_args!(
        "{mark} {name} {:<8} {:<8} {}",
        report.trust.to_string(),
        report.version,
        style_text(DIM_STYLE, lines.next().unwrap_or_default())
    ));
    let before = NAME_COLUMN_CHARS + 21;
    lines.for_each(|line| {
        print_stdout_line(format_args!(
            "{:before$}{}",
            "",
            style_text(DIM_STYLE, line)
        ))
    });
}

/// Prints whether the model's text is shown while it streams, and which plugins and scripts prevent
/// that.
pub(in super::super) fn print_hooks_delaying_answers(
    reports: &[PluginReport],
    scripts: &[HookScript],
) {
    let plugins = reports.iter().filter_map(|report| {
        let held = report.hooks.iter().filter(|hook| hook.holds_text);
        let points: Vec<&str> = held.map(|hook| hook.point.as_str()).collect();
        (!points.is_empty()).then(|| format!("{} ({})", report.name, points.join(", ")))
    });
    let scripts = scripts
        .iter()
        .filter_map(super::scripts::describe_answer_delaying_hooks);
    let scripts: Vec<String> = scripts.collect();
    let has_scripts = !scripts.is_empty();
    let holders: Vec<String> = plugins.chain(scripts).collect();
    if holders.is_empty() {
        return super::print_note("the model's answers are shown while they are written");
    }
    super::print_note(&format!(
        "the model's answers are shown only when they are complete, because the following {} may change or refuse them: {}",
        if has_scripts {
            "plugins and scripts"
        } else {
            "plugins"
        },
        holders.join(", ")
    ));
}

/// Joins parts with commas: on a terminal in lines of the column's width; elsewhere in one line, so
/// that programs can search it for a name.
fn join_list_parts_wrapped_to_column(parts: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let comma = if at + 1 < parts.len() { "," } else { "" };
        match lines.last_mut() {
            Some(last)
                if !super::is_stdout_terminal()
                    || last.len() + part.len() + 2 <= HOOKS_AND_TOOLS_COLUMN_CHARS =>
            {
                *last += &format!(" {part}{comma}");
            }
            _ => lines.push(format!("{part}{comma}")),
        }
    }
    lines
}

/// Joins the names of alternative settings with `or`.
fn join_with_or(settings: &[String]) -> String {
    let names = settings
        .iter()
        .map(|name| format!("`{}`", truncate_to_one_line(name, MAX_PLUGIN_NAME_CHARS)));
    names.collect::<Vec<_>>().join(" or ")
}

/// Formats a hook with its point and the settings that the operator gave it.
fn format_plugin_hook_line(hook: &HookReport) -> String {
    let point = &hook.point;
    if !hook.empty_settings.is_empty() {
        return format!(
            "{point} (off without {})",
            join_with_or(&hook.empty_settings)
        );
    }
    if !hook.enabled {
        return format!("{point} (switched off)");
    }
    let Some(own) = &hook.of_plugin else {
        return point.clone();
    };
    let mut set = Vec::new();
    if hook.priority != own.priority {
        set.push(format!("priority {}", hook.priority));
    }
    if hook.deadline_ms != own.deadline_ms {
        set.push(format!("{} ms", hook.deadline_ms));
    }
    if hook.on_failure != own.on_failure {
        set.push(failure_policy_text(hook.on_failure).to_owned());
    }
    format!("{point} ({})", set.join(", "))
}

fn format_hook_options(priority: u16, deadline_ms: u64, on_failure: OnFailure) -> String {
    format!(
        "priority {priority}, {deadline_ms} ms, {}",
        failure_policy_text(on_failure)
    )
}

pub(super) fn failure_policy_text(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Block => "blocks when it fails",
        OnFailure::Skip => "is skipped when it fails",
    }
}

/// Prints one line on standard error for a loaded plugin: its purpose and load time.
pub(in super::super) fn print_loaded_plugin(plugin: &LoadedPlugin) {
    let (ms, from) = (
        plugin.load_time.as_secs_f64() * 1000.0,
        cached_or_compiled_text(plugin.was_cached),
    );
    let took = style_text(DIM_STYLE, format_args!("{ms:.1} ms {from}"));
    let name = style_text(
        PLUGIN_NAME_STYLE,
        format_args!("{:<24}", plugin.manifest.name),
    );
    let what = truncate_to_one_line(&plugin.manifest.description, usize::MAX);
    print_stderr_line(format_args!("  {name} {what} {took}"));
}

fn cached_or_compiled_text(was_cached: bool) -> &'static str {
    match was_cached {
        true => "from the cache",
        false => "compiled",
    }
}

/// Prints one line, with the reason, for a plugin that is not loaded; if the run requires the
/// plugin, also how to run without it.
pub(in super::super) fn print_not_loaded_plugin(left: &SkippedPlugin) {
    let mark = match &left.why {
        PluginSkipReason::Failed(_) => style_text(ERROR_STYLE, "✗"),
        PluginSkipReason::Held(_) => style_text(WARNING_STYLE, "?"),
        _ if left.reliance.is_some() => style_text(ERROR_STYLE, "✗"),
        _ => style_text(DIM_STYLE, "○"),
    };
    let (trust, reliance) = (left.found.trust.to_string(), left.reliance.as_ref());
    print_not_loaded_plugin_line(
        &mark,
        &left.name,
        &trust,
        &plugin_not_loaded_reason(left),
        reliance,
    );
}

/// Prints the line for a plugin that a run requires but that was not found.
pub(in super::super) fn print_missing_required_plugin(absent: &MissingReliedOnPlugin) {
    let reliance = Some(&absent.reliance);
    print_not_loaded_plugin_line(
        &style_text(ERROR_STYLE, "✗"),
        &absent.name,
        "-",
        PLUGIN_NOT_FOUND_MESSAGE,
        reliance,
    );
}

/// Prints one line, with the reason, for a plugin that is not loaded; if the run requires the
/// plugin, also how to run without it.
fn print_not_loaded_plugin_line(
    mark: &str,
    name: &str,
    trust: &str,
    why: &str,
    reliance: Option<&PluginNeededReason>,
) {
    let shown = truncate_to_one_line(name, MAX_PLUGIN_NAME_CHARS);
    let shown = style_text(BOLD_STYLE, format_args!("{shown:<NAME_COLUMN_CHARS$}"));
    print_stdout_line(format_args!(
        "{mark} {shown} {trust:<8} {}",
        escape_and_indent_continuation_lines(why)
    ));
    if let Some(reliance) = reliance {
        let workaround = reliance.advice_for_omitting_plugin(name);
        let text = format!("required: {reliance}; to run without it: {workaround}");
        let text = style_text(WARNING_STYLE, truncate_to_one_line(&text, usize::MAX));
        print_stdout_line(format_args!("  {text}"));
    }
}

pub(in super::super) fn plugin_not_loaded_reason(left: &SkippedPlugin) -> String {
    match &left.why {
        PluginSkipReason::Held(plugin) => {
            super::grants::missing_permissions_text(&plugin.request, &plugin.decision)
        }
        why => why.to_string(),
    }
}

/// Warns of plugins that are not loaded, on standard error: the turn continues without them.
pub(in super::super) fn warn_about_plugins_not_loaded(plugins: &FoundPluginSet) {
    // Skip failed plugins that the run requires: they end the run with an error anyway. Always show
    // plugins that wait for grants, because nothing else reports them.
    let is_news = |left: &&SkippedPlugin| match left.why {
        PluginSkipReason::Failed(_) => left.reliance.is_none(),
        PluginSkipReason::Held(_) | PluginSkipReason::Shadowed { .. } => true,
        _ => false,
    };
    for left in plugins.left_out.iter().filter(is_news) {
        print_stderr_line(format_args!(
            "{} plugin {} is not loaded: {}",
            style_text(WARNING_STYLE, "▲"),
            style_text(
                BOLD_STYLE,
                truncate_to_one_line(&left.name, MAX_PLUGIN_NAME_CHARS)
            ),
            escape_and_indent_continuation_lines(&plugin_not_loaded_reason(left))
        ));
    }
}

pub(in super::super) fn print_plugin_report(report: &PluginReport) {
    let line = |name: &str, value: String| {
        print_stdout_line(format_args!(
            "{} {value}",
            style_text(DIM_STYLE, format_args!("{name:<13}"))
        ))
    };
    print_stdout_line(format_args!(
        "{} {}",
        style_text(BOLD_STYLE, &report.name),
        report.version
    ));
    print_stdout_line(truncate_to_one_line(&report.description, usize::MAX));
    if let Some(why) = &report.stopped {
        line("does not run", escape_and_indent_continuation_lines(why));
    }
    line("trust", report.trust.to_string());
    line("folder", truncate_to_one_line(&report.folder, usize::MAX));
    line("digest", format_empty_as_none(&report.digest));
    let effects: Vec<String> = report
        .side_effects
        .iter()
        .map(ToString::to_string)
        .collect();
    line("side effects", format_empty_as_none(&effects.join(", ")));
    for grant in &report.grants {
        let has = match grant.standing {
            GrantStatus::Granted => "has",
            GrantStatus::Waiting => "waits",
            GrantStatus::Denied => "has not",
        };
        let why = style_text(DIM_STYLE, printable_text(&grant.why));
        line("grant", format!("{:<24} {has:<8} {why}", grant.capability));
    }
    for hook in &report.hooks {
        let wait = if hook.is_async { ", async" } else { "" };
        let holds = format_hook_options(hook.priority, hook.deadline_ms, hook.on_failure);
        let kind = hook.kind.to_string();
        let may = match &hook.may {
            Some(may) if may.is_empty() => ", may change nothing".to_owned(),
            Some(may) => format!(", may only {}", may.join(", ")),
            None => String::new(),
        };
        let about = format!("{kind:<8} {holds}{wait}{may}");
        line("hook", format!("{:<24} {about}", hook.point));
        if hook.holds_text {
            let text = "  holds answers back until they are complete: it may change or refuse them";
            line("", style_text(WARNING_STYLE, text));
        }
        if let Some(tools) = hook.only_tools.as_ref().filter(|_| hook.enabled) {
            let tools = truncate_to_one_line(&tools.join(", "), 4 * MAX_SHOWN_SETTING_VALUE_CHARS);
            line("", format!("  only for calls of {tools}"));
        }
        if hook.only_final {
            line("", "  only for answers that call no tool".to_owned());
        }
        if let Some(least) = hook.only_over.filter(|_| hook.enabled) {
            line("", format!("  only for results of more than {least} bytes"));
        }
        let empty = &hook.empty_settings;
        let of_settings = match &hook.of_plugin {
            _ if !empty.is_empty() => format!(
                "not called: it has nothing to do without the setting {}",
                join_with_or(empty)
            ),
            _ if !hook.enabled => "your settings switch it off".to_owned(),
            Some(own) => format!(
                "your settings, in place of {}",
                format_hook_options(own.priority, own.deadline_ms, own.on_failure)
            ),
            None => continue,
        };
        line("", format!("  {}", style_text(WARNING_STYLE, of_settings)));
    }
    for setting in &report.settings {
        let value = match &setting.value {
            Some(value) => truncate_to_one_line(&value.to_string(), MAX_SHOWN_SETTING_VALUE_CHARS),
            None => "not set".to_owned(),
        };
        let value = if setting.is_default {
            style_text(DIM_STYLE, value)
        } else {
            format!("{value} {}", style_text(WARNING_STYLE, "your settings"))
        };
        line("setting", format!("{:<24} {value}", setting.name));
    }
    for tool in &report.tools {
        let class = tool.effect_class.to_string();
        let what = printable_text(&tool.description);
        line("tool", format!("{:<24} {class:<8} {what}", tool.name));
    }
    for command in &report.commands {
        let what = style_text(DIM_STYLE, "runs with its permissions");
        line(
            "command",
            format!("/{:<23} {} ({what})", command.name, command.description),
        );
    }
    if let Some(deadline_ms) = report.loop_deadline_ms {
        let what = style_text(
            DIM_STYLE,
            "runs with its permissions while `rind serve` runs",
        );
        let deadline = format_duration_ms(deadline_ms);
        line(
            "loop",
            format!("each run takes at most {deadline} ({what})"),
        );
    }
    if !report.is_called {
        line("exports", style_text(WARNING_STYLE, NO_USABLE_EXPORT_NOTE));
    }
    for name in &report.prompts {
        line(
            "template",
            truncate_to_one_line(name, MAX_PLUGIN_NAME_CHARS),
        );
    }
    for name in report.other_exports.iter().filter(|name| *name != "loop") {
        let what = match name.as_str() {
            "agent-loop" => style_text(DIM_STYLE, " (orders the turns if `[agent] loop` names it)"),
            _ => String::new(),
        };
        line("exports", format!("{name}{what}"));
    }
    for point in &report.points {
        let callers = match point.callers.is_empty() {
            true => String::new(),
            false => format!(", may be called by {}", point.callers.join(", ")),
        };
        let name = format!("{}.{}", report.name, point.name);
        line("defines", format!("{name} ({}){callers}", point.kind));
    }
    for name in &report.implements {
        line("implements", name.clone());
    }
    if let Some(stamp) = &report.built_with {
        let sdk = format!("{} ({})", stamp.sdk, stamp.language);
        let manifest = match report.has_own_manifest {
            None => "",
            Some(true) => ", this plugin.toml",
            Some(false) => ", a different plugin.toml; the one in the folder is used",
        };
        let contract = &stamp.contract;
        line(
            "built with",
            format!("{sdk}, contract {contract}{manifest}"),
        );
    }
    for import in &report.imports {
        let gives = style_text(DIM_STYLE, import.gives);
        line("import", format!("{:<40} {gives}", import.interface));
    }
    line(
        "memory",
        format!("at most {}", format_bytes(report.memory_limit)),
    );
    let from = cached_or_compiled_text(report.was_cached);
    line("loaded in", format!("{:.1} ms, {from}", report.load_ms));
}

fn format_empty_as_none(text: &str) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text.to_owned()
    }
}

/// Prints the list as JSON: `{"plugins": [report], "left_out": [{name, trust, folder, why,
/// relied_on}], "absent": [{name, why, relied_on}], "scripts": [{name, place, command, warm,
/// matcher, hooks}]}`.
pub(in super::super) fn print_plugins_json(
    reports: &[PluginReport],
    plugins: &FoundPluginSet,
    scripts: &[HookScript],
) -> anyhow::Result<()> {
    let left_out = plugins.left_out.iter().map(|left| {
        let folder = left.found.folder.display().to_string();
        let trust = left.found.trust;
        let mut row =
            json!({"name": left.name, "trust": trust, "folder": folder, "why": plugin_not_loaded_reason(left)});
        if let Some(reliance) = &left.reliance {
            row["relied_on"] = reliance.to_string().into();
        }
        row
    });
    let absent = plugins.absent.iter().map(|absent| {
        let relied_on = absent.reliance.to_string();
        json!({"name": absent.name, "why": PLUGIN_NOT_FOUND_MESSAGE, "relied_on": relied_on})
    });
    let (left_out, absent): (Vec<Value>, Vec<Value>) = (left_out.collect(), absent.collect());
    let scripts: Vec<Value> = scripts
        .iter()
        .map(super::scripts::hook_script_to_json)
        .collect();
    super::print_json(&json!({
        "plugins": reports, "left_out": left_out, "absent": absent, "scripts": scripts,
    }))
}

/// Prints the results of a build. `should_print_every_line` tells whether all progress lines were
/// printed.
pub(in super::super) fn print_build_results(report: &BuildReport, are_lines_shown: bool) {
    for plugin in &report.built {
        print_stdout_line(format_args!(
            "{} {} {} {}",
            style_text(SUCCESS_STYLE, "✓"),
            style_text(BOLD_STYLE, &plugin.name),
            plugin.path.display(),
            style_text(
                DIM_STYLE,
                format_args!("{}, {:.1} s", format_bytes(plugin.bytes), plugin.seconds)
            ),
        ));
    }
    for error in &report.failed {
        match error {
            BuildError::Compile {
                plugins,
                was_streamed: true,
                ..
            } if are_lines_shown => {
                let names: Vec<String> = plugins.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(", ");
                print_build_failure(&format!("plugin {names}: the build failed; see above"));
            }
            error => print_build_failure(&error.to_string()),
        }
    }
}

pub(in super::super) fn print_build_failure(why: &str) {
    print_stderr_line(format_args!(
        "{} {}",
        style_text(ERROR_STYLE, "✗"),
        printable_text(why)
    ));
}

/// Progress of a build by Cargo: on a terminal, a spinner with Cargo's last line; elsewhere, all
/// lines.
#[derive(Clone)]
pub(in super::super) struct BuildProgress(ProgressBar);

impl BuildProgress {
    pub(in super::super) fn start_progress() -> Self {
        let progress = ProgressBar::new_spinner();
        progress.enable_steady_tick(Duration::from_millis(120));
        Self(progress)
    }

    pub(in super::super) fn print_progress_line(&self, text: &str) {
        if self.0.is_hidden() {
            print_stderr_line(printable_text(text))
        } else {
            self.0.set_message(truncate_to_one_line(text, 100))
        }
    }

    /// Whether every progress line is printed, because the spinner, which shows only the last line,
    /// is hidden.
    pub(in super::super) fn should_print_every_line(&self) -> bool {
        self.0.is_hidden()
    }

    pub(in super::super) fn clear_progress_line(&self) {
        self.0.finish_and_clear();
    }
}
