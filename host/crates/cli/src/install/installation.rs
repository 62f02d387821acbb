//! Changes the installed plugins, under a lock that keeps two commands from changing them at the
//! same time.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::super::environment::{process_environment, read_settings_without_project};
use super::super::exit_code::Usage;
use super::super::{alone, render};
use super::args::AcceptAddedPermissionsArgs;
use super::data::{self, PluginDataMoveOnInstall};
use super::{credentials, wider};
use rind_lib::disk::acquire_file_lock;
use rind_lib::grant::Trust;
use rind_lib::grant::answers::GrantAnswerStore;
use rind_lib::grant::decide::GrantStatus;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::discover::{self, discover_plugins};
use rind_lib::plugin::manifest::Manifest;
use rind_operator::grants;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_package::lock_file::{LockEntry, LockFile, LockedPlugin};
use rind_package::place::{self, StagedInstall};
use rind_package::signature::{self, InstallConfig, SignatureCheckTarget};
use rind_package::source::{FetchedPlugin, PluginSource, fetch_plugin};

/// Returns the folder that contains the installed plugins.
pub(super) fn plugins_folder(paths: &RindPaths) -> PathBuf {
    paths.config.join("plugins")
}

/// Installed plugins with their lock file, locked so that no other command changes them.
pub(super) struct ExclusivelyLockedPluginInstallation {
    paths: RindPaths,
    config: InstallConfig,
    plugins: PathBuf,
    lock_path: PathBuf,
    lock: LockFile<LockedPlugin>,
    /// File whose exclusive lock is held until the command ends.
    _exclusive: File,
}

pub(super) struct PluginInstallRequest<'a> {
    pub(super) source: &'a PluginSource,
    /// Name that the fetched plugin must have, for an update; `None` for an installation.
    pub(super) name: Option<&'a str>,
    pub(super) may_change_source: bool,
    pub(super) wider: &'a AcceptAddedPermissionsArgs,
    pub(super) has_terminal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum PluginInstallChangeKind {
    /// The plugin was not installed before.
    Installed,
    /// The plugin was updated; contains the version before the update.
    Updated(semver::Version),
    /// The same files were already installed, so nothing was changed.
    Unchanged,
    /// Files of the same version were restored, because they had been changed or removed.
    Restored,
}

#[derive(Clone, Debug)]
pub(in super::super) struct PluginInstallOutcome {
    pub(in super::super) name: String,
    pub(in super::super) version: semver::Version,
    pub(in super::super) change: PluginInstallChangeKind,
    pub(in super::super) folder: PathBuf,
    /// Key that verified the signature; `None` for an unsigned plugin. A signed plugin has
    /// [`Trust::Package`].
    pub(in super::super) key: Option<String>,
    /// Capabilities that are not granted, because the operator has not been asked yet.
    pub(in super::super) waiting: Vec<rind_lib::grant::Capability>,
    /// Whether Rind ever calls the plugin's component.
    pub(in super::super) is_called: bool,
    /// Changes to data that was already stored under the plugin's name.
    pub(in super::super) stored: Vec<PluginDataMoveOnInstall>,
    /// Claims of the registry about where the package was built; `None` for other sources.
    pub(in super::super) provenance: Option<Vec<String>>,
    /// Warnings about the installed version of the package.
    pub(in super::super) notices: Vec<String>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct PluginRemovalOutcome {
    pub(in super::super) name: String,
    pub(in super::super) n_answers: usize,
    /// Folder to which the plugin's data was moved, and the source from which an installation
    /// restores it; `None` without data.
    pub(in super::super) data: Option<(PathBuf, PluginSource)>,
    /// Place in the settings that still configures the removed plugin; `None` if there is none.
    pub(in super::super) configured: Option<String>,
    /// Whether the lock file still requires that a plugin of this name is signed with a certain
    /// key.
    pub(in super::super) is_pinned: bool,
}

impl ExclusivelyLockedPluginInstallation {
    /// Waits until no other command changes the plugins, then locks them and reads the lock file.
    pub(super) fn open_with_exclusive_lock() -> anyhow::Result<Self> {
        let OperatorWorkspaceSetup { paths, config, .. } = read_settings_without_project()?;
        let lock_path = paths.config.join(LockedPlugin::FILE_NAME);
        let waits = || render::print_note("waiting for another `rind plugin` command to end");
        let exclusive = acquire_file_lock(&lock_path, waits)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let plugins = plugins_folder(&paths);
        place::remove_temporary_folders(&plugins);
        let mut lock = LockFile::<LockedPlugin>::read_file(&lock_path)?;
        lock.complete_interrupted_replacements(|name| {
            place::compute_folder_digest(&plugins.join(name))
        });
        Ok(Self {
            config: config.section()?,
            lock,
            _exclusive: exclusive,
            paths,
            plugins,
            lock_path,
        })
    }

