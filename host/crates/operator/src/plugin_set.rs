//! Applies a plugin set that was published for several machines, for example all machines of a
//! fleet. The plugins run with exactly the permissions that the set grants; otherwise no session
//! starts.
//!
//! The module must not know the source and the signer of a set, which the caller has checked. The
//! policy of this machine's operator takes precedence: if it denies a permission of the set, the
//! set is refused. Rules of the set can only deny, because a rule that asks would loosen a default
//! that denies. Start from [`ExternalPluginSet`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use rind_lib::config::{Config, ConfigLayer, PluginsConfig, Section};
use rind_lib::grant::Trust;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::plugin::discover::FoundPlugin;
use rind_lib::plugin::installed::InstalledPlugin;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::tool::policy::{PolicyRule, ToolPolicy};

/// Name that messages use for the settings of a plugin set.
const PLUGIN_SET_SETTINGS_LABEL: &str = "the settings of the set of plugins";

/// Key of the list of rules in the section of the policy, and key of the decision in a rule.
const POLICY_RULES_KEY: &str = "rules";
const POLICY_RULE_DECISION_KEY: &str = "decision";

/// Plugin set with plugins, their settings, and rules for tool calls.
#[derive(Clone, Debug)]
pub struct ExternalPluginSet {
    digest: String,
    plugins: Vec<ExternalPluginSetMember>,
    settings: Option<ConfigLayer>,
    rules: Vec<PolicyRule>,
}

/// Plugin of an external plugin set.
#[derive(Clone, Debug)]
pub struct ExternalPluginSetMember {
    /// Name of the plugin, which must equal the name in its manifest.
    pub name: String,
    /// Version of the plugin, which must equal the version in its manifest.
    pub version: String,
    /// Folder that contains the plugin's files.
    pub folder: PathBuf,
    /// Files of the plugin, whose hashes were compared with the set.
    pub files: Arc<InMemoryFolder>,
    /// Permissions that the set grants to the plugin, in their text form.
    pub grants: Vec<String>,
}

impl ExternalPluginSet {
    /// Creates a set from its digest, its plugins, and its settings as
    /// [`serialize_plugin_set_settings`] writes them.
    ///
    /// # Errors
    /// Two plugins have the same name, or the settings contain anything but settings of these
    /// plugins and rules that deny.
    pub fn new(
        digest: &str,
        plugins: Vec<ExternalPluginSetMember>,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let names: BTreeSet<&str> = plugins.iter().map(|own| own.name.as_str()).collect();
        ensure!(
            names.len() == plugins.len(),
            "the set has two plugins of one name"
        );
        let mut table: toml::Table =
            toml::from_str(settings).with_context(|| PLUGIN_SET_SETTINGS_LABEL.to_owned())?;
        let rules = extract_denial_rules(&mut table)?;
        if let Some(toml::Value::Table(own)) = table.get(PluginsConfig::NAME) {
            let foreign = own.keys().find(|name| !names.contains(name.as_str()));
            if let Some(name) = foreign {
                bail!(
                    "{PLUGIN_SET_SETTINGS_LABEL} have the section [plugins.{}], but the set has no plugin of this name",
                    name.escape_debug()
                );
            }
        }
        let other = table.keys().find(|key| *key != PluginsConfig::NAME);
        if let Some(other) = other {
            bail!(
                "{PLUGIN_SET_SETTINGS_LABEL} have the section `{}`; a set may have only settings of its own plugins, and rules that deny calls of tools",
                other.escape_debug()
            );
        }
        let settings = match table.is_empty() {
            true => None,
            false => Some(ConfigLayer::from_file_text(
                Path::new(PLUGIN_SET_SETTINGS_LABEL),
                table.to_string(),
            )?),
        };
        Ok(Self {
            digest: digest.to_owned(),
            plugins,
            settings,
            rules,
        })
    }

    /// Returns the digest that identifies this set of plugins.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the rules of the set, all of which deny tool calls.
    #[must_use]
    pub fn denial_rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// Adds the settings that the plugin set contains for its plugins. They take precedence over
    /// the settings of this machine.
    ///
    /// # Errors
    /// A setting is unknown or wrong.
    pub(crate) fn add_settings_to_config(&self, config: Config) -> anyhow::Result<Config> {
        let Some(layer) = &self.settings else {
            return Ok(config);
        };
        let config = config.with_layer(layer.clone());
        config.section::<PluginsConfig>()?;
        Ok(config)
    }

