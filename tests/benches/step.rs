//! What the ten core plugins cost a step of the loop: the same turn with them and without, one after the other in one run.
//! `cargo bench -p rind-benches --bench step`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::agent::{Agent, AgentConfig, AgentSpec, KeepInStore, SessionHandle};
use rind::event::{Event, Events, Stamped};
use rind::plugin::load::PluginSet;
use rind::point::handle::AgentHandle;
use rind::point::payload::{Source, StopReason};
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::session::{SessionSpec, SessionStore};
use rind::tool::approval::DenyAll;
use rind::tool::builtin;
use rind::tool::policy::{PolicyMode, ToolPolicy};
use rind::tool::registry::ToolRegistry;
use rind::tool::workspace::Workspace;
use rind_tests::guests::{CORE, Host};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Steps of a turn: each but the last reads a file.
const STEPS: u32 = 20;

/// Turns with the plugins and turns without.
const PAIRS: usize = 40;

/// An agent on a new session in a folder of its own.
struct Bench {
    agent: Agent,
    /// Kept open, so that events are made as they are with somebody watching.
    events: UnboundedReceiver<Stamped>,
    /// Microseconds in the hooks of each plugin at each point.
    hooks: BTreeMap<String, f64>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(plugins: &PluginSet, turns: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("w");
        std::fs::create_dir(&place).unwrap();
        for n in 1..STEPS {
            std::fs::write(
                place.join(format!("{n}.txt")),
                "A line of a file.\n".repeat(200),
            )
            .unwrap();
        }
        let spec = SessionSpec {
            workspace: place.clone(),
            provider: "scripted".to_owned(),
            model: "bench".to_owned(),
        };
        let session = SessionStore::new(folder.path().join("sessions")).create(&spec);
        let session = Arc::new(session.unwrap());
        let (sender, events) = Events::channel();
        let keep: KeepInStore = Arc::new(|_: &str, _: &str, _: &str| {});
        let handle = SessionHandle::new(session.clone(), sender.clone(), keep.clone());
        let handle = Arc::new(handle);
        let plugin_handle: Arc<dyn AgentHandle> = handle.clone();
        let open = plugins.open(&plugin_handle).unwrap();
        let mut tools = ToolRegistry::default();
        let workspace = Arc::new(Workspace::open(&place).unwrap());
        for tool in builtin::all(&workspace).into_iter().chain(open.tools) {
            tools.add(tool).unwrap();
        }
        let path = |n| json!({"path": format!("{n}.txt")});
        let reads = (1..STEPS).map(|n| Reply::call("read_file", path(n)));
        let turn: Vec<Reply> = reads.chain([Reply::text("It was read.")]).collect();
        let script = Script::new(
            turn.iter()
                .cloned()
                .cycle()
                .take(turn.len() * turns)
                .collect(),
        );
        let agent = Agent::new(AgentSpec {
            provider: Arc::new(Scripted::new(script)),
            model: "bench".to_owned(),
            temperature: None,
            max_tokens: None,
            tools,
            hooks: Arc::new(open.registry),
            policy: ToolPolicy {
                mode: PolicyMode {
                    yes: true,
                    ..PolicyMode::default()
                },
                ..ToolPolicy::default()
            },
            approver: Arc::new(DenyAll(String::new())),
            session,
            events: sender,
            keep_in_store: keep,
            config: AgentConfig::default(),
            workspace: place,
            parts: Vec::new(),
            name: "main".into(),
            depth: 0,
            call_chain: Vec::new(),
        });
        handle.set_agent(&agent);
        Self {
            agent,
            events,
            hooks: BTreeMap::new(),
            _folder: folder,
        }
    }

    /// What a step took, over one turn.
    fn turn(&mut self, runtime: &Runtime) -> Took {
        let cancel = CancellationToken::new();
        let (started, cpu) = (Instant::now(), cpu_time());
        let turn = self
            .agent
            .run_turn("Read the file.", Source::Terminal, &cancel);
        let outcome = runtime.block_on(turn).unwrap();
        let took = Took {
            wall: millis(started.elapsed()) / f64::from(STEPS),
            cpu: millis(cpu_time() - cpu) / f64::from(STEPS),
        };
        assert_eq!(outcome.summary.stop, StopReason::Done, "{}", outcome.output);
        assert_eq!(outcome.summary.steps, STEPS, "{}", outcome.output);
        while let Ok(stamped) = self.events.try_recv() {
            if let Event::Hook { record } = stamped.event {
                *self
                    .hooks
                    .entry(format!("{} {}", record.plugin, record.point))
                    .or_default() += record.micros;
            }
        }
        took
    }
}

/// The second turn of a session, when every instance is there.
fn warm(runtime: &Runtime, plugins: &PluginSet) -> Bench {
    let mut bench = Bench::new(plugins, 2);
    bench.turn(runtime);
    bench.hooks.clear();
    bench
}

/// Milliseconds of a step.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// What all threads of this process have used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap();
    Duration::new(time.tv_sec.try_into().unwrap(), nanos)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A quarter, the half and three quarters of the way through the sorted values.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|n| values[values.len() * n / 4])
}

fn print(what: &str, [low, middle, high]: [f64; 3]) {
    println!("{what:<46} {middle:>7.3} ms  ({low:.3} to {high:.3})");
}

/// Not with criterion: it compares what ran minutes apart, and a machine that is slow for a while is slow for one of the two.
fn main() {
    let runtime = Runtime::new().unwrap();
    let none = PluginSet::default();
    let mut host = Host::default();
    CORE.into_iter().for_each(|name| drop(host.guest(name)));
    let ten = runtime.block_on(host.load());
    assert_eq!(ten.plugins.len(), CORE.len(), "{:?}", ten.left_out);

    let mut hooks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut run = |plugins| {
        let mut bench = warm(&runtime, plugins);
        let took = bench.turn(&runtime);
        for (plugin, micros) in bench.hooks {
            let a_step = micros / 1000.0 / f64::from(STEPS);
            hooks.entry(plugin).or_default().push(a_step);
        }
        took
    };
    // Whoever comes second finds caches warmer: each comes first half of the time.
    let pairs: Vec<(Took, Took)> = (0..PAIRS)
        .map(|n| {
            if n % 2 == 0 {
                let without = run(&none);
                (without, run(&ten))
            } else {
                let with = run(&ten);
                (run(&none), with)
            }
        })
        .collect();
    println!("{PAIRS} pairs of turns of {STEPS} steps: median of a step, and the middle half");
    let row =
        |what, of: &dyn Fn(&(Took, Took)) -> f64| print(what, quartiles(pairs.iter().map(of)));
    row("no plugins", &|pair| pair.0.wall);
    row("ten core plugins", &|pair| pair.1.wall);
    row("the difference", &|pair| pair.1.wall - pair.0.wall);
    // On a machine that does other things as well, waiting for a core is in the first and not in the second.
    row("the difference, processor time", &|pair| {
        pair.1.cpu - pair.0.cpu
    });
    println!("in hooks of");
    for (plugin, times) in hooks {
        print(&format!("  {plugin}"), quartiles(times.into_iter()));
    }
}
