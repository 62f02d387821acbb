//! Properties that must hold for any bytes from outside: one function for each place where they come in. Each takes any input
//! and fails only by panicking, so that a fuzzer finds what is wrong; `it::fuzz` runs them on mutations of the corpus.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rind::grant::{HostPattern, Scheme, Trust};
use rind::json;
use rind::message::{EffectClass, ToolCall};
use rind::plugin::discover::Source;
use rind::plugin::manifest::Manifest;
use rind::point::catalog::PreTool;
use rind::point::dispatch::HookVerdict;
use rind::point::payload::ProposedCall;
use rind::provider::Wire;
use rind::provider::replay::replay;
use rind::secret::{Scanner, check_outgoing};
use rind::session::{Error as SessionError, SessionSpec, SessionStore};
use rind::skill::{self, Invocation, SkillFile, WriteError};
use rind::text::is_deceptive;
use rind::tool::schema;

use crate::guests::Host;
use crate::session::Session;

/// A target: its name, which is that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("host_pattern", host_pattern),
    ("json", json),
    ("manifest", manifest),
    ("outcome", outcome),
    ("secret", secret),
    ("session", session),
    ("skill", skill),
    ("sse", sse),
];

/// A manifest is read or refused with its path, and a good one keeps its limits.
pub fn manifest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Manifest::parse(&text, Path::new("plugin.toml")) {
        Ok(manifest) => assert!(!manifest.name.is_empty() && manifest.name.len() <= 64),
        Err(error) => assert!(error.to_string().starts_with("plugin.toml")),
    }
}

/// An answer of a provider is the same however it is cut.
pub fn sse(data: &[u8]) {
    for wire in Wire::ALL {
        let whole = replay(wire, &[data]).map(|message| message.content);
        let bytes: Vec<&[u8]> = data.chunks(1).collect();
        let cut = replay(wire, &bytes).map(|message| message.content);
        // Ids that a server leaves out are made up, anew each time.
        assert_eq!(whole.is_ok(), cut.is_ok(), "{whole:?} {cut:?}");
    }
}

/// A session file is read or refused, whatever is in it; one that opens can be opened again with the same conversation.
pub fn session(data: &[u8]) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("s");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("session.jsonl"), data).unwrap();
    let store = SessionStore::new(root.path());
    let _ = store.list();
    let _ = store.read("s");
    let spec = SessionSpec {
        workspace: "w".into(),
        provider: "p".to_owned(),
        model: "m".to_owned(),
    };
    let Ok(resumed) = store.resume("s", &spec) else {
        return;
    };
    let messages = resumed.messages();
    drop(resumed);
    // Another test of this process may be starting a program: until that has replaced itself it holds a copy of the lock.
    let again = (0..200)
        .map(|_| store.resume("s", &spec))
        .find(|again| {
            let is_held = matches!(again, Err(SessionError::Locked { .. }));
            if is_held {
                std::thread::sleep(Duration::from_millis(10));
            }
            !is_held
        })
        .unwrap()
        .unwrap();
    assert_eq!(again.messages(), messages);
    store.read("s").unwrap();
}

/// A pattern of hosts is refused or says what it means: written out it reads as the same.
pub fn host_pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, host) = text.split_once('\n').unwrap_or((&text, "example.com"));
    let Ok(pattern) = pattern.parse::<HostPattern>() else {
        return;
    };
    let written = pattern.to_string();
    assert_eq!(
        written.parse::<HostPattern>().as_ref(),
        Ok(&pattern),
        "{written}"
    );
    for scheme in [Scheme::Https, Scheme::Http] {
        for port in [80, 443, 8443] {
            let matches = pattern.matches(scheme, host, port);
            assert_eq!(
                matches,
                pattern.matches(scheme, &host.to_uppercase(), port),
                "{written} {host}"
            );
        }
    }
}

/// JSON is parsed within its bounds, and what is parsed can be taken for a schema or refused.
pub fn json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(value) = json::parse_json(&text, 4096) else {
        return;
    };
    assert!(text.len() <= 4096 && json::nesting_depth(&value) <= json::MAX_DEPTH);
    assert_eq!(
        json::parse_json(&value.to_string(), usize::MAX)
            .unwrap()
            .to_string(),
        value.to_string()
    );
    if let Ok(check) = schema::compile(&value) {
        let _ = check(&value);
    }
}

/// Checks that masked text holds nothing that the scanner finds.
pub fn secret(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = check_outgoing(&[("URL", data)]);
    let scanner = Scanner::shared();
    let Some(masked) = scanner.mask(&text) else {
        assert_eq!(scanner.scan(&text), Vec::new());
        return;
    };
    assert_eq!(scanner.scan(&masked.text), Vec::new(), "{text:?}");
}

