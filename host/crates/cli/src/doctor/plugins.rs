//! Checks what plugins need: an engine that stops a plugin at its deadline, the compiler, the cache
//! and, for authors in Rust, the compilation target.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::args::PluginArgs;
use super::super::environment::process_environment;
use super::super::render;
use super::DoctorCheck;
use rind_author::{PLUGIN_COMPILE_TARGET, has_wasm_target};
use rind_lib::grant::ask::GrantOptions;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::load::{FoundPluginSet, PluginSkipReason, SkippedPlugin};
use rind_lib::plugin::startable::StartablePluginSet;
use rind_lib::plugin::trial;
use rind_lib::text::escape_and_truncate_line;
use rind_operator::load::PluginLoadPlan;
use rind_operator::managed::MANAGED_PLUGINS_FOLDER_VARIABLE;
use rind_operator::settings::PluginSelection;
use rind_operator::setup::OperatorWorkspaceSetup;

/// Maximum length of a plugin's name in a finding, in bytes.
const MAX_PLUGIN_NAME_BYTES: usize = 64;

const WASM_TARGET_CHECK_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn run_plugin_checks(setup: &OperatorWorkspaceSetup) -> Vec<DoctorCheck> {
    let selection = PluginSelection {
        is_local_only: true,
        ..PluginSelection::default()
    };
    let load = match PluginLoadPlan::new(setup, &selection, GrantOptions::default()) {
        Ok(load) => load,
        Err(error) => return vec![super::broken_settings_check(&error)],
    };
    vec![
        check_wasm_engine().with_name("sandbox of plugins"),
        check_compile_cache(&load).with_name("compile cache"),
        check_wasm_compiler_confinement(&load)
            .await
            .with_name("compiler"),
    ]
}

fn check_wasm_engine() -> DoctorCheck {
    match trial::measure_endless_loop_interrupt_delay() {
        Ok(took) => DoctorCheck::new_passed(format!(
            "the WebAssembly engine starts, and it stopped an endless loop after {}",
            format_duration_text(took)
        )),
        Err(error) => DoctorCheck::new_missing_required_part(error.to_string())
            .with_consequence_text("plugins cannot run, or cannot be stopped")
            .with_advice("use a 64-bit system that allows executable memory"),
    }
}

fn check_compile_cache(load: &PluginLoadPlan) -> DoctorCheck {
    let options = load.load_options();
    match trial::check_compile_cache_folder(&options.cache, &options.cache_key) {
        Ok(()) => DoctorCheck::new_passed(format!(
            "{}, private and writable; the key that signs its files is {}",
            options.cache.display(),
            options.cache_key.display()
        ))
        .with_consequence_text("compiled code is used only if it is signed with that key"),
        Err(error) => DoctorCheck::new_missing_required_part(error.to_string())
            .with_consequence_text("plugins cannot be loaded")
            .with_advice(
                "make yourself the owner of the folder and make it writable, or set RIND_HOME",
            ),
    }
}

async fn check_wasm_compiler_confinement(load: &PluginLoadPlan) -> DoctorCheck {
    let options = load.load_options();
    let compiler = &options.compiler;
    let compiled = trial::measure_trial_compilation(compiler, &options.cache).await;
    match (&compiler.helper, compiled) {
        (Some(_), Ok((_, Some(why)))) => DoctorCheck::new_for_weaker_protection(format!(
            "plugins are compiled in a separate process that the kernel does not confine: {why}"
        ))
        .with_consequence_text(
            "a fault in the compiler, or in the processes that render templates of prompts and read packages for `rind skill derive`, \
             would let a plugin, a template or a package read and write everything that you can",
        )
        .with_advice("use Linux 6.2 or newer with Landlock switched on"),
        (Some(_), Ok((took, None))) => DoctorCheck::new_passed(format!(
            "plugins are compiled in a separate process within {} s and {} MiB; compiling the smallest component takes {}",
            compiler.time_limit.as_secs(),
            compiler.memory_limit >> 20,
            format_duration_text(took)
        )),
        (None, Ok(_)) => DoctorCheck::new_for_weaker_protection("on a thread of this process")
            .with_consequence_text("a malicious component could use memory and CPU time of the compiler until rind ends"),
        (_, Err(error)) => DoctorCheck::new_missing_required_part(error.to_string())
            .with_consequence_text("plugins that are not in the cache cannot be loaded"),
    }
}

/// Plugins that a session in this folder would load, with the settings for loading them.
pub(super) struct SessionPluginsWithLoadPlan {
    pub(super) plugins: Arc<FoundPluginSet>,
    load: PluginLoadPlan,
}

impl SessionPluginsWithLoadPlan {
    /// Returns the files of the project, if it is trusted.
    pub(super) fn trusted_project_folder(&self) -> Option<&Arc<InMemoryFolder>> {
        self.load.in_memory_folder()
    }

    /// Returns the operator's settings and paths with which the plugins were loaded.
    pub(super) fn operator_setup(&self) -> &OperatorWorkspaceSetup {
        self.load.operator_setup()
    }
}

