//! The policy as tables of rules, tool, mode and decision.

use serde_json::json;

use super::*;
use EffectClass::{Execute, External, Read, Write};

const TERMINAL: ToolPolicyOptions = ToolPolicyOptions {
    yes: false,
    dry_run: false,
    has_terminal: true,
};

fn tool_spec(name: &str, effect_class: EffectClass) -> ToolSpec {
    let (plugin, name) = match name.split_once(':') {
        Some((plugin, name)) => (Some(plugin.to_owned()), name),
        None => (None, name),
    };
    ToolSpec {
        plugin,
        ..ToolSpec::from_name_and_effect(name, effect_class)
    }
}

fn parse_policy(text: &str, mode: ToolPolicyOptions) -> ToolPolicy {
    ToolPolicy {
        mode,
        ..toml::from_str(text).expect("a good policy")
    }
}

/// Decides a call without arguments that no hook asks about.
fn decide(policy: &ToolPolicy, tool: &str, class: EffectClass, subject: &Subject) -> Decision {
    decide_with(policy, &tool_spec(tool, class), subject, &json!({}), false)
}

fn decide_with(
    policy: &ToolPolicy,
    spec: &ToolSpec,
    subject: &Subject,
    arguments: &Value,
    is_asked: bool,
) -> Decision {
    policy.decide(&PolicyCall {
        spec,
        arguments,
        subject,
        may: &[],
        is_asked,
    })
}

/// Reads a line of configuration.
fn parse_policy_line(line: &str) -> ToolPolicy {
    let config: toml::Table = toml::from_str(line).expect(line);
    config["tools"].clone().try_into().expect(line)
}

fn verdict_word(verdict: &ToolVerdict) -> &'static str {
    match verdict {
        ToolVerdict::Allow => "allow",
        ToolVerdict::Ask => "ask",
        ToolVerdict::Deny(_) => "deny",
        ToolVerdict::DryRun(_) => "dry-run",
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
    let policy = parse_policy(RULES, TERMINAL);
    for (tool, class, expected) in [
        ("git_log", Read, "allow by tool rule 1 (`git_*`)"),
        ("git_push", External, "deny by tool rule 2 (`git_push`)"),
        ("web:fetch", External, "allow by tool rule 3 (`web:fetch`)"),
        (
            "other:fetch",
            External,
            "deny by the default for effect external",
        ),
        ("fetch", External, "deny by the default for effect external"),
        ("shady:run", Execute, "deny by tool rule 4 (`shady:*`)"),
        ("bash", Execute, "allow by tool rule 5 (effect execute)"),
        (
            "secret_list",
            Read,
            "ask by tool rule 6 (`secret_*`, effect read)",
        ),
        ("secret_set", Write, "ask by the default for effect write"),
        ("read_file", Read, "allow by the default for effect read"),
    ] {
        let decision = decide(&policy, tool, class, &Subject::Any);
        let decided = format!("{} by {}", verdict_word(&decision.verdict), decision.rule);
        assert_eq!(decided, expected, "{tool}");
    }
}

#[test]
fn approval_modes_change_the_verdict_on_a_call() {
    let yes = ToolPolicyOptions {
        yes: true,
        ..ToolPolicyOptions::default()
    };
    let dry = ToolPolicyOptions {
        dry_run: true,
        ..yes
    };
    for (mode, tool, class, asked, verdict) in [
        (TERMINAL, "write_file", Write, false, "ask"),
        (TERMINAL, "read_file", Read, true, "ask"),
        (
            ToolPolicyOptions::default(),
            "write_file",
            Write,
            false,
            "deny",
        ),
        (
            ToolPolicyOptions::default(),
            "read_file",
            Read,
            true,
            "deny",
        ),
        (
            ToolPolicyOptions::default(),
            "read_file",
            Read,
            false,
            "allow",
        ),
        (yes, "write_file", Write, false, "allow"),
        (yes, "read_file", Read, true, "allow"),
        (yes, "git_push", Write, false, "deny"),
        (dry, "write_file", Write, false, "dry-run"),
        (dry, "bash", Execute, false, "dry-run"),
        (dry, "read_file", Read, false, "allow"),
        (dry, "git_push", Write, false, "deny"),
    ] {
        let (policy, spec) = (parse_policy(RULES, mode), tool_spec(tool, class));
        let decision = decide_with(&policy, &spec, &Subject::Any, &json!({}), asked);
        assert_eq!(verdict_word(&decision.verdict), verdict, "{mode:?} {tool}");
    }
}

