//! Generates the page of files: the folders of the program, and each file that it reads or creates
//! in them.

use std::fmt::Write as _;
use std::path::Path;

use rind::paths::{ADMIN_POLICY_FILE_PATH, RindPaths};

use super::{Page, cell, host};

const INTRO: &str = "\
Folders that Rind uses, and every file in them. `rind doctor` prints the folders of your machine.";

/// Files of a folder: path in the folder, content, and who writes it.
type Files = &'static [(&'static str, &'static str, &'static str)];

const CONFIG: Files = &[
    (
        "config.toml",
        "settings",
        "you, `rind init --user`, `rind plugin disable NAME`, the first question for a model",
    ),
    (
        "config.json",
        "settings as JSON; `config.toml` takes precedence",
        "you",
    ),
    (
        "workspaces/HASH.toml",
        "your settings for one workspace; the first line names it",
        "`rind plugin disable NAME --project`",
    ),
    (
        "policy.toml",
        "your [policy](../permissions-and-policy.md#policy) for plugins",
        "you",
    ),
    (
        "secrets.toml",
        "keys by the names of their variables; readable by its owner only",
        "you, the first question for a model",
    ),
    (
        "AGENTS.md",
        "your [context file](../sessions-and-archival.md#context-files)",
        "you",
    ),
    (
        "prompts/NAME.md",
        "your [templates](../slash-commands.md#templates)",
        "you",
    ),
    (
        "plugins/NAME/",
        "installed plugins",
        "`rind plugin install`, you",
    ),
    (
        "plugins.lock.toml",
        "version, source and digest of installed plugins, and their keys",
        "`rind plugin install`",
    ),
    (
        "skills/NAME/",
        "your skills and installed ones; `.kept` has those that had to make room",
        "`rind skill install`, you",
    ),
    (
        "agents/NAME.md",
        "your [presets](../subagents.md#presets) of subagents",
        "you",
    ),
    (
        "skills.lock.toml",
        "version, source and digest of installed skills",
        "`rind skill install`",
    ),
];

const DATA: Files = &[
    (
        "sessions/ID/session.jsonl",
        "a [session](../sessions-and-archival.md)",
        "every turn",
    ),
    (
        "sessions/ID/content/",
        "images of the session, each once",
        "every turn",
    ),
    (
        "sessions/ID/blobs/",
        "large values that plugins keep in the session",
        "plugins",
    ),
    (
        "sessions/ID/agents/ID/",
        "sessions of subagents, and archived turns",
        "subagents, archival",
    ),
    (
        "sessions/ID/checkpoints/",
        "files of the workspace as they were before calls changed them",
        "calls that change files",
    ),
    (
        "sessions/ID/lock",
        "locked while the session is open",
        "every turn",
    ),
    (
        "sessions/ID/kept/",
        "what repairs took out",
        "`rind session doctor --repair`",
    ),
    (
        "sessions/.heads.json",
        "titles, costs and states of sessions; made anew when it is missing",
        "`rind session list`",
    ),
    (
        "grants.json",
        "your answers about permissions of plugins",
        "questions at a terminal; `rind plugin grants --revoke NAME`",
    ),
    (
        "mcp.json",
        "tools of MCP servers that you approved",
        "`rind mcp add` and `test`; questions at a terminal; `rind mcp remove NAME`",
    ),
    (
        "mcp-logins/NAME.json",
        "the [login](../mcp-login.md) at an MCP server, with its tokens; readable by its owner only",
        "`rind mcp login NAME`, renewals of tokens, `rind mcp remove NAME`",
    ),
    (
        "projects.json",
        "projects that you trust, each with its digest",
        "questions at a terminal; `rind plugin grants --distrust DIR`",
    ),
    (
        "project-hooks.json",
        "projects whose [hooks](../scripts-as-hooks.md#hooks-of-a-project) you allowed, each with a digest",
        "questions at a terminal; `rind plugin grants --distrust DIR`",
    ),
    (
        "commands/ID.json",
        "state of the repositories before a command that runs, or that was interrupted",
        "every confined command",
    ),
    (
        "plugins/NAME/store/",
        "values that a plugin keeps across sessions",
        "plugins",
    ),
    (
        "plugins/NAME/files/",
        "the plugin's own folder, `data`",
        "plugins",
    ),
    (
        "plugins/NAME@HASH/",
        "the same of a plugin of a project or the command line",
        "plugins",
    ),
    (
        "plugins/NAME@from-HASH/",
        "data of a removed plugin; installing it from the same source brings it back",
        "`rind plugin remove`",
    ),
    (
        "plugins/.empty/",
        "empty: stands for folders that are not there",
        "every turn",
    ),
    (
        "told/HASH",
        "a mark for each project that was told of settings of other agents",
        "the first turn in such a project",
    ),
    (
        "tmp/",
        "temporary files where the system's folder for them lies in the workspace",
        "every turn",
    ),
    (
        "cache.key",
        "key that signs compiled plugins in the cache",
        "the first start",
    ),
    ("history", "inputs of the chat", "the chat"),
];

