//! JavaScript and TypeScript plugins: esbuild bundles the source into one module and reports its
//! exports and imports; componentize-qjs turns the module into a component that contains QuickJS.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::interpreted::{ToolchainProgram, ToolchainWork};
use super::{BuildError, lent, world};

/// Command that installs the packages in `package.json`.
const INSTALL: &str = "npm install";

/// Metafile of esbuild.
#[derive(Deserialize)]
struct EsbuildMetafile {
    outputs: BTreeMap<String, EsbuildOutput>,
}

#[derive(Deserialize)]
struct EsbuildOutput {
    #[serde(default)]
    exports: Vec<String>,
    #[serde(default)]
    imports: Vec<EsbuildImport>,
}

#[derive(Deserialize)]
struct EsbuildImport {
    path: String,
}

pub(super) async fn build_component(
    work: &ToolchainWork<'_>,
    entry: &Path,
) -> Result<PathBuf, BuildError> {
    let bundler = find_tool(work, "esbuild");
    let compiler = find_tool(work, "componentize-qjs");
    let module = work.folder.join("module.js");
    let report = work.folder.join("module.json");
    let path = |option: &str, path: &Path| {
        let mut text = OsString::from(option);
        text.push(path);
        text
    };
    let args = [
        entry.as_os_str().to_owned(),
        "--bundle".into(),
        "--format=esm".into(),
        "--platform=neutral".into(),
        "--target=es2022".into(),
        "--main-fields=module,main".into(),
        "--external:rind:*".into(),
        "--log-level=warning".into(),
        path("--outfile=", &module),
        path("--metafile=", &report),
    ];
    work.run_tool(&bundler, args).await?;
    let (exports, imports) = bundle_names(work, entry, &report)?;
    let wit = world::write_world(work.folder, &exports, &imports)
        .map_err(|source| work.file_error(work.folder, source))?;
    let component = work.folder.join("component.wasm");
    let args: [OsString; 11] = [
        "--wit".into(),
        wit.into(),
        "--world".into(),
        world::WORLD.into(),
        "--js".into(),
        module.into(),
        // The host makes synchronous calls, and WASI must give the plugin nothing: its permissions
        // come from its own imports only.
        "--sync".into(),
        "--stub-wasi".into(),
        "--opt-size".into(),
        "--output".into(),
        component.clone().into(),
    ];
    work.run_tool(&compiler, args).await?;
    let failed = |source| work.file_error(&component, source);
    let made = std::fs::read(&component).map_err(failed)?;
    let made = lent::give_back_in_time(made, &exports).map_err(|error| BuildError::Compile {
        plugins: vec![work.plugin.name.clone()],
        text: error.to_string(),
        was_streamed: false,
    })?;
    std::fs::write(&component, made).map_err(failed)?;
    Ok(component)
}

/// Finds a tool that npm installed in the directory, in a parent directory, or globally.
fn find_tool(work: &ToolchainWork<'_>, name: &'static str) -> ToolchainProgram {
    let folders = work.plugin.dir.ancestors();
    let mut places = folders.map(|folder| folder.join("node_modules/.bin").join(name));
    ToolchainProgram {
        program: places
            .find(|path| path.is_file())
            .unwrap_or_else(|| name.into()),
        name,
        install: INSTALL,
    }
}

/// Returns the interfaces that the module exports and those that it imports.
fn bundle_names(
    work: &ToolchainWork<'_>,
    entry: &Path,
    report: &Path,
) -> Result<(Vec<String>, Vec<String>), BuildError> {
    let text = std::fs::read(report).map_err(|source| work.file_error(report, source))?;
    let made: EsbuildMetafile = serde_json::from_slice(&text)
        .map_err(|error| work.file_error(report, std::io::Error::other(error)))?;
    let outputs = || made.outputs.values();
    let exported: Vec<&str> = outputs()
        .flat_map(|output| output.exports.iter().map(String::as_str))
        .collect();
    let exports: Vec<String> = world::known_exports()
        .filter(|name| exported.contains(&camel_case(name).as_str()))
        .map(str::to_owned)
        .collect();
    if exports.is_empty() {
        return Err(BuildError::NoExports {
            plugin: work.plugin.name.clone(),
            path: work.plugin.dir.join(entry),
            todo: "Export a constant with the name of a point, such as `export const preTool = hooks.preTool(…)`, `tools`, `commands` or `loop`"
                .to_owned(),
        });
    }
    for name in exported
        .iter()
        .filter(|name| !world::known_exports().any(|point| camel_case(point) == **name))
    {
        let text = format!(
            "warning: the export `{name}` is no point, and none of `tools`, `commands`, `implement` and `loop`, so nothing calls it"
        );
        (work.progress)(&text);
    }
    let mut imports: Vec<String> = outputs()
        .flat_map(|output| &output.imports)
        .filter_map(|import| {
            let name = import.path.strip_prefix("rind:plugin/")?;
            let name = name.split('@').next()?;
            world::is_import(name).then(|| name.to_owned())
        })
        .collect();
    imports.sort();
    imports.dedup();
    Ok((exports, imports))
}

/// Returns the export name of an interface in a module, for example `preTool` for `pre-tool`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        text + &initial.to_ascii_uppercase() + rest
    })
}
