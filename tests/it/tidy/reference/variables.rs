//! Generates the page of environment variables: those that the program reads, and those that
//! commands get.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::tree::{self, Source};
use super::{Page, cell, host};

const INTRO: &str = "\
Variables that the program reads, and variables that commands of `bash` and scripts get. An empty variable counts as absent.
Settings and flags take precedence over a variable only where the table says so.";

/// Variables of the program, in groups, each with its meaning.
const READ: &[(&str, &[(&str, &str)])] = &[
    (
        "Places",
        &[
            (
                "RIND_HOME",
                "Folder that holds settings, data and cache (`config`, `data`, `cache`), plugins (`managed`), and stands for the home folder in which skills of other programs are found. A relative path is in the workspace. Takes precedence over `XDG_*`: see [files and places](files.md)",
            ),
            (
                "RIND_MANAGED",
                "Folder of plugins that takes the place of the core plugins. `rind doctor` lists the plugins that are missing then",
            ),
            (
                "XDG_CONFIG_HOME",
                "Absolute path of the folder in which the config folder `rind` is. Default: `~/.config`",
            ),
            (
                "XDG_DATA_HOME",
                "Absolute path of the folder in which the data folder `rind` is. Default: `~/.local/share`",
            ),
            (
                "XDG_CACHE_HOME",
                "Absolute path of the folder in which the cache folder `rind` is. Default: `~/.cache`",
            ),
            ("HOME", "Home folder. Required unless `RIND_HOME` is set"),
            (
                "DOCKER_CONFIG",
                "Folder with the `config.json` that has the credentials of registries. Default: `~/.docker`",
            ),
            (
                "CLAUDE_CONFIG_DIR",
                "Folder of Claude Code that `rind import` reads and `rind guard` changes. Default: `~/.claude`",
            ),
            (
                "CODEX_HOME",
                "Folder of Codex that `rind import` reads and `rind guard` changes. Default: `~/.codex`",
            ),
            (
                "OPENCODE_CONFIG_DIR",
                "Folder of OpenCode that `rind import` reads and `rind guard` changes. Default: `~/.config/opencode`",
            ),
            (
                "PI_CODING_AGENT_DIR",
                "Folder of pi that `rind guard` changes. Default: `~/.pi/agent`",
            ),
            (
                "RIND_GUARD_START",
                "`never`: a hook of `rind guard` starts no daemon, and refuses every call where none runs",
            ),
        ],
    ),
    (
        "Terminal and logs",
        &[
            (
                "RIND_LOG",
                "Filter of log lines on standard error: `debug`, `plugin=info`, `warn,plugin=debug`. Default: `warn`, and `warn,plugin=debug` for `rind plugin dev`",
            ),
            (
                "RIND_PLAIN",
                "`1` is `--plain`: the chat reads and writes lines",
            ),
            ("NO_COLOR", "Set to anything: no colors"),
            ("TERM", "`dumb`, or absent: the chat is plain"),
            (
                "COLORFGBG",
                "Numbers of the colors of text and background, such as `15;0`: colors of code fit that background where the terminal does not tell its own",
            ),
            ("COLUMNS", "Width of the terminal for progress lines"),
            (
                "SHELL",
                "Shell that runs `!COMMAND` in the chat. Default: `bash`",
            ),
            ("VISUAL", "Editor of Ctrl-G in the chat"),
            ("EDITOR", "Editor of Ctrl-G where `VISUAL` is absent"),
            (
                "WAYLAND_DISPLAY",
                "Set: Ctrl-V in the chat reads an image of the clipboard with `wl-paste`",
            ),
            ("DISPLAY", "Set: the same with `xclip`"),
            ("RIND_COMPLETE", "Set by the shell to ask for completions"),
        ],
    ),
    (
        "Network",
        &[
            (
                "HTTPS_PROXY",
                "Proxy of https requests to models and registries. Also in lower case, as the next three. Requests of plugins never use a proxy: see [models](../models.md#proxies-and-tls)",
            ),
            ("HTTP_PROXY", "Proxy of http requests"),
            (
                "ALL_PROXY",
                "Proxy of all requests without one of the two above",
            ),
            (
                "NO_PROXY",
                "Hosts that are reached without a proxy. Servers on this machine always are",
            ),
            (
                "SSL_CERT_FILE",
                "PEM file that replaces the certificate store of the system. `ca_file` in `[provider.http]` adds to the store",
            ),
            (
                "SSL_CERT_DIR",
                "Folder that replaces the certificate store of the system",
            ),
            (
                "OLLAMA_HOST",
                "Address of Ollama, `HOST:PORT`, where Rind asks for a model",
            ),
        ],
    ),
    (
        "Registries of packages",
        &[
            (
                "npm_config_registry",
                "Registry of packages for `rind plugin install npm:NAME`: see [install](../install.md#addresses-of-package-registries). Also in capitals, as the next three",
            ),
            (
                "npm_config_userconfig",
                "Settings of npm of the user. Default: `~/.npmrc`",
            ),
            (
                "npm_config_globalconfig",
                "Settings of npm of the machine. Default: `etc/npmrc` in the prefix",
            ),
            (
                "npm_config_prefix",
                "Folder that npm is installed under. Default: found from `node` in `PATH`",
            ),
            (
                "npm_config_https_proxy",
                "Proxy of npm, as `https-proxy` in `.npmrc`. Also in capitals, as the next two",
            ),
            ("npm_config_proxy", "Proxy of npm where that is absent"),
            (
                "npm_config_noproxy",
                "Hosts that are reached without the proxy of npm. Default: those of `NO_PROXY`",
            ),
            ("PIP_PROXY", "Proxy of pip, as `proxy` in `pip.conf`"),
            ("PIP_INDEX_URL", "Index of Python packages"),
            (
                "UV_DEFAULT_INDEX",
                "Index of Python packages where `PIP_INDEX_URL` is absent",
            ),
            (
                "UV_INDEX_URL",
                "Index of Python packages where both of these are absent",
            ),
            (
                "PIP_CONFIG_FILE",
                "Settings of pip, read before `pip.conf` of the user and of the machine. `/dev/null`: none are read",
            ),
            (
                "UV_CONFIG_FILE",
                "Settings of uv, read in place of `uv.toml` of the user and of the machine",
            ),
            (
                "CARGO_HTTP_PROXY",
                "Proxy of cargo, as `http.proxy` in its `config.toml`",
            ),
            (
                "UV_NO_CONFIG",
                "Set to any value: no settings of uv are read",
            ),
            (
                "NETRC",
                "Logins for indexes of Python packages, in place of `~/.netrc`",
            ),
            (
                "CARGO_REGISTRY_DEFAULT",
                "Registry of crates, by its name in cargo's settings; `CARGO_REGISTRIES_NAME_INDEX` and `CARGO_REGISTRIES_NAME_TOKEN` set its address and token",
            ),
        ],
    ),
    (
        "Traces",
        &[
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "Collector of traces; only in a build with the feature `otel`, as all of these",
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "Collector of traces, for traces only",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "Headers of requests to the collector",
            ),
            (
                "OTEL_EXPORTER_OTLP_TIMEOUT",
                "Timeout of requests to the collector",
            ),
            ("OTEL_SERVICE_NAME", "Name of the service. Default: `rind`"),
            ("OTEL_RESOURCE_ATTRIBUTES", "Attributes of the resource"),
            ("OTEL_TRACES_SAMPLER", "Sampler of traces"),
            ("OTEL_TRACES_EXPORTER", "`none` sends no traces"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                "Collector of the metrics of workers; `OTEL_EXPORTER_OTLP_ENDPOINT` is for both",
            ),
            ("OTEL_METRICS_EXPORTER", "`none` sends no metrics"),
            (
                "OTEL_METRIC_EXPORT_INTERVAL",
                "Milliseconds between two exports of metrics. Default: 60000",
            ),
            ("OTEL_SDK_DISABLED", "`true` sends no traces and no metrics"),
        ],
    ),
    (
        "Builds of plugins",
        &[
            (
                "PATH",
                "Folders of programs: cargo, npm, pip, `bwrap`, and the commands of scripts and skills",
            ),
            (
                "CARGO_HOME",
                "Folder of cargo, also with its registries. Default: `~/.cargo`",
            ),
            ("CARGO_TARGET_DIR", "Folder of build results"),
        ],
    ),
];

