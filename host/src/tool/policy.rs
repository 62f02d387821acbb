//! Decides whether a tool call may run, from the operator's rules, the defaults of each effect
//! class, and the modes of this run.
//!
//! The decision is pure: it asks no user and runs nothing. Hooks run earlier and cannot allow a
//! call that the policy denies. If several rules match, a denying one wins, otherwise the
//! narrowest. Start from [`ToolPolicy::decide`].

mod fault;
mod mode;
mod overview;
mod rule;

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use mode::{ApprovalMode, CARRY_OUT_PLAN_PROMPT, SharedApprovalMode};
#[doc(hidden)]
pub use overview::ToolRuleSummary;
pub use rule::PolicyRule;

use super::command::{Command, CommandPattern, CommandPatternMatch, MAX_BYTES};
use super::preview::describe_dry_run_call;
use super::subject::{Subject, WorkspacePath};
use crate::config::Section;
use crate::message::{EffectClass, ToolSpec};
use crate::text::escape_and_truncate_line;
use rule::RuleMatchTarget;

/// Maximum length of a command part that is quoted in a reason, in bytes.
const MAX_QUOTED_COMMAND_PART_BYTES: usize = 120;

/// Decision of a rule or a default on a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleDecision {
    /// The call runs.
    Allow,
    /// The user is asked before the call runs.
    Ask,
    /// The call does not run.
    Deny,
}

/// Default decisions on calls that no rule matches, by effect class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EffectClassDefaultDecisions {
    /// Decision on calls of tools that only read. Default: allow.
    pub read: RuleDecision,
    /// Decision on calls of tools that change files. Default: ask.
    pub write: RuleDecision,
    /// Decision on calls of tools that run programs. Default: ask.
    pub execute: RuleDecision,
    /// Decision on calls of tools that talk to the network or to other services. Default: ask.
    pub external: RuleDecision,
}

impl Default for EffectClassDefaultDecisions {
    fn default() -> Self {
        Self {
            read: RuleDecision::Allow,
            write: RuleDecision::Ask,
            execute: RuleDecision::Ask,
            external: RuleDecision::Ask,
        }
    }
}

impl EffectClassDefaultDecisions {
    fn decision_for_effect_class(&self, class: EffectClass) -> RuleDecision {
        match class {
            EffectClass::Read => self.read,
            EffectClass::Write => self.write,
            EffectClass::Execute => self.execute,
            EffectClass::External => self.external,
        }
    }
}

/// Mode of the run, which modifies the decision of the rules. The default is the strictest: no
/// `--yes`, and no user to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolPolicyOptions {
    /// `--yes`: calls that would be asked about are allowed. Never allows denied calls.
    pub yes: bool,
    /// `--dry-run`: calls of tools that do not only read are described and not run.
    pub dry_run: bool,
    /// Whether a user can be asked.
    pub has_terminal: bool,
}

/// Verdict on a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolVerdict {
    /// The call runs.
    Allow,
    /// The user is asked before the call runs.
    Ask,
    /// Do not run the call; the model gets the text as the reason.
    Deny(String),
    /// Do not run the call; answer with this description of its effect.
    DryRun(String),
}

/// A verdict, and the rule from which it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Verdict on the tool call.
    pub verdict: ToolVerdict,
    /// Rule, default or mode that decided, for display.
    pub rule: String,
}

/// A call with its final arguments, after the `pre-tool` hooks.
#[derive(Clone, Copy, Debug)]
pub struct PolicyCall<'a> {
    /// Spec of the tool: name, effect class, plugin.
    pub spec: &'a ToolSpec,
    /// Arguments, which fit the schema of the tool.
    pub arguments: &'a Value,
    /// Command, file or directory that the call is about.
    pub subject: &'a Subject,
    /// Permissions of the tool's plugin beyond answering the call, in plain language.
    pub may: &'a [String],
    /// Whether a hook asked for approval. A policy that still returns [`ToolVerdict::Allow`]
    /// answers the hook with yes.
    pub is_asked: bool,
}

