//! Packs the SDKs, templates, schemas and guest modules into `embedded.tar.zst`, which
//! `src/embedded.rs` includes.

fn main() -> std::io::Result<()> {
    rind_embed::build::pack_files_into_out_dir(
        "embedded.tar.zst",
        &[
            ("../../templates", "templates"),
            ("src/guest", "guest"),
            (
                "../../src/plugin/manifest/schema.json",
                "schemas/plugin.json",
            ),
            ("../cases/src/cases.schema.json", "schemas/cases.json"),
            ("../../../Cargo.toml", "workspace.toml"),
            ("../../../sdk/rust/Cargo.toml", "rust/Cargo.toml"),
            ("../../../sdk/rust/README.md", "rust/README.md"),
            ("../../../sdk/rust/src", "rust/src"),
            (
                "../../../sdk/rust/macros/Cargo.toml",
                "rust/macros/Cargo.toml",
            ),
            ("../../../sdk/rust/macros/src", "rust/macros/src"),
            ("../../../sdk/rust/examples", "rust/examples"),
            ("../../../sdk/js", "js"),
            ("../../../sdk/python", "python"),
        ],
    )
}