    /// Returns the plugins of the set in the form in which a search for plugins returns them.
    pub(crate) fn to_plugin_search_results(&self) -> Vec<FoundPlugin> {
        let plugins = self.plugins.iter();
        let found = plugins.map(|own| FoundPlugin {
            trust: Trust::Package,
            folder: own.folder.clone(),
        });
        found.collect()
    }

    /// Returns the plugins of the set as installed plugins, which are loaded from files in memory.
    pub(crate) fn to_installed_plugins(&self) -> Vec<InstalledPlugin> {
        let plugins = self.plugins.iter();
        let installed = plugins.map(|own| InstalledPlugin {
            name: own.name.clone(),
            folder: own.folder.clone(),
            trust: Trust::Package,
            files: Ok(own.files.clone()),
            note: None,
        });
        installed.collect()
    }

    /// Returns the permissions that the set grants, keyed by the name of the plugin.
    pub(crate) fn grants(&self) -> BTreeMap<String, Vec<String>> {
        let plugins = self.plugins.iter();
        plugins
            .map(|own| (own.name.clone(), own.grants.clone()))
            .collect()
    }

    /// Checks that every plugin of the set runs, has the stated name and version, and has all
    /// permissions that the set grants. The grants of the set already exclude further permissions.
    ///
    /// # Errors
    /// A plugin does not run, has another name or version, or lacks a permission because a policy
    /// of this machine denies it or the plugin does not request it.
    pub(crate) fn check_loaded_plugins_match_set(
        &self,
        loaded: &FoundPluginSet,
    ) -> anyhow::Result<()> {
        for own in &self.plugins {
            let (name, version) = (&own.name, &own.version);
            let mut running = loaded.plugins.iter();
            let Some(plugin) = running.find(|plugin| plugin.folder == own.folder) else {
                let mut left_out = loaded.left_out.iter();
                let left = left_out.find(|left| left.found.folder == own.folder);
                let why = left.map(|left| left.why.to_string());
                bail!(
                    "plugin {name} of the set does not run here: {}",
                    why.as_deref().unwrap_or("it was not found")
                );
            };
            let manifest = &plugin.manifest;
            ensure!(
                manifest.name == *name && manifest.version.to_string() == *version,
                "plugin {name} {version} of the set is {} {} by its manifest",
                manifest.name,
                manifest.version
            );
            let granted = plugin.granted_capabilities().capabilities().iter();
            let granted: BTreeSet<String> = granted.map(ToString::to_string).collect();
            let missing = own.grants.iter().find(|grant| !granted.contains(*grant));
            if let Some(missing) = missing {
                let mut rows = plugin.decision.rows.iter();
                let row = rows.find(|row| row.capability.to_string() == *missing);
                let why = row.map_or("the plugin does not ask for it", |row| row.why.as_str());
                bail!(
                    "plugin {name} of the set is granted `{}`, which it does not get here: {why}",
                    missing.escape_debug()
                );
            }
        }
        Ok(())
    }
}

/// Removes the rules for tool calls from the settings of a plugin set, and returns them. Fails if a
/// rule does not deny, or if the section contains anything but rules.
fn extract_denial_rules(table: &mut toml::Table) -> anyhow::Result<Vec<PolicyRule>> {
    let Some(tools) = table.remove(ToolPolicy::NAME) else {
        return Ok(Vec::new());
    };
    let only_rules = tools
        .as_table()
        .is_some_and(|tools| tools.keys().all(|key| key == POLICY_RULES_KEY));
    ensure!(
        only_rules,
        "{PLUGIN_SET_SETTINGS_LABEL} have more than `rules` in [{}]",
        ToolPolicy::NAME
    );
    let rules = tools.get(POLICY_RULES_KEY).and_then(toml::Value::as_array);
    let is_other = |rule: &toml::Value| {
        rule.get(POLICY_RULE_DECISION_KEY)
            .is_none_or(|is| !is_denying_decision(is))
    };
    ensure!(
        !rules.is_some_and(|rules| rules.iter().any(is_other)),
        "{PLUGIN_SET_SETTINGS_LABEL} have a rule that does not deny; rules of a set can only deny"
    );
    let text = toml::Table::from_iter([(ToolPolicy::NAME.to_owned(), tools)]).to_string();
    let layer = ConfigLayer::from_file_text(Path::new(PLUGIN_SET_SETTINGS_LABEL), text)?;
    Ok(Config::new(vec![layer]).section::<ToolPolicy>()?.rules)
}

