//! Whether a tool call may run: the operator's rules, the defaults of each effect class, and the modes of this run.
//!
//! Pure: it asks nobody and runs nothing. What hooks say comes before and cannot allow what is denied here. Start from
//! [`ToolPolicy::decide`].

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::preview::preview;
use crate::config::Section;
use crate::message::{EffectClass, ToolSpec};

/// What a rule or a default says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The call runs.
    Allow,
    /// Somebody is asked first.
    Ask,
    /// The call does not run.
    Deny,
}

/// What holds for an effect class that no rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassDefaults {
    /// For tools that only read. Default: allow.
    pub read: Rule,
    /// For tools that change files. Default: ask.
    pub write: Rule,
    /// For tools that run programs. Default: ask.
    pub execute: Rule,
    /// For tools that talk to the network or to other services. Default: ask.
    pub external: Rule,
}

impl Default for ClassDefaults {
    fn default() -> Self {
        Self {
            read: Rule::Allow,
            write: Rule::Ask,
            execute: Rule::Ask,
            external: Rule::Ask,
        }
    }
}

impl ClassDefaults {
    fn of(&self, class: EffectClass) -> Rule {
        match class {
            EffectClass::Read => self.read,
            EffectClass::Write => self.write,
            EffectClass::Execute => self.execute,
            EffectClass::External => self.external,
        }
    }
}

/// One rule of the operator: which tools, and what is decided for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "RuleText", into = "RuleText")]
pub struct PolicyRule {
    tool: Option<ToolPattern>,
    effect: Option<EffectClass>,
    decision: Rule,
}

/// A rule as it is written in the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    /// Name of a tool as the model sees it, or `plugin:tool`; both may be globs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// An effect class. With `tool`, both must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<EffectClass>,
    decision: Rule,
}

impl TryFrom<RuleText> for PolicyRule {
    type Error = String;

    fn try_from(text: RuleText) -> Result<Self, String> {
        if text.tool.is_none() && text.effect.is_none() {
            return Err("a tool rule needs `tool` or `effect`".to_owned());
        }
        Ok(Self {
            tool: text.tool.as_deref().map(ToolPattern::new).transpose()?,
            effect: text.effect,
            decision: text.decision,
        })
    }
}

impl From<PolicyRule> for RuleText {
    fn from(rule: PolicyRule) -> Self {
        Self {
            tool: rule.tool.map(|pattern| pattern.text),
            effect: rule.effect,
            decision: rule.decision,
        }
    }
}

impl PolicyRule {
    /// A rule for the tools that match `pattern`: a name or glob as the model sees it, or `plugin:tool`.
    ///
    /// # Errors
    /// The pattern is not a glob.
    pub fn for_tool(pattern: &str, decision: Rule) -> Result<Self, String> {
        Ok(Self {
            tool: Some(ToolPattern::new(pattern)?),
            effect: None,
            decision,
        })
    }

    /// A rule for all tools of an effect class.
    #[must_use]
    pub fn for_effect(effect: EffectClass, decision: Rule) -> Self {
        Self {
            tool: None,
            effect: Some(effect),
            decision,
        }
    }

    /// Whether the rule speaks of this tool.
    #[must_use]
    pub fn matches(&self, spec: &ToolSpec) -> bool {
        self.tool.as_ref().is_none_or(|tool| tool.matches(spec))
            && self.effect.is_none_or(|effect| effect == spec.effect_class)
    }

    fn name(&self, index: usize) -> String {
        let tool = self.tool.as_ref().map(|tool| format!("`{}`", tool.text));
        let effect = self.effect.map(|effect| format!("effect {effect}"));
        let what: Vec<String> = tool.into_iter().chain(effect).collect();
        format!("tool rule {} ({})", index + 1, what.join(", "))
    }
}

/// Which tools a rule speaks of.
#[derive(Clone, Debug)]
struct ToolPattern {
    text: String,
    plugin: Option<GlobMatcher>,
    tool: GlobMatcher,
}

impl ToolPattern {
    fn new(text: &str) -> Result<Self, String> {
        let glob = |part: &str| {
            GlobBuilder::new(part)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| format!("`{text}` is not a tool pattern: {}", error.kind()))
        };
        let (plugin, tool) = match text.split_once(':') {
            Some((plugin, tool)) => (Some(glob(plugin)?), glob(tool)?),
            None => (None, glob(text)?),
        };
        Ok(Self {
            text: text.to_owned(),
            plugin,
            tool,
        })
    }

    fn matches(&self, spec: &ToolSpec) -> bool {
        let is_plugin = match (&self.plugin, &spec.plugin) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(plugin)) => pattern.is_match(plugin),
        };
        is_plugin && self.tool.is_match(&spec.name)
    }
}

