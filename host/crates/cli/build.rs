//! Packs the JSON Schemas that `rind schema` prints, which `src/schema.rs` includes.

fn main() -> std::io::Result<()> {
    rind_embed::build::pack_files_into_out_dir(
        "schemas.tar.zst",
        &[
            ("src/schemas", ""),
            ("../../src/skill/schema.json", "skill.json"),
        ],
    )
}
