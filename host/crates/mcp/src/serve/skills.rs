//! Offers skills through the protocol's extension for skills: a list with the digest of each file,
//! and the files as resources.
//!
//! The files are read once, so that a client gets exactly the bytes of the listed digests.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{
    ReadResourceResult, Resource, SKILL_MD, Skill, SkillFrontmatter, SkillResource, SkillResources,
};
use serde_json::{Map, Value};
use url::Url;

use super::bytes::to_resource_contents;
use rind_lib::text::escape_and_truncate_line;

/// Maximum number of files in a skill; clients need not accept more.
pub const MAX_SKILL_FILES: usize = 512;

/// Maximum total size of a skill's files, in bytes; clients need not accept more.
pub const MAX_SKILL_BYTES: u64 = 16 << 20;

/// Maximum total size of the files of all offered skills, in bytes.
const MAX_TOTAL_BYTES_OF_ALL_SKILLS: u64 = 128 << 20;

/// Skill that the server offers, with the content of its files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedSkill {
    /// Components of the path in the skill's URI; the last one is the skill's name.
    pub place: Vec<String>,
    /// Fields of the front matter in the skill's `SKILL.md`.
    pub front: Map<String, Value>,
    /// Content of the files, keyed by the parts of their paths.
    pub files: BTreeMap<Vec<String>, Vec<u8>>,
}

/// Skills of the server, and their files keyed by URI.
#[derive(Debug, Default)]
pub(super) struct ServedSkillCatalog {
    skills: Vec<Skill>,
    files: BTreeMap<String, (String, Vec<u8>)>,
}

/// Builder of a [`ServedSkillCatalog`], to which skills are added one by one.
#[derive(Debug, Default)]
pub(super) struct ServedSkillCatalogBuilder {
    catalog: ServedSkillCatalog,
    places: BTreeSet<Vec<String>>,
    n_bytes: u64,
}

impl ServedSkillCatalogBuilder {
    /// Adds a skill. Logs and omits an invalid skill, because it would make the complete list
    /// invalid.
    pub(super) fn add_or_log_skill(&mut self, skill: ServedSkill) {
        let name = escape_and_truncate_line(&skill.place.join("/"), 200);
        let size = skill.files.values().map(|own| own.len() as u64).sum();
        let added = match self.places.insert(skill.place.clone()) {
            false => Err("another skill already has this name".to_owned()),
            true if self.n_bytes + size > MAX_TOTAL_BYTES_OF_ALL_SKILLS => Err(format!(
                "all skills together have more than {} MiB",
                MAX_TOTAL_BYTES_OF_ALL_SKILLS >> 20
            )),
            true => self.catalog.add_skill(skill, size),
        };
        match added {
            Ok(()) => self.n_bytes += size,
            Err(why) => tracing::info!(skill = name, why, "a skill is not served as files"),
        }
    }

    /// Returns the catalog of the valid skills that were added.
    pub(super) fn finish(self) -> ServedSkillCatalog {
        self.catalog
    }
}

impl ServedSkillCatalog {
    fn add_skill(&mut self, read: ServedSkill, size: u64) -> Result<(), String> {
        if read.files.len() > MAX_SKILL_FILES || size > MAX_SKILL_BYTES {
            return Err(format!(
                "the skill has more than {MAX_SKILL_FILES} files, or more than {} MiB",
                MAX_SKILL_BYTES >> 20
            ));
        }
        let mut front = read.front;
        let (Some(Value::String(name)), Some(Value::String(description))) =
            (front.remove("name"), front.remove("description"))
        else {
            return Err("the skill's front matter lacks a name or a description".to_owned());
        };
        let root = build_skill_folder_uri(&read.place)
            .ok_or("the skill's name cannot be part of a URI")?;
        let mut manifest = Vec::new();
        let mut files = BTreeMap::new();
        for (path, bytes) in read.files {
            let uri = skill_file_uri(&root, &path).ok_or("a file does not fit into an address")?;
            manifest.push(SkillResource::from_bytes(uri.clone(), &bytes));
            files.insert(uri, (guess_media_type(&path, &bytes).to_owned(), bytes));
        }
        let uri = skill_file_uri(&root, &[SKILL_MD.to_owned()]).ok_or("it has no address")?;
        let mut described = SkillFrontmatter::new(name, description);
        described.extra = front;
        let skill = Skill::new(uri, described, SkillResources::Files(manifest));
        skill.validate().map_err(|error| error.to_string())?;
        self.skills.push(skill);
        self.files.append(&mut files);
        Ok(())
    }

    /// Returns the description of each skill for clients.
    pub(super) fn skills(&self) -> Vec<Skill> {
        self.skills.clone()
    }

    /// Returns the skill with this URI.
    pub(super) fn find_skill(&self, uri: &str) -> Option<Skill> {
        self.skills.iter().find(|own| own.uri == uri).cloned()
    }

    /// Returns the MCP resources to list: only the `SKILL.md` of each skill, not its other files.
    pub(super) fn skill_md_resources(&self) -> Vec<Resource> {
        let described = self.skills.iter().map(|skill| {
            Resource::new(skill.uri.clone(), skill.name())
                .with_description(skill.frontmatter.description.clone())
                .with_mime_type(MARKDOWN_MIME_TYPE)
        });
        described.collect()
    }