    /// Returns the names of the installed plugins, each with its source.
    pub(super) fn installed_plugin_sources(&self) -> Vec<(String, PluginSource)> {
        let all = self.lock.entries.iter();
        all.map(|(name, locked)| (name.clone(), locked.source.clone()))
            .collect()
    }

    /// Returns the error message for a name that is not installed.
    pub(super) fn unknown_plugin_error(&self, name: &str) -> String {
        let shown = name.escape_debug();
        // Do not look up a name with a `/`, because it could lead out of the folder.
        let is_there = !name.contains('/') && self.plugins.join(name).is_dir();
        if is_there {
            let place = self.plugins.join(name);
            format!(
                "plugin `{shown}` was put into {} without `rind plugin install`; change or delete the folder yourself",
                place.display()
            )
        } else {
            format!("no plugin `{shown}` was installed; see `rind plugin list`")
        }
    }

    /// Installs, updates or restores one plugin, depending on what is installed now.
    pub(super) async fn install_plugin(
        &mut self,
        wanted: &PluginInstallRequest<'_>,
    ) -> anyhow::Result<PluginInstallOutcome> {
        // Pass the locked version to fetch, because an update requests the newest version from a
        // registry.
        let earlier = wanted.name.and_then(|name| self.lock.entries.get(name));
        let version = earlier.map(|locked| &locked.version);
        let access = credentials::settings_for_fetching_plugins();
        let fetched = fetch_plugin(wanted.source, version, &access).await?;
        let manifest = &fetched.contents.manifest;
        let name = manifest.name.clone();
        if let Some(expected) = wanted.name {
            ensure!(
                name == expected,
                "{} now contains another plugin, `{name}`; remove {expected}, or install it from another source",
                fetched.source
            );
        }
        let mut flags = wanted.wider.grant.iter();
        if let Some(flag) = flags.find(|flag| wanted.name.is_none() && flag.plugin_name() != name) {
            let plugin = flag.plugin_name().escape_debug();
            let why = format!("--grant {plugin} has no effect: the plugin is `{name}`");
            return Err(Usage(why).into());
        }
        self.refuse_bundled_name(&name)?;
        let pinned = self.lock.keys.get(&name).map(String::as_str);
        let subject = SignatureCheckTarget {
            kind: "plugin",
            name: &name,
            source: &fetched.source,
            bytes: fetched.bytes.as_deref(),
            lock_file: LockedPlugin::FILE_NAME,
            how_to_pack: format!(
                "pack it with `rind plugin pack {}` and sign the file",
                fetched.source
            ),
            how_to_sign: fetched.signing_advice(),
            signature: &|| fetched.read_signature(),
        };
        let key = signature::check_signature(&self.config, pinned, &subject)?;
        let place = self.plugins.join(&name);
        let digest = fetched.contents.digest();
        let locked = self.lock.entries.get(&name).cloned();
        let change = match &locked {
            Some(locked) => classify_install_change(locked, &fetched, &digest, &place, wanted)?,
            None => PluginInstallChangeKind::Installed,
        };
        ensure!(
            locked.is_some() || place.symlink_metadata().is_err(),
            "{}",
            self.unknown_plugin_error(&name)
        );
        let staged = place::stage_files(fetched.contents.files(), &name, &self.plugins)?;
        let trust = match key {
            Some(_) => Trust::Package,
            None => Trust::User,
        };
        let shown = fetched.source.to_string();
        let loads = self.check_staged_plugin_by_loading(&staged, &name, trust, Path::new(&shown));
        let (waiting, is_called) = loads.await?;
        if let PluginInstallChangeKind::Updated(_) = change {
            let earlier = read_installed_manifest(&place, locked.as_ref());
            wider::require_added_permissions_accepted(
                earlier.as_ref(),
                manifest,
                wanted.wider,
                wanted.has_terminal,
            )
            .await?;
        }
        let new = LockedPlugin {
            version: manifest.version.clone(),
            source: fetched.source.clone(),
            digest,
            manifest: fetched.manifest.clone(),
            key: key.clone(),
            package: fetched.package.clone(),
        };
        let notices = package_version_warnings(locked.as_ref(), &fetched);
        // Move old data before the plugin is in place, so that it never runs with the data of
        // another plugin.
        let stored = match locked {
            None => data::restore_plugin_data_for_source(
                &self.plugin_stores_folder(),
                &name,
                &new.source,
            )
            .with_context(|| format!("cannot move the stored data of plugins named {name}"))?,
            // Keep the data at an update. An operator who changes the source confirms that it is
            // the same plugin.
            Some(_) => Vec::new(),
        };
        let source = new.source.clone();
        if let Err(error) = self.put_plugin_in_place(staged, &place, &name, new, &change) {
            if stored.contains(&PluginDataMoveOnInstall::Back) {
                let _ = data::move_plugin_data_aside(
                    &self.plugin_stores_folder(),
                    &name,
                    Some(&source),
                );
            }
            return Err(error);
        }
        Ok(PluginInstallOutcome {
            version: manifest.version.clone(),
            name,
            change,
            folder: place,
            key,
            waiting,
            is_called,
            stored,
            provenance: fetched.package.map(|package| package.provenance),
            notices,
        })
    }

