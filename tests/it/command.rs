//! Slash commands of plugins and their questions to the person, through the host as a library.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rind::agent::AgentConfig;
use rind::event::Event;
use rind::grant::Trust;
use rind::grant::ask::GrantOptions;
use rind::grant::policy::CapabilityPolicy;
use rind::host::{HostBuilder, PluginCommandError};
use rind::plugin::commands::SlashCommandReply;
use rind::point::Hook;
use rind::point::caller::Caller;
use rind::point::catalog::SessionStart;
use rind::point::failure::{Failure, OnFailure};
use rind::point::handle::{PluginUserQuestion, UserAnswerToPlugin};
use rind::point::outcome::Observed;
use rind::point::payload::SessionInfo;
use rind::point::registry::HookSpec;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::approval::{ApprovalAnswer, Approver, Question};
use rind::{Host, PluginFolders, Session};
use rind_tests::guests;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A person who gives the same answer to every question, after a delay.
struct Somebody {
    after: Duration,
    answer: UserAnswerToPlugin,
    asked: Arc<Mutex<Vec<PluginUserQuestion>>>,
}

impl Approver for Somebody {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            tokio::time::sleep(self.after).await;
            ApprovalAnswer::Yes
        })
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(question.clone());
            tokio::time::sleep(self.after).await;
            Some(self.answer.clone())
        })
    }
}

struct Open {
    session: Session,
    asked: Arc<Mutex<Vec<PluginUserQuestion>>>,
    _folder: TempDir,
}

/// Opens a session with the guest `asker`. `None` for `somebody` means that nobody can answer.
async fn open(replies: Vec<Reply>, somebody: Option<(Duration, UserAnswerToPlugin)>) -> Open {
    open_with("asker", replies, somebody, |manifest| manifest, |host| host).await
}

/// Opens a session with any guest, a changed manifest, and a host that `more` extends.
async fn open_with(
    guest: &str,
    replies: Vec<Reply>,
    somebody: Option<(Duration, UserAnswerToPlugin)>,
    manifest: impl FnOnce(String) -> String,
    more: impl FnOnce(HostBuilder) -> HostBuilder,
) -> Open {
    let folder = tempfile::tempdir().unwrap();
    guests::put(guest, folder.path(), manifest);
    let asked = Arc::<Mutex<Vec<PluginUserQuestion>>>::default();
    let model = Scripted::new(Script::new(replies));
    let mut host = Host::builder()
        .provider(Arc::new(model), "test-model")
        .plugins(PluginFolders::new(Trust::Managed, folder.path()));
    if let Some((after, answer)) = somebody {
        let asked = asked.clone();
        host = host.approver(Arc::new(Somebody {
            after,
            answer,
            asked,
        }));
    }
    let host = more(host).build().await.unwrap();
    Open {
        session: host.session().create().unwrap(),
        asked,
        _folder: folder,
    }
}

impl Open {
    async fn run(
        &mut self,
        command: &str,
        arguments: &str,
    ) -> Result<SlashCommandReply, PluginCommandError> {
        let never = CancellationToken::new();
        let ran = self
            .session
            .run_command("asker", command, arguments.to_owned(), &never);
        ran.await
    }

