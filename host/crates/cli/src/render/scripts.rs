//! Scripts as hooks, in lists.

use serde_json::{Value, json};

use super::plugins::{NAME_COLUMN, failure};
use super::{BOLD, DIM, GOOD, answer_line, printable, styled};
use rind_lib::point::registry::HookSpec;
use rind_lib::point::streaming;
use rind_lib::script::Script;

/// One line for a script, and one with its place in the settings and its command.
pub(in super::super) fn row(script: &Script) {
    let parts: Vec<String> = script.specs().map(|spec| hook(script, &spec)).collect();
    let name = styled(BOLD, format_args!("{:<NAME_COLUMN$}", script.name));
    answer_line(format_args!(
        "{} {name} {:<8} {:<8} {}",
        styled(GOOD, "✓"),
        "script",
        if script.is_warm { "stays" } else { "-" },
        styled(DIM, printable(&parts.join(", ")))
    ));
    let place = printable(&format!("{}: {}", script.place, command(script)));
    answer_line(format_args!("  {}", styled(DIM, place)));
}

fn hook(script: &Script, spec: &HookSpec) -> String {
    let mut about = Vec::new();
    if let Some(matcher) = script.matcher() {
        about.push(format!("tools {matcher}"));
    }
    about.push(failure(spec.on_failure).to_owned());
    format!("{} ({})", spec.point, about.join(", "))
}

fn command(script: &Script) -> String {
    let words = script.command.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Names a script with its points at which it keeps answers from being shown while they are
/// written.
pub(in super::super) fn holding(script: &Script) -> Option<String> {
    let specs: Vec<HookSpec> = script.specs().collect();
    let held = specs
        .iter()
        .filter(|spec| streaming::holds(spec, specs.iter()));
    let points: Vec<&str> = held.map(|spec| spec.point.as_str()).collect();
    (!points.is_empty()).then(|| format!("{} ({})", script.name, points.join(", ")))
}

pub(super) fn json(script: &Script) -> Value {
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
        "matcher": script.matcher(),
        "hooks": hooks.collect::<Vec<_>>(),
    })
}
