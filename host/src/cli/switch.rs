//! `rind plugin enable` and `disable`: one line in the user's settings, for everywhere or for this project.

use std::fs;
use std::path::Path;

use anyhow::Context;
use toml_edit::{DocumentMut, Item, Table, value};

use super::args::{PluginArgs, SwitchArgs};
use super::exit_code::{ExitStatus, Usage, bail_usage};
use super::flags::names;
use super::{plugin, render, setup};
use crate::disk::{private_folder, replace_private};
use crate::plugin::protected;

pub(super) async fn switch(args: SwitchArgs, is_on: bool) -> anyhow::Result<ExitStatus> {
    let paths = setup::paths(None)?;
    let name = &args.plugin;
    let plugins = plugin::load(&PluginArgs::default()).await?;
    if !names(&plugins).any(|found| found == name) {
        bail_usage!("there is no plugin `{name}`; see `rind plugin list`");
    }
    if !is_on && protected::is_protected(name) {
        return Err(Usage(protected::refusal("`rind plugin disable`", name)).into());
    }
    let file = if args.project {
        paths.workspace_config()
    } else {
        paths.user_config()
    };
    let workspace = args.project.then_some(&*paths.workspace);
    let is_news = write(&file, name, is_on, workspace)
        .with_context(|| format!("change {}", file.display()))?;
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
    render::note(&format!("{name} {verb} switched {word} {place}{already}"));
    if let Some(why) = in_spite(name, is_on).await? {
        render::warn(&why);
    }
    Ok(ExitStatus::Done)
}

/// Returns the reason why switching has no effect here, when it has none: another file or a policy may decide otherwise.
async fn in_spite(name: &str, is_on: bool) -> anyhow::Result<Option<String>> {
    let (options, _) = plugin::options(&PluginArgs::default()).await?;
    let plugins = plugin::load_with(&options).await?;
    let runs = plugins.plugins.iter().any(|p| p.manifest.name == name);
    if runs == is_on {
        return Ok(None);
    }
    if runs {
        let places = options.written.places(&["plugins", name, "enabled"]);
        let place = places.last().map_or("another setting", String::as_str);
        return Ok(Some(format!("{name} still runs here: {place} enables it")));
    }
    let left = plugins.left_out.iter().find(|left| left.name == name);
    let why = left.map_or_else(String::new, render::plugins::why);
    Ok(Some(format!("{name} still does not run here: {why}")))
}

/// Sets `plugins.NAME.enabled`, and leaves the rest of the file unchanged. A new file of a workspace says which it is for.
/// Returns whether that changed anything.
fn write(file: &Path, name: &str, is_on: bool, workspace: Option<&Path>) -> anyhow::Result<bool> {
    // What a link leads to is changed, and the link stays.
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let (head, text) = match fs::read_to_string(file) {
        Ok(text) => (String::new(), text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let path = workspace.map(|path| path.display().to_string());
            let head = path.map(|path| format!("# Settings for {}\n", path.escape_debug()));
            (head.unwrap_or_default(), String::new())
        }
        Err(e) => return Err(e.into()),
    };
    let mut document: DocumentMut = text.parse()?;
    let not_a_table = || Usage("its `plugins` is not a table".to_owned());
    let plugins = table(document.as_table_mut(), "plugins").ok_or_else(not_a_table)?;
    plugins.set_implicit(true);
    let plugin = table(plugins, name).ok_or_else(not_a_table)?;
    if plugin.get("enabled").and_then(Item::as_bool) == Some(is_on) {
        return Ok(false);
    }
    plugin.insert("enabled", value(is_on));
    if let Some(folder) = file.parent() {
        private_folder(folder)?;
    }
    // Not parsed: a comment in front of nothing would end up behind the table.
    replace_private(file, format!("{head}{document}").as_bytes())?;
    Ok(true)
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
    fn a_new_file_of_a_workspace_begins_with_which_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new.toml");
        assert!(write(&file, "guard", false, Some(Path::new("/w"))).unwrap());
        assert!(!write(&file, "guard", false, Some(Path::new("/w"))).unwrap());
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(
            text,
            "# Settings for /w\n[plugins.guard]\nenabled = false\n"
        );
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
