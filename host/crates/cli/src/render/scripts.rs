//! Prints lists of the scripts that run as hooks.

use serde_json::{Value, json};

use super::plugins::{NAME_COLUMN_CHARS, failure_policy_text};
use super::{BOLD_STYLE, DIM_STYLE, SUCCESS_STYLE, print_stdout_line, printable_text, style_text};
use rind_lib::point::registry::HookSpec;
use rind_lib::point::streaming;
use rind_lib::script::HookScript;

/// Prints two lines for a script: its hooks, then its location in the settings and its command.
pub(in super::super) fn print_script(script: &HookScript) {
    let parts: Vec<String> = script
        .hook_specs()
        .map(|spec| format_script_hook(script, &spec))
        .collect();
    let name = style_text(
        BOLD_STYLE,
        format_args!("{:<NAME_COLUMN_CHARS$}", script.name),
    );
    print_stdout_line(format_args!(
        "{} {name} {:<8} {:<8} {}",
        style_text(SUCCESS_STYLE, "✓"),
        "script",
        if script.is_warm { "stays" } else { "-" },
        style_text(DIM_STYLE, printable_text(&parts.join(", ")))
    ));
    let place = printable_text(&format!(
        "{}: {}",
        script.place,
        format_script_command(script)
    ));
    print_stdout_line(format_args!("  {}", style_text(DIM_STYLE, place)));
}

fn format_script_hook(script: &HookScript, spec: &HookSpec) -> String {
    let mut about = Vec::new();
    if let Some(matcher) = script.matcher_text() {
        about.push(format!("tools {matcher}"));
    }
    about.push(failure_policy_text(spec.on_failure).to_owned());
    format!("{} ({})", spec.point, about.join(", "))
}

fn format_script_command(script: &HookScript) -> String {
    let words = script.command.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a script's name and the points at which its hooks delay the display of answers; `None`
/// if there are none.
pub(in super::super) fn describe_answer_delaying_hooks(script: &HookScript) -> Option<String> {
    let specs: Vec<HookSpec> = script.hook_specs().collect();
    let held = specs
        .iter()
        .filter(|spec| streaming::is_stream_preventing_hook(spec, specs.iter()));
    let points: Vec<&str> = held.map(|spec| spec.point.as_str()).collect();
    (!points.is_empty()).then(|| format!("{} ({})", script.name, points.join(", ")))
}

pub(super) fn hook_script_to_json(script: &HookScript) -> Value {
    let hooks = script.hook_specs().map(|spec| {
        json!({
            "point": spec.point,
            "priority": spec.priority,
            "deadline_ms": u64::try_from(spec.deadline.as_millis()).unwrap_or(u64::MAX),
            "on_failure": spec.on_failure,
            "is_async": spec.is_async,
            "may": spec.may,
        })
    });
    let words = script.command.iter().map(|word| word.to_string_lossy());
    json!({
        "name": script.name,
        "place": script.place,
        "command": words.collect::<Vec<_>>(),
        "warm": script.is_warm,
        "matcher": script.matcher_text(),
        "hooks": hooks.collect::<Vec<_>>(),
    })
}
