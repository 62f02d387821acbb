//! Asks about permissions of plugins, and about trust in projects and their hooks. Questions show
//! the requests, texts of the plugin or project, and changes since the last answer.

use std::path::Path;

use futures_util::future::BoxFuture;

use super::command::{ProjectCommandTemplate, list_project_command_templates};
use super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::render::grants::{describe_trust_origin, short_digest};
use super::render::{BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE};
use rind_lib::grant::answers::GrantAnswer;
use rind_lib::grant::ask::{GrantApprovalLifetime, GrantQuestion};
use rind_lib::grant::decide::GrantStatus;
use rind_lib::grant::project::ProjectTrust;
use rind_lib::grant::{describe_capability, describe_combined_risk};
use rind_lib::script::HookScript;
use rind_operator::project::{
    ProjectApprovalDuration, ProjectContentsSummary, ProjectTrustAsker, ProjectTrustQuestion,
};
use rind_operator::project_hooks::ProjectHookApprovalQuestion;

/// Asks which permissions to grant to a plugin. Returns `None` for a no, and at the end of input.
pub(super) async fn ask_plugin_permissions(
    question: &GrantQuestion,
) -> Option<GrantApprovalLifetime> {
    let parse = |line: &str| match line.to_lowercase().as_str() {
        "o" | "once" => Some(Some(GrantApprovalLifetime::Once)),
        "s" | "session" => Some(Some(GrantApprovalLifetime::Session)),
        "a" | "always" => Some(Some(GrantApprovalLifetime::Always)),
        "n" | "no" => Some(None),
        _ => None,
    };
    plugin_permissions_screen(question)
        .ask_approval(parse, Option::is_none)
        .await
        .flatten()
}

fn plugin_permissions_screen(question: &GrantQuestion) -> QuestionScreenContent {
    let GrantQuestion {
        request,
        decision,
        earlier,
    } = question;
    let mut about = vec![TerminalQuestionLine::new("  ").with_styled_text(
        DIM_STYLE,
        &format!(
            "it {} ({}), digest {}",
            describe_trust_origin(request.trust),
            request.trust,
            short_digest(&request.compute_content_digest())
        ),
    )];
    if !request.source.is_empty() {
        about.push(
            TerminalQuestionLine::new("  from ").with_escaped_text(DIM_STYLE, &request.source),
        );
    }
    if let Some(earlier) = earlier {
        about.push(
            TerminalQuestionLine::new("  ")
                .with_styled_text(WARNING_STYLE, "changed:")
                .with_text(" you said yes to version ")
                .with_escaped_text(BOLD_STYLE, &earlier.version)
                .with_text(" on ")
                .with_escaped_text(
                    DIM_STYLE,
                    earlier.given.split('T').next().unwrap_or_default(),
                )
                .with_text("; ")
                .with_escaped_text(
                    DIM_STYLE,
                    &describe_grant_request_changes(earlier, question),
                ),
        );
    }
    let rows = |standing| {
        decision
            .rows
            .iter()
            .filter(move |row| row.standing == standing)
    };
    let waiting = rows(GrantStatus::Waiting).map(|row| {
        TerminalQuestionLine::new("    • ")
            .with_text(&describe_capability(&row.capability))
            .with_escaped_text(DIM_STYLE, &format!(" ({}; {})", row.capability, row.why))
    });
    let granted = rows(GrantStatus::Granted).map(|row| {
        let words = format!(
            "{} (already: {})",
            describe_capability(&row.capability),
            row.why
        );
        TerminalQuestionLine::new("    • ").with_escaped_text(DIM_STYLE, &words)
    });
    let mut wants = vec![TerminalQuestionLine::new("  it may then:")];
    wants.extend(waiting.chain(granted));
    if let Some(combined) = describe_combined_risk(
        &decision.granted_or_pending_capabilities(),
        request.has_hooks,
    ) {
        let text = format!("together, these permissions mean that the plugin {combined}");
        wants.push(TerminalQuestionLine::new("  ").with_styled_text(WARNING_STYLE, &text));
    }
    let mut own = vec![
        TerminalQuestionLine::new("  in its own words: ")
            .with_escaped_text(DIM_STYLE, &request.description),
    ];
    own.extend(request.tools.iter().map(|tool| {
        TerminalQuestionLine::new("  tool ")
            .with_escaped_text(BOLD_STYLE, &tool.name)
            .with_text(": ")
            .with_escaped_text(DIM_STYLE, &tool.description)
    }));
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_escaped_text(PLUGIN_NAME_STYLE, &request.plugin)
        .with_text(" ")
        .with_escaped_text(BOLD_STYLE, &request.version)
        .with_text(" requests permissions that are not granted automatically");
    QuestionScreenContent {
        parts: vec![vec![head], about, wants, own],
        covers: Vec::new(),
        keys: "[o]nce, for this [s]ession, [a]lways, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

fn describe_grant_request_changes(earlier: &GrantAnswer, question: &GrantQuestion) -> String {
    let is_new = |text: &String| !earlier.capabilities.contains(text);
    let waiting = question
        .decision
        .capabilities_with_status(GrantStatus::Waiting);
    let new: Vec<String> = waiting.map(ToString::to_string).filter(is_new).collect();
    if !new.is_empty() {
        format!("new: {}", new.join(", "))
    } else if earlier.digest == question.request.digest {
        "its tools or its manifest have changed".to_owned()
    } else {
        "its component has changed".to_owned()
    }
}

/// Asks the person at the terminal whether to trust a project.
pub(super) struct TerminalTrustAsker;

impl ProjectTrustAsker for TerminalTrustAsker {
    fn ask<'a>(
        &'a self,
        question: &'a ProjectTrustQuestion<'a>,
    ) -> BoxFuture<'a, Option<ProjectApprovalDuration>> {
        Box::pin(ask_project_trust(question))
    }

    fn ask_hook_approval<'a>(
        &'a self,
        question: &'a ProjectHookApprovalQuestion<'a>,
    ) -> BoxFuture<'a, Option<ProjectApprovalDuration>> {
        Box::pin(ask_for_project_approval(hook_trust_screen(question)))
    }
}

