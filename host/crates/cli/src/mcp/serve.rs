//! `rind mcp serve`: serves the tools of plugins, skills and templates to other agents over MCP.
//!
//! Standard output carries only the protocol.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::args::McpServeArgs;
use super::find_server;
use crate::command::CommandPrompts;
use crate::event_file::EventFile;
use crate::exit_code::{ExitStatus, Usage, bail_usage};
use crate::listen::{ListenAddress, OpenedListener, open_listener};
use crate::signals::ShutdownSignals;
use crate::{open, render};
use rind_lib::Session;
use rind_lib::lock::lock;
use rind_lib::message::ToolSpec;
use rind_lib::plugin::load::PluginSet;
use rind_lib::plugin::tools::BUILT_IN_TOOLS;
use rind_lib::tool::registry::is_external_origin;
use rind_mcp::{McpHttp, McpServing, OpenSession, mcp_server_origin, serve_lines};
use rind_operator::mcp;
use rind_operator::settings::SessionChoice;
use rind_operator::start::RunWithHost;

/// Name of the file with the access token, in the data folder.
const TOKEN_FILE: &str = "mcp-token";

/// Label of the sessions that clients open. Neither `last` nor the choice of a session to resume
/// considers sessions with a label.
const ASIDE: &str = "mcp serve";

/// Name of the built-in tool for skills. It is not offered to clients, which get skills as prompts.
const SKILL_TOOL: &str = "skill";

pub(super) async fn run_server(args: McpServeArgs) -> anyhow::Result<ExitStatus> {
    let file = args.open.events.as_deref().map(EventFile::open_file);
    let file = file.transpose()?;
    let mut settings = args.open.run_settings(SessionChoice::New, false)?;
    settings.plugins.components = args.components().map_err(Usage)?;
    let n_components = args.component.len();
    let prepared = open::prepare_session(settings).await?.without_model();
    // Serve a server only once, even if it is named twice.
    let upstream: BTreeSet<String> = args.upstream.into_iter().collect();
    let upstream: Vec<String> = upstream.into_iter().collect();
    let prepared = prepared.expose_mcp_servers(&upstream);
    let servers = mcp::read_mcp_settings(prepared.setup())?;
    for name in &upstream {
        find_server(&servers, name)?;
    }
    require_running_components(&prepared.plugins(), n_components)?;
    let commands = prepared.commands().await?;
    commands
        .template_faults()
        .iter()
        .for_each(|fault| render::print_warning(fault));
    let commands = Arc::new(commands);
    let ready = prepared.build_host().await?;
    let offered = OfferedToolFilter {
        has_built_in: args.builtin,
        upstream: upstream
            .iter()
            .map(|name| mcp_server_origin(name))
            .collect(),
    };
    let serving = McpServing {
        open: create_session_opener(&ready.run, file),
        is_offered: Arc::new(move |spec| offered.has_tool(spec)),
        skills: Arc::new({
            let commands = commands.clone();
            move |take: &mut dyn FnMut(_)| commands.read_served_skills(take)
        }),
        prompts: Arc::new(CommandPrompts {
            commands,
            upstream: upstream.iter().cloned().collect(),
        }),
        upstream: upstream.into(),
    };
    let cancel = CancellationToken::new();
    let interrupted = ShutdownSignals::listen_for_interrupts().context("listen for signals")?;
    drop(ready.exits);
    tokio::spawn(interrupted.cancel_then_exit(cancel.clone()));
    match &args.listen {
        None => serve_client(serving, &cancel).await?,
        Some(address) => serve_over_http(serving, address, &ready.run, &cancel).await?,
    }
    Ok(match cancel.is_cancelled() {
        true => ExitStatus::Interrupted,
        false => ExitStatus::Done,
    })
}

/// Checks that all components passed with `--component` run, and warns of functions that are not
/// offered.
fn require_running_components(plugins: &PluginSet, n_components: usize) -> anyhow::Result<()> {
    let running = plugins.plugins.iter().filter(|plugin| plugin.is_foreign());
    let refused = running
        .clone()
        .flat_map(|plugin| plugin.refused_functions());
    refused.for_each(|why| render::print_warning(why));
    if running.count() < n_components {
        bail_usage!(
            "a component does not run, for the reason in the warning above; correct it, or omit it from the command"
        );
    }
    Ok(())
}

/// Decides which tools are offered to MCP clients.
struct OfferedToolFilter {
    has_built_in: bool,
    /// Origins of the MCP servers whose tools are forwarded to the clients.
    upstream: BTreeSet<String>,
}

impl OfferedToolFilter {
    /// Whether a tool is offered to clients. Tools of plugins always are; built-in tools and those
    /// of MCP servers only if the operator requests them. The host's own tools for its model, such
    /// as those for subagents, never are.
    fn has_tool(&self, spec: &ToolSpec) -> bool {
        match spec.plugin.as_deref() {
            None => {
                self.has_built_in
                    && spec.name != SKILL_TOOL
                    && BUILT_IN_TOOLS.contains(&spec.name.as_str())
            }
            Some(origin) if is_external_origin(origin) => self.upstream.contains(origin),
            Some(_) => true,
        }
    }
}

/// Returns the function that opens a new session for each client.
fn create_session_opener(run: &RunWithHost, file: Option<EventFile>) -> OpenSession {
    let (host, policy) = (
        run.host.host.clone(),
        run.host.policy_that_allows_questions(),
    );
    let file = file.map(|file| Arc::new(Mutex::new(file)));
    Arc::new(move || -> Result<Session, String> {
        let builder = host.session().policy(policy.clone()).aside(ASIDE);
        let session = builder
            .create()
            .map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
        if let Some(file) = file.clone() {
            session.observe(move |stamped| lock(&file).write_event(stamped));
        }
        Ok(session)
    })
}

/// Serves the agent that started this program, over standard input and output.
async fn serve_client(serving: McpServing, cancel: &CancellationToken) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        render::print_note(
            "serving MCP over standard input and output; this command is meant to be started by an agent (see `rind mcp serve --help`); Ctrl-D ends it",
        );
    }
    let served = serve_lines(serving, std::io::stdin(), std::io::stdout(), cancel).await;
    served.map_err(anyhow::Error::msg)
}

/// Serves agents that connect over HTTP.
async fn serve_over_http(
    serving: McpServing,
    address: &ListenAddress,
    run: &RunWithHost,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    let OpenedListener {
        access,
        listener,
        token,
    } = open_listener(address, &run.setup.paths, TOKEN_FILE).await?;
    render::print_note(&format!(
        "serving MCP at {}{}, token in {}; Ctrl-C ends it",
        listener.format_address(),
        McpHttp::path(),
        token.display()
    ));
    let server = McpHttp::new(serving, cancel);
    let answering = server.clone();
    let answer = move |request| {
        let server = answering.clone();
        async move { server.answer_request(request).await }
    };
    let served = rind_serve::serve_path(listener, McpHttp::path(), answer, access, cancel).await;
    server.close().await;
    served.context("serve MCP")
}
