//! Prints lists of the scripts that run as hooks.

use serde_json::{Value, json};

use super::plugins::{NAME_COLUMN, failure_policy_text};
use super::{BOLD, DIM, GOOD, answer_line, printable_text, style_text};
use rind_lib::point::registry::HookSpec;
use rind_lib::point::streaming;
use rind_lib::script::Script;

/// Prints two lines for a script: its hooks, then its location in the settings and its command.
pub(in super::super) fn print_row(script: &Script) {
    let parts: Vec<String> = script
        .specs()
        .map(|spec| hook_line(script, &spec))
        .collect();
    let name = style_text(BOLD, format_args!("{:<NAME_COLUMN$}", script.name));
    answer_line(format_args!(
        "{} {name} {:<8} {:<8} {}",
        style_text(GOOD, "✓"),
        "script",
        if script.is_warm { "stays" } else { "-" },
        style_text(DIM, printable_text(&parts.join(", ")))
    ));
    let place = printable_text(&format!("{}: {}", script.place, command_line(script)));
    answer_line(format_args!("  {}", style_text(DIM, place)));
}

fn hook_line(script: &Script, spec: &HookSpec) -> String {
    let mut about = Vec::new();
    if let Some(matcher) = script.matcher_text() {
        about.push(format!("tools {matcher}"));
    }
    about.push(failure_policy_text(spec.on_failure).to_owned());
    format!("{} ({})", spec.point, about.join(", "))
}

fn command_line(script: &Script) -> String {
    let words = script.command.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a script's name and the points at which its hooks delay the display of answers; `None`
/// if there are none.
pub(in super::super) fn streaming_delay_reason(script: &Script) -> Option<String> {
    let specs: Vec<HookSpec> = script.specs().collect();
    let held = specs
        .iter()
        .filter(|spec| streaming::prevents_streaming(spec, specs.iter()));
    let points: Vec<&str> = held.map(|spec| spec.point.as_str()).collect();
    (!points.is_empty()).then(|| format!("{} ({})", script.name, points.join(", ")))
}

pub(super) fn script_json(script: &Script) -> Value {
    let hooks = script.specs().map(|spec| {
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
