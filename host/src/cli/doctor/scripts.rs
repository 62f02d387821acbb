//! Checks the scripts of the settings.

use super::super::{render, scripts};
use super::Check;
use crate::config::Config;
use crate::paths::Paths;

/// Whether the programs of scripts can be started, and who may change them; nothing where no script is set.
pub(super) fn check(paths: &Paths, config: &Config) -> Option<Check> {
    let scripts = match scripts::of(paths, config) {
        Ok(scripts) => scripts,
        Err(error) => {
            let check = Check::required(format!("{error:#}"));
            return Some(
                check
                    .means("`rind run` starts no session")
                    .todo("correct the named line"),
            );
        }
    };
    if scripts.is_empty() {
        return None;
    }
    let names: Vec<&str> = scripts.iter().map(|script| &*script.name).collect();
    let found = format!(
        "{}: {}",
        render::count(scripts.len() as u64, "script"),
        names.join(", ")
    );
    let open = scripts
        .iter()
        .find_map(|script| Some((script, scripts::writable(paths, script)?)));
    Some(match open {
        None => Check::ok(found).means("they run confined as commands of bash do"),
        Some((script, file)) => {
            Check::weaker(format!("{found}; {} is in the workspace", file.display()))
                .means(format!("the agent can change what `{}` does", script.name))
                .todo("keep scripts outside of the workspace, for example beside config.toml")
        }
    })
}