    async fn text(&mut self, command: &str, arguments: &str) -> String {
        match self.run(command, arguments).await {
            Ok(SlashCommandReply::Text(text)) => text,
            other => format!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_listed_with_their_schemas() {
    let open = open(Vec::new(), None).await;
    let commands = open.session.commands();
    let start = commands
        .iter()
        .find(|own| own.spec().name == "start")
        .unwrap();
    assert_eq!(start.plugin_name(), "asker");
    assert_eq!(start.spec().description, "Starts a turn.");
    let schema = start.spec().arguments.clone().unwrap();
    assert_eq!(schema["required"], serde_json::json!(["topic"]));
    let confirm = commands
        .iter()
        .find(|own| own.spec().name == "confirm")
        .unwrap();
    assert_eq!(confirm.spec().arguments, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_answers_text_or_a_prompt_and_leaves_an_event_and_an_entry() {
    let mut open = open(Vec::new(), None).await;
    let mut events = open.session.events();
    let reply = open
        .run("start", r#"{"topic": "tides", "loud": true}"#)
        .await;
    assert_eq!(
        reply.unwrap(),
        SlashCommandReply::Prompt("Tell me about TIDES.".to_owned())
    );
    let mut seen = Vec::new();
    while let Ok(stamped) = events.try_recv() {
        seen.push(stamped.event);
    }
    let is_command = |event: &&Event| matches!(event, Event::Command { command, source, .. } if command == "start" && source == "plugin asker");
    assert_eq!(seen.iter().filter(is_command).count(), 1, "{seen:?}");
    let id = open.session.id().clone();
    let host = open.session.host().clone();
    open.session.close().await.unwrap();
    let (entries, _) = host.store().read_entries(&id).unwrap();
    let kinds: Vec<String> = entries
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap()["type"].to_string())
        .collect();
    assert!(kinds.contains(&"\"command\"".to_owned()), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_spins_is_stopped_and_others_go_on() {
    let mut open = open(Vec::new(), None).await;
    let error = open.run("spin", "{}").await.unwrap_err().to_string();
    assert!(
        error.contains("`/spin` of plugin `asker` failed"),
        "{error}"
    );
    let error = open.run("fail", "{}").await.unwrap_err().to_string();
    assert!(error.contains("it is closed\\u{1b}[2K"), "{error}");
    assert_eq!(
        open.run("line", "on main").await.unwrap(),
        SlashCommandReply::Nothing
    );
    let error = open.run("nothing", "").await.unwrap_err();
    assert!(matches!(error, PluginCommandError::Unknown { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_the_text_of_a_command_are_masked() {
    let mut open = open(Vec::new(), None).await;
    let text = open.text("leak", "{}").await;
    assert!(text.contains("[secret masked"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_command_ends() {
    let mut open = open(Vec::new(), None).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let ran = open
        .session
        .run_command("asker", "spin", "{}".to_owned(), &cancel);
    let error = ran.await.unwrap_err().to_string();
    assert!(error.contains("interrupted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_stands_still_while_the_person_thinks() {
    // The delay is longer than the one second that the manifest allows for a call.
    let after = Duration::from_millis(2_500);
    let mut open = open(Vec::new(), Some((after, UserAnswerToPlugin::Yes(true)))).await;
    assert_eq!(open.text("confirm", "Go\u{1b}[2K on?").await, "true");
    let asked = open.asked.lock().unwrap().clone();
    assert_eq!(asked[0].plugin, "asker");
    assert_eq!(asked[0].text, "Go\\u{1b}[2K on?");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_tool_stands_still_as_well() {
    let after = Duration::from_millis(2_500);
    let replies = vec![
        Reply::call("ask_person", serde_json::json!({})),
        Reply::text("done"),
    ];
    let one_second = AgentConfig {
        tool_timeout_seconds: 1,
        ..AgentConfig::default()
    };
    let somebody = Some((after, UserAnswerToPlugin::Yes(true)));
    let with = |host: HostBuilder| host.config(one_second);
    let mut open = open_with("asker", replies, somebody, |manifest| manifest, with).await;
    open.session.turn("go").await.unwrap();
    assert_eq!(last_result(&open.session), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_plugin_stands_still_while_the_person_approves_its_call() {
    let after = Duration::from_millis(2_500);
    let write = serde_json::json!({"what": "call", "text": "write_file", "arguments": {"path": "c.txt", "content": "new"}});
    let replies = vec![Reply::call("act", write), Reply::text("done")];
    let somebody = Some((after, UserAnswerToPlugin::Yes(true)));
    let one_second = |manifest: String| manifest + "\n[limits]\ntimeout = \"1s\"\n";
    let mut open = open_with(
        "external",
        replies,
        somebody,
        one_second,
        HostBuilder::file_tools,
    )
    .await;
    open.session.turn("go on with the work").await.unwrap();
    let result = last_result(&open.session);
    assert!(result.starts_with("ok: "), "{result}");
}

fn last_result(session: &Session) -> String {
    let messages = session.messages();
    let results = messages.iter().flat_map(|m| m.tool_results());
    results.last().unwrap().content.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_session_start_ask_the_person_in_the_first_command() {
    let somebody = Some((Duration::ZERO, UserAnswerToPlugin::Yes(true)));
    let same = |manifest| manifest;
    let mut open = open_with("starter", Vec::new(), somebody, same, |host| host).await;
    let never = CancellationToken::new();
    let ran = open
        .session
        .run_command("starter", "answer", String::new(), &never);
    assert_eq!(
        ran.await.unwrap(),
        SlashCommandReply::Text("Ok(true)".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_session_start_are_interrupted_with_the_first_command() {
    let somebody = Some((Duration::from_secs(600), UserAnswerToPlugin::Yes(true)));
    let same = |manifest| manifest;
    let mut open = open_with("starter", Vec::new(), somebody, same, |host| host).await;
    let cancel = CancellationToken::new();
    let (asked, stop) = (open.asked.clone(), cancel.clone());
    tokio::spawn(async move {
        while asked.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
    });
    let ran = open
        .session
        .run_command("starter", "answer", String::new(), &cancel);
    let ran = tokio::time::timeout(Duration::from_secs(60), ran).await;
    let why = ran.expect("it goes on").unwrap_err().to_string();
    assert!(why.contains("interrupted"), "{why}");
}

/// A guard that fails after a delay.
struct Blind(Duration);

impl Hook<SessionStart> for Blind {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a SessionInfo,
    ) -> BoxFuture<'a, Result<Observed, Failure>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Err(Failure::Error("it sees nothing".to_owned()))
        })
    }
}

/// Opens a session with the guest and a guard that blocks when it fails. The guard fails after this
/// delay.
async fn guarded(
    somebody: Option<(Duration, UserAnswerToPlugin)>,
    after: Duration,
    is_async: bool,
) -> Open {
    let guard = HookSpec {
        on_failure: OnFailure::Block,
        is_async,
        ..HookSpec::for_native_hook::<SessionStart>("guard")
    };
    let with = |host: HostBuilder| host.hook::<SessionStart>(guard, Arc::new(Blind(after)));
    open_with("asker", Vec::new(), somebody, |manifest| manifest, with).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_run_when_a_guard_has_failed_before_it() {
    let somebody = Some((Duration::ZERO, UserAnswerToPlugin::Text("Ada".to_owned())));
    let mut open = guarded(somebody, Duration::ZERO, false).await;
    let why = open.run("name", "{}").await.unwrap_err().to_string();
    assert!(why.contains("stopped") && why.contains("guard"), "{why}");
    assert!(open.asked.lock().unwrap().is_empty());
    // The failure was reported and does not block later commands.
    assert_eq!(open.text("name", "{}").await, "Ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_when_a_guard_fails_while_it_runs() {
    let somebody = Some((Duration::from_secs(600), UserAnswerToPlugin::Yes(true)));
    let mut open = guarded(somebody, Duration::from_millis(300), true).await;
    let ran = tokio::time::timeout(Duration::from_secs(60), open.run("confirm", "Go on?")).await;
    let why = ran.expect("it goes on").unwrap_err().to_string();
    assert!(why.contains("stopped") && why.contains("guard"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_the_policy_mutes_asks_nobody_and_the_event_says_so() {
    let folder = tempfile::tempdir().unwrap();
    guests::put("asker", folder.path(), |manifest| manifest);
    let text = "[plugins.asker]\nmute = true\n";
    let grants = GrantOptions {
        policy: CapabilityPolicy::parse(&[(text, Path::new("policy.toml"))]).unwrap(),
        ..GrantOptions::default()
    };
    let muted = PluginFolders::new(Trust::Managed, folder.path()).grants(grants);
    let somebody = Some((Duration::ZERO, UserAnswerToPlugin::Yes(true)));
    let with = |host: HostBuilder| host.plugins(muted);
    let mut open = open_with("asker", Vec::new(), somebody, |manifest| manifest, with).await;
    let mut events = open.session.events();
    assert_eq!(open.text("confirm", "Go on?").await, "false");
    assert!(open.asked.lock().unwrap().is_empty());
    let mut is_told = false;
    while let Ok(stamped) = events.try_recv() {
        is_told |= matches!(
            stamped.event,
            Event::Asked {
                is_default: true,
                ..
            }
        );
    }
    assert!(is_told);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_is_there_the_default_counts_and_the_event_says_so() {
    let mut open = open(Vec::new(), None).await;
    let mut events = open.session.events();
    assert_eq!(open.text("confirm", "Go on?").await, "false");
    assert_eq!(open.text("choose", "{}").await, "0");
    assert_eq!(open.text("name", "{}").await, "nobody");
    let mut asked = Vec::new();
    while let Ok(stamped) = events.try_recv() {
        if let Event::Asked {
            answer, is_default, ..
        } = stamped.event
        {
            asked.push((answer, is_default));
        }
    }
    let expected = [("no", true), ("red", true), ("nobody", true)];
    assert_eq!(
        asked,
        expected.map(|(answer, is_default)| (answer.to_owned(), is_default))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_bounded_in_number_and_size() {
    let mut open = open(Vec::new(), None).await;
    let often = open.text("often", "{}").await;
    assert!(often.contains("5 questions to the person"), "{often}");
    // The limit on questions applies to each command separately.
    assert_eq!(open.text("name", "{}").await, "nobody");
    let wrongly = open.text("wrongly", "{}").await;
    for part in ["is empty", "at most 1000 bytes", "2 to 9 options"] {
        assert!(wrongly.contains(part), "{wrongly}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_once_the_turn_or_the_command_is_over() {
    for is_command in [false, true] {
        let answer = (Duration::ZERO, UserAnswerToPlugin::Yes(true));
        let mut open = open(vec![Reply::text("done")], Some(answer)).await;
        if is_command {
            assert_eq!(open.text("confirm", "Go on?").await, "true");
        } else {
            open.session.turn("go").await.unwrap();
        }
        // The guest's `session-end` hook asks a question.
        open.session.close().await.unwrap();
        assert_eq!(open.asked.lock().unwrap().len(), usize::from(is_command));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_looks_like_a_secret_is_not_handed_over() {
    let key = format!("AKIA{}", "Z7QX3M5R2T6P4WKV");
    let answer = UserAnswerToPlugin::Text(key.clone());
    let mut open = open(Vec::new(), Some((Duration::ZERO, answer))).await;
    let mut events = open.session.events();
    let text = open.text("name", "{}").await;
    assert!(text.contains("looks like a secret"), "{text}");
    while let Ok(stamped) = events.try_recv() {
        let line = serde_json::to_string(&stamped).unwrap();
        assert!(!line.contains(&key), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupting_the_turn_ends_a_question_of_a_tool() {
    let replies = vec![
        Reply::call("ask_person", serde_json::json!({})),
        Reply::text("done"),
    ];
    let never = (Duration::from_secs(600), UserAnswerToPlugin::Yes(true));
    let mut open = open(replies, Some(never)).await;
    let cancel = CancellationToken::new();
    let asked = open.asked.clone();
    let stop = cancel.clone();
    tokio::spawn(async move {
        while asked.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.cancel();
    });
    let outcome = open.session.turn("go").until(&cancel).await.unwrap();
    assert!(outcome.output.contains("cancelled"), "{}", outcome.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_status_is_one_short_line_and_an_event_when_it_changes() {
    let mut open = open(Vec::new(), None).await;
    let mut events = open.session.events();
    for text in [
        "on main",
        "on main",
        &format!("a\nb{}", "x".repeat(200)),
        "",
    ] {
        open.run("line", text).await.unwrap();
    }
    let mut lines = Vec::new();
    while let Ok(stamped) = events.try_recv() {
        if let Event::Status { text, .. } = stamped.event {
            lines.push(text);
        }
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], "on main");
    assert_eq!(lines[1].chars().count(), 80);
    assert!(!lines[1].contains('\n'), "{lines:?}");
    assert_eq!(lines[2], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_lasts_holds_for_the_turn_that_a_command_makes() {
    use rind::skill::{SessionSkills, SkillLifetime};
    use serde_json::json;

    let mut tutor = crate::skill_session::only("tutor", &["read_file"]);
    tutor.interaction = SkillLifetime::Conversational;
    let replies = vec![
        Reply::call("skill", json!({"skill": "tutor"})),
        Reply::text("hello"),
        Reply::call("write_file", json!({"path": "a", "content": ""})),
        Reply::text("no"),
    ];
    let with_skill = |host: HostBuilder| {
        host.file_tools()
            .skills(SessionSkills::new([tutor], Vec::new()))
    };
    let mut open = open_with("asker", replies, None, |manifest| manifest, with_skill).await;
    open.session.turn("teach me").await.unwrap();
    let asked = open.run("start", "{\"topic\": \"rust\"}").await.unwrap();
    let SlashCommandReply::Prompt(prompt) = asked else {
        panic!("{asked:?}")
    };
    assert_eq!(open.session.active_skills(), ["tutor"]);
    open.session.turn(&prompt).await.unwrap();
    let result = last_result(&open.session);
    assert!(result.contains("refused by skill tutor"), "{result}");
}
