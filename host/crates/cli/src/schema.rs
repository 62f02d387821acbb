//! `rind schema`: prints JSON Schemas of what the host writes and reads.
//!
//! Most schemas are packed files, not generated from the types at run time: the generating code
//! would add half a megabyte to the binary.

use rind_embed::EmbeddedPackedFolder;

use super::args::SchemaName;
use super::exit_code::ExitStatus;
use super::render;

static EMBEDDED_JSON_SCHEMAS: EmbeddedPackedFolder =
    EmbeddedPackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/schemas.tar.zst")));

/// Prints the JSON Schema that the user named.
pub(super) fn print_schema(of: SchemaName) -> ExitStatus {
    render::print_json_to_stdout(match of {
        SchemaName::Events => EMBEDDED_JSON_SCHEMAS.file_text("events.json"),
        SchemaName::Hooks => EMBEDDED_JSON_SCHEMAS.file_text("hooks.json"),
        SchemaName::Session => EMBEDDED_JSON_SCHEMAS.file_text("session.json"),
        SchemaName::Skill => EMBEDDED_JSON_SCHEMAS.file_text("skill.json"),
        SchemaName::Manifest => rind_author::new::manifest_schema(),
        SchemaName::Cases => rind_author::new::case_file_json_schema(),
        SchemaName::TestReport => EMBEDDED_JSON_SCHEMAS.file_text("test-report.json"),
        SchemaName::CheckReport => EMBEDDED_JSON_SCHEMAS.file_text("check-report.json"),
        SchemaName::PluginList => EMBEDDED_JSON_SCHEMAS.file_text("plugin-list.json"),
    });
    ExitStatus::Done
}
