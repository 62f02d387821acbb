//! Tests of calls that a skill's `allowed-tools` exempt from questions: which calls, for skills of
//! which trust, and for how long.

use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::skill::parse_text;
use rind::tool::approval::ApprovalAnswer;
use rind::tool::policy::{PolicyRule, RuleDecision};

use super::*;

/// Parses a skill with these `allowed-tools`.
fn sparing(allowed: &str) -> Skill {
    let text = format!("---\nname: git\ndescription: d\nallowed-tools: {allowed}\n---\nText.\n");
    parse_text("git", &text).unwrap()
}

/// Returns a rule for `bash` commands that match this pattern.
fn rule(command: &str, decision: RuleDecision) -> PolicyRule {
    let decision = serde_json::to_value(decision).unwrap();
    serde_json::from_value(json!({"tool": "bash", "command": command, "decision": decision}))
        .unwrap()
}

/// Runs a turn of a skill and one call. Returns the number of questions and whether the call ran.
async fn call(setup: Setup) -> (usize, bool) {
    let mut running = setup.asking(vec![ApprovalAnswer::Yes]).build();
    running.turn("look at the work").await;
    let n_asked = running.approver.asked.lock().unwrap().len();
    let (_, is_error, _) = running.results().pop().unwrap();
    (n_asked, !is_error)
}

#[tokio::test]
async fn each_part_of_a_command_must_be_one_that_is_spared() {
    for (allowed, command, is_asked) in [
        ("Bash(echo *)", "echo one", false),
        ("Bash(echo:*)", "echo one", false),
        ("Bash(echo one)", "echo one", false),
        ("Bash(echo one)", "echo two", true),
        ("Bash(echo *) Bash(true)", "echo one && true", false),
        (
            "[\"Bash(echo *)\", \"Bash(true)\"]",
            "true; echo one | echo two",
            false,
        ),
        ("Bash(echo *)", "echo one && true", true),
        ("Bash(echo *)", "echo one; touch x", true),
        ("Bash(echo *)", "echo one > x", true),
        ("Bash(echo *)", "echo $(touch x)", true),
        ("Bash(echo *)", "X=1 echo one", true),
        ("Bash(echo *)", "echo \"$\\\n(touch x)\"", true),
        ("Bash(echo *)", "echo one*", true),
        ("Bash(ssh-agent *)", "ssh-agent true", true),
        ("Bash(echo *)", "sh -c 'echo one'", true),
        ("Bash", "true", true),
        ("Bash(*)", "true", true),
        ("Bash(:*)", "true", true),
        ("Bash(sh *)", "sh -c true", true),
        ("Bash(env *)", "env true", true),
        ("Read, Grep", "true", true),
        ("Write", "true", true),
    ] {
        let script = vec![use_skill("git"), bash(command), Reply::text("done")];
        let told = format!("{allowed}: {command}");
        let (n_asked, _) = call(setup(script, [sparing(allowed)])).await;
        assert_eq!(n_asked, usize::from(is_asked), "{told}");
    }
}

#[tokio::test]
async fn tools_for_files_are_spared_by_their_names() {
    let write = || Reply::call("write_file", json!({"path": "c", "content": ""}));
    for (allowed, is_asked) in [
        ("Write", false),
        ("write_file", false),
        ("Read", true),
        ("Edit", true),
    ] {
        let script = vec![use_skill("git"), write(), Reply::text("done")];
        let (n_asked, ran) = call(setup(script, [sparing(allowed)])).await;
        assert_eq!((n_asked, ran), (usize::from(is_asked), true), "{allowed}");
    }
}

#[tokio::test]
async fn whose_skill_it_is_decides_whether_it_spares() {
    for (trust, n_asked) in [
        (Trust::Managed, 0),
        (Trust::Package, 0),
        (Trust::User, 0),
        // A question about the skill, and another about the call.
        (Trust::Project, 2),
        (Trust::Local, 2),
    ] {
        let mut skill = sparing("Bash(echo *)");
        skill.trust = trust;
        let script = vec![use_skill("git"), bash("echo one"), Reply::text("done")];
        let setup = setup(script, [skill]).asking(vec![ApprovalAnswer::Yes, ApprovalAnswer::Yes]);
        let mut running = setup.build();
        running.turn("look at the work").await;
        let asked = running.approver.asked.lock().unwrap().len();
        assert_eq!(asked, n_asked, "{trust}");
    }
}

