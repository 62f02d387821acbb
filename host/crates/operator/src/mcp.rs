//! Creates the MCP servers of a run with their programs, addresses and permissions, and asks the
//! operator to approve their tools.
//!
//! Settings of a project cannot name servers, because the section `[mcp]` is not allowed there.
//! Files of other agents in a trusted project can (`project_servers`), but give the servers no
//! permissions.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::confinement::{publicly_readable_folders, rind_folders};
use super::environment::is_executable_file;
use super::project_servers::list_project_servers;
use super::setup::OperatorWorkspaceSetup;
use super::usage::bail_usage;
use rind_lib::config::Section;
use rind_lib::host::ToolSource;
use rind_lib::tool::builtin::{CommandConfinementAndEnvironment, CommandConfinementMode};
use rind_lib::tool::peer::{PeerProcessMemoryLimit, PeerProcessSpec};
use rind_lib::tool::process::base_environment;
use rind_lib::tool::process::confine::check_paths_do_not_overlap;
use rind_mcp::{
    ApprovedServerPrompts, McpConfig, McpServerApprovalQuestion, McpServerConnectionSpec,
    McpServerProgramOrUrl, McpServerUrlAndEgress, McpToolSource, ServerApprovalAsker,
    ServerApprovalRecord, ServerPinsStore, ServerSettings, check_server_name, fetch_server_offer,
    list_changes_since_approval, login_file_path, pins_file_path,
};

/// Word that stands for the workspace in the paths of the settings.
const WORKSPACE_PATH_KEYWORD: &str = "workspace";

/// Name of the file with the servers of the settings, as questions show it.
const SETTINGS_FILE_NAME: &str = "config.toml";

/// Reason in the warning about a server that is not used because the operator did not approve its
/// tools.
pub const TOOLS_NOT_APPROVED_REASON: &str = "its tools were not approved";

/// Server of a run: from the settings, from a file of the project, or from the program that shows
/// the session, such as an editor.
///
/// Each server needs an approval, which is pinned. A server from a program has no permissions: no
/// folders, no network, and only the variables that the program gives it. A server from a project
/// has only the permissions that the operator's settings give it. A server from the settings takes
/// precedence over other servers with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedMcpServerSettings {
    /// Name of the MCP server.
    pub name: String,
    /// Settings of the MCP server: its program or address.
    pub settings: ServerSettings,
    /// Environment variables of the MCP server's program, with their values.
    pub env: Vec<(String, String)>,
    /// Arguments of the program with their variables replaced; `None` for the arguments in
    /// `settings`.
    pub args: Option<Vec<String>>,
    /// Name of the project's file that names the server; `None` for a server of the settings or of
    /// a program.
    pub place: Option<&'static str>,
}

/// Returns the servers of the settings, including disabled ones.
///
/// # Errors
/// A setting is wrong. The message has its location.
pub fn read_mcp_settings(setup: &OperatorWorkspaceSetup) -> anyhow::Result<McpConfig> {
    let config: McpConfig = setup.config.section()?;
    for (name, settings) in &config.0 {
        let checked = check_server_name(name).and_then(|()| settings.check_settings());
        if let Err(why) = checked {
            bail_usage!(
                "{}[mcp.{name}] {why}",
                server_settings_location(setup, name)
            );
        }
    }
    Ok(config)
}

/// Returns the location of a server's settings, followed by a colon.
fn server_settings_location(setup: &OperatorWorkspaceSetup, name: &str) -> String {
    let place = setup.config.value_locations(&[McpConfig::NAME, name]).pop();
    place.map_or_else(String::new, |place| format!("{place}: "))
}

