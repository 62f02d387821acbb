//! Tests that entries are durable before the action that they announce: the start of a tool with
//! effects, and of a subagent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rind::message::EffectClass;
use rind::provider::scripted::Reply;
use rind::session::{
    BlobKind, Blobs, Error, FramePosition, Journal, MemorySessions, OpenedJournal, SessionAddress,
    SessionPage, SessionStore, Sessions, UnsyncedFrames,
};
use rind::tool::ToolOutput;
use serde_json::json;

use crate::harness::{NativeTool, Setup, session_spec};

/// Lines of each session that would survive a power failure, by address.
type Safe = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A store whose lines survive a power failure only after a caller has waited for the sync.
#[derive(Clone, Debug, Default)]
struct PowerStore {
    sessions: MemorySessions,
    safe: Safe,
    /// Addresses of subagents' sessions that were created before a durable entry named them.
    early: Arc<Mutex<Vec<String>>>,
}

struct PowerJournal {
    journal: Box<dyn Journal>,
    store: PowerStore,
    at: SessionAddress,
}

struct Frames(PowerStore, SessionAddress, Vec<u8>);

impl UnsyncedFrames for Frames {
    fn wait_for_sync(self: Box<Self>) {
        // Simulates a slow disk, so that the test fails if the host does not wait.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let Self(store, at, lines) = *self;
        let mut safe = store.safe.lock().unwrap();
        let kept = safe.entry(at.to_string()).or_default();
        // Waits may end out of order, and an earlier one must not shorten the durable lines.
        if kept.len() < lines.len() {
            *kept = lines;
        }
    }
}

impl Journal for PowerJournal {
    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.journal.append(frame)
    }

    fn append_with_next(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.journal.append_with_next(frame)
    }

    fn end(&self) -> FramePosition {
        self.journal.end()
    }

    fn bytes(&self) -> u64 {
        self.journal.bytes()
    }

    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error> {
        self.journal.write_waiting()?;
        let lines = self.store.sessions.read(&self.at, FramePosition::START)?;
        Ok(Some(Box::new(Frames(
            self.store.clone(),
            self.at.clone(),
            lines,
        ))))
    }

    fn check(&self) -> Result<(), Error> {
        self.journal.check()
    }
}

impl PowerStore {
    fn over(&self, journal: Box<dyn Journal>, at: &SessionAddress) -> Box<dyn Journal> {
        let (store, at) = (self.clone(), at.clone());
        Box::new(PowerJournal { journal, store, at })
    }

    /// Whether a durable line contains all these words.
    fn is_safe(&self, words: &[&str]) -> bool {
        let safe = self.safe.lock().unwrap();
        let texts = safe.values().map(|bytes| String::from_utf8_lossy(bytes));
        texts.into_iter().any(|text| {
            let mut lines = text.lines();
            lines.any(|line| words.iter().all(|word| line.contains(word)))
        })
    }
}

impl Sessions for PowerStore {
    fn name(&self) -> String {
        self.sessions.name()
    }

    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error> {
        let text = at.to_string();
        if let Some((_, agent)) = text.rsplit_once("/agents/")
            && !self.is_safe(&["\"subagent-start\"", agent])
        {
            self.early.lock().unwrap().push(text);
        }
        Ok(self.over(self.sessions.create(at)?, at))
    }

    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error> {
        let opened = self.sessions.open(at)?;
        let journal = self.over(opened.journal, at);
        Ok(OpenedJournal { journal, ..opened })
    }

    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error> {
        self.sessions.read(at, from)
    }

    fn contains(&self, at: &SessionAddress) -> bool {
        self.sessions.contains(at)
    }

    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs> {
        self.sessions.blobs(at, kind)
    }

    fn folder(&self, at: &SessionAddress) -> Option<PathBuf> {
        self.sessions.folder(at)
    }

    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error> {
        self.sessions.children(at)
    }

    fn remove(&self, at: &SessionAddress) -> Result<(), Error> {
        self.sessions.remove(at)
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error> {
        self.sessions.list(after, limit)
    }

    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        self.sessions.fork(from, to, lines, agents)
    }
}

/// Returns a tool whose result says whether the entry of its start was durable when it ran.
fn watching(
    name: &'static str,
    class: EffectClass,
    store: &PowerStore,
) -> impl rind::tool::Tool + use<> {
    let store = store.clone();
    NativeTool::new(name, class, move |_| {
        let is_safe = store.is_safe(&["\"tool-start\"", name]);
        Box::pin(async move { ToolOutput::ok(format!("{name}: {is_safe}")) })
    })
}

#[tokio::test]
async fn the_start_of_a_tool_that_changes_something_is_safe_before_it_runs() {
    let store = PowerStore::default();
    let replies = vec![
        Reply::call("changes", json!({})).with_tool_call("reads", json!({})),
        Reply::call("executes", json!({})),
        Reply::text("done"),
    ];
    let setup = Setup::new(replies)
        .tool(watching("changes", EffectClass::Write, &store))
        .tool(watching("executes", EffectClass::Execute, &store))
        .tool(watching("reads", EffectClass::Read, &store));
    let sessions = SessionStore::with_backend(Arc::new(store));
    let session = sessions.create(&session_spec(&setup.workspace())).unwrap();
    let mut running = setup.build_on(session);
    running.turn("go on").await;
    let said: Vec<String> = running
        .results()
        .into_iter()
        .map(|(text, ..)| text)
        .collect();
    for expected in ["changes: true", "executes: true"] {
        assert!(said.iter().any(|text| text == expected), "{said:?}");
    }
}

#[tokio::test]
async fn an_entry_that_is_safe_names_a_subagent_before_it_has_a_session() {
    let store = PowerStore::default();
    let mut setup = Setup::new(vec![
        Reply::call("spawn_subagent", json!({"task": "Look", "wait": true})),
        Reply::text("seen"),
        Reply::text("done"),
    ]);
    setup.config.subagents.enabled = true;
    let early = store.early.clone();
    let sessions = SessionStore::with_backend(Arc::new(store));
    let session = sessions.create(&session_spec(&setup.workspace())).unwrap();
    let mut running = setup.build_on(session);
    running.turn("go on").await;
    assert_eq!(running.session.subagents().len(), 1);
    assert_eq!(*early.lock().unwrap(), Vec::<String>::new());
}
