//! Arguments of `rind mcp`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use crate::args::SessionOpenArgs;
use crate::listen::ListenAddress;
use rind_mcp::{McpProtocol, ServerSettings};
use rind_operator::component::{WasmComponentAndPolicyPaths, component_name_from_file_name};

#[derive(Debug, Subcommand)]
pub(in super::super) enum McpCommand {
    /// Add a server: show its tools, ask, and write it into your settings
    Add(Box<McpAddArgs>),
    /// List the servers of your settings and of the trusted project, and whether their tools are used
    List(McpListArgs),
    /// Start a server once, show its tools and their changes, and ask; exit code 1 if its tools are
    /// not used
    Test(McpTestArgs),
    /// Log in to a server over HTTP that requires it (OAuth): shows an address to open in a
    /// browser, and stores the tokens in a private file
    Login(McpLoginArgs),
    /// Remove a server, your approval of its tools, and your login to it
    Remove(McpRemoveArgs),
    /// Run as an MCP server: offer the tools of plugins, skills and templates to another agent,
    /// which starts this command, or connects with --listen
    Serve(Box<McpServeArgs>),
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpAddArgs {
    /// Name of the server: a-z, 0-9 and `-`
    pub(super) name: String,
    /// Address of a server over Streamable HTTP, instead of a program
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Header of every request, such as `authorization=Bearer {TOKEN}`, where TOKEN is the name of
    /// a secret
    #[arg(long, value_name = "NAME=VALUE", requires = "url", value_parser = parse_http_header)]
    header: Vec<(String, String)>,
    /// Let the host name of the address resolve to a loopback or private address
    #[arg(long, requires = "url")]
    private: bool,
    /// Id of a client that you registered at the server's authorization server, for `rind mcp
    /// login`
    #[arg(long, value_name = "ID", requires = "url")]
    client_id: Option<String>,
    /// Name of the secret of that client, in the environment or in `secrets.toml`
    #[arg(long, value_name = "NAME", requires = "client_id")]
    client_secret: Option<String>,
    /// Pass this variable to the program, from the environment or `secrets.toml`
    #[arg(long, value_name = "VARIABLE")]
    env: Vec<String>,
    /// Let the program read this folder: absolute, `~/…`, or `workspace`
    #[arg(long, value_name = "DIR")]
    read: Vec<String>,
    /// Let the program change this folder
    #[arg(long, value_name = "DIR")]
    write: Vec<String>,
    /// Let the program use the network
    #[arg(long)]
    network: bool,
    /// Version of the protocol
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "auto",
        hide_default_value = true
    )]
    protocol: ProtocolArg,
    /// Approve the server's tools without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// Do not start the server now
    #[arg(long, conflicts_with = "yes")]
    pub(super) no_test: bool,
    /// Program of the server and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProtocolArg {
    /// The older one, or the newer one if the server refuses the older
    Auto,
    /// Begin with `initialize`
    #[value(name = "2025-11-25")]
    Initialize,
    /// Begin with `server/discover`
    #[value(name = "2026-07-28")]
    Discover,
}

fn parse_http_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not of the form NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl McpAddArgs {
    /// Returns the settings of the server.
    pub(super) fn into_settings(self) -> ServerSettings {
        let mut words = self.command.into_iter();
        ServerSettings {
            command: words.next(),
            args: words.collect(),
            env: self.env,
            read: self.read,
            write: self.write,
            network: self.network,
            url: self.url,
            headers: self.header.into_iter().collect(),
            private: self.private,
            client_id: self.client_id,
            client_secret: self.client_secret,
            protocol: match self.protocol {
                ProtocolArg::Auto => McpProtocol::Auto,
                ProtocolArg::Initialize => McpProtocol::Initialize,
                ProtocolArg::Discover => McpProtocol::Discover,
            },
            ..ServerSettings::default()
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpListArgs {
    /// Trust the project here in its present state, for this run only
    #[arg(long)]
    pub(super) trust_project: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpTestArgs {
    /// Name of the server
    pub(super) name: String,
    /// Approve the present tools without asking
    #[arg(long, conflicts_with = "json")]
    pub(super) yes: bool,
    /// Print JSON and ask nothing
    #[arg(long)]
    pub(super) json: bool,
    /// Trust the project here in its present state, for this run only
    #[arg(long)]
    pub(super) trust_project: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpLoginArgs {
    /// Name of the server
    pub(super) name: String,
    /// Request this scope, besides those of the current login, instead of those in the settings or
    /// of the server
    #[arg(long, value_name = "SCOPE")]
    pub(super) scope: Vec<String>,
    /// Port on 127.0.0.1 to which the browser is redirected; by default any free one
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(super) port: u16,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpRemoveArgs {
    /// Name of the server
    pub(super) name: String,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct McpServeArgs {
    #[command(flatten)]
    pub(super) open: SessionOpenArgs,
    /// Offer the built-in tools for files and commands as well
    #[arg(long)]
    pub(super) builtin: bool,
    /// Offer the tools of this MCP server of your settings as well, so that hooks and rules apply
    /// to its calls
    #[arg(long, value_name = "NAME")]
    pub(super) upstream: Vec<String>,
    /// Offer every function of this component as a tool, even if it was not written for Rind; it
    /// runs in the sandbox with the permissions that `--grant` gives to the name of its file
    #[arg(long, value_name = "FILE")]
    pub(super) component: Vec<PathBuf>,
    /// Grant a component the permissions of this policy file, in wassette's format
    #[arg(long, value_name = "NAME=FILE", requires = "component", value_parser = parse_component_policy_argument)]
    pub(super) component_policy: Vec<(String, PathBuf)>,
    /// Serve over HTTP at this loopback address, or at `unix:PATH`, instead of over standard input
    /// and output; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7464")]
    pub(super) listen: Option<ListenAddress>,
}

fn parse_component_policy_argument(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text
        .split_once('=')
        .filter(|(name, path)| !name.is_empty() && !path.is_empty())
        .ok_or_else(|| format!("`{text}` is not of the form NAME=FILE"))?;
    Ok((name.to_owned(), path.into()))
}

impl McpServeArgs {
    /// Returns the components, each with its policy file if it has one.
    ///
    /// # Errors
    /// Two components have the same name, or a policy is for a component that was not passed.
    pub(super) fn pair_components_with_policies(
        &self,
    ) -> Result<Vec<WasmComponentAndPolicyPaths>, String> {
        let names: Vec<String> = self
            .component
            .iter()
            .map(|path| derive_component_name(path))
            .collect();
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(format!(
                "--component: two components have the name `{name}`; rename one of the files"
            ));
        }
        for (name, _) in &self.component_policy {
            if !names.contains(name) {
                return Err(format!(
                    "--component-policy {name}=…: there is no component `{name}`; the components are {}",
                    names.join(", ")
                ));
            }
        }
        let policy = |name: &String| {
            let mut all = self.component_policy.iter();
            all.find(|(own, _)| own == name)
                .map(|(_, path)| path.clone())
        };
        let files =
            self.component
                .iter()
                .zip(&names)
                .map(|(path, name)| WasmComponentAndPolicyPaths {
                    path: path.clone(),
                    policy: policy(name),
                });
        Ok(files.collect())
    }
}

fn derive_component_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default();
    component_name_from_file_name(&file.to_string_lossy())
}
