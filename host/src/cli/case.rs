//! `rind plugin test`: cases of plugins, and `rind plugin call`: one tool by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args as ClapArgs;
use serde_json::{Value, json};

use super::alone;
use super::args::{PluginArgs, ShowArgs};
use super::check::plugin_folders;
use super::demo::heard;
use super::exit_code::{ExitStatus, Usage};
use super::render::trace::Detail;
use super::{render, run, setup};
use crate::cases::{CaseFile, Runner};
use crate::event::Event;
use crate::host::Host;
use crate::plugin::load::{Loaded, PluginSet, Why};
use crate::plugin::manifest::{FILE_NAME, Manifest};
use crate::provider::scripted::{Reply, Script, Scripted};
use crate::session::SessionStore;
use crate::tool::policy::{PolicyMode, ToolPolicy};

#[derive(Debug, ClapArgs)]
pub(super) struct TestArgs {
    /// Folders of plugins, or folders that hold such folders; the current one when there is none.
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write a report: `json=FILE` or `junit=FILE`
    #[arg(long, value_name = "FORMAT=FILE", value_parser = report)]
    report: Vec<(Format, PathBuf)>,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Junit,
}

fn report(text: &str) -> Result<(Format, PathBuf), String> {
    match text.split_once('=') {
        Some(("json", file)) if !file.is_empty() => Ok((Format::Json, file.into())),
        Some(("junit", file)) if !file.is_empty() => Ok((Format::Junit, file.into())),
        _ => Err("write `json=FILE` or `junit=FILE`".to_owned()),
    }
}

/// A case that was run.
pub(super) struct Ran {
    pub(super) plugin: String,
    /// `FILE:LINE`.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) took: Duration,
    /// Empty when the case passed.
    pub(super) failures: Vec<String>,
}

pub(super) async fn test(args: TestArgs) -> anyhow::Result<ExitStatus> {
    let folders = plugin_folders(&args.folders)?;
    let mut ran = Vec::new();
    for folder in &folders {
        let manifest = Manifest::read(folder, None)?;
        let mut touched = Vec::new();
        let before = ran.len();
        for file in CaseFile::all(folder)? {
            let runner = Runner {
                options: alone::options(folder)?,
                take_log: &|| {
                    heard::take()
                        .into_iter()
                        .map(|line| (line.plugin, line.text))
                        .collect()
                },
            };
            let path = file.path.display().to_string();
            let path = path.strip_prefix("./").unwrap_or(&path);
            for case in &file.cases {
                if args
                    .only
                    .as_ref()
                    .is_some_and(|text| !case.name.contains(text.as_str()))
                {
                    continue;
                }
                let outcome = crate::cases::run(&runner, folder, &manifest.name, case).await;
                let (took, failures) = match outcome {
                    Ok(outcome) => {
                        touched.extend(outcome.seen.hooks.into_iter().map(|hook| hook.point));
                        touched.extend(outcome.seen.tools);
                        (outcome.took, outcome.differences)
                    }
                    Err(error) => (Duration::ZERO, vec![error.to_string()]),
                };
                let done = Ran {
                    plugin: manifest.name.clone(),
                    place: format!("{path}:{}", case.line),
                    name: case.name.clone(),
                    took,
                    failures,
                };
                render::case::ran(&done);
                ran.push(done);
            }
        }
        if ran.len() == before {
            render::case::none(folder, &manifest.name, args.only.is_some());
        } else if args.only.is_none() {
            render::case::untouched(
                &manifest.name,
                &untouched(folder, &manifest, &touched).await?,
            );
        }
    }
    for (format, file) in &args.report {
        let text = match format {
            Format::Json => serde_json::to_string_pretty(&as_json(&ran))? + "\n",
            Format::Junit => junit(&ran),
        };
        std::fs::write(file, text)
            .with_context(|| format!("write the report {}", file.display()))?;
    }
    render::case::total(&ran);
    // A pipeline without a single case would be green for ever.
    let is_fine = !ran.is_empty() && ran.iter().all(|case| case.failures.is_empty());
    Ok(if is_fine {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}

/// Hooks and tools that no case reached.
async fn untouched(
    folder: &Path,
    manifest: &Manifest,
    touched: &[String],
) -> anyhow::Result<Vec<String>> {
    let set = PluginSet::load(&alone::options(folder)?).await?;
    let Some(plugin) = set
        .plugins
        .iter()
        .find(|plugin| plugin.manifest.name == manifest.name)
    else {
        return Ok(Vec::new());
    };
    let is_point = |export: &&String| crate::point::catalog::find(export).is_some();
    let hooks = plugin.exports.iter().filter(is_point).cloned();
    let tools = plugin.tools.iter().map(|tool| tool.name.clone());
    Ok(hooks
        .chain(tools)
        .filter(|name| !touched.contains(name))
        .collect())
}

fn as_json(ran: &[Ran]) -> Value {
    let cases = ran.iter().map(|case| {
        json!({
            "plugin": case.plugin,
            "name": case.name,
            "place": case.place,
            "passed": case.failures.is_empty(),
            "seconds": case.took.as_secs_f64(),
            "failures": case.failures,
        })
    });
    json!({"cases": cases.collect::<Vec<_>>()})
}

fn junit(ran: &[Ran]) -> String {
    // Other control characters have no place in XML at all.
    let escaped = |text: &str| -> String {
        let shown = text
            .chars()
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
        let entities = shown.map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\n' => "&#10;".to_owned(),
            other => other.to_string(),
        });
        entities.collect()
    };
    let n_failed = ran.iter().filter(|case| !case.failures.is_empty()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rind plugin test\" tests=\"{}\" failures=\"{n_failed}\">\n",
        ran.len()
    );
    for case in ran {
        let (plugin, name) = (escaped(&case.plugin), escaped(&case.name));
        let seconds = case.took.as_secs_f64();
        text.push_str(&format!(
            "  <testcase classname=\"{plugin}\" name=\"{name}\" time=\"{seconds:.6}\">"
        ));
        if !case.failures.is_empty() {
            let (place, why) = (escaped(&case.place), escaped(&case.failures.join("\n")));
            text.push_str(&format!("<failure message=\"{place}\">{why}</failure>"));
        }
        text.push_str("</testcase>\n");
    }
    text + "</testsuite>\n"
}

