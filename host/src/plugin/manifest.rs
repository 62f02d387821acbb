//! `plugin.toml`: what a plugin says of itself.
//!
//! Owns the format and its checks; it gives nothing and trusts nothing. Unknown keys are errors that point at their line.
//! Format: section 4 of the design, reproduced in the README.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;

use super::Error;
use crate::point::catalog;
use crate::point::dispatch::Kind;
use crate::point::failure::OnFailure;

/// What a plugin says it does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SideEffect {
    /// Nothing at all; stands alone.
    None,
    /// Reads or writes files.
    Filesystem,
    /// Talks over the network.
    Network,
    /// Reads or changes the conversation: prompts, messages, tool calls, the model.
    Session,
    /// Asks models, runs agents or other tools.
    External,
}

impl std::fmt::Display for SideEffect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Filesystem => "filesystem",
            Self::Network => "network",
            Self::Session => "session",
            Self::External => "external",
        })
    }
}

/// Options of one hook, or of one implementation of a plugin-defined point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookOptions {
    /// Lower runs first; 100 when absent.
    pub priority: Option<u16>,
    /// What its failure does; `block` for gates and `skip` for the rest when absent.
    pub on_failure: Option<OnFailure>,
    /// Whether the turn goes on without waiting; observe points only.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// How long one call may take; at most the host's 5 s, 15 s for `async`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
}

/// `[filesystem]`: folders that the plugin asks for, `workspace[/sub]` or `data`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// To read.
    #[serde(default)]
    pub read: Vec<String>,
    /// To read and write.
    #[serde(default)]
    pub write: Vec<String>,
}

/// `[[network.credentials]]`: a header that the host adds on the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Host that gets it.
    pub host: String,
    /// Name of the header.
    pub header: String,
    /// Its value, with `{NAME}` for secrets that the operator keeps.
    pub value: String,
}

/// `[network]`: hosts that the plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Host names, `*.` in front for subdomains, `:port` behind for another port than 443.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Headers that the host adds.
    #[serde(default)]
    pub credentials: Vec<Credential>,
}

/// `[external]`: other powers of the host that the plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct External {
    /// Asking the model.
    #[serde(default)]
    pub model: bool,
    /// Running subagents.
    #[serde(default)]
    pub agents: bool,
    /// Calling these tools.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// `[limits]`: lower bounds than the host's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Linear memory over all memories of an instance, as `"64MiB"`.
    #[serde(default, with = "bytes")]
    pub memory: Option<u64>,
    /// How long one call may take, as `"5s"` or `"500ms"`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
}

/// `[points.NAME]`: a point that the plugin defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointDeclaration {
    /// Its kind.
    pub kind: Kind,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of what implementers are shown, an object; anything when absent.
    #[serde(default)]
    pub payload: Option<Value>,
    /// JSON Schema of what they answer, an object; anything when absent.
    #[serde(default)]
    pub result: Option<Value>,
}

/// `[compat]`: concessions to guests that import more than they use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compat {
    /// `"inert"` links `wasi:sockets` to a context that denies everything.
    pub sockets: Option<InertSockets>,
}

/// The only value of `[compat] sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InertSockets {
    /// Linked, and denied at every call.
    Inert,
}

/// A whole manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Unique name, `[a-z0-9-]`, at most 64 bytes.
    pub name: String,
    /// Version of the plugin.
    pub version: semver::Version,
    /// What it does, in a sentence.
    pub description: String,
    /// File name of the component; absent for a plugin of prompts and skills only.
    #[serde(default)]
    pub component: Option<String>,
    /// What it does to the world.
    #[serde(default)]
    pub side_effects: Vec<SideEffect>,
    /// Options of its hooks by point; the exports of the component say which it has.
    #[serde(default, serialize_with = "plain_keys")]
    pub hooks: BTreeMap<Spanned<String>, HookOptions>,
    /// Folders.
    #[serde(default)]
    pub filesystem: Option<Filesystem>,
    /// Hosts.
    #[serde(default)]
    pub network: Option<Network>,
    /// Other powers.
    #[serde(default)]
    pub external: Option<External>,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// JSON Schema of its settings.
    #[serde(default)]
    pub config: Option<Value>,
    /// Plugins that must be loaded before it.
    #[serde(default)]
    pub dependencies: BTreeMap<String, semver::VersionReq>,
    /// Points that it defines.
    #[serde(default)]
    pub points: BTreeMap<String, PointDeclaration>,
    /// Points of others that it implements, written `owner.NAME`.
    #[serde(default)]
    pub implements: BTreeMap<String, HookOptions>,
    /// Concessions.
    #[serde(default)]
    pub compat: Compat,
}

/// File name of a manifest.
pub const FILE_NAME: &str = "plugin.toml";

