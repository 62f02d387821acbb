//! Prints skills: the list, a single skill, and findings about skills.

use std::path::Path;

use super::{
    BAD, BOLD, DIM, GOOD, PLUGIN, WARN, answer_line, join_printable_words, one_line, print_answer,
    print_note, printable_prose, say_line, style_text,
};
use crate::skill::CheckedSkillFile;
use rind_lib::skill::{
    Diagnostic, OmittedSkill, Origin, Severity, Skill, SkillCatalogue, SkillInvocationRule,
    SkillOmissionCause, Skills,
};

/// Maximum length of a description in a list, in characters.
const WIDTH: usize = 100;

pub(in super::super) fn list_skills(
    skills: &Skills,
    catalogue: &SkillCatalogue,
    context_tokens: u64,
) {
    for skill in skills.iter() {
        answer_line(format_skill_heading(skill));
        answer_line(format_args!("  {}", one_line(&skill.description, WIDTH)));
        if let Some(origin) = &skill.installed {
            answer_line(format_args!("  {}", describe_installed_origin(origin)));
        }
        if !skill.missing.is_empty() {
            let missing = skill.missing.join(", ");
            answer_line(format_args!(
                "  {}",
                style_text(WARN, format_args!("missing: {}", one_line(&missing, 200)))
            ));
        }
        if let Some(fault) = skill
            .diagnostics
            .iter()
            .find(|d| d.severity == Severity::Error)
        {
            answer_line(format_args!(
                "  {}",
                style_text(BAD, one_line(&fault.to_string(), 300))
            ));
        }
    }
    for one in skills.shadowed_skills() {
        let why = match one.is_identical {
            true => "the same as",
            false => "shadowed by",
        };
        answer_line(format_args!(
            "{} {} {}  {why} {}",
            style_text(DIM, "○"),
            style_text(BOLD, one_line(&one.skill.id, WIDTH)),
            style_text(PLUGIN, &one.skill.source),
            one_line(&one.shadowed_by.display().to_string(), 300)
        ));
    }
    for one in skills.unusable_skills() {
        let why = one
            .diagnostics
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        answer_line(format_args!(
            "{} {} {}  {}:{}",
            style_text(BAD, "✗"),
            style_text(BOLD, one_line(&one.id, WIDTH)),
            style_text(PLUGIN, &one.source),
            one_line(&one.file.display().to_string(), 300),
            one_line(&why, 400)
        ));
    }
    if skills.is_empty() && skills.unusable_skills().is_empty() {
        return print_note("no skills are found; `rind skill new NAME` makes one");
    }
    let n_chars = catalogue.text.chars().count();
    print_note(&format!(
        "the list of skills in the prompt has {} in {n_chars} characters{}; its limit at a context window of {context_tokens} tokens is {}",
        super::format_count(catalogue.n_skills as u64, "skill"),
        match catalogue.n_cut {
            0 => String::new(),
            n => format!(
                ", of which {} cut",
                super::format_count(n as u64, "description")
            ),
        },
        rind_lib::skill::compute_catalogue_budget(context_tokens)
    ));
}

/// Maximum number of skills that are named individually in warnings at the start of a session.
const MAX_TOLD: usize = 5;

/// Returns the line about a skill that cannot be used as its author intended: mark, name, source,
/// and the reason with its position in the file.
pub(in super::super) fn left_out_skill_line(left: &OmittedSkill) -> String {
    let (mark, what) = match left.cause {
        SkillOmissionCause::Unusable => ('✗', "not used"),
        SkillOmissionCause::UserOnly => ('▲', "hidden from the model"),
        SkillOmissionCause::Shadowed => ('○', "not used"),
    };
    format!(
        "{mark} {} ({}): {what}: {}",
        left_out_skill_name(left),
        left.source,
        left_out_reason(left)
    )
}

fn left_out_skill_name(left: &OmittedSkill) -> String {
    match left.id.is_empty() {
        true => "skills".to_owned(),
        false => one_line(&left.id, WIDTH),
    }
}

/// Returns a line with the path of the omitted skill's file and the reason. If the reason begins
/// with line and column, it follows the path directly.
pub(in super::super) fn left_out_reason(left: &OmittedSkill) -> String {
    let file = one_line(&left.file.display().to_string(), 300);
    let between = match left.cause {
        SkillOmissionCause::Shadowed => ": ",
        SkillOmissionCause::Unusable | SkillOmissionCause::UserOnly => ":",
    };
    format!("{file}{between}{}", one_line(&left.reason, 400))
}

