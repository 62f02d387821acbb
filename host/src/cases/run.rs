//! Runs a case: a host with the plugin alone in folders of its own, two turns warm and two turns cold.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::expect::{HookSeen, Seen, differences};
use super::file::{CannedAnswer, Case, Given, Speaker};
use crate::config::PluginSettings;
use crate::egress::{EgressOptions, Outgoing, Resolve, Secret, Secrets};
use crate::event::{Event, Stamped};
use crate::grant::Trust;
use crate::host::{self, Host};
use crate::message::{Message, Role};
use crate::paths::Paths;
use crate::plugin;
use crate::plugin::discover::Found;
use crate::plugin::load::{LoadOptions, PluginSet};
use crate::provider::scripted::{Reply, Script, Scripted};
use crate::session::{Body, SessionSpec};
use crate::tool::approval::{ApprovalAnswer, Approver, Question};
use crate::tool::policy::{PolicyMode, ToolPolicy};

/// Address of every host whose answers are canned. It is public, so that the check of addresses is one that means something,
/// and nothing connects to it.
const CANNED_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

/// Turns of a session. In the second one a warm instance has been called before.
const TURNS: usize = 2;

/// Largest file of a workspace that is compared, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Takes the log lines since the last time: plugin and text.
pub type TakeLog = dyn Fn() -> Vec<(String, String)> + Send + Sync;

/// Means of running cases.
pub struct Runner<'a> {
    /// Options for loading plugins: the compiler and its cache. Everything else is the case's.
    pub options: LoadOptions,
    /// Takes the lines that plugins logged.
    pub take_log: &'a TakeLog,
}

/// Error that keeps a case from being run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A folder or file of the case cannot be made.
    #[error("cannot make the workspace of the case: {0}")]
    Io(#[from] io::Error),
    /// A file of the case is not inside its workspace.
    #[error("given.files: `{0}` is not a path inside the workspace")]
    Outside(String),
    /// The plugin cannot be loaded.
    #[error("the plugin cannot be loaded: {0}")]
    NotLoaded(String),
    /// The host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The host cannot be made.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] crate::session::Error),
    /// The turn failed.
    #[error(transparent)]
    Agent(#[from] crate::agent::Error),
}

/// Outcome of a case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// Behaviour in the first warm turn, which the expectations are about.
    pub seen: Seen,
    /// Differences from what is expected, and between warm and cold.
    pub differences: Vec<String>,
    /// Time of the first warm turn.
    pub took: Duration,
}

/// Runs a case of the plugin in `folder`.
///
/// # Errors
/// It cannot be run at all; what the plugin does wrong is in the outcome.
pub async fn run(
    runner: &Runner<'_>,
    folder: &Path,
    name: &str,
    case: &Case,
) -> Result<CaseOutcome, RunError> {
    let (warm, took) = session(runner, folder, name, &case.given, false).await?;
    let (cold, _) = session(runner, folder, name, &case.given, true).await?;
    let mut differences = warm
        .first()
        .map_or_else(Vec::new, |seen| differences(&case.expect, seen));
    for (n, (warm, cold)) in warm.iter().zip(&cold).enumerate() {
        if warm != cold {
            differences.push(warm_and_cold(n + 1, warm, cold));
        }
    }
    Ok(CaseOutcome {
        seen: warm.into_iter().next().unwrap_or_default(),
        differences,
        took,
    })
}

/// The first field that differs between an instance that is kept and fresh ones.
fn warm_and_cold(turn: usize, warm: &Seen, cold: &Seen) -> String {
    let [warm, cold] = [warm, cold].map(|seen| serde_json::to_value(seen).unwrap_or_default());
    let fields = warm.as_object().into_iter().flatten();
    let differing = fields.filter(|(field, value)| cold.get(field.as_str()) != Some(value));
    let lines: String = differing
        .map(|(field, value)| {
            format!(
                "\n  {field}: warm {value}\n  {field}: cold {}",
                cold[field.as_str()]
            )
        })
        .collect();
    format!(
        "the plugin acts differently with a kept and with a fresh instance (turn {turn}): keep what must last in `state` or \
         `store`{lines}"
    )
}

