//! Cost of calling a hook: through Rind's dispatch, as the bare call of the same component, as a
//! native trait object, and as a process. `cargo bench -p rind-benches` runs every bench; each
//! group compares within one run. The first lines of the output alternate between a dispatched hook
//! and the bare call, so that changes in the machine's speed affect both alike.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use futures_util::future::BoxFuture;
use rind::grant::Trust;
use rind::message::{Blob, Content, Message, Role};
use rind::plugin::engine::create_engine;
use rind::plugin::startable::StartablePluginSet;
use rind::point::caller::{Caller, PluginCallContext};
use rind::point::catalog::{AfterSystemPrompt, BeforeCompact, Context};
use rind::point::dispatch::HookDispatcher;
use rind::point::failure::{Failure, OnFailure};
use rind::point::handle::{AgentHandle, SessionlessAgentHandle};
use rind::point::outcome::TextOutcome;
use rind::point::payload::Slice as PayloadSlice;
use rind::point::registry::{HookRegistry, HookSpec};
use rind::point::trace::NullDispatchReportSink;
use rind::point::{ExtensionPoint, Hook};
use rind::secret::SecretScanner;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use tokio::runtime::Runtime;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod bare {
    //! Bindings for calling the component with wasmtime alone, with the same engine settings and
    //! limits as plugins.
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "package bench:echo; world echo { export rind:plugin/after-system-prompt@0.1.1; }",
        imports: { default: async },
        exports: { default: async },
    });
}

/// Maximum bytes that one call may pass between host and guest, the same as for plugins.
const HOSTCALL_BYTES: usize = 32 << 20;

const SIZES: [(&str, usize); 3] = [("100 B", 100), ("10 KB", 10_000), ("1 MB", 1_000_000)];

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn caller() -> Caller {
    let context = PluginCallContext {
        session: "0190b5b7a3c07d1e8a4f3c2b1a098765".into(),
        turn: 1,
        step: 2,
        agent: "main".into(),
        ..PluginCallContext::default()
    };
    Caller::new(context)
}

/// A thousand messages of 1 KB.
fn conversation() -> Arc<Vec<Message>> {
    let text = "x".repeat(1_000);
    let message = |_| Message::text(Role::User, text.as_str());
    Arc::new((0..1_000).map(message).collect())
}

/// Returns a dispatcher over `n` echoing plugins. Its sink discards traces, because a list that
/// grows for the complete run would be part of the measurement.
fn dispatcher(runtime: &Runtime, n: usize) -> HookDispatcher {
    let mut host = Host::default();
    for at in 0..n {
        host.plugin(Trust::Managed, "echo", |manifest| {
            manifest.replace("\"echo\"", &format!("\"echo-{at}\""))
        });
    }
    let plugins = runtime.block_on(host.load());
    assert_eq!(plugins.plugins.len(), n, "{:?}", plugins.left_out);
    let handle: Arc<dyn AgentHandle> = Arc::new(SessionlessAgentHandle);
    let open = StartablePluginSet::try_from_plugin_set(&plugins)
        .unwrap()
        .open_plugins(&handle)
        .unwrap();
    HookDispatcher::new(Arc::new(open.registry), Arc::new(NullDispatchReportSink))
}

/// Returns the time of `iters` dispatches of a text of `size` bytes. The payload is created before
/// the clock starts, because a turn has it in any case.
fn time_dispatch(
    runtime: &Runtime,
    dispatcher: &HookDispatcher,
    size: usize,
    iters: u64,
) -> Duration {
    let caller = caller();
    runtime.block_on(async {
        let mut total = Duration::ZERO;
        for _ in 0..iters {
            let text = "x".repeat(size);
            let started = Instant::now();
            let done = dispatcher
                .dispatch::<AfterSystemPrompt>(&caller, text)
                .await;
            total += started.elapsed();
            assert_eq!(done.value.len(), size);
        }
        total
    })
}

struct Native;

impl Hook<AfterSystemPrompt> for Native {
    fn call<'a>(
        &'a self,
        _caller: &'a Caller,
        payload: &'a String,
    ) -> BoxFuture<'a, Result<TextOutcome, Failure>> {
        Box::pin(std::future::ready(Ok(TextOutcome {
            text: Some(payload.clone()),
            effects: Vec::new(),
        })))
    }
}

