//! What plugins ask for, as questions, tables and lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{
    BAD, BOLD, DIM, GOOD, PLUGIN, WARN, answer_line, indented, one_line, printable, put, say,
    styled,
};
use crate::grant::answers::{Answer, Lasting};
use crate::grant::ask::Question;
use crate::grant::decide::{Decision, Standing};
use crate::grant::project::{ProjectTrust, TrustedProject};
use crate::grant::{Request, Trust};
use crate::grant::{combined, in_words};
use crate::plugin::inspect::Report;

/// Longest text of a plugin's own that is shown in a question.
const OWN_WORDS: usize = 120;

/// Longest path that is shown.
const PATH: usize = 4096;

/// Most tools that are shown in a question.
const MAX_TOOLS: usize = 12;

/// Most lines of a project's settings that are shown in a question.
const MAX_SETTINGS: usize = 40;

fn from_where(trust: Trust) -> &'static str {
    match trust {
        Trust::Managed => "came with Rind",
        Trust::Package => "was installed",
        Trust::User => "is in your plugins folder",
        Trust::Project => "came with this project",
        Trust::Local => "was named with --plugin",
    }
}

/// The first digits of a digest: enough to compare by eye.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

/// A question about a plugin, up to where the answer is typed.
pub(in super::super) fn question(question: &Question) {
    let Question {
        request,
        decision,
        earlier,
    } = question;
    say(format_args!(
        "{} {} {} asks for more than it gets by itself",
        styled(WARN.bold(), "?"),
        styled(PLUGIN, printable(&request.plugin)),
        printable(&request.version),
    ));
    say(styled(
        DIM,
        format_args!(
            "  it {} ({}), digest {}",
            from_where(request.trust),
            request.trust,
            short(&request.content())
        ),
    ));
    if !request.source.is_empty() {
        say(styled(
            DIM,
            format_args!("  {}", one_line(&request.source, PATH)),
        ));
    }
    say(format_args!(
        "  in its own words: {}",
        one_line(&request.description, OWN_WORDS)
    ));
    for tool in request.tools.iter().take(MAX_TOOLS) {
        let description = one_line(&tool.description, OWN_WORDS);
        say(format_args!(
            "  tool {}: {description}",
            printable(&tool.name)
        ));
    }
    if request.tools.len() > MAX_TOOLS {
        say(format_args!(
            "  and {} more tools",
            request.tools.len() - MAX_TOOLS
        ));
    }
    if let Some(earlier) = earlier {
        say(format_args!(
            "  {} you said yes to version {} on {}; {}",
            styled(WARN, "changed:"),
            printable(&earlier.version),
            earlier.given.split('T').next().unwrap_or_default(),
            what_changed(earlier, question)
        ));
    }
    say("  it may then:");
    for row in decision
        .rows
        .iter()
        .filter(|row| row.standing == Standing::Waiting)
    {
        say(format_args!(
            "    {} {} {}",
            styled(WARN, "•"),
            in_words(&row.capability),
            styled(DIM, format_args!("({}; {})", row.capability, row.why)),
        ));
    }
    for row in decision
        .rows
        .iter()
        .filter(|row| row.standing == Standing::Granted)
    {
        let words = in_words(&row.capability);
        say(styled(
            DIM,
            format_args!("    • {words} (already: {})", row.why),
        ));
    }
    if let Some(combined) = combined(&decision.clone().with_yes("").granted(), request.has_hooks) {
        let text = format!("together that means: it {combined}");
        say(format_args!("  {}", styled(WARN, text)));
    }
    put("  [o]nce, for this [s]ession, [a]lways, or [n]o: ");
}

fn what_changed(earlier: &Answer, question: &Question) -> String {
    let is_new = |text: &String| !earlier.capabilities.contains(text);
    let waiting = question.decision.of(Standing::Waiting);
    let new: Vec<String> = waiting.map(ToString::to_string).filter(is_new).collect();
    if !new.is_empty() {
        format!("new: {}", new.join(", "))
    } else if earlier.digest == question.request.digest {
        "its tools or what it declares are different now".to_owned()
    } else {
        "its bytes are different now".to_owned()
    }
}

