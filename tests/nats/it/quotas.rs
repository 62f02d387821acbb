//! Tests of a tenant's quotas, which senders, workers and fronts enforce together.

use std::sync::Arc;
use std::time::Duration;

use rind_lib::session::SessionStore;
use rind_nats::worker::SessionInboxClient;
use rind_nats::{
    NatsError, NatsSessions, QuotaExceededError, TenantQuotaClient, TenantQuotaLimits,
    TurnTokensAndCost,
};
use rind_nats_tests::{Machine, NatsServers, ServerSetup};
use serde_json::{Value, json};

use super::front::start;

const FINE: &str = "[[reply]]\ntimes = 0\ntext = \"Fine.\"\n";

/// Waits for the next minute in the second half of one, because counts start again with each
/// minute.
fn avoid_end_of_minute() {
    let second = rind_lib::clock::now_ms() / 1000 % 60;
    if second > 30 {
        let left = u64::try_from(61 - second).unwrap();
        std::thread::sleep(Duration::from_secs(left));
    }
}

fn turns(limit: u64) -> TenantQuotaLimits {
    TenantQuotaLimits {
        turns_a_minute: Some(limit),
        ..TenantQuotaLimits::default()
    }
}

fn status(machine: &Machine) -> Value {
    let status = machine.output(&["cluster", "status"], &["--json"]);
    serde_json::from_str(&status).unwrap()
}

#[test]
fn an_input_over_the_quota_is_refused_with_quota_use_and_the_time_at_which_it_is_free_again() {
    avoid_end_of_minute();
    let (_servers, _, mut machine) = start(FINE);
    let declared = machine.output(&["cluster", "quota"], &["--turns", "2", "--cost", "0.5"]);
    assert!(declared.contains("turns a minute: 0 of 2"), "{declared}");
    machine.start_worker(&[]);
    machine.start_front(&["--class", "default"]);
    for id in ["i-1", "i-2"] {
        let args = ["--session", "s", "--input-id", id, "go"];
        assert_eq!(machine.output(&["run"], &args), "Fine.\n");
    }
    let refused = machine.run(&["run"], &["--session", "s", "go"]);
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    for words in [
        "quota of inputs a minute: 2 of 2",
        "it is free again at 20",
        "rind cluster quota",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let text = json!({"text": "go", "queue": true});
    let refused = machine.post("/v1/sessions/s/turns", &text).has_status(429);
    assert!(
        refused.body.contains("inputs a minute: 2 of 2"),
        "{refused:?}"
    );
    let shown = machine.output(&["cluster", "status"], &[]);
    assert!(shown.contains("turns a minute: 2 of 2"), "{shown}");
    machine.output(&["cluster", "quota"], &["--none"]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        machine.output(&["run"], &["--session", "s", "go"]),
        "Fine.\n"
    );
    assert_eq!(status(&machine)["quotas"], Value::Null);
}

#[test]
fn inputs_that_are_in_the_queue_already_wait_and_none_becomes_a_dead_letter() {
    avoid_end_of_minute();
    let (_servers, _, mut machine) = start(FINE);
    for n in 0..5 {
        let session = format!("s-{n}");
        machine.output(&["cluster", "send"], &["--session", &session, "go"]);
    }
    machine.output(&["cluster", "quota"], &["--turns", "2"]);
    machine.start_worker(&[]);
    machine.start_worker(&[]);
    machine.wait_for("both turns", |machine| status(machine)["waiting"] == 3);
    std::thread::sleep(Duration::from_secs(4));
    let now = status(&machine);
    assert_eq!((&now["waiting"], &now["dead"]), (&json!(3), &json!(0)));
    assert_eq!(now["quotas"]["used"]["turns"], 2);
    machine.output(&["cluster", "quota"], &["--turns", "100"]);
    machine.wait_for("the others", |machine| status(machine)["waiting"] == 0);
    assert_eq!(status(&machine)["dead"], 0);
}

#[test]
fn an_input_that_comes_again_after_its_turn_is_counted_once() {
    avoid_end_of_minute();
    let (_servers, sessions, mut machine) = start(FINE);
    machine.output(&["cluster", "quota"], &["--turns", "5"]);
    machine.start_worker(&[]);
    let inbox = SessionInboxClient::open(&sessions).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (id, n_turns) in [("one", 1), ("one", 1), ("two", 2)] {
        let sent = inbox.send("s", "default", id, "go");
        runtime.block_on(sent).unwrap();
        machine.wait_for("the turn", |machine| {
            let now = status(machine);
            now["waiting"] == 0 && now["claimed"] == 0
        });
        assert_eq!(status(&machine)["quotas"]["used"]["turns"], n_turns, "{id}");
    }
}

#[test]
fn turns_at_a_front_are_held_to_the_quota_of_tokens_too() {
    let script = "[[reply]]\ntimes = 0\ntext = \"Fine.\"\nusage = { input_tokens = 90, output_tokens = 10 }\n";
    let (_servers, _, mut machine) = start(script);
    machine.output(&["cluster", "quota"], &["--tokens", "150"]);
    machine.start_front(&[]);
    let session = machine.post("/v1/sessions", &json!({})).json()["id"].clone();
    let path = format!("/v1/sessions/{}/turns", session.as_str().unwrap());
    let turn = json!({"text": "go", "wait": true});
    // A running turn may exceed the quota; the next one is refused.
    for _ in 0..2 {
        assert_eq!(
            machine.post(&path, &turn).has_status(200).json()["output"],
            "Fine."
        );
    }
    let refused = machine.post(&path, &turn).has_status(429);
    assert!(
        refused.body.contains("tokens a day: 200 of 150"),
        "{refused:?}"
    );
    let refused = machine.run(&["cluster", "send"], &["--session", "other", "go"]);
    assert_eq!(refused.status.code(), Some(1));
}

fn connect(servers: &NatsServers) -> NatsSessions {
    NatsSessions::connect(servers.config("t")).unwrap()
}

#[test]
fn many_writers_at_once_never_count_a_turn_too_much_or_too_little() {
    avoid_end_of_minute();
    let servers = NatsServers::start(ServerSetup::ONE);
    let first = connect(&servers);
    SessionInboxClient::open(&first).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let quotas = TenantQuotaClient::from_sessions(&first);
    runtime.block_on(quotas.declare_limits(turns(50))).unwrap();
    let writers: Vec<NatsSessions> = (0..4).map(|_| connect(&servers)).collect();
    let began = runtime.block_on(async {
        let all = writers
            .iter()
            .flat_map(|sessions| (0..25).map(move |_| sessions));
        let all = all.map(|sessions| {
            let quotas = TenantQuotaClient::from_sessions(sessions);
            tokio::spawn(async move {
                match quotas.count_turn_against_quotas().await {
                    Ok(()) => {
                        let used = TurnTokensAndCost {
                            tokens: 7,
                            usd: 0.001,
                        };
                        quotas.add_turn_usage(used).await.unwrap();
                        1
                    }
                    Err(NatsError::OverQuota(QuotaExceededError { used, .. })) => {
                        assert_eq!(used, 50.0);
                        0
                    }
                    Err(other) => panic!("{other}"),
                }
            })
        });
        let mut began = 0;
        for one in all.collect::<Vec<_>>() {
            began += one.await.unwrap();
        }
        began
    });
    assert_eq!(began, 50);
    let report = runtime
        .block_on(quotas.read_quota_report())
        .unwrap()
        .unwrap();
    assert_eq!((report.used.turns, report.used.tokens), (50, 350));
    assert_eq!(report.used.micro_usd, 50_000);
}

#[test]
fn a_session_over_the_quota_of_sessions_is_not_created_by_any_program() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let sessions = connect(&servers);
    SessionInboxClient::open(&sessions).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let limits = TenantQuotaLimits {
        sessions_a_day: Some(1),
        ..TenantQuotaLimits::default()
    };
    let quotas = TenantQuotaClient::from_sessions(&sessions);
    runtime.block_on(quotas.declare_limits(limits)).unwrap();
    let create = |id: &str| {
        let at = rind_lib::session::SessionAddress::parse(id).unwrap();
        rind_lib::session::Sessions::create(&sessions, &at)
    };
    drop(create("one").unwrap());
    let refused = create("two").map(drop).unwrap_err();
    let refused = rind_lib::text::format_error_chain(&refused);
    assert!(refused.contains("sessions a day: 1 of 1"), "{refused}");
    let store = SessionStore::with_backend(Arc::new(sessions.clone()));
    assert!(store.check_session_exists("two").is_err());
    drop(create("one/agents/sub-1").unwrap());
}

