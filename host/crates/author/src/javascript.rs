//! Builds JavaScript and TypeScript plugins: tsc checks the types, esbuild bundles the source with
//! a generated entry into one module and reports its exports and imports, and componentize-qjs
//! turns the module into a component that contains QuickJS.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rind_lib::near::find_nearest_name;
use serde::Deserialize;

use super::guest::{GuestEntryModuleGenerator, camel_case};
use super::interpreted::{PluginBuildContext, ToolchainProgramSpec};
use super::{BuildError, lent, source_map, world};

/// Command that installs the packages in `package.json`.
const NPM_INSTALL_COMMAND: &str = "npm install";

/// Interface of the host to which the generated `console` writes.
const HOST_LOG_INTERFACE: &str = "log";

/// Prefix of the import paths that name interfaces of the host.
const HOST_IMPORT_PREFIX: &str = "rind:plugin/";

/// Metafile that esbuild writes about a bundle, reduced to the fields that are used.
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
    work: &PluginBuildContext<'_>,
    entry: &Path,
) -> Result<PathBuf, BuildError> {
    // Check the types and compile at the same time; if one fails, the other is cancelled.
    let ((), component) = tokio::try_join!(
        check_typescript_types(work),
        compile_javascript_to_component(work, entry)
    )?;
    Ok(component)
}

async fn compile_javascript_to_component(
    work: &PluginBuildContext<'_>,
    entry: &Path,
) -> Result<PathBuf, BuildError> {
    let compiler = find_node_tool(work, "componentize-qjs");
    let (exports, imports, module) = bundle_modules(work, entry).await?;
    let wit = world::write_wit_world(work.folder, &exports, &imports)
        .map_err(|source| work.file_error(work.folder, source))?;
    let component = work.folder.join("component.wasm");
    // The component keeps its WASI imports: the host gives clocks and random numbers to every
    // plugin, but files and the network only to plugins with the permission. `--sync` is needed
    // because the host calls exports synchronously.
    let args: [OsString; 10] = [
        "--wit".into(),
        wit.into(),
        "--world".into(),
        world::GENERATED_WORLD_NAME.into(),
        "--js".into(),
        module.into(),
        "--sync".into(),
        "--opt-size".into(),
        "--output".into(),
        component.clone().into(),
    ];
    work.run_tool(&compiler, args).await?;
    let failed = |source| work.file_error(&component, source);
    let made = std::fs::read(&component).map_err(failed)?;
    let made =
        lent::add_borrowed_handle_drops(made, &exports).map_err(|error| BuildError::Compile {
            plugins: vec![work.plugin.name.clone()],
            text: error.to_string(),
            was_streamed: false,
        })?;
    std::fs::write(&component, made).map_err(failed)?;
    Ok(component)
}

/// Checks the types of the source, if the plugin has a `tsconfig.json` and tsc is installed.
async fn check_typescript_types(work: &PluginBuildContext<'_>) -> Result<(), BuildError> {
    let config = work.plugin.dir.join("tsconfig.json");
    let checker = find_node_tool(work, "tsc");
    // Use only a `tsc` from `node_modules`: a bare name would be searched in PATH, where the
    // version may be different.
    if !config.is_file() || checker.program.is_relative() {
        return Ok(());
    }
    let args = ["--noEmit", "--pretty", "false", "--project"].map(OsString::from);
    let args = args.into_iter().chain([config.into()]);
    work.run_tool(&checker, args).await.map(drop)
}

/// Bundles the plugin's module alone, to find its exports and imports. Then bundles the generated
/// entry module together with it. Returns the exports, the imports and the path of the second
/// bundle.
async fn bundle_modules(
    work: &PluginBuildContext<'_>,
    entry: &Path,
) -> Result<(Vec<String>, Vec<String>, PathBuf), BuildError> {
    let bundler = find_node_tool(work, "esbuild");
    let own = work.folder.join("own.js");
    let report = work.folder.join("own.json");
    work.run_tool(
        &bundler,
        esbuild_bundle_arguments(entry, &own, &append_path_to_option("--metafile=", &report)),
    )
    .await?;
    let BundleImportsAndExports {
        exports,
        mut imports,
        host_modules,
    } = read_bundle_imports_and_exports(work, entry, &report)?;
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|source| work.file_error(path, source));
    let write = |name: &str, text: String| {
        let path = work.folder.join(name);
        std::fs::write(&path, text).map_err(|source| work.file_error(&path, source))?;
        Ok::<_, BuildError>(path)
    };
    let has_console = read(&own)?.contains("console");
    if has_console {
        write(
            "console.js",
            GuestEntryModuleGenerator::generate_javascript_console_module(),
        )?;
        imports.push(HOST_LOG_INTERFACE.to_owned());
        imports.sort();
        imports.dedup();
    }
    let guarded = GuestEntryModuleGenerator::from_exports(&exports, &imports)
        .map_err(|error| work.file_error(&own, std::io::Error::other(error)))?;
    let around = guarded.generate_javascript_entry(&work.plugin.dir.join(entry), has_console);
    let around = write("entry.js", around)?;
    write("check.js", guarded.generate_javascript_type_check_module())?;
    let module = work.folder.join("module.js");
    let mut args = esbuild_bundle_arguments(&around, &module, "--sourcemap=external".as_ref());
    // Redirect only names with a version, because the generated wrapper itself imports the host by
    // the name without a version.
    let versioned = host_modules.iter().filter(|(path, _)| path.contains('@'));
    for (path, name) in versioned {
        if let Some(text) = guarded.generate_javascript_import_wrapper(name) {
            let checked = write(&format!("host-{name}.js"), text)?;
            args.push(append_path_to_option(&format!("--alias:{path}="), &checked));
        }
    }
    work.run_tool(&bundler, args).await?;
    let map = read(&work.folder.join("module.js.map"))?;
    let folder = work.folder.canonicalize();
    let folder = folder.map_err(|source| work.file_error(work.folder, source))?;
    let places = source_map::generate_source_positions_script(&map, &folder, &work.plugin.dir);
    let text = read(&module)? + &places;
    Ok((exports, imports, write("module.js", text)?))
}

