//! The program is killed at random moments of every command that changes sessions: turns with
//! commands, subagents, archival and compaction, and undo, continue, copy, move, rename, repair and
//! remove. Afterwards no recorded line is missing, no effect happened twice, and no temporary
//! folder is left.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rind_tests::cli::Rind;
use serde_json::Value;

/// Default number of kills. The variable `RIND_KILLS` sets another number, such as a larger one for
/// a longer test.
const N_KILLS: usize = 30;

/// Id of the session that most actions change.
const MAIN: &str = "main";

const CONFIG: &str = "[subagents]\nenabled = true\n[archival]\nenabled = true\n[archival.trigger]\ntool_call_threshold = 3\n\
     [agent.compact]\nthreshold_tokens = 4000\nkeep_tokens = 300\nkeep_last_messages = 1\nmax_summary_tokens = 300\n";

/// Script of a turn that runs a command, edits a file and starts a subagent. `mark` identifies the
/// turn in their texts.
fn script(mark: &str) -> String {
    format!(
        r#"
[[reply]]
tool_calls = [
    {{ name = "bash", arguments = {{ command = "echo {mark} >> effects" }} }},
    {{ name = "read_file", arguments = {{ path = "a.txt" }} }},
]
delay_ms = 5
[[reply]]
tool_calls = [
    {{ name = "write_file", arguments = {{ path = "made-{mark}", content = "{mark}" }} }},
    {{ name = "spawn_subagent", arguments = {{ task = "Look", wait = true }} }},
]
delay_ms = 5
[[reply]]
text = "done {mark}"
times = 0
[[reply]]
when = {{ contains = "Sum up this turn." }}
text = "It was read."
times = 0
"#
    )
}

/// Names of the actions that are killed.
const ACTIONS: [&str; 11] = [
    "turn", "go on", "undo", "rewind", "rename", "fork", "import", "export", "rm", "gc", "repair",
];

struct Machine {
    rind: Rind,
    seed: u64,
    /// Duration of each action when it is not killed.
    durations: BTreeMap<&'static str, Duration>,
    n_marks: usize,
    n_copies: usize,
}

impl Machine {
    fn new() -> Self {
        let rind = Rind::default();
        rind.config(CONFIG);
        rind.file("a.txt", &"alpha is a letter of the alphabet\n".repeat(60));
        Self {
            rind,
            seed: 0x2545_f491_4f6c_dd1d,
            durations: BTreeMap::new(),
            n_marks: 0,
            n_copies: 0,
        }
    }

    /// A pseudorandom number below `most`.
    fn random(&mut self, most: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % most.max(1)
    }

    fn sessions(&self) -> PathBuf {
        self.rind.home().join("data/sessions")
    }

    /// Folders of sessions other than the main one.
    fn others(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sessions()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names
            .filter(|name| !name.starts_with('.') && name != MAIN)
            .collect();
        names.sort();
        names
    }

    /// The bytes of the main session up to its last complete line.
    fn lines(&self) -> Vec<u8> {
        let mut bytes =
            fs::read(self.sessions().join(MAIN).join("session.jsonl")).unwrap_or_default();
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(end.map_or(0, |at| at + 1));
        bytes
    }

    /// Prepares an action and returns its command line.
    fn arguments(&mut self, action: &str) -> Vec<String> {
        let turn = |input: &str| {
            let args = ["run", "--no-plugins", "--yes", "--resume", MAIN, input];
            args.map(str::to_owned).to_vec()
        };
        let words = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        match action {
            "turn" => {
                self.n_marks += 1;
                let mark = format!("mark-{}", self.n_marks);
                self.rind.script(&script(&mark));
                turn(&format!("work on {mark}"))
            }
            "go on" => {
                self.rind
                    .script("[[reply]]\ntext = \"I go on.\"\ntimes = 0\n");
                words(&["run", "--no-plugins", "--yes", "--resume", MAIN])
            }
            "undo" => turn("/undo both"),
            "rewind" => turn(&format!("/rewind {} files", self.n_marks)),
            "rename" => {
                let title = format!("title {}", self.random(1000));
                words(&["session", "rename", MAIN, &title])
            }
            "fork" => words(&["session", "fork", MAIN]),
            "export" => words(&[
                "session",
                "export",
                MAIN,
                "--format",
                "jsonl",
                "-o",
                "killed.export",
            ]),
            "import" => {
                let args = [
                    "session",
                    "export",
                    MAIN,
                    "--format",
                    "jsonl",
                    "-o",
                    "whole.export",
                ];
                self.rind.run(&args).exits(0);
                self.n_copies += 1;
                let id = format!("copy-{}", self.n_copies);
                words(&["session", "import", "whole.export", "--id", &id])
            }
            "rm" => match self.others().first() {
                Some(other) => words(&["session", "rm", other, "--yes"]),
                None => words(&["session", "list", "--all"]),
            },
            "gc" => {
                // A rename makes the main session the most recently used, and the limit has room
                // for that one only.
                self.rind.run(&["session", "rename", MAIN, "kept"]).exits(0);
                let size = size(&self.sessions().join(MAIN)) + 1000;
                words(&["session", "gc", "--max-size", &size.to_string(), "--yes"])
            }
            "repair" => words(&["session", "doctor", "--repair"]),
            other => panic!("{other}"),
        }
    }

