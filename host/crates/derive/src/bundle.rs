//! Bundle of a derived skill: its files, its stamp, and whether it was edited since.
//!
//! The stamp is `generated_from` in the front matter: the package, its version, and a digest over
//! the relevant parts of the source. In addition, `metadata.bundle_hash` is a digest over the files
//! of the bundle, excluding the line with the digest itself. It distinguishes a bundle that was
//! edited by hand from one that may be replaced.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::text::{escape_skill_placeholders, shorten_page};
use rind_lib::grant::SideEffect;
use rind_lib::plugin::contract::list_supported_versions;
use rind_lib::skill::{FORMAT, SKILL_FILE_NAME, parse_text, write_front_matter};

/// Key in `metadata` for the digest of the bundle.
const BUNDLE_HASH_METADATA_KEY: &str = "bundle_hash";

/// Name and version of the generator, part of every source digest: another version of Rind may
/// render the same source differently, and may describe hooks of another contract version.
const GENERATOR_NAME_AND_VERSION: &str = concat!("rind skill derive ", env!("CARGO_PKG_VERSION"));

/// Maximum size of `SKILL.md` without its front matter, in bytes. A model reads all of it.
const MAX_SKILL_BODY_BYTES: usize = 64 << 10;

/// Maximum size of one Markdown page in the folder `references`, in bytes.
const MAX_REFERENCE_PAGE_BYTES: usize = 512 << 10;

/// Maximum total size of the pages of a bundle, in bytes. A page that would exceed it is truncated
/// to its heading, so that no page is missing.
const MAX_BUNDLE_PAGES_BYTES: usize = 16 << 20;

/// Skill that was derived from a package, before it is rendered as files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SkillDraft {
    /// Name of the skill and of its directory.
    pub name: String,
    /// Name of the package that the skill documents.
    pub package: String,
    /// Version of the package; `None` if the package states none.
    pub version: Option<String>,
    /// Digest of the package's source, computed by [`BundleSourceHasher`].
    pub source_hash: String,
    /// License of the package; `None` if the package states none.
    pub license: Option<String>,
    /// Description of the skill, which tells a model when to use it.
    pub description: String,
    /// Side effects of the tools that the skill describes.
    pub side_effects: Vec<SideEffect>,
    /// Plugins that the skill depends on.
    pub library_depends: Vec<String>,
    /// Title of the skill, the heading of `SKILL.md`.
    pub title: String,
    /// Sections of `SKILL.md` below the title, as Markdown.
    pub body: String,
    /// Summary that a model wrote, shown above the sections; `None` without one.
    pub summary: Option<PackageSummary>,
    /// Texts of the files in `references`, by file name.
    pub references: BTreeMap<String, String>,
}

/// Summary of a package that a model wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackageSummary {
    /// Name of the model that wrote the summary.
    pub model: String,
    /// Text of the summary as sanitized Markdown, which cannot break out of its section.
    pub text: String,
}

/// Hasher that computes the digest of a bundle's source.
pub struct BundleSourceHasher(blake3::Hasher);

impl BundleSourceHasher {
    /// Starts the digest of a source of this kind. Includes the versions of Rind and of the
    /// contract, because the derived skill depends on them.
    pub fn new(kind: &str) -> Self {
        let mut hash = Self(blake3::Hasher::new());
        hash.add_source(GENERATOR_NAME_AND_VERSION, kind.as_bytes());
        hash.add_source(
            "contract",
            list_supported_versions()
                .next_back()
                .unwrap_or_default()
                .as_bytes(),
        );
        hash
    }

    /// Adds a part of the source, with its name, to the hash.
    pub fn add_source(&mut self, name: &str, bytes: &[u8]) {
        for part in [name.as_bytes(), bytes] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// Returns the digest as text: `blake3:` and hexadecimal digits.
    pub fn digest_text(&self) -> String {
        format!("blake3:{}", self.0.finalize().to_hex())
    }
}

/// Files of a skill by their paths in its directory, separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillBundle(pub BTreeMap<String, String>);

/// Stamp of an existing bundle, and whether the bundle is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillBundleProvenance {
    /// Digest of the source from which the skill was derived.
    pub source_hash: String,
    /// Whether the files are unchanged since `derive` wrote them.
    pub is_whole: bool,
    /// Model that wrote the summary, if the bundle has one.
    pub summarized_by: Option<String>,
}

