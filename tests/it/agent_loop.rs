//! Plugins that replace the agent loop: a hostile one, which must pass the same gates as the model,
//! and two useful ones.

mod answers;
mod limits;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rind::agent::{AgentConfig, TurnOutcome};
use rind::event::Event;
use rind::grant::Trust;
use rind::host::HostBuilder;
use rind::message::{Message, Role};
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::StopReason;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind::{Host, PluginFolders, Session};
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::harness::check_pairs;

/// A host whose turns are run by the agent loop of the guest `orderer`.
struct Setup {
    host: Host,
    model: Arc<Scripted>,
    _folder: TempDir,
}

/// Outcome, events and messages of a turn.
struct RanTurn {
    outcome: TurnOutcome,
    events: Vec<Event>,
    messages: Vec<Message>,
}

impl RanTurn {
    fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(Event::name).collect()
    }

    fn notices(&self) -> Vec<&str> {
        let notices = self.events.iter().filter_map(|event| match event {
            Event::Notice { text, .. } => Some(text.as_str()),
            _ => None,
        });
        notices.collect()
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.messages.iter();
        lines
            .map(|message| format!("{:?}: {}", message.role, message.joined_text()))
            .collect()
    }
}

fn write(path: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": "x"}))
}

/// Makes a reply repeat without limit.
fn always(mut reply: Reply) -> Reply {
    reply.times = Some(0);
    reply
}

/// Returns a policy that approves every call about which it would ask.
fn yes() -> Arc<ToolPolicy> {
    Arc::new(ToolPolicy {
        mode: ToolPolicyOptions {
            yes: true,
            ..ToolPolicyOptions::default()
        },
        ..ToolPolicy::default()
    })
}

fn ordered_by(plugin: &str) -> AgentConfig {
    AgentConfig {
        agent_loop: Some(plugin.to_owned()),
        ..AgentConfig::default()
    }
}

impl Setup {
    async fn new(how: &str, script: Vec<Reply>) -> Self {
        Self::with(how, script, |host| host.config(ordered_by("orderer"))).await
    }

    async fn with(
        how: &str,
        script: Vec<Reply>,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), how, script, more).await
    }

    async fn in_folder(
        folder: TempDir,
        how: &str,
        script: Vec<Reply>,
        more: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let plugins = folder.path().join("plugins");
        guests::put("orderer", &plugins, |text| {
            text.replace("default = \"plain\"", &format!("default = \"{how}\""))
        });
        let model = Arc::new(Scripted::new(Script::new(script)).with_request_recording());
        let host = Host::builder()
            .provider(model.clone(), "test-model")
            .home(folder.path().join("home"))
            .workspace(folder.path().join("workspace"))
            .plugins(PluginFolders::new(Trust::Managed, plugins))
            .file_tools()
            .policy(yes());
        Self {
            host: more(host).build().await.unwrap(),
            model,
            _folder: folder,
        }
    }

    async fn turn(&self) -> RanTurn {
        let mut session = self.host.session().create().unwrap();
        self.turn_in(&mut session, &CancellationToken::new()).await
    }

    async fn turn_in(&self, session: &mut Session, cancel: &CancellationToken) -> RanTurn {
        let mut receiver = session.events();
        let turn = session.turn("write the file").until(cancel);
        let outcome = turn.await.unwrap();
        let mut events = Vec::new();
        while let Ok(stamped) = receiver.try_recv() {
            events.push(stamped.event);
        }
        let messages = session.messages();
        check_pairs(&messages);
        assert_eq!(events.last().map(Event::name), Some("turn-end"));
        RanTurn {
            outcome,
            events,
            messages,
        }
    }

    fn has_file(&self, name: &str) -> bool {
        self.host.workspace().join(name).exists()
    }
}