/// Runs the turns of a session in fresh folders. Returns what was seen in each, and the time of the first.
async fn session(
    runner: &Runner<'_>,
    folder: &Path,
    name: &str,
    given: &Given,
    is_cold: bool,
) -> Result<(Vec<Seen>, Duration), RunError> {
    let kept = tempfile::Builder::new().prefix("rind-case-").tempdir()?;
    let root = kept.path().canonicalize()?;
    let (home, workspace) = (root.join("home"), root.join("workspace"));
    std::fs::create_dir_all(&home)?;
    std::fs::create_dir_all(&workspace)?;
    for (path, text) in &given.files {
        write(&workspace, path, text)?;
    }
    let paths = Paths::under(&home, &workspace);
    let plugins =
        Arc::new(PluginSet::load(&options(runner, folder, name, given, &paths, is_cold)).await?);
    if let Some(left) = plugins.left_out.first() {
        return Err(RunError::NotLoaded(left.why.to_string()));
    }
    let own_tools: Vec<String> = plugins
        .plugins
        .iter()
        .flat_map(|plugin| plugin.tools.iter().map(|tool| tool.name.clone()))
        .collect();
    let provider = Arc::new(Scripted::new(Script::new(replies(given))));
    let policy = ToolPolicy {
        mode: PolicyMode {
            yes: given.answers.is_none(),
            has_terminal: given.answers.is_some(),
            ..PolicyMode::default()
        },
        ..ToolPolicy::default()
    };
    let host = Host::builder()
        .provider(provider, "test-model")
        .paths(paths)
        .plugins(plugins)
        .file_tools()
        .policy(Arc::new(policy))
        .approver(Arc::new(Person::new(given)))
        .build()
        .await?;
    let session = Arc::new(host.store().create(&SessionSpec {
        workspace: workspace.clone(),
        provider: "scripted".to_owned(),
        model: "test-model".to_owned(),
    })?);
    for said in &given.conversation {
        let role = match said.role {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
        };
        let message = Message::text(role, &said.text);
        session.append(Body::Message { message })?;
    }
    let mut session = host.session().on(session)?;
    let mut events = session.events();
    let input = given.input.as_deref().unwrap_or("go");
    let mut all = Vec::new();
    let mut first = Duration::ZERO;
    // Lines of whatever ran before.
    (runner.take_log)();
    for turn in 0..TURNS {
        let started = Instant::now();
        let outcome = session.turn(input).await?;
        if turn == 0 {
            first = started.elapsed();
        }
        let mut seen = Seen {
            output: outcome.output,
            stop: text_of(&outcome.summary.stop),
            files: files(&workspace),
            ..Seen::default()
        };
        while let Ok(stamped) = events.try_recv() {
            see(&mut seen, &stamped, name, &own_tools);
        }
        let lines = (runner.take_log)().into_iter();
        let own = lines.filter(|(plugin, _)| plugin == name);
        seen.log = own.map(|(_, text)| text).collect();
        // Where the workspace is differs between sessions and says nothing.
        all.push(seen.without(&root));
    }
    session.close().await?;
    Ok((all, first))
}

fn options(
    runner: &Runner<'_>,
    folder: &Path,
    name: &str,
    given: &Given,
    paths: &Paths,
    is_cold: bool,
) -> LoadOptions {
    let mut options = LoadOptions {
        // The names of those that come with Rind are kept for it.
        chosen: vec![Found {
            trust: Trust::Managed,
            folder: folder.to_owned(),
        }],
        compiler: runner.options.compiler.clone(),
        is_cold,
        egress: EgressOptions {
            secrets: Arc::new(CaseSecrets(given.secrets.clone())),
            resolver: Arc::new(CannedNames),
            canned: Some(canned(given.http.clone())),
            ..EgressOptions::default()
        },
        ..LoadOptions::default()
    }
    .at(paths);
    // Compiled once, not once a case.
    options.cache.clone_from(&runner.options.cache);
    options.cache_key.clone_from(&runner.options.cache_key);
    // All that it asks for, which is what its author means it to have.
    options.grants.flags = name.parse().into_iter().collect();
    let settings = PluginSettings {
        config: given.config.clone(),
        ..PluginSettings::default()
    };
    options.settings.insert(name.to_owned(), settings);
    options
}

fn replies(given: &Given) -> Vec<Reply> {
    let call = given
        .tool
        .iter()
        .map(|tool| Reply::call(&tool.name, tool.arguments.clone()));
    let mut replies: Vec<Reply> = call.chain(given.reply.iter().cloned()).collect();
    if given.reply.is_empty() {
        replies.push(Reply::text("done"));
    }
    std::iter::repeat_n(replies, TURNS).flatten().collect()
}

