//! Tests of skills for certain files: the model is told of a skill when it first uses such a file,
//! and the system prompt does not change.

use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::tool::approval::ApprovalAnswer;

use super::*;
use crate::harness::session_spec;

/// Returns a skill for files that match these patterns.
fn about(id: &str, paths: &[&str]) -> Skill {
    let mut skill = skill(id, "Do it this way.");
    skill.paths = paths.iter().map(|path| (*path).to_owned()).collect();
    skill
}

fn read(path: &str) -> Reply {
    Reply::call("read_file", json!({ "path": path }))
}

/// Returns the beginning of the note that tells the model of a skill.
fn mark(id: &str) -> String {
    format!("[skill for files such as this, {id}: Does {id}.")
}

/// Counts the notes about a skill in the conversation.
fn n_told(running: &Running, id: &str) -> usize {
    running.lines().join("\n").matches(&mark(id)).count()
}

#[tokio::test]
async fn a_skill_about_files_is_told_of_beneath_the_first_one_and_the_system_prompt_stays() {
    let script = vec![
        read("b.md"),
        read("a.txt"),
        read("a.txt"),
        use_skill("text"),
        Reply::text("done"),
        read("a.txt"),
        Reply::text("done again"),
    ];
    let skills = [about("text", &["*.txt"]), skill("other", "Else.")];
    let setup = setup(script, skills);
    put(&setup.workspace().join("b.md"), "beta\n");
    let mut running = setup.build();
    running.turn("look at the work").await;
    let results: Vec<String> = running
        .results()
        .into_iter()
        .map(|(text, ..)| text)
        .collect();
    assert_eq!(results[0], "beta\n");
    assert!(
        results[1].starts_with("alpha\n") && results[1].contains(&mark("text")),
        "{results:?}"
    );
    assert_eq!(results[2], "alpha\n");
    assert!(results[3].contains("Do it this way."), "{results:?}");
    running.turn("look again").await;
    assert_eq!(n_told(&running, "text"), 1);
    let bodies = running.provider.recorded_request_bodies();
    let system = bodies[0]["system"].to_string();
    assert!(
        system.contains("- other: Does other.") && !system.contains("Does text."),
        "{system}"
    );
    for body in &bodies {
        assert_eq!(body["system"], bodies[0]["system"]);
    }
    let notices: Vec<&Event> = running
        .events
        .iter()
        .filter(|event| matches!(event, Event::Notice { text, .. } if text.contains("told of the skill text, which is meant for files such as a.txt")))
        .collect();
    assert_eq!(notices.len(), 1);
}

#[tokio::test]
async fn reading_writing_and_editing_touch_a_file_and_nothing_else_does() {
    let edit = json!({"path": "a.txt", "old_text": "alpha", "new_text": "gamma"});
    for (call, is_told) in [
        (read("a.txt"), true),
        (read("./deep/../a.txt"), true),
        (
            Reply::call("write_file", json!({"path": "new.txt", "content": ""})),
            true,
        ),
        (Reply::call("edit_file", edit), true),
        (read("missing.txt"), false),
        (Reply::call("list_files", json!({})), false),
        (Reply::call("search", json!({"pattern": "alpha"})), false),
        (bash("cat a.txt"), false),
    ] {
        let told = format!("{call:?}");
        let setup = setup(
            vec![call, Reply::text("done")],
            [about("text", &["/*.txt"])],
        );
        std::fs::create_dir(setup.workspace().join("deep")).unwrap();
        let mut running = setup.build();
        running.turn("look at the work").await;
        assert_eq!(
            n_told(&running, "text"),
            usize::from(is_told),
            "{told} {:?}",
            running.lines()
        );
    }
}

#[tokio::test]
async fn nobody_is_told_of_a_skill_that_the_model_may_not_start_or_cannot_read() {
    let mut user_only = about("text", &["*.txt"]);
    user_only.invocation = SkillInvocationRule::UserOnly;
    let mut lacks = about("text", &["*.txt"]);
    lacks.missing = vec!["the program `x`".into()];
    let mut narrow = only("narrow", &["read_file"]);
    narrow.tools.deny = patterns(&["skill"]);
    for (skills, before) in [
        (vec![user_only], None),
        (vec![lacks], None),
        (
            vec![about("text", &["*.txt"]), narrow],
            Some(use_skill("narrow")),
        ),
    ] {
        let script = before
            .into_iter()
            .chain([read("a.txt"), Reply::text("done")]);
        let mut running = setup(script.collect(), skills).build();
        running.turn("look at the work").await;
        assert_eq!(n_told(&running, "text"), 0, "{:?}", running.lines());
    }
}

#[tokio::test]
async fn a_file_that_says_what_the_host_says_keeps_nobody_from_being_told() {
    let script = vec![
        read("README.md"),
        read("a.txt"),
        read("a.txt"),
        Reply::text("done"),
    ];
    let setup = setup(script, [about("text", &["*.txt"])]);
    let line = format!(
        "{} When it fits the task, call `skill` with its name first.]\n",
        mark("text")
    );
    put(&setup.workspace().join("README.md"), &line);
    let mut running = setup.build();
    running.turn("look at the work").await;
    let results = running.results();
    assert!(results[0].0.contains(&mark("text")), "{results:?}");
    assert!(
        results[1].0.starts_with("alpha\n") && results[1].0.contains(&mark("text")),
        "{results:?}"
    );
    assert_eq!(results[2].0, "alpha\n");
}

