//! `rind schema`: prints JSON Schemas of what the host writes and reads.
//!
//! Most schemas are packed files, not generated from the types at run time: the generating code
//! would add half a megabyte to the binary.

use rind_embed::PackedFolder;

use super::args::SchemaName;
use super::exit_code::ExitStatus;
use super::render;

static SCHEMAS: PackedFolder =
    PackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/schemas.tar.zst")));

/// Prints a JSON Schema.
pub(super) fn print_schema(of: SchemaName) -> ExitStatus {
    render::answer_json(match of {
        SchemaName::Events => SCHEMAS.text("events.json"),
        SchemaName::Hooks => SCHEMAS.text("hooks.json"),
        SchemaName::Session => SCHEMAS.text("session.json"),
        SchemaName::Skill => SCHEMAS.text("skill.json"),
        SchemaName::Manifest => rind_author::new::manifest_schema(),
        SchemaName::Cases => rind_author::new::cases_schema(),
        SchemaName::TestReport => SCHEMAS.text("test-report.json"),
        SchemaName::CheckReport => SCHEMAS.text("check-report.json"),
        SchemaName::PluginList => SCHEMAS.text("plugin-list.json"),
    });
    ExitStatus::Done
}
