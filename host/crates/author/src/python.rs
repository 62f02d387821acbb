//! Builds Python plugins: a script finds the classes and imports of the plugin's module, and
//! componentize-py turns the module into a component that contains CPython.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::guest::{GuestEntryModuleGenerator, pascal_case};
use super::interpreted::{PluginBuildContext, ToolchainProgramSpec};
use super::{BuildError, world};
use rind_lib::near::find_nearest_name;
use rind_lib::plugin::manifest::FILE_NAME;

/// Command that installs the compiler into the plugin's virtual environment, where
/// [`find_python_tool`] searches for it.
const COMPILER_INSTALL_COMMAND: &str =
    "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1";

/// Interface of the host to which printed lines are written.
const HOST_LOG_INTERFACE: &str = "log";

/// Name of the generated entry module, which wraps the plugin's module.
const GENERATED_ENTRY_MODULE: &str = "rind_entry";

/// Python program that prints the names of a module's classes and of its imports from the contract,
/// including the imports of the module's own submodules. It only parses the source, because the
/// module cannot run outside a component.
const MODULE_SCAN_SCRIPT: &str = include_str!("scan.py");

/// Output of [`MODULE_SCAN_SCRIPT`].
#[derive(Deserialize)]
struct PythonModuleScanOutput {
    exports: Vec<String>,
    /// Classes of the module that are not in `exports`, each with its line number.
    others: Vec<(String, usize)>,
    imports: Vec<String>,
    /// Whether the module, or another module of the plugin that it imports, uses `print`, `stdout`
    /// or `stderr`, or imports a module that prints, such as `logging`.
    prints: bool,
}

pub(super) async fn build_component(
    work: &PluginBuildContext<'_>,
    module: &str,
    path: &[PathBuf],
) -> Result<PathBuf, BuildError> {
    let dir = &work.plugin.dir;
    if !work.plugin.has_inert_sockets {
        return Err(BuildError::Manifest {
            plugin: work.plugin.name.clone(),
            path: dir.join(FILE_NAME),
            problem: "Python's standard library imports sockets, which no plugin may use; add `[compat]` with `sockets = \"inert\"`, \
                      which links them and denies every use"
                .to_owned(),
        });
    }
    // Check the types and compile at the same time; if one fails, the other is cancelled.
    let ((), component) = tokio::try_join!(
        check_mypy_types(work, module),
        compile_python_to_component(work, module, path)
    )?;
    Ok(component)
}