/// Script of a model that writes a file and reports it.
fn script() -> Vec<Reply> {
    vec![write("a.txt"), Reply::text("written")]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_order_written_as_a_plugin_is_the_built_in_order() {
    let points = |host: HostBuilder| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        macro_rules! watch {
            ($host:expr, $($point:ident)*) => {
                $host$(.on::<at::$point>(concat!("watch-", stringify!($point)), {
                    let sees = seen.clone();
                    move |_, _| {
                        sees.lock().unwrap().push(stringify!($point));
                        Ok(Default::default())
                    }
                }))*
            };
        }
        let host = watch!(host, TurnStart PreAssess PostAssess SystemPrompt BeforeSystemPrompt
            AfterSystemPrompt Context PreReason BeforeProviderRequest AfterProviderResponse
            PostReason MessageEnd PreTool PostTool PreReflect PostReflect PreOutput PostOutput TurnEnd);
        (host, seen)
    };
    let mut both = Vec::new();
    for config in [ordered_by("orderer"), AgentConfig::default()] {
        let mut seen = None;
        let setup = Setup::with("plain", script(), |host| {
            let (host, points) = points(host.config(config));
            seen = Some(points);
            host
        })
        .await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.output, "written");
        assert!(setup.has_file("a.txt"));
        let names = ran.names().into_iter();
        let names: Vec<&str> = names
            .filter(|name| !matches!(*name, "hook" | "access"))
            .collect();
        let bodies: Vec<String> = setup
            .model
            .recorded_request_bodies()
            .iter()
            .map(Value::to_string)
            .collect();
        let points = seen.unwrap().lock().unwrap().clone();
        let workspace = setup.host.workspace().display().to_string();
        let bodies: Vec<String> = bodies
            .iter()
            .map(|body| body.replace(&workspace, "~"))
            .collect();
        both.push((names, points, bodies, ran.lines()));
    }
    assert_eq!(both[0].0, both[1].0);
    assert_eq!(both[0].1, both[1].1);
    assert_eq!(both[0].2, both[1].2);
    assert_eq!(both[0].3, both[1].3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_makes_no_sense_ends_the_turn_with_its_name_and_the_reason() {
    for (how, expected) in [
        ("no-input", "`build-prompt` came before `take-input`"),
        ("no-prompt", "`request` came before `build-prompt`"),
        ("two-prompts", "`build-prompt` came twice"),
        ("calls-first", "`run-calls` came without open calls"),
        (
            "request-open",
            "`request` came while calls of the last answer were open",
        ),
        (
            "finish-open",
            "`finish` came while calls of the last answer were open",
        ),
        (
            "inject-open",
            "`inject` came while calls of the last answer were open",
        ),
        ("calls-twice", "`run-calls` came without open calls"),
        (
            "finish-early",
            "`finish` came without a new answer of the model",
        ),
        ("leave-open", "it returned before it finished the turn"),
        ("leave", "it returned before it finished the turn"),
        ("return", "it returned before it finished the turn"),
        ("fail", "the call reported an error: I do"),
        ("trap", "the plan fell apart"),
        ("spin", "the call was stopped at its deadline of 2000 ms"),
        ("hold", "the call was stopped at its deadline of 2000 ms"),
        (
            "ask-for-ever",
            "it called more than 64 primitives of a turn without sending a request",
        ),
        (
            "inject-for-ever",
            "it called more than 64 primitives of a turn without sending a request",
        ),
    ] {
        let setup = Setup::new(how, script()).await;
        let mut session = setup.host.session().create().unwrap();
        let ran = setup.turn_in(&mut session, &CancellationToken::new()).await;
        let output = &ran.outcome.output;
        assert_eq!(
            ran.outcome.summary.stop,
            StopReason::Failed,
            "{how}: {output}"
        );
        let last = output.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("[the loop of plugin orderer failed: ")
                && last.ends_with("; the turn was ended]")
                && last.contains(expected),
            "{how}: {output}"
        );
        assert!(!output.contains('\u{1b}'), "{how}: {output:?}");
        let is_told = |event: &Event| matches!(event, Event::Error { place, message } if place == "loop" && message.contains(expected));
        assert!(ran.events.iter().any(is_told), "{how}");
        // The turn's output includes the last text of the model.
        assert_eq!(
            output.contains("written"),
            how == "leave",
            "{how}: {output}"
        );
        assert_eq!(
            setup.has_file("a.txt"),
            matches!(how, "calls-twice" | "trap" | "leave"),
            "{how}"
        );
        // The session can be used for another turn.
        let again = setup.turn_in(&mut session, &CancellationToken::new()).await;
        assert_eq!(again.outcome.turn, 2);
        session.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_after_the_end_of_the_turn_changes_nothing_about_it() {
    for (how, expected) in [
        (
            "late",
            "failed after the end of the turn: it asked for `request`",
        ),
        (
            "late-trap",
            "failed after the end of the turn: the plugin trapped",
        ),
        (
            "finish-twice",
            "failed after the end of the turn: it asked for `finish`",
        ),
    ] {
        let setup = Setup::new(how, script()).await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.summary.stop, StopReason::Done);
        assert_eq!(ran.outcome.output, "written");
        let notices = ran.notices();
        assert!(
            notices.iter().any(|text| text.contains(expected)),
            "{notices:?}"
        );
        assert_eq!(setup.model.recorded_request_bodies().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_stands_still_in_primitives_and_steering_is_taken() {
    // The reply takes longer than the loop's deadline of two seconds of its own computation.
    let slow = Reply {
        delay_ms: 3_000,
        ..Reply::text("slept well")
    };
    let setup = Setup::new("plain", vec![slow, Reply::text("yes, also that")]).await;
    let mut session = setup.host.session().create().unwrap();
    let steering = session.steering();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        steering.steer("that as well?", rind::point::payload::Source::Terminal);
    });
    let ran = setup.turn_in(&mut session, &CancellationToken::new()).await;
    assert_eq!(ran.outcome.summary.stop, StopReason::Done);
    assert_eq!(ran.outcome.output, "yes, also that");
    assert!(ran.lines().contains(&"User: that as well?".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_end_stop_at_the_limit_of_steps_and_of_cost() {
    for how in ["request-for-ever", "aside-for-ever"] {
        let config = AgentConfig {
            max_steps: 5,
            ..ordered_by("orderer")
        };
        let answers = vec![always(Reply::text("more"))];
        let setup = Setup::with(how, answers, |host| host.config(config)).await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.summary.stop, StopReason::MaxSteps, "{how}");
        assert_eq!(setup.model.recorded_request_bodies().len(), 5, "{how}");
        assert!(ran.outcome.output.contains("the limit of 5 steps"), "{how}");
    }
    let config = AgentConfig {
        max_cost_usd: Some(0.0),
        ..ordered_by("orderer")
    };
    let setup = Setup::with("plain", script(), |host| host.config(config)).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.summary.stop, StopReason::MaxSteps);
    assert!(ran.outcome.output.contains("the limit of $0.00"));
    assert!(setup.model.recorded_request_bodies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_gates_and_hooks_of_input_answer_and_output_hold_in_every_order() {
    // No person is there to approve the call.
    let setup = Setup::with("plain", script(), |host| {
        host.config(ordered_by("orderer"))
            .policy(Arc::new(ToolPolicy::default()))
    })
    .await;
    let ran = setup.turn().await;
    assert!(!setup.has_file("a.txt"), "{:?}", ran.lines());
    // A gate refuses the call.
    let setup = Setup::with("plain", script(), |host| {
        host.config(ordered_by("orderer"))
            .on::<at::PreTool>("guard", |_, _| {
                Ok(o::CallOutcome {
                    verdict: o::CallVerdict::Block("no files today".to_owned()),
                    ..o::CallOutcome::default()
                })
            })
    })
    .await;
    let ran = setup.turn().await;
    assert!(!setup.has_file("a.txt"));
    let results = ran.messages.iter().flat_map(Message::tool_results);
    let results: Vec<String> = results
        .map(|result| result.content.text().into_owned())
        .collect();
    assert_eq!(results.len(), 1);
    assert!(
        results[0].contains("refused by plugin guard: no files today"),
        "{results:?}"
    );
    for (how, point, expected) in [
        (
            "plain",
            "input",
            "[the input was refused by plugin guard: no]",
        ),
        (
            "plain",
            "request",
            "[the request was refused by plugin guard: no]",
        ),
        (
            "second",
            "answer",
            "[the answer was refused by plugin guard: no]",
        ),
        (
            "plain",
            "output",
            "[the answer was held back by plugin guard: no]",
        ),
    ] {
        let block = || Some("no".to_owned());
        let setup = Setup::with(how, vec![always(Reply::text("fine"))], |host| {
            let host = host.config(ordered_by("orderer"));
            match point {
                "input" => host.on::<at::PreAssess>("guard", move |_, _| {
                    Ok(o::InputOutcome {
                        block: block(),
                        ..Default::default()
                    })
                }),
                "request" => host.on::<at::PreReason>("guard", move |_, _| {
                    Ok(o::RequestOutcome {
                        block: block(),
                        ..Default::default()
                    })
                }),
                "answer" => host.on::<at::PostReason>("guard", move |_, _| {
                    Ok(o::ReplyOutcome {
                        block: block(),
                        ..Default::default()
                    })
                }),
                _ => host.on::<at::PreOutput>("guard", move |_, _| {
                    Ok(o::OutputOutcome {
                        block: block(),
                        ..Default::default()
                    })
                }),
            }
        })
        .await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.summary.stop, StopReason::Blocked, "{point}");
        assert_eq!(ran.outcome.output, expected, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_judges_an_answer_that_the_loop_finishes_without_it() {
    let setup = Setup::with(
        "plain",
        vec![Reply::text("one"), Reply::text("two")],
        |host| {
            host.config(ordered_by("orderer"))
                .on::<at::PreReflect>("picky", |caller, _| {
                    let is_first = caller.context.step == 1;
                    Ok(o::ReflectionOutcome {
                        verdict: match is_first {
                            true => o::VerdictChange::Again("try harder".to_owned()),
                            false => o::VerdictChange::Done,
                        },
                        ..Default::default()
                    })
                })
        },
    )
    .await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "two");
    assert!(
        ran.lines()
            .contains(&"User: [reflection] try harder".to_owned()),
        "{:?}",
        ran.lines()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_speaks_as_its_plugin_and_never_as_the_user() {
    let setup = Setup::new("inject", vec![Reply::text("fine")]).await;
    let ran = setup.turn().await;
    let own: Vec<&Message> = ran
        .messages
        .iter()
        .filter(|message| message.plugin.as_deref() == Some("orderer"))
        .collect();
    assert_eq!(own.len(), 2, "{:?}", ran.lines());
    for message in own {
        assert_eq!(message.role, Role::User);
        assert!(message.joined_text().starts_with("[plugin orderer] "));
    }
    let injected = ran.events.iter();
    let injected = injected
        .filter(|event| matches!(event, Event::Injected { plugin, .. } if plugin == "orderer"));
    assert_eq!(injected.count(), 2);
    let setup = Setup::new("inject-long", vec![Reply::text("fine")]).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "fine");
    assert_eq!(ran.messages.len(), 2, "{:?}", ran.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_asks_only_models_that_the_operator_named() {
    for (models, expected) in [
        (vec![], "test-model"),
        (vec!["other".to_owned()], "other"),
        (vec!["*".to_owned()], "other"),
    ] {
        let config = AgentConfig {
            loop_models: models,
            ..ordered_by("orderer")
        };
        let answers = vec![always(Reply::text("fine"))];
        let setup = Setup::with("model other", answers, |host| host.config(config)).await;
        let ran = setup.turn().await;
        assert_eq!(ran.outcome.output, "fine");
        let bodies = setup.model.recorded_request_bodies();
        assert_eq!(bodies[0]["model"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preset_takes_tools_away_for_a_request_and_the_calls_of_its_answer() {
    let setup = Setup::new("preset investigate", script()).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "written");
    assert!(!setup.has_file("a.txt"));
    let tools = setup.model.recorded_request_bodies()[0]["tools"].to_string();
    assert!(
        tools.contains("read_file") && !tools.contains("write_file"),
        "{tools}"
    );
    let setup = Setup::new("unknown-preset", script()).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "written");
    assert!(setup.has_file("a.txt"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_aside_is_not_shown_and_does_nothing_unless_it_is_accepted() {
    let first = Reply {
        text: Some("the first".to_owned()),
        ..write("first.txt")
    };
    let second = Reply {
        text: Some("the second".to_owned()),
        ..write("second.txt")
    };
    let answers = vec![
        first,
        second,
        Reply::text("the judge"),
        Reply::text("written"),
    ];
    let setup = Setup::new("second", answers).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "written");
    assert_eq!(ran.outcome.summary.steps, 4);
    assert!(!setup.has_file("first.txt") && setup.has_file("second.txt"));
    let lines = ran.lines().join("\n");
    assert!(
        !lines.contains("the first") && !lines.contains("the judge"),
        "{lines}"
    );
    assert!(lines.contains("the second"), "{lines}");
    let shown: String = ran
        .events
        .iter()
        .filter_map(|event| match event {
            Event::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        !shown.contains("the first") && !shown.contains("the judge"),
        "{shown}"
    );
    // Only the request of the judge contains the note.
    let bodies: Vec<String> = setup
        .model
        .recorded_request_bodies()
        .iter()
        .map(Value::to_string)
        .collect();
    let with_note: Vec<bool> = bodies
        .iter()
        .map(|body| body.contains("which one?"))
        .collect();
    assert_eq!(with_note, [false, false, true, false]);
    assert!(bodies[2].contains("[plugin orderer] which one?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_loop_that_does_not_let_go() {
    let slow = Reply {
        delay_ms: 20_000,
        ..Reply::text("slept")
    };
    for (how, answers) in [
        ("hold", script()),
        ("spin", script()),
        ("plain", vec![slow.clone()]),
        ("aside-for-ever", vec![slow]),
    ] {
        let setup = Setup::new(how, answers).await;
        let mut session = setup.host.session().create().unwrap();
        let cancel = CancellationToken::new();
        let (started, later) = (Instant::now(), cancel.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            later.cancel();
        });
        let ran = setup.turn_in(&mut session, &cancel).await;
        assert_eq!(ran.outcome.summary.stop, StopReason::Cancelled, "{how}");
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{how}: {:?}",
            started.elapsed()
        );
        // In the case `hold`, the session has the answer with its calls and their results.
        assert_eq!(ran.lines().len() > 2, how == "hold", "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_cut_off_goes_on_with_the_loop_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let answers = vec![write("a.txt"), Reply::text("unseen")];
    let setup = Setup::in_folder(folder, "trap", answers, |host| {
        host.config(ordered_by("orderer"))
    })
    .await;
    let mut session = setup.host.session().create().unwrap();
    let ran = setup.turn_in(&mut session, &CancellationToken::new()).await;
    assert_eq!(ran.outcome.summary.stop, StopReason::Failed);
    let id = session.id().to_string();
    session.close().await.unwrap();
    // The messages of the failed turn are part of the conversation in the next turn.
    let Setup {
        host,
        _folder: folder,
        ..
    } = setup;
    drop(host);
    let setup = Setup::in_folder(folder, "hold", script(), |host| {
        host.config(ordered_by("orderer"))
    })
    .await;
    let mut session = setup.host.session().resume(&id).unwrap();
    assert!(session.messages().len() >= 3);
    // Dropping the future of a turn while the loop computes cuts off the turn.
    let turn = session.turn("and once more");
    let cut = tokio::time::timeout(Duration::from_millis(700), turn).await;
    assert!(cut.is_err());
    drop(session);
    let Setup {
        host,
        _folder: folder,
        ..
    } = setup;
    drop(host);
    let answers = vec![Reply::text("gone on")];
    let setup = Setup::in_folder(folder, "resumed", answers, |host| {
        host.config(ordered_by("orderer"))
    })
    .await;
    let mut session = setup.host.session().resume(&id).unwrap();
    let interrupted = session.interrupted().unwrap();
    assert_eq!(
        (interrupted.input.as_str(), interrupted.n_steps),
        ("and once more", 1)
    );
    let outcome = session.continue_turn().unwrap().await.unwrap();
    assert_eq!(outcome.output, "gone on");
    check_pairs(&session.messages());
    let lines = session.messages();
    let inputs = lines
        .iter()
        .filter(|line| line.joined_text() == "and once more");
    assert_eq!(inputs.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn primitives_are_for_the_loop_and_for_nothing_else_of_its_plugin() {
    let answers = vec![
        Reply::call("try_primitives", json!({})),
        Reply::text("done"),
    ];
    let setup = Setup::new("plain", answers).await;
    let ran = setup.turn().await;
    assert_eq!(ran.outcome.output, "done");
    let result = serde_json::to_string(&ran.messages).unwrap();
    assert_eq!(result.matches("Denied").count(), 2, "{result}");
    assert!(
        result.contains("only the agent loop of plugin `orderer`"),
        "{result}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn subagents_keep_the_built_in_order() {
    let spawn = Reply::call(
        "spawn_subagent",
        json!({"task": "look around", "preset": "investigate", "wait": true}),
    );
    let answers = vec![spawn, always(Reply::text("seen"))];
    let mut config = ordered_by("orderer");
    config.subagents.enabled = true;
    let setup = Setup::with("plain", answers, |host| host.config(config)).await;
    let ran = setup.turn().await;
    assert!(ran.names().contains(&"subagent-end"), "{:?}", ran.names());
    let orders = ran.events.iter();
    let orders = orders.filter(|event| matches!(event, Event::Access { record } if record.target.starts_with("the order of turn")));
    assert_eq!(orders.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_is_missing_or_was_not_granted_keeps_the_host_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &'static str, trust: Trust| {
        let plugins = folder.path().join(format!("{name}-{trust}"));
        guests::put("orderer", &plugins, |text| text);
        guests::put("turner", &plugins, |text| text);
        let host = Host::builder()
            .provider(
                Arc::new(Scripted::new(Script::new(Vec::new()))),
                "test-model",
            )
            .plugins(PluginFolders::new(trust, plugins))
            .config(ordered_by(name));
        async move { host.build().await.unwrap_err().to_string() }
    };
    for (name, trust, expected) in [
        ("orderr", Trust::Managed, "there is no such plugin"),
        (
            "turner",
            Trust::Managed,
            "the plugin has no loop of the agent",
        ),
        ("orderer", Trust::User, "the plugin is not loaded"),
    ] {
        let error = build(name, trust).await;
        assert!(
            error.starts_with(&format!("`loop = \"{name}\"` under [agent]"))
                && error.contains(expected),
            "{name}: {error}"
        );
    }
}

/// Sets up the files of the demo, and a script with `before` in front of the demo's replies.
fn demo(plugin: &str, before: &str, each: bool) -> Rind {
    let script = include_str!("../../host/crates/cli/src/demo/script.toml");
    let script = match each {
        // Repeats each reply, because two models request it.
        true => {
            let replies = script.split("[[reply]]\n").skip(1);
            replies
                .map(|reply| format!("[[reply]]\n{reply}").repeat(2))
                .collect()
        }
        false => script.to_owned(),
    };
    let rind = Rind::with_script(&format!("{before}{script}"));
    rind.first_party().managed(plugin);
    for (name, text) in [
        (
            "notes/vendor.md",
            include_str!("../../host/crates/cli/src/demo/files/vendor.md"),
        ),
        (
            "station.toml",
            include_str!("../../host/crates/cli/src/demo/files/station.toml"),
        ),
        ("logs/a.log", "t=1 level_cm=310\n"),
    ] {
        rind.file(name, text);
    }
    rind.config(&format!("[agent]\nloop = \"{plugin}\"\n"));
    rind
}

const DEMO_INPUT: &str = "Calibrate the tide station after the vendor's notes.";

#[test]
fn plan_execute_runs_the_task_of_the_demo() {
    let plan = "[[reply]]\ntext = \"1. Read the notes. 2. Set the offset.\"\n\n";
    let rind = demo("plan-execute", plan, false);
    let ran = rind.run(&["run", "--yes", DEMO_INPUT]).exits(0);
    assert!(
        ran.stdout.starts_with("The station is calibrated"),
        "{}",
        ran.stdout
    );
    let station = std::fs::read_to_string(rind.workspace().join("station.toml")).unwrap();
    assert!(station.contains("offset_cm = -4"), "{station}");
    let injected = rind.entries("injected");
    let by_loop = injected
        .iter()
        .filter(|entry| entry["plugin"] == "plan-execute");
    assert_eq!(by_loop.count(), 2);
    // The guard plugins of the demo ran.
    assert!(ran.stderr.contains("loop-detection"), "{}", ran.stderr);
}

#[test]
fn panel_runs_the_task_of_the_demo() {
    let rind = demo("panel", "", true);
    rind.config("[agent]\nloop = \"panel\"\n[plugins.panel.config]\nsteps = 0\n");
    let ran = rind.run(&["run", "--yes", DEMO_INPUT]).exits(0);
    assert!(
        ran.stdout.starts_with("The station is calibrated"),
        "{}",
        ran.stdout
    );
    let station = std::fs::read_to_string(rind.workspace().join("station.toml")).unwrap();
    assert!(station.contains("offset_cm = -4"), "{station}");
}

#[test]
fn the_operator_sees_the_permission_the_order_and_the_reason_of_a_refusal() {
    let rind = Rind::with_script("[[reply]]\ntext = \"hello\"\ntimes = 0\n");
    rind.managed("orderer");
    let inspect = rind.run(&["plugin", "inspect", "orderer"]).exits(0);
    assert!(
        inspect.stdout.contains("agent-loop")
            && inspect.stdout.contains("agent_loop               has"),
        "{}",
        inspect.stdout
    );
    rind.config("[agent]\nloop = \"orderer\"\n");
    let doctor = rind.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("plugin orderer runs the agent loop"),
        "{}",
        doctor.stdout
    );
    let ran = rind.run(&["run", "hi"]).exits(0);
    assert_eq!(ran.stdout, "hello\n");
    rind.config("[agent]\nloop = \"nobody\"\n");
    let ran = rind.run(&["run", "hi"]);
    assert!(
        ran.stdout.is_empty() && ran.code != Some(0),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("there is no such plugin"),
        "{}",
        ran.stderr
    );
    let doctor = rind.run(&["doctor"]);
    assert!(
        doctor
            .stdout
            .contains("the settings name plugin nobody for the agent loop"),
        "{}",
        doctor.stdout
    );
    // The program reports a failed loop, and the turn fails.
    rind.config("[agent]\nloop = \"orderer\"\n[plugins.orderer.config]\nhow = \"leave\"\n");
    let ran = rind.run(&["run", "hi"]);
    assert!(ran.code != Some(0));
    assert!(
        ran.stderr
            .contains("the loop of plugin orderer failed: it returned before it finished the turn"),
        "{}",
        ran.stderr
    );
}