const CACHE: Files = &[
    (
        "components/HASH.cwasm",
        "plugins compiled to native code",
        "every start with a new plugin",
    ),
    (
        "builds/HASH/",
        "what cargo compiled of plugins in Rust: one folder for each toolchain and SDK, with a `.lock` file beside it",
        "`rind plugin build`",
    ),
    (
        "components.swept",
        "time when old entries were last removed",
        "every start",
    ),
    (
        "cases/HASH.json",
        "costs of the last run of a plugin's cases",
        "`rind plugin test`",
    ),
    (
        "skills/PACKAGE/VERSION/NAME/",
        "derived skills",
        "`rind skill derive`",
    ),
];

const PROJECT: Files = &[
    (
        ".rind/config.toml",
        "settings of the project; also `config.json`",
        "you, `rind init`",
    ),
    (".rind/plugins/NAME/", "plugins of the project", "you"),
    (
        ".rind/prompts/NAME.md",
        "templates of the project; also `.claude/commands`",
        "you",
    ),
    (
        ".rind/skills/NAME/",
        "skills of the project; also `.claude/skills` and `.agents/skills`",
        "you",
    ),
    (
        ".rind/agents/NAME.md",
        "[presets](../subagents.md#presets) of subagents of the project; also `.claude/agents`",
        "you",
    ),
];

/// A folder of the program.
struct Folder {
    heading: &'static str,
    /// Expressions for the folder in the code.
    names: &'static [&'static str],
    /// Advice on backup and deletion.
    about: &'static str,
    files: Files,
}

const FOLDERS: &[Folder] = &[
    Folder {
        heading: "Config folder",
        names: &["config"],
        about: "Back it up: you wrote it.",
        files: CONFIG,
    },
    Folder {
        heading: "Data folder",
        names: &["data"],
        about: "Back it up: it cannot be made again. [Delete old sessions](../sessions-and-archival.md#delete-old-sessions).",
        files: DATA,
    },
    Folder {
        heading: "Cache folder",
        names: &["cache"],
        about: "May be deleted at any time while Rind does not run: it is made again.",
        files: CACHE,
    },
    Folder {
        heading: "Project",
        names: &["project()"],
        about: "In the workspace; read only once you [trust](../plugins.md#projects) the project.",
        files: PROJECT,
    },
];

