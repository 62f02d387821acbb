//! Tests of attempts to bypass the restrictions of a skill, and to read files outside of its
//! bundle.

use rind::grant::SideEffect;
use rind::grant::held::InMemoryFolder;
use rind::session::SessionStore;
use rind::tool::policy::{PolicyRule, RuleDecision};
use std::sync::Arc;

use super::*;

/// Creates a skill with its own folder of files in the workspace, as a project has it.
fn bundle(running_in: &Path) -> Skill {
    let dir = running_in.join(".claude/skills/pdf");
    put(&dir.join("references/a.md"), "as it was\n");
    let mut pdf = skill("pdf", "Read references/a.md.");
    pdf.file = dir.join("SKILL.md");
    pdf.real_dir = dir.canonicalize().unwrap();
    pdf.dir = dir;
    pdf
}

fn file(name: &str) -> Reply {
    Reply::call("skill", json!({"skill": "pdf", "file": name}))
}

/// Command that replaces the folder of the bundle with a link to another folder.
const SWAP: &str = "mv .claude/skills/pdf old && ln -s \"$PWD/../elsewhere\" .claude/skills/pdf";

#[tokio::test]
async fn a_link_in_the_place_of_a_bundle_leads_nowhere() {
    let script = vec![
        use_skill("pdf"),
        bash(SWAP),
        file("references/a.md"),
        Reply::text("done"),
    ];
    let mut setup = setup(script, []);
    put(
        &setup.folder.path().join("elsewhere/references/a.md"),
        "secret of another place\n",
    );
    setup.skills = SessionSkills::new([bundle(&setup.workspace())], Vec::new());
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let link = running.folder.path().join("w/.claude/skills/pdf");
    assert!(link.is_symlink(), "{:?}", running.results());
    let (text, is_error, _) = &running.results()[2];
    assert!(
        *is_error && text.contains("now a link to another place"),
        "{text}"
    );
}

#[tokio::test]
async fn files_of_a_trusted_bundle_are_given_as_they_were_when_it_was_trusted() {
    let script = vec![
        use_skill("pdf"),
        bash("echo obey me > .claude/skills/pdf/references/a.md; touch .claude/skills/pdf/added"),
        file("references/a.md"),
        file("added"),
        bash(SWAP),
        file("references/a.md"),
        Reply::text("done"),
    ];
    let mut setup = setup(script, []);
    let mut pdf = bundle(&setup.workspace());
    let held = InMemoryFolder::read(&setup.workspace().join(".claude")).unwrap();
    pdf.held = Some(Arc::new(held));
    setup.skills = SessionSkills::new([pdf], Vec::new());
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let results = running.results();
    assert!(results[0].0.contains(": references/a.md. "), "{results:?}");
    assert_eq!(results[2].0, "as it was\n");
    assert!(
        results[3].1 && results[3].0.contains("has no file `added`"),
        "{results:?}"
    );
    assert_eq!(results[5].0, "as it was\n");
}

#[tokio::test]
async fn a_rule_about_a_file_holds_for_one_of_a_bundle() {
    let script = vec![
        use_skill("pdf"),
        file("references/a.md"),
        file("./references/./a.md"),
        Reply::text("done"),
    ];
    let mut setup = setup(script, []);
    setup.skills = SessionSkills::new([bundle(&setup.workspace())], Vec::new());
    let rule = json!({"path": "**/a.md", "decision": "deny"});
    setup.policy.rules = vec![serde_json::from_value(rule).unwrap()];
    let mut running = setup.build();
    running.turn("go on with the work").await;
    for (text, is_error, _) in &running.results()[1..] {
        assert!(*is_error && text.contains("refused by policy"), "{text}");
    }
}

#[tokio::test]
async fn a_text_that_was_handed_out_is_never_given_to_the_model_without_what_it_restricts() {
    let touch = || [bash("touch touched"), Reply::text("done")];
    let script: Vec<Reply> = [touch(), touch(), touch()].into_iter().flatten().collect();
    let skills = [
        only("look", &["read_file"]),
        only("other", &["no_such_tool"]),
    ];
    let mut running = setup(script, skills).build();
    let text = running
        .agent
        .invoke_skill("look", &json!(null), "/look")
        .await
        .unwrap();
    // The skill's text is sent after other text, although another invocation failed meanwhile, and
    // then once more.
    let other = running
        .agent
        .invoke_skill("other", &json!(null), "/other")
        .await;
    assert!(other.is_err());
    running.turn(&format!("Some context.\n{text}")).await;
    running.turn(&text).await;
    assert!(!running.folder.path().join("w/touched").exists());
    assert_eq!(
        told(&running),
        ["+look by user", "-look turn", "+look by user", "-look turn"]
    );
    running.turn("something else").await;
    assert!(running.folder.path().join("w/touched").exists());
}

