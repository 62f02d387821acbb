//! Prints skills: the list, a single skill, and findings about skills.

use std::path::Path;

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_prose_for_display, print_note, print_stderr_line, print_stdout_line, print_to_stdout,
    style_text, to_escaped_single_line, truncate_to_one_line,
};
use crate::skill::CheckedSkillFile;
use rind_lib::skill::{
    Diagnostic, OmittedSkill, Origin, SessionSkills, Severity, Skill, SkillCatalogue,
    SkillInvocationRule, SkillOmissionReason,
};

/// Maximum length of a description in a list, in characters.
const MAX_SKILL_DESCRIPTION_CHARS: usize = 100;

pub(in super::super) fn print_skills(
    skills: &SessionSkills,
    catalogue: &SkillCatalogue,
    context_tokens: u64,
) {
    for skill in skills.iter() {
        print_stdout_line(format_skill_heading(skill));
        print_stdout_line(format_args!(
            "  {}",
            truncate_to_one_line(&skill.description, MAX_SKILL_DESCRIPTION_CHARS)
        ));
        if let Some(origin) = &skill.installed {
            print_stdout_line(format_args!("  {}", describe_installed_origin(origin)));
        }
        if !skill.missing.is_empty() {
            let missing = skill.missing.join(", ");
            print_stdout_line(format_args!(
                "  {}",
                style_text(
                    WARNING_STYLE,
                    format_args!("missing: {}", truncate_to_one_line(&missing, 200))
                )
            ));
        }
        if let Some(fault) = skill
            .diagnostics
            .iter()
            .find(|d| d.severity == Severity::Error)
        {
            print_stdout_line(format_args!(
                "  {}",
                style_text(ERROR_STYLE, truncate_to_one_line(&fault.to_string(), 300))
            ));
        }
    }
    for one in skills.shadowed_skills() {
        let why = match one.is_identical {
            true => "the same as",
            false => "shadowed by",
        };
        print_stdout_line(format_args!(
            "{} {} {}  {why} {}",
            style_text(DIM_STYLE, "○"),
            style_text(
                BOLD_STYLE,
                truncate_to_one_line(&one.skill.id, MAX_SKILL_DESCRIPTION_CHARS)
            ),
            style_text(PLUGIN_NAME_STYLE, &one.skill.source),
            truncate_to_one_line(&one.shadowed_by.display().to_string(), 300)
        ));
    }
    for one in skills.unusable_skills() {
        let why = one
            .diagnostics
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        print_stdout_line(format_args!(
            "{} {} {}  {}:{}",
            style_text(ERROR_STYLE, "✗"),
            style_text(
                BOLD_STYLE,
                truncate_to_one_line(&one.id, MAX_SKILL_DESCRIPTION_CHARS)
            ),
            style_text(PLUGIN_NAME_STYLE, &one.source),
            truncate_to_one_line(&one.file.display().to_string(), 300),
            truncate_to_one_line(&why, 400)
        ));
    }
    if skills.is_empty() && skills.unusable_skills().is_empty() {
        return print_note("no skills are found; `rind skill new NAME` makes one");
    }
    let n_chars = catalogue.text.chars().count();
    print_note(&format!(
        "the list of skills in the prompt has {} in {n_chars} characters{}; its limit at a context window of {context_tokens} tokens is {}",
        super::format_count_with_noun(catalogue.n_skills as u64, "skill"),
        match catalogue.n_cut {
            0 => String::new(),
            n => format!(
                ", of which {} cut",
                super::format_count_with_noun(n as u64, "description")
            ),
        },
        rind_lib::skill::compute_catalogue_budget(context_tokens)
    ));
}

/// Maximum number of skills that are named individually in warnings at the start of a session.
const MAX_SKILLS_NAMED_IN_WARNINGS: usize = 5;

/// Returns the line about a skill that cannot be used as its author intended: mark, name, source,
/// and the reason with its position in the file.
pub(in super::super) fn omitted_skill_line(left: &OmittedSkill) -> String {
    let (mark, what) = match left.cause {
        SkillOmissionReason::Unusable => ('✗', "not used"),
        SkillOmissionReason::UserOnly => ('▲', "hidden from the model"),
        SkillOmissionReason::Shadowed => ('○', "not used"),
    };
    format!(
        "{mark} {} ({}): {what}: {}",
        label_of_omitted_skill(left),
        left.source,
        omitted_skill_path_and_reason(left)
    )
}

fn label_of_omitted_skill(left: &OmittedSkill) -> String {
    match left.id.is_empty() {
        true => "skills".to_owned(),
        false => truncate_to_one_line(&left.id, MAX_SKILL_DESCRIPTION_CHARS),
    }
}

/// Returns a line with the path of the omitted skill's file and the reason. If the reason begins
/// with line and column, it follows the path directly.
pub(in super::super) fn omitted_skill_path_and_reason(left: &OmittedSkill) -> String {
    let file = truncate_to_one_line(&left.file.display().to_string(), 300);
    let between = match left.cause {
        SkillOmissionReason::Shadowed => ": ",
        SkillOmissionReason::Unusable | SkillOmissionReason::UserOnly => ":",
    };
    format!("{file}{between}{}", truncate_to_one_line(&left.reason, 400))
}

