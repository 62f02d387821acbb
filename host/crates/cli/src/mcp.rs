//! `rind mcp`: adds, lists, tests and removes MCP servers, asks about their offers, and is a server
//! itself.

pub(super) mod args;
mod question;
mod serve;

use anyhow::Context;
use serde::Serialize;
use toml_edit::{Array, InlineTable, Value};

use self::args::{McpAddArgs, McpCommand, McpListArgs, McpRemoveArgs, McpTestArgs};
use self::question::offer_words;
pub(super) use self::question::{TerminalServerAsk, question_text};
use super::exit_code::{ExitStatus, bail_usage};
use super::{edit, environment, render, terminal};
use rind_mcp::{
    AskServer, McpConfig, McpServer, OfferChange, PinnedServers, ServerOffer, ServerPin,
    ServerQuestion, ServerSettings, changes_since, check_server_name, pins_file, probe_server,
};
use rind_operator::setup::OperatorSetup;
use rind_operator::{confinement, mcp};

/// Head of a settings file that is made for a server.
const HEAD: &str = "";

pub(super) async fn run_mcp(command: McpCommand) -> anyhow::Result<ExitStatus> {
    match command {
        McpCommand::Add(args) => add_server(*args).await,
        McpCommand::List(args) => list_servers(&args),
        McpCommand::Test(args) => test_server(&args).await,
        McpCommand::Remove(args) => remove_server(&args),
        McpCommand::Serve(args) => serve::run_server(*args).await,
    }
}

/// Reads the settings of a server, and makes it reachable as in a session.
async fn reachable(
    setup: &OperatorSetup,
    name: &str,
    settings: &ServerSettings,
) -> anyhow::Result<McpServer> {
    let commands = confinement::find(setup).await?.commands();
    mcp::server(setup, name, settings, &commands)
}

async fn add_server(args: McpAddArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::user_setup()?;
    let name = args.name.clone();
    let is_yes = args.yes;
    let is_tested = !args.no_test;
    let settings = args.into_settings();
    if let Err(why) = check_server_name(&name).and_then(|()| settings.check()) {
        bail_usage!("MCP server `{name}` {why}");
    }
    if mcp::settings(&setup)?.0.contains_key(&name) {
        bail_usage!(
            "there is an MCP server `{name}` already; remove it first with `rind mcp remove {name}`"
        );
    }
    let server = reachable(&setup, &name, &settings).await?;
    let offer = match is_tested {
        true => Some(looked_at(&server).await?),
        false => None,
    };
    let file = setup.paths.user_config();
    write_settings(&file, &name, &settings)
        .with_context(|| format!("change {}", file.display()))?;
    render::print_note(&format!(
        "MCP server `{name}` is added to {}",
        file.display()
    ));
    let Some(offer) = offer else {
        render::print_note(&format!(
            "its tools are not approved yet; run `rind mcp test {name}`"
        ));
        return Ok(ExitStatus::Done);
    };
    settle_offer(&setup, &server, &offer, is_yes).await
}

