//! Skills with their files, for other agents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{CommandKind, CommandSet};
use rind_lib::disk::read_if_present;
use rind_lib::front_matter::{read_document, split_front};
use rind_lib::grant::held::HeldFolder;
use rind_lib::skill::{FILE, MAX_FILE_BYTES, Skill};
use rind_mcp::ServedSkill;

/// Files of a skill by the parts of their paths.
type SkillFiles = BTreeMap<Vec<String>, Vec<u8>>;

impl CommandSet {
    /// Reads the skills that can run here, with their files. It blocks.
    pub(crate) fn read_skills(&self) -> Vec<ServedSkill> {
        let list = self.list();
        let skills = list.iter().filter_map(|entry| match &entry.kind {
            CommandKind::Skill(skill) if skill.missing.is_empty() => read_skill(skill),
            _ => None,
        });
        skills.collect()
    }
}

/// Reads a skill; `None` if its files cannot be read, which a line in the log says.
fn read_skill(skill: &Skill) -> Option<ServedSkill> {
    let read = match &skill.held {
        Some(held) => read_held(skill, held),
        None => read_disk(skill),
    };
    let files = match read {
        Ok(files) => files,
        Err(why) => {
            tracing::info!(skill = skill.id, why, "a skill is not served as files");
            return None;
        }
    };
    let text = files.get(&[FILE.to_owned()][..])?;
    let front = read_front(std::str::from_utf8(text).ok()?)?;
    let place = skill.id.split(':').map(str::to_owned).collect();
    Some(ServedSkill {
        place,
        front,
        files,
    })
}

fn read_disk(skill: &Skill) -> Result<SkillFiles, String> {
    if skill.is_flat {
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        let text = read_if_present(&skill.file, limit).map_err(|error| error.to_string())?;
        let text = text.ok_or("its file is gone")?;
        return Ok([(vec![FILE.to_owned()], text.into_bytes())].into());
    }
    if !skill.is_in_place() {
        return Err("its folder was replaced after it was found".to_owned());
    }
    let folder = HeldFolder::read(&skill.real_dir).map_err(|error| error.to_string())?;
    let files = folder.into_files().into_iter();
    Ok(files.filter(|(path, _)| is_served(path)).collect())
}

/// Reads a skill of which only the content that somebody trusted may be used.
fn read_held(skill: &Skill, held: &HeldFolder) -> Result<SkillFiles, String> {
    let mut files = SkillFiles::new();
    if skill.is_flat {
        let text = held.file(&skill.file).ok_or("its file is gone")?;
        files.insert(vec![FILE.to_owned()], text.to_vec());
        return Ok(files);
    }
    let mut folders = vec![skill.dir.clone()];
    while let Some(folder) = folders.pop() {
        for name in held.file_names_in(&folder) {
            let path = folder.join(name);
            let below = path.strip_prefix(&skill.dir).unwrap_or(&path);
            let parts = below.iter().map(|part| part.to_str().map(str::to_owned));
            if let (Some(parts), Some(bytes)) = (parts.collect(), held.file(&path)) {
                files.insert(parts, bytes.to_vec());
            }
        }
        folders.extend(held.folders_in(&folder));
    }
    files.retain(|path, _| is_served(path));
    Ok(files)
}

/// Whether a file belongs to the skill for its reader: hidden ones and what tools leave behind do not.
fn is_served(path: &[String]) -> bool {
    let is_aside =
        |part: &String| part.starts_with('.') || part == "node_modules" || part == "__pycache__";
    !path.iter().any(is_aside)
}

fn read_front(text: &str) -> Option<Map<String, Value>> {
    let (front, _) = split_front(text)?;
    let document = read_document(front).ok()?;
    let fields = document.entries.iter();
    Some(
        fields
            .map(|own| (own.key.clone(), own.node.value()))
            .collect(),
    )
}