/// Files with words in capitals that are no variables of the program, each with the meaning of the
/// words.
const OTHERS: &[(&str, &str)] = &[
    (
        "host/src/provider/gemini/",
        "reasons and statuses of the API",
    ),
    (
        "host/crates/embed/src/build.rs",
        "variables of build scripts",
    ),
    ("host/crates/process/src/", "variables of started processes"),
    (
        "host/crates/author/src/compilation.rs",
        "variables of builds",
    ),
    (
        "host/crates/package/src/skill/git/",
        "variables that are set for git",
    ),
    (
        "host/src/script/claude/",
        "variables that are set for hooks",
    ),
    (
        "host/src/plugin/compile.rs",
        "a variable that is set for the compiler",
    ),
    (
        "host/crates/cli/src/worker.rs",
        "a variable that is set for the worker",
    ),
    (
        "host/crates/mcp/src/login/token.rs",
        "the name of a token among secrets",
    ),
    ("host/src/skill/", "names in texts of skills"),
    ("host/crates/base/src/secret/", "names in rules for secrets"),
    ("host/crates/check/src/", "names in texts of faults"),
    ("host/crates/derive/src/", "names in sources that are read"),
];

const PRESETS: &str = "host/src/provider/preset.rs";

pub(super) fn page() -> Page {
    let mut text = format!("{INTRO}\n");
    let table = |text: &mut String, head: &str| {
        let _ = write!(text, "\n{head}\n\n| variable | meaning |\n|---|---|\n");
    };
    for (group, rows) in READ {
        table(&mut text, &format!("## {group}"));
        for (name, meaning) in *rows {
            let _ = writeln!(text, "| `{name}` | {} |", cell(meaning));
        }
    }
    let _ = write!(
        text,
        "\n## Providers\n\nKeys may also stand in `secrets.toml` of the config folder, under the same names; the variable takes \
         precedence.\n`api_key_env` in the settings names another variable. Without a \
         provider in flags and settings, `ANTHROPIC_API_KEY`\nselects Anthropic, and `OPENAI_API_KEY` or \
         `OPENAI_BASE_URL` an OpenAI-compatible server.\n\n| provider | key | server |\n\
         |---|---|---|\n"
    );
    for [name, key, url] in providers() {
        let _ = writeln!(text, "| `{name}` | `{key}` | `{url}` |");
    }
    let _ = write!(
        text,
        "\n## Variables that commands get\n\nCommands of `bash` and scripts get these where they are set, all `LC_*`, and those \
         that `env` in `[sandbox]` names:\n\n{}.\n\nThese have a fixed value, so that programs do not wait for a person, unless \
         `env` names them:\n\n{}.\n\nHooks of Claude Code also get `CLAUDE_PROJECT_DIR` and, for `hooks.json`, \
         `CLAUDE_PLUGIN_ROOT`.\n",
        wrapped(
            &[
                list("environment.rs", "BASE_ENVIRONMENT_VARIABLES"),
                list("passed.rs", "DEFAULT_PASSED_VARIABLES")
            ]
            .concat()
        ),
        wrapped(&pairs("environment.rs", "NON_INTERACTIVE_VARIABLES")),
    );
    Page {
        name: "environment.md",
        title: "Reference: environment variables",
        text,
    }
}

