//! Tests of reflection: the model's second look at its answer, and plugins that reflect in its
//! place.

use rind::agent::{AgentConfig, ReflectConfig};
use rind::event::Event;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::{Source, StopReason};
use rind::provider::scripted::{Reply, ReplyError, ReplyFinish, ReplyUsage};
use rind::session::{Body, SessionStore};
use rind_tests::cli::Rind;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{block, done, inject, read};
use crate::harness::{Running, Setup, check_pairs};

/// Returns the setup of an agent with reflection.
fn looking(script: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(script);
    setup.config = AgentConfig {
        reflect: ReflectConfig {
            enabled: true,
            ..ReflectConfig::default()
        },
        ..AgentConfig::default()
    };
    setup
}

fn fine() -> Reply {
    Reply::text("{\"done\": true, \"reason\": \"\"}")
}

fn again(reason: &str) -> Reply {
    Reply::text(json!({"done": false, "reason": reason}).to_string())
}

/// Returns the indices of the requests for a second look.
fn looks(running: &Running) -> Vec<usize> {
    let is_look = |body: &Value| {
        body["system"]
            .to_string()
            .contains("You take a second look")
    };
    let bodies = running.provider.recorded_request_bodies();
    let all = bodies.iter().enumerate();
    all.filter(|(_, body)| is_look(body))
        .map(|(n, _)| n)
        .collect()
}

/// Returns the data that request `n` asks the model to look at.
fn material(running: &Running, n: usize) -> Value {
    let [line] = &running.request(n)[..] else {
        panic!("{:?}", running.request(n))
    };
    serde_json::from_str(line.strip_prefix("user: ").unwrap()).unwrap()
}

fn notices(running: &Running) -> Vec<String> {
    let notice = |event: &Event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    running.events.iter().filter_map(notice).collect()
}

#[tokio::test]
async fn an_answer_that_claims_what_was_not_shown_goes_back_with_the_reason() {
    let look = Reply {
        usage: Some(ReplyUsage {
            input_tokens: 5_000,
            output_tokens: 5,
            ..ReplyUsage::default()
        }),
        ..again("No test ran.")
    };
    let script = vec![
        read("a.txt"),
        Reply::text("all tests pass"),
        look,
        Reply::text("I read a.txt; no test ran"),
        fine(),
    ];
    let mut running = looking(script)
        .hook::<at::BeforeProviderRequest>("watcher", |_, _| Ok(o::WireOutcome::default()))
        .hook::<at::AfterProviderResponse>("watcher", |_, _| Ok(o::Observed::default()))
        .build();
    let outcome = running.turn("run the tests").await;
    assert_eq!(outcome.output, "I read a.txt; no test ran");
    assert_eq!(outcome.summary.steps, 3);
    assert!(outcome.summary.usage.total() > 5_005);
    assert_eq!(looks(&running), [2, 4]);
    let shown = material(&running, 2);
    assert_eq!(shown["user"], json!(["run the tests"]));
    assert_eq!(shown["answer"], "all tests pass");
    assert_eq!(
        (&shown["calls"][0]["tool"], &shown["calls"][0]["failed"]),
        (&json!("read_file"), &json!(false))
    );
    let result = shown["calls"][0]["result"].as_str().unwrap();
    assert!(result.contains("alpha"), "{result}");
    let body = &running.provider.recorded_request_bodies()[2];
    assert_eq!(body.get("tools"), None);
    assert_eq!(body["model"], "test-model");

    // Only the reason of the second look is in the conversation. The session file has the rest,
    // with its cost.
    assert_eq!(
        running.lines()[4..],
        [
            "user: [reflection] No test ran.",
            "assistant: I read a.txt; no test ran"
        ]
    );
    let count = |line: &str| running.traces().iter().filter(|l| *l == line).count();
    assert_eq!(count("before-provider-request watcher pass"), 5);
    assert_eq!(count("after-provider-response watcher pass"), 5);
    let store = SessionStore::new(running.folder.path().join("sessions"));
    let (entries, _) = store.read_entries(running.session.id()).unwrap();
    let kept = entries.iter().find_map(|entry| match &entry.body {
        Body::HostAsked { usage, text, .. } => Some((usage.input_tokens, text.clone())),
        _ => None,
    });
    let (tokens, text) = kept.unwrap();
    assert!(tokens == 5_000 && text.contains("No test ran."), "{text}");
    check_pairs(&running.session.messages());
}

