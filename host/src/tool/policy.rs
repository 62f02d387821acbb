//! Decides whether a tool call may run: the operator's rules, the defaults of each effect class, and the modes of this run.
//!
//! Pure: it asks nobody and runs nothing. What hooks say comes before and cannot allow what is denied here. Start from
//! [`ToolPolicy::decide`].

#[cfg(feature = "cli")]
mod overview;
mod rule;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "cli")]
pub(crate) use overview::Overview;
pub use rule::PolicyRule;

use super::command::{Command, CommandPattern, MAX_BYTES, Matched};
use super::preview::told;
use super::subject::{Subject, WorkspacePath};
use crate::config::Section;
use crate::message::{EffectClass, ToolSpec};
use crate::text::clean;
use rule::Facet;

/// Longest part of a command that is named in a reason.
const MAX_PART_BYTES: usize = 120;

/// Decision of a rule or a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The call runs.
    Allow,
    /// Asks first.
    Ask,
    /// The call does not run.
    Deny,
}

/// Defaults for effect classes that no rule mentions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassDefaults {
    /// Default for tools that only read. Default: allow.
    pub read: Rule,
    /// Default for tools that change files. Default: ask.
    pub write: Rule,
    /// Default for tools that run programs. Default: ask.
    pub execute: Rule,
    /// Default for tools that talk to the network or to other services. Default: ask.
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

/// Mode of the run, which modifies what the rules decide. The default is the most careful: nobody said yes and nobody can be
/// asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyMode {
    /// `--yes`: what would be asked is allowed. Never allows what is denied.
    pub yes: bool,
    /// `--dry-run`: what is not read-only is only described.
    pub dry_run: bool,
    /// Whether somebody can be asked.
    pub has_terminal: bool,
}

/// Verdict on a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolVerdict {
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
    /// Verdict.
    pub verdict: ToolVerdict,
    /// The rule, default or mode that decided, for people.
    pub rule: String,
}

/// A call with its final arguments, after the hooks of `pre-tool`.
#[derive(Clone, Copy, Debug)]
pub struct PolicyCall<'a> {
    /// The tool: name, effect class, plugin.
    pub spec: &'a ToolSpec,
    /// The arguments; they fit the schema of the tool.
    pub arguments: &'a Value,
    /// The command, file or folder that the call is about.
    pub subject: &'a Subject,
    /// Permissions of the tool's plugin besides answering, in plain words.
    pub may: &'a [String],
    /// Whether a hook asked for approval. A policy that allows such a call answers the hook with yes.
    pub is_asked: bool,
}

/// Decides whether tool calls may run: those of the model, of plugins and of subagents, each right before it runs.
/// [`ToolPolicy`] is the one of the settings. What a hook refused does not come here.
pub trait Policy: Send + Sync {
    /// Decides on one call. It must not block: a person is asked by the approver, where this says [`ToolVerdict::Ask`].
    fn decide(&self, call: &PolicyCall<'_>) -> Decision;

    /// Whether a skill that the operator trusts may spare the question about a call: nobody said anything about it, so that only a
    /// default asks. The answer is no unless a policy says otherwise.
    fn may_spare(&self, call: &PolicyCall<'_>) -> bool {
        _ = call;
        false
    }

    /// Whether a yes for the whole session may cover a call that is asked about. The answer is yes unless a policy says otherwise.
    fn may_cover(&self, call: &PolicyCall<'_>) -> bool {
        _ = call;
        true
    }
}

/// The operator's rules and the modes of this run; the `[tools]` section of the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPolicy {
    /// The narrowest rule that matches decides, but one that denies wins over all others. A command is decided part by part,
    /// and runs when every part may.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
    /// Defaults where no rule matches.
    #[serde(default)]
    pub defaults: ClassDefaults,
    /// Modes of this run; from flags, never from a file.
    #[serde(skip)]
    pub mode: PolicyMode,
}

impl Section for ToolPolicy {
    const NAME: &'static str = "tools";
}

/// Decision of the rules and defaults on a call or a part of it, modes left aside. The strictest is the greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ruling {
    strictness: Strictness,
    /// The rule or default, for people.
    by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strictness {
    Allow,
    Ask,
    /// A denying rule may match, which is undecidable: only a person may allow the call.
    AskPerson,
    Deny,
}

impl From<Rule> for Strictness {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Allow => Self::Allow,
            Rule::Ask => Self::Ask,
            Rule::Deny => Self::Deny,
        }
    }
}

