//! Checks the scripts of the settings.

use std::sync::{Arc, Mutex};

use super::super::render;
use super::Check;
use rind_lib::lock::lock;
use rind_operator::scripts;
use rind_operator::setup::OperatorSetup;

/// Whether the programs of scripts can be started, and who may change them; nothing where no script
/// is set.
pub(super) fn check(setup: &OperatorSetup) -> Option<Check> {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let setup = setup.clone().with_warnings({
        let said = said.clone();
        Arc::new(move |text| lock(&said).push(text.to_owned()))
    });
    let found = scripts::read(&setup).and_then(|scripts| {
        let open = scripts::writable(&setup, &scripts)?;
        Ok((scripts, open))
    });
    let (scripts, open) = match found {
        Ok(found) => found,
        Err(error) => {
            let check = Check::required(format!("{error:#}"));
            return Some(
                check
                    .means("`rind run` starts no session")
                    .todo("correct the named line"),
            );
        }
    };
    let said = lock(&said).join("; ");
    if scripts.is_empty() && open.is_empty() && said.is_empty() {
        return None;
    }
    let names: Vec<&str> = scripts.iter().map(|script| &*script.name).collect();
    let count = render::count(scripts.len() as u64, "script");
    let found = match names.is_empty() {
        true => count,
        false => format!("{count}: {}", names.join(", ")),
    };
    Some(match open.first() {
        None if !said.is_empty() => Check::weaker(format!("{found}; {said}"))
            .means("hooks are not called as these lines say")
            .todo("correct the named lines"),
        None => Check::ok(found).means("they run confined as commands of bash do"),
        Some(open) => Check::weaker(format!(
            "{found}; {} is in {}{}{said}",
            open.file.display(),
            open.folder.display(),
            if said.is_empty() { "" } else { "; " }
        ))
        .means(format!("the agent can change {}", open.what))
        .todo("keep scripts and lists of them outside of the workspace, for example beside config.toml"),
    })
}
