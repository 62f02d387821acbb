//! `rind mcp`: adds, lists, tests and removes MCP servers, asks whether to approve their tools, and
//! serves as one.

pub(super) mod args;
mod login;
mod question;
mod serve;

use anyhow::Context;
use serde::Serialize;
use toml_edit::{Array, InlineTable, Value};

use self::args::{McpAddArgs, McpCommand, McpListArgs, McpRemoveArgs, McpTestArgs};
use self::question::format_tool_and_prompt_counts;
pub(super) use self::question::{
    TerminalMcpServerApprovalAsker, server_start_question, server_tools_question,
};
use super::exit_code::{ExitStatus, bail_usage};
use super::{edit, environment, render, terminal};
use rind_mcp::{
    ChangeSinceServerApproval, McpConfig, McpServerApprovalQuestion, McpServerConnectionSpec,
    ServerApprovalAsker, ServerApprovalRecord, ServerPinsStore, ServerProbeError, ServerSettings,
    ServerToolsAndPrompts, StoredLogin, check_server_name, fetch_server_offer,
    list_changes_since_approval, login_file_path, pins_file_path,
};
use rind_operator::mcp::NamedMcpServerSettings;
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_operator::{confinement, mcp};

/// Header of a settings file that is created for a server; empty.
const NEW_SETTINGS_FILE_HEADER: &str = "";

pub(super) async fn run_mcp(command: McpCommand) -> anyhow::Result<ExitStatus> {
    match command {
        McpCommand::Add(args) => add_server(*args).await,
        McpCommand::List(args) => list_servers(&args).await,
        McpCommand::Test(args) => test_server(&args).await,
        McpCommand::Login(args) => login::log_in(args).await,
        McpCommand::Remove(args) => remove_server(&args).await,
        McpCommand::Serve(args) => serve::run_mcp_serve(*args).await,
    }
}

/// Builds the MCP server `name` with the confinement that it has in a session.
async fn build_mcp_server_spec(
    setup: &OperatorWorkspaceSetup,
    name: &str,
    settings: &ServerSettings,
) -> anyhow::Result<McpServerConnectionSpec> {
    let commands = confinement::find_command_confinement(setup)
        .await?
        .command_environment_with_warning();
    mcp::build_mcp_server_spec(setup, name, settings, &commands)
}

async fn add_server(args: McpAddArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::read_settings_without_project()?;
    let name = args.name.clone();
    let is_yes = args.yes;
    let is_tested = !args.no_test;
    let settings = args.into_settings();
    if let Err(why) = check_server_name(&name).and_then(|()| settings.check_settings()) {
        bail_usage!("MCP server `{name}` {why}");
    }
    if mcp::read_mcp_settings(&setup)?.0.contains_key(&name) {
        bail_usage!(
            "there is an MCP server `{name}` already; remove it first with `rind mcp remove {name}`"
        );
    }
    let server = build_mcp_server_spec(&setup, &name, &settings).await?;
    let (offer, wanted) = match is_tested {
        false => (None, None),
        true => match fetch_server_offer(&server).await {
            Ok(offer) => (Some(offer), None),
            // Add a server that requires a login nevertheless: `rind mcp login` needs it in the
            // settings.
            Err(failure) if failure.wants_login => (None, Some(failure.why)),
            Err(failure) => return Err(mcp_server_probe_error(&name, &failure)),
        },
    };
    let file = setup.paths.user_config();
    write_server_settings(&file, &name, &settings)
        .with_context(|| format!("cannot change {}", file.display()))?;
    render::print_note(&format!(
        "MCP server `{name}` is added to {}",
        file.display()
    ));
    if let Some(why) = wanted {
        render::print_warning(&format!("it {why}"));
        return Ok(ExitStatus::Failed);
    }
    let Some(offer) = offer else {
        render::print_note(&format!(
            "its tools are not approved yet; run `rind mcp test {name}`"
        ));
        return Ok(ExitStatus::Done);
    };
    review_tools_and_prompts(&setup, &server, &offer, is_yes).await
}

