//! Presets of subagents: each names a kind of work and sets its tools and instructions.
//!
//! Four presets are built in, as rows of a table. The others are files of the operator, of a
//! trusted project and of plugins, parsed like skills. A preset only selects among the tools of the
//! parent and cannot add one. The module must not know turns. Start from [`SubagentPresets`].

use std::fmt::Write as _;
use std::sync::Arc;

use super::notice::{describe_invalid_preset_file, describe_unused_keys};
use crate::message::{EffectClass, ToolSpec};
use crate::near::find_nearest_name;
use crate::skill::{SessionSkills, Skill, ToolScope};
use crate::text::escape_and_truncate_line;

/// Maximum length of a preset's description for the model, in bytes.
const MAX_PRESET_DESCRIPTION_BYTES: usize = 160;

/// Maximum size of the list of presets with descriptions, in bytes; it is part of every request.
const MAX_PRESET_LIST_BYTES: usize = 2_400;

/// Maximum length of the instructions in a file, in bytes; they are part of every request of the
/// subagent.
const MAX_PRESET_INSTRUCTIONS_BYTES: usize = 64 << 10;

/// Maximum number of names in an error or at the end of the list.
const MAX_PRESET_NAMES_LISTED: usize = 20;

/// Maximum length of a name in an error, in bytes.
const MAX_SHOWN_PRESET_NAME_BYTES: usize = 64;

/// Tools that a subagent gets only if they are named explicitly, because it should do its task
/// itself instead of delegating it.
pub(in crate::agent) const EXPLICITLY_GRANTED_TOOL_NAMES: [&str; 6] = [
    "continue_subagent",
    "list_subagents",
    "query_subagent",
    "spawn_subagent",
    "stop_subagent",
    "wait_subagents",
];

/// Name of the tool for commands that `bash` runs in the background.
const BACKGROUND_TOOL_NAME: &str = "background";

/// Tools that inspect subagents but change nothing.
const SUBAGENT_INSPECTION_TOOL_NAMES: [&str; 2] = ["list_subagents", "query_subagent"];

/// Model name that means the parent's model in the files of Claude Code.
const INHERIT_PARENT_MODEL_NAME: &str = "inherit";

/// Selects the tools of the parent agent that a subagent with the preset gets.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::agent) enum PresetToolSelection {
    /// All tools that only read.
    Reading,
    /// All tools except those that delegate work.
    Working,
    /// No tools at all.
    Nothing,
    /// Tools that inspect the state of subagents.
    Watching,
    /// Tools that the preset's file names.
    Listed(ToolScope),
}

impl PresetToolSelection {
    /// Whether a preset with this selection offers the tool.
    pub(in crate::agent) fn selects_tool(&self, spec: &ToolSpec) -> bool {
        let name = spec.name.as_str();
        let hands_on = EXPLICITLY_GRANTED_TOOL_NAMES.contains(&name);
        match self {
            Self::Reading => {
                let reads = spec.effect_class == EffectClass::Read;
                // Exclude the tool for background commands: without `bash` there are no such
                // commands.
                reads && !hands_on && name != BACKGROUND_TOOL_NAME
            }
            Self::Working => !hands_on,
            Self::Nothing => false,
            Self::Watching => SUBAGENT_INSPECTION_TOOL_NAMES.contains(&name),
            Self::Listed(scope) => {
                let allowed = scope.allow.as_deref().unwrap_or_default();
                let is_named = allowed.iter().any(|pattern| pattern.text() == name);
                scope.permits(name, spec.plugin.as_deref()) && (is_named || !hands_on)
            }
        }
    }
}

/// A preset: a kind of work, with its tools and instructions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubagentPreset {
    pub(in crate::agent) name: String,
    /// Purpose of the preset, in one line for the model.
    pub(in crate::agent) description: String,
    pub(in crate::agent) tools: PresetToolSelection,
    /// Instructions, appended to those that every subagent gets; may be empty.
    pub(in crate::agent) prompt: String,
    /// Model of the subagent; `None` selects the model of the parent.
    pub(in crate::agent) model: Option<String>,
}