/// Warns on standard error of skills that are unusable, shadowed, or hidden from the model. The
/// session starts anyway.
pub(in super::super) fn warn_left_out(skills: &Skills) {
    let left_out = skills.omitted_skills();
    for left in left_out.iter().take(MAX_TOLD) {
        let what = match left.cause {
            SkillOmissionCause::UserOnly => "is hidden from the model",
            SkillOmissionCause::Unusable | SkillOmissionCause::Shadowed => "is not used",
        };
        say_line(format_args!(
            "{} skill {} {what}: {}",
            style_text(WARN, "▲"),
            style_text(BOLD, left_out_skill_name(left)),
            left_out_reason(left)
        ));
    }
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_TOLD) {
        let more = super::format_count(n_more as u64, "more skill");
        say_line(format_args!(
            "{} {more} not shown; `rind skill list` shows all",
            style_text(WARN, "▲")
        ));
    }
}

/// Returns the source of an installed skill, and whether it was changed since the installation.
fn describe_installed_origin(origin: &Origin) -> String {
    let from = style_text(
        DIM,
        format_args!("installed from {}", one_line(&origin.from, 300)),
    );
    match origin.is_edited {
        true => format!(
            "{from} {}",
            style_text(
                WARN,
                "and changed since: it is trusted like your own skills"
            )
        ),
        false => from,
    }
}

fn format_skill_heading(skill: &Skill) -> String {
    let (style, mark) = match (skill.is_restricted, skill.is_startable_by_model()) {
        (true, _) => (WARN, "▲"),
        (false, true) => (GOOD, "✓"),
        (false, false) => (DIM, "○"),
    };
    format!(
        "{} {} {}  {} {}",
        style_text(style, mark),
        style_text(BOLD, one_line(&skill.id, WIDTH)),
        style_text(PLUGIN, one_line(&skill.source.to_string(), WIDTH)),
        describe_invokers(skill),
        style_text(
            DIM,
            format_args!("{} characters", Skills::catalogue_line_chars(skill))
        )
    )
}

pub(in super::super) fn describe_invokers(skill: &Skill) -> &'static str {
    match (skill.invocation, skill.user_invocable) {
        (SkillInvocationRule::Auto, true) => "model and user",
        (SkillInvocationRule::Auto, false) => "model only",
        (SkillInvocationRule::UserOnly, true) => "user only",
        (SkillInvocationRule::UserOnly, false) | (SkillInvocationRule::Disabled, _) => "nobody",
    }
}

pub(in super::super) fn print_skill(skill: &Skill) {
    answer_line(format_skill_heading(skill));
    // Do not shorten the values: a person decides by them whether to trust the skill.
    let row = |name: &str, value: String| {
        if !value.is_empty() {
            answer_line(format_args!(
                "  {} {}",
                style_text(DIM, format_args!("{name}:")),
                join_printable_words(&value)
            ));
        }
    };
    row("description", skill.description.clone());
    row("when", skill.when_to_use.clone().unwrap_or_default());
    row("file", skill.file.display().to_string());
    row("trust", skill.trust.to_string());
    if let Some(origin) = &skill.installed {
        answer_line(format_args!("  {}", describe_installed_origin(origin)));
    }
    let names = |patterns: &[rind_lib::skill::ToolPattern]| {
        let names: Vec<&str> = patterns
            .iter()
            .map(rind_lib::skill::ToolPattern::text)
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
        answer_line(format_finding_line(&skill.file, finding));
    }
    print_answer(format_args!("\n{}\n", printable_prose(skill.body.trim())));
}

fn format_finding_line(file: &Path, finding: &Diagnostic) -> String {
    let (style, mark) = match finding.severity {
        Severity::Error => (BAD, "✗"),
        Severity::Warning => (WARN, "▲"),
        Severity::Note => (DIM, "·"),
    };
    format!(
        "{} {}:{}",
        style_text(style, mark),
        one_line(&file.display().to_string(), 300),
        one_line(&finding.to_string(), 600)
    )
}

pub(in super::super) fn print_findings(file: &Path, findings: &[Diagnostic]) {
    findings
        .iter()
        .for_each(|finding| answer_line(format_finding_line(file, finding)));
}

pub(in super::super) fn print_check_results(all: &[CheckedSkillFile]) {
    for one in all {
        match one.diagnostics.as_slice() {
            [] => answer_line(format_args!(
                "{} {}",
                style_text(GOOD, "✓"),
                one_line(&one.file.display().to_string(), 300)
            )),
            some => print_findings(&one.file, some),
        }
    }
}