impl SkillDraft {
    /// Truncates the body and the pages of the skill to their maximum sizes.
    pub(super) fn truncate_to_limits(&mut self) {
        self.body = shorten_page(self.body.trim(), MAX_SKILL_BODY_BYTES);
        let mut n_left = MAX_BUNDLE_PAGES_BYTES;
        for page in self.references.values_mut() {
            *page = shorten_page(page.trim(), MAX_REFERENCE_PAGE_BYTES.min(n_left));
            n_left = n_left.saturating_sub(page.len());
        }
    }

    /// Renders the files of the skill: `SKILL.md` and the pages in `references`.
    pub fn render_bundle(&self) -> SkillBundle {
        let mut files: BTreeMap<String, String> = self
            .references
            .iter()
            .map(|(name, text)| (format!("references/{name}"), format!("{}\n", text.trim())))
            .collect();
        let mut text = self.render_front_matter();
        text.push_str(&escape_skill_placeholders(&format!(
            "\n# {}\n\n",
            self.title
        )));
        if let Some(summary) = &self.summary {
            text.push_str(&escape_skill_placeholders(&format!(
                "## Summary\n\n*A model wrote this section from the rest of this skill; where they differ, the rest is right.*\n\n{}\n\n",
                summary.text.trim()
            )));
        }
        text.push_str(&escape_skill_placeholders(self.body.trim()));
        text.push('\n');
        files.insert(SKILL_FILE_NAME.to_owned(), text);
        let mut bundle = SkillBundle(files);
        let hash = bundle.compute_hash();
        if let Some(text) = bundle.0.get_mut(SKILL_FILE_NAME) {
            *text = text.replacen(&bundle_hash_line(""), &bundle_hash_line(&hash), 1);
        }
        bundle
    }

    /// Renders the front matter of `SKILL.md`, with an empty digest of the bundle.
    fn render_front_matter(&self) -> String {
        let mut front = Map::new();
        let mut put = |key: &str, value: Value| drop(front.insert(key.to_owned(), value));
        put("skill_format", FORMAT.into());
        put("name", self.name.as_str().into());
        put("description", self.description.as_str().into());
        if !self.side_effects.is_empty() {
            let effects = self.side_effects.iter().map(ToString::to_string);
            put("side_effects", effects.collect());
        }
        if !self.library_depends.is_empty() {
            put("library_depends", self.library_depends.clone().into());
        }
        if let Some(license) = &self.license {
            put("license", license.as_str().into());
        }
        let mut stamp = json!({"package": self.package});
        if let Some(version) = &self.version {
            stamp["version"] = version.as_str().into();
        }
        stamp["source_hash"] = self.source_hash.as_str().into();
        put("generated_from", stamp);
        let mut metadata = json!({});
        if let Some(summary) = &self.summary {
            metadata["summarized_by"] = summary.model.as_str().into();
        }
        metadata[BUNDLE_HASH_METADATA_KEY] = "".into();
        put("metadata", metadata);
        write_front_matter(&Value::Object(front))
    }
}

fn bundle_hash_line(hash: &str) -> String {
    format!("  {BUNDLE_HASH_METADATA_KEY}: \"{hash}\"\n")
}

impl SkillBundle {
    /// Returns the text of `SKILL.md`.
    pub fn skill_text(&self) -> &str {
        self.0.get(SKILL_FILE_NAME).map_or("", String::as_str)
    }

