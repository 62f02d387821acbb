//! Implements `rind plugin new`: creates a directory with a plugin that builds and runs, and with a
//! README that explains it.
//!
//! The directory contains symlinks to the SDK, which is unpacked once per machine. Start from
//! [`create_plugin`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::ProgressCallback;
use super::sdk::{SDK_SYMLINKS_FOLDER_NAME, create_missing_sdk_symlinks};
use super::{embedded, folder};

/// Language in which a new plugin is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewPluginLanguage {
    /// Rust, which is built with cargo.
    Rust,
    /// JavaScript, built with esbuild and componentize-qjs, which npm installs.
    JavaScript,
    /// Python, built with componentize-py, which pip installs.
    Python,
}

/// Kind of extension that the template of a new plugin contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewPluginKind {
    /// Hook that can refuse tool calls.
    Hook,
    /// Tool that the model can call.
    Tool,
    /// Slash command that the user can call.
    Command,
    /// Loop that runs by itself under `rind serve`.
    Loop,
    /// A hook that adds a part to the system prompt.
    Prompt,
}

/// Error that prevented a new plugin from being created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewPluginError {
    /// The requested name is not a valid plugin name.
    #[error("{name:?} cannot be the name of a plugin: {why}")]
    Name {
        /// Name that was requested for the plugin.
        name: String,
        /// Reason why the name is invalid.
        why: String,
    },
    /// The directory of the new plugin exists already.
    #[error("{0} already exists and was not changed; choose another name, or remove it")]
    Exists(PathBuf),
    /// A file of the new plugin could not be written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file that could not be written.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Lines at the end of the `Cargo.toml` of a crate that is not a member of another workspace.
const SEPARATE_WORKSPACE_MANIFEST_LINES: &str =
    "# A workspace of its own, wherever the folder lies.\n[workspace]";

/// Lines at the end of the `plugin.toml` of a Python plugin.
const PYTHON_MANIFEST_COMPAT_SECTION: &str = "\n\n# Python's standard library imports sockets: they are linked, and denied at every use.\n[compat]\nsockets = \"inert\"\n";

/// Paths and texts of the plugin templates for one language.
struct PluginLanguageTemplates {
    /// Directory of the language's templates.
    folder: &'static str,
    /// File name extension of the source template, without the dot.
    ending: &'static str,
    /// File name of the language's manifest, for example `Cargo.toml`.
    manifest: &'static str,
    /// Path of the source file in the new plugin's directory.
    source: &'static str,
    /// Lines of the README with the commands that are needed before the first build.
    setup: &'static str,
    /// Lines of the README with commands that work only after the first build, because the build
    /// links the plugin to the SDK.
    after: &'static str,
    /// Rows of the table in the new plugin's README that lists the files.
    files: &'static str,
    /// Steps of the generated CI workflow that run before the build.
    ci_setup: &'static str,
    /// Steps of the CI workflow that run the tests. They follow the build, because the build
    /// creates the links from the plugin to the SDK.
    ci_test: &'static str,
    /// Lines of the new plugin's `.gitignore`.
    ignored: &'static str,
    /// Text at the end of the new plugin's `plugin.toml`.
    compat: &'static str,
}

