//! `rind plugin enable` and `disable`: one line in the user's settings, for everywhere or for this project.

use std::fs;
use std::path::Path;

use anyhow::Context;
use toml_edit::{DocumentMut, Item, Table, value};

use super::args::{ModelArgs, PluginArgs, SwitchArgs};
use super::exit::{Exit, Usage};
use super::{plugin, render, setup};
use crate::config::PluginsConfig;
use crate::disk::{private_folder, replace_private};
use crate::paths::Paths;
use crate::plugin::load::{PluginSet, Why};
use crate::plugin::protected;

pub(super) async fn switch(args: SwitchArgs, is_on: bool) -> anyhow::Result<Exit> {
    let paths = setup::paths(None)?;
    let name = &args.plugin;
    let plugins = plugin::load(&PluginArgs::default()).await?;
    let loaded = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    let left_out = plugins.left_out.iter().map(|left| left.name.as_str());
    if !loaded.chain(left_out).any(|found| found == name) {
        return Err(Usage(format!(
            "there is no plugin `{name}`; see `rind plugin list`"
        ))
        .into());
    }
    if !is_on && protected::is_protected(name) {
        return Err(Usage(protected::refusal("`rind plugin disable`", name)).into());
    }
    let file = if args.project {
        paths.workspace_config()
    } else {
        paths.user_config()
    };
    write(
        &file,
        name,
        is_on,
        args.project.then_some(&*paths.workspace),
    )
    .with_context(|| format!("change {}", file.display()))?;
    let word = |is_on| if is_on { "on" } else { "off" };
    let place = if args.project {
        format!("in {}", paths.workspace.display())
    } else {
        "everywhere".to_owned()
    };
    render::note(&format!("{name} is switched {} {place}", word(is_on)));
    for stronger in stronger(&paths, &plugins, name, is_on)? {
        let here = word(!is_on);
        render::warn(&format!("here it stays {here}: {stronger} goes before"));
    }
    Ok(Exit::Done)
}

/// What says the opposite in the present folder, and counts more.
fn stronger(
    paths: &Paths,
    plugins: &PluginSet,
    name: &str,
    is_on: bool,
) -> anyhow::Result<Vec<String>> {
    let left_out = plugins.left_out.iter().filter(|left| left.name == name);
    let by_policy = left_out.filter_map(|left| match &left.why {
        Why::Disallowed { place } if is_on => Some(place.clone()),
        _ => None,
    });
    let mut found: Vec<String> = by_policy.collect();
    let config = setup::config(paths, &ModelArgs::default(), false)?;
    let PluginsConfig(settings) = config.section()?;
    if settings.get(name).is_none_or(|s| s.enabled) != is_on {
        let places = config.places(&["plugins", name, "enabled"]);
        found.extend(places.into_iter().next_back());
    }
    Ok(found)
}

/// Sets `plugins.NAME.enabled`, and leaves everything else in the file as it is. A new file of a workspace says which it is for.
fn write(file: &Path, name: &str, is_on: bool, workspace: Option<&Path>) -> anyhow::Result<()> {
    // What a link leads to is changed, and the link stays.
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => workspace
            .map(|path| {
                format!(
                    "# Settings for {}\n",
                    path.display().to_string().escape_debug()
                )
            })
            .unwrap_or_default(),
        Err(e) => return Err(e.into()),
    };
    let mut document: DocumentMut = text.parse()?;
    let not_a_table = || Usage("its `plugins` is not a table".to_owned());
    let plugins = table(document.as_table_mut(), "plugins").ok_or_else(not_a_table)?;
    plugins.set_implicit(true);
    let plugin = table(plugins, name).ok_or_else(not_a_table)?;
    plugin.insert("enabled", value(is_on));
    if let Some(folder) = file.parent() {
        private_folder(folder)?;
    }
    Ok(replace_private(file, document.to_string().as_bytes())?)
}

/// The table of this name, made when it is not there.
fn table<'a>(above: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let item = above
        .entry(name)
        .or_insert_with(|| Item::Table(Table::new()));
    if let Some(inline) = item.as_inline_table() {
        *item = Item::Table(inline.clone().into_table());
    }
    item.as_table_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(before: &str, is_on: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, before).unwrap();
        write(&file, "guard", is_on, None).unwrap();
        fs::read_to_string(file).unwrap()
    }

    #[test]
    fn one_line_changes_and_comments_stay() {
        assert_eq!(written("", false), "[plugins.guard]\nenabled = false\n");
        let before = "# mine\n[agent]\nmax_steps = 5 # few\n\n[plugins.guard]\nenabled = false\npriority = 3\n";
        assert_eq!(
            written(before, true),
            before.replace("enabled = false", "enabled = true")
        );
        assert_eq!(
            written("plugins = { guard = { priority = 3 } }\n", false),
            "[plugins.guard]\npriority = 3\nenabled = false\n"
        );
    }

    #[test]
    fn a_file_that_is_not_toml_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        for text in ["[plugins", "plugins = 3\n"] {
            fs::write(&file, text).unwrap();
            assert!(write(&file, "guard", false, None).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