fn write(workspace: &Path, path: &str, text: &str) -> Result<(), RunError> {
    let is_inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_inside {
        return Err(RunError::Outside(path.to_owned()));
    }
    let file = workspace.join(path);
    std::fs::create_dir_all(file.parent().unwrap_or(workspace))?;
    Ok(std::fs::write(file, text)?)
}

/// Text files of the workspace by path.
fn files(workspace: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![workspace.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = path.symlink_metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file()
                && metadata.len() <= MAX_FILE_BYTES
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let name = path.strip_prefix(workspace).unwrap_or(&path);
                found.insert(name.display().to_string(), text);
            }
        }
    }
    found
}

fn text_of(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn see(seen: &mut Seen, stamped: &Stamped, name: &str, own_tools: &[String]) {
    match &stamped.event {
        Event::Hook { record } if &*record.plugin == name && record.was_called() => {
            seen.hooks.push(HookSeen {
                point: record.point.to_string(),
                outcome: text_of(&record.outcome),
                changed: record
                    .changed
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect(),
                reason: record.reason.clone(),
            });
        }
        Event::Access { record } if &*record.plugin == name => {
            let line = format!(
                "{} {} {}",
                text_of(&record.reached),
                record.target,
                text_of(&record.outcome)
            );
            seen.accesses.push(line);
        }
        Event::Notice {
            plugin: Some(plugin),
            text,
            ..
        } if plugin == name => seen.notices.push(text.clone()),
        Event::Injected { plugin, text, .. } if plugin == name => seen.injected.push(text.clone()),
        Event::Metric {
            plugin,
            name: metric,
            value,
        } if plugin == name => {
            seen.metrics.insert(metric.clone(), *value);
        }
        Event::ToolStart { call, .. } if own_tools.contains(&call.name) => {
            seen.tools.push(call.name.clone())
        }
        Event::ToolEnd {
            result, by: None, ..
        } => seen.results.push(result.content.to_string()),
        _ => {}
    }
}

impl Seen {
    /// The same with `~` in place of the folder of the run.
    fn without(mut self, root: &Path) -> Self {
        let root = root.display().to_string();
        let lists = [
            &mut self.results,
            &mut self.accesses,
            &mut self.notices,
            &mut self.injected,
            &mut self.log,
        ];
        for text in lists.into_iter().flatten().chain([&mut self.output]) {
            *text = text.replace(&root, "~");
        }
        self
    }
}

/// Secrets of a case.
struct CaseSecrets(BTreeMap<String, String>);

impl Secrets for CaseSecrets {
    fn get(&self, name: &str) -> Option<Secret> {
        self.0.get(name).map(|secret| Secret::new(secret))
    }
}

/// One public address for every name.
struct CannedNames;

impl Resolve for CannedNames {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![CANNED_ADDRESS]) })
    }
}

/// Answers requests from the case. One that it does not expect is refused by name.
fn canned(answers: Vec<CannedAnswer>) -> crate::egress::Canned {
    Arc::new(move |outgoing: &Outgoing<'_>| {
        let is_it = |answer: &&CannedAnswer| {
            let has = |(name, value): (&String, &String)| {
                outgoing
                    .headers
                    .get(name.as_str())
                    .is_some_and(|own| own.as_bytes() == value.as_bytes())
            };
            answer.url == outgoing.url
                && answer
                    .method
                    .as_ref()
                    .is_none_or(|method| method.eq_ignore_ascii_case(outgoing.method))
                && answer.with.iter().all(has)
        };
        let Some(answer) = answers.iter().find(is_it) else {
            return Err(format!(
                "the case has no answer for {} {}",
                outgoing.method, outgoing.url
            ));
        };
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response
            .body(answer.body.clone().into_bytes())
            .map_err(|error| format!("the answer of the case is no HTTP: {error}"))
    })
}

/// Approver with answers that are written down.
struct Person(Mutex<std::vec::IntoIter<String>>);

impl Person {
    fn new(given: &Given) -> Self {
        let answers = given.answers.clone().unwrap_or_default();
        let all: Vec<String> = std::iter::repeat_n(answers, TURNS).flatten().collect();
        Self(Mutex::new(all.into_iter()))
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        Box::pin(async move {
            match answer.as_deref().map(str::trim) {
                Some("yes") => ApprovalAnswer::Yes,
                Some("always") => ApprovalAnswer::Always,
                Some(no) => ApprovalAnswer::No(
                    no.trim_start_matches("no")
                        .trim_start_matches([':', ' '])
                        .to_owned(),
                ),
                None => ApprovalAnswer::No("the case has no answer to this question".to_owned()),
            }
        })
    }
}