#[derive(Debug, ClapArgs)]
pub(super) struct CallArgs {
    /// Name of a plugin that is installed, or its folder
    name: String,
    /// Name of the tool
    tool: String,
    /// Arguments of the tool, a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    #[command(flatten)]
    plugins: PluginArgs,
}

pub(super) async fn call(mut args: CallArgs) -> anyhow::Result<ExitStatus> {
    let arguments: Value = serde_json::from_str(&args.arguments)
        .map_err(|error| Usage(format!("the arguments are not JSON: {error}")))?;
    let is_folder = Path::new(&args.name).join(FILE_NAME).is_file();
    if is_folder {
        args.plugins.plugin.push(PathBuf::from(&args.name));
        args.plugins.no_plugins = true;
        args.name = Manifest::read(Path::new(&args.name), None)?.name;
    }
    let (options, config) = super::plugin::options(&args.plugins).await?;
    let plugins = super::plugin::load_with(&options).await?;
    setup::check_plugins(&args.plugins, &config, &plugins)?;
    if let Some(left) = plugins.left_out.iter().find(|left| left.name == args.name) {
        let how = if matches!(left.why, Why::Held(_)) {
            format!("; grant them for this call with `--grant {}`", args.name)
        } else {
            String::new()
        };
        let why = render::plugins::why(left);
        anyhow::bail!("plugin `{}` does not run: {why}{how}", args.name);
    }
    plugins
        .left_out
        .iter()
        .for_each(render::plugins::warn_left_out);
    plugins.check_required()?;
    plugins.check_relied()?;
    let is_it = |plugin: &&Arc<Loaded>| plugin.manifest.name == args.name;
    check_tool(&args, plugins.plugins.iter().find(is_it))?;
    let paths = setup::paths(None)?;
    setup::check_apart(&paths)?;
    let sessions = tempfile::tempdir().context("make a folder for the session")?;
    // A plugin may send the answer back.
    let done = Reply {
        times: Some(0),
        ..Reply::text("done")
    };
    let script = Script::new(vec![Reply::call(&args.tool, arguments), done]);
    // Whoever types the call has approved it; what the rules deny stays denied.
    let mut policy: ToolPolicy = config.section()?;
    policy.mode = PolicyMode {
        yes: true,
        ..PolicyMode::default()
    };
    let (approver, questions) = run::approver(false);
    let host = Host::builder()
        .provider(Arc::new(Scripted::new(script)), "none")
        .paths(paths)
        .store(SessionStore::new(sessions.path().to_owned()))
        .plugins(Arc::new(plugins))
        .file_tools()
        .policy(Arc::new(policy))
        .approver(approver)
        .build()
        .await?;
    let session = host.session().create()?;
    let ended = Arc::new(std::sync::Mutex::new(None));
    let told = ended.clone();
    let watch = move |event: &Event| {
        if let Event::ToolEnd { result, .. } = event {
            let mut told = told
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *told = Some((result.content.to_string(), result.is_error));
        }
    };
    let show = ShowArgs {
        json: false,
        trace: Some(Detail::Full),
    };
    run::turn(session, questions, "call", show, Box::new(watch)).await?;
    let ended = ended
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take();
    let (text, is_error) = ended.context("the call has no result")?;
    render::answer_line(render::prose(&text));
    Ok(if is_error {
        ExitStatus::Failed
    } else {
        ExitStatus::Done
    })
}

fn check_tool(args: &CallArgs, plugin: Option<&Arc<Loaded>>) -> anyhow::Result<()> {
    let Some(plugin) = plugin else {
        let text = format!(
            "there is no plugin `{}`: neither a folder with a plugin.toml nor one of those in `rind plugin list`",
            args.name
        );
        return Err(Usage(text).into());
    };
    let names: Vec<&str> = plugin.tools.iter().map(|tool| tool.name.as_str()).collect();
    if names.contains(&args.tool.as_str()) {
        return Ok(());
    }
    let has = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("its tools are {}", names.join(", "))
    };
    Err(Usage(format!(
        "plugin `{}` has no tool `{}`; {has}",
        args.name, args.tool
    ))
    .into())
}
