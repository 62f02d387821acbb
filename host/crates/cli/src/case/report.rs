//! Reports of `rind plugin test` and `rind skill test` for other programs: JSON, and JUnit for CI.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use rind_cases::CaseCost;
use rind_cases::suite::{CaseRun, PluginCoverage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CaseReportFormat {
    Json,
    Junit,
}

/// Reads `FORMAT=FILE`.
pub(in super::super) fn parse_report(text: &str) -> Result<(CaseReportFormat, PathBuf), String> {
    match text.split_once('=') {
        Some(("json", file)) if !file.is_empty() => Ok((CaseReportFormat::Json, file.into())),
        Some(("junit", file)) if !file.is_empty() => Ok((CaseReportFormat::Junit, file.into())),
        _ => Err("write `json=FILE` or `junit=FILE`".to_owned()),
    }
}

/// Cases that were run, and the coverage of plugins by name.
#[derive(Debug)]
pub(in super::super) struct CaseReport {
    /// Subject of the cases: `plugin` or `skill`.
    pub(in super::super) of: &'static str,
    pub(in super::super) cases: Vec<CaseRun>,
    pub(in super::super) coverage: Vec<(String, PluginCoverage)>,
}

impl CaseReport {
    /// A report without cases.
    pub(in super::super) fn report_of(of: &'static str) -> Self {
        Self {
            of,
            cases: Vec::new(),
            coverage: Vec::new(),
        }
    }

    pub(in super::super) fn write_report(
        &self,
        format: CaseReportFormat,
        file: &Path,
    ) -> anyhow::Result<()> {
        std::fs::write(file, self.render_report(format)?)
            .with_context(|| format!("write the report {}", file.display()))
    }

    pub(in super::super) fn render_report(
        &self,
        format: CaseReportFormat,
    ) -> anyhow::Result<String> {
        Ok(match format {
            CaseReportFormat::Json => serde_json::to_string_pretty(&self.json())? + "\n",
            CaseReportFormat::Junit => self.junit(),
        })
    }

    pub(in super::super) fn json(&self) -> Value {
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
                "place": case_place(case),
                "passed": case.passed(),
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
                "never_called": coverage.never_called().collect::<Vec<_>>(),
            });
            (plugin.clone(), counted)
        });
        json!({
            "cases": cases.collect::<Vec<_>>(),
            "coverage": Value::Object(coverage.collect()),
        })
    }

    fn junit(&self) -> String {
        let n_failed = self.cases.iter().filter(|case| !case.passed()).count();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rind {} test\" tests=\"{}\" failures=\"{n_failed}\">\n",
            self.of,
            self.cases.len()
        );
        let never = self.coverage.iter().map(|(plugin, coverage)| {
            let names: Vec<&str> = coverage.never_called().collect();
            (format!("never-called.{plugin}"), names.join(" "))
        });
        text.push_str(&write_properties("  ", never));
        for case in &self.cases {
            let (plugin, name) = (escape_xml(&case.plugin), escape_xml(&case.name));
            let seconds = case.cost.took.as_secs_f64();
            text.push_str(&format!(
                "  <testcase classname=\"{plugin}\" name=\"{name}\" time=\"{seconds:.6}\">\n"
            ));
            let memory = (
                "memory-bytes".to_owned(),
                case.cost.memory_bytes.to_string(),
            );
            let calls = case.cost.host_calls.iter();
            let calls = calls.map(|(name, n)| (format!("host-calls.{name}"), n.to_string()));
            text.push_str(&write_properties("    ", [memory].into_iter().chain(calls)));
            if !case.passed() {
                let (place, why) = (
                    escape_xml(&case_place(case)),
                    escape_xml(&case.failures.join("\n")),
                );
                text.push_str(&format!(
                    "    <failure message=\"{place}\">{why}</failure>\n"
                ));
            }
            text.push_str("  </testcase>\n");
        }
        text + "</testsuite>\n"
    }
}

/// `FILE:LINE` of a case.
pub(in super::super) fn case_place(case: &CaseRun) -> String {
    let path = case.file.display().to_string();
    let path = path.strip_prefix("./").unwrap_or(&path);
    format!("{path}:{}", case.line)
}

fn write_properties(indent: &str, all: impl Iterator<Item = (String, String)>) -> String {
    let lines: String = all
        .map(|(name, value)| {
            let (name, value) = (escape_xml(&name), escape_xml(&value));
            format!("{indent}  <property name=\"{name}\" value=\"{value}\"/>\n")
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("{indent}<properties>\n{lines}{indent}</properties>\n")
}

/// Escapes a text for XML. Other control characters have no place in it at all.
fn escape_xml(text: &str) -> String {
    let shown = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    let entities = shown.map(|c| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' => "&#10;".to_owned(),
        other => other.to_string(),
    });
    entities.collect()
}
