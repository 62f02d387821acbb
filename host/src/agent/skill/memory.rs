//! Data about skills that a session remembers: the user's confirmations, the skills that were used,
//! and the texts of skills that may become the input of a turn.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::active::plugin_tools_require_skill;
use super::model_memory::SkillModelCache;
use super::parts::first_text_line;
use super::ready::PreparedSkillInvocation;
use crate::agent::spec::AgentSpec;
use crate::grant::Trust;
use crate::lock::lock_ignoring_poison;
use crate::session::{Body, Session, UsedOrApprovedSkill};
use crate::skill::Skill;
use crate::text::escape_and_truncate_line;

/// Data about skills that a session remembers; all its agents share it.
pub(in crate::agent) struct SessionSkillMemory {
    /// Session of the main agent, which stores the data that must survive a resume.
    session: Arc<Session>,
    remembered: Mutex<SessionSkillMemoryState>,
    /// Locked while the user is asked, so that there is only one question at a time.
    pub(super) asking: tokio::sync::Mutex<()>,
    pub(super) models: SkillModelCache,
}

#[derive(Default)]
struct SessionSkillMemoryState {
    /// Skills that the user or the policy has confirmed, by id, trust and hash.
    confirmed: Vec<(String, Trust, String)>,
    /// Skills whose side effects were shown to the user, by id, trust and hash.
    told: Vec<(String, Trust, String)>,
    used: Vec<UsedSkillWithFolder>,
    /// Invocations of skills whose text was returned to the caller, and may become the input of a
    /// turn.
    prepared: Vec<Arc<PreparedSkillInvocation>>,
}

struct UsedSkillWithFolder {
    skill: Arc<Skill>,
    /// Folder of the skill's files, with symlinks resolved; `None` if commands may not read it.
    readable: Option<PathBuf>,
}

/// Maximum number of prepared invocations that are remembered; the oldest is dropped first.
const MAX_PREPARED_SKILL_INVOCATIONS: usize = 64;

impl SessionSkillMemory {
    /// Restores the memory of a resumed session. The confirmations and uses of a skill from an
    /// earlier run are restored only if the skill has not changed since.
    pub(in crate::agent) fn restore_for_session(spec: &AgentSpec) -> Self {
        let mut remembered = SessionSkillMemoryState::default();
        for kept in spec.session.used_or_approved_skills() {
            let Some(skill) = find_unchanged_skill(spec, &kept) else {
                continue;
            };
            let one = skill_memory_key(skill);
            match kept.is_confirmed {
                true => remembered.confirmed.push(one),
                false => {
                    remembered.told.push(one);
                    remembered.used.push(UsedSkillWithFolder {
                        skill: skill.clone(),
                        readable: spec.skill_folder_for_commands(skill),
                    });
                }
            }
        }
        Self {
            session: spec.session.clone(),
            remembered: Mutex::new(remembered),
            asking: tokio::sync::Mutex::default(),
            models: SkillModelCache::default(),
        }
    }

    /// Returns a warning for each remembered skill that has changed or is missing, whose
    /// confirmations no longer apply.
    pub(in crate::agent) fn list_changed_skill_warnings(spec: &AgentSpec) -> Vec<String> {
        let remembered = spec.session.used_or_approved_skills();
        let is_known = |id: &str| {
            let mut of_id = remembered.iter().filter(|kept| kept.skill == id);
            of_id.any(|kept| find_unchanged_skill(spec, kept).is_some())
        };
        let ids: BTreeSet<&str> = remembered.iter().map(|kept| kept.skill.as_str()).collect();
        let forgotten = ids.into_iter().filter(|id| !is_known(id));
        forgotten
            .map(|id| {
                let what = match spec.skills.find(id) {
                    Some(_) => "has changed since this session used it",
                    None => "is gone since this session used it",
                };
                format!(
                    "the skill {} {what}: earlier approvals of it no longer count, and its attached tools are unavailable until it is used again",
                    escape_and_truncate_line(id, 64)
                )
            })
            .collect()
    }

    fn append_skill_use(&self, skill: &Skill, is_confirmed: bool) {
        self.session.append_or_defer_error(Body::SkillRemembered {
            skill: skill.id.clone(),
            trust: skill.trust.to_string(),
            hash: skill.hash.clone(),
            is_confirmed,
        });
    }

    /// Records that the side effects of a skill were shown to the user. Returns whether this is the
    /// first time.
    pub(super) fn mark_side_effects_shown_to_user(&self, skill: &Skill) -> bool {
        let one = skill_memory_key(skill);
        let told = &mut lock_ignoring_poison(&self.remembered).told;
        let is_new = !told.contains(&one);
        if is_new {
            told.push(one);
        }
        is_new
    }

    pub(super) fn is_skill_confirmed(&self, skill: &Skill) -> bool {
        let remembered = lock_ignoring_poison(&self.remembered);
        let mut confirmed = remembered.confirmed.iter();
        confirmed
            .any(|(id, trust, hash)| (id, *trust, hash) == (&skill.id, skill.trust, &skill.hash))
    }