/// Creates a server from its settings. Its program is confined like commands.
///
/// # Errors
/// A setting is wrong, or cannot be used on this machine.
pub fn build_mcp_server_spec(
    setup: &OperatorWorkspaceSetup,
    name: &str,
    settings: &ServerSettings,
    commands: &CommandConfinementAndEnvironment,
) -> anyhow::Result<McpServerConnectionSpec> {
    let wrong = |why: String| anyhow::anyhow!("MCP server `{name}`: {why}");
    let reach = match &settings.command {
        None => {
            let secrets = setup.secrets()?;
            let login = login_file_path(&setup.paths, name);
            McpServerProgramOrUrl::Http(
                McpServerUrlAndEgress::new(name, settings, secrets, &login).map_err(wrong)?,
            )
        }
        Some(command) => {
            let program = build_mcp_server_process_spec(setup, name, command, settings, commands);
            McpServerProgramOrUrl::Program(Box::new(
                program.map_err(|why| wrong(format!("{why:#}")))?,
            ))
        }
    };
    let workspace = &setup.paths.workspace;
    let changes_workspace = match &reach {
        McpServerProgramOrUrl::Http(_) => false,
        McpServerProgramOrUrl::Program(program) => {
            let is_free = !matches!(
                program.commands.confining,
                CommandConfinementMode::Confined(_)
                    | CommandConfinementMode::RetryingConfinement(_)
            );
            let overlaps =
                |folder: &PathBuf| folder.starts_with(workspace) || workspace.starts_with(folder);
            is_free || program.write.iter().any(overlaps)
        }
    };
    Ok(McpServerConnectionSpec {
        name: name.to_owned(),
        pin: name.to_owned(),
        settings: settings.clone(),
        reach,
        changes_workspace,
    })
}

fn build_mcp_server_process_spec(
    setup: &OperatorWorkspaceSetup,
    name: &str,
    command: &str,
    settings: &ServerSettings,
    commands: &CommandConfinementAndEnvironment,
) -> anyhow::Result<PeerProcessSpec> {
    let environment = &setup.environment;
    let all = |folders: &[String]| -> anyhow::Result<Vec<PathBuf>> {
        let folders = folders.iter();
        folders
            .map(|text| resolve_settings_folder(setup, text))
            .collect()
    };
    let (declared, write) = (all(&settings.read)?, all(&settings.write)?);
    if let Some(missing) = write.iter().find(|path| !path.exists()) {
        anyhow::bail!("`write` names {}, which does not exist", missing.display());
    }
    let command = match command.strip_prefix("~/") {
        Some(rest) => environment
            .home_folder_or_empty()
            .join(rest)
            .into_os_string(),
        None => OsString::from(command),
    };
    let path = Path::new(&command);
    let is_name = path.components().count() == 1 && !path.is_absolute();
    let is_there = match is_name {
        true => environment.find_program(&command).is_some(),
        false => path.is_absolute() && is_executable_file(path),
    };
    if !is_there {
        anyhow::bail!(
            "there is no program `{}`; `command` is a name in PATH, or an absolute path or one below `~/`",
            path.display()
        );
    }
    let mut read = publicly_readable_folders(environment, &setup.paths)?;
    read.extend((!is_name).then(|| path.to_owned()));
    let first_folder = write.iter().chain(&declared).find(|path| path.is_dir());
    let cwd = first_folder.cloned().unwrap_or_else(|| PathBuf::from("/"));
    read.extend(declared);
    let mut env = base_environment();
    let secrets = setup.secrets()?;
    for variable in &settings.env {
        let Some(value) = secrets.variable_or_secret(variable) else {
            anyhow::bail!(
                "the server needs the variable `{}`, which neither the environment nor \
                 secrets.toml sets",
                variable.escape_debug()
            );
        };
        env.retain(|(known, _)| known != variable.as_str());
        env.push((variable.into(), value.into()));
    }
    let home = environment.home_folder_or_empty();
    let args = settings
        .args
        .iter()
        .map(|word| match word.strip_prefix("~/") {
            Some(rest) => home.join(rest).into_os_string(),
            None => OsString::from(word),
        });
    Ok(PeerProcessSpec {
        name: name.to_owned(),
        command: std::iter::once(command).chain(args).collect(),
        cwd,
        env,
        read,
        write,
        network: settings.network,
        memory: settings.memory_mb.map(|mb| PeerProcessMemoryLimit {
            bytes: mb.saturating_mul(1 << 20),
            section: format!("mcp.{name}"),
        }),
        commands: commands.clone(),
    })
}

