//! Packs the WIT files of the plugin contract into `contract.tar.zst`, which
//! `src/plugin/contract/mod.rs` includes.

fn main() -> std::io::Result<()> {
    rind_embed::build::pack_files_into_out_dir("contract.tar.zst", &[("../wit", "")])
}