/// A skill is read or refused with a finding that has a place, faults take rights and give none, and written in either format it
/// means the same. After a NUL there is `SKILL.json`.
pub fn skill(data: &[u8]) {
    let mut files = data.splitn(2, |byte| *byte == 0);
    let file = SkillFile {
        folder: "folder",
        dir: Path::new("folder"),
        real_dir: Path::new("folder"),
        held: None,
        file: Path::new("folder/SKILL.md"),
        is_flat: false,
        source: &skill::Source::User,
        trust: Trust::User,
        bytes: files.next().unwrap_or_default(),
        side: files.next(),
    };
    let found = match file.parse() {
        Ok(skill) => {
            if skill.is_restricted {
                assert_ne!(skill.invocation, Invocation::Auto);
                assert!(skill.spares.is_empty(), "{:?}", skill.spares);
            }
            skill.diagnostics
        }
        Err(unusable) => {
            assert!(!unusable.diagnostics.is_empty());
            unusable.diagnostics
        }
    };
    for finding in found {
        assert!(finding.line > 0 && finding.column > 0, "{finding}");
        assert!(!finding.text.is_empty(), "{finding:?}");
    }
    let differs = |error: &WriteError| matches!(error, WriteError::Differs(_));
    let v1 = skill::to_v1(&file).err().filter(differs);
    let open = skill::to_open(&file).err().filter(differs);
    let text = String::from_utf8_lossy(data);
    assert!(v1.is_none() && open.is_none(), "{v1:?} {open:?} {text:?}");
}

/// The session with the plugin of `outcome.wat`, and a runtime to call it in.
struct Lifting {
    runtime: tokio::runtime::Runtime,
    session: Session,
    _host: Host,
}

static LIFTING: LazyLock<Mutex<Lifting>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut host = Host::default();
    let path = host.folder().join("plugins");
    let folder = path.join("lifting");
    std::fs::create_dir_all(&folder).unwrap();
    let component = wat::parse_str(include_str!("fuzz/outcome.wat")).unwrap();
    std::fs::write(folder.join("lifting.wasm"), component).unwrap();
    let manifest = "name = \"lifting\"\nversion = \"0.1.0\"\ndescription = \"x\"\ncomponent = \"lifting.wasm\"\nside_effects = [\"session\"]\n";
    std::fs::write(folder.join("plugin.toml"), manifest).unwrap();
    let trust = Trust::Managed;
    host.options.sources.push(Source { trust, path });
    let plugins = runtime.block_on(host.load());
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Mutex::new(Lifting {
        session: Session::open(&plugins),
        runtime,
        _host: host,
    })
});

/// Address at which `outcome.wat` puts its memory.
pub const OUTCOME_BASE: u32 = 32768;

/// Longest memory of a guest that is made up, in bytes.
const MAX_MEMORY_BYTES: usize = 8 << 10;

/// A guest that returns any memory as its outcome is a failed hook or a lawful outcome, and the next call finds a guest that
/// works. The input is the pointer that the hook returns (four bytes) and the memory at [`OUTCOME_BASE`].
pub fn outcome(data: &[u8]) {
    let data = &data[..data.len().min(MAX_MEMORY_BYTES)];
    let lifting = lifting();
    lifting.call(data);
    // `pass` with no note and no effects, 36 bytes of zeros.
    let mut pass = OUTCOME_BASE.to_le_bytes().to_vec();
    pass.extend([0; 40]);
    assert_eq!(lifting.call(&pass), HookVerdict::Pass);
}

/// Calls a hook that returns these memories, one after another with nobody in between. Why it refused each; empty when it
/// did not.
#[must_use]
pub fn lift(memories: &[&[u8]]) -> Vec<String> {
    let lifting = lifting();
    let said = |memory: &&[u8]| match lifting.call(memory) {
        HookVerdict::Block(said) => said.text,
        _ => String::new(),
    };
    memories.iter().map(said).collect()
}

fn lifting() -> MutexGuard<'static, Lifting> {
    LIFTING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lifting {
    /// Returns the verdict of the hook. A session of its own for each call would hide an instance that should have been
    /// dropped, and the dispatcher leaves a hook out for the rest of its turn after a trap, so each call is a turn of its own.
    fn call(&self, data: &[u8]) -> HookVerdict {
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let call = ProposedCall {
            call: ToolCall::new("c", hex, serde_json::json!({})),
            effect_class: EffectClass::Read,
            plugin: None,
            check: Arc::new(|_| Ok(())),
        };
        let dispatcher = &self.session.dispatcher;
        dispatcher.begin_turn();
        let dispatch = dispatcher.dispatch::<PreTool>(&self.session.caller, call);
        let done = self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), dispatch)
                .await
                .unwrap()
        });
        let mut memory = self.session.memory.traces.lock().unwrap();
        memory.clear();
        self.session.memory.effects.lock().unwrap().clear();
        if let HookVerdict::Block(said) = &done.verdict {
            assert!(said.text.len() <= 4096, "{}", said.text.len());
            assert!(!said.text.chars().any(is_deceptive), "{}", said.text);
        }
        done.verdict
    }
}
