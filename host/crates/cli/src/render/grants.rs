//! Shows requested and granted capabilities as tables and lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_and_indent_continuation_lines, print_stdout_line, printable_text, style_text,
    truncate_to_one_line,
};
use rind_lib::grant::answers::{AnswerLifetime, GrantAnswer};
use rind_lib::grant::decide::{GrantDecision, GrantStatus};
use rind_lib::grant::project::TrustedProject;
use rind_lib::grant::{GrantRequest, Trust, describe_capability};
use rind_lib::plugin::inspect::PluginReport;

const MAX_PATH_CHARS: usize = 4096;

pub(in super::super) fn describe_trust_origin(trust: Trust) -> &'static str {
    match trust {
        Trust::Managed => "came with Rind",
        Trust::Package => "was installed, signed with a key of yours",
        Trust::User => "is in your plugins folder",
        Trust::Project => "came with this project",
        Trust::Local => "was named with --plugin",
    }
}

/// Returns the first characters of a digest: enough to compare by eye.
pub(in super::super) fn short_digest(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

/// Lists the permissions that a plugin needs and does not have, and every way to grant them.
pub(in super::super) fn missing_permissions_text(
    request: &GrantRequest,
    decision: &GrantDecision,
) -> String {
    let mut text = String::from("it needs permissions that you have not granted:");
    let mut allow = Vec::new();
    for capability in decision.capabilities_with_status(GrantStatus::Waiting) {
        text.push_str(&format!(
            "\n  {} ({capability})",
            describe_capability(capability)
        ));
        allow.push(format!("{:?}", capability.to_string()));
    }
    if let Some(why) = &decision.passed_over {
        text.push_str(&format!("\n{why}"));
    }
    text.push_str(&format!(
        "\ngrant them at a terminal, for one run with --grant {}, or in policy.toml with\n  [plugins.{}]\n  digest = {:?}\n  \
         allow = [{}]",
        request.plugin,
        request.plugin,
        request.compute_content_digest(),
        allow.join(", ")
    ));
    text
}

/// Prints one line for each permission: whether it is requested, whether the trust level gives it,
/// whether it is granted, and why.
pub(in super::super) fn print_permission_table(report: &PluginReport) {
    let PluginReport {
        name,
        trust,
        grants,
        combined,
        digest,
        stopped,
        ..
    } = report;
    print_stdout_line(format_args!(
        "{} {}",
        style_text(BOLD_STYLE, printable_text(name)),
        style_text(
            DIM_STYLE,
            format_args!("{} ({trust})", describe_trust_origin(*trust))
        )
    ));
    print_stdout_line(style_text(DIM_STYLE, format_args!("digest {digest}")));
    if let Some(why) = stopped {
        print_stdout_line(format_args!(
            "{} does not run: {}",
            style_text(WARNING_STYLE, "▲"),
            escape_and_indent_continuation_lines(why)
        ));
    }
    if grants.is_empty() {
        print_stdout_line("needs no permissions beyond its own log, state, store and settings");
        return;
    }
    let width = grants.iter().map(|grant| grant.capability.chars().count());
    let width = width.max().unwrap_or_default().max(8);
    let head = format_args!("  {:<width$}  trust gives  has    why", "asks for");
    print_stdout_line(style_text(DIM_STYLE, head));
    for grant in grants {
        let (mark, has) = match grant.standing {
            GrantStatus::Granted => (style_text(SUCCESS_STYLE, "✓"), "yes"),
            GrantStatus::Waiting => (style_text(WARNING_STYLE, "?"), "waits"),
            GrantStatus::Denied => (style_text(ERROR_STYLE, "✗"), "no"),
        };
        print_stdout_line(format_args!(
            "{mark} {:<width$}  {:<11}  {has:<5}  {}",
            printable_text(&grant.capability),
            grant.trust_gives.to_string(),
            printable_text(&grant.why)
        ));
        let words = format!("    to {}", printable_text(&grant.words));
        print_stdout_line(style_text(DIM_STYLE, words));
    }
    if let Some(combined) = combined {
        print_stdout_line(format_args!(
            "{} it {combined}",
            style_text(WARNING_STYLE, "▲")
        ));
    }
}

pub(in super::super) fn print_grant_answers(
    answers: &[GrantAnswer],
    projects: &BTreeMap<PathBuf, TrustedProject>,
    policies: &[&Path],
) {
    for answer in answers {
        let lasting = match &answer.lasting {
            AnswerLifetime::Always => "always".to_owned(),
            AnswerLifetime::Session(id) => format!("session {id}"),
        };
        print_stdout_line(format_args!(
            "{} {} {:<8} {} {} {}",
            style_text(
                BOLD_STYLE,
                format_args!("{:<22}", printable_text(&answer.plugin))
            ),
            printable_text(&answer.version),
            answer.trust.to_string(),
            answer.capabilities.join(", "),
            style_text(DIM_STYLE, format_args!("{lasting}, since {}", answer.given)),
            style_text(DIM_STYLE, short_digest(&answer.content)),
        ));
        if !answer.source.is_empty() {
            let source = truncate_to_one_line(&answer.source, MAX_PATH_CHARS);
            print_stdout_line(style_text(DIM_STYLE, format_args!("  {source}")));
        }
    }
    for (path, project) in projects {
        let path = truncate_to_one_line(&path.display().to_string(), MAX_PATH_CHARS);
        print_stdout_line(format_args!(
            "{} {}",
            style_text(BOLD_STYLE, format_args!("project {path}")),
            style_text(DIM_STYLE, format_args!("trusted since {}", project.since)),
        ));
    }
    if answers.is_empty() && projects.is_empty() {
        print_stdout_line("no permissions were granted");
    }
    for policy in policies.iter().filter(|path| path.exists()) {
        print_stdout_line(style_text(
            DIM_STYLE,
            format_args!("policy: {}", policy.display()),
        ));
    }
}
