//! Tests of the plugin `dvm` in the real program, with a Nostr relay and customers that use other
//! projects' libraries.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use nostr_relay_builder::prelude::*;
use rind_tests::cli::Rind;
use rind_tests::guests;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, client_async};

/// Script of a model that repeats each input after `did: `.
const ECHO: &str = "[[reply]]\ntext = \"did: {input}\"\ntimes = 0\n";

/// Time after which a missing answer fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nostr event kinds of a request, its result and its feedback.
const KINDS: [u16; 3] = [5050, 6050, 7000];

/// Creates a machine whose plugin `dvm` uses relays at these ports.
fn machine(ports: &[u16]) -> Rind {
    let rind = Rind::with_script(ECHO);
    let quoted = |scheme: &str| {
        let all = ports
            .iter()
            .map(|port| format!("\"{scheme}://127.0.0.1:{port}\""));
        all.collect::<Vec<_>>().join(", ")
    };
    guests::put("dvm", &rind.home().join("managed"), |manifest| {
        manifest.replace(
            "hosts = [\"*\"]",
            &format!("hosts = [\"*\"]\nprivate = [{}]", quoted("http")),
        )
    });
    rind.config(&format!(
        // The cost of a job is limited, which needs a price for the model.
        "[prices.scripted]\ninput = 1.0\noutput = 1.0\n[plugins.dvm.config]\nrelays = [{}]\n",
        quoted("ws")
    ));
    rind
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// A relay with its own runtime. Dropping it shuts the runtime down, because the library's own
/// shutdown leaves the port open.
struct Relay(Option<Runtime>);

impl Relay {
    async fn start(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let relay = LocalRelay::new(RelayBuilder::default().port(port));
        let started = runtime.spawn(async move {
            relay.run().await.unwrap();
            relay
        });
        // Forgotten instead of dropped, so that the relay runs until its runtime shuts down.
        std::mem::forget(started.await.unwrap());
        Self(Some(runtime))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn request(keys: &Keys, input: &str, more: &[&[&str]]) -> Event {
    let input = ["i", input, "text"];
    let tags = std::iter::once(&input[..]).chain(more.iter().copied());
    let tags = tags.map(|tag| Tag::parse(tag.iter().copied()).unwrap());
    let builder = EventBuilder::new(Kind::from(5050), "").tags(tags);
    builder.sign_with_keys(keys).unwrap()
}

/// A customer that is connected to a relay, and the events that it got.
struct Customer {
    socket: tokio_tungstenite::WebSocketStream<TcpStream>,
    seen: Vec<Event>,
}

impl Customer {
    async fn new(port: u16) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut socket, _) = client_async(format!("ws://{address}"), stream)
            .await
            .unwrap();
        let ask = json!(["REQ", "all", {"kinds": KINDS}]);
        socket.send(Message::text(ask.to_string())).await.unwrap();
        let seen = Vec::new();
        Self { socket, seen }
    }

    async fn send(&mut self, event: &Event) {
        let text = format!("[\"EVENT\",{}]", event.as_json());
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Reads events until the condition holds. The Nostr library verifies each event.
    async fn until(&mut self, what: &str, is_so: impl Fn(&[Event]) -> bool) {
        let started = Instant::now();
        while !is_so(&self.seen) {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let Ok(next) = tokio::time::timeout(left, self.socket.next()).await else {
                panic!("no {what}: {:#?}", self.told());
            };
            self.hear(next.unwrap().unwrap());
        }
    }

    /// Reads events for this time.
    async fn listen(&mut self, time: Duration) {
        while let Ok(Some(Ok(next))) = tokio::time::timeout(time, self.socket.next()).await {
            self.hear(next);
        }
    }

    fn hear(&mut self, message: Message) {
        let Message::Text(text) = message else { return };
        let value: Value = serde_json::from_str(text.as_str()).unwrap();
        if value[0] == "EVENT" {
            let event = Event::from_json(value[2].to_string()).unwrap();
            event.verify().unwrap();
            self.seen.push(event);
        }
    }

    /// Returns kind, status and content of each answer.
    fn told(&self) -> Vec<String> {
        self.seen
            .iter()
            .map(shown)
            .filter(|text| !text.starts_with("5050"))
            .collect()
    }
}

fn shown(event: &Event) -> String {
    let status = event.tags.iter().find(|tag| tag.as_slice()[0] == "status");
    let status = status.map_or("", |tag| &tag.as_slice()[1]);
    format!("{} {status}{}", event.kind.as_u16(), event.content)
}

/// Returns the answers of this kind that refer to a request.
fn about<'a>(events: &'a [Event], kind: u16, job: &Event) -> Vec<&'a Event> {
    let job = job.id.to_hex();
    let names = |event: &&Event| {
        let mut tags = event.tags.iter().map(Tag::as_slice);
        tags.any(|tag| tag.len() > 1 && tag[0] == "e" && tag[1] == job)
    };
    let of_kind = events.iter().filter(|event| event.kind.as_u16() == kind);
    of_kind.filter(names).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_on_a_relay_has_its_feedback_and_one_result_also_after_the_relay_died() {
    let port = free_port().await;
    let first = Relay::start(port).await;
    let rind = machine(&[port]);
    let serving = rind.start(&["serve", "--grant", "dvm"]);
    let keys = Keys::generate();
    let mut customer = Customer::new(port).await;
    let job = request(&keys, "six by seven", &[]);
    customer.send(&job).await;
    let done = |job: Event| move |seen: &[Event]| about(seen, 7000, &job).len() >= 2;
    customer.until("answer", done(job.clone())).await;
    let mut told = customer.told();
    told.sort();
    assert_eq!(
        told,
        ["6050 did: six by seven", "7000 processing", "7000 success"]
    );
    let result = about(&customer.seen, 6050, &job)[0].clone();
    assert_eq!(result.tags.public_keys().next(), Some(&keys.public_key()));

    // A request with a bid is refused.
    let paid = request(&keys, "for money", &[&["bid", "1000"]]);
    customer.send(&paid).await;
    customer
        .until("refusal", |seen| !about(seen, 7000, &paid).is_empty())
        .await;
    let refusal = about(&customer.seen, 7000, &paid)[0];
    let status = refusal
        .tags
        .iter()
        .find(|tag| tag.as_slice()[0] == "status")
        .unwrap();
    assert_eq!(status.as_slice()[1], "error");
    assert!(
        status.as_slice()[2].starts_with("payment-required"),
        "{status:?}"
    );

    // The relay ends and loses all events. A new one starts at the same port.
    drop(first);
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the relay did not end"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _second = Relay::start(port).await;
    let mut customer = Customer::new(port).await;
    // The customer sends the answered request again, and a new one.
    customer.send(&job).await;
    let other = request(&keys, "seven by eight", &[]);
    customer.send(&other).await;
    customer
        .until("answer after the restart", done(other.clone()))
        .await;
    customer.send(&job).await;
    customer.listen(Duration::from_secs(2)).await;
    assert!(
        about(&customer.seen, 6050, &job).is_empty(),
        "{:?}",
        customer.told()
    );
    assert_eq!(about(&customer.seen, 6050, &other).len(), 1);

    serving.signal("TERM");
    let ran = serving.end().exits(130);
    assert!(ran.stderr.contains("connects again in"), "{}", ran.stderr);
}

/// A relay that changes the requests that it passes on.
async fn forger(events: Vec<Value>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let events = events.clone();
            tokio::spawn(async move {
                let mut socket = accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if !message.to_string().starts_with("[\"REQ\"") {
                        continue;
                    }
                    for event in &events {
                        let text = json!(["EVENT", "jobs", event]).to_string();
                        socket.send(Message::text(text)).await.unwrap();
                    }
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_forged_request_is_not_done_and_the_same_one_from_two_relays_is_done_once() {
    let keys = Keys::generate();
    let job = request(&keys, "true", &[]);
    let value: Value = serde_json::from_str(&job.as_json()).unwrap();
    let change = |key: &str, to: Value| {
        let mut forged = value.clone();
        forged[key] = to;
        forged
    };
    let other = request(&keys, "other", &[]);
    let events = vec![
        change("tags", json!([["i", "forged", "text"]])),
        change("sig", json!(other.sig.to_string())),
        change("pubkey", json!(Keys::generate().public_key().to_hex())),
        value.clone(),
        value.clone(),
    ];
    let [port, hostile] = [free_port().await, forger(events).await];
    let _relay = Relay::start(port).await;
    let mut customer = Customer::new(port).await;
    customer.send(&job).await;
    let rind = machine(&[port, hostile]);
    let serving = rind.start(&["serve", "--grant", "dvm"]);
    customer
        .until("answer", |seen| about(seen, 7000, &job).len() >= 2)
        .await;
    customer.listen(Duration::from_secs(2)).await;
    let mut told = customer.told();
    told.sort();
    assert_eq!(told, ["6050 did: true", "7000 processing", "7000 success"]);
    serving.signal("TERM");
    let ran = serving.end().exits(130);
    let named = format!("ws://127.0.0.1:{hostile} sent an event whose id or signature is wrong");
    assert_eq!(ran.stderr.matches(&named).count(), 3, "{}", ran.stderr);
}
