//! `rind schema`: prints JSON Schemas of what the host writes and reads.
//!
//! Most schemas are packed files, not generated from the types at run time: the generating code
//! would add half a megabyte to the binary.

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
