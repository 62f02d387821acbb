//! Latency of the first words of an answer, from the model's stream to the event that shows them.
//! Runs with the ten core plugins and without plugins alternate. Run with `cargo bench -p
//! rind-benches --bench first_text`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind::Host;
use rind::event::Event;
use rind::message::{Finish, Message, Role, Usage};
use rind::plugin::load::FoundPluginSet;
use rind::point::payload::StopReason;
use rind::provider::{Error, Provider, Request, RequestImagesByBlobId, Response, StreamEvent};
use rind_tests::guests::{self, CORE};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of pairs; each pair is one run with the plugins and one without.
const PAIRS: usize = 40;

/// First piece of the answer.
const FIRST: &str = "Here is what I found ";

/// Pause before the model sends the rest, which is not needed to show the first words.
const PAUSE: Duration = Duration::from_millis(100);

/// A model that sends one piece, pauses and sends another. It stores the time at which it sent the
/// first piece.
#[derive(Default)]
struct Slow(Mutex<Option<Instant>>);

impl Provider for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn build_request_body(&self, _: &Request, _: &RequestImagesByBlobId) -> Value {
        json!({})
    }

    fn send<'a>(
        &'a self,
        _: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let rest = "in the three files.\n";
            *self.0.lock().unwrap() = Some(Instant::now());
            on(StreamEvent::Text(FIRST.to_owned()));
            tokio::time::sleep(PAUSE).await;
            on(StreamEvent::Text(rest.to_owned()));
            Ok(Response {
                message: Message::text(Role::Assistant, format!("{FIRST}{rest}")),
                model: None,
                finish: Finish::Done,
                usage: Usage::default(),
                cost_usd: None,
                status: 200,
                latency_ms: 1,
                raw: String::new(),
            })
        })
    }
}

/// Returns the milliseconds from the model's first piece to the event that shows it, in the second
/// turn of a session, when all plugin instances exist.
fn first_text(runtime: &Runtime, plugins: &Arc<FoundPluginSet>) -> f64 {
    let provider = Arc::new(Slow::default());
    let host = Host::builder()
        .provider(provider.clone(), "bench")
        .plugins(plugins.clone());
    let host = runtime.block_on(host.build()).unwrap();
    let mut session = host.session().create().unwrap();
    let mut events = session.events();
    // Receives events on a thread of its own, as a terminal does.
    let shown = std::thread::spawn(move || {
        let mut shown = Vec::new();
        while let Some(stamped) = events.blocking_recv() {
            if let Event::TextDelta { text } = stamped.event
                && text.starts_with("Here")
            {
                shown.push(Instant::now());
            }
        }
        shown
    });
    let mut written = Vec::new();
    for _ in 0..2 {
        let outcome = runtime.block_on(session.turn("What is there?")).unwrap();
        assert_eq!(outcome.summary.stop, StopReason::Done, "{}", outcome.output);
        written.push(provider.0.lock().unwrap().take().unwrap());
    }
    drop(session);
    let shown = shown.join().unwrap();
    assert_eq!(
        shown.len(),
        2,
        "the first words are shown once in each turn"
    );
    (shown[1] - written[1]).as_secs_f64() * 1000.0
}

/// Prints the median, the first and third quartile and the maximum.
fn print(what: &str, values: impl Iterator<Item = f64>) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [1, 2, 3].map(|n| values[values.len() * n / 4]);
    let most = values[values.len() - 1];
    println!("{what:<24} {middle:>7.3} ms  ({low:.3} to {high:.3}, at most {most:.3})");
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let none = Arc::new(FoundPluginSet::default());
    let mut host = guests::Host::default();
    CORE.into_iter().for_each(|name| drop(host.guest(name)));
    let ten = Arc::new(runtime.block_on(host.load()));
    assert_eq!(ten.plugins.len(), CORE.len(), "{:?}", ten.left_out);
    let pairs: Vec<(f64, f64)> = (0..PAIRS)
        .map(|n| {
            if n % 2 == 0 {
                let without = first_text(&runtime, &none);
                (without, first_text(&runtime, &ten))
            } else {
                let with = first_text(&runtime, &ten);
                (first_text(&runtime, &none), with)
            }
        })
        .collect();
    println!("{PAIRS} pairs of turns: from the first piece of an answer to its being shown");
    print("no plugins", pairs.iter().map(|pair| pair.0));
    print("ten core plugins", pairs.iter().map(|pair| pair.1));
    print("the difference", pairs.iter().map(|pair| pair.1 - pair.0));
}