#[tokio::test]
async fn a_rule_a_hook_or_a_dry_run_is_stronger() {
    let script = || vec![use_skill("git"), bash("echo one"), Reply::text("done")];
    let base = || setup(script(), [sparing("Bash(echo *)")]);
    assert_eq!(call(base()).await, (0, true));

    for (command, decision, expected) in [
        ("echo *", RuleDecision::Ask, (1, true)),
        ("echo one", RuleDecision::Ask, (1, true)),
        ("echo *", RuleDecision::Deny, (0, false)),
        ("touch *", RuleDecision::Ask, (0, true)),
    ] {
        let mut setup = base();
        setup.policy.rules = vec![rule(command, decision)];
        assert_eq!(call(setup).await, expected, "{command} {decision:?}");
    }

    let asks = base().hook::<at::PreTool>("guard", |_, _| {
        Ok(o::CallOutcome {
            verdict: o::CallVerdict::Ask("why?".into()),
            ..o::CallOutcome::default()
        })
    });
    // The hook asks about the call of the tool `skill` as well.
    let mut running = asks
        .asking(vec![ApprovalAnswer::Yes, ApprovalAnswer::Yes])
        .build();
    running.turn("look at the work").await;
    assert_eq!(running.approver.asked.lock().unwrap().len(), 2);

    let mut denied = base();
    denied.policy.defaults.execute = RuleDecision::Deny;
    assert_eq!(call(denied).await, (0, false));

    let mut dry = base();
    dry.policy.mode.dry_run = true;
    let mut running = dry.build();
    running.turn("look at the work").await;
    assert!(
        running.results()[1].0.starts_with("dry run"),
        "{:?}",
        running.results()
    );
}

#[tokio::test]
async fn a_skill_spares_in_the_turn_of_its_invocation_and_no_longer() {
    let mut lasting = sparing("Bash(echo *)");
    lasting.interaction = SkillLifetime::Conversational;
    let script = vec![
        bash("echo before"),
        use_skill("git"),
        bash("echo one"),
        Reply::text("done"),
        bash("echo two"),
        Reply::text("done"),
    ];
    let mut running = setup(script, [lasting])
        .asking(vec![ApprovalAnswer::Yes, ApprovalAnswer::Yes])
        .build();
    running.turn("look at the work").await;
    assert_eq!(running.approver.asked.lock().unwrap().len(), 1);
    running.turn("go on").await;
    assert_eq!(running.agent.active_skills(), ["git"]);
    assert_eq!(running.approver.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_subagent_that_the_model_starts_meanwhile_is_spared_nothing() {
    let spawn = json!({"task": "say one", "tools": ["bash"], "wait": true});
    let script = vec![
        use_skill("git"),
        Reply::call("spawn_subagent", spawn),
        bash("echo one > said"),
        Reply::text("could not"),
        Reply::text("done"),
    ];
    let mut skill = sparing("Bash(echo *)");
    skill.spares.extend(sparing("Write").spares);
    let mut setup = setup(script, [skill]);
    setup.config.subagents.enabled = true;
    setup.policy.rules = vec![
        serde_json::from_value(json!({"tool": "spawn_subagent", "decision": "allow"})).unwrap(),
    ];
    let mut running = setup.asking(Vec::new()).build();
    running.turn("look at the work").await;
    assert!(!running.folder.path().join("w/said").exists());
}

#[tokio::test]
async fn a_text_that_comes_in_again_is_active_again_and_spares_nothing() {
    let script = vec![
        bash("touch one"),
        Reply::text("done"),
        bash("touch two"),
        Reply::text("done"),
        bash("touch three"),
        Reply::text("done"),
    ];
    let setup = setup(script, [sparing("Bash(touch *)")]);
    let answers = vec![ApprovalAnswer::No("no".into())];
    let mut running = setup.asking(answers).build();
    let n_asked = |running: &Running| running.approver.asked.lock().unwrap().len();
    let text = running.agent.invoke_skill("git", &json!(""), "/git").await;
    let text = text.unwrap();
    running.turn(&text).await;
    assert_eq!(n_asked(&running), 0);
    // The skill's text within a message, as a piped file could contain it, activates no skill.
    running.turn(&format!("Look at this:\n{text}")).await;
    assert_eq!(n_asked(&running), 1);
    assert!(!running.folder.path().join("w/two").exists());
    // The user invokes the skill once more.
    let again = running.agent.invoke_skill("git", &json!(""), "/git").await;
    running.turn(&again.unwrap()).await;
    assert_eq!(n_asked(&running), 1);
    assert!(running.folder.path().join("w/three").exists());
}
