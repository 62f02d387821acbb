//! Checks Rind's own folders and their permissions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Check;
use rind_lib::paths::Paths;

/// Bits of a folder's mode: others may do anything with it, others may change it.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;

pub(super) fn checks(paths: &Paths) -> Vec<Check> {
    let config = "settings and plugins that you installed";
    let data = "sessions, what plugins store, the key of the compile cache";
    let cache = "compiled plugins";
    vec![
        check(&paths.config, config, OTHERS_WRITE, paths).named("config folder"),
        check(&paths.data, data, OTHERS, paths).named("data folder"),
        check(&paths.cache, cache, OTHERS_WRITE, paths).named("cache folder"),
    ]
}

fn check(path: &Path, holds: &str, unwanted: u32, paths: &Paths) -> Check {
    let shown = path.display();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (own, workspace) = (real(path), real(&paths.workspace));
    if own.starts_with(&workspace) || workspace.starts_with(&own) {
        let found = format!("{shown}, not apart from the workspace");
        return Check::required(found)
            .means(format!(
                "it holds {holds}, and tools of the model would work there: no turn is run in this workspace"
            ))
            .todo("work in another folder, or set RIND_HOME to one outside");
    }
    let Ok(found) = std::fs::metadata(path) else {
        return Check::ok(format!("{shown}, not there yet"));
    };
    if found.permissions().mode() & unwanted != 0 {
        return Check::weaker(format!("{shown}, open to other users"))
            .means(format!("it holds {holds}"))
            .todo(format!("chmod go-rwx {shown}"));
    }
    Check::ok(shown.to_string()).means(format!("it holds {holds}"))
}
