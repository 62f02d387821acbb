//! Tests of the plugin with simulated relays and turns.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use rind_sdk::serde_json::{Value, from_str, json};
use rind_sdk::testing::SocketCall;
use rind_sdk::turns::{TurnOrder, TurnReport};
use rind_sdk::types::Error;
use rind_sdk::waiting::Wakeup;
use rind_sdk::websocket::{ConnectionEvent, Frame};
use rind_sdk::{LoopOutcome, store, testing};

use crate::dvm::run;
use crate::event::{NostrEvent, NostrEventSigningKey};
use crate::ledger;

/// Secret key of the customer.
const CUSTOMER: &str = "0000000000000000000000000000000000000000000000000000000000000003";

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn event_tags(tags: &[&[&str]]) -> Vec<Vec<String>> {
    let owned = |tag: &&[&str]| tag.iter().map(|text| (*text).to_owned()).collect();
    tags.iter().map(owned).collect()
}

fn job_request(wanted: &[&[&str]]) -> NostrEvent {
    let customer = NostrEventSigningKey::parse(CUSTOMER).unwrap();
    customer
        .sign_event(5050, event_tags(wanted), String::new(), now())
        .unwrap()
}

fn message_event(value: &Value) -> ConnectionEvent {
    ConnectionEvent::Message(Frame::Text(value.to_string()))
}

fn subscription_event(event: &NostrEvent) -> ConnectionEvent {
    message_event(&json!(["EVENT", "jobs", event]))
}

/// The plugin with one simulated relay: the events that it published, and the turns that it
/// ordered.
struct TestPlugin {
    published: Rc<RefCell<Vec<NostrEvent>>>,
    orders: Rc<RefCell<Vec<TurnOrder>>>,
}

impl TestPlugin {
    /// Sets up a relay that sends these events, and accepts published events if `takes` is set.
    fn new(events: &[ConnectionEvent], takes: bool) -> Self {
        testing::reset();
        testing::put_file("data/key", "1".repeat(64));
        testing::set_config(json!({
            "relays": ["wss://relay.example"], "kinds": [5050], "customers": [], "preset": "minimal",
            "model": "", "max_cost_usd": 0.05, "jobs_per_hour": 60,
        }));
        let machine = Self {
            published: Rc::default(),
            orders: Rc::default(),
        };
        machine.answer_as_relay(events, takes);
        machine.answer_turns_with(|_| Ok(turn_report("done")));
        testing::answer_waits(|_| Ok(Wakeup::Shutdown));
        machine
    }

    fn answer_as_relay(&self, events: &[ConnectionEvent], takes: bool) {
        let (published, events) = (self.published.clone(), events.to_vec());
        testing::answer_sockets(move |call| {
            let SocketCall::Send(_, Frame::Text(text)) = call else {
                return Ok(Vec::new());
            };
            let sent: Value = from_str(&text).unwrap();
            match sent[0].as_str().unwrap() {
                "REQ" => Ok(events.clone()),
                "EVENT" => {
                    let event: NostrEvent = from_str(&sent[1].to_string()).unwrap();
                    assert!(event.has_valid_hash_and_signature());
                    let ok = message_event(&json!(["OK", event.id, takes, ""]));
                    published.borrow_mut().push(event);
                    Ok(vec![ok])
                }
                other => panic!("the plugin sent {other}"),
            }
        });
    }

    fn answer_turns_with(
        &self,
        answer: impl Fn(&TurnOrder) -> Result<TurnReport, Error> + 'static,
    ) {
        let orders = self.orders.clone();
        testing::answer_turns(move |order| {
            orders.borrow_mut().push(order.clone());
            answer(&order)
        });
    }

    /// Returns kind, status and content of each published event.
    fn published_lines(&self) -> Vec<String> {
        let published = self.published.borrow();
        let told = published.iter().map(|event| {
            let status = event
                .first_tag_with_name("status")
                .unwrap_or_default()
                .join(" ");
            format!("{} {}{}", event.kind, status.trim(), event.content)
        });
        told.collect()
    }
}

fn turn_report(state: &str) -> TurnReport {
    TurnReport {
        session: "loop.dvm.x".to_owned(),
        turn: 1,
        state: state.to_owned(),
        answer: "forty-two".to_owned(),
        steps: 1,
        tool_calls: 0,
        cost_usd: 0.01,
        unpriced_tokens: 0,
    }
}

