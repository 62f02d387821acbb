//! Reads `policy.toml`: permissions that the operator allows, asks about or denies, by plugin and
//! by trust.
//!
//! There are two files. For every capability that the administrator's file mentions, it takes
//! precedence over the user's file. Within a file, `deny` takes precedence over everything else,
//! then lists for a plugin over lists for a trust, and then `ask` over `allow`. An entry that
//! allows a plugin by its name alone applies only to managed, installed and user plugins. The name
//! of a project or local plugin is not verified, so an entry for such a plugin needs its digest.
//!
//! Start from [`CapabilityPolicy::find_capability_ruling`].
//!
//! For example:
//!
//! ```toml
//! [trust.user]
//! deny = ["private-network"]
//!
//! [plugins.web-fetch]
//! allow = ["network:*.example.com"]
//! ask = ["model"]
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::pattern::CapabilityPattern;
use super::table::CapabilityRuling;
use super::{Capability, Trust};
use crate::disk::read_if_present;
use crate::near::find_nearest_name;
use crate::paths::ADMIN_POLICY_FILE_PATH;

/// Maximum size of a policy file, in bytes. Enough for a line for each of a thousand plugins.
const MAX_POLICY_FILE_BYTES: u64 = 1 << 20;

/// Error in a policy. Rind then does not start, because it cannot know what the policy denies.
#[derive(Debug, thiserror::Error)]
#[error("the policy {}: {message}", path.display())]
pub struct CapabilityPolicyError {
    /// Path of the policy file.
    pub path: PathBuf,
    /// Problem in the policy, with the line.
    pub message: String,
}

/// Lists of capabilities for one trust level.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TrustLevelPolicy {
    /// Whether questions of plugins with this trust to the user are suppressed.
    mute: bool,
    allow: Vec<CapabilityPattern>,
    ask: Vec<CapabilityPattern>,
    deny: Vec<CapabilityPattern>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PluginPolicy {
    /// Whether the policy prevents the plugin from running.
    disable: bool,
    /// Whether questions of the plugin to the user are suppressed.
    mute: bool,
    /// Whether a session may start only if the plugin runs.
    require: bool,
    /// Content digest of the only plugin to which `allow` and `require` apply.
    #[serde(deserialize_with = "content_digest")]
    digest: Option<String>,
    allow: Vec<CapabilityPattern>,
    ask: Vec<CapabilityPattern>,
    deny: Vec<CapabilityPattern>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptsPolicy {
    /// Whether the policy disables all hooks that are scripts.
    disable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyFile {
    scripts: ScriptsPolicy,
    plugins: BTreeMap<String, PluginPolicy>,
    trust: BTreeMap<Trust, TrustLevelPolicy>,
}

/// Policy of the operator, merged from both files.
///
/// [`CapabilityPolicy::find_capability_ruling`] returns the ruling on a capability. `None` means
/// that the policy does not mention the capability, so that the
/// [table](super::table::default_capability_ruling) decides.
#[derive(Clone, Debug, Default)]
pub struct CapabilityPolicy {
    /// Policy files with their display names, in descending order of precedence.
    files: Vec<(String, PolicyFile)>,
}

/// Plugin that the policy requires to run in every session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPlugin {
    /// Name of the required plugin.
    pub plugin: String,
    /// Digest that the plugin's [content](super::GrantRequest::compute_content_digest) must have;
    /// `None` if the policy allows any content.
    pub digest: Option<String>,
    /// Position of the requirement in the policy, such as `[plugins.NAME] in FILE`.
    pub place: String,
}

impl RequiredPlugin {
    /// Whether `plugin` is the required one: the name is equal, and the content has the pinned
    /// digest or, without one, the name is verified.
    #[must_use]
    pub fn matches_plugin(&self, plugin: RequestingPlugin<'_>) -> bool {
        plugin.plugin == self.plugin && plugin.is_policy_entry_applicable(self.digest.as_deref())
    }
}

/// Plugin that requests a capability, as the policy identifies it.
#[derive(Clone, Copy, Debug)]
pub struct RequestingPlugin<'a> {
    /// Name of the plugin that requests the capability.
    pub plugin: &'a str,
    /// Trust of the plugin, possibly lowered by its manifest.
    pub trust: Trust,
    /// Digest of the plugin's [content](super::GrantRequest::compute_content_digest).
    pub content: &'a str,
}

impl RequestingPlugin<'_> {
    /// Whether the policy's lists for the plugin's name apply to this plugin: `digest` is the
    /// digest of its content, or there is no `digest` and the name of the plugin is verified.
    fn is_policy_entry_applicable(self, digest: Option<&str>) -> bool {
        match digest {
            Some(digest) => digest == self.content,
            None => self.trust <= Trust::User,
        }
    }
}