#[test]
fn approval_modes_never_loosen_a_rule_or_the_request_of_a_hook() {
    use ApprovalMode::{AcceptEdits, Ask, Full, Plan};
    let file = |path: &str| Subject::File(WorkspacePath::Known(path.to_owned()));
    let rules = r#"
    rules = [
        { tool = "read_secret", decision = "deny" },
        { tool = "*", path = "locked/*", decision = "ask" },
        { tool = "*", path = "closed/*", decision = "deny" },
        { tool = "bash", command = "git status", decision = "allow" },
    ]
    "#;
    let policy = parse_policy(rules, TERMINAL);
    for (mode, tool, class, subject, is_asked, verdict) in [
        (Ask, "write_file", Write, file("a"), false, "ask"),
        (AcceptEdits, "write_file", Write, file("a"), false, "allow"),
        (AcceptEdits, "write_file", Write, file("a"), true, "ask"),
        (
            AcceptEdits,
            "write_file",
            Write,
            file("locked/a"),
            false,
            "ask",
        ),
        (
            AcceptEdits,
            "write_file",
            Write,
            file("closed/a"),
            false,
            "deny",
        ),
        (
            AcceptEdits,
            "write_file",
            Write,
            file(".rind/config.toml"),
            false,
            "ask",
        ),
        (
            AcceptEdits,
            "write_file",
            Write,
            file(".Claude/x"),
            false,
            "ask",
        ),
        (
            AcceptEdits,
            "write_file",
            Write,
            file("part/.Claude/settings.json"),
            false,
            "ask",
        ),
        (AcceptEdits, "other:write", Write, file("a"), false, "ask"),
        (AcceptEdits, "tool", Write, Subject::Any, false, "ask"),
        (
            AcceptEdits,
            "write_file",
            Write,
            Subject::File(WorkspacePath::Unknown),
            false,
            "ask",
        ),
        (AcceptEdits, "bash", Execute, Subject::Any, false, "ask"),
        (AcceptEdits, "fetch", External, Subject::Any, false, "ask"),
        (Plan, "read_file", Read, file("a"), false, "allow"),
        (Plan, "read_file", Read, file("a"), true, "ask"),
        (Plan, "read_secret", Read, file("a"), false, "deny"),
        (Plan, "write_file", Write, file("a"), false, "deny"),
        (Plan, "fetch", External, Subject::Any, false, "deny"),
        (
            Plan,
            "bash",
            Execute,
            Subject::Command(Command::parse("git status")),
            false,
            "deny",
        ),
        (Full, "write_file", Write, file("a"), false, "allow"),
        (Full, "write_file", Write, file("closed/a"), false, "deny"),
        (Full, "bash", Execute, Subject::Any, true, "allow"),
    ] {
        policy.switch.set_mode(mode);
        let spec = tool_spec(tool, class);
        let decision = decide_with(&policy, &spec, &subject, &json!({}), is_asked);
        assert_eq!(
            verdict_word(&decision.verdict),
            verdict,
            "{mode} {tool} {subject:?}"
        );
        let arguments = json!({});
        let call = PolicyCall {
            spec: &spec,
            arguments: &arguments,
            subject: &subject,
            may: &[],
            is_asked,
        };
        let is_refused = mode == Plan && class != Read;
        assert!(
            !(is_refused && policy.can_skill_approve_call(&call)),
            "{mode} {tool}"
        );
        assert_eq!(policy.is_planning(), mode == Plan);
    }
}