async fn compile_python_to_component(
    work: &PluginBuildContext<'_>,
    module: &str,
    path: &[PathBuf],
) -> Result<PathBuf, BuildError> {
    let dir = &work.plugin.dir;
    let python = find_python_tool(dir, "python3", "python3", "install Python 3.10 or later");
    let compiler = find_python_tool(
        dir,
        "componentize-py",
        "componentize-py",
        COMPILER_INSTALL_COMMAND,
    );
    let known = world::exportable_interface_names()
        .collect::<Vec<_>>()
        .join(",");
    let args = ["-c", MODULE_SCAN_SCRIPT, module, &known].map(OsString::from);
    let said = work.run_tool(&python, args).await?.stdout.text();
    let scanned: PythonModuleScanOutput =
        serde_json::from_str(&said).map_err(|error| BuildError::Toolchain {
            command: "python3".to_owned(),
            text: format!("{said}\n{error}"),
        })?;
    let misspelt: Vec<String> = find_misspelt_exports(&scanned.others)
        .map(|(line, class, near)| {
            format!(
                "{module}.py:{line}: the class `{class}` is never called; did you mean `{near}`?"
            )
        })
        .collect();
    if scanned.exports.is_empty() {
        return Err(BuildError::NoExports {
            plugin: work.plugin.name.clone(),
            path: dir.join(format!("{module}.py")),
            todo: misspelt.into_iter().next().unwrap_or_else(|| {
                "Define a class with the name of a point, such as `class PreTool`, `Tools`, `Commands` or `Loop`"
                    .to_owned()
            }),
        });
    }
    for text in misspelt {
        (work.progress)(&format!("warning: {text}"));
    }
    let mut imports: Vec<String> = scanned
        .imports
        .into_iter()
        .filter(|name| world::is_host_import(name))
        .collect();
    if scanned.prints && !imports.iter().any(|name| name == HOST_LOG_INTERFACE) {
        imports.push(HOST_LOG_INTERFACE.to_owned());
    }
    let entry = work.folder.join(format!("{GENERATED_ENTRY_MODULE}.py"));
    let guarded = GuestEntryModuleGenerator::from_exports(&scanned.exports, &imports)
        .map_err(|error| work.file_error(&entry, std::io::Error::other(error)))?;
    let has_log = imports.iter().any(|name| name == HOST_LOG_INTERFACE);
    std::fs::write(&entry, guarded.generate_python_entry(module, has_log))
        .map_err(|source| work.file_error(&entry, source))?;
    let wit = world::write_wit_world(work.folder, &scanned.exports, &imports)
        .map_err(|source| work.file_error(work.folder, source))?;
    let component = work.folder.join("component.wasm");
    let mut args: Vec<OsString> = vec!["--quiet".into(), "--wit-path".into()];
    args.push(wit.into());
    args.extend(["--world", world::GENERATED_WORLD_NAME, "componentize"].map(OsString::from));
    args.extend(["--python-path".into(), dir.into()]);
    let further = path.iter().cloned().chain(find_site_packages_folder(dir));
    let further = further.chain([work.folder.to_owned()]);
    args.extend(further.flat_map(|path| ["--python-path".into(), path.into()]));
    args.extend([
        "--output".into(),
        component.clone().into(),
        GENERATED_ENTRY_MODULE.into(),
    ]);
    work.run_tool(&compiler, args).await?;
    Ok(component)
}

/// Checks the types of the source, if `pyproject.toml` configures mypy and mypy is installed.
async fn check_mypy_types(work: &PluginBuildContext<'_>, module: &str) -> Result<(), BuildError> {
    let dir = &work.plugin.dir;
    let checker = find_python_tool(dir, "mypy", "mypy", COMPILER_INSTALL_COMMAND);
    // Use only a mypy from the plugin's virtual environment: a bare name would be searched in PATH,
    // where the version may be different.
    if !work.plugin.has_mypy || checker.program.is_relative() {
        return Ok(());
    }
    let args = ["--no-error-summary".into(), format!("{module}.py").into()];
    work.run_tool(&checker, args).await.map(drop)
}

/// Finds a tool in the directory's virtual environment. Otherwise returns the bare name, which is
/// searched in PATH.
fn find_python_tool(
    dir: &Path,
    program: &str,
    name: &'static str,
    install: &'static str,
) -> ToolchainProgramSpec {
    let own = dir.join(".venv/bin").join(program);
    ToolchainProgramSpec {
        program: if own.is_file() { own } else { program.into() },
        name,
        install,
    }
}

/// Returns the directory where `pip` installs packages in the plugin's virtual environment.
fn find_site_packages_folder(dir: &Path) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(dir.join(".venv/lib")).ok()?;
    entries.find_map(|entry| {
        let path = entry.ok()?.path().join("site-packages");
        path.is_dir().then_some(path)
    })
}

/// Returns the classes whose names are probably misspelt exports, each with its line and the name
/// of that export. Other classes are not reported.
fn find_misspelt_exports(
    classes: &[(String, usize)],
) -> impl Iterator<Item = (usize, &str, String)> {
    let known: Vec<String> = world::exportable_interface_names()
        .map(pascal_case)
        .collect();
    classes.iter().filter_map(move |(class, line)| {
        let near = find_nearest_name(class, known.iter().map(String::as_str))?;
        Some((*line, class.as_str(), near.to_owned()))
    })
}
