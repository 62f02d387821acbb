//! Examines sessions for damaged, missing and superfluous data. Owns which states are faults of a
//! session and which faults can be repaired. An examination only reads and takes no lock; `repair`
//! changes a session that no process has open, and keeps everything that it removes. A session that
//! cannot be examined does not prevent the examination of others. Start from [`examine_session`].

mod chain;
mod repair;

pub use repair::repair_session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::blobs::hash_name;
use super::children;
use super::entry::{Body, VERSION};
use super::guarded;
use super::left_holders::{begun_turn, is_left_holder};
use super::named::NamedBlobs;
use super::parts::{FilePart, PartKind, parts};
use super::transcript::SessionTranscript;
use super::{Error, SessionStore};

/// Maximum number of faults in the lines of one file that are listed one by one.
const MAX_LISTED: usize = 20;

/// Number and size of the data of one kind in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Number of entries or files.
    pub count: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Fault of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Description of the fault and its location.
    pub what: String,
    /// Description of the repair; `None` if nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Whether the session works despite the fault: for example a file that nothing needs.
    pub is_harmless: bool,
}

/// Result of the examination of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// Id of the session.
    pub id: String,
    /// Faults, with and without a possible repair.
    pub faults: Vec<Fault>,
    /// Facts that are not faults, such as calls that a resume would close, or an unfinished holder.
    pub notes: Vec<String>,
    /// Number and size of the data, by type of entry and kind of file.
    pub growth: BTreeMap<String, Growth>,
    /// Paths of the files and folders that a repair moves to `kept`.
    #[serde(skip)]
    aside: Vec<String>,
    /// Version of the format, if it is newer than this program knows. Nothing else is examined then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<u32>,
}

impl Examination {
    /// Adds the result of the examination of one file of entries.
    fn add(&mut self, own: Self) {
        self.faults.extend(own.faults);
        self.notes.extend(own.notes);
        self.newer = self.newer.or(own.newer);
        for (kind, growth) in own.growth {
            let all = self.growth.entry(kind).or_default();
            all.count += growth.count;
            all.bytes += growth.bytes;
        }
    }

    fn fault(&mut self, what: String, repair: Option<&str>) {
        let repair = repair.map(str::to_owned);
        self.faults.push(Fault {
            what,
            repair,
            is_harmless: false,
        });
    }

    /// Adds a harmless fault for a superfluous file or folder, which a repair moves to `kept`.
    fn too_much(&mut self, path: &str, what: String) {
        self.aside.push(path.trim_end_matches('/').to_owned());
        self.faults.push(Fault {
            what,
            repair: Some("it is moved to `kept` in the folder of the session".to_owned()),
            is_harmless: true,
        });
    }
}

/// Data that the entries in one file refer to.
#[derive(Debug, Default)]
struct Wanted {
    blobs: NamedBlobs,
    /// Ids of the subagents and holders that entries name.
    agents: BTreeSet<String>,
    /// Ids of the subagents without an entry that records a step: the program was killed, or the
    /// session of the subagent could not be created.
    not_begun: BTreeSet<String>,
    /// Numbers of the turns that begin in this file.
    turns: BTreeSet<u32>,
    /// Numbers of the turns that are due to be archived.
    due: BTreeSet<u32>,
}

/// Examines a session. Fails only if its folder cannot be read.
pub fn examine_session(store: &SessionStore, id: &str) -> Result<Examination, Error> {
    let folder = store.folder_of(id)?;
    let mut found = Examination {
        id: id.to_owned(),
        ..Examination::default()
    };
    let files = parts(&folder).map_err(|source| Error::read_error(&folder, source))?;
    let mut all = BTreeMap::new();
    let mut of_each = BTreeMap::new();
    for file in &files {
        if file.kind == PartKind::Entries {
            let above = file.path.trim_end_matches("session.jsonl").to_owned();
            let mut own = Examination::default();
            let wanted = entries(&folder, &above, &mut own);
            all.insert(above.clone(), wanted);
            of_each.insert(above, own);
        }
    }
    for (above, own) in of_each {
        match is_left(&above, &all) {
            true => found.notes.push(format!(
                "{above} is a holder that was not finished; the next archival makes it anew"
            )),
            false => found.add(own),
        }
    }
    if found.newer.is_some() {
        return Ok(found);
    }
    if !all.contains_key("") {
        let what = "it has no session.jsonl; `rind session rm` removes the rest";
        found.fault(what.to_owned(), None);
    }
    files_of(&folder, &files, &all, &mut found);
    Ok(found)
}