#[test]
fn without_a_terminal_the_reason_names_the_flag_and_the_line() {
    let decision = decide(&ToolPolicy::default(), "web:fetch", External, &Subject::Any);
    let ToolVerdict::Deny(reason) = decision.verdict else {
        panic!("not denied");
    };
    assert!(reason.contains("--yes"), "{reason}");
    let line = r#"tools.rules = [{ tool = "web:fetch", decision = "allow" }]"#;
    assert!(reason.contains(line), "{reason}");
    let decision = decide(
        &parse_policy_line(line),
        "web:fetch",
        External,
        &Subject::Any,
    );
    assert_eq!(decision.verdict, ToolVerdict::Allow);
}

#[test]
fn a_dry_run_describes_the_call_that_would_have_run() {
    let mode = ToolPolicyOptions {
        dry_run: true,
        ..TERMINAL
    };
    let (bash, arguments) = (tool_spec("bash", Execute), json!({"command": "make clean"}));
    let decision = decide_with(
        &parse_policy("", mode),
        &bash,
        &Subject::Any,
        &arguments,
        false,
    );
    assert!(matches!(decision.verdict, ToolVerdict::DryRun(text) if text.contains("$ make clean")));
}

#[test]
fn rules_without_conditions_or_with_misspelled_keys_are_refused() {
    for text in [
        r#"rules = [{ decision = "allow" }]"#,
        r#"rules = [{ tool = "bash", decision = "maybe" }]"#,
        r#"rules = [{ tool = "[", decision = "deny" }]"#,
        r#"rules = [{ tols = "bash", decision = "deny" }]"#,
        r#"rules = [{ tool = "read_file", command = "git *", decision = "deny" }]"#,
        r#"rules = [{ tool = "p:*", path = "docs/**", decision = "deny" }]"#,
        r#"rules = [{ tool = "bash", path = "docs/**", decision = "deny" }]"#,
        r#"rules = [{ command = "git *", path = "docs/**", decision = "deny" }]"#,
        r#"rules = [{ command = "git add . && git push", decision = "deny" }]"#,
        r#"rules = [{ command = "", decision = "deny" }]"#,
        r#"rules = [{ command = "touch $(x)", decision = "deny" }]"#,
        r#"rules = [{ command = 'touch a\ b', decision = "deny" }]"#,
        r#"rules = [{ command = "touch a?", decision = "deny" }]"#,
        r#"rules = [{ path = "../x", decision = "deny" }]"#,
        r#"rules = [{ path = "/etc/**", decision = "deny" }]"#,
        r#"rules = [{ path = "a[", decision = "deny" }]"#,
        r#"rules = [{ path = 'secrets\key', decision = "deny" }]"#,
        r#"rules = [{ path = '"secrets"', decision = "deny" }]"#,
        r#"rules = [{ path = "secrets/key ", decision = "deny" }]"#,
        r#"rules = [{ path = "!secrets", decision = "deny" }]"#,
        r#"rules = [{ path = "//", decision = "deny" }]"#,
        r#"defaults = { reed = "deny" }"#,
        r#"mode = { yes = true }"#,
    ] {
        assert!(toml::from_str::<ToolPolicy>(text).is_err(), "{text}");
    }
    let policy: ToolPolicy = toml::from_str(RULES).expect("a good policy");
    let again = toml::to_string(&policy).expect("it can be written");
    let read: ToolPolicy = toml::from_str(&again).expect("and read");
    assert_eq!(read.rules.len(), 6);
}

fn command_subject(text: &str) -> Subject {
    Subject::Command(Command::parse(text))
}

const COMMANDS: &str = r#"
rules = [
    { command = "git *", decision = "ask" },
    { command = "git status *", decision = "allow" },
    { command = "git log *", decision = "allow" },
    { command = "cargo *", decision = "allow" },
    { tool = "bash", command = "git push *", decision = "deny" },
    { command = "> out/*", decision = "allow" },
]
"#;

