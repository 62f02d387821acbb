//! `rind cluster plugins publish`: publishes the plugins of this machine as a signed set for all
//! workers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;
use rind_lib::grant::Trust;
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin, PluginSkipReason};
use rind_lib::session::SessionBlobs;
use rind_nats::{
    NextPluginSetPosition, PluginSetFile, PluginSetPlugin, PluginSetRecord, TenantPluginSetStore,
};
use rind_operator::plugin_set::serialize_plugin_set_settings;
use rind_package::contents::PluginContents;

use super::super::super::args::PluginArgs;
use super::super::super::exit_code::bail_usage;
use super::super::super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::super::super::{plugin, render, terminal};
use super::super::args::NatsArgs;
use super::key::read_plugin_set_key;

/// Arguments of `rind cluster plugins publish`.
#[derive(Debug, ClapArgs)]
pub(crate) struct PublishSetArgs {
    #[command(flatten)]
    nats: NatsArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    /// File with the seed of the key, made by `rind cluster plugins key`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Class of workers that the set is for; by default all classes without a set of their own
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Number of the set, greater than all earlier ones; one more than the last one by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// Let no turn use an earlier set any more, not even to continue
    #[arg(long)]
    revoke: bool,
    /// Publish without asking
    #[arg(long)]
    yes: bool,
    /// Plugins of the set; by default all that run here and are not built into Rind
    #[arg(value_name = "PLUGIN")]
    names: Vec<String>,
}

/// Plugin set that is about to be published. `contents` has the bytes of the set's files, keyed by
/// hash.
struct PluginSetDraft {
    plugins: Vec<PluginSetPlugin>,
    contents: BTreeMap<String, Vec<u8>>,
    settings: String,
    /// Number of tool rules of this machine that are left out, because a set can only deny.
    n_other_rules: usize,
}

impl PublishSetArgs {
    /// Shows the set, asks, and publishes it.
    ///
    /// # Errors
    /// A plugin does not run here, the key cannot be read, or the servers do not answer.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let key = read_plugin_set_key(&self.key)?;
        let draft = self.collect_plugins_to_publish().await?;
        let sessions = self.nats.connect().await?;
        let sets = TenantPluginSetStore::from_sessions(&sessions);
        let place = sets
            .next_publish_position(self.class.as_deref(), &[key.public_key()])
            .await?;
        let number = choose_next_set_number(&place, self.number)?;
        let class = self.class.as_deref();
        let mut record = PluginSetRecord::new(sets.tenant(), class, number, draft.plugins.clone());
        record.settings.clone_from(&draft.settings);
        record.oldest = match (&place.last, self.revoke) {
            (None, false) => 0,
            (Some(Ok(last)), false) => last.record.oldest,
            // The last record was signed with another key, so neither it nor the sets that it
            // revokes can be verified. Revoke all sets before the new one.
            (Some(Err(_)), _) | (_, true) => number,
        };
        render::print_stdout_line(describe_published_set(&record));
        if draft.n_other_rules > 0 {
            render::print_note(&format!(
                "{} rules for tool calls are left out of the set of plugins, because the rules of a set can only deny calls",
                draft.n_other_rules
            ));
        }
        if !self.yes && !confirm_publishing().await? {
            bail!("nothing was published: you did not say yes");
        }
        let own = sets.clone();
        let stored = tokio::task::spawn_blocking(move || {
            let mut contents = draft.contents.values();
            contents.try_for_each(|bytes| own.store_file(bytes).map(drop))
        });
        stored.await.context("cannot store the files")??;
        let set = sets.publish(&place, &key, record).await?;
        render::print_stdout_line(format!(
            "the set of plugins {number} is published, signed with the key {}; its digest is {}",
            set.key, set.digest
        ));
        Ok(())
    }

    /// Collects the plugins that run on this machine, with their files, permissions and settings.
    async fn collect_plugins_to_publish(&self) -> anyhow::Result<PluginSetDraft> {
        let load = plugin::plan_session_plugin_load(&self.plugins).await?;
        let loaded = load.load().await.context("cannot load plugins")?;
        load.check_selected_plugins(&loaded)?;
        let is_wanted = |name: &str| self.names.is_empty() || self.names.iter().any(|n| n == name);
        check_plugins_to_publish_are_loaded(&loaded, is_wanted)?;
        let (mut plugins, mut contents) = (Vec::new(), BTreeMap::new());
        let running = loaded.plugins.iter();
        for own in running.filter(|own| own.trust != Trust::Managed) {
            let name = own.manifest.name.clone();
            if !is_wanted(&name) {
                continue;
            }
            let read = PluginContents::read_folder(&own.folder)?;
            check_files_unchanged(own, &read)?;
            let files = read.files().iter().map(|(names, bytes)| {
                let hash = SessionBlobs::compute_blob_id(bytes);
                contents.insert(hash.clone(), bytes.clone());
                let bytes = bytes.len() as u64;
                (names.join("/"), PluginSetFile { hash, bytes })
            });
            let files = files.collect();
            let grants = own.granted_capabilities().capabilities().iter();
            plugins.push(PluginSetPlugin {
                version: own.manifest.version.to_string(),
                grants: grants.map(ToString::to_string).collect(),
                files,
                name,
            });
        }
        let unknown = self
            .names
            .iter()
            .find(|name| !plugins.iter().any(|own| own.name == **name));
        if let Some(unknown) = unknown {
            bail_usage!(
                "no installed plugin is called `{}`, and plugins that come with Rind cannot be published; see `rind plugin list`",
                render::printable_text(unknown)
            );
        }
        if plugins.is_empty() {
            bail_usage!(
                "all plugins that run here come with Rind, and these cannot be published; install others, or name them with --plugin"
            );
        }
        let names: Vec<&str> = plugins.iter().map(|own| own.name.as_str()).collect();
        let (settings, n_other_rules) =
            serialize_plugin_set_settings(&load.operator_setup().config, &names)?;
        Ok(PluginSetDraft {
            plugins,
            contents,
            settings,
            n_other_rules,
        })
    }
}

