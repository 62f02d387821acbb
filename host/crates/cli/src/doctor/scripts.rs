//! Checks the scripts that the settings declare.

use std::sync::{Arc, Mutex};

use super::super::render;
use super::DoctorCheck;
use rind_lib::lock::lock_ignoring_poison;
use rind_operator::scripts;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Checks whether the programs of scripts can be started, and whether the agent could change them.
/// Returns `None` if the settings have no scripts.
pub(super) fn check_hook_scripts(setup: &OperatorWorkspaceSetup) -> Option<DoctorCheck> {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let setup = setup.clone().with_warning_callback({
        let said = said.clone();
        Arc::new(move |text| lock_ignoring_poison(&said).push(text.to_owned()))
    });
    let found = scripts::read_scripts(&setup).and_then(|scripts| {
        let open = scripts::find_writable_scripts(&setup, &scripts)?;
        Ok((scripts, open))
    });
    let (scripts, open) = match found {
        Ok(found) => found,
        Err(error) => {
            let check = DoctorCheck::new_missing_required_part(format!("{error:#}"));
            return Some(
                check
                    .with_consequence_text("`rind run` starts no session")
                    .with_advice("correct the named line"),
            );
        }
    };
    let said = lock_ignoring_poison(&said).join("; ");
    if scripts.is_empty() && open.is_empty() && said.is_empty() {
        return None;
    }
    let names: Vec<&str> = scripts.iter().map(|script| &*script.name).collect();
    let count = render::format_count_with_noun(scripts.len() as u64, "script");
    let found = match names.is_empty() {
        true => count,
        false => format!("{count}: {}", names.join(", ")),
    };
    Some(match open.first() {
        None if !said.is_empty() => DoctorCheck::new_for_weaker_protection(format!("{found}; {said}"))
            .with_consequence_text("these hooks are not called")
            .with_advice("correct the named lines"),
        None => DoctorCheck::new_passed(found).with_consequence_text("they run confined as commands of bash do"),
        Some(open) => DoctorCheck::new_for_weaker_protection(format!(
            "{found}; {} is in {}{}{said}",
            open.file.display(),
            open.folder.display(),
            if said.is_empty() { "" } else { "; " }
        ))
        .with_consequence_text(format!("the agent can change {}", open.what))
        .with_advice("keep scripts, and lists of scripts, outside the workspace, for example next to config.toml"),
    })
}
