//! Overview of the rules for a tool, independent of a call, for users who inspect their settings.

use serde::Serialize;

use super::rule::RuleMatchTarget;
use super::{RuleDecision, RuleStrictness, ToolPolicy};
use crate::message::ToolSpec;

/// Rules for the calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolRuleSummary {
    /// Decision on the calls of the tool that no rule in `narrower` matches.
    pub decision: RuleDecision,
    /// Rule or default that decided.
    pub by: String,
    /// Rules that match only the tool's calls with a certain command or path.
    pub narrower: Vec<ConditionalToolRule>,
}

/// A rule that matches only some calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionalToolRule {
    pub decision: RuleDecision,
    pub rule: String,
}

impl ToolPolicy {
    /// Returns the decision of the rules for the calls of a tool, and the rules that apply to only
    /// some of its calls. Approval modes and hooks are not considered.
    pub fn build_tool_overview(&self, spec: &ToolSpec) -> ToolRuleSummary {
        let ruling = self.apply_rules_to_target(spec, RuleMatchTarget::Whole);
        let rules = self.rules.iter().enumerate();
        let narrower = rules.filter(|(_, rule)| rule.matches_only_some_calls(spec));
        ToolRuleSummary {
            decision: match ruling.strictness {
                RuleStrictness::Allow => RuleDecision::Allow,
                RuleStrictness::Ask | RuleStrictness::AskPerson => RuleDecision::Ask,
                RuleStrictness::Deny => RuleDecision::Deny,
            },
            by: ruling.by,
            narrower: narrower
                .map(|(index, rule)| ConditionalToolRule {
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
        let bash = policy.build_tool_overview(&ToolSpec::from_name_and_effect(
            "bash",
            EffectClass::Execute,
        ));
        assert_eq!(bash.decision, RuleDecision::Ask);
        assert_eq!(bash.by, "the default for effect execute");
        assert_eq!(bash.narrower.len(), 1);
        let write = policy.build_tool_overview(&ToolSpec::from_name_and_effect(
            "write_file",
            EffectClass::Write,
        ));
        assert_eq!(write.decision, RuleDecision::Deny);
        assert_eq!(write.by, "tool rule 2 (effect write)");
        assert_eq!(write.narrower[0].decision, RuleDecision::Allow);
        let read = policy.build_tool_overview(&ToolSpec::from_name_and_effect(
            "read_file",
            EffectClass::Read,
        ));
        assert!(read.narrower.is_empty());
    }
}