    /// Runs an action to its end, and records how long it takes.
    fn run_whole(&mut self, action: &'static str) {
        let args = self.arguments(action);
        let started = Instant::now();
        self.rind.run(&args);
        self.durations.insert(action, started.elapsed());
    }

    /// Runs an action and kills it at a random moment. Returns whether the action was still
    /// running, and its output.
    fn run_killed(&mut self, action: &'static str) -> (bool, String) {
        let args = self.arguments(action);
        let whole = self.durations[action]
            .as_micros()
            .try_into()
            .unwrap_or(u64::MAX);
        let wait = Duration::from_micros(self.random(whole + whole / 8));
        let mut running = self.rind.start(&args);
        std::thread::sleep(wait);
        running.signal_if_running("KILL");
        let ran = running.end();
        (ran.code.is_none(), ran.stdout)
    }

    fn faults(&self) -> Vec<Value> {
        let ran = self.rind.run(&["session", "doctor", "--json"]);
        let found: Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", ran.stdout, ran.stderr));
        let all = found.as_array().unwrap().iter();
        all.flat_map(|own| own["faults"].as_array().unwrap().clone())
            .collect()
    }

    /// Names of temporary folders beside the sessions.
    fn temporary(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sessions()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with('.') && name != ".heads.json")
            .collect()
    }

    /// Makes abandoned folders old enough to be removed. A folder whose process was killed before
    /// it took the lock is removed by the next such process after ten minutes.
    fn age_unlocked(&self) {
        let long_ago = SystemTime::now() - Duration::from_secs(700);
        for name in self.temporary() {
            if name.starts_with(".unlocked-") {
                let folder = fs::File::open(self.sessions().join(name)).unwrap();
                folder
                    .set_times(fs::FileTimes::new().set_modified(long_ago))
                    .unwrap();
            }
        }
    }

    /// Lines of the file that commands append to, with the number of times that each occurs.
    fn effects(&self) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(self.rind.workspace().join("effects")).unwrap_or_default();
        let mut found = BTreeMap::new();
        for line in text.lines() {
            *found.entry(line.to_owned()).or_default() += 1;
        }
        found
    }

    /// Checks everything that must hold after each kill. `before` are the lines of the main session
    /// before the action.
    fn check(&self, before: &[u8], about: &str) {
        let after = self.lines();
        assert!(
            after.starts_with(before),
            "{about}: lines of the session are gone or changed"
        );
        assert_eq!(self.faults(), Vec::<Value>::new(), "{about}");
        let listed = self
            .rind
            .run(&["session", "list", "--all", "--json"])
            .exits(0);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let mut ids: Vec<&str> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|own| own["id"].as_str().unwrap())
            .collect();
        ids.sort_unstable();
        let mut there = self.others();
        there.push(MAIN.to_owned());
        there.sort();
        assert_eq!(ids, there, "{about}: a folder is no session");
        let twice = self.effects().into_iter().find(|(_, n)| *n > 1);
        assert_eq!(twice, None, "{about}: an effect is there twice");
    }
}

fn size(folder: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        sum += match path.is_dir() {
            true => size(&path),
            false => path.metadata().unwrap().len(),
        };
    }
    sum
}

#[test]
fn a_kill_at_any_moment_of_anything_loses_nothing_and_leaves_nothing_over() {
    let n_kills = std::env::var("RIND_KILLS")
        .ok()
        .and_then(|n| n.parse().ok());
    let n_kills: usize = n_kills.unwrap_or(N_KILLS);
    let mut machine = Machine::new();
    machine.rind.script(&script("mark-0"));
    let begin = ["run", "--no-plugins", "--yes", "--session", MAIN, "begin"];
    machine.rind.run(&begin).exits(0);
    for action in ACTIONS {
        machine.run_whole(action);
    }
    machine.check(&[], "before the kills");
    let mut log = String::new();
    let mut n_killed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for n in 1..=n_kills {
        // Turns are chosen more often, since most happens in them.
        let action = match machine.random(3) {
            0 => "turn",
            _ => ACTIONS[usize::try_from(machine.random(11)).unwrap()],
        };
        let before = machine.lines();
        let (was_running, said) = machine.run_killed(action);
        let about = format!("kill {n}, {action}");
        machine.check(&before, &about);
        if let Some(answer) = said.lines().find(|line| line.starts_with("done mark-")) {
            let text = String::from_utf8(machine.lines()).unwrap();
            assert!(
                text.contains(answer),
                "{about}: `{answer}` was said and is not kept"
            );
        }
        let counts = n_killed.entry(action).or_default();
        counts.0 += usize::from(was_running);
        counts.1 += 1;
    }
    // The interrupted turn continues, and a further copy removes the temporary folders of killed
    // ones.
    machine.age_unlocked();
    let before = machine.lines();
    for action in ["go on", "turn", "turn", "fork", "import", "rm"] {
        machine.run_whole(action);
    }
    machine.check(&before, "at the end");
    assert_eq!(machine.temporary(), Vec::<String>::new(), "left over");
    for (action, (killed, all)) in &n_killed {
        let _ = writeln!(log, "{action}: {killed} of {all} killed while it ran");
    }
    let sessions = machine.others().len() + 1;
    let _ = writeln!(
        log,
        "{n_kills} kills, {} commands ran, {sessions} sessions, {} bytes in the main one",
        machine.effects().len(),
        machine.lines().len()
    );
    if let Some(file) = std::env::var_os("RIND_KILLS_LOG") {
        fs::write(file, log).unwrap();
    }
}
