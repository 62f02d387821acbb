//! Fuzz targets: properties that must hold for any untrusted bytes, one function for each kind of
//! input. A target accepts any input and fails only by panicking. `it::fuzz` runs the targets on
//! mutations of the corpus.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rind::grant::{HostPattern, Trust, UrlScheme};
use rind::json;
use rind::message::{EffectClass, ToolCall};
use rind::plugin::discover::PluginSearchPath;
use rind::plugin::manifest::Manifest;
use rind::point::catalog::PreTool;
use rind::point::dispatch::CombinedHookVerdict;
use rind::point::payload::ProposedCall;
use rind::provider::ModelApiFormat;
use rind::provider::replay::decode_recorded_answer;
use rind::secret::{SecretScanner, check_request_for_secrets};
use rind::session::{Error as SessionError, SessionSpec, SessionStore};
use rind::skill::{self, SkillFile, SkillInvocationRule, SkillWriteError};
use rind::text::is_deceptive_character;
use rind::tool::schema;

use crate::guests::Host;
use crate::session::Session;

/// A target: its name, which is also the name of its corpus, and its function.
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

/// Checks that a manifest is parsed or refused with an error that names its file, and that the name
/// of a parsed one is not too long.
pub fn manifest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Manifest::parse(&text, Path::new("plugin.toml")) {
        Ok(manifest) => assert!(!manifest.name.is_empty() && manifest.name.len() <= 64),
        Err(error) => assert!(error.to_string().starts_with("plugin.toml")),
    }
}

/// Checks that a provider's stream is accepted or refused regardless of how it is split into
/// chunks.
pub fn sse(data: &[u8]) {
    for wire in ModelApiFormat::ALL {
        let whole = decode_recorded_answer(wire, &[data]).map(|message| message.content);
        let bytes: Vec<&[u8]> = data.chunks(1).collect();
        let cut = decode_recorded_answer(wire, &bytes).map(|message| message.content);
        // Compares only success: an id that the server omits is generated at random.
        assert_eq!(whole.is_ok(), cut.is_ok(), "{whole:?} {cut:?}");
    }
}

/// Checks that a session file of any content is read or refused, and that a session which opens can
/// be opened again with the same conversation.
pub fn session(data: &[u8]) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("s");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("session.jsonl"), data).unwrap();
    let store = SessionStore::new(root.path());
    let _ = store.list();
    let _ = store.read_entries("s");
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
    // A child process that another test of this process is starting holds a copy of the lock's
    // descriptor until it calls `exec`.
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
    store.read_entries("s").unwrap();
}

/// Checks that a host pattern is refused, or equals itself after printing and parsing and ignores
/// the case of the host.
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
    for scheme in [UrlScheme::Https, UrlScheme::Http] {
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

/// Checks that parsed JSON is within the limits of size and depth, and that it is accepted or
/// refused as a schema.
pub fn json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(value) = json::parse_json(&text, 4096) else {
        return;
    };
    assert!(
        text.len() <= 4096 && json::measure_nesting_depth(&value) <= json::MAX_JSON_NESTING_DEPTH
    );
    assert_eq!(
        json::parse_json(&value.to_string(), usize::MAX)
            .unwrap()
            .to_string(),
        value.to_string()
    );
    if let Ok(check) = schema::compile_json_schema_check(&value) {
        let _ = check(&value);
    }
}

/// Checks that the scanner finds no secret in the masked text.
pub fn secret(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = check_request_for_secrets(&[("URL", data)]);
    let scanner = SecretScanner::shared();
    let Some(masked) = scanner.mask_secrets(&text) else {
        assert_eq!(scanner.find_secrets(&text), Vec::new());
        return;
    };
    assert_eq!(scanner.find_secrets(&masked.text), Vec::new(), "{text:?}");
}

/// Checks that a skill is parsed or refused with findings that have a position, that a faulty skill
/// loses permissions and gains none, and that converting it to either format keeps its meaning.
/// Bytes after a NUL are `SKILL.json`.
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
                assert_ne!(skill.invocation, SkillInvocationRule::Auto);
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
    let differs = |error: &SkillWriteError| matches!(error, SkillWriteError::Differs(_));
    let v1 = skill::to_v1_format(&file).err().filter(differs);
    let open = skill::to_agent_skills_format(&file).err().filter(differs);
    let text = String::from_utf8_lossy(data);
    assert!(v1.is_none() && open.is_none(), "{v1:?} {open:?} {text:?}");
}

/// A session with the plugin of `outcome.wat`, and a runtime for its calls.
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
    host.options.sources.push(PluginSearchPath { trust, path });
    let plugins = runtime.block_on(host.load());
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Mutex::new(Lifting {
        session: Session::open(&plugins),
        runtime,
        _host: host,
    })
});

/// Address to which `outcome.wat` copies the memory of the input.
pub const OUTCOME_BASE: u32 = 32768;

/// Longest input in bytes; the rest is cut off.
const MAX_MEMORY_BYTES: usize = 8 << 10;

/// Checks that a guest that returns any memory as its outcome leads to a failed hook or a valid
/// outcome, and that the next call succeeds. The input is the pointer that the hook returns (four
/// bytes) and the memory at [`OUTCOME_BASE`].
pub fn outcome(data: &[u8]) {
    let data = &data[..data.len().min(MAX_MEMORY_BYTES)];
    let lifting = lifting();
    lifting.call(data);
    // All zeros are the outcome `pass` with no note and no effects.
    let mut pass = OUTCOME_BASE.to_le_bytes().to_vec();
    pass.extend([0; 40]);
    assert_eq!(lifting.call(&pass), CombinedHookVerdict::Pass);
}

/// Calls a hook that returns these memories, one after another, while the lock keeps other tests
/// from calling it. Returns the reason of each refusal; empty if the hook refused nothing.
#[must_use]
pub fn lift(memories: &[&[u8]]) -> Vec<String> {
    let lifting = lifting();
    let said = |memory: &&[u8]| match lifting.call(memory) {
        CombinedHookVerdict::Block(said) => said.text,
        _ => String::new(),
    };
    memories.iter().map(said).collect()
}

fn lifting() -> MutexGuard<'static, Lifting> {
    LIFTING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lifting {
    /// Calls the hook and returns its verdict. All calls use one session, because a new session
    /// would hide an instance that should have been dropped. Each call is a turn of its own,
    /// because the dispatcher skips a hook that trapped for the rest of the turn.
    fn call(&self, data: &[u8]) -> CombinedHookVerdict {
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let call = ProposedCall {
            call: ToolCall::new("c", hex, serde_json::json!({})),
            effect_class: EffectClass::Read,
            plugin: None,
            check: Arc::new(|_| Ok(())),
        };
        let dispatcher = &self.session.dispatcher;
        dispatcher.reset_quarantine_at_turn_start();
        let dispatch = dispatcher.dispatch::<PreTool>(&self.session.caller, call);
        let done = self.runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), dispatch)
                .await
                .unwrap()
        });
        let mut memory = self.session.memory.traces.lock().unwrap();
        memory.clear();
        self.session.memory.effects.lock().unwrap().clear();
        if let CombinedHookVerdict::Block(said) = &done.verdict {
            assert!(said.text.len() <= 4096, "{}", said.text.len());
            assert!(
                !said.text.chars().any(is_deceptive_character),
                "{}",
                said.text
            );
        }
        done.verdict
    }
}