async fn test_server(args: &McpTestArgs) -> anyhow::Result<ExitStatus> {
    let setup = read_trusted_project_setup(args.trust_project).await?;
    let own = find_configured_server(&setup, &args.name)?;
    let commands = confinement::find_command_confinement(&setup)
        .await?
        .command_environment_with_warning();
    let server = mcp::resolve_named_server(&setup, &own, &commands)?;
    let pins = ServerPinsStore::read(&pins_file_path(&setup.paths))?;
    let is_known = pins.find_pin(&server.pin, &server.settings).is_some();
    if let Some(place) = own.place
        && !is_known
        && !confirm_server_start(&server, place, args).await
    {
        return Ok(ExitStatus::Failed);
    }
    let offer = probe_mcp_server_offer(&server).await?;
    if args.json {
        let (standing, changes) =
            server_approval_state(&pins, &server.pin, &server.settings, Some(&offer));
        render::print_json(&serde_json::json!({
            "server": args.name,
            "standing": standing,
            "offer": offer,
            "refused": offer.refused,
            "changes": changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitStatus::from_success_flag(
            standing == ServerApprovalState::Pinned && changes.is_empty(),
        ));
    }
    review_tools_and_prompts(&setup, &server, &offer, args.yes).await
}

/// Asks whether to start a server that a file of the project configures.
async fn confirm_server_start(
    server: &McpServerConnectionSpec,
    place: &str,
    args: &McpTestArgs,
) -> bool {
    let is_yes = match (args.yes, terminal::can_ask_at_terminal() && !args.json) {
        (true, _) => true,
        (false, true) => {
            TerminalMcpServerApprovalAsker
                .ask_before_starting(server, place)
                .await
        }
        (false, false) => {
            render::print_warning(&format!(
                "there is no terminal to ask whether the server of {place} may be started; to start it: `rind mcp test {} --yes`",
                server.name
            ));
            return false;
        }
    };
    if !is_yes {
        render::print_note("it is not started, and its tools are not used");
    }
    is_yes
}

/// Reads the settings, with those of the project in the current folder if it is trusted. Does not
/// ask whether to trust it.
async fn read_trusted_project_setup(trust_project: bool) -> anyhow::Result<OperatorWorkspaceSetup> {
    environment::read_operator_workspace_setup(None, &ModelSelection::default(), trust_project)
        .await
}

/// Returns the servers in the settings and those of the trusted project.
fn list_configured_servers(
    setup: &OperatorWorkspaceSetup,
) -> anyhow::Result<Vec<NamedMcpServerSettings>> {
    let config = mcp::read_mcp_settings(setup)?;
    let of_project = mcp::usable_project_mcp_servers(setup, &config)?;
    let own = config.0.into_iter().filter(|(_, own)| !own.project);
    let own = own.map(|(name, settings)| NamedMcpServerSettings {
        name,
        settings,
        ..NamedMcpServerSettings::default()
    });
    Ok(own.chain(of_project).collect())
}

fn find_configured_server(
    setup: &OperatorWorkspaceSetup,
    name: &str,
) -> anyhow::Result<NamedMcpServerSettings> {
    let mut all = list_configured_servers(setup)?;
    match all.iter().position(|own| own.name == name) {
        Some(at) => Ok(all.swap_remove(at)),
        None => unknown_server_error(name, all.iter().map(|own| own.name.as_str())),
    }
}

/// Starts a server once and reads which tools and prompts it offers. The error is a text for the
/// user.
async fn probe_mcp_server_offer(
    server: &McpServerConnectionSpec,
) -> anyhow::Result<ServerToolsAndPrompts> {
    let probed = fetch_server_offer(server).await;
    probed.map_err(|failure| mcp_server_probe_error(&server.name, &failure))
}

fn mcp_server_probe_error(name: &str, failure: &ServerProbeError) -> anyhow::Error {
    anyhow::anyhow!("MCP server `{name}` {failure}")
}

/// Shows the tools and prompts that a server offers. Asks whether to approve them if they differ
/// from the approved ones, and records an approval.
async fn review_tools_and_prompts(
    setup: &OperatorWorkspaceSetup,
    server: &McpServerConnectionSpec,
    offer: &ServerToolsAndPrompts,
    is_yes: bool,
) -> anyhow::Result<ExitStatus> {
    let mut pins = ServerPinsStore::read(&pins_file_path(&setup.paths))?;
    let (name, pin) = (&server.name, &server.pin);
    let (standing, changes) = server_approval_state(&pins, pin, &server.settings, Some(offer));
    if standing == ServerApprovalState::Pinned && changes.is_empty() {
        render::mcp::print_server_offer(server, offer);
        render::print_note("its tools are those that you approved");
        return Ok(ExitStatus::Done);
    }
    let question = McpServerApprovalQuestion {
        server,
        offer,
        changes: pins
            .find_pin_ignoring_settings(pin)
            .map(|_| changes.as_slice()),
    };
    let is_accepted = match (is_yes, terminal::can_ask_at_terminal()) {
        (true, _) => {
            render::mcp::print_server_offer(server, offer);
            render::mcp::print_changes_since_approval(&changes);
            true
        }
        (false, true) => TerminalMcpServerApprovalAsker.ask(question).await,
        (false, false) => {
            render::mcp::print_server_offer(server, offer);
            render::mcp::print_changes_since_approval(&changes);
            render::print_warning(&format!(
                "there is no terminal to ask at, so its tools are not used; to approve them: `rind mcp test {name} --yes`"
            ));
            return Ok(ExitStatus::Failed);
        }
    };
    if !is_accepted {
        render::print_note("its tools are not used");
        return Ok(ExitStatus::Failed);
    }
    pins.pin_server(pin, mcp::create_server_pin(server, offer.clone()))?;
    render::print_note(&format!(
        "approved {} of `{name}`; a tool that changes later is withheld",
        format_tool_and_prompt_counts(offer)
    ));
    Ok(ExitStatus::Done)
}

/// State of the approval of a server, which decides whether its tools are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ServerApprovalState {
    /// The operator approved the tools that the server offers.
    Pinned,
    /// The server was approved with other settings than the current ones.
    OtherSettings,
    /// The operator never approved the server.
    Unknown,
    /// The server is disabled in the settings.
    Off,
}

fn server_approval_state(
    pins: &ServerPinsStore,
    name: &str,
    settings: &ServerSettings,
    offer: Option<&ServerToolsAndPrompts>,
) -> (ServerApprovalState, Vec<ChangeSinceServerApproval>) {
    let standing = match (
        pins.find_pin(name, settings),
        pins.find_pin_ignoring_settings(name),
    ) {
        _ if !settings.enabled && offer.is_none() => ServerApprovalState::Off,
        (Some(_), _) => ServerApprovalState::Pinned,
        (None, Some(_)) => ServerApprovalState::OtherSettings,
        (None, None) => ServerApprovalState::Unknown,
    };
    let earlier = pins.find_pin_ignoring_settings(name).zip(offer);
    let changes = earlier.map(|(pin, offer)| list_changes_since_approval(&pin.offer, offer));
    (standing, changes.unwrap_or_default())
}

/// MCP server in the output of `rind mcp list`.
#[derive(Debug, Serialize)]
pub(super) struct McpListEntry<'a> {
    pub(super) name: &'a str,
    /// Place where the server is configured: `settings`, or the name of the project's file.
    pub(super) origin: &'a str,
    pub(super) standing: ServerApprovalState,
    #[serde(flatten)]
    pub(super) settings: &'a ServerSettings,
    /// Names of the server's tools that the operator approved.
    pub(super) tools: Vec<&'a str>,
    pub(super) given: Option<&'a str>,
    /// Authorization server of the login that is in use; `None` without one.
    pub(super) login: Option<String>,
}