fn reason_to_run_again() -> String {
    match run() {
        Ok(LoopOutcome::Again { reason, .. }) => reason,
        other => format!("{other:?}"),
    }
}

const DONE: [&str; 3] = ["7000 processing", "6050 forty-two", "7000 success"];

#[test]
fn a_job_request_is_answered_with_one_result_and_with_feedback() {
    let job = job_request(&[&["i", "what is six by seven?", "text"]]);
    let machine = TestPlugin::new(&[subscription_event(&job), subscription_event(&job)], true);
    assert_eq!(reason_to_run_again(), "the host ends");
    assert_eq!(machine.published_lines(), DONE);
    let result = machine.published.borrow()[1].clone();
    assert_eq!(result.first_tag_with_name("e").unwrap()[0], job.id);
    assert_eq!(result.first_tag_with_name("p").unwrap()[0], job.pubkey);
    assert_eq!(
        from_str::<NostrEvent>(&result.first_tag_with_name("request").unwrap()[0]).unwrap(),
        job
    );
    let orders = machine.orders.borrow().clone();
    assert_eq!(orders[0].input, "what is six by seven?");
    assert_eq!(orders[0].preset.as_deref(), Some("minimal"));
    assert_eq!(orders[0].input_id, Some(format!("{}.0", job.id)));
    // At the next start the relay sends the same request again.
    assert_eq!(reason_to_run_again(), "the host ends");
    assert_eq!(machine.published_lines().len(), 3);
    assert_eq!(store::keys("done.").unwrap().len(), 1);
}

#[test]
fn an_answer_that_no_relay_accepted_is_published_again_unchanged() {
    let job = job_request(&[&["i", "ask", "text"]]);
    let machine = TestPlugin::new(&[subscription_event(&job)], false);
    reason_to_run_again();
    assert_eq!(machine.published_lines(), DONE);
    machine.answer_as_relay(&[subscription_event(&job)], true);
    reason_to_run_again();
    assert_eq!(machine.published_lines()[3..], DONE[1..]);
    let published = machine.published.borrow().clone();
    assert_eq!(published[1], published[3]);
    assert_eq!(machine.orders.borrow().len(), 1);
    assert!(ledger::unpublished_answers().unwrap().is_empty());
}

#[test]
fn forged_requests_of_a_relay_are_ignored() {
    let job = job_request(&[&["i", "ask", "text"]]);
    let other = job_request(&[&["i", "other", "text"]]);
    let changed = [
        NostrEvent {
            content: "x".to_owned(),
            ..job.clone()
        },
        NostrEvent {
            id: other.id.clone(),
            ..job.clone()
        },
        NostrEvent {
            sig: other.sig,
            ..job.clone()
        },
        NostrEvent {
            pubkey: "1".repeat(64),
            ..job.clone()
        },
        NostrEvent {
            sig: String::new(),
            ..job.clone()
        },
        NostrEvent {
            id: job.id.to_uppercase(),
            ..job
        },
    ];
    let forged: Vec<_> = changed.iter().map(subscription_event).collect();
    let junk = [
        json!([]),
        json!("x"),
        json!(["EVENT", "jobs", {}]),
        json!(["OK", 1, 2]),
        json!(["OK"]),
    ];
    let all: Vec<_> = forged
        .into_iter()
        .chain(junk.iter().map(message_event))
        .collect();
    let machine = TestPlugin::new(&all, true);
    assert_eq!(reason_to_run_again(), "the host ends");
    assert!(machine.published_lines().is_empty() && machine.orders.borrow().is_empty());
}

#[test]
fn a_relay_that_sends_many_forged_events_is_disconnected() {
    let job = job_request(&[&["i", "ask", "text"]]);
    let forged = NostrEvent {
        content: "x".to_owned(),
        ..job.clone()
    };
    let mut all = vec![subscription_event(&forged); 20];
    all.push(subscription_event(&job));
    let machine = TestPlugin::new(&all, true);
    assert_eq!(reason_to_run_again(), "the host ends");
    assert!(machine.published_lines().is_empty());
}

