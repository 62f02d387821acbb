//! `rind schema`: JSON Schemas of what the host writes and reads. They are files, and the types that
//! most of them describe are not asked: the code that describes them would take half a megabyte.

use rind_embed::PackedFolder;

use super::args::SchemaOf;
use super::exit_code::ExitStatus;
use super::render;

static SCHEMAS: PackedFolder =
    PackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/schemas.tar.zst")));

/// Prints a JSON Schema.
pub(super) fn print_schema(of: SchemaOf) -> ExitStatus {
    render::answer_json(match of {
        SchemaOf::Events => SCHEMAS.text("events.json"),
        SchemaOf::Hooks => SCHEMAS.text("hooks.json"),
        SchemaOf::Session => SCHEMAS.text("session.json"),
        SchemaOf::Skill => SCHEMAS.text("skill.json"),
        SchemaOf::Manifest => rind_author::new::manifest_schema(),
        SchemaOf::Cases => rind_author::new::cases_schema(),
        SchemaOf::TestReport => SCHEMAS.text("test-report.json"),
        SchemaOf::CheckReport => SCHEMAS.text("check-report.json"),
        SchemaOf::PluginList => SCHEMAS.text("plugin-list.json"),
    });
    ExitStatus::Done
}