/// Returns the arguments with which esbuild bundles one module and everything that it imports.
fn esbuild_bundle_arguments(module: &Path, out: &Path, further: &OsStr) -> Vec<OsString> {
    let options = [
        "--bundle",
        "--format=esm",
        "--platform=neutral",
        "--target=es2022",
        "--main-fields=module,main",
        "--external:rind:*",
        "--log-level=warning",
        "--sources-content=false",
    ];
    let mut args = vec![module.as_os_str().to_owned()];
    args.extend(options.map(OsString::from));
    args.extend([append_path_to_option("--outfile=", out), further.to_owned()]);
    args
}

fn append_path_to_option(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

/// Finds a tool in `node_modules` of the plugin's directory or of a parent directory. Otherwise
/// returns the bare name, which is searched in PATH.
fn find_node_tool(work: &PluginBuildContext<'_>, name: &'static str) -> ToolchainProgramSpec {
    let folders = work.plugin.dir.ancestors();
    let mut places = folders.map(|folder| folder.join("node_modules/.bin").join(name));
    ToolchainProgramSpec {
        program: places
            .find(|path| path.is_file())
            .unwrap_or_else(|| name.into()),
        name,
        install: NPM_INSTALL_COMMAND,
    }
}

/// Interfaces of the plugin contract that a bundle exports and imports.
struct BundleImportsAndExports {
    exports: Vec<String>,
    imports: Vec<String>,
    /// Import paths in the bundle, each with the name of the interface that it imports.
    host_modules: BTreeMap<String, String>,
}

/// Reads from esbuild's `report` which interfaces of the contract a bundle exports and imports.
/// Warns about unknown exports.
fn read_bundle_imports_and_exports(
    work: &PluginBuildContext<'_>,
    entry: &Path,
    report: &Path,
) -> Result<BundleImportsAndExports, BuildError> {
    let text = std::fs::read(report).map_err(|source| work.file_error(report, source))?;
    let made: EsbuildMetafile = serde_json::from_slice(&text)
        .map_err(|error| work.file_error(report, std::io::Error::other(error)))?;
    let outputs = || made.outputs.values();
    let exported: Vec<&str> = outputs()
        .flat_map(|output| output.exports.iter().map(String::as_str))
        .collect();
    let exports: Vec<String> = world::exportable_interface_names()
        .filter(|name| exported.contains(&camel_case(name).as_str()))
        .map(str::to_owned)
        .collect();
    let known: Vec<String> = world::exportable_interface_names()
        .map(camel_case)
        .collect();
    let unknown = exported
        .iter()
        .filter(|name| !known.iter().any(|known| known == *name));
    let told = unknown.map(|name| {
        let near = find_nearest_name(name, known.iter().map(String::as_str));
        let hint = near.map(|near| format!(" (did you mean `{near}`?)"));
        let hint = hint.unwrap_or_default();
        format!(
            "export `{name}` is never called: it is neither a point nor one of `tools`, `commands`, `implement` and `loop`{hint}"
        )
    });
    if exports.is_empty() {
        let todo = told.map(|text| format!("The {text}. "));
        return Err(BuildError::NoExports {
            plugin: work.plugin.name.clone(),
            path: work.plugin.dir.join(entry),
            todo: todo.collect::<String>()
                + "Export a constant with the name of a point, such as `export const preTool = hooks.preTool(…)`, `tools`, `commands` or `loop`",
        });
    }
    told.for_each(|text| (work.progress)(&format!("warning: the {text}")));
    let imported = outputs().flat_map(|output| &output.imports);
    let host_modules: BTreeMap<String, String> = imported
        .filter_map(|import| {
            let name = import
                .path
                .strip_prefix(HOST_IMPORT_PREFIX)?
                .split('@')
                .next()?;
            world::is_host_import(name).then(|| (import.path.clone(), name.to_owned()))
        })
        .collect();
    let mut imports: Vec<String> = host_modules.values().cloned().collect();
    imports.sort();
    imports.dedup();
    Ok(BundleImportsAndExports {
        exports,
        imports,
        host_modules,
    })
}