fn is_denying_decision(decision: &toml::Value) -> bool {
    decision.as_str() == Some("deny")
}

/// Creates the settings of a plugin set as TOML: the sections of these plugins, and the rules that
/// deny. The second value is the number of other rules, which are omitted.
///
/// # Errors
/// The settings or the rules are wrong.
pub fn serialize_plugin_set_settings(
    config: &Config,
    plugins: &[&str],
) -> anyhow::Result<(String, usize)> {
    let mut table = toml::Table::new();
    let mut own = config.merged_section_table(PluginsConfig::NAME);
    own.retain(|name, _| plugins.contains(&name));
    if !own.is_empty() {
        table.insert(PluginsConfig::NAME.to_owned(), toml::Value::Table(own));
    }
    let rules = config.section::<ToolPolicy>()?.rules;
    let rules = rules.iter().map(toml::Value::try_from);
    let all: Vec<toml::Value> = rules
        .collect::<Result<_, _>>()
        .context("cannot convert a rule to TOML")?;
    let n_all = all.len();
    let denials = all.into_iter();
    let denials: Vec<toml::Value> = denials
        .filter(|rule| {
            rule.get(POLICY_RULE_DECISION_KEY)
                .is_some_and(is_denying_decision)
        })
        .collect();
    let n_other = n_all - denials.len();
    if !denials.is_empty() {
        let rules =
            toml::Table::from_iter([(POLICY_RULES_KEY.to_owned(), toml::Value::Array(denials))]);
        table.insert(ToolPolicy::NAME.to_owned(), toml::Value::Table(rules));
    }
    Ok((table.to_string(), n_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &str) -> anyhow::Result<ExternalPluginSet> {
        let root = tempfile::tempdir().unwrap();
        let plugin = ExternalPluginSetMember {
            name: "guard".to_owned(),
            version: "0.1.0".to_owned(),
            folder: root.path().to_owned(),
            files: Arc::new(InMemoryFolder::read(root.path()).unwrap()),
            grants: Vec::new(),
        };
        ExternalPluginSet::new("d", vec![plugin], settings)
    }

    #[test]
    fn settings_of_a_set_are_those_of_its_plugins_and_rules_that_deny() {
        let text = "[plugins.guard]\npriority = 3\n[plugins.other]\npriority = 4\n[agent]\nmax_steps = 3\n[tools]\nrules = [\
                    { command = \"rm *\", decision = \"deny\" }, { command = \"ls\", decision = \"allow\" }]\n";
        let layer = ConfigLayer::from_file_text(Path::new("config.toml"), text.to_owned()).unwrap();
        let (written, n_other) =
            serialize_plugin_set_settings(&Config::new(vec![layer]), &["guard"]).unwrap();
        assert_eq!(n_other, 1);
        assert!(
            written.contains("guard") && written.contains("rm *"),
            "{written}"
        );
        assert!(
            !written.contains("other") && !written.contains("\"ls\""),
            "{written}"
        );
        assert_eq!(set(&written).unwrap().denial_rules().len(), 1);
        assert_eq!(set("").unwrap().denial_rules().len(), 0);
    }

    #[test]
    fn a_set_with_settings_beyond_its_plugins_is_refused() {
        for (settings, why) in [
            ("[plugins.other]\nenabled = false", "no plugin of this name"),
            ("[sandbox]\nbash = \"off\"", "the section `sandbox`"),
            ("[tools.defaults]\nexecute = \"allow\"", "more than `rules`"),
            (
                "[tools]\nrules = [{ decision = \"allow\" }]",
                "does not deny",
            ),
            ("[tools]\nrules = [{ tool = \"bash\" }]", "does not deny"),
            (
                "[tools]\nrules = [{ tool = \"bash\", decision = \"ask\" }]",
                "does not deny",
            ),
            ("[tools", "the settings of the set"),
        ] {
            let refused = format!("{:#}", set(settings).unwrap_err());
            assert!(refused.contains(why), "{settings}: {refused}");
        }
    }
}
