//! The policy as a table: rules, tool, mode, and what comes out.

use serde_json::json;

use super::*;
use EffectClass::{Execute, External, Read, Write};

const TERMINAL: PolicyMode = PolicyMode {
    yes: false,
    dry_run: false,
    has_terminal: true,
};

fn spec(name: &str, effect_class: EffectClass) -> ToolSpec {
    let (plugin, name) = match name.split_once(':') {
        Some((plugin, name)) => (Some(plugin.to_owned()), name),
        None => (None, name),
    };
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({}),
        effect_class,
        plugin,
    }
}

fn policy(text: &str, mode: PolicyMode) -> ToolPolicy {
    ToolPolicy {
        mode,
        ..toml::from_str(text).expect("a good policy")
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny(_) => "deny",
        Verdict::DryRun(_) => "dry-run",
    }
}

const RULES: &str = r#"
rules = [
    { tool = "git_*", decision = "allow" },
    { tool = "git_push", decision = "deny" },
    { tool = "web:fetch", decision = "allow" },
    { tool = "shady:*", decision = "deny" },
    { effect = "execute", decision = "allow" },
    { tool = "secret_*", effect = "read", decision = "ask" },
]
defaults = { external = "deny" }
"#;

#[test]
fn rules_and_defaults_decide_as_the_table_says() {
    let policy = policy(RULES, TERMINAL);
    for (tool, class, verdict, rule) in [
        ("git_log", Read, "allow", "tool rule 1 (`git_*`)"),
        ("git_push", External, "deny", "tool rule 2 (`git_push`)"),
        ("web:fetch", External, "allow", "tool rule 3 (`web:fetch`)"),
        (
            "other:fetch",
            External,
            "deny",
            "the default for effect external",
        ),
        ("fetch", External, "deny", "the default for effect external"),
        ("shady:run", Execute, "deny", "tool rule 4 (`shady:*`)"),
        ("bash", Execute, "allow", "tool rule 5 (effect execute)"),
        (
            "secret_list",
            Read,
            "ask",
            "tool rule 6 (`secret_*`, effect read)",
        ),
        ("secret_set", Write, "ask", "the default for effect write"),
        ("read_file", Read, "allow", "the default for effect read"),
    ] {
        let decision = policy.decide(&spec(tool, class), &[], &json!({}), false);
        assert_eq!(
            (word(&decision.verdict), decision.rule.as_str()),
            (verdict, rule),
            "{tool}"
        );
    }
}

#[test]
fn modes_change_the_verdict_as_the_table_says() {
    let yes = PolicyMode {
        yes: true,
        ..PolicyMode::default()
    };
    let dry = PolicyMode {
        dry_run: true,
        ..yes
    };
    for (mode, tool, class, asked, verdict) in [
        (TERMINAL, "write_file", Write, false, "ask"),
        (TERMINAL, "read_file", Read, true, "ask"),
        (PolicyMode::default(), "write_file", Write, false, "deny"),
        (PolicyMode::default(), "read_file", Read, true, "deny"),
        (PolicyMode::default(), "read_file", Read, false, "allow"),
        (yes, "write_file", Write, false, "allow"),
        (yes, "read_file", Read, true, "allow"),
        (yes, "git_push", Write, false, "deny"),
        (dry, "write_file", Write, false, "dry-run"),
        (dry, "bash", Execute, false, "dry-run"),
        (dry, "read_file", Read, false, "allow"),
        (dry, "git_push", Write, false, "deny"),
    ] {
        let decision = policy(RULES, mode).decide(&spec(tool, class), &[], &json!({}), asked);
        assert_eq!(word(&decision.verdict), verdict, "{mode:?} {tool}");
    }
}

#[test]
fn without_a_terminal_the_reason_names_the_flag_and_the_line() {
    let policy = ToolPolicy::default();
    let decision = policy.decide(&spec("web:fetch", External), &[], &json!({}), false);
    let Verdict::Deny(reason) = decision.verdict else {
        panic!("not denied");
    };
    assert!(reason.contains("--yes"), "{reason}");
    let line = r#"tools.rules = [{ tool = "web:fetch", decision = "allow" }]"#;
    assert!(reason.contains(line), "{reason}");
    let config: toml::Table = toml::from_str(line).expect("the line is TOML");
    let allowed: ToolPolicy = config["tools"]
        .clone()
        .try_into()
        .expect("the line is a policy");
    let decision = allowed.decide(&spec("web:fetch", External), &[], &json!({}), false);
    assert_eq!(decision.verdict, Verdict::Allow);
}

#[test]
fn a_dry_run_says_what_would_have_been_done() {
    let mode = PolicyMode {
        dry_run: true,
        ..TERMINAL
    };
    let policy = ToolPolicy {
        mode,
        ..ToolPolicy::default()
    };
    let decision = policy.decide(
        &spec("bash", Execute),
        &[],
        &json!({"command": "make clean"}),
        false,
    );
    assert!(matches!(decision.verdict, Verdict::DryRun(text) if text.contains("$ make clean")));
}

#[test]
fn rules_that_say_nothing_or_are_misspelled_are_refused() {
    for text in [
        r#"rules = [{ decision = "allow" }]"#,
        r#"rules = [{ tool = "bash", decision = "maybe" }]"#,
        r#"rules = [{ tool = "[", decision = "deny" }]"#,
        r#"rules = [{ tols = "bash", decision = "deny" }]"#,
        r#"defaults = { reed = "deny" }"#,
        r#"mode = { yes = true }"#,
    ] {
        assert!(toml::from_str::<ToolPolicy>(text).is_err(), "{text}");
    }
    let policy: ToolPolicy = toml::from_str(RULES).expect("a good policy");
    let again = toml::to_string(&policy).expect("it can be written");
    assert_eq!(
        toml::from_str::<ToolPolicy>(&again)
            .expect("and read")
            .rules
            .len(),
        6
    );
}