/// Checks that each plugin to publish runs on this machine. Otherwise, if a plugin failed to load
/// or waits for permissions, the set would lack it, and workers would run without it.
fn check_plugins_to_publish_are_loaded(
    loaded: &FoundPluginSet,
    is_wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    let missing = loaded.left_out.iter().find(|left| {
        left.found.trust != Trust::Managed
            && is_wanted(&left.name)
            && matches!(
                left.why,
                PluginSkipReason::Failed(_) | PluginSkipReason::Held(_)
            )
    });
    match missing {
        None => Ok(()),
        Some(left) => bail!(
            "plugin {} does not run here, so it cannot be published: {}; publish without it with `--without {}`",
            left.name,
            left.why,
            left.name
        ),
    }
}

/// Checks that the plugin's files on disk are still the ones that were loaded. Skips a plugin
/// that was not loaded from a copy in memory, as the plugins of trusted projects are.
fn check_files_unchanged(own: &LoadedPlugin, read: &PluginContents) -> anyhow::Result<()> {
    let Some(held) = own
        .held
        .as_ref()
        .filter(|held| held.is_path_inside(&own.folder))
    else {
        return Ok(());
    };
    let changed = read.files().iter().find(|(names, bytes)| {
        let path = own.folder.join(names.iter().collect::<PathBuf>());
        held.file_content(&path) != Some(bytes.as_slice())
    });
    match changed {
        None => Ok(()),
        Some((names, _)) => bail!(
            "{}: the file has changed since plugin {} was checked; publish the set again",
            own.folder.join(names.iter().collect::<PathBuf>()).display(),
            own.manifest.name
        ),
    }
}

fn choose_next_set_number(
    place: &NextPluginSetPosition,
    wanted: Option<u64>,
) -> anyhow::Result<u64> {
    match (&place.last, wanted) {
        (None, wanted) => Ok(wanted.unwrap_or(1)),
        (Some(Ok(last)), wanted) => {
            let number = last.record.number;
            match wanted {
                Some(wanted) if wanted <= number => {
                    bail_usage!(
                        "--number {wanted}: the last set has the number {number}; pass a greater one"
                    )
                }
                Some(wanted) => Ok(wanted),
                None => Ok(number.saturating_add(1)),
            }
        }
        (Some(Err(_)), Some(wanted)) => Ok(wanted),
        (Some(Err(why)), None) => bail!(
            "the last set was not published with this key: {why}. Pass --number with a greater number than all before; \
             workers refuse others"
        ),
    }
}

/// Formats the contents of a published set for people: number, classes, plugins, permissions and
/// settings.
pub(super) fn describe_published_set(record: &PluginSetRecord) -> String {
    let mut text = format!("set {} of the tenant {}", record.number, record.tenant);
    match &record.class {
        Some(class) => _ = write!(text, ", for the class {class}"),
        None => text.push_str(", for all classes without one of their own"),
    }
    if record.oldest > 1 {
        _ = write!(text, "; sets before {} are revoked", record.oldest);
    }
    for plugin in &record.plugins {
        let bytes = plugin.files.values().map(|file| file.bytes).sum();
        let grants = match plugin.grants.is_empty() {
            true => "no permissions".to_owned(),
            false => render::printable_text(&plugin.grants.join(", ")).to_string(),
        };
        _ = write!(
            text,
            "\n  {} {}: {} files, {}; {grants}",
            plugin.name,
            plugin.version,
            plugin.files.len(),
            render::format_bytes(bytes),
        );
    }
    for line in record.settings.lines().filter(|line| !line.is_empty()) {
        _ = write!(text, "\n  | {}", render::printable_text(line));
    }
    text
}

async fn confirm_publishing() -> anyhow::Result<bool> {
    if !terminal::can_ask_at_terminal() {
        bail_usage!("there is no terminal to ask at; pass --yes to publish the set");
    }
    let question = TerminalQuestionLine::new("").with_text("Publish it to all workers?");
    let screen = QuestionScreenContent {
        parts: vec![vec![question]],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    };
    Ok(screen
        .ask_non_approval_question(parse_yes_or_no)
        .await
        .unwrap_or(false))
}
