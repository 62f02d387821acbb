//! Overview of the rules for a tool, independent of a call, for users who inspect their settings.

use serde::Serialize;

use super::rule::RuleMatchedCallAspect;
use super::{Rule, RuleStrictness, ToolPolicy};
use crate::message::ToolSpec;

/// Rules for the calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolOverview {
    /// Decision on the calls of the tool that no rule in `narrower` matches.
    pub decision: Rule,
    /// Rule or default that decided.
    pub by: String,
    /// Rules that match only the tool's calls with a certain command or path.
    pub narrower: Vec<RuleForSomeCalls>,
}

/// A rule that matches only some calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleForSomeCalls {
    pub decision: Rule,
    pub rule: String,
}

impl ToolPolicy {
    /// Returns the decision of the rules for the calls of a tool, and the rules that apply to only
    /// some of its calls. Approval modes and hooks are not considered.
    pub fn build_tool_overview(&self, spec: &ToolSpec) -> ToolOverview {
        let ruling = self.decide_call_aspect_by_rules(spec, RuleMatchedCallAspect::Whole);
        let rules = self.rules.iter().enumerate();
        let narrower = rules.filter(|(_, rule)| rule.matches_only_some_calls(spec));
        ToolOverview {
            decision: match ruling.strictness {
                RuleStrictness::Allow => Rule::Allow,
                RuleStrictness::Ask | RuleStrictness::AskPerson => Rule::Ask,
                RuleStrictness::Deny => Rule::Deny,
            },
            by: ruling.by,
            narrower: narrower
                .map(|(index, rule)| RuleForSomeCalls {
                    decision: rule.decision,
                    rule: rule.describe_rule(index),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::EffectClass;

    #[test]
    fn a_rule_on_some_calls_leaves_the_others_to_the_wider_one() {
        let rules = r#"
            rules = [
                { tool = "bash", command = "git *", decision = "allow" },
                { effect = "write", decision = "deny" },
                { tool = "write_*", path = "docs/**", decision = "allow" },
            ]
        "#;
        let policy: ToolPolicy = toml::from_str(rules).unwrap();
        let bash = policy.build_tool_overview(&ToolSpec::bare_spec("bash", EffectClass::Execute));
        assert_eq!(bash.decision, Rule::Ask);
        assert_eq!(bash.by, "the default for effect execute");
        assert_eq!(bash.narrower.len(), 1);
        let write =
            policy.build_tool_overview(&ToolSpec::bare_spec("write_file", EffectClass::Write));
        assert_eq!(write.decision, Rule::Deny);
        assert_eq!(write.by, "tool rule 2 (effect write)");
        assert_eq!(write.narrower[0].decision, Rule::Allow);
        let read = policy.build_tool_overview(&ToolSpec::bare_spec("read_file", EffectClass::Read));
        assert!(read.narrower.is_empty());
    }
}
