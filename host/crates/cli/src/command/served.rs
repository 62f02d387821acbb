//! Reads skills with their files, to serve them to other agents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{SlashCommandImplementation, SlashCommandSet};
use rind_lib::disk::read_if_present;
use rind_lib::front_matter::{parse_yaml_document, split_front_matter};
use rind_lib::grant::held::{FolderReadLimits, InMemoryFolder};
use rind_lib::skill::{MAX_FILE_BYTES, SKILL_FILE_NAME, Skill};
use rind_mcp::{MAX_SKILL_BYTES, MAX_SKILL_FILES, ServedSkill};

/// Contents of a skill's files, by the components of their relative paths.
type SkillFileContentsByPath = BTreeMap<Vec<String>, Vec<u8>>;

impl SlashCommandSet {
    /// Reads each skill that can run here with its files, and passes it to `take` before it reads
    /// the next one. Logs skills that cannot be served. Blocks.
    pub(crate) fn visit_mcp_served_skills(&self, take: &mut dyn FnMut(ServedSkill)) {
        let list = self.command_list();
        for entry in list.iter() {
            let SlashCommandImplementation::Skill(skill) = &entry.kind else {
                continue;
            };
            let read = match skill.missing.is_empty() {
                true => read_skill_to_serve_over_mcp(skill),
                false => {
                    Err("the skill cannot run, because its requirements are missing".to_owned())
                }
            };
            match read {
                Ok(read) => take(read),
                Err(why) => {
                    tracing::info!(skill = skill.id, why, "a skill is not served as files");
                }
            }
        }
    }
}

/// Reads a skill with its files. The error is the reason why it cannot be served.
fn read_skill_to_serve_over_mcp(skill: &Skill) -> Result<ServedSkill, String> {
    let files = match &skill.held {
        Some(held) => read_trusted_skill_files(skill, held),
        None => read_skill_files_from_disk(skill),
    }?;
    let text = files.get(&[SKILL_FILE_NAME.to_owned()][..]);
    let text = text.ok_or_else(|| format!("the skill's folder has no {SKILL_FILE_NAME}"))?;
    let text = std::str::from_utf8(text)
        .map_err(|_| format!("the skill's {SKILL_FILE_NAME} is not UTF-8"))?;
    Ok(ServedSkill {
        place: skill.id.split(':').map(str::to_owned).collect(),
        front: read_front_matter(text)?,
        files,
    })
}

fn read_skill_files_from_disk(skill: &Skill) -> Result<SkillFileContentsByPath, String> {
    if skill.is_flat {
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        let text = read_if_present(&skill.file, limit).map_err(|error| error.to_string())?;
        let text = text.ok_or("the skill's file is gone")?;
        return Ok([(vec![SKILL_FILE_NAME.to_owned()], text.into_bytes())].into());
    }
    if !skill.is_path_unchanged() {
        return Err("the skill's folder was replaced after the skill was found".to_owned());
    }
    let bounds = FolderReadLimits {
        files: MAX_SKILL_FILES,
        bytes: MAX_SKILL_BYTES,
        leaves_out: is_excluded_skill_file,
    };
    let folder = InMemoryFolder::read_folder_within(&skill.real_dir, bounds);
    Ok(folder.map_err(|error| error.to_string())?.into_files())
}

/// Reads a skill's files from `held`, the copy that was trusted, because the files on disk may have
/// changed since.
fn read_trusted_skill_files(
    skill: &Skill,
    held: &InMemoryFolder,
) -> Result<SkillFileContentsByPath, String> {
    let mut files = SkillFileContentsByPath::new();
    if skill.is_flat {
        let text = held
            .file_content(&skill.file)
            .ok_or("the skill's file is gone")?;
        files.insert(vec![SKILL_FILE_NAME.to_owned()], text.to_vec());
        return Ok(files);
    }
    let mut folders = vec![skill.dir.clone()];
    while let Some(folder) = folders.pop() {
        for name in held.file_names_in(&folder) {
            let path = folder.join(name);
            let below = path.strip_prefix(&skill.dir).unwrap_or(&path);
            let parts = below.iter().map(|part| part.to_str().map(str::to_owned));
            if let (Some(parts), Some(bytes)) = (parts.collect(), held.file_content(&path)) {
                files.insert(parts, bytes.to_vec());
            }
        }
        folders.extend(held.subfolders_in(&folder));
    }
    files.retain(|path, _| !path.iter().any(|part| is_excluded_skill_file(part)));
    Ok(files)
}

/// Whether a file or folder is left out of a served skill, because it is hidden or because tools
/// create it.
fn is_excluded_skill_file(name: &str) -> bool {
    name.starts_with('.') || name == "node_modules" || name == "__pycache__"
}

fn read_front_matter(text: &str) -> Result<Map<String, Value>, String> {
    // Ignore a byte-order mark, as when the skill is loaded to run.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (front, _) = split_front_matter(text)
        .ok_or_else(|| format!("its {SKILL_FILE_NAME} has no front matter"))?;
    let document = parse_yaml_document(front);
    let document =
        document.map_err(|(_, why)| format!("the front matter of its {SKILL_FILE_NAME}: {why}"))?;
    let fields = document.entries.iter();
    Ok(fields
        .map(|own| (own.key.clone(), own.node.to_json_value()))
        .collect())
}
