//! Checks the requirements of plugins: the engine, its deadlines, the compiler, the cache, and for authors the target.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::args::PluginArgs;
use super::super::{render, setup};
use super::{Check, State};
use crate::author::{TARGET, has_target};
use crate::config::Config;
use crate::grant::ask::GrantOptions;
use crate::paths::Paths;
use crate::plugin::load::{LeftOut, LoadOptions, PluginSet, Why};
use crate::plugin::trial;

/// Deadline of a question to the toolchain.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn checks(paths: &Paths, config: &Config) -> Vec<Check> {
    let args = PluginArgs {
        no_plugins: true,
        ..PluginArgs::default()
    };
    let options = match setup::load_options(paths, config, &args, None, GrantOptions::default()) {
        Ok(options) => options,
        Err(error) => return vec![super::wrong_settings(&error)],
    };
    vec![engine(), cache(&options), compiler(&options).await]
}

fn engine() -> Check {
    const NAME: &str = "sandbox of plugins";
    match trial::stops_endless_loop() {
        Ok(took) => Check::new(
            NAME,
            State::Ok,
            format!("starts, and stops an endless loop after {}", time(took)),
        ),
        Err(error) => Check::new(NAME, State::Missing, error.to_string())
            .required()
            .means("no plugin can run, or none can be stopped")
            .todo("run on a 64-bit system that allows memory to be made executable"),
    }
}

fn cache(options: &LoadOptions) -> Check {
    const NAME: &str = "compile cache";
    match trial::opens_cache(&options.cache, &options.cache_key) {
        Ok(()) => Check::new(
            NAME,
            State::Ok,
            format!(
                "{}, private and writable; its key is {}",
                options.cache.display(),
                options.cache_key.display()
            ),
        )
        .means("compiled code is used only with a signature made with that key"),
        Err(error) => Check::new(NAME, State::Missing, error.to_string())
            .required()
            .means("plugins cannot be loaded")
            .todo("make the folder yours and writable, or set RIND_HOME"),
    }
}

async fn compiler(options: &LoadOptions) -> Check {
    const NAME: &str = "compiler";
    let compiler = &options.compiler;
    match (
        &compiler.helper,
        trial::compiles(compiler, &options.cache).await,
    ) {
        (Some(_), Ok(took)) => Check::new(
            NAME,
            State::Ok,
            format!(
                "in a process of its own, at most {} s and {} MiB; the smallest component takes {}",
                compiler.time_limit.as_secs(),
                compiler.memory_limit >> 20,
                time(took)
            ),
        ),
        (None, Ok(_)) => Check::new(NAME, State::Weaker, "on a thread of this process")
            .means("a component made to be hard to compile takes memory and processor time until rind ends"),
        (_, Err(error)) => Check::new(NAME, State::Missing, error.to_string())
            .required()
            .means("plugins that are not in the cache cannot be loaded"),
    }
}

/// Whether the plugins run that a session in this folder would have. Nobody is asked.
pub(super) async fn loaded(paths: &Paths) -> Check {
    const NAME: &str = "plugins";
    let (options, _) = match super::super::plugin::options(&PluginArgs::default()).await {
        Ok(options) => options,
        Err(error) => return Check::new(NAME, State::Missing, format!("{error:#}")).required(),
    };
    let plugins = match PluginSet::load(&options).await {
        Ok(plugins) => plugins,
        Err(error) => return Check::new(NAME, State::Missing, error.to_string()).required(),
    };
    let running = render::count(plugins.plugins.len() as u64, "plugin");
    if let Err(error) = plugins
        .check_required()
        .and_then(|()| plugins.check_relied())
    {
        return Check::new(NAME, State::Missing, error.to_string())
            .required()
            .means(format!(
                "`rind run` in {} starts no session",
                paths.workspace.display()
            ))
            .todo("fix the cause; `rind plugin list` shows every plugin");
    }
    let (missed, off): (Vec<&LeftOut>, Vec<&LeftOut>) = plugins
        .left_out
        .iter()
        .partition(|left| matches!(left.why, Why::Failed(_) | Why::Held(_)));
    let said = |all: &[&LeftOut]| -> String {
        let lines = all
            .iter()
            .map(|left| format!("; {}: {}", left.name, left.why));
        lines.collect()
    };
    let refused = plugins.refused.iter().map(|text| format!("; {text}"));
    let refused: String = refused.collect();
    if missed.is_empty() && refused.is_empty() {
        let found = format!("{running} would run here{}", said(&off));
        return Check::new(NAME, State::Ok, found);
    }
    Check::new(
        NAME,
        State::Weaker,
        format!(
            "{running} would run here{}{refused}{}",
            said(&missed),
            said(&off)
        ),
    )
    .means("what they guard is unguarded; no setting or grant relies on them")
    .todo("see `rind plugin list`")
}

/// Whether plugins can be compiled from their sources. Asked in a folder of Rind's own: a project's toolchain file could make
/// rustup install something.
pub(super) async fn target(paths: &Paths) -> Check {
    const NAME: &str = "target for authors";
    let cancel = CancellationToken::new();
    let asked = tokio::time::timeout(PATIENCE, has_target(&paths.data, &cancel)).await;
    let missing = |found: String, todo: String| {
        Check::new(NAME, State::Missing, found)
            .means("compiled plugins still run; `rind plugin build` and `rind demo` do not")
            .todo(todo)
    };
    match asked {
        Ok(Ok(true)) => Check::new(NAME, State::Ok, format!("{TARGET} is installed")),
        Ok(Ok(false)) => missing(
            format!("{TARGET} is not installed"),
            format!("rustup target add {TARGET}"),
        ),
        Ok(Err(error)) => missing(
            error.to_string(),
            "install Rust from rustup.rs, to write plugins in it".to_owned(),
        ),
        Err(_) => missing(
            format!("rustc did not answer within {} s", PATIENCE.as_secs()),
            "run `rustc --print sysroot` to see why".to_owned(),
        ),
    }
}

fn time(took: Duration) -> String {
    render::millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