/// Decides whether tool calls may run: those of the model, of plugins and of subagents, each right
/// before it runs.
///
/// [`ToolPolicy`] implements it for the settings. Calls that a hook refused do not reach the
/// policy.
pub trait Policy: Send + Sync {
    /// Decides one call. Must not block: to ask the user, return [`ToolVerdict::Ask`], and the
    /// approver asks.
    fn decide(&self, call: &PolicyCall<'_>) -> Decision;

    /// Whether a skill that the operator trusts may approve this call in place of the user: only if
    /// a default, and no rule, requires the approval. Default: no.
    fn can_skill_approve_call(&self, call: &PolicyCall<'_>) -> bool {
        _ = call;
        false
    }

    /// Whether the policy refuses a call only because it needs an approval that nobody can give in
    /// this run. A subagent then reports that it is blocked. Default: no.
    fn is_needed_approval_unavailable(&self, call: &PolicyCall<'_>) -> bool {
        _ = call;
        false
    }

    /// Whether the run is in plan mode: only calls of tools that only read may run, and the model
    /// is to make a plan. Default: no.
    fn is_planning(&self) -> bool {
        false
    }

    /// Whether an "always" answer may cover a call that needs approval. Default: yes.
    fn allows_session_approval(&self, call: &PolicyCall<'_>) -> bool {
        _ = call;
        true
    }
}

/// Rules of the operator and modes of this run; the `[tools]` section of the configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPolicy {
    /// Rules. A denying rule wins over all others; otherwise the narrowest matching rule decides. A
    /// command is decided part by part, and runs only if every part may.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
    /// Decisions on calls that no rule matches, by effect class.
    #[serde(default)]
    pub defaults: EffectClassDefaultDecisions,
    /// Modes of this run, from flags and never from a file.
    #[serde(skip)]
    pub mode: ToolPolicyOptions,
    /// Mode of approval, which may change while the program runs. `yes` in [`Self::mode`] overrides
    /// this mode.
    #[serde(skip)]
    pub switch: SharedApprovalMode,
}

impl Section for ToolPolicy {
    const NAME: &'static str = "tools";
}

/// Decision of the rules and defaults on a call or a part of it, before the modes of the run are
/// applied.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ToolCallRuleDecision {
    strictness: RuleStrictness,
    /// Rule or default that decided, for display.
    by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RuleStrictness {
    Allow,
    Ask,
    /// Whether a denying rule matches the call cannot be decided, so only a person may allow the
    /// call.
    AskPerson,
    Deny,
}

impl From<RuleDecision> for RuleStrictness {
    fn from(rule: RuleDecision) -> Self {
        match rule {
            RuleDecision::Allow => Self::Allow,
            RuleDecision::Ask => Self::Ask,
            RuleDecision::Deny => Self::Deny,
        }
    }
}