fn native() -> HookDispatcher {
    let mut registry = HookRegistry::default();
    let spec = HookSpec {
        plugin: "native".into(),
        point: AfterSystemPrompt::NAME.to_owned(),
        priority: 100,
        deadline: Duration::from_secs(5),
        on_failure: OnFailure::Skip,
        is_async: false,
        may_change: true,
        may: None,
        only_tools: None,
        only_final: false,
        only_over: None,
    };
    registry.add::<AfterSystemPrompt>(spec, Arc::new(Native));
    HookDispatcher::new(Arc::new(registry), Arc::new(NullDispatchReportSink))
}

struct Bare {
    store: wasmtime::Store<State>,
    echo: bare::Echo,
}

#[derive(Default)]
struct State {
    limits: wasmtime::StoreLimits,
    wasi: wasmtime_wasi::WasiCtx,
    table: wasmtime::component::ResourceTable,
}

impl wasmtime_wasi::WasiView for State {
    fn ctx(&mut self) -> wasmtime_wasi::WasiCtxView<'_> {
        wasmtime_wasi::WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl bare::rind::plugin::types::Host for State {}
impl bare::rind::plugin::payloads::Host for State {}
impl bare::rind::plugin::outcomes::Host for State {}

fn bare_instance(runtime: &Runtime) -> Bare {
    use wasmtime::component::{Component, HasSelf, Linker};
    let engine = create_engine().unwrap();
    let component = Component::from_file(
        &engine,
        rind_tests::guests::guest("echo").join("guest_echo.wasm"),
    )
    .unwrap();
    let mut linker = Linker::<State>::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
    bare::Echo::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).unwrap();
    let mut store = wasmtime::Store::new(&engine, State::default());
    store.limiter(|state| &mut state.limits);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_hostcall_fuel(HOSTCALL_BYTES);
    let echo = runtime
        .block_on(bare::Echo::instantiate_async(
            &mut store, &component, &linker,
        ))
        .unwrap();
    Bare { store, echo }
}

fn time_bare(runtime: &Runtime, bare: &mut Bare, size: usize, iters: u64) -> Duration {
    runtime.block_on(async {
        let mut total = Duration::ZERO;
        for _ in 0..iters {
            let text = "x".repeat(size);
            let started = Instant::now();
            let guest = bare.echo.rind_plugin_after_system_prompt();
            let outcome = guest
                .call_run(&mut bare.store, &text)
                .await
                .unwrap()
                .unwrap();
            total += started.elapsed();
            assert_eq!(outcome.text.unwrap().len(), size);
        }
        total
    })
}

fn time_process(size: usize, iters: u64) -> Duration {
    use std::io::{Read, Write};
    let text = "x".repeat(size);
    let started = Instant::now();
    for _ in 0..iters {
        let mut child = Command::new("sh")
            .args(["-c", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut answer = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                to.write_all(text.as_bytes()).unwrap();
                drop(to);
            });
            from.read_to_end(&mut answer).unwrap();
        });
        child.wait().unwrap();
        assert_eq!(answer.len(), size);
    }
    started.elapsed()
}

/// Pairs of samples in the alternating measurement.
const PAIRS: usize = 400;

/// Total payload bytes of the calls in one sample. A sample has at least 10 and at most 500 calls.
const SAMPLE_BYTES: usize = 10_000_000;

/// Alternates between a dispatched hook and the bare call. Prints the median ratio of adjacent
/// samples and the lowest time of each.
fn in_turns(_: &mut Criterion) {
    let runtime = runtime();
    let mut bare = bare_instance(&runtime);
    let dispatcher = dispatcher(&runtime, 1);
    for (name, size) in SIZES {
        let n_calls = (SAMPLE_BYTES / size).clamp(10, 500) as u64;
        let each = |took: Duration| took.as_nanos() as f64 / n_calls as f64;
        let pairs: Vec<(f64, f64)> = (0..PAIRS)
            .map(|_| {
                let bare = time_bare(&runtime, &mut bare, size, n_calls);
                let dispatch = time_dispatch(&runtime, &dispatcher, size, n_calls);
                (each(bare), each(dispatch))
            })
            .collect();
        let mut ratios: Vec<f64> = pairs.iter().map(|(bare, hook)| hook / bare).collect();
        ratios.sort_by(f64::total_cmp);
        let lowest = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).fold(f64::MAX, f64::min);
        let (bare, hook) = (lowest(|pair| pair.0), lowest(|pair| pair.1));
        println!(
            "hook, {name}, in turns: {:.2} times the bare call; lowest {bare:.0} and {hook:.0} ns, {:.2} times",
            ratios[PAIRS / 2],
            hook / bare,
        );
    }
}