#[test]
fn a_bucket_that_is_lost_or_damaged_lets_nothing_begin() {
    let (servers, sessions, mut machine) = start(FINE);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    SessionInboxClient::open(&sessions).unwrap();
    machine.output(&["cluster", "quota"], &["--turns", "100"]);
    machine.start_worker(&[]);
    machine.start_front(&[]);
    assert_eq!(
        machine.output(&["run"], &["--session", "s", "go"]),
        "Fine.\n"
    );
    let context = runtime.block_on(async {
        async_nats::jetstream::new(async_nats::connect(servers.urls()).await.unwrap())
    });
    let overwrite = |key: &'static str, value: &'static str| {
        let subject = format!("$KV.rind-t-quotas.{key}");
        runtime.block_on(async {
            context
                .publish(subject, value.into())
                .await
                .unwrap()
                .await
                .unwrap()
        });
    };
    let refuses = |machine: &Machine, why: &str| {
        let refused = machine.run(&["cluster", "send"], &["--session", "s", "go"]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains(why), "{told}");
        let turn = json!({"text": "go", "wait": true});
        let status = machine.post("/v1/sessions/new/turns", &turn).status;
        assert!([503, 404].contains(&status), "{status}");
        let shown = self::status(machine);
        assert!(
            shown["quota_fault"].as_str().unwrap().contains(why),
            "{shown}"
        );
        let shown = machine.output(&["cluster", "quota"], &["--turns", "100"]);
        assert!(shown.contains("turns a minute"), "{shown}");
        let session = format!("after-{}", rind_lib::clock::new_uuid_v7());
        assert_eq!(
            machine.output(&["run"], &["--session", &session, "go"]),
            "Fine.\n"
        );
    };
    overwrite("limits", "{\"turns_a_minute\": -1}");
    refuses(&machine, "limits of the tenant's quotas is damaged");
    runtime
        .block_on(context.delete_stream("KV_rind-t-quotas"))
        .unwrap();
    refuses(&machine, "declared and are gone");
    runtime.block_on(async {
        let stream = context.get_stream("KV_rind-t-quotas").await.unwrap();
        stream
            .purge()
            .filter("$KV.rind-t-quotas.use")
            .await
            .unwrap();
    });
    refuses(&machine, "declared and are gone");
}