#[test]
fn commands_are_decided_part_by_part_and_the_narrowest_rule_wins() {
    for (text, at_terminal, with_yes) in [
        ("git status", "allow", "allow"),
        ("git status -s | cargo test", "allow", "allow"),
        ("git commit", "ask", "allow"),
        ("git status; rm x", "ask", "allow"),
        ("git status > x", "ask", "allow"),
        ("git status > out/x", "allow", "allow"),
        ("cargo log $(git log)", "ask", "deny"),
        ("git log $(cargo x)", "ask", "deny"),
        ("git log $(rm x)", "ask", "deny"),
        ("git log --output=x", "ask", "deny"),
        ("git status $(git push)", "deny", "deny"),
        ("X=1 cargo test", "ask", "allow"),
        ("./cargo test", "ask", "allow"),
        ("timeout 5 cargo test", "ask", "allow"),
        ("git push", "deny", "deny"),
        ("cargo test && git push", "deny", "deny"),
        ("cargo test $(git push)", "deny", "deny"),
        ("X=1 git push", "deny", "deny"),
        ("env git push", "deny", "deny"),
        ("sh -c 'git push'", "deny", "deny"),
        ("ls | xargs git push", "deny", "deny"),
        ("/usr/bin/git push", "deny", "deny"),
        ("g\\it pu''sh", "deny", "deny"),
        ("find . -exec git push ';'", "deny", "deny"),
        // Only the user may allow these commands, because a denying rule may match them.
        ("git $X", "ask", "deny"),
        ("$X push", "ask", "deny"),
        ("for x in a; do git status; done", "ask", "deny"),
        ("bash script.sh | sh", "ask", "deny"),
        ("sudo git push", "ask", "deny"),
        ("cat <<E\ngit push\nE", "ask", "deny"),
        ("git log --oneline push", "ask", "deny"),
        ("cargo test -- 'git push'", "ask", "deny"),
        ("cargo test a*", "ask", "deny"),
        // No rule with a command pattern can allow these commands, but certainly no rule denies
        // them.
        ("ls $X", "ask", "allow"),
        ("git status > out/../x", "ask", "allow"),
        ("git status &", "ask", "allow"),
    ] {
        let yes = ToolPolicyOptions {
            yes: true,
            ..TERMINAL
        };
        for (mode, expected) in [(TERMINAL, at_terminal), (yes, with_yes)] {
            let decision = decide(
                &parse_policy(COMMANDS, mode),
                "bash",
                Execute,
                &command_subject(text),
            );
            let rule = &decision.rule;
            assert_eq!(verdict_word(&decision.verdict), expected, "{text}: {rule}");
        }
    }
    // A plugin's tool with the same effect class has no command, so a command rule does not match
    // it.
    let policy = parse_policy(COMMANDS, TERMINAL);
    let other = decide(&policy, "p:run", Execute, &Subject::Any);
    assert_eq!(other.rule, "the default for effect execute");
}

#[test]
fn a_rule_for_a_tool_allows_unparsable_commands_unless_a_rule_denies_something() {
    let loops = command_subject("for x in a; do b; done");
    for (text, expected) in [
        (
            r#"rules = [{ tool = "bash", decision = "allow" }]"#,
            "allow",
        ),
        (
            r#"rules = [{ tool = "bash", decision = "allow" }, { command = "rm *", decision = "deny" }]"#,
            "ask",
        ),
    ] {
        let decision = decide(&parse_policy(text, TERMINAL), "bash", Execute, &loops);
        assert_eq!(verdict_word(&decision.verdict), expected);
    }
}

/// The example of `host/docs/rules-and-approvals.md`.
const MANUAL: &str = r#"
rules = [
    { command = "git *", decision = "allow" },
    { command = "cargo *", decision = "allow" },
    { command = "echo *", decision = "allow" },
    { command = "git push *", decision = "deny" },
    { command = "> target/*", decision = "allow" },
    { command = "> src/*", decision = "deny" },
]
"#;

