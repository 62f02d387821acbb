//! `rind plugin enable` and `disable`: sets `enabled` of a plugin in the user's settings, for every
//! workspace or only for this project.

use anyhow::Context;

use super::args::PluginArgs;
use super::exit_code::{ExitStatus, Usage, bail_usage};
use super::plugin::args::PluginEnablementArgs;
use super::{edit, environment, plugin, render};
use rind_lib::plugin::protected;
use rind_operator::plugin_flags::list_plugin_names;

pub(super) async fn set_plugin_enabled(
    args: PluginEnablementArgs,
    is_on: bool,
) -> anyhow::Result<ExitStatus> {
    let paths = environment::find_rind_paths(None)?;
    let name = &args.plugin;
    let plugins = plugin::load_session_plugins(&PluginArgs::default()).await?;
    if !list_plugin_names(&plugins).any(|found| found == name) {
        bail_usage!("there is no plugin `{name}`; see `rind plugin list`");
    }
    if !is_on && protected::is_protected_plugin(name) {
        return Err(Usage(protected::plugin_disable_refusal_message(
            "`rind plugin disable`",
            name,
        ))
        .into());
    }
    let file = if args.project {
        paths.user_workspace_config_path()
    } else {
        paths.user_config()
    };
    // Begin a new file with the workspace's path, because the file name is only a number.
    let head = match args.project {
        true => format!(
            "# Settings for {}\n",
            paths.workspace.display().to_string().escape_debug()
        ),
        false => String::new(),
    };
    let keys: &[&str] = &["plugins", name, "enabled"];
    let is_news = edit::set_toml_values(&file, &head, &[(keys, is_on.into())])
        .with_context(|| format!("cannot change {}", file.display()))?;
    let word = if is_on { "on" } else { "off" };
    let place = if args.project {
        format!("in {}", paths.workspace.display())
    } else {
        "everywhere".to_owned()
    };
    let (verb, already) = if is_news {
        ("is", "")
    } else {
        ("was", " already")
    };
    render::print_note(&format!("{name} {verb} switched {word} {place}{already}"));
    if let Some(why) = plugin_toggle_no_effect_reason(name, is_on).await? {
        render::print_warning(&why);
    }
    Ok(ExitStatus::Done)
}

/// Returns the reason if enabling or disabling the plugin has no effect, because another settings
/// file or a policy overrides it.
async fn plugin_toggle_no_effect_reason(name: &str, is_on: bool) -> anyhow::Result<Option<String>> {
    let load = plugin::plan_session_plugin_load(&PluginArgs::default()).await?;
    let plugins = load.load().await.context("cannot load plugins")?;
    let runs = plugins.plugins.iter().any(|p| p.manifest.name == name);
    if runs == is_on {
        return Ok(None);
    }
    if runs {
        let places = load
            .load_options()
            .written
            .value_locations(&["plugins", name, "enabled"]);
        let place = places.last().map_or("another setting", String::as_str);
        return Ok(Some(format!(
            "plugin {name} still runs in this folder, because {place} enables it"
        )));
    }
    let left = plugins.left_out.iter().find(|left| left.name == name);
    let why = left.map_or_else(String::new, render::plugins::plugin_not_loaded_reason);
    Ok(Some(format!(
        "plugin {name} still does not run in this folder: {why}"
    )))
}