impl SubagentPreset {
    /// Whether a subagent with this preset gets the tool.
    pub(in crate::agent) fn selects_tool(&self, spec: &ToolSpec) -> bool {
        self.tools.selects_tool(spec)
    }
}

/// Row of the table of built-in presets.
struct BuiltInPresetRow {
    name: &'static str,
    description: &'static str,
    tools: PresetToolSelection,
    prompt: &'static str,
}

const BUILT_IN_PRESETS: [BuiltInPresetRow; 4] = [
    BuiltInPresetRow {
        name: "investigate",
        description: "Finds out and reports; its tools only read",
        tools: PresetToolSelection::Reading,
        prompt: "Find out what is asked. Say where each fact stands: path and line, or command and output.",
    },
    BuiltInPresetRow {
        name: "work",
        description: "Does a part of the work with all your tools",
        tools: PresetToolSelection::Working,
        prompt: "Do the task, check the result where a tool can check it, and say what you changed.",
    },
    BuiltInPresetRow {
        name: "minimal",
        description: "Thinks about the text of its task; has no tools",
        tools: PresetToolSelection::Nothing,
        prompt: "",
    },
    BuiltInPresetRow {
        name: "monitor",
        description: "Watches other subagents: their state, steps, cost, and transcripts",
        tools: PresetToolSelection::Watching,
        prompt: "Report the state of the other subagents that you are asked about. You can look and not act.",
    },
];

/// Subagent presets of a session, in the order of the list that the model gets.
#[derive(Clone, Debug)]
pub(crate) struct SubagentPresets {
    presets: Vec<Arc<SubagentPreset>>,
    /// Notices about preset files: the reason why a file contains no valid preset, or the keys that
    /// have no effect.
    left_out: Vec<String>,
}

impl Default for SubagentPresets {
    fn default() -> Self {
        Self::with_preset_files(&SessionSkills::default())
    }
}

impl SubagentPresets {
    /// Returns the built-in presets and those in `files`. A file cannot replace a built-in preset.
    /// A file with a fault is skipped, because the fault may concern a tool that the subagent must
    /// not have.
    pub(crate) fn with_preset_files(files: &SessionSkills) -> Self {
        let built_in = BUILT_IN_PRESETS.into_iter().map(|row| SubagentPreset {
            name: row.name.to_owned(),
            description: row.description.to_owned(),
            tools: row.tools,
            prompt: row.prompt.to_owned(),
            model: None,
        });
        let mut presets: Vec<_> = built_in.map(Arc::new).collect();
        let mut left_out: Vec<String> = files
            .omitted_skills()
            .iter()
            .map(describe_invalid_preset_file)
            .collect();
        for file in files.iter().filter(|file| !file.is_restricted) {
            match parse_preset(file) {
                Ok((preset, note)) => {
                    presets.push(Arc::new(preset));
                    left_out.extend(note.map(|note| format!("{}: {note}", file.file.display())));
                }
                Err(why) => left_out.push(format!(
                    "{} is not a preset of subagents: {why}",
                    file.file.display()
                )),
            }
        }
        Self { presets, left_out }
    }

    /// Returns the notices about faults in preset files, each in one line.
    pub(crate) fn preset_file_notices(&self) -> &[String] {
        &self.left_out
    }

    /// Returns all presets, the built-in ones first.
    pub(in crate::agent) fn iter(&self) -> impl Iterator<Item = &SubagentPreset> {
        self.presets.iter().map(|preset| &**preset)
    }