/// Examines one file of entries, and returns the data to which they refer. `above` is the path of
/// the file's folder within the session, with a `/` at the end; it is empty for the session itself.
fn entries(folder: &Path, above: &str, found: &mut Examination) -> Wanted {
    let mut wanted = Wanted::default();
    let path = folder.join(above).join("session.jsonl");
    let read = match chain::read(&path) {
        Ok(read) => read,
        Err(error) => {
            found.fault(
                format!("{above}session.jsonl cannot be read: {error}"),
                None,
            );
            return wanted;
        }
    };
    if read.version > VERSION {
        found.newer = Some(read.version);
        return wanted;
    }
    for (n, what) in read.faults.iter().enumerate() {
        match n {
            MAX_LISTED => found.notes.push(format!(
                "{above}session.jsonl has {} more faults of its lines",
                read.faults.len() - MAX_LISTED
            )),
            n if n > MAX_LISTED => {}
            _ => found.fault(format!("{above}session.jsonl {}", what.text), what.repair),
        }
    }
    let mut transcript = SessionTranscript::default();
    for (body, bytes, kind) in &read.bodies {
        let growth = found.growth.entry(kind.clone()).or_default();
        growth.count += 1;
        growth.bytes += bytes;
        transcript.apply_body(body);
        wanted.turns.extend(begun_turn(body));
        wanted
            .agents
            .extend(children::named_in(body).map(|child| child.agent));
        match body {
            Body::SubagentStart {
                agent,
                is_continued: false,
                ..
            } => {
                wanted.not_begun.insert(agent.clone());
            }
            Body::SubagentEnd { agent, steps, .. } if *steps > 0 => {
                wanted.not_begun.remove(agent);
            }
            _ => {}
        }
        wanted.blobs.follow_entry(body);
    }
    wanted.due.extend(transcript.due.keys());
    resume(above, transcript, found);
    wanted
}

/// Notes the open turn and calls that a resume would close, and how a resume would restore the
/// pairing of calls and results.
fn resume(above: &str, mut transcript: SessionTranscript, found: &mut Examination) {
    if !above.is_empty() {
        return;
    }
    let open = transcript.open_calls();
    if transcript.is_turn_open {
        let names: Vec<&str> = open.iter().map(|call| call.name.as_str()).collect();
        let calls = match names.is_empty() {
            true => String::new(),
            false => format!(", and its calls without a result: {}", names.join(", ")),
        };
        found.notes.push(format!(
            "turn {} is open; a resume closes it{calls}",
            transcript.turn
        ));
    }
    let mended = transcript.repair_calls().into_iter();
    found
        .notes
        .extend(mended.map(|what| format!("on a resume: {what}")));
}