/// Resolves a folder of the settings: an absolute path, a path below `~/`, the word `workspace`, or
/// a path below `workspace/`.
fn resolve_settings_folder(setup: &OperatorWorkspaceSetup, text: &str) -> anyhow::Result<PathBuf> {
    let home = setup.environment.home_folder_or_empty();
    let below = |root: &Path, rest: &str| {
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let rest = Path::new(rest);
        rest.components().all(is_plain).then(|| root.join(rest))
    };
    let path = match text.split_once('/') {
        Some(("~", rest)) => below(&home, rest),
        Some((WORKSPACE_PATH_KEYWORD, rest)) => below(&setup.paths.workspace, rest),
        None if text == WORKSPACE_PATH_KEYWORD => Some(setup.paths.workspace.clone()),
        _ => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    };
    let Some(path) = path else {
        anyhow::bail!(
            "`{}` is not a folder: write an absolute path, one below `~/`, `workspace` or `workspace/FOLDER`",
            text.escape_debug()
        );
    };
    check_paths_do_not_overlap(&path, &rind_folders(&setup.paths))?;
    Ok(path)
}

/// Approved servers of a run, as sources of tools and prompts.
#[derive(Default)]
pub struct ApprovedMcpServers {
    /// Name of each server, and the source that provides its tools.
    pub sources: Vec<(String, McpToolSource)>,
    /// Approved prompts of the servers that offer prompts.
    pub prompts: Vec<ApprovedServerPrompts>,
}

impl ApprovedMcpServers {
    /// Converts the approved servers into sources of tools for a host.
    #[must_use]
    pub fn into_sources(self) -> Vec<Arc<dyn ToolSource>> {
        let sources = self.sources.into_iter();
        sources
            .map(|(_, source)| Arc::new(source) as Arc<dyn ToolSource>)
            .collect()
    }
}

/// Returns the approved servers of the settings, of the program (`named`) and of the project. Asks
/// about servers that are not approved yet, and warns about servers that are not used.
///
/// # Errors
/// A setting is wrong, or pins cannot be read or stored.
pub async fn approved_servers(
    setup: &OperatorWorkspaceSetup,
    commands: &CommandConfinementAndEnvironment,
    named: Vec<NamedMcpServerSettings>,
    ask: Option<&dyn ServerApprovalAsker>,
) -> anyhow::Result<ApprovedMcpServers> {
    let config = read_mcp_settings(setup)?;
    let enabled = config.0.iter();
    let enabled = enabled.filter(|(_, own)| own.enabled && !own.project);
    let mut wanted: Vec<NamedMcpServerSettings> = enabled
        .map(|(name, settings)| NamedMcpServerSettings {
            name: name.clone(),
            settings: settings.clone(),
            ..NamedMcpServerSettings::default()
        })
        .collect();
    let n_of_settings = wanted.len();
    wanted.extend(select_client_mcp_servers(setup, &config, named));
    for own in usable_project_mcp_servers(setup, &config)? {
        let is_taken = |other: &NamedMcpServerSettings| other.name == own.name;
        if own.settings.enabled && !wanted.iter().any(is_taken) {
            wanted.push(own);
        }
    }
    if wanted.is_empty() {
        return Ok(ApprovedMcpServers::default());
    }
    let mut pins = ServerPinsStore::read(&pins_file_path(&setup.paths))?;
    let mut used = ApprovedMcpServers::default();
    for (n, own) in wanted.iter().enumerate() {
        let name = &own.name;
        let server = match resolve_named_server(setup, own, commands) {
            Ok(server) => server,
            Err(why) => {
                setup
                    .environment
                    .warn_once(&format!("{why:#}; it is not used"));
                continue;
            }
        };
        let pinned = match pins.find_pin(&server.pin, &server.settings) {
            Some(pin) => Some(pin.offer.clone()),
            None => {
                // Ask before a program in the settings is started, because another program may have
                // imported or changed the settings.
                let is_program = matches!(server.reach, McpServerProgramOrUrl::Program(_));
                let is_of_settings = n < n_of_settings && is_program;
                let place = own.place.or(is_of_settings.then_some(SETTINGS_FILE_NAME));
                ask_server_approval(setup, &server, place, &mut pins, ask).await?
            }
        };
        if let Some(pinned) = pinned {
            if !pinned.prompts.is_empty() {
                used.prompts.push(ApprovedServerPrompts {
                    server: name.clone(),
                    prompts: pinned.prompts.clone(),
                });
            }
            let source = McpToolSource::new(server, pinned);
            used.sources.push((name.clone(), source));
        }
    }
    Ok(used)
}