/// A question about a project, up to where the answer is typed.
pub(in super::super) fn project_question(
    workspace: &Path,
    trust: &ProjectTrust,
    plugins: &[(String, String)],
    settings: Option<&str>,
) {
    say(format_args!(
        "{} the project {} brings things of its own in .rind",
        styled(WARN.bold(), "?"),
        styled(BOLD, one_line(&workspace.display().to_string(), PATH)),
    ));
    if let ProjectTrust::Changed { since } = trust {
        say(format_args!(
            "  {} you trusted it on {}, and it is different now",
            styled(WARN, "changed:"),
            since.split('T').next().unwrap_or_default()
        ));
    }
    for (name, description) in plugins {
        say(format_args!(
            "  plugin {}: {}",
            styled(PLUGIN, one_line(name, OWN_WORDS)),
            one_line(description, OWN_WORDS)
        ));
    }
    if let Some(settings) = settings {
        say("  settings:");
        let lines: Vec<&str> = settings
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in lines.iter().take(MAX_SETTINGS) {
            say(format_args!("    {}", one_line(line, OWN_WORDS)));
        }
        if lines.len() > MAX_SETTINGS {
            say(format_args!(
                "    and {} more lines",
                lines.len() - MAX_SETTINGS
            ));
        }
    }
    say(styled(
        DIM,
        "  what its plugins may touch is asked about one by one",
    ));
    put("  trust it for this run [y]es, [a]lways until it changes, or [n]o: ");
}

/// Why a plugin is held, and every way to say yes.
pub(in super::super) fn held(request: &Request, decision: &Decision) -> String {
    let mut text = String::from("held until you say yes to what it asks for:");
    let mut allow = Vec::new();
    for capability in decision.of(Standing::Waiting) {
        text.push_str(&format!("\n  {} ({capability})", in_words(capability)));
        allow.push(format!("{:?}", capability.to_string()));
    }
    if let Some(why) = &decision.passed_over {
        text.push_str(&format!("\n{why}"));
    }
    text.push_str(&format!(
        "\nsay it at a terminal, for one run with --grant {}, or in policy.toml with\n  [plugins.{}]\n  digest = {:?}\n  allow = [{}]",
        request.plugin,
        request.plugin,
        request.content(),
        allow.join(", ")
    ));
    text
}

/// What a plugin asks for, what its trust gives, what it has, and why: one line each.
pub(in super::super) fn table(report: &Report) {
    let Report {
        name,
        trust,
        grants,
        combined,
        digest,
        stopped,
        ..
    } = report;
    answer_line(format_args!(
        "{} {}",
        styled(BOLD, printable(name)),
        styled(DIM, format_args!("{} ({trust})", from_where(*trust)))
    ));
    answer_line(styled(DIM, format_args!("digest {digest}")));
    if let Some(why) = stopped {
        answer_line(format_args!(
            "{} does not run: {}",
            styled(WARN, "▲"),
            indented(why)
        ));
    }
    if grants.is_empty() {
        answer_line("asks for nothing beyond its own log, state, store and settings");
        return;
    }
    let width = grants.iter().map(|grant| grant.capability.chars().count());
    let width = width.max().unwrap_or_default().max(8);
    let head = format_args!("  {:<width$}  trust gives  has    why", "asks for");
    answer_line(styled(DIM, head));
    for grant in grants {
        let (mark, has) = match grant.standing {
            Standing::Granted => (styled(GOOD, "✓"), "yes"),
            Standing::Waiting => (styled(WARN, "?"), "waits"),
            Standing::Denied => (styled(BAD, "✗"), "no"),
        };
        answer_line(format_args!(
            "{mark} {:<width$}  {:<11}  {has:<5}  {}",
            printable(&grant.capability),
            grant.trust_gives.to_string(),
            printable(&grant.why)
        ));
        let words = format!("    to {}", printable(&grant.words));
        answer_line(styled(DIM, words));
    }
    if let Some(combined) = combined {
        answer_line(format_args!("{} it {combined}", styled(WARN, "▲")));
    }
}

/// Everything that was answered.
pub(in super::super) fn list(
    answers: &[Answer],
    projects: &BTreeMap<PathBuf, TrustedProject>,
    policies: &[&Path],
) {
    for answer in answers {
        let lasting = match &answer.lasting {
            Lasting::Always => "always".to_owned(),
            Lasting::Session(id) => format!("session {id}"),
        };
        answer_line(format_args!(
            "{} {} {:<8} {} {} {}",
            styled(BOLD, format_args!("{:<22}", printable(&answer.plugin))),
            printable(&answer.version),
            answer.trust.to_string(),
            answer.capabilities.join(", "),
            styled(DIM, format_args!("{lasting}, since {}", answer.given)),
            styled(DIM, short(&answer.content)),
        ));
        if !answer.source.is_empty() {
            let source = one_line(&answer.source, PATH);
            answer_line(styled(DIM, format_args!("  {source}")));
        }
    }
    for (path, project) in projects {
        let path = one_line(&path.display().to_string(), PATH);
        answer_line(format_args!(
            "{} {}",
            styled(BOLD, format_args!("project {path}")),
            styled(DIM, format_args!("trusted since {}", project.since)),
        ));
    }
    if answers.is_empty() && projects.is_empty() {
        answer_line("nothing was granted by an answer");
    }
    for policy in policies.iter().filter(|path| path.exists()) {
        answer_line(styled(DIM, format_args!("policy: {}", policy.display())));
    }
}