impl Policy for ToolPolicy {
    /// Decides by rules, defaults and modes. That a hook asked for approval turns allow into ask.
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        let PolicyCall {
            spec,
            arguments,
            subject,
            may,
            is_asked,
        } = *call;
        let Ruling {
            mut strictness,
            by: mut rule,
        } = self.ruling(spec, subject);
        if strictness == Strictness::Deny {
            let reason = format!("`{}` is denied by {rule}", spec.name);
            return Decision {
                verdict: ToolVerdict::Deny(reason),
                rule,
            };
        }
        if is_asked && strictness == Strictness::Allow {
            strictness = Strictness::Ask;
            rule = "a hook that asks for approval".to_owned();
        }
        if self.mode.dry_run && spec.effect_class != EffectClass::Read {
            return Decision {
                verdict: ToolVerdict::DryRun(format!(
                    "dry run, nothing was done. `{}` ({}) would have been called with:\n{}{}",
                    spec.name,
                    spec.effect_class,
                    told(spec, arguments),
                    permissions_text(spec, may)
                )),
                rule: "--dry-run".to_owned(),
            };
        }
        let verdict = match strictness {
            Strictness::Ask if self.mode.yes => {
                rule = "--yes".to_owned();
                ToolVerdict::Allow
            }
            Strictness::AskPerson if self.mode.yes || !self.mode.has_terminal => {
                ToolVerdict::Deny(format!(
                    "`{}` may do what is denied: {rule}. Only a person at a terminal can allow it, without --yes; write it as \
                     simple commands, in separate calls",
                    spec.name
                ))
            }
            Strictness::Ask if !self.mode.has_terminal => ToolVerdict::Deny(format!(
                "`{}` needs approval ({rule}), and there is no terminal to ask at. The operator can pass --yes, or add `{}` \
                 to config.toml",
                spec.name,
                allow_line(spec, subject)
            )),
            Strictness::Ask | Strictness::AskPerson => ToolVerdict::Ask,
            Strictness::Allow | Strictness::Deny => ToolVerdict::Allow,
        };
        Decision { verdict, rule }
    }

    /// Spares what a default asks and no rule, of no part of the call.
    fn may_spare(&self, call: &PolicyCall<'_>) -> bool {
        let ruled = |facet| {
            let mut rules = self.rules.iter();
            rules.any(|rule| rule.matched(call.spec, facet) != Matched::No)
        };
        let is_ruled = match call.subject {
            Subject::Any => ruled(Facet::Whole),
            Subject::File(place) => ruled(Facet::File(place)),
            Subject::Tree(place) => ruled(Facet::Tree(place)),
            Subject::Command(command) => {
                let mut parts = command.parts.iter();
                parts.any(|part| ruled(Facet::Part(part))) || command.why_asked().is_some()
            }
        };
        let default = self.defaults.of(call.spec.effect_class);
        !call.is_asked && !is_ruled && default == Rule::Ask && !self.mode.dry_run
    }

    /// Lets a yes for one command cover no other that may be denied.
    fn may_cover(&self, call: &PolicyCall<'_>) -> bool {
        let is_command = matches!(call.subject, Subject::Command(_));
        let ruling = is_command.then(|| self.ruling(call.spec, call.subject));
        ruling.is_none_or(|ruling| ruling.strictness != Strictness::AskPerson)
    }
}