/// Returns the servers that files of the trusted project name, with the permissions that the
/// settings give them. Warns about those that are not used.
///
/// # Errors
/// The secrets cannot be read.
pub fn usable_project_mcp_servers(
    setup: &OperatorWorkspaceSetup,
    config: &McpConfig,
) -> anyhow::Result<Vec<NamedMcpServerSettings>> {
    let Some(held) = &setup.project else {
        return Ok(Vec::new());
    };
    let secrets = setup.secrets()?;
    let mut servers = Vec::new();
    for found in list_project_servers(&setup.paths, held) {
        // A server of the same name in the operator's own settings takes precedence.
        if config.0.get(&found.name).is_some_and(|own| !own.project) {
            continue;
        }
        let made = found.with_permissions(config, &secrets);
        let made = made.and_then(|own| {
            let checked = own.settings.check_settings();
            checked.map(|()| own).map_err(|why| format!("it {why}"))
        });
        match made {
            Ok(own) => servers.push(own),
            Err(why) => setup.environment.warn_once(&format!(
                "MCP server `{}` of {} is not used: {why}",
                found.name, found.place
            )),
        }
    }
    Ok(servers)
}

/// Returns the name under which the approval of a project's MCP server is stored. It contains a
/// hash of the workspace, because servers of two projects may have the same name.
#[must_use]
pub fn project_mcp_server_approval_name(setup: &OperatorWorkspaceSetup, name: &str) -> String {
    let workspace = setup.paths.workspace.as_os_str().as_encoded_bytes();
    let hash = blake3::hash(workspace).to_hex();
    format!("{name}@{}", hash.get(..16).unwrap_or_default())
}

/// Selects the usable servers among those that the program showing the session, such as an editor,
/// passed to Rind. Warns about a server that is invalid, or whose name the settings or an earlier
/// server already use.
fn select_client_mcp_servers(
    setup: &OperatorWorkspaceSetup,
    config: &McpConfig,
    named: Vec<NamedMcpServerSettings>,
) -> Vec<NamedMcpServerSettings> {
    let mut usable: Vec<NamedMcpServerSettings> = Vec::new();
    for own in named {
        let name = &own.name;
        let checked = check_server_name(name).and_then(|()| own.settings.check_settings());
        let why = if let Err(why) = checked {
            format!("it {why}")
        } else if config.0.get(name).is_some_and(|known| !known.project) {
            format!("the settings have a server of this name, [mcp.{name}], which takes precedence")
        } else if usable.iter().any(|other| other.name == *name) {
            "another server has this name".to_owned()
        } else {
            usable.push(own);
            continue;
        };
        let text = format!("MCP server `{}` is not used: {why}", name.escape_debug());
        setup.environment.warn_once(&text);
    }
    usable
}

/// Creates a server from the settings, arguments and variables in `own`.
///
/// # Errors
/// A setting cannot be used on this machine, or a server of a project cannot be confined here.
pub fn resolve_named_server(
    setup: &OperatorWorkspaceSetup,
    own: &NamedMcpServerSettings,
    commands: &CommandConfinementAndEnvironment,
) -> anyhow::Result<McpServerConnectionSpec> {
    let settings = ServerSettings {
        args: own
            .args
            .clone()
            .unwrap_or_else(|| own.settings.args.clone()),
        ..own.settings.clone()
    };
    let mut made = build_mcp_server_spec(setup, &own.name, &settings, commands)?;
    // Put back the arguments in which variables are not replaced by their values, because questions
    // to the user and pins must not contain the values.
    made.settings.args.clone_from(&own.settings.args);
    if let Some(place) = own.place {
        made.pin = project_mcp_server_approval_name(setup, &own.name);
        if let McpServerProgramOrUrl::Program(program) = &made.reach
            && !matches!(
                program.commands.confining,
                CommandConfinementMode::Confined(_)
                    | CommandConfinementMode::RetryingConfinement(_)
            )
        {
            anyhow::bail!(
                "MCP server `{}` of {place}: programs cannot be confined on this machine, and servers of a project run only confined",
                own.name
            );
        }
    }
    if let McpServerProgramOrUrl::Program(program) = &mut made.reach {
        for (name, value) in &own.env {
            program.env.retain(|(known, _)| known != name.as_str());
            program.env.push((name.into(), value.into()));
            // Questions and pins show the name of the variable, never its value.
            made.settings.env.push(name.clone());
        }
    }
    Ok(made)
}