impl Policy for ToolPolicy {
    /// Decides by rules, defaults and modes. A hook's request for approval turns allow into ask.
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        let PolicyCall {
            spec,
            arguments,
            subject,
            may,
            is_asked,
        } = *call;
        let ToolCallRuleDecision {
            mut strictness,
            by: mut rule,
        } = self.find_call_ruling(spec, subject);
        if strictness == RuleStrictness::Deny {
            let reason = format!("`{}` is denied by {rule}", spec.name);
            return Decision {
                verdict: ToolVerdict::Deny(reason),
                rule,
            };
        }
        let mode = self.approval_mode();
        if is_refused_by_plan_mode(mode, spec) {
            return Decision {
                verdict: ToolVerdict::Deny(format!(
                    "`{}` ({}) does not only read, and nothing else runs in plan mode. Go on with what reading tells, and \
                     answer with the plan",
                    spec.name, spec.effect_class
                )),
                rule: "plan mode".to_owned(),
            };
        }
        if is_asked && strictness == RuleStrictness::Allow {
            strictness = RuleStrictness::Ask;
            rule = "a hook that asks for approval".to_owned();
        }
        if self.mode.dry_run && spec.effect_class != EffectClass::Read {
            return Decision {
                verdict: ToolVerdict::DryRun(format!(
                    "dry run, nothing was done. `{}` ({}) would have been called with:\n{}{}",
                    spec.name,
                    spec.effect_class,
                    describe_dry_run_call(spec, arguments),
                    describe_plugin_tool_permissions(spec, may)
                )),
                rule: "--dry-run".to_owned(),
            };
        }
        let verdict = match strictness {
            RuleStrictness::Ask if mode == ApprovalMode::Full => {
                rule = match self.mode.yes {
                    true => "--yes".to_owned(),
                    false => "full mode".to_owned(),
                };
                ToolVerdict::Allow
            }
            RuleStrictness::Ask
                if mode.allows_edit(call) && self.needs_approval_only_by_default(call) =>
            {
                rule = "accept-edits mode".to_owned();
                ToolVerdict::Allow
            }
            RuleStrictness::AskPerson if mode == ApprovalMode::Full || !self.mode.has_terminal => {
                let remedy = match subject {
                    Subject::Command(_) => "write it as simple commands, in separate calls",
                    _ => "name files, or folders without what is denied",
                };
                ToolVerdict::Deny(format!(
                    "`{}` may do what a rule denies: {rule}. Only a person at a terminal can allow it, without --yes; {remedy}",
                    spec.name
                ))
            }
            RuleStrictness::Ask if !self.mode.has_terminal => ToolVerdict::Deny(format!(
                "`{}` needs approval ({rule}), and there is no terminal to ask at. The operator can pass --yes, or add `{}` \
                 to config.toml",
                spec.name,
                suggest_allow_rule_line(spec, subject)
            )),
            RuleStrictness::Ask | RuleStrictness::AskPerson => ToolVerdict::Ask,
            RuleStrictness::Allow | RuleStrictness::Deny => ToolVerdict::Allow,
        };
        Decision { verdict, rule }
    }

    fn is_needed_approval_unavailable(&self, call: &PolicyCall<'_>) -> bool {
        let asks = match self.find_call_ruling(call.spec, call.subject).strictness {
            RuleStrictness::Allow => call.is_asked,
            RuleStrictness::Ask | RuleStrictness::AskPerson => true,
            RuleStrictness::Deny => false,
        };
        let mode = self.approval_mode();
        let is_full = mode == ApprovalMode::Full;
        asks && !is_full && !self.mode.has_terminal && !is_refused_by_plan_mode(mode, call.spec)
    }

    fn is_planning(&self) -> bool {
        self.approval_mode() == ApprovalMode::Plan
    }

    /// Whether the approval is required only by a default, and neither plan mode nor a dry run
    /// applies to the call.
    fn can_skill_approve_call(&self, call: &PolicyCall<'_>) -> bool {
        let is_planned = is_refused_by_plan_mode(self.approval_mode(), call.spec);
        self.needs_approval_only_by_default(call) && !is_planned && !self.mode.dry_run
    }

    /// Whether an "always" answer may cover a call. Returns false for a command that a denying rule
    /// may match: the answer could also cover a denied command.
    fn allows_session_approval(&self, call: &PolicyCall<'_>) -> bool {
        let is_command = matches!(call.subject, Subject::Command(_));
        let ruling = is_command.then(|| self.find_call_ruling(call.spec, call.subject));
        ruling.is_none_or(|ruling| ruling.strictness != RuleStrictness::AskPerson)
    }
}

/// Whether plan mode refuses the calls of a tool.
fn is_refused_by_plan_mode(mode: ApprovalMode, spec: &ToolSpec) -> bool {
    mode == ApprovalMode::Plan && spec.effect_class != EffectClass::Read
}

impl ToolPolicy {
    /// Returns the mode of approval that is in force.
    #[must_use]
    pub fn approval_mode(&self) -> ApprovalMode {
        match self.mode.yes {
            true => ApprovalMode::Full,
            false => self.switch.mode(),
        }
    }