impl ToolPolicy {
    /// Returns the rules that match no existing tool, by their number from 0, with the reason. `known` are the tools, each with
    /// its plugin.
    #[must_use]
    pub fn faults(&self, known: &[(Option<&str>, &str)]) -> Vec<(usize, String)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter_map(|(index, rule)| Some((index, rule.fault(known)?)))
            .collect()
    }

    /// Decides a whole call by the rules and defaults: the strictest decision on one of its parts.
    fn ruling(&self, spec: &ToolSpec, subject: &Subject) -> Ruling {
        match subject {
            Subject::Any => self.ruling_of(spec, Facet::Whole),
            Subject::File(place) => self.ruling_of(spec, Facet::File(place)),
            Subject::Tree(place) => self.ruling_of(spec, Facet::Tree(place)),
            Subject::Command(command) => self.ruling_of_command(spec, command),
        }
    }

    fn ruling_of_command(&self, spec: &ToolSpec, command: &Command) -> Ruling {
        if let Some(n_bytes) = command.n_bytes_too_long {
            let by = format!(
                "a limit of the system: no program is started with an argument of more than {MAX_BYTES} bytes, and the command \
                 has {n_bytes}; write it to a file and run that"
            );
            return Ruling {
                strictness: Strictness::Deny,
                by,
            };
        }
        let is_chain = command.parts.len() > 1;
        let of_parts = command.parts.iter().map(|part| {
            let mut ruling = self.ruling_of(spec, Facet::Part(part));
            // Which of them it was: the others may well be allowed.
            if is_chain && ruling.strictness != Strictness::Allow {
                let part = clean(&part.text(), MAX_PART_BYTES);
                ruling.by = format!("{} for `{part}`", ruling.by);
            }
            ruling
        });
        let marked = |facet, words: &str, why: &str| {
            let mut ruling = self.ruling_of(spec, facet);
            if ruling.strictness != Strictness::Allow {
                let why = clean(why, MAX_PART_BYTES);
                ruling.by = format!("{}, and {words} ({why})", ruling.by);
            }
            ruling
        };
        let doubt = command.doubt.as_ref();
        let of_doubt =
            doubt.map(|why| marked(Facet::Doubt, "it cannot be read with certainty", why));
        let outside = command.outside.as_ref().filter(|_| doubt.is_none());
        let of_outside =
            outside.map(|why| marked(Facet::Outside, "rules allow simple commands only", why));
        let rulings = of_parts.chain(of_doubt).chain(of_outside);
        let strictest = rulings.min_by_key(|ruling| Reverse(ruling.strictness));
        strictest.unwrap_or_else(|| self.ruling_of(spec, Facet::Doubt))
    }

    fn ruling_of(&self, spec: &ToolSpec, facet: Facet<'_>) -> Ruling {
        let rules = self.rules.iter().enumerate();
        let mut matching: Vec<(usize, &PolicyRule, Matched)> = rules
            .map(|(index, rule)| (index, rule, rule.matched(spec, facet)))
            .filter(|(_, _, matched)| *matched != Matched::No)
            .collect();
        matching.sort_by_key(|(index, rule, _)| rule.order(*index));
        let ruling = |strictness, index: usize, rule: &PolicyRule| Ruling {
            strictness,
            by: rule.name(index),
        };
        let denies = |sure| {
            let is_it = move |(_, rule, matched): &&(usize, &PolicyRule, Matched)| {
                rule.decision == Rule::Deny && *matched == sure
            };
            matching.iter().find(is_it)
        };
        if let Some((index, rule, _)) = denies(Matched::Yes) {
            return ruling(Strictness::Deny, *index, rule);
        }
        if let Some((index, rule, _)) = denies(Matched::Maybe) {
            return ruling(Strictness::AskPerson, *index, rule);
        }
        // One that allows and only may match allows nothing; one that asks and only may match asks.
        let decides = matching
            .iter()
            .find(|(_, rule, matched)| *matched == Matched::Yes || rule.decision == Rule::Ask);
        match decides {
            Some((index, rule, _)) => ruling(rule.decision.into(), *index, rule),
            None => {
                let class = spec.effect_class;
                Ruling {
                    strictness: self.defaults.of(class).into(),
                    by: format!("the default for effect {class}"),
                }
            }
        }
    }
}

/// Describes the permissions that a call of a plugin's tool would have had.
fn permissions_text(spec: &ToolSpec, may: &[String]) -> String {
    match &spec.plugin {
        None => String::new(),
        Some(plugin) if may.is_empty() => {
            format!("plugin {plugin} may touch nothing outside its sandbox\n")
        }
        Some(plugin) => format!("plugin {plugin} may: {}\n", may.join("; ")),
    }
}

/// The line of configuration that allows this call, and as little else as a rule can say.
#[must_use]
pub fn allow_line(spec: &ToolSpec, subject: &Subject) -> String {
    let tool = match &spec.plugin {
        Some(plugin) => format!("{plugin}:{}", spec.name),
        None => spec.name.clone(),
    };
    let narrower = match subject {
        Subject::Command(command) => command.covers().ok().filter(|covers| {
            let mut covers = covers.iter().map(|cover| pattern_of(cover));
            covers.all(|pattern| CommandPattern::new(&pattern).is_ok())
        }),
        Subject::File(WorkspacePath::Known(path)) if rule::is_spelt_path(path) => {
            Some(vec![path.clone()])
        }
        _ => None,
    };
    let key = if matches!(subject, Subject::Command(_)) {
        "command"
    } else {
        "path"
    };
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let tool = quoted(&tool);
    let rules: Vec<String> = match narrower {
        None => vec![format!("{{ tool = {tool}, decision = \"allow\" }}")],
        Some(texts) => texts
            .iter()
            .map(|text| {
                let pattern = quoted(&pattern_of(text));
                format!("{{ tool = {tool}, {key} = {pattern}, decision = \"allow\" }}")
            })
            .collect(),
    };
    format!("tools.rules = [{}]", rules.join(", "))
}

/// Turns a scope of "always" into a pattern: only at its end it says that there may be more.
fn pattern_of(cover: &str) -> String {
    cover
        .strip_suffix('…')
        .map_or_else(|| cover.to_owned(), |fixed| format!("{fixed}*"))
}

#[cfg(test)]
mod tests;