#[tokio::test]
async fn it_may_be_another_model_and_it_sends_an_answer_back_only_so_often() {
    let script = vec![
        Reply::text("draft 1"),
        again("No."),
        Reply::text("draft 2"),
        done(),
    ];
    let mut setup = looking(script);
    setup.config.reflect.model = Some("sceptic".to_owned());
    setup.config.reflect.rounds = 1;
    let mut running = setup.build();
    let outcome = running.turn("hello there").await;
    // After the last round the agent could not act on another look, so there is none.
    assert_eq!(outcome.output, "draft 2");
    assert_eq!(looks(&running), [1]);
    assert_eq!(
        running.provider.recorded_request_bodies()[1]["model"],
        "sceptic"
    );
    assert_eq!(
        running.provider.recorded_request_bodies()[2]["model"],
        "test-model"
    );
}

#[tokio::test]
async fn when_the_look_fails_the_answer_stands_and_a_notice_says_why() {
    let broken = Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no such model".to_owned(),
        }),
        ..Reply::default()
    };
    let refused = Reply {
        finish: Some(ReplyFinish::Refused),
        ..Reply::text("I cannot")
    };
    let table = [
        (Reply::text("looks fine to me"), "there is no JSON object"),
        (
            Reply::text("{\"done\": 1}"),
            "the verdict of the review is not",
        ),
        (refused, "the provider held the answer back"),
        (broken, "no such model"),
    ];
    for (look, why) in table {
        let mut running = looking(vec![done(), look]).build();
        let outcome = running.turn("hello there").await;
        assert_eq!(outcome.summary.stop, StopReason::Done, "{why}");
        assert_eq!(outcome.output, "done");
        assert_eq!(running.lines().len(), 2, "{why}");
        let told = notices(&running).join("\n");
        assert!(
            told.contains("so the answer is accepted without it: ") && told.contains(why),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_look_that_a_hook_refuses_leaves_the_answer_as_it_is() {
    let setup = looking(vec![done(), fine()]).bind::<at::BeforeProviderRequest>(
        "guard",
        rind::point::failure::OnFailure::Block,
        std::sync::Arc::new(Refuser),
    );
    let mut running = setup.build();
    let outcome = running.turn("hello there").await;
    assert_eq!(outcome.output, "done");
    assert!(
        notices(&running)
            .join("\n")
            .contains("refused by plugin guard")
    );
}

/// A hook that fails for requests without tools, such as those for a second look.
struct Refuser;

impl rind::point::Hook<at::BeforeProviderRequest> for Refuser {
    fn call<'a>(
        &'a self,
        _: &'a rind::point::caller::Caller,
        wire: &'a std::sync::Arc<rind::point::payload::WireRequest>,
    ) -> futures_util::future::BoxFuture<'a, Result<o::WireOutcome, rind::point::failure::Failure>>
    {
        let has_tools = wire.body.contains("\"tools\"");
        Box::pin(async move {
            if has_tools {
                Ok(o::WireOutcome::default())
            } else {
                let why = "I do not like it".to_owned();
                Err(rind::point::failure::Failure::Error(why))
            }
        })
    }
}

#[tokio::test]
async fn ctrl_c_ends_a_look_and_the_turn_with_it() {
    let slow = Reply {
        delay_ms: 3_600_000,
        ..fine()
    };
    let mut running = looking(vec![done(), slow]).build();
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let provider = running.provider.clone();
    tokio::spawn(async move {
        while provider.recorded_request_bodies().len() < 2 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    });
    let run = running.agent.turn("hello").until(&cancel);
    let outcome = run.await.unwrap();
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    assert_eq!(running.lines(), ["user: hello", "assistant: done"]);
}

#[tokio::test]
async fn there_is_no_look_at_what_was_blocked_cut_or_already_sent_back() {
    // A blocked reply.
    let blocking = looking(vec![done()]).hook::<at::PostReason>("censor", |_, _| {
        Ok(o::ReplyOutcome {
            block: Some("no".into()),
            ..Default::default()
        })
    });
    let mut running = blocking.build();
    running.turn("hello there").await;
    assert_eq!(looks(&running), [0; 0]);

    // A turn that reached its maximum number of steps.
    let mut cut = looking(vec![read("a.txt"), done()]);
    cut.config.max_steps = 1;
    let mut running = cut.build();
    running.turn("hello there").await;
    assert_eq!(looks(&running), [0; 0]);

    // A hook already asked for another step.
    let script = vec![Reply::text("first"), Reply::text("second"), fine()];
    let asking = looking(script).hook::<at::PostReason>("checklist", |caller, _| {
        let is_first = caller.context.step == 1;
        Ok(o::ReplyOutcome {
            inject: if is_first {
                inject("look again", true)
            } else {
                Vec::new()
            },
            ..Default::default()
        })
    });
    let mut running = asking.build();
    running.turn("hello there").await;
    assert_eq!(looks(&running), [2]);

    // An empty answer after tool calls, which the host sends back without asking the model.
    let silent = Reply {
        thinking: Some("hm".to_owned()),
        ..Reply::default()
    };
    let mut running = looking(vec![read("a.txt"), silent, done(), fine()]).build();
    running.turn("hello there").await;
    assert_eq!(looks(&running), [3]);
}

#[tokio::test]
async fn a_verdict_of_pre_reflect_stands_in_for_all_reflection() {
    let script = vec![read("a.txt"), Reply::text("first"), done()];
    let setup = looking(script).hook::<at::PreReflect>("judge", |_, reflection| {
        let verdict = match reflection.draft.as_str() {
            "first" => o::VerdictChange::Again("say done".to_owned()),
            _ => o::VerdictChange::Done,
        };
        Ok(o::ReflectionOutcome {
            // The criterion is not used, because the hook already returns a verdict.
            criteria: vec!["says done".to_owned()],
            verdict,
            ..Default::default()
        })
    });
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.output, "done");
    assert_eq!(looks(&running), [0; 0]);
    assert_eq!(running.lines()[4], "user: [reflection] say done");
    assert_eq!(running.provider.recorded_request_bodies().len(), 3);
}