impl CapabilityPolicy {
    /// Reads the policy files in `paths`, in descending order of precedence. Skips missing files.
    ///
    /// # Errors
    /// A file cannot be read or is not a policy.
    pub fn read_files(paths: &[PathBuf]) -> Result<Self, CapabilityPolicyError> {
        let mut files = Vec::new();
        for path in paths {
            if let Some(text) = read_policy_text(path)? {
                files.push(parse_policy_file(&text, path)?);
            }
        }
        Ok(Self { files })
    }

    /// Parses policy texts, each with its path, in descending order of precedence.
    ///
    /// # Errors
    /// A text is not a valid policy.
    pub fn parse(texts: &[(&str, &Path)]) -> Result<Self, CapabilityPolicyError> {
        let files: Result<Vec<_>, _> = texts
            .iter()
            .map(|(text, path)| parse_policy_file(text, path))
            .collect();
        Ok(Self { files: files? })
    }

    /// Returns a copy of the policy that contains only the administrator's file.
    #[must_use]
    pub fn to_administrator_policy(&self) -> Self {
        let files = self
            .files
            .iter()
            .filter(|(name, _)| name == ADMIN_POLICY_FILE_PATH);
        Self {
            files: files.cloned().collect(),
        }
    }

    /// Returns the reason why the lists under the plugin's name do not apply to this plugin; `None`
    /// if they apply, or if they allow nothing.
    #[must_use]
    pub fn reason_plugin_entry_does_not_apply(
        &self,
        asker: RequestingPlugin<'_>,
    ) -> Option<String> {
        let passed_over = |(name, file): &(String, PolicyFile)| {
            let lists = file.plugins.get(asker.plugin)?;
            if asker.is_policy_entry_applicable(lists.digest.as_deref()) || lists.allow.is_empty() {
                return None;
            }
            let place = format!("[plugins.{}] in {name}", asker.plugin);
            Some(match &lists.digest {
                Some(digest) => format!(
                    "{place} applies only to the plugin with digest {}, and this plugin has digest {}",
                    short_digest(digest),
                    short_digest(asker.content)
                ),
                None => format!(
                    "{place} has no digest, so it does not apply to {} plugins",
                    asker.trust
                ),
            })
        };
        self.files.iter().find_map(passed_over)
    }

    /// Returns a warning for each name in the policy that is probably misspelled, with its
    /// position: no known plugin has the name, but one has a similar name. Other unknown names are
    /// not reported, because an administrator may deny plugins before they are installed.
    #[must_use]
    pub fn misspelled_plugin_name_warnings(&self, known: &[&str]) -> Vec<String> {
        let names = self.files.iter().flat_map(|(file, lists)| {
            let names = lists.plugins.keys();
            names.map(move |name| (name, file))
        });
        let misspelt = names.filter_map(|(name, file)| {
            let is_unknown = !known.contains(&name.as_str());
            let nearest = is_unknown.then(|| find_nearest_name(name, known.iter().copied()))??;
            Some(format!(
                "[plugins.{name}] in {file}: there is no plugin `{name}`; did you mean `{nearest}`?"
            ))
        });
        misspelt.collect()
    }

    /// Returns the position in the policy that disables a plugin; `None` if the plugin is not
    /// disabled.
    #[must_use]
    pub fn find_disabling_entry(&self, plugin: &str) -> Option<String> {
        let disables =
            |file: &PolicyFile| file.plugins.get(plugin).is_some_and(|lists| lists.disable);
        let (name, _) = self.files.iter().find(|(_, file)| disables(file))?;
        Some(format!("[plugins.{plugin}] in {name}"))
    }

    /// Returns the position in the policy that mutes a plugin; `None` if the plugin is not muted.
    /// Questions of a muted plugin get their default answer. A file of lower precedence cannot undo
    /// this.
    #[must_use]
    pub fn find_entry_muting_plugin(&self, plugin: &str, trust: Trust) -> Option<String> {
        self.files.iter().find_map(|(name, file)| {
            if file.plugins.get(plugin).is_some_and(|lists| lists.mute) {
                return Some(format!("[plugins.{plugin}] in {name}"));
            }
            let is_muted = file.trust.get(&trust).is_some_and(|lists| lists.mute);
            is_muted.then(|| format!("[trust.{trust}] in {name}"))
        })
    }