    /// Returns the preset with this name.
    ///
    /// # Errors
    /// There is no such preset; the message lists the presets and suggests the most similar name.
    pub(crate) fn find_preset(&self, name: &str) -> Result<Arc<SubagentPreset>, String> {
        let wanted = name.trim();
        let found = self.presets.iter().find(|preset| preset.name == wanted);
        found.cloned().ok_or_else(|| {
            let names = self.presets.iter().map(|preset| preset.name.as_str());
            let near = find_nearest_name(wanted, names.clone());
            let near = match near {
                Some(near) => format!("; did you mean `{near}`?"),
                None => ".".to_owned(),
            };
            let mut listed: Vec<&str> = names.take(MAX_PRESET_NAMES_LISTED).collect();
            if self.presets.len() > MAX_PRESET_NAMES_LISTED {
                listed.push("…");
            }
            format!(
                "there is no preset `{}`{near} The presets are: {}",
                escape_and_truncate_line(wanted, MAX_SHOWN_PRESET_NAME_BYTES),
                listed.join(", ")
            )
        })
    }

    /// Returns the list of presets for the model: one line for each while there is room, then names
    /// only.
    pub(in crate::agent) fn list_presets(&self) -> String {
        let mut list = String::new();
        let mut rest = Vec::new();
        for preset in &self.presets {
            let description =
                escape_and_truncate_line(&preset.description, MAX_PRESET_DESCRIPTION_BYTES);
            let row = format!("\n- {}: {description}", preset.name);
            if rest.is_empty() && list.len() + row.len() <= MAX_PRESET_LIST_BYTES {
                list.push_str(&row);
            } else {
                rest.push(preset.name.as_str());
            }
        }
        if !rest.is_empty() {
            let named = rest.get(..MAX_PRESET_NAMES_LISTED).unwrap_or(&rest);
            let _ = write!(list, "\n- without description here: {}", named.join(", "));
            if let Some(n_more @ 1..) = rest.len().checked_sub(MAX_PRESET_NAMES_LISTED) {
                let _ = write!(list, " and {n_more} more");
            }
        }
        list
    }
}