fn hook(c: &mut Criterion) {
    let runtime = runtime();
    let mut bare = bare_instance(&runtime);
    let (one, three, ten) = (
        dispatcher(&runtime, 1),
        dispatcher(&runtime, 3),
        dispatcher(&runtime, 10),
    );
    let native = native();
    for (name, size) in SIZES {
        let mut group = c.benchmark_group(format!("hook, {name}"));
        group.bench_function("bare typed call", |b| {
            b.iter_custom(|n| time_bare(&runtime, &mut bare, size, n))
        });
        for (hooks, dispatcher) in [(1, &one), (3, &three), (10, &ten)] {
            let id = BenchmarkId::new("dispatch", format!("{hooks} hooks"));
            group.bench_function(id, |b| {
                b.iter_custom(|n| time_dispatch(&runtime, dispatcher, size, n))
            });
        }
        group.bench_function("native trait object through dispatch", |b| {
            b.iter_custom(|n| time_dispatch(&runtime, &native, size, n))
        });
        group
            .sample_size(10)
            .bench_function("process `sh -c cat`", |b| {
                b.iter_custom(|n| time_process(size, n))
            });
        group.finish();
    }
}

/// Compares two hooks on a thousand messages: one reads the last message through a handle, the
/// other receives a copy of all messages.
fn handle(c: &mut Criterion) {
    let runtime = runtime();
    let mut host = Host::default();
    host.guest("reader");
    let plugins = runtime.block_on(host.load());
    let handle: Arc<dyn AgentHandle> = Arc::new(SessionlessAgentHandle);
    let open = StartablePluginSet::try_from_plugin_set(&plugins)
        .unwrap()
        .open_plugins(&handle)
        .unwrap();
    let dispatcher = HookDispatcher::new(Arc::new(open.registry), Arc::new(NullDispatchReportSink));
    let (caller, messages) = (caller(), conversation());
    let slice = Arc::new(PayloadSlice {
        reason: "asked".to_owned(),
        messages: Vec::clone(&messages),
        summary: String::new(),
    });
    let mut group = c.benchmark_group("a conversation of 1,000 messages of 1 KB");
    group.bench_function("the last message, through a handle", |b| {
        b.iter(|| runtime.block_on(dispatcher.dispatch::<Context>(&caller, messages.clone())))
    });
    group.bench_function("all messages, copied", |b| {
        b.iter(|| runtime.block_on(dispatcher.dispatch::<BeforeCompact>(&caller, slice.clone())))
    });
    group.finish();

    // Measures the same hook on a message with an image whose bytes it never requests.
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0".to_vec();
    image.resize(2 << 20, 0);
    let text = || Content::Text {
        text: "What is on it?".to_owned(),
    };
    let image = Content::Blob(Blob::from_bytes(&image, ""));
    let mut group = c.benchmark_group("a message that a hook reads");
    for (name, content) in [
        ("without an image", vec![text()]),
        ("with an image of 2 MB", vec![text(), image]),
    ] {
        let messages = Arc::new(vec![Message::new(Role::User, content)]);
        group.bench_function(name, |b| {
            b.iter(|| runtime.block_on(dispatcher.dispatch::<Context>(&caller, messages.clone())))
        });
    }
    group.finish();
}

fn load(c: &mut Criterion) {
    let runtime = runtime();
    let mut host = Host::default();
    host.guest("echo");
    let plugins = runtime.block_on(host.load());
    let mut group = c.benchmark_group("plugin");
    group.sample_size(20);
    group.bench_function("load one from the cache, engine included", |b| {
        b.iter(|| runtime.block_on(host.load()))
    });
    group.bench_function("new session, first hook call", |b| {
        b.iter_custom(|n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let started = Instant::now();
                let session = Session::open(&plugins);
                runtime.block_on(
                    session
                        .dispatcher
                        .dispatch::<AfterSystemPrompt>(&session.caller, "x".to_owned()),
                );
                total += started.elapsed();
            }
            total
        });
    });
    group.finish();
}

/// Measures the secret scanner alone, on text without any keyword and on code with many keywords.
fn scan(c: &mut Criterion) {
    let code = include_str!("dispatch.rs");
    let scanner = SecretScanner::shared();
    for (name, size) in SIZES {
        let texts = [
            ("x", "x".repeat(size)),
            (
                "code",
                code.repeat(size / code.len() + 1)[..size].to_owned(),
            ),
        ];
        let mut group = c.benchmark_group(format!("scan for secrets, {name}"));
        for (what, text) in &texts {
            assert_eq!(scanner.mask_secrets(text), None);
            group.bench_function(*what, |b| b.iter(|| scanner.mask_secrets(black_box(text))));
        }
        group.finish();
    }
}

criterion_group!(benches, in_turns, hook, handle, load, scan);
criterion_main!(benches);
