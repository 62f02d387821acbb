//! Holds the skills of a session, sorted by identity, with a digest over all of them.
//!
//! The set is immutable, so that a running session never sees one of its skills change.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::about::SkillWithPathPatterns;
use super::model::{ShadowedSkill, Skill, Source, UnusableSkill};
use super::name::normalize_skill_name;

/// Skills of a session. Immutable: a session that should know other skills gets a new value.
#[derive(Clone, Debug, Default)]
pub struct SessionSkills {
    skills: Vec<Arc<Skill>>,
    shadowed: Vec<ShadowedSkill>,
    unusable: Vec<UnusableSkill>,
    /// Index in `skills` by the identity or the label of the skill, each normalized with
    /// [`normalize_skill_name`].
    names: BTreeMap<String, usize>,
    hash: String,
    /// Compiled patterns of the skills that have `paths`, created on first use.
    about: OnceLock<Vec<SkillWithPathPatterns>>,
}

impl SessionSkills {
    /// Combines the found skills. Of several skills with the same identity, the one with the first
    /// source is used. `found` must not contain two skills from the same file. A skill from a later
    /// source cannot have the name of an unusable file.
    #[must_use]
    pub fn new(found: impl IntoIterator<Item = Skill>, mut unusable: Vec<UnusableSkill>) -> Self {
        let mut all: Vec<Skill> = found.into_iter().collect();
        // Sort by preference. Within a source the path decides, so that the directory order on disk
        // has no effect.
        all.sort_by(|a, b| (&a.source, &a.file).cmp(&(&b.source, &b.file)));
        // The name of an unusable file stays reserved: otherwise an attacker could break a skill to
        // substitute another one.
        let mut kept: BTreeMap<String, (&Source, &Path)> = BTreeMap::new();
        for one in unusable.iter().filter(|one| !one.id.is_empty()) {
            let place = (&one.source, &*one.file);
            let kept = kept.entry(normalize_skill_name(&one.id)).or_insert(place);
            *kept = place.min(*kept);
        }
        let mut used: BTreeMap<String, Arc<Skill>> = BTreeMap::new();
        let mut shadowed = Vec::new();
        for skill in all {
            let skill = Arc::new(skill);
            let name = normalize_skill_name(&skill.id);
            match (used.get(&name), kept.get(&name)) {
                (None, Some((source, file)))
                    if (*source, *file) < (&skill.source, &*skill.file) =>
                {
                    shadowed.push(ShadowedSkill {
                        shadowed_by: file.to_path_buf(),
                        is_identical: false,
                        skill,
                    });
                }
                (None, _) => _ = used.insert(name, skill),
                (Some(winner), _) => shadowed.push(ShadowedSkill {
                    shadowed_by: winner.file.clone(),
                    is_identical: winner.hash == skill.hash,
                    skill,
                }),
            }
        }
        unusable.sort_by(|a, b| (&a.id, &a.file).cmp(&(&b.id, &b.file)));
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let (keys, skills): (Vec<String>, Vec<Arc<Skill>>) = used.into_iter().unzip();
        for (at, skill) in skills.iter().enumerate() {
            // A label that several skills have cannot be used to name one of them.
            names
                .entry(normalize_skill_name(&skill.label))
                .and_modify(|place| *place = usize::MAX)
                .or_insert(at);
        }
        names.retain(|name, at| *at != usize::MAX && !name.is_empty());
        // If one skill's identity equals another skill's label, the name refers to the skill with
        // that identity.
        names.extend(keys.into_iter().zip(0..));
        let mut hasher = blake3::Hasher::new();
        for skill in &skills {
            for part in [
                &skill.id,
                &skill.hash,
                &skill.file.to_string_lossy().into_owned(),
            ] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        Self {
            skills,
            shadowed,
            unusable,
            names,
            hash: format!("blake3:{}", hasher.finalize().to_hex()),
            about: OnceLock::new(),
        }
    }

    /// Returns the skill with this identity, or with this label if no other skill has the same
    /// identity or label. Ignores case, width and invisible characters.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills
            .get(*self.names.get(&normalize_skill_name(name))?)
    }

    /// Returns all usable skills, sorted by identity.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Skill>> {
        self.skills.iter()
    }

    /// Returns the skills that have `paths` and that the model may start.
    pub(super) fn skills_with_paths(&self) -> &[SkillWithPathPatterns] {
        self.about.get_or_init(|| {
            let for_model = self
                .skills
                .iter()
                .filter(|skill| skill.is_startable_by_model());
            for_model.filter_map(SkillWithPathPatterns::new).collect()
        })
    }

    /// Returns the skills that are not used because another one has their identity.
    #[must_use]
    pub fn shadowed_skills(&self) -> &[ShadowedSkill] {
        &self.shadowed
    }

    /// Returns the files that look like skills but cannot be used.
    #[must_use]
    pub fn unusable_skills(&self) -> &[UnusableSkill] {
        &self.unusable
    }

    /// Returns the identity, file and source of every skill that was found: used, shadowed or
    /// unusable.
    pub fn skill_locations(&self) -> impl Iterator<Item = (&str, &Path, &Source)> {
        let used = self.skills.iter();
        let skills = used.chain(self.shadowed.iter().map(|one| &one.skill));
        let skills = skills.map(|one| (&*one.id, &*one.file, &one.source));
        let unusable = self.unusable.iter();
        skills.chain(unusable.map(|one| (&*one.id, &*one.file, &one.source)))
    }

    /// Whether there are no usable skills.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// Returns the digest over the identities, files and contents of the usable skills.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }
}