    /// Returns the folder with the stored data of all plugins.
    fn plugin_stores_folder(&self) -> PathBuf {
        self.paths.data.join("plugins")
    }

    /// Refuses names of bundled plugins, because an installed plugin of such a name would never
    /// run.
    fn refuse_bundled_name(&self, name: &str) -> anyhow::Result<()> {
        let environment = process_environment();
        let managed = environment.list_bundled_plugin_folders()?.into_iter();
        let managed: Vec<discover::PluginSearchPath> = managed
            .map(|path| discover::PluginSearchPath::new(Trust::Managed, path))
            .collect();
        let carried = environment.carried.as_ref().map(|carried| &carried.files);
        for found in discover_plugins(&managed, carried) {
            let other = Manifest::read(&found.folder, carried);
            let is_it = other.is_ok_and(|other| other.name == name);
            ensure!(
                !is_it,
                "a plugin `{name}` comes with Rind, in {}, and would run in place of this one; give it another name",
                found.folder.display()
            );
        }
        Ok(())
    }

    /// Loads the plugin as a session would. Returns the capabilities about which the operator will
    /// be asked, and whether Rind ever calls the component.
    async fn check_staged_plugin_by_loading(
        &self,
        staged: &StagedInstall,
        name: &str,
        trust: Trust,
        source: &Path,
    ) -> anyhow::Result<(Vec<rind_lib::grant::Capability>, bool)> {
        let grants = grants::build_permission_grant_options(&self.paths, &[], None, None)?;
        let set = alone::load_single_plugin_with_grants(&staged.folder, trust, grants).await?;
        if let Some(why) = alone::find_plugin_load_failure(&set, name) {
            let why = staged.replace_staging_path_in_message(&why, source);
            bail!("{name} is not installed, because it cannot be loaded: {why}");
        }
        let waiting = alone::single_plugin_permission_decision(&set)
            .map(|decision| decision.capabilities_with_status(GrantStatus::Waiting));
        let waiting = waiting.into_iter().flatten().cloned().collect();
        Ok((
            waiting,
            alone::only_plugin_of_set(&set).is_none_or(|plugin| plugin.is_component_used()),
        ))
    }

    fn put_plugin_in_place(
        &mut self,
        staged: StagedInstall,
        place: &Path,
        name: &str,
        new: LockedPlugin,
        change: &PluginInstallChangeKind,
    ) -> anyhow::Result<()> {
        let _exchange = place::lock_out_package_readers(&self.plugins)?;
        let put = || match change {
            PluginInstallChangeKind::Unchanged => Ok(()),
            _ => staged.move_staged_install_to(place),
        };
        self.lock
            .replace_entry(&self.lock_path, (name, name), new, put)
    }