/// Asks the operator to approve a server whose settings are not pinned. Returns the offer of the
/// server; `None` if the server is not used.
async fn ask_server_approval(
    setup: &OperatorWorkspaceSetup,
    server: &McpServerConnectionSpec,
    place: Option<&str>,
    pins: &mut ServerPinsStore,
    ask: Option<&dyn ServerApprovalAsker>,
) -> anyhow::Result<Option<rind_mcp::ServerToolsAndPrompts>> {
    let (name, pin) = (&server.name, &server.pin);
    let warn = |why: &str| {
        let text = format!("MCP server `{name}` is not used: {why}");
        setup.environment.warn_once(&text);
    };
    let Some(ask) = ask else {
        let why = match pins.find_pin_ignoring_settings(pin) {
            None => "its tools are not approved",
            Some(_) => "its settings have changed since its tools were approved",
        };
        warn(&format!("{why}; run `rind mcp test {name}`"));
        return Ok(None);
    };
    if let Some(place) = place
        && !ask.ask_before_starting(server, place).await
    {
        warn("its start was not approved");
        return Ok(None);
    }
    let offer = match fetch_server_offer(server).await {
        Ok(offer) => offer,
        Err(why) => {
            warn(&format!("it {why}"));
            return Ok(None);
        }
    };
    let earlier = pins.find_pin_ignoring_settings(pin).cloned();
    let changes = earlier.map(|pin| list_changes_since_approval(&pin.offer, &offer));
    let question = McpServerApprovalQuestion {
        server,
        offer: &offer,
        changes: changes.as_deref(),
    };
    if !ask.ask(question).await {
        warn(TOOLS_NOT_APPROVED_REASON);
        return Ok(None);
    }
    pins.pin_server(pin, create_server_pin(server, offer.clone()))?;
    Ok(Some(offer))
}

/// Creates the record of an approval (the pin) for `offer`, the tools and prompts of `server`, with
/// the current time.
#[must_use]
pub fn create_server_pin(
    server: &McpServerConnectionSpec,
    offer: rind_mcp::ServerToolsAndPrompts,
) -> ServerApprovalRecord {
    ServerApprovalRecord {
        settings: server.settings.connection_settings_digest(),
        given: rind_lib::clock::format_current_time(),
        offer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::OperatorEnvironment;
    use rind_lib::config::{Config, ConfigLayer};
    use rind_lib::paths::RindPaths;

    fn setup(folder: &Path, text: &str) -> OperatorWorkspaceSetup {
        let workspace = folder.join("w");
        std::fs::create_dir_all(workspace.join("sub")).unwrap();
        let environment = OperatorEnvironment {
            home: Some(folder.join("home")),
            ..OperatorEnvironment::default()
        };
        let layer =
            ConfigLayer::from_file_text(&folder.join("config.toml"), text.to_owned()).unwrap();
        let paths = RindPaths::from_single_root(&folder.join("rind"), &workspace);
        OperatorWorkspaceSetup::new(Arc::new(environment), paths, Config::new(vec![layer]))
    }

    #[test]
    fn folders_are_plain_and_never_those_of_rind() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let setup = setup(&root, "");
        let found = |text: &str| resolve_settings_folder(&setup, text).ok();
        assert_eq!(found("workspace"), Some(root.join("w")));
        assert_eq!(found("workspace/sub"), Some(root.join("w/sub")));
        assert_eq!(found("~/docs"), Some(root.join("home/docs")));
        assert_eq!(found("/usr/share"), Some(PathBuf::from("/usr/share")));
        let own = root.join("rind/data").display().to_string();
        for bad in ["workspace/../x", "~/../x", "docs", "", "~", &own, "/"] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_wrong_setting_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("[mcp.Docs]\ncommand = \"x\"\n", "is not a name"),
            (
                "\n[mcp.docs]\nargs = []\n",
                "config.toml:2: [mcp.docs] has neither",
            ),
        ] {
            let why = read_mcp_settings(&setup(folder.path(), text))
                .unwrap_err()
                .to_string();
            assert!(why.contains(expected), "{why}");
        }
    }
}