#[test]
fn no_spelling_of_a_command_bypasses_the_rules_of_the_manual() {
    for (text, expected) in [
        ("echo x > target/y", "allow"),
        ("git -C . log", "allow"),
        ("git -C . push o x:y", "deny"),
        ("git --no-pager push", "deny"),
        ("git -P push o", "deny"),
        ("git --git-dir=.git push o", "deny"),
        ("git --attr-source HEAD push o", "deny"),
        ("git --attr-source HEAD -c alias.x='!touch pwn' x", "ask"),
        ("echo x | git remote-ext x 'touch pwn'", "ask"),
        ("git --new-option push", "ask"),
        ("echo \"$\\\n(touch pwn)\"", "ask"),
        ("echo $\\\n(git push)", "ask"),
        ("echo x > target/../pwn", "ask"),
        ("echo x > ./target/y", "allow"),
        ("echo x > ./src/y", "deny"),
        ("echo x > src//y", "deny"),
        ("cd src && echo x > y", "ask"),
        ("echo do not git push", "ask"),
    ] {
        let decision = decide(
            &parse_policy(MANUAL, TERMINAL),
            "bash",
            Execute,
            &command_subject(text),
        );
        let rule = &decision.rule;
        assert_eq!(verdict_word(&decision.verdict), expected, "{text}: {rule}");
        let nobody = ToolPolicyOptions::default();
        let decision = decide(
            &parse_policy(MANUAL, nobody),
            "bash",
            Execute,
            &command_subject(text),
        );
        let is_allowed = decision.verdict == ToolVerdict::Allow;
        assert_eq!(is_allowed, expected == "allow", "{text}: {}", decision.rule);
    }
}

#[test]
fn an_always_answer_covers_no_command_that_may_be_denied() {
    for (text, may_always_answer_cover) in [
        ("runner -x git pull", true),
        ("runner -x git push", false),
        ("rm x", true),
        ("git push", true),
        ("sudo x", false),
    ] {
        let (bash, subject) = (tool_spec("bash", Execute), command_subject(text));
        let call = PolicyCall {
            spec: &bash,
            arguments: &json!({}),
            subject: &subject,
            may: &[],
            is_asked: false,
        };
        let policy = parse_policy(MANUAL, TERMINAL);
        assert_eq!(
            policy.allows_session_approval(&call),
            may_always_answer_cover,
            "{text}"
        );
    }
}

#[test]
fn a_command_too_long_for_any_system_is_refused_without_parsing() {
    let long = command_subject(&"a ".repeat(3 << 20));
    for mode in [
        TERMINAL,
        ToolPolicyOptions {
            yes: true,
            ..TERMINAL
        },
    ] {
        let all = r#"rules = [{ tool = "bash", decision = "allow" }]"#;
        let decision = decide(&parse_policy(all, mode), "bash", Execute, &long);
        let ToolVerdict::Deny(reason) = decision.verdict else {
            panic!("not denied");
        };
        assert!(reason.contains("write it to a file"), "{reason}");
    }
}