    /// Removes an installed plugin and the operator's answers about it. The plugin's stored data is
    /// moved to a folder named after the plugin's source, and the plugin's name stays pinned to its
    /// signing key.
    pub(super) fn remove_plugin(&mut self, name: &str) -> anyhow::Result<PluginRemovalOutcome> {
        let Some(locked) = self.lock.entries.get(name) else {
            return Err(Usage(self.unknown_plugin_error(name)).into());
        };
        let source = locked.source.clone();
        let mut lock = self.lock.clone();
        lock.entries.remove(name);
        let exchange = place::lock_out_package_readers(&self.plugins)?;
        place::remove_installed_path(&self.plugins.join(name), &self.plugins)?;
        lock.write_file(&self.lock_path)?;
        drop(exchange);
        self.lock = lock;
        // Remove the answers too: a plugin that has answers but is not installed would be reported
        // as missing.
        let n_answers = GrantAnswerStore::read(&self.paths.grant_answers_path())?.revoke(name)?;
        let config = read_settings_without_project()?.config;
        let aside = data::move_plugin_data_aside(&self.plugin_stores_folder(), name, Some(&source))
            .with_context(|| format!("{name} is removed, but its stored data cannot be moved"))?;
        Ok(PluginRemovalOutcome {
            name: name.to_owned(),
            n_answers,
            data: aside.map(|aside| (aside, source)),
            configured: config.value_locations(&["plugins", name]).pop(),
            is_pinned: self.lock.keys.contains_key(name),
        })
    }
}

/// Reads the manifest of the installed plugin. Returns `None` if its files were changed after
/// installation, because a changed manifest could already request everything and so hide what the
/// update adds.
fn read_installed_manifest(place: &Path, locked: Option<&LockedPlugin>) -> Option<Manifest> {
    let held = InMemoryFolder::read(place).ok()?;
    locked.filter(|locked| locked.digest == held.digest())?;
    Manifest::read(place, Some(&held)).ok()
}

/// Returns the effect of replacing the installed plugin, which the lock file lists as `locked`, by
/// the fetched one. Refuses another source, an older version, and other contents under the same
/// version.
fn classify_install_change(
    locked: &LockedPlugin,
    fetched: &FetchedPlugin,
    digest: &str,
    place: &Path,
    wanted: &PluginInstallRequest<'_>,
) -> anyhow::Result<PluginInstallChangeKind> {
    let manifest = &fetched.contents.manifest;
    let (name, version) = (&manifest.name, &manifest.version);
    ensure!(
        locked.source.is_same_plugin(&fetched.source) || wanted.may_change_source,
        "{name} was installed from {}, and {} may be another author's plugin of the same name; pass --change-source if it is the same plugin, or run `rind plugin remove {name}` first",
        locked.source,
        fetched.source
    );
    refuse_change_of_plugin_registry(locked, fetched, wanted.may_change_source)?;
    ensure!(
        *version >= locked.version,
        "{name} {version} is older than the installed {}; an older version may have faults that were corrected since; to downgrade, run `rind plugin remove {name}` first",
        locked.version
    );
    if *version > locked.version {
        return Ok(PluginInstallChangeKind::Updated(locked.version.clone()));
    }
    ensure!(
        digest == locked.digest,
        "{name} {version} is already installed, and {} has other files under the same version; raise `version` in plugin.toml, or run `rind plugin remove {name}` first",
        fetched.source
    );
    let digests = [&locked.package, &fetched.package];
    if let [Some(before), Some(now)] = digests {
        ensure!(
            before.digest == now.digest || wanted.may_change_source,
            "{name} {version} is already installed from a package with the digest {}, but {} now has a package with the digest {}: versions of a \
             registry do not change, so ask its owner before you add --change-source",
            before.digest,
            fetched.source,
            now.digest
        );
    }
    let is_same = InMemoryFolder::read(place).is_ok_and(|held| held.digest() == digest);
    Ok(if is_same {
        PluginInstallChangeKind::Unchanged
    } else {
        PluginInstallChangeKind::Restored
    })
}

/// Refuses a package from another registry than before, because its name may belong to someone else
/// there.
fn refuse_change_of_plugin_registry(
    locked: &LockedPlugin,
    fetched: &FetchedPlugin,
    may_change: bool,
) -> anyhow::Result<()> {
    let (Some(before), Some(now)) = (&locked.package, &fetched.package) else {
        return Ok(());
    };
    ensure!(
        before.registry == now.registry || may_change,
        "{} was installed from the registry {}, and {} is set now, where the name may belong to somebody else; add --change-source \
         if it does not",
        fetched.source,
        before.registry,
        now.registry
    );
    Ok(())
}

/// Returns warnings about a package: that its version was yanked or deprecated, or that it has no
/// attestation although the installed version had one. A missing attestation may mean a stolen
/// token, because a token alone is not enough to make one.
fn package_version_warnings(locked: Option<&LockedPlugin>, fetched: &FetchedPlugin) -> Vec<String> {
    let before = locked.and_then(|locked| locked.package.as_ref());
    let is_lost = match (before, &fetched.package) {
        (Some(before), Some(now)) => before.has_attestation() && !now.has_attestation(),
        _ => false,
    };
    let lost = is_lost.then(|| {
        format!(
            "the registry has proof of where the installed version was built (an attestation), but none for {}: ask the owner of the package why",
            fetched.source
        )
    });
    fetched.notice.iter().cloned().chain(lost).collect()
}