/// Returns for each provider its name, the variable for the key and the variable for the server's
/// URL.
fn providers() -> Vec<[String; 3]> {
    let text = tree::read(PRESETS);
    let value = |preset: &str, field: &str| {
        let (_, rest) = preset.split_once(&format!("{field}: \""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let presets = text.split("    ProviderPreset {\n").skip(1);
    let rows = presets.filter_map(|preset| {
        Some([
            value(preset, "        name")?,
            value(preset, "key_env")?,
            value(preset, "url_env")?,
        ])
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 10, "{PRESETS}: {rows:?}");
    rows
}

/// Returns the list in a constant of a file of the crate `process`, as source text.
fn constant(file: &str, name: &str) -> String {
    let file = host()
        .into_iter()
        .find(|source| source.path.ends_with(&format!("process/src/{file}")));
    let text = file.expect("the file is there").text;
    let start = format!("const {name}: ");
    let rest = text.split_once(&start).expect("the constant is there").1;
    let rest = rest.split_once("= &[").expect("it is a list").1;
    rest.split_once("];").expect("it ends").0.to_owned()
}

fn list(file: &str, name: &str) -> Vec<String> {
    let text = constant(file, name);
    let names = text.split('"').skip(1).step_by(2);
    names.map(|name| format!("`{name}`")).collect()
}

fn pairs(file: &str, name: &str) -> Vec<String> {
    let text = constant(file, name);
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('('));
    let pairs = lines.filter_map(|line| {
        let mut parts = line.split('"').skip(1).step_by(2);
        Some(format!("`{}={}`", parts.next()?, parts.next()?))
    });
    pairs.collect()
}

/// Wraps a list into lines of at most 120 characters.
fn wrapped(items: &[String]) -> String {
    let mut lines = vec![String::new()];
    for (at, item) in items.iter().enumerate() {
        let item = if at + 1 < items.len() {
            format!("{item},")
        } else {
            item.clone()
        };
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = item,
            Some(line) if line.len() + item.len() < 120 => *line += &format!(" {item}"),
            _ => lines.push(item),
        }
    }
    lines.join("\n")
}

/// Reports variables that the code reads and the page does not name.
pub(super) fn missing() -> Vec<String> {
    let page = page().text;
    let sources = host();
    let is_other = |source: &&Source| OTHERS.iter().any(|(path, _)| source.path.starts_with(path));
    let names: BTreeSet<(String, String)> = sources
        .iter()
        .filter(|source| !is_other(source))
        .flat_map(|source| {
            let names = variables(source).into_iter();
            names.map(|name| (name, source.path.clone()))
        })
        .collect();
    let is_missing = |(name, _): &&(String, String)| !page.contains(&format!("`{name}`"));
    let missing = names.iter().filter(is_missing);
    missing
        .map(|(name, path)| format!("{path}: the reference has no variable `{name}`"))
        .collect()
}

/// Returns the string literals that look like variables: capitals with `_` between, and arguments
/// of a lookup.
fn variables(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    for (_, line) in source.code() {
        for (at, text) in line.split('"').enumerate().skip(1).step_by(2) {
            let before = line.split('"').nth(at - 1).unwrap_or_default();
            let is_looked_up = ["env(", "var(", "var_os(", "variable("]
                .iter()
                .any(|call| before.ends_with(call));
            // Variables of `env!` are set by cargo during the build.
            let is_name = text.len() > 2
                && !before.ends_with("env!(")
                && text.starts_with(|c: char| c.is_ascii_uppercase())
                && !text.ends_with('_')
                && text
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            if is_name && (is_looked_up || text.contains('_')) {
                names.push(text.to_owned());
            }
        }
    }
    names
}

#[test]
fn the_variables_of_rind_are_those_that_misspelt_ones_are_compared_with() {
    let text = tree::read("host/crates/operator/src/overlooked.rs");
    let list = text
        .split_once("const KNOWN_RIND_VARIABLES: &[&str] = &[")
        .unwrap()
        .1;
    let known = list.split_once("];").unwrap().0;
    let mut known: Vec<&str> = known.split('"').skip(1).step_by(2).collect();
    known.sort_unstable();
    let rows = READ.iter().flat_map(|(_, rows)| *rows);
    let own = rows.filter(|(name, _)| name.starts_with("RIND_"));
    let mut own: Vec<&str> = own.map(|(name, _)| *name).collect();
    own.sort_unstable();
    assert_eq!(known, own);
}

#[test]
fn names_of_variables_are_found_in_code() {
    let names = |line: &str| variables(&Source::new("a.rs", line));
    assert_eq!(names("let a = env(\"VISUAL\");"), ["VISUAL"]);
    assert_eq!(
        names("const A: &str = \"RIND_HOME\"; // \"B_C\""),
        ["RIND_HOME"]
    );
    assert!(names("let a = \"GET\"; let b = \"some_name\";").is_empty());
}

#[test]
fn long_lists_are_wrapped() {
    let items: Vec<String> = (0..40).map(|n| format!("`{n}`")).collect();
    let text = wrapped(&items);
    assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= 121));
    assert!(text.ends_with("`39`"));
}