#[test]
fn the_rule_with_the_narrowest_glob_decides_on_a_path() {
    let text = r#"
rules = [
    { path = "docs/**", decision = "allow" },
    { tool = "edit_file", path = "docs/private/*", decision = "ask" },
    { path = "secrets/", decision = "deny" },
    { tool = "read_file", path = "**/*.key", decision = "deny" },
    { path = "private", decision = "deny" },
    { path = "a/.ssh", decision = "ask" },
    { path = "public", decision = "allow" },
    { path = "one//two", decision = "deny" },
    { path = "./three/", decision = "deny" },
    { path = "open/", decision = "allow" },
]
"#;
    let file = |path: &str| Subject::File(WorkspacePath::Known(path.to_owned()));
    let tree = |path: &str| Subject::Tree(WorkspacePath::Known(path.to_owned()));
    let unknown = Subject::File(WorkspacePath::Unknown);
    for (tool, class, subject, expected) in [
        ("write_file", Write, file("docs/a.md"), "allow"),
        ("write_file", Write, file("docs/in/a.md"), "allow"),
        ("write_file", Write, file("docs"), "ask"),
        ("write_file", Write, file("src/a.rs"), "ask"),
        ("edit_file", Write, file("docs/private/a"), "ask"),
        ("write_file", Write, file("docs/private/a"), "allow"),
        ("write_file", Write, file("secrets/a"), "deny"),
        ("read_file", Read, file("secrets/in/a"), "deny"),
        ("read_file", Read, file("a/b/x.key"), "deny"),
        ("read_file", Read, file("README.md"), "allow"),
        ("read_file", Read, file("private"), "deny"),
        ("read_file", Read, file("private/in/a"), "deny"),
        ("read_file", Read, file("privates"), "allow"),
        ("search", Read, tree("private/in"), "deny"),
        ("read_file", Read, file("a/.ssh/id"), "ask"),
        ("write_file", Write, file("public/a"), "ask"),
        ("write_file", Write, file("public"), "allow"),
        ("read_file", Read, file("one/two"), "deny"),
        ("read_file", Read, file("one/two/in"), "deny"),
        ("read_file", Read, file("three"), "deny"),
        ("read_file", Read, file("three/in"), "deny"),
        ("write_file", Write, file("open/in"), "allow"),
        ("write_file", Write, file("open"), "ask"),
        ("read_file", Read, unknown, "ask"),
        ("search", Read, tree("src"), "allow"),
        ("search", Read, tree("secrets/in"), "deny"),
        ("search", Read, tree(""), "ask"),
        ("list_files", Read, tree("docs"), "allow"),
    ] {
        let decision = decide(&parse_policy(text, TERMINAL), tool, class, &subject);
        let (decided, rule) = (verdict_word(&decision.verdict), &decision.rule);
        assert_eq!(decided, expected, "{tool} {subject:?}: {rule}");
    }
}

#[test]
fn a_call_that_a_rule_may_deny_is_refused_with_a_remedy_for_its_tool() {
    let rules = r#"rules = [
        { path = "secrets/", decision = "deny" },
        { command = "git push *", decision = "deny" },
    ]"#;
    let nobody = ToolPolicyOptions::default();
    let folder = Subject::Tree(WorkspacePath::Known(String::new()));
    for (tool, class, subject, remedy) in [
        ("search", Read, folder, "folders without what is denied"),
        (
            "bash",
            Execute,
            command_subject("git --new push"),
            "simple commands",
        ),
    ] {
        let decision = decide(&parse_policy(rules, nobody), tool, class, &subject);
        let ToolVerdict::Deny(reason) = &decision.verdict else {
            panic!("{tool}: {:?}", decision.verdict);
        };
        assert!(reason.contains(remedy), "{reason}");
    }
}

#[test]
fn the_suggested_rule_allows_the_call_and_no_similar_call() {
    let bash = tool_spec("bash", Execute);
    let write = tool_spec("write_file", Write);
    let file = |path: &str| Subject::File(WorkspacePath::Known(path.to_owned()));
    for (spec, subject, neighbor) in [
        (
            &bash,
            command_subject("git status -s"),
            command_subject("git push"),
        ),
        (
            &bash,
            command_subject("git status | head"),
            command_subject("git status | sh"),
        ),
        (
            &bash,
            command_subject("rm -rf 'a b'"),
            command_subject("rm -rf b"),
        ),
        (
            &bash,
            command_subject("rm -rf '…'"),
            command_subject("rm -rf 'b'"),
        ),
        (
            &bash,
            command_subject("rm -rf '*'"),
            command_subject("rm -rf b"),
        ),
        (
            &bash,
            command_subject("rm -rf \"it's\""),
            command_subject("rm -rf its"),
        ),
        (
            &bash,
            command_subject("ls > 'a b'"),
            command_subject("ls > b"),
        ),
        (&write, file("docs/a \"b\".md"), file("docs/b.md")),
    ] {
        let line = suggest_allow_rule_line(spec, &subject);
        let allowed = parse_policy_line(&line);
        let decide = |subject| decide_with(&allowed, spec, subject, &json!({}), false).verdict;
        assert_eq!(decide(&subject), ToolVerdict::Allow, "{line}");
        assert_ne!(decide(&neighbor), ToolVerdict::Allow, "{line}");
    }
}

