//! Tests of the skills of a resumed session, and of the notice at the first use of a skill.

use rind::grant::SideEffect;
use rind::point::outcome::Level;
use rind_tests::guests;

use super::*;
use crate::harness::session_spec;

/// Returns the texts of the notices about side effects of skills.
fn notices(running: &Running) -> Vec<String> {
    let events = running.events.iter();
    let notices = events.filter_map(|event| match event {
        Event::Notice { level, text, .. } if *level == Level::Info => Some(text.clone()),
        _ => None,
    });
    notices
        .filter(|text| text.starts_with("the skill "))
        .collect()
}

#[tokio::test]
async fn what_a_skill_says_that_it_does_is_told_before_its_first_use_and_once() {
    let of = |trust, effects: &[SideEffect]| {
        let mut skill = skill("notes", "Keep notes.");
        (skill.trust, skill.side_effects) = (trust, effects.to_vec());
        skill
    };
    let both = [SideEffect::Filesystem, SideEffect::Network];
    let words = "the skill notes says that it reads or writes files, uses the network";
    for (skill, expected) in [
        (of(Trust::User, &both), &[words][..]),
        (of(Trust::Package, &both), &[words]),
        // The question about a project's skill lists the side effects, so there is no notice.
        (of(Trust::Project, &both), &[]),
        (of(Trust::User, &[SideEffect::None]), &[]),
        (of(Trust::User, &[]), &[]),
    ] {
        let script = vec![
            use_skill("notes"),
            Reply::text("one"),
            use_skill("notes"),
            Reply::text("two"),
        ];
        let setup = setup(script, [skill]).asking(vec![ApprovalAnswer::Yes]);
        let mut running = setup.build();
        running.turn("go on with the work").await;
        running.turn("go on with the work").await;
        assert_eq!(notices(&running), expected);
    }
}

#[tokio::test]
async fn a_person_who_said_yes_is_not_asked_again_after_a_resume_unless_the_skill_changed() {
    for (body, n_questions) in [("Keep notes.", 0), ("Keep other notes.", 1)] {
        let of_project = |body: &str| {
            let mut skill = skill("notes", body);
            skill.trust = Trust::Project;
            skill
        };
        let script = || vec![use_skill("notes"), Reply::text("done")];
        let first = setup(script(), [of_project("Keep notes.")]).asking(vec![ApprovalAnswer::Yes]);
        let store = first.store();
        let mut running = first.build();
        running.turn("go on with the work").await;
        assert_eq!(running.approver.asked.lock().unwrap().len(), 1);
        let (id, folder) = (running.session.id().clone(), running.folder);
        drop((running.agent, running.session));

        let mut again = setup(script(), [of_project(body)]).asking(vec![ApprovalAnswer::Yes]);
        let session = store
            .resume(&id, &session_spec(&folder.path().join("w")))
            .unwrap();
        again.folder = folder;
        let mut running = again.build_on(session);
        running.turn("go on with the work").await;
        assert_eq!(
            running.approver.asked.lock().unwrap().len(),
            n_questions,
            "{body}"
        );
        assert!(running.results().iter().all(|(_, is_error, _)| !is_error));
    }
}

#[tokio::test]
async fn a_yes_of_a_flag_is_no_answer_of_a_person_after_a_resume() {
    let mut notes = skill("notes", "Keep notes.");
    notes.trust = Trust::Project;
    let script = || vec![use_skill("notes"), Reply::text("done")];
    // The policy of these tests allows everything, as `--yes` does.
    let first = setup(script(), [notes.clone()]);
    let store = first.store();
    let mut running = first.build();
    running.turn("go on with the work").await;
    let (id, folder) = (running.session.id().clone(), running.folder);
    drop((running.agent, running.session));
    let mut again = setup(script(), [notes]).asking(vec![ApprovalAnswer::Yes]);
    let session = store
        .resume(&id, &session_spec(&folder.path().join("w")))
        .unwrap();
    again.folder = folder;
    let mut running = again.build_on(session);
    running.turn("go on with the work").await;
    assert_eq!(running.approver.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn tools_that_a_skill_attached_are_there_after_a_resume() {
    for (attach, is_there) in [(true, true), (false, false)] {
        let greeter = || {
            let mut skill = skill("greeter", "Greet.");
            skill.library_depends = vec!["hello".into()];
            skill.attach = attach;
            skill
        };
        let mut host = guests::Host::default();
        host.guest("hello");
        let mut first = setup(vec![use_skill("greeter"), Reply::text("done")], [greeter()]);
        first.plugins = host.load().await;
        let store = first.store();
        let mut running = first.build();
        running.turn("greet somebody").await;
        let (id, folder) = (running.session.id().clone(), running.folder);
        drop((running.agent, running.session));

        let mut again = setup(vec![Reply::text("done")], [greeter()]);
        again.plugins = host.load().await;
        let session = store
            .resume(&id, &session_spec(&folder.path().join("w")))
            .unwrap();
        again.folder = folder;
        let mut running = again.build_on(session);
        running.turn("greet somebody").await;
        assert_eq!(
            tools_of(&running, 0).contains(&"greet".to_owned()),
            is_there,
            "{attach}"
        );
    }
}

#[tokio::test]
async fn what_a_session_knew_of_a_skill_that_is_another_one_now_is_said_to_be_gone() {
    let of_project = |body: &str| {
        let mut skill = skill("notes", body);
        skill.trust = Trust::Project;
        skill
    };
    let forgotten = |running: &Running| -> Vec<String> {
        let texts = running.events.iter().filter_map(|event| match event {
            Event::Notice { text, .. } if text.contains("no longer count") => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };
    for (skills, expected) in [
        (vec![of_project("Keep notes.")], None),
        (
            vec![of_project("Keep other notes.")],
            Some("the skill notes has changed since this session used it: "),
        ),
        (
            vec![],
            Some("the skill notes is gone since this session used it: "),
        ),
    ] {
        let script = vec![use_skill("notes"), Reply::text("done")];
        let first = setup(script, [of_project("Keep notes.")]).asking(vec![ApprovalAnswer::Yes]);
        let store = first.store();
        let mut running = first.build();
        running.turn("go on with the work").await;
        assert_eq!(forgotten(&running), Vec::<String>::new());
        let (id, folder) = (running.session.id().clone(), running.folder);
        drop((running.agent, running.session));

        let mut again = setup(vec![Reply::text("done")], skills);
        let session = store
            .resume(&id, &session_spec(&folder.path().join("w")))
            .unwrap();
        again.folder = folder;
        let mut running = again.build_on(session);
        running.turn("go on with the work").await;
        let told = forgotten(&running);
        assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
        if let Some(expected) = expected {
            assert!(told[0].starts_with(expected), "{told:?}");
        }
    }
}