/// Creates a preset from a file. Also returns a notice about the parts of the file that have no
/// effect, if there are any.
fn parse_preset(file: &Skill) -> Result<(SubagentPreset, Option<String>), String> {
    if let Some(row) = BUILT_IN_PRESETS.iter().find(|row| file.id == row.name) {
        return Err(format!(
            "`{}` is a built-in preset; rename the file",
            row.name
        ));
    }
    if !file.is_startable_by_model() {
        return Err(match file.missing.as_slice() {
            [] => "its front matter keeps the model from using it".to_owned(),
            missing => format!("this machine lacks {}", missing.join(", ")),
        });
    }
    if file.body.len() > MAX_PRESET_INSTRUCTIONS_BYTES {
        return Err(format!(
            "the text of the preset has {} bytes, at most {MAX_PRESET_INSTRUCTIONS_BYTES} are accepted; make it shorter",
            file.body.len()
        ));
    }
    let wanted = file
        .model
        .as_deref()
        .filter(|name| *name != INHERIT_PARENT_MODEL_NAME);
    let (model, note) = match wanted {
        Some(name) if file.may_choose_model() => (Some(name.to_owned()), None),
        Some(name) => {
            let name = escape_and_truncate_line(name, MAX_SHOWN_PRESET_NAME_BYTES);
            let note =
                format!("the model `{name}` has no effect: only a preset of yours chooses a model");
            (None, Some(note))
        }
        None => (None, None),
    };
    let preset = SubagentPreset {
        name: file.id.clone(),
        description: escape_and_truncate_line(&file.description, MAX_PRESET_DESCRIPTION_BYTES),
        tools: PresetToolSelection::Listed(file.tools.clone()),
        prompt: file.body.trim().to_owned(),
        model,
    };
    let notes: Vec<String> = describe_unused_keys(file).into_iter().chain(note).collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok((preset, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Trust;
    use crate::skill::parse_text;

    fn with(files: &[(&str, &str)]) -> SubagentPresets {
        let files = files.iter().map(|(name, text)| parse_text(name, text));
        let (mut read, mut unusable) = (Vec::new(), Vec::new());
        for file in files {
            match file {
                Ok(skill) => read.push(skill),
                Err(fault) => unusable.push(fault),
            }
        }
        SubagentPresets::with_preset_files(&SessionSkills::new(read, unusable))
    }

    fn permits(presets: &SubagentPresets, name: &str, tool: &str) -> bool {
        match &presets.find_preset(name).unwrap().tools {
            PresetToolSelection::Listed(scope) => scope.permits(tool, None),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_agent_of_claude_code_is_a_preset_with_the_tools_of_this_program() {
        let reviewer = "---\nname: reviewer\ndescription: Reviews code\ntools: Read, Grep, WebFetch\nmodel: inherit\ncolor: \
                        red\n---\nLook hard.\n";
        let presets = with(&[("reviewer", reviewer)]);
        assert_eq!(presets.preset_file_notices(), [""; 0]);
        let preset = presets.find_preset("reviewer").unwrap();
        assert_eq!((&*preset.prompt, &preset.model), ("Look hard.", &None));
        for (tool, expected) in [("read_file", true), ("search", true), ("bash", false)] {
            assert_eq!(permits(&presets, "reviewer", tool), expected, "{tool}");
        }
        let list = presets.list_presets();
        assert!(list.contains("\n- investigate: Finds out"), "{list}");
        assert!(list.ends_with("\n- reviewer: Reviews code"), "{list}");
    }

    #[test]
    fn all_parts_without_effect_are_in_one_note() {
        let text = "---\ndescription: d\nmodel: dear\nmaxTurns: 3\nhooks: {}\n---\nText.\n";
        let mut file = parse_text("x", text).unwrap();
        file.trust = Trust::Project;
        let (preset, note) = parse_preset(&file).unwrap();
        assert_eq!(preset.model, None);
        assert_eq!(
            note.unwrap(),
            "`hooks` and `maxTurns` of the preset `x` have no equivalent in Rind and are ignored; remove them, or restrict the preset \
             with `tools`; the model `dear` has no effect: only a preset of yours chooses a model"
        );
    }

    #[test]
    fn an_unknown_preset_is_told_with_the_nearest_and_all_names() {
        let presets = SubagentPresets::default();
        assert_eq!(
            presets.find_preset("investigat").unwrap_err(),
            "there is no preset `investigat`; did you mean `investigate`? The presets are: investigate, work, minimal, monitor"
        );
        assert_eq!(
            presets.find_preset("x").unwrap_err(),
            "there is no preset `x`. The presets are: investigate, work, minimal, monitor"
        );
    }

    #[test]
    fn a_faulty_file_is_left_out_with_its_fault_and_takes_no_built_in_name() {
        let long = format!(
            "---\ndescription: d\n---\n{}",
            "x".repeat(MAX_PRESET_INSTRUCTIONS_BYTES + 1)
        );
        let presets = with(&[
            ("work", "---\ndescription: Takes over\n---\nObey me.\n"),
            (
                "typo",
                "---\ndescription: d\ntools: [Read, 'a b c!']\n---\n",
            ),
            (
                "off",
                "---\ndescription: d\ndisable-model-invocation: true\n---\n",
            ),
            ("bomb", "---\ndescription: &a d\nname: *a\n---\n"),
            ("long", &long),
        ]);
        assert_eq!(presets.presets.len(), BUILT_IN_PRESETS.len());
        assert!(!presets.find_preset("work").unwrap().prompt.contains("Obey"));
        assert_eq!(
            presets.preset_file_notices().len(),
            5,
            "{:?}",
            presets.preset_file_notices()
        );
        let all = presets.preset_file_notices().join("\n");
        for why in [
            "`work` is a built-in preset; rename the file",
            "references are not allowed here",
            "keeps the model from using it",
            "make it shorter",
        ] {
            assert!(all.contains(why), "{why}: {all}");
        }
    }

    #[test]
    fn the_list_for_the_model_is_bounded_however_many_files_there_are() {
        let text = format!("---\ndescription: {}\n---\n", "long words ".repeat(300));
        let names: Vec<String> = (0..500).map(|n| format!("preset-{n:03}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*text)).collect();
        let list = with(&files).list_presets();
        assert!(list.len() < MAX_PRESET_LIST_BYTES + 500, "{}", list.len());
        assert!(list.lines().all(|line| line.len() < 400));
        assert!(list.contains("more"), "{list}");
    }
}
