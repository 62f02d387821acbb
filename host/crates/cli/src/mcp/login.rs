//! `rind mcp login`: shows an address that the person opens in a browser, then waits until the
//! browser is redirected back, or the person pastes the address to which it was redirected.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::args::McpLoginArgs;
use super::find_server_settings;
use crate::exit_code::{ExitStatus, bail_usage};
use crate::{environment, render, terminal};
use rind_mcp::{
    LoginOutcome, McpLoginParameters, PendingBrowserLogin, ServerSettings, StoredLogin,
    TokenRevocationOutcome, login_file_path, remove_login, revoke_login_tokens,
};
use rind_operator::mcp;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_serve::{ApiListener, LoginRedirectPage, serve_login_redirects};

/// Path on this machine to which the browser is redirected.
const LOGIN_CALLBACK_PATH: &str = "/callback";

/// Maximum time for the person to log in with the browser.
const USER_LOGIN_TIMEOUT: Duration = Duration::from_secs(600);

/// Time that the program waits before it ends, so that the browser can receive the last page.
const FINAL_PAGE_DELIVERY_DELAY: Duration = Duration::from_millis(300);

/// Address to which the browser was redirected, and the sender of the page to show there.
type OauthRedirectRequest = (String, oneshot::Sender<LoginRedirectPage>);

pub(super) async fn log_in(args: McpLoginArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::read_settings_without_project()?;
    let name = &args.name;
    let servers = mcp::read_mcp_settings(&setup)?;
    let settings = find_server_settings(&servers, name)?;
    let Some(url) = &settings.url else {
        bail_usage!("MCP server `{name}` is a program; only a server with `url` has a login");
    };
    if settings.has_authorization_header() {
        bail_usage!(
            "MCP server `{name}` gets its token from `headers`; remove `authorization` from [mcp.{name}] to log in"
        );
    }
    let file = login_file_path(&setup.paths, name);
    let scopes = match args.scope.is_empty() {
        true => settings.scopes.clone(),
        false => add_scopes_of_stored_login(args.scope, &file, url),
    };
    let secret = read_oauth_client_secret(&setup, name, settings)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = ApiListener::bind_tcp(address).await;
    let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
    let redirect = format!("{}{LOGIN_CALLBACK_PATH}", listener.format_address());
    let flow = PendingBrowserLogin::begin(McpLoginParameters {
        name,
        url,
        is_private: settings.private,
        file: &file,
        redirect: &redirect,
        scopes: &scopes,
        client_id: settings.client_id.as_deref(),
        client_secret: secret.as_deref(),
    });
    let flow = flow
        .await
        .map_err(|why| mcp_server_login_error(name, &why))?;
    show_login_address(name, url, &flow);
    let login = wait_for_login(&flow, listener).await;
    let login = login.map_err(|why| mcp_server_login_error(name, &why))?;
    render::print_note(&format!(
        "logged in to MCP server `{name}` with a token from {}; `rind mcp test {name}` shows its tools",
        login.issuer
    ));
    Ok(ExitStatus::Done)
}

/// Adds the scopes of the current login at this address. A server that needs one more scope for a
/// call names only that scope, and a new login without the others would lose them (SEP-2350).
fn add_scopes_of_stored_login(mut scopes: Vec<String>, file: &Path, url: &str) -> Vec<String> {
    // Ignore an unreadable login, which the new one replaces.
    let held = StoredLogin::read(file).ok().flatten();
    let held = held.filter(|login| login.url == url);
    for scope in held.iter().flat_map(StoredLogin::scopes) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    scopes
}

/// Revokes the tokens of a login and removes its file, even if the authorization server cannot be
/// reached. Returns whether there was a login.
pub(super) async fn revoke_and_remove_login(
    file: &Path,
    name: &str,
    is_private: bool,
) -> anyhow::Result<bool> {
    match StoredLogin::read(file) {
        Ok(None) => {}
        Ok(Some(login)) => {
            let revoked = revoke_login_tokens(name, &login, is_private).await;
            let todo = format!(
                "to end them now, end the login on the website of {}",
                login.issuer
            );
            match revoked {
                Ok(TokenRevocationOutcome::Revoked) => {
                    render::print_note(&format!("its tokens were revoked at {}", login.issuer));
                }
                Ok(TokenRevocationOutcome::NotOffered) => render::print_warning(&format!(
                    "its tokens stay valid until they expire, because its authorization server cannot revoke tokens; {todo}"
                )),
                Ok(TokenRevocationOutcome::NoTokens) => {}
                Err(why) => render::print_warning(&format!("its tokens {why}; {todo}")),
            }
        }
        Err(why) => render::print_warning(&format!("its tokens are not revoked: {why}")),
    }
    remove_login(file)
        .with_context(|| format!("cannot remove the stored login of the MCP server `{name}`"))
}