/// Warns on standard error of skills that are unusable, shadowed, or hidden from the model. The
/// session starts anyway.
pub(in super::super) fn warn_about_omitted_skills(skills: &SessionSkills) {
    let left_out = skills.omitted_skills();
    for left in left_out.iter().take(MAX_SKILLS_NAMED_IN_WARNINGS) {
        let what = match left.cause {
            SkillOmissionReason::UserOnly => "is hidden from the model",
            SkillOmissionReason::Unusable | SkillOmissionReason::Shadowed => "is not used",
        };
        print_stderr_line(format_args!(
            "{} skill {} {what}: {}",
            style_text(WARNING_STYLE, "▲"),
            style_text(BOLD_STYLE, label_of_omitted_skill(left)),
            omitted_skill_path_and_reason(left)
        ));
    }
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_SKILLS_NAMED_IN_WARNINGS) {
        let more = super::format_count_with_noun(n_more as u64, "more skill");
        print_stderr_line(format_args!(
            "{} {more} not shown; `rind skill list` shows all",
            style_text(WARNING_STYLE, "▲")
        ));
    }
}

/// Returns the source of an installed skill, and whether it was changed since the installation.
fn describe_installed_origin(origin: &Origin) -> String {
    let from = style_text(
        DIM_STYLE,
        format_args!("installed from {}", truncate_to_one_line(&origin.from, 300)),
    );
    match origin.is_edited {
        true => format!(
            "{from} {}",
            style_text(
                WARNING_STYLE,
                "and changed since: it is trusted like your own skills"
            )
        ),
        false => from,
    }
}

fn format_skill_heading(skill: &Skill) -> String {
    let (style, mark) = match (skill.is_restricted, skill.is_startable_by_model()) {
        (true, _) => (WARNING_STYLE, "▲"),
        (false, true) => (SUCCESS_STYLE, "✓"),
        (false, false) => (DIM_STYLE, "○"),
    };
    format!(
        "{} {} {}  {} {}",
        style_text(style, mark),
        style_text(
            BOLD_STYLE,
            truncate_to_one_line(&skill.id, MAX_SKILL_DESCRIPTION_CHARS)
        ),
        style_text(
            PLUGIN_NAME_STYLE,
            truncate_to_one_line(&skill.source.to_string(), MAX_SKILL_DESCRIPTION_CHARS)
        ),
        describe_who_can_start_skill(skill),
        style_text(
            DIM_STYLE,
            format_args!("{} characters", SessionSkills::catalogue_line_chars(skill))
        )
    )
}

pub(in super::super) fn describe_who_can_start_skill(skill: &Skill) -> &'static str {
    match (skill.invocation, skill.user_invocable) {
        (SkillInvocationRule::Auto, true) => "model and user",
        (SkillInvocationRule::Auto, false) => "model only",
        (SkillInvocationRule::UserOnly, true) => "user only",
        (SkillInvocationRule::UserOnly, false) | (SkillInvocationRule::Disabled, _) => "nobody",
    }
}

pub(in super::super) fn print_skill(skill: &Skill) {
    print_stdout_line(format_skill_heading(skill));
    // Do not shorten the values: a person decides by them whether to trust the skill.
    let row = |name: &str, value: String| {
        if !value.is_empty() {
            print_stdout_line(format_args!(
                "  {} {}",
                style_text(DIM_STYLE, format_args!("{name}:")),
                to_escaped_single_line(&value)
            ));
        }
    };
    row("description", skill.description.clone());
    row("when", skill.when_to_use.clone().unwrap_or_default());
    row("file", skill.file.display().to_string());
    row("trust", skill.trust.to_string());
    if let Some(origin) = &skill.installed {
        print_stdout_line(format_args!("  {}", describe_installed_origin(origin)));
    }
    let names = |patterns: &[rind_lib::skill::SkillToolNamePattern]| {
        let names: Vec<&str> = patterns
            .iter()
            .map(rind_lib::skill::SkillToolNamePattern::text)
            .collect();
        names.join(", ")
    };
    if let Some(allow) = &skill.tools.allow {
        let only = names(allow);
        row(
            "only these tools",
            if only.is_empty() {
                "none".to_owned()
            } else {
                only
            },
        );
    }
    row("not these tools", names(&skill.tools.deny));
    for spare in &skill.spares {
        row("wants to skip questions about", spare.to_string());
    }
    let effects: Vec<String> = skill.side_effects.iter().map(ToString::to_string).collect();
    row("side effects", effects.join(", "));
    row(
        "arguments",
        skill
            .argument_hint
            .clone()
            .unwrap_or_else(|| skill.argument_names.join(" ")),
    );
    row("depends on", skill.library_depends.join(", "));
    row("files", skill.paths.join(", "));
    row("missing", skill.missing.join(", "));
    row("version", skill.version.clone().unwrap_or_default());
    row("license", skill.license.clone().unwrap_or_default());
    for finding in &skill.diagnostics {
        print_stdout_line(format_skill_diagnostic(&skill.file, finding));
    }
    print_to_stdout(format_args!(
        "\n{}\n",
        escape_prose_for_display(skill.body.trim())
    ));
}

fn format_skill_diagnostic(file: &Path, finding: &Diagnostic) -> String {
    let (style, mark) = match finding.severity {
        Severity::Error => (ERROR_STYLE, "✗"),
        Severity::Warning => (WARNING_STYLE, "▲"),
        Severity::Note => (DIM_STYLE, "·"),
    };
    format!(
        "{} {}:{}",
        style_text(style, mark),
        truncate_to_one_line(&file.display().to_string(), 300),
        truncate_to_one_line(&finding.to_string(), 600)
    )
}

pub(in super::super) fn print_skill_diagnostics(file: &Path, findings: &[Diagnostic]) {
    findings
        .iter()
        .for_each(|finding| print_stdout_line(format_skill_diagnostic(file, finding)));
}

pub(in super::super) fn print_check_results(all: &[CheckedSkillFile]) {
    for one in all {
        match one.diagnostics.as_slice() {
            [] => print_stdout_line(format_args!(
                "{} {}",
                style_text(SUCCESS_STYLE, "✓"),
                truncate_to_one_line(&one.file.display().to_string(), 300)
            )),
            some => print_skill_diagnostics(&one.file, some),
        }
    }
}