/// Asks for an approval that is valid for this run, or until the content that the question showed
/// changes.
async fn ask_for_project_approval(
    screen: QuestionScreenContent,
) -> Option<ProjectApprovalDuration> {
    let parse = |line: &str| match line.to_lowercase().as_str() {
        "y" | "yes" | "o" | "once" => Some(Some(ProjectApprovalDuration::Once)),
        "a" | "always" => Some(Some(ProjectApprovalDuration::UntilChanged)),
        "n" | "no" => Some(None),
        _ => None,
    };
    screen.ask_approval(parse, Option::is_none).await.flatten()
}

/// Asks whether to trust a project in its present state.
async fn ask_project_trust(question: &ProjectTrustQuestion<'_>) -> Option<ProjectApprovalDuration> {
    let ProjectTrustQuestion {
        paths,
        trust,
        files,
        contents,
    } = question;
    let templates = list_project_command_templates(paths, files);
    let screen = project_trust_screen(&paths.workspace, trust, contents, &templates);
    ask_for_project_approval(screen).await
}

fn hook_trust_screen(question: &ProjectHookApprovalQuestion<'_>) -> QuestionScreenContent {
    let ProjectHookApprovalQuestion {
        paths,
        trust,
        hooks,
    } = question;
    let mut head = vec![
        TerminalQuestionLine::new("")
            .with_styled_text(WARNING_STYLE.bold(), "? ")
            .with_text("the project ")
            .with_escaped_text(BOLD_STYLE, &paths.workspace.display().to_string())
            .with_text(&format!(
                " has hooks in {}: programs that see calls and can refuse or change them",
                hooks.places.join(" and ")
            )),
    ];
    head.extend(describe_changes_since_approval(trust, "allowed them"));
    let of_hook = |script: &HookScript| {
        let (event, matcher, command) = script.claude_hook_definition()?;
        let about = match matcher {
            "" => String::new(),
            matcher => format!(" ({matcher})"),
        };
        let head = TerminalQuestionLine::new("  ")
            .with_escaped_text(PLUGIN_NAME_STYLE, &format!("{event}{about}"))
            .with_text(" runs:");
        Some(std::iter::once(head).chain(to_prefixed_question_lines(&command).collect::<Vec<_>>()))
    };
    let rows = hooks.scripts.iter().filter_map(of_hook).flatten();
    let files = hooks.files_covered_by_approval(&paths.workspace);
    let of_files = (!files.is_empty()).then(|| {
        TerminalQuestionLine::new("  files of the project among them: ")
            .with_escaped_text(DIM_STYLE, &files.join(", "))
            .with_text("; a change of one is asked about again")
    });
    QuestionScreenContent {
        parts: vec![head, rows.collect(), of_files.into_iter().collect()],
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "they are confined like commands; what their programs read besides is not shown here",
        )],
        keys: "call them in this run [y]es, [a]lways until they change, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Returns the line that reports changes since an earlier approval; `None` if nothing has changed.