    /// Records that a skill may be used for the rest of this run, or, if the user approved it, for
    /// the rest of the session including later runs.
    pub(super) fn record_skill_use_approval(&self, skill: &Skill, by_person: bool) {
        lock_ignoring_poison(&self.remembered)
            .confirmed
            .push(skill_memory_key(skill));
        if by_person {
            self.append_skill_use(skill, true);
        }
    }

    /// Records an invocation whose text is returned to the caller and may become the input of a
    /// turn.
    pub(super) fn record_prepared_skill(&self, ready: Arc<PreparedSkillInvocation>) {
        let prepared = &mut lock_ignoring_poison(&self.remembered).prepared;
        prepared.retain(|own| own.text != ready.text);
        if prepared.len() >= MAX_PREPARED_SKILL_INVOCATIONS {
            prepared.remove(0);
        }
        prepared.push(ready);
    }

    /// Returns the prepared invocations of skills whose text has its first line in `text`.
    pub(super) fn find_prepared_skills(&self, text: &str) -> Vec<Arc<PreparedSkillInvocation>> {
        let remembered = lock_ignoring_poison(&self.remembered);
        let prepared = remembered.prepared.iter();
        prepared
            .filter(|ready| text.contains(first_text_line(&ready.text)))
            .cloned()
            .collect()
    }

    /// Marks the prepared skills whose text occurs in `text` as already in the conversation. If the
    /// text of such a skill occurs again, the skill exempts no call from approval.
    pub(super) fn mark_skill_texts_as_in_conversation(&self, text: &str) {
        let prepared = &mut lock_ignoring_poison(&self.remembered).prepared;
        for ready in prepared.iter_mut() {
            if text.contains(first_text_line(&ready.text)) {
                Arc::make_mut(ready).is_repeated = true;
            }
        }
    }

    /// Records that a skill is used: from now on its files may be read, and the tools that it
    /// attaches stay available.
    pub(super) fn record_skill_use(&self, skill: &Arc<Skill>, spec: &AgentSpec) {
        let is_same = |own: &UsedSkillWithFolder| Arc::ptr_eq(&own.skill, skill);
        if !lock_ignoring_poison(&self.remembered)
            .used
            .iter()
            .any(is_same)
        {
            let used = UsedSkillWithFolder {
                skill: skill.clone(),
                readable: spec.skill_folder_for_commands(skill),
            };
            lock_ignoring_poison(&self.remembered).used.push(used);
            self.append_skill_use(skill, false);
        }
    }

    pub(super) fn find_used_skill(&self, id: &str) -> Option<Arc<Skill>> {
        let remembered = lock_ignoring_poison(&self.remembered);
        let mut used = remembered.used.iter().map(|used| &used.skill);
        used.find(|skill| skill.id == id).cloned()
    }

    pub(super) fn has_attached_plugin_tools(&self, plugin: &str) -> bool {
        let remembered = lock_ignoring_poison(&self.remembered);
        let mut used = remembered.used.iter().map(|used| &*used.skill);
        used.any(|skill| skill.attach && plugin_tools_require_skill(skill, plugin))
    }

    /// Returns the folders of used skills that commands may read.
    pub(super) fn readable_skill_folders(&self) -> Arc<[PathBuf]> {
        let remembered = lock_ignoring_poison(&self.remembered);
        let used = remembered.used.iter();
        used.filter_map(|used| used.readable.clone()).collect()
    }
}

/// Returns the skill of which the session recorded a use; `None` if the skill is missing or has
/// changed since.
fn find_unchanged_skill<'a>(
    spec: &'a AgentSpec,
    kept: &UsedOrApprovedSkill,
) -> Option<&'a Arc<Skill>> {
    let skill = spec.skills.find(&kept.skill)?;
    let trust = skill.trust.to_string();
    let is_same = (&skill.id, &trust, &skill.hash) == (&kept.skill, &kept.trust, &kept.hash);
    is_same.then_some(skill)
}

/// Returns the key under which a skill is remembered: its id, trust and hash.
fn skill_memory_key(skill: &Skill) -> (String, Trust, String) {
    (skill.id.clone(), skill.trust, skill.hash.clone())
}

impl AgentSpec {
    /// Whether the folder of a skill may be read: it must not contain one of Rind's own folders,
    /// such as those with secrets and sessions.
    pub(super) fn may_read_folder(&self, folder: &Path) -> bool {
        let mut own = self.own_folders.iter();
        !own.any(|own| real_path(own).starts_with(folder))
    }

    /// Returns the folder of a skill if commands may read it although it is outside the workspace.
    /// A folder that is reached through the workspace is excluded, because a command could replace
    /// it with a symlink.
    fn skill_folder_for_commands(&self, skill: &Skill) -> Option<PathBuf> {
        let folder = &skill.real_dir;
        let workspace = real_path(&self.workspace);
        let is_outside = !skill.dir.starts_with(&self.workspace)
            && !skill.dir.starts_with(&workspace)
            && !folder.starts_with(&workspace);
        let is_readable = !skill.is_flat
            && is_outside
            && skill.is_path_unchanged()
            && self.may_read_folder(folder);
        is_readable.then(|| folder.clone())
    }
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
