//! Packs the OpenAPI description of the API, which `src/openapi.rs` includes.

fn main() -> std::io::Result<()> {
    rind_embed::build::pack_files_into_out_dir(
        "openapi.tar.zst",
        &[("src/openapi.json", "openapi.json")],
    )
}