    /// Returns the digest over all files, excluding the line with the digest.
    fn compute_hash(&self) -> String {
        let mut hasher = BundleSourceHasher(blake3::Hasher::new());
        for (path, text) in &self.0 {
            let mut left_out = usize::from(path == SKILL_FILE_NAME);
            let mut counts = |line: &&str| {
                let is_hash =
                    left_out > 0 && line.trim_start().starts_with(BUNDLE_HASH_METADATA_KEY);
                left_out -= usize::from(is_hash);
                !is_hash
            };
            let lines: String = text
                .split_inclusive('\n')
                .filter(|line| counts(line))
                .collect();
            hasher.add_source(path, lines.as_bytes());
        }
        hasher.digest_text()
    }

    /// Reads the stamp; `None` if the files are not a derived skill.
    pub fn parse_provenance(&self) -> Option<SkillBundleProvenance> {
        let skill = parse_text("x", self.skill_text()).ok()?;
        let source_hash = skill.generated_from?.source_hash?;
        let hash = skill
            .metadata
            .get(BUNDLE_HASH_METADATA_KEY)?
            .as_str()?
            .to_owned();
        let summarized_by = skill.metadata.get("summarized_by");
        Some(SkillBundleProvenance {
            source_hash,
            is_whole: hash == self.compute_hash(),
            summarized_by: summarized_by
                .and_then(|name| name.as_str())
                .map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> SkillDraft {
        SkillDraft {
            name: "hello".to_owned(),
            package: "x: [\n---\ny".to_owned(),
            source_hash: "blake3:00".to_owned(),
            description: "Does \"this\": that\n---\nmodel_invocation: auto".to_owned(),
            title: "Hello".to_owned(),
            body: "{baseDir} $ARGUMENTS\n---\nend".to_owned(),
            references: BTreeMap::from([("a.md".to_owned(), "# A".to_owned())]),
            ..SkillDraft::default()
        }
    }

    #[test]
    fn a_bundle_knows_whether_it_was_changed() {
        let bundle = draft().render_bundle();
        let stamp = bundle.parse_provenance().unwrap();
        assert!(stamp.is_whole, "{}", bundle.skill_text());
        assert_eq!(stamp.source_hash, "blake3:00");
        let mut edited = bundle.clone();
        edited.0.get_mut(SKILL_FILE_NAME).unwrap().push('x');
        assert!(!edited.parse_provenance().unwrap().is_whole);
        let mut more = bundle.clone();
        more.0.insert("scripts/x.sh".to_owned(), String::new());
        assert!(!more.parse_provenance().unwrap().is_whole);
        let mut less = bundle;
        less.0.remove("references/a.md");
        assert!(!less.parse_provenance().unwrap().is_whole);
    }

    #[test]
    fn a_bundle_is_never_larger_than_somebody_can_keep() {
        let page = format!("# Page\n\n{}", "some words\n\n".repeat(100_000));
        let references = (0..60).map(|n| (format!("{n}.md"), page.clone()));
        let mut draft = SkillDraft {
            body: "line\n\n".repeat(100_000),
            references: references.collect(),
            ..draft()
        };
        draft.truncate_to_limits();
        let bundle = draft.render_bundle();
        let n_bytes: usize = bundle.0.values().map(String::len).sum();
        assert!(n_bytes < MAX_BUNDLE_PAGES_BYTES + (128 << 10), "{n_bytes}");
        assert!(bundle.skill_text().len() < MAX_SKILL_BODY_BYTES + 2000);
        assert_eq!(bundle.0.len(), 61);
        for page in bundle.0.values().skip(1) {
            assert!(
                page.starts_with("# Page\n") && page.contains("left out"),
                "{page:.80}"
            );
        }
    }

    #[test]
    fn no_text_breaks_the_front_matter_or_is_a_placeholder() {
        let bundle = draft().render_bundle();
        let skill = parse_text("hello", bundle.skill_text()).unwrap();
        assert_eq!(skill.diagnostics, []);
        assert_eq!(
            skill.generated_from.as_ref().unwrap().package,
            "x: [\n---\ny"
        );
        assert!(skill.description.starts_with("Does \"this\": that"));
        assert!(!skill.takes_arguments());
        assert!(skill.body.contains("{ baseDir } $ ARGUMENTS"));
    }
}
