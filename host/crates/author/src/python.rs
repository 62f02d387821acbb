//! Python plugins: the module is scanned for its classes and imports; componentize-py turns it into
//! a component that contains CPython.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::interpreted::{ToolchainProgram, ToolchainWork};
use super::{BuildError, world};

/// Command that installs the compiler in the location where it is searched.
const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1";

/// Program that prints the names of a module's classes and of its imports from the contract,
/// including those of its own submodules. It only parses the source: the module cannot run outside
/// of a component.
const SCAN: &str = include_str!("scan.py");

/// Output of [`SCAN`].
#[derive(Deserialize)]
struct PythonScan {
    exports: Vec<String>,
    imports: Vec<String>,
}

pub(super) async fn build_component(
    work: &ToolchainWork<'_>,
    module: &str,
    path: &[PathBuf],
) -> Result<PathBuf, BuildError> {
    let dir = &work.plugin.dir;
    let python = find_tool(dir, "python3", "python3", "install Python 3.10 or later");
    let compiler = find_tool(dir, "componentize-py", "componentize-py", INSTALL);
    let known = world::known_exports().collect::<Vec<_>>().join(",");
    let args = ["-c", SCAN, module, &known].map(OsString::from);
    let said = work.run_tool(&python, args).await?.stdout.text();
    let scanned: PythonScan =
        serde_json::from_str(&said).map_err(|error| BuildError::Toolchain {
            command: "python3".to_owned(),
            text: format!("{said}\n{error}"),
        })?;
    if scanned.exports.is_empty() {
        return Err(BuildError::NoExports {
            plugin: work.plugin.name.clone(),
            path: dir.join(format!("{module}.py")),
            todo: "Define a class with the name of a point, such as `class PreTool`, `Tools`, `Commands` or `Loop`"
                .to_owned(),
        });
    }
    let imports: Vec<String> = scanned
        .imports
        .into_iter()
        .filter(|name| world::is_import(name))
        .collect();
    let wit = world::write_world(work.folder, &scanned.exports, &imports)
        .map_err(|source| work.file_error(work.folder, source))?;
    let component = work.folder.join("component.wasm");
    let mut args: Vec<OsString> = vec!["--quiet".into(), "--wit-path".into()];
    args.push(wit.into());
    args.extend(["--world", world::WORLD, "componentize", "--stub-wasi"].map(OsString::from));
    args.extend(["--python-path".into(), dir.into()]);
    let further = path.iter().cloned().chain(site_packages(dir));
    args.extend(further.flat_map(|path| ["--python-path".into(), path.into()]));
    args.extend(["--output".into(), component.clone().into(), module.into()]);
    work.run_tool(&compiler, args).await?;
    Ok(component)
}

/// Finds a tool in the directory's virtual environment, or otherwise on the search path.
fn find_tool(
    dir: &Path,
    program: &str,
    name: &'static str,
    install: &'static str,
) -> ToolchainProgram {
    let own = dir.join(".venv/bin").join(program);
    ToolchainProgram {
        program: if own.is_file() { own } else { program.into() },
        name,
        install,
    }
}

/// Returns the directory where `pip` installs packages in the plugin's virtual environment.
fn site_packages(dir: &Path) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(dir.join(".venv/lib")).ok()?;
    entries.find_map(|entry| {
        let path = entry.ok()?.path().join("site-packages");
        path.is_dir().then_some(path)
    })
}