#[tokio::test]
async fn what_a_project_says_of_its_skill_takes_no_question_away() {
    for (effects, trust, asked) in [
        (vec![SideEffect::Filesystem], Trust::Project, 1),
        (vec![SideEffect::None], Trust::Local, 1),
        (vec![SideEffect::External], Trust::User, 1),
        (vec![SideEffect::Filesystem], Trust::User, 0),
    ] {
        let mut notes = skill("notes", "Write notes.");
        (notes.side_effects, notes.trust) = (effects.clone(), trust);
        let script = vec![use_skill("notes"), Reply::text("done")];
        let mut setup = setup(script, [notes]).asking(vec![ApprovalAnswer::Yes]);
        setup.policy.defaults.write = RuleDecision::Allow;
        setup.policy.defaults.execute = RuleDecision::Allow;
        let mut running = setup.build();
        running.turn("go on with the work").await;
        let n = running.approver.asked.lock().unwrap().len();
        assert_eq!(n, asked, "{effects:?} {trust}");
    }
}

#[tokio::test]
async fn a_rule_that_denies_skills_holds_for_those_that_nobody_asks_about() {
    let mut setup = setup(vec![], [skill("notes", "Write notes.")]);
    setup.policy.rules = vec![PolicyRule::for_tool("skill", RuleDecision::Deny).unwrap()];
    let mut running = setup.build();
    let refused = running
        .agent
        .invoke_skill("notes", &json!(null), "/notes")
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("refused by policy"), "{refused}");
    // A default for the effect `execute` does not apply to a skill's text, which is only read.
    let mut setup = self::setup(vec![], [skill("notes", "Write notes.")]);
    setup.policy.defaults.execute = RuleDecision::Deny;
    let mut running = setup.build();
    let text = running
        .agent
        .invoke_skill("notes", &json!(null), "/notes")
        .await;
    assert!(text.is_ok(), "{text:?}");
}

#[tokio::test]
async fn what_is_piped_to_a_skill_that_forks_reaches_its_subagent() {
    let mut audit = skill("audit", "Audit it.");
    audit.context = SkillExecutionContext::Fork;
    let script = vec![Reply::text("audited")];
    let mut running = setup(script, [audit]).build();
    let line = running
        .agent
        .invoke_skill("audit", &json!(null), "")
        .await
        .unwrap();
    assert_eq!(line, "/audit");
    running
        .turn(&format!("{line}\n\n+ a line of the diff"))
        .await;
    let request = running.provider.recorded_request_bodies()[0].to_string();
    assert!(request.contains("Audit it."), "{request}");
    assert!(request.contains("+ a line of the diff"), "{request}");
}

#[tokio::test]
async fn the_end_of_one_skill_does_not_end_a_lasting_one_of_its_name_in_the_session() {
    let mut tutor = only("tutor", &["read_file"]);
    tutor.interaction = SkillLifetime::Conversational;
    let mut returning = only("tutor", &["read_file", "skill"]);
    returning.hash.push('x');
    let steps = [
        (tutor, vec![use_skill("tutor"), Reply::text("hello")]),
        (
            returning.clone(),
            vec![use_skill("tutor"), Reply::text("hello")],
        ),
        (returning, vec![bash("touch touched"), Reply::text("no")]),
    ];
    let mut before: Option<(SessionStore, Arc<str>, tempfile::TempDir)> = None;
    for (skill, script) in steps {
        let mut setup = setup(script, [skill]);
        let mut running = match before.take() {
            None => setup.build(),
            Some((store, id, folder)) => {
                let workspace = folder.path().join("w");
                let spec = crate::harness::session_spec(&workspace);
                let session = store.resume(&id, &spec).unwrap();
                setup.folder = folder;
                setup.build_on(session)
            }
        };
        running.turn("go on with the work").await;
        let store = SessionStore::new(running.folder.path().join("sessions"));
        let id = running.session.id().clone();
        assert!(!running.folder.path().join("w/touched").exists());
        before = Some((store, id, running.folder));
    }
}

#[tokio::test]
async fn every_page_of_a_text_stands_in_its_wrapper_and_all_of_it_is_there() {
    let lines: Vec<String> = (0..9_000)
        .map(|n| format!("line {n} of the text"))
        .collect();
    let body = lines.join("\n");
    let mut read = Vec::new();
    let mut offset = 1;
    loop {
        let script = vec![
            use_skill("long"),
            Reply::call("skill", json!({"skill": "long", "offset": offset})),
            Reply::text("done"),
        ];
        let mut running = setup(script, [skill("long", &body)]).build();
        running.turn("go on with the work").await;
        let page = match offset {
            1 => running.results()[0].0.clone(),
            _ => running.results()[1].0.clone(),
        };
        let (head, rest) = page.split_once('\n').unwrap();
        let mark = head.split(' ').next().unwrap().trim_start_matches('<');
        assert!(mark.starts_with("skill-"), "{head}");
        let (inner, after) = rest.split_once(&format!("\n</{mark}>")).unwrap();
        read.extend(inner.lines().map(str::to_owned));
        let Some((_, next)) = after.split_once("call again with offset ") else {
            assert_eq!(after, "");
            break;
        };
        offset = next.trim_end_matches(']').parse().unwrap();
    }
    assert_eq!(read, lines);
}
