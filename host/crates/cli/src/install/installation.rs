//! The plugins that are installed, under the lock that keeps two commands from changing them at
//! once.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::super::environment::{environment, user_setup};
use super::super::exit_code::Usage;
use super::super::{alone, render};
use super::args::WiderArgs;
use super::data::{self, StoredData};
use super::{credentials, wider};
use rind_lib::disk::lock_beside;
use rind_lib::grant::Trust;
use rind_lib::grant::answers::Answers;
use rind_lib::grant::decide::Standing;
use rind_lib::grant::held::HeldFolder;
use rind_lib::paths::Paths;
use rind_lib::plugin::discover::{self, discover};
use rind_lib::plugin::load::Loaded;
use rind_lib::plugin::manifest::Manifest;
use rind_operator::grants;
use rind_operator::setup::OperatorSetup;
use rind_package::lock_file::{Entry, LockFile, Locked};
use rind_package::place::{self, Staged};
use rind_package::signature::{self, InstallConfig, Subject};
use rind_package::source::{Fetched, Source, fetch};

/// Returns the folder that plugins are installed into.
pub(super) fn folder(paths: &Paths) -> PathBuf {
    paths.config.join("plugins")
}

/// Installed plugins, locked.
pub(super) struct Installation {
    paths: Paths,
    config: InstallConfig,
    plugins: PathBuf,
    lock_path: PathBuf,
    lock: LockFile<Locked>,
    /// Held until the command ends.
    _exclusive: File,
}

pub(super) struct Wanted<'a> {
    pub(super) source: &'a Source,
    /// Name that the source must have, for an update.
    pub(super) name: Option<&'a str>,
    pub(super) may_change_source: bool,
    pub(super) wider: &'a WiderArgs,
    pub(super) has_terminal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Change {
    /// There was no plugin of this name.
    Installed,
    /// There was this version.
    Updated(semver::Version),
    /// No change: these files were there already.
    Unchanged,
    /// Files of this version were put back: they had been changed or taken away.
    Restored,
}

#[derive(Clone, Debug)]
pub(in super::super) struct Outcome {
    pub(in super::super) name: String,
    pub(in super::super) version: semver::Version,
    pub(in super::super) change: Change,
    pub(in super::super) folder: PathBuf,
    /// Key that the signature was checked with; such a plugin has the trust `package`.
    pub(in super::super) key: Option<String>,
    /// Capabilities that the operator will be asked about.
    pub(in super::super) waiting: Vec<rind_lib::grant::Capability>,
    /// Whether anything of its component is ever called.
    pub(in super::super) is_called: bool,
    /// Changes of the stored data of plugins of the name.
    pub(in super::super) stored: Vec<StoredData>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct Removed {
    pub(in super::super) name: String,
    pub(in super::super) n_answers: usize,
    /// Folder to which the plugin's data was moved, if there was any, and the source whose
    /// installation restores it.
    pub(in super::super) data: Option<(PathBuf, Source)>,
    /// Line of the settings that still configures it.
    pub(in super::super) configured: Option<String>,
    /// Whether its name stays pinned to a key.
    pub(in super::super) is_pinned: bool,
}

impl Installation {
    /// Reads the lock file, and waits for other commands that change it.
    pub(super) fn open() -> anyhow::Result<Self> {
        let OperatorSetup { paths, config, .. } = user_setup()?;
        let lock_path = paths.config.join(Locked::FILE_NAME);
        let waits = || render::note("waiting for another `rind plugin` command to end");
        let exclusive = lock_beside(&lock_path, waits)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let plugins = folder(&paths);
        place::clean_up(&plugins);
        let mut lock = LockFile::<Locked>::read(&lock_path)?;
        lock.settle(|name| place::digest(&plugins.join(name)));
        Ok(Self {
            config: config.section()?,
            lock,
            _exclusive: exclusive,
            paths,
            plugins,
            lock_path,
        })
    }

    /// Lists the installed plugins with their sources.
    pub(super) fn sources(&self) -> Vec<(String, Source)> {
        let all = self.lock.entries.iter();
        all.map(|(name, locked)| (name.clone(), locked.source.clone()))
            .collect()
    }