async fn test_server(args: &McpTestArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::user_setup()?;
    let servers = mcp::settings(&setup)?;
    let settings = find_server(&servers, &args.name)?;
    let server = reachable(&setup, &args.name, settings).await?;
    let offer = looked_at(&server).await?;
    if args.json {
        let pins = PinnedServers::read(&pins_file(&setup.paths))?;
        let (standing, changes) = standing_of(&pins, &args.name, settings, Some(&offer));
        render::print_json(&serde_json::json!({
            "server": args.name,
            "standing": standing,
            "offer": offer,
            "refused": offer.refused,
            "changes": changes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitStatus::status_of(
            standing == ServerStanding::Pinned && changes.is_empty(),
        ));
    }
    settle_offer(&setup, &server, &offer, args.yes).await
}

/// Starts a server once. The error is that of the command.
async fn looked_at(server: &McpServer) -> anyhow::Result<ServerOffer> {
    let probed = probe_server(server).await;
    probed.map_err(|why| anyhow::anyhow!("MCP server `{}`: it {why}", server.name))
}

/// Shows the offer of a server, and asks unless it equals the pinned one.
async fn settle_offer(
    setup: &OperatorSetup,
    server: &McpServer,
    offer: &ServerOffer,
    is_yes: bool,
) -> anyhow::Result<ExitStatus> {
    let mut pins = PinnedServers::read(&pins_file(&setup.paths))?;
    let name = &server.name;
    let (standing, changes) = standing_of(&pins, name, &server.settings, Some(offer));
    if standing == ServerStanding::Pinned && changes.is_empty() {
        render::mcp::show_offer(server, offer);
        render::print_note("its tools are those that you approved");
        return Ok(ExitStatus::Done);
    }
    let question = ServerQuestion {
        server,
        offer,
        changes: pins.earlier(name).map(|_| changes.as_slice()),
    };
    let is_accepted = match (is_yes, terminal::can_ask()) {
        (true, _) => {
            render::mcp::show_offer(server, offer);
            render::mcp::show_changes(&changes);
            true
        }
        (false, true) => TerminalServerAsk.ask(question).await,
        (false, false) => {
            render::mcp::show_offer(server, offer);
            render::mcp::show_changes(&changes);
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
    pins.put(name, mcp::pin_of(server, offer.clone()))?;
    render::print_note(&format!(
        "approved {} of `{name}`; what changes later is withheld",
        offer_words(offer)
    ));
    Ok(ExitStatus::Done)
}

/// Whether the tools of a server are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ServerStanding {
    /// The operator said yes to the offer.
    Pinned,
    /// The settings have changed since the server was approved.
    OtherSettings,
    /// No answer yet.
    Unknown,
    /// Switched off.
    Off,
}

fn standing_of(
    pins: &PinnedServers,
    name: &str,
    settings: &ServerSettings,
    offer: Option<&ServerOffer>,
) -> (ServerStanding, Vec<OfferChange>) {
    let standing = match (pins.find(name, settings), pins.earlier(name)) {
        _ if !settings.enabled && offer.is_none() => ServerStanding::Off,
        (Some(_), _) => ServerStanding::Pinned,
        (None, Some(_)) => ServerStanding::OtherSettings,
        (None, None) => ServerStanding::Unknown,
    };
    let earlier = pins.earlier(name).zip(offer);
    let changes = earlier.map(|(pin, offer)| changes_since(&pin.offer, offer));
    (standing, changes.unwrap_or_default())
}

/// A server as `rind mcp list` has it.
#[derive(Debug, Serialize)]
pub(super) struct ListedServer<'a> {
    pub(super) name: &'a str,
    pub(super) standing: ServerStanding,
    #[serde(flatten)]
    pub(super) settings: &'a ServerSettings,
    /// Tools that were approved.
    pub(super) tools: Vec<&'a str>,
    pub(super) given: Option<&'a str>,
}

fn list_servers(args: &McpListArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::user_setup()?;
    let servers = mcp::settings(&setup)?;
    let pins = PinnedServers::read(&pins_file(&setup.paths))?;
    let listed: Vec<ListedServer<'_>> = servers
        .0
        .iter()
        .map(|(name, settings)| {
            let pin: Option<&ServerPin> = pins.earlier(name);
            let tools = pin.into_iter().flat_map(|pin| &pin.offer.tools);
            ListedServer {
                name,
                standing: standing_of(&pins, name, settings, None).0,
                settings,
                tools: tools.map(|tool| tool.name.as_str()).collect(),
                given: pin.map(|pin| pin.given.as_str()),
            }
        })
        .collect();
    match args.json {
        true => render::print_json(&listed)?,
        false => render::mcp::list_servers(&listed),
    }
    Ok(ExitStatus::Done)
}

fn remove_server(args: &McpRemoveArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::user_setup()?;
    let file = setup.paths.user_config();
    let keys: &[&str] = &[<McpConfig as rind_lib::config::Section>::NAME, &args.name];
    let was_there =
        edit::remove_value(&file, keys).with_context(|| format!("change {}", file.display()))?;
    let was_pinned = PinnedServers::read(&pins_file(&setup.paths))?.remove(&args.name)?;
    if !was_there && !was_pinned {
        bail_usage!(
            "there is no MCP server `{}` in {}",
            args.name,
            file.display()
        );
    }
    render::print_note(&format!("MCP server `{}` is removed", args.name));
    Ok(ExitStatus::Done)
}

fn find_server<'a>(servers: &'a McpConfig, name: &str) -> anyhow::Result<&'a ServerSettings> {
    let Some(settings) = servers.0.get(name) else {
        let known: Vec<&str> = servers.0.keys().map(String::as_str).collect();
        let known = match known.is_empty() {
            true => "no MCP servers are configured; `rind mcp add` adds one".to_owned(),
            false => format!("the servers are: {}", known.join(", ")),
        };
        bail_usage!("there is no MCP server `{name}`; {known}");
    };
    Ok(settings)
}

/// Returns the names of the servers in the settings.
pub(super) fn server_names(setup: &OperatorSetup) -> anyhow::Result<Vec<String>> {
    Ok(mcp::settings(setup)?.0.into_keys().collect())
}

/// Writes the settings that differ from the defaults.
pub(super) fn write_settings(
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
    edit::set_values(file, HEAD, &values)?;
    Ok(())
}