fn mcp_server_login_error(name: &str, why: &str) -> anyhow::Error {
    let why = rind_lib::text::escape_to_one_line(why);
    anyhow::anyhow!("MCP server `{name}`: the login {why}")
}

/// Returns the client secret that the settings name, if they name one.
fn read_oauth_client_secret(
    setup: &OperatorWorkspaceSetup,
    name: &str,
    settings: &ServerSettings,
) -> anyhow::Result<Option<String>> {
    let Some(variable) = &settings.client_secret else {
        return Ok(None);
    };
    match setup.secrets()?.variable_or_secret(variable) {
        Some(secret) => Ok(Some(secret)),
        None => bail_usage!(
            "MCP server `{name}` needs the secret `{}` of its client, which neither the environment nor secrets.toml sets",
            variable.escape_debug()
        ),
    }
}

/// Prints the address for the person to open. Rind itself never opens a browser.
fn show_login_address(name: &str, url: &str, flow: &PendingBrowserLogin) {
    let scopes = match flow.scopes() {
        [] => "no scopes".to_owned(),
        scopes => format!("the scopes {}", scopes.join(", ")),
    };
    for line in [
        format!("MCP server `{name}` ({url}): log in at {} with {scopes}", flow.issuer()),
        "open this address in a browser, if you expect it:".to_owned(),
        flow.authorization_url().to_owned(),
        "on another machine, the browser ends at a page that it cannot load: paste its address here"
            .to_owned(),
    ] {
        render::print_note(&rind_lib::text::escape_to_one_line(&line));
    }
}

/// Waits until the browser is redirected with the outcome of the login, or the person pastes that
/// address.
async fn wait_for_login(
    flow: &PendingBrowserLogin,
    listener: ApiListener,
) -> Result<StoredLogin, String> {
    let (sender, mut led) = mpsc::channel::<OauthRedirectRequest>(1);
    let base = listener.format_address();
    let cancel = CancellationToken::new();
    let _stop = cancel.clone().drop_guard();
    let sender = Arc::new(sender);
    let answer = move |target: String| {
        let (sender, address) = (sender.clone(), format!("{base}{target}"));
        async move {
            let (page, shown) = oneshot::channel();
            let is_sent = sender.send((address, page)).await.is_ok();
            let over = LoginRedirectPage {
                is_done: false,
                text: "This login is over.".to_owned(),
            };
            match is_sent {
                true => shown.await.unwrap_or(over),
                false => over,
            }
        }
    };
    tokio::spawn(async move {
        // Ignore an error: without the listener, the person can still paste the address.
        let _ = serve_login_redirects(listener, LOGIN_CALLBACK_PATH, answer, &cancel).await;
    });
    let deadline = tokio::time::sleep(USER_LOGIN_TIMEOUT);
    tokio::pin!(deadline);
    let mut can_paste = true;
    loop {
        let (address, page) = tokio::select! {
            () = &mut deadline => {
                return Err(format!("was not completed in the browser within {} minutes", USER_LOGIN_TIMEOUT.as_secs() / 60));
            }
            Some((address, page)) = led.recv() => (address, Some(page)),
            line = terminal::read_stdin_line(), if can_paste => match line {
                Some(line) if line.trim().is_empty() => continue,
                Some(line) => (line, None),
                None => {
                    can_paste = false;
                    continue;
                }
            },
        };
        let is_pasted = page.is_none();
        let outcome = flow.finish_login(&address).await;
        let (is_done, text) = match &outcome {
            LoginOutcome::Done(_) => (
                true,
                "You are logged in. You can close this page.".to_owned(),
            ),
            LoginOutcome::Failed(why) => (false, format!("The login {why}.")),
            LoginOutcome::Other(_) => (false, "This is not the answer to the login.".to_owned()),
        };
        if let Some(page) = page {
            let _ = page.send(LoginRedirectPage { is_done, text });
        }
        match outcome {
            LoginOutcome::Other(why) if is_pasted => render::print_warning(&why),
            LoginOutcome::Other(_) => {}
            LoginOutcome::Failed(why) => {
                tokio::time::sleep(FINAL_PAGE_DELIVERY_DELAY).await;
                return Err(why);
            }
            LoginOutcome::Done(login) => {
                tokio::time::sleep(FINAL_PAGE_DELIVERY_DELAY).await;
                return Ok(*login);
            }
        }
    }
}