    /// Returns the position in the policy that disables a script, by name or together with all
    /// others; `None` if the script is not disabled.
    #[must_use]
    pub fn find_entry_disabling_script(&self, name: &str) -> Option<String> {
        let all = self.files.iter().find(|(_, file)| file.scripts.disable);
        let all = all.map(|(file, _)| format!("[scripts] in {file}"));
        all.or_else(|| self.find_disabling_entry(name))
    }

    /// Returns the plugins that the policy requires to run in every session.
    #[must_use]
    pub fn required_plugins(&self) -> Vec<RequiredPlugin> {
        let of_file = |(file, lists): (&String, &PolicyFile)| -> Vec<RequiredPlugin> {
            let required = lists.plugins.iter().filter(|(_, lists)| lists.require);
            required
                .map(|(plugin, lists)| RequiredPlugin {
                    plugin: plugin.clone(),
                    digest: lists.digest.clone(),
                    place: format!("[plugins.{plugin}] in {file}"),
                })
                .collect()
        };
        let files = self.files.iter().map(|(file, lists)| (file, lists));
        files.flat_map(of_file).collect()
    }

    /// Returns the policy's ruling on a capability and the position of the ruling; `None` if the
    /// policy does not mention the capability.
    #[must_use]
    pub fn find_capability_ruling(
        &self,
        asker: RequestingPlugin<'_>,
        wanted: &Capability,
    ) -> Option<(CapabilityRuling, String)> {
        self.files
            .iter()
            .find_map(|(name, file)| file.find_capability_ruling(name, asker, wanted))
    }
}

/// Returns the first digits of a digest, enough to compare by eye.
fn short_digest(digest: &str) -> String {
    match digest.get(..19) {
        Some(start) if digest.len() > 19 => format!("{start}…"),
        _ => digest.to_owned(),
    }
}

impl PolicyFile {
    fn find_capability_ruling(
        &self,
        name: &str,
        asker: RequestingPlugin<'_>,
        wanted: &Capability,
    ) -> Option<(CapabilityRuling, String)> {
        let plugin = self.plugins.get(asker.plugin);
        let trust = self.trust.get(&asker.trust);
        let of_plugin = || format!("[plugins.{}] in {name}", asker.plugin);
        let of_trust = || format!("[trust.{}] in {name}", asker.trust);
        let touched = |list: &[CapabilityPattern]| list.iter().any(|p| p.denies_part_of(wanted));
        let covered = |list: &[CapabilityPattern]| list.iter().any(|p| p.covers(wanted));
        if plugin.is_some_and(|lists| touched(&lists.deny)) {
            return Some((CapabilityRuling::Deny, of_plugin()));
        }
        if trust.is_some_and(|lists| touched(&lists.deny)) {
            return Some((CapabilityRuling::Deny, of_trust()));
        }
        if let Some(lists) = plugin {
            if touched(&lists.ask) {
                return Some((CapabilityRuling::Ask, of_plugin()));
            }
            if asker.is_policy_entry_applicable(lists.digest.as_deref()) && covered(&lists.allow) {
                return Some((CapabilityRuling::Allow, of_plugin()));
            }
        }
        let lists = trust?;
        if touched(&lists.ask) {
            return Some((CapabilityRuling::Ask, of_trust()));
        }
        covered(&lists.allow).then(|| (CapabilityRuling::Allow, of_trust()))
    }
}

fn read_policy_text(path: &Path) -> Result<Option<String>, CapabilityPolicyError> {
    read_if_present(path, MAX_POLICY_FILE_BYTES).map_err(|error| CapabilityPolicyError {
        path: path.to_owned(),
        message: format!("cannot be read: {error}"),
    })
}

/// Prefix of content digests, and the number of digits after it.
const CONTENT_DIGEST_PREFIX: &str = "blake3:";
const CONTENT_DIGEST_HEX_DIGITS: usize = 64;

/// Parses a content digest. A malformed digest is an error, because a rule with it would never
/// match, without any notice.
fn content_digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let digest = String::deserialize(deserializer)?;
    let digits = digest
        .strip_prefix(CONTENT_DIGEST_PREFIX)
        .unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != CONTENT_DIGEST_HEX_DIGITS || !digits.bytes().all(is_digit) {
        return Err(D::Error::custom(format!(
            "`{}` is not the digest of a plugin's content, which is `{CONTENT_DIGEST_PREFIX}` and {CONTENT_DIGEST_HEX_DIGITS} digits of 0-9 and a-f, \
             as `rind plugin inspect NAME --grants` shows it",
            digest.escape_debug()
        )));
    }
    Ok(Some(digest))
}