/// `did` is what the person approved.
fn describe_changes_since_approval(
    trust: &ProjectTrust,
    did: &str,
) -> Option<TerminalQuestionLine> {
    let ProjectTrust::Changed { since } = trust else {
        return None;
    };
    let line = TerminalQuestionLine::new("  ")
        .with_styled_text(WARNING_STYLE, "changed:")
        .with_text(&format!(" you {did} on "))
        .with_escaped_text(DIM_STYLE, since.split('T').next().unwrap_or_default())
        .with_text(", and something has changed since");
    Some(line)
}

fn project_trust_screen(
    workspace: &Path,
    trust: &ProjectTrust,
    brought: &ProjectContentsSummary,
    templates: &[ProjectCommandTemplate],
) -> QuestionScreenContent {
    let mut head = vec![
        TerminalQuestionLine::new("")
            .with_styled_text(WARNING_STYLE.bold(), "? ")
            .with_text("the project ")
            .with_escaped_text(BOLD_STYLE, &workspace.display().to_string())
            .with_text(&format!(
                " brings plugins, skills, servers or settings of its own in {}",
                brought.places.join(" and ")
            )),
    ];
    head.extend(describe_changes_since_approval(trust, "trusted it"));
    let row = |kind: &str, (name, description): &(String, String)| {
        TerminalQuestionLine::new(kind)
            .with_escaped_text(PLUGIN_NAME_STYLE, name)
            .with_text(": ")
            .with_escaped_text(DIM_STYLE, description)
    };
    let of_plugins = brought
        .plugins
        .iter()
        .map(|plugin| row("  plugin ", plugin));
    let of_skills = brought.skills.iter().map(|skill| row("  skill ", skill));
    let of_presets = brought
        .presets
        .iter()
        .map(|preset| row("  subagent ", preset));
    let of_servers = brought
        .servers
        .iter()
        .map(|server| row("  MCP server ", server));
    let of_template = |template: &ProjectCommandTemplate| {
        let head = TerminalQuestionLine::new("  template /")
            .with_escaped_text(PLUGIN_NAME_STYLE, &template.name)
            .with_text(": ")
            .with_escaped_text(DIM_STYLE, &template.description);
        let mut lines = vec![head];
        lines.extend(to_prefixed_question_lines(&template.text));
        lines
    };
    let of_templates = templates.iter().flat_map(of_template);
    let of_settings: Vec<TerminalQuestionLine> =
        to_prefixed_question_lines(&brought.settings).collect();
    let title = (!of_settings.is_empty()).then(|| TerminalQuestionLine::new("  settings:"));
    QuestionScreenContent {
        parts: vec![
            head,
            of_plugins
                .chain(of_skills)
                .chain(of_presets)
                .chain(of_servers)
                .collect(),
            of_templates.collect(),
            title.into_iter().chain(of_settings).collect(),
        ],
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "the permissions of its plugins are asked about one by one, and so is the start of its MCP servers",
        )],
        keys: "trust it for this run [y]es, [a]lways until it changes, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Returns the lines of a text that are not empty, each after the prefix `|`.
fn to_prefixed_question_lines(text: &str) -> impl Iterator<Item = TerminalQuestionLine> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| TerminalQuestionLine::new("    | ").with_untrusted_line(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_project_brings_is_in_the_question() {
        let settings: String = (0..500).map(|n| format!("line{n} = {n}\n")).collect();
        let plugins = [("a\n? forged".to_owned(), "d".repeat(5_000))];
        let template = ProjectCommandTemplate {
            name: "deploy".to_owned(),
            description: "Deploys".to_owned(),
            text: "\n\nFirst.\nThen rm -rf /\n".to_owned(),
        };
        let brought = ProjectContentsSummary {
            places: vec![".rind", ".claude/skills"],
            plugins: plugins.to_vec(),
            skills: vec![("review".to_owned(), "reads".to_owned())],
            presets: vec![("tester".to_owned(), "runs tests".to_owned())],
            servers: vec![("docs".to_owned(), "runs `npx docs`".to_owned())],
            settings,
        };
        let screen = project_trust_screen(
            Path::new("/w\n? x"),
            &ProjectTrust::New,
            &brought,
            &[template],
        );
        let n_settings = screen.parts.last().map_or(0, Vec::len);
        assert_eq!(n_settings, 501);
        let all = format!("{:?}", screen.parts);
        let long = "d".repeat(5_000);
        for text in [
            "line499 = 499",
            "review",
            "runs tests",
            "runs `npx docs`",
            &long,
            "deploy",
            "Deploys",
            "Then rm -rf /",
            "in .rind and .claude/skills",
        ] {
            assert!(all.contains(text), "{text}: {all}");
        }
        assert!(
            all.contains("a\\\\u{a}? forged") && all.contains("/w\\\\u{a}? x"),
            "{all}"
        );
    }
}
