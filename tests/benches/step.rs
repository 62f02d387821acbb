//! Cost of the ten core plugins in a step of the loop: the same turn with them and without, one after the other in one run.
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

use rind::event::{Event, Stamped};
use rind::plugin::load::PluginSet;
use rind::point::payload::StopReason;
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::tool::builtin::Confining;
use rind::tool::policy::{PolicyMode, ToolPolicy};
use rind::{Host, Session};
use rind_tests::guests::{self, CORE};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Steps of a turn: each but the last reads a file.
const STEPS: u32 = 20;

/// Turns with the plugins and turns without.
const PAIRS: usize = 40;

/// An agent on a new session in a folder of its own.
struct Bench {
    session: Session,
    /// Kept open, so that events are made as they are with somebody watching.
    events: UnboundedReceiver<Stamped>,
    /// Microseconds in the hooks of each plugin at each point.
    hooks: BTreeMap<String, f64>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(runtime: &Runtime, plugins: &Arc<PluginSet>, turns: usize) -> Self {
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
            mode: PolicyMode {
                yes: true,
                ..PolicyMode::default()
            },
            ..ToolPolicy::default()
        };
        let host = Host::builder()
            .provider(Arc::new(Scripted::new(script)), "bench")
            .workspace(place)
            .plugins(plugins.clone())
            .built_in_tools(Confining::Free)
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

    /// Measures one turn and returns the time of a step.
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

/// The second turn of a session, when every instance is there.
fn warm(runtime: &Runtime, plugins: &Arc<PluginSet>) -> Bench {
    let mut bench = Bench::new(runtime, plugins, 2);
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

/// Returns the CPU time that all threads of this process have used so far.
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

/// Measures without criterion, which compares what ran minutes apart: a machine that is slow for a while is slow for one of the
/// two.
fn main() {
    let runtime = Runtime::new().unwrap();
    let none = Arc::new(PluginSet::default());
    let mut host = guests::Host::default();
    CORE.into_iter().for_each(|name| drop(host.guest(name)));
    let ten = Arc::new(runtime.block_on(host.load()));
    assert_eq!(ten.plugins.len(), CORE.len(), "{:?}", ten.left_out);

    let mut hooks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut run = |plugins: &Arc<PluginSet>| {
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