#[tokio::test]
async fn post_reflect_has_the_last_word_over_the_look_and_over_an_own_verdict() {
    let done_with = |verdict: o::VerdictChange| {
        move || {
            Ok(o::VerdictOutcome {
                verdict: verdict.clone(),
                ..Default::default()
            })
        }
    };
    let stop = done_with(o::VerdictChange::Done);
    let setup = looking(vec![Reply::text("draft"), again("No.")])
        .hook::<at::PostReflect>("boss", move |_, _| stop());
    let mut running = setup.build();
    assert_eq!(running.turn("hello there").await.output, "draft");
    assert_eq!(looks(&running), [1]);

    let more = done_with(o::VerdictChange::Again("more".into()));
    let setup = Setup::new(vec![Reply::text("1"), Reply::text("2"), Reply::text("3")])
        .hook::<at::PreReflect>("judge", |_, _| {
            Ok(o::ReflectionOutcome {
                verdict: o::VerdictChange::Done,
                ..Default::default()
            })
        })
        .hook::<at::PostReflect>("boss", move |_, _| more());
    let mut running = setup.build();
    assert_eq!(running.turn("hello there").await.output, "3");
}

#[tokio::test]
async fn what_hooks_left_of_a_result_is_what_the_look_is_shown() {
    let setup = looking(vec![read("a.txt"), done(), fine()])
        .hook::<at::PreTool>("guard", |_, _| Ok(block("not that file")));
    let mut running = setup.build();
    running.turn("read it").await;
    let call = &material(&running, 2)["calls"][0];
    assert_eq!(call["failed"], true);
    let result = call["result"].as_str().unwrap();
    assert!(result.contains("refused by plugin guard"), "{result}");
}

#[tokio::test]
async fn a_follow_up_is_judged_anew() {
    let mut setup = Setup::new(["1", "2", "3", "4"].map(Reply::text).into());
    setup.config.reflect.rounds = 1;
    let setup = setup.hook::<at::PreReflect>("judge", |_, _| {
        Ok(o::ReflectionOutcome {
            criteria: vec!["is short".into()],
            ..Default::default()
        })
    });
    let mut running = setup.build();
    running
        .agent
        .steering()
        .follow_up("and now?", Source::Terminal);
    let outcome = running.turn("hello there").await;
    assert_eq!(outcome.output, "2\n\n4");
}

const SCRIPT: &str = r#"
[[reply]]
text = "all tests pass"
[[reply]]
text = '{"done": false, "reason": "No test ran."}'
[[reply]]
text = "no test ran"
[[reply]]
text = '{"done": true, "reason": ""}'
"#;

#[test]
fn the_program_takes_a_second_look_when_the_settings_say_so() {
    let rind = Rind::with_script(SCRIPT);
    rind.config("[agent.reflect]\nenabled = true\nmodel = \"sceptic\"\n");
    let ran = rind.run(&["run", "run the tests"]).exits(0);
    assert!(ran.stdout.ends_with("no test ran\n"), "{}", ran.stdout);
    assert!(
        ran.stderr
            .contains("the model sceptic is asked to check the answer")
            && ran
                .stderr
                .contains("reflection sent the answer back to the model: No test ran."),
        "{}",
        ran.stderr
    );
    let kept = rind.entries("host-asked");
    assert_eq!((kept.len(), &kept[0]["model"]), (2, &json!("sceptic")));
    let messages = rind.entries("message");
    let text = messages[2]["message"]["content"][0]["text"].as_str();
    assert_eq!(text, Some("[reflection] No test ran."));

    let old = rind.run(&["run", "hello", "--set", "agent.reflect_rounds=1"]);
    assert!(
        old.exits(2)
            .stderr
            .contains("unknown field `reflect_rounds`")
    );
}
