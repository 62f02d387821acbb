//! Property tests for all policies and modes.

use proptest::prelude::*;
use rind::message::{EffectClass, ToolSpec};
use rind::tool::policy::{
    EffectClassDefaultDecisions, Policy, PolicyCall, PolicyRule, RuleDecision, ToolPolicy,
    ToolPolicyOptions, ToolVerdict,
};
use rind::tool::subject::Subject;
use serde_json::{Value, json};

fn class() -> impl Strategy<Value = EffectClass> {
    prop::sample::select(vec![
        EffectClass::Read,
        EffectClass::Write,
        EffectClass::Execute,
        EffectClass::External,
    ])
}

fn decision() -> impl Strategy<Value = RuleDecision> {
    prop::sample::select(vec![
        RuleDecision::Allow,
        RuleDecision::Ask,
        RuleDecision::Deny,
    ])
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    let pattern = prop::sample::select(vec!["*", "a", "b*", "p:*", "p:a", "*:a", "[ab]"]);
    prop_oneof![
        (pattern, decision())
            .prop_map(|(pattern, rule)| PolicyRule::for_tool(pattern, rule).unwrap()),
        (class(), decision()).prop_map(|(class, rule)| PolicyRule::for_effect_class(class, rule)),
    ]
}

fn spec() -> impl Strategy<Value = ToolSpec> {
    let name = prop::sample::select(vec!["a", "b", "bc"]);
    let plugin = prop::sample::select(vec![None, Some("p"), Some("q")]);
    (name, plugin, class()).prop_map(|(name, plugin, effect_class)| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({}),
        effect_class,
        plugin: plugin.map(str::to_owned),
    })
}

fn policy() -> impl Strategy<Value = ToolPolicy> {
    let defaults = (decision(), decision(), decision(), decision());
    let mode = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop::collection::vec(rule(), 0..6), defaults, mode).prop_map(
        |(rules, (read, write, execute, external), (yes, dry_run, has_terminal))| ToolPolicy {
            rules,
            defaults: EffectClassDefaultDecisions {
                read,
                write,
                execute,
                external,
            },
            mode: ToolPolicyOptions {
                yes,
                dry_run,
                has_terminal,
            },
            ..ToolPolicy::default()
        },
    )
}

fn decides(
    policy: &ToolPolicy,
    mode: ToolPolicyOptions,
    spec: &ToolSpec,
    asked: bool,
) -> ToolVerdict {
    let policy = ToolPolicy {
        mode,
        ..policy.clone()
    };
    policy
        .decide(&PolicyCall {
            spec,
            arguments: &Value::Null,
            subject: &Subject::Any,
            may: &[],
            is_asked: asked,
        })
        .verdict
}

proptest! {
    #[test]
    fn a_rule_that_denies_wins_wherever_it_stands(
        policy in policy(), spec in spec(), at in any::<prop::sample::Index>(), asked: bool,
    ) {
        let mut denied = policy.clone();
        denied.rules.insert(at.index(policy.rules.len() + 1), PolicyRule::for_tool(&spec.name, RuleDecision::Deny).unwrap());
        let is_denied = matches!(decides(&denied, policy.mode, &spec, asked), ToolVerdict::Deny(_));
        prop_assert!(is_denied);
    }

    #[test]
    fn yes_only_turns_ask_into_allow(policy in policy(), spec in spec(), asked: bool) {
        let asking = ToolPolicyOptions { yes: false, has_terminal: true, ..policy.mode };
        let without = decides(&policy, asking, &spec, asked);
        let with = decides(&policy, ToolPolicyOptions { yes: true, ..asking }, &spec, asked);
        if without == ToolVerdict::Ask {
            prop_assert_eq!(with, ToolVerdict::Allow);
        } else {
            prop_assert_eq!(with, without);
        }
    }

    #[test]
    fn a_missing_terminal_never_allows_more(policy in policy(), spec in spec(), asked: bool) {
        let with = decides(&policy, ToolPolicyOptions { has_terminal: true, ..policy.mode }, &spec, asked);
        let without = decides(&policy, ToolPolicyOptions { has_terminal: false, ..policy.mode }, &spec, asked);
        if with == ToolVerdict::Ask {
            let is_denied = matches!(without, ToolVerdict::Deny(_));
            prop_assert!(is_denied);
        } else {
            prop_assert_eq!(with, without);
        }
    }

    #[test]
    fn a_dry_run_changes_nothing_but_the_read_only(policy in policy(), spec in spec(), asked: bool) {
        let dry = ToolPolicyOptions { dry_run: true, ..policy.mode };
        let verdict = decides(&policy, dry, &spec, asked);
        let is_read = spec.effect_class == EffectClass::Read;
        prop_assert!(is_read || matches!(verdict, ToolVerdict::DryRun(_) | ToolVerdict::Deny(_)));
    }

    #[test]
    fn a_hook_that_asks_never_allows_more(policy in policy(), spec in spec()) {
        let with = decides(&policy, policy.mode, &spec, true);
        let without = decides(&policy, policy.mode, &spec, false);
        if matches!(without, ToolVerdict::Deny(_)) {
            prop_assert_eq!(with, without);
        } else if with == ToolVerdict::Allow {
            prop_assert!(without == ToolVerdict::Allow);
        }
    }
}