pub(super) fn page() -> Page {
    let home = RindPaths::new(Path::new("~"), |_| None, Path::new("WORKSPACE"));
    let under = RindPaths::from_single_root(Path::new("$RIND_HOME"), Path::new("WORKSPACE"));
    let mut text = format!(
        "{INTRO}\n\n## Folders\n\n| folder | default | with `XDG_*` | with `RIND_HOME` |\n|---|---|---|---|\n"
    );
    for (name, variable, home, under) in [
        ("config", "XDG_CONFIG_HOME", &home.config, &under.config),
        ("data", "XDG_DATA_HOME", &home.data, &under.data),
        ("cache", "XDG_CACHE_HOME", &home.cache, &under.cache),
    ] {
        let _ = writeln!(
            text,
            "| {name} | `{}` | `${variable}/rind` | `{}` |",
            home.display(),
            under.display()
        );
    }
    text += "\n`XDG_*` variables count where they are absolute paths. `RIND_HOME` takes precedence over them; a relative one is in the\n\
             workspace. Files that Rind makes in the data folder are readable by their owner only.\n";
    for folder in FOLDERS {
        let Folder {
            heading,
            about,
            files,
            ..
        } = folder;
        let _ = write!(
            text,
            "\n## {heading}\n\n{about}\n\n| path | contents | written by |\n|---|---|---|\n"
        );
        for (path, meaning, by) in *files {
            let _ = writeln!(text, "| `{path}` | {} | {} |", cell(meaning), cell(by));
        }
    }
    let _ = write!(
        text,
        "\n## Elsewhere\n\n| path | contents |\n|---|---|\n\
         | `{ADMIN_POLICY_FILE_PATH}` | policy of the administrator; takes precedence over yours |\n\
         | `share/rind/plugins` beside the folder of the program | plugins that come with an installation; with `RIND_HOME` the \
         folder `managed` in it |\n\
         | `rind-sdk/VERSION/` beside the data folder | the [SDK](../plugins.md#build-and-check) that plugins refer to; may be deleted, \
         `rind plugin build` makes it again |\n\
         | `~/.claude/CLAUDE.md` | context file that Rind reads too |\n\
         | `~/.claude/skills`, `~/.agents/skills` | skills that Rind reads too |\n\
         | `~/.docker/config.json` | credentials of OCI registries |\n\
         | `~/.npmrc`, `etc/npmrc` of npm, `pip.conf`, `config.toml` and `credentials.toml` of cargo | \
         [addresses of package registries](../install.md#addresses-of-package-registries) and their credentials |\n\
         | the folder for temporary files (`TMPDIR`; where it lies in the workspace, `/tmp`, `/var/tmp` or `data/tmp`) | \
         temporary folders of commands, removed when they end |\n"
    );
    Page {
        name: "files.md",
        title: "Reference: files and places",
        text,
    }
}

/// Reports files that the code names in one of the folders and the page does not list.
pub(super) fn missing() -> Vec<String> {
    let mut findings = Vec::new();
    for source in host() {
        for (number, line) in source.code() {
            for folder in FOLDERS {
                let named = folder.names.iter().filter_map(|name| joined(line, name));
                for name in named {
                    let is_known = folder.files.iter().any(|(path, ..)| {
                        let path = path.strip_prefix(".rind/").unwrap_or(path);
                        path.starts_with(name)
                    });
                    if !is_known {
                        findings.push(format!(
                            "{}:{number}: `{name}` is not in the reference of files, under `{}`",
                            source.path, folder.heading
                        ));
                    }
                }
            }
        }
    }
    findings
}

/// Returns the file name that a line of code joins to a folder with `folder.join("NAME")`.
fn joined<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    let (before, rest) = line.split_once(&format!("{folder}.join(\""))?;
    // Options of plugins have fields with the same names, for folders within these.
    let is_whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        && !before.ends_with("options.");
    rest.split_once('"')
        .map(|(name, _)| name)
        .filter(|_| is_whole)
}

#[test]
fn names_that_are_joined_to_a_folder_are_found() {
    assert_eq!(
        joined("self.data.join(\"sessions\")", "data"),
        Some("sessions")
    );
    assert_eq!(joined("self.metadata.join(\"sessions\")", "data"), None);
    assert_eq!(joined("paths.data.join(FILE)", "data"), None);
}
