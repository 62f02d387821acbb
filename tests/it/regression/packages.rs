//! Tests of plugins and skills of other authors: messages when one does not work, and layouts,
//! archives and names as published packages have them.

mod authors;
mod foreign;
mod skills;
mod wild;

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::Rind;

/// Writes the folder of a plugin with this component, in WebAssembly text, below the home of a machine.
fn plugin(rind: &Rind, name: &str, component: &str) -> PathBuf {
    let folder = rind.user_home().join(name);
    fs::create_dir_all(&folder).unwrap();
    let manifest = format!(
        "name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"A plugin of a test.\"\ncomponent = \"c.wasm\"\n\
         side_effects = [\"none\"]\n"
    );
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    fs::write(folder.join("README.md"), "# A plugin\n").unwrap();
    fs::write(folder.join("c.wasm"), wat::parse_str(component).unwrap()).unwrap();
    folder
}

/// Text of a skill without faults.
fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name} when somebody asks for it.\n---\nDo it.\n")
}