/// Examines all files but those with entries, and looks for missing ones.
fn files_of(
    folder: &Path,
    files: &[FilePart],
    all: &BTreeMap<String, Wanted>,
    found: &mut Examination,
) {
    let content: BTreeSet<&String> = all.values().flat_map(|own| &own.blobs.content).collect();
    let prompts: BTreeSet<&String> = all.values().flat_map(|own| &own.blobs.prompts).collect();
    let mut there = BTreeSet::new();
    for file in files {
        if file.kind != PartKind::Entries {
            let growth = found
                .growth
                .entry(format!("file: {}", file.kind))
                .or_default();
            growth.count += 1;
            growth.bytes += file.bytes;
        }
        there.insert(file.path.as_str());
        let (above, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let path = &file.path;
        match file.kind {
            PartKind::Content | PartKind::State => {
                let owner = above.trim_end_matches("content").trim_end_matches("blobs");
                let is_wanted = match file.kind {
                    PartKind::Content => {
                        let name = name.to_owned();
                        content.contains(&name) || prompts.contains(&name)
                    }
                    _ => all
                        .get(owner)
                        .is_some_and(|own| own.blobs.state.values().any(|blob| blob == name)),
                };
                if !is_wanted {
                    found.too_much(path, format!("no entry refers to {path}"));
                } else if !is_intact(&folder.join(path), name) {
                    let what = format!("{path} is corrupt: its hash does not match its name");
                    found.fault(what, None);
                }
            }
            PartKind::Foreign => {
                found.too_much(path, format!("{path} is not a file of a session"));
            }
            PartKind::Odd => {
                found.too_much(
                    path,
                    format!("{path} is a link, a pipe or another special file"),
                );
            }
            PartKind::Left if !path.starts_with("kept/") && path.ends_with(".half") => {
                let what = format!("{path} is left over from an unfinished write");
                found.too_much(path, what);
            }
            PartKind::Left | PartKind::Lock | PartKind::Entries | PartKind::Checkpoint => {}
        }
    }
    for id in content {
        if !there.contains(format!("content/{id}").as_str()) {
            found.fault(
                format!("content/{id} is missing, and a message refers to it"),
                None,
            );
        }
    }
    for (above, own) in all {
        let state = own.blobs.state.iter().filter(|_| above.is_empty());
        for ((plugin, key), blob) in state {
            if !there.contains(format!("{above}blobs/{blob}").as_str()) {
                let what = format!("{above}blobs/{blob} is missing: `{key}` of plugin {plugin}");
                found.fault(what, None);
            }
        }
        for agent in &own.agents {
            if !all.contains_key(&format!("{above}agents/{agent}/")) {
                let what = format!("{above}agents/{agent}: an entry names it, and it is missing");
                if own.not_begun.contains(agent) {
                    found
                        .notes
                        .push(format!("{what}; no entry says that it began"));
                } else if above.is_empty() {
                    found.fault(what, None);
                } else {
                    // This may be a holder: it has a copy of the entries of its turn, but not the
                    // sessions of the subagents that they name.
                    found.notes.push(what);
                }
            }
        }
    }
    for above in all.keys().filter(|above| !above.is_empty()) {
        let (parent, agent) = split_agent(above);
        let is_named = |own: &Wanted| own.agents.contains(agent);
        if !all.get(&parent).is_some_and(is_named) && !is_left(above, all) {
            found.too_much(above, format!("no entry names the subagent in {above}"));
        }
    }
}

/// Splits the path of a subagent's folder into the path of its parent's folder and the id of the
/// subagent.
fn split_agent(above: &str) -> (String, &str) {
    let mut names = above.trim_end_matches('/').rsplitn(3, '/');
    let agent = names.next().unwrap_or_default();
    let parent = names.nth(1).map(|text| format!("{text}/"));
    (parent.unwrap_or_default(), agent)
}

/// Whether the folder is that of an unfinished holder: the process was killed while it archived.
fn is_left(above: &str, all: &BTreeMap<String, Wanted>) -> bool {
    let (parent, agent) = split_agent(above);
    let (Some(parent), Some(own)) = (all.get(&parent), all.get(above)) else {
        return false;
    };
    let is_named = above.is_empty() || parent.agents.contains(agent);
    !is_named && is_left_holder(agent, &parent.due, &own.turns)
}

fn is_intact(path: &Path, name: &str) -> bool {
    guarded::read(path).is_ok_and(|bytes| hash_name(&bytes) == name)
}