    /// Returns the policy for the calls of another agent program, which applies its own rules too:
    /// this policy's rules that deny or ask apply, and all other calls are allowed.
    #[must_use]
    pub fn to_external_agent_policy(&self) -> Self {
        let rules = self.rules.iter().cloned();
        Self {
            rules: rules
                .filter(|rule| rule.decision != RuleDecision::Allow)
                .collect(),
            defaults: EffectClassDefaultDecisions {
                read: RuleDecision::Allow,
                write: RuleDecision::Allow,
                execute: RuleDecision::Allow,
                external: RuleDecision::Allow,
            },
            mode: ToolPolicyOptions {
                has_terminal: true,
                ..ToolPolicyOptions::default()
            },
            switch: SharedApprovalMode::default(),
        }
    }

    /// Whether a call needs an approval only because of a default: no rule matches any part of it,
    /// and no hook requests an approval.
    fn needs_approval_only_by_default(&self, call: &PolicyCall<'_>) -> bool {
        let ruled = |facet| {
            let mut rules = self.rules.iter();
            rules.any(|rule| rule.match_against_target(call.spec, facet) != CommandPatternMatch::No)
        };
        let is_ruled = match call.subject {
            Subject::Any => ruled(RuleMatchTarget::Whole),
            Subject::File(place) => ruled(RuleMatchTarget::File(place)),
            Subject::Tree(place) => ruled(RuleMatchTarget::Tree(place)),
            Subject::Command(command) => {
                let mut parts = command.parts.iter();
                parts.any(|part| ruled(RuleMatchTarget::CommandPart(part)))
                    || command.reason_to_ask_user().is_some()
            }
        };
        let default = self
            .defaults
            .decision_for_effect_class(call.spec.effect_class);
        !call.is_asked && !is_ruled && default == RuleDecision::Ask
    }

    /// Returns the rules that match no call of these tools, each with its index and the reason.
    #[must_use]
    pub fn find_unmatchable_rules(&self, tools: &[&ToolSpec]) -> Vec<(usize, String)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter_map(|(index, rule)| Some((index, rule.find_rule_fault(tools)?)))
            .collect()
    }

    /// Decides a call by rules and defaults. The strictest decision on a part of the call applies.
    fn find_call_ruling(&self, spec: &ToolSpec, subject: &Subject) -> ToolCallRuleDecision {
        match subject {
            Subject::Any => self.apply_rules_to_target(spec, RuleMatchTarget::Whole),
            Subject::File(place) => self.apply_rules_to_target(spec, RuleMatchTarget::File(place)),
            Subject::Tree(place) => self.apply_rules_to_target(spec, RuleMatchTarget::Tree(place)),
            Subject::Command(command) => self.find_command_ruling(spec, command),
        }
    }

    fn find_command_ruling(&self, spec: &ToolSpec, command: &Command) -> ToolCallRuleDecision {
        if let Some(n_bytes) = command.n_bytes_too_long {
            let by = format!(
                "a limit of the system: no program is started with an argument of more than {MAX_BYTES} bytes, and the command \
                 has {n_bytes}; write it to a file and run that"
            );
            return ToolCallRuleDecision {
                strictness: RuleStrictness::Deny,
                by,
            };
        }
        let is_chain = command.parts.len() > 1;
        let of_parts = command.parts.iter().map(|part| {
            let mut ruling = self.apply_rules_to_target(spec, RuleMatchTarget::CommandPart(part));
            // Name the part of the command that decided, because rules may allow the other parts.
            if is_chain && ruling.strictness != RuleStrictness::Allow {
                let part = escape_and_truncate_line(&part.text(), MAX_QUOTED_COMMAND_PART_BYTES);
                ruling.by = format!("{} for `{part}`", ruling.by);
            }
            ruling
        });
        let marked = |facet, words: &str, why: &str| {
            let mut ruling = self.apply_rules_to_target(spec, facet);
            if ruling.strictness != RuleStrictness::Allow {
                let why = escape_and_truncate_line(why, MAX_QUOTED_COMMAND_PART_BYTES);
                ruling.by = format!("{}, and {words} ({why})", ruling.by);
            }
            ruling
        };
        let doubt = command.doubt.as_ref();
        let of_doubt = doubt.map(|why| {
            marked(
                RuleMatchTarget::Doubt,
                "it cannot be read with certainty",
                why,
            )
        });
        let outside = command.outside.as_ref().filter(|_| doubt.is_none());
        let of_outside = outside.map(|why| {
            marked(
                RuleMatchTarget::Outside,
                "rules allow simple commands only",
                why,
            )
        });
        let rulings = of_parts.chain(of_doubt).chain(of_outside);
        let strictest = rulings.min_by_key(|ruling| Reverse(ruling.strictness));
        strictest.unwrap_or_else(|| self.apply_rules_to_target(spec, RuleMatchTarget::Doubt))
    }

    fn apply_rules_to_target(
        &self,
        spec: &ToolSpec,
        facet: RuleMatchTarget<'_>,
    ) -> ToolCallRuleDecision {
        let rules = self.rules.iter().enumerate();
        let mut matching: Vec<(usize, &PolicyRule, CommandPatternMatch)> = rules
            .map(|(index, rule)| (index, rule, rule.match_against_target(spec, facet)))
            .filter(|(_, _, matched)| *matched != CommandPatternMatch::No)
            .collect();
        matching.sort_by_key(|(index, rule, _)| rule.precedence_key(*index));
        let ruling = |strictness, index: usize, rule: &PolicyRule| ToolCallRuleDecision {
            strictness,
            by: rule.describe_rule(index),
        };
        let denies = |sure| {
            let is_it = move |(_, rule, matched): &&(usize, &PolicyRule, CommandPatternMatch)| {
                rule.decision == RuleDecision::Deny && *matched == sure
            };
            matching.iter().find(is_it)
        };
        if let Some((index, rule, _)) = denies(CommandPatternMatch::Yes) {
            return ruling(RuleStrictness::Deny, *index, rule);
        }
        if let Some((index, rule, _)) = denies(CommandPatternMatch::Maybe) {
            return ruling(RuleStrictness::AskPerson, *index, rule);
        }
        // If it is uncertain whether a rule matches, a rule that allows is skipped, and a rule that
        // asks applies.
        let decides = matching.iter().find(|(_, rule, matched)| {
            *matched == CommandPatternMatch::Yes || rule.decision == RuleDecision::Ask
        });
        match decides {
            Some((index, rule, _)) => ruling(rule.decision.into(), *index, rule),
            None => {
                let class = spec.effect_class;
                ToolCallRuleDecision {
                    strictness: self.defaults.decision_for_effect_class(class).into(),
                    by: format!("the default for effect {class}"),
                }
            }
        }
    }
}