fn parse_policy_file(
    text: &str,
    path: &Path,
) -> Result<(String, PolicyFile), CapabilityPolicyError> {
    let file = toml::from_str(text).map_err(|e| CapabilityPolicyError {
        path: path.to_owned(),
        message: e.to_string().trim_end().to_owned(),
    })?;
    Ok((path.display().to_string(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content digest of the plugin `p`, and a different one.
    const CONTENT: &str = "blake3:1111111111111111111111111111111111111111111111111111111111111111";
    const OTHER: &str = "blake3:2222222222222222222222222222222222222222222222222222222222222222";

    /// Returns the ruling of these policies on a capability of the plugin `p`.
    fn ruling(texts: &[&str], trust: Trust, wanted: &str) -> String {
        let paths = ["admin", "user"].map(Path::new);
        let texts: Vec<_> = texts.iter().copied().zip(paths).collect();
        let asker = RequestingPlugin {
            plugin: "p",
            trust,
            content: CONTENT,
        };
        match CapabilityPolicy::parse(&texts)
            .unwrap()
            .find_capability_ruling(asker, &wanted.into())
        {
            None => "-".to_owned(),
            Some((ruling, place)) => format!("{ruling} by {place}"),
        }
    }

    #[test]
    fn the_administrators_file_wins_wherever_it_says_something() {
        let admin = "[trust.user]\ndeny = [\"network\"]\nask = [\"model\"]";
        let user = "[plugins.p]\nallow = [\"network\", \"model\", \"session\"]";
        for (wanted, expected) in [
            ("network:a.b", "deny by [trust.user] in admin"),
            ("model", "ask by [trust.user] in admin"),
            ("session", "allow by [plugins.p] in user"),
            ("agents", "-"),
        ] {
            assert_eq!(ruling(&[admin, user], Trust::User, wanted), expected);
        }
    }

    #[test]
    fn within_a_file_deny_wins_and_a_plugin_goes_before_its_trust() {
        let trust = "[trust.user]\nask = [\"session\"]\ndeny = [\"model\"]";
        let plugin = format!("{trust}\n[plugins.p]\nallow = [\"session\", \"model\"]");
        for (text, wanted, expected) in [
            (&*plugin, "session", "allow by [plugins.p] in admin"),
            (&*plugin, "model", "deny by [trust.user] in admin"),
            (trust, "session", "ask by [trust.user] in admin"),
        ] {
            assert_eq!(ruling(&[text], Trust::User, wanted), expected);
        }
    }

    #[test]
    fn a_name_alone_allows_nothing_to_a_plugin_that_anybody_could_have_named() {
        for (digest, trust, expected) in [
            (None, Trust::Local, "-"),
            (Some(CONTENT), Trust::Local, "allow by [plugins.p] in admin"),
            (Some(OTHER), Trust::User, "-"),
        ] {
            let digest = digest.map(|digest| format!("digest = \"{digest}\""));
            let digest = digest.unwrap_or_default();
            let text = format!("[plugins.p]\n{digest}\nallow = [\"session\"]");
            assert_eq!(ruling(&[&text], trust, "session"), expected);
        }
    }

    #[test]
    fn a_plugin_is_muted_by_its_name_or_its_trust_in_any_file() {
        let paths = ["admin", "user"].map(Path::new);
        let texts = ["[trust.local]\nmute = true", "[plugins.p]\nmute = true"];
        let policy: Vec<_> = texts.into_iter().zip(paths).collect();
        let policy = CapabilityPolicy::parse(&policy).unwrap();
        for (plugin, trust, expected) in [
            ("p", Trust::User, Some("[plugins.p] in user")),
            ("p", Trust::Local, Some("[trust.local] in admin")),
            ("q", Trust::Local, Some("[trust.local] in admin")),
            ("q", Trust::User, None),
        ] {
            assert_eq!(
                policy.find_entry_muting_plugin(plugin, trust).as_deref(),
                expected
            );
        }
    }

    #[test]
    fn a_policy_with_a_mistake_is_refused_with_its_line() {
        for text in [
            "[plugin.x]\n",
            "[trust.root]\nallow = []",
            "[trust.user]\nallow = [\"sesion\"]",
            "[plugins.p]\ndigest = \"sha256:00\"",
            "[plugins.p]\ndigest = \"blake3:00\"",
            "[plugins.p]\ndigest = \"\"",
            &format!("[plugins.p]\ndigest = \"sha256{}\"", &CONTENT[6..]),
            &format!(
                "[plugins.p]\ndigest = \"{}A\"",
                &CONTENT[..CONTENT.len() - 1]
            ),
        ] {
            let error = CapabilityPolicy::parse(&[(text, Path::new("policy.toml"))]).unwrap_err();
            assert!(error.to_string().contains("line"), "{error}");
        }
    }
}