#[test]
fn requests_for_other_providers_and_too_old_or_future_requests_are_ignored() {
    let customer = NostrEventSigningKey::parse(CUSTOMER).unwrap();
    let input = event_tags(&[&["i", "ask", "text"]]);
    let at = |kind, created_at| {
        subscription_event(
            &customer
                .sign_event(kind, input.clone(), String::new(), created_at)
                .unwrap(),
        )
    };
    let elsewhere = job_request(&[&["i", "ask", "text"], &["p", &"2".repeat(64)]]);
    let all = [
        at(5051, now()),
        at(5050, now() - ledger::MAX_REQUEST_AGE_SECONDS - 60),
        at(5050, now() + 3600),
        subscription_event(&elsewhere),
    ];
    let machine = TestPlugin::new(&all, true);
    reason_to_run_again();
    assert!(machine.published_lines().is_empty());
}

#[test]
fn an_unsupported_request_is_an_error_for_the_customer() {
    let long = "x".repeat(70_000);
    for (wanted, expected) in [
        (
            &[&["i", "ask", "text"][..], &["bid", "1000"]][..],
            "payment-required: payments are not supported",
        ),
        (
            &[&["i", "https://a.example", "url"]],
            "inputs of type `url` are not supported",
        ),
        (
            &[&["encrypted"], &["i", "ask", "text"]],
            "encrypted requests are not supported",
        ),
        (&[&["param", "x", "y"]], "the request has no input"),
        (
            &[&["i", &long, "text"]],
            "the input has 70000 bytes, at most 65536",
        ),
    ] {
        let machine = TestPlugin::new(&[subscription_event(&job_request(wanted))], true);
        reason_to_run_again();
        let told = machine.published_lines();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with(&format!("7000 error {expected}")),
            "{told:?}"
        );
        assert!(machine.orders.borrow().is_empty());
    }
}

#[test]
fn the_customer_learns_of_a_failed_turn_without_its_reason() {
    let job = job_request(&[&["i", "ask", "text"]]);
    let machine = TestPlugin::new(&[subscription_event(&job)], true);
    machine.answer_turns_with(|_| {
        Ok(TurnReport {
            answer: "/keys/of/me: 401".to_owned(),
            ..turn_report("failed")
        })
    });
    reason_to_run_again();
    assert_eq!(
        machine.published_lines(),
        ["7000 processing", "7000 error the job ended: failed"]
    );
}

#[test]
fn a_job_interrupted_by_the_end_of_the_host_continues_at_the_next_start() {
    let job = job_request(&[&["i", "ask", "text"]]);
    let machine = TestPlugin::new(&[subscription_event(&job)], true);
    machine.answer_turns_with(|_| Ok(turn_report("cancelled")));
    assert_eq!(reason_to_run_again(), "the host ends");
    assert_eq!(machine.published_lines(), ["7000 processing"]);
    machine.answer_turns_with(|_| Ok(turn_report("done")));
    reason_to_run_again();
    assert_eq!(machine.published_lines()[1..], DONE);
    let ids: Vec<_> = machine
        .orders
        .borrow()
        .iter()
        .map(|order| order.input_id.clone())
        .collect();
    assert_eq!(
        ids,
        [Some(format!("{}.0", job.id)), Some(format!("{}.1", job.id))]
    );
}

#[test]
fn a_lost_relay_is_reconnected_after_growing_pauses() {
    let machine = TestPlugin::new(&[], true);
    testing::answer_sockets(|_| Err(Error::Failed("the connection failed".to_owned())));
    let waits = Rc::new(RefCell::new(Vec::new()));
    let seen = waits.clone();
    testing::answer_waits(move |until| {
        seen.borrow_mut().push(until.timeout_ms.unwrap_or_default());
        Ok(Wakeup::Shutdown)
    });
    reason_to_run_again();
    assert_eq!(*waits.borrow(), [1000]);
    assert!(machine.published_lines().is_empty());
}

#[test]
fn a_key_is_created_once_and_an_invalid_key_is_reported() {
    let machine = TestPlugin::new(&[], true);
    testing::reset();
    let first = NostrEventSigningKey::load().unwrap().pubkey();
    assert_eq!(NostrEventSigningKey::load().unwrap().pubkey(), first);
    testing::put_file("data/key", "nsec1nothing");
    let Err(error) = NostrEventSigningKey::load() else {
        panic!("a wrong key was taken");
    };
    assert!(error.message().contains("holds no secret key"), "{error:?}");
    drop(machine);
}

/// Uses the first test vector of BIP 340.
#[test]
fn the_public_key_matches_the_test_vector_of_bip_340() {
    let signer = NostrEventSigningKey::parse(CUSTOMER).unwrap();
    let expected = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
    assert_eq!(signer.pubkey(), expected);
}