    /// Returns the content of the file with this URI.
    pub(super) fn read_skill_file(&self, uri: &str) -> Option<ReadResourceResult> {
        let (kind, bytes) = self.files.get(uri)?;
        let contents = to_resource_contents(bytes.clone(), uri, kind);
        Some(ReadResourceResult::new(vec![contents]))
    }
}

const MARKDOWN_MIME_TYPE: &str = "text/markdown";

/// Guesses the media type of a file from its extension and its bytes.
fn guess_media_type(path: &[String], bytes: &[u8]) -> &'static str {
    let name = path.last().map(String::as_str).unwrap_or_default();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    match end.to_ascii_lowercase().as_str() {
        "md" => MARKDOWN_MIME_TYPE,
        "json" => "application/json",
        "png" => "image/png",
        "pdf" => "application/pdf",
        _ if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

/// Returns the URI of a skill's folder.
fn build_skill_folder_uri(place: &[String]) -> Option<Url> {
    let (first, rest) = place.split_first()?;
    let mut root = Url::parse("skill://skill/").ok()?;
    root.set_host(Some(first)).ok()?;
    append_path_parts(&mut root, rest)?;
    Some(root)
}

/// Returns the URI of the file at `path` in a skill's folder, whose URI is `root`; `None` if a
/// component of `path` is not possible in a URI.
fn skill_file_uri(root: &Url, path: &[String]) -> Option<String> {
    let mut uri = root.clone();
    append_path_parts(&mut uri, path)?;
    Some(uri.to_string())
}

/// Appends parts to the path of a URI; `None` if a part, such as `..`, is not possible in a URI.
fn append_path_parts(uri: &mut Url, parts: &[String]) -> Option<()> {
    let is_part = |part: &String| !matches!(part.as_str(), "" | "." | "..");
    if !parts.iter().all(is_part) {
        return None;
    }
    let mut path = uri.path_segments_mut().ok()?;
    path.pop_if_empty().extend(parts);
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog(skills: Vec<ServedSkill>) -> ServedSkillCatalog {
        let mut building = ServedSkillCatalogBuilder::default();
        skills
            .into_iter()
            .for_each(|skill| building.add_or_log_skill(skill));
        building.finish()
    }

    fn skill(place: &[&str], name: &str, files: &[(&str, &[u8])]) -> ServedSkill {
        let front = json!({"name": name, "description": "d", "license": "MIT"});
        let parts = |path: &str| path.split('/').map(str::to_owned).collect();
        let files = files
            .iter()
            .map(|(path, bytes)| (parts(path), bytes.to_vec()));
        ServedSkill {
            place: place.iter().map(|part| (*part).to_owned()).collect(),
            front: front.as_object().cloned().unwrap(),
            files: files.collect(),
        }
    }

    #[test]
    fn files_have_addresses_digests_and_types() {
        let text = b"---\nname: pdf\n---\nRead.";
        let files: [(&str, &[u8]); 3] = [
            ("SKILL.md", text),
            ("scripts/make it.py", b"print()"),
            ("dot.bin", &[0, 1]),
        ];
        let catalog = catalog(vec![
            skill(&["pdf"], "pdf", &files),
            skill(&["tool", "pdf"], "pdf", &files[..1]),
        ]);
        let listed = serde_json::to_value(catalog.skills()).unwrap();
        assert_eq!(listed[0]["uri"], "skill://pdf/SKILL.md");
        assert_eq!(listed[0]["frontmatter"]["license"], "MIT");
        assert_eq!(listed[0]["resources"].as_array().unwrap().len(), 3);
        assert_eq!(listed[1]["uri"], "skill://tool/pdf/SKILL.md");
        assert_eq!(catalog.skill_md_resources().len(), 2);
        let read = |uri: &str| serde_json::to_value(catalog.read_skill_file(uri)).unwrap();
        let script = read("skill://pdf/scripts/make%20it.py");
        assert_eq!(script["contents"][0]["text"], "print()");
        let binary = read("skill://pdf/dot.bin");
        assert_eq!(binary["contents"][0]["blob"], "AAE=");
        assert_eq!(
            binary["contents"][0]["mimeType"],
            "application/octet-stream"
        );
        for missing in [
            "skill://pdf/",
            "skill://pdf/../pdf/SKILL.md",
            "skill://pdf/scripts/../SKILL.md",
            "file:///etc/passwd",
            "",
        ] {
            assert!(catalog.read_skill_file(missing).is_none(), "{missing}");
        }
    }

    #[test]
    fn a_skill_that_does_not_fit_is_left_out_and_the_others_stay() {
        let text: [(&str, &[u8]); 1] = [("SKILL.md", b"x")];
        let mut unnamed = skill(&["a"], "a", &text);
        unnamed.front.remove("description");
        let mut many = skill(&["many"], "many", &text);
        for n in 0..MAX_SKILL_FILES {
            many.files.insert(vec![n.to_string()], Vec::new());
        }
        let catalog = catalog(vec![
            unnamed,
            many,
            skill(&["A B"], "A B", &text),
            skill(&["other"], "name", &text),
            skill(&[], "none", &text),
            skill(&["no-text"], "no-text", &[("other.md", b"x")]),
            skill(&["up"], "up", &[("SKILL.md", b"x"), ("../x", b"x")]),
            skill(&["fine"], "fine", &text),
            skill(&["fine"], "fine", &text),
        ]);
        let names: Vec<String> = catalog.skills().into_iter().map(|own| own.uri).collect();
        assert_eq!(names, ["skill://fine/SKILL.md"]);
    }
}
