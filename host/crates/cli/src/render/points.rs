//! Prints the extension points: for each the plugins with a hook there, and the plugins that call
//! it.

use super::{BOLD, DIM, PLUGIN, answer_line, style_text};
use rind_lib::plugin::point_use::{PluginHookEntry, PointUse};
use rind_lib::point::dispatch::PointKind;

/// Width of the column with the kinds of extension points.
const KIND_COLUMN: usize = 8;

/// Width of the column with the name of a point: the longest name among the host's points.
const POINT_COLUMN: usize = 24;

/// Prints the extension points of the host, then those that plugins define.
pub(in super::super) fn print_points(uses: &[PointUse]) {
    let (own, defined): (Vec<_>, Vec<_>) = uses.iter().partition(|found| found.owner.is_none());
    if !own.is_empty() {
        answer_line(style_text(BOLD, "points of a turn"));
        own.into_iter().for_each(print_point);
    }
    if defined.is_empty() {
        return super::print_note("no plugin defines a point of its own");
    }
    answer_line(style_text(BOLD, "points of plugins"));
    for found in defined {
        print_point(found);
        let before = KIND_COLUMN + POINT_COLUMN + 4;
        let callers = match found.callers.join(", ") {
            none if none.is_empty() => "called by no plugin".to_owned(),
            callers => format!("called by {callers}"),
        };
        for line in [callers, super::one_line(&found.description, 200)] {
            if !line.is_empty() {
                answer_line(format_args!("{:before$}{}", "", style_text(DIM, line)));
            }
        }
    }
}

fn print_point(found: &PointUse) {
    let actor = |actor: &PluginHookEntry| {
        let name = style_text(PLUGIN, &actor.plugin);
        format!("{name} {}", style_text(DIM, actor.priority))
    };
    let actors = match found.actors.is_empty() {
        true => style_text(DIM, "implemented by no plugin"),
        false => {
            let actors: Vec<String> = found.actors.iter().map(actor).collect();
            actors.join(", ")
        }
    };
    answer_line(format_args!(
        "  {:<KIND_COLUMN$} {:<POINT_COLUMN$} {actors}",
        point_kind_name(found.kind),
        found.point,
    ));
}

/// Returns the name of a kind as written in manifests.
fn point_kind_name(kind: PointKind) -> &'static str {
    match kind {
        PointKind::Gate => "gate",
        PointKind::Mutate => "mutate",
        PointKind::Collect => "collect",
        PointKind::Observe => "observe",
    }
}
