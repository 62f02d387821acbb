//! `rind mcp serve`: serves the tools of plugins, skills and templates to other agents over MCP.
//!
//! Standard output carries only the protocol.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::args::McpServeArgs;
use super::find_server_settings;
use crate::command::CommandsServedAsMcpPrompts;
use crate::event_file::EventLogFile;
use crate::exit_code::{ExitStatus, Usage, bail_usage};
use crate::listen::{AuthenticatedListener, ListenAddress, open_token_protected_listener};
use crate::signals::ShutdownSignals;
use crate::{open, render};
use rind_lib::Session;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::message::ToolSpec;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::plugin::tools::BUILT_IN_TOOL_NAMES;
use rind_lib::tool::registry::is_external_tool_origin;
use rind_mcp::{
    McpHttpServer, OpenSessionFn, OwnMcpServerConfig, mcp_tool_source_name, serve_stdio_client,
};
use rind_operator::mcp;
use rind_operator::settings::SessionChoice;
use rind_operator::start::ConfiguredAgentHost;

/// Name of the file with the access token, in the data folder.
const ACCESS_TOKEN_FILE_NAME: &str = "mcp-token";

/// Label of the sessions that clients open. Neither `last` nor the choice of a session to resume
/// considers sessions with a label.
const MCP_CLIENT_SESSION_LABEL: &str = "mcp serve";

/// Name of the built-in tool for skills. It is not offered to clients, which get skills as prompts.
const SKILL_TOOL_NAME: &str = "skill";

pub(super) async fn run_mcp_serve(args: McpServeArgs) -> anyhow::Result<ExitStatus> {
    let file = args.open.events.as_deref().map(EventLogFile::open_file);
    let file = file.transpose()?;
    let mut settings = args.open.to_run_settings(SessionChoice::New, false)?;
    settings.plugins.components = args.pair_components_with_policies().map_err(Usage)?;
    let n_components = args.component.len();
    let prepared = open::prepare_session(settings)
        .await?
        .allow_unconfigured_model();
    // Serve a server only once, even if it is named twice.
    let upstream: BTreeSet<String> = args.upstream.into_iter().collect();
    let upstream: Vec<String> = upstream.into_iter().collect();
    let prepared = prepared.forward_mcp_servers_to_clients(&upstream);
    let servers = mcp::read_mcp_settings(prepared.operator_setup())?;
    for name in &upstream {
        find_server_settings(&servers, name)?;
    }
    check_all_wasm_components_loaded(&prepared.plugins(), n_components)?;
    let commands = prepared.collect_slash_commands().await?;
    commands
        .broken_template_warning_lines()
        .iter()
        .for_each(|fault| render::print_warning(fault));
    let commands = Arc::new(commands);
    let ready = prepared.build_host().await?;
    let offered = McpClientToolFilter {
        has_built_in: args.builtin,
        upstream: upstream
            .iter()
            .map(|name| mcp_tool_source_name(name))
            .collect(),
    };
    let serving = OwnMcpServerConfig {
        open: create_client_session_opener(&ready.run, file),
        is_offered: Arc::new(move |spec| offered.is_tool_offered(spec)),
        skills: Arc::new({
            let commands = commands.clone();
            move |take: &mut dyn FnMut(_)| commands.visit_mcp_served_skills(take)
        }),
        prompts: Arc::new(CommandsServedAsMcpPrompts {
            commands,
            upstream: upstream.iter().cloned().collect(),
        }),
        upstream: upstream.into(),
    };
    let cancel = CancellationToken::new();
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for signals")?;
    drop(ready.exits);
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(cancel.clone()));
    match &args.listen {
        None => serve_over_stdio(serving, &cancel).await?,
        Some(address) => serve_over_http(serving, address, &ready.run, &cancel).await?,
    }
    Ok(match cancel.is_cancelled() {
        true => ExitStatus::Interrupted,
        false => ExitStatus::Done,
    })
}

/// Checks that all components passed with `--component` run, and warns of functions that are not
/// offered.
fn check_all_wasm_components_loaded(
    plugins: &FoundPluginSet,
    n_components: usize,
) -> anyhow::Result<()> {
    let running = plugins
        .plugins
        .iter()
        .filter(|plugin| plugin.is_component_without_contract());
    let refused = running
        .clone()
        .flat_map(|plugin| plugin.skipped_function_messages());
    refused.for_each(|why| render::print_warning(why));
    if running.count() < n_components {
        bail_usage!(
            "a component does not run, for the reason in the warning above; correct it, or omit it from the command"
        );
    }
    Ok(())
}

/// Decides which tools are offered to MCP clients.
struct McpClientToolFilter {
    has_built_in: bool,
    /// Origins of the MCP servers whose tools are forwarded to the clients.
    upstream: BTreeSet<String>,
}

impl McpClientToolFilter {
    /// Whether a tool is offered to clients. Tools of plugins always are; built-in tools and those
    /// of MCP servers only if the operator requests them. The host's own tools for its model, such
    /// as those for subagents, never are.
    fn is_tool_offered(&self, spec: &ToolSpec) -> bool {
        match spec.plugin.as_deref() {
            None => {
                self.has_built_in
                    && spec.name != SKILL_TOOL_NAME
                    && BUILT_IN_TOOL_NAMES.contains(&spec.name.as_str())
            }
            Some(origin) if is_external_tool_origin(origin) => self.upstream.contains(origin),
            Some(_) => true,
        }
    }
}

/// Returns the function that opens a new session for each client.
fn create_client_session_opener(
    run: &ConfiguredAgentHost,
    file: Option<EventLogFile>,
) -> OpenSessionFn {
    let (host, policy) = (
        run.host.host.clone(),
        run.host.policy_that_allows_questions(),
    );
    let file = file.map(|file| Arc::new(Mutex::new(file)));
    Arc::new(move || -> Result<Session, String> {
        let builder = host
            .session()
            .policy(policy.clone())
            .aside(MCP_CLIENT_SESSION_LABEL);
        let session = builder
            .create()
            .map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
        if let Some(file) = file.clone() {
            session.observe(move |stamped| lock_ignoring_poison(&file).write_event(stamped));
        }
        Ok(session)
    })
}

/// Serves the agent that started this program, over standard input and output.
async fn serve_over_stdio(
    serving: OwnMcpServerConfig,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        render::print_note(
            "serving MCP over standard input and output; this command is meant to be started by an agent (see `rind mcp serve --help`); Ctrl-D ends it",
        );
    }
    let served = serve_stdio_client(serving, std::io::stdin(), std::io::stdout(), cancel).await;
    served.map_err(anyhow::Error::msg)
}

/// Serves MCP clients that connect over HTTP.
async fn serve_over_http(
    serving: OwnMcpServerConfig,
    address: &ListenAddress,
    run: &ConfiguredAgentHost,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    let AuthenticatedListener {
        access,
        listener,
        token,
    } = open_token_protected_listener(address, &run.setup.paths, ACCESS_TOKEN_FILE_NAME).await?;
    render::print_note(&format!(
        "serving MCP at {}{}, token in {}; Ctrl-C ends it",
        listener.format_address(),
        McpHttpServer::url_path(),
        token.display()
    ));
    let server = McpHttpServer::new(serving, cancel);
    let answering = server.clone();
    let answer = move |request| {
        let server = answering.clone();
        async move { server.answer_request(request).await }
    };
    let served = rind_serve::serve_single_http_route(
        listener,
        McpHttpServer::url_path(),
        answer,
        access,
        cancel,
    )
    .await;
    server.close().await;
    served.context("cannot serve MCP")
}