    /// Returns the message for a name that was not installed.
    pub(super) fn unknown(&self, name: &str) -> String {
        let shown = name.escape_debug();
        // Reject a `/`: the name is not validated yet.
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

    /// Installs, updates or restores one plugin.
    pub(super) async fn install(&mut self, wanted: &Wanted<'_>) -> anyhow::Result<Outcome> {
        // Pass the locked version: an update takes the newest version of a registry.
        let earlier = wanted.name.and_then(|name| self.lock.entries.get(name));
        let version = earlier.map(|locked| &locked.version);
        let fetched = fetch(wanted.source, version, &credentials::find()).await?;
        let manifest = &fetched.contents.manifest;
        let name = manifest.name.clone();
        if let Some(expected) = wanted.name {
            ensure!(
                name == expected,
                "{} is another plugin now: `{name}`; remove {expected}, or install it from elsewhere",
                fetched.source
            );
        }
        let mut flags = wanted.wider.grant.iter();
        if let Some(flag) = flags.find(|flag| wanted.name.is_none() && flag.plugin() != name) {
            let plugin = flag.plugin().escape_debug();
            let why = format!("--grant {plugin} has no effect: the plugin is `{name}`");
            return Err(Usage(why).into());
        }
        self.check_name(&name)?;
        let pinned = self.lock.keys.get(&name).map(String::as_str);
        let subject = Subject {
            kind: "plugin",
            name: &name,
            source: &fetched.source,
            bytes: fetched.bytes.as_deref(),
            lock_file: Locked::FILE_NAME,
            how_to_pack: format!(
                "pack it with `rind plugin pack {}` and sign the file",
                fetched.source
            ),
            signature: &|| fetched.signature(),
        };
        let key = signature::check(&self.config, pinned, &subject)?;
        let place = self.plugins.join(&name);
        let digest = fetched.contents.digest();
        let locked = self.lock.entries.get(&name).cloned();
        let change = match &locked {
            Some(locked) => change(locked, &fetched, &digest, &place, wanted)?,
            None => Change::Installed,
        };
        ensure!(
            locked.is_some() || place.symlink_metadata().is_err(),
            "{}",
            self.unknown(&name)
        );
        let staged = place::stage(fetched.contents.files(), &name, &self.plugins)?;
        let trust = match key {
            Some(_) => Trust::Package,
            None => Trust::User,
        };
        let shown = fetched.source.to_string();
        let loads = self.check_loads(&staged, &name, trust, Path::new(&shown));
        let (waiting, is_called) = loads.await?;
        if let Change::Updated(_) = change {
            let earlier = earlier_manifest(&place, locked.as_ref());
            wider::accept(
                earlier.as_ref(),
                manifest,
                wanted.wider,
                wanted.has_terminal,
            )
            .await?;
        }
        let new = Locked {
            version: manifest.version.clone(),
            source: fetched.source.clone(),
            digest,
            manifest: fetched.manifest.clone(),
            key: key.clone(),
        };
        // Move old data before the plugin is in place: it must not run with the data of another
        // plugin.
        let stored = match locked {
            None => data::settle(&self.stores(), &name, &new.source)
                .with_context(|| format!("cannot move what plugins of the name {name} stored"))?,
            // An operator who changes the source confirms that it is the same plugin, so its data
            // stays.
            Some(_) => Vec::new(),
        };
        let source = new.source.clone();
        if let Err(error) = self.put(staged, &place, &name, new, &change) {
            if stored.contains(&StoredData::Back) {
                let _ = data::put_aside(&self.stores(), &name, Some(&source));
            }
            return Err(error);
        }
        Ok(Outcome {
            version: manifest.version.clone(),
            name,
            change,
            folder: place,
            key,
            waiting,
            is_called,
            stored,
        })
    }

    /// Folder of the stored data of plugins.
    fn stores(&self) -> PathBuf {
        self.paths.data.join("plugins")
    }

    /// Refuses the names of bundled plugins: a plugin installed under such a name would never run.
    fn check_name(&self, name: &str) -> anyhow::Result<()> {
        let environment = environment();
        let managed = environment.managed_folders()?.into_iter();
        let managed: Vec<discover::Source> = managed
            .map(|path| discover::Source::new(Trust::Managed, path))
            .collect();
        let carried = environment.carried.as_ref().map(|carried| &carried.files);
        for found in discover(&managed, carried) {
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

    /// Loads the plugin as a session would. Returns the capabilities that the operator will be
    /// asked about, and whether anything of the component is ever called.
    async fn check_loads(
        &self,
        staged: &Staged,
        name: &str,
        trust: Trust,
        source: &Path,
    ) -> anyhow::Result<(Vec<rind_lib::grant::Capability>, bool)> {
        let grants = grants::options(&self.paths, &[], None, None)?;
        let set = alone::load_as(&staged.folder, trust, grants).await?;
        if let Some(why) = alone::refusal(&set, name) {
            let why = staged.in_words_of(&why, source);
            bail!("{name} is not installed, because it cannot be loaded: {why}");
        }
        let waiting = alone::decision(&set).map(|decision| decision.of(Standing::Waiting));
        let waiting = waiting.into_iter().flatten().cloned().collect();
        Ok((waiting, alone::loaded(&set).is_none_or(Loaded::is_called)))
    }

    fn put(
        &mut self,
        staged: Staged,
        place: &Path,
        name: &str,
        new: Locked,
        change: &Change,
    ) -> anyhow::Result<()> {
        let _exchange = place::exchanging(&self.plugins)?;
        let put = || match change {
            Change::Unchanged => Ok(()),
            _ => staged.put(place),
        };
        self.lock.replace(&self.lock_path, (name, name), new, put)
    }

    /// Removes an installed plugin, with the operator's answers about it. Its data are put aside,
    /// and the key of its name stays.
    pub(super) fn remove(&mut self, name: &str) -> anyhow::Result<Removed> {
        let Some(locked) = self.lock.entries.get(name) else {
            return Err(Usage(self.unknown(name)).into());
        };
        let source = locked.source.clone();
        let mut lock = self.lock.clone();
        lock.entries.remove(name);
        let exchange = place::exchanging(&self.plugins)?;
        place::remove(&self.plugins.join(name), &self.plugins)?;
        lock.write(&self.lock_path)?;
        drop(exchange);
        self.lock = lock;
        // Remove the answers too: a remaining answer would make the plugin count as missing.
        let n_answers = Answers::read(&self.paths.grants())?.revoke(name)?;
        let config = user_setup()?.config;
        let aside = data::put_aside(&self.stores(), name, Some(&source))
            .with_context(|| format!("{name} is removed, and what it stored cannot be moved"))?;
        Ok(Removed {
            name: name.to_owned(),
            n_answers,
            data: aside.map(|aside| (aside, source)),
            configured: config.places(&["plugins", name]).pop(),
            is_pinned: self.lock.keys.contains_key(name),
        })
    }
}

/// Reads the manifest of the installed plugin, unless the plugin was changed since: a changed
/// manifest could already request everything.
fn earlier_manifest(place: &Path, locked: Option<&Locked>) -> Option<Manifest> {
    let held = HeldFolder::read(place).ok()?;
    locked.filter(|locked| locked.digest == held.digest())?;
    Manifest::read(place, Some(&held)).ok()
}

/// Decides the effect of installing over this entry; refuses another source, an older version, and
/// other bytes of the same version.
fn change(
    locked: &Locked,
    fetched: &Fetched,
    digest: &str,
    place: &Path,
    wanted: &Wanted<'_>,
) -> anyhow::Result<Change> {
    let manifest = &fetched.contents.manifest;
    let (name, version) = (&manifest.name, &manifest.version);
    ensure!(
        locked.source.is_same(&fetched.source) || wanted.may_change_source,
        "{name} was installed from {}, and {} may be somebody else's plugin of the same name; add --change-source if it is not, or \
         `rind plugin remove {name}` first",
        locked.source,
        fetched.source
    );
    ensure!(
        *version >= locked.version,
        "{name} {version} is older than the installed {}; an older version may have faults that were corrected since. To go back \
         to it, `rind plugin remove {name}` first",
        locked.version
    );
    if *version > locked.version {
        return Ok(Change::Updated(locked.version.clone()));
    }
    ensure!(
        digest == locked.digest,
        "{name} {version} is installed already, and {} has other files under the same version; raise `version` in plugin.toml, or \
         `rind plugin remove {name}` first",
        fetched.source
    );
    let is_same = HeldFolder::read(place).is_ok_and(|held| held.digest() == digest);
    Ok(if is_same {
        Change::Unchanged
    } else {
        Change::Restored
    })
}