/// How this run treats what the rules decide. The default is the most careful: nobody said yes and nobody can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyMode {
    /// `--yes`: what would be asked is allowed. Never allows what is denied.
    pub yes: bool,
    /// `--dry-run`: what is not read-only is only described.
    pub dry_run: bool,
    /// Whether somebody can be asked.
    pub has_terminal: bool,
}

/// What is to happen with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask first.
    Ask,
    /// Do not run it; the text tells the model why.
    Deny(String),
    /// Do not run it, and answer with this text that says what would have been done.
    DryRun(String),
}

/// A verdict and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to happen.
    pub verdict: Verdict,
    /// The rule, default or mode that decided, for people.
    pub rule: String,
}

/// The operator's rules and the modes of this run; the `[tools]` section of the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPolicy {
    /// Rules in order: the first that matches decides, but one that denies wins over all others wherever it stands.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
    /// What holds where no rule matches.
    #[serde(default)]
    pub defaults: ClassDefaults,
    /// Modes of this run; from flags, never from a file.
    #[serde(skip)]
    pub mode: PolicyMode,
}

impl Section for ToolPolicy {
    const NAME: &'static str = "tools";
}

impl ToolPolicy {
    /// Decides on a call with its final arguments. `may` is what the tool's plugin may do, in plain words; `asked` says whether
    /// a hook asked for approval, which turns allow into ask.
    #[must_use]
    pub fn decide(
        &self,
        spec: &ToolSpec,
        may: &[String],
        arguments: &Value,
        asked: bool,
    ) -> Decision {
        let (mut decided, mut rule) = self.rule_for(spec);
        if decided == Rule::Deny {
            let reason = format!("`{}` is denied by {rule}", spec.name);
            return Decision {
                verdict: Verdict::Deny(reason),
                rule,
            };
        }
        if asked && decided == Rule::Allow {
            decided = Rule::Ask;
            rule = "a hook that asks for approval".to_owned();
        }
        if self.mode.dry_run && spec.effect_class != EffectClass::Read {
            return Decision {
                verdict: Verdict::DryRun(format!(
                    "dry run, nothing was done. `{}` ({}) would have been called with:\n{}{}",
                    spec.name,
                    spec.effect_class,
                    preview(spec, arguments),
                    reach(spec, may)
                )),
                rule: "--dry-run".to_owned(),
            };
        }
        let verdict = match decided {
            Rule::Ask if self.mode.yes => {
                rule = "--yes".to_owned();
                Verdict::Allow
            }
            Rule::Ask if !self.mode.has_terminal => Verdict::Deny(format!(
                "`{}` needs approval by {rule}, and there is no terminal to ask at. The operator can allow it with --yes, or \
                 in the configuration with `{}`",
                spec.name,
                allow_line(spec)
            )),
            Rule::Ask => Verdict::Ask,
            Rule::Allow | Rule::Deny => Verdict::Allow,
        };
        Decision { verdict, rule }
    }

    /// What the rules and defaults say, modes left aside, and which of them says it.
    fn rule_for(&self, spec: &ToolSpec) -> (Rule, String) {
        let mut matching = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.matches(spec))
            .peekable();
        let first = matching.peek().copied();
        matching
            .find(|(_, rule)| rule.decision == Rule::Deny)
            .or(first)
            .map_or_else(
                || {
                    let class = spec.effect_class;
                    let rule = format!("the default for effect {class}");
                    (self.defaults.of(class), rule)
                },
                |(index, rule)| (rule.decision, rule.name(index)),
            )
    }
}

/// What a call of a plugin's tool would have been allowed to touch.
fn reach(spec: &ToolSpec, may: &[String]) -> String {
    match &spec.plugin {
        None => String::new(),
        Some(plugin) if may.is_empty() => {
            format!("plugin {plugin} may touch nothing outside its sandbox\n")
        }
        Some(plugin) => format!("plugin {plugin} may: {}\n", may.join("; ")),
    }
}

/// The line of configuration that allows exactly this tool.
#[must_use]
pub fn allow_line(spec: &ToolSpec) -> String {
    let tool = match &spec.plugin {
        Some(plugin) => format!("{plugin}:{}", spec.name),
        None => spec.name.clone(),
    };
    format!("tools.rules = [{{ tool = \"{tool}\", decision = \"allow\" }}]")
}

#[cfg(test)]
mod tests;