impl NewPluginLanguage {
    fn language_templates(self) -> PluginLanguageTemplates {
        match self {
            Self::Rust => PluginLanguageTemplates {
                folder: "rust",
                ending: "rs",
                manifest: "Cargo.toml",
                source: "src/lib.rs",
                setup: "",
                after: "cargo test                             # runs the plugin's own tests natively\n",
                files: "| `.rind-sdk/rust/` | the SDK with examples; `wit` in it is the contract |\n",
                ci_setup: "      - run: rustup target add wasm32-wasip2\n",
                ci_test: "      - run: cargo test\n",
                ignored: "target/",
                compat: "",
            },
            Self::JavaScript => PluginLanguageTemplates {
                folder: "js",
                ending: "js",
                manifest: "package.json",
                source: "src/plugin.js",
                setup: "npm install                            # brings esbuild and componentize-qjs\n",
                after: "",
                files: "| `node_modules/rind-sdk/` | the SDK; `types` in it documents every point and import |\n",
                ci_setup: "      - run: npm install\n",
                ci_test: "",
                ignored: "node_modules/",
                compat: "",
            },
            Self::Python => PluginLanguageTemplates {
                folder: "python",
                ending: "py",
                manifest: "pyproject.toml",
                source: "plugin.py",
                setup: "python3 -m venv .venv                  # brings componentize-py, and mypy for types\n.venv/bin/pip install componentize-py==0.25.1 mypy\n",
                after: "",
                files: "| `.rind-sdk/python/` | the SDK; `stubs/wit_world` in it documents every point and import for editors |\n",
                ci_setup: "      - run: python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1 mypy\n",
                ci_test: "",
                ignored: ".venv/\n__pycache__/\n.mypy_cache/",
                compat: PYTHON_MANIFEST_COMPAT_SECTION,
            },
        }
    }
}

impl NewPluginKind {
    fn template_name(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Tool => "tool",
            Self::Command => "command",
            Self::Loop => "loop",
            Self::Prompt => "prompt",
        }
    }

    fn template_description(self) -> &'static str {
        match self {
            Self::Hook => "Refuses tool calls that touch secret files.",
            Self::Tool => "Gives the model a tool that counts words.",
            Self::Command => "Gives the person a command that asks for a short explanation.",
            Self::Loop => "Beats like a heart: counts its runs, and runs again after a pause.",
            Self::Prompt => "Adds a part to the system prompt.",
        }
    }

    /// Returns the part of the README about the plugin's hooks, tools and settings.
    fn readme_summary(self) -> &'static str {
        match self {
            Self::Hook => {
                "- Hook `pre-tool` (gate): refuses calls whose arguments hold one of the settings' parts of paths.\n\
                 - Setting `secret`: parts of paths that no tool may be given. Default: `.env` and `id_rsa`."
            }
            Self::Tool => {
                "- Tool `count_words` (read): takes a text, answers how many words it has."
            }
            Self::Command => {
                "- Command `/explain <topic> [reader=child|expert]`: starts a turn that asks for an explanation."
            }
            Self::Loop => {
                "- Loop: counts its runs in `state`, writes each to the log (`RIND_LOG=plugin=info` shows it), and runs again after a \
                 pause.\n\
                 - Setting `seconds`: the pause. Default: 60."
            }
            Self::Prompt => {
                "- Hook `system-prompt` (collect): adds one part of the tier `stable`.\n\
                 - Setting `text`: text of the part. Default: a sentence that asks for short answers."
            }
        }
    }

    /// Returns the command for the README that runs the plugin and grants all requested
    /// permissions.
    fn readme_run_command(self) -> &'static str {
        match self {
            Self::Loop => "rind serve --plugin . --grant {{name}}  # runs the loop until Ctrl-C",
            _ => "rind run --plugin . --grant {{name}} \"hello\"",
        }
    }

    /// Returns the value of the key `side_effects` in the plugin's manifest, as TOML.
    fn side_effects_toml(self) -> &'static str {
        match self {
            Self::Hook | Self::Tool | Self::Command | Self::Loop => "\"none\"",
            Self::Prompt => "\"session\"",
        }
    }
}

/// Directory of a newly created plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedPlugin {
    /// Path of the new plugin's directory.
    pub folder: PathBuf,
    /// Manifest of the cargo workspace whose `members` include the crate; `None` if the crate is a
    /// workspace of its own.
    pub workspace: Option<PathBuf>,
}