#[tokio::test]
async fn what_a_hook_took_out_was_not_told() {
    let n_seen = std::sync::atomic::AtomicUsize::new(0);
    let script = vec![
        read("a.txt"),
        read("a.txt"),
        read("a.txt"),
        Reply::text("done"),
    ];
    let setup =
        setup(script, [about("text", &["*.txt"])]).hook::<at::PostTool>("keeper", move |_, _| {
            let is_first = n_seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            Ok(o::ResultOutcome {
                content: is_first.then(|| vec!["kept aside".to_owned().into()]),
                ..o::ResultOutcome::default()
            })
        });
    let mut running = setup.build();
    running.turn("look at the work").await;
    let results = running.results();
    assert_eq!(results[0].0, "kept aside");
    assert!(results[1].0.contains(&mark("text")), "{results:?}");
    assert_eq!(results[2].0, "alpha\n");
}

#[tokio::test]
async fn files_that_are_read_side_by_side_tell_of_a_skill_once_and_a_refused_call_does_not() {
    let script = vec![
        Reply::call("write_file", json!({"path": "c.txt", "content": ""})),
        read("a.txt").with_tool_call("read_file", json!({"path": "b.txt"})),
        Reply::text("done"),
    ];
    let mut running = setup(script, [about("text", &["**/*.txt"])])
        .asking(vec![ApprovalAnswer::No("no".into())])
        .build();
    running.turn("look at the work").await;
    assert_eq!(n_told(&running, "text"), 1);
    assert!(!running.results()[0].0.contains(&mark("text")));
}

#[tokio::test]
async fn what_was_told_holds_after_a_resume_and_not_after_undo() {
    let script = || vec![read("a.txt"), Reply::text("done")];
    let before = setup(script(), [about("text", &["*.txt"])]);
    let store = before.store();
    let mut running = before.build();
    running.turn("look at the work").await;
    assert_eq!(n_told(&running, "text"), 1);

    let (id, folder) = (running.session.id().clone(), running.folder);
    drop((running.agent, running.session));
    let twice = script().into_iter().chain(script()).collect();
    let mut again = setup(twice, [about("text", &["*.txt"])]);
    let session = store
        .resume(&id, &session_spec(&folder.path().join("w")))
        .unwrap();
    again.folder = folder;
    let mut running = again.build_on(session);
    running.turn("look again").await;
    assert_eq!(n_told(&running, "text"), 1);
    // Undoing both turns removes the note.
    running.agent.undo().await.unwrap();
    running.agent.undo().await.unwrap();
    assert_eq!(n_told(&running, "text"), 0);
    running.turn("look at the work").await;
    assert_eq!(n_told(&running, "text"), 1);
}

#[tokio::test]
async fn compaction_leaves_one_line_of_a_skill_about_files() {
    let mut script = vec![read("a.txt")];
    script.extend((0..14).map(|_| read("long.txt")));
    script.push(Reply::text("done"));
    let mut setup = setup(script, [about("text", &["a.txt"])]);
    setup.config.compact.threshold_tokens = Some(6_000);
    setup.config.compact.keep_last_messages = 2;
    setup.config.compact.keep_tokens = 500;
    put(
        &setup.workspace().join("long.txt"),
        &"words of a file\n".repeat(400),
    );
    let mut running = setup.build();
    running.turn("look at the work").await;
    let names = running.names();
    let n_compacted = names.iter().filter(|name| **name == "compact-end").count();
    assert!(n_compacted > 1, "{names:?}");
    assert_eq!(n_told(&running, "text"), 1, "{:?}", running.lines());
    let bodies = running.provider.recorded_request_bodies();
    let last = bodies.last().unwrap()["messages"].to_string();
    assert_eq!(last.matches(&mark("text")).count(), 1);
}

#[test]
fn patterns_of_many_braces_are_refused_with_their_place_and_others_are_small() {
    let text =
        |paths: &str| format!("---\nname: x\ndescription: d\npaths: [\"{paths}\"]\n---\nText.\n");
    let bomb = "{a,b}".repeat(30);
    let skill = rind::skill::parse_text("x", &text(&bomb)).unwrap();
    assert_eq!(skill.paths, Vec::<String>::new());
    let found: Vec<String> = skill.diagnostics.iter().map(ToString::to_string).collect();
    assert!(found[0].starts_with("4:9: `paths`:"), "{found:?}");
    let skill = rind::skill::parse_text("x", &text("{a,b}/{c,d}/*.{e,f}")).unwrap();
    assert_eq!(skill.paths, ["{a,b}/{c,d}/*.{e,f}"]);
    let skills = SessionSkills::new([skill], Vec::new());
    let about = |path| skills.skills_for_path(path).count();
    assert_eq!((about("b/c/x.f"), about("b/b/x.f")), (1, 0));
}