async fn list_servers(args: &McpListArgs) -> anyhow::Result<ExitStatus> {
    let setup = read_trusted_project_setup(args.trust_project).await?;
    let servers = list_configured_servers(&setup)?;
    let pins = ServerPinsStore::read(&pins_file_path(&setup.paths))?;
    let listed: Vec<McpListEntry<'_>> = servers
        .iter()
        .map(|own| {
            let NamedMcpServerSettings { name, settings, .. } = own;
            let pin = mcp_server_approval_key(&setup, own);
            // Add the names of the server's environment variables, because they are part of the
            // approved settings.
            let mut approved = settings.clone();
            approved
                .env
                .extend(own.env.iter().map(|(name, _)| name.clone()));
            let known: Option<&ServerApprovalRecord> = pins.find_pin_ignoring_settings(&pin);
            let tools = known.into_iter().flat_map(|pin| &pin.offer.tools);
            McpListEntry {
                name,
                origin: own.place.unwrap_or("settings"),
                standing: server_approval_state(&pins, &pin, &approved, None).0,
                settings,
                tools: tools.map(|tool| tool.name.as_str()).collect(),
                given: known.map(|pin| pin.given.as_str()),
                login: authorization_server_of_login(&setup, name, settings),
            }
        })
        .collect();
    match args.json {
        true => render::print_json(&listed)?,
        false => render::mcp::print_servers(&listed),
    }
    Ok(ExitStatus::Done)
}

/// Returns the name under which the file of approvals stores the approved tools and prompts (the
/// pin) of a server.
fn mcp_server_approval_key(setup: &OperatorWorkspaceSetup, own: &NamedMcpServerSettings) -> String {
    match own.place {
        Some(_) => mcp::project_mcp_server_approval_name(setup, &own.name),
        None => own.name.clone(),
    }
}

