//! Every point fires and every outcome takes effect: a table with a row for each outcome of each
//! point. A row has the answer of a real component and the effects that must be visible after a
//! complete turn.

mod answer;
mod calls;
mod cancel;
mod complete;
mod effects;
mod errors;
mod input;
mod paths;
mod prompt;
mod request;
mod scene;
mod slice;
mod whole;
mod wire;

use rind::point::payload::StopReason;
use serde_json::Value;

use scene::{Scene, Seen};

/// The plugin whose answers are in the table.
const PLUGIN: &str = "scripted-hook";

/// One row of the table.
struct Row {
    point: &'static str,
    /// Field of the point's outcome, and its case.
    outcome: &'static str,
    /// Answer of the hook in the first turn.
    answer: Value,
    /// Answer of a hook at another point, if the row involves two points.
    also: Option<(&'static str, Value)>,
    scene: Scene,
    sees: Vec<See>,
}

/// A row of the plain turn.
fn row(point: &'static str, outcome: &'static str, answer: Value, sees: Vec<See>) -> Row {
    Row {
        point,
        outcome,
        answer,
        also: None,
        scene: Scene::Work,
        sees,
    }
}

impl Row {
    fn within(mut self, scene: Scene) -> Self {
        self.scene = scene;
        self
    }

    fn also(mut self, point: &'static str, answer: Value) -> Self {
        self.also = Some((point, answer));
        self
    }

    /// Outcome of the hook in its trace record.
    fn trace(&self) -> &'static str {
        match self.outcome {
            "block" | "stop" | "verdict.block" | "verdict.cancel" | "action.drop" => "blocked",
            "keep" => "pass",
            "verdict.ask" => "asked",
            _ => "changed",
        }
    }
}

/// An expectation. Requests are numbered from 0; the second turn makes the last one.
enum See {
    /// Exactly these requests hold the text.
    Requests(&'static str, &'static [usize]),
    /// This request has this value at this JSON pointer.
    Body(usize, &'static str, Value),
    /// Block N of the system prompt of this request holds the text.
    System(usize, usize, &'static str),
    /// This number of messages of the conversation holds the text.
    Messages(&'static str, usize),
    /// This number of entries of this type on disk holds the text.
    Entries(&'static str, &'static str, usize),
    /// This number of events of this type holds the text.
    Events(&'static str, &'static str, usize),
    /// One or more events of this type hold the text.
    Told(&'static str, &'static str),
    /// The output of the first turn is this text.
    Output(&'static str),
    /// The first turn stopped for this reason.
    Stop(StopReason),
    /// The first turn had this number of steps.
    Steps(u32),
    /// The workspace file has this content, or does not exist.
    File(&'static str, Option<&'static str>),
    /// The user was asked, with this reason.
    Asked(&'static str),
}

impl See {
    /// Returns the difference from the expectation, if there is one.
    fn complaint(&self, seen: &Seen) -> Option<String> {
        let count = |wanted: usize, found: usize, what: String| {
            (wanted != found).then(|| format!("{found} {what}, not {wanted}"))
        };
        let equal = |wanted: &Value, found: Option<&Value>, what: &str| {
            (found != Some(wanted)).then(|| format!("{what} is {found:?}, not {wanted}"))
        };
        match self {
            Self::Requests(text, wanted) => {
                let found = seen.requests_with(text);
                let wanted: Vec<usize> = wanted
                    .iter()
                    .copied()
                    .filter(|n| *n < seen.n_requests)
                    .collect();
                (found != wanted)
                    .then(|| format!("`{text}` is in requests {found:?}, not {wanted:?}"))
            }
            Self::Body(n, at, wanted) => equal(
                wanted,
                seen.bodies[*n].pointer(at),
                &format!("{at} of request {n}"),
            ),
            Self::System(n, block, text) => {
                let found = &seen.bodies[*n]["system"][block];
                let has = found.as_str().is_some_and(|found| found.contains(text));
                (!has).then(|| format!("block {block} of request {n} is {found}"))
            }
            Self::Messages(text, wanted) => {
                let found = seen.messages.iter().filter(|line| line.contains(text));
                count(*wanted, found.count(), format!("messages with `{text}`"))
            }
            Self::Entries(kind, text, wanted) => {
                let found = scene::count(&seen.entries, kind, text);
                count(*wanted, found, format!("{kind} entries with `{text}`"))
            }
            Self::Events(kind, text, wanted) => {
                let found = scene::count(&seen.events, kind, text);
                count(*wanted, found, format!("{kind} events with `{text}`"))
            }
            Self::Told(kind, text) => (scene::count(&seen.events, kind, text) == 0)
                .then(|| format!("no {kind} event with `{text}`")),
            Self::Output(wanted) => {
                (seen.output != *wanted).then(|| format!("the output is `{}`", seen.output))
            }
            Self::Stop(wanted) => {
                (seen.stop != *wanted).then(|| format!("it ended as {:?}", seen.stop))
            }
            Self::Steps(wanted) => (seen.steps != *wanted).then(|| format!("{} steps", seen.steps)),
            Self::File(name, wanted) => {
                let found = std::fs::read_to_string(seen.workspace.join(name)).ok();
                (found.as_deref() != *wanted).then(|| format!("{name} is {found:?}"))
            }
            Self::Asked(text) => {
                let is_asked = seen.asked.iter().any(|asked| asked.contains(text));
                (!is_asked).then(|| format!("the questions were {:?}", seen.asked))
            }
        }
    }
}

/// Runs rows in the main agent, and those of the plain turn also in a subagent.
async fn check(rows: Vec<Row>) {
    let mut complaints = Vec::new();
    for row in rows {
        let seen = scene::run(&row).await;
        complaints.extend(complain(&row, &seen, "the main agent"));
        if row.scene == Scene::Work {
            let mut inner = scene::run_in_subagent(&row).await;
            // A subagent runs only one turn.
            inner.n_requests = seen.first_turn;
            complaints.extend(complain(&row, &inner, "a subagent"));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

fn complain(row: &Row, seen: &Seen, agent: &str) -> Vec<String> {
    let did = seen.did(row.point);
    let expected = row.trace();
    let mut found: Vec<String> = row.sees.iter().filter_map(|s| s.complaint(seen)).collect();
    if !did.contains(&expected) {
        found.push(format!("the hook did {did:?}, not {expected}"));
    }
    let failed = seen.failures();
    if !failed.is_empty() {
        found.push(format!("hooks failed: {failed:?}"));
    }
    let (point, outcome) = (row.point, row.outcome);
    let say = |what| format!("{point} {outcome} in {agent}: {what}");
    found.into_iter().map(say).collect()
}
