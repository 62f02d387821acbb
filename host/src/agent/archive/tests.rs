//! Tests of subagents that archive their own turns when they are continued.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::query::add_query_tool_to_subagent;
use crate::agent::scope::SharedAgentTreeState;
use crate::agent::spec::QUERY_SUBAGENT_TOOL_NAME;
use crate::agent::{AgentConfig, AgentSpec, LiveAgent, TurnSpec};
use crate::event::EventSender;
use crate::point::payload::Source;
use crate::provider::scripted::{Reply, ReplyCondition, Script, Scripted};
use crate::session::{Session, SessionSpec, SessionStore};
use crate::tool::approval::AllowAllApprover;
use crate::tool::builtin;
use crate::tool::policy::{ToolPolicy, ToolPolicyOptions};
use crate::tool::registry::ToolRegistry;
use crate::tool::workspace::Workspace;

fn spec(place: &Path, session: Arc<Session>, script: Vec<Reply>) -> AgentSpec {
    let mut tools = ToolRegistry::default();
    let workspace = Arc::new(Workspace::open_root_folder(place).unwrap());
    for tool in builtin::unconfined_built_in_tools(&workspace) {
        tools.add(tool).unwrap();
    }
    let mut config = AgentConfig::default();
    config.subagents.enabled = true;
    config.archival.enabled = true;
    AgentSpec {
        provider: Arc::new(Scripted::new(Script::new(script))),
        model: "m".to_owned(),
        temperature: None,
        max_tokens: None,
        tools,
        deferred: Arc::default(),
        hooks: Arc::default(),
        policy: Arc::new(ToolPolicy {
            mode: ToolPolicyOptions {
                yes: true,
                ..ToolPolicyOptions::default()
            },
            ..ToolPolicy::default()
        }),
        approver: Arc::new(AllowAllApprover),
        session,
        events: EventSender::new_with_receiver().0,
        keep_in_store: Arc::new(|_, _, _| {}),
        config,
        workspace: place.to_owned(),
        parts: Vec::new(),
        skills: Arc::default(),
        presets: Arc::default(),
        plugins: Arc::default(),
        own_folders: Arc::default(),
        name: "main".into(),
        depth: 0,
        call_chain: Vec::new(),
        agent_loop: None,
        known: Arc::default(),
        live: crate::tool::live::RunningToolCallOutputs::default(),
        background: crate::tool::background::BackgroundCommands::default(),
        told: Arc::default(),
    }
}

async fn run_turn_with_input(agent: &mut LiveAgent, input: &str) {
    let cancel = CancellationToken::new();
    let turn = agent.run_turn(TurnSpec::new(input, Source::Agent), &cancel);
    turn.await.unwrap();
}

/// Runs two turns of a subagent at the depth `depth`; the first turn has five tool calls. Returns
/// the subagent's session, and whether the subagent has the tool to query holders.
async fn run_continued_subagent(place: &Path, depth: u32) -> (Arc<Session>, bool) {
    std::fs::write(place.join("a.txt"), "alpha").unwrap();
    let of_session = SessionSpec {
        workspace: place.to_owned(),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
    };
    let store = SessionStore::new(place.join("sessions"));
    let session = Arc::new(store.create(&of_session).unwrap());
    let own = session
        .session_location()
        .create_subagent_session("sub-00000001", &of_session);
    let own = Arc::new(own.unwrap());
    let mut main = LiveAgent::new(spec(place, session, vec![Reply::text("hello")]));
    run_turn_with_input(&mut main, "hello").await;
    let family = SharedAgentTreeState {
        parent: main.scope.clone(),
        ..main.family.clone()
    };
    let read = Reply::call("read_file", json!({"path": "a.txt"}));
    let mut script = vec![read; 5];
    script.push(Reply::text("done"));
    script.push(Reply {
        delay_ms: 200,
        ..Reply::text("done again")
    });
    script.push(Reply {
        when: Some(ReplyCondition {
            contains: Some("Sum up this turn.".to_owned()),
            ..ReplyCondition::default()
        }),
        times: Some(0),
        ..Reply::text("{\"outcome\":\"read\"}")
    });
    let mut spec = AgentSpec {
        name: "sub-00000001".into(),
        depth,
        ..spec(place, own.clone(), script)
    };
    let mut first = LiveAgent::new_with_shared_state(spec.clone(), family.clone());
    run_turn_with_input(&mut first, "Read a.txt").await;
    drop(first);
    add_query_tool_to_subagent(&mut spec, &family.active_turns);
    let has_tool = spec.tools.get(QUERY_SUBAGENT_TOOL_NAME).is_some();
    let mut second = LiveAgent::new_with_shared_state(spec, family);
    run_turn_with_input(&mut second, "and once more").await;
    second.archive_ready_turns_on_close().await;
    (own, has_tool)
}

#[tokio::test]
async fn a_subagent_that_is_continued_archives_its_turn_below_itself_and_can_query_it() {
    let place = tempfile::tempdir().unwrap();
    let (session, has_tool) = run_continued_subagent(place.path(), 2).await;
    let children = session.subagents();
    assert_eq!(children.len(), 1, "{children:?}");
    assert!(children[0].is_holder && has_tool);
    assert_eq!(children[0].task, "Archive: Read a.txt");
    let file = session
        .local_folder()
        .unwrap()
        .join("agents")
        .join(&children[0].agent);
    assert!(file.join("session.jsonl").is_file());
    assert!(
        session
            .local_folder()
            .unwrap()
            .ends_with("agents/sub-00000001")
    );
    let kept = session.messages();
    assert_eq!(kept.len(), 4, "{kept:?}");
    assert_eq!(
        kept[1].id_of_archiving_subagent(),
        Some(&*children[0].agent)
    );
}

#[tokio::test]
async fn at_the_maximum_subagent_depth_nothing_is_archived() {
    let place = tempfile::tempdir().unwrap();
    let (session, has_tool) = run_continued_subagent(place.path(), 3).await;
    assert_eq!((session.subagents().len(), has_tool), (0, false));
    assert_eq!(session.turns_due_for_archival(), []);
}