/// Creates a plugin in the directory `parent/name`. The plugin uses an SDK below `sdks`. Unpacks
/// the SDK if it is missing. Overwrites nothing. If an error occurs, the new directory is removed.
///
/// # Errors
/// The name is invalid, the path exists, or a file could not be written.
pub fn create_plugin(
    parent: &Path,
    name: &str,
    language: NewPluginLanguage,
    kind: NewPluginKind,
    sdks: &Path,
) -> Result<CreatedPlugin, NewPluginError> {
    if !folder::is_plugin_name(name) || name.starts_with('-') {
        return Err(NewPluginError::Name {
            name: name.to_owned(),
            why: "use 1 to 64 of a-z, 0-9 and -, with a letter or digit first".to_owned(),
        });
    }
    let place = parent.join(name);
    if place.symlink_metadata().is_ok() {
        return Err(NewPluginError::Exists(place));
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| NewPluginError::File { path, source }
    };
    let fresh = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in(parent)
        .map_err(failed(parent))?;
    let workspace = match language {
        NewPluginLanguage::Rust => find_enclosing_cargo_workspace(parent, name),
        NewPluginLanguage::JavaScript | NewPluginLanguage::Python => None,
    };
    // Members of a workspace share one directory of links, in the workspace's root: cargo treats an
    // SDK that it finds by two paths as two packages with the same name.
    let above = workspace.as_deref().and_then(Path::parent);
    let n_above = above.map_or(0, |above| count_folders_between(above, parent) + 1);
    let links = format!("{}{SDK_SYMLINKS_FOLDER_NAME}", "../".repeat(n_above));
    write_plugin_files(fresh.path(), name, language, kind, &links).map_err(failed(&place))?;
    // The temporary directory has the same parent as the final path, so relative references stay
    // valid after the rename.
    let quiet: ProgressCallback = Arc::new(|_| {});
    create_missing_sdk_symlinks(fresh.path(), sdks, &quiet).map_err(failed(&place))?;
    // `create_dir` fails if the path was created meanwhile. Without it, the rename would replace an
    // empty directory.
    fs::create_dir(&place).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => NewPluginError::Exists(place.clone()),
        _ => failed(&place)(source),
    })?;
    fs::rename(fresh.path(), &place).map_err(failed(&place))?;
    // Keep the temporary directory, which is now renamed to `place`: dropping `fresh` would try to
    // remove it.
    let _ = fresh.keep();
    Ok(CreatedPlugin {
        folder: place,
        workspace,
    })
}

/// Keys of a cargo workspace's manifest that decide which crates are members.
#[derive(serde::Deserialize)]
struct CargoWorkspace {
    workspace: Option<WorkspaceMembers>,
}

#[derive(serde::Deserialize)]
struct WorkspaceMembers {
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    exclude: Vec<PathBuf>,
}

/// Finds the manifest of the cargo workspace whose `members` match the new directory. A crate in
/// such a directory must not declare a workspace of its own, because cargo would then refuse every
/// command in the outer workspace.
fn find_enclosing_cargo_workspace(parent: &Path, name: &str) -> Option<PathBuf> {
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let place = parent.canonicalize().ok()?.join(name);
    let (path, found) = place.ancestors().skip(1).find_map(|above| {
        let path = above.join("Cargo.toml");
        let text = fs::read_to_string(&path).ok()?;
        let found = toml::from_str::<CargoWorkspace>(&text).ok()?.workspace?;
        Some((path, found))
    })?;
    let below = place.strip_prefix(path.parent()?).ok()?;
    let is_excluded = found
        .exclude
        .iter()
        .any(|excluded| below.starts_with(excluded));
    let takes_in = |pattern: &String| {
        let pattern = pattern.trim_start_matches("./");
        let glob = globset::GlobBuilder::new(pattern)
            .literal_separator(true)
            .build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(below))
    };
    (!is_excluded && found.members.iter().any(takes_in)).then_some(path)
}

