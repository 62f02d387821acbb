//! Prints the extension points: for each the plugins with a hook there, and the plugins that call
//! it.

use super::{BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, print_stdout_line, style_text};
use rind_lib::plugin::point_use::{ExtensionPointUsage, PluginWithHook};
use rind_lib::point::dispatch::ExtensionPointKind;

/// Width of the column with the kinds of extension points.
const POINT_KIND_COLUMN_WIDTH: usize = 8;

/// Width of the column with the name of a point: the longest name among the host's points.
const POINT_NAME_COLUMN_CHARS: usize = 24;

/// Prints the extension points of the host, then those that plugins define.
pub(in super::super) fn print_extension_points(uses: &[ExtensionPointUsage]) {
    let (own, defined): (Vec<_>, Vec<_>) = uses.iter().partition(|found| found.owner.is_none());
    if !own.is_empty() {
        print_stdout_line(style_text(BOLD_STYLE, "points of a turn"));
        own.into_iter().for_each(print_extension_point);
    }
    if defined.is_empty() {
        return super::print_note("no plugin defines a point of its own");
    }
    print_stdout_line(style_text(BOLD_STYLE, "points of plugins"));
    for found in defined {
        print_extension_point(found);
        let before = POINT_KIND_COLUMN_WIDTH + POINT_NAME_COLUMN_CHARS + 4;
        let callers = match found.callers.join(", ") {
            none if none.is_empty() => "called by no plugin".to_owned(),
            callers => format!("called by {callers}"),
        };
        for line in [
            callers,
            super::truncate_to_one_line(&found.description, 200),
        ] {
            if !line.is_empty() {
                print_stdout_line(format_args!(
                    "{:before$}{}",
                    "",
                    style_text(DIM_STYLE, line)
                ));
            }
        }
    }
}

fn print_extension_point(found: &ExtensionPointUsage) {
    let actor = |actor: &PluginWithHook| {
        let name = style_text(PLUGIN_NAME_STYLE, &actor.plugin);
        format!("{name} {}", style_text(DIM_STYLE, actor.priority))
    };
    let actors = match found.actors.is_empty() {
        true => style_text(DIM_STYLE, "implemented by no plugin"),
        false => {
            let actors: Vec<String> = found.actors.iter().map(actor).collect();
            actors.join(", ")
        }
    };
    print_stdout_line(format_args!(
        "  {:<POINT_KIND_COLUMN_WIDTH$} {:<POINT_NAME_COLUMN_CHARS$} {actors}",
        extension_point_kind_name(found.kind),
        found.point,
    ));
}

/// Returns the name of a kind as written in manifests.
fn extension_point_kind_name(kind: ExtensionPointKind) -> &'static str {
    match kind {
        ExtensionPointKind::Gate => "gate",
        ExtensionPointKind::Mutate => "mutate",
        ExtensionPointKind::Collect => "collect",
        ExtensionPointKind::Observe => "observe",
    }
}