/// Loads the plugins that a session in this folder would load, without asking questions.
pub(super) async fn load_session_plugins() -> Result<SessionPluginsWithLoadPlan, DoctorCheck> {
    let load = super::super::plugin::plan_session_plugin_load(&PluginArgs::default()).await;
    let load =
        load.map_err(|error| DoctorCheck::new_missing_required_part(format!("{error:#}")))?;
    let plugins = load.load().await;
    Ok(SessionPluginsWithLoadPlan {
        plugins: Arc::new(
            plugins.map_err(|error| DoctorCheck::new_missing_required_part(error.to_string()))?,
        ),
        load,
    })
}

/// Checks whether the plugins of a session in this folder can run.
pub(super) fn check_session_plugins_loaded(found: &SessionPluginsWithLoadPlan) -> DoctorCheck {
    let (paths, plugins) = (&found.operator_setup().paths, &*found.plugins);
    let running = render::format_count_with_noun(plugins.plugins.len() as u64, "plugin");
    if let Err(error) = StartablePluginSet::try_from_plugin_set(plugins) {
        let workspace = paths.workspace.display();
        return DoctorCheck::new_missing_required_part(error.to_string())
            .with_consequence_text(format!("`rind run` cannot start a session in {workspace}"))
            .with_advice("fix the cause; `rind plugin list` shows every plugin");
    }
    let (missed, off): (Vec<&SkippedPlugin>, Vec<&SkippedPlugin>) =
        plugins.left_out.iter().partition(|left| {
            matches!(
                left.why,
                PluginSkipReason::Failed(_) | PluginSkipReason::Held(_)
            )
        });
    let said = |all: &[&SkippedPlugin]| -> String {
        let all = all.iter();
        all.map(|left| format!("; {}: {}", left.name, left.why))
            .collect()
    };
    let refused = plugins.refused.iter().map(|text| format!("; {text}"));
    let idle = plugins
        .plugins
        .iter()
        .filter(|plugin| !plugin.is_component_used());
    let idle = idle.map(|plugin| {
        let name = &plugin.manifest.name;
        format!("; {name}: {}", render::plugins::NO_USABLE_EXPORT_NOTE)
    });
    let collisions = plugins.find_tool_collisions().into_iter();
    let collisions = collisions.map(|collision| format!("; {collision}"));
    let refused = refused.chain(idle).chain(collisions);
    let mut refused = said(&missed) + &refused.collect::<String>();
    let replaced = process_environment().replaced_embedded_plugin_names();
    if !replaced.is_empty() {
        refused.push_str(&format!(
            "; {} replaces the plugins that are embedded in rind: {}",
            MANAGED_PLUGINS_FOLDER_VARIABLE,
            replaced.join(", ")
        ));
    }
    let found = format!("a session here would run {running}{refused}{}", said(&off));
    if refused.is_empty() {
        return DoctorCheck::new_passed(found);
    }
    DoctorCheck::new_for_weaker_protection(found)
        .with_consequence_text(
            "their protection and their tools are missing; no setting or grant relies on them",
        )
        .with_advice("see `rind plugin list`")
}

/// Checks whether the plugin that the settings name as `loop` can run the agent loop. Returns
/// `None` if the settings name no plugin.
pub(super) fn check_agent_loop_plugin(found: &SessionPluginsWithLoadPlan) -> Option<DoctorCheck> {
    let config = found.operator_setup().agent_config().ok()?;
    let name = config.agent_loop?;
    let mut plugins = found.plugins.plugins.iter();
    let is_there =
        plugins.any(|plugin| plugin.manifest.name == name && plugin.may_run_agent_loop());
    let name = escape_and_truncate_line(&name, MAX_PLUGIN_NAME_BYTES);
    Some(match is_there {
        true => DoctorCheck::new_passed(format!("plugin {name} runs the agent loop")),
        false => DoctorCheck::new_missing_required_part(format!(
            "the settings name plugin {name} for the agent loop, but it does not run, has no agent loop, or was not granted `agent_loop`"
        ))
        .with_consequence_text("no session starts")
        .with_advice("see `rind plugin list`, or take `loop` out of [agent] in your settings"),
    })
}

/// Checks whether plugins in Rust can be compiled. Runs `rustc` in Rind's own data folder, because
/// a project's toolchain file could make rustup install something.
pub(super) async fn check_rust_wasm_target(paths: &RindPaths) -> DoctorCheck {
    let cancel = CancellationToken::new();
    let asked = tokio::time::timeout(
        WASM_TARGET_CHECK_TIMEOUT,
        has_wasm_target(&paths.data, &cancel),
    )
    .await;
    let missing = |found: String, todo: &str| {
        DoctorCheck::new_for_missing_part(found)
            .with_consequence_text(
                "compiled plugins still run; `rind plugin build` cannot compile those in Rust",
            )
            .with_advice(todo)
    };
    match asked {
        Ok(Ok(true)) => DoctorCheck::new_passed(format!("{PLUGIN_COMPILE_TARGET} is installed")),
        Ok(Ok(false)) => missing(
            format!("{PLUGIN_COMPILE_TARGET} is not installed"),
            &format!("rustup target add {PLUGIN_COMPILE_TARGET}"),
        ),
        Ok(Err(error)) => missing(
            error.to_string(),
            "to write plugins in Rust, install it from rustup.rs",
        ),
        Err(_) => missing(
            format!(
                "rustc did not answer within {} s",
                WASM_TARGET_CHECK_TIMEOUT.as_secs()
            ),
            "run `rustc --print sysroot` to see why",
        ),
    }
}

fn format_duration_text(took: Duration) -> String {
    render::format_duration_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
