//! Checks Rind's own folders and their permissions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::DoctorCheck;
use rind_lib::paths::Paths;

/// Permission bits that give other users any access.
const OTHERS_ACCESS_MODE_BITS: u32 = 0o077;
const OTHERS_WRITE_MODE_BITS: u32 = 0o022;

pub(super) fn check_rind_folders(paths: &Paths) -> Vec<DoctorCheck> {
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

fn check_folder_access(path: &Path, holds: &str, unwanted: u32, paths: &Paths) -> DoctorCheck {
    let shown = path.display();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (own, workspace) = (real(path), real(&paths.workspace));
    if workspace.starts_with(&own) {
        let found = format!("{shown}, which contains the workspace");
        return DoctorCheck::new_missing_required_result(found)
            .with_consequence_text(format!(
                "it contains {holds}, which the model's tools could change, so Rind runs no turn in this workspace"
            ))
            .with_advice("work in another folder, or set RIND_HOME to one outside");
    }
    if own.starts_with(&workspace) {
        let found = format!("{shown}, which is inside the workspace but hidden from tools");
        return DoctorCheck::ok_check(found).with_consequence_text(format!("it holds {holds}"));
    }
    let Ok(found) = std::fs::metadata(path) else {
        return DoctorCheck::ok_check(format!("{shown}, not there yet"));
    };
    if found.permissions().mode() & unwanted != 0 {
        return DoctorCheck::new_weaker_protection_result(format!(
            "{shown}, which other users can access"
        ))
        .with_consequence_text(format!("it holds {holds}"))
        .with_advice(format!("chmod go-rwx {shown}"));
    }
    DoctorCheck::ok_check(shown.to_string()).with_consequence_text(format!("it holds {holds}"))
}