/// Returns the authorization server of the login with which a server is used; `None` without one.
fn authorization_server_of_login(
    setup: &OperatorWorkspaceSetup,
    name: &str,
    settings: &ServerSettings,
) -> Option<String> {
    // Ignore an unreadable login here: it is reported when the server is used.
    let login = StoredLogin::read(&login_file_path(&setup.paths, name)).ok()??;
    let is_used = Some(&login.url) == settings.url.as_ref() && !settings.has_authorization_header();
    is_used.then_some(login.issuer)
}

async fn remove_server(args: &McpRemoveArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::read_settings_without_project()?;
    let file = setup.paths.user_config();
    // Ignore invalid settings, so that the server that they configure can still be removed.
    let settings = mcp::read_mcp_settings(&setup).ok();
    let own = settings.as_ref().and_then(|all| all.0.get(&args.name));
    let is_private = own.is_some_and(|own| own.private);
    let keys: &[&str] = &[<McpConfig as rind_lib::config::Section>::NAME, &args.name];
    let was_there = edit::remove_toml_value(&file, keys)
        .with_context(|| format!("cannot change {}", file.display()))?;
    let mut pins = ServerPinsStore::read(&pins_file_path(&setup.paths))?;
    let of_project = pins.remove(&mcp::project_mcp_server_approval_name(&setup, &args.name))?;
    let was_pinned = pins.remove(&args.name)? || of_project;
    let was_logged_in = match check_server_name(&args.name) {
        Ok(()) => {
            let path = login_file_path(&setup.paths, &args.name);
            login::revoke_and_remove_login(&path, &args.name, is_private).await?
        }
        Err(_) => false,
    };
    if !was_there && !was_pinned && !was_logged_in {
        bail_usage!(
            "there is no MCP server `{}` in {}",
            args.name,
            file.display()
        );
    }
    render::print_note(&format!("MCP server `{}` is removed", args.name));
    Ok(ExitStatus::Done)
}

fn find_server_settings<'a>(
    servers: &'a McpConfig,
    name: &str,
) -> anyhow::Result<&'a ServerSettings> {
    match servers.0.get(name) {
        Some(settings) => Ok(settings),
        None => unknown_server_error(name, servers.0.keys().map(String::as_str)),
    }
}

/// Returns the error for an unknown server, with the known names.
fn unknown_server_error<'a, T>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> anyhow::Result<T> {
    let known: Vec<&str> = known.collect();
    let known = match known.is_empty() {
        true => "no MCP servers are configured; `rind mcp add` adds one".to_owned(),
        false => format!("the servers are: {}", known.join(", ")),
    };
    bail_usage!("there is no MCP server `{name}`; {known}");
}

/// Returns the names of the MCP servers that the settings configure.
pub(super) fn configured_server_names(
    setup: &OperatorWorkspaceSetup,
) -> anyhow::Result<Vec<String>> {
    Ok(mcp::read_mcp_settings(setup)?.0.into_keys().collect())
}

/// Writes the settings of a server that differ from the defaults.
pub(super) fn write_server_settings(
    file: &std::path::Path,
    name: &str,
    settings: &ServerSettings,
) -> anyhow::Result<()> {
    let list = |items: &[String]| {
        (!items.is_empty()).then(|| Value::Array(items.iter().collect::<Array>()))
    };
    let flag = |is_on: bool| is_on.then(|| Value::from(true));
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let headers = || {
        let pairs = settings.headers.iter();
        let table: InlineTable = pairs
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        (!table.is_empty()).then(|| Value::InlineTable(table))
    };
    let is_default = settings.protocol == rind_mcp::McpProtocol::Auto;
    let protocol = serde_json::to_value(settings.protocol)?;
    let protocol = protocol.as_str().filter(|_| !is_default).map(Value::from);
    let off = (!settings.enabled).then(|| Value::from(false));
    let all = [
        ("enabled", off),
        ("command", text(&settings.command)),
        ("args", list(&settings.args)),
        ("env", list(&settings.env)),
        ("read", list(&settings.read)),
        ("write", list(&settings.write)),
        ("network", flag(settings.network)),
        ("url", text(&settings.url)),
        ("headers", headers()),
        ("private", flag(settings.private)),
        ("client_id", text(&settings.client_id)),
        ("client_secret", text(&settings.client_secret)),
        ("scopes", list(&settings.scopes)),
        ("project", flag(settings.project)),
        ("protocol", protocol),
    ];
    let keys: Vec<([&str; 3], Value)> = all
        .into_iter()
        .filter_map(|(key, value)| Some((["mcp", name, key], value?)))
        .collect();
    let values: Vec<(&[&str], Value)> = keys
        .iter()
        .map(|(keys, value)| (keys.as_slice(), value.clone()))
        .collect();
    edit::set_toml_values(file, NEW_SETTINGS_FILE_HEADER, &values)?;
    Ok(())
}