fn write_plugin_files(
    to: &Path,
    name: &str,
    language: NewPluginLanguage,
    kind: NewPluginKind,
    links: &str,
) -> io::Result<()> {
    let facts = language.language_templates();
    let own = |file: &str| embedded::find_embedded_template(&format!("{}/{file}", facts.folder));
    let sections = embedded::find_embedded_template(&format!("{}.toml", kind.template_name()));
    let text = |template: &str| {
        let values = [
            // Replace these two placeholders first, because their values contain placeholders
            // themselves.
            ("sections", sections.trim_end()),
            ("run", kind.readme_run_command()),
            ("name", name),
            ("about", kind.readme_summary()),
            ("description", kind.template_description()),
            ("side_effects", kind.side_effects_toml()),
            ("source", facts.source),
            ("setup", facts.setup),
            ("after", facts.after),
            ("files", facts.files),
            ("ci_setup", facts.ci_setup),
            ("ci_test", facts.ci_test),
            ("ignored", facts.ignored),
            ("compat", facts.compat),
            ("sdk", links),
            (
                "workspace",
                if links == SDK_SYMLINKS_FOLDER_NAME {
                    SEPARATE_WORKSPACE_MANIFEST_LINES
                } else {
                    ""
                },
            ),
        ];
        let replace = |text: String, (key, value): (&str, &str)| {
            text.replace(&format!("{{{{{key}}}}}"), value)
        };
        let text = values.into_iter().fold(template.to_owned(), replace);
        text.trim_end().to_owned() + "\n"
    };
    let source = format!("{}.{}", kind.template_name(), facts.ending);
    let cases = format!("cases/{}.toml", kind.template_name());
    for (path, template) in [
        (
            "plugin.toml",
            embedded::find_embedded_template("plugin.toml"),
        ),
        ("README.md", embedded::find_embedded_template("README.md")),
        (".gitignore", embedded::find_embedded_template("gitignore")),
        ("tests/cases.toml", embedded::find_embedded_template(&cases)),
        (
            ".github/workflows/plugin.yml",
            embedded::find_embedded_template("workflow.yml"),
        ),
        (facts.manifest, own(facts.manifest)),
        (facts.source, own(&source)),
    ] {
        write_new_file(&to.join(path), text(template).as_bytes())?;
    }
    write_new_file(&to.join("plugin.schema.json"), manifest_schema().as_bytes())?;
    write_new_file(
        &to.join("tests/cases.schema.json"),
        case_file_json_schema().as_bytes(),
    )?;
    if language == NewPluginLanguage::JavaScript {
        write_new_file(&to.join("tsconfig.json"), own("tsconfig.json").as_bytes())?;
    }
    if language == NewPluginLanguage::Rust && links == SDK_SYMLINKS_FOLDER_NAME {
        write_new_file(&to.join("Cargo.lock"), render_cargo_lock(name).as_bytes())?;
    }
    Ok(())
}

/// Returns the lock file of a Rust plugin, with the versions of the SDK's dependencies that this
/// release was tested with.
fn render_cargo_lock(name: &str) -> String {
    let template = embedded::find_embedded_template("rust/Cargo.lock");
    let own = format!(
        "[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"rind-sdk\",\n]\n"
    );
    let (head, packages) = template.split_once("[[package]]\n").unwrap_or_default();
    let packages = packages.split("\n[[package]]\n");
    let mut packages: Vec<String> = packages
        .map(|package| format!("[[package]]\n{}\n", package.trim_end()))
        .collect();
    packages.push(own);
    // Cargo sorts the packages by name.
    packages.sort_by(|one, other| {
        cargo_lock_package_name_line(one).cmp(cargo_lock_package_name_line(other))
    });
    format!("{head}{}", packages.join("\n"))
}

fn cargo_lock_package_name_line(package: &str) -> &str {
    package.lines().nth(1).unwrap_or_default()
}

/// Returns how many directories `below` is under `above`; 0 if it is not below.
fn count_folders_between(above: &Path, below: &Path) -> usize {
    let real = |path: &Path| match path.as_os_str().is_empty() {
        true => Path::new(".").canonicalize(),
        false => path.canonicalize(),
    };
    let (Ok(above), Ok(below)) = (real(above), real(below)) else {
        return 0;
    };
    below
        .strip_prefix(above)
        .map_or(0, |between| between.components().count())
}

/// Returns the JSON Schema of `plugin.toml`, the manifest of a plugin.
#[must_use]
pub fn manifest_schema() -> &'static str {
    embedded::find_embedded_schema("plugin")
}

/// Returns the JSON Schema of a file with test cases of a plugin.
#[must_use]
pub fn case_file_json_schema() -> &'static str {
    embedded::find_embedded_schema("cases")
}

fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}
