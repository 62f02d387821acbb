//! Tests of what a holder stores, and of how a resumed session finds its holders.

use super::*;

#[tokio::test]
async fn a_holder_keeps_the_whole_turn_in_a_session_of_its_own() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("go on").await;
    let id = holder(&running);
    let kept = entries(&running, &format!("/agents/{id}"));
    let Body::Session { parent_session, .. } = &kept[0] else {
        panic!("{kept:?}")
    };
    assert_eq!(parent_session.as_deref(), Some(&**running.session.id()));
    assert!(matches!(kept[1], Body::TurnStart { turn: 1, .. }));
    assert!(matches!(kept.last(), Some(Body::TurnEnd { .. })));
    let n_steps = kept.iter().filter(|b| matches!(b, Body::Step { .. }));
    assert_eq!(n_steps.count(), 6);
    let kept = messages(kept);
    assert_eq!(kept.len(), 12);
    // The session keeps its own entries too, and one of them names the holder.
    let own = entries(&running, "");
    let named = own.iter().find_map(|body| match body {
        Body::Replaced {
            reason,
            removed,
            messages,
            holder,
        } => Some((
            reason.clone(),
            removed.len(),
            messages.len(),
            holder.clone(),
        )),
        _ => None,
    });
    let (reason, n_removed, n_put, holder) = named.unwrap();
    assert_eq!((&*reason, n_removed, n_put), ("tool-calls", 12, 2));
    let holder = holder.unwrap();
    assert_eq!((holder.agent, &*holder.task), (id, "Archive: go on"));
    assert_eq!(messages(own), kept);
    let list = store(&running).list().unwrap();
    assert_eq!(list.len(), 1, "holders are in no list of sessions");
}

#[tokio::test]
async fn a_resumed_session_and_a_fork_have_their_holders_also_when_archival_is_off() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("go on").await;
    let id = holder(&running);
    let store = store(&running);
    let spec = session_spec(&running.folder.path().join("w"));
    let fork = store.fork(running.session.id(), None, &spec).unwrap();
    let search = || {
        let query = json!({"id": id, "search": "alpha"});
        Setup::new(vec![
            Reply::call("query_subagent", query),
            Reply::text("ok"),
        ])
    };
    let lines = running.lines();
    let mut resumed = again(running, search());
    assert_eq!(resumed.lines(), lines);
    resumed.turn("what did it say?").await;
    assert!(system(&resumed, 0).contains(&format!("- id: {id} | task: Archive: go on")));
    let found = last_result(&resumed);
    assert!(
        found.contains("tool_result: read_file:") && found.contains("alpha"),
        "{found}"
    );
    let names = tools(&resumed, 0);
    assert!(!names.contains(&"spawn_subagent".to_owned()), "{names:?}");

    // The fork has its own copies of the holders.
    std::fs::remove_dir_all(resumed.session.local_folder().unwrap().join("agents")).unwrap();
    let mut setup = search();
    let folder = std::mem::replace(&mut setup.folder, resumed.folder);
    let mut forked = setup.build_on(fork);
    forked.turn("what did it say?").await;
    assert_eq!(last_result(&forked), found);
    drop(folder);
}

#[tokio::test]
async fn a_session_reads_subagents_by_their_id_and_nothing_else() {
    let mut running = archiving(reads(5)).build();
    running.archived_turn("go on").await;
    let id = holder(&running);
    let (store, session) = (store(&running), running.session.id().to_string());
    let known = format!("{session}/agents/{id}");
    let place = store.read_workspace_and_model(&session).unwrap().workspace;
    let resolve = |wanted: &str| store.resolve_session_or_subagent_id(wanted, &place);
    assert_eq!(resolve(&format!("last/agents/{id}")).unwrap(), known);
    assert_eq!(resolve(&session[..18]).unwrap(), session);
    for wrong in [
        format!("last/agents/../../{session}"),
        "last/agents/held-none".to_owned(),
        format!("last/{id}"),
        format!("last/agents/{id}/"),
    ] {
        assert!(resolve(&wrong).is_err(), "{wrong}");
    }
    assert!(
        store.resolve_session_id(&known).is_err(),
        "no turn goes on with a holder"
    );
}

#[tokio::test]
async fn many_holders_are_no_limit_and_the_prompt_lists_the_newest() {
    let mut script = Vec::new();
    (0..53).for_each(|_| script.extend(reads(1)));
    let mut setup = archiving(script);
    setup.config.archival.trigger.tool_call_threshold = 1;
    // Limits the list to about half of the holders. Their ids are random, and some take up to three
    // tokens more.
    setup.config.archival.list.max_tokens = 600;
    let mut running = setup.build();
    for n in 0..53 {
        running.archived_turn(&format!("look {n}")).await;
    }
    assert_eq!(running.session.subagents().len(), 53);
    assert_eq!(running.lines().len(), 106);
    let last = running.provider.recorded_request_bodies().len() - 2;
    let system = system(&running, last);
    let listed: Vec<&str> = system
        .lines()
        .filter(|l| l.starts_with("- id: held-"))
        .collect();
    assert!(listed[0].ends_with("task: Archive: look 51"), "{system}");
    assert!(listed[1].ends_with("task: Archive: look 50"), "{system}");
    assert!((15..40).contains(&listed.len()), "{}", listed.len());
    let older = format!("\n- {} older ones, not listed: ", 52 - listed.len());
    assert!(system.contains(&older), "{system}");
}
