//! Writes reports of `rind plugin test` and `rind skill test` for other programs: JSON, JUnit for
//! CI, and annotations for GitHub.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::super::render;
use super::super::render::annotation::GithubAnnotation;
use super::junit;
use rind_cases::CaseCost;
use rind_cases::suite::{CaseRunResult, PluginCoverage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CaseReportFormat {
    Json,
    Junit,
    /// Annotations on standard output, which GitHub shows at the lines of the failures.
    Github,
}

/// Parses the value of `--report`: `FORMAT=FILE`, or `github`.
pub(in super::super) fn parse_report_argument(
    text: &str,
) -> Result<(CaseReportFormat, PathBuf), String> {
    match text.split_once('=') {
        Some(("json", file)) if !file.is_empty() => Ok((CaseReportFormat::Json, file.into())),
        Some(("junit", file)) if !file.is_empty() => Ok((CaseReportFormat::Junit, file.into())),
        None if text == "github" => Ok((CaseReportFormat::Github, PathBuf::new())),
        _ => Err("a report is `json=FILE`, `junit=FILE` or `github`".to_owned()),
    }
}

/// Report about cases that were run, with the coverage of each plugin.
#[derive(Debug)]
pub(in super::super) struct CaseReport {
    /// Kind of the tested parts: `plugin` or `skill`.
    pub(in super::super) of: &'static str,
    pub(in super::super) cases: Vec<CaseRunResult>,
    pub(in super::super) coverage: Vec<(String, PluginCoverage)>,
    /// Time at which the first case began.
    pub(super) started: jiff::Timestamp,
}

impl CaseReport {
    /// Creates a report that contains no test cases yet.
    pub(in super::super) fn empty_case_report(of: &'static str) -> Self {
        Self {
            of,
            cases: Vec::new(),
            coverage: Vec::new(),
            started: jiff::Timestamp::now(),
        }
    }

    pub(in super::super) fn write_report(
        &self,
        format: CaseReportFormat,
        file: &Path,
    ) -> anyhow::Result<()> {
        if format == CaseReportFormat::Github {
            let failed = self.cases.iter().filter(|case| !case.passed());
            failed.for_each(|case| {
                render::annotation::print_github_annotation(&github_annotation_of_failed_case(case))
            });
            return Ok(());
        }
        std::fs::write(file, self.render_report(format)?)
            .with_context(|| format!("cannot write the report {}", file.display()))
    }

    pub(in super::super) fn render_report(
        &self,
        format: CaseReportFormat,
    ) -> anyhow::Result<String> {
        Ok(match format {
            CaseReportFormat::Json => serde_json::to_string_pretty(&self.to_json())? + "\n",
            CaseReportFormat::Junit => junit::render_junit_report(self),
            CaseReportFormat::Github => String::new(),
        })
    }

    pub(in super::super) fn to_json(&self) -> Value {
        let cost = |cost: &CaseCost| {
            json!({
                "seconds": cost.took.as_secs_f64(),
                "memory_bytes": cost.memory_bytes,
                "host_calls": cost.host_calls,
            })
        };
        let cases = self.cases.iter().map(|case| {
            json!({
                self.of: case.plugin,
                "name": case.name,
                "place": format_case_file_and_line(case),
                "file": display_case_file_path(case),
                "line": case.line,
                "passed": case.passed(),
                "is_error": case.is_error,
                "seconds": case.total.as_secs_f64(),
                "cost": cost(&case.cost),
                "last": case.last.as_ref().map(cost),
                "failures": case.failures,
            })
        });
        let counts = |all: &[(String, usize)]| -> Value {
            let counts = all.iter().map(|(name, n)| (name.clone(), json!(n)));
            Value::Object(counts.collect())
        };
        let coverage = self.coverage.iter().map(|(plugin, coverage)| {
            let counted = json!({
                "hooks": counts(&coverage.hooks),
                "tools": counts(&coverage.tools),
                "commands": counts(&coverage.commands),
                "loops": counts(&coverage.loops),
                "never_called": coverage.uncalled_plugin_parts().collect::<Vec<_>>(),
                "outcomes": case_hook_outcome_counts_to_json(coverage),
                "never_seen": coverage
                    .untested_hook_outcomes()
                    .map(|(point, outcome)| format!("{point} {outcome}"))
                    .collect::<Vec<_>>(),
            });
            (plugin.clone(), counted)
        });
        json!({
            "cases": cases.collect::<Vec<_>>(),
            "coverage": Value::Object(coverage.collect()),
        })
    }
}

/// Returns how many cases had each outcome, as JSON: by point, then by outcome.
fn case_hook_outcome_counts_to_json(coverage: &PluginCoverage) -> Value {
    let points = coverage.outcomes.iter().map(|hook| {
        let counts = hook.counts.iter();
        let counts = counts.map(|(outcome, n)| ((*outcome).to_owned(), json!(n)));
        (hook.point.clone(), Value::Object(counts.collect()))
    });
    Value::Object(points.collect())
}

/// Returns the path of the file of a case, without a leading `./`.
pub(super) fn display_case_file_path(case: &CaseRunResult) -> String {
    let path = case.file.display().to_string();
    path.strip_prefix("./").unwrap_or(&path).to_owned()
}

/// Returns the location of a case in the form `FILE:LINE`.
pub(in super::super) fn format_case_file_and_line(case: &CaseRunResult) -> String {
    format!("{}:{}", display_case_file_path(case), case.line)
}

fn github_annotation_of_failed_case(case: &CaseRunResult) -> GithubAnnotation {
    GithubAnnotation {
        file: display_case_file_path(case),
        line: Some(case.line),
        title: format!("{}: {}", case.plugin, case.name),
        message: case.failures.join("\n"),
    }
}
