//! Checks Rind's own folders and their permissions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::DoctorCheck;
use rind_lib::paths::RindPaths;

/// Permission bits that give other users any access.
const OTHERS_ACCESS_MODE_BITS: u32 = 0o077;
const OTHERS_WRITE_MODE_BITS: u32 = 0o022;

pub(super) fn check_rind_folders(paths: &RindPaths) -> Vec<DoctorCheck> {
    let config = "settings and plugins that you installed";
    let data = "sessions, what plugins store, the key of the compile cache";
    let cache = "compiled plugins";
    vec![
        check_folder_access(&paths.config, config, OTHERS_WRITE_MODE_BITS, paths)
            .with_name("config folder"),
        check_folder_access(&paths.data, data, OTHERS_ACCESS_MODE_BITS, paths)
            .with_name("data folder"),
        check_folder_access(&paths.cache, cache, OTHERS_WRITE_MODE_BITS, paths)
            .with_name("cache folder"),
    ]
}

fn check_folder_access(path: &Path, holds: &str, unwanted: u32, paths: &RindPaths) -> DoctorCheck {
    let shown = path.display();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (own, workspace) = (real(path), real(&paths.workspace));
    if workspace.starts_with(&own) {
        let found = format!("{shown}, which contains the workspace");
        return DoctorCheck::new_missing_required_part(found)
            .with_consequence_text(format!(
                "it contains {holds}, which the model's tools could change, so Rind runs no turn in this workspace"
            ))
            .with_advice("work in another folder, or set RIND_HOME to one outside");
    }
    if own.starts_with(&workspace) {
        let found = format!("{shown}, which is inside the workspace but hidden from tools");
        return DoctorCheck::new_passed(found).with_consequence_text(format!("it holds {holds}"));
    }
    let Ok(found) = std::fs::metadata(path) else {
        return DoctorCheck::new_passed(format!("{shown}, not there yet"));
    };
    if found.permissions().mode() & unwanted != 0 {
        return DoctorCheck::new_for_weaker_protection(format!(
            "{shown}, which other users can access"
        ))
        .with_consequence_text(format!("it holds {holds}"))
        .with_advice(format!("chmod go-rwx {shown}"));
    }
    DoctorCheck::new_passed(shown.to_string()).with_consequence_text(format!("it holds {holds}"))
}