#[test]
fn rules_for_missing_tools_are_reported() {
    let text = r#"
rules = [
    { tool = "bahs", decision = "deny" },
    { tool = "web:*", decision = "deny" },
    { tool = "fetch:get", decision = "deny" },
    { tool = "fetch:put", decision = "deny" },
    { tool = "read_*", decision = "deny" },
    { effect = "execute", decision = "deny" },
    { command = "sudo *", decision = "allow" },
    { command = "sudo *", decision = "deny" },
]
"#;
    let known = [
        tool_spec("bash", Execute),
        tool_spec("read_file", Read),
        tool_spec("fetch:get", External),
    ];
    let faults = parse_policy(text, TERMINAL).find_unmatchable_rules(&known.each_ref());
    let numbers: Vec<usize> = faults.iter().map(|(index, _)| *index).collect();
    assert_eq!(numbers, [0, 1, 3, 6]);
    assert!(faults[3].1.contains("no rule allows that"), "{faults:?}");
    assert!(
        faults[0].1.contains("there is no tool `bahs`"),
        "{faults:?}"
    );
    assert!(faults[1].1.contains("no plugin `web`"), "{faults:?}");
    assert!(faults[2].1.contains("has no tool `put`"), "{faults:?}");
}

#[test]
fn rules_that_contradict_their_tools_are_reported() {
    let tools = [
        tool_spec("bash", Execute),
        tool_spec("read_file", Read),
        tool_spec("list_files", Read),
        tool_spec("search", Read),
        tool_spec("edit_file", Write),
        tool_spec("fetch:write_file", External),
    ];
    for (rule, expected) in [
        ("tool = \"bash\", effect = \"execute\"", None),
        (
            "tool = \"bash\", effect = \"read\"",
            Some("`bash` has the effect class execute and not read"),
        ),
        ("tool = \"*_file\", effect = \"write\"", None),
        (
            "tool = \"*_file\", effect = \"execute\"",
            Some(
                "`read_file`, `edit_file`, `write_file` have the effect class external or read or write",
            ),
        ),
        ("effect = \"external\"", None),
        ("effect = \"execute\", command = \"ls\"", None),
        (
            "effect = \"read\", command = \"ls\"",
            Some("`bash` has the effect class execute and not read"),
        ),
        ("effect = \"write\", path = \"docs/**\"", None),
        (
            "effect = \"execute\", path = \"docs/**\"",
            Some("have the effect class read or write and not execute"),
        ),
        (
            "tool = \"write_file\", path = \"docs/**\"",
            Some("`write_file` has no `path` that a rule can match"),
        ),
        ("tool = \"search\", path = \"docs/\"", None),
        ("tool = \"search\", path = \"docs/{*,*/*}\"", None),
        (
            "tool = \"search\", path = \"docs/*\"",
            Some("`search` looks at a folder with everything below it"),
        ),
        ("path = \"docs/*\"", None),
    ] {
        let text = format!("rules = [{{ {rule}, decision = \"allow\" }}]");
        let faults = parse_policy(&text, TERMINAL).find_unmatchable_rules(&tools.each_ref());
        match (faults.first(), expected) {
            (Some((_, told)), Some(expected)) => assert!(told.contains(expected), "{rule}: {told}"),
            (told, expected) => assert_eq!((told, expected), (None, None), "{rule}"),
        }
    }
    let denies = "rules = [{ tool = \"search\", path = \"docs\", decision = \"deny\" }]";
    assert_eq!(
        parse_policy(denies, TERMINAL).find_unmatchable_rules(&tools.each_ref()),
        []
    );
}
