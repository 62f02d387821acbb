//! Cost of the ten core plugins per step of the agent loop: runs of the same turn with them and
//! without alternate. Run with `cargo bench -p rind-benches --bench step`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind::event::{Event, Stamped};
use rind::plugin::load::FoundPluginSet;
use rind::point::payload::StopReason;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::builtin::CommandConfinementMode;
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind::{Host, Session};
use rind_tests::guests::{self, CORE};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Steps of a turn. Every step but the last reads a file.
const STEPS: u32 = 20;

/// Number of pairs; each pair is one turn with the plugins and one without.
const PAIRS: usize = 40;

/// An agent on a new session in a folder of its own.
struct Bench {
    session: Session,
    /// Receiver of the events. It stays open, so that the session emits events as it does for a
    /// client.
    events: UnboundedReceiver<Stamped>,
    /// Microseconds spent in hooks, by plugin and point.
    hooks: BTreeMap<String, f64>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(runtime: &Runtime, plugins: &Arc<FoundPluginSet>, turns: usize) -> Self {
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
        let policy = ToolPolicy {
            mode: ToolPolicyOptions {
                yes: true,
                ..ToolPolicyOptions::default()
            },
            ..ToolPolicy::default()
        };
        let host = Host::builder()
            .provider(Arc::new(Scripted::new(script)), "bench")
            .workspace(place)
            .plugins(plugins.clone())
            .built_in_tools(CommandConfinementMode::Free)
            .policy(Arc::new(policy));
        let host = runtime.block_on(host.build()).unwrap();
        let session = host.session().create().unwrap();
        let events = session.events();
        Self {
            session,
            events,
            hooks: BTreeMap::new(),
            _folder: folder,
        }
    }

    /// Measures one turn and returns the average time per step.
    fn turn(&mut self, runtime: &Runtime) -> Took {
        let (started, cpu) = (Instant::now(), cpu_time());
        let outcome = runtime.block_on(self.session.turn("Read the file."));
        let outcome = outcome.unwrap();
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

/// Returns a bench that has run one turn, so that all plugin instances exist.
fn warm(runtime: &Runtime, plugins: &Arc<FoundPluginSet>) -> Bench {
    let mut bench = Bench::new(runtime, plugins, 2);
    bench.turn(runtime);
    bench.hooks.clear();
    bench
}

/// Time per step, in milliseconds.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// Returns the CPU time that all threads of this process have used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap();
    Duration::new(time.tv_sec.try_into().unwrap(), nanos)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns the first quartile, the median and the third quartile.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|n| values[values.len() * n / 4])
}

fn print(what: &str, [low, middle, high]: [f64; 3]) {
    println!("{what:<46} {middle:>7.3} ms  ({low:.3} to {high:.3})");
}

/// Measures without criterion, which runs each benchmark in one block: a machine that is slow for
/// some time would slow down only one side of the comparison.
fn main() {
    let runtime = Runtime::new().unwrap();
    let none = Arc::new(FoundPluginSet::default());
    let mut host = guests::Host::default();
    CORE.into_iter().for_each(|name| drop(host.guest(name)));
    let ten = Arc::new(runtime.block_on(host.load()));
    assert_eq!(ten.plugins.len(), CORE.len(), "{:?}", ten.left_out);

    let mut hooks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut run = |plugins: &Arc<FoundPluginSet>| {
        let mut bench = warm(&runtime, plugins);
        let took = bench.turn(&runtime);
        for (plugin, micros) in bench.hooks {
            let a_step = micros / 1000.0 / f64::from(STEPS);
            hooks.entry(plugin).or_default().push(a_step);
        }
        took
    };
    // The second turn of a pair finds warmer caches, so the order alternates.
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
    // Time spent waiting for a busy processor counts in the wall-clock difference above, not in
    // this one.
    row("the difference, processor time", &|pair| {
        pair.1.cpu - pair.0.cpu
    });
    println!("in hooks of");
    for (plugin, times) in hooks {
        print(&format!("  {plugin}"), quartiles(times.into_iter()));
    }
}