impl Manifest {
    /// Reads and checks `folder/plugin.toml`.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE_NAME);
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        Self::parse(&text, &path)
    }

    /// Parses and checks a manifest; `path` is for messages only.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let refuse = |message: String| Error::Manifest {
            path: path.to_owned(),
            message,
        };
        let mut manifest: Self =
            toml::from_str(text).map_err(|e| refuse(e.to_string().trim_end().to_owned()))?;
        manifest.check(text).map_err(refuse)?;
        Ok(manifest)
    }

    /// Whether a side effect is declared.
    #[must_use]
    pub fn has(&self, effect: SideEffect) -> bool {
        self.side_effects.contains(&effect)
    }

    /// Options of the hook on `point`, the defaults when none are given.
    #[must_use]
    pub fn hook(&self, point: &str) -> HookOptions {
        self.hooks
            .iter()
            .find(|(name, _)| name.get_ref() == point)
            .map(|(_, options)| options.clone())
            .unwrap_or_default()
    }

    /// Where the component is, if the plugin has one.
    #[must_use]
    pub fn component_path(&self, folder: &Path) -> Option<PathBuf> {
        self.component.as_ref().map(|name| folder.join(name))
    }

    fn check(&mut self, text: &str) -> Result<(), String> {
        check_name(&self.name)?;
        if let Some(component) = &self.component
            && (component.is_empty()
                || component.contains(['/', '\\'])
                || component.starts_with('.'))
        {
            return Err(format!(
                "component = \"{component}\" is not the name of a file beside the manifest"
            ));
        }
        if self.has(SideEffect::None) && self.side_effects.len() > 1 {
            return Err(
                "side_effects: `none` stands alone; leave it out when there are others".to_owned(),
            );
        }
        self.check_sections()?;
        self.check_hooks(text)?;
        for name in self.points.keys() {
            check_name(name).map_err(|e| format!("[points.{name}]: {e}"))?;
        }
        for (name, options) in &self.implements {
            if name.split_once('.').is_none_or(|(owner, point)| {
                check_name(owner).is_err() || check_name(point).is_err()
            }) {
                return Err(format!("[implements] `{name}` is not written `owner.NAME`"));
            }
            if options.is_async {
                return Err(format!(
                    "[implements] `{name}`: the owner of a point waits for its answers, so `async` is not possible"
                ));
            }
        }
        Ok(())
    }

    /// A section that asks for something needs the side effect that says so.
    fn check_sections(&self) -> Result<(), String> {
        let sections = [
            (
                "filesystem",
                self.filesystem.is_some(),
                SideEffect::Filesystem,
            ),
            ("network", self.network.is_some(), SideEffect::Network),
            ("external", self.external.is_some(), SideEffect::External),
        ];
        for (section, is_there, effect) in sections {
            if is_there && !self.has(effect) {
                return Err(format!("[{section}] needs `side_effects = [\"{effect}\"]`"));
            }
        }
        Ok(())
    }

    /// Hooks must name points of the catalog; an alias is put in the catalog's words.
    fn check_hooks(&mut self, text: &str) -> Result<(), String> {
        let mut hooks = BTreeMap::new();
        for (name, options) in std::mem::take(&mut self.hooks) {
            let at = format!(
                "line {}, [hooks.{}]",
                line_of(text, name.span().start),
                name.get_ref()
            );
            let Some(row) = catalog::find(name.get_ref()) else {
                return Err(format!(
                    "{at}: there is no such point; the points are {}",
                    point_names()
                ));
            };
            if options.is_async && row.kind != Kind::Observe {
                return Err(format!(
                    "{at}: only hooks of observe points can be `async`, and {} is a {} point",
                    row.name, row.kind
                ));
            }
            if options.on_failure == Some(OnFailure::Block)
                && matches!(row.kind, Kind::Observe | Kind::Collect)
            {
                return Err(format!(
                    "{at}: a hook of a {} point has nothing to block",
                    row.kind
                ));
            }
            let key = Spanned::new(name.span(), row.name.to_owned());
            if hooks.insert(key, options).is_some() {
                return Err(format!("{at}: the hook on {} has options twice", row.name));
            }
        }
        self.hooks = hooks;
        Ok(())
    }
}

fn point_names() -> String {
    let names: Vec<&str> = catalog::CATALOG.iter().map(|row| row.name).collect();
    names.join(", ")
}

fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_fine) {
        return Err(format!(
            "the name `{}` is not made of 1 to 64 of a-z, 0-9 and `-`",
            name.escape_debug()
        ));
    }
    Ok(())
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(at)
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

fn plain_keys<S: serde::Serializer>(
    hooks: &BTreeMap<Spanned<String>, HookOptions>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        hooks
            .iter()
            .map(|(name, options)| (name.get_ref(), options)),
    )
}

/// `"64MiB"`: a number and one of B, KiB, MiB, GiB.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const UNITS: [(&str, u64); 4] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("B", 1),
    ];

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = UNITS.iter().find_map(|(unit, factor)| {
            let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(*factor)
        });
        parsed.map(Some).ok_or_else(|| {
            D::Error::custom(format!(
                "`{text}` is not a size like \"64MiB\" (B, KiB, MiB, GiB)"
            ))
        })
    }

    pub(super) fn serialize<S: Serializer>(
        value: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(bytes) => serializer.serialize_str(&format!("{bytes}B")),
            None => serializer.serialize_none(),
        }
    }
}

/// `"5s"` or `"500ms"`.
mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let millis = match text.strip_suffix("ms") {
            Some(number) => number.trim().parse::<u64>().ok(),
            None => text
                .strip_suffix('s')
                .and_then(|number| number.trim().parse::<u64>().ok()?.checked_mul(1000)),
        };
        match millis {
            Some(0) => Err(D::Error::custom(
                "a time of 0 would stop every call before it starts",
            )),
            Some(millis) => Ok(Some(Duration::from_millis(millis))),
            None => Err(D::Error::custom(format!(
                "`{text}` is not a time like \"5s\" or \"500ms\""
            ))),
        }
    }

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(time) => serializer.serialize_str(&format!("{}ms", time.as_millis())),
            None => serializer.serialize_none(),
        }
    }
}