/// Returns a text with the permissions that a call of a plugin's tool would have.
fn describe_plugin_tool_permissions(spec: &ToolSpec, may: &[String]) -> String {
    match &spec.plugin {
        None => String::new(),
        Some(plugin) if may.is_empty() => {
            format!("plugin {plugin} has no permission to act outside its sandbox\n")
        }
        Some(plugin) => format!("plugin {plugin} may: {}\n", may.join("; ")),
    }
}

/// Builds the configuration line that allows this call and as little else as a rule can express.
#[must_use]
pub fn suggest_allow_rule_line(spec: &ToolSpec, subject: &Subject) -> String {
    let tool = match &spec.plugin {
        Some(plugin) => format!("{plugin}:{}", spec.name),
        None => spec.name.clone(),
    };
    let narrower = match subject {
        Subject::Command(command) => command.session_approval_scopes().ok().filter(|covers| {
            let mut covers = covers.iter().map(|cover| approval_scope_to_pattern(cover));
            covers.all(|pattern| CommandPattern::new(&pattern).is_ok())
        }),
        Subject::File(WorkspacePath::Known(path)) if rule::is_literal_path_pattern(path) => {
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
                let pattern = quoted(&approval_scope_to_pattern(text));
                format!("{{ tool = {tool}, {key} = {pattern}, decision = \"allow\" }}")
            })
            .collect(),
    };
    format!("tools.rules = [{}]", rules.join(", "))
}

/// Converts the scope of an "always" answer into the pattern of a rule: `…` at its end becomes `*`.
fn approval_scope_to_pattern(cover: &str) -> String {
    cover
        .strip_suffix('…')
        .map_or_else(|| cover.to_owned(), |fixed| format!("{fixed}*"))
}

#[cfg(test)]
mod tests;
